/* common/log/mark.h - the mark of a counting request: the slot before those of
 * a request that came with an Idempotency-Key.
 *
 * A request with a key is one run of slots of one log: its mark, then its
 * increments.  The mark is a slot whose keyspace is empty, so no client can
 * send one; its key is 48 lower-case hex digits, 32 of the hash of the
 * Idempotency-Key and 16 of the hash of the body; its increment is the number
 * of increments that follow.  No increment is read from a mark: what merges,
 * archives or prints slots passes over it.
 *
 * What a mark is for:
 *   recovery  cuts a request that is not whole at its mark: no client was
 *             answered for it (log_recover.h)
 *   seal      before a header says SEALED, the marks of the log are stored
 *             durably elsewhere (requests.h), by the process that seals it
 *
 * Pure.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_MARK_H
#define COUNTD_COMMON_LOG_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log_header.h"
#include "common/wire/message.h"

#define MARK_HASH_SIZE 16
#define MARK_KEY_SIZE  48u /* digits; a log with smaller keys has no marks */

struct request_mark {
    uint8_t hash[MARK_HASH_SIZE]; /* hash of the Idempotency-Key */
    uint64_t body;                /* a hash of the body */
    uint32_t count;               /* increments that follow */
};

/* A mark in its slot, and when that was written. */
struct marked {
    struct request_mark mark;
    uint64_t received_ms;
};

/* Whether messages of these sizes leave space for marks. */
static inline bool
mark_fits(const struct layout *l)
{
    return l->key_size >= MARK_KEY_SIZE;
}

/* True for the message of a slot that is a mark. */
static inline bool
mark_is(const struct message *m)
{
    return m->keyspace_size == 0;
}

/* Writes the message of a mark and parses it; mark_fits() is true. */
void mark_put(const struct layout *l, const struct request_mark *mark,
              uint8_t *bytes, struct message *out);

/* Checks the message of a slot whose keyspace is empty.
 *   -EBADMSG  it is not a mark */
int mark_check(const struct layout *l, const uint8_t *bytes,
               struct message *out);

/* The mark that a message of a valid slot is. */
void mark_get(const struct message *m, struct request_mark *out);

#endif
