/* common/client/cmd/log_apply.c - see cmd_data.h.
 *
 * log_apply_add() collects increments; log_apply_apply() writes them, one
 * keyspace after the other: its mark of the log shows whether it has them.  If
 * another process merges in between, the mark is read again. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"

#define TRIES 3 /* another process may merge in between */

/* ---- adding ------------------------------------------------------------ */

void
log_apply_fini(struct log_apply *s)
{
    free(s->records);
    free(s->bytes);
    *s = (struct log_apply){.count = 0};
}

void
log_apply_begin(struct log_apply *s, const struct store_fill *mark)
{
    s->mark = *mark;
    s->count = s->bytes_size = 0;
}

int
log_apply_add(struct log_apply *s, const struct message *m,
              uint64_t received_ms)
{
    const size_t names = (size_t)m->keyspace_size + m->key_size;
    int rc;

    if (m->increment == 0)
        return 0; /* it changes nothing and makes no key */
    rc =
        array_grow(&s->records, &s->capacity, s->count + 1, sizeof *s->records);
    if (rc == 0)
        rc =
            array_grow(&s->bytes, &s->bytes_capacity, s->bytes_size + names, 1);
    if (rc < 0)
        return rc;
    s->records[s->count++] = (struct log_apply_record){
        .keyspace_at = s->bytes_size,
        .keyspace_size = m->keyspace_size,
        .key_size = m->key_size,
        .minute = (uint32_t)(received_ms / 60000),
        .increment = m->increment,
    };
    memcpy(s->bytes + s->bytes_size, m->keyspace, m->keyspace_size);
    memcpy(s->bytes + s->bytes_size + m->keyspace_size, m->key, m->key_size);
    s->bytes_size += names;
    return 0;
}

/* ---- order ------------------------------------------------------------- */

static int
compare_keyspaces(const struct log_apply *s, const struct log_apply_record *x,
                  const struct log_apply_record *y)
{
    return bytes_compare(s->bytes + x->keyspace_at, x->keyspace_size,
                         s->bytes + y->keyspace_at, y->keyspace_size);
}

static int
compare_keys(const struct log_apply *s, const struct log_apply_record *x,
             const struct log_apply_record *y)
{
    return bytes_compare(
        s->bytes + x->keyspace_at + x->keyspace_size, x->key_size,
        s->bytes + y->keyspace_at + y->keyspace_size, y->key_size);
}

static int
compare_records(const void *a, const void *b, void *ctx)
{
    const struct log_apply_record *x = a;
    const struct log_apply_record *y = b;
    int c = compare_keyspaces(ctx, x, y);

    if (c == 0)
        c = compare_keys(ctx, x, y);
    if (c == 0)
        c = x->minute < y->minute ? -1 : x->minute > y->minute;
    return c;
}

/* ---- a keyspace -------------------------------------------------------- */

struct round {
    struct log_apply *s;
    struct store *store;
    const struct log_apply_how *how;
    struct log_apply_result *result;
    const uint8_t *name;
    size_t name_size;
    size_t from, to; /* its records */
    struct store_delta *deltas;
};

/* The sums of the keyspace; returns how many. */
static size_t
sum_records(struct round *r)
{
    struct log_apply *s = r->s;
    size_t count = 0;

    for (size_t i = r->from; i < r->to;) {
        const struct log_apply_record *first = &s->records[i];
        int128 sum = 0;

        for (; i < r->to && compare_records(first, &s->records[i], s) == 0; i++)
            sum += s->records[i].increment;
        r->deltas[count++] = (struct store_delta){
            .key = s->bytes + first->keyspace_at + first->keyspace_size,
            .key_size = first->key_size,
            .minute = first->minute,
            .sum_high = (int64_t)(sum >> 64),
            .sum_low = (uint64_t)sum,
        };
    }
    return count;
}

struct other {
    const struct store_fill *mark;
    bool later; /* than it is what the keyspace has */
};

static int
see_mark(void *ctx, const struct store_fill *m,
         const struct store_mark_info *info)
{
    struct other *o = ctx;

    (void)info; /* how far it came does not matter */
    if (memcmp(m->uuid, o->mark->uuid, sizeof m->uuid) == 0)
        o->later = m->first_ms > o->mark->first_ms;
    return 0;
}

/* Determines what the keyspace has of the log.  If two fills have
 * the same epoch, the later one has the later first increment. */
static int
read_state(struct round *r, enum store_mark_state *state)
{
    struct store_mark_info info = {.state = STORE_MARK_NONE};
    struct other o = {.mark = &r->s->mark};
    int rc = 0;

    if (r->store != NULL)
        rc =
            store_marks(r->store, r->name, r->name_size, &r->s->mark, 1, &info);
    if (rc == 0 && info.state == STORE_MARK_OTHER) {
        rc = r->how->pass ? store_each_mark(r->store, r->name, r->name_size,
                                            see_mark, &o)
                          : -ERANGE;
        if (o.later)
            info.state = STORE_MARK_AHEAD;
    }
    *state = info.state;
    return rc;
}

/* Puts the records into the keyspace (-ESTALE: ask again), or holds them as one
 * record, within a step. */
static int
put_records(struct round *r, bool hold)
{
    const struct store_batch batch = {
        .name = r->name,
        .name_size = r->name_size,
        .marks = &r->s->mark,
        .mark_count = 1,
        .deltas = r->deltas,
        .delta_count = sum_records(r),
    };
    struct wait_turn turn = {.deadline_ms = clock_ms() + r->how->wait_ms};
    struct store_applied applied;
    int rc;

    if (r->how->dry_run)
        return 0;
    if (hold)
        return held_put(r->how->held, &batch, 0);
    do
        rc = store_apply(r->store, &batch, &applied);
    while (
        wait_turn(&turn, rc, r->how->holder ? r->how->holder(r->how->ctx) : 0));
    return rc;
}

/* Applies or holds what is not in yet; records that are merged already, or
 * superseded by a later fill, are only counted.  A keyspace whose marks cannot
 * be read refuses: a fill that is in must not be held behind later ones,
 * because it could then be neither applied nor taken for applied. */
static int
apply_or_hold(struct round *r, bool hold)
{
    const uint64_t count = r->to - r->from;
    enum store_mark_state state;
    int rc;

    rc = read_state(r, &state);
    if (rc < 0)
        return rc;
    switch (state) {
    case STORE_MARK_DONE:
        r->result->already += count;
        return 0;
    case STORE_MARK_AHEAD:
        r->result->passed += r->how->pass ? count : 0;
        return r->how->pass ? 0 : -ERANGE;
    default:
        rc = put_records(r, hold);
        *(hold ? &r->result->held : &r->result->merged) += rc == 0 ? count : 0;
        return rc;
    }
}

/* ---- behind what is held ------------------------------------------------ */

/* Asks what is held for the keyspace, of this log or of others. */
static int
read_held(struct round *r, enum held_state *state)
{
    return held_states(r->how->held, r->name, r->name_size, &r->s->mark, 1,
                       state);
}

/* Applies a fill that comes before what is held of its log, as after an older
 * keyspace was put back: held behind later ones it could be neither applied nor
 * taken for applied.  The lock keeps workers from applying the later ones
 * meanwhile.  *applied: it is such a fill. */
static int
apply_earlier(struct round *r, bool *applied)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + r->how->wait_ms};
    struct held *h = r->how->held;
    int rc = 0;

    if (!r->how->dry_run)
        do
            rc = held_lock(h, r->name, r->name_size);
        while (wait_turn(&turn, rc, 0));
    if (rc < 0)
        return rc == -ENOENT ? -ESTALE : rc; /* all of it was applied */
    rc = unmerged_snapshot_begin(h);
    *applied =
        rc == 0 && held_is_earlier(h, r->name, r->name_size, &r->s->mark);
    if (*applied)
        rc = apply_or_hold(r, false);
    if (!r->how->dry_run)
        held_unlock(h);
    return rc;
}

/* Holds the records behind those that are held for the keyspace, unless this
 * very fill is held already. */
static int
hold_records(struct round *r, enum held_state state)
{
    if (state != HELD_SAME)
        return apply_or_hold(r, true);
    r->result->held += r->to - r->from;
    r->result->held_before += r->to - r->from;
    return 0;
}

/* Under the lock that holding and deleting take, the command asks again what is
 * held, and then the mark, so that a fill that another process has held or
 * applied meanwhile is not held once more behind later ones. */
static int
hold_keyspace(struct round *r, enum held_state state)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + r->how->wait_ms};
    struct held *h = r->how->held;
    int rc;

    if (r->how->dry_run)
        return hold_records(r, state);
    do
        rc = held_begin(h);
    while (wait_turn(&turn, rc, held_holder(h)));
    if (rc < 0)
        return rc;
    rc = read_held(r, &state);
    if (rc == 0 && state == HELD_NONE)
        rc = -ESTALE; /* all of it was applied meanwhile: begin again */
    if (rc == 0)
        rc = hold_records(r, state);
    if (rc == 0)
        return held_commit(h);
    held_abort(h);
    return rc;
}

/* ---- a keyspace, held or not -------------------------------------------- */

/* All of a keyspace's records; begins again when another process merged
 * meanwhile, as the mark says then what is in. */
static int
apply_keyspace(struct round *r)
{
    const struct log_apply_result before = *r->result;
    enum held_state state = HELD_NONE;
    int rc, tries = TRIES;

    do {
        bool applied = false;

        *r->result = before;
        rc = r->how->held != NULL ? unmerged_snapshot_begin(r->how->held) : 0;
        if (rc == 0 && r->how->held != NULL)
            rc = read_held(r, &state);
#ifdef COUNTD_MUTANT_COMMANDS_PASS_HELD
        state = HELD_NONE;
#endif
        if (rc == 0)
            rc = state == HELD_NONE ? apply_or_hold(r, false)
                                    : apply_earlier(r, &applied);
        if (rc == 0 && state != HELD_NONE && !applied)
            rc = hold_keyspace(r, state);
    } while (rc == -ESTALE && --tries > 0);
    return rc;
}

/* ---- all of them ------------------------------------------------------- */

int
log_apply_apply(struct log_apply *s, struct store *store,
                const struct log_apply_how *how,
                struct log_apply_result *result)
{
    struct round r = {
        .s = s, .store = store, .how = how, .result = result, .to = 0};
    int rc = 0;

    if (s->count == 0)
        return 0;
    r.deltas = malloc(s->count * sizeof *r.deltas);
    if (r.deltas == NULL)
        return -ENOMEM;
    qsort_r(s->records, s->count, sizeof *s->records, compare_records, s);
    for (r.from = 0; rc == 0 && r.from < s->count; r.from = r.to) {
        const struct log_apply_record *first = &s->records[r.from];

        for (r.to = r.from + 1;
             r.to < s->count &&
             compare_keyspaces(s, first, &s->records[r.to]) == 0;)
            r.to++;
        r.name = s->bytes + first->keyspace_at;
        r.name_size = first->keyspace_size;
        rc = apply_keyspace(&r);
        if (rc == 0)
            continue;
        result->failed++;
        how->refused(how->ctx, r.name, r.name_size, rc);
        rc = how->go_on ? 0 : rc;
    }
    free(r.deltas);
    return rc;
}
