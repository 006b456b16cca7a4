/* tests/unit/test_resp.c - requests of Redis clients are read wherever they are
 * cut, and answers are written exactly. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "reader/resp/resp.h"

static struct resp_request request;

static enum resp_parsed
parse_text(const char *text)
{
    return resp_parse((const uint8_t *)text, strlen(text), &request);
}

/* The arguments with a bar after each. */
static const char *
format_arguments(void)
{
    static char text[256];
    size_t at = 0;

    for (size_t i = 0; i < request.count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%.*s|",
                               (int)request.args[i].size,
                               (const char *)request.args[i].at);
    text[at] = '\0';
    return text;
}

static void
expect_request(const char *text, size_t size, const char *args)
{
    assert_int_equal(parse_text(text), RESP_WHOLE);
    assert_int_equal(request.size, size);
    assert_string_equal(format_arguments(), args);
}

static void
expect_bad(const char *text, const char *why)
{
    assert_int_equal(parse_text(text), RESP_BAD);
    assert_string_equal(request.why, why);
}

TEST(arrays_and_lines_are_requests)
{
    expect_request("*1\r\n$4\r\nPING\r\n*1\r\n", 14, "PING|");
    expect_request("*3\r\n$3\r\nGET\r\n$0\r\n\r\n$2\r\n\r\n\r\n", 27,
                   "GET||\r\n|");
    expect_request("PING\r\nx", 6, "PING|");
    expect_request("PING\n", 5, "PING|");
    expect_request(" \tincr   a\t1 \r\n", 15, "incr|a|1|");
    expect_request("*0\r\n", 4, "");
    expect_request("*-1\r\n", 5, "");
    expect_request("\r\n", 2, "");
    expect_request("\n", 1, "");
}

static void
expect_line(const char *text, const char *args)
{
    expect_request(text, strlen(text), args);
}

/* As redis-server 7.0 splits these lines. */
TEST(words_of_a_line_may_be_quoted)
{
    expect_line("echo \"a b\"\r\n", "echo|a b|");
    expect_line("echo 'a b' \"\" ''\r\n", "echo|a b|||");
    expect_line("echo \"a\\\"b\\\\\\n\\x41\\q\" c\r\n", "echo|a\"b\\\nAq|c|");
    expect_line("echo 'a\\'b\\n' x\r\n", "echo|a'b\\n|x|");
    expect_line("echo a\"b c\" d\\\r\n", "echo|ab c|d\\|");
    expect_line("echo \"\\xg1\\x4\" 'it\"s'\r\n", "echo|xg1x4|it\"s|");
}

TEST(a_request_is_partial_until_its_last_byte)
{
    static const char *const whole[] = {
        "*3\r\n$7\r\nZINCRBY\r\n$1\r\nb\r\n$2\r\n-1\r\n", "incrby key 10\r\n",
        "*-1\r\n", "*0\r\n"};

    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        const size_t size = strlen(whole[i]);

        for (size_t cut = 0; cut < size; cut++) {
            assert_int_equal(
                resp_parse((const uint8_t *)whole[i], cut, &request),
                RESP_PARTIAL);
            assert_in_range(request.need, cut + 1, size);
        }
        assert_int_equal(resp_parse((const uint8_t *)whole[i], size, &request),
                         RESP_WHOLE);
        assert_int_equal(request.size, size);
    }
}

TEST(what_is_no_request_is_refused_with_its_reason)
{
    static char line[RESP_INLINE_MAX + 2];

    expect_bad("*01\r\n$4\r\nPING\r\n", "invalid multibulk length");
    expect_bad("*1\r\n$04\r\nPING\r\n", "invalid bulk length");
    expect_bad("*1\r\n$4x\nPING\r\n", "invalid bulk length");
    expect_bad("*x\r\n", "invalid multibulk length");
    expect_bad("*01\r\n", "invalid multibulk length");
    expect_bad("*4101\r\n", "invalid multibulk length");
    expect_bad("*1\rx", "invalid multibulk length");
    expect_bad("*1111111111111111111111111111", "invalid multibulk length");
    expect_bad("*1\r\n$x\r\n", "invalid bulk length");
    expect_bad("*1\r\n$-1\r\n", "invalid bulk length");
    expect_bad("*1\r\n$65537\r\n", "invalid bulk length");
    expect_bad("*1\r\n+OK\r\n", "expected '$', got '+'");
    expect_bad("*1\r\n\x01", "expected '$', got '?'");
    expect_bad("*1\r\n$4\r\nPINGxx", "expected CRLF after bulk");
    expect_bad("*1\r\n$4\r\nPINGx", "expected CRLF after bulk");
    expect_bad("set a \"b\r\n", "unbalanced quotes in request");
    expect_bad("set a 'b\r\n", "unbalanced quotes in request");
    expect_bad("set a \"b\"c\r\n", "unbalanced quotes in request");
    expect_bad("set a \"b\\\"\r\n", "unbalanced quotes in request");
    expect_bad("\x16\x03\x01\r\nINCR k\r\n",
               "control byte in an inline command");
    expect_bad("INCR k\x01\r\n", "control byte in an inline command");
    memset(line, 'a', sizeof line - 1);
    expect_bad(line, "too big inline request");
    assert_int_equal(parse_text("*4100\r\n"), RESP_PARTIAL);
    assert_int_equal(parse_text("*1\r\n$65536\r\n"), RESP_PARTIAL);
}

TEST(an_http_request_is_recognised)
{
    assert_int_equal(parse_text("POST / HTTP/1.1\r\n"), RESP_HTTP);
    assert_int_equal(parse_text("GET /x HTTP/1.0\r\n"), RESP_HTTP);
    assert_int_equal(parse_text("OPTIONS * HTTP/1.1\n"), RESP_HTTP);
    assert_int_equal(parse_text("Host: x\r\n"), RESP_HTTP);
    assert_int_equal(parse_text("GET HTTP\r\n"), RESP_WHOLE);
}

TEST(integers_are_strict)
{
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      "01",
                                      "-0",
                                      "1.0",
                                      "1 ",
                                      " 1",
                                      "x",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809"};
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"7", 7},
                {"-12", -12},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    int64_t value;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct resp_arg a = {(const uint8_t *)bad[i],
                                   (uint32_t)strlen(bad[i])};

        if (resp_integer(&a, &value))
            fail_msg("\"%s\" is not an integer", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const struct resp_arg a = {(const uint8_t *)good[i].text,
                                   (uint32_t)strlen(good[i].text)};

        assert_true(resp_integer(&a, &value));
        assert_int_equal(value, good[i].value);
    }
}

static bool
is_match(const char *pattern, const char *name)
{
    static struct resp_pattern p;

    assert_true(
        resp_pattern_compile(&p, (const uint8_t *)pattern, strlen(pattern)));
    return resp_pattern_matches(&p, (const uint8_t *)name, strlen(name));
}

TEST(patterns_match_as_in_redis)
{
    assert_true(is_match("*", ""));
    assert_true(is_match("a*c*e", "abcde"));
    assert_true(is_match("a?c", "abc"));
    assert_true(is_match("[a-c]x", "bx"));
    assert_true(is_match("[^a-c]x", "dx"));
    assert_true(is_match("[c-a]x", "bx"));
    assert_true(is_match("a\\*", "a*"));
    assert_true(is_match("[\\]]", "]"));
    assert_true(is_match("a**c", "abc"));
    assert_true(is_match("[\\a-c]", "-"));
    assert_false(is_match("[\\a-c]", "b"));
    assert_true(is_match("[a-", "a"));
    assert_true(is_match("a[", "a") == is_match("[", ""));
    assert_true(is_match("\\", "\\"));
    assert_true(is_match("[^]x", "bx"));
    assert_false(is_match("[]x", "bx"));
    assert_false(is_match("", "a"));
    assert_false(is_match("a*c", "abd"));
    assert_false(is_match("a\\*", "ab"));
    assert_false(is_match("[a-c]", "d"));
    assert_false(is_match("a?", "a"));
    /* Linear for a name, not exponential. */
    assert_false(
        is_match("*a*a*a*a*a*a*a*a*a*a*b",
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST(numbers_and_bulks_are_written_exactly)
{
    uint8_t out[64];
    size_t size;

    size = resp_put_number(out, ':', INT64_MIN);
    assert_memory_equal(out, ":-9223372036854775808\r\n", size);
    assert_int_equal(size, 23);
    size = resp_put_number(out, '*', 0);
    assert_memory_equal(out, "*0\r\n", size);
    size = resp_put_bulk(out, "ab", 2);
    assert_int_equal(size, 8);
    assert_memory_equal(out, "$2\r\nab\r\n", size);
    size = resp_put_number_bulk(out, INT64_MAX);
    assert_int_equal(size, 26);
    assert_memory_equal(out, "$19\r\n9223372036854775807\r\n", size);
    assert_int_equal(resp_put_bulk(out, NULL, 0), 6);
    for (int64_t value = -1001; value <= 1001; value++) {
        char text[16];

        (void)snprintf(text, sizeof text, "%c%lld\r\n", ':', (long long)value);
        size = resp_put_number(out, ':', value);
        assert_int_equal(size, strlen(text));
        assert_memory_equal(out, text, size);
    }
}
