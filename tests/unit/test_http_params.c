/* tests/unit/test_http_params.c - queries of GET /v1/COMMAND: what is read, why
 * one is refused, and the links that ask again. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "reader/read_link.h"

#define NOW_MS UINT64_C(1795366726868)

/* Everything is allowed. */
static const struct http_params_spec all = {PARAM_BIT(HTTP_PARAMS) - 1, 0, 2, 1,
                                            4096};

static struct http_params p;
static struct http_params_fault fault;

static bool
read_query(const struct http_params_spec *spec, const char *query)
{
    p = (struct http_params){.from_ms = NOW_MS - 86400000, .to_ms = NOW_MS};
    fault = (struct http_params_fault){NULL, ""};
    return http_params_read(
        &p, spec, (struct http_text){(const uint8_t *)query, strlen(query)},
        NOW_MS, &fault);
}

static void
expect_name(const struct increment_name *name, const char *bytes)
{
    assert_int_equal(name->size, strlen(bytes));
    assert_memory_equal(name->bytes, bytes, name->size);
}

/* ---- values ------------------------------------------------------------- */

TEST(each_parameter_is_read)
{
    assert_true(read_query(
        &all,
        "keyspace=a+b&key=%2Fx&key=y&group=%2F&after=%5Ct%09&n=7&offset=-3&"
        "length=4096&from=-2h&to=now&step=5m&as_of=12&wait=60&format=csv&"
        "numbers=string&version=0-ff&sort=name"));
    expect_name(&p.keyspace, "a b");
    assert_int_equal(p.key_count, 2);
    expect_name(&p.keys[0], "/x");
    expect_name(&p.keys[1], "y");
    assert_int_equal(p.group, '/');
    expect_name(&p.after, "\\t\t");
    assert_int_equal(p.n, 7);
    assert_int_equal(p.offset, -3);
    assert_int_equal(p.length, 4096);
    assert_int_equal(p.from_ms / 1000, NOW_MS / 1000 - 7200);
    assert_int_equal(p.to_ms, NOW_MS);
    assert_int_equal(p.step_ms, 300000);
    assert_int_equal(p.as_of_ms, 12);
    assert_int_equal(p.wait_s, 60);
    assert_int_equal(p.format, TABLE_CSV);
    assert_true(http_params_has(&p, PARAM_NUMBERS));
    assert_int_equal(p.names, NAMES_USUAL);
    assert_int_equal(p.version[0], 0);
    assert_int_equal(p.version[1], 255);
    assert_int_equal(p.sort, SORT_NAME);
    assert_int_equal(p.given & PARAM_BIT(PARAM_NAMES), 0);
}

TEST(a_prefix_is_not_beside_a_key_and_one_byte_ends_a_group)
{
    static const char *const bad[] = {"group=", "group=//", "group=%00"};

    assert_true(read_query(&all, "prefix=p%2F&group=%ff"));
    expect_name(&p.prefix, "p/");
    assert_int_equal(p.group, 0xff);
    assert_false(read_query(&all, "prefix=p&key=x"));
    assert_string_equal(fault.code, "bad-prefix");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(read_query(&all, bad[i]));
    assert_string_equal(fault.code, "bad-name");
}

TEST(what_is_not_given_stays_as_it_is)
{
    assert_true(read_query(&all, ""));
    assert_int_equal(p.given, 0);
    assert_int_equal(p.to_ms, NOW_MS);
    assert_true(read_query(&all, "prefix=&after="));
    assert_int_equal(p.prefix.size, 0);
    assert_int_equal(p.after.size, 0);
}

TEST(names_are_bytes_unless_the_query_says_text_anywhere)
{
    assert_true(read_query(&all, "key=%5Ct%ff&key_hex=C328"));
    expect_name(&p.keys[0], "\\t\xff");
    expect_name(&p.keys[1], "\xc3(");
    assert_true(read_query(&all, "key=%5Ct%ff&names=raw"));
    assert_int_equal(p.names, NAMES_RAW);
    expect_name(&p.keys[0], "\\t\xff");
    assert_true(read_query(&all, "names=text&key_hex=5c"));
    expect_name(&p.keys[0], "\\");
    assert_true(read_query(&all, "key=%5Ct&key=%5Cxff&names=text"));
    assert_int_equal(p.names, NAMES_TEXT);
    expect_name(&p.keys[0], "\t");
    expect_name(&p.keys[1], "\xff");
    assert_true(read_query(&all, "key=%09")); /* no line is read here */
    expect_name(&p.keys[0], "\t");
}

TEST(what_is_wrong_has_a_word_and_a_line)
{
    static const struct http_params_spec some = {
        PARAM_BIT(PARAM_KEYSPACE) | PARAM_BIT(PARAM_KEY) | PARAM_BIT(PARAM_N) |
            PARAM_BIT(PARAM_FROM) | PARAM_BIT(PARAM_TO) |
            PARAM_BIT(PARAM_AS_OF) | PARAM_BIT(PARAM_WAIT) |
            PARAM_BIT(PARAM_FORMAT) | PARAM_BIT(PARAM_NUMBERS) |
            PARAM_BIT(PARAM_NAMES),
        PARAM_BIT(PARAM_KEYSPACE), 1, 1, 10};
    static const struct {
        const char *query, *code, *detail;
    } bad[] = {
        {"", "missing-parameter", "keyspace is missing"},
        {"keyspace=a&sort=name", "unknown-parameter",
         "unknown parameter: sort"},
        {"keyspace=a&%09=1", "unknown-parameter", "unknown parameter: \\t"},
        {"keyspace=a&keyspace=a", "twice", "keyspace is there twice"},
        {"keyspace=", "bad-name", "keyspace: an empty name"},
        {"keyspace=%00", "bad-name", "keyspace: a zero byte in a name"},
        {"keyspace=%5Cq&names=text", "bad-escape",
         "keyspace: a bad escape; use \\t \\n \\r \\\\ and \\xHH but \\x00"},
        {"keyspace=%f", "bad-query",
         "% without two hexadecimal digits in the query"},
        {"keyspace=a&key=b&key=c", "too-many", "key: 1 at most in one request"},
        {"keyspace=a&n=0", "bad-number", "n: 1 to 10"},
        {"keyspace=a&n=1.0", "bad-number", "n: 1 to 10"},
        {"keyspace=a&from=yesterday", "bad-time",
         "from: a time is 2026-11-20, 2026-11-20T14:30, -2h, now, or Unix "
         "seconds, and this is none: yesterday"},
        {"keyspace=a&from=-1h&to=-1h", "bad-time",
         "the end is not after the start"},
        {"keyspace=a&to=9999999999999", "bad-time",
         "to: there is no time so late"},
        {"keyspace=a&format=xml", "bad-format", "format: json, tsv or csv"},
        {"keyspace=a&numbers=1", "bad-numbers", "numbers: string"},
        {"keyspace=a&names=byte", "bad-names", "names: raw or text"},
        {"keyspace=a&names=", "bad-names", "names: raw or text"},
        {"keyspace=a&key_hex=6", "bad-hex",
         "key_hex: two hexadecimal digits for each byte"},
        {"keyspace=a&key_hex=%106", "bad-hex",
         "key_hex: two hexadecimal digits for each byte"},
        {"keyspace=a&key_hex=00", "bad-name", "key_hex: a zero byte in a name"},
        {"keyspace=a&key_hex=", "bad-name", "key_hex: an empty name"},
        {"keyspace=a&n_hex=1", "unknown-parameter", "unknown parameter: n_hex"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (read_query(&some, bad[i].query))
            fail_msg("%s is read", bad[i].query);
        assert_string_equal(fault.code, bad[i].code);
        assert_string_equal(fault.detail, bad[i].detail);
    }
}

TEST(only_a_list_by_name_goes_on_after_a_name)
{
    assert_true(read_query(&all, "sort=total"));
    assert_int_equal(p.sort, SORT_TOTAL);
    assert_true(read_query(&all, "sort=keys&after="));
    assert_true(read_query(&all, "sort=name&after=a"));
    assert_false(read_query(&all, "sort=size&after=a"));
    assert_string_equal(fault.code, "bad-sort");
    assert_false(read_query(&all, "sort=age"));
    assert_string_equal(fault.detail, "sort: name, size, keys or total");
}

TEST(a_version_is_two_numbers_as_the_etag_has_them)
{
    static const char *const bad[] = {"version=",
                                      "version=1",
                                      "version=1-",
                                      "version=-1",
                                      "version=1-2-3",
                                      "version=g-1",
                                      "version=1-g",
                                      "version=A-1",
                                      "version=11111222223333344-1",
                                      "version=1-11111222223333344"};

    assert_true(read_query(&all, "version=ffffffffffffffff-123456789abcdef"));
    assert_true(p.version[0] == UINT64_MAX &&
                p.version[1] == 0x123456789abcdef);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(read_query(&all, bad[i]));
        assert_string_equal(fault.code, "bad-version");
    }
}

TEST(a_name_has_at_most_256_bytes)
{
    char query[2048] = "keyspace=";
    const size_t at = strlen(query);

    memset(query + at, 'x', 256);
    assert_true(read_query(&all, query));
    query[at + 256] = 'x';
    assert_false(read_query(&all, query));
    assert_string_equal(fault.detail,
                        "keyspace: a name is longer than 256 bytes");
    memset(query + at, 'x', 1500);
    assert_false(read_query(&all, query));
    assert_string_equal(fault.detail,
                        "keyspace: a name is longer than 256 bytes");
    memset(query, 'x', 1500);
    assert_false(read_query(&all, query));
    assert_string_equal(fault.code, "unknown-parameter");
}

/* ---- links -------------------------------------------------------------- */

/* The link's query asks the same once more, from another place on. */
static void
expect_again(const char *path, const struct read_page *next, const char *want)
{
    char line[READ_LINK_MAX], query[READ_LINK_MAX];
    struct http_params before;
    const char *end;

    read_link_put(path, &p, next, line);
    assert_string_equal(line, want);
    end = strchr(line, '>');
    (void)snprintf(query, sizeof query, "%.*s",
                   (int)(end - strchr(line, '?') - 1), strchr(line, '?') + 1);
    before = p;
    if (!read_query(&all, query))
        fail_msg("%s: %s", query, fault.detail);
    assert_int_equal(p.keyspace.size, before.keyspace.size);
    assert_memory_equal(p.keyspace.bytes, before.keyspace.bytes,
                        p.keyspace.size);
    assert_int_equal(p.prefix.size, before.prefix.size);
    assert_int_equal(p.names, before.names);
    assert_int_equal(p.version[0], before.version[0]);
    if (next->has_offset) {
        assert_int_equal(p.offset, next->offset);
        assert_int_equal(p.length, before.length);
        return;
    }
    assert_int_equal(p.n, before.n);
    assert_int_equal(p.after.size, next->after.size);
    assert_memory_equal(p.after.bytes, next->after.bytes, p.after.size);
}

TEST(a_link_asks_the_same_from_another_place_on)
{
    const struct read_page rows = {.has_offset = true, .offset = 40};
    struct read_page keys = {.after = {6, "\xff>\"&\t\\"}};

    assert_true(read_query(&all, "keyspace=a/b&offset=20&length=20&"
                                 "format=tsv&numbers=string&version=1f-2"));
    expect_again("/v1/range", &rows,
                 "Link: </v1/range?keyspace=a%2Fb&offset=40&length=20&"
                 "format=tsv&numbers=string&version=1f-2>; rel=\"next\"\r\n");
    assert_true(
        read_query(&all, "names=text&keyspace=%5Cxff&prefix=%5Cxff&n=2"));
    expect_again("/v1/keys", &keys,
                 "Link: </v1/keys?keyspace=%5Cxff&prefix=%5Cxff&after="
                 "%5Cxff%3E%22%26%5Ct%5C%5C&n=2&names=text>; rel=\"next\"\r\n");
    assert_true(read_query(&all, "keyspace=%ff&prefix=%ff&n=2"));
    expect_again("/v1/keys", &keys,
                 "Link: </v1/keys?keyspace=%FF&prefix=%FF&after="
                 "%FF%3E%22%26%09%5C&n=2>; rel=\"next\"\r\n");
    assert_true(read_query(&all, "keyspace=%ff&prefix=%ff&n=2&names=raw"));
    expect_again("/v1/keys", &keys,
                 "Link: </v1/keys?keyspace=%FF&prefix=%FF&after="
                 "%FF%3E%22%26%09%5C&n=2&names=raw>; rel=\"next\"\r\n");
}

TEST(the_longest_link_fits)
{
    static struct read_page keys = {.after = {.size = NAME_MAX_SIZE}};
    char line[READ_LINK_MAX];

    assert_true(read_query(
        &all, "n=4096&format=json&numbers=string&"
              "names=text&version=ffffffffffffffff-ffffffffffffffff"));
    p.keyspace.size = p.prefix.size = NAME_MAX_SIZE;
    memset(p.keyspace.bytes, 0xff, NAME_MAX_SIZE);
    memset(p.prefix.bytes, 0xff, NAME_MAX_SIZE);
    memset(keys.after.bytes, 0xff, NAME_MAX_SIZE);
    read_link_put("/v1/keyspaces", &p, &keys, line);
    assert_true(strlen(line) > 3 * 6 * NAME_MAX_SIZE);
    assert_true(strlen(line) < READ_LINK_MAX);
}
