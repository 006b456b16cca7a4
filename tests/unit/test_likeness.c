/* tests/unit/test_likeness.c - which word is meant by a mistyped one. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <string.h>

#include "common/wire/likeness.h"

static const char *const words[] = {
    "top",     "total",       "get",          "keys",         "log.size",
    "log.max", "read.listen", "write.listen", "statsd.listen"};

static const char *
meant_by(const char *text)
{
    static char hint[LIKENESS_HINT_SIZE];
    struct likeness l = likeness_of(text);

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        likeness_try(&l, words[i]);
    return likeness_hint(&l, hint);
}

TEST(a_word_is_meant_by_one_that_is_nearly_it)
{
    assert_string_equal(meant_by("tpo"), " (did you mean top?)");
    assert_string_equal(meant_by("toop"), " (did you mean top?)");
    assert_string_equal(meant_by("key"), " (did you mean keys?)");
    assert_string_equal(meant_by("totla"), " (did you mean total?)");
    assert_string_equal(meant_by("logsize"), " (did you mean log.size?)");
    assert_string_equal(meant_by("reed.lisen"), " (did you mean read.listen?)");
    assert_string_equal(meant_by("max"), " (did you mean log.max?)");
    assert_string_equal(meant_by("size"), " (did you mean log.size?)");
}

TEST(no_word_is_meant_by_one_that_is_like_none)
{
    char text[LIKENESS_WORD_MAX + 2];

    assert_string_equal(meant_by(""), "");
    assert_string_equal(meant_by("to"), "");
    assert_string_equal(meant_by("colour"), "");
    assert_string_equal(meant_by("tppp"), "");
    memset(text, 't', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_string_equal(meant_by(text), "");
}
