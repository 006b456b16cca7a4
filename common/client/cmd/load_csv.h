/* common/client/cmd/load_csv.h - increments from lines of CSV.
 *
 * The columns are named by the first line of a file, or by csv_columns():
 * keyspace, key, n or count, at or time, in any order.  A field may be in double
 * quotes; in it a quote is written twice, and it may have commas and ends of
 * lines.  Names are in text form, where \" is a quote as well, or as they are.
 *
 * Ownership: the caller's, who sets `raw` and `keyspace`.  Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_LOAD_CSV_H
#define COUNTD_COMMON_CLIENT_CMD_LOAD_CSV_H

#include "common/wire/increment_line.h"

#define CSV_COLUMNS_MAX 16
#define CSV_TEXT_MAX    4096 /* bytes of a row */

enum csv_column { CSV_NOTHING, CSV_KEYSPACE, CSV_KEY, CSV_N, CSV_AT };

struct csv {
    bool raw;                       /* names are as they are */
    struct increment_name keyspace; /* of all rows; size 0: a column has it */
    bool is_given;                  /* columns, for all files */
    unsigned count;                 /* columns; 0: the first line names them */
    enum csv_column columns[CSV_COLUMNS_MAX];
    size_t size; /* of a row whose quote is open */
    char text[CSV_TEXT_MAX];
};

enum csv_result {
    CSV_ROW,
    CSV_MORE,      /* the first line, or a quote is open */
    CSV_BAD,       /* this row */
    CSV_NO_COLUMNS /* the first line does not name them */
};

/* Names of columns, with commas between.  NULL, or what is wrong. */
const char *csv_columns(struct csv *c, const char *text);

/* A file begins. */
void csv_begin(struct csv *c);

/* Takes a line; *out is set by CSV_ROW, *why by a fault. */
enum csv_result csv_take(struct csv *c, const struct increment_form *form,
                         const char *text, size_t size, struct increment *out,
                         const char **why);

#endif
