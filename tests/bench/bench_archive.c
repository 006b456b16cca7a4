/* tests/bench/bench_archive.c - what archiving costs a worker, and how much
 * smaller an archived log is.
 *
 *     bench_archive [--quick] [--only N]
 *
 * Merges full logs into LMDB that has all their keys, in turn with the archive
 * and without.  The share is what the archive adds: by CPU, which other load
 * disturbs less, and by the clock, with the syncs of both.  Then reads all that
 * was archived.  --only: the Nth load, for a profiler. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/dirstream.h"
#include "common/log/archive.h"
#include "tests/bench/bench.h"
#include "tests/bench/worker.h"
#include "tests/lib/filler.h"
#include "tests/lib/random.h"

#define SLOTS    61000u /* a log of 32 MB */
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
    struct worker worker;
    struct random random;
    uint64_t now_ms;
    unsigned next; /* key to fill the store with */
    bool filling;

    double cpu[2], ns[2]; /* of merges without and with the archive */
    double slots_done[2], read_cpu, log_bytes, archive_bytes;
};

/* Random keys; when the store is filled, each in its turn. */
static unsigned
next_key(struct bench *b, const struct load *load)
{
    return b->filling ? b->next++ % load->keys
                      : (unsigned)random_below(&b->random, load->keys);
}

static void
fill_log(struct bench *b, const struct load *load, uint64_t index, bool on)
{
    char keyspace[32], key[32];
    struct filler f;

    filler_open(&f, b->worker.dir.log_fd, index, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        const unsigned number = next_key(b, load);

        (void)snprintf(keyspace, sizeof keyspace, "keyspace-%u",
                       number % load->keyspaces);
        (void)snprintf(key, sizeof key, "key:%016u", number / load->keyspaces);
        f.received_ms = b->now_ms + i / 60;
        filler_add(&f, keyspace, key,
                   1 + (int64_t)random_below(&b->random, load->most));
    }
    b->log_bytes += on ? (double)SLOTS * f.log.header.layout.slot_size : 0;
    filler_seal(&f);
    b->now_ms += 1000;
    b->slots_done[on] += SLOTS;
}

static void
round_of(struct bench *b, const struct load *load, bool on)
{
    struct merge *m = &b->worker.merge;
    double cpu;
    uint64_t since;

    for (uint64_t i = 0; i < LOGS; i++)
        fill_log(b, load, i, on);
    if (on)
        assert_rc(archive_open(&m->archive, m->dir->archive_fd, 0), 0);
    cpu = bench_cpu_ns(0);
    since = clock_ns();
    while (merge_run(m) == MERGE_DONE)
        continue;
    b->cpu[on] += bench_cpu_ns(0) - cpu;
    b->ns[on] += (double)(clock_ns() - since);
    archive_close(&m->archive);
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

static int
pass_over(void *ctx, uint32_t number, const struct message *m,
          const struct slot_stamp *stamp)
{
    (void)ctx;
    (void)number;
    (void)m;
    (void)stamp;
    return 0;
}

static void
read_all(struct bench *b)
{
    const int folder = b->worker.dir.archive_fd;
    struct archive_name n;
    const char *name;
    struct stat st;
    double cpu;
    DIR *dir;
    int fd;

    assert_rc(dirstream_open(folder, ".", &dir), 0);
    while (dirstream_next(dir, &name) > 0) {
        if (archive_name_parse(name, &n) < 0)
            continue;
        fd = (int)must(openat(folder, name, O_RDONLY | O_CLOEXEC), name);
        must(fstat(fd, &st), name);
        b->archive_bytes += (double)st.st_size;
        cpu = bench_cpu_ns(0);
        assert_rc(archive_each(fd, NULL, pass_over, NULL), 0);
        b->read_cpu += bench_cpu_ns(0) - cpu;
        (void)close(fd);
    }
    (void)closedir(dir);
}

static void
report_load(const struct bench *b, const struct load *load)
{
    const double n = b->slots_done[1];
    const double off = b->cpu[0] / b->slots_done[0], on = b->cpu[1] / n;
    const double off_ns = b->ns[0] / b->slots_done[0], on_ns = b->ns[1] / n;

    printf("archive  %s: %.1f bytes an increment, 1/%.0f of the log; %.0f ns "
           "of CPU an increment, %.0f without, share %.0f%%; by the clock "
           "%.0f and %.0f, %.0f%%; read %.0f ns\n",
           load->what, b->archive_bytes / n, b->log_bytes / b->archive_bytes,
           on, off, 100 * (on - off) / on, on_ns, off_ns,
           100 * (on_ns - off_ns) / on_ns, b->read_cpu / n);
}

static void
run_rounds(const struct load *load, unsigned rounds)
{
    struct bench b = {.random = {1}, .now_ms = FIRST_MS};

    worker_make(&b.worker);
    assert_rc(datadir_archive(&b.worker.dir), 0);
    worker_open(&b.worker, 1);
    fill_store(&b, load);
    for (unsigned r = 0; r < rounds; r++)
        round_of(&b, load, r % 4 == 1 || r % 4 == 2); /* a drift evens out */
    read_all(&b);
    report_load(&b, load);
    worker_close(&b.worker);
    worker_remove(&b.worker);
}

int
main(int argc, char **argv)
{
    const unsigned rounds = bench_begin(argc, argv) ? 4 : 16;
    const uint64_t only = bench_number("--only", 0);

    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        if (only == 0 || only == i + 1)
            run_rounds(&loads[i], rounds);
    return 0;
}
