/* tests/unit/test_table_write.c - rows and facts as JSON, TSV and CSV. */
#include "tests/lib/test.h"

#include <string.h>

#include "common/wire/table_write.h"

static const struct table_column columns[] = {
    {"count", "count", true}, {"key", "key", false}, {"", "note", false}};

static char text[4096];

/* The bytes of the table as a string. */
static const char *
end_text(const struct table_writer *t)
{
    text[table_size(t)] = '\0';
    return text;
}

/* Two rows between two facts: a name of any bytes, a number and a sum that
 * int64 does not have. */
static const char *
write_all(struct table_writer *t)
{
    static const char name[] = "a,\"\tb\xff";
    char sum[CELL_SUM_SIZE];
    const struct cell first[] = {cell_number(-5), cell_name(name, 6),
                                 cell_absent()};
    const struct cell second[] = {cell_sum(int128_of(1, 0), sum), cell_none(),
                                  cell_bool(true)};

    table_fact(t, "keyspace", cell_name("caf\xc3\xa9", 5));
    table_row(t, first);
    table_row(t, second);
    table_rows_end(t);
    table_fact(t, "as_of_ms", cell_number(7));
    table_end(t);
    return end_text(t);
}

static void
json_has_facts_around_its_rows(void **state)
{
    struct table_writer t;

    (void)state; /* no fixture */
    table_begin(&t, TABLE_JSON, text, sizeof text, columns, 3);
    assert_string_equal(
        write_all(&t),
        "{\"keyspace\": \"caf\xc3\xa9\", \"rows\": [\n"
        " {\"count\": -5, \"key\": \"a,\\\"\\\\tb\\\\xff\"},\n"
        " {\"count\": \"18446744073709551616\", \"key\": null, \"note\": "
        "true}], \"as_of_ms\": 7}\n");
}

static void
numbers_are_strings_for_readers_with_doubles(void **state)
{
    struct table_writer t;

    (void)state; /* no fixture */
    table_begin(&t, TABLE_JSON, text, sizeof text, columns, 1);
    t.has_numbers_as_texts = true;
    table_row(&t,
              &(const struct cell){.kind = CELL_NUMBER, .number = INT64_MIN});
    table_rows_end(&t);
    table_end(&t);
    assert_string_equal(end_text(&t),
                        "{\"rows\": [\n"
                        " {\"count\": \"-9223372036854775808\"}]}\n");
}

static void
columns_have_the_text_form_of_names(void **state)
{
    struct table_writer t;

    (void)state; /* no fixture */
    table_begin(&t, TABLE_TSV, text, sizeof text, columns, 3);
    assert_string_equal(write_all(&t), "-5\ta,\"\\tb\\xff\t-\n"
                                       "18446744073709551616\t-\tyes\n");
    table_begin(&t, TABLE_CSV, text, sizeof text, columns, 3);
    assert_string_equal(write_all(&t), "count,key,note\r\n"
                                       "-5,\"a,\"\"\\tb\\xff\",\r\n"
                                       "18446744073709551616,,yes\r\n");
}

static void
raw_names_are_as_they_are_or_in_hexadecimal_digits(void **state)
{
    static const char good[] = "\\\t\xc3\xa9", bad[] = "\xc3(";
    const struct cell first[] = {cell_number(1), cell_name(good, 4)};
    const struct cell second[] = {cell_number(2), cell_name(bad, 2)};
    struct table_writer t;

    (void)state; /* no fixture */
    table_begin(&t, TABLE_JSON, text, sizeof text, columns, 2);
    t.is_raw = true;
    table_fact(&t, "keyspace", cell_name(bad, 2));
    table_row(&t, first);
    table_row(&t, second);
    table_rows_end(&t);
    table_end(&t);
    assert_string_equal(
        end_text(&t),
        "{\"keyspace\": null, \"keyspace_hex\": \"c328\", \"rows\": [\n"
        " {\"count\": 1, \"key\": \"\\\\\\u0009\xc3\xa9\"},\n"
        " {\"count\": 2, \"key\": null, \"key_hex\": \"c328\"}]}\n");

    table_begin(&t, TABLE_TSV, text, sizeof text, columns, 2);
    t.is_raw = true;
    table_row(&t, first);
    assert_string_equal(end_text(&t), "1\t\\\t\xc3\xa9\n");
    table_begin(&t, TABLE_CSV, text, sizeof text, columns, 2);
    t.is_raw = true;
    table_row(&t, second);
    assert_string_equal(end_text(&t), "count,key\r\n2,\xc3(\r\n");
}

static void
a_table_without_rows_is_still_a_table(void **state)
{
    struct table_writer t;

    (void)state; /* no fixture */
    table_begin(&t, TABLE_JSON, text, sizeof text, columns, 2);
    table_rows_end(&t);
    table_end(&t);
    assert_string_equal(end_text(&t), "{\"rows\": []}\n");
    table_begin(&t, TABLE_CSV, text, sizeof text, columns, 2);
    table_rows_end(&t);
    table_end(&t);
    assert_string_equal(end_text(&t), "count,key\r\n");
    table_begin(&t, TABLE_TSV, text, sizeof text, columns, 2);
    table_rows_end(&t);
    table_end(&t);
    assert_string_equal(end_text(&t), "");
}

static void
other_rows_follow_under_a_name_of_their_own(void **state)
{
    static const struct table_column other = {"pid", "pid", true};
    struct table_writer t;
    struct cell cell = cell_number(3);

    (void)state; /* no fixture */
    table_begin(&t, TABLE_JSON, text, sizeof text, columns, 1);
    table_row(&t, &cell);
    table_rows_end(&t);
    table_next_rows(&t, "processes", &other, 1);
    table_row(&t, &cell);
    table_rows_end(&t);
    table_end(&t);
    assert_string_equal(end_text(&t), "{\"rows\": [\n {\"count\": 3}], "
                                      "\"processes\": [\n {\"pid\": 3}]}\n");
}

/* In a small buffer there may be no room for a row at once. */
static void
a_row_put_at_once_is_the_row_put_by_member(void **state)
{
    static const struct table_column three[] = {
        {"", "rank", true}, {"", "key", false}, {"", "at_limit", false}};
    char at_once[256], by_member[256];
    struct table_writer t;

    (void)state; /* no fixture */
    for (int is_small = 0; is_small <= 1; is_small++) {
        table_begin(&t, TABLE_JSON, text, is_small ? 220 : sizeof text, three,
                    3);
        for (int64_t i = 8; i < 12; i++) {
            const struct cell cells[] = {
                cell_number(i), cell_name("/a/long/key", (size_t)i),
                i == 11 ? cell_bool(true) : cell_absent()};

            table_row(&t, cells);
        }
        table_rows_end(&t);
        table_end(&t);
        assert_true(table_size(&t) < sizeof at_once);
        strcpy(is_small ? by_member : at_once, end_text(&t));
    }
    assert_string_equal(at_once, by_member);
    assert_string_equal(at_once,
                        "{\"rows\": [\n {\"rank\": 8, \"key\": \"/a/long/\"},"
                        "\n {\"rank\": 9, \"key\": \"/a/long/k\"},"
                        "\n {\"rank\": 10, \"key\": \"/a/long/ke\"},"
                        "\n {\"rank\": 11, \"key\": \"/a/long/key\", "
                        "\"at_limit\": true}]}\n");
}

static void
what_does_not_fit_is_told_by_the_size(void **state)
{
    const struct cell cell = cell_number(12345);
    struct table_writer t;

    (void)state; /* no fixture */
    table_begin(&t, TABLE_TSV, text, 5, columns, 1);
    table_row(&t, &cell);
    assert_int_equal(table_size(&t), 0);
    table_begin(&t, TABLE_TSV, text, 6, columns, 1);
    table_row(&t, &cell);
    assert_int_equal(table_size(&t), 6);
}

/* Rows that are put at once, and rows that are not, at the end of a buffer of
 * each size; nothing behind it is written to. */
static void
a_buffer_of_each_size_has_all_of_a_document_or_none(void **state)
{
    static const struct table_column three[] = {
        {"", "rank", true},
        {"", "a-key-of-so-many-bytes-that-no-label-has-it", true},
        {"", "key", false}};
    static const char name[] = "0123456789abcdef0123456789",
                      *names[] = {"\t", "\xff"};
    struct table_writer t;
    char want[4096];
    size_t whole = 0;

    (void)state; /* no fixture */
    for (size_t size = sizeof want; size-- > 0;) {
        uint8_t *buffer = malloc(size + 1); /* of exactly that size for ASan */

        assert_non_null(buffer);
        buffer[size] = 0xa5;
        table_begin(&t, TABLE_JSON, buffer, size, NULL, 0);
        for (size_t columns_used = 1; columns_used <= 3; columns_used += 2) {
            table_next_rows(&t, "rows", three, columns_used);
            for (size_t i = 0; i < sizeof name; i++) {
                const struct cell cells[] = {
                    cell_number(i % 2 == 0 ? INT64_MIN : (int64_t)i),
                    cell_number(INT64_MAX),
                    i % 9 == 8 ? cell_name(names[i % 2], 1)
                               : cell_name(name, i)};

                table_row(&t, cells);
            }
            table_rows_end(&t);
        }
        table_end(&t);
        assert_int_equal(buffer[size], 0xa5);
        if (whole == 0) {
            whole = table_size(&t);
            assert_true(whole > 1000);
            memcpy(want, buffer, whole);
        }
        assert_int_equal(table_size(&t), size >= whole ? whole : 0);
        if (size >= whole)
            assert_memory_equal(buffer, want, whole);
        free(buffer);
        if (size > whole + 100)
            size = whole + 100;
    }
    assert_non_null(
        memmem(want, whole, "\n {\"rank\": -9223372036854775808},", 33));
    assert_non_null(
        memmem(want, whole, ": 9223372036854775807, \"key\": \"01\"}", 35));
}

static void
sums_have_all_digits_of_128_bits(void **state)
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

    (void)state; /* no fixture */
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        assert_string_equal(
            cell_sum_text(int128_of(sums[i].high, sums[i].low), digits),
            sums[i].digits);
    assert_int_equal(cell_sum(-1, digits).kind, CELL_NUMBER);
    assert_int_equal(cell_sum(UINT64_MAX, digits).kind, CELL_TEXT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(json_has_facts_around_its_rows),
    cmocka_unit_test(numbers_are_strings_for_readers_with_doubles),
    cmocka_unit_test(columns_have_the_text_form_of_names),
    cmocka_unit_test(raw_names_are_as_they_are_or_in_hexadecimal_digits),
    cmocka_unit_test(a_table_without_rows_is_still_a_table),
    cmocka_unit_test(other_rows_follow_under_a_name_of_their_own),
    cmocka_unit_test(a_row_put_at_once_is_the_row_put_by_member),
    cmocka_unit_test(what_does_not_fit_is_told_by_the_size),
    cmocka_unit_test(a_buffer_of_each_size_has_all_of_a_document_or_none),
    cmocka_unit_test(sums_have_all_digits_of_128_bits),
};

TEST_MAIN(tests)
