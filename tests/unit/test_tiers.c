/* tests/unit/test_tiers.c - the settings history and history.NAME. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "common/setup/config.h"
#include "common/setup/tiers.h"

#define DAY 1440u

TEST(the_default_is_minutes_hours_and_days)
{
    struct config c;
    const struct tiers *t = &c.history.all;

    config_defaults(&c);
    assert_int_equal(t->count, 3);
    assert_int_equal(t->tier[0].step, 1);
    assert_int_equal(t->tier[0].period, 60);
    assert_int_equal(t->tier[0].keep, 2 * DAY);
    assert_int_equal(t->tier[1].step, 60);
    assert_int_equal(t->tier[1].period, DAY);
    assert_int_equal(t->tier[1].keep, 90 * DAY);
    assert_int_equal(t->tier[2].step, DAY);
    assert_int_equal(t->tier[2].period, 32 * DAY);
    assert_int_equal(t->tier[2].keep, 3650 * DAY);
}

TEST(a_period_lies_in_one_step_of_the_next_tier)
{
    static const struct {
        const char *text;
        uint32_t period;
    } cases[] = {{"1m:2d", 60},       {"5m:2d", 60},
                 {"6h:9d", DAY},      {"1m:2d,1d:9d", 60},
                 {"5m:2d,1h:9d", 60}, {"1d:9d,7d:1y", 7 * DAY},
                 {"7d:9d", 224 * DAY}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tiers t;
        const char *why;

        assert_rc(tiers_parse(cases[i].text, &t, &why), 0);
        assert_int_equal(t.tier[0].period, cases[i].period);
    }
}

TEST(what_makes_no_sense_is_refused)
{
    static const char *const bad[] = {"",
                                      "1m",
                                      "1m:",
                                      "1m:2",
                                      "m:2d",
                                      "7m:2d",
                                      "5h:2d",
                                      "25h:9d",
                                      "1h:1m",
                                      "1h:2d,1m:9d",
                                      "1m:2d,",
                                      "1h:9d,1d:2d",
                                      "0m:2d",
                                      "1m:101y",
                                      "1m:2d;",
                                      "on",
                                      "1h:2d,90m:9d",
                                      "1m:1d,2m:1d,4m:1d,12m:1d,1h:1d",
                                      " 1m:2d"};
    struct tiers t;
    const char *why;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tiers_parse(bad[i], &t, &why) != -EINVAL || strlen(why) < 8)
            fail_msg("%s is taken", bad[i]);
}

static uint32_t
keep_of(const struct config *c, const char *name)
{
    const struct tiers *t =
        tiers_of(&c->history, (const uint8_t *)name, strlen(name));

    return t->count > 0 ? t->tier[0].keep / DAY : 0;
}

TEST(the_name_counts_before_the_longest_pattern)
{
    static const char text[] = "history = 1h:1d\n"
                               "history.web.* = 1h:2d\n"
                               "history.web.pages.* = 1h:3d\n"
                               "history.web.pages.a = 1h:4d\n"
                               "history.tmp* = off\n"
                               "history.a\\x20b = 1h:5d\n"
                               "history.web.* = 1h:6d\n";
    struct config c;
    char why[CONFIG_WHY_SIZE];

    config_defaults(&c);
    assert_rc(config_text(&c, text, strlen(text), "f", why), 0);
    assert_int_equal(keep_of(&c, "other"), 1);
    assert_int_equal(keep_of(&c, "web."), 6);
    assert_int_equal(keep_of(&c, "web.pages"), 6);
    assert_int_equal(keep_of(&c, "web.pages.b"), 3);
    assert_int_equal(keep_of(&c, "web.pages.a"), 4);
    assert_int_equal(keep_of(&c, "tmp"), 0);
    assert_int_equal(keep_of(&c, "a b"), 5);
    assert_rc(config_set(&c, "history.", "off", why), -EINVAL);
    assert_rc(config_set(&c, "history.max", "1G", why), 0);
    assert_int_equal(c.history_max, 1 << 30);
    assert_rc(config_set(&c, "history", "1x:2d", why), -EINVAL);
    assert_has(why, "history");
}
