/* tests/bench/bench_history.c - what history costs a merge, and what its
 * answers take.
 *
 *     bench_history [--quick] [--answers] [DIR]
 *
 * Merges: the same batches go to a store that keeps the default history and to
 * one that keeps none, in turn, a second of a driven clock apart: 100k uniform
 * keys into 10M; 1k keys to each of 100 keyspaces of 10k; the same 10k keys
 * each second.  All of history's care is in the times.  Beside the second one,
 * where libsqlite3 is there: a table (key, hour, sum) in SQLite.
 *
 * Answers: of a key with ten years of days and ninety days of hours; the top
 * 100 of a day among 1M keys, closed and running.  DIR (default: a new one in
 * /var/tmp) should be on a disk; what is made there is removed.  Prints, judges
 * nothing. */
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/store/lmdb/engine.h"
#include "tests/bench/series.h"
#include "tests/lib/random.h"

#define KEY_SIZE 20
#define DAY      1440u
#define BATCH    500000

static uint32_t minute;
static bool quick, answers;

static uint64_t
now_ms(void)
{
    return (uint64_t)minute * 60000;
}

struct side {
    char dir[300];
    int fd;
    struct store *store;
    struct tiers_rules rules;
    uint64_t epoch;
};

static struct store_delta deltas[BATCH];
static uint8_t keys[BATCH][KEY_SIZE + 1];
static struct random rng = {7};

static void
check(int rc, const char *what)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, strerror(-rc));
    exit(1);
}

/* ---- stores ------------------------------------------------------------ */

static void
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
    check(mkdir(s->dir, 0700) < 0 ? -errno : 0, s->dir);
    s->fd = open(s->dir, O_RDONLY | O_DIRECTORY);
    options.keyspace_fd = s->fd;
    check(tiers_rules_set(&s->rules, NULL, tiers, &why), "tiers");
    check(lmdb_store_open(&s->store, &options), "open");
}

static void
side_close(struct side *s)
{
    char command[400];

    store_close(s->store);
    (void)close(s->fd); /* only read */
    (void)snprintf(command, sizeof command, "rm -rf '%s'", s->dir); /* fits */
    check(-system(command), command);
}

static int
by_key(const void *a, const void *b)
{
    const struct store_delta *x = a, *y = b;

    return memcmp(x->key, y->key, KEY_SIZE);
}

/* `n` keys of `of`: those from `first` on, or random ones. */
static size_t
make_batch(uint64_t n, uint64_t of, uint64_t first, bool random)
{
    size_t kept = 0;

    assert(n <= BATCH);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t id = random ? random_below(&rng, of) : first + i;

        (void)snprintf((char *)keys[i], sizeof keys[i], "user:%08llu:visits",
                       (unsigned long long)id); /* 20 bytes and NUL */
        deltas[i] = (struct store_delta){.key = keys[i],
                                         .key_size = KEY_SIZE,
                                         .minute = minute,
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
static double
apply(struct side *s, const char *name, size_t n)
{
    const struct store_mark mark = {
        .uuid = {1}, .epoch = ++s->epoch, .first_ms = 1};
    const struct store_batch b = {.name = (const uint8_t *)name,
                                  .name_size = strlen(name),
                                  .marks = &mark,
                                  .mark_count = 1,
                                  .deltas = deltas,
                                  .delta_count = n};
    struct store_applied applied;
    const uint64_t start = clock_ns();

    check(store_apply(s->store, &b, &applied), "apply");
    return (double)(clock_ns() - start) / 1e6;
}

static double
file_mb(const struct side *s, const char *name)
{
    char path[32];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s.mdb", name); /* fits */
    check(fstatat(s->fd, path, &st, 0) < 0 ? -errno : 0, path);
    return (double)st.st_size / 1e6;
}

/* ---- SQLite ------------------------------------------------------------ */

struct sqlite {
    void *db, *insert;
    int (*exec)(void *db, const char *sql, void *f, void *ctx, char **error);
    int (*bind_text)(void *s, int i, const char *text, int size, void *free);
    int (*bind_int)(void *s, int i, long long value);
    int (*step)(void *s);
    int (*reset)(void *s);
    int (*close)(void *db);
};

/* A function of the library: ISO C has no other way to say it. */
static void
take(void *library, const char *name, void *function)
{
    void *at = dlsym(library, name);

    assert(at != NULL);
    memcpy(function, &at, sizeof at);
}

static bool
sqlite_open(struct sqlite *q, const char *dir)
{
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW);
    int (*open_db)(const char *path, void **db);
    int (*prepare)(void *db, const char *sql, int size, void **s, void *tail);
    char path[400];

    if (library == NULL)
        return false;
    take(library, "sqlite3_open", &open_db);
    take(library, "sqlite3_prepare_v2", &prepare);
    take(library, "sqlite3_exec", &q->exec);
    take(library, "sqlite3_bind_text", &q->bind_text);
    take(library, "sqlite3_bind_int64", &q->bind_int);
    take(library, "sqlite3_step", &q->step);
    take(library, "sqlite3_reset", &q->reset);
    take(library, "sqlite3_close", &q->close);
    (void)snprintf(path, sizeof path, "%s/sqlite", dir); /* fits */
    assert(open_db(path, &q->db) == 0);
    q->exec(q->db,
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            "CREATE TABLE h (key TEXT, hour INT, sum INT,"
            " PRIMARY KEY (key, hour)) WITHOUT ROWID",
            NULL, NULL, NULL);
    return prepare(
               q->db,
               "INSERT INTO h VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET "
               "sum = sum + excluded.sum",
               -1, &q->insert, NULL) == 0;
}

static double
sqlite_apply(struct sqlite *q, size_t n)
{
    const uint64_t start = clock_ns();

    q->exec(q->db, "BEGIN", NULL, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        q->bind_text(q->insert, 1, (const char *)deltas[i].key, KEY_SIZE, NULL);
        q->bind_int(q->insert, 2, minute / 60);
        q->bind_int(q->insert, 3, (long long)deltas[i].sum_low);
        q->step(q->insert);
        q->reset(q->insert);
    }
    q->exec(q->db, "COMMIT", NULL, NULL, NULL);
    return (double)(clock_ns() - start) / 1e6;
}

/* ---- merges ------------------------------------------------------------ */

struct shape {
    const char *what;
    uint64_t keys, batch; /* in each keyspace */
    unsigned keyspaces, rounds;
    bool hot; /* always the same keys */
};

static void
load(struct side *s, const struct shape *p)
{
    char name[16];

    for (unsigned k = 0; k < p->keyspaces; k++)
        for (uint64_t at = 0; at < p->keys; at += BATCH) {
            const uint64_t left = p->keys - at;

            (void)snprintf(name, sizeof name, "k%u", k); /* fits */
            (void)apply(s, name,
                        make_batch(left < BATCH ? left : BATCH, 0, at, false));
        }
}

static double
round_of(struct side *s, const struct shape *p, uint64_t seed, double *sql,
         struct sqlite *q)
{
    double ms = 0;
    char name[16];

    rng.state = seed;
    for (unsigned k = 0; k < p->keyspaces; k++) {
        const size_t n = make_batch(p->batch, p->keys, 0, !p->hot);

        (void)snprintf(name, sizeof name, "k%u", k); /* fits */
        ms += apply(s, name, n);
        if (q != NULL)
            *sql += sqlite_apply(q, n);
    }
    return ms;
}

static void
time_merges(const char *dir, const struct shape *p)
{
    struct side on, off;
    double with = 0, without = 0, sql = 0, most = 0;
    struct sqlite q;
    bool has_sqlite = p->hot;

    minute = 29000000;
    side_open(&on, dir, "1m:2d,1h:90d,1d:10y");
    side_open(&off, dir, "off");
    has_sqlite = has_sqlite && sqlite_open(&q, on.dir);
    load(&on, p);
    load(&off, p);
    for (unsigned i = 0; i < p->rounds; i++) {
        double ms;

        minute = 29000060 + i / 60;
        ms = round_of(&on, p, i, &sql, has_sqlite ? &q : NULL);
        with += ms;
        most = ms > most ? ms : most;
        without += round_of(&off, p, i, NULL, NULL);
    }
    (void)printf("%-28s %9.1f ms without, %9.1f with: x %.2f; longest %.1f ms; "
                 "file %.1f, %.1f MB\n",
                 p->what, without / p->rounds, with / p->rounds, with / without,
                 most, file_mb(&off, "k0"), file_mb(&on, "k0"));
    if (has_sqlite) {
        (void)printf("%-28s %9.1f ms\n", "  SQLite, (key, hour)",
                     sql / p->rounds);
        q.close(q.db);
    }
    side_close(&on);
    side_close(&off);
}

/* ---- answers ----------------------------------------------------------- */

/* The median of some times. */
static double
ask(struct side *s, const struct store_past *zero)
{
    struct series t = {.count = 0};
    struct store_past q;

    for (int i = 0; i < 9; i++) {
        const uint64_t start = clock_ns();

        q = *zero;
        check(store_past(s->store, &q, 0), "ask");
        store_read_end(s->store);
        series_add(&t, (double)(clock_ns() - start) / 1e6);
    }
    return series_median(&t);
}

static void
time_key(const char *dir)
{
    static struct store_bucket buckets[STORE_BUCKETS_MAX];
    const unsigned days = quick ? 400 : 3650;
    struct side s;
    struct store_past zero = {.op = STORE_PAST_KEY,
                              .name = (const uint8_t *)"k",
                              .name_size = 1,
                              .key = (const uint8_t *)"user:00000050:visits",
                              .key_size = KEY_SIZE,
                              .buckets = buckets};

    minute = 29000160 / DAY * DAY;
    side_open(&s, dir, "1m:2d,1h:90d,1d:10y");
    for (unsigned day = 0; day < days; day++)
        for (unsigned hour = 0; hour < (day + 90 < days ? 1 : 24); hour++) {
            (void)apply(&s, "k", make_batch(200, 0, 0, false));
            minute += day + 90 < days ? DAY : 60;
        }
    zero.to = minute / 60 * 60;
    zero.from = zero.to - 89 * DAY;
    zero.step = 60;
    (void)printf("%-28s %9.3f ms\n", "a key, 90 days by hour", ask(&s, &zero));
    zero.to = minute / DAY * DAY;
    zero.from = zero.to - (days - 1) * DAY;
    zero.step = DAY;
    (void)printf("%-28s %9.3f ms\n",
                 quick ? "a key, a year by day" : "a key, ten years by day",
                 ask(&s, &zero));
    (void)printf("%-28s %9.2f MB for 200 keys\n", "  its file",
                 file_mb(&s, "k"));
    side_close(&s);
}

static void
time_top(const char *dir)
{
    static struct store_top top[100];
    const uint64_t count = quick ? 100000 : 1000000;
    struct store_past zero = {.op = STORE_PAST_TOP,
                              .name = (const uint8_t *)"k",
                              .name_size = 1,
                              .top = top,
                              .length = 100};
    struct side s;
    uint32_t day;

    minute = 29000160 / DAY * DAY;
    day = minute;
    side_open(&s, dir, "1m:2d,1h:90d,1d:10y");
    for (unsigned hour = 0; hour < 24 + 14; hour++)
        for (unsigned i = 0; i < 6; i++) {
            /* Zipf, as it were: some keys come each time. */
            (void)apply(&s, "k", make_batch(count / 50, count, 0, true));
            (void)apply(&s, "k", make_batch(count / 500, count / 50, 0, true));
            minute += 10;
        }
    zero.from = day;
    zero.to = day + DAY;
    (void)printf("%-28s %9.2f ms\n", "top 100 of a closed day", ask(&s, &zero));
    zero.from = day + DAY;
    zero.to = day + 2 * DAY;
    (void)printf("%-28s %9.2f ms\n", "top 100 of the running day",
                 ask(&s, &zero));
    (void)printf("%-28s %9.2f MB for %llu keys\n", "  its file",
                 file_mb(&s, "k"), (unsigned long long)count);
    side_close(&s);
}

int
main(int argc, char **argv)
{
    struct shape shapes[] = {
        {"100k keys into 10M", 10000000, 100000, 1, 40, false},
        {"1k keys to each of 100", 10000, 1000, 100, 20, false},
        {"10k hot keys each second", 10000, 10000, 1, 300, true},
    };
    char dir[256] = "/var/tmp/countd-bench-XXXXXX";

    diag_init("bench", DIAG_ERROR);
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (strcmp(argv[i], "--answers") == 0)
            answers = true;
        else
            (void)snprintf(dir, sizeof dir, "%s", argv[i]); /* cut: fails */
    if (strstr(dir, "XXXXXX") != NULL && mkdtemp(dir) == NULL)
        return 1;
    if (quick) {
        shapes[0] =
            (struct shape){"20k keys into 500k", 500000, 20000, 1, 20, false};
        shapes[1].rounds = 5;
        shapes[2].rounds = 130;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!answers)
            time_merges(dir, &shapes[i]);
    time_key(dir);
    time_top(dir);
    (void)rmdir(dir); /* a given one may have more in it */
    return 0;
}
