/* tests/crash/powerloss.h - what the power-loss recorder writes down.
 *
 * powerloss.so is preloaded into daemons under test.  It lets every call
 * through and notes those that change files below one directory, so that
 * tests/lib/disk.c can rebuild what a disk might hold had the power gone at
 * any moment of the run.
 *
 * Each process appends to a file of its own (POWERLOSS_LOG.PID), one record
 * per call.  Order is by `seq`, drawn from a counter in a file all of them
 * and the test share (POWERLOSS_SHARED):
 *
 *   names   seq is drawn before the call: what others do after they saw the
 *           name comes later
 *   data    seq is drawn after the call
 *   syncs   seq is drawn before, `end` after: it covers what has a smaller
 *           seq, and is done for cuts above `end`
 *
 * The record is native bytes: it never leaves the machine.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_CRASH_POWERLOSS_H
#define COUNTD_TESTS_CRASH_POWERLOSS_H

#include <stdatomic.h>
#include <stdint.h>

/* The test kills a process only between two calls (freeze, wait for busy to
 * be 0), so that a call is either not made or made and noted. */
struct powerloss_shared {
    _Atomic uint64_t seq;
    atomic_int freeze;
    atomic_int busy;
};

enum powerloss_kind {
    POWERLOSS_CREATE = 1, /* dir, name, inode, mode */
    POWERLOSS_MKDIR,      /* dir, name, inode */
    POWERLOSS_LINK,       /* dir, name, inode */
    POWERLOSS_UNLINK,     /* dir, name, inode */
    POWERLOSS_RENAME,     /* dir, name -> dir2, name2, inode */
    POWERLOSS_WRITE,      /* inode, at, size, bytes; durable: O_DSYNC */
    POWERLOSS_SIZE,       /* inode, size: ftruncate, fallocate */
    POWERLOSS_MODE,       /* inode, mode */
    POWERLOSS_TIME,       /* inode, at (ns of mtime) */
    POWERLOSS_FSYNC,      /* inode, end */
    POWERLOSS_FDATASYNC,  /* inode, end */
    POWERLOSS_SYNC_ALL,   /* end */
};

#define POWERLOSS_MAGIC 0x57504f4cu

struct powerloss_record {
    uint32_t magic;
    uint16_t kind;
    uint16_t durable;
    uint64_t seq;
    uint64_t end;
    uint64_t inode;
    uint64_t dir;
    uint64_t dir2;
    int64_t at;
    uint64_t size; /* of the bytes behind the names, for WRITE */
    uint32_t mode;
    uint16_t name_size;
    uint16_t name2_size;
};

#endif
