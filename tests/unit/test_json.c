/* tests/unit/test_json.c - JSON read token by token, and written. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/json_plain.h"
#include "common/wire/json_read.h"
#include "common/wire/json_write.h"

/* What a text's tokens are, one letter each; "!": it is refused there. */
static void
spell_bytes(const void *text, size_t size, char *to, size_t max)
{
    static const char letters[] = "e{}[]mstTFN!"; /* as enum json_token */
    struct json_reader r;
    enum json_token token;
    size_t n = 0;

    json_read_init(&r, text, size);
    do {
        token = json_next(&r);
        assert_true(n + 1 < max);
        to[n++] = letters[token];
        if (token == JSON_STRING || token == JSON_MEMBER ||
            token == JSON_NUMBER) {
            assert_true(r.text >= (const uint8_t *)text);
            assert_true(r.text + r.size <= (const uint8_t *)text + size);
        }
    } while (token != JSON_END && token != JSON_BAD);
    to[n] = '\0';
    assert_int_equal(token == JSON_BAD, r.why != NULL);
    if (token == JSON_BAD)
        assert_int_equal(json_next(&r), JSON_BAD);
}

static const struct {
    const char *text, *tokens;
} texts[] = {
    /* what it takes */
    {"{}", "{}e"},
    {"[]", "[]e"},
    {" \t\r\n[ ] \n", "[]e"},
    {"1", "te"},
    {"\"\"", "se"},
    {"true", "Te"},
    {"[true,false,null]", "[TFN]e"},
    {"{\"a\":1,\"b\":[2,{}],\"c\":\"d\"}", "{mtm[t{}]ms}e"},
    {"{\"a\":1,\"a\":2}", "{mtmt}e"},
    {"-0", "te"},
    {"0.5e-7", "te"},
    {"1E+2", "te"},
    {"123456789012345678901234567890", "te"},
    {"\"\\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u00e9 \\ud83d\\ude00\"", "se"},
    {"\"\x7f \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf\"", "se"},
    {"[[[[[[[[]]]]]]]]", "[[[[[[[[]]]]]]]]e"},
    /* what it refuses, and where */
    {"", "!"},
    {" ", "!"},
    {"[", "[!"},
    {"]", "!"},
    {"{", "{!"},
    {"[1", "[t!"},
    {"[1,", "[t!"},
    {"[1,]", "[t!"},
    {"[,1]", "[!"},
    {"[1 2]", "[t!"},
    {"[1}", "[t!"},
    {"{\"a\"}", "{!"},
    {"{\"a\":}", "{m!"},
    {"{\"a\":1,}", "{mt!"},
    {"{,}", "{!"},
    {"{a:1}", "{!"},
    {"{'a':1}", "{!"},
    {"{\"a\" 1}", "{!"},
    {"{\"a\":1]", "{mt!"},
    {"{1:2}", "{!"},
    {"1 2", "t!"},
    {"{} {}", "{}!"},
    {"[]]", "[]!"},
    {"[[[[[[[[[]]]]]]]]]", "[[[[[[[[!"},
    {"tru", "!"},
    {"True", "!"},
    {"nul", "!"},
    {"NaN", "!"},
    {"Infinity", "!"},
    {"-Infinity", "!"},
    {"truefalse", "T!"},
    {"01", "t!"},
    {"-01", "t!"},
    {"+1", "!"},
    {".5", "!"},
    {"1.", "!"},
    {"1.e2", "!"},
    {"1e", "!"},
    {"1e+", "!"},
    {"-", "!"},
    {"0x1", "t!"},
    {"1_000", "t!"},
    {"// a comment\n1", "!"},
    {"1 // a comment", "t!"},
    {"/**/1", "!"},
    {"\"", "!"},
    {"\"a", "!"},
    {"\"\\\"", "!"},
    {"\"\\", "!"},
    {"\"\\x41\"", "!"},
    {"\"\\'\"", "!"},
    {"\"\\u12\"", "!"},
    {"\"\\u123g\"", "!"},
    {"\"\\ud800\"", "!"},
    {"\"\\udc00\"", "!"},
    {"\"\\ud800\\u0041\"", "!"},
    {"\"\\ud800\\ud800\"", "!"},
    {"\"\\ud83d\\n\"", "!"},
    {"\"\\ud83d\\ude0\"", "!"},
    {"\"a\nb\"", "!"},
    {"\"a\tb\"", "!"},
    {"\"\x1f\"", "!"},
    {"\"\x80\"", "!"},
    {"\"\xc3\"", "!"},
    {"\"\xc0\xaf\"", "!"},
    {"\"\xe0\x80\xaf\"", "!"},
    {"\"\xe2\x82\"", "!"},
    {"\"\xed\xa0\x80\"", "!"},
    {"\"\xf0\x80\x80\xaf\"", "!"},
    {"\"\xf4\x90\x80\x80\"", "!"},
    {"\"\xf8\x88\x80\x80\x80\"", "!"},
    {"\"\xff\"", "!"},
    {"\xef\xbb\xbf{}", "!"},
    {"\x0b[]", "!"},
    {"[]\x0c", "[]!"},
};

TEST(it_takes_json_and_nothing_else)
{
    char tokens[64];

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *want = texts[i].tokens;

        spell_bytes(texts[i].text, strlen(texts[i].text), tokens,
                    sizeof tokens);
        if (strcmp(tokens, want) != 0)
            fail_msg("%s: %s, not %s", texts[i].text, tokens, want);
    }
    spell_bytes("\"\0\"", 3, tokens, sizeof tokens);
    assert_string_equal(tokens, "!");
    spell_bytes("[]\0", 3, tokens, sizeof tokens);
    assert_string_equal(tokens, "[]!");
}

/* Nothing behind the end is read: the copy ends there (sanitizers). */
TEST(each_beginning_is_refused_or_whole)
{
    char tokens[64];

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (size_t size = 0; size < strlen(texts[i].text); size++) {
            char *copy = malloc(size > 0 ? size : 1);

            assert_non_null(copy);
            memcpy(copy, texts[i].text, size);
            spell_bytes(copy, size, tokens, sizeof tokens);
            free(copy);
        }
}

TEST(strings_are_unescaped)
{
    static const char text[] =
        "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac"
        "\\ud83d\\ude00\xc3\xa9\"";
    static const char want[] =
        "a\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9";
    const int size = sizeof want - 1;
    struct json_reader r;
    uint8_t to[64];

    json_read_init(&r, text, sizeof text - 1);
    assert_int_equal(json_next(&r), JSON_STRING);
    assert_int_equal(json_unescape(r.text, r.size, to, sizeof to), size);
    assert_memory_equal(to, want, size);
    assert_int_equal(json_unescape(r.text, r.size, to, (size_t)size), size);
    assert_rc(json_unescape(r.text, r.size, to, (size_t)size - 1),
              -ENAMETOOLONG);
}

TEST(a_member_is_known_by_its_characters)
{
    static const char text[] = "{\"key\":1,\"\\u006bey\":2,\"keys\":3}";
    static const bool is[] = {true, true, false};
    struct json_reader r;

    json_read_init(&r, text, sizeof text - 1);
    assert_int_equal(json_next(&r), JSON_OBJECT);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(json_next(&r), JSON_MEMBER);
        assert_int_equal(json_is(&r, "key"), is[i]);
        assert_int_equal(json_next(&r), JSON_NUMBER);
    }
}

/* ---- writing ------------------------------------------------------------ */

static void
write_all(struct json_writer *w, void *buffer, size_t size)
{
    json_write_init(w, buffer, size);
    json_begin(w, '{');
    json_member(w, "a");
    json_integer(w, INT64_MIN);
    json_member(w, "b");
    json_text(w, "\"\\\x01\n\xc3\xa9");
    json_member(w, "c");
    json_begin(w, '[');
    json_literal(w, "true");
    json_literal(w, "null");
    json_end(w, ']');
    json_member(w, "rows");
    json_begin(w, '[');
    json_row(w);
    json_member(w, "key");
    json_name(w, (const uint8_t *)"\xff\t\\\"", 4);
    json_end(w, '}');
    json_row(w);
    json_member(w, "n");
    json_integer(w, INT64_MAX);
    json_end(w, '}');
    json_end(w, ']');
    json_member(w, "d");
    json_literal(w, "false");
    json_end(w, '}');
    json_bytes(w, "\n", 1);
}

TEST(what_is_written_is_json_or_nothing)
{
    static const char want[] =
        "{\"a\": -9223372036854775808, \"b\": "
        "\"\\\"\\\\\\u0001\\u000a\xc3\xa9\", "
        "\"c\": [true, null], \"rows\": [\n"
        " {\"key\": \"\\\\xff\\\\t\\\\\\\\\\\"\"},\n"
        " {\"n\": 9223372036854775807}], \"d\": false}\n";
    struct json_writer w;
    uint8_t buffer[512];
    char tokens[64];

    write_all(&w, buffer, sizeof buffer);
    assert_int_equal(json_write_size(&w), sizeof want - 1);
    assert_memory_equal(buffer, want, sizeof want - 1);
    spell_bytes(buffer, sizeof want - 1, tokens, sizeof tokens);
    assert_string_equal(tokens, "{mtmsm[TN]m[{ms}{mt}]mF}e");
    write_all(&w, buffer, sizeof want - 1);
    assert_int_equal(json_write_size(&w), sizeof want - 1);
    for (size_t size = 0; size < sizeof want - 1; size++) {
        memset(buffer, 'x', sizeof buffer);
        write_all(&w, buffer, size);
        assert_int_equal(json_write_size(&w), 0);
        assert_int_equal(buffer[size], 'x');
    }
}

/* Whether a name with this byte is written as it is. */
static bool
is_written_as_it_is(int c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

TEST(a_byte_that_needs_an_escape_is_seen_at_each_place_and_beside_any_other)
{
    static const uint8_t beside[] = {' ', '!', '#', '[', ']', 'a', '~'};
    uint8_t name[20], to[2 + sizeof name];

    for (size_t size = 0; size <= sizeof name; size++)
        for (size_t at = 0; at < size * sizeof beside; at++)
            for (int c = 0; c <= 0xff; c++) {
                uint8_t *end;

                memset(name, beside[at / size], size);
                name[at % size] = (uint8_t)c;
                end = json_put_plain(to, name, size);
                assert_int_equal(end != NULL, is_written_as_it_is(c));
                if (!end)
                    continue;
                assert_ptr_equal(end, to + size + 2);
                assert_memory_equal(to + 1, name, size);
                assert_true(to[0] == '"' && to[size + 1] == '"');
            }
    assert_ptr_equal(json_put_plain(to, name, 0), to + 2);
}

TEST(integers_have_their_digits_at_each_length)
{
    char want[32];
    uint8_t to[JSON_DIGITS_MAX];

    for (uint64_t power = 1; power <= INT64_MAX; power *= 10) {
        for (uint64_t i = 0; i < 300; i++) {
            const int64_t number = (int64_t)((power - 1 + i * i) & INT64_MAX) *
                                   (i % 2 == 0 ? 1 : -1);
            const int size = snprintf(want, sizeof want, "%" PRId64, number);

            assert_int_equal(decimal_put_signed(to, number) - to, size);
            assert_memory_equal(to, want, (size_t)size);
        }
        if (power == UINT64_C(1000000000000000000))
            break; /* the last in int64 */
    }
    assert_int_equal(decimal_put_signed(to, INT64_MIN) - to, 20);
    assert_memory_equal(to, "-9223372036854775808", 20);
    assert_int_equal(decimal_put_signed(to, INT64_MAX) - to, 19);
    assert_memory_equal(to, "9223372036854775807", 19);
}
