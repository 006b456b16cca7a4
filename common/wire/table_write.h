/* common/wire/table_write.h - rows and facts as JSON, as tab-separated columns
 * or as CSV, into a buffer of the caller's: what `countd --json` prints and
 * what countd-read answers over HTTP are the same bytes.
 *
 *     JSON  one document: {"fact": ..., "rows": [{...}, ...], "fact": ...}
 *     TSV   the rows, no heading
 *     CSV   the rows under a heading of the columns' keys (RFC 4180)
 *
 * Names are in the text form of common/wire/name.h in all three, so JSON is
 * valid whatever bytes a name has and every name can be sent back as it is.
 * With is_raw they are as they are: in JSON a name that is not UTF-8 is null
 * then, and a member with _hex behind its name has its bytes.
 *
 * Ownership: the buffer and the columns are the caller's.  Cells are only
 * looked at during the call.  Pure; allocates nothing.
 */
#ifndef COUNTD_COMMON_WIRE_TABLE_WRITE_H
#define COUNTD_COMMON_WIRE_TABLE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/json_write.h"
#include "common/wire/name.h"

#define TABLE_COLUMNS_MAX 10
#define TABLE_SUM_SIZE    48 /* digits of 128 bits, a sign, NUL */

struct table_column {
    const char *title; /* for people */
    const char *key;   /* in JSON and CSV */
    bool right;        /* aligned, for people */
};

enum cell_kind {
    CELL_NONE,
    CELL_ABSENT,
    CELL_NAME,
    CELL_TEXT,
    CELL_NUMBER,
    CELL_BOOL
};

struct cell {
    enum cell_kind kind;
    const void *bytes; /* CELL_NAME: any bytes; CELL_TEXT: our own words */
    size_t size;
    int64_t number;
};

struct cell cell_none(void);
struct cell cell_absent(void); /* of JSON not even null; not the first one */
struct cell cell_name(const void *bytes, size_t size); /* or an empty one */
struct cell cell_text(const char *text); /* printable, valid UTF-8 */
struct cell cell_number(int64_t number);
struct cell cell_bool(bool value);

/* high * 2^64 + low as decimal digits, from somewhere in `text` on; and as a
 * cell: a number where int64 has it, else text, as long as `text` is there. */
const char *table_sum(int64_t high, uint64_t low, char text[TABLE_SUM_SIZE]);
struct cell cell_sum(int64_t high, uint64_t low, char text[TABLE_SUM_SIZE]);

/* A cell as the text that TSV has; of `raw` names the bytes, which have no NUL.
 * Returned is `text`, or a string of the cell's. */
const char *cell_plain(const struct cell *c, bool raw,
                       char text[NAME_TEXT_SIZE]);

enum table_format { TABLE_JSON, TABLE_TSV, TABLE_CSV };

struct table_writer {
    struct json_writer out; /* the buffer of all formats */
    enum table_format format;
    const struct table_column *columns;
    size_t column_count;
    const char *rows_key;      /* of the list in JSON */
    bool is_raw;               /* names as they are */
    bool has_numbers_as_texts; /* JSON: for readers with doubles */
    bool are_rows_open;        /* JSON: inside of rows */
    bool is_headed;            /* CSV: the heading is out */
};

/* Begins a document.  `columns` may be NULL (facts only). */
void table_begin(struct table_writer *t, enum table_format format, void *buffer,
                 size_t size, const struct table_column *columns,
                 size_t column_count);

/* A member of the JSON document, before or after the rows. */
void table_fact(struct table_writer *t, const char *key, struct cell value);

/* One cell per column. */
void table_row(struct table_writer *t, const struct cell *cells);

/* Ends the rows (JSON shows an empty list when there were none). */
void table_rows_end(struct table_writer *t);

/* Other rows, behind table_rows_end(): in JSON a list of this name. */
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

/* What is in the buffer has been taken out of it; the document goes on. */
static inline void
table_flushed(struct table_writer *t)
{
    t->out.at = t->out.begin;
}

#endif
