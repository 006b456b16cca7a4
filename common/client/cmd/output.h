/* common/client/cmd/output.h - what subcommands print: rows and facts, as a
 * table for people, as JSON, or as tab-separated columns.
 *
 *     people  aligned columns under a heading; facts only where the caller
 *             prints them itself
 *     JSON    one document: {"fact": ..., "rows": [{...}, ...], "fact": ...}
 *     TSV     the rows, no heading
 *
 * Names are printed in the text form of common/wire/name.h in all three, so
 * JSON is valid whatever bytes a name has and every name can be typed back in.
 *
 * Ownership: struct output is the caller's between init and fini.  Cells are
 * only looked at during the call.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_OUTPUT_H
#define COUNTD_COMMON_CLIENT_CMD_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/client/cmd/cmd.h"

#define OUTPUT_COLUMNS_MAX 10

enum output_format { OUTPUT_PEOPLE, OUTPUT_JSON, OUTPUT_TSV };

struct output_column {
    const char *title; /* for people */
    const char *key;   /* in JSON */
    bool right;        /* aligned */
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

struct output {
    enum output_format format;
    const struct output_column *columns;
    size_t column_count;
    const char *rows_key; /* of the list in JSON */
    int widths[OUTPUT_COLUMNS_MAX];
    char *text; /* cells of a page of people's rows, each with its NUL */
    size_t text_size, text_capacity;
    size_t row_count; /* of the page */
    bool headed;      /* the heading is out */
    bool open;        /* JSON: the document has begun */
    bool rows_open;   /* JSON: inside of rows */
    bool first;       /* JSON: no comma needed */
    bool raw;         /* names as they are */
    bool failed;      /* out of memory */
};

struct cell cell_none(void);
struct cell cell_absent(void); /* of JSON not even null; not the first one */
struct cell cell_name(const void *bytes, size_t size);
struct cell cell_text(const char *text); /* printable, valid UTF-8 */
struct cell cell_number(int64_t number);
struct cell cell_bool(bool value);

/* high * 2^64 + low as decimal digits, from somewhere in `text` on; and as a
 * cell: a number where int64 has it, else text, as long as `text` is there. */
#define OUTPUT_SUM_SIZE 48
const char *output_sum(int64_t high, uint64_t low, char text[OUTPUT_SUM_SIZE]);
struct cell cell_sum(int64_t high, uint64_t low, char text[OUTPUT_SUM_SIZE]);

/* The format is what --json or --tsv of the line says.  `columns` may be NULL
 * (facts only). */
void output_init(struct output *o, const struct cmd_line *line,
                 const struct output_column *columns, size_t column_count);

/* A member of the JSON document, before or after the rows. */
void output_fact(struct output *o, const char *key, struct cell value);

/* One cell per column. */
void output_row(struct output *o, const struct cell *cells);

/* Other rows, behind output_rows_end(): a table of its own, in JSON a list of
 * this name. */
void output_next_rows(struct output *o, const char *key,
                      const struct output_column *columns, size_t column_count);

/* Ends the rows (JSON shows an empty list when there were none). */
void output_rows_end(struct output *o);

/* How fresh the rows are: a fact, or for people "as of 0.4 s ago". */
void output_as_of(struct output *o, int64_t as_of_ms);

/* Ends the document.  Returns an exit status: what stdout did not take is
 * noticed here. */
int output_fini(struct output *o);

/* The ending of a noun: "1 increment", "2 increments". */
const char *output_plural(uint64_t count);

/* "3.2 s", "5 min", "2 h", "3 d": an age for people. */
void output_age(int64_t ms, char text[32]);

#endif
