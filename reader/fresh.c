/* reader/fresh.c - see fresh.h. */
#include "reader/fresh.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/log/pending.h"
#include "common/store/lmdb/held_files.h"

/* A look may take up to a 1/LOOK_SHARE of the time; with a thousand logs it
 * costs milliseconds, and is then good for longer. */
#define LOOK_SHARE   10
#define LOOK_AGE_MAX 100

#define TICK_MS 20 /* more than a tick of the kernel's coarse clock */

static struct diag_repeat failures;

int
fresh_init(struct fresh *f, const struct datadir *datadir,
           const struct layout *l, uint64_t log_size)
{
    *f = (struct fresh){.datadir = datadir,
                        .held_all = {.oldest_ms = UINT64_MAX}};
    return logdir_open(&f->logs, datadir->log_fd, l, log_size);
}

void
fresh_fini(struct fresh *f)
{
    logdir_close(&f->logs);
    fills_fini(&f->before);
}

static const struct fresh_span nothing_held = {.oldest_ms = UINT64_MAX};

static void
span_add(struct fresh_span *span, uint64_t ms)
{
    if (ms < span->oldest_ms)
        span->oldest_ms = ms;
    if (ms > span->newest_ms)
        span->newest_ms = ms;
}

static struct fresh_held *
find_held(struct fresh *f, const uint8_t *name, size_t size)
{
    for (size_t i = 0; i < f->held_count; i++)
        if (f->held[i].size == size && memcmp(f->held[i].name, name, size) == 0)
            return &f->held[i];
    return NULL;
}

static void
note_keyspace(struct fresh *f, const struct heldfile *h)
{
    struct fresh_held *to = find_held(f, h->name, h->name_size);

    if (!to) {
        if (f->held_count == FRESH_HELD_MAX) {
            f->held_more = true;
            return;
        }
        to = &f->held[f->held_count++];
        to->size = h->name_size;
        to->span = nothing_held;
        memcpy(to->name, h->name, h->name_size);
    }
    span_add(&to->span, h->mark.first_ms);
}

/* Adds a file for many keyspaces, which is read only when all of them could be
 * kept. */
static int
note_many(struct fresh *f, const char *file, const struct heldfile *head)
{
    struct heldfile_many many;
    struct heldfile h;
    int rc;

    span_add(&f->held_all, head->mark.first_ms);
    span_add(&f->held_all, head->newest_ms);
    if (head->keyspaces > FRESH_HELD_MAX) {
        f->held_more = true;
        return 0;
    }
    rc = heldfile_many_get(f->datadir->held_fd, file, false, &many);
    if (rc == -ENOENT || rc == -EBADMSG)
        return 0; /* merged meanwhile, or like any damaged one */
    if (rc < 0)
        return rc;
    while (heldfile_many_next(&many, &h))
        note_keyspace(f, &h);
    heldfile_many_free(&many);
    return 0;
}

/* Adds one held file; a damaged one has no keyspace and, like a quarantined
 * log, holds back nothing.  One of a newer version may be of any keyspace and
 * of any age. */
static int
note_held(void *ctx, const char *file, const struct heldfile *h)
{
    struct fresh *f = ctx;

    f->held_unknown |= h->newer;
    if (h->keyspaces > 0)
        return note_many(f, file, h);
    if (h->name_size == 0)
        return 0;
    span_add(&f->held_all, h->mark.first_ms);
    note_keyspace(f, h);
    return 0;
}

static bool
same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* True when a later change of the directory is bound to show in its times,
 * which the kernel takes from a clock of coarse ticks.  Never for times in the
 * future: the clock may pass them again. */
static bool
is_settled(const struct stat *st)
{
    const uint64_t now = clock_unix_ms();
    const struct timespec *last = &st->st_mtim;
    uint64_t last_ms;

    if (st->st_ctim.tv_sec > last->tv_sec ||
        (st->st_ctim.tv_sec == last->tv_sec &&
         st->st_ctim.tv_nsec > last->tv_nsec))
        last = &st->st_ctim;
    if (last->tv_sec < 0)
        return false;
    last_ms = (uint64_t)last->tv_sec * 1000 + (uint64_t)last->tv_nsec / 1000000;
    return now > last_ms + TICK_MS;
}

/* Lists the held files, unless the list at hand is still the one.  A file only
 * comes and goes by its name, which changes the directory's times, and thus
 * thousands of them are not opened for each look. */
static int
list_held(struct fresh *f)
{
    const int fd = f->datadir->held_fd;
    struct stat st;
    bool settled;
    int rc;

    if (fstat(fd, &st) < 0) {
        rc = -errno;
        f->listed = false;
        f->held_unknown = true;
        return rc;
    }
    if (f->listed && same_time(&f->held_mtime, &st.st_mtim) &&
        same_time(&f->held_ctime, &st.st_ctim))
        return 0;
    settled = is_settled(&st);
    f->held_unknown = false;
    f->held_more = false;
    f->held_all = nothing_held;
    f->held_count = 0;
    rc = heldfile_each(fd, note_held, f);
    f->held_unknown |= rc < 0;
    f->listed = rc == 0 && settled;
    f->held_mtime = st.st_mtim;
    f->held_ctime = st.st_ctim;
    return rc;
}

/* What the logs allow to claim at `now`, read before they were scanned; what
 * is stamped until `then`, read afterwards, may have come meanwhile. */
static uint64_t
claim(const struct fresh *f, uint64_t now, uint64_t then, uint64_t oldest,
      uint64_t newest)
{
    uint64_t most = now;

    /* What was claimed before the clock was set back stays true; look() has
     * dropped it where that lies in the future. */
    if (newest > then || f->before.count > 0)
        most = f->as_of_ms;
    if (oldest > most)
        return most;
    return oldest > 0 ? oldest - 1 : 0;
}

/* Remembers the logs of before the clock was set back until they are merged.
 *
 * That it was set back shows in its own time, or in logs stamped in the
 * future.  By today's clock nobody can tell when these came, and it will not
 * do to wait until the clock has passed their stamps: it counts the same times
 * twice, and a log of the first time round, stamped just before the second
 * reaches it, would allow to claim all the second had until then.  Only when
 * all of them are merged do stamps mean today's clock again. */
static int
heed_clock(struct fresh *f, bool set_back)
{
    if (set_back)
        return fills_note(&f->before, &f->logs);
    return f->before.count > 0 ? fills_drop_merged(&f->before, &f->logs) : 0;
}

/* Looks at logs, then held files.  Stores nothing unless both work. */
static int
look(struct fresh *f)
{
    const uint64_t now = clock_unix_ms();
    uint64_t oldest, newest, then;
    int rc;

    /* Whatever fails now: nothing is claimed of the future. */
    if (f->as_of_ms > now)
        f->as_of_ms = 0;
    rc = logdir_pending_ms(&f->logs, &oldest, &newest);
    if (rc < 0)
        return rc;
    then = clock_unix_ms();
    rc = heed_clock(f, now < f->seen_ms || newest > then);
    if (rc < 0)
        return rc; /* seen_ms stays: the next look finds the same */
    rc = list_held(f);
    if (rc < 0)
        return rc;
    f->seen_ms = clock_unix_ms();
    f->as_of_ms = claim(f, now, then, oldest, newest);
    return 0;
}

void
fresh_look(struct fresh *f, uint64_t now_ms)
{
    uint64_t start, took;
    int rc;

    if (f->looked && now_ms < f->until_ms && clock_unix_ms() >= f->seen_ms)
        return;
    start = clock_ns();
    rc = look(f);
    /* The last claim stays true for ever; it only grows old. */
    if (rc < 0)
        diag_repeating(&failures, DIAG_WARNING,
                       "cannot tell how fresh answers are: %s", diag_text(rc));
    took = (clock_ns() - start) * LOOK_SHARE / 1000000;
    if (took < FRESH_AGE_MS)
        took = FRESH_AGE_MS;
    if (took > LOOK_AGE_MAX)
        took = LOOK_AGE_MAX;
    f->looked = true;
    f->until_ms = now_ms + took;
}

/* What is held for this keyspace, or may be; for all with size 0. */
static struct fresh_span
held_for(struct fresh *f, const uint8_t *name, size_t size)
{
    const struct fresh_held *held;

    if (size == 0)
        return f->held_all;
    held = find_held(f, name, size);
    if (held)
        return held->span;
    return f->held_more ? f->held_all : nothing_held;
}

int64_t
fresh_as_of(struct fresh *f, const uint8_t *name, size_t size)
{
    const struct fresh_span held = held_for(f, name, size);

    assert(f->looked);
    if (f->held_unknown || held.newest_ms > f->seen_ms)
        return 0; /* nobody can tell */
    if (held.oldest_ms > f->as_of_ms)
        return (int64_t)f->as_of_ms;
    return held.oldest_ms > 0 ? (int64_t)held.oldest_ms - 1 : 0;
}
