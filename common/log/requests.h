/* common/log/requests.h - the counting requests with an Idempotency-Key
 * whose log is sealed: a file for each hour in live/requests.
 *
 * Where the marks of a request are, so that no moment is without them:
 *
 *     log OPEN                          its slots (common/log/mark.h)
 *     a seal begins                     its slots, and here: durable
 *     log SEALED, later EMPTY           here, until the window has passed it
 *
 * So the process that seals a log stores its marks here first: the writer, or
 * the process that recovers a dead writer's log (log_recover()).  At
 * its start the writer has all logs recovered, then reads these files: it knows
 * each request that counts.  A mark that is stored twice does no harm.
 *
 *     live/requests/secret   16 random bytes, crc32 of them: what the keys are
 *                            hashed under
 *     live/requests/HOUR     Unix time / 3600 s in ten digits: records of 64
 *                            bytes; HOUR.1, HOUR.2, ... go on with it
 *
 * The secret is made once, before any log takes marks; without it marks mean
 * nothing, so that is an error (-ENOKEY) until an operator accepts that their
 * keys are forgotten.
 *
 * A record is a mark:
 *      0  hash[16] of the key    16  hash of the body u64
 *     24  uuid[16] of the log    40  epoch u64
 *     48  increments u32         52  Unix time in seconds u32
 *     56  process u32            60  crc32 of the 60 bytes before
 *
 * The marks of a fill are one pwrite(2) and one fdatasync(2) under the flock of
 * the file, at the next multiple of 64 bytes.  Nothing notes where a file ends.
 * A process never writes again to a file in which a write or a sync failed: its
 * next records go to the next name.  So a record that does not check is what a
 * kill, a full disk or a power loss cut, and no process relied on it, unless a
 * good record of another fill by the same process follows and it is still bad
 * when it is read once more: then it is damage, and reported.  `process` is a
 * random number of a struct requests, not 0.
 *
 * Ownership: the caller's; it has nothing open.  One thread at a time.
 * Errors: 0 or a negative errno; damage is reported through diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_REQUESTS_H
#define COUNTD_COMMON_LOG_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/log/mark.h"

#define REQUESTS_FOLDER   "live/requests"
#define REQUESTS_SECRET   "secret"
#define REQUESTS_KEEP_S   86400u /* how long a request is known */
#define REQUESTS_KEY_SIZE 16
#define REQUEST_SIZE      64u

struct requests {
    uint64_t max;     /* of requests that are remembered; 0: none is forgotten.
                         The caller's */
    uint64_t damaged; /* times that damage was reported */

    int data_fd; /* the rest is private */
    uint32_t process;
    uint64_t least;      /* it gave up the files before this one */
    uint64_t named;      /* the file whose name it made durable */
    uint64_t removed_ms; /* clock_ms() when it removed an hour's files */
    bool has_secret;
    uint8_t secret[REQUESTS_KEY_SIZE];
};

/* What one mark says here. */
struct counted_request {
    struct request_mark mark;
    uint8_t uuid[MESSAGE_UUID_SIZE]; /* uuid of the log */
    uint64_t epoch;                  /* epoch of the log's fill */
    uint32_t at_s;
};

/* `data_fd` is the data directory, borrowed.  Opens and makes nothing. */
void requests_init(struct requests *r, int data_fd);

/* Reads the secret.  From now on requests_put() of this process writes it again
 * if it is missing.
 *   -ENOKEY  there is none, or it is damaged
 *   -EPROTONOSUPPORT  the folder is of an earlier version: reported */
int requests_secret(struct requests *r, uint8_t secret[REQUESTS_KEY_SIZE]);

/* Makes the folder, in live/, and a secret: the one before, if there was one,
 * is lost. */
int requests_make(struct requests *r);

/* 1: there are files of records; 0: there are none. */
int requests_exist(struct requests *r);

/* Stores the marks of a fill: durable when it returns 0.  Waits for another
 * process that is storing, a second at most, 50 ms where `max` is set.
 *
 * Where it is, removes files that `max` newer requests follow, and files whose
 * requests are older than REQUESTS_KEEP_S: those of one hour at most in an hour
 * that this process runs, so that a clock that steps forth has none forgotten.
 *   -ENOKEY  there is no secret    -EAGAIN  another process is storing */
int requests_put(struct requests *r, const struct log_header *fill,
                 const struct marked *marks, size_t count);

/* Calls `visit` for each request, the oldest first. */
int requests_each(struct requests *r,
                  void (*visit)(void *ctx, const struct counted_request *q),
                  void *ctx);

#endif
