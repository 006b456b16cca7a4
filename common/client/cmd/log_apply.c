/* common/client/cmd/log_apply.c - see cmd_data.h.
 *
 * log_apply_add() collects increments; log_apply_apply() writes them.  The
 * marks of a keyspace show which of the logs it contains.  Logs whose marks
 * agree are applied together, one group after the other; if another process
 * merges in between, the marks of the group are read again. */
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
    free(s->marks);
    free(s->records);
    free(s->bytes);
    *s = (struct log_apply){.count = 0};
}

void
log_apply_clear(struct log_apply *s)
{
    s->log_count = s->count = s->bytes_size = 0;
}

int
log_apply_log(struct log_apply *s, const struct store_fill *mark)
{
    const int rc = array_grow(&s->marks, &s->log_capacity, s->log_count + 1,
                              sizeof *s->marks);

    if (rc == 0)
        s->marks[s->log_count++] = *mark;
    return rc;
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
        .log = (uint32_t)(s->log_count - 1),
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

    uint32_t *logs; /* with records here that are not settled yet */
    size_t log_count;
    struct store_fill *touched; /* their marks; first those of the group */
    size_t taken_count;         /* marks of the group */
    struct store_mark_info *infos;
    enum held_state *held_states;
    bool *taken;       /* of each log: is in the group */
    bool *earlier;     /* of each log listed: comes before what is held of it */
    uint32_t *waiting; /* logs that follow those of `logs` */
    struct store_delta *deltas;
};

/* The sums of the group; returns how many. */
static size_t
sum_records(struct round *r)
{
    struct log_apply *s = r->s;
    size_t count = 0;

    for (size_t i = r->from; i < r->to;) {
        const struct log_apply_record *first = &s->records[i];
        int128 sum = 0;
        bool any = false;
        size_t next = i;

        for (;
             next < r->to && compare_records(first, &s->records[next], s) == 0;
             next++) {
            if (!r->taken[s->records[next].log])
                continue;
            sum += s->records[next].increment;
            any = true;
        }
        i = next;
        if (any)
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

static uint64_t
count_taken(const struct round *r)
{
    uint64_t count = 0;

    for (size_t i = r->from; i < r->to; i++)
        count += r->taken[r->s->records[i].log];
    return count;
}

/* The logs that have records for this keyspace. */
static void
list_logs(struct round *r)
{
    struct log_apply *s = r->s;

    memset(r->taken, 0, s->log_count * sizeof *r->taken);
    for (size_t i = r->from; i < r->to; i++)
        r->taken[s->records[i].log] = true;
    r->log_count = 0;
    for (uint32_t i = 0; i < s->log_count; i++)
        if (r->taken[i])
            r->logs[r->log_count++] = i;
}

static int
read_marks(struct round *r)
{
    struct log_apply *s = r->s;

    for (size_t i = 0; i < r->log_count; i++) {
        r->touched[i] = s->marks[r->logs[i]];
        r->infos[i] = (struct store_mark_info){.state = STORE_MARK_NONE};
    }
    if (r->store == NULL)
        return 0;
    return store_marks(r->store, r->name, r->name_size, r->touched,
                       r->log_count, r->infos);
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

/* Determines which of two fills with the same epoch is the later one: that
 * whose first increment is later. */
static int
find_if_superseded(struct round *r, size_t i)
{
    struct other o = {.mark = &r->touched[i]};
    int rc;

    if (!r->how->pass)
        return -ERANGE;
    rc = store_each_mark(r->store, r->name, r->name_size, see_mark, &o);
    if (rc == 0 && o.later)
        r->infos[i].state = STORE_MARK_AHEAD;
    return rc;
}

/* Forms a group: the first log that is not settled and those that agree with
 * it; the others are listed for the next round. */
static void
take_group(struct round *r)
{
    struct log_apply *s = r->s;
    const struct store_mark_info first = r->infos[0];
    size_t taken = 0, left = 0;

    memset(r->taken, 0, s->log_count * sizeof *r->taken);
    for (size_t i = 0; i < r->log_count; i++) {
        if (store_marks_agree(&first, &r->infos[i])) {
            r->taken[r->logs[i]] = true;
            r->touched[taken++] = s->marks[r->logs[i]];
        } else {
            r->logs[left++] = r->logs[i];
        }
    }
    r->taken_count = taken;
    r->log_count = left;
}

/* Puts a group into the keyspace (-ESTALE: ask again), or holds it as one
 * record, within a step. */
static int
put_group(struct round *r, bool hold)
{
    const struct store_batch batch = {
        .name = r->name,
        .name_size = r->name_size,
        .marks = r->touched,
        .mark_count = r->taken_count,
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

/* Records that are merged already, or superseded by a later fill, are only
 * counted. */
static int
apply_or_count_group(struct round *r, enum store_mark_state state, bool hold)
{
    const uint64_t count = count_taken(r);
    int rc;

    switch (state) {
    case STORE_MARK_DONE:
        r->result->already += count;
        return 0;
    case STORE_MARK_AHEAD:
        r->result->passed += r->how->pass ? count : 0;
        return r->how->pass ? 0 : -ERANGE;
    default:
        rc = put_group(r, hold);
        *(hold ? &r->result->held : &r->result->merged) += rc == 0 ? count : 0;
        return rc;
    }
}

/* Applies or holds what is not in yet.  A keyspace whose marks cannot be read
 * refuses: a fill that is in must not be held behind later ones, because it
 * could then be neither applied nor taken for applied. */
static int
apply_or_hold_logs(struct round *r, bool hold)
{
    int rc = 0;

    while (rc == 0 && r->log_count > 0) {
        rc = read_marks(r);
        for (size_t i = 0; rc == 0 && i < r->log_count; i++)
            if (r->infos[i].state == STORE_MARK_OTHER)
                rc = find_if_superseded(r, i);
        if (rc < 0)
            return rc;
        take_group(r);
        rc = apply_or_count_group(r, r->infos[0].state, hold);
    }
    return rc;
}

/* ---- behind what is held ------------------------------------------------ */

/* Asks what is held for the keyspace of each of its logs.  *any: something is,
 * of these logs or of others. */
static int
find_if_held(struct round *r, bool *any)
{
    struct log_apply *s = r->s;
    int rc;

    *any = false;
    for (size_t i = 0; i < r->log_count; i++)
        r->touched[i] = s->marks[r->logs[i]];
    rc = held_states(r->how->held, r->name, r->name_size, r->touched,
                     r->log_count, r->held_states);
    for (size_t i = 0; rc == 0 && i < r->log_count; i++)
        *any = *any || r->held_states[i] != HELD_NONE;
    return rc;
}

/* Counts the logs of which this very fill is held already, and leaves the
 * others in the list. */
static void
pass_held(struct round *r)
{
    struct log_apply *s = r->s;
    size_t left = 0;

    memset(r->taken, 0, s->log_count * sizeof *r->taken);
    for (size_t i = 0; i < r->log_count; i++)
        if (r->held_states[i] == HELD_SAME)
            r->taken[r->logs[i]] = true;
        else
            r->logs[left++] = r->logs[i];
    r->result->held += count_taken(r);
    r->result->held_before += count_taken(r);
    r->log_count = left;
}

/* Leaves in the list only the logs that come before what is held of them, and
 * puts the others into r->waiting; returns the number of these. */
static size_t
split_logs(struct round *r)
{
    size_t count = r->log_count, waiting = 0;

    r->log_count = 0;
    for (size_t i = 0; i < count; i++)
        if (r->earlier[i])
            r->logs[r->log_count++] = r->logs[i];
        else
            r->waiting[waiting++] = r->logs[i];
    return waiting;
}

static int
find_earlier(struct round *r)
{
    bool any;
    int rc;

    rc = find_if_held(r, &any);
    return rc < 0 ? rc
                  : held_find_earlier(r->how->held, r->name, r->name_size,
                                      r->touched, r->log_count, r->earlier);
}

/* Applies the fills that come before what is held of their logs, as after an
 * older keyspace was put back: held behind later ones they could be neither
 * applied nor taken for applied.  The lock keeps workers from applying the
 * later ones meanwhile.  Leaves the other logs in the list. */
static int
apply_earlier(struct round *r)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + r->how->wait_ms};
    struct held *h = r->how->held;
    size_t waiting;
    int rc = 0;

    if (!r->how->dry_run)
        do
            rc = held_lock(h, r->name, r->name_size);
        while (wait_turn(&turn, rc, 0));
    if (rc < 0)
        return rc == -ENOENT ? -ESTALE : rc; /* all of it was applied */
    rc = unmerged_snapshot_begin(h);
    if (rc == 0)
        rc = find_earlier(r);
    if (rc == 0) {
        waiting = split_logs(r);
        rc = apply_or_hold_logs(r, false);
        memcpy(r->logs, r->waiting, waiting * sizeof *r->logs);
        r->log_count = waiting;
    }
    if (!r->how->dry_run)
        held_unlock(h);
    return rc;
}

/* Holds the records of a keyspace behind those that are held for it.  Under the
 * lock that holding and deleting take, the command asks again what is held, and
 * then the marks, so that a fill that another process has held or applied
 * meanwhile is not held once more behind later ones. */
static int
hold_keyspace(struct round *r)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + r->how->wait_ms};
    struct held *h = r->how->held;
    bool any;
    int rc;

    if (r->how->dry_run) {
        pass_held(r);
        return apply_or_hold_logs(r, true);
    }
    do
        rc = held_begin(h);
    while (wait_turn(&turn, rc, held_holder(h)));
    if (rc < 0)
        return rc;
    rc = find_if_held(r, &any);
    if (rc == 0 && !any)
        rc = -ESTALE; /* all of it was applied meanwhile: begin again */
    if (rc == 0) {
        pass_held(r);
        rc = apply_or_hold_logs(r, true);
    }
    if (rc == 0)
        return held_commit(h);
    held_abort(h);
    return rc;
}

/* ---- a keyspace, held or not -------------------------------------------- */

/* All of a keyspace's records; begins again when another process merged
 * meanwhile, as the marks say then what is in. */
static int
apply_keyspace(struct round *r)
{
    const struct log_apply_result before = *r->result;
    int rc, tries = TRIES;
    bool held = false;

    do {
        *r->result = before;
        list_logs(r);
        rc = r->how->held != NULL ? unmerged_snapshot_begin(r->how->held) : 0;
        if (rc == 0 && r->how->held != NULL)
            rc = find_if_held(r, &held);
#ifdef COUNTD_MUTANT_COMMANDS_PASS_HELD
        held = false;
#endif
        if (rc == 0)
            rc = held ? apply_earlier(r) : apply_or_hold_logs(r, false);
        if (rc == 0 && held && r->log_count > 0)
            rc = hold_keyspace(r);
    } while (rc == -ESTALE && --tries > 0);
    return rc;
}

/* ---- all of them ------------------------------------------------------- */

static int
round_init(struct round *r)
{
    r->logs = malloc(r->s->log_count * sizeof *r->logs);
    r->touched = malloc(r->s->log_count * sizeof *r->touched);
    r->infos = malloc(r->s->log_count * sizeof *r->infos);
    r->held_states = malloc(r->s->log_count * sizeof *r->held_states);
    r->taken = malloc(r->s->log_count * sizeof *r->taken);
    r->earlier = malloc(r->s->log_count * sizeof *r->earlier);
    r->waiting = malloc(r->s->log_count * sizeof *r->waiting);
    r->deltas = malloc(r->s->count * sizeof *r->deltas);
    return r->logs && r->touched && r->infos && r->held_states && r->taken &&
                   r->earlier && r->waiting && r->deltas
               ? 0
               : -ENOMEM;
}

static void
round_fini(struct round *r)
{
    free(r->logs);
    free(r->touched);
    free(r->infos);
    free(r->held_states);
    free(r->taken);
    free(r->earlier);
    free(r->waiting);
    free(r->deltas);
}

int
log_apply_apply(struct log_apply *s, struct store *store,
                const struct log_apply_how *how,
                struct log_apply_result *result)
{
    struct round r = {
        .s = s, .store = store, .how = how, .result = result, .to = 0};
    int rc;

    if (s->count == 0)
        return 0;
    rc = round_init(&r);
    if (rc == 0)
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
    round_fini(&r);
    return rc;
}
