/* common/store/tree/update.h - edits of one group: into its buffer, or folded
 * into the stage.
 */
#ifndef COUNTD_COMMON_STORE_TREE_UPDATE_H
#define COUNTD_COMMON_STORE_TREE_UPDATE_H

#include "common/store/tree/stage.h"

struct update {
    struct tree *tree;
    struct levels *levels;
    struct stage *stage;
    /* Copies of the group at hand, and its new buffer. */
    uint8_t header[BLOCK_SIZE];
    uint8_t base[GROUP_MAX][BLOCK_SIZE];
    uint8_t buffer[GROUP_BUFFER_MAX][BLOCK_SIZE];
    uint8_t out[GROUP_BUFFER_MAX][BLOCK_SIZE];
};

void update_init(struct update *u, struct tree *t, struct levels *levels,
                 struct stage *stage);

/* Applies `edits`, all of this group's range, to the group: into its buffer,
 * or folded into the stage (always while the stage is active). */
int update_group(struct update *u, const struct level_group *at,
                 const struct row *edits, size_t count);

/* Adds inserts where there is no group to the stage. */
int update_empty(struct update *u, const struct row *edits, size_t count);

#endif
