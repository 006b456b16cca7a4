/* common/client/cmd/output.c - see output.h. */
#include "common/client/cmd/output.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"

/* After so many rows a page is printed; columns can only widen from then on,
 * and memory stays bounded. */
#define PAGE_ROWS 4096
#define PAGE_SIZE ((size_t)1 << 20) /* or so many bytes of text */

/* Errors of stdout are sticky: every print below is followed, at the end, by
 * the one check in output_fini(). */

struct cell
cell_none(void)
{
    return (struct cell){.kind = CELL_NONE};
}

struct cell
cell_absent(void)
{
    return (struct cell){.kind = CELL_ABSENT};
}

struct cell
cell_name(const void *bytes, size_t size)
{
    assert(size <= NAME_MAX_SIZE);
    return (struct cell){.kind = CELL_NAME, .bytes = bytes, .size = size};
}

struct cell
cell_text(const char *text)
{
    return (struct cell){
        .kind = CELL_TEXT, .bytes = text, .size = strlen(text)};
}

struct cell
cell_number(int64_t number)
{
    return (struct cell){.kind = CELL_NUMBER, .number = number};
}

struct cell
cell_bool(bool value)
{
    return (struct cell){.kind = CELL_BOOL, .number = value};
}

const char *
output_sum(int64_t high, uint64_t low, char text[OUTPUT_SUM_SIZE])
{
    const uint128 sum = (uint128)(uint64_t)high << 64 | low;
    uint128 rest = high < 0 ? -sum : sum;
    char *at = &text[OUTPUT_SUM_SIZE - 1];

    *at = '\0';
    do
        *--at = (char)('0' + (int)(rest % 10));
    while ((rest /= 10) > 0);
    if (high < 0)
        *--at = '-';
    return at;
}

struct cell
cell_sum(int64_t high, uint64_t low, char text[OUTPUT_SUM_SIZE])
{
    if (high == ((int64_t)low < 0 ? -1 : 0))
        return cell_number((int64_t)low);
    return cell_text(output_sum(high, low, text));
}

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
            const struct output_column *columns, size_t column_count)
{
    assert(column_count <= OUTPUT_COLUMNS_MAX);
    *o = (struct output){.columns = columns, .column_count = column_count};
    o->first = true;
    o->rows_key = "rows";
    o->raw = line->raw;
    for (int i = 0; i < CMD_OPTIONS_MAX && line->cmd->options[i].name; i++) {
        if (line->values[i] == NULL)
            continue;
        if (strcmp(line->cmd->options[i].name, "json") == 0)
            o->format = OUTPUT_JSON;
        if (strcmp(line->cmd->options[i].name, "tsv") == 0)
            o->format = OUTPUT_TSV;
    }
    set_widths(o);
}

void
output_next_rows(struct output *o, const char *key,
                 const struct output_column *columns, size_t column_count)
{
    assert(!o->rows_open && o->row_count == 0);
    assert(column_count <= OUTPUT_COLUMNS_MAX);
    o->rows_key = key;
    o->columns = columns;
    o->column_count = column_count;
    o->headed = false;
    set_widths(o);
}

/* ---- cells ------------------------------------------------------------- */

/* A cell as the text that people and TSV get; a raw name has no NUL, either. */
static const char *
cell_plain(const struct cell *c, bool raw, char text[NAME_TEXT_SIZE])
{
    switch (c->kind) {
    case CELL_NONE:
    case CELL_ABSENT:
        return "-";
    case CELL_TEXT:
        return c->bytes;
    case CELL_NAME:
        if (raw) {
            memcpy(text, c->bytes, c->size);
            text[c->size] = '\0';
            return text;
        }
        (void)name_escape(c->bytes, c->size, text);
        return text;
    case CELL_NUMBER:
        (void)snprintf(text, NAME_TEXT_SIZE, "%" PRId64, c->number);
        return text;
    case CELL_BOOL:
        return c->number ? "yes" : "no";
    }
    return "";
}

/* A JSON string of printable, valid UTF-8: two characters need escaping. */
static void
json_string(const char *text)
{
    (void)putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            (void)putchar('\\');
        (void)putchar(*text);
    }
    (void)putchar('"');
}

static void
json_cell(const struct cell *c)
{
    char text[NAME_TEXT_SIZE];

    switch (c->kind) {
    case CELL_NONE:
    case CELL_ABSENT:
        (void)fputs("null", stdout);
        break;
    case CELL_TEXT:
    case CELL_NAME:
        json_string(cell_plain(c, false, text));
        break;
    case CELL_NUMBER:
        (void)fputs(cell_plain(c, false, text), stdout);
        break;
    case CELL_BOOL:
        (void)fputs(c->number ? "true" : "false", stdout);
        break;
    }
}

/* ---- a page for people ------------------------------------------------- */

static bool
keep(struct output *o, const char *text)
{
    const size_t size = strlen(text) + 1;

    if (o->text_size + size > o->text_capacity) {
        const size_t capacity = 2 * (o->text_capacity + size + 4096);
        char *larger = realloc(o->text, capacity);

        if (larger == NULL) {
            o->failed = true;
            return false;
        }
        o->text = larger;
        o->text_capacity = capacity;
    }
    memcpy(o->text + o->text_size, text, size);
    o->text_size += size;
    return true;
}

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
    const char *at = o->text;

    if (o->row_count > 0 && !o->headed) {
        o->headed = true;
        for (size_t i = 0; i < o->column_count; i++)
            print_cell(o, i, o->columns[i].title);
    }
    for (size_t row = 0; row < o->row_count; row++) {
        for (size_t i = 0; i < o->column_count; i++) {
            print_cell(o, i, at);
            at += strlen(at) + 1;
        }
    }
    o->row_count = 0;
    o->text_size = 0;
}

static void
keep_row(struct output *o, const struct cell *cells)
{
    for (size_t i = 0; i < o->column_count; i++) {
        char buffer[NAME_TEXT_SIZE];
        const char *text = cell_plain(&cells[i], o->raw, buffer);
        const int width = text_width(text);

        if (o->failed || !keep(o, text))
            return;
        if (width > o->widths[i])
            o->widths[i] = width;
    }
    if (++o->row_count == PAGE_ROWS || o->text_size > PAGE_SIZE)
        print_page(o);
}

/* ---- rows and facts ---------------------------------------------------- */

static void
json_key(struct output *o, const char *key)
{
    if (!o->open)
        (void)putchar('{');
    o->open = true;
    if (!o->first)
        (void)fputs(", ", stdout);
    o->first = false;
    if (key == NULL)
        return;
    json_string(key);
    (void)fputs(": ", stdout);
}

static void
json_rows_begin(struct output *o)
{
    json_key(o, o->rows_key);
    (void)putchar('[');
    o->rows_open = true;
    o->first = true;
}

void
output_fact(struct output *o, const char *key, struct cell value)
{
    if (o->format != OUTPUT_JSON)
        return;
    assert(!o->rows_open);
    json_key(o, key);
    json_cell(&value);
}

static void
json_row(struct output *o, const struct cell *cells)
{
    if (!o->rows_open)
        json_rows_begin(o);
    (void)fputs(o->first ? "\n" : ",\n", stdout);
    o->first = false;
    for (size_t i = 0; i < o->column_count; i++) {
        if (cells[i].kind == CELL_ABSENT)
            continue;
        (void)fputs(i == 0 ? " {" : ", ", stdout);
        json_string(o->columns[i].key);
        (void)fputs(": ", stdout);
        json_cell(&cells[i]);
    }
    (void)putchar('}');
}

void
output_row(struct output *o, const struct cell *cells)
{
    char text[NAME_TEXT_SIZE];

    switch (o->format) {
    case OUTPUT_PEOPLE:
        keep_row(o, cells);
        break;
    case OUTPUT_JSON:
        json_row(o, cells);
        break;
    case OUTPUT_TSV:
        for (size_t i = 0; i < o->column_count; i++)
            (void)printf("%s%s", i > 0 ? "\t" : "",
                         cell_plain(&cells[i], o->raw, text));
        (void)putchar('\n');
        break;
    }
}

void
output_rows_end(struct output *o)
{
    if (o->format == OUTPUT_PEOPLE)
        print_page(o);
    if (o->format != OUTPUT_JSON)
        return;
    if (!o->rows_open)
        json_rows_begin(o);
    (void)putchar(']');
    o->rows_open = false;
    o->first = false;
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

int
output_fini(struct output *o)
{
    const bool failed = o->failed;

    if (o->format == OUTPUT_PEOPLE)
        print_page(o);
    if (o->format == OUTPUT_JSON) {
        assert(!o->rows_open);
        (void)puts(o->open ? "}" : "{}");
    }
    free(o->text);
    o->text = NULL;
    if (failed) {
        diag(DIAG_ERROR, "no memory for the table; try --tsv");
        return CONFIG_EXIT_SYSTEM;
    }
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CONFIG_EXIT_OK;
    diag(DIAG_ERROR, "stdout cannot be written");
    return CONFIG_EXIT_SYSTEM;
}
