/* tests/unit/test_graphite_regular.c - regular expressions for names. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "reader/graphite/regular.h"
#include "tests/lib/random.h"

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
    size_t work = REGULAR_WORK_MAX;
    char *at = shown;

    if (regular_search(r, text_of(text), 0, &work, &found) != 1)
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
        {"x{,2}", "xxx", "xx"},
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
    static const char *const rows[] = {
        "(",
        ")",
        "a)",
        "(a",
        "[",
        "[a",
        "*",
        "a**",
        "+a",
        "a|*",
        "\\",
        "[b-a]",
        "\\1",
        "\\q",
        "(?=a)",
        "(?P<n>a)",
        "a{2,1}",
        "a{300}",
        "a{2,0}",
        "a{1,300}",
        "a{0}",
        "((a{200}){200}){200}",
        "(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)",
        "((((((((((((((((((((((((((((((((((((((((a"};

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

/* Where other engines try each way on its own. */
TEST(no_expression_takes_long)
{
    static char text[3000];
    struct regular_found found;
    size_t work = REGULAR_WORK_MAX;

    scratch_init(&scratch, (size_t)64 << 20);
    memset(text, 'a', sizeof text - 1);
    assert_rc(regular_search(compile_text("(a*)*(a|aa)*b"), text_of(text), 0,
                             &work, &found),
              0);
    assert_in_range(work, 1, REGULAR_WORK_MAX - 3000);
    work = 1000;
    assert_rc(regular_search(compile_text("(a*)*(a|aa)*b"), text_of(text), 0,
                             &work, &found),
              -E2BIG);
    scratch_free(&scratch);
}

static void
put_random(struct random *random, char *text, unsigned parts)
{
    static const char *const pieces[] = {
        "a",    "b",    "c",        ".",  "a*", "b?", "(a|b)", "(ab|c)*",
        "[ab]", "[^a]", "(a?b){2}", "c+", "^",  "$",  "(b|)",  "|"};

    text[0] = '\0';
    while (parts-- > 0)
        strcat(text, pieces[random_below(random, COUNT(pieces))]);
}

/* Which texts have a match at all is the same by POSIX. */
TEST(texts_with_a_match_are_those_of_libc)
{
    struct random random = {random_seed("regular expressions")};

    for (int i = 0; i < 3000; i++) {
        char expression[128], text[16];
        struct regular_found found;
        struct regular *r;
        regex_t posix;

        put_random(&random, expression, 1 + (unsigned)random_below(&random, 5));
        scratch_init(&scratch, (size_t)64 << 20);
        r = compile_text(expression);
        assert_int_equal(regcomp(&posix, expression, REG_EXTENDED | REG_NOSUB),
                         0);
        for (int n = 0; n < 20; n++) {
            const size_t size = random_below(&random, 8);
            size_t work = REGULAR_WORK_MAX;
            int expected;

            for (size_t k = 0; k < size; k++)
                text[k] = "abcd"[random_below(&random, 4)];
            text[size] = '\0';
            expected = regexec(&posix, text, 0, NULL, 0) == 0;
            if (regular_search(r, text_of(text), 0, &work, &found) != expected)
                fail_msg("%s in %s: not %d", expression, text, expected);
        }
        regfree(&posix);
        scratch_free(&scratch);
    }
}
