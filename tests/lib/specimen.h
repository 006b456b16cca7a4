/* tests/lib/specimen.h - a small data directory with something of everything
 * that countd keeps, in files that can be damaged and put back.
 *
 *     specimen_make(&s, SPECIMEN_ALL);
 *     specimen_restore(&s);
 *     specimen_flip(&s, file, at, 1, 0x20);
 *     ... daemons, or their parts in this process ...
 *     if (!specimen_is_right(store, SPECIMEN_SMALL, want)) ...
 *     specimen_fini(&s);
 *
 * When all is merged each count is one that is known.  A failure to make it
 * fails the test.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_SPECIMEN_H
#define COUNTD_TESTS_LIB_SPECIMEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/setup/datadir.h"
#include "common/store/store.h"
#include "tests/lib/tmpdir.h"

/* Its keyspaces. */
enum specimen_keyspace {
    SPECIMEN_SMALL, /* base blocks, buffers, groups; marks over a branch page,
                       one of them partial */
    SPECIMEN_NODES, /* groups under nodes */
    SPECIMEN_LONG,  /* in a file with a hashed name */
    SPECIMEN_SICK,  /* was: records are held for it */
    SPECIMEN_NAMES
};

/* What a specimen has: keyspaces (1 << SPECIMEN_SMALL, ...), and logs: a full
 * one, an open one of a dead owner, an empty one. */
#define SPECIMEN_LOGS (1u << SPECIMEN_NAMES)
#define SPECIMEN_ALL  (2 * SPECIMEN_LOGS - 1)

#define SPECIMEN_FILES 24
#define SPECIMEN_KEYS  900

struct specimen_file {
    char path[200]; /* below the data directory */
    uint8_t *bytes;
    size_t size;
    mode_t mode;
    int link_of; /* a second name of that file; -1 */
};

struct specimen {
    struct tmpdir dir;
    struct datadir data;
    unsigned parts;
    struct specimen_file files[SPECIMEN_FILES];
    int file_count;
    int64_t base[SPECIMEN_NAMES][SPECIMEN_KEYS]; /* in keyspaces */
    int64_t rest[SPECIMEN_NAMES][SPECIMEN_KEYS]; /* in logs, held */
};

void specimen_make(struct specimen *s, unsigned parts);
void specimen_fini(struct specimen *s);

/* The file with this path, or -1. */
int specimen_find(const struct specimen *s, const char *path);

/* Puts every file back and removes those that were not there. */
void specimen_restore(struct specimen *s);

/* Puts one file back that has not been replaced. */
void specimen_restore_file(const struct specimen *s, int file);

/* Changes bits of `size` bytes of a file, at most a page of them. */
void specimen_flip(const struct specimen *s, int file, size_t at, size_t size,
                   uint8_t mask);

/* How many keys a keyspace has, and its name. */
size_t specimen_keys(enum specimen_keyspace k);
const char *specimen_name(enum specimen_keyspace k);

/* A store of it, as a daemon opens it. */
struct store *specimen_store(const struct specimen *s, bool writable);

/* Adds to keys `first` to `last` (not included) of a keyspace, under a mark of
 * log `log`. */
int specimen_add(struct store *store, enum specimen_keyspace k, uint8_t log,
                 size_t first, size_t last, int64_t sum);

/* Whether all rows of a keyspace, by count and by key, its totals and its
 * history can be read, and its keys have the counts `want`, all of which came
 * in its days. */
bool specimen_is_right(struct store *store, enum specimen_keyspace k,
                       const int64_t *want);

#endif
