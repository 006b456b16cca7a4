/* tests/unit/test_history_requests.c - requests about the past, and what is
 * answered. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/answer_fixture.h"

#include "common/base/clock.h"
#include "reader/history_query.h"
#include "tests/lib/memhistory.h"
#include "tests/lib/random.h"

#define NOW  ((uint32_t)1440 * 20000 + 600) /* a day's 10:00, in minutes */
#define HOUR 60u
#define KEYS 6000 /* of keyspace "many": more than a step looks at */

static struct store_top memory[STORE_TOP_MAX]; /* of a query */

static uint64_t
now_ms(void)
{
    return (uint64_t)NOW * 60000;
}

static void
put_sum(struct fixture *f, const char *key, uint32_t minute, int64_t sum)
{
    const struct store_delta d = stored_delta(key, strlen(key), minute, sum);

    assert_rc(stored_apply(f->store, "pages", NULL, &d, 1), 0);
}

static void
put_many(struct fixture *f)
{
    static struct store_delta d[KEYS];
    static char keys[KEYS][8];

    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "k%05u", i);
        d[i] = stored_delta(keys[i], 6, NOW - 5, (int64_t)i + 1);
    }
    assert_rc(stored_apply(f->store, "many", NULL, d, KEYS), 0);
}

static void
put_pages(struct fixture *f)
{
    put_sum(f, "c", NOW - 10, 3);
}

static int
setup(void **state)
{
    *state = fixture_make(now_ms, put_pages, ANSWER_SIZE_MAX);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fixture *f, setup, teardown)

/* ---- asking ------------------------------------------------------------ */

/* From and to in minutes before now. */
static struct time_range
span_of(uint32_t from, uint32_t to)
{
    return (struct time_range){(int64_t)(NOW - from) * 60,
                               (int64_t)(NOW - to) * 60};
}

static struct store_history_query
query_of(enum store_history_op op, const char *keyspace, const char *key)
{
    return (struct store_history_query){.op = op,
                                        .name = (const uint8_t *)keyspace,
                                        .name_size = strlen(keyspace),
                                        .key = (const uint8_t *)key,
                                        .key_size = strlen(key),
                                        .length = 10};
}

/* ---- tests ------------------------------------------------------------- */

/* More comes to what has been passed. */
static void
put_behind(struct fixture *f)
{
    const struct store_maintenance tending = {.until_ns = UINT64_MAX};

    store_read_end(f->store);
    put_sum(f, "h", NOW - 40 * HOUR, 1000);
    while (store_maintain(f->store, &tending))
        continue;
}

/* The sums of forty hours, while the history is maintained and more comes to hours
 * that have been read: no sum is half of it, or twice. */
CASE(a_long_history_is_answered_in_steps, f)
{
    const struct store_history_query q =
        query_of(STORE_HISTORY_KEY, "pages", "h");
    struct history_query h;
    unsigned steps = 0;

    for (uint32_t i = 0; i < 40; i++)
        put_sum(f, "h", NOW - 40 * HOUR + i * HOUR + i, i + 1);
    h.store = f->store;
    h.memory = memory;
    history_query_start(&h, &q, span_of(40 * HOUR, 0), 60);
    for (; !history_query_step(&h, clock_ns()); steps++)
        put_behind(f);
    assert_true(steps >= 4);
    assert_int_equal(history_query_rows(&h), 40 * HOUR);
    for (uint32_t i = 0; i < 40 * HOUR; i++)
        assert_int_equal((int64_t)h.q.buckets[i].sum,
                         i % HOUR == i / HOUR ? i / HOUR + 1 : 0);
}

static void
ask_another(struct fixture *f)
{
    struct store_query other = {.op = STORE_GET,
                                .name = (const uint8_t *)"pages",
                                .name_size = 5,
                                .key = (const uint8_t *)"c",
                                .key_size = 1};

    assert_rc(answer_query(f->store, &other, NULL, 0), 0);
    assert_int_equal(other.row.count, 3);
    store_read_end(f->store);
}

/* Others ask between the steps. */
CASE(what_looks_at_all_keys_is_answered_in_steps, f)
{
    const struct store_history_query q =
        query_of(STORE_HISTORY_RANK, "many", "k05989");
    struct history_query h;
    unsigned steps = 0;

    put_many(f);
    h.store = f->store;
    h.memory = memory;
    history_query_start(&h, &q, span_of(HOUR, 0), 0);
    for (; !history_query_step(&h, clock_ns()); steps++) {
        store_read_end(f->store);
        ask_another(f);
    }
    assert_rc(h.error, 0);
    assert_int_equal(h.q.rank, 10);
    assert_int_equal(h.q.keys, KEYS);
    assert_true(steps >= 3);
}

/* ---- groups of all time ------------------------------------------------- */

#define WORDS 2000

/* Words of few letters: many are the beginnings of others. */
static void
put_words(struct fixture *f, struct random *r, struct memhistory *words)
{
    for (unsigned i = 0; i < WORDS; i++) {
        struct memhistory *w = &words[i];
        const int64_t sum = (int64_t)random_below(r, 1000) - 300;

        *w = (struct memhistory){.key.size = 1 + (size_t)random_below(r, 9),
                                 .minute = NOW,
                                 .sum = sum};
        for (size_t n = 0; n < w->key.size; n++)
            w->key.bytes[n] = (uint8_t) "\1/ab\xff"[random_below(r, 5)];
        if (sum == 0) /* no increment is 0 */
            w->sum = 1;
        assert_rc(stored_apply(
                      f->store, "words", NULL,
                      &(struct store_delta){.key = w->key.bytes,
                                            .key_size = (uint16_t)w->key.size,
                                            .minute = NOW,
                                            .sum = w->sum},
                      1),
                  0);
    }
}

/* The top, or the number and sum, of some keys or groups: by history, and of all
 * time by the counts. */
static void
compare_words(struct fixture *f, struct random *r,
              const struct memhistory *words)
{
    static struct store_top top[STORE_TOP_MAX];
    const struct memhistory *like = &words[random_below(r, WORDS)];
    const bool is_all_time = random_chance(r, 50);
    struct store_history_query q = {
        .op = random_chance(r, 50) ? STORE_HISTORY_TOP : STORE_HISTORY_RANK,
        .name = (const uint8_t *)"words",
        .name_size = 5,
        .prefix = like->key.bytes,
        .prefix_size = (size_t)random_below(r, like->key.size + 1),
        .group = (uint8_t) "/a\xff."[random_below(r, 5)],
        .length = random_below(r, 30)};
    struct store_history_query want = q;
    struct history_query h;

    want.from = NOW;
    want.to = NOW + 1;
    want.top = top;
    assert_rc(memhistory_answer(words, WORDS, &want), 0);
    h.store = f->store;
    h.memory = memory;
    history_query_start(
        &h, &q,
        is_all_time ? (struct time_range){0, 0}
                    : (struct time_range){(int64_t)NOW * 60, (NOW + 1) * 60L},
        0);
    while (!history_query_step(&h, 1))
        store_read_end(f->store);
    store_read_end(f->store);
    assert_rc(h.error, 0);
    assert_int_equal(h.q.rows, want.rows);
    assert_int_equal(h.q.keys, want.keys);
    assert_true(h.q.sum.sum == want.sum.sum);
    for (uint64_t i = 0; i < want.rows; i++) {
        assert_int_equal(h.q.top[i].key_size, top[i].key_size);
        assert_memory_equal(h.q.top[i].key, top[i].key, top[i].key_size);
        assert_true(h.q.top[i].sum.sum == top[i].sum.sum);
    }
}

CASE(groups_of_a_period_and_of_all_time_are_plain_sums, f)
{
    static struct memhistory words[WORDS];
    struct random r = {random_seed("groups")};

    put_words(f, &r, words);
    for (unsigned i = 0; i < 400; i++)
        compare_words(f, &r, words);
}

/* A store that says since when each of its steps has all: a minute, an hour, a
 * day; UINT32_MAX: there is none.  Each question is put off once. */
static uint32_t since_of[3];

static int
scripted_history(struct store *s, struct store_history_query *q,
                 uint64_t until_ns)
{
    static const uint32_t steps[] = {1, HOUR, 24 * HOUR};
    static bool is_second;
    int tier = 2;

    (void)s;
    is_second = !is_second;
    if (is_second && until_ns != 0)
        return -EAGAIN;
    while (tier > 0 && (q->from % steps[tier] != 0 || q->to % steps[tier] != 0))
        tier--;
    if (since_of[tier] == UINT32_MAX)
        return -EINVAL;
    q->since = since_of[tier];
    return 0;
}

TEST(a_period_is_widened_to_the_finest_steps_that_have_most_of_it)
{
    static const struct {
        uint32_t since[3];
        int64_t step; /* 0: -EINVAL */
    } cases[] = {
        {{0, 0, 0}, 60},
        {{NOW - 60, NOW - 6000, 0}, 3600},
        {{NOW, NOW - 60, 0}, 86400},
        {{NOW, NOW - 60, UINT32_MAX}, 3600},
        {{NOW, NOW, NOW}, 60},
        {{UINT32_MAX, NOW, NOW - 1}, 86400},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX}, 0},
    };
    static const struct store_engine engine = {.history = scripted_history};
    struct store store = {.engine = &engine};
    const struct store_history_query q =
        query_of(STORE_HISTORY_RANK, "pages", "a");
    struct time_range span = span_of(2 * HOUR + 1, 7);
    struct history_query p;

    span.from += 1;
    span.to -= 1;
    p.store = &store;
    p.memory = memory;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t step = cases[i].step;

        memcpy(since_of, cases[i].since, sizeof since_of);
        history_query_start(&p, &q, span, 0);
        for (int n = 0; !history_query_step(&p, 1); n++)
            assert_true(n < 9);

        assert_rc(p.error, step == 0 ? -EINVAL : 0);
        if (step == 0)
            continue;
        assert_int_equal(p.step, step);
        assert_int_equal(p.q.from, span.from / step * step / 60);
        assert_int_equal(p.q.to, (span.to + step - 1) / step * step / 60);
    }
}
