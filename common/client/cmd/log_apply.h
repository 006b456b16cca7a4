/* common/client/cmd/log_apply.h - the increments of some logs, summed by
 * keyspace, key and minute, and put into a store once.
 *
 *     rc = log_apply_log(&s, &mark);             one or more
 *     rc = log_apply_add(&s, &message, received_ms);
 *     ...
 *     rc = log_apply_apply(&s, store, &how);
 *
 * A worker does the same (worker/fold.h) at fifty times the speed, in bounded
 * memory.  This one is for commands and has no limit: the caller bounds what it
 * adds.
 *
 * Ownership: struct log_apply is the caller's; all zeros is an empty one.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_LOG_APPLY_H
#define COUNTD_COMMON_CLIENT_CMD_LOG_APPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/held.h"
#include "common/store/store.h"
#include "common/wire/message.h"

struct log_apply_record {
    size_t keyspace_at; /* in bytes; the key follows the keyspace */
    uint16_t keyspace_size;
    uint16_t key_size;
    uint32_t minute;
    uint32_t log; /* that it is of */
    int64_t increment;
};

struct log_apply {
    struct store_fill *marks; /* of the logs */
    size_t log_count, log_room;
    struct log_apply_record *records;
    size_t count, room;
    uint8_t *bytes;
    size_t bytes_size, bytes_room;
};

void log_apply_fini(struct log_apply *s);
void log_apply_clear(struct log_apply *s); /* keeps the memory */

/* The next records are of this fill.  -ENOMEM */
int log_apply_log(struct log_apply *s, const struct store_fill *mark);

/* Increments of 0 are left out.  -ENOMEM */
int log_apply_add(struct log_apply *s, const struct message *m,
                  uint64_t received_ms);

/* How many records were applied, held or skipped. */
struct log_apply_result {
    uint64_t merged;  /* records merged by this call */
    uint64_t already; /* records whose fill was merged before */
    uint64_t held;    /* that wait behind what was held for their keyspace */
    uint64_t held_before; /* of these, held before this call */
    uint64_t passed;      /* a later fill of their log is in */
    uint64_t failed;      /* keyspaces that refused */
};

struct log_apply_how {
    struct held *held; /* NULL: nothing is held (a dry run against nothing) */
    bool dry_run;      /* only ask the marks */
    bool go_on;        /* continue after a keyspace that refuses */
    bool pass;         /* skip records whose keyspace has a later fill */
    uint64_t wait_ms;  /* at most, for another process that is writing */
    long (*holder)(void *ctx); /* its pid; NULL: unknown */
    void *ctx;

    /* Says that a keyspace refused, and why: -ERANGE it has a later fill of
     * one of the logs, or another one of the same epoch. */
    void (*refused)(void *ctx, const uint8_t *name, size_t name_size, int rc);
};

/* Sees to it that all records are in, under the marks of their logs: what is
 * in already is not put in again, also where some of it is.  Where something is
 * held for a keyspace, its records are held behind that, as a worker does it:
 * applied at once they would bring the marks of their logs past those of what
 * is held; only a fill before all that is held of its log is applied.  So the
 * caller lists its logs first and calls this then.  `store` NULL: a dry run
 * against nothing.  Adds to *result. what a keyspace said, unless it goes on
 * behind it; -ENOMEM */
int log_apply_apply(struct log_apply *s, struct store *store,
                    const struct log_apply_how *how,
                    struct log_apply_result *result);

#endif
