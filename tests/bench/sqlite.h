/* tests/bench/sqlite.h - history as users of SQLite keep it: a table (key,
 * hour, sum), WAL, every commit synced.
 *
 * The library is looked for when it runs.  What fails ends the bench. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_SQLITE_H
#define COUNTD_TESTS_BENCH_SQLITE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/store/store.h"

struct sqlite {
    char path[600];
    void *db, *insert;
    int (*exec)(void *db, const char *sql, void *f, void *ctx, char **error);
    int (*bind_text)(void *s, int i, const char *text, int size, void *free);
    int (*bind_int)(void *s, int i, long long value);
    int (*step)(void *s);
    int (*reset)(void *s);
    int (*finalize)(void *s);
    int (*close)(void *db);
};

/* A new file in a folder.  False: libsqlite3 is not installed. */
bool sqlite_open(struct sqlite *q, const char *dir);
void sqlite_close(struct sqlite *q);

/* Adds increments in one transaction; milliseconds. */
double sqlite_apply(struct sqlite *q, const struct store_delta *deltas,
                    size_t count);

/* Bytes of the file, all of the log in it. */
double sqlite_size(struct sqlite *q);

#endif
