/* tests/bench/sqlite.c - see sqlite.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/sqlite.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/lib/test.h"

/* A function of the library: ISO C has no other way to say it. */
static void
take_function(void *library, const char *name, void *function)
{
    void *at = dlsym(library, name);

    assert_non_null(at);
    memcpy(function, &at, sizeof at);
}

bool
sqlite_open(struct sqlite *q, const char *dir)
{
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW);
    int (*open_db)(const char *path, void **db);
    int (*prepare)(void *db, const char *sql, int size, void **s, void *tail);

    if (library == NULL)
        return false;
    take_function(library, "sqlite3_open", &open_db);
    take_function(library, "sqlite3_prepare_v2", &prepare);
    take_function(library, "sqlite3_exec", &q->exec);
    take_function(library, "sqlite3_bind_text", &q->bind_text);
    take_function(library, "sqlite3_bind_int64", &q->bind_int);
    take_function(library, "sqlite3_step", &q->step);
    take_function(library, "sqlite3_reset", &q->reset);
    take_function(library, "sqlite3_finalize", &q->finalize);
    take_function(library, "sqlite3_close", &q->close);
    (void)snprintf(q->path, sizeof q->path, "%s/sqlite", dir);
    assert_int_equal(open_db(q->path, &q->db), 0);
    assert_int_equal(
        q->exec(q->db,
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                "CREATE TABLE h (key TEXT, hour INT, sum INT,"
                " PRIMARY KEY (key, hour)) WITHOUT ROWID",
                NULL, NULL, NULL),
        0);
    assert_int_equal(
        prepare(q->db,
                "INSERT INTO h VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET "
                "sum = sum + excluded.sum",
                -1, &q->insert, NULL),
        0);
    return true;
}

void
sqlite_close(struct sqlite *q)
{
    (void)q->finalize(q->insert); /* says what the last step said */
    (void)q->close(q->db);        /* its file is removed with the folder */
}

double
sqlite_apply(struct sqlite *q, const struct store_delta *deltas, size_t count)
{
    const uint64_t start = clock_ns();

    q->exec(q->db, "BEGIN", NULL, NULL, NULL);
    for (size_t i = 0; i < count; i++) {
        q->bind_text(q->insert, 1, (const char *)deltas[i].key,
                     deltas[i].key_size, NULL);
        q->bind_int(q->insert, 2, deltas[i].minute / 60);
        q->bind_int(q->insert, 3, (long long)deltas[i].sum);
        q->step(q->insert);
        q->reset(q->insert);
    }
    q->exec(q->db, "COMMIT", NULL, NULL, NULL);
    return (double)(clock_ns() - start) / 1e6;
}

double
sqlite_size(struct sqlite *q)
{
    struct stat st;

    q->exec(q->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    must(stat(q->path, &st), q->path);
    return (double)st.st_size;
}
