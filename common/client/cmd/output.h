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
#include "common/wire/table_write.h"

enum output_format { OUTPUT_PEOPLE, OUTPUT_JSON, OUTPUT_TSV };

/* One row: the longest live name has 65,535 bytes, and a byte takes five in
 * JSON ("\\xff"). */
#define OUTPUT_BUFFER (5 * 65535 + 4096)

struct output {
    enum output_format format;
    const struct table_column *columns;
    size_t column_count;
    int widths[TABLE_COLUMNS_MAX];
    char *text; /* cells of a page of people's rows, each with its NUL */
    size_t text_size, text_capacity;
    size_t row_count; /* of the page */
    bool headed;      /* the heading is out */
    bool raw;         /* names as they are */
    bool failed;      /* out of memory */
    bool has_begun;   /* the table, which is of JSON and TSV: */
    struct table_writer table;
    char buffer[OUTPUT_BUFFER];
};

/* The format is what --json or --tsv of the line says.  `columns` may be NULL
 * (facts only). */
void output_init(struct output *o, const struct cmd_line *line,
                 const struct table_column *columns, size_t column_count);

/* A member of the JSON document, before or after the rows. */
void output_fact(struct output *o, const char *key, struct cell value);

/* The same for a count of anything. */
void output_count(struct output *o, const char *key, uint64_t count);

/* Prints a part of a sentence, where the format is not JSON, whose facts say
 * the same. */
void output_text(struct output *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One cell per column. */
void output_row(struct output *o, const struct cell *cells);

/* Other rows, behind output_rows_end(): a table of its own, in JSON a list of
 * this name. */
void output_next_rows(struct output *o, const char *key,
                      const struct table_column *columns, size_t column_count);

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
