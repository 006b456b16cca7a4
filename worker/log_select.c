/* worker/log_select.c - see log_select.h: log_select_touching(),
 * log_select_sort(). */
#include "worker/log_select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/wire/name.h"

enum leaving { STAYS, RELEASED, QUARANTINED };

int
log_select_open(struct log_select *a, struct store *store, struct held *held,
                unsigned max)
{
    *a = (struct log_select){.store = store, .held = held};
    a->marks = calloc(max, sizeof *a->marks);
    a->numbers = calloc(max, sizeof *a->numbers);
    a->infos = calloc(max, sizeof *a->infos);
    a->held_states = calloc(max, sizeof *a->held_states);
    a->leaving = calloc(max, sizeof *a->leaving);
    if (a->marks && a->numbers && a->infos && a->held_states && a->leaving)
        return 0;
    log_select_close(a);
    return -ENOMEM;
}

void
log_select_close(struct log_select *a)
{
    free(a->marks);
    free(a->numbers);
    free(a->infos);
    free(a->held_states);
    free(a->leaving);
    *a = (struct log_select){0};
}

unsigned
log_select_touching(struct log_select *a, const struct log_batch *b,
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
read_states(struct log_select *a, const struct fold_keyspace *k, unsigned n,
            bool *unknown)
{
    unsigned i;
    int rc = 0;

    for (i = 0; i < n; i++)
        a->held_states[i] = HELD_NONE;
    if (held_any(a->held))
        rc = held_states(a->held, k->name, k->name_size, a->marks, n,
                         a->held_states);
    if (rc < 0)
        return rc;
    *unknown =
        store_marks(a->store, k->name, k->name_size, a->marks, n, a->infos) < 0;
    return 0;
}

/* Whether the keyspace reports the same state for two of its logs; if it cannot
 * be read, no two states are the same. */
static bool
is_same_state(const struct log_select *a, unsigned i, unsigned j, bool unknown)
{
    const bool held = a->held_states[i] == HELD_SAME;

    if (held || a->held_states[j] == HELD_SAME)
        return held && a->held_states[j] == HELD_SAME;
    return !unknown && store_marks_agree(&a->infos[i], &a->infos[j]);
}

/* Marks the logs that the keyspace's states exclude from the batch. */
static int
select_for_keyspace(struct log_select *a, const struct log_batch *b,
                    struct fold_keyspace *k)
{
    const unsigned n = log_select_touching(a, b, k);
    unsigned i, first = n; /* of those that stay */
    bool unknown;
    int rc;

    rc = read_states(a, k, n, &unknown);
    if (rc < 0)
        return rc;
    a->unknown = a->unknown || unknown;
    for (i = 0; i < n; i++) {
        const enum store_mark_state state = a->infos[i].state;
        const bool held = a->held_states[i] == HELD_SAME;
        const unsigned number = a->numbers[i];

        if (a->leaving[number] != STAYS)
            continue;
        if (!held && !unknown && state == STORE_MARK_AHEAD) {
            a->leaving[number] = QUARANTINED;
            report_older(b, number, k);
            continue;
        }
        if (!held && !unknown && state == STORE_MARK_OTHER)
            report_other_fill(b, number, k);
        if (first == n) {
            first = i;
            k->state = held ? KEYSPACE_ALREADY_HELD : KEYSPACE_APPLY;
#ifndef COUNTD_MUTANT_PASS_HELD
            if (a->held_states[i] == HELD_OTHER)
                k->state = KEYSPACE_TO_HOLD;
#endif
        } else if (!is_same_state(a, first, i, unknown)) {
            a->leaving[number] = RELEASED;
        }
    }
    return 0;
}

/* ---- the batch --------------------------------------------------------- */

/* Removes the excluded logs.  Returns their number; *given_back: some were
 * released for a later batch. */
static unsigned
remove_leaving(struct log_select *a, struct log_batch *b, bool *given_back)
{
    unsigned i, gone = 0;

    for (i = 0; i < b->count; i++) {
        if (a->leaving[i] == STAYS)
            continue;
        gone++;
        if (a->leaving[i] == QUARANTINED) {
            batch_quarantine(b, i, "it is older than the keyspaces");
        } else {
            batch_release_one(b, i);
            *given_back = true;
        }
    }
    return gone;
}

static int
select_for_all(struct log_select *a, struct log_batch *b)
{
    struct fold_keyspace *k;
    int rc;

    rc = held_snapshot_begin(a->held);
    if (rc < 0)
        return rc;
    memset(a->leaving, STAYS, b->count * sizeof *a->leaving);
    for (k = b->fold.first; rc == 0 && k; k = k->next)
        rc = select_for_keyspace(a, b, k);
    held_snapshot_end(a->held);
    return rc;
}

int
log_select_sort(struct log_select *a, struct log_batch *b)
{
    bool given_back = false;
    int rc;

    a->unknown = false;
    for (;;) { /* each iteration removes a log */
        rc = select_for_all(a, b);
        if (rc < 0)
            return rc;
        b->alone = a->unknown;
        if (remove_leaving(a, b, &given_back) == 0)
            return given_back;
        rc = batch_fold(b);
        if (rc < 0)
            return rc;
    }
}
