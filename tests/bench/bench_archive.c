/* tests/bench/bench_archive.c - what archiving costs a worker, and how much
 * smaller an archived log is.
 *
 *     bench_archive [--quick] [--only N] [DIR]
 *
 * Merges full logs into LMDB that has all their keys, in turn with the archive
 * and without.  The share is what the archive adds: by CPU, which other load
 * disturbs less, and by the clock, with the syncs of both.  Then reads all that
 * was archived.  --only: the Nth load, for a profiler.  DIR
 * (default: a new one in /var/tmp) should be on a disk; what is made there is
 * removed.  Prints, judges nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/dirstream.h"
#include "common/log/archive.h"
#include "common/log/log_create.h"
#include "common/log/slot.h"
#include "common/store/held.h"
#include "common/store/lmdb/lmdb_store.h"
#include "worker/merge.h"

#define LOG_SIZE ((uint64_t)32 << 20)
#define LOGS     4
#define FIRST_MS UINT64_C(1700000000000)

struct load {
    const char *what;
    unsigned keys, keyspaces;
    unsigned most; /* increments are 1 to this */
};

static const struct load loads[] = {
    {"10k hot keys in 10 keyspaces, by 1", 10000, 10, 1},
    {"1M keys in 100 keyspaces, by 1", 1000000, 100, 1},
    {"1M keys in one keyspace, by up to 1000", 1000000, 1, 1000},
};

struct bench {
    char path[256];
    struct datadir dir;
    struct config config;
    struct store *store;
    struct held *held;
    struct merge merge;
    uint8_t *slots;
    uint64_t random, now_ms;
    unsigned next; /* key to fill the store with */
    bool filling;

    uint64_t cpu[2], ns[2]; /* of merges without and with the archive */
    uint64_t slots_done[2], read_cpu, log_bytes, archive_bytes;
};

static void
check(int rc, const char *what)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "bench_archive: %s: %s\n", what, strerror(-rc));
    exit(111);
}

static uint64_t
cpu_ns(void)
{
    struct timespec t;

    /* Cannot fail: the clock id is valid and the address is ours. */
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static unsigned
uniform(struct bench *b, unsigned n)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(b->random >> 33) % n;
}

/* ---- the directory ------------------------------------------------------ */

static int
folder(struct bench *b, const char *name)
{
    int fd;

    check(mkdirat(b->dir.fd, name, 0700) < 0 ? -errno : 0, name);
    fd = openat(b->dir.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(fd < 0 ? -errno : 0, name);
    return fd;
}

static void
open_all(struct bench *b, const char *top)
{
    struct lmdb_options options = {.keyspace_size = 256,
                                   .key_size = 256,
                                   .writable = true,
                                   .open_max = 128,
                                   .txn_memory = (size_t)128 << 20};
    struct held_options held = {.writable = true};

    (void)snprintf(b->path, sizeof b->path, "%s/countd-bench-XXXXXX", top);
    check(mkdtemp(b->path) ? 0 : -errno, b->path);
    b->dir.fd = open(b->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    b->dir.log_fd = folder(b, "log");
    b->dir.keyspace_fd = folder(b, "keyspace");
    b->dir.archive_fd = folder(b, "archive");
    config_defaults(&b->config);
    options.keyspace_fd = b->dir.keyspace_fd;
    check(lmdb_store_open(&b->store, &options), "open the store");
    held.data_fd = b->dir.fd;
    check(held_open(&b->held, &held), "open data/held");
    check(merge_open(&b->merge, &b->config, &b->dir, b->store, b->held),
          "merge_open");
}

static void
close_all(struct bench *b)
{
    char line[300];

    merge_close(&b->merge);
    held_close(b->held);
    store_close(b->store);
    (void)snprintf(line, sizeof line, "rm -r '%s'", b->path); /* fits */
    if (system(line) != 0)
        (void)fprintf(stderr, "bench_archive: %s stays\n", b->path);
}

/* ---- logs --------------------------------------------------------------- */

/* Random keys; when the store is filled, each in its turn. */
static unsigned
next_key(struct bench *b, const struct load *load)
{
    return b->filling ? b->next++ % load->keys : uniform(b, load->keys);
}

static void
make_slots(struct bench *b, const struct load *load, const struct log *log,
           uint32_t count)
{
    const struct layout *l = &log->layout;
    struct slot_stamp stamp = {.epoch = log->header.epoch};
    char keyspace[32], key[32];
    struct message m, in;

    for (uint32_t i = 0; i < count; i++) {
        const unsigned number = next_key(b, load);
        uint8_t *slot = b->slots + (size_t)i * l->slot_size;

        m.increment = 1 + (int64_t)uniform(b, load->most);
        m.keyspace = (const uint8_t *)keyspace;
        m.key = (const uint8_t *)key;
        m.keyspace_size = (uint16_t)snprintf(
            keyspace, sizeof keyspace, "keyspace-%u", number % load->keyspaces);
        m.key_size = (uint16_t)snprintf(key, sizeof key, "key:%016u",
                                        number / load->keyspaces);
        stamp.received_ms = b->now_ms + i / 60;
        check(message_put(l, &m, slot), "message_put");
        check(message_parse(l, slot, &in), "message_parse");
        slot_put(l, slot, &in, log->header.uuid, i, &stamp);
    }
}

static void
fill_log(struct bench *b, const struct load *load, uint64_t index, bool on)
{
    struct layout layout;
    struct log log;
    uint32_t count;
    int rc;

    check(layout_init(&layout, 256, 256), "layout_init");
    count = log_slots(LOG_SIZE, &layout);
    rc = log_create(b->dir.log_fd, index, &layout, count);
    check(rc == -EEXIST ? 0 : rc, "log_create");
    check(log_claim(&log, b->dir.log_fd, index, LOG_MODE_EMPTY), "log_claim");
    check(log_begin(&log), "log_begin");
    make_slots(b, load, &log, count);
    check(log_append(&log, b->slots, count, b->now_ms, b->now_ms + count / 60),
          "log_append");
    check(log_seal(&log), "log_seal");
    check(log_release(&log), "log_release");
    b->now_ms += 1000;
    b->slots_done[on] += count;
    b->log_bytes += on ? (uint64_t)count * layout.slot_size : 0;
}

static void
round_of(struct bench *b, const struct load *load, bool on)
{
    uint64_t cpu, since;

    for (uint64_t i = 0; i < LOGS; i++)
        fill_log(b, load, i, on);
    if (on)
        check(merge_archive(&b->merge, 0), "merge_archive");
    cpu = cpu_ns();
    since = clock_ns();
    while (merge_run(&b->merge) == MERGE_DONE)
        continue;
    b->cpu[on] += cpu_ns() - cpu;
    b->ns[on] += clock_ns() - since;
    archive_close(&b->merge.archive);
}

static void
fill_store(struct bench *b, const struct load *load)
{
    b->filling = true;
    while (b->next < load->keys)
        round_of(b, load, false);
    b->filling = false;
    b->cpu[0] = b->ns[0] = b->slots_done[0] = 0;
}

/* ---- reading ------------------------------------------------------------ */

static void
read_all(struct bench *b)
{
    const struct archive_record *records;
    struct archive_name n;
    struct archive_reader *p;
    uint64_t cpu;
    const char *name;
    struct stat st;
    DIR *dir;
    int fd;

    check(dirstream_open(b->dir.archive_fd, ".", &dir), "archive");
    while (dirstream_next(dir, &name) > 0) {
        if (archive_name_parse(name, &n) < 0)
            continue;
        fd = openat(b->dir.archive_fd, name, O_RDONLY | O_CLOEXEC);
        check(fd < 0 || fstat(fd, &st) < 0 ? -errno : 0, name);
        b->archive_bytes += (uint64_t)st.st_size;
        cpu = cpu_ns();
        check(archive_reader_open(&p, fd), "archive_reader_open");
        while (archive_reader_next(p, &records) > 0)
            continue;
        b->read_cpu += cpu_ns() - cpu;
        archive_reader_close(p);
        (void)close(fd); /* only read */
        check(unlinkat(b->dir.archive_fd, name, 0) < 0 ? -errno : 0, name);
    }
    (void)closedir(dir); /* only read */
}

static void
report(const struct bench *b, const struct load *load)
{
    const double n = (double)b->slots_done[1];
    const double off = (double)b->cpu[0] / (double)b->slots_done[0];
    const double on = (double)b->cpu[1] / n;
    const double off_ns = (double)b->ns[0] / (double)b->slots_done[0];
    const double on_ns = (double)b->ns[1] / n;

    printf("archive  %s: %.1f bytes an increment, 1/%.0f of the log; %.0f ns "
           "of CPU an increment, %.0f without, share %.0f%%; by the clock "
           "%.0f and %.0f, %.0f%%; read %.0f ns\n",
           load->what, (double)b->archive_bytes / n,
           (double)b->log_bytes / (double)b->archive_bytes, on, off,
           100 * (on - off) / on, on_ns, off_ns, 100 * (on_ns - off_ns) / on_ns,
           (double)b->read_cpu / n);
}

static void
run(const struct load *load, const char *top, unsigned rounds)
{
    struct bench b = {.random = 1, .now_ms = FIRST_MS};

    b.slots = malloc(LOG_SIZE);
    check(b.slots ? 0 : -ENOMEM, "malloc");
    open_all(&b, top);
    fill_store(&b, load);
    for (unsigned r = 0; r < rounds; r++)
        round_of(&b, load, r % 4 == 1 || r % 4 == 2); /* a drift evens out */
    read_all(&b);
    report(&b, load);
    close_all(&b);
    free(b.slots);
}

int
main(int argc, char **argv)
{
    const char *top = "/var/tmp";
    unsigned rounds = 16;
    size_t only = 0;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0)
            rounds = 4;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = (size_t)atoi(argv[++i]);
        else
            top = argv[i];
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        if (only == 0 || only == i + 1)
            run(&loads[i], top, rounds);
    return 0;
}
