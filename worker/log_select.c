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
#include "common/wire/name.h"

enum leaving { STAYS, RELEASED, QUARANTINED };

/* Below this many keyspaces a thread costs more than it saves. */
#define LANES_WORTH 32

static bool
open_lane(struct log_select_lane *a, unsigned max)
{
    a->marks = calloc(max, sizeof *a->marks);
    a->numbers = calloc(max, sizeof *a->numbers);
    a->infos = calloc(max, sizeof *a->infos);
    a->held_states = calloc(max, sizeof *a->held_states);
    a->leaving = calloc(max, sizeof *a->leaving);
    return a->marks && a->numbers && a->infos && a->held_states && a->leaving;
}

int
log_select_open(struct log_select *a, struct store *store, struct held *held,
                unsigned max)
{
    *a = (struct log_select){
        .store = store, .held = held, .lane_count = store_lanes(store)};
    assert(a->lane_count <= PARALLEL_MAX);
    for (unsigned i = 0; i < a->lane_count; i++)
        if (!open_lane(&a->lanes[i], max)) {
            log_select_close(a);
            return -ENOMEM;
        }
    return 0;
}

void
log_select_close(struct log_select *a)
{
    for (unsigned i = 0; i < a->lane_count; i++) {
        struct log_select_lane *l = &a->lanes[i];

        free(l->marks);
        free(l->numbers);
        free(l->infos);
        free(l->held_states);
        free(l->leaving);
    }
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

/* Reads what the keyspace's marks and its held records say about its n logs. */
static int
read_states(const struct log_select *a, struct log_select_lane *l,
            const struct fold_keyspace *k, unsigned n, bool *unknown)
{
    unsigned i;
    int rc = 0;

    for (i = 0; i < n; i++)
        l->held_states[i] = HELD_NONE;
    if (held_any(a->held))
        rc = held_states(a->held, k->name, k->name_size, l->marks, n,
                         l->held_states);
    if (rc < 0)
        return rc;
    *unknown =
        store_marks(a->store, k->name, k->name_size, l->marks, n, l->infos) < 0;
    return 0;
}

/* Whether the keyspace reports the same state for two of its logs; if it cannot
 * be read, no two states are the same. */
static bool
is_same_state(const struct log_select_lane *l, unsigned i, unsigned j,
              bool unknown)
{
    const bool held = l->held_states[i] == HELD_SAME;

    if (held || l->held_states[j] == HELD_SAME)
        return held && l->held_states[j] == HELD_SAME;
    return !unknown && store_marks_agree(&l->infos[i], &l->infos[j]);
}

/* Marks the logs that the keyspace's states exclude from the batch. */
static int
select_for_keyspace(const struct log_select *a, struct log_select_lane *l,
                    struct fold_keyspace *k)
{
    const struct log_batch *b = a->batch;
    const unsigned n = log_select_touching(l, b, k);
    unsigned i, first = n; /* of those that stay */
    bool unknown;
    int rc;

    rc = read_states(a, l, k, n, &unknown);
    if (rc < 0)
        return rc;
    l->unknown = l->unknown || unknown;
    for (i = 0; i < n; i++) {
        const enum store_mark_state state = l->infos[i].state;
        const bool held = l->held_states[i] == HELD_SAME;
        const unsigned number = l->numbers[i];

        if (l->leaving[number] != STAYS)
            continue;
        if (!held && !unknown && state == STORE_MARK_AHEAD) {
            l->leaving[number] = QUARANTINED;
            report_older(b, number, k);
            continue;
        }
        if (!held && !unknown && state == STORE_MARK_OTHER)
            report_other_fill(b, number, k);
        if (first == n) {
            first = i;
            k->state = held ? KEYSPACE_ALREADY_HELD : KEYSPACE_APPLY;
#ifndef COUNTD_MUTANT_PASS_HELD
            if (l->held_states[i] == HELD_OTHER)
                k->state = KEYSPACE_TO_HOLD;
#endif
        } else if (!is_same_state(l, first, i, unknown)) {
            l->leaving[number] = RELEASED;
        }
    }
    return 0;
}

/* Selects for the keyspaces of a lane. */
static void
select_for_lane(void *ctx, unsigned lane)
{
    struct log_select *a = ctx;
    struct log_select_lane *l = &a->lanes[lane];
    struct fold_keyspace *k;

    l->unknown = false;
    l->error = 0;
    memset(l->leaving, STAYS, a->batch->count * sizeof *l->leaving);
    for (k = a->batch->fold.first; l->error == 0 && k; k = k->next)
        if (a->one_lane || k->lane == lane)
            l->error = select_for_keyspace(a, l, k);
}

/* ---- the batch --------------------------------------------------------- */

/* What the lanes say of a log: to set it aside comes before to release it. */
static enum leaving
leaving_of(const struct log_select *a, unsigned lanes, unsigned number)
{
    enum leaving most = STAYS;

    for (unsigned i = 0; i < lanes; i++)
        if (a->lanes[i].leaving[number] > (int8_t)most)
            most = (enum leaving)a->lanes[i].leaving[number];
    return most;
}

/* Removes the excluded logs.  Returns their number; *released: some were
 * released for a later batch. */
static unsigned
remove_leaving(const struct log_select *a, unsigned lanes, bool *released)
{
    struct log_batch *b = a->batch;
    unsigned i, gone = 0;

    for (i = 0; i < b->count; i++) {
        const enum leaving leaving = leaving_of(a, lanes, i);

        if (leaving == STAYS)
            continue;
        gone++;
        if (leaving == QUARANTINED) {
            batch_quarantine(b, i, "it is older than the keyspaces");
        } else {
            batch_release_one(b, i);
            *released = true;
        }
    }
    return gone;
}

/* Selects for all keyspaces.  Returns the number of lanes that did, or an
 * error. */
static int
select_for_all(struct log_select *a)
{
    unsigned lanes = log_select_lanes(a, a->batch->fold.keyspaces);
    struct fold_keyspace *k;
    int rc;

    for (k = a->batch->fold.first; lanes > 1 && k; k = k->next)
        k->lane = (uint8_t)store_lane(a->store, k->name, k->name_size);
    rc = held_refresh(a->held);
    if (rc < 0)
        return rc;
    if (held_any(a->held)) /* its index is one thread's */
        lanes = 1;
    a->one_lane = lanes == 1;
    parallel_run(lanes, select_for_lane, a);
    for (unsigned i = 0; i < lanes; i++)
        if (a->lanes[i].error < 0)
            return a->lanes[i].error;
    return (int)lanes;
}

int
log_select_sort(struct log_select *a, struct log_batch *b)
{
    bool released = false;
    int lanes, rc;

    a->batch = b;
    b->alone = false;
    for (;;) { /* each iteration removes a log */
        lanes = select_for_all(a);
        if (lanes < 0)
            return lanes;
        for (int i = 0; i < lanes; i++)
            b->alone = b->alone || a->lanes[i].unknown;
        if (remove_leaving(a, (unsigned)lanes, &released) == 0)
            return released;
        rc = batch_fold(b);
        if (rc < 0)
            return rc;
    }
}
