/* common/store/as_of.c - see as_of.h: as_of_refresh(), as_of_get(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/as_of.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/hash.h"
#include "common/log/pending.h"
#include "common/store/waiting_table.h"

/* Refreshes may take 1/REFRESH_SHARE of the time: with a thousand logs one
 * takes milliseconds, and is then valid for longer. */
#define REFRESH_SHARE      10
#define REFRESH_AGE_MAX_MS 100

static struct diag_repeat failures;

static int
report_unknown(int rc, const char *what)
{
    diag_repeating(&failures, DIAG_WARNING,
                   "cannot advance as_of_ms: read %s: %s; answers keep the "
                   "previous value",
                   what, diag_text(rc));
    return rc;
}

int
as_of_init(struct as_of *f, struct store *store, const struct datadir *datadir,
           const struct layout *l, uint64_t log_size)
{
    int rc;

    *f = (struct as_of){.store = store,
                        .claims = calloc(AS_OF_CLAIMS, sizeof *f->claims),
                        .merging = calloc(AS_OF_MERGING, sizeof *f->merging)};
    rc = f->claims && f->merging
             ? waiting_open(&f->waiting, datadir->log_fd, false, false, 0)
             : -ENOMEM;
    if (rc < 0)
        goto free_claims;
    rc = logdir_open(&f->logs, datadir->log_fd, l, log_size);
    if (rc == 0)
        return 0;
    waiting_close(&f->waiting);
free_claims:
    free(f->merging);
    free(f->claims);
    f->store = NULL;
    return rc;
}

void
as_of_fini(struct as_of *f)
{
    waiting_close(&f->waiting);
    logdir_close(&f->logs);
    pending_set_fini(&f->before);
    free(f->merging);
    free(f->claims);
}

/* ---- the clock --------------------------------------------------------- */

static void
forget_claims(struct as_of *f)
{
    f->as_of_ms = 0;
    f->sure_ms = 0;
    f->most_ms = 0;
    memset(f->claims, 0, AS_OF_CLAIMS * sizeof *f->claims);
}

/* Measures how far the clock is ahead of the monotonic one: between *least and
 * *most.  Time that passes between the readings widens the span. */
static void
compare_clocks(int64_t *least, int64_t *most)
{
    const uint64_t before = clock_ms();
    const uint64_t now = clock_unix_ms();
    const uint64_t after = clock_ms();

    *least = (int64_t)(now - after) - 1; /* milliseconds are cut off */
    *most = (int64_t)(now - before) + 1;
}

/* Whether the clock was set back since the last refresh, which left it `most`
 * ahead of the monotonic one.  Forgets claims of times that come again. */
static bool
was_set_back(struct as_of *f, uint64_t now, int64_t most)
{
    const bool set_back = f->refresh > 0 && most < f->ahead_ms;
    const uint64_t by = set_back ? (uint64_t)(f->ahead_ms - most) : 0;
    const uint64_t claimed =
        f->most_ms > f->as_of_ms ? f->most_ms : f->as_of_ms;

    if (claimed >= now || (set_back && claimed + by >= f->seen_ms))
        forget_claims(f);
    return set_back;
}

/* Remembers the logs from before the clock was set back until they are merged.
 *
 * A clock set back shows in its own time, or in logs stamped in the future.
 * When these were filled is unknown, and waiting until the clock has passed
 * their stamps does not help: it counts the same times twice, and a log of the
 * first pass, stamped just before the second reaches it, would allow a claim
 * beyond the second.  Stamps mean today's clock again only when all of them are
 * merged. */
static int
heed_clock(struct as_of *f, bool set_back)
{
    if (set_back)
        return pending_set_note(&f->before, &f->logs);
    return f->before.count > 0 ? pending_set_drop_merged(&f->before, &f->logs)
                               : 0;
}

/* ---- scanning ---------------------------------------------------------- */

/* What a scan of the logs finds; the fills that are being merged go to
 * f->merging. */
struct as_of_scan {
    struct as_of *f;
    uint64_t oldest_ms, newest_ms; /* of all */
    uint64_t waiting_ms;           /* the oldest that is not in f->merging */
};

static int
note_pending(void *ctx, const struct pending_log *p)
{
    struct as_of_scan *s = ctx;
    struct as_of *f = s->f;

    if (p->first_ms < s->oldest_ms)
        s->oldest_ms = p->first_ms;
    if (p->first_ms > s->newest_ms)
        s->newest_ms = p->first_ms;
    if (p->merging && f->merging_count < AS_OF_MERGING)
        f->merging[f->merging_count++] = p->fill;
    else if (p->first_ms < s->waiting_ms)
        s->waiting_ms = p->first_ms;
    return 0;
}

static int
scan_logs(struct as_of *f, struct as_of_scan *s)
{
    int rc;

    f->merging_count = 0;
    f->is_late = false; /* until merging is known to be that of one scan */
    rc = pending_each(&f->logs, note_pending, s);
    f->waiting_ms = s->waiting_ms;
    return rc;
}

/* Whether a keyspace's marks may allow it a later claim than the logs allow all
 * of them.  Stamps of a clock that was set back cannot be compared, and in an
 * engine with a time of its own applied records are not yet readable. */
static bool
is_late(const struct as_of *f, uint64_t newest, uint64_t then)
{
    return f->merging_count > 0 && f->as_of_ms + AS_OF_LATE_MS < f->ended_ms &&
           newest <= then && f->before.count == 0 &&
           f->store->engine->as_of == NULL;
}

/* Claims the latest time that the logs allow.  They were scanned after the
 * millisecond `ended` was over, and before `then`. */
static void
claim_time(struct as_of *f, uint64_t ended, uint64_t then, uint64_t oldest,
           uint64_t newest)
{
    const bool is_ambiguous = newest > then || f->before.count > 0;
    uint64_t most = ended;

    if (is_ambiguous && f->as_of_ms < most)
        most = f->as_of_ms; /* claimed before the clock was set back */
    if (oldest <= most)
        most = oldest > 0 ? oldest - 1 : 0;
    if (most >= f->as_of_ms) {
        f->as_of_ms = most;
    } else if (is_ambiguous) {
        forget_claims(f);
        f->as_of_ms = most;
    }
}

/* Scans the logs, then lists what waits.  Claims a new time only if both work.
 * Snapshots of the store are older then, and must not answer what this allows
 * to claim. */
static int
refresh_claim(struct as_of *f)
{
    const uint64_t now = clock_unix_ms();
    struct as_of_scan s = {
        .f = f, .oldest_ms = UINT64_MAX, .waiting_ms = UINT64_MAX};
    int64_t least, most;
    uint64_t then;
    bool set_back;
    int rc;

    compare_clocks(&least, &most);
    set_back = was_set_back(f, now, most);
    rc = scan_logs(f, &s);
    then = clock_unix_ms();
    if (rc == 0)
        rc = heed_clock(f, set_back || s.newest_ms > then);
    if (rc < 0) /* ahead_ms stays: the next refresh finds the same */
        return report_unknown(rc, "data/log");
    store_read_end(f->store);
    rc = waiting_list(&f->waiting);
    if (rc == -EAGAIN)
        return rc; /* files are being replaced */
    if (rc < 0)
        return report_unknown(rc, "log/" WAITING_FOLDER);
    f->refresh++;
    f->seen_ms = clock_unix_ms();
    f->ahead_ms = least;
    f->ended_ms = now - 1;
    claim_time(f, f->ended_ms, then, s.oldest_ms, s.newest_ms);
    f->is_late = is_late(f, s.newest_ms, then);
    f->is_held = f->waiting.held_files > 0;
    if (!f->is_held)
        f->sure_ms = f->as_of_ms;
    return 0;
}

void
as_of_refresh(struct as_of *f, uint64_t now_ms)
{
    uint64_t start, took;

    if (now_ms < f->until_ms && clock_unix_ms() >= f->seen_ms)
        return;
    start = clock_ns();
    (void)refresh_claim(f); /* reported; the last claim stays */
    took = (clock_ns() - start) * REFRESH_SHARE / 1000000;
    if (took < AS_OF_AGE_MS)
        took = AS_OF_AGE_MS;
    if (took > REFRESH_AGE_MAX_MS)
        took = REFRESH_AGE_MAX_MS;
    f->until_ms = now_ms + took;
}

/* ---- what is claimed of one keyspace ----------------------------------- */

/* The claim of this keyspace.  Names that share a place only cost a read of
 * marks, so choosing them gains a client nothing. */
static struct as_of_claim *
place_of(struct as_of *f, const uint8_t *name, size_t size)
{
    static const struct hash_key any_key = {.k0 = 0};

    return &f->claims[hash_name(&any_key, size, name, size) % AS_OF_CLAIMS];
}

/* The latest time that the logs allow to claim of this keyspace: a fill that is
 * merged into it, as its marks say, does not lower it.  The marks are those of
 * the snapshot that answers, or of an older one that is still younger than the
 * scan of the logs.  When they cannot be read, as_of_ms is true of all. */
static uint64_t
claim_merged(struct as_of *f, const uint8_t *name, size_t size)
{
    const struct store_batch merging = {.name = name,
                                        .name_size = size,
                                        .marks = f->merging,
                                        .mark_count = f->merging_count};
    struct store_mark_info infos[AS_OF_MERGING];
    uint64_t oldest = f->waiting_ms, as_of;

    if (!f->is_late || size == 0)
        return f->as_of_ms;
    if (store_marks(f->store, &merging, infos) < 0)
        return f->as_of_ms;
    for (unsigned i = 0; i < f->merging_count; i++)
        if (infos[i].state != STORE_MARK_DONE &&
            f->merging[i].first_ms < oldest)
            oldest = f->merging[i].first_ms;
    as_of = oldest > f->ended_ms ? f->ended_ms : oldest > 0 ? oldest - 1 : 0;
    if (as_of > f->most_ms)
        f->most_ms = as_of;
    return as_of > f->as_of_ms ? as_of : f->as_of_ms;
}

/* Lowers a claim to what waits for this keyspace, or for any.  Its marks are
 * those of the snapshot that answers, or of an older one. */
static void
claim_waiting(struct as_of *f, const uint8_t *name, size_t size,
              uint64_t *as_of)
{
    struct waiting_sum sum = {.oldest_ms = f->waiting.oldest_ms,
                              .newest_ms = f->waiting.newest_ms};

    if (size > 0)
        waiting_sum(f->store, &f->waiting,
                    waiting_find(&f->waiting, name, size), &sum);
    if (sum.newest_ms > f->seen_ms)
        *as_of = 0; /* received before the clock was set back: unknown */
    else if (sum.oldest_ms <= *as_of)
        *as_of = sum.oldest_ms > 0 ? sum.oldest_ms - 1 : 0;
}

int64_t
as_of_claim(struct as_of *f, const uint8_t *name, size_t size)
{
    struct as_of_claim *claim;
    uint64_t as_of;
    bool is_same;

    assert(f->until_ms > 0);
    assert(size <= sizeof claim->name);
    /* All keyspaces have the same claim if nothing waits, and none has had a
     * later one by its marks, which it keeps. */
    if (!f->is_held && !f->is_late && f->most_ms <= f->as_of_ms)
        return (int64_t)f->as_of_ms;
    claim = place_of(f, name, size);
    is_same = claim->refresh > 0 && claim->size == size &&
              (size == 0 || memcmp(claim->name, name, size) == 0);
    if (is_same && claim->refresh == f->refresh)
        return (int64_t)claim->as_of_ms;

    as_of = claim_merged(f, name, size);

    if (f->is_held)
        claim_waiting(f, name, size, &as_of);
    if (as_of < f->sure_ms) /* what was true once still is */
        as_of = f->sure_ms;
    if (is_same && as_of < claim->as_of_ms)
        as_of = claim->as_of_ms;
    claim->refresh = f->refresh;
    claim->as_of_ms = as_of;
    claim->size = (uint16_t)size;
    if (size > 0)
        memcpy(claim->name, name, size);
    return (int64_t)as_of;
}

static int64_t
lower_claim(int64_t claim, uint64_t bound)
{
    return (uint64_t)claim < bound ? claim : (int64_t)bound;
}

/* The claim of the answer that is made, and what its snapshot had. */
static int64_t
claim_answer(struct as_of *f, const uint8_t *name, size_t size,
             struct store_as_of *had)
{
    int64_t claim;

    *had = (struct store_as_of){UINT64_MAX, UINT64_MAX};
    return f->answered && f->answered(f->ctx, name, size, &claim, had)
               ? claim
               : as_of_claim(f, name, size);
}

int64_t
as_of_get(struct as_of *f, const uint8_t *name, size_t size)
{
    struct store_as_of had;
    const int64_t claim = claim_answer(f, name, size, &had);

    return lower_claim(lower_claim(claim, had.own_ms), had.all_ms);
}

int64_t
as_of_own(struct as_of *f, const uint8_t *name, size_t size)
{
    struct store_as_of had;
    const int64_t claim = claim_answer(f, name, size, &had);

    return lower_claim(claim, had.own_ms);
}

/* What the snapshots of all answers so far had. */
static struct store_as_of
bound_of(struct as_of *f)
{
    struct store_as_of had = {UINT64_MAX, UINT64_MAX};
    int64_t of_none;

    if (f->answered)
        (void)f->answered(f->ctx, NULL, 0, &of_none, &had); /* none is named */
    return had;
}

uint64_t
as_of_merged(struct as_of *f)
{
    const uint64_t own_ms = bound_of(f).own_ms;

    return own_ms < f->as_of_ms ? own_ms : f->as_of_ms;
}

int64_t
as_of_bound(struct as_of *f, int64_t claim)
{
    const struct store_as_of had = bound_of(f);

    return lower_claim(lower_claim(claim, had.own_ms), had.all_ms);
}
