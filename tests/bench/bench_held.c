/* tests/bench/bench_held.c - what a sick keyspace costs a healthy one.
 *
 *     bench_held [--quick]
 *
 * Two data directories on a disk (/var/tmp): one with a healthy keyspace, one
 * with the same and 100,000 records held for another that is damaged.  A worker
 * and a reader in this process, as the daemons run them, take turns on the two:
 * the same full logs for the healthy keyspace, then the same ranges of it.
 * Prints the rates as ratios; how far as_of_ms is behind; then makes the sick
 * keyspace well and prints how long it takes until nothing is held, with logs
 * waiting all the time and without; then the same with ten thousand names that
 * there is no room for (keyspace.max).  Judges nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/log/log_create.h"
#include "common/log/slot.h"
#include "common/store/lmdb/lmdb_store.h"
#include "reader/as_of.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"
#include "worker/drain.h"
#include "worker/merge.h"

#define HELD       100000
#define NAMES      10000
#define RECORDS    20000 /* increments of a log */
#define KEYS       200000
#define KEYSPACES  2 /* there is no room for more */
#define ROUNDS     24
#define IDLE_NS    15000000000u /* the drain without logs, at most */
#define RANGES     3000         /* of a round */
#define RANGE_ROWS 100

struct side {
    struct tmpdir tmp;
    struct datadir dir;
    struct config config;
    struct store *store; /* the worker's */
    struct held *held;
    struct merge merge;
    struct drain drain;
    struct store *read;
    struct as_of as_of;
    struct random random;
    uint64_t drain_ms;
    double merge_ns, drain_ns, range_ns; /* in all */
    double work_cpu_ns, range_cpu_ns;
    double behind_ms, behind_most_ms;
    unsigned rounds;
};

static struct side sides[2];
static uint64_t held_records, names, rounds;

static void
check(int rc, const char *what)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "bench_held: %s: %s\n", what, strerror(-rc));
    exit(111);
}

/* Time that this process had: others may use the machine as well. */
static uint64_t
cpu_ns(void)
{
    struct timespec t;

    check(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) < 0 ? -errno : 0, "time");
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double
seconds(uint64_t since_ns)
{
    return (double)(clock_ns() - since_ns) / 1e9;
}

/* ---- logs -------------------------------------------------------------- */

/* Makes log 0 if need be, and fills it: `name(i)` and key of record i. */
static void
fill_log(struct side *s, uint64_t count,
         void (*record)(struct side *s, uint64_t i, struct message *m))
{
    struct layout layout;
    struct log log;
    uint8_t *slots;
    const uint64_t now = clock_unix_ms();
    int rc;

    check(layout_init(&layout, 256, 256), "layout");
    rc = log_create(s->dir.log_fd, 0, &layout, RECORDS);
    if (rc != -EEXIST)
        check(rc, "make a log");
    check(log_claim(&log, s->dir.log_fd, 0, LOG_MODE_EMPTY), "claim a log");
    check(log_begin(&log), "begin a log");
    slots = malloc(count * layout.slot_size);
    if (slots == NULL)
        check(-ENOMEM, "malloc");
    for (uint64_t i = 0; i < count; i++) {
        const struct slot_stamp stamp = {.epoch = log.header.epoch,
                                         .received_ms = now};
        uint8_t *slot = slots + i * layout.slot_size;
        struct message m = {.increment = 1}, in;

        record(s, i, &m);
        check(message_put(&layout, &m, slot), "put a message");
        check(message_parse(&layout, slot, &in), "parse it");
        slot_put(&layout, slot, &in, log.header.uuid, (uint32_t)i, &stamp);
    }
    check(log_append(&log, slots, (uint32_t)count, now, now), "append");
    free(slots);
    check(log_seal(&log), "seal");
    check(log_release(&log), "release");
}

static char record_name[32], record_key[32];

static void
set_record(struct message *m)
{
    m->keyspace = (const uint8_t *)record_name;
    m->keyspace_size = (uint16_t)strlen(record_name);
    m->key = (const uint8_t *)record_key;
    m->key_size = (uint16_t)strlen(record_key);
}

static void
well_record(struct side *s, uint64_t i, struct message *m)
{
    (void)i; /* any key */
    (void)snprintf(record_name, sizeof record_name, "well");
    (void)snprintf(record_key, sizeof record_key, "key:%08llu",
                   (unsigned long long)random_below(&s->random, KEYS));
    set_record(m);
}

static void
name_record(struct side *s, uint64_t i, struct message *m)
{
    (void)s; /* the same on both sides */
    (void)snprintf(record_name, sizeof record_name, "no-room-%06llu",
                   (unsigned long long)i);
    (void)snprintf(record_key, sizeof record_key, "key");
    set_record(m);
}

/* ---- a side ------------------------------------------------------------ */

static struct store *
open_store(const struct side *s, bool writable)
{
    const struct lmdb_options o = {.keyspace_fd = s->dir.keyspace_fd,
                                   .keyspace_size = 256,
                                   .key_size = 256,
                                   .writable = writable,
                                   .open_max = 64,
                                   .txn_memory = (size_t)64 << 20,
                                   .keyspace_max = KEYSPACES};
    struct store *store;

    check(lmdb_store_open(&store, &o), "open the store");
    return store;
}

static void
open_worker(struct side *s)
{
    const struct held_options held = {.data_fd = s->dir.fd, .writable = true};

    s->store = open_store(s, true);
    check(held_open(&s->held, &held), "open data/held");
    check(merge_open(&s->merge, &s->config, &s->dir, s->store, s->held),
          "make room");
    drain_init(&s->drain, s->store, s->held);
}

static void
close_worker(struct side *s)
{
    merge_close(&s->merge);
    held_close(s->held);
    store_close(s->store);
}

static void
open_side(struct side *s)
{
    struct layout layout;

    tmpdir_make(&s->tmp);
    config_defaults(&s->config);
    s->config.keyspace_max = KEYSPACES;
    check(datadir_open(&s->dir, s->tmp.path, DATADIR_WRITE), "open it");
    check(layout_init(&layout, 256, 256), "layout");
    s->random.state = 1;
    open_worker(s);
    s->read = open_store(s, false);
    check(as_of_init(&s->as_of, s->read, &s->dir, &layout, 32 << 20), "as of");
}

static void
close_side(struct side *s)
{
    as_of_fini(&s->as_of);
    store_close(s->read);
    close_worker(s);
    datadir_close(&s->dir);
    tmpdir_remove(&s->tmp);
}

/* Every key of the healthy keyspace, and one of the other. */
static void
load(struct side *s)
{
    static struct store_delta deltas[KEYS];
    static char keys[KEYS][16];

    for (uint64_t i = 0; i < KEYS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "key:%08llu",
                       (unsigned long long)i);
        deltas[i] = (struct store_delta){.key = (const uint8_t *)keys[i],
                                         .key_size = 12,
                                         .sum_low = 1 + i * 7919 % KEYS};
    }
    check(stored_apply(s->store, "well", NULL, deltas, KEYS), "load");
    check(stored_add(s->store, "sick", NULL, "key", 1), "load");
}

/* Overwrites the first bytes of a page of every file of the keyspace. */
static void
spoil(struct side *s, bool spoilt)
{
    static uint8_t was[4096];
    static const uint8_t zeros[4096];
    const int fd = openat(s->dir.keyspace_fd, "sick.mdb", O_RDWR | O_CLOEXEC);

    check(fd < 0 ? -errno : 0, "open sick.mdb");
    if (spoilt && pread(fd, was, sizeof was, 0) != sizeof was)
        check(-EIO, "read");
    if (pwrite(fd, spoilt ? zeros : was, sizeof was, 0) != sizeof was)
        check(-EIO, "write");
    (void)close(fd); /* its writes are in the page cache */
}

static void
hold(struct side *s)
{
    for (uint64_t i = 0; i < held_records;) {
        check(held_refresh(s->held), "look");
        check(held_begin(s->held), "begin");
        for (uint64_t n = 0; n < 1000 && i < held_records; n++, i++) {
            const struct store_fill mark = {
                .uuid = {1}, .epoch = i + 1, .first_ms = 1700000000000 + i};
            char key[3][16];
            struct store_delta deltas[3];
            struct store_batch b = {.name = (const uint8_t *)"sick",
                                    .name_size = 4,
                                    .marks = &mark,
                                    .mark_count = 1,
                                    .deltas = deltas,
                                    .delta_count = 3};

            for (int d = 0; d < 3; d++) {
                (void)snprintf(key[d], sizeof key[d], "%d-%08llu", d,
                               (unsigned long long)(i % 1000));
                deltas[d] = (struct store_delta){.key = (const uint8_t *)key[d],
                                                 .key_size = 10,
                                                 .sum_low = 1};
            }
            check(held_put(s->held, &b, -EBADMSG), "hold");
        }
        check(held_commit(s->held), "commit");
    }
}

/* ---- rounds ------------------------------------------------------------ */

/* As worker/watch.c does it while logs wait.  Ends when none is left. */
static void
work(struct side *s)
{
    for (;;) {
        const uint64_t since = clock_ns(), held = s->merge.stats.held;
        const enum merge_outcome did = merge_run(&s->merge);
        uint64_t at = clock_ns();

        s->merge_ns += (double)(at - since);
        if (did != MERGE_IDLE)
            drain_merged(&s->drain, at - since);
        if (s->merge.stats.held > held)
            drain_held(&s->drain);
        if (did == MERGE_IDLE)
            return;
        if (clock_ms() >= s->drain_ms) {
            s->drain_ms = drain_run(&s->drain, did == MERGE_DONE);
            s->drain_ns += (double)(clock_ns() - at);
        }
    }
}

static void
ask(struct side *s)
{
    static uint8_t bytes[RANGE_ROWS * 300];
    const uint64_t since = clock_ns();

    for (int i = 0; i < RANGES; i++) {
        struct store_query q = {
            .op = STORE_RANGE,
            .name = (const uint8_t *)"well",
            .name_size = 4,
            .offset = (int64_t)random_below(&s->random, KEYS - RANGE_ROWS),
            .length = RANGE_ROWS};
        struct store_reads r = {
            .queries = &q, .count = 1, .at = bytes, .capacity = sizeof bytes};
        int64_t as_of, behind;

        as_of_refresh(&s->as_of, clock_ms());
        as_of = as_of_get(&s->as_of, q.name, q.name_size);
        (void)store_read(s->read, &r); /* one is always answered */
        check(q.error, "range");
        store_read_end(s->read);
        as_of_end_turn(&s->as_of);
        behind = (int64_t)clock_unix_ms() - as_of;
        s->behind_ms += (double)behind;
        if ((double)behind > s->behind_most_ms)
            s->behind_most_ms = (double)behind;
    }
    s->range_ns += (double)(clock_ns() - since);
}

/* What opening costs, once; and each minute a worker looks at all keys. */
static void
warm(const char *what)
{
    for (int i = 0; i < 2; i++) {
        uint64_t at;

        fill_log(&sides[i], RECORDS, well_record);
        at = cpu_ns();
        work(&sides[i]);
        sides[i].work_cpu_ns = (double)(cpu_ns() - at);
        at = cpu_ns();
        ask(&sides[i]);
        sides[i].range_cpu_ns = (double)(cpu_ns() - at);
    }
    (void)printf("%s: opening costs a worker %.0f ms and a reader %.0f ms of "
                 "processor time\n",
                 what, (sides[1].work_cpu_ns - sides[0].work_cpu_ns) / 1e6,
                 (sides[1].range_cpu_ns - sides[0].range_cpu_ns) / 1e6);
}

static void
measure(const char *what)
{
    warm(what);
    for (int i = 0; i < 2; i++)
        sides[i].merge_ns = sides[i].drain_ns = sides[i].range_ns =
            sides[i].work_cpu_ns = sides[i].range_cpu_ns = sides[i].behind_ms =
                sides[i].behind_most_ms = 0;
    for (uint64_t n = 0; n < rounds; n++) {
        for (unsigned i = 0; i < 2; i++) {
            struct side *s = &sides[(n + i) % 2];
            uint64_t at;

            fill_log(s, RECORDS, well_record);
            at = cpu_ns();
            work(s);
            s->work_cpu_ns += (double)(cpu_ns() - at);
            at = cpu_ns();
            ask(s);
            s->range_cpu_ns += (double)(cpu_ns() - at);
        }
    }
    (void)printf("%s: merge %.0f k/s without, %.0f k/s with: %.3f; with the "
                 "tries to drain %.3f, by processor time %.3f\n",
                 what, (double)(RECORDS * rounds) / sides[0].merge_ns * 1e6,
                 (double)(RECORDS * rounds) / sides[1].merge_ns * 1e6,
                 sides[0].merge_ns / sides[1].merge_ns,
                 (sides[0].merge_ns + sides[0].drain_ns) /
                     (sides[1].merge_ns + sides[1].drain_ns),
                 sides[0].work_cpu_ns / sides[1].work_cpu_ns);
    (void)printf("%s: ranges %.1f k/s without, %.1f k/s with: %.3f, by "
                 "processor time %.3f\n",
                 what, (double)(RANGES * rounds) / sides[0].range_ns * 1e6,
                 (double)(RANGES * rounds) / sides[1].range_ns * 1e6,
                 sides[0].range_ns / sides[1].range_ns,
                 sides[0].range_cpu_ns / sides[1].range_cpu_ns);
    (void)printf("%s: as_of_ms behind now %.2f ms (%.0f at most) without, "
                 "%.2f ms (%.0f at most) with\n",
                 what, sides[0].behind_ms / (double)(RANGES * rounds),
                 sides[0].behind_most_ms,
                 sides[1].behind_ms / (double)(RANGES * rounds),
                 sides[1].behind_most_ms);
}

static bool
anything_held(struct side *s)
{
    bool any;

    check(held_refresh(s->held), "look");
    any = held_any(s->held);
    return any;
}

/* The keyspace is well again, and a worker starts. */
static void
drain(struct side *s)
{
    uint64_t since, first;
    double took;

    close_worker(s);
    spoil(s, false);
    open_worker(s);
    s->drain_ms = 0;
    s->merge_ns = s->drain_ns = 0;
    for (uint64_t n = 0; n < rounds; n++) {
        fill_log(s, RECORDS, well_record);
        work(s);
    }
    first = s->drain.stats.records;
    (void)printf("drain while logs wait: %llu records in %.1f s of work, %.1f "
                 "%% of the worker's time\n",
                 (unsigned long long)first, (s->merge_ns + s->drain_ns) / 1e9,
                 100 * s->drain_ns / (s->merge_ns + s->drain_ns));
    since = clock_ns();
    while (clock_ns() - since < IDLE_NS && anything_held(s))
        (void)drain_run(&s->drain, false);
    took = seconds(since);
    (void)printf("drain when idle: %llu records in %.1f s: %.1f s for all\n",
                 (unsigned long long)(s->drain.stats.records - first), took,
                 took * (double)held_records /
                     (double)(s->drain.stats.records - first));
}

int
main(int argc, char **argv)
{
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    uint64_t since;

    diag_init("bench_held", DIAG_ERROR);
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* each line when it is known */
    held_records = quick ? HELD / 50 : HELD;
    names = quick ? NAMES / 10 : NAMES;
    rounds = quick ? 4 : ROUNDS;
    /* A disk: /tmp may be memory. */
    if (setenv("TMPDIR", "/var/tmp", 0) < 0)
        return 111;
    for (int i = 0; i < 2; i++) {
        open_side(&sides[i]);
        load(&sides[i]);
    }
    measure("nothing held");
    since = clock_ns();
    hold(&sides[1]);
    (void)printf("holding %llu records: %.1f s\n",
                 (unsigned long long)held_records, seconds(since));
    close_worker(&sides[1]); /* LMDB trusts what it has open */
    spoil(&sides[1], true);
    open_worker(&sides[1]);
    measure("sick keyspace");
    drain(&sides[1]);
    since = clock_ns();
    fill_log(&sides[1], names, name_record);
    work(&sides[1]);
    (void)printf("holding %llu names: %.2f s\n", (unsigned long long)names,
                 seconds(since));
    measure("names over keyspace.max");
    for (int i = 0; i < 2; i++)
        close_side(&sides[i]);
    return 0;
}
