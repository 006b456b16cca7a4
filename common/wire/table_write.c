/* common/wire/table_write.c - see table_write.h: table_begin(), table_fact()
 * and table_row(), table_end(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/table_write.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/wire/json_plain.h"
#include "common/wire/query.h"
#include "common/wire/utf8.h"

const char *const table_format_names[] = {
    [TABLE_JSON] = "json", [TABLE_TSV] = "tsv", [TABLE_CSV] = "csv", NULL};

#define MEMBER_SIZE 32 /* a name that is one of ours, "_hex", NUL */

/* ---- JSON --------------------------------------------------------------- */

/* The name as it is, or null and, as a member with _hex behind its name, the
 * bytes. */
static void
put_raw_name(struct table_writer *t, const char *key, const struct cell *c)
{
    char member[MEMBER_SIZE];
    const uint8_t *bytes = c->bytes;

    if (utf8_is_valid(bytes, c->size)) {
        json_string(&t->out, bytes, c->size);
        return;
    }
    (void)snprintf(member, sizeof member, "%s_hex", key);
    json_literal(&t->out, "null");
    json_member(&t->out, member);
    json_hex(&t->out, bytes, c->size);
}

static void
put_json(struct table_writer *t, const char *key, const struct cell *c)
{
    char text[NAME_TEXT_SIZE];

    json_member(&t->out, key);
    switch (c->kind) {
    case CELL_NONE:
    case CELL_ABSENT:
        json_literal(&t->out, "null");
        break;
    case CELL_NAME:
        if (name_form_is_raw(t->names, false))
            put_raw_name(t, key, c);
        else
            json_name(&t->out, c->bytes, c->size);
        break;
    case CELL_TEXT:
        json_string(&t->out, c->bytes, c->size);
        break;
    case CELL_NUMBER:
    case CELL_SUM:
        if (t->has_numbers_as_texts)
            json_text(&t->out, cell_plain(c, false, text));
        else if (c->kind == CELL_SUM)
            json_literal(&t->out, c->bytes);
        else
            json_integer(&t->out, c->number);
        break;
    case CELL_BOOL:
        json_literal(&t->out, c->number != 0 ? "true" : "false");
        break;
    }
}

static void
open_rows(struct table_writer *t)
{
    json_member(&t->out, t->rows_key);
    json_begin(&t->out, '[');
    t->are_rows_open = true;
}

static void
put_json_row(struct table_writer *t, const struct cell *cells)
{
    if (!t->are_rows_open)
        open_rows(t);
    json_row(&t->out);
    for (size_t i = 0; i < t->column_count; i++)
        if (cells[i].kind != CELL_ABSENT)
            put_json(t, t->columns[i].key, &cells[i]);
    json_end(&t->out, '}');
}

/* ---- rows of counts ------------------------------------------------------ */

/* The key of a column as rows of JSON have it: `, "key": `, and the first with
 * the beginning of the row. */
#define LABEL_MAX 32
struct label {
    uint8_t size;
    char text[LABEL_MAX];
};

/* A row of counts in JSON at most. */
#define PLAIN_MAX                                                              \
    (3 * LABEL_MAX + 2 * JSON_DIGITS_MAX + NAME_MAX_SIZE + sizeof ",\"\"}" - 1)

static void
set_label(struct label *l, const char *key, bool is_first)
{
    const char *before = is_first ? "\n {\"" : ", \"";
    const size_t begin = strlen(before), size = strlen(key);

    assert(begin + size + 3 <= LABEL_MAX);
    memcpy(l->text, before, begin);
    memcpy(l->text + begin, key, size);
    memcpy(l->text + begin + size, "\": ", 3);
    l->size = (uint8_t)(begin + size + 3);
}

/* The bytes of a label that count end where the next piece begins. */
static inline uint8_t *
put_label(uint8_t *at, const struct label *l)
{
    memcpy(at, l->text, LABEL_MAX); /* of a constant size: no call */
    return at + l->size;
}

/* Puts the count and the key of a range's next row and returns the end of its
 * JSON.  NULL: it has an escape or stands at a limit. */
static inline uint8_t *
put_count(const struct label *l, uint8_t *at, const uint8_t *row,
          size_t key_size)
{
    const int64_t count = get_le64s(row);

    at = decimal_put_signed(put_label(at, l++), count);
    at = json_put_plain(put_label(at, l), row + QUERY_ROW_SIZE, key_size);
    return count == INT64_MAX || count == INT64_MIN ? NULL : at;
}

int64_t
table_plain_counts(struct table_writer *t, bool has_rank, int64_t rank,
                   const uint8_t **rows, int64_t count)
{
    const uint8_t *row = *rows;
    struct label labels[3];
    uint8_t *at, *to;
    int64_t done = 0;

    if (t->format != TABLE_JSON || t->has_numbers_as_texts || count <= 0)
        return 0;
    if (!t->are_rows_open)
        open_rows(t);
    for (size_t i = 0; i < (has_rank ? 3 : 2); i++)
        set_label(&labels[i], t->columns[i].key, i == 0);
    for (at = t->out.at; done < count && !t->out.is_full &&
                         (size_t)(t->out.end - at) >= PLAIN_MAX;
         done++) {
        const size_t key_size = get_le16(row + 8);

        *at = ',';
        to = at + !t->out.is_first;
        if (has_rank)
            to = decimal_put_signed(put_label(to, labels), rank + done);
        to = put_count(labels + has_rank, to, row, key_size);
        if (!to)
            break;
        *to = '}';
        at = to + 1;
        row += QUERY_ROW_SIZE + key_size;
        t->out.is_first = false;
    }
    t->out.at = at;
    *rows = row;
    return done;
}

/* ---- columns ------------------------------------------------------------ */

static void
put_tsv_row(struct table_writer *t, const struct cell *cells)
{
    char text[NAME_TEXT_SIZE];

    for (size_t i = 0; i < t->column_count; i++) {
        if (i > 0)
            json_chars(&t->out, "\t");
        json_chars(&t->out, cell_plain(&cells[i], t->names == NAMES_RAW, text));
    }
    json_chars(&t->out, "\n");
}

void
table_put_field(struct json_writer *w, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        json_chars(w, text);
        return;
    }
    json_chars(w, "\"");
    for (; *text != '\0'; text++) {
        if (*text == '"')
            json_chars(w, "\"");
        json_bytes(w, text, 1);
    }
    json_chars(w, "\"");
}

void
table_guard_name(char *text)
{
    const char first = text[0];

    if (first == '\0' || !strchr("=+-@", first))
        return;
    memmove(text + 4, text + 1, strlen(text));
    text[0] = '\\';
    text[1] = 'x';
    (void)hex_put(text + 2, &first, 1);
}

static const char *
csv_text(const struct table_writer *t, const struct cell *c,
         char text[NAME_TEXT_SIZE])
{
    const char *plain = cell_plain(c, t->names == NAMES_RAW, text);

    if (c->kind == CELL_NAME && t->names != NAMES_RAW)
        table_guard_name(text); /* it has 4 for each byte */
    return plain;
}

static void
put_csv_row(struct table_writer *t, const struct cell *cells)
{
    char text[NAME_TEXT_SIZE];

    for (size_t i = 0; !t->is_headed && i < t->column_count; i++) {
        json_chars(&t->out, i > 0 ? "," : "");
        table_put_field(&t->out, t->columns[i].key);
    }
    json_chars(&t->out, t->is_headed ? "" : "\r\n");
    t->is_headed = true;
    for (size_t i = 0; cells && i < t->column_count; i++) {
        json_chars(&t->out, i > 0 ? "," : "");
        if (cells[i].kind != CELL_NONE && cells[i].kind != CELL_ABSENT)
            table_put_field(&t->out, csv_text(t, &cells[i], text));
    }
    json_chars(&t->out, cells ? "\r\n" : "");
}

/* ---- documents ---------------------------------------------------------- */

void
table_begin(struct table_writer *t, enum table_format format, void *buffer,
            size_t size)
{
    *t = (struct table_writer){.format = format, .rows_key = "rows"};
    json_write_init(&t->out, buffer, size);
    if (format == TABLE_JSON)
        json_begin(&t->out, '{');
}

void
table_fact(struct table_writer *t, const char *key, struct cell value)
{
    if (t->format != TABLE_JSON)
        return;
    assert(!t->are_rows_open);
    put_json(t, key, &value);
}

void
table_row(struct table_writer *t, const struct cell *cells)
{
    switch (t->format) {
    case TABLE_JSON:
        put_json_row(t, cells);
        break;
    case TABLE_TSV:
        put_tsv_row(t, cells);
        break;
    case TABLE_CSV:
        put_csv_row(t, cells);
        break;
    }
}

void
table_rows_end(struct table_writer *t)
{
    if (t->format == TABLE_CSV && !t->is_headed)
        put_csv_row(t, NULL);
    if (t->format != TABLE_JSON)
        return;
    if (!t->are_rows_open)
        open_rows(t);
    json_end(&t->out, ']');
    t->are_rows_open = false;
}

void
table_next_rows(struct table_writer *t, const char *key,
                const struct table_column *columns, size_t column_count)
{
    assert(!t->are_rows_open);
    t->rows_key = key;
    t->columns = columns;
    t->column_count = column_count;
    t->is_headed = false;
}

void
table_end(struct table_writer *t)
{
    assert(!t->are_rows_open);
    if (t->format != TABLE_JSON)
        return;
    json_end(&t->out, '}');
    json_chars(&t->out, "\n");
}
