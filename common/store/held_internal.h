/* common/store/held_internal.h - what the files of held.h share: held.c,
 * held_index.c, held_admin.c. */
#ifndef COUNTD_COMMON_STORE_HELD_INTERNAL_H
#define COUNTD_COMMON_STORE_HELD_INTERNAL_H

#include "common/journal/queue.h"
#include "common/store/held.h"
#include "common/store/held_record.h"

#define HELD_SEGMENT_SIZE (1u << 18)
#define HELD_GROUP_SIZE   ((size_t)8 << 20) /* a step is cut into such groups */

/* The index entry of a record. */
struct held_entry {
    uint64_t id;
    uint32_t keyspace;  /* index */
    uint32_t fills;     /* 0: gone */
    size_t fill_at;     /* of its hashes in fills */
    uint64_t oldest_ms; /* first_ms of its fills */
    uint64_t newest_ms;
    uint64_t held_ms;
    uint32_t size;
    int error;
};

struct held_keyspace {
    uint8_t *name; /* on the heap */
    size_t name_size;
    uint64_t stream;
    uint64_t records;
};

/* An index of all records: made by the queue's callbacks. */
struct held_index {
    struct held_entry *entries; /* by id once sorted */
    size_t count, capacity, gone;
    bool unsorted;
    uint64_t *fills; /* hashes of the fills of entries */
    size_t fill_count, fill_capacity;
    struct held_keyspace *keyspaces;
    size_t keyspace_count, keyspace_capacity;
    uint32_t *slots; /* hash table: 1 + index of the keyspace */
    size_t slot_count;
    uint32_t *by_name; /* indices of keyspaces by name, when sorted */
    bool names_sorted;
};

struct held {
    struct held_options options;
    struct queue *queue; /* NULL: there is none yet */
    int dir_fd;          /* of the folder; -1 */
    struct held_index index;
    uint8_t *record; /* being put */
    size_t record_capacity;

    /* The marks and deltas of the record that was read last. */
    struct store_fill *marks;
    struct store_delta *deltas;
    size_t mark_capacity, delta_capacity;
};

/* ---- held_index.c ------------------------------------------------------- */

uint64_t held_stream(const uint8_t *name, size_t name_size);
uint64_t held_fill_hash(const struct store_fill *mark);

/* Callbacks of the queue; ctx is the struct held. */
int held_index_added(void *ctx, uint64_t id, uint64_t stream,
                     const uint8_t *bytes, size_t size);
void held_index_removed(void *ctx, uint64_t id);

void held_index_fini(struct held_index *x);

/* The entry of an id, or NULL. */
struct held_entry *held_index_find(struct held_index *x, uint64_t id);

/* The keyspace of this name of which something is held, or NULL. */
struct held_keyspace *held_index_keyspace(struct held_index *x,
                                          const uint8_t *name,
                                          size_t name_size);

/* The keyspace after this name (size 0: the first), or NULL. */
struct held_keyspace *held_index_next(struct held_index *x, const uint8_t *name,
                                      size_t name_size);

/* ---- held.c ------------------------------------------------------------- */

/* The entry after this id of a keyspace, or NULL. */
struct held_entry *
held_next_entry(struct held *h, const struct held_keyspace *k, uint64_t after);

/* Reads a record's bytes and head.  -EBADMSG */
int held_read(struct held *h, uint64_t id, struct held_head *head);

#endif
