/* tests/lib/powercut.h - daemons recorded by powerloss.so, and the disks that
 * the power may have left (disk.h).
 *
 *     powercut_begin(&cut, data_dir, seed);
 *     powercut_record(&cut, &fleet, "calls");    then start daemons
 *     powercut_load(&cut);                       when all have ended
 *     powercut_try(&cut, 100, &judge);
 *     powercut_end(&cut);
 *
 * Ownership: struct powercut is the caller's.  A failure fails the test.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_POWERCUT_H
#define COUNTD_TESTS_LIB_POWERCUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/daemon.h"
#include "tests/lib/disk.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"
#include "tests/lib/tmpdir.h"

struct powerloss_shared;

struct powercut {
    struct tmpdir side; /* records and the shared counter */
    struct powerloss_shared *shared;
    struct disk *disk;
    struct random random;
    char env_text[6][700];
    const char *env[7];
};

/* What `path` holds now is durable. */
void powercut_begin(struct powercut *c, const char *path, uint64_t seed);
void powercut_end(struct powercut *c);

/* Has the daemons of `f` recorded into `log`. */
void powercut_record(struct powercut *c, struct fleet *f, const char *log);

/* How long syncs take from the next start on. */
void powercut_delay(struct powercut *c, unsigned us);

/* The moment: what is noted from now on comes later. */
uint64_t powercut_now(const struct powercut *c);

/* SIGKILL between two noted calls: nothing is done that is not noted. */
void powercut_kill(struct powercut *c, struct daemon *d);

/* Reads what was recorded. */
void powercut_load(struct powercut *c);

/* What a test knows of what was recorded. */
struct powercut_judge {
    /* A moment at which something was promised, any of them; 0: ask again. */
    uint64_t (*promise)(void *ctx);
    /* Whether the disk in `path`, for which the power went at `cut`, has what
     * it should; if not, why. */
    bool (*is_right)(void *ctx, const char *path, uint64_t cut, char *why,
                     size_t size);
    void *ctx;
};

/* Has `disks` of them judged. */
void powercut_try(struct powercut *c, unsigned disks,
                  const struct powercut_judge *judge);

#endif
