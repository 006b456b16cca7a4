/* tests/lib/tmpdir.h - a fresh directory for one test, gone afterwards.
 *
 * Made 0700 under $TMPDIR, or /tmp.  A failure to make it fails the test.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_TMPDIR_H
#define COUNTD_TESTS_LIB_TMPDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tmpdir {
    int fd;
    char path[512];
};

void tmpdir_make(struct tmpdir *dir);

/* The same in memory (/dev/shm) where there is such a place: for tests that
 * build many directories and need no disk. */
void tmpdir_make_in_memory(struct tmpdir *dir);

/* Gives it, and what is in it, to another user (root only). */
void tmpdir_chown(const struct tmpdir *dir, uid_t uid);

/* Removes it and all that is in it, whatever its modes. */
void tmpdir_remove(struct tmpdir *dir);

/* As cmocka's setup and teardown: *state is the struct tmpdir. */
int tmpdir_setup(void **state);
int tmpdir_teardown(void **state);

/* A test (tests/lib/test.h) in one. */
#define IN_TMPDIR(name, d)                                                     \
    TEST_IN(name, struct tmpdir *d, tmpdir_setup, tmpdir_teardown)

/* Writes a whole file below it with this mode. */
void tmpdir_put(const struct tmpdir *dir, const char *name, const void *bytes,
                size_t size, mode_t mode);

bool tmpdir_has(const struct tmpdir *dir, const char *name);

/* Permission bits of a file in it; fails the test when it is not there. */
mode_t tmpdir_mode(const struct tmpdir *dir, const char *name);

/* Entries of a folder below it ("." for itself). */
size_t tmpdir_count(const struct tmpdir *dir, const char *folder);

#endif
