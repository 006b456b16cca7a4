/* tests/lib/simdisk.h - a folder in memory that ends its caller at any call,
 * loses power, and makes calls fail.
 *
 * A test includes the sources that it tests with their calls redirected here:
 * see tests/unit/test_queue_model.c.  What a call does not sync may or may not
 * survive simdisk_power_cut(): sectors of 512 bytes, lines of 64, entries of
 * the folder.  One file is special: writes of 64 bytes at its start are in as a
 * whole or not at all (a note).
 *
 * Everything is static: one disk at a time, one thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_SIMDISK_H
#define COUNTD_TESTS_LIB_SIMDISK_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define SIMDISK_FOLDER 5 /* the descriptor of the folder */

struct simdisk_file {
    uint8_t *cached, *stored;
    size_t cached_size, stored_size;
    uint8_t dirty[512];
    uint8_t notes[64][64]; /* versions of the first 64 bytes since the sync */
    int note_count;
    int owner; /* descriptor that has the flock; 0: none */
};

/* Where a killed caller goes on, with value 1. */
extern jmp_buf simdisk_killed;

/* The call, counted from 0, at which the caller is killed, and at which calls
 * begin to fail; -1: none. */
extern long simdisk_kill_in, simdisk_fail_in;

/* The process whose calls follow: descriptors are its own. */
extern int simdisk_process;

void simdisk_reset(uint64_t seed);
uint64_t simdisk_random(uint64_t below);

/* A process ends: its descriptors are closed. */
void simdisk_end(int process);

/* All processes end, and what was not synced may be lost; `tears`: sectors may
 * be written in part. */
void simdisk_power_cut(int tears);

/* Files by number, and by name; NULL: there is none. */
struct simdisk_file *simdisk_file(size_t number);
struct simdisk_file *simdisk_find(const char *name);

/* The boot; a power cut begins another. */
const uint8_t *simdisk_boot_id(void);
bool simdisk_boot_id_is_this(const uint8_t id[16]);

int simdisk_openat(int dir_fd, const char *name, int flags, ...);
int simdisk_close(int fd);
int simdisk_fsync(int fd);
int simdisk_fstat(int fd, struct stat *st);
int simdisk_ftruncate(int fd, off_t size);
int simdisk_unlinkat(int dir_fd, const char *name, int flags);
int simdisk_renameat(int from_fd, const char *from, int to_fd, const char *to);
int simdisk_flock(int fd, int operation);
int simdisk_lock_take(int fd, long *holder);
ssize_t simdisk_read_at(int fd, void *bytes, size_t size, uint64_t at);
int simdisk_write_at(int fd, const void *bytes, size_t size, uint64_t at);
int simdisk_write_zeros(int fd, uint64_t size, uint64_t at);
int simdisk_dirstream_each(int dir_fd, const char *folder,
                           int (*each)(void *ctx, int fd, const char *name),
                           void *ctx);
ssize_t simdisk_getrandom(void *bytes, size_t size, unsigned flags);

#endif
