/* reader/as_of.c - see as_of.h: as_of_refresh(), as_of_end_turn(), as_of_get().
 */
#include "reader/as_of.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/hash.h"
#include "common/log/pending.h"

/* A look may take up to a 1/LOOK_SHARE of the time; with a thousand logs it
 * costs milliseconds, and is then good for longer. */
#define LOOK_SHARE   10
#define LOOK_AGE_MAX 100

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
    const struct held_options held = {.data_fd = datadir->fd};
    int rc;

    *f = (struct as_of){.store = store,
                        .told = calloc(AS_OF_TOLD, sizeof *f->told)};
    rc = f->told ? held_open(&f->held, &held) : -ENOMEM;
    if (rc < 0)
        goto free_told;
    rc = logdir_open(&f->logs, datadir->log_fd, l, log_size);
    if (rc == 0)
        return 0;
    held_close(f->held);
free_told:
    free(f->told);
    return rc;
}

void
as_of_fini(struct as_of *f)
{
    as_of_end_turn(f);
    held_close(f->held);
    logdir_close(&f->logs);
    pending_set_fini(&f->before);
    free(f->told);
}

/* ---- the clock --------------------------------------------------------- */

static void
forget_claims(struct as_of *f)
{
    f->as_of_ms = 0;
    f->sure_ms = 0;
    memset(f->told, 0, AS_OF_TOLD * sizeof *f->told);
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

/* Whether the clock was set back since the last look, which left it `most`
 * ahead of the monotonic one.  Forgets claims of times that come again. */
static bool
was_set_back(struct as_of *f, uint64_t now, int64_t most)
{
    const bool set_back = f->look > 0 && most < f->ahead_ms;
    const uint64_t by = set_back ? (uint64_t)(f->ahead_ms - most) : 0;

    if (f->as_of_ms >= now || (set_back && f->as_of_ms + by >= f->seen_ms))
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

/* ---- looking ----------------------------------------------------------- */

/* Claims the latest time that the logs allow.  They were scanned after the
 * millisecond `ended` was over, and before `then`. */
static void
claim_time(struct as_of *f, uint64_t ended, uint64_t then, uint64_t oldest,
           uint64_t newest)
{
    const bool is_past = newest > then || f->before.count > 0;
    uint64_t most = ended;

    if (is_past && f->as_of_ms < most)
        most = f->as_of_ms; /* claimed before the clock was set back */
    if (oldest <= most)
        most = oldest > 0 ? oldest - 1 : 0;
    if (most >= f->as_of_ms) {
        f->as_of_ms = most;
    } else if (is_past) {
        forget_claims(f);
        f->as_of_ms = most;
    }
}

/* Begins a snapshot of what is held.  Those of the store are older, and must
 * not answer what is claimed by this one. */
static int
look_held(struct as_of *f)
{
    int rc;

    store_read_end(f->store);
    f->held_open = false;
    rc = held_snapshot_begin(f->held);
    if (rc < 0)
        return report_unknown(rc, HELD_FOLDER);
    f->held_open = true;
    return 0;
}

/* Scans the logs, then reads held/.  Claims a new time only if both work. */
static int
refresh_claim(struct as_of *f)
{
    const uint64_t now = clock_unix_ms();
    uint64_t oldest, newest, then;
    int64_t least, most;
    bool set_back;
    int rc;

    compare_clocks(&least, &most);
    set_back = was_set_back(f, now, most);
    rc = pending_span_ms(&f->logs, &oldest, &newest);
    then = clock_unix_ms();
    if (rc == 0)
        rc = heed_clock(f, set_back || newest > then);
    if (rc < 0) /* ahead_ms stays: the next look finds the same */
        return report_unknown(rc, "data/log");
    rc = look_held(f);
    if (rc < 0)
        return rc;
    f->look++;
    f->seen_ms = clock_unix_ms();
    f->ahead_ms = least;
    claim_time(f, now - 1, then, oldest, newest);
    f->is_held = held_any(f->held);
    if (!f->is_held) {
        f->sure_ms = f->as_of_ms;
        as_of_end_turn(f);
    }
    return 0;
}

void
as_of_refresh(struct as_of *f, uint64_t now_ms)
{
    uint64_t start, took;

    if (now_ms < f->until_ms && clock_unix_ms() >= f->seen_ms)
        return;
    start = clock_ns();
    (void)refresh_claim(f); /* said; the last claim only grows old */
    f->store_ms = store_as_of(f->store);
    took = (clock_ns() - start) * LOOK_SHARE / 1000000;
    if (took < AS_OF_AGE_MS)
        took = AS_OF_AGE_MS;
    if (took > LOOK_AGE_MAX)
        took = LOOK_AGE_MAX;
    f->until_ms = now_ms + took;
}

void
as_of_end_turn(struct as_of *f)
{
    if (f->held_open)
        held_snapshot_end(f->held);
    f->held_open = false;
}

/* ---- what is claimed of one keyspace ----------------------------------- */

/* The claim of this keyspace.  Names that share a place only cost a read of
 * held/, so choosing them gains a client nothing. */
static struct as_of_claim *
place_of(struct as_of *f, const uint8_t *name, size_t size)
{
    static const struct hash_key any_key = {.k0 = 0};

    return &f->told[hash_name(&any_key, size, name, size) % AS_OF_TOLD];
}

/* What the logs and what is held for this keyspace allow to claim. */
static int
claim_held(struct as_of *f, const uint8_t *name, size_t size, uint64_t *as_of)
{
    uint64_t oldest, newest;
    int rc = 0;

    if (!f->held_open)
        rc = look_held(f);
    if (rc == 0)
        rc = held_span(f->held, name, size, &oldest, &newest);
    if (rc < 0)
        return report_unknown(rc, HELD_FOLDER);
    *as_of = f->as_of_ms;
    if (newest > f->seen_ms)
        *as_of = 0; /* received before the clock was set back: unknown */
    else if (oldest <= f->as_of_ms)
        *as_of = oldest > 0 ? oldest - 1 : 0;
    return 0;
}

/* What this directory's logs and held records allow. */
static uint64_t
find_claim(struct as_of *f, const uint8_t *name, size_t size)
{
    struct as_of_claim *told;
    uint64_t as_of = 0;
    bool is_same;

    assert(f->until_ms > 0);
    assert(size <= sizeof told->name);
    if (!f->is_held)
        return f->as_of_ms;
    told = place_of(f, name, size);
    is_same = told->look > 0 && told->size == size &&
              (size == 0 || memcmp(told->name, name, size) == 0);
    if (is_same && told->look == f->look)
        return told->as_of_ms;

    /* When it cannot be read, what was true once still is. */
    if (claim_held(f, name, size, &as_of) < 0 || as_of < f->sure_ms)
        as_of = f->sure_ms;
    if (is_same && as_of < told->as_of_ms)
        as_of = told->as_of_ms;
    told->look = f->look;
    told->as_of_ms = as_of;
    told->size = (uint16_t)size;
    if (size > 0)
        memcpy(told->name, name, size);
    return as_of;
}

int64_t
as_of_get(struct as_of *f, const uint8_t *name, size_t size)
{
    const uint64_t as_of = find_claim(f, name, size);

    return (int64_t)(as_of < f->store_ms ? as_of : f->store_ms);
}

struct held *
as_of_held(struct as_of *f)
{
    return f->held_open || look_held(f) == 0 ? f->held : NULL;
}
