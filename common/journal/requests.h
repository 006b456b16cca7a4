/* common/journal/requests.h - the counting requests with an Idempotency-Key
 * whose log is sealed: a queue (queue.h) in live/requests.
 *
 * Where the marks of a request are, so that no moment is without them:
 *
 *     log OPEN                          its slots (common/log/mark.h)
 *     a seal begins                     its slots, and here: durable
 *     log SEALED, later EMPTY           here, until the window has passed it
 *
 * So the process that seals a log stores its marks here first: the writer, or
 * the process that recovers a dead writer's log, through requests_store().  At
 * its start the writer has all logs recovered, then reads this queue: it knows
 * each request that counts.  A mark that is stored twice does no harm.
 *
 * The secret that the marks are hashes under is the uuid of the queue.  It is
 * made once, before any log takes marks; without it the marks in a log mean
 * nothing, so that is an error (-ENOKEY) and never a reason for a new one.
 *
 * A record of the queue has the marks of one fill, each of 56 bytes:
 *      0  hash[16] of the key    16  hash of the body u64
 *     24  uuid[16] of the log    40  epoch u64
 *     48  increments u32         52  Unix time in seconds u32
 *
 * Ownership: the caller's, from open to close.  One thread at a time.  Memory:
 * 32 bytes a record, and the marks of one fill while they are used.
 * Errors: 0 or a negative errno; damage is reported through diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_JOURNAL_REQUESTS_H
#define COUNTD_COMMON_JOURNAL_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/log/mark.h"

#define REQUESTS_FOLDER   "live/requests"
#define REQUESTS_KEEP_S   86400u /* how long a request is known */
#define REQUESTS_KEY_SIZE 16
#define REQUEST_SIZE      56u

struct requests;

/* What one mark says here. */
struct counted_request {
    struct request_mark mark;
    uint8_t uuid[MESSAGE_UUID_SIZE]; /* of the log */
    uint64_t epoch;                  /* of its fill */
    uint32_t at_s;
};

/* `data_fd` is the data directory, borrowed.  Opens nothing else yet.
 * -ENOMEM */
int requests_open(struct requests **out, int data_fd);
void requests_close(struct requests *r); /* NULL is fine */

/* Before anything else: only reads, also where nothing can be written. */
void requests_read_only(struct requests *r);

/* How often damage was reported. */
uint64_t requests_damaged(const struct requests *r);

/* For log_recover() and struct logdir. */
struct mark_store *requests_store(struct requests *r);

/* The secret.  -ENOKEY: there is none */
int requests_secret(struct requests *r, uint8_t secret[REQUESTS_KEY_SIZE]);

/* Makes the folder, in live/, and a secret; requests_secret() said that there
 * is none. */
int requests_make(struct requests *r);

/* From now on requests_put() forgets requests that are older than
 * REQUESTS_KEEP_S, or that `max` newer ones follow. */
void requests_limit(struct requests *r, uint64_t max);

/* Stores the marks of a fill: durable when it returns 0.  Waits for another
 * process that is storing, a second at most, 50 ms after requests_limit().
 *   -ENOKEY  there is no secret    -EAGAIN  another process is storing */
int requests_put(struct requests *r, const struct log_header *fill,
                 const struct marked *marks, size_t count);

/* Calls `visit` for each request, the oldest first. */
int requests_each(struct requests *r,
                  void (*visit)(void *ctx, const struct counted_request *q),
                  void *ctx);

/* Between these no process stores, and the files can be copied.  -ENOKEY,
 * -EAGAIN */
int requests_lock(struct requests *r);
void requests_unlock(struct requests *r);

#endif
