/* common/store/cluster/outbox.h - data/outbox: batches that are durable here
 * and on their way into the cluster, and the marks of the logs they came from.
 *
 *     outbox_apply ...                        any number of processes
 *     outbox_refresh -> outbox_read -> (send) -> outbox_remove
 *                                             one process: outbox_lock_sender
 *
 * A batch is cut by part into entries of at most OUTBOX_ROWS rows.  The entries
 * of a part are a chain: numbers rise by one from 1, and each has the digest of
 * the one before it.  Entries, last numbers and log marks are committed in one
 * group of the journal, so a log counts once however often its merge is begun.
 * A batch of more than OUTBOX_GROUP bytes takes several groups; its marks say
 * up to which key it is in (STORE_MARK_PARTIAL).
 *
 * An entry stays until it is settled: outbox_remove() is for its sender, which
 * knows that replicas have it and that it is old enough (sender.h).
 *
 * Memory: about 100 bytes an entry, and the marks.  Space: as common/journal,
 * at most `max` bytes of entries, then -ENOSPC: the logs stay full.
 * Ownership: a handle is its opener's; one thread a handle.
 * Errors: as store.h. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_OUTBOX_H
#define COUNTD_COMMON_STORE_CLUSTER_OUTBOX_H

#include "common/setup/parts.h"
#include "common/setup/tiers.h"
#include "common/store/cluster/outbox_record.h"

#define OUTBOX_FOLDER "outbox"
#define OUTBOX_ROWS   1000u               /* of an entry, and of a command */
#define OUTBOX_BYTES  ((size_t)256 << 10) /* of an entry, about */
#define OUTBOX_GROUP  ((size_t)4 << 20)

struct outbox_options {
    int data_fd; /* borrowed */
    bool writable;
    uint64_t max;   /* bytes that wait; 0: any number */
    uint32_t parts; /* of keyspaces that are yet to be made */
    const struct parts_rules *parts_of; /* borrowed; NULL: `parts` of all */
    uint64_t keyspace_max;              /* 0: any number */
    const struct tiers_rules *history;  /* borrowed; NULL: none is kept */
};

struct outbox;

struct outbox_entry {
    uint64_t id; /* of the journal */
    uint64_t number, digest, prev_digest, first_ms;
    uint64_t acked_ms; /* the sender's: when it was acknowledged; 0: not */
    uint32_t size;     /* bytes in the journal */
};

/* A part of a keyspace, as this directory cuts it: a chain.  The cluster may
 * have more parts; the keys of a chain are then those of several of them. */
struct outbox_part {
    struct outbox_keyspace *keyspace;
    uint32_t number;
    struct outbox_entry *entries; /* `count` from `first` on, in order */
    size_t first, count, capacity;
    uint64_t last, last_digest; /* number and digest of its newest entry */
    uint64_t acked; /* the sender's: the cluster has entries up to this one */
};

struct outbox_keyspace {
    uint8_t name[STORE_NAME_MAX];
    size_t name_size;
    uint32_t part_count, generation;
    struct outbox_part *parts;
    struct outbox_mark *marks;
    size_t mark_count;
    uint64_t state_id; /* of its record; 0: it has none yet */
    void *sender;      /* the sender's, freed with free() */
};

/* Opens it, with `writable` makes what is missing.
 *   -ENOENT  read only, and there is none */
int outbox_open(struct outbox **out, const struct outbox_options *options);
void outbox_close(struct outbox *o);

/* Takes what other handles did. */
int outbox_refresh(struct outbox *o);

/* ---- the store's side --------------------------------------------------- */

int outbox_marks(struct outbox *o, const uint8_t *name, size_t name_size,
                 const struct store_fill *fills, size_t count,
                 struct store_mark_info *infos);
int outbox_apply(struct outbox *o, const struct store_batch *batch,
                 struct store_applied *applied);

/* Appends an entry that removes keys, or (count 0) all of them. */
int outbox_delete(struct outbox *o, const uint8_t *name, size_t name_size,
                  const struct store_key *keys, size_t count);

/* NULL: the keyspace never had an entry. */
struct outbox_keyspace *outbox_find(struct outbox *o, const uint8_t *name,
                                    size_t name_size);
size_t outbox_keyspace_count(const struct outbox *o);
struct outbox_keyspace *outbox_keyspace_at(struct outbox *o, size_t index);

/* The entry of this number; NULL: it is not here any more, or not yet. */
struct outbox_entry *outbox_find_entry(const struct outbox_part *p,
                                       uint64_t number);

/* The number of the first entry that is retained; after the last: none is. */
uint64_t outbox_first(const struct outbox_part *p);

/* Whether this directory made the entry of this number with this digest; true
 * too for entries that it made so long ago that it has forgotten them. */
bool outbox_is_own(const struct outbox_part *p, uint64_t number,
                   uint64_t digest);

/* The journal's id of the last entry; 0: there was none. */
uint64_t outbox_last(const struct outbox *o);

/* Bytes of all that waits. */
uint64_t outbox_bytes(const struct outbox *o);

/* ---- the sender's side -------------------------------------------------- */

/* At most one handle has it.  -EAGAIN: another one does. */
int outbox_lock_sender(struct outbox *o);

/* The sender's id; 0 before the first entry. */
uint64_t outbox_sender(const struct outbox *o);

/* Reads an entry; the bytes are valid until the next call.
 *   -ENOENT  it is gone   -EBADMSG  it is damaged */
int outbox_read(struct outbox *o, const struct outbox_entry *e,
                struct outbox_entry_head *out);

/* Between outbox_begin() and outbox_commit(), which ends it in any case:
 * removes the first `count` entries of a part.  outbox_begin() refreshes.
 *   -EAGAIN  another process is writing */
int outbox_begin(struct outbox *o);
int outbox_remove(struct outbox *o, struct outbox_part *p, size_t count);
int outbox_commit(struct outbox *o);

#endif
