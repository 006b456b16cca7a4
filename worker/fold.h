/* worker/fold.h - full logs -> one sum per keyspace, key and minute.
 *
 * A fold holds, for a batch of logs, each keyspace they name and its entries:
 * (key, receive minute) -> exact sum; and for each keyspace which of the logs
 * have records for it.  Only whole logs are in it: when one cannot be added the
 * fold is cleared and made again without that log (worker/batch.h).
 *
 * Increments of 0 are skipped here: they change nothing and make no key.
 *
 * Memory: at most `memory` bytes, whatever the logs hold; names come from the
 * network, so the tables are keyed and every keyspace and key may be new. A log
 * that does not fit is not added (-ENOBUFS); one that does not fit even alone
 * gets all that it needs (fold_widen): a log is as large as log.size.
 *
 * Ownership: struct fold is the caller's from fold_open() to fold_close().
 * Keyspaces, entries and deltas live until fold_clear(); deltas in the fold only
 * until the next fold_deltas().  No threads, no output.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_FOLD_H
#define COUNTD_WORKER_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "common/log/log.h"
#include "common/log/waiting.h"
#include "common/store/store.h"

#define FOLD_LOGS_MAX 4096

struct fold_keyspace {
    struct fold_keyspace *next; /* in order of first appearance */
    uint64_t *touched;          /* bit per log: it has records for us */
    uint32_t newest;            /* of its entries, a reference */
    uint32_t entry_count;
    uint32_t tag;
    uint16_t name_size;
    int8_t state; /* the caller's, 0 at first, as are the next three */
    uint8_t lane; /* of the store (store_lane) */
    bool is_in;   /* has the records: to be made durable */
    int error;
    uint32_t records;
    uint8_t name[];
};

struct fold_entry {
    uint32_t keyspace; /* a reference */
    uint32_t minute;
    uint64_t sum_low;
    int32_t sum_high; /* 2^32 increments need 96 bits */
    uint32_t older;   /* of the same keyspace, a reference; 0 ends */
    uint16_t key_size;
    uint8_t key[];
};

/* Memory that is filled from the front.  Address space is reserved for the worst
 * case; pages cost memory only once they are touched. */
struct fold_region {
    uint8_t *at; /* NULL when closed */
    size_t size;
};

/* Where an entry or keyspace is found: open addressing, linear probing. */
struct fold_cell {
    uint32_t tag;
    uint32_t reference; /* 0: free */
};

struct fold_table {
    struct fold_region cells;
    uint32_t mask;
    uint32_t used;
    uint32_t limit; /* grow before more are used */
};

struct fold {
    struct hash_key hash_key;
    size_t memory;
    unsigned logs_max;
    bool wide; /* memory does not bind */
    /* Keyspaces and entries; references count 8 bytes. */
    struct fold_region arena;
    size_t arena_used;
    struct fold_table names;
    struct fold_table entries;
    struct fold_region scratch; /* of fold_deltas */
    uint32_t entries_most;      /* entries of the largest keyspace */
    struct fold_keyspace *first, *last;
    size_t keyspaces;
    uint64_t records;
    uint64_t zeros;
};

/* -ERANGE when `memory` is below FOLD_MEMORY_MIN; -ENOMEM. */
#define FOLD_MEMORY_MIN ((size_t)4 << 20)
int fold_open(struct fold *f, size_t memory, unsigned logs_max);
void fold_close(struct fold *f);

/* Empties it for the next batch.
 * -ENOMEM: it must be cleared again before any other use. */
int fold_clear(struct fold *f);

/* Frees memory that an empty fold has cached for the next batch. */
void fold_trim(struct fold *f);

/* Makes room for any `records`, whatever memory they take, until fold_clear().
 * Only on an empty fold.  -ENOMEM, -EFBIG */
int fold_widen(struct fold *f, uint32_t records);

/* Adds all records of a sealed log, as number `number` (below logs_max).
 *   -ENOBUFS  memory is used up   -EBADMSG  a slot is damaged or missing
 *   -EIO      it cannot be read
 * After any failure part of the log may be in: clear. */
int fold_add(struct fold *f, const struct log *log, unsigned number);

/* Adds a fill of a claimed file of log/waiting/ in the same way.
 *   -ENOBUFS  memory is used up   -EBADMSG  the member is damaged, or is not
 *             the one that was listed
 *   -EIO, -ENOMEM */
int fold_add_waiting(struct fold *f, const struct waiting_fill *fill,
                     unsigned number);

/* The keyspace of this name, or NULL. */
struct fold_keyspace *fold_find(const struct fold *f, const uint8_t *name,
                                size_t size);

/* Whether one more log is expected to fit: the usual batch should end before one
 * does not, because then all are folded again. */
bool fold_expects_fit(const struct fold *f);

/* Orders the keyspaces by their number of records, most first. */
void fold_sort_keyspaces(struct fold *f);

/* The keyspace's entries as deltas, sorted by key, then minute; returns their
 * number.  Keys point into the fold, deltas into `scratch`, which has room for
 * FOLD_SCRATCH_SIZE an entry (fold_memory.h), or if it is NULL into the fold. */
size_t fold_deltas(const struct fold *f, const struct fold_keyspace *k,
                   void *scratch, struct store_delta **deltas);

/* Bytes of anonymous memory this batch takes. */
size_t fold_memory(const struct fold *f);

/* The keyspace or entry that a reference means. */
static inline void *
fold_at(const struct fold *f, uint32_t reference)
{
    return f->arena.at + (size_t)reference * 8;
}

static inline bool
fold_bit(const uint64_t *bits, unsigned number)
{
    return bits[number / 64] >> number % 64 & 1;
}

static inline void
fold_set_bit(uint64_t *bits, unsigned number)
{
    bits[number / 64] |= (uint64_t)1 << number % 64;
}

#endif
