/* tests/lib/disk.h - what a disk may hold after the power went, rebuilt from
 * what powerloss.so noted.
 *
 * Kept for certain, at a cut in the run:
 *   - bytes and size of a file that a finished fsync or fdatasync of it
 *     covered, and every finished O_DSYNC write
 *   - mode and mtime of a file that a finished fsync covered
 *   - names (create, link, unlink, rename, mkdir) that a finished fsync of
 *     their folder covered
 * Everything else is, by the seed, kept, dropped, or (bytes) torn at 512-byte
 * sectors; names are kept up to a moment of the whole disk, up to a moment of
 * their folder, or one by one in no order.
 *
 * Ownership: struct disk belongs to the caller.  A failure fails the test.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_DISK_H
#define COUNTD_TESTS_LIB_DISK_H

#include <stddef.h>
#include <stdint.h>

struct disk;

/* Takes what `path` holds now as durable; call before the run. */
struct disk *disk_snapshot(const char *path);

/* Adds what was noted in the files `log`.PID. */
void disk_load(struct disk *disk, const char *log);

/* The highest number drawn by a noted call, and how many were noted. */
uint64_t disk_last(const struct disk *disk);
size_t disk_count(const struct disk *disk);

/* A cut within one of the noted syncs, where the most is at stake; `pick` is
 * any number. */
uint64_t disk_cut_in_sync(const struct disk *disk, uint64_t pick);

/* Writes the state `seed` of the power loss at `cut` into an empty folder. */
void disk_build(const struct disk *disk, uint64_t cut, uint64_t seed,
                const char *path);

/* One line on what was kept by this seed, for a failure's message. */
void disk_describe(uint64_t seed, char *text, size_t size);

void disk_free(struct disk *disk);

#endif
