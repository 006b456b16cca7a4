/* writer/quota/checkpoint.h - the state of all quotas in one piece, with which
 * a journal begins so that it does not grow for ever.
 *
 * Integers are LEB128 varints, except those of an Idempotency-Key.
 *
 *   quotas   their count, then of each, the one without a name first:
 *            id, bytes of the name, name, limit, remaining, numbers, then of
 *            each journal number from 1 on:
 *              0, d         cancels the application d numbers before
 *              1, a, d      an application of a, cancelled d numbers after
 *              a + 2        an application of a
 *   keys     their count, then of each, the oldest first: hash (16), request
 *            (8), number (8), remaining (8), Unix time in s (4), form (4),
 *            little-endian
 *
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_CHECKPOINT_H
#define COUNTD_WRITER_QUOTA_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "writer/quota/quotas.h"

/* *bytes are the caller's to free.  -ENOMEM */
int checkpoint_write(const struct quotas *q, uint8_t **bytes, size_t *size);

/* As begin of struct journal_reader: makes the quotas, which ctx is, and reads
 * a checkpoint into them.  -EBADMSG: damaged; -ENOMEM */
int checkpoint_begin(void *ctx, int64_t limit, const uint8_t *bytes,
                     size_t size);

#endif
