/* tests/unit/test_store.c - what every engine of common/store/store.h promises.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/wire/query.h"
#include "tests/lib/counted.h"
#include "tests/lib/engines.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

struct fixture {
    struct tmpdir tmp;
    struct store *s; /* NULL: its server is not installed */
};

#define WORDS (const uint8_t *)"words", 5

static struct fixture *
set_up(void **state)
{
    static struct fixture x;

    tmpdir_make_in_memory(&x.tmp);
    x.s = NULL;
    *state = &x;
    return &x;
}

static int
setup(void **state)
{
    struct fixture *x = set_up(state);

    x->s = engine_open_history(x->tmp.fd, ENGINE_TIERS, NULL);
    return 0;
}

static int
setup_postgresql(void **state)
{
    struct fixture *x = set_up(state);

    if (pg_server_is_installed())
        x->s = engine_open_postgresql(ENGINE_TIERS);
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *x = *state;

    store_close(x->s);
    tmpdir_remove(&x->tmp);
    return 0;
}

static void
need_store(const struct fixture *x)
{
    if (!x->s)
        test_skip("PostgreSQL's server is not installed");
}

/* Each over both engines. */
#define CASE(name, x)                                                          \
    static void name(struct fixture *x);                                       \
    static void name##_run(void **state)                                       \
    {                                                                          \
        need_store(*state);                                                    \
        name(*state);                                                          \
    }                                                                          \
    TEST_ADDED(name, #name, name##_run, setup, teardown, NULL)                 \
    TEST_ADDED(name##_postgresql, #name "_postgresql", name##_run,             \
               setup_postgresql, teardown, NULL)                               \
    static void name(struct fixture *x)

static const struct log_fill fill3 = {.uuid = {7}, .epoch = 3, .first_ms = 5};

static enum store_mark_state
state_of(struct fixture *x, uint64_t epoch, uint64_t first_ms)
{
    struct log_fill mark = fill3;
    struct store_mark_info info;

    mark.epoch = epoch;
    mark.first_ms = first_ms;
    assert_rc(stored_marks(x->s, "words", &mark, 1, &info), 0);
    return info.state;
}

/* In the order by count: c, a, b, d. */
static void
add_four(struct fixture *x)
{
    assert_rc(stored_add(x->s, "words", NULL, "b", 2), 0);
    assert_rc(stored_add(x->s, "words", NULL, "a", 2), 0);
    assert_rc(stored_add(x->s, "words", NULL, "c", 7), 0);
    assert_rc(stored_add(x->s, "words", NULL, "d", -1), 0);
}

/* Asks about a key of "words"; three rows around it. */
static struct store_query
ask_key(struct fixture *x, enum store_op op, const char *key, uint8_t *bytes)
{
    struct store_query q = {.op = op,
                            .name = (const uint8_t *)"words",
                            .name_size = 5,
                            .key = (const uint8_t *)key,
                            .key_size = strlen(key),
                            .length = 3};

    (void)store_read(x->s, &q, bytes, 1024); /* q.error says */
    store_read_end(x->s);
    return q;
}

CASE(a_batch_given_twice_counts_once, x)
{
    assert_int_equal(state_of(x, 3, 5), STORE_MARK_NONE);
    assert_rc(stored_add(x->s, "words", &fill3, "the", 4), 0);
    assert_rc(stored_add(x->s, "words", &fill3, "the", 4), 0);

    assert_int_equal(get_one(x->s, "words", "the"), 4);
    assert_int_equal(state_of(x, 3, 5), STORE_MARK_DONE);
    assert_int_equal(state_of(x, 3, 6), STORE_MARK_OTHER);
    assert_int_equal(state_of(x, 2, 5), STORE_MARK_AHEAD);
    assert_int_equal(state_of(x, 4, 5), STORE_MARK_NONE);
}

CASE(an_earlier_fill_is_refused_and_another_fill_counts, x)
{
    struct log_fill mark = fill3;

    assert_rc(stored_add(x->s, "words", &fill3, "the", 4), 0);

    mark.epoch = 2;
    assert_rc(stored_add(x->s, "words", &mark, "the", 100), -EOVERFLOW);
    mark.epoch = 3;
    mark.first_ms = 6;
    assert_rc(stored_add(x->s, "words", &mark, "the", 10), 0);
    assert_int_equal(get_one(x->s, "words", "the"), 14);
}

CASE(marks_that_do_not_agree_are_no_batch, x)
{
    const struct log_fill marks[2] = {fill3, {.uuid = {8}, .epoch = 1}};
    const struct store_delta the = delta("the", 9);
    struct store_applied applied;

    assert_rc(stored_add(x->s, "words", &fill3, "the", 4), 0);

    assert_rc(apply_deltas(x->s, WORDS, marks, 2, &the, 1, &applied), -ESTALE);
    assert_int_equal(get_one(x->s, "words", "the"), 4);
}

/* Asks about "words", in a turn that goes on. */
static struct store_query
ask_totals(struct fixture *x)
{
    struct store_query q = {
        .op = STORE_TOTAL, .name = (const uint8_t *)"words", .name_size = 5};

    assert_rc(store_read(x->s, &q, NULL, 0), 0);
    return q;
}

static int
count_mark(void *ctx, const struct log_fill *m,
           const struct store_mark_info *info)
{
    int *count = ctx;

    (void)m;
    (void)info;
    ++*count;
    return 0;
}

static int
count_marks(struct fixture *x)
{
    int count = 0;

    assert_rc(store_each_mark(x->s, WORDS, count_mark, &count), 0);
    return count;
}

/* Of files: another process merges meanwhile. */
static void
marks_are_of_the_moment_of_the_turns_queries(void **state)
{
    const struct log_fill other = {.uuid = {8}, .epoch = 1};
    struct fixture *x = *state;
    pid_t child;

    assert_rc(stored_add(x->s, "words", &fill3, "the", 4), 0);
    assert_int_equal(ask_totals(x).totals.keys, 1);
    child = test_fork();
    if (child == 0)
        _exit(stored_add(engine_open_history(x->tmp.fd, ENGINE_TIERS, NULL),
                         "words", &other, "of", 1) != 0);
    assert_int_equal(test_wait(child), 0);
    assert_int_equal(count_marks(x), 1);
    assert_int_equal(ask_totals(x).totals.keys, 1);
    store_read_end(x->s);
    assert_int_equal(count_marks(x), 2);
}
TEST_ADDED(marks_are_of_a_moment,
           "marks_are_of_the_moment_of_the_turns_queries",
           marks_are_of_the_moment_of_the_turns_queries, setup, teardown, NULL)

CASE(rows_come_by_count_then_key, x)
{
    uint8_t bytes[1024];
    struct store_totals t;
    struct store_row row;

    add_four(x);

    assert_int_equal(stored_range(x->s, "words", 0, 9, bytes, sizeof bytes), 4);
    assert_memory_equal(bytes + QUERY_ROW_SIZE, "c", 1);
    assert_memory_equal(bytes + 2 * QUERY_ROW_SIZE + 1, "a", 1);
    assert_int_equal(stored_range(x->s, "words", -1, 9, bytes, sizeof bytes),
                     1);
    assert_int_equal(get_le64s(bytes), -1);
    assert_rc(stored_totals(x->s, "words", &t), 0);
    assert_int_equal(t.keys, 4);
    assert_true(t.sum == 10);
    assert_rc(stored_get(x->s, "words", "e", &row), -ENOENT);
    assert_rc(stored_get(x->s, "none", "e", &row), -ENOENT);
}

/* The keys of a read in key order, each with its count. */
static const char *
read_keys(struct fixture *x, int64_t offset, const char *prefix,
          const char *after, uint64_t length)
{
    static char text[256];
    uint8_t bytes[2048];
    const uint8_t *at = bytes;
    int rows = stored_keys(x->s, "words", offset, prefix, after, length, bytes,
                           sizeof bytes);

    assert_true(rows >= 0);
    for (text[0] = '\0'; rows > 0; rows--) {
        const int size = get_le16(at + 8); /* has no flag */
        const size_t used = strlen(text);

        (void)snprintf(text + used, sizeof text - used, "%.*s=%lld ", size,
                       (const char *)at + QUERY_ROW_SIZE,
                       (long long)get_le64s(at));
        at += QUERY_ROW_SIZE + size;
    }
    return text;
}

CASE(rows_come_in_key_order, x)
{
    /* All that begins with "a." is jumped over by what is the last of it. */
    static char last[STORE_NAME_MAX + 1] = "a.";
    static const struct {
        int64_t offset;
        const char *prefix, *after;
        uint64_t length;
        const char *want;
    } reads[] = {
        {0, "", "", 9, "a=1 a.b=9223372036854775807 a.\xff=7 a/=8 b=-2 "},
        {0, "", "", 1, "a=1 "},
        {0, "", "a", 1, "a.b=9223372036854775807 "},
        {0, "", "a.c", 2, "a.\xff=7 a/=8 "},
        {0, "a.", "", 9, "a.b=9223372036854775807 a.\xff=7 "},
        {0, "a.", "a.b", 9, "a.\xff=7 "},
        {0, "b", "a", 9, "b=-2 "},
        {0, "a", "b", 9, ""},
        {0, "c", "", 9, ""},
        {0, "", "", 0, ""},
        {3, "", "", 9, "a/=8 b=-2 "},
        {1, "a.", "a.b", 9, "a.\xff=7 "},
        {2, "a.", "", 9, "a.\xff=7 "},
        {5, "", "", 9, ""},
        {0, "", last, 9, "a/=8 b=-2 "},
    };
    uint8_t bytes[1024];

    memset(last + 2, 0xff, STORE_NAME_MAX - 2);
    assert_rc(stored_add(x->s, "words", NULL, "b", -2), 0);
    assert_rc(stored_add(x->s, "words", NULL, "a.b", INT64_MAX), 0);
    assert_rc(stored_add(x->s, "words", NULL, "a.b", INT64_MAX), 0);
    assert_rc(stored_add(x->s, "words", NULL, "a", 1), 0);
    assert_rc(stored_add(x->s, "words", NULL, "a.\xff", 7), 0);
    assert_rc(stored_add(x->s, "words", NULL, "a/", 8), 0);

    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        assert_string_equal(read_keys(x, reads[i].offset, reads[i].prefix,
                                      reads[i].after, reads[i].length),
                            reads[i].want);
    assert_rc(stored_keys(x->s, "none", 0, "", "", 9, bytes, sizeof bytes),
              -ENOENT);
}

static int
note_name(void *ctx, const uint8_t *name, size_t name_size, int64_t keys)
{
    char *text = ctx;

    (void)strncat(text, (const char *)name, name_size);
    (void)strcat(text, keys == 1 ? "1" : "?");
    return 0;
}

CASE(keyspaces_are_listed_by_name, x)
{
    char text[64] = "";

    assert_rc(stored_add(x->s, "b", NULL, "k", 1), 0);
    assert_rc(stored_add(x->s, "ab", NULL, "k", 1), 0);
    assert_rc(stored_add(x->s, "c", NULL, "k", 1), 0);

    assert_rc(store_list(x->s, (const uint8_t *)"", 0, note_name, text), 0);
    assert_string_equal(text, "ab1b1c1");
    text[0] = '\0';
    assert_rc(store_list(x->s, (const uint8_t *)"ab", 2, note_name, text), 0);
    assert_string_equal(text, "b1c1");
}

CASE(a_row_is_found_by_key_by_rank_and_around_it, x)
{
    static const char *const order[] = {"c", "a", "b", "d"};
    uint8_t bytes[1024];

    add_four(x);

    for (uint64_t i = 0; i < 4; i++) {
        struct store_query q = ask_key(x, STORE_RANK, order[i], bytes);

        assert_rc(q.error, 0);
        assert_int_equal(q.rank, i);
        q = ask_key(x, STORE_AROUND, order[i], bytes);
        assert_rc(q.error, 0);
        assert_int_equal(q.rank, i);
        assert_memory_equal(q.bytes + QUERY_ROW_SIZE, order[i > 0 ? i - 1 : i],
                            1);
        q = ask_key(x, STORE_GET, order[i], bytes);
        assert_int_equal(q.row.count, get_one(x->s, "words", order[i]));
    }
    assert_rc(ask_key(x, STORE_RANK, "e", bytes).error, -ENOENT);
    assert_rc(ask_key(x, STORE_AROUND, "e", bytes).error, -ENOENT);
}

CASE(a_count_that_leaves_the_range_saturates_and_is_flagged, x)
{
    struct store_totals t;
    struct store_row row;

    assert_rc(stored_add(x->s, "words", NULL, "a", INT64_MAX), 0);
    assert_rc(stored_add(x->s, "words", NULL, "a", 1), 0);
    assert_rc(stored_add(x->s, "words", NULL, "b", INT64_MIN), 0);
    assert_rc(stored_add(x->s, "words", NULL, "b", -1), 0);
    assert_rc(stored_add(x->s, "words", NULL, "b", 3), 0);

    assert_rc(stored_get(x->s, "words", "a", &row), 0);
    assert_true(row.saturated);
    assert_true(row.count == INT64_MAX);
    assert_rc(stored_get(x->s, "words", "b", &row), 0);
    assert_true(row.saturated);
    assert_true(row.count == INT64_MIN + 3);
    assert_rc(stored_totals(x->s, "words", &t), 0);
    assert_int_equal(t.keys, 2);
    assert_int_equal(t.saturated, 2);
    assert_true(t.sum == 2);
}

CASE(deleted_keys_are_gone_and_begin_again, x)
{
    const struct store_key gone[] = {{(const uint8_t *)"a", 1},
                                     {(const uint8_t *)"d", 1},
                                     {(const uint8_t *)"e", 1}};
    uint8_t bytes[1024];
    struct store_totals t;
    struct store_row row;
    uint64_t deleted = 0;

    add_four(x);

    assert_rc(stored_del(x->s, "words", gone, 3, &deleted), 0);
    assert_int_equal(deleted, 2);
    assert_rc(stored_get(x->s, "words", "a", &row), -ENOENT);
    assert_int_equal(stored_range(x->s, "words", 0, 9, bytes, sizeof bytes), 2);
    assert_rc(stored_totals(x->s, "words", &t), 0);
    assert_int_equal(t.keys, 2);
    assert_true(t.sum == 9);
    assert_rc(stored_add(x->s, "words", NULL, "a", 5), 0);
    assert_int_equal(get_one(x->s, "words", "a"), 5);
    assert_rc(stored_del(x->s, "none", gone, 1, &deleted), -ENOENT);
}

CASE(a_drop_removes_rows_and_keeps_marks, x)
{
    struct store_row row;

    assert_rc(stored_add(x->s, "words", &fill3, "the", 4), 0);

    assert_rc(store_drop(x->s, WORDS), 0);
    assert_rc(stored_get(x->s, "words", "the", &row), -ENOENT);
    assert_int_equal(state_of(x, 3, 5), STORE_MARK_DONE);
    assert_rc(stored_add(x->s, "words", &fill3, "the", 4), 0);
    assert_rc(stored_get(x->s, "words", "the", &row), -ENOENT);
    assert_rc(stored_add(x->s, "words", NULL, "the", 9), 0);
    assert_int_equal(get_one(x->s, "words", "the"), 9);
    assert_rc(store_drop(x->s, (const uint8_t *)"none", 4), -ENOENT);
}

/* Asks about three minutes; the answer's buckets and keys are in `q`. */
static struct store_history_query
ask_history(struct fixture *x, enum store_history_op op, const char *key,
            uint32_t from, uint32_t step)
{
    static struct store_bucket buckets[3];
    static struct store_top top[4];
    struct store_history_query q = {.op = op,
                                    .name = (const uint8_t *)"words",
                                    .name_size = 5,
                                    .key = (const uint8_t *)key,
                                    .key_size = strlen(key),
                                    .from = from,
                                    .to = from + 3,
                                    .step = step,
                                    .buckets = buckets,
                                    .top = top,
                                    .length = 4};
    int rc;

    do
        rc = store_history(x->s, &q, 1);
    while (rc == -EAGAIN);
    store_read_end(x->s);
    assert_rc(rc, 0);
    return q;
}

CASE(history_has_each_increment_in_its_minute, x)
{
    const uint32_t from = (uint32_t)(clock_unix_ms() / 3600000) * 60 - 60;
    const struct store_delta d[] = {stored_delta("a", 1, from, 2),
                                    stored_delta("a", 1, from + 2, -9),
                                    stored_delta("b", 1, from + 2, 30)};
    struct store_history_query q;

    assert_rc(stored_apply(x->s, "words", &fill3, d, 3), 0);
    assert_rc(stored_apply(x->s, "words", &fill3, d, 3), 0);

    q = ask_history(x, STORE_HISTORY_KEY, "a", from, 1);
    assert_true(q.buckets[0].sum == 2);
    assert_true(q.buckets[0].any && !q.buckets[1].any);
    assert_true(q.buckets[2].sum == -9);
    q = ask_history(x, STORE_HISTORY_KEYSPACE, "", from, 3);
    assert_true(q.buckets[0].sum == 23);
    q = ask_history(x, STORE_HISTORY_TOP, "", from, 0);
    assert_int_equal(q.rows, 2);
    assert_memory_equal(q.top[0].key, "b", 1);
    assert_true(q.top[1].sum.sum == -7);
    q = ask_history(x, STORE_HISTORY_RANK, "a", from, 0);
    assert_int_equal(q.rank, 1);
    assert_int_equal(q.keys, 2);
    assert_true(q.sum.sum == -7);
}
