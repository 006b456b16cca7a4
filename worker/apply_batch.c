/* worker/apply_batch.c - see apply_batch.h: apply_batch_stopped(),
 * apply_batch_begin(), apply_batch_slice(), apply_batch_end(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/apply_batch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/name.h"
#include "worker/fold_memory.h"
#include "worker/set_aside.h"

/* ms; waits between tries while another process writes, and how often to report
 * it */
#define PATIENT_FIRST_MS 1
#define PATIENT_MOST_MS  32
#define PATIENT_SAY_MS   1000
#define PATIENT_REMOTE   5 /* tries; each waits for a while in the server */

bool
apply_batch_stopped(const struct merge *m)
{
    return m->stop && m->stop(m->stop_ctx);
}

/* ---- waiting for another process --------------------------------------- */

struct patience {
    uint64_t since_ms, reported_ms; /* by clock_ms() */
    long wait_ms;                   /* the next time */
};

/* Waits for the process that is writing to a keyspace, longer each time, and
 * reports it once a second at most; one that is not known, as a session of a
 * database, which may stay for hours, once a minute. */
static void
wait_for(struct patience *p, const struct fold_keyspace *k, long holder)
{
    static struct diag_repeat unknown;
    const struct timespec t = {.tv_nsec = p->wait_ms * 1000000};
    const uint64_t now = clock_ms();
    char text[NAME_TEXT_SIZE];

    if (now - p->reported_ms >= PATIENT_SAY_MS) {
        p->reported_ms = now;
        (void)name_escape(k->name, k->name_size, text);
        if (holder > 0)
            diag(DIAG_WARNING,
                 "keyspace=%s: waiting for pid=%ld, which is writing to it; "
                 "seconds=%" PRIu64,
                 text, holder, (now - p->since_ms) / 1000);
        else
            diag_repeating(&unknown, DIAG_WARNING,
                           "keyspace=%s: waiting for another process, which is "
                           "writing to it",
                           text);
    }
    (void)nanosleep(&t, NULL); /* a signal may end it early */
    p->wait_ms =
        p->wait_ms < PATIENT_MOST_MS ? 2 * p->wait_ms : PATIENT_MOST_MS;
}

/* ---- applying ---------------------------------------------------------- */

/* Whether the slice has lasted long enough; it then ends before the next
 * keyspace. */
static bool
is_slice_over(const struct merge *m)
{
    return clock_ns() >= m->slice_end_ns;
}

/* Whether the machine prevents it, or the server of a remote engine, not the
 * keyspace. */
static bool
is_machine_error(const struct store *s, int rc)
{
    return rc == -ENOSPC || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ||
           rc == -EROFS || rc == -EHOSTDOWN ||
           (!store_is_local(s) && (rc == -EIO || rc == -EPERM));
}

/* An error that is not named here sets the records aside: one that should wait
 * with its logs full has to be added. */
enum keyspace_state
log_select_state_after(const struct store *s, int rc)
{
    if (rc == 0)
        return KEYSPACE_APPLIED;
    if (rc == -EAGAIN)
        return KEYSPACE_BUSY;
    if (rc == -ESTALE || rc == -EOVERFLOW || is_machine_error(s, rc))
        return KEYSPACE_FAILED;
    return KEYSPACE_REFUSED;
}

/* Reports why a keyspace did not take its records.  A limit is called by the
 * name of its setting. */
static void
report_failure(const struct merge *m, const struct fold_keyspace *k,
               bool at_keyspace_max)
{
    static struct diag_repeat holds, waits;
    char text[NAME_TEXT_SIZE];

    (void)name_escape(k->name, k->name_size, text);
    if (k->state == KEYSPACE_FAILED)
        diag_repeating(&waits, DIAG_ERROR,
                       "keyspace=%s: %s; its logs stay full, trying again",
                       text,
                       k->error == -EAGAIN && !store_is_local(m->store)
                           ? "a session of the database has locked it"
                           : diag_text(k->error));
    else if (k->error == -EDQUOT)
        diag_repeating(&holds, DIAG_ERROR,
                       "keyspace=%s cannot take its records, they wait: "
                       "%s=%" PRIu64 " would be passed",
                       text,
                       at_keyspace_max ? "keyspace.max" : "keyspace.max_keys",
                       at_keyspace_max ? m->keyspace_max : m->keys_max);
    else if (k->state == KEYSPACE_REFUSED && k->error < 0)
        diag_repeating(&holds, DIAG_ERROR,
                       "keyspace=%s cannot take its records, they wait: "
                       "%s",
                       text, diag_text(k->error));
}

/* A keyspace with more entries is applied by the merge's own thread, which has
 * all the memory for it. */
#define LANE_ENTRIES 128

/* A thread that applies keyspaces, and what it adds up. */
struct applier {
    struct merge *merge;
    struct log_select_lane *select;
    void *scratch; /* for LANE_ENTRIES deltas; NULL: the fold's, for any */
    struct merge_stats stats;
    bool waiting;
};

/* The store batch of a keyspace; its deltas live until the next call. */
static struct store_batch
batch_of(const struct applier *a, const struct fold_keyspace *k)
{
    struct log_batch *b = a->merge->current;
    struct store_batch out = {.name = k->name, .name_size = k->name_size};
    struct store_delta *deltas;

    if (k->is_in)
        return out; /* what has it is made durable */
    out.mark_count = log_select_touching(a->select, b, k);
    out.marks = a->select->marks;
    out.delta_count = fold_deltas(&b->fold, k, a->scratch, &deltas);
    out.deltas = deltas;
    return out;
}

/* Applies a keyspace's records; returns the pid of the process that is writing
 * to it. */
static long
apply_to_keyspace(struct applier *a, struct fold_keyspace *k)
{
    const struct store_batch b = batch_of(a, k);
    struct store_applied applied = {0};

    k->error = store_apply(a->merge->store, &b, &applied);
    k->state = (int8_t)log_select_state_after(a->merge->store, k->error);
    a->stats.keys += applied.keys;
    a->stats.created += applied.created;
    a->stats.saturated += applied.saturated;
    a->stats.keyspaces += k->state == KEYSPACE_APPLIED;
    a->waiting = a->waiting || is_machine_error(a->merge->store, k->error);
    report_failure(a->merge, k, applied.at_keyspace_max);
    return applied.holder;
}

static void
add_up(struct merge *m, const struct applier *a)
{
    m->stats.keys += a->stats.keys;
    m->stats.created += a->stats.created;
    m->stats.saturated += a->stats.saturated;
    m->stats.keyspaces += a->stats.keyspaces;
    m->waiting = m->waiting || a->waiting;
}

/* What lanes work on. */
struct lane_work {
    struct applier appliers[PARALLEL_MAX];
    unsigned lanes;       /* 1: lane 0 has all keyspaces */
    uint32_t entries;     /* a keyspace needs more than these */
    _Atomic bool stopped; /* lane 0, the caller's thread, shall stop */
    _Atomic bool paused;  /* keyspaces may be left for the next slice */
};

static void
apply_lane(void *ctx, unsigned lane)
{
    struct lane_work *w = ctx;
    struct applier *a = &w->appliers[lane];
    struct fold_keyspace *k = a->merge->current->fold.first;

    for (; k; k = k->next) {
        /* The state of another lane's keyspace may change meanwhile. */
        if ((w->lanes > 1 && k->lane != lane) || k->state != KEYSPACE_APPLY ||
            k->entry_count <= w->entries)
            continue;
        if (lane == 0 && apply_batch_stopped(a->merge))
            w->stopped = true;
        if (w->stopped)
            return;
        (void)apply_to_keyspace(a, k);
        if (is_slice_over(a->merge)) {
            w->paused = true;
            return;
        }
    }
}

/* Applies to every keyspace in state KEYSPACE_APPLY that has more than
 * `entries` entries; by several lanes at once if none has many.  Returns
 * whether the slice ended. */
static bool
apply_by_lanes(struct merge *m, unsigned lanes, uint32_t entries)
{
    struct lane_work w = {.lanes = lanes, .entries = entries};
    uint8_t(*scratch)[LANE_ENTRIES * FOLD_SCRATCH_SIZE] =
        lanes > 1 ? malloc(lanes * sizeof *scratch) : NULL;

    if (lanes > 1 && !scratch)
        return false; /* one lane does it, with the fold's memory */
    for (unsigned i = 0; i < lanes; i++)
        w.appliers[i] =
            (struct applier){.merge = m,
                             .select = &m->select.lanes[i],
                             .scratch = scratch ? scratch[i] : NULL};
    parallel_run(lanes, apply_lane, &w);
    for (unsigned i = 0; i < lanes; i++)
        add_up(m, &w.appliers[i]);
    free(scratch);
    return w.paused;
}

/* Tries the keyspaces that other processes were writing to once more.  Returns
 * how many are still being written to; *behind and *holder are one of them. */
static size_t
apply_busy(struct merge *m, struct fold_keyspace **behind, long *holder)
{
    struct applier a = {.merge = m, .select = &m->select.lanes[0]};
    struct fold_keyspace *k;
    size_t left = 0;

    for (k = m->current->fold.first; k; k = k->next) {
        long pid;

        if (k->state != KEYSPACE_BUSY)
            continue;
        if (apply_batch_stopped(m))
            break;
        pid = apply_to_keyspace(&a, k);
        if (k->state != KEYSPACE_BUSY)
            continue;
        left++;
        *behind = k;
        *holder = pid;
    }
    add_up(m, &a);
    return left;
}

/* Applies to keyspaces in state KEYSPACE_APPLY.  Returns whether the slice
 * ended. */
static bool
apply_some(struct merge *m)
{
    const unsigned lanes =
        log_select_lanes(&m->select, m->current->fold.keyspaces);

    if (lanes > 1 &&
        (apply_by_lanes(m, 1, LANE_ENTRIES) || apply_by_lanes(m, lanes, 0)))
        return true;
    return apply_by_lanes(m, 1, 0);
}

/* Waits for the processes that are writing to keyspaces.  If the worker must
 * stop, the keyspaces that remain are left as they are; so are those that a
 * session of a database has locked, maybe for hours: the other ones go on. */
static void
apply_rest(struct merge *m)
{
    const uint64_t now = clock_ms();
    struct patience p = {now, now, PATIENT_FIRST_MS};
    struct fold_keyspace *k, *behind = NULL;
    long holder = 0;

    for (int tries = 1; apply_busy(m, &behind, &holder) > 0; tries++) {
        if (apply_batch_stopped(m) ||
            (tries == PATIENT_REMOTE && !store_is_local(m->store)))
            break;
        wait_for(&p, behind, holder);
    }
    for (k = m->current->fold.first; k; k = k->next) {
        if (k->state != KEYSPACE_APPLY && k->state != KEYSPACE_BUSY)
            continue;
        k->state = KEYSPACE_FAILED;
        if (!apply_batch_stopped(m))
            report_failure(m, k, false);
    }
}

/* ---- the end ------------------------------------------------------------- */

/* Marks the logs with records for keyspaces in this state: they stay full. */
static void
mark_not_whole(struct merge *m, enum keyspace_state state)
{
    const struct fold_keyspace *k;

    for (k = m->current->fold.first; k; k = k->next) {
        if (k->state != (int8_t)state)
            continue;
        for (unsigned i = 0; i < m->current->count; i++)
            if (fold_bit(k->touched, i))
                m->current->logs[i].whole = false;
    }
}

static void
report_not_aside(struct merge *m, int error)
{
    static struct diag_repeat repeat;

    if (error == -ECANCELED)
        return; /* the worker must stop */
    m->waiting = true;
    diag_repeating(&repeat, DIAG_ERROR,
                   "set records aside: %s; their logs stay full, trying again",
                   error == -EDQUOT ? "held.max would be passed"
                                    : diag_text(error));
}

void
apply_batch_begin(struct merge *m)
{
    struct fold_keyspace *k;

    for (unsigned i = 0; i < m->current->count; i++)
        m->current->logs[i].whole = true;
    fold_sort_keyspaces(&m->current->fold);
    for (k = m->current->fold.first; k; k = k->next) {
        if (k->state == KEYSPACE_APPLY)
            continue;
        m->waiting = m->waiting || is_machine_error(m->store, k->error);
        report_failure(m, k, false);
    }
}

bool
apply_batch_slice(struct merge *m)
{
    m->slice_end_ns = clock_ns() + m->slice_ns;
    return apply_some(m) && !apply_batch_stopped(m);
}

/* The outcome is noted first; else all is tried again, and found applied by its
 * marks. */
static void
settle_store(struct merge *m)
{
    static struct diag_repeat repeat;
    const int rc = store_settle(m->store);

    if (rc == 0)
        return;
    m->waiting = true;
    diag_repeating(&repeat, DIAG_ERROR,
                   "note what was merged: %s; logs stay full, trying again",
                   diag_text(rc));
    for (struct fold_keyspace *k = m->current->fold.first; k; k = k->next)
        if (k->state == KEYSPACE_APPLIED)
            k->state = KEYSPACE_FAILED;
}

void
apply_batch_end(struct merge *m)
{
    int rc;

    apply_rest(m);
    settle_store(m);
    mark_not_whole(m, KEYSPACE_FAILED);
    if (batch_is_waiting(m->current))
        return; /* what is not in stays where it is */
    rc = set_aside(m);
    if (rc == 0)
        return;
    report_not_aside(m, rc);
    mark_not_whole(m, KEYSPACE_REFUSED);
}
