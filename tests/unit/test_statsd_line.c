/* tests/unit/test_statsd_line.c - what a StatsD or a Graphite line counts. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/carbon_line.h"
#include "writer/statsd/statsd_line.h"

#define SHOWN 1024

/* Increments as text: "name=millionths" for counters, "name#" and "name+" for
 * the number and the sum of timers, with blanks between. */
struct shown {
    char text[SHOWN];
    size_t size;
};

static void
show_part(void *ctx, const struct statsd_sum *sum, int128 millionths)
{
    static const char marks[] = "=#+";
    struct shown *s = ctx;

    s->size += (size_t)snprintf(s->text + s->size, SHOWN - s->size,
                                "%s%.*s%c%lld", s->size > 0 ? " " : "",
                                (int)sum->key_size, (const char *)sum->key,
                                marks[sum->part], (long long)millionths);
    if (sum->at != 0)
        s->size += (size_t)snprintf(s->text + s->size, SHOWN - s->size, "@%lld",
                                    (long long)sum->at);
    assert_true(s->size < SHOWN);
}

static const struct config drop_tags = {.statsd_timers = true, .key_size = 256};
static const struct config append_tags = {
    .statsd_timers = true, .statsd_tags = true, .key_size = 24};

static int
take_line(const struct config *config, const char *line, struct shown *s)
{
    const struct statsd_sink sink = {show_part, s};
    const char *why = NULL;
    int rc;

    *s = (struct shown){.size = 0};
    rc = statsd_line(config, (const uint8_t *)line, strlen(line), &sink, &why);
    if (rc < 0) {
        assert_non_null(why);
        assert_int_equal(s->size, 0); /* a whole line or nothing */
    }
    return rc;
}

struct line_case {
    const char *line;
    int rc; /* kinds, or -EBADMSG */
    const char *counts;
};

static void
check_cases(const struct config *config, const struct line_case *cases,
            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct shown s;
        const int rc = take_line(config, cases[i].line, &s);

        if (rc != cases[i].rc || strcmp(s.text, cases[i].counts) != 0)
            fail_msg("%s: %d, %s", cases[i].line, rc, s.text);
    }
}

#define CHECK(config, cases)                                                   \
    check_cases(config, cases, sizeof(cases) / sizeof(cases)[0])

TEST(lines_count_as_their_grammar_says)
{
    static const struct line_case cases[] = {
        {"a:1|c", STATSD_COUNTER, "a=1000000"},
        {"a:-2.5|m", STATSD_COUNTER, "a=-2500000"},
        {"a:-012|c", STATSD_COUNTER, "a=-12000000"},
        {"a:+7|c", STATSD_COUNTER, "a=7000000"},
        {"a:0|c", STATSD_COUNTER, "a=0"},
        {"a:999999999999|c", STATSD_COUNTER, "a=999999999999000000"},
        {"a:1234567890123|c", STATSD_COUNTER, "a=1234567890123000000"},
        {"a:100e-2|c", STATSD_COUNTER, "a=1000000"},
        {"a:1|c|@0.1", STATSD_COUNTER, "a=10000000"},
        {"a:1:2|c", STATSD_COUNTER, "a=1000000 a=2000000"},
        {"a:1|c:2|c", STATSD_COUNTER, "a=1000000 a=2000000"},
        {"a:1|c|@0.1:2|c", STATSD_COUNTER, "a=10000000 a=2000000"},
        {"a:1:2:3|ms", STATSD_TIMER,
         "a#1000000 a+1000000 a#1000000 a+2000000 a#1000000 a+3000000"},
        {"t:3|ms", STATSD_TIMER, "t#1000000 t+3000000"},
        {"t:3|h|@0.5", STATSD_TIMER, "t#2000000 t+6000000"},
        {"t:3|d", STATSD_TIMER, "t#1000000 t+3000000"},
        {"g:+2|g", STATSD_GAUGE, ""},
        {"s:any thing|s", STATSD_SET, ""},
        {"a:1|c:2|g", STATSD_COUNTER | STATSD_GAUGE, "a=1000000"},
        {"_e{5,4}:title|text", STATSD_EVENT, ""},
        {"_sc|name|0", STATSD_CHECK, ""},
        {"a b/c\xff:1|c", STATSD_COUNTER, "a b/c\xff=1000000"},
        {"a:1|c|#x:y:z,w|@0.5|T16|c:abc|e:1|card:low", STATSD_COUNTER,
         "a=2000000@16"},
        {"a:1|c|T1656581400", STATSD_COUNTER, "a=1000000@1656581400"},
        {"a:1|c|T1656581400|#x:2|@0.5", STATSD_COUNTER, "a=2000000@1656581400"},
        {"a:1|c:2|c|T7", STATSD_COUNTER, "a=1000000@7 a=2000000@7"},
        {"a:1|c|T5:2", STATSD_COUNTER, "a=1000000"},
        {"a:1|c|T", STATSD_COUNTER, "a=1000000"},
        {"a:1|c|T-5", STATSD_COUNTER, "a=1000000"},
        {"a:1|c|Tomorrow", STATSD_COUNTER, "a=1000000"},
        {"a:1|c|T99999999999999999999", STATSD_COUNTER, "a=1000000"},
    };

    CHECK(&drop_tags, cases);
}

TEST(a_malformed_line_counts_nothing)
{
    static const char *const lines[] = {"a",
                                        "a:",
                                        "a:1",
                                        "a:|c",
                                        ":1|c",
                                        "a|c",
                                        "a:1|",
                                        "a:1|C",
                                        "a:1|x",
                                        "a:1|cc",
                                        "a:1|c|",
                                        "a:1|c||",
                                        "a:1|c|junk",
                                        "a:1|c |@1",
                                        "a: 1|c",
                                        "a:0x1|c",
                                        "a:nan|c",
                                        "a:x|c",
                                        "a:Infinity|c",
                                        "a:1 |c",
                                        "a:1e|c",
                                        "a:1|c|@0x1",
                                        "a:1|c|@nan",
                                        "a:1|c:2|z",
                                        "a:1|c|@0",
                                        "a:1|c|@2",
                                        "a:1|c|@",
                                        "a:1|c|0.1",
                                        "a:1|c|@-1",
                                        "a:1|c|@.5|@.5",
                                        "a:1:|c",
                                        "a::1|c",
                                        "a:1|c:",
                                        "a:1|c:2",
                                        "a:1|c:x|c",
                                        "t:-1|ms",
                                        "s:|s",
                                        "g:x|g",
                                        "a:1|c|@0.5:x|c",
                                        "a:1e30|c",
                                        "a:1|c|@1e-30",
                                        "t:1|ms|@1e-30",
                                        "a:-|c",
                                        "a:--1|c",
                                        "a:1-|c",
                                        "a:1:2c",
                                        "a:9223372036854775808|c"};
    struct shown s;

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (take_line(&drop_tags, lines[i], &s) != -EBADMSG)
            fail_msg("%s is malformed", lines[i]);
}

TEST(names_have_bounds)
{
    char line[300];
    struct shown s;
    const char *why;

    memset(line, 'n', sizeof line);
    memcpy(line + 256, ":1|c", 5);
    assert_int_equal(take_line(&drop_tags, line, &s), STATSD_COUNTER);
    memset(line, 'n', sizeof line);
    memcpy(line + 257, ":1|c", 5);
    assert_rc(take_line(&drop_tags, line, &s), -EBADMSG);
    assert_rc(
        statsd_line(&drop_tags, (const uint8_t *)"a\0b:1|c", 7, NULL, &why),
        -EBADMSG);
}

TEST(tags_are_sorted_into_the_key_when_asked_for)
{
    static const struct line_case cases[] = {
        {"a:1|c|#x:1,b:2", STATSD_COUNTER, "a;b=2;x=1=1000000"},
        {"a:1|c|#b:2,x:1,b:2", STATSD_COUNTER, "a;b=2;x=1=1000000"},
        {"a:1|c|#x", STATSD_COUNTER, "a;x==1000000"},
        {"a:1|c|#k:v:w,p;q:r", STATSD_COUNTER, "a;k=v:w;p_q=r=1000000"},
        {"a:1|c|#", STATSD_COUNTER, "a=1000000"},
        {"a:1|c|#,,", STATSD_COUNTER, "a=1000000"},
        {"a:1|c|@0.5|#k:v", STATSD_COUNTER, "a;k=v=2000000"},
        {"a:1|c|#k:v|@0.5", STATSD_COUNTER, "a;k=v=2000000"},
        {"a:1|c|#toolong:0123456789abcdef", -EBADMSG, ""},
    };

    CHECK(&append_tags, cases);
}

TEST(graphite_lines_count_where_a_pattern_says_so)
{
    static const char patterns[] = "stats_counts.* stats.counters.*.count";
    static const struct {
        const char *line, *name;
        int rc;
        int64_t millionths, at;
    } cases[] = {
        {"stats_counts.a 1 -1", "a", CARBON_COUNTED, 1000000, -1},
        {" stats_counts.b.c \t 7 1795301760  \r", "b.c", CARBON_COUNTED,
         7000000, 1795301760},
        {"stats.counters.web.hits.count 3.3333333333333335 1.9", "web.hits",
         CARBON_COUNTED, 3333333, 1},
        {"stats_counts.a 1 1e30", "a", CARBON_COUNTED, 1000000, -1},
        {"stats.counters.a.rate 1 1", "", CARBON_IGNORED, 0, 0},
        {"stats.counters.count 1 1", "", CARBON_IGNORED, 0, 0},
        {"stats_counts. 1 1", "", CARBON_IGNORED, 0, 0},
        {"stats.gauges.a nan 1", "", CARBON_IGNORED, 0, 0},
        {"stats_counts.a nan 1", "", -EBADMSG, 0, 0},
        {"stats_counts.a 1", "", -EBADMSG, 0, 0},
        {"stats_counts.a 1 2 3", "", -EBADMSG, 0, 0},
        {"stats_counts.a 1 now", "", -EBADMSG, 0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct carbon_sample c = {.name = (const uint8_t *)""};
        const char *why;
        const int rc = carbon_line(patterns, (const uint8_t *)cases[i].line,
                                   strlen(cases[i].line), &c, &why);

        if (rc != cases[i].rc || (int64_t)c.millionths != cases[i].millionths ||
            c.at != cases[i].at || c.name_size != strlen(cases[i].name) ||
            memcmp(c.name, cases[i].name, c.name_size) != 0)
            fail_msg("%s", cases[i].line);
    }
}

TEST(a_pattern_has_one_star)
{
    const char *wrong;
    size_t size;

    assert_rc(carbon_check_patterns("", &wrong, &size), 0);
    assert_rc(carbon_check_patterns(" a.* *.b  c*d ", &wrong, &size), 0);
    assert_rc(carbon_check_patterns("a.* b.c", &wrong, &size), -EINVAL);
    assert_int_equal(size, 3);
    assert_rc(carbon_check_patterns("a.*.*", &wrong, &size), -EINVAL);
}
