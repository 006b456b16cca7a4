/* writer/statsd/aggregate.h - what arrived for each name since the last flush.
 *
 * One entry for each (keyspace, key, minute) sums millionths in 128 bits; minute
 * 0 is that of the flush.  A flush takes the whole part of every sum as one
 * increment and leaves the rest, at most half a unit, with the name for the next
 * flush: a count is always less than one away from the exact sum.  The rests of
 * other minutes go to minute 0 when their entries leave memory.  Where a rest
 * may be forgotten, for want of memory or since rests were lost before
 * (`is_lossy`), the first fraction of an entry brings an offset of up to half a
 * unit: so counts are right on average.
 *
 * Memory is two halves.  New names go to the young half; a name that is found
 * in the old one moves to the young one when something arrives for it.  After
 * `statsd.idle`, or when the young half is full, aggregate_age() clears the old
 * half and exchanges the two.  A name thus leaves after one to two idle times
 * without an increment.  A name with a fraction stays, in minute 0, surely if it
 * lies in the first half of a half; `forgotten` counts those that leave.
 *
 * An entry that waits for a flush is never cleared: aggregate_age() refuses.
 *
 * Ownership: the caller's, between init and fini; all memory is mapped in
 * init.  One thread.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_STATSD_AGGREGATE_H
#define COUNTD_WRITER_STATSD_AGGREGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "common/wire/decimal.h"
#include "common/wire/message.h"

struct aggregate_half {
    uint8_t *bytes;     /* entries, one after the other */
    uint32_t *index;    /* entry at / AGGREGATE_UNIT + 1 by hash; 0: free */
    size_t used;        /* bytes */
    size_t names;       /* entries in the index */
    uint64_t waiting;   /* entries that wait for a flush */
    uint64_t fractions; /* entries that had a fraction */
};

struct aggregate {
    struct hash_key hash_key;
    struct aggregate_half halves[2];
    unsigned young; /* index of the half that new names go to */
    uint32_t ages;  /* calls of aggregate_age() that cleared a half */
    /* aggregate_free() after the last of them: none is more. */
    size_t free_aged;
    size_t half_size;                      /* bytes of entries of a half */
    size_t index_count;                    /* of a half, a power of two */
    struct aggregate_entry *first, **last; /* those that wait for a flush */
    uint64_t forgotten;                    /* names that left with a fraction */
    bool is_lossy; /* rests of all names were lost: offsets for all */
};

/* Maps `size` bytes.  -ENOMEM. */
int aggregate_init(struct aggregate *s, size_t size);
void aggregate_fini(struct aggregate *s);

/* Bytes that one name takes, at most. */
size_t aggregate_name_size(size_t keyspace_size, size_t key_size);

/* Bytes that are free for new names. */
size_t aggregate_free(const struct aggregate *s);

/* Adds to the name of a message, whose increment is not looked at.
 * -ENOMEM: the young half is full, and nothing changed. */
int aggregate_add(struct aggregate *s, const struct message *name,
                  int128 millionths);

/* Takes the whole part of the name that has waited longest.  False: none
 * waits.  The increment may be 0, which needs no slot.  The name is valid until
 * the next call. */
bool aggregate_take(struct aggregate *s, struct message *out);

/* Clears the old half of all but names with a fraction; it becomes the young
 * one.  Names to which the rest of another minute went wait for a flush then.
 * -EBUSY: a name in it waits for a flush. */
int aggregate_age(struct aggregate *s);

/* Clears both halves of all names, unless one waits for a flush.  If rests are
 * lost with them, all names have offsets from then on. */
void aggregate_forget(struct aggregate *s);

/* Names in memory that had a fraction. */
uint64_t aggregate_fractions(const struct aggregate *s);

/* Calls `take` for each of them that has one now and does not wait: with its
 * rest in millionths as the increment. */
void aggregate_each_rest(const struct aggregate *s,
                         void (*take)(void *ctx, const struct message *rest),
                         void *ctx);

/* Gives a name the rest that it had before a stop; without memory for the name
 * the rest is forgotten. */
void aggregate_set_rest(struct aggregate *s, const struct message *rest);

#endif
