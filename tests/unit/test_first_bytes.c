/* tests/unit/test_first_bytes.c - which first bytes are a browser's. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/first_bytes.h"

static const char *
browser_of(const char *bytes)
{
    return first_bytes_browser((const uint8_t *)bytes);
}

TEST(every_request_line_begins_with_eight_printable_bytes)
{
    /* RFC 9110, 5.6.2: the characters of a token. */
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz";
    static const char *const targets[] = {"/", "*", "/a?b=%00", "http://[::1]",
                                          "a:1"};
    char line[128];

    for (size_t at = 0; token[at] != '\0'; at++)
        for (size_t size = 1; size <= 64; size++)
            for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
                memset(line, token[at], size);
                (void)snprintf(line + size, sizeof line - size,
                               " %s HTTP/1.1\r\n", targets[t]);
                assert_non_null(browser_of(line));
            }
}

TEST(only_what_begins_as_a_request_is_called_http)
{
    static const char *const http[] = {"GET / HTTP", "OPTIONS * HTTP",
                                       "CONNECT h:1", "POST http://a",
                                       "PRI * HTTP/2"};
    static const char *const text[] = {
        "version\r\n",   "PROXY TCP4 ::1", "get abcd\r\n",    "a.b.c:1|c\n",
        "SSH-2.0-x\r\n", "pages\t/a\t1\n", "*1\r\n$4\r\nPING"};

    for (size_t i = 0; i < sizeof http / sizeof http[0]; i++)
        assert_string_equal(browser_of(http[i]), "HTTP");
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        assert_ptr_equal(browser_of(text[i]), first_bytes_text);
}

TEST(tls_and_stun_are_known)
{
    assert_string_equal(browser_of("\x16\x03\x01\x02\x00\x01\x00\x01"), "TLS");
    assert_string_equal(browser_of("\x16\x03\x03\x07\x04\x01\x00\x07"), "TLS");
    assert_string_equal(browser_of("\x00\x03\x00\x08\x21\x12\xa4\x42"), "STUN");
    assert_string_equal(browser_of("\x00\x54\x00\x01\x00\x40\x21\x12"), "STUN");
}

TEST(what_no_browser_sends_is_left_to_the_protocol)
{
    static const char *const others[] = {"\x90\x02\0\0\0\0\0\x10",
                                         "GET / H\0",
                                         "\0ET / HT",
                                         "\x7f\x7f\x7f\x7f    ",
                                         "\x10\x55\0\0\0\0\0\0",
                                         "\x16\x03\x01\0\0\0\0\0",
                                         "\x91\0\0\0\0\0\0\0"};
    static const int64_t numbers[] = {0,
                                      1,
                                      -1,
                                      INT64_MAX,
                                      INT64_MIN,
                                      0x20544547,
                                      1LL << 61,
                                      1LL << 62,
                                      10000000000000000,
                                      0x7f7f7f7f7f7f7f7f,
                                      (1LL << 56) - 1};
    char bytes[16];

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, others[i], FIRST_BYTES_SIZE);
        assert_null(browser_of(bytes));
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        put_le64s((uint8_t *)bytes, numbers[i]);
        assert_null(browser_of(bytes));
    }
}

TEST(the_two_parts_of_a_refused_increment_are_taken)
{
    static const char *const refused[] = {"GET / HT",
                                          "~~~~~~~~",
                                          "        ",
                                          "\x16\x03\x01\x02\x00\x01\x00\x7f",
                                          "\x00\x03\x00\x08\x21\x12\xa4\x42",
                                          "\x00\x54\x00\x01\x00\x40\x21\x12"};
    uint8_t bytes[FIRST_BYTES_SIZE];
    int64_t increment, high;

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_non_null(browser_of(refused[i]));
        increment = get_le64s((const uint8_t *)refused[i]);
        high = increment & FIRST_BYTES_HIGH_PART;
        put_le64s(bytes, high);
        assert_null(first_bytes_browser(bytes));
        put_le64s(bytes, increment & ~FIRST_BYTES_HIGH_PART);
        assert_null(first_bytes_browser(bytes));
        assert_true(high + (increment & ~FIRST_BYTES_HIGH_PART) == increment);
        assert_true(increment > 70000000000000000);
    }
}
