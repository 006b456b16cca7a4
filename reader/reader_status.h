/* reader/reader_status.h - countd-read's part of data/board.
 *
 * Ownership: the caller's; what it reads is borrowed.  The loop's thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_READER_STATUS_H
#define COUNTD_READER_READER_STATUS_H

#include "common/setup/status.h"
#include "reader/listeners.h"

struct reader_status {
    struct status status;
    struct status_row rows[1 + READER_LISTENERS]; /* ports that are off have
                                                     none */
    size_t count;
    const struct range *range;
    const struct read_http *http;
    struct resp_service *resp;
    struct conns *conns;
};

/* Zero but for the members from `range` on, which are the caller's to set;
 * status_close(&s->status) at the end. */
void reader_status_init(struct reader_status *s, const char *data_dir);

/* Puts the figures; to be called once a second. */
void reader_status_put(struct reader_status *s);

/* The lines of SIGUSR1. */
void reader_status_print(struct reader_status *s);

#endif
