/* tests/e2e/test_history_queries.c - what was sent, asked for by time: libcountd
 * with the real daemons, and the transcript history_queries.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/client/lib/countd.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"

#define WAIT_MS 20000
#define HOUR    3600

struct fixture {
    struct fleet fleet;
    struct countd *c;
    int64_t from, to; /* of hours, around all that was sent */
};

static void
add_increment(struct fixture *x, const char *key, int64_t n)
{
    assert_rc(countd_incr(x->c, countd_name("pages"), countd_name(key), n), 0);
}

/* /a 5, /b 7 and -7, /c twice the most there is, and ten more. */
static void
send_all(struct fixture *x)
{
    char key[8];

    add_increment(x, "/a", 2);
    add_increment(x, "/a", 3);
    add_increment(x, "/b", 7);
    add_increment(x, "/b", -7);
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "/n%d", i);
        add_increment(x, key, 100 + i);
    }
    x->from = (int64_t)time(NULL) / HOUR * HOUR;
    assert_rc(countd_wait_readable(x->c, countd_name("pages"), WAIT_MS), 0);
    x->to = ((int64_t)time(NULL) / HOUR + 2) * HOUR;
}

static void
set_up(struct fixture *x)
{
    char write[64], ask[64];
    const struct countd_options o = {
        .size = sizeof o, .write = write, .read = ask};

    fleet_init(&x->fleet);
    fleet_start_with(&x->fleet, FLEET_WRITE, "log.rotate_after=20ms");
    fleet_start(&x->fleet, FLEET_READ);
    fleet_start(&x->fleet, FLEET_WORKER);
    snprintf(write, sizeof write, "127.0.0.1:%u", fleet_ack_port(&x->fleet));
    snprintf(ask, sizeof ask, "127.0.0.1:%u", fleet_ask_port(&x->fleet));
    assert_rc(countd_open(&x->c, &o), 0);
    send_all(x);
}

static void
tear_down(struct fixture *x)
{
    assert_int_equal(countd_close(x->c), 0);
    fleet_fini(&x->fleet);
}

#define CASE(name, x) TEST_WITH(name, struct fixture, x, set_up, tear_down)

/* ---- libcountd --------------------------------------------------------- */

static struct countd_query
query_of(const struct fixture *x, const char *key)
{
    return (struct countd_query){.keyspace = countd_name("pages"),
                                 .key = countd_name(key),
                                 .from = x->from,
                                 .to = x->to,
                                 .length = 3};
}

/* The sum of buckets, each of which is in its place. */
static int64_t
ask_history(struct fixture *x, const char *key, int64_t step, bool *any)
{
    struct countd_query q = query_of(x, key);
    struct countd_rows *b;
    int64_t sum = 0;

    q.step = step;
    assert_rc(countd_history(x->c, &q, &b), 0);
    assert_int_equal(b->count, (x->to - x->from) / step);
    assert_true(b->as_of_ms > 0);
    assert_int_equal(b->since, 0);
    *any = false;
    for (size_t i = 0; i < b->count; i++) {
        assert_int_equal(b->rows[i].start, x->from + (int64_t)i * step);
        assert_true(b->rows[i].sum.any || b->rows[i].sum.value == 0);
        *any |= b->rows[i].sum.any;
        sum += b->rows[i].sum.value;
    }
    countd_rows_free(b);
    return sum;
}

CASE(history_is_what_was_sent, x)
{
    const int64_t steps[] = {60, 300, HOUR};
    bool any;

    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ask_history(x, "/a", steps[i], &any), 5);
        assert_int_equal(ask_history(x, "/b", steps[i], &any), 0);
        assert_true(any);
        assert_int_equal(ask_history(x, "/none", steps[i], &any), 0);
        assert_false(any);
        assert_int_equal(ask_history(x, "", steps[i], &any), 5 + 1045);
    }
    add_increment(x, "/a", INT64_MAX);
    add_increment(x, "/c", INT64_MAX);
    assert_rc(countd_wait_readable(x->c, countd_name("pages"), WAIT_MS), 0);
    assert_int_equal(ask_history(x, "", HOUR, &any), INT64_MAX); /* cut */
}

CASE(a_period_has_its_top_and_a_rank_for_each_key, x)
{
    struct countd_query q = query_of(x, "");
    struct countd_facts p;
    struct countd_rows *top;

    assert_rc(countd_period_top(x->c, &q, &top), 0);
    assert_int_equal(top->count, 3);
    assert_true(top->before_known);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(top->rows[i].sum.value, 109 - i);
        assert_int_equal(top->rows[i].key.size, 3);
        assert_int_equal(top->rows[i].key.data[2], '9' - i);
        assert_int_equal(top->rows[i].before.any, 0);
    }
    assert_true(top->from == x->from && top->to == x->to);
    countd_rows_free(top);
    /* Any time is widened to the finest steps that the history has. */
    q.from++;
    q.to--;
    assert_rc(countd_period_top(x->c, &q, &top), 0);
    assert_true(top->from == x->from && top->to == x->to);
    assert_int_equal(top->count, 3);
    countd_rows_free(top);
    /* The hour behind has the sums of this one before it. */
    q.from = x->to;
    q.to = 2 * x->to - x->from;
    assert_rc(countd_period_top(x->c, &q, &top), 0);
    assert_int_equal(top->count, 0);
    countd_rows_free(top);

    q = query_of(x, "/a");
    assert_rc(countd_period_rank(x->c, &q, &p), 0);
    assert_int_equal(p.sum.value, 5);
    assert_int_equal(p.rank, 10);
    assert_int_equal(p.keys, 12);
    q.from -= HOUR;
    q.to = x->from;
    assert_rc(countd_period_rank(x->c, &q, &p), 0);
    assert_int_equal(p.sum.any, 0);
    assert_int_equal(p.keys, 0);
}

/* Keys a/1, a/2, b/1 and one without the byte, of a keyspace of their own. */
CASE(keys_with_a_prefix_and_groups_are_asked_for_by_the_library, x)
{
    static const char *const keys[] = {"a/1", "a/2", "b/1", "c"};
    struct countd_query q = query_of(x, "");
    struct countd_rows *b;
    struct countd_facts p;
    struct countd_rows *top;

    for (int i = 0; i < 4; i++)
        assert_rc(countd_incr(x->c, countd_name("usage"), countd_name(keys[i]),
                              (uint32_t)(10 * (i + 1))),
                  0);
    assert_rc(countd_wait_readable(x->c, countd_name("usage"), WAIT_MS), 0);
    q.keyspace = countd_name("usage");
    q.group = '/';
    for (int all_time = 0; all_time < 2; all_time++) {
        if (all_time)
            q.from = q.to = 0;
        assert_rc(countd_period_top(x->c, &q, &top), 0);
        assert_int_equal(top->count, 3);
        assert_memory_equal(top->rows[0].key.data, "c", 2);
        assert_memory_equal(top->rows[1].key.data, "a/", 3);
        assert_int_equal(top->rows[1].sum.value, 30);
        assert_memory_equal(top->rows[2].key.data, "b/", 3);
        countd_rows_free(top);
        assert_rc(countd_period_rank(x->c, &q, &p), 0);
        assert_true(p.keys == 3 && p.sum.value == 100 && p.rank == -1);
    }

    q = query_of(x, "");
    q.keyspace = countd_name("usage");
    q.prefix = countd_name("a/");
    q.step = HOUR;
    assert_rc(countd_history(x->c, &q, &b), 0);
    assert_int_equal(b->rows[0].sum.value + b->rows[1].sum.value, 30);
    countd_rows_free(b);
    assert_rc(countd_period_top(x->c, &q, &top), 0);
    assert_true(top->count == 2 && top->rows[0].sum.value == 20);
    countd_rows_free(top);
    q.from = q.to = 0;
    assert_rc(countd_period_rank(x->c, &q, &p), 0);
    assert_true(p.keys == 2 && p.sum.value == 30);
    q.prefix.size = 0;
    q.key = countd_name("a/2");
    assert_rc(countd_period_rank(x->c, &q, &p), 0);
    assert_true(p.sum.value == 20 && p.rank == 2);
}

CASE(neighbours_are_those_beside_it, x)
{
    struct countd_query q = query_of(x, "/n5");
    struct countd_rows *rows;

    assert_rc(countd_around(x->c, &q, &rows), 0);
    assert_int_equal(rows->first, 3);
    assert_int_equal(rows->count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rows->rows[i].count, 106 - i);
    countd_rows_free(rows);
    q = query_of(x, "/x");
    assert_rc(countd_around(x->c, &q, &rows), -ENOENT);
}

CASE(bad_questions_are_refused_and_the_handle_goes_on, x)
{
    const struct {
        const char *keyspace, *key, *prefix;
        int64_t from, to, step;
        int rc;
    } bad[] = {{"pages", "", "", x->from, x->to, 90, -EINVAL},
               {"pages", "", "", x->from, x->to, 0, -EINVAL},
               {"pages", "", "", x->to, x->from, 60, -EINVAL},
               {"pages", "", "", 0, 0, 60, -EINVAL},
               {"pages", "", "", 0, 5000L * 60, 60, -E2BIG},
               {"pages", "/a", "/", x->from, x->to, 60, -EINVAL},
               {"no", "", "", x->from, x->to, 60, -ENOENT},
               {"", "", "", x->from, x->to, 60, -EINVAL}};
    struct countd_query q = query_of(x, "");
    struct countd_rows *b;
    struct countd_rows *top;
    int64_t count;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct countd_query wrong = {.keyspace =
                                               countd_name(bad[i].keyspace),
                                           .key = countd_name(bad[i].key),
                                           .prefix = countd_name(bad[i].prefix),
                                           .from = bad[i].from,
                                           .to = bad[i].to,
                                           .step = bad[i].step};

        assert_rc(countd_history(x->c, &wrong, &b), bad[i].rc);
    }
    q.from = -1;
    assert_rc(countd_period_top(x->c, &q, &top), -EINVAL);
    q.from = x->to + 1;
    assert_rc(countd_period_top(x->c, &q, &top), -EINVAL);
    assert_rc(countd_get(x->c, countd_name("pages"), countd_name("/a"), &count),
              0);
    assert_int_equal(count, 5);
}
