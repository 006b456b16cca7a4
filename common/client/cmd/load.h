/* common/client/cmd/load.h - what load.c and load_once.c share: files of
 * increments, line by line, with what is wrong with them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_LOAD_H
#define COUNTD_COMMON_CLIENT_CMD_LOAD_H

#include "common/client/cmd/cmd_terminal.h"
#include "common/wire/increment_line.h"

struct load {
    struct countd *c; /* NULL: --dry-run */
    const struct cmd_line *line;
    enum cmd_peer peer;
    bool strict;
    bool once; /* --once */
    struct increment_form form;
    struct csv *csv; /* NULL: lines with tabs */
    uint64_t timeout_ms;
    struct progress progress;
    const char *path;      /* of the file being read, as given */
    uint64_t bytes_before; /* bytes of the files before it */
    uint64_t sent;         /* increments given to the library */
    uint64_t bad;          /* lines */
    int file_status;       /* the worst of the files' errors */
    bool stopped;          /* --strict met a bad line, or a signal came */
    struct interrupt stop;
    uint64_t last_line; /* taken of this file */
    int64_t pending;    /* at the last look */
    uint64_t moved_ms;  /* when `pending` last changed */
};

/* Opens a file; an error is reported, and l->file_status says so. */
int load_begin_file(struct load *l, const char *path, struct lines *lines);

/* Reads a line.  False: there is no increment in it, and what is wrong was
 * reported. */
bool load_read_line(struct load *l, const struct lines *lines, const char *text,
                    size_t size, struct increment *out);

/* Closes a file; `filled` is what lines_fill() said last. */
void load_end_file(struct load *l, struct lines *lines, int filled);

/* Loads the files of the command line so that each counts once.  Returns an exit
 * status. */
int load_once(struct load *l);

/* ---- CSV ---------------------------------------------------------------- */

/* Increments from lines of CSV.
 *
 * The columns are named by the first line of a file, or by csv_columns():
 * keyspace, key, n or count, at or time, in any order.  A field may be in double
 * quotes; in it a quote is written twice, and it may have commas and ends of
 * lines.  Names are in text form, where \" is a quote as well, or as they are.
 *
 * Ownership: the caller's, who sets `raw` and `keyspace`.  Pure. */

#define CSV_COLUMNS_MAX 16
#define CSV_TEXT_MAX    4096 /* bytes of a row */
#define CSV_SHOWN       64   /* bytes of a column's name in a message */

enum csv_column { CSV_NOTHING, CSV_KEYSPACE, CSV_KEY, CSV_N, CSV_AT };

struct csv {
    bool raw;                       /* names are as they are */
    struct increment_name keyspace; /* of all rows; size 0: a column has it */
    bool is_given;                  /* columns, for all files */
    unsigned count;                 /* columns; 0: the first line names them */
    enum csv_column columns[CSV_COLUMNS_MAX];
    size_t size; /* of a row whose quote is open */
    char text[CSV_TEXT_MAX];
    const char *wrong; /* with the line that was taken last; NULL: nothing */
    char why[4 * CSV_SHOWN + 160];
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

/* Takes a line; *out is set by CSV_ROW. */
enum csv_result csv_take(struct csv *c, const struct increment_form *form,
                         const char *text, size_t size, struct increment *out);

#endif
