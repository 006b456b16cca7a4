/* tests/unit/test_table_write.c - rows and facts as JSON, TSV and CSV. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <string.h>

#include "common/wire/query.h"
#include "common/wire/table_write.h"

static const struct table_column columns[] = {
    {"count", "count", true}, {"key", "key", false}, {"", "note", false}};

static char text[4096];

static struct table_writer t;

static void
begin_table(enum table_format format, const struct table_column *of,
            size_t count)
{
    table_begin(&t, format, text, sizeof text);
    table_next_rows(&t, "rows", of, count);
}

/* The bytes of the table as a string. */
static const char *
end_text(void)
{
    text[table_size(&t)] = '\0';
    return text;
}

static const char *
end_rows(void)
{
    table_rows_end(&t);
    table_end(&t);
    return end_text();
}

/* Two rows between two facts: a name of any bytes, a number and a sum that
 * int64 does not have. */
static const char *
write_all(void)
{
    static const char name[] = "a,\"\tb\xff";
    char sum[CELL_SUM_SIZE];
    const struct cell first[] = {cell_number(-5), cell_name(name, 6),
                                 cell_absent()};
    const struct cell second[] = {cell_sum(int128_of(1, 0), sum), cell_none(),
                                  cell_bool(true)};

    table_fact(&t, "keyspace", cell_name("caf\xc3\xa9", 5));
    table_row(&t, first);
    table_row(&t, second);
    table_rows_end(&t);
    table_fact(&t, "as_of_ms", cell_number(7));
    table_end(&t);
    return end_text();
}

TEST(json_has_facts_around_its_rows)
{
    begin_table(TABLE_JSON, columns, 3);
    assert_string_equal(
        write_all(),
        "{\"keyspace\": \"caf\xc3\xa9\", \"rows\": [\n"
        " {\"count\": -5, \"key\": null, \"key_hex\": \"612c220962ff\"},\n"
        " {\"count\": 18446744073709551616, \"key\": null, \"note\": "
        "true}], \"as_of_ms\": 7}\n");
}

TEST(numbers_are_strings_for_readers_with_doubles)
{
    begin_table(TABLE_JSON, columns, 1);
    t.has_numbers_as_texts = true;
    table_row(&t,
              &(const struct cell){.kind = CELL_NUMBER, .number = INT64_MIN});
    assert_string_equal(end_rows(),
                        "{\"rows\": [\n"
                        " {\"count\": \"-9223372036854775808\"}]}\n");
}

TEST(json_has_the_text_form_of_names_on_request)
{
    const struct cell row[] = {cell_number(-5), cell_name("a,\"\tb\xff", 6)};

    begin_table(TABLE_JSON, columns, 2);
    t.names = NAMES_TEXT;
    table_row(&t, row);
    assert_string_equal(
        end_rows(), "{\"rows\": [\n"
                    " {\"count\": -5, \"key\": \"a,\\\"\\\\tb\\\\xff\"}]}\n");
}

TEST(columns_have_the_text_form_of_names)
{
    begin_table(TABLE_TSV, columns, 3);
    assert_string_equal(write_all(), "-5\ta,\"\\tb\\xff\t-\n"
                                     "18446744073709551616\t-\tyes\n");
    begin_table(TABLE_CSV, columns, 3);
    assert_string_equal(write_all(), "count,key,note\r\n"
                                     "-5,\"a,\"\"\\tb\\xff\",\r\n"
                                     "18446744073709551616,,yes\r\n");
}

/* A column of names in CSV. */
static const char *
write_names(enum name_form form, const char *const *names, size_t count)
{
    begin_table(TABLE_CSV, columns + 1, 1);
    t.names = form;
    for (size_t i = 0; i < count; i++)
        table_row(&t,
                  (const struct cell[]){cell_name(names[i], strlen(names[i]))});
    return end_rows();
}

TEST(each_byte_that_ends_a_cell_of_csv_puts_it_in_quotes)
{
    static const char *const names[] = {"a,b", "a\"b", "a\rb", "a\nb",
                                        "a;b\tc"};

    assert_string_equal(write_names(NAMES_RAW, names, 5),
                        "key\r\n\"a,b\"\r\n\"a\"\"b\"\r\n"
                        "\"a\rb\"\r\n\"a\nb\"\r\na;b\tc\r\n");
}

TEST(no_cell_of_csv_is_a_formula)
{
    static const char *const names[] = {"=1+2", "@", "-", "+x"};

    assert_string_equal(write_names(NAMES_USUAL, names, 4),
                        "key\r\n\\x3d1+2\r\n\\x40\r\n\\x2d\r\n"
                        "\\x2bx\r\n");
    assert_string_equal(write_names(NAMES_RAW, names, 1), "key\r\n=1+2\r\n");
}

TEST(names_are_as_they_are_or_in_hexadecimal_digits)
{
    static const char good[] = "\\\t\xc3\xa9", bad[] = "\xc3(";
    const struct cell first[] = {cell_number(1), cell_name(good, 4)};
    const struct cell second[] = {cell_number(2), cell_name(bad, 2)};

    begin_table(TABLE_JSON, columns, 2);
    table_fact(&t, "keyspace", cell_name(bad, 2));
    table_row(&t, first);
    table_row(&t, second);
    assert_string_equal(
        end_rows(),
        "{\"keyspace\": null, \"keyspace_hex\": \"c328\", \"rows\": [\n"
        " {\"count\": 1, \"key\": \"\\\\\\u0009\xc3\xa9\"},\n"
        " {\"count\": 2, \"key\": null, \"key_hex\": \"c328\"}]}\n");

    begin_table(TABLE_TSV, columns, 2);
    t.names = NAMES_RAW;
    table_row(&t, first);
    assert_string_equal(end_text(), "1\t\\\t\xc3\xa9\n");
    begin_table(TABLE_CSV, columns, 2);
    t.names = NAMES_RAW;
    table_row(&t, second);
    assert_string_equal(end_text(), "count,key\r\n2,\xc3(\r\n");
}

TEST(a_table_without_rows_is_still_a_table)
{
    begin_table(TABLE_JSON, columns, 2);
    assert_string_equal(end_rows(), "{\"rows\": []}\n");
    begin_table(TABLE_CSV, columns, 2);
    assert_string_equal(end_rows(), "count,key\r\n");
    begin_table(TABLE_TSV, columns, 2);
    assert_string_equal(end_rows(), "");
}

TEST(other_rows_follow_under_a_name_of_their_own)
{
    static const struct table_column other = {"pid", "pid", true};
    struct cell cell = cell_number(3);

    begin_table(TABLE_JSON, columns, 1);
    table_row(&t, &cell);
    table_rows_end(&t);
    table_next_rows(&t, "processes", &other, 1);
    table_row(&t, &cell);
    assert_string_equal(end_rows(), "{\"rows\": [\n {\"count\": 3}], "
                                    "\"processes\": [\n {\"pid\": 3}]}\n");
}

static const struct {
    int64_t count;
    const char *key;
} counts[] = {{INT64_MAX, "limit"}, {100, "/a"}, {10, "caf\xc3\xa9"},
              {9, "a\"b"},          {0, "/b"},   {-7, "/a/longer/key"},
              {INT64_MIN, "end"}};
#define COUNTS (sizeof counts / sizeof counts[0])

static const struct table_column ranked[] = {
    {"", "rank", true}, {"", "count", true}, {"", "key", false}};

/* All of them, each at once or, with is_by_cell, by its cells. */
static void
put_counts(bool has_rank, bool is_by_cell)
{
    const size_t first = has_rank ? 0 : 1;
    uint8_t bytes[256], *end = bytes;
    const uint8_t *at = bytes;
    int64_t i = 0;

    for (size_t n = 0; n < COUNTS; n++)
        end +=
            query_row_put(end, counts[n].count, (const uint8_t *)counts[n].key,
                          (uint16_t)strlen(counts[n].key));
    table_next_rows(&t, "rows", ranked + first, 3 - first);
    while (i < (int64_t)COUNTS) {
        const int64_t done =
            is_by_cell
                ? 0
                : table_plain_counts(&t, has_rank, i, &at, (int64_t)COUNTS - i);
        const struct cell cells[] = {
            cell_number(i + done), cell_number(counts[i + done].count),
            cell_name(counts[i + done].key, strlen(counts[i + done].key))};

        assert_int_equal(done, is_by_cell ? 0 : i == 1 ? 1 : i == 4 ? 2 : 0);
        table_row(&t, cells + first);
        at += QUERY_ROW_SIZE + strlen(counts[i + done].key);
        i += done + 1;
    }
    table_rows_end(&t);
    table_end(&t);
}

TEST(counts_put_at_once_are_those_put_by_cell)
{
    char want[2048];

    for (int has_rank = 0; has_rank <= 1; has_rank++) {
        begin_table(TABLE_JSON, NULL, 0);
        put_counts(has_rank != 0, true);
        strcpy(want, end_text());
        begin_table(TABLE_JSON, NULL, 0);
        put_counts(has_rank != 0, false);
        assert_string_equal(end_text(), want);
    }
    assert_has(want, "\n {\"rank\": 4, \"count\": 0, \"key\": "
                     "\"/b\"},\n {\"rank\": 5");
}

/* Other forms than plain JSON are left to table_row(). */
TEST(counts_are_put_at_once_in_plain_json_only)
{
    static const uint8_t row[] = {5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'a'};
    const uint8_t *at = row;

    for (size_t size = sizeof text; size-- > 0;) {
        table_begin(&t, TABLE_JSON, text, size);
        table_next_rows(&t, "rows", ranked, 3);
        if (table_plain_counts(&t, true, 0, &at, 1) == 0)
            break;
        assert_ptr_equal(at, row + sizeof row);
        assert_true(table_size(&t) > 0);
        at = row;
    }
    assert_ptr_equal(at, row); /* there was no room for the longest */
    begin_table(TABLE_TSV, ranked, 3);
    assert_int_equal(table_plain_counts(&t, true, 0, &at, 1), 0);
    begin_table(TABLE_JSON, ranked, 3);
    assert_int_equal(table_plain_counts(&t, true, 0, &at, 0), 0);
    t.has_numbers_as_texts = true;
    assert_int_equal(table_plain_counts(&t, true, 0, &at, 1), 0);
    assert_ptr_equal(at, row);
}

TEST(sums_have_all_digits_of_128_bits)
{
    static const struct {
        int64_t high;
        uint64_t low;
        const char *digits;
    } sums[] = {
        {0, 0, "0"},
        {-1, UINT64_MAX, "-1"},
        {INT64_MAX, UINT64_MAX, "170141183460469231731687303715884105727"},
        {INT64_MIN, 0, "-170141183460469231731687303715884105728"},
    };
    char digits[CELL_SUM_SIZE];

    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        assert_string_equal(
            cell_sum_text(int128_of(sums[i].high, sums[i].low), digits),
            sums[i].digits);
    assert_int_equal(cell_sum(-1, digits).kind, CELL_NUMBER);
    assert_int_equal(cell_sum(UINT64_MAX, digits).kind, CELL_SUM);
}
