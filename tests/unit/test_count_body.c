/* tests/unit/test_count_body.c - bodies of POST /v1/count, and their gzip. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#define ZLIB_CONST
#include <zlib.h>

#include "common/wire/event_time.h"
#include "common/wire/gunzip.h"
#include "writer/count_body.h"

#define TEXT_MAX 4096
#define LATEST   1800000000 /* Unix seconds */

/* What a body has, increment by increment in text form; behind it the fault. */
static void
spell_as(const struct increment_form *form, enum count_format format,
         const char *bytes, size_t size, char *to)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    char keyspace[NAME_TEXT_SIZE], key[NAME_TEXT_SIZE];
    struct count_body b;
    struct increment i;
    size_t at = 0;
    int rc;

    assert_non_null(copy);
    memcpy(copy, bytes, size); /* nothing behind it may be read */
    count_body_init(&b, format, copy, size, form);
    to[0] = '\0';
    while ((rc = count_body_next(&b, &i)) > 0) {
        (void)name_escape(i.keyspace.bytes, i.keyspace.size, keyspace);
        (void)name_escape(i.key.bytes, i.key.size, key);
        at += (size_t)snprintf(to + at, TEXT_MAX - at, "%s.%s=%lld", keyspace,
                               key, (long long)i.count);
        at += (size_t)snprintf(to + at, TEXT_MAX - at,
                               i.at == form->at ? " " : "@%lld ",
                               (long long)i.at);
        assert_true(at < TEXT_MAX);
    }
    if (rc < 0)
        (void)snprintf(to + at, TEXT_MAX - at, "%s %u", b.fault.code,
                       b.fault.line);
    free(copy);
}

static void
spell_body(enum count_format format, const char *bytes, size_t size, char *to)
{
    static const struct increment_form text = {.keyspace_max = NAME_MAX_SIZE,
                                               .key_max = NAME_MAX_SIZE,
                                               .latest = LATEST};

    spell_as(&text, format, bytes, size, to);
}

struct body {
    enum count_format format;
    const char *body, *has;
};

/* With names as they are. */
static const struct body raw_bodies[] = {
    {COUNT_TSV, "a\t\\xff\n", "a.\\\\xff=1 "},
    {COUNT_TSV, "a\x01\t\xff\x7f\t2", "a\\x01.\\xff\\x7f=2 "},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":\"\\\\xff\"}", "a.\\\\xff=1 "},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":null,\"key_hex\":\"C328\"}",
     "a.\\xc3(=1 "},
    {COUNT_JSON,
     "{\"key_hex\":\"ff\",\"keyspace_hex\":\"fe\",\"n\":2,\"key\":null,"
     "\"keyspace\":null}",
     "\\xfe.\\xff=2 "},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key_hex\":\"ff\"}", "a.\\xff=1 "},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":null}", "bad-member 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":\"b\",\"key_hex\":\"62\"}",
     "bad-member 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key_hex\":null}", "bad-member 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key_hex\":\"f\"}", "bad-hex 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key_hex\":\"fg\"}", "bad-hex 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key_hex\":\"\"}", "bad-name 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key_hex\":\"6100\"}", "bad-name 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key_hex\":\"61\",\"key_hex\":\"61\"}",
     "bad-json 1"},
};

/* The usual object, without its end. */
#define AB "{\"keyspace\":\"a\",\"key\":\"b\""

static const struct body bodies[] = {
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key_hex\":\"5c\"}", "a.\\\\=1 "},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":null}", "bad-member 1"},
    {COUNT_TSV, "", ""},
    {COUNT_TSV, "a\tb", "a.b=1 "},
    {COUNT_TSV, "a\tb\n", "a.b=1 "},
    {COUNT_TSV, "a\tb\t-5\r\n\n\r\nc\td\t+7", "a.b=-5 c.d=7 "},
    {COUNT_TSV, "a\tb\t9223372036854775807\na\tb\t-9223372036854775808",
     "a.b=9223372036854775807 a.b=-9223372036854775808 "},
    {COUNT_TSV, "a\t\\xff\\t\\\\\n", "a.\\xff\\t\\\\=1 "},
    {COUNT_TSV, "a\tb\t0\n", "a.b=0 "},
    {COUNT_TSV, "a\tb\nab\n", "a.b=1 bad-line 2"},
    {COUNT_TSV, "\n\na\tb\t1\tc\n", "bad-time 3"},
    {COUNT_TSV, "a\tb\tmany", "bad-number 1"},
    {COUNT_TSV, "a\tb\t2\t1709287245\nc\td\t-1\t2024-03-01T10:00:45Z",
     "a.b=2@1709287245 c.d=-1@1709287245 "},
    {COUNT_TSV, "a\tb\t2\t\r\n", "a.b=2 "},
    {COUNT_TSV, "a\tb\t2\t60\na\tb\t2\t1800000000\n",
     "a.b=2@60 a.b=2@1800000000 "},
    {COUNT_TSV, "a\tb\t2\t59", "old 1"},
    {COUNT_TSV, "a\tb\t2\t-5", "old 1"},
    {COUNT_TSV, "a\tb\t2\t1800000001", "future 1"},
    {COUNT_TSV, "a\tb\t2\tnow", "bad-time 1"},
    {COUNT_TSV, "a\tb\t2\t60\t", "bad-line 1"},
    {COUNT_TSV, "a\tb\t\t60", "bad-number 1"},
    {COUNT_TSV, "a\tb\t", "bad-number 1"},
    {COUNT_TSV, "a\tb\t1.0", "bad-number 1"},
    {COUNT_TSV, "a\tb\t9223372036854775808", "bad-number 1"},
    {COUNT_TSV, "a\t", "bad-name 1"},
    {COUNT_TSV, "\tb", "bad-name 1"},
    {COUNT_TSV, "a\tb\x01", "bad-name 1"},
    {COUNT_TSV, "a\tb\rc\td", "bad-name 1"},
    {COUNT_TSV, "a\tb\\y", "bad-escape 1"},
    {COUNT_TSV, "a\t\\x00", "bad-escape 1"},

    {COUNT_JSON, AB "}", "a.b=1 "},
    {COUNT_JSON, " [ ] ", ""},
    {COUNT_JSON,
     "[{\"key\":\"b\",\"n\":-5,\"keyspace\":\"a\"},\n"
     "{\"keyspace\":\"c\",\"key\":\"d\",\"n\":\"7\"}]",
     "a.b=-5 c.d=7 "},
    {COUNT_JSON,
     "{\"keyspace\":\"\\u0061\",\"k\\u0065y\":\"\\u00e9\\n\\\\xff\"}",
     "a.\xc3\xa9\\n\\xff=1 "},
    {COUNT_JSON, AB ",\"n\":9223372036854775807}", "a.b=9223372036854775807 "},
    {COUNT_JSON,
     "[{\"keyspace\":\"a\",\"key\":\"b\",\"at\":1709287245.75},"
     "{\"at\":\"1709287245750\",\"keyspace\":\"a\",\"key\":\"b\"},"
     "{\"at\":\"2024-03-01 11:00:45+01:00\",\"keyspace\":\"a\","
     "\"key\":\"b\"},{\"keyspace\":\"a\",\"key\":\"b\"}]",
     "a.b=1@1709287245 a.b=1@1709287245 a.b=1@1709287245 a.b=1 "},
    {COUNT_JSON, AB ",\"at\":1e9}", "bad-time 1"},
    {COUNT_JSON, AB ",\"at\":null}", "bad-time 1"},
    {COUNT_JSON, AB ",\"at\":0}", "old 1"},
    {COUNT_JSON, AB ",\"at\":60,\"at\":61}", "bad-json 1"},
    {COUNT_JSON, "", "bad-json 1"},
    {COUNT_JSON, "1", "bad-json 1"},
    {COUNT_JSON, "[1]", "bad-json 1"},
    {COUNT_JSON, "[[]]", "bad-json 1"},
    {COUNT_JSON, "{}", "bad-member 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\"}", "bad-member 1"},
    {COUNT_JSON, "{\"key\":\"a\"}", "bad-member 1"},
    {COUNT_JSON, "{\"keyspace\":1,\"key\":\"a\"}", "bad-member 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":null}", "bad-member 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":[\"b\"]}", "bad-member 1"},
    {COUNT_JSON, "{\"keyspace\":\"\",\"key\":\"b\"}", "bad-name 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":\"\\u0000\"}", "bad-name 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":\"\\\\x00\"}", "bad-escape 1"},
    {COUNT_JSON, "{\"keyspace\":\"a\",\"key\":\"C:\\\\dir\"}", "bad-escape 1"},
    {COUNT_JSON, AB ",\"count\":5}", "unknown-member 1"},
    {COUNT_JSON, AB ",\"key\":\"c\"}", "bad-json 1"},
    {COUNT_JSON, AB ",\"n\":1.0}", "bad-number 1"},
    {COUNT_JSON, AB ",\"n\":1e3}", "bad-number 1"},
    {COUNT_JSON, AB ",\"n\":true}", "bad-number 1"},
    {COUNT_JSON, AB ",\"n\":\"\"}", "bad-number 1"},
    {COUNT_JSON, AB ",\"n\":\"1 \"}", "bad-number 1"},
    {COUNT_JSON, AB ",\"n\":9223372036854775808}", "bad-number 1"},
    {COUNT_JSON, "[{\"keyspace\":\"a\",\"key\":\"b\"},{\"keyspace\":\"a\"}]",
     "a.b=1 bad-member 2"},
    {COUNT_JSON, "[{\"keyspace\":\"a\",\"key\":\"b\"},]", "a.b=1 bad-json 2"},
    {COUNT_JSON, AB "} {}", "a.b=1 bad-json 1"},
    {COUNT_JSON, "[{\"keyspace\":\"a\",\"key\":\"b\"}] x", "a.b=1 bad-json 2"},

    {COUNT_NDJSON, "", ""},
    {COUNT_NDJSON,
     AB "}\r\n\n"
        " {\"keyspace\":\"c\",\"key\":\"d\",\"n\":2}",
     "a.b=1 c.d=2 "},
    {COUNT_NDJSON,
     AB "}\n{\"keyspace\":\"a\",\n"
        "\"key\":\"b\"}",
     "a.b=1 bad-json 2"},
    {COUNT_NDJSON, "\n[{\"keyspace\":\"a\",\"key\":\"b\"}]", "bad-json 2"},
    {COUNT_NDJSON, AB "}{}", "bad-json 1"},
};

TEST(a_body_has_its_increments_up_to_the_first_fault)
{
    char text[TEXT_MAX];

    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        spell_body(bodies[i].format, bodies[i].body, strlen(bodies[i].body),
                   text);
        if (strcmp(text, bodies[i].has) != 0)
            fail_msg("%s: %s, not %s", bodies[i].body, text, bodies[i].has);
    }
    spell_body(COUNT_TSV, "a\tb\0c", 5, text);
    assert_string_equal(text, "bad-name 1");
}

TEST(a_time_is_read_in_each_of_its_forms_and_in_no_other)
{
    static const struct {
        const char *text;
        int64_t at; /* -1: it is not a time */
    } times[] = {
        {"0", 0},
        {"1709287245", 1709287245},
        {"1709287245.999", 1709287245},
        {"99999999999", 99999999999},
        {"100000000000", 100000000},
        {"1709287245123.5", 1709287245},
        {"999999999999999", 999999999999},
        {"1000000000000000", -1},
        {"1970-01-01", 0},
        {"2024-02-29", 1709164800},
        {"2023-02-29", -1},
        {"1900-02-29", -1},
        {"2000-02-29", 951782400},
        {"2024-04-31", -1},
        {"2024-00-01", -1},
        {"2024-13-01", -1},
        {"2024-01-00", -1},
        {"9999-12-31T23:59:60Z", 253402300800},
        {"2024-03-01T10:00", 1709287200},
        {"2024-03-01t10:00z", 1709287200},
        {"2024-03-01 10:00:45.123456789", 1709287245},
        {"2024-03-01T10:00:45-05:30", 1709307045},
        {"2024-03-01T00:00+02:00", 1709244000},
        {"2024-03-01T24:00", -1},
        {"2024-03-01T10:60", -1},
        {"2024-03-01T10:00:61", -1},
        {"2024-03-01T10", -1},
        {"2024-03-01T10:0", -1},
        {"2024-03-01T10:00:", -1},
        {"2024-03-01T10:00:45.", -1},
        {"2024-03-01T10:00+0200", -1},
        {"2024-03-01T10:00+24:00", -1},
        {"2024-03-01T10:00ZZ", -1},
        {"2024-03-01T", -1},
        {"2024-3-1", -1},
        {"24-03-01", -1},
        {"", -1},
        {"-", -1},
        {".5", -1},
        {"5.", -1},
        {"+5", -1},
        {"5 ", -1},
        {" 5", -1},
        {"0x5", -1},
    };

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        const size_t size = strlen(times[i].text);
        char *copy = malloc(size + 1); /* nothing behind it may be read */
        int64_t at = -1;
        int rc;

        assert_non_null(copy);
        memcpy(copy, times[i].text, size);
        rc = event_time_parse(copy, size, &at);
        if (rc != (times[i].at < 0 ? -EINVAL : 0) || at != times[i].at)
            fail_msg("%s: %d, %lld", times[i].text, rc, (long long)at);
        free(copy);
    }
}

TEST(every_day_of_four_centuries_is_that_of_the_c_library)
{
    for (int64_t day = 0; day < 146097; day++) {
        const time_t when = (time_t)(day * 86400 + 3661);
        char text[32];
        struct tm tm;
        int64_t at;

        assert_non_null(gmtime_r(&when, &tm));
        assert_true(strftime(text, sizeof text, "%FT%TZ", &tm) > 0);
        assert_rc(event_time_parse(text, strlen(text), &at), 0);
        assert_int_equal(at, when);
    }
}

TEST(a_time_of_the_form_is_of_increments_without_one)
{
    struct increment_form form = {.keyspace_max = NAME_MAX_SIZE,
                                  .key_max = NAME_MAX_SIZE,
                                  .at = 7200,
                                  .latest = LATEST};
    static const char tsv[] = "a\tb\na\tb\t3\na\tb\t3\t\na\tb\t3\t60\n",
                      json[] = "{\"keyspace\":\"a\",\"key\":\"b\"}";
    struct count_body b;
    struct increment i;

    count_body_init(&b, COUNT_TSV, (const uint8_t *)tsv, sizeof tsv - 1, &form);
    for (int n = 0; n < 4; n++) {
        assert_int_equal(count_body_next(&b, &i), 1);
        assert_int_equal(i.at, n < 3 ? 7200 : 60);
    }
    count_body_init(&b, COUNT_JSON, (const uint8_t *)json, sizeof json - 1,
                    &form);
    assert_int_equal(count_body_next(&b, &i), 1);
    assert_int_equal(i.at, 7200);
}

TEST(a_byte_order_mark_is_no_part_of_the_first_name)
{
    static const char tsv[] =
        "\xef\xbb\xbfpages\t/a\t2\n\xef\xbb\xbfpages\t/b\n";
    static const char json[] =
        "\xef\xbb\xbf{\"keyspace\": \"pages\", \"key\": \"/a\", \"n\": 2}";
    char said[TEXT_MAX];

    spell_body(COUNT_TSV, tsv, sizeof tsv - 1, said);
    assert_string_equal(said, "pages./a=2 \\xef\\xbb\\xbfpages./b=1 ");
    spell_body(COUNT_JSON, json, sizeof json - 1, said);
    assert_string_equal(said, "pages./a=2 ");
    spell_body(COUNT_NDJSON, json, sizeof json - 1, said);
    assert_string_equal(said, "pages./a=2 ");
    spell_body(COUNT_TSV, tsv, 2, said); /* not a whole one */
    assert_has(said, "bad-line");
}

TEST(names_may_be_bytes_and_hexadecimal_digits)
{
    const struct increment_form raw = {
        .raw = true, .keyspace_max = NAME_MAX_SIZE, .key_max = NAME_MAX_SIZE};
    char text[TEXT_MAX];

    for (size_t i = 0; i < sizeof raw_bodies / sizeof raw_bodies[0]; i++) {
        const struct body *b = &raw_bodies[i];

        spell_as(&raw, b->format, b->body, strlen(b->body), text);
        if (strcmp(text, b->has) != 0)
            fail_msg("%s: %s, not %s", b->body, text, b->has);
    }
}

TEST(names_have_as_many_bytes_as_a_message_has_room_for)
{
    char body[8192], text[TEXT_MAX];
    const struct increment_form shorter = {.keyspace_max = 3, .key_max = 2};
    struct count_body b;
    struct increment i;

    for (size_t size = 255; size <= 257; size++) {
        (void)snprintf(body, sizeof body, "a\t%0*d", (int)size, 0);
        spell_body(COUNT_TSV, body, strlen(body), text);
        assert_int_equal(strcmp(text, "bad-name 1") == 0, size > 256);
        (void)snprintf(body, sizeof body,
                       "{\"keyspace\":\"a\",\"key\":\"%0*d\"}", (int)size, 0);
        spell_body(COUNT_JSON, body, strlen(body), text);
        assert_int_equal(strcmp(text, "bad-name 1") == 0, size > 256);
    }
    (void)snprintf(body, sizeof body, "a\t%0*d", 8000, 0);
    spell_body(COUNT_TSV, body, strlen(body), text);
    assert_string_equal(text, "bad-name 1");
    count_body_init(&b, COUNT_TSV, (const uint8_t *)"abc\tabc", 7, &shorter);
    assert_int_equal(count_body_next(&b, &i), -1);
    assert_string_equal(b.fault.code, "bad-name");
}

/* ---- gzip --------------------------------------------------------------- */

static size_t
deflate_all(const uint8_t *bytes, size_t size, uint8_t *to, size_t max)
{
    z_stream s = {0};
    size_t n;

    assert_int_equal(
        deflateInit2(&s, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    s.next_in = bytes;
    s.avail_in = (uInt)size;
    s.next_out = to;
    s.avail_out = (uInt)max;
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    n = max - s.avail_out;
    assert_int_equal(deflateEnd(&s), Z_OK);
    return n;
}

TEST(gzip_is_inflated_up_to_the_limit)
{
    static uint8_t plain[5000], packed[8192], to[5001];
    const size_t max = sizeof plain;
    struct gunzip g;
    size_t size;

    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (uint8_t)(i * i >> 3);
    size = deflate_all(plain, sizeof plain, packed, sizeof packed);
    assert_rc(gunzip_open(&g), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(gunzip_run(&g, packed, size, to, max), sizeof plain);
        assert_memory_equal(to, plain, sizeof plain);
        assert_rc(gunzip_run(&g, packed, size, to, max - 1), -EFBIG);
        for (size_t cut = 0; cut < size; cut++)
            assert_rc(gunzip_run(&g, packed, cut, to, max), -ENODATA);
        assert_rc(gunzip_run(&g, packed, size + 1, to, max), -E2BIG);
        packed[size - 5] ^= 1; /* the check sum */
        assert_rc(gunzip_run(&g, packed, size, to, max), -EBADMSG);
        packed[size - 5] ^= 1;
        packed[0] ^= 1;
        assert_rc(gunzip_run(&g, packed, size, to, max), -EBADMSG);
        packed[0] ^= 1;
    }
    size = deflate_all(plain, 0, packed, sizeof packed);
    assert_int_equal(gunzip_run(&g, packed, size, to, max), 0);
    gunzip_close(&g);
}
