/* writer/quota/quota_tally.h - the activity of quotas, as increments in the
 * writer's own log (live.history).
 *
 *     quota.applied     amounts that were applied
 *     quota.cancelled   amounts that came back
 *     quota.refused     amounts that were applied for and refused
 *
 * The key is the name of the quota, - for the one without a name.  A round each
 * minute, in pieces; what does not fit into the logs is written in the next
 * one.  A kill or a failed disk loses what was not written yet, a minute's at
 * most.
 *
 * Ownership: the caller's; the logs are borrowed, the quotas lent in each call.
 */
#ifndef COUNTD_WRITER_QUOTA_QUOTA_TALLY_H
#define COUNTD_WRITER_QUOTA_QUOTA_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/message.h"
#include "writer/logs.h"
#include "writer/quota/quotas.h"

#define QUOTA_TALLY_MS     60000
#define QUOTA_TALLY_PIECE  256 /* quotas looked at in a turn */
#define QUOTA_UNNAMED_NAME "-"

struct quota_tally {
    struct logs *logs; /* NULL: off */
    struct layout layout;
    uint64_t due_ms; /* clock: of the next round */
    bool in_round;
    size_t next;
    uint64_t increments; /* figure */
    uint8_t bytes[MESSAGE_SIZE_MAX + LOGS_WORD];
};

/* `now_ms` is that of the loop here and below. */
void quota_tally_init(struct quota_tally *t, struct logs *logs,
                      uint64_t now_ms);

/* In each turn.  True: a round goes on, do not wait. */
bool quota_tally_turn(struct quota_tally *t, struct quotas *q, uint64_t now_ms);

/* The end: all that the logs take.  False: not all of it. */
bool quota_tally_finish(struct quota_tally *t, struct quotas *q);

#endif
