/* common/board/board_last_read.c - read before update, and only the row read
 * last; see countd_board.h.  The texts are those that users of such boards
 * know. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/board/board_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int
set_error(struct countd_board_last *l, int rc, const char *text)
{
    (void)snprintf(l->text, sizeof l->text, "%s", text);
    return rc;
}

static bool
is_slot(const struct countd_board_last *l, int64_t slot)
{
    return slot >= 0 && slot < (int64_t)l->board->slot_count;
}

int
countd_board_last_read(struct countd_board_last *l, int64_t slot,
                       int64_t *shared, int64_t *values)
{
    int rc;

    l->text[0] = '\0';
    if (!is_slot(l, slot))
        return set_error(l, -EINVAL, "wrong index");
    rc = countd_board_read(l->board, (uint32_t)slot, shared, &l->generation);
    if (rc == 0 && l->board->cells > 0)
        rc = countd_board_read_cell(l->board, (uint32_t)slot, 0, values, NULL);
    if (rc < 0)
        return set_error(l, rc, strerror(-rc));
    l->slot = slot + 1;
    return 0;
}

/* The reason to refuse an update; NULL: none. */
static const char *
find_objection(const struct countd_board_last *l, int64_t slot,
               const struct countd_board_last_change *u)
{
    if (!is_slot(l, slot))
        return "wrong index";
    if (l->slot != slot + 1)
        return "update for only last read index is allowed";
    if (u->shared && u->shared_count != l->board->shared_count)
        return "values size mismatch slot size";
    for (size_t i = 0; i < u->count; i++)
        if (l->board->cells == 0 || u->values[i].index < 0 ||
            u->values[i].index >= (int64_t)l->board->private_count)
            return "wrong private index";
    if (u->count > COUNTD_BOARD_VALUES_MAX)
        return "more private values than there can be";
    return NULL;
}

int
countd_board_last_update(struct countd_board_last *l, int64_t slot,
                         const struct countd_board_last_change *c)
{
    struct countd_board_value list[COUNTD_BOARD_VALUES_MAX];
    struct countd_board_change change = {.values = list, .count = c->count};
    const char *text = find_objection(l, slot, c);
    int rc, failure;

    l->text[0] = '\0';
    if (text)
        return set_error(l, -EINVAL, text);
    for (size_t i = 0; i < c->count; i++)
        list[i] = (struct countd_board_value){(uint32_t)c->values[i].index,
                                              c->values[i].value};
    if (!c->shared && c->count == 0)
        return 0;
    rc = countd_board_update(l->board, (uint32_t)slot, l->generation, c->shared,
                             &change);
    failure = change.result < 0 && rc != -EBUSY ? change.result : rc;
    if (failure == -EBUSY)
        (void)snprintf(l->text, sizeof l->text,
                       "failed to acquire spin lock for row %lld after %u "
                       "attempts",
                       (long long)slot, l->board->tries + 1);
    else if (failure < 0 && failure != -ESTALE)
        (void)set_error(l, failure, strerror(-failure));
    /* Whatever became of the cell: who is told otherwise does it again. */
    if (c->shared && rc == 0)
        return 1;
    return failure == -EBUSY || failure == -ESTALE ? 0 : failure;
}
