/* common/store/held_table.h - what is held of each keyspace, as a row: `countd
 * held --json` and GET /v1/held have the same. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HELD_TABLE_H
#define COUNTD_COMMON_STORE_HELD_TABLE_H

#include "common/store/held.h"
#include "common/wire/table_write.h"

#define HELD_COLUMNS  7
#define HELD_WHY_SIZE 96

/* Of the settings that a keyspace may be refused for. */
struct held_limits {
    uint64_t keyspaces_max, keys_max;
};

/* Positions of the two times among the cells: Unix time, milliseconds. */
enum { HELD_OLDEST = 3, HELD_SINCE = 4 };

extern const struct table_column held_columns[HELD_COLUMNS];

/* Fills the cells of a row; they point to `s` and `why`. */
void held_cells(const struct held_summary *s, const struct held_limits *limits,
                char why[HELD_WHY_SIZE], struct cell cells[HELD_COLUMNS]);

#endif
