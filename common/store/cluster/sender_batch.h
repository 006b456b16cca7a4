/* common/store/cluster/sender_batch.h - the rows of one command: those of one
 * entry of a part or of several that follow each other, summed.
 *
 *     sender_batch_begin -> sender_batch_add ... -> sender_batch_finish
 *
 * The cluster's functions take a delta for each key, and for each period of
 * history a section: its sums by row and step.  Every tier gets all sums, so
 * that nothing needs to be rolled up later, and an answer reads one tier.
 *
 * Ownership: the caller's, zeros at first; sender_batch_fini().  What
 * sender_batch_finish() made is valid until the next sender_batch_begin(). */
#ifndef COUNTD_COMMON_STORE_CLUSTER_SENDER_BATCH_H
#define COUNTD_COMMON_STORE_CLUSTER_SENDER_BATCH_H

#include "common/setup/tiers.h"
#include "common/store/cluster/cluster.h"
#include "common/store/cluster/cluster_key.h"
#include "common/store/cluster/outbox_record.h"

struct sender_batch_cell {
    size_t key_at; /* in `bytes` */
    uint16_t key_size;
    uint32_t minute;
    int128 sum;
};

struct sender_batch_section {
    struct cluster_period period;
    char key[CLUSTER_PERIOD_KEY_SIZE];
    size_t key_size;
    uint8_t *bytes;
    size_t size, capacity;
    uint32_t row, step; /* whose sum is being made; row 0: none */
    int128 sum;
    uint64_t any; /* steps with sums over all keys */
    int128 all[TIERS_CELLS_MAX];
};

struct sender_batch {
    uint8_t *bytes; /* keys */
    size_t size, byte_capacity;
    struct sender_batch_cell *cells;
    size_t cell_count, cell_capacity;
    size_t row_count; /* keys */
    struct sender_batch_section *sections;
    size_t section_count, section_capacity;
    uint8_t tiers[TIERS_MAX * 12]; /* as the functions take them */
    size_t tiers_size;
    uint32_t first;       /* minute */
    bool is_untimed;      /* of some cells no history is kept */
    uint32_t parts, part; /* only keys of this part are added; 0: all are */
};

/* Begins with all parts. */
void sender_batch_begin(struct sender_batch *b);

bool sender_batch_wants(const struct sender_batch *b,
                        const struct outbox_row *row);

/* Adds the rows of an entry of type ADD.  1: there are too many, and nothing
 * was added: never for the first entry.  -ENOMEM */
int sender_batch_add(struct sender_batch *b,
                     const struct outbox_entry_head *head);

/* Makes sections for the periods of `tiers` that are kept at minute
 * `now`.  -ENOMEM */
int sender_batch_finish(struct sender_batch *b,
                        const struct cluster_part_keys *keys,
                        const struct tiers *tiers, uint32_t now);

/* Adds the words of the rows to a command: each key and its sum. */
void sender_batch_put_rows(const struct sender_batch *b,
                           struct cluster_command *m);
void sender_batch_fini(struct sender_batch *b);

#endif
