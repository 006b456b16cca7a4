/* worker/log_select.c - see log_select.h: log_select_touching(),
 * log_select_sort(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/log_select.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/store/waiting_table.h"
#include "common/wire/name.h"

enum { STAYS, RELEASED, QUARANTINED };

/* Below this many keyspaces a thread costs more than it saves. */
#define LANES_WORTH 32

static bool
open_lane(struct log_select_lane *a, unsigned max)
{
    a->marks = calloc(max, sizeof *a->marks);
    a->numbers = calloc(max, sizeof *a->numbers);
    a->infos = calloc(max, sizeof *a->infos);
    a->behind = calloc(max, sizeof *a->behind);
    return a->marks && a->numbers && a->infos && a->behind;
}

int
log_select_open(struct log_select *a, struct store *store,
                struct waiting *waiting, unsigned max)
{
    bool opened;

    *a = (struct log_select){.store = store,
                             .waiting = waiting,
                             .leaving = calloc(max, sizeof *a->leaving),
                             .lane_count = store_lanes(store)};
    assert(a->lane_count <= PARALLEL_MAX);
    opened = a->leaving != NULL;
    for (unsigned i = 0; opened && i < a->lane_count; i++)
        opened = open_lane(&a->lanes[i], max);
    if (!opened)
        log_select_close(a);
    return opened ? 0 : -ENOMEM;
}

void
log_select_close(struct log_select *a)
{
    for (unsigned i = 0; i < a->lane_count; i++) {
        struct log_select_lane *l = &a->lanes[i];

        free(l->marks);
        free(l->numbers);
        free(l->infos);
        free(l->behind);
    }
    free(a->leaving);
    *a = (struct log_select){0};
}

unsigned
log_select_touching(struct log_select_lane *a, const struct log_batch *b,
                    const struct fold_keyspace *k)
{
    unsigned i, n = 0;

    for (i = 0; i < b->count; i++) {
        if (!fold_bit(k->touched, i))
            continue;
        a->marks[n] = b->logs[i].mark;
        a->numbers[n] = i;
        n++;
    }
    return n;
}

unsigned
log_select_lanes(const struct log_select *a, size_t keyspaces)
{
    return keyspaces < LANES_WORTH ? 1 : a->lane_count;
}

/* ---- reports about one log --------------------------------------------- */

static void
report_older(const struct log_batch *b, unsigned number,
             const struct fold_keyspace *where)
{
    char text[NAME_TEXT_SIZE];

    (void)name_escape(where->name, where->name_size, text);
    diag(DIAG_ERROR,
         "log=%" PRIu64 ": keyspace=%s holds a later epoch of it: the "
         "directory was restored from a backup",
         b->logs[number].log.header.index, text);
}

/* Reports a fill that is not the one merged under its epoch.  Nothing is lost,
 * but it shows that the directory was copied while it was in use. */
static void
report_other_fill(const struct log_batch *b, unsigned number,
                  const struct fold_keyspace *where)
{
    static struct diag_repeat repeat;
    char text[NAME_TEXT_SIZE];

    (void)name_escape(where->name, where->name_size, text);
    diag_repeating(&repeat, DIAG_WARNING,
                   "log=%" PRIu64 ": keyspace=%s has merged another fill of "
                   "this epoch: the directory was put together from copies of "
                   "different times; what is new is merged",
                   b->logs[number].log.header.index, text);
}

/* ---- one keyspace ------------------------------------------------------ */

/* Whether an earlier fill of a log waits for a keyspace that has not got it. */
static int
find_behind(const struct log_select *a, const struct fold_keyspace *k,
            uint32_t name, const struct log_fill *mark, bool *behind)
{
    const struct log_fill *earlier = waiting_earlier(a->waiting, name, mark);
    const int rc =
        earlier ? waiting_is_in(a->store, k->name, k->name_size, earlier) : 1;

    *behind = rc == 0;
    return rc < 0 ? rc : 0;
}

/* Reads what the marks of the keyspace, which is `name` in log/waiting/, and what
 * waits there say about its n logs. */
static int
read_states(const struct log_select *a, struct log_select_lane *l,
            const struct fold_keyspace *k, uint32_t name, unsigned n)
{
    const struct store_batch batch = {.name = k->name,
                                      .name_size = k->name_size,
                                      .marks = l->marks,
                                      .mark_count = n};
    int rc = store_marks(a->store, &batch, l->infos);

    memset(l->behind, 0, n * sizeof *l->behind);
    for (unsigned i = 0; rc == 0 && name != WAITING_NONE && i < n; i++)
        rc = find_behind(a, k, name, &l->marks[i], &l->behind[i]);
    return rc;
}

/* Whether the keyspace has a fill; of a log, a later one says that it is old. */
static bool
is_in(const struct log_select_lane *l, unsigned i, bool waiting)
{
    const enum store_mark_state state = l->infos[i].state;

    return state == STORE_MARK_DONE || (waiting && state == STORE_MARK_AHEAD);
}

/* Whether the keyspace reports the same state for two of its logs. */
static bool
is_same_state(const struct log_select_lane *l, unsigned i, unsigned j,
              bool waiting)
{
    if (l->behind[i] || l->behind[j])
        return l->behind[i] && l->behind[j];
    return (is_in(l, i, waiting) && is_in(l, j, waiting)) ||
           store_marks_agree(&l->infos[i], &l->infos[j]);
}

/* Nothing can be said of the keyspace's logs: none of them goes in. */
static void
refuse_keyspace(const struct log_select *a, struct fold_keyspace *k, int rc)
{
    const enum keyspace_state state = log_select_state_after(a->store, rc);

    k->error = rc;
    k->state = state == KEYSPACE_REFUSED ? KEYSPACE_REFUSED : KEYSPACE_FAILED;
}

/* Marks the logs that the keyspace's states exclude from the batch. */
static void
select_for_keyspace(struct log_select *a, struct log_select_lane *l,
                    struct fold_keyspace *k)
{
    const struct log_batch *b = a->batch;
    const bool waiting = batch_is_waiting(b);
    const uint32_t name = waiting_find(a->waiting, k->name, k->name_size);
    const unsigned n = log_select_touching(l, b, k);
    unsigned i, first = n; /* of those that stay */
    int rc;

    if (waiting && name != WAITING_NONE &&
        a->waiting->names.entries[name].note == a->pass) {
        k->state = KEYSPACE_REFUSED; /* it has, in this pass over what waits */
        return;
    }
    rc = read_states(a, l, k, name, n);
    if (rc < 0) {
        refuse_keyspace(a, k, rc);
        return;
    }
    for (i = 0; i < n; i++) {
        const enum store_mark_state state = l->infos[i].state;
        const unsigned number = l->numbers[i];

        if (a->leaving[number] != STAYS)
            continue;
        if (!waiting && state == STORE_MARK_AHEAD) {
            a->leaving[number] = QUARANTINED;
            report_older(b, number, k);
            continue;
        }
        if (!waiting && state == STORE_MARK_OTHER)
            report_other_fill(b, number, k);
        if (first == n) {
            first = i;
            k->state = l->behind[i] ? KEYSPACE_REFUSED : KEYSPACE_APPLY;
            k->is_in = waiting && !l->behind[i] && is_in(l, i, waiting);
        } else if (!is_same_state(l, first, i, waiting)) {
            a->leaving[number] = RELEASED;
        }
    }
}

/* Selects for the keyspaces of a lane. */
static void
select_for_lane(void *ctx, unsigned lane)
{
    struct log_select *a = ctx;
    struct log_select_lane *l = &a->lanes[lane];
    struct fold_keyspace *k;

    for (k = a->batch->fold.first; k; k = k->next)
        if (a->lanes_used == 1 || k->lane == lane)
            select_for_keyspace(a, l, k);
}

/* ---- the batch --------------------------------------------------------- */

/* Removes the excluded logs.  Returns their number; *released: some were
 * released for a later batch. */
static unsigned
remove_leaving(const struct log_select *a, bool *released)
{
    struct log_batch *b = a->batch;
    unsigned i, gone = 0;

    for (i = 0; i < b->count; i++) {
        if (a->leaving[i] == STAYS)
            continue;
        gone++;
        if (a->leaving[i] == QUARANTINED) {
            batch_quarantine(b, &b->logs[i], "it is older than the keyspaces");
        } else {
            batch_release(b, &b->logs[i]);
            *released = true;
        }
    }
    return gone;
}

static void
select_for_all(struct log_select *a)
{
    struct fold_keyspace *k;

    for (unsigned i = 0; i < a->batch->count; i++)
        a->leaving[i] = STAYS;
    a->lanes_used = log_select_lanes(a, a->batch->fold.keyspaces);
    for (k = a->batch->fold.first; a->lanes_used > 1 && k; k = k->next)
        k->lane = (uint8_t)store_lane(a->store, k->name, k->name_size);
    parallel_run(a->lanes_used, select_for_lane, a);
}

int
log_select_sort(struct log_select *a, struct log_batch *b)
{
    bool released = false;
    int rc = 0;

    a->batch = b;
    if (!batch_is_waiting(b))
        rc = waiting_list(a->waiting);
    while (rc == 0) { /* each iteration removes a log */
        select_for_all(a);
        if (remove_leaving(a, &released) == 0)
            return released;
        rc = batch_fold(b);
    }
    return rc;
}
