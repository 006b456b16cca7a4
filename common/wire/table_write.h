/* common/wire/table_write.h - rows and facts as JSON, as tab-separated columns
 * or as CSV, into a buffer of the caller's: what `countd --json` prints and
 * what countd-read answers over HTTP are the same bytes.
 *
 *     JSON  one document: {"fact": ..., "rows": [{...}, ...], "fact": ...}
 *     TSV   the rows, no heading
 *     CSV   the rows under a heading of the columns' keys (RFC 4180)
 *
 * Names are as they are in JSON and in the text form of common/wire/name.h in
 * the other two, unless `names` says otherwise.  In JSON a name that is not
 * UTF-8 is null, and a member with _hex behind its name has its bytes.
 *
 * Ownership: the buffer and the columns are the caller's.  Cells are only
 * looked at during the call.  Pure; allocates nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_TABLE_WRITE_H
#define COUNTD_COMMON_WIRE_TABLE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/cell.h"
#include "common/wire/json_write.h"

#define TABLE_COLUMNS_MAX 10

struct table_column {
    const char *title; /* for people */
    const char *key;   /* in JSON and CSV */
    bool right;        /* aligned, for people */
};

enum table_format { TABLE_JSON, TABLE_TSV, TABLE_CSV };

/* What requests call each; behind the last is NULL. */
extern const char *const table_format_names[];

struct table_writer {
    struct json_writer out; /* the buffer of all formats */
    enum table_format format;
    const struct table_column *columns;
    size_t column_count;
    const char *rows_key;      /* name of the list in JSON */
    enum name_form names;      /* the caller's */
    bool has_numbers_as_texts; /* JSON: for readers with doubles */
    bool are_rows_open;        /* JSON: inside of rows */
    bool is_headed;            /* CSV: the heading is out */
};

/* Begins a document, without columns until table_next_rows(). */
void table_begin(struct table_writer *t, enum table_format format, void *buffer,
                 size_t size);

/* A member of the JSON document, before or after the rows. */
void table_fact(struct table_writer *t, const char *key, struct cell value);

/* One cell per column. */
void table_row(struct table_writer *t, const struct cell *cells);

/* Puts rows of counts as an answer of the range port has them (query.h), of
 * which there are `count` at *rows; the columns are [rank,] count, key. Returns
 * how many it put, and moves *rows on over them: up to the first that
 * table_row() has to put, because it has an escape, stands at a limit of int64,
 * or is not for JSON. */
int64_t table_plain_counts(struct table_writer *t, bool has_rank, int64_t rank,
                           const uint8_t **rows, int64_t count);

/* Ends the rows (JSON shows an empty list when there were none). */
void table_rows_end(struct table_writer *t);

/* The first rows, or others behind table_rows_end(): in JSON a list of this
 * name. */
void table_next_rows(struct table_writer *t, const char *key,
                     const struct table_column *columns, size_t column_count);

/* Ends the document. */
void table_end(struct table_writer *t);

/* Bytes in the buffer; 0 when something did not fit. */
static inline size_t
table_size(const struct table_writer *t)
{
    return json_write_size(&t->out);
}

/* Empties the buffer, whose bytes the caller has taken; the document goes on.
 */
static inline void
table_flushed(struct table_writer *t)
{
    t->out.at = t->out.begin;
}

/* ---- one field of CSV ---------------------------------------------------- */

/* In quotes where it has to be: at most two bytes for each, and the quotes. */
void table_put_field(struct json_writer *w, const char *text);

/* Has the first byte of a name's text as \xHH if a spreadsheet would take the
 * name for a formula; there is room for three bytes more. */
void table_guard_name(char *text);

#endif
