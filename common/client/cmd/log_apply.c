/* common/client/cmd/log_apply.c - see log_apply.h.
 *
 * log_apply_add() collects increments; log_apply_apply() writes them.  The
 * marks of a keyspace show which of the logs it contains.  Logs whose marks
 * agree are applied together, one group after the other; if another process
 * merges in between, the marks of the group are read again. */
#include "common/client/cmd/log_apply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/client/cmd/unmerged.h"
#include "common/client/cmd/wait_merged.h"

#define TRIES 3 /* another process may merge in between */

/* ---- adding ------------------------------------------------------------ */

static int
grow_array(void **at, size_t *room, size_t need, size_t item_size)
{
    size_t larger = *room ? *room : 1024;
    void *moved;

    if (need <= *room)
        return 0;
    while (larger < need)
        larger *= 2;
    moved = realloc(*at, larger * item_size);
    if (moved == NULL)
        return -ENOMEM;
    *at = moved;
    *room = larger;
    return 0;
}

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
    void *marks = s->marks;
    const int rc =
        grow_array(&marks, &s->log_room, s->log_count + 1, sizeof *s->marks);

    s->marks = marks;
    if (rc == 0)
        s->marks[s->log_count++] = *mark;
    return rc;
}

int
log_apply_add(struct log_apply *s, const struct message *m,
              uint64_t received_ms)
{
    const size_t names = (size_t)m->keyspace_size + m->key_size;
    void *records = s->records;
    void *bytes = s->bytes;
    int rc;

    if (m->increment == 0)
        return 0; /* it changes nothing and makes no key */
    rc = grow_array(&records, &s->room, s->count + 1, sizeof *s->records);
    s->records = records;
    if (rc == 0)
        rc = grow_array(&bytes, &s->bytes_room, s->bytes_size + names, 1);
    s->bytes = bytes;
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

/* Records [from, to) of one keyspace, of the logs that are taken. */
static size_t
sum_records(struct log_apply *s, size_t from, size_t to)
{
    size_t count = 0;

    for (size_t i = from; i < to;) {
        const struct log_apply_record *r = &s->records[i];
        int128 sum = 0;
        bool any = false;
        size_t next = i;

        for (; next < to && compare_records(r, &s->records[next], s) == 0;
             next++) {
            if (!s->taken[s->records[next].log])
                continue;
            sum += s->records[next].increment;
            any = true;
        }
        i = next;
        if (any)
            s->deltas[count++] = (struct store_delta){
                .key = s->bytes + r->keyspace_at + r->keyspace_size,
                .key_size = r->key_size,
                .minute = r->minute,
                .sum_high = (int64_t)(sum >> 64),
                .sum_low = (uint64_t)sum,
            };
    }
    return count;
}

/* ---- a keyspace -------------------------------------------------------- */

struct round {
    struct log_apply *s;
    struct store *store;
    const struct log_apply_how *how;
    struct log_apply_result *result;
    const uint8_t *name;
    size_t name_size;
    size_t from, to;
    size_t touched; /* logs with records here that are not settled yet */
    size_t taken;   /* marks of the group */
};

static uint64_t
count_taken(const struct round *r)
{
    uint64_t count = 0;

    for (size_t i = r->from; i < r->to; i++)
        count += r->s->taken[r->s->records[i].log];
    return count;
}

/* The logs that have records for this keyspace. */
static void
list_logs(struct round *r)
{
    struct log_apply *s = r->s;

    memset(s->taken, 0, s->log_count * sizeof *s->taken);
    for (size_t i = r->from; i < r->to; i++)
        s->taken[s->records[i].log] = true;
    r->touched = 0;
    for (uint32_t i = 0; i < s->log_count; i++)
        if (s->taken[i])
            s->logs[r->touched++] = i;
}

static int
ask_marks(struct round *r)
{
    struct log_apply *s = r->s;

    for (size_t i = 0; i < r->touched; i++) {
        s->touched[i] = s->marks[s->logs[i]];
        s->infos[i] = (struct store_mark_info){.state = STORE_MARK_NONE};
    }
    if (r->store == NULL)
        return 0;
    return store_marks(r->store, r->name, r->name_size, s->touched, r->touched,
                       s->infos);
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
settle_other(struct round *r, size_t i)
{
    struct other o = {.mark = &r->s->touched[i]};
    int rc;

    if (!r->how->pass)
        return -ERANGE;
    rc = store_each_mark(r->store, r->name, r->name_size, see_mark, &o);
    if (rc == 0 && o.later)
        r->s->infos[i].state = STORE_MARK_AHEAD;
    return rc;
}

/* Forms a group: the first log that is not settled and those that agree with
 * it; the others are listed for the next round. */
static void
take_group(struct round *r)
{
    struct log_apply *s = r->s;
    const struct store_mark_info first = s->infos[0];
    size_t taken = 0, left = 0;

    memset(s->taken, 0, s->log_count * sizeof *s->taken);
    for (size_t i = 0; i < r->touched; i++) {
        if (store_marks_agree(&first, &s->infos[i])) {
            s->taken[s->logs[i]] = true;
            s->touched[taken++] = s->marks[s->logs[i]];
        } else {
            s->logs[left++] = s->logs[i];
        }
    }
    r->taken = taken;
    r->touched = left;
}

/* Puts a group in.  -ESTALE: ask again. */
static int
apply_group(struct round *r)
{
    struct log_apply *s = r->s;
    const struct store_batch batch = {
        .name = r->name,
        .name_size = r->name_size,
        .marks = s->touched,
        .mark_count = r->taken,
        .deltas = s->deltas,
        .delta_count = sum_records(s, r->from, r->to),
    };
    struct wait_turn turn = {.deadline_ms = clock_ms() + r->how->wait_ms};
    struct store_applied applied;
    int rc = 0;

    if (r->how->dry_run)
        return 0;
    do
        rc = store_apply(r->store, &batch, &applied);
    while (
        wait_turn(&turn, rc, r->how->holder ? r->how->holder(r->how->ctx) : 0));
    return rc;
}

/* Records that are merged already, or superseded by a later fill, are only
 * counted. */
static int
settle_group(struct round *r, enum store_mark_state state)
{
    const uint64_t count = count_taken(r);
    int rc = 0;

    if (state == STORE_MARK_DONE) {
        r->result->already += count;
    } else if (state == STORE_MARK_AHEAD) {
        if (!r->how->pass)
            return -ERANGE;
        r->result->passed += count;
    } else {
        rc = apply_group(r);
        r->result->merged += rc == 0 ? count : 0;
    }
    return rc;
}

static int
apply_round(struct round *r)
{
    struct log_apply *s = r->s;
    int rc;

    while (r->touched > 0) {
        enum store_mark_state state;

        rc = ask_marks(r);
        for (size_t i = 0; rc == 0 && i < r->touched; i++)
            if (s->infos[i].state == STORE_MARK_OTHER)
                rc = settle_other(r, i);
        if (rc < 0)
            return rc;
        state = s->infos[0].state;
        take_group(r);
        rc = settle_group(r, state);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- behind what is held ------------------------------------------------ */

/* Asks what is held for the keyspace of each of its logs.  *any: something is,
 * of these logs or of others. */
static int
ask_held(struct round *r, bool *any)
{
    struct log_apply *s = r->s;
    int rc;

    *any = false;
    for (size_t i = 0; i < r->touched; i++)
        s->touched[i] = s->marks[s->logs[i]];
    rc = held_states(r->how->held, r->name, r->name_size, s->touched,
                     r->touched, s->held_states);
    for (size_t i = 0; rc == 0 && i < r->touched; i++)
        *any = *any || s->held_states[i] != HELD_NONE;
    return rc;
}

/* Counts the logs of which this very fill is held already, and leaves the
 * others in the list. */
static void
pass_held(struct round *r)
{
    struct log_apply *s = r->s;
    size_t left = 0;

    memset(s->taken, 0, s->log_count * sizeof *s->taken);
    for (size_t i = 0; i < r->touched; i++)
        if (s->held_states[i] == HELD_SAME)
            s->taken[s->logs[i]] = true;
        else
            s->logs[left++] = s->logs[i];
    r->result->held += count_taken(r);
    r->touched = left;
}

/* Holds the group as one record, within a step. */
static int
put_group(struct round *r)
{
    struct log_apply *s = r->s;
    const struct store_batch batch = {
        .name = r->name,
        .name_size = r->name_size,
        .marks = s->touched,
        .mark_count = r->taken,
        .deltas = s->deltas,
        .delta_count = sum_records(s, r->from, r->to),
    };

    r->result->held += count_taken(r);
    return r->how->dry_run ? 0 : held_put(r->how->held, &batch, 0);
}

/* Holds what is not in yet.  A keyspace whose marks cannot be read refuses: a
 * fill that is in must not be held behind later ones, because it could then be
 * neither applied nor taken for applied. */
static int
hold_groups(struct round *r)
{
    struct log_apply *s = r->s;
    int rc = 0;

    while (rc == 0 && r->touched > 0) {
        rc = ask_marks(r);
        for (size_t i = 0; rc == 0 && i < r->touched; i++)
            if (s->infos[i].state == STORE_MARK_OTHER)
                rc = settle_other(r, i);
        if (rc < 0)
            return rc;
        take_group(r);
        if (s->infos[0].state == STORE_MARK_DONE ||
            s->infos[0].state == STORE_MARK_AHEAD)
            rc = settle_group(r, s->infos[0].state);
        else
            rc = put_group(r);
    }
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
        return hold_groups(r);
    }
    do
        rc = held_begin(h);
    while (wait_turn(&turn, rc, held_holder(h)));
    if (rc < 0)
        return rc;
    rc = ask_held(r, &any);
    if (rc == 0 && !any)
        rc = -ESTALE; /* all of it was applied meanwhile: begin again */
    if (rc == 0) {
        pass_held(r);
        rc = hold_groups(r);
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
            rc = ask_held(r, &held);
#ifdef COUNTD_MUTANT_COMMANDS_PASS_HELD
        held = false;
#endif
        if (rc == 0)
            rc = held ? hold_keyspace(r) : apply_round(r);
    } while (rc == -ESTALE && --tries > 0);
    return rc;
}

/* ---- all of them ------------------------------------------------------- */

static int
make_room(struct log_apply *s)
{
    s->deltas = malloc(s->count * sizeof *s->deltas);
    s->touched = malloc(s->log_count * sizeof *s->touched);
    s->infos = malloc(s->log_count * sizeof *s->infos);
    s->held_states = malloc(s->log_count * sizeof *s->held_states);
    s->logs = malloc(s->log_count * sizeof *s->logs);
    s->taken = malloc(s->log_count * sizeof *s->taken);
    return s->deltas && s->touched && s->infos && s->held_states && s->logs &&
                   s->taken
               ? 0
               : -ENOMEM;
}

static void
free_room(struct log_apply *s)
{
    free(s->deltas);
    free(s->touched);
    free(s->infos);
    free(s->held_states);
    free(s->logs);
    free(s->taken);
    s->deltas = NULL;
    s->touched = NULL;
    s->infos = NULL;
    s->held_states = NULL;
    s->logs = NULL;
    s->taken = NULL;
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
    rc = make_room(s);
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
    free_room(s);
    return rc;
}
