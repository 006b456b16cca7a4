/* tests/e2e/test_history_queries.c - what was sent, asked for by time:
 * libcountd and the countd command with the real daemons. */
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
    assert_rc(countd_incr(x->c, "pages", 5, key, strlen(key), n), 0);
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
    assert_rc(countd_wait_readable(x->c, "pages", 5, WAIT_MS), 0);
    x->to = ((int64_t)time(NULL) / HOUR + 2) * HOUR;
}

static void
set_up(struct fixture *x)
{
    char write[64], ask[64];
    const struct countd_options o = {
        .size = sizeof o, .write = write, .read = ask};

    fleet_init(&x->fleet);
    fleet_start_with(&x->fleet, FLEET_WRITE, "log.rotate_after=20ms", NULL);
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
    return (struct countd_query){.keyspace = "pages",
                                 .keyspace_size = 5,
                                 .key = key,
                                 .key_size = strlen(key),
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
    assert_rc(countd_wait_readable(x->c, "pages", 5, WAIT_MS), 0);
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
        assert_int_equal(top->rows[i].key_size, 3);
        assert_int_equal(top->rows[i].key[2], '9' - i);
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
        assert_rc(countd_incr(x->c, "usage", 5, keys[i], strlen(keys[i]),
                              (uint32_t)(10 * (i + 1))),
                  0);
    assert_rc(countd_wait_readable(x->c, "usage", 5, WAIT_MS), 0);
    q.keyspace = "usage";
    q.group = '/';
    for (int all_time = 0; all_time < 2; all_time++) {
        if (all_time)
            q.from = q.to = 0;
        assert_rc(countd_period_top(x->c, &q, &top), 0);
        assert_int_equal(top->count, 3);
        assert_memory_equal(top->rows[0].key, "c", 2);
        assert_memory_equal(top->rows[1].key, "a/", 3);
        assert_int_equal(top->rows[1].sum.value, 30);
        assert_memory_equal(top->rows[2].key, "b/", 3);
        countd_rows_free(top);
        assert_rc(countd_period_rank(x->c, &q, &p), 0);
        assert_true(p.keys == 3 && p.sum.value == 100 && p.rank == -1);
    }

    q = query_of(x, "");
    q.keyspace = "usage";
    q.prefix = "a/";
    q.prefix_size = 2;
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
    q.prefix_size = 0;
    q.key = "a/2";
    q.key_size = 3;
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
        const struct countd_query wrong = {.keyspace = bad[i].keyspace,
                                           .keyspace_size =
                                               strlen(bad[i].keyspace),
                                           .key = bad[i].key,
                                           .key_size = strlen(bad[i].key),
                                           .prefix = bad[i].prefix,
                                           .prefix_size = strlen(bad[i].prefix),
                                           .from = bad[i].from,
                                           .to = bad[i].to,
                                           .step = bad[i].step};

        assert_rc(countd_history(x->c, &wrong, &b), bad[i].rc);
    }
    q.from = -1;
    assert_rc(countd_period_top(x->c, &q, &top), -EINVAL);
    q.from = x->to + 1;
    assert_rc(countd_period_top(x->c, &q, &top), -EINVAL);
    assert_rc(countd_get(x->c, "pages", 5, "/a", 2, &count), 0);
    assert_int_equal(count, 5);
}

/* ---- the command ------------------------------------------------------- */

#define HISTORY(x, ...) FLEET_RUN(&(x)->fleet, "history", "pages", __VA_ARGS__)

static const char *
as_seconds(int64_t at, char *to)
{
    snprintf(to, 32, "%lld", (long long)at);
    return to;
}

CASE(history_prints_a_line_for_each_step, x)
{
    char from[32], to[32], line[128];
    int64_t at, sum = 0;
    int lines = 0;
    const char *p;

    as_seconds(x->from, from);
    as_seconds(x->to, to);
    expect(
        HISTORY(x, "/a", "--from", from, "--to", to, "--step", "1m", "--tsv"),
        0, "\t5\n");
    for (p = text; *p != '\0'; p = strchr(p, '\n') + 1) {
        assert_int_equal(sscanf(p, "%ld\t%100[^\n]", &at, line), 2);
        assert_int_equal(at, x->from + (int64_t)lines * 60);
        sum += strcmp(line, "-") == 0 ? 0 : atoll(line);
        lines++;
    }
    assert_int_equal(lines, (x->to - x->from) / 60);
    assert_int_equal(sum, 5);

    /* Widened to the hours that they are in; the keyspace's. */
    as_seconds(x->from + 1, from);
    as_seconds(x->to - HOUR - 1, to);
    expect(HISTORY(x, "--from", from, "--to", to, "--tsv"), 0, "\t1050\n");
    snprintf(line, sizeof line, "%lld\t", (long long)x->from);
    assert_int_equal(strncmp(text, line, strlen(line)), 0);
    expect(HISTORY(x, "/b", "--from", from, "--to", to, "--json"), 0,
           ", \"sum\": 0}");
    expect(HISTORY(x, "/a", "--from", "-3d", "--to", "-2d", "--json"), 0,
           "\"sum\": null}");
    expect(HISTORY(x, "/none"), 1, "no such key: /none");
    expect(HISTORY(x, "/none", "--json"), 1, "\"code\": \"no-such-key\"");
    expect(HISTORY(x, "/a", "--step", "1d", "--utc"), 0, "T00:00:00Z");
    expect(HISTORY(x, "/a"), 0, "as of ");
}

CASE(the_top_of_a_period_tells_what_changed, x)
{
    expect_text(
        FLEET_RUN(&x->fleet, "top", "pages", "2", "--from", "-2h", "--tsv"), 0,
        "0\t109\t0\t109\t/n9\n1\t108\t0\t108\t/n8\n");
    expect_text(FLEET_RUN(&x->fleet, "top", "pages", "--from", "-2d", "--to",
                          "-1d", "--tsv"),
                0, "");
    expect(FLEET_RUN(&x->fleet, "top", "pages", "1", "--utc", "--json"), 0,
           "{\"rank\": 0, \"sum\": 109, \"before\": 0, \"change\": 109, "
           "\"key\": \"/n9\"}");
    expect(FLEET_RUN(&x->fleet, "top", "no", "--from", "-2h"), 1,
           "no such keyspace");
}

CASE(the_rank_in_a_period_is_told_with_its_sum, x)
{
    expect_text(
        FLEET_RUN(&x->fleet, "rank", "pages", "/n7", "--from", "-2h", "--tsv"),
        0, "2\t107\t12\n");
    expect(FLEET_RUN(&x->fleet, "rank", "pages", "/b", "--utc", "--json"), 0,
           "\"rank\": 11, \"sum\": 0, \"keys\": 12, \"as_of_ms\": ");
    expect(FLEET_RUN(&x->fleet, "rank", "pages", "/n7", "--from", "-2h"), 0,
           "rank  sum  of keys\n   3  107       12\nfrom ");
    /* Nothing came to it: in that time, or ever. */
    expect(FLEET_RUN(&x->fleet, "rank", "pages", "/n7", "--from", "-3d", "--to",
                     "-1d", "--json"),
           1, "\"code\": \"nothing-came\"");
    expect(FLEET_RUN(&x->fleet, "rank", "pages", "/x", "--from", "-2h"), 1,
           "nothing came to the key in that time");
    expect(FLEET_RUN(&x->fleet, "rank", "no", "/x", "--to", "now"), 1,
           "no such keyspace");
    expect(FLEET_RUN(&x->fleet, "rank", "pages", "/x", "--from", "soon"), 100,
           "give a time");
    expect_text(FLEET_RUN(&x->fleet, "rank", "pages", "/n7"), 0, "3\n");
}

#define TERMINAL(x, ...)                                                       \
    fleet_terminal(&(x)->fleet, (const char *const[]){__VA_ARGS__, NULL}, 30)

/* A day of hours: one with increments, in UTF-8 as far as the locale has it. */
CASE(a_terminal_shows_bars_and_a_sparkline_and_a_pipe_does_not, x)
{
    static const char *const utf8[] = {"LC_ALL=C.UTF-8", NULL};
    static const char *const ascii[] = {"LC_ALL=C", NULL};

    x->fleet.env = utf8;
    expect(TERMINAL(x, "history", "pages"), 0,
           "  ########################################\r\n");
    assert_has(text, "\xe2\x96\x88");
    x->fleet.env = ascii;
    expect(TERMINAL(x, "history", "pages"), 0, "#\r\n");
    assert_lacks(text, "\xe2");
    expect(TERMINAL(x, "history", "pages", "--tsv"), 0, "\t1050\r\n");
    assert_null(strchr(text, '#'));
    expect(TERMINAL(x, "top", "pages", "2", "--from", "-2h"), 0,
           "/n9  ####################\r\n");

    x->fleet.env = utf8;
    expect(HISTORY(x, "--from", "-2h"), 0, "1050\n");
    assert_null(strpbrk(text, "#\xe2"));
    expect(FLEET_RUN(&x->fleet, "top", "pages", "2", "--from", "-2h"), 0,
           "/n9\n");
    x->fleet.env = NULL;
}

CASE(around_prints_neighbours_with_their_ranks, x)
{
    expect_text(FLEET_RUN(&x->fleet, "around", "pages", "/n5", "3", "--tsv"), 0,
                "3\t106\t/n6\n4\t105\t/n5\n5\t104\t/n4\n");
    expect(FLEET_RUN(&x->fleet, "around", "pages", "/none"), 1,
           "no such key: /none");
    expect(FLEET_RUN(&x->fleet, "around", "no", "/none", "--json"), 1,
           "\"code\": \"no-such-keyspace\"");
    expect(FLEET_RUN(&x->fleet, "around", "pages", "/a", "0"), 100, "N");
}

CASE(bad_times_and_steps_are_refused_with_the_reason, x)
{
    expect(HISTORY(x, "--from", "yesterday"), 100,
           "yesterday: give a time: 2026-11-20");
    expect(HISTORY(x, "--from", "2026-02-30"), 100, "give a time");
    expect(HISTORY(x, "--from", "now", "--to", "-1h"), 100,
           "the end is not after the start");
    expect(HISTORY(x, "--to", "99999999999999"), 100, "no time so late");
    expect(HISTORY(x, "--step", "90s"), 100, "a step is whole minutes");
    expect(HISTORY(x, "--step", "0"), 100, "a step is whole minutes");
    expect(HISTORY(x, "--step", "never"), 100, "never");
    expect(HISTORY(x, "--from", "0", "--step", "1m"), 100,
           "more than 4096 steps");
    expect(FLEET_RUN(&x->fleet, "history", "no"), 1, "no such keyspace");
    expect(FLEET_RUN(&x->fleet, "top", "pages", "5000", "--from", "-1h"), 100,
           "4096 rows at most");
}
