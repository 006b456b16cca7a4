/* tests/bench/bench_merge.c - merging uniform batches into a large keyspace,
 * against plain LMDB entries, and ranges of the result.
 *
 *     bench_merge [--quick] [DIR [KEYS [BATCH [ROUNDS]]]]
 *
 * Both sides hold the same KEYS counters of 20-byte keys and distinct counts,
 * in both orders.  ROUNDS times both get the same BATCH of uniform keys, in
 * turn: ours through store_apply, plain LMDB as two databases (key -> count,
 * ~count key -> nothing) with deletes and inserts each sorted by rank; both
 * with LMDB's default sync.  DIR (default: a new one in /var/tmp) should be on
 * a disk; what is made there is removed.  Prints, judges nothing. */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/store/lmdb/lmdb_store.h"
#include "tests/bench/report.h"

#define KEY_SIZE   20
#define RANK_SIZE  28
#define LOAD_BATCH 500000
#define TXN_MEMORY ((size_t)256 << 20)
#define ROUNDS_MAX 1000
#define RANGE_ROWS 100

static const uint8_t *const keyspace = (const uint8_t *)"bench";

struct bench {
    char dir[256];
    int dir_fd;
    uint64_t keys, batch, rounds;
    uint64_t rng;
    struct store *store;
    MDB_env *env;
    MDB_dbi by_key, by_rank;
    /* the batch at hand */
    uint64_t *ids;
    int64_t *adds;
    uint64_t count;
    uint8_t *key_bytes;
    struct store_delta *deltas;
    uint8_t *old_ranks, *new_ranks;
    double ours_ms[ROUNDS_MAX], plain_ms[ROUNDS_MAX];
};

static void
check(int rc, const char *what)
{
    if (rc == 0)
        return;
    (void)fprintf(stderr, "bench_merge: %s: %s\n", what,
                  rc < 0 && rc > -4096 ? strerror(-rc) : mdb_strerror(rc));
    exit(111);
}

static void *
need(size_t size)
{
    void *p = malloc(size);

    if (p == NULL)
        check(-ENOMEM, "malloc");
    return p;
}

static uint64_t
random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void
key_put(uint8_t *at, uint64_t id)
{
    memcpy(at, "key:____", 8);
    for (int i = KEY_SIZE - 1; i >= 8; i--, id /= 10)
        at[i] = (uint8_t)('0' + id % 10);
}

static void
rank_put(uint8_t *at, int64_t count, const uint8_t *key)
{
    put_be64(at, ~((uint64_t)count ^ (uint64_t)1 << 63));
    memcpy(at + 8, key, KEY_SIZE);
}

/* A permutation of 0 ... n - 1. */
static uint64_t
shuffled(uint64_t i, uint64_t n)
{
    unsigned bits = 1;
    uint64_t mask;

    while (bits < 63 && (uint64_t)1 << bits < n)
        bits++;
    mask = ((uint64_t)1 << bits) - 1;
    do {
        i = (i * 0x9e3779b97f4a7c15u + 0x7f4a7c15) & mask;
        i ^= i >> (bits + 1) / 2;
        i = i * 0xd6e8feb86659fd93u & mask;
        i ^= i >> (bits + 1) / 2;
    } while (i >= n);
    return i;
}

/* ---- loading ---- */

static void
apply_batch(struct bench *b, struct store_applied *applied)
{
    const struct store_batch batch = {.name = keyspace,
                                      .name_size = 5,
                                      .deltas = b->deltas,
                                      .delta_count = b->count};

    check(store_apply(b->store, &batch, applied), "store_apply");
}

static void
load_ours(struct bench *b)
{
    struct store_applied applied;

    for (uint64_t at = 0; at < b->keys; at += LOAD_BATCH) {
        const uint64_t n =
            b->keys - at < LOAD_BATCH ? b->keys - at : LOAD_BATCH;

        for (uint64_t i = 0; i < n; i++) {
            uint8_t *key = b->key_bytes + i * KEY_SIZE;

            key_put(key, at + i);
            b->deltas[i] = (struct store_delta){
                .key = key,
                .key_size = KEY_SIZE,
                .sum_low = b->keys - shuffled(at + i, b->keys),
            };
        }
        b->count = n;
        apply_batch(b, &applied);
    }
}

static void
open_plain(struct bench *b)
{
    char path[300];
    MDB_txn *txn;

    (void)snprintf(path, sizeof path, "%s/plain.mdb", b->dir);
    check(mdb_env_create(&b->env), "mdb_env_create");
    check(mdb_env_set_maxdbs(b->env, 4), "mdb_env_set_maxdbs");
    check(mdb_env_set_mapsize(b->env, (size_t)64 << 30), "mapsize");
    check(mdb_env_open(b->env, path, MDB_NOSUBDIR, 0600), "mdb_env_open");
    check(mdb_txn_begin(b->env, NULL, 0, &txn), "mdb_txn_begin");
    check(mdb_dbi_open(txn, "key", MDB_CREATE, &b->by_key), "mdb_dbi_open");
    check(mdb_dbi_open(txn, "rank", MDB_CREATE, &b->by_rank), "mdb_dbi_open");
    check(mdb_txn_commit(txn), "mdb_txn_commit");
}

static void
load_plain(struct bench *b)
{
    uint32_t *at_rank = need(b->keys * sizeof *at_rank);
    uint8_t key[KEY_SIZE], rank[RANK_SIZE];
    MDB_txn *txn;

    check(mdb_txn_begin(b->env, NULL, 0, &txn), "mdb_txn_begin");
    for (uint64_t i = 0; i < b->keys; i++) {
        const uint64_t r = shuffled(i, b->keys);
        int64_t count = (int64_t)(b->keys - r);
        MDB_val k = {KEY_SIZE, key}, v = {8, &count};

        at_rank[r] = (uint32_t)i;
        key_put(key, i);
        check(mdb_put(txn, b->by_key, &k, &v, MDB_APPEND), "mdb_put");
    }
    check(mdb_txn_commit(txn), "mdb_txn_commit");
    check(mdb_txn_begin(b->env, NULL, 0, &txn), "mdb_txn_begin");
    for (uint64_t r = 0; r < b->keys; r++) {
        MDB_val k = {RANK_SIZE, rank}, v = {0, NULL};

        key_put(key, at_rank[r]);
        rank_put(rank, (int64_t)(b->keys - r), key);
        check(mdb_put(txn, b->by_rank, &k, &v, MDB_APPEND), "mdb_put");
    }
    check(mdb_txn_commit(txn), "mdb_txn_commit");
    free(at_rank);
}

/* ---- one batch ---- */

static int
compare_ids(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void
make_batch(struct bench *b)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < b->batch; i++)
        b->ids[i] = random_next(&b->rng) % b->keys;
    qsort(b->ids, b->batch, sizeof *b->ids, compare_ids);
    for (uint64_t i = 0; i < b->batch; i++) {
        uint8_t *key = b->key_bytes + n * KEY_SIZE;

        if (i > 0 && b->ids[i] == b->ids[i - 1])
            continue;
        b->adds[n] = 1 + (int64_t)(random_next(&b->rng) % 1000);
        key_put(key, b->ids[i]);
        b->deltas[n] = (struct store_delta){
            .key = key,
            .key_size = KEY_SIZE,
            .sum_low = (uint64_t)b->adds[n],
        };
        n++;
    }
    b->count = n;
}

/* Bytes that this process has written to files so far. */
static double
written_mb(void)
{
    FILE *f = fopen("/proc/self/io", "re");
    unsigned long long read_bytes, bytes = 0;

    if (f == NULL)
        return 0;
    if (fscanf(f, "rchar: %llu wchar: %llu", &read_bytes, &bytes) != 2)
        bytes = 0;
    (void)fclose(f); /* only read */
    return (double)bytes / 1e6;
}

/* Processor time of this process in ms. */
static double
cpu_ms(void)
{
    struct timespec ts;

    check(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0 ? -errno : 0,
          "clock_gettime");
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static double
apply_ours(struct bench *b, struct store_applied *applied)
{
    const uint64_t start = clock_ns();

    apply_batch(b, applied);
    return (double)(clock_ns() - start) / 1e6;
}

static int
compare_ranks(const void *a, const void *b)
{
    return memcmp(a, b, RANK_SIZE);
}

static void
plain_keys(struct bench *b, MDB_txn *txn)
{
    MDB_cursor *c;

    check(mdb_cursor_open(txn, b->by_key, &c), "mdb_cursor_open");
    for (uint64_t i = 0; i < b->count; i++) {
        uint8_t *key = b->key_bytes + i * KEY_SIZE;
        MDB_val k = {KEY_SIZE, key}, v;
        int64_t count;

        check(mdb_cursor_get(c, &k, &v, MDB_SET_KEY), "mdb_cursor_get");
        memcpy(&count, v.mv_data, sizeof count);
        rank_put(b->old_ranks + i * RANK_SIZE, count, key);
        count += b->adds[i];
        rank_put(b->new_ranks + i * RANK_SIZE, count, key);
        v = (MDB_val){sizeof count, &count};
        check(mdb_cursor_put(c, &k, &v, MDB_CURRENT), "mdb_cursor_put");
    }
    mdb_cursor_close(c);
}

static void
plain_ranks(struct bench *b, MDB_txn *txn)
{
    MDB_cursor *c;

    check(mdb_cursor_open(txn, b->by_rank, &c), "mdb_cursor_open");
    qsort(b->old_ranks, b->count, RANK_SIZE, compare_ranks);
    qsort(b->new_ranks, b->count, RANK_SIZE, compare_ranks);
    for (uint64_t i = 0; i < b->count; i++) {
        MDB_val k = {RANK_SIZE, b->old_ranks + i * RANK_SIZE}, v;

        check(mdb_cursor_get(c, &k, &v, MDB_SET_KEY), "mdb_cursor_get");
        check(mdb_cursor_del(c, 0), "mdb_cursor_del");
    }
    for (uint64_t i = 0; i < b->count; i++) {
        MDB_val k = {RANK_SIZE, b->new_ranks + i * RANK_SIZE}, v = {0, NULL};

        check(mdb_cursor_put(c, &k, &v, 0), "mdb_cursor_put");
    }
    mdb_cursor_close(c);
}

static double
apply_plain(struct bench *b)
{
    const uint64_t start = clock_ns();
    MDB_txn *txn;

    check(mdb_txn_begin(b->env, NULL, 0, &txn), "mdb_txn_begin");
    plain_keys(b, txn);
    plain_ranks(b, txn);
    check(mdb_txn_commit(txn), "mdb_txn_commit");
    return (double)(clock_ns() - start) / 1e6;
}

/* ---- what is measured beside time ---- */

static double
disk_mb(const struct bench *b, const char *file)
{
    struct stat st;

    if (fstatat(b->dir_fd, file, &st, 0) < 0)
        return 0;
    return (double)st.st_blocks * 512 / 1e6;
}

static long
status_kb(const char *field)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[128];
    long kb = 0;

    if (f == NULL)
        return 0;
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kb = strtol(line + strlen(field), NULL, 10);
    (void)fclose(f); /* only read */
    return kb;
}

struct watch {
    atomic_bool stop;
    long peak_kb;
};

static void *
watch_memory(void *arg)
{
    struct watch *w = arg;

    while (!atomic_load(&w->stop)) {
        const long kb = status_kb("RssAnon:");

        if (kb > w->peak_kb)
            w->peak_kb = kb;
        (void)usleep(2000);
    }
    return NULL;
}

static void
open_ours(struct bench *b)
{
    const struct lmdb_options options = {
        .keyspace_fd = b->dir_fd,
        .keyspace_size = 256,
        .key_size = 256,
        .writable = true,
        .open_max = 4,
        .txn_memory = TXN_MEMORY,
    };

    check(lmdb_store_open(&b->store, &options), "store_open");
}

/* One more batch, not timed, to see its memory. */
static void
measure_memory(struct bench *b)
{
    struct watch w = {.stop = false};
    struct store_applied applied;
    pthread_t thread;
    long before;

    /* What LMDB has kept must not hide what it takes. */
    store_close(b->store);
    mdb_env_close(b->env);
    (void)malloc_trim(0); /* returns memory when there is any */
    open_plain(b);
    open_ours(b);
    make_batch(b);
    before = status_kb("RssAnon:");
    check(-pthread_create(&thread, NULL, watch_memory, &w), "pthread_create");
    (void)apply_ours(b, &applied);
    atomic_store(&w.stop, true);
    (void)pthread_join(thread, NULL); /* it ends at once */
    printf("anonymous memory of one batch: %ld MB above %ld MB before it\n",
           (w.peak_kb - before) / 1024, before / 1024);
}

static int
compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
print_times(const char *name, double *ms, uint64_t n)
{
    qsort(ms, n, sizeof *ms, compare_doubles);
    printf("%-20s  median %8.1f ms   min %8.1f   max %8.1f\n", name, ms[n / 2],
           ms[0], ms[n - 1]);
    return ms[n / 2];
}

/* ---- ranges ---- */

static void
time_ranges(struct bench *b, const char *name, uint64_t offset, bool random,
            unsigned per_view)
{
    static uint8_t bytes[RANGE_ROWS * 300];
    struct store_query q = {.op = STORE_RANGE,
                            .name = keyspace,
                            .name_size = 5,
                            .length = RANGE_ROWS};
    struct store_reads reads = {
        .queries = &q, .count = 1, .at = bytes, .capacity = sizeof bytes};
    const unsigned views = 20000 / per_view;
    uint64_t start, total = 0, state = 1;

    start = clock_ns();
    for (unsigned i = 0; i < views; i++) {
        for (unsigned n = 0; n < per_view; n++) {
            if (random)
                offset = random_next(&state) % (b->keys - RANGE_ROWS);
            q.offset = (int64_t)offset;
            (void)store_read(b->store, &reads); /* one: always answered */
            check(q.error, "store_read");
            total += q.rows;
        }
        store_read_end(b->store);
    }
    printf("range of %d, %-8s %2u per snapshot: %7.0f ns  (%llu rows each)\n",
           RANGE_ROWS, name, per_view,
           (double)(clock_ns() - start) / (views * per_view),
           (unsigned long long)(total / (views * per_view)));
}

static void
time_all_ranges(struct bench *b)
{
    for (unsigned per_view = 1; per_view <= 16; per_view *= 16) {
        time_ranges(b, "first,", 0, false, per_view);
        time_ranges(b, "middle,", b->keys / 2, false, per_view);
        time_ranges(b, "random,", 0, true, per_view);
    }
}

/* ---- all of it ---- */

static void
open_all(struct bench *b)
{
    const uint64_t room = b->batch > LOAD_BATCH ? b->batch : LOAD_BATCH;

    open_ours(b);
    open_plain(b);
    b->ids = need(b->batch * sizeof *b->ids);
    b->adds = need(b->batch * sizeof *b->adds);
    b->key_bytes = need(room * KEY_SIZE);
    b->deltas = need(room * sizeof *b->deltas);
    b->old_ranks = need(b->batch * RANK_SIZE);
    b->new_ranks = need(b->batch * RANK_SIZE);
}

static void
run_rounds(struct bench *b)
{
    struct store_applied applied = {.keys = 0};
    double ours, plain;

    for (uint64_t i = 0; i < b->rounds; i++) {
        double mb[3], cpu[3];

        make_batch(b);
        mb[0] = written_mb();
        cpu[0] = cpu_ms();
        b->ours_ms[i] = apply_ours(b, &applied);
        mb[1] = written_mb();
        cpu[1] = cpu_ms();
        b->plain_ms[i] = apply_plain(b);
        mb[2] = written_mb();
        cpu[2] = cpu_ms();
        printf("round %2llu: ours %8.1f ms (%llu commits, %.1f MB, %.0f ms of "
               "a CPU), plain %8.1f ms (%.1f MB, %.0f)\n",
               (unsigned long long)i + 1, b->ours_ms[i],
               (unsigned long long)applied.commits, mb[1] - mb[0],
               cpu[1] - cpu[0], b->plain_ms[i], mb[2] - mb[1], cpu[2] - cpu[1]);
        (void)fflush(stdout); /* somebody may be watching */
    }
    ours = print_times("blocks", b->ours_ms, b->rounds);
    plain = print_times("plain LMDB entries", b->plain_ms, b->rounds);
    printf("ratio of medians      %8.3f\n", ours / plain);
    report_row("merge of 100 k keys", "ms", ours, "plain LMDB entries", plain,
               ours / plain);
}

static void
print_sizes(const struct bench *b)
{
    const double packed = (double)b->keys * 2 * RANK_SIZE / 1e6;
    const double ours = disk_mb(b, "bench.mdb");

    printf("file: blocks %.0f MB = %.2f x packed (%.0f MB), plain %.0f MB\n",
           ours, ours / packed, packed, disk_mb(b, "plain.mdb"));
    report_row("file", "MB", ours, "packed rows", packed, ours / packed);
}

static void
remove_all(const struct bench *b, bool log_owner_dir)
{
    static const char *const files[] = {"bench.mdb", "bench.mdb-lock",
                                        "plain.mdb", "plain.mdb-lock"};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        (void)unlinkat(b->dir_fd, files[i], 0); /* best effort */
    if (log_owner_dir)
        (void)rmdir(b->dir); /* best effort */
}

static void
run(struct bench *b)
{
    uint64_t start = clock_ns();

    open_all(b);
    load_ours(b);
    printf("load: blocks %.1f s, ", (double)(clock_ns() - start) / 1e9);
    start = clock_ns();
    load_plain(b);
    printf("plain LMDB %.1f s\n", (double)(clock_ns() - start) / 1e9);
    print_sizes(b);
    run_rounds(b);
    print_sizes(b);
    measure_memory(b);
    time_all_ranges(b);
    store_close(b->store);
    mdb_env_close(b->env);
    free(b->ids);
    free(b->adds);
    free(b->key_bytes);
    free(b->deltas);
    free(b->old_ranks);
    free(b->new_ranks);
}

int
main(int argc, char **argv)
{
    static struct bench b = {
        .keys = 10000000, .batch = 100000, .rounds = 10, .rng = 1};
    int at = 1;
    bool log_owner_dir;

    if (argc > at && strcmp(argv[at], "--quick") == 0) {
        b.keys = 100000;
        b.batch = 2000;
        b.rounds = 3;
        at++;
    }
    log_owner_dir = argc <= at;
    (void)snprintf(b.dir, sizeof b.dir, "%s",
                   log_owner_dir ? "/var/tmp/bench_merge.XXXXXX" : argv[at++]);
    if (argc > at)
        b.keys = strtoull(argv[at++], NULL, 10);
    if (argc > at)
        b.batch = strtoull(argv[at++], NULL, 10);
    if (argc > at)
        b.rounds = strtoull(argv[at++], NULL, 10);
    if (b.keys < 2 * RANGE_ROWS || b.keys > UINT32_MAX || b.batch < 1 ||
        b.rounds < 1 || b.rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: bench_merge [--quick] [DIR [KEYS "
                              "[BATCH [ROUNDS]]]]\n");
        return 100;
    }
    if (log_owner_dir)
        check(mkdtemp(b.dir) == NULL ? -errno : 0, b.dir);
    else if (mkdir(b.dir, 0700) < 0 && errno != EEXIST)
        check(-errno, b.dir);
    b.dir_fd = open(b.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b.dir_fd < 0)
        check(-errno, b.dir);
    run(&b);
    remove_all(&b, log_owner_dir);
    return 0;
}
