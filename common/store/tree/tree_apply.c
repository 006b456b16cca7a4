/* common/store/tree/tree_apply.c - changes to a tree: one sweep over the groups
 * they touch.
 *
 * Edits are sorted, so the sweep goes through the directory from left to right
 * once (level.c).  A run of edits is given to its group (update.c), and the
 * result is appended to the directory: the same group with a new buffer, or new
 * groups that were packed in the stage (stage.c).  When anything fails the
 * transaction is dropped, so nothing here undoes anything.  tree.h says what a
 * group, a block and a row are.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/store/tree/level.h"
#include "common/store/tree/stage.h"
#include "common/store/tree/tree.h"
#include "common/store/tree/update.h"

/* The memory of a change. */
struct tree_work {
    struct levels levels;
    struct stage stage;
    struct update update;
};

struct tree_work *
tree_work_new(void)
{
    return malloc(sizeof(struct tree_work));
}

void
tree_work_free(struct tree_work *w)
{
    free(w);
}

/* How many of the edits lie before `end` (NULL: all). */
static size_t
edits_before(enum block_order kind, const struct row *edits, size_t count,
             const struct row *end)
{
    size_t n = 0;

    if (end == NULL)
        return count;
    while (n < count && row_compare(kind, &edits[n], end) < 0)
        n++;
    return n;
}

/* Gives the group at hand its edits, and goes on with its right neighbours
 * while the result is too small for a group.  *used is how many edits were
 * used. */
static int
sweep_groups(struct tree_work *w, const struct row *edits, size_t count,
             size_t *used)
{
    struct level_group g;
    bool any = false;

    *used = 0;
    while ((!any || stage_small(&w->stage)) && levels_take(&w->levels, &g)) {
        const size_t n =
            edits_before(w->levels.tree->kind, edits + *used, count - *used,
                         g.has_upper ? &g.upper : NULL);
        const int rc = update_group(&w->update, &g, edits + *used, n);

        if (rc < 0)
            return rc;
        *used += n;
        any = true;
    }

    /* No edit used: the directory and its group disagree, which is damage. */
    if (*used == 0)
        return -EBADMSG;
    return w->stage.active ? stage_finish(&w->stage) : 0;
}

/* A tree without any group yet. */
static int
sweep_empty(struct tree_work *w, const struct row *edits, size_t count)
{
    int rc;

    stage_start(&w->stage, w->levels.lowest, sizeof w->levels.lowest);
    rc = update_empty(&w->update, edits, count);
    return rc < 0 ? rc : stage_finish(&w->stage);
}

int
tree_apply(struct tree *t, const struct row *edits, size_t count)
{
    struct tree_work *w = t->work;
    uint64_t rows = t->root.count;
    size_t at = 0;
    int rc;

    assert(w != NULL);
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const unsigned sign = edits[i].flags & BLOCK_SIGN;

        assert(sign != 0);
        rows += sign == BLOCK_INSERT ? 1u : 0u;
        rows -= sign == BLOCK_DELETE ? 1u : 0u;
    }
    stage_init(&w->stage, t, &w->levels);
    update_init(&w->update, t, &w->levels, &w->stage);
    rc = levels_start(&w->levels, t);
    if (rc == 0 && t->root.id == 0) {
        rc = sweep_empty(w, edits, count);
        at = count;
    }
    while (rc == 0 && at < count) {
        size_t used;

        rc = levels_seek(&w->levels, &edits[at]);
        if (rc == 0)
            rc = sweep_groups(w, &edits[at], count - at, &used);
        if (rc == 0)
            at += used;
    }
    if (rc == 0)
        rc = levels_finish(&w->levels);
    if (rc == 0)
        t->root.count = rows;
    return rc;
}
