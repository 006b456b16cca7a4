/* common/store/tree/stage.h - new base blocks on their way out: rows come in in
 * order, are packed into full blocks, and leave as groups.
 *
 * The old groups whose rows are here are removed.
 *
 * Errors: 0 or a negative errno, as common/store/tree/tree.h has them.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_TREE_STAGE_H
#define COUNTD_COMMON_STORE_TREE_STAGE_H

#include "common/store/tree/group.h"
#include "common/store/tree/level.h"

#define STAGE_BLOCKS (GROUP_MAX + 1)

struct stage {
    struct tree *tree;
    struct levels *levels; /* get the groups */
    bool active;
    unsigned blocks;                  /* complete */
    uint8_t separator[BLOCK_ROW_MAX]; /* separator of the first group */
    struct block_writer writer;       /* into bytes[blocks] */
    uint16_t sizes[STAGE_BLOCKS];
    uint16_t counts[STAGE_BLOCKS];
    uint16_t lasts[STAGE_BLOCKS]; /* where the last row begins */
    uint8_t bytes[STAGE_BLOCKS][BLOCK_SIZE];
};

/* Starts an empty stage whose first group begins at this separator. */
void stage_start(struct stage *s, const uint8_t *separator);

/* Whether the stage has too little for a group of its own. */
bool stage_small(const struct stage *s);

/* Takes over a group whose rows come in, from copies: its values are removed. */
int stage_take(struct stage *s, const struct group *g);

/* Adds a row; rows `from` to `to` of a block.  -EBADMSG when two blocks meet
 * out of order: what was read did not hold what it should. */
int stage_row(struct stage *s, const struct row *r);
int stage_copy(struct stage *s, const struct block *b, unsigned from,
               unsigned to);

/* Writes what is left as groups and ends the stage. */
int stage_finish(struct stage *s);

#endif
