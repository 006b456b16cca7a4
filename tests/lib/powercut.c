/* tests/lib/powercut.c - see powercut.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/powercut.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/crash/powerloss.h"
#include "tests/lib/client.h"
#include "tests/lib/test.h"

void
powercut_delay(struct powercut *c, unsigned us)
{
    (void)snprintf(c->env_text[4], sizeof c->env_text[4], "POWERLOSS_DELAY=%u",
                   us);
}

void
powercut_record(struct powercut *c, struct fleet *f, const char *log)
{
    char library[600];
    const char *asan = getenv("ASAN_OPTIONS");
    const char *others =
        getenv("LD_PRELOAD"); /* the tests may be in faketime */

    daemon_path("tests/crash/powerloss.so", library, sizeof library);
    (void)snprintf(c->env_text[0], sizeof c->env_text[0], "LD_PRELOAD=%s:%s",
                   library, others ? others : "");
    (void)snprintf(c->env_text[1], sizeof c->env_text[1], "POWERLOSS_DIR=%s",
                   f->path);
    (void)snprintf(c->env_text[2], sizeof c->env_text[2], "POWERLOSS_LOG=%s/%s",
                   c->side.path, log);
    (void)snprintf(c->env_text[3], sizeof c->env_text[3],
                   "POWERLOSS_SHARED=%s/shared", c->side.path);
    powercut_delay(c, 300);
    /* A preloaded library comes before the sanitizer's; that is meant. */
    (void)snprintf(c->env_text[5], sizeof c->env_text[5],
                   "ASAN_OPTIONS=%s%sverify_asan_link_order=0",
                   asan ? asan : "", asan ? ":" : "");
    for (size_t i = 0; i < 6; i++)
        c->env[i] = c->env_text[i];
    c->env[6] = NULL;
    f->env = c->env;
}

void
powercut_begin(struct powercut *c, const char *path, uint64_t seed)
{
    int fd;

    memset(c, 0, sizeof *c);
    c->random.state = seed;
    tmpdir_make_in_memory(&c->side);
    fd = openat(c->side.fd, "shared", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *c->shared) < 0)
        fail_msg("shared counter: %s", strerror(errno));
    c->shared = mmap(NULL, sizeof *c->shared, PROT_READ | PROT_WRITE,
                     MAP_SHARED, fd, 0);
    if (c->shared == MAP_FAILED)
        fail_msg("mmap: %s", strerror(errno));
    client_close(fd);
    c->disk = disk_snapshot(path);
}

void
powercut_end(struct powercut *c)
{
    disk_free(c->disk);
    if (munmap(c->shared, sizeof *c->shared) < 0)
        fail_msg("munmap: %s", strerror(errno));
    tmpdir_remove(&c->side);
}

uint64_t
powercut_now(const struct powercut *c)
{
    return atomic_load(&c->shared->seq);
}

void
powercut_kill(struct powercut *c, struct daemon *d)
{
    atomic_store(&c->shared->freeze, 1);
    while (atomic_load(&c->shared->busy) > 0)
        (void)sched_yield(); /* cannot fail on Linux */
    daemon_kill(d);
    atomic_store(&c->shared->freeze, 0);
}

void
powercut_load(struct powercut *c)
{
    disk_load(c->disk, c->env_text[2] + strlen("POWERLOSS_LOG="));
}

static uint64_t
pick_cut(struct powercut *c, const struct powercut_judge *judge)
{
    if (random_chance(&c->random, 50))
        return disk_cut_in_sync(c->disk, random_next(&c->random));
    /* Right behind an answer most is promised and least is safe. */
    if (random_chance(&c->random, 60))
        for (size_t i = 0; i < 100; i++) {
            const uint64_t promised = judge->promise(judge->ctx);

            if (promised != 0)
                return promised + 1;
        }
    return 1 + random_below(&c->random, disk_last(c->disk) + 1);
}

/* Keeps a wrong disk in $TEST_KEEP. */
static void
fail_disk(const struct powercut *c, uint64_t cut, uint64_t seed,
          const char *why)
{
    const char *path = getenv("TEST_KEEP");
    char how[128];

    if (path && mkdir(path, 0700) == 0) {
        disk_build(c->disk, cut, seed, path);
        print_error("the state is kept in %s\n", path);
    }
    disk_describe(seed, how, sizeof how);
    fail_msg("cut %llu of %llu, seed %llu: %s: %s", (unsigned long long)cut,
             (unsigned long long)disk_last(c->disk), (unsigned long long)seed,
             how, why);
}

void
powercut_try(struct powercut *c, unsigned disks,
             const struct powercut_judge *judge)
{
    struct tmpdir state;
    char why[512];

    for (unsigned i = 0; i < disks; i++) {
        const uint64_t cut = pick_cut(c, judge);
        const uint64_t seed = random_next(&c->random);
        bool is_right;

        tmpdir_make_in_memory(&state);
        disk_build(c->disk, cut, seed, state.path);
        is_right =
            judge->is_right(judge->ctx, state.path, cut, why, sizeof why);
        tmpdir_remove(&state);
        if (!is_right)
            fail_disk(c, cut, seed, why);
    }
}
