/* tests/unit/test_graphite_regular.c - regular expressions for names. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reader/graphite/regular.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static struct scratch scratch;

static struct target_text
text_of(const char *text)
{
    return (struct target_text){text, strlen(text)};
}

static struct regular *
compile_text(const char *expression)
{
    struct regular *r;
    const char *why;

    if (regular_compile(&scratch, text_of(expression), &r, &why) < 0)
        fail_msg("%s: %s", expression, why);
    return r;
}

/* The match, with its groups behind it: "ab|a|-"; "none" without a match. */
static const char *
find_text(const char *expression, const char *text)
{
    static char shown[256];
    struct regular *r = compile_text(expression);
    struct regular_found found;
    char *at = shown;

    if (regular_search(r, text_of(text), 0, &found) != 1)
        return "none";
    for (unsigned i = 0; i < regular_groups(r); i++)
        at += found.begin[i] == SIZE_MAX
                  ? sprintf(at, "%s-", i > 0 ? "|" : "")
                  : sprintf(at, "%s%.*s", i > 0 ? "|" : "",
                            (int)(found.end[i] - found.begin[i]),
                            text + found.begin[i]);
    return shown;
}

TEST(what_is_found_is_what_python_finds)
{
    static const char *const rows[][3] = {
        {"b", "abc", "b"},
        {"^b", "abc", "none"},
        {"c$", "abc", "c"},
        {"", "abc", ""},
        {"a.c", "xabcx", "abc"},
        {"a.c",
         "a\xc3\xa9"
         "c",
         "a\xc3\xa9"
         "c"},
        {"^(.)", "\xc3\xa9t", "\xc3\xa9|\xc3\xa9"},
        {"[a-c]+", "xxabcabx", "abcab"},
        {"[^a-c]+", "abxya", "xy"},
        {"[]x]+", "a]x]b", "]x]"},
        {"[a\\]-]+", "x-]a", "-]a"},
        {"[\xc3\xa0-\xc3\xbf]", "a\xc3\xa9", "\xc3\xa9"},
        {"\\d+", "ab123c", "123"},
        {"[\\d.]+", "v1.2.3-x", "1.2.3"},
        {"\\w+$", "web.hits_1", "hits_1"},
        {"\\W", "web.hits", "."},
        {"\\S+\\s\\S+", "a  b c d", "b c"},
        {"\\D+", "12ab3", "ab"},
        {"a|ab", "abc", "a"},
        {"(a|ab)(c|bcd)", "abcd", "abcd|a|bcd"},
        {"a*", "baa", ""},
        {"a+", "baa", "aa"},
        {"a+?", "baa", "a"},
        {"<.*>", "<a><b>", "<a><b>"},
        {"<.*?>", "<a><b>", "<a>"},
        {"^(.*)\\.(.*)$", "a.b.c", "a.b.c|a.b|c"},
        {"^(.*?)\\.(.*)$", "a.b.c", "a.b.c|a|b.c"},
        {"(a)|(b)", "b", "b|-|b"},
        {"(?:a)(b)", "ab", "ab|b"},
        {"(ab)*c", "ababc", "ababc|ab"},
        {"(a|b)*?c", "abc", "abc|b"},
        {"a{2}", "aaa", "aa"},
        {"a{2,}", "baaaa", "aaaa"},
        {"a{1,2}", "aaa", "aa"},
        {"a{0,2}?b", "aab", "aab"},
        {"(ab){2}", "ababab", "abab|ab"},
        {"a{b", "a{b", "a{b"},
        {"a{1", "a{1", "a{1"},
        {"a{}", "a{}", "a{}"},
        {"\\bit\\b", "with it", "it"},
        {"\\bit", "bit", "none"},
        {"(?i)WEB", "aweb", "web"},
        {"(?i)[x-z]", "Y", "Y"},
        {"(?i)[X-Z]", "y", "y"},
        {"\\.\\*\\(\\)\\\\", "a.*()\\", ".*()\\"},
        {"a||b", "b", ""},
        {"^$", "", ""},
        {"(^.*$)", "any", "any|any"}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *got;

        scratch_init(&scratch, (size_t)64 << 20);
        got = find_text(rows[i][0], rows[i][1]);
        if (strcmp(got, rows[i][2]) != 0)
            fail_msg("%s in %s: %s, not %s", rows[i][0], rows[i][1], got,
                     rows[i][2]);
        scratch_free(&scratch);
    }
}

TEST(what_is_no_expression_is_refused)
{
    static const char *const rows[] = {"(",
                                       ")",
                                       "a)",
                                       "(a",
                                       "[",
                                       "[a",
                                       "*",
                                       "+a",
                                       "a|*",
                                       "\\",
                                       "[b-a]",
                                       "\\1",
                                       "\\q",
                                       "a{2,1}",
                                       "a{70000}",
                                       "\xff",
                                       "((a{2000}){2000}){2000}"};

    scratch_init(&scratch, (size_t)64 << 20);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct regular *r;
        const char *why = NULL;

        assert_rc(regular_compile(&scratch, text_of(rows[i]), &r, &why),
                  -EINVAL);
        assert_non_null(why);
    }
    scratch_free(&scratch);
}

TEST(no_expression_takes_long_or_much)
{
    static char text[3000];
    struct regular_found found;

    scratch_init(&scratch, (size_t)1 << 20);
    memset(text, 'a', sizeof text - 1);
    assert_rc(regular_search(compile_text("(a|aa)*(a|aa)*b"), text_of(text), 0,
                             &found),
              0); /* there is no b */
    assert_rc(regular_search(compile_text("(a|aa)*(a|aa)*[bc]"), text_of(text),
                             0, &found),
              -E2BIG);
    scratch_free(&scratch);
}

TEST(a_text_that_is_not_utf_8_has_no_match)
{
    struct regular_found found;

    scratch_init(&scratch, (size_t)1 << 20);
    assert_rc(regular_search(compile_text("a"), text_of("a\xff"), 0, &found),
              0);
    scratch_free(&scratch);
}
