/* writer/quota/quota_export.h - quota.export: the applications of the quota
 * without a name as text.
 *
 *     NUMBER AMOUNT LF                of an application
 *     NUMBER AMOUNT CANCELLED_BY LF   of one that was cancelled
 *
 * in ascending order.  It is written at a start whose journal has no numbers,
 * since a file that is there is of another journal, and when the quota runs
 * out; at most once a second, and again after a failure; to PATH.tmp first,
 * which is synced and renamed.  It contains what was durable when it began,
 * whatever happens meanwhile.
 *
 * Ownership: the caller's, between init and fini; the numbers are borrowed from
 * quota_export_turn() until quota_export_stop().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_QUOTA_EXPORT_H
#define COUNTD_WRITER_QUOTA_QUOTA_EXPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/diag.h"
#include "common/net/io.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "writer/quota/journal_numbers.h"

#define QUOTA_EXPORT_PAUSE_MS 1000

struct quota_export {
    struct loop *loop;
    struct io *io;
    const char *path; /* empty: off */
    char temp[CONFIG_TEXT_SIZE + 8];
    struct io_job job;
    struct journal_numbers *numbers;
    uint64_t until; /* the last number that it has lines for */
    int rc;
    bool wanted, running;
    _Atomic bool stopped;
    bool began;       /* once: last_ms holds */
    uint64_t last_ms; /* clock: when the last one began */
    uint64_t bound;   /* `until` of the next one */
    struct journal_numbers *next;
    struct loop_timer timer;
    struct diag_repeat warning;
    uint64_t written; /* figure */
};

void quota_export_init(struct quota_export *e, struct loop *loop, struct io *io,
                       const char *path);

/* When the I/O thread has stopped. */
void quota_export_fini(struct quota_export *e);

/* Another one is wanted. */
void quota_export_want(struct quota_export *e);

/* Numbers up to `until` are durable: begins, if it is wanted and time. */
void quota_export_turn(struct quota_export *e, struct journal_numbers *n,
                       uint64_t until);

/* Begins no other one.  The one that is being written ends before any job that
 * is pushed to its I/O thread from now on, if need be without all of it. */
void quota_export_stop(struct quota_export *e);

#endif
