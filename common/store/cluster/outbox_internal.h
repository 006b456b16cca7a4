/* common/store/cluster/outbox_internal.h - what the files of outbox.h share:
 * outbox.c (handle, marks, the sender's side), outbox_index.c (what is in the
 * journal), outbox_apply.c (batches become entries). */
#ifndef COUNTD_COMMON_STORE_CLUSTER_OUTBOX_INTERNAL_H
#define COUNTD_COMMON_STORE_CLUSTER_OUTBOX_INTERNAL_H

#include "common/journal/queue.h"
#include "common/store/cluster/outbox.h"

/* An entry that is being made for a part. */
struct outbox_builder {
    uint8_t *bytes;
    size_t size, capacity;
    uint32_t rows;
    uint64_t last, last_digest; /* of the part, with this group */
};

struct outbox {
    struct outbox_options options;
    struct queue *queue;
    int dir_fd;
    uint64_t sender;
    struct outbox_keyspace **keyspaces; /* in the order in which they came */
    size_t keyspace_count, keyspace_capacity;
    void *names;           /* the same, a tree of tsearch() */
    size_t removing;       /* the keyspace of which an entry was removed last */
    uint64_t last;         /* id of the last entry */
    enum outbox_type type; /* of the entries that are being made */
    uint64_t first_ms;     /* of them */
    struct outbox_builder builders[OUTBOX_PARTS_MAX];
    uint8_t *state; /* the record of a keyspace that is being made */
    size_t state_capacity;
};

/* The keyspace, which is made when there is none; NULL: no memory. */
struct outbox_keyspace *outbox_make(struct outbox *o, const uint8_t *name,
                                    size_t name_size, uint32_t parts);

/* Callbacks of the queue; ctx is the struct outbox. */
int outbox_index_added(void *ctx, uint64_t id, const uint8_t *bytes,
                       size_t size);
void outbox_index_removed(void *ctx, uint64_t id);
void outbox_index_fini(struct outbox *o);

struct store_mark_info outbox_mark_info(const struct outbox_keyspace *k,
                                        const struct store_fill *fill);

/* Equal for marks that are in up to the same key. */
uint64_t outbox_progress(const uint8_t *last, size_t size);

/* Takes the journal's lock and refreshes; waits for others for a while.
 * -EAGAIN */
int outbox_acquire(struct outbox *o);
void outbox_release(struct outbox *o);

#endif
