/* common/log/log_table.h - the files of data/log, each as a row: `countd log
 * list --json` and GET /v1/logs have the same.
 *
 * Claims nothing, so the owner of a log may change while it is read.  A full
 * log that this user may not open is shown with its mode and the time of its
 * first message only.  How many slots of an open log are used is found by
 * search, in a few reads; a quarantined or salvaged log is read in full. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_LOG_TABLE_H
#define COUNTD_COMMON_LOG_LOG_TABLE_H

#include "common/log/logfile.h"
#include "common/wire/table_write.h"

#define LOG_COLUMNS 8

extern const struct table_column log_columns[LOG_COLUMNS];

/* Positions of these cells: how long ago the first message came, milliseconds;
 * 32 hexadecimal digits. */
enum { LOG_AGE = 5, LOG_UUID = 7 };

/* What the cells of a row point to. */
struct log_row {
    struct cell cells[LOG_COLUMNS];
    char mode[8], uuid[33];
};

/* Reads the file; `now_ms` is Unix time. */
void log_row_read(int log_fd, const struct logfile *f, uint64_t now_ms,
                  struct log_row *out);

#endif
