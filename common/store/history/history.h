/* common/store/history/history.h - the increments of each key by time: durable,
 * log-structured, beside the totals of a keyspace.
 *
 * Tiers: each has a step, and keeps sums per key and step (setup/tiers.h).  A
 * delta goes into the finest tier that still retains its time, as a row of a
 * new run: nothing is rewritten in place.  Runs lie in periods.
 *
 *     run      rows sorted by key: rows.h.  Immutable.  Level 0 are those
 *              that merges append; eight of a level become one of the next,
 *              and above the finest tier all of a period as soon as those
 *              beside the largest are an eighth of it
 *     period   `period` minutes of a tier, and a record of the runs in it.
 *              Over: two minutes after its end.  Then its runs become one,
 *              and that is rolled up
 *     roll-up  each key's sum over the period becomes one cell of a run in the
 *              next tier.  The run it came from is `rolled` from then on, and
 *              stays, for finer answers, until the tier no longer keeps it
 *     late     what comes for a period that is over is a run that is not
 *              rolled yet, like any other
 *
 * So a tier consists of its own runs and of all runs of finer tiers that are
 * not rolled yet: every answer is exact at every moment, however far compaction
 * is behind, and each delta is in exactly one run that is not rolled.
 *
 * A job (compaction or roll-up) reads whole runs and writes one new run, which
 * no query reads until it is complete; in slices, each one transaction.  In the
 * last slice the new run begins to count and its inputs are removed, or rolled,
 * in one step.  Blocks of removed runs are deleted in slices, too.
 *
 * A block says the largest sum of its rows.  Where the blocks of all runs
 * together cannot reach the sum that a scan still wants, it goes on by their
 * heads: so the top of a running day reads few of its rows, as long as the day
 * is few runs.
 *
 *     sum of the counts = base + added - clipped
 *     added             = sum of the runs that are not rolled + dropped
 *
 * and the same for each key, if nothing was there before and nothing was
 * dropped; `clipped` is what int64 could not hold.  A deleted key is removed
 * from all runs, and the totals of past times fall by it (erase.c).
 *
 * Keys of the kv, integers big-endian:
 *
 *     tier u8 | period u32                        a period's record
 *     tier u8 | period u32 | level u8 | run u32 | where the block begins
 *
 * Times are minutes since 1970.  Ownership: struct history is the caller's,
 * read from bytes and written back in the transaction that changes the kv.
 * Nothing here knows LMDB.  Errors: 0 or a negative errno; -EBADMSG damage,
 * -ENOMEM; those of the kv. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HISTORY_HISTORY_H
#define COUNTD_COMMON_STORE_HISTORY_HISTORY_H

#include "common/setup/tiers.h"
#include "common/store/history/rows.h"
#include "common/store/store.h"

#define HISTORY_TIERS        TIERS_MAX
#define HISTORY_NEVER        UINT32_MAX /* no period, no minute */
#define HISTORY_CLOSED       15         /* level of a period's only run */
#define HISTORY_EIGHT        8          /* runs of a level become one */
#define HISTORY_RUNS_FULL    80         /* of a period, that merges append */
#define HISTORY_CLOSED_AFTER 2          /* minutes after its end */
#define HISTORY_SMALL        16         /* blocks: not worth a commit */
#define HISTORY_SLICE        400        /* blocks a job writes at a time */
#define HISTORY_AHEAD_MAX    1440       /* minutes a clock may be ahead */

/* ---- state ------------------------------------------------------------- */

struct history_tier {
    uint32_t step, period, keep;
    uint32_t floor; /* nothing before it is kept here; 0: all is */
    uint32_t first; /* oldest and newest period; HISTORY_NEVER: none */
    uint32_t last;
    uint32_t open;         /* none before it is to be closed or rolled */
    uint32_t compact_from; /* a period with many runs of a level; NEVER: none */
    uint32_t dropped_at;   /* when a period was last removed */
    uint64_t blocks;       /* in all its runs */
    uint64_t bytes;
    int128 in;      /* sum that was ever added */
    int128 rolled;  /* part of `in` that is in the next tier, too */
    int128 dropped; /* part of `in` that retention has removed */
};

/* At a time one for new runs, one for those above, one for periods that are
 * over: a long one keeps no short one waiting. */
#define HISTORY_JOBS 3

/* Runs of a period: a full one still has a place for what each job makes of
 * them, or it could never be compacted again. */
#define HISTORY_RUNS_MAX (HISTORY_RUNS_FULL + HISTORY_JOBS)

enum history_job_kind {
    HISTORY_REST,
    HISTORY_COMPACT, /* runs become one */
    HISTORY_ROLL,    /* a run's sums go to the next tier */
    HISTORY_SWEEP    /* blocks of runs that have gone are removed */
};

struct history_job {
    enum history_job_kind kind;
    uint8_t tier, to_tier;
    uint32_t period, to_period; /* from, to */
    uint8_t level;              /* level of the new run */
    uint32_t run;
    uint16_t at_size; /* where its next block begins */
    uint8_t at[HISTORY_KEY_MAX];
};

struct history {
    unsigned count; /* tiers */
    uint32_t start; /* the minute it began; 0: with the keyspace */
    uint32_t run;   /* the last one's number */
    int128 base;    /* sum of all counts when it began, without deleted keys */
    int128 added, clipped;
    struct history_job jobs[HISTORY_JOBS];
    struct history_tier tier[HISTORY_TIERS];
};

/* The record: bytes of no fixed size, without a checksum of its own. */
#define HISTORY_STATE_MAX 1600

/* `whole`: there was nothing before. */
void history_begin(struct history *h, const struct tiers *tiers, uint32_t now,
                   bool whole, int128 base);
size_t history_put(const struct history *h, uint8_t bytes[HISTORY_STATE_MAX]);
int history_get(struct history *h, const uint8_t *bytes, size_t size);

/* Takes over how long steps are kept.  False: the steps are others, and those
 * that it began with stay. */
bool history_set(struct history *h, const struct tiers *tiers);

static inline uint32_t
history_period(const struct history_tier *t, uint32_t minute)
{
    return minute - minute % t->period;
}

/* Whether everything that ever came is in the runs. */
static inline bool
history_is_whole(const struct history *h)
{
    return h->start == 0 && h->tier[h->count - 1].floor == 0;
}

/* ---- writing (append.c) ------------------------------------------------ */

struct history_of;

/* Appends the deltas of `of`.  *ahead: how many were more than a day in the
 * future, and are counted now.  -EAGAIN: a period is nearly full, and nothing was
 * written: compact, then repeat.  -EBUSY: it is full. */
int history_append(struct history *h, const struct kv *kv,
                   const struct history_of *of, uint64_t *ahead);

/* A key that is deleted. */
struct history_erasure {
    const uint8_t *key;
    uint16_t key_size;
    int128 count; /* that it had */
    int128 found; /* a result: the sum of its runs that are not rolled */
};

/* Erases keys, sorted and each once, from all runs.  Jobs under way begin anew,
 * and the next compaction sweeps what they wrote.  Reads at most *blocks blocks,
 * and says how many.  -E2BIG: they were not enough; the kv and the state are
 * then no longer of use. */
int history_erase(struct history *h, const struct kv *kv,
                  struct history_erasure *keys, size_t count, size_t *blocks);

/* ---- care (compact.c) --------------------------------------------------- */

struct history_limits {
    uint32_t now; /* minute */
    uint64_t max; /* bytes of all runs; 0: no limit */
};

struct history_compacted {
    size_t blocks; /* read and written */
    bool more;     /* there is more to do now */
};

/* Working memory, for any number of calls. */
struct history_compact;

struct history_compact *history_compact_new(void);
void history_compact_free(struct history_compact *c);

/* Compacts up to about `blocks` blocks, within the limits of `of`; says when
 * history.max has removed something. */
int history_compact(struct history *h, const struct kv *kv,
                    const struct history_of *of, size_t blocks,
                    struct history_compacted *out);

/* The minute at which there will be something to do, if nothing comes; small
 * periods may wait a day.  HISTORY_NEVER: nothing will. */
uint32_t history_due(const struct history *h, const struct kv *kv);

/* ---- what a transaction changes (change.c) ------------------------------ */

/* A keyspace before its counts change, and what is to be done with its history.
 */
struct history_of {
    const uint8_t *name;
    size_t name_size;
    const struct tiers_rules *rules; /* NULL: stored history goes on, and none
                                        begins */
    bool only_new; /* rules are for keyspaces without keys and history */
    bool has_history;
    uint64_t keys;
    int128 sum;
    const struct store_delta *deltas; /* to be added, sorted as in store.h */
    size_t delta_count;
    struct history_limits limits;
    struct history_compact *compact;
};

/* The current minute; NULL: by clock_unix_ms(). */
uint32_t history_minute(uint64_t (*now_ms)(void));

/* Whether history adds up to the sum of all counts. */
static inline bool
history_explains(const struct history *h, int128 sum)
{
    return sum == h->base + h->added - h->clipped;
}

/* Begins history, or goes on with what was read into `h` with the result `rc`.
 * 1: there is one; 0: there is none, and what is stored is to be removed. */
int history_enter(struct history *h, const struct history_of *of, int rc);

/* history_append(), with a compaction first if that must be; *blocks: how many
 * were written. */
int history_add(struct history *h, const struct kv *kv,
                const struct history_of *of, uint64_t *blocks);

/* ---- reading (scan.c, history_answer.c) --------------------------------- */

/* The span of a question, and the tier that answers it: the coarsest whose step
 * divides all three.  -EINVAL: there is none, or it makes no sense. */
int history_tier_of(const struct history *h, uint32_t from, uint32_t to,
                    uint32_t step, unsigned *tier);

/* From when on a tier's sums are all there is; 0: from the beginning. */
uint32_t history_since(const struct history *h, unsigned tier);

/* Sums of a key (of size 0: of all keys), or of all keys that begin so, by steps
 * of a span, into buckets that are all zero at first. */
struct history_range {
    const uint8_t *key;
    size_t key_size;
    uint32_t from, to, step;
    struct store_bucket *buckets;
    /* Goes over those that begin so; NULL: the key. */
    struct history_scan *keys;
};

/* Goes on behind the first *done minutes of the span, which is 0 at first, in
 * parts that are each of a moment of its own.  -EAGAIN: clock_ns() is until_ns
 * (0: no end), and *done says how far it came. */
int history_read(const struct history *h, const struct kv *kv,
                 const struct history_range *a, uint64_t until_ns,
                 uint32_t *done);

/* Goes over the keys with a prefix and sums in a span, in order, from `*at` on:
 * calls `row` with each sum, which says the sum below which it wants no more
 * (keys whose blocks cannot reach it may be left out).  Ends when clock_ns() is
 * `until_ns`: -EAGAIN, and `at` is where to go on. */
struct history_scan {
    const uint8_t *prefix;
    size_t prefix_size;
    bool (*wants)(void *ctx, const uint8_t *key, size_t size); /* NULL: all */
    uint32_t from, to;
    uint64_t until_ns; /* 0: no end */
    int128 (*row)(void *ctx, const uint8_t *key, size_t size, int128 sum);
    bool (*is_full)(void *ctx); /* it ends here; NULL: never */
    void *ctx;
    const struct history_range *range; /* instead of `row`: a part of its span,
                                          which each key is added to */
    struct store_history_place *at;    /* row() returns the next at->least */
};

int history_scan(const struct history *h, const struct kv *kv,
                 struct history_scan *asked);

/* Answers a question; errors as of store_history().  (history_answer.c) */
int history_answer(const struct history *h, const struct kv *kv,
                   struct store_history_query *q, uint64_t until_ns);

/* ---- check (history_check.c) -------------------------------------------- */

struct history_check {
    void (*fault)(void *ctx, const char *text);
    void *ctx;
    uint64_t blocks;  /* read */
    uint64_t entries; /* of the kv that there should be */
    uint8_t hash[16]; /* a random key: the caller's */
    uint128 proof;    /* over all keys, of history_proof() of their totals as
                         the runs have them */
};

/* A key's share of the proof that all keys' totals are what the runs say. */
uint128 history_proof(const uint8_t hash[16], const uint8_t *key, size_t size,
                      int128 sum);

/* What the keyspace of a history has. */
struct history_whole {
    uint64_t entries; /* of the kv */
    uint64_t saturated;
    int128 sum;    /* of all counts */
    uint128 proof; /* of history_proof() of all rows */
};

/* Every block and record against each other, the state and the keyspace.  What
 * an item of the kv points to is used only until the kv is asked again. */
int history_check(const struct history *h, const struct kv *kv,
                  const struct history_whole *whole, struct history_check *out);

#endif
