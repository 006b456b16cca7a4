/* tests/bench/sides.c - see sides.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/sides.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/store/lmdb/lmdb_store.h"
#include "tests/bench/bench.h"
#include "tests/lib/stored.h"
#include "tests/lib/test.h"

struct batch sides_batch;

static uint64_t
now_ms(void)
{
    return (uint64_t)sides_batch.minute * 60000;
}

/* ---- stores ------------------------------------------------------------ */

void
side_make(struct side *s)
{
    *s = (struct side){.epoch = 0};
    tmpdir_make(&s->tmp);
}

void
side_open(struct side *s, const char *tiers)
{
    const struct lmdb_options options = {.keyspace_fd = s->tmp.fd,
                                         .keyspace_size = 256,
                                         .key_size = 256,
                                         .writable = true,
                                         .open_max = 128,
                                         .txn_memory = (size_t)128 << 20,
                                         .history = &s->rules,
                                         .now_ms = now_ms};
    const char *why;

    assert_rc(tiers_rules_set(&s->rules, NULL, tiers, &why), 0);
    assert_rc(lmdb_store_open(&s->store, &options), 0);
}

void
side_close(struct side *s)
{
    store_close(s->store);
    tmpdir_remove(&s->tmp);
}

double
side_apply(struct side *s, const char *name)
{
    const struct log_fill mark = {
        .uuid = {1}, .epoch = ++s->epoch, .first_ms = 1};
    const uint64_t start = clock_ns();

    assert_rc(stored_apply(s->store, name, &mark, sides_batch.deltas,
                           sides_batch.count),
              0);
    return (double)(clock_ns() - start) / 1e6;
}

double
side_file_mb(const struct side *s, const char *name)
{
    char path[32];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s.mdb", name);
    must(fstatat(s->tmp.fd, path, &st, 0), path);
    return (double)st.st_size / 1e6;
}

void
side_tend(struct side *s)
{
    const struct store_maintenance t = {.until_ns = clock_ns() + 10000000};

    (void)store_maintain(s->store,
                         &t); /* whether there is more: the next does */
}

double
side_used(struct side *s, const char *name)
{
    struct store_check_result r;

    assert_rc(store_check(s->store, (const uint8_t *)name, strlen(name), NULL,
                          NULL, &r),
              0);
    return (double)r.used_size;
}

/* ---- what stands beside -------------------------------------------------- */

void
beside_open(struct beside *b, const char *dir)
{
    static struct sqlite sqlite;
    static struct redis redis;

    *b = (struct beside){.sqlite = sqlite_open(&sqlite, dir) ? &sqlite : NULL,
                         .redis =
                             redis_open(&redis, dir, "always") ? &redis : NULL};
    if (!b->sqlite)
        (void)printf("libsqlite3 is not installed: not compared with it\n");
    if (!b->redis)
        (void)printf("redis-server is not installed: not compared with it\n");
}

void
beside_apply(struct beside *b)
{
    if (b->sqlite)
        b->sqlite_ms +=
            sqlite_apply(b->sqlite, sides_batch.deltas, sides_batch.count);
    if (b->redis)
        b->redis_ms +=
            redis_apply(b->redis, sides_batch.deltas, sides_batch.count);
}

void
beside_close(struct beside *b)
{
    if (b->sqlite)
        sqlite_close(b->sqlite);
    if (b->redis)
        redis_close(b->redis);
}
