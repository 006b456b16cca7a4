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

static uint64_t
now_ms(void)
{
    return (uint64_t)NOW * 60000;
}

static void
put(struct fixture *f, const char *key, uint32_t minute, int64_t sum)
{
    const struct store_delta d = {.key = (const uint8_t *)key,
                                  .key_size = (uint16_t)strlen(key),
                                  .minute = minute,
                                  .sum_high = sum < 0 ? -1 : 0,
                                  .sum_low = (uint64_t)sum};

    assert_rc(stored_apply(f->store, "pages", NULL, &d, 1), 0);
}

static void
put_many(struct fixture *f)
{
    static struct store_delta d[KEYS];
    static char keys[KEYS][8];

    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "k%05u", i);
        d[i] = (struct store_delta){.key = (const uint8_t *)keys[i],
                                    .key_size = 6,
                                    .minute = NOW - 5,
                                    .sum_low = i + 1};
    }
    assert_rc(stored_apply(f->store, "many", NULL, d, KEYS), 0);
}

static void
put_pages(struct fixture *f)
{
    put(f, "a", NOW - 90, 5);
    put(f, "a", NOW - 30, 7);
    put(f, "a", NOW - 29, -7);
    put(f, "b", NOW - 95, 1);
    put(f, "b", NOW - 10, INT64_MAX);
    put(f, "b", NOW - 9, INT64_MAX);
    put(f, "c", NOW - 10, 3);
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
static struct history_question
query(enum store_history_op op, const char *key, uint32_t from, uint32_t to)
{
    return (struct history_question){.op = op,
                                     .keyspace = (const uint8_t *)"pages",
                                     .keyspace_size = 5,
                                     .key = (const uint8_t *)key,
                                     .key_size = (uint16_t)strlen(key),
                                     .from = (int64_t)(NOW - from) * 60,
                                     .to = (int64_t)(NOW - to) * 60,
                                     .step = (int64_t)(from - to) * 60,
                                     .length = 10};
}

/* An answer about the past as text: "SUM", or "-" without increments,
 * "KEY=SUM/BEFORE". */
struct told {
    int error;
    size_t rows;
    int64_t since, rank, keys;
    bool known;
    unsigned steps;
    char text[512];
};

static size_t
put_sum(char *to, size_t size, const struct store_bucket *b)
{
    if (!b->any)
        return (size_t)snprintf(to, size, "-");
    if (b->sum_high == ((int64_t)b->sum_low < 0 ? -1 : 0))
        return (size_t)snprintf(to, size, "%lld",
                                (long long)(int64_t)b->sum_low);
    return (size_t)snprintf(to, size, "%lld:%llx", (long long)b->sum_high,
                            (unsigned long long)b->sum_low);
}

static void
put_top(char *to, size_t size, const struct store_top *t)
{
    size_t used = (size_t)snprintf(to, size, "%.*s=", (int)t->key_size,
                                   (const char *)t->key);

    used += put_sum(to + used, size - used, &t->sum);
    used += (size_t)snprintf(to + used, size - used, "/");
    (void)put_sum(to + used, size - used, &t->before);
}

static void
put_rows(struct told *t, const struct history_query *h)
{
    if (h->q.op == STORE_HISTORY_RANK)
        (void)put_sum(t->text, sizeof t->text, &h->q.sum);
    for (size_t i = 0, at = 0; h->q.op != STORE_HISTORY_RANK && i < t->rows &&
                               at < sizeof t->text - 100;
         i++, at = strlen(t->text)) {
        if (i > 0)
            t->text[at++] = ' ';
        if (h->q.op == STORE_HISTORY_TOP)
            put_top(t->text + at, sizeof t->text - at, &h->q.top[i]);
        else
            (void)put_sum(t->text + at, sizeof t->text - at, &h->q.buckets[i]);
    }
}

/* Goes on for `ns` at a time; `between` is called after each step. */
static struct told
asked_so(struct fixture *f, const struct history_question *q, uint64_t ns,
         void (*between)(struct fixture *f))
{
    struct told t = {.text = ""};
    struct history_query h;

    assert_rc(history_query_init(&h, f->store), 0);
    history_query_start(&h, q);
    while (!history_query_step(&h, clock_ns() + ns)) {
        store_read_end(f->store);
        t.steps++;
        if (between)
            between(f);
    }
    store_read_end(f->store);
    t.error = h.error;
    if (h.error == 0) {
        t.rows = history_query_rows(&h);
        t.since = history_query_since(&h);
        t.known = h.q.before_known;
        t.rank = (int64_t)h.q.rank;
        t.keys = (int64_t)h.q.keys;
        put_rows(&t, &h);
    }
    history_query_fini(&h);
    return t;
}

static struct told
asked(struct fixture *f, const struct history_question *q)
{
    return asked_so(f, q, 1000000, NULL);
}

/* About the keyspace "many". */
static struct history_question
of_many(struct history_question q)
{
    q.keyspace = (const uint8_t *)"many";
    q.keyspace_size = 4;
    return q;
}

static struct history_question
by_step(struct history_question q, uint32_t step)
{
    q.step = (int64_t)step * 60;
    return q;
}

/* ---- tests ------------------------------------------------------------- */

CASE(buckets_say_what_came_and_where_nothing_did, f)
{
    struct history_question q =
        by_step(query(STORE_HISTORY_KEY, "a", 120, 0), 30);
    struct told t = asked(f, &q);

    assert_string_equal(t.text, "- 5 - 0"); /* 7 and -7 came: a sum of 0 */
    assert_int_equal(t.rows, 4);
    assert_int_equal(t.error, 0);
    assert_int_equal(t.since, 0); /* it had history from the beginning */

    q = by_step(query(STORE_HISTORY_KEY, "", 120, 0), HOUR);
    t = asked(f, &q); /* the second is 2 * INT64_MAX + 3 */
    assert_string_equal(t.text, "6 1:1");

    q = query(STORE_HISTORY_KEY, "none", 120, 0);
    t = asked(f, &q);
    assert_string_equal(t.text, "-");
    q = by_step(query(STORE_HISTORY_KEY, "a", 0, 0), 1);
    t = asked(f, &q);
    assert_int_equal(t.rows, 0);
}

CASE(the_top_of_a_period_has_the_sums_of_the_one_before, f)
{
    struct history_question q = query(STORE_HISTORY_TOP, "", HOUR, 0);
    struct told t = asked(f, &q);

    assert_string_equal(t.text, "b=0:fffffffffffffffe/1 c=3/- a=0/5");
    assert_int_equal(t.known, 1);
    q.length = 1;
    t = asked(f, &q);
    assert_string_equal(t.text, "b=0:fffffffffffffffe/1");
    q.length = 0;
    t = asked(f, &q);
    assert_int_equal(t.rows, 0);
    assert_int_equal(t.error, 0);
}

CASE(the_rank_of_a_key_is_among_those_with_increments_in_the_period, f)
{
    struct history_question q = query(STORE_HISTORY_RANK, "a", 2 * HOUR, HOUR);
    struct told t = asked(f, &q);

    assert_string_equal(t.text, "5");
    assert_int_equal(t.rank, 0);
    assert_int_equal(t.keys, 2);
    q = query(STORE_HISTORY_RANK, "a", HOUR, 0);
    t = asked(f, &q);
    assert_string_equal(t.text, "0");
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.keys, 3);
}

CASE(without_a_key_the_sum_of_a_period_is_that_of_all, f)
{
    struct history_question q = query(STORE_HISTORY_RANK, "", HOUR, 0);
    struct told t = asked(f, &q);

    assert_string_equal(t.text, "1:1"); /* 2 * INT64_MAX + 3 */
    assert_int_equal(t.rank, 0);
    assert_int_equal(t.keys, 3);
    q = query(STORE_HISTORY_RANK, "", 3 * HOUR, 2 * HOUR);
    t = asked(f, &q);
    assert_string_equal(t.text, "-");
    assert_int_equal(t.keys, 0);
}

CASE(questions_that_have_no_answer_say_why, f)
{
    const struct history_question good =
        by_step(query(STORE_HISTORY_KEY, "a", 120, 0), 30);
    struct {
        struct history_question q;
        int64_t error;
    } bad[] = {
        {good, -EINVAL}, {good, -EINVAL}, {good, -EINVAL}, {good, -EINVAL},
        {good, -EINVAL}, {good, -EINVAL}, {good, -E2BIG},  {good, -ENOENT},
    };
    struct told t;

    bad[0].q.from++;
    bad[1].q.step = 90;
    bad[2].q.step = 0;
    bad[3].q.to = bad[3].q.from - 1800;
    bad[4].q.step = -60;
    bad[5].q.from = INT64_MIN;
    bad[6].q =
        by_step(query(STORE_HISTORY_KEY, "a", STORE_BUCKETS_MAX + 1, 0), 1);
    bad[7].q.keyspace_size = 4;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        t = asked(f, &bad[i].q);
        assert_int_equal(t.error, bad[i].error);
        assert_int_equal(t.rows, 0);
    }
    t = asked(f, &good); /* and the next is answered */
    assert_int_equal(t.rows, 4);
}

CASE(a_keyspace_without_history_says_so, f)
{
    struct history_question q = query(STORE_HISTORY_TOP, "", HOUR, 0);
    struct store *plain;
    struct told t;

    plain = engine_open(f->datadir.keyspace_fd);
    assert_rc(stored_add(plain, "plain", NULL, "a", 1), 0);
    store_close(plain);
    q.keyspace = (const uint8_t *)"plain";
    t = asked(f, &q);
    assert_int_equal(t.error, -ENODATA);
}

/* More comes to what has been passed. */
static void
put_behind(struct fixture *f)
{
    const struct store_maintenance tending = {.until_ns = UINT64_MAX};

    store_read_end(f->store);
    put(f, "h", NOW - 40 * HOUR, 1000);
    while (store_maintain(f->store, &tending))
        continue;
}

/* What came in each of forty hours, while the care goes on and more comes to
 * what has been passed: no sum is half of it, or twice. */
CASE(a_long_history_is_answered_in_steps, f)
{
    const struct history_question q =
        by_step(query(STORE_HISTORY_KEY, "h", 40 * HOUR, 0), 1);
    struct history_query h;
    unsigned steps = 0;

    for (uint32_t i = 0; i < 40; i++)
        put(f, "h", NOW - 40 * HOUR + i * HOUR + i, i + 1);
    assert_rc(history_query_init(&h, f->store), 0);
    history_query_start(&h, &q);
    for (; !history_query_step(&h, clock_ns()); steps++)
        put_behind(f);
    assert_true(steps >= 4);
    assert_int_equal(history_query_rows(&h), 40 * HOUR);
    for (uint32_t i = 0; i < 40 * HOUR; i++)
        assert_int_equal(h.q.buckets[i].sum_low,
                         i % HOUR == i / HOUR ? i / HOUR + 1 : 0);
    history_query_fini(&h);
}

static void
ask_another(struct fixture *f)
{
    struct store_query other = {.op = STORE_GET,
                                .name = (const uint8_t *)"pages",
                                .name_size = 5,
                                .key = (const uint8_t *)"c",
                                .key_size = 1};
    int64_t as_of_ms;

    assert_rc(
        answer_query(&f->answer, &other, f->out, ANSWER_SIZE_MAX, &as_of_ms),
        0);
    assert_int_equal(other.row.count, 3);
    store_read_end(f->store);
}

/* Others ask between the steps. */
CASE(what_looks_at_all_keys_is_answered_in_steps, f)
{
    struct history_question q = of_many(query(STORE_HISTORY_TOP, "", HOUR, 0));
    struct told t;

    put_many(f);
    t = asked_so(f, &q, 0, ask_another);
    assert_true(t.steps >= 3);
    assert_int_equal(t.rows, 10);
    assert_memory_equal(t.text, "k05999=6000/- k05998=5999/- ", 28);

    q.op = STORE_HISTORY_RANK;
    q.key = (const uint8_t *)"k05989";
    q.key_size = 6;
    t = asked_so(f, &q, 0, ask_another);
    assert_int_equal(t.rank, 10);
    assert_int_equal(t.keys, KEYS);
    assert_true(t.steps >= 3);
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
                                 .sum_high = sum < 0 ? -1 : 0,
                                 .sum_low = (uint64_t)sum};
        for (size_t n = 0; n < w->key.size; n++)
            w->key.bytes[n] = (uint8_t) "\1/ab\xff"[random_below(r, 5)];
        if (sum == 0) /* no increment is 0 */
            w->sum_low = 1;
        assert_rc(stored_apply(
                      f->store, "words", NULL,
                      &(struct store_delta){.key = w->key.bytes,
                                            .key_size = (uint16_t)w->key.size,
                                            .minute = NOW,
                                            .sum_high = w->sum_high,
                                            .sum_low = w->sum_low},
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
    struct history_question q = {
        .op = random_chance(r, 50) ? STORE_HISTORY_TOP : STORE_HISTORY_RANK,
        .keyspace = (const uint8_t *)"words",
        .keyspace_size = 5,
        .prefix = like->key.bytes,
        .prefix_size = (uint16_t)random_below(r, like->key.size + 1),
        .group = (uint8_t) "/a\xff."[random_below(r, 5)],
        .length = (int64_t)random_below(r, 30),
        .from = is_all_time ? 0 : (int64_t)NOW * 60,
        .to = is_all_time ? 0 : (int64_t)(NOW + 1) * 60};
    struct store_history_query want = {.op = q.op,
                                       .prefix = q.prefix,
                                       .prefix_size = q.prefix_size,
                                       .group = q.group,
                                       .from = NOW,
                                       .to = NOW + 1,
                                       .top = top,
                                       .length = (uint64_t)q.length};
    struct history_query h;

    assert_rc(memhistory_answer(words, WORDS, &want), 0);
    assert_rc(history_query_init(&h, f->store), 0);
    history_query_start(&h, &q);
    while (!history_query_step(&h, 1))
        store_read_end(f->store);
    store_read_end(f->store);
    assert_rc(h.error, 0);
    assert_int_equal(h.q.rows, want.rows);
    assert_int_equal(h.q.keys, want.keys);
    assert_true(store_bucket_sum(&h.q.sum) == store_bucket_sum(&want.sum));
    for (uint64_t i = 0; i < want.rows; i++) {
        assert_int_equal(h.q.top[i].key_size, top[i].key_size);
        assert_memory_equal(h.q.top[i].key, top[i].key, top[i].key_size);
        assert_true(store_bucket_sum(&h.q.top[i].sum) ==
                    store_bucket_sum(&top[i].sum));
    }
    history_query_fini(&h);
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
    struct history_question q = query(STORE_HISTORY_RANK, "a", 2 * HOUR + 1, 7);
    struct history_query p;

    q.from += 1;
    q.to -= 1;
    assert_rc(history_query_init(&p, &store), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t step = cases[i].step;

        memcpy(since_of, cases[i].since, sizeof since_of);
        history_query_start(&p, &q);
        for (int n = 0; !history_query_step(&p, 1); n++)
            assert_true(n < 9);

        assert_rc(p.error, step == 0 ? -EINVAL : 0);
        if (step == 0)
            continue;
        assert_int_equal(p.step, step);
        assert_int_equal(p.q.from, q.from / step * step / 60);
        assert_int_equal(p.q.to, (q.to + step - 1) / step * step / 60);
    }
    history_query_fini(&p);
}
