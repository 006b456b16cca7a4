/* worker/drain.c - see drain.h: drain_merged(), drain_held(), drain_run(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/drain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/message.h"
#include "common/wire/name.h"

void
drain_init(struct drain *d, struct store *store, struct held *held)
{
    *d = (struct drain){.store = store, .held = held, .now_ns = clock_ns};
    /* Without a random key a client could choose names that share a place; that
     * only delays retries. */
    (void)!getrandom(&d->key, sizeof d->key, 0);
}

static uint64_t
now_ms(const struct drain *d)
{
    return d->now_ns() / 1000000;
}

/* Lets the next pass begin at due_ms at the latest.  A pass also finds records
 * that other processes held meanwhile, so one begins regularly. */
static void
note_due(struct drain *d, uint64_t due_ms)
{
    if (due_ms < d->due_ms)
        d->due_ms = due_ms;
}

/* ---- one record -------------------------------------------------------- */

/* Determines whether a record is applied: the keyspace must have exactly the
 * fills that the record names.  A later fill proves nothing, because the
 * process that applied it may have skipped this record.
 *   -EAGAIN  the marks agree now: they changed meanwhile
 *   -ERANGE  the keyspace has a later fill of one of the logs
 *   -ESTALE  some of the logs are merged, and others are not */
static int
check_applied(struct drain *d, const struct store_batch *b)
{
    struct store_mark_info *infos = calloc(b->mark_count + 1, sizeof *infos);
    bool alike = true, ahead = false;
    size_t i, in = 0;
    int rc;

    if (!infos)
        return -ENOMEM;
    rc = store_marks(d->store, b->name, b->name_size, b->marks, b->mark_count,
                     infos);
    for (i = 0; rc == 0 && i < b->mark_count; i++) {
        in += infos[i].state == STORE_MARK_DONE;
#ifdef COUNTD_MUTANT_AHEAD_IS_IN
        in += infos[i].state == STORE_MARK_AHEAD;
#endif
        ahead = ahead || infos[i].state == STORE_MARK_AHEAD;
        alike = alike && store_marks_agree(&infos[0], &infos[i]);
    }
    free(infos);
    if (rc < 0 || in == b->mark_count)
        return rc;
    if (ahead)
        return -ERANGE;
    return alike && in == 0 ? -EAGAIN : -ESTALE;
}

/* Makes sure that a record is applied, durably. */
static int
apply_record(struct drain *d, const struct store_batch *b)
{
    const struct store_batch empty = {.name = b->name,
                                      .name_size = b->name_size};
    struct store_applied applied;
    int rc;

    rc = store_apply(d->store, b, &applied);
    if (rc != -ESTALE && rc != -EOVERFLOW)
        return rc;
    rc = check_applied(d, b);
    if (rc == 0)
        rc = store_apply(d->store, &empty, &applied) == 0 ? 0 : -EAGAIN;
    return rc;
}

/* Reports why the held records of a keyspace are not applied. */
static void
report_stays(struct drain *d, const uint8_t *name, size_t size, int error)
{
    char text[NAME_TEXT_SIZE];

    (void)name_escape(name, size, text);
    if (error == -ERANGE)
        diag_repeating(
            &d->ahead, DIAG_ERROR,
            "keyspace=%s: held records not applied: it has a later "
            "fill of one of their logs, so the file and "
            "held/ are from different times; see countd held; countd "
            "held drop deletes them",
            text);
    else if (error == -ESTALE)
        diag_repeating(
            &d->mixed, DIAG_ERROR,
            "keyspace=%s: held records not applied: only some of a "
            "record's logs are merged, so the file and "
            "held/ are from different times; see countd held; countd "
            "held drop deletes them",
            text);
    else if (error == -ENODATA)
        diag_repeating(&d->damaged, DIAG_ERROR,
                       "keyspace=%s: held records not applied: one is damaged; "
                       "see countd held; countd held drop deletes them",
                       text);
    else
        diag_repeating(&d->stays, DIAG_WARNING,
                       "keyspace=%s: held records not applied: %s", text,
                       diag_text(error));
    d->stats.damaged +=
        error == -ERANGE || error == -ESTALE || error == -ENODATA;
}

/* ---- one keyspace ------------------------------------------------------ */

/* Whether this call has used its time; at least one record was tried then. */
static bool
is_over(const struct drain *d)
{
    return d->now_ns() >= d->until_ns || (d->stop && d->stop(d->stop_ctx));
}

/* Records that are applied and not deleted yet, and the logs they name. */
struct taken {
    uint64_t ids[DRAIN_IDS];
    size_t count;
    uint8_t logs[DRAIN_LOGS][MESSAGE_UUID_SIZE];
    size_t log_count;
};

/* Whether a record names a log that an applied one names as well. */
static bool
shares_log(const struct taken *t, const struct store_batch *b)
{
    for (size_t i = 0; i < b->mark_count; i++)
        for (size_t k = 0; k < t->log_count; k++)
            if (memcmp(b->marks[i].uuid, t->logs[k], MESSAGE_UUID_SIZE) == 0)
                return true;
    return false;
}

static bool
is_full(const struct taken *t, const struct store_batch *b)
{
    return t->count == DRAIN_IDS || t->log_count + b->mark_count > DRAIN_LOGS;
}

static void
add_taken(struct taken *t, const struct held_record *r)
{
    t->ids[t->count++] = r->id;
    for (size_t i = 0; i < r->batch.mark_count && t->log_count < DRAIN_LOGS;
         i++)
        memcpy(t->logs[t->log_count++], r->batch.marks[i].uuid,
               MESSAGE_UUID_SIZE);
}

static int
delete_taken(struct drain *d, struct taken *t)
{
    const size_t count = t->count;
    int rc;

    if (count == 0)
        return 0;
    t->count = t->log_count = 0;
    rc = held_delete(d->held, t->ids, count);
    if (rc == 0)
        d->stats.records += count;
    return rc;
}

/* Deletes the applied records if the next one shares a log with them.  Applying
 * it first would move the log's mark beyond a record that is still held, and
 * after a crash it would be unknown whether that one is applied.  1: deleted,
 * so the record has to be read again. */
static int
forget_before(struct drain *d, struct taken *t, const struct store_batch *b)
{
    int rc;

    if (t->count == 0 || (!shares_log(t, b) && !is_full(t, b)))
        return 0;
    rc = delete_taken(d, t);
    return rc == 0 ? 1 : rc;
}

/* Applies the record after *after.  1: it has to be read again. */
static int
apply_next(struct drain *d, const uint8_t *name, size_t size, struct taken *t,
           uint64_t *after)
{
    struct held_record r;
    int rc;

    rc = held_next(d->held, name, size, *after, &r);
    if (rc == -EBADMSG)
        rc = -ENODATA;
    if (rc == 0)
        rc = forget_before(d, t, &r.batch);
    if (rc != 0)
        return rc;
    rc = apply_record(d, &r.batch);
    if (rc < 0)
        return rc;
    d->applied = true;
    *after = r.id;
    add_taken(t, &r);
    return 0;
}

/* Applies records until none is left (0), the time is used (1), or one cannot
 * be applied.
 *   -EAGAIN  another process is writing
 *   -ENODATA a record is damaged; other errors: check_applied(), store_apply()
 */
static int
apply_records(struct drain *d, const uint8_t *name, size_t size)
{
    struct taken taken = {.count = 0};
    uint64_t after = 0;
    int rc, deleted;

    do
        rc = apply_next(d, name, size, &taken, &after);
    while (rc >= 0 && (rc > 0 || !is_over(d)));
    deleted = delete_taken(d, &taken);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    return deleted < 0 ? deleted : rc == 0;
}

static int
apply_keyspace(struct drain *d, const uint8_t *name, size_t size)
{
    int rc;

    rc = held_lock(d->held, name, size); /* ends the snapshot */
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    rc = apply_records(d, name, size);
    held_unlock(d->held);
    return rc;
}

static struct drain_place *
place_of(struct drain *d, const uint8_t *name, size_t size)
{
    return &d->places[hash_name(&d->key, 0, name, size) % DRAIN_RETRIES];
}

/* Whether a keyspace is tried in this pass.  If one is, all that share its
 * place are. */
static bool
is_open(struct drain *d, struct drain_place *p)
{
    if (p->open != d->pass && !retry_is_due(&p->retry, now_ms(d))) {
        note_due(d, p->retry.due_ms);
        return false;
    }
    p->open = d->pass;
    return true;
}

static void
try_keyspace(struct drain *d, const uint8_t *name, size_t size)
{
    struct drain_place *p = place_of(d, name, size);
    int rc;

    if (!is_open(d, p))
        return;
    rc = apply_keyspace(d, name, size);
    if (rc == -EAGAIN) {
        note_due(d, now_ms(d) + DRAIN_BUSY_MS);
        return;
    }
    if (rc >= 0) {
        retry_succeeded(&p->retry);
        if (rc > 0)
            note_due(d, now_ms(d));
        return;
    }
    report_stays(d, name, size, rc);
    if (p->failed != d->pass)
        retry_failed(&p->retry, now_ms(d), DRAIN_RETRY_FIRST_MS,
                     DRAIN_RETRY_MOST_MS);
    p->failed = d->pass;
    note_due(d, p->retry.due_ms);
}

/* ---- all keyspaces ----------------------------------------------------- */

void
drain_merged(struct drain *d, uint64_t ns)
{
    d->credit_ns += (int64_t)(ns / 4);
    if (d->credit_ns > DRAIN_CREDIT_NS)
        d->credit_ns = DRAIN_CREDIT_NS;
}

void
drain_held(struct drain *d)
{
    d->due_ms = 0;
}

static void
begin_pass(struct drain *d)
{
    d->pass++;
    d->passing = true;
    d->applied = false;
    d->name_size = 0;
    d->due_ms = now_ms(d) + DRAIN_POLL_MS;
    d->pass_ns = 0;
}

/* Continues the pass; -ENOENT: it has ended. */
static int
continue_pass(struct drain *d)
{
    uint8_t name[STORE_NAME_MAX];
    size_t size;
    int rc;

    do {
        rc = held_next_name(d->held, d->name, d->name_size, name, &size);
        if (rc < 0)
            break;
        memcpy(d->name, name, size);
        d->name_size = size;
        try_keyspace(d, name, size);
        rc = held_refresh(d->held); /* trying it may have ended the last one */
    } while (rc == 0 && !is_over(d));
    return rc;
}

static void
report_unreadable(int rc)
{
    static struct diag_repeat repeat;

    diag_repeating(&repeat, DIAG_ERROR, "read data/" HELD_FOLDER ": %s",
                   diag_text(rc));
}

/* Does as much of a pass as one call may. */
static int
run_slice(struct drain *d)
{
    int rc;

    rc = held_refresh(d->held);
    if (rc == 0 && !held_any(d->held)) {
        d->passing = false;
        d->due_ms = UINT64_MAX;
        return 0;
    }
    if (rc == 0 && d->begin && !d->begin(d->begin_ctx)) {
        d->passing = false;
        d->due_ms = now_ms(d) + DRAIN_POLL_MS;
    } else if (rc == 0 && !d->passing && now_ms(d) >= d->due_ms) {
        begin_pass(d);
    }
    if (rc == 0 && d->passing)
        rc = continue_pass(d);
    return rc;
}

uint64_t
drain_run(struct drain *d, bool logs_wait)
{
    const uint64_t since = d->now_ns();
    uint64_t took, now;
    int rc;

    if (!logs_wait)
        d->credit_ns = 0;
    else if (d->credit_ns < 0)
        return since / 1000000;
    if (!d->passing && d->due_ms == UINT64_MAX)
        d->due_ms = 0; /* nothing was held when it was checked last */
    d->until_ns = since + (logs_wait ? (uint64_t)d->credit_ns : DRAIN_SLICE_NS);
    rc = run_slice(d);
    took = d->now_ns() - since;
    now = now_ms(d);
    if (logs_wait)
        d->credit_ns -= (int64_t)took;
    d->pass_ns += took;
    if (rc < 0 && rc != -ENOENT) {
        report_unreadable(rc);
        d->passing = false;
        d->due_ms = now + 1000;
    }
    if (rc == 0)
        return d->passing ? now : d->due_ms;
    if (d->passing && !d->applied && d->due_ms < now + d->pass_ns / 250000)
        d->due_ms = now + d->pass_ns / 250000; /* four times as many ms */
    d->passing = false;
    return d->due_ms;
}
