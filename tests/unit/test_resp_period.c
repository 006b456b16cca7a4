/* tests/unit/test_resp_period.c - the times that the end of a name means. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <string.h>

#include "reader/resp/resp_internal.h"

/* The first second of a minute: steps of history end there. */
#define NOW 1800000000

static bool
parse_name(const char *name, struct resp_period *out)
{
    return resp_period_parse(
        &(struct resp_arg){(const uint8_t *)name, (uint32_t)strlen(name)}, NOW,
        out);
}

TEST(a_period_ends_behind_the_current_second)
{
    static const struct {
        const char *name;
        int64_t seconds;
    } rows[] = {
        {"a@1m", 60}, {"a@2h", 7200}, {"a@7d", 604800}, {"a@1w", 604800}};
    struct resp_period p;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(parse_name(rows[i].name, &p));
        assert_int_equal(p.name_size, 1);
        assert_true(p.from == NOW - rows[i].seconds);
        assert_true(p.to > NOW);
    }
}

TEST(a_date_is_that_day)
{
    struct resp_period p;

    assert_true(parse_name("page@views@2001-01-02", &p));
    assert_int_equal(p.name_size, 10);
    assert_true(p.from == 978393600);
    assert_true(p.to == 978480000);
}

TEST(other_names_have_no_period)
{
    static const char *const names[] = {
        "a",    "@7d",   "a@",    "a@7",          "a@d",          "a@0d",
        "a@7x", "a@-7d", "a@+7d", "a@2001-02-29", "a@2001- 1- 2", "a@2001-1-2"};
    struct resp_period p;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_false(parse_name(names[i], &p));
}
