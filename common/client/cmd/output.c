/* common/client/cmd/output.c - see cmd.h: output_init(), output_fact() and
 * output_row(), output_rows_end(), output_fini(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "common/base/clock.h"

/* A page is printed when it has PAGE_ROWS rows or PAGE_SIZE bytes of text, so
 * memory is bounded; later pages only widen columns. */
#define PAGE_ROWS 4096
#define PAGE_SIZE ((size_t)1 << 20)
#define ROW_MAX   (LIVE_TEXT_SIZE + (size_t)TABLE_COLUMNS_MAX * NAME_TEXT_SIZE)

/* Cells of people's rows, each with its NUL. */
static char page[PAGE_SIZE + ROW_MAX];

/* Errors of stdout are sticky: every print is followed, at the end, by the one
 * check in cmd_main(). */

/* Columns of a terminal that a text form takes: one per character of UTF-8. */
static int
text_width(const char *text)
{
    int width = 0;

    for (; *text != '\0'; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

static void
set_widths(struct output *o)
{
    for (size_t i = 0; i < o->column_count; i++)
        o->widths[i] = text_width(o->columns[i].title);
}

void
output_init(struct output *o, const struct cmd_line *line,
            const struct table_column *columns, size_t column_count)
{
    assert(column_count <= TABLE_COLUMNS_MAX);
    o->format = OUTPUT_PEOPLE;
    o->columns = columns;
    o->column_count = column_count;
    o->page_size = o->row_count = 0;
    o->headed = o->has_begun = false;
    o->raw = line->raw;
    if (cmd_value(line, "json"))
        o->format = OUTPUT_JSON;
    if (cmd_value(line, "tsv"))
        o->format = OUTPUT_TSV;
    set_widths(o);
}

/* The document begins with its first fact or row: until then the caller may
 * choose another format, or other columns. */
static struct table_writer *
begin_table(struct output *o)
{
    if (!o->has_begun) {
        table_begin(&o->table, o->format == OUTPUT_TSV ? TABLE_TSV : TABLE_JSON,
                    o->buffer, sizeof o->buffer);
        table_next_rows(&o->table, "rows", o->columns, o->column_count);
    }
    o->has_begun = true;
    o->table.names = o->raw ? NAMES_RAW : NAMES_USUAL;
    return &o->table;
}

/* Writes the buffer to stdout. */
static void
flush_table(struct output *o)
{
    assert(!o->table.out.is_full);
    (void)fwrite(o->buffer, 1, table_size(&o->table), stdout);
    table_flushed(&o->table);
}

void
output_next_rows(struct output *o, const char *key,
                 const struct table_column *columns, size_t column_count)
{
    assert(o->row_count == 0);
    table_next_rows(begin_table(o), key, columns, column_count);
    o->columns = columns;
    o->column_count = column_count;
    o->headed = false;
    set_widths(o);
}

/* ---- a page for people ------------------------------------------------- */

static void
print_cell(const struct output *o, size_t column, const char *text)
{
    const int pad = o->widths[column] - text_width(text);
    const bool last = column + 1 == o->column_count;

    if (column > 0)
        (void)fputs("  ", stdout);
    if (o->columns[column].right)
        (void)printf("%*s%s", pad, "", text);
    else
        (void)printf("%s%*s", text, last ? 0 : pad, "");
    if (last)
        (void)putchar('\n');
}

static void
print_page(struct output *o)
{
    const char *at = page;

    if (o->row_count == 0)
        return;
    for (size_t i = 0; !o->headed && i < o->column_count; i++)
        print_cell(o, i, o->columns[i].title);
    o->headed = true;
    for (size_t row = 0; row < o->row_count; row++)
        for (size_t i = 0; i < o->column_count; i++) {
            print_cell(o, i, at);
            at += strlen(at) + 1;
        }
    o->page_size = o->row_count = 0;
}

static void
store_row(struct output *o, const struct cell *cells)
{
    for (size_t i = 0; i < o->column_count; i++) {
        char buffer[NAME_TEXT_SIZE];
        const char *text = cell_plain(&cells[i], o->raw, buffer);
        const int width = text_width(text);

        assert(strlen(text) < sizeof page - o->page_size);
        strcpy(page + o->page_size, text);
        o->page_size += strlen(text) + 1;
        if (width > o->widths[i])
            o->widths[i] = width;
    }
    if (++o->row_count == PAGE_ROWS || o->page_size > PAGE_SIZE)
        print_page(o);
}

/* ---- rows and facts ---------------------------------------------------- */

void
output_fact(struct output *o, const char *key, struct cell value)
{
    if (o->format != OUTPUT_JSON)
        return;
    table_fact(begin_table(o), key, value);
    flush_table(o);
}

void
output_count(struct output *o, const char *key, uint64_t count)
{
    output_fact(o, key, cell_number((int64_t)count));
}

void
output_text(struct output *o, const char *format, ...)
{
    va_list args;

    if (o->format == OUTPUT_JSON)
        return;
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
}

/* The caller may have added a column, or left one out, since the beginning. */
void
output_row(struct output *o, const struct cell *cells)
{
    if (o->format == OUTPUT_PEOPLE) {
        store_row(o, cells);
        return;
    }
    begin_table(o)->column_count = o->column_count;
    table_row(&o->table, cells);
    flush_table(o);
}

void
output_rows_end(struct output *o)
{
    if (o->format == OUTPUT_PEOPLE) {
        print_page(o);
        return;
    }
    table_rows_end(begin_table(o));
    flush_table(o);
}

const char *
output_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

void
output_age(int64_t ms, char text[32])
{
    const double seconds = (double)ms / 1000;

    if (ms < 0)
        (void)snprintf(text, 32, "0.0 s");
    else if (seconds < 60)
        (void)snprintf(text, 32, "%.1f s", seconds);
    else if (seconds < 3600)
        (void)snprintf(text, 32, "%.0f min", seconds / 60);
    else if (seconds < 48 * 3600)
        (void)snprintf(text, 32, "%.0f h", seconds / 3600);
    else
        (void)snprintf(text, 32, "%.0f d", seconds / 86400);
}

void
output_as_of(struct output *o, int64_t as_of_ms)
{
    char age[32];

    output_fact(o, "as_of_ms", cell_number(as_of_ms));
    if (o->format != OUTPUT_PEOPLE)
        return;
    output_age((int64_t)clock_unix_ms() - as_of_ms, age);
    (void)printf("as of %s ago\n", age);
}

void
output_fini(struct output *o)
{
    if (!o->has_begun || o->table.are_rows_open)
        output_rows_end(o);
    if (o->format == OUTPUT_JSON) {
        table_end(&o->table);
        flush_table(o);
    }
    (void)fflush(stdout); /* an error is sticky */
}
