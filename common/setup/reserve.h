/* common/setup/reserve.h - disk space reserved for `countd drop` on a full
 * disk.
 *
 * data/reserve is a file of RESERVE_BYTES whose blocks are allocated.  A
 * command that must free space writes what it needs into it and renames it, so
 * it needs no free block; a worker allocates another when there is
 * space again.  The content of the file is unused.
 *
 * A process that allocates or uses the reserve holds a flock on it, and checks
 * under the flock that the file still has its name.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_RESERVE_H
#define COUNTD_COMMON_SETUP_RESERVE_H

#define RESERVE_FILE  "reserve"
#define RESERVE_BYTES (4L << 20)

/* Sees to it that there is a reserve.  -EBUSY another process has it; -ENOSPC
 * the disk is nearly full, and what is left is not taken from others. */
int reserve_make(int data_fd);

/* Takes the reserve: returns its descriptor, with the flock.  Closing it gives
 * the reserve back.  -ENOENT there is none, or it is not whole; -EBUSY. */
int reserve_take(int data_fd);

#endif
