/* tests/bench/sides.c - see sides.h. */
#include "tests/bench/sides.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/store/lmdb/lmdb_store.h"

uint32_t sides_minute;

static uint64_t
now_ms(void)
{
    return (uint64_t)sides_minute * 60000;
}

static struct store_delta deltas[SIDES_BATCH];
static uint8_t keys[SIDES_BATCH][SIDES_KEY + 1];
struct random sides_rng = {7};

void
sides_check(int rc, const char *what)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, strerror(-rc));
    exit(1);
}

/* ---- stores ------------------------------------------------------------ */

void
side_open(struct side *s, const char *dir, const char *tiers)
{
    struct lmdb_options options = {.keyspace_size = 256,
                                   .key_size = 256,
                                   .writable = true,
                                   .open_max = 128,
                                   .txn_memory = (size_t)128 << 20,
                                   .history = &s->rules,
                                   .now_ms = now_ms};
    const char *why;

    *s = (struct side){.fd = -1};
    (void)snprintf(s->dir, sizeof s->dir, "%s/%s", dir,
                   tiers[0] == 'o' ? "off" : "on"); /* fits */
    sides_check(mkdir(s->dir, 0700) < 0 ? -errno : 0, s->dir);
    s->fd = open(s->dir, O_RDONLY | O_DIRECTORY);
    options.keyspace_fd = s->fd;
    sides_check(tiers_rules_set(&s->rules, NULL, tiers, &why), "tiers");
    sides_check(lmdb_store_open(&s->store, &options), "open");
}

/* The store of a side that another process has open. */
void
side_read(struct side *s, const char *dir)
{
    struct lmdb_options options = {
        .keyspace_size = 256, .key_size = 256, .open_max = 8, .now_ms = now_ms};

    (void)snprintf(s->dir, sizeof s->dir, "%s/on", dir); /* fits */
    s->fd = open(s->dir, O_RDONLY | O_DIRECTORY);
    options.keyspace_fd = s->fd;
    sides_check(lmdb_store_open(&s->store, &options), "open");
}

/* Reads a commit, and stays there until store_read_end(). */
void
side_pin(struct side *s)
{
    static uint8_t room[4096];
    struct store_query q = {
        .op = STORE_TOTAL, .name = (const uint8_t *)"k", .name_size = 1};
    struct store_reads reads = {
        .queries = &q, .count = 1, .at = room, .capacity = sizeof room};

    sides_check(store_read(s->store, &reads) == 1 ? q.error : -EIO, "read");
}

void
side_close(struct side *s)
{
    char command[400];

    store_close(s->store);
    (void)close(s->fd); /* only read */
    (void)snprintf(command, sizeof command, "rm -rf '%s'", s->dir); /* fits */
    sides_check(-system(command), command);
}

static int
by_key(const void *a, const void *b)
{
    const struct store_delta *x = a, *y = b;

    return memcmp(x->key, y->key, SIDES_KEY);
}

/* `n` keys of `of`: those from `first` on, or random ones. */
size_t
sides_batch(uint64_t n, uint64_t of, uint64_t first, bool random)
{
    size_t kept = 0;

    assert(n <= SIDES_BATCH);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t id = random ? random_below(&sides_rng, of) : first + i;

        (void)snprintf((char *)keys[i], sizeof keys[i], "user:%08llu:visits",
                       (unsigned long long)id); /* 20 bytes and NUL */
        deltas[i] = (struct store_delta){.key = keys[i],
                                         .key_size = SIDES_KEY,
                                         .minute = sides_minute,
                                         .sum_low = 1 + id % 9};
    }
    if (random)
        qsort(deltas, n, sizeof *deltas, by_key);
    for (uint64_t i = 0; i < n; i++)
        if (kept == 0 || by_key(&deltas[kept - 1], &deltas[i]) != 0)
            deltas[kept++] = deltas[i];
    return kept;
}

/* Milliseconds. */
double
side_apply(struct side *s, const char *name, size_t n)
{
    const struct store_fill mark = {
        .uuid = {1}, .epoch = ++s->epoch, .first_ms = 1};
    const struct store_batch b = {.name = (const uint8_t *)name,
                                  .name_size = strlen(name),
                                  .marks = &mark,
                                  .mark_count = 1,
                                  .deltas = deltas,
                                  .delta_count = n};
    struct store_applied applied;
    const uint64_t start = clock_ns();

    sides_check(store_apply(s->store, &b, &applied), "apply");
    return (double)(clock_ns() - start) / 1e6;
}

double
side_file_mb(const struct side *s, const char *name)
{
    char path[32];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s.mdb", name); /* fits */
    sides_check(fstatat(s->fd, path, &st, 0) < 0 ? -errno : 0, path);
    return (double)st.st_size / 1e6;
}

void
side_tend(struct side *s)
{
    const struct store_maintenance t = {.until_ns = clock_ns() + 10000000};

    (void)store_maintain(s->store,
                         &t); /* whether there is more: the next does */
}

/* Bytes in use. */
double
side_used(struct side *s, const char *name)
{
    struct store_check_result r;

    sides_check(store_check(s->store, (const uint8_t *)name, strlen(name), NULL,
                            NULL, &r),
                "check");
    return (double)r.used_size;
}

/* ---- what stands beside -------------------------------------------------- */

void
beside_open(struct beside *b, const char *dir)
{
    static struct sqlite sqlite;
    static struct redis redis;

    *b = (struct beside){.sqlite = sqlite_open(&sqlite, dir) ? &sqlite : NULL,
                         .redis = redis_open(&redis, dir) ? &redis : NULL};
    if (!b->sqlite)
        (void)printf("libsqlite3 is not installed: not compared with it\n");
    if (!b->redis)
        (void)printf("redis-server is not installed: not compared with it\n");
}

void
beside_apply(struct beside *b, size_t n)
{
    if (b->sqlite)
        b->sqlite_ms += sqlite_apply(b->sqlite, deltas, n);
    if (b->redis)
        b->redis_ms += redis_apply(b->redis, deltas, n);
}

void
beside_close(struct beside *b)
{
    if (b->sqlite)
        sqlite_close(b->sqlite);
    if (b->redis)
        redis_close(b->redis);
}
