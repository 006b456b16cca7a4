/* reader/fresh.c - see fresh.h. */
#include "reader/fresh.h"

#include <assert.h>
#include <string.h>

#include "common/clock.h"
#include "common/diag.h"
#include "common/held.h"

/* A look may take up to a 1/LOOK_SHARE of the time; with a thousand logs it
 * costs milliseconds, and is then good for longer. */
#define LOOK_SHARE   10
#define LOOK_AGE_MAX 100

static struct diag_repeat failures;

int
fresh_init(struct fresh *f, const struct datadir *datadir,
           const struct layout *l, uint64_t log_size)
{
    *f = (struct fresh){.datadir = datadir, .held_ms = UINT64_MAX};
    return logdir_open(&f->logs, datadir->log_fd, l, log_size);
}

void
fresh_fini(struct fresh *f)
{
    logdir_close(&f->logs);
}

/* Adds one held file; a damaged one has no keyspace and, like a quarantined
 * log, holds back nothing. */
static int
note_held(void *ctx, const char *file, const struct held *h)
{
    struct fresh *f = ctx;
    struct fresh_held *to = NULL;

    (void)file; /* the name inside is the one that counts */
    if (h->name_size == 0)
        return 0;
    if (h->first_ms < f->held_ms)
        f->held_ms = h->first_ms;
    for (size_t i = 0; i < f->held_count; i++)
        if (f->held[i].size == h->name_size &&
            memcmp(f->held[i].name, h->name, h->name_size) == 0)
            to = &f->held[i];
    if (!to) {
        if (f->held_count == FRESH_HELD_MAX) {
            f->held_more = true;
            return 0;
        }
        to = &f->held[f->held_count++];
        to->size = h->name_size;
        to->first_ms = UINT64_MAX;
        memcpy(to->name, h->name, h->name_size);
    }
    if (h->first_ms < to->first_ms)
        to->first_ms = h->first_ms;
    return 0;
}

/* What the logs allow to claim at `now`, read before they were scanned. */
static uint64_t
claim(const struct fresh *f, uint64_t now, uint64_t oldest)
{
    if (oldest <= now)
        return oldest > 0 ? oldest - 1 : 0;
    if (oldest == UINT64_MAX || oldest <= clock_unix_ms())
        return now; /* it came while we looked */
    /* Stamped in the future: the clock was set back, and nobody can tell when
     * by today's clock it came.  What was claimed before stays true, unless
     * that lies in the future too. */
    return f->as_of_ms <= now ? f->as_of_ms : 0;
}

/* Looks at logs, then held files.  Stores nothing unless both work. */
static int
look(struct fresh *f)
{
    const uint64_t now = clock_unix_ms();
    uint64_t oldest;
    int rc;

    rc = logdir_oldest_ms(&f->logs, &oldest);
    if (rc < 0)
        return rc;
    f->held_ms = UINT64_MAX;
    f->held_count = 0;
    f->held_more = false;
    rc = held_each(f->datadir->held_fd, note_held, f);
    if (rc < 0) {
        f->held_ms = 0; /* anything may be held, for anybody */
        f->held_more = false;
        f->held_count = 0;
        return rc;
    }
    f->as_of_ms = claim(f, now, oldest);
    return 0;
}

void
fresh_look(struct fresh *f, uint64_t now_ms)
{
    uint64_t start, took;
    int rc;

    if (f->looked && now_ms < f->until_ms)
        return;
    start = clock_ns();
    rc = look(f);
    /* The last claim stays true for ever; it only grows old. */
    if (rc < 0)
        diag_repeating(&failures, DIAG_WARNING,
                       "cannot tell how fresh answers are: %s", strerror(-rc));
    took = (clock_ns() - start) * LOOK_SHARE / 1000000;
    if (took < FRESH_AGE_MS)
        took = FRESH_AGE_MS;
    if (took > LOOK_AGE_MAX)
        took = LOOK_AGE_MAX;
    f->looked = true;
    f->until_ms = now_ms + took;
}

int64_t
fresh_as_of(struct fresh *f, const uint8_t *name, size_t size)
{
    uint64_t held = f->held_ms;

    assert(f->looked);
    if (held != UINT64_MAX && held != 0 && size > 0) {
        held = UINT64_MAX;
        for (size_t i = 0; i < f->held_count; i++)
            if (f->held[i].size == size &&
                memcmp(f->held[i].name, name, size) == 0)
                held = f->held[i].first_ms;
        if (held == UINT64_MAX && f->held_more)
            held = f->held_ms; /* perhaps ours: claim the least */
    }
    if (held > f->as_of_ms)
        return (int64_t)f->as_of_ms;
    return held > 0 ? (int64_t)held - 1 : 0;
}
