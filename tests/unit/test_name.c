/* tests/unit/test_name.c - names as text and as file names. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/name.h"
#include "tests/lib/random.h"

static const uint8_t hash_key[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                     8, 9, 10, 11, 12, 13, 14, 15};

static void
assert_escapes_to(const char *name, size_t size, const char *expected)
{
    char text[NAME_TEXT_SIZE];
    uint8_t back[NAME_MAX_SIZE];

    assert_int_equal(name_escape((const uint8_t *)name, size, text),
                     strlen(expected));
    assert_string_equal(text, expected);
    assert_rc(name_unescape(text, strlen(text), back, sizeof back), size);
    assert_memory_equal(back, name, size);
}

TEST(printable_text_stays_as_it_is)
{
    assert_escapes_to("/index.html ~", 13, "/index.html ~");
    assert_escapes_to("\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80", 9,
                      "\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80");
}

TEST(what_a_terminal_would_obey_is_escaped)
{
    assert_escapes_to("\t\n\r\\", 4, "\\t\\n\\r\\\\");
    assert_escapes_to("\x1b[2J\x7f", 5, "\\x1b[2J\\x7f");
    assert_escapes_to("\xc2\x9b", 2, "\\xc2\\x9b");          /* C1 control */
    assert_escapes_to("\xe2\x80\xae", 3, "\\xe2\\x80\\xae"); /* RLO */
    assert_escapes_to("\xef\xbb\xbf", 3, "\\xef\\xbb\\xbf"); /* BOM */
}

TEST(what_cannot_be_seen_is_escaped)
{
    static const char *const hidden[] = {
        "\xc2\xad",         /* U+00AD, a soft hyphen */
        "\xcd\x8f",         /* U+034F, a joiner */
        "\xd8\x9c",         /* U+061C, a mark of direction */
        "\xe1\x85\x9f",     /* U+115F, a filler */
        "\xe1\xa0\x8e",     /* U+180E, a vowel separator */
        "\xe2\x80\x8b",     /* U+200B, no width */
        "\xe2\x81\xa6",     /* U+2066, an isolate */
        "\xef\xb7\x90",     /* U+FDD0, no character */
        "\xef\xbf\xb9",     /* U+FFF9, an annotation */
        "\xef\xbf\xbe",     /* U+FFFE, no character */
        "\xf0\x9f\xbf\xbf", /* U+1FFFF, no character */
        "\xf3\xa0\x80\x81", /* U+E0001, a tag */
        "\xf3\xa0\x81\xbf", /* U+E007F, the last tag */
    };
    char escaped[32], *at;

    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        at = escaped;
        for (const char *c = hidden[i]; *c != '\0'; c++)
            at += sprintf(at, "\\x%02x", (uint8_t)*c);
        assert_escapes_to(hidden[i], strlen(hidden[i]), escaped);
    }
    /* Their neighbours, and a heart as an emoji. */
    assert_escapes_to("\xc2\xac\xc2\xae", 4, "\xc2\xac\xc2\xae");
    assert_escapes_to("\xef\xbf\xbd", 3, "\xef\xbf\xbd");
    assert_escapes_to("\xe2\x9d\xa4\xef\xb8\x8f", 6,
                      "\xe2\x9d\xa4\xef\xb8\x8f");
}

TEST(what_is_shown_in_a_message_is_cut_and_escaped)
{
    char text[NAME_SHOWN_SIZE];
    uint8_t many[NAME_SHOWN_MAX + 1];

    assert_string_equal(name_show("a\tb", 3, text), "a\\tb");
    memset(many, 1, sizeof many);
    assert_int_equal(strlen(name_show(many, sizeof many, text)),
                     NAME_SHOWN_SIZE - 1);
    assert_memory_equal(text + NAME_SHOWN_SIZE - 8, "\\x01...", 8);
}

TEST(what_is_not_utf8_is_escaped)
{
    assert_escapes_to("\xff", 1, "\\xff");
    assert_escapes_to("a\xc3", 2, "a\\xc3");                 /* cut */
    assert_escapes_to("\xc0\xaf", 2, "\\xc0\\xaf");          /* overlong */
    assert_escapes_to("\xe0\x80\xaf", 3, "\\xe0\\x80\\xaf"); /* overlong */
    assert_escapes_to("\xed\xa0\x80", 3, "\\xed\\xa0\\x80"); /* surrogate */
    assert_escapes_to("\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80");
    assert_escapes_to("\x80", 1, "\\x80");
}

TEST(every_name_comes_back_from_its_text_and_a_short_one_from_its_file)
{
    struct random random = {random_seed(__func__)};
    uint8_t name[NAME_MAX_SIZE], back[NAME_MAX_SIZE];
    char text[NAME_TEXT_SIZE], file[NAME_FILE_SIZE];

    for (int i = 0; i < 40000; i++) {
        const size_t size =
            1 + random_below(&random, i % 2 == 0 ? NAME_MAX_SIZE : 60);
        size_t length;

        for (size_t j = 0; j < size; j++)
            name[j] = (uint8_t)(1 + random_below(&random, 255));
        length = name_escape(name, size, text);
        assert_int_equal(strlen(text), length);
        for (size_t j = 0; j < length; j++)
            assert_true((uint8_t)text[j] >= 0x20 && text[j] != 0x7f);
        assert_rc(name_unescape(text, length, back, sizeof back), size);
        assert_memory_equal(back, name, size);

        name_to_file(name, size, file);
        assert_null(strchr(file, '/'));
        assert_true(file[0] != '.');
        assert_rc(name_from_file(file, back), size > 60 ? -ENOKEY : (int)size);
        if (size <= 60)
            assert_memory_equal(back, name, size);
    }
}

TEST(bad_escapes_are_refused)
{
    static const char *const bad[] = {"\\",    "a\\q",  "\\x",   "\\x4",
                                      "\\xg0", "\\x0g", "\\x00", "\\u0041"};
    uint8_t name[NAME_MAX_SIZE];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_rc(name_unescape(bad[i], strlen(bad[i]), name, sizeof name),
                  -EINVAL);
    assert_rc(name_unescape("a\0b", 3, name, sizeof name), -EINVAL);
}

TEST(text_of_more_bytes_than_fit_is_refused)
{
    uint8_t name[NAME_MAX_SIZE];
    char text[NAME_MAX_SIZE + 1];

    memset(text, 'a', sizeof text);
    assert_rc(name_unescape(text, NAME_MAX_SIZE, name, sizeof name),
              NAME_MAX_SIZE);
    assert_rc(name_unescape(text, NAME_MAX_SIZE + 1, name, sizeof name),
              -ENAMETOOLONG);
}

/* ---- file names -------------------------------------------------------- */

static void
assert_file(const char *name, const char *file)
{
    char got[NAME_FILE_SIZE];
    uint8_t back[NAME_MAX_SIZE];

    name_to_file((const uint8_t *)name, strlen(name), got);
    assert_string_equal(got, file);
    assert_rc(name_from_file(got, back), strlen(name));
    assert_memory_equal(back, name, strlen(name));
}

TEST(plain_names_are_their_own_file_names)
{
    assert_file("pages", "pages");
    assert_file("a-b_c.0", "a-b_c.0");
    assert_file("-", "-");
}

TEST(other_names_never_are_paths)
{
    assert_file("..", "%x2e2e");
    assert_file(".hidden", "%x2e68696464656e");
    assert_file("a/b", "%x612f62");
    assert_file("/etc/passwd", "%x2f6574632f706173737764");
    assert_file("Upper", "%x5570706572");
    assert_file("%x61", "%x25783631");
}

TEST(long_names_are_hashed_and_fit)
{
    uint8_t name[NAME_MAX_SIZE], back[NAME_MAX_SIZE];
    char file[NAME_FILE_SIZE], other[NAME_FILE_SIZE];

    memset(name, 'A', sizeof name);
    name_to_file(name, 61, file);
    assert_int_equal(strlen(file), 34);
    assert_memory_equal(file, "%h", 2);
    assert_rc(name_from_file(file, back), -ENOKEY);
    name_to_file(name, 62, other);
    assert_string_not_equal(file, other);

    name_to_file(name, 60, file);
    assert_int_equal(strlen(file), 122);
    memset(name, 'a', sizeof name);
    name_to_file(name, 120, file);
    assert_int_equal(strlen(file), 120);
    name_to_file(name, 121, file);
    assert_memory_equal(file, "%h", 2);
}

TEST(files_that_no_keyspace_has_are_refused)
{
    static const char *const bad[] = {
        "",       ".",      "..",   "%",
        "%x",     "%x6",    "%key", "%x61",
        "%x2E2E", "%x2f00", "%xzz", "%t12",
        "%h00",   "Upper",  "a b",  "%h0123456789abcdef0123456789abcdeg",
    };
    uint8_t name[NAME_MAX_SIZE];
    char long_name[NAME_FILE_SIZE + 8];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_rc(name_from_file(bad[i], name), -EINVAL);
    memset(long_name, 'a', sizeof long_name);
    long_name[121] = '\0';
    assert_rc(name_from_file(long_name, name), -EINVAL);
    long_name[121] = 'a';
    long_name[sizeof long_name - 1] = '\0';
    assert_rc(name_from_file(long_name, name), -EINVAL);
}

/* ---- SipHash ----------------------------------------------------------- */

/* Outputs of openssl mac -macopt size:16 SIPHASH under the key 00 to 0f, of
 * the bytes 00, 01, 02 ... */
TEST(siphash_gives_what_openssl_gives)
{
    static const struct {
        size_t size;
        const char *hex;
    } known[] = {
        {0, "a3817f04ba25a8e66df67214c7550293"},
        {1, "da87c1d86b99af44347659119b22fc45"},
        {7, "a1f1ebbed8dbc153c0b84aa61ff08239"},
        {8, "3b62a9ba6258f5610f83e264f31497b4"},
        {9, "264499060ad9baabc47f8b02bb6d71ed"},
        {15, "5493e99933b0a8117e08ec0f97cfc3d9"},
        {16, "6ee2a4ca67b054bbfd3315bf85230577"},
        {63, "5150d1772f50834a503e069a973fbd7c"},
    };
    uint8_t bytes[64], out[16];
    char hex[33];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        name_siphash128(hash_key, bytes, known[i].size, out);
        for (size_t j = 0; j < 16; j++)
            snprintf(hex + 2 * j, 3, "%02x", out[j]);
        assert_string_equal(hex, known[i].hex);
    }
}
