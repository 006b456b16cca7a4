/* common/store/waiting_table.h - what waits in log/waiting/ for each keyspace,
 * by its marks, and as a row: `countd held --json` and GET /v1/held have the
 * same. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_WAITING_TABLE_H
#define COUNTD_COMMON_STORE_WAITING_TABLE_H

#include "common/log/waiting.h"
#include "common/store/store.h"
#include "common/wire/table_write.h"

/* What a keyspace has not got yet. */
struct waiting_sum {
    /* Which of its fills to add, the caller's; NULL: all. */
    bool (*counts)(void *ctx, const struct log_fill *id);
    void *ctx;
    /* results */
    const uint8_t *name; /* until the next list; NULL: no fill names it */
    size_t name_size;
    uint64_t fills;
    uint64_t increments;
    uint64_t bytes;     /* bytes of these fills in their files */
    uint64_t oldest_ms; /* first_ms; UINT64_MAX: none */
    uint64_t newest_ms;
    uint64_t since_ms; /* when the first of them was set aside (Unix) */
    int error;         /* why the keyspace cannot be read; then it has none */
};

/* Adds up the fills, each once, that name a keyspace (its number, by the last list) and
 * that its marks do not show; without a store, all that name it. */
void waiting_sum(struct store *s, const struct waiting *w, uint32_t name,
                 struct waiting_sum *out);

/* Whether the keyspace has this fill, or a later one of its log: 1, 0, or an
 * error. */
int waiting_is_in(struct store *s, const uint8_t *name, size_t name_size,
                  const struct log_fill *id);

/* Calls `row` for each keyspace that has not got all, by name; stops when it
 * returns non-zero and returns that.  -ENOMEM */
int waiting_each(struct store *s, const struct waiting *w,
                 int (*row)(void *ctx, const struct waiting_sum *sum),
                 void *ctx);

#define WAITING_COLUMNS  7
#define WAITING_WHY_SIZE 96

/* Settings that a keyspace may refuse for. */
struct waiting_limits {
    uint64_t keyspaces_max, keys_max;
    uint64_t keyspaces; /* that there are, from waiting_cells(); 0 at first */
};

/* Positions of the two times among the cells: Unix time, milliseconds. */
enum { WAITING_OLDEST = 3, WAITING_SINCE = 4 };

extern const struct table_column waiting_columns[WAITING_COLUMNS];

/* Fills the cells of a row, and finds out why it waits; they point to its name
 * and `why`.  Without a store `why` is empty. */
void waiting_cells(struct store *s, const struct waiting_sum *sum,
                   struct waiting_limits *limits, char why[WAITING_WHY_SIZE],
                   struct cell cells[WAITING_COLUMNS]);

#endif
