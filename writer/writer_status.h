/* writer/writer_status.h - countd-write's part of data/board: totals,
 * listeners, logs.
 *
 * The rows are filled a few times a second, from counters that exist anyway.
 * The thread that makes and seals logs scans data/log once a second for the
 * state of the logs that this process does not own.
 *
 * Ownership: the caller's between open and close.  The loop's thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_WRITER_STATUS_H
#define COUNTD_WRITER_WRITER_STATUS_H

#include "common/log/log.h"
#include "common/net/io.h"
#include "common/setup/status.h"
#include "writer/listeners.h"
#include "writer/live/live_server.h"

#define WRITER_STATUS_SCAN_MS 1000

/* What a scan of data/log finds; the job owns it while it runs. */
struct status_scan {
    struct io_job job;
    int log_fd; /* of the directory */
    int64_t logs[STATUS_LOGS][STATUS_LOG_VALUES];
    int64_t quarantined, disk_free, disk_size;
    bool handed[STATUS_LOGS]; /* on, since it began: what it found is older */
};

struct writer_status {
    struct status status;
    struct writer *writer; /* whose parts are shown; borrowed */
    struct status_row totals;
    struct status_row listeners[LISTENERS];
    struct status_row lives[LIVE_SERVICE_KINDS];
    struct status_scan scan;
    struct loop_timer timer;
    uint64_t next_scan_ms; /* monotonic: the next one */
    bool scanning;
};

/* Makes the board and begins.  Cannot fail: without a board it says so, and
 * nothing is shown. */
void writer_status_open(struct writer_status *s, struct writer *w);

/* After the logs are closed, whose thread may be scanning; also where it was not
 * opened. */
void writer_status_close(struct writer_status *s);

/* A log has been handed on to the workers. */
void writer_status_handed(struct writer_status *s, const struct log *log);

/* The lines of SIGUSR1. */
void writer_status_print(struct writer_status *s);

#endif
