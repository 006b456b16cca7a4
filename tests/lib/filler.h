/* tests/lib/filler.h - full logs without a writer.
 *
 *     filler_open(&f, log_fd, 3, 100);
 *     filler_add(&f, "words", "the", 5);
 *     filler_seal(&f);
 *
 * Makes log `index` when it is not there, then claims it, fills it through
 * the calls a writer uses, and leaves it full.  A failure fails the test.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_FILLER_H
#define COUNTD_TESTS_LIB_FILLER_H

#include <stdint.h>

#include "common/log/log.h"
#include "common/log/log_fill.h"
#include "common/log/slot.h"

struct filler {
    struct log log;
    uint64_t received_ms; /* of the next increment */
};

/* `slots` counts only when the log is made; names have 256 bytes. */
void filler_open(struct filler *f, int log_fd, uint64_t index, uint32_t slots);

/* Adds one increment, received at f->received_ms. */
void filler_add(struct filler *f, const char *keyspace, const char *key,
                int64_t increment);

/* Seals it and lets it go: mode 0200.  The fill that it was. */
struct log_fill filler_seal(struct filler *f);

/* Lets it go as a writer that dies does. */
void filler_die(struct filler *f);

/* Empties a full log, as a worker does when all of it is merged. */
void filler_empty(int log_fd, uint64_t index);

/* The mode of a log; 0: there is none. */
mode_t filler_mode(int log_fd, uint64_t index);

/* The bytes of slot `number` of a log, with the minute of the message. */
void filler_put_slot(const struct log *log, const struct message *m,
                     uint32_t number, const struct slot_stamp *stamp,
                     uint8_t *slot);

#endif
