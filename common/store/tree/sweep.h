/* common/store/tree/sweep.h - the memory of a change to an order: what
 * sweep.c (the sweep over the directory) and group.c (the groups) share.
 */
#ifndef COUNTD_SWEEP_H
#define COUNTD_SWEEP_H

#include "common/store/tree/tree.h"

#define NODE_ROOM    (BLOCK_SIZE - BLOCK_HEAD)
#define NODE_ENTRY   16
#define LIST_FULL    (2 * NODE_ROOM - NODE_ENTRY - BLOCK_ROW_MAX)
#define LIST_MAX     (2 * NODE_ROOM / (NODE_ENTRY + BLOCK_ROW_HEAD) + 2)
#define LIST_BYTES   (2 * NODE_ROOM + BLOCK_ROW_MAX)
#define STAGE_BLOCKS (TREE_GROUP_MAX + 1)
#define SPARE_MAX    16

/* Entries of a directory node to be: filled at the end, written from the
 * front. */
struct list {
    unsigned count;
    size_t used;  /* bytes the entries take in a node */
    size_t bytes; /* of separators */
    struct {
        uint64_t child;
        uint64_t rows;
        size_t at; /* of the separator */
        size_t size;
    } entries[LIST_MAX];
    uint8_t separators[LIST_BYTES];
};

/* One level of the directory during a sweep: the old node, as far as it has
 * been passed, and the entries that take its place. */
struct level {
    bool open;
    bool has_first; /* `first` has not been used yet */
    bool has_upper;
    struct node old;  /* its bytes are `copy` */
    unsigned at;      /* next entry of `old` */
    unsigned written; /* nodes, since it was opened */
    struct row upper; /* end of the old node's rows; lies one level up */
    size_t first_size;
    uint8_t first[BLOCK_ROW_MAX]; /* separator the first entry must have */
    unsigned spare_count;
    uint64_t spares[SPARE_MAX]; /* ids of old nodes, to be used again */
    uint8_t copy[BLOCK_SIZE];
    struct list list;
};

/* New base blocks on their way out. */
struct stage {
    bool active;
    unsigned blocks; /* complete */
    size_t separator_size;
    uint8_t separator[BLOCK_ROW_MAX]; /* of the first group */
    struct block_writer writer;       /* into bytes[blocks] */
    uint16_t sizes[STAGE_BLOCKS];
    uint16_t counts[STAGE_BLOCKS];
    uint16_t lasts[STAGE_BLOCKS]; /* where the last row begins */
    unsigned spare_count;
    struct {
        uint64_t id;
        unsigned blocks;
        unsigned buffers;
    } spares[SPARE_MAX]; /* old groups whose rows are here */
    uint8_t bytes[STAGE_BLOCKS][BLOCK_SIZE];
};

struct tree_work {
    unsigned top; /* highest open level */
    unsigned low; /* lowest open level */
    struct level levels[TREE_LEVELS + 1];
    struct stage stage;
    /* Copies of the group at hand: writing moves LMDB's own. */
    uint8_t header[TREE_GROUP_SIZE];
    uint8_t base[TREE_GROUP_MAX][BLOCK_SIZE];
    uint8_t buffer[TREE_BUFFER_MAX][BLOCK_SIZE];
    uint8_t out[TREE_BUFFER_MAX][BLOCK_SIZE];
};

/* Adds an entry to the new entries of a level (sweep.c). */
int tree_level_append(struct tree *t, unsigned level, uint64_t child,
                      uint64_t rows, const uint8_t *separator, size_t size);

/* Starts an empty stage whose first group begins at this separator. */
void tree_stage_start(struct tree *t, const uint8_t *separator, size_t size);

/* Whether the stage has too little for a group of its own. */
bool tree_stage_small(const struct tree *t);

/* Writes what is left in the stage as groups. */
int tree_stage_finish(struct tree *t);

/* Applies `edits`, all of this group's range, to the group: into its buffer,
 * or folded into the stage (always while the stage is active). */
int tree_group_update(struct tree *t, uint64_t id, uint64_t rows,
                      const uint8_t *separator, size_t separator_size,
                      const struct row *edits, size_t count);

/* Adds inserts where there is no group to the stage. */
int tree_stage_inserts(struct tree *t, const struct row *edits, size_t count);

#endif
