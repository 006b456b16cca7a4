/* common/store/history/erase.c - keys that are deleted go from all runs.
 *
 * history_erase() first cancels the jobs that write runs: a half-written run
 * may have the keys.  Then it goes over the periods of all tiers, and in each
 * run rewrites the blocks that have one of the keys, in place: without the row
 * a block is never larger.  If the first row of a block is removed, the block
 * begins elsewhere, so its key changes, and so does `next` of the block before
 * it; a block without rows is removed.  At last the row of all keys is reduced
 * by what was erased.  It keeps its steps, even those with nothing left; a run
 * without keys is removed.
 *
 * erase_run() handles a run, rewrite_block() a block. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/bytes.h"
#include "common/store/history/compact.h"

#include <errno.h>

/* A block in memory, while the kv changes. */
struct erase_block {
    struct run_key at;
    size_t size;
    struct rows_reader reader;
    struct rows_writer writer;
    uint8_t first[HISTORY_KEY_MAX]; /* key of the first row that stays */
    size_t first_size;
    uint8_t copy[KV_VALUE_MAX];
};

struct erase {
    struct history *history;
    const struct kv *kv;
    struct history_erasure *keys;
    size_t count;
    size_t at;     /* the first key that may lie ahead in the run */
    size_t blocks; /* blocks read */
    size_t most;   /* limit of `blocks` */
    struct run_info *run;
    struct run_key head;             /* of the run's first block */
    int128 gone[HISTORY_CELLS], sum; /* erased from the run */
    struct history_row row;
    struct erase_block block, before;
};

/* ---- blocks ------------------------------------------------------------ */

static int
load_block(struct erase *e, struct erase_block *b, struct kv_item *item)
{
    if (!run_key_same(&e->head, item) || item->size > sizeof b->copy ||
        item->key_size > sizeof b->at.bytes)
        return -EBADMSG;
    if (e->blocks++ >= e->most)
        return -E2BIG;
    memcpy(b->at.bytes, item->key, item->key_size);
    b->at.size = item->key_size;
    memcpy(b->copy, item->value, item->size);
    b->size = item->size;
    item->key = b->at.bytes;
    item->value = b->copy;
    return rows_open(&b->reader, item);
}

static void
set_at(struct erase *e, struct run_key *k, const uint8_t *at, size_t size)
{
    *k = e->head;
    memcpy(k->bytes + RUN_KEY_HEAD, at, size);
    k->size = RUN_KEY_HEAD + size;
}

/* Loads the block that begins at this key or before it. */
static int
find_block(struct erase *e, struct erase_block *b, const struct run_key *k)
{
    struct kv_item item;
    const int rc = e->kv->before(e->kv->ctx, k->bytes, k->size, &item);

    return rc > 0 ? load_block(e, b, &item) : rc < 0 ? rc : -EBADMSG;
}

/* Loads the block after the current one, by its `next`. */
static int
load_next(struct erase *e, struct erase_block *b)
{
    struct run_key k;
    int rc;

    set_at(e, &k, b->reader.next, b->reader.next_size);
    rc = find_block(e, b, &k);
    if (rc == 0 && !bytes_equal(b->at.bytes, b->at.size, k.bytes, k.size))
        return -EBADMSG;
    return rc;
}

/* Loads the block before `at`, by the largest key that is smaller than that. */
static int
find_before(struct erase *e, struct erase_block *b, const struct run_key *at)
{
    struct run_key k = *at;

    if (k.bytes[k.size - 1]-- == 0)
        k.size--;
    else
        while (k.size < sizeof k.bytes)
            k.bytes[k.size++] = 0xff;
    return find_block(e, b, &k);
}

static int
remove_block(struct erase *e, const struct erase_block *b)
{
    if (e->run->blocks == 0)
        return -EBADMSG;
    e->run->blocks--;
    e->run->bytes -= b->at.size + b->size;
    return e->kv->del(e->kv->ctx, b->at.bytes, b->at.size);
}

/* Stores the written block, which the block at `next` (NULL: none) follows. */
static int
put_block(struct erase *e, struct erase_block *b, const uint8_t *next,
          size_t next_size)
{
    b->size = rows_end(&b->writer, b->at.bytes, b->at.size, next, next_size);
    e->run->blocks++;
    e->run->bytes += b->at.size + b->size;
    return e->kv->put(e->kv->ctx, b->at.bytes, b->at.size, b->writer.bytes,
                      b->size);
}

/* ---- rows -------------------------------------------------------------- */

/* Takes the current row of the block's reader. */
static void
take_row(struct erase *e, const struct erase_block *b)
{
    e->row.key = b->reader.key;
    e->row.key_size = b->reader.key_size;
    e->row.cells = b->reader.cells;
    rows_sums(&b->reader, e->row.sums);
}

/* Whether the row is to be erased.  Keys come in order. */
static bool
is_erased(struct erase *e)
{
    const struct history_row *r = &e->row;
    int d = -1;

    while (e->at < e->count &&
           (d = bytes_compare(e->keys[e->at].key, e->keys[e->at].key_size,
                              r->key, r->key_size)) < 0)
        e->at++;
    return e->at < e->count && d == 0;
}

static void
count_erased(struct erase *e)
{
    int128 sum = 0;

    for (uint64_t rest = e->row.cells; rest != 0; rest &= rest - 1) {
        const int i = __builtin_ctzll(rest);

        e->gone[i] += e->row.sums[i];
        sum += e->row.sums[i];
    }
    e->sum += sum;
    if ((e->run->flags & RUN_ROLLED) == 0)
        e->keys[e->at].found += sum;
}

/* Writes the rows that stay.  1: some are erased; *moved: the first row,
 * too. */
static int
filter_rows(struct erase *e, struct erase_block *b, bool *moved)
{
    bool changed = false, first = true;
    int rc;

    *moved = false;
    rows_begin(&b->writer);
    while ((rc = rows_next(&b->reader)) > 0) {
        take_row(e, b);
        if (is_erased(e)) {
            count_erased(e);
            changed = true;
            *moved |= first;
        } else if (!rows_add(&b->writer, &e->row)) {
            return -EBADMSG;
        } else if (b->writer.rows == 1) {
            memcpy(b->first, e->row.key, e->row.key_size);
            b->first_size = e->row.key_size;
        }
        first = false;
    }
    return rc < 0 ? rc : changed;
}

/* ---- a block ----------------------------------------------------------- */

/* Links the block before `from` to the block that is written, by the shortest
 * key that separates it from the last row before; or to none. */
static int
link_block(struct erase *e, const struct run_key *from, bool any)
{
    struct erase_block *b = &e->before;
    const uint8_t *first = e->block.first;
    bool moved;
    size_t size;
    int rc;

    rc = find_before(e, b, from);
    if (rc == 0) /* all its rows stay: the keys to erase are later */
        rc = filter_rows(e, b, &moved);
    if (rc == 0)
        rc = remove_block(e, b);
    if (rc < 0 || !any)
        return rc < 0 ? rc : put_block(e, b, NULL, 0);
    size = rows_apart(b->writer.last, b->writer.last_size, first,
                      e->block.first_size);
    set_at(e, &e->block.at, first, size);
    rc = put_block(e, b, first, size);
    return rc < 0 ? rc
                  : put_block(e, &e->block, e->block.reader.next,
                              e->block.reader.next_size);
}

/* Puts a block of which rows were erased. */
static int
rewrite_block(struct erase *e, bool moved)
{
    struct erase_block *b = &e->block;
    const struct run_key from = b->at;
    int rc;

    if (moved && from.size == RUN_KEY_HEAD)
        return -EBADMSG; /* a run begins with the row of all keys */
    rc = remove_block(e, b);
    if (rc < 0 || !moved)
        return rc < 0 ? rc
                      : put_block(e, b, b->reader.next, b->reader.next_size);
    while (b->writer.rows == 0 && b->reader.next != NULL) {
        rc = load_next(e, b);
        if (rc == 0)
            rc = filter_rows(e, b, &moved);
        if (rc >= 0)
            rc = remove_block(e, b);
        if (rc < 0)
            return rc;
    }
    return link_block(e, &from, b->writer.rows > 0);
}

/* ---- a run ------------------------------------------------------------- */

/* Takes what was erased from the row of all keys, which begins the first block.
 * Its sums may become longer: then rows go into a second block. */
static int
lower_all_keys(struct erase *e)
{
    struct erase_block *b = &e->block;
    int rc;

    rc = find_block(e, b, &e->head);
    if (rc == 0)
        rc = remove_block(e, b);
    if (rc == 0)
        rc = rows_next(&b->reader);
    if (rc <= 0 || b->reader.key_size != 0)
        return rc < 0 ? rc : -EBADMSG;
    if (b->reader.left == 0 && b->reader.next == NULL)
        return 0; /* no key is left */
    take_row(e, b);
    for (uint64_t rest = e->row.cells; rest != 0; rest &= rest - 1)
        e->row.sums[__builtin_ctzll(rest)] -= e->gone[__builtin_ctzll(rest)];
    rows_begin(&b->writer);
    (void)rows_add(&b->writer, &e->row); /* any row fits into an empty block */
    while ((rc = rows_next(&b->reader)) > 0) {
        size_t size;

        take_row(e, b);
        if (rows_add(&b->writer, &e->row))
            continue;
        size = rows_apart(b->writer.last, b->writer.last_size, e->row.key,
                          e->row.key_size);
        rc = put_block(e, b, e->row.key, size);
        if (rc < 0)
            return rc;
        set_at(e, &b->at, e->row.key, size);
        rows_begin(&b->writer);
        (void)rows_add(&b->writer, &e->row);
    }
    return rc < 0 ? rc : put_block(e, b, b->reader.next, b->reader.next_size);
}

/* Skips the keys that lie before the next block. */
static void
pass_keys(struct erase *e)
{
    const struct rows_reader *r = &e->block.reader;

    while (e->at < e->count &&
           (r->next == NULL ||
            bytes_compare(e->keys[e->at].key, e->keys[e->at].key_size, r->next,
                          r->next_size) < 0))
        e->at++;
}

/* 1: the run has changed. */
static int
erase_run(struct erase *e, const struct period *p, struct run_info *run)
{
    bool changed = false, moved;
    struct run_key k;
    int rc;

    e->run = run;
    e->at = 0;
    e->sum = 0;
    memset(e->gone, 0, sizeof e->gone);
    run_key(&e->head, p, run, (const uint8_t *)"", 0);
    while (e->at < e->count) {
        set_at(e, &k, e->keys[e->at].key, e->keys[e->at].key_size);
        rc = find_block(e, &e->block, &k);
        if (rc == 0)
            rc = filter_rows(e, &e->block, &moved);
        if (rc > 0) {
            changed = true;
            rc = rewrite_block(e, moved);
        }
        if (rc < 0)
            return rc;
        pass_keys(e);
    }
    if (!changed)
        return 0;
    rc = lower_all_keys(e);
    run->sum -= e->sum;
    return rc < 0 ? rc : 1;
}

/* ---- periods ----------------------------------------------------------- */

static int
erase_period(struct erase *e, struct period *p)
{
    struct history_tier *t = &e->history->tier[p->tier];
    bool changed = false;
    unsigned kept = 0;
    int rc;

    for (unsigned i = 0; i < p->count; i++) {
        struct run_info *r = &p->runs[i];
        const struct run_info was = *r;

        rc = run_counts(r) ? erase_run(e, p, r) : 0;
        if (rc < 0)
            return rc;
        if (rc > 0) {
            changed = true;
            t->blocks += (uint64_t)r->blocks - was.blocks;
            t->bytes += r->bytes - was.bytes;
            t->in -= e->sum;
            t->rolled -= (r->flags & RUN_ROLLED) != 0 ? e->sum : 0;
        }
        if (r->blocks > 0 || !run_counts(r))
            p->runs[kept++] = *r;
    }
    p->count = kept;
    return changed ? period_put(e->history, e->kv, p) : 0;
}

static int
erase_tier(struct erase *e, unsigned tier)
{
    struct period p;
    uint32_t at = 0;
    int rc;

    while ((rc = period_after(e->history, e->kv, tier, at, &p)) > 0) {
        at = p.start + 1;
        rc = erase_period(e, &p);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/* ---- jobs -------------------------------------------------------------- */

/* Frees the runs that the job reads again, and removes what it has written. */
static int
cancel_job(struct history *h, const struct kv *kv, unsigned slot)
{
    struct history_job *j = &h->jobs[slot];
    struct period p;
    int rc;

    rc = period_get(h, kv, j->tier, j->period, &p);
    for (unsigned i = 0; rc == 0 && i < p.count; i++)
        p.runs[i].flags &= (uint8_t) ~(RUN_INPUT << slot);
    if (rc == 0)
        rc = period_put(h, kv, &p);
    if (rc == 0)
        rc = period_get(h, kv, j->to_tier, j->to_period, &p);
    for (unsigned i = 0; rc == 0 && i < p.count; i++)
        if (p.runs[i].run == j->run && (p.runs[i].flags & RUN_NEW) != 0)
            p.runs[i].flags = RUN_GONE;
    if (rc < 0)
        return rc;
    if (j->kind == HISTORY_COMPACT && slot != COMPACT_CLOSING &&
        h->tier[j->tier].compact_from > j->period)
        h->tier[j->tier].compact_from = j->period;
    *j = compact_sweep_of(j->to_tier, j->to_period);
    return period_put(h, kv, &p);
}

static int
cancel_jobs(struct history *h, const struct kv *kv)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < HISTORY_JOBS; i++) {
        h->jobs[i].at_size = 0; /* it may be a part of a key */
        if (h->jobs[i].kind == HISTORY_COMPACT ||
            h->jobs[i].kind == HISTORY_ROLL)
            rc = cancel_job(h, kv, i);
    }
    return rc;
}

/* ---- all --------------------------------------------------------------- */

/* Makes the record match the sum of the counts without these keys.  The part of
 * a count that is in no run was cut off, came before history began, or is no
 * longer kept. */
static void
account_erased(struct history *h, const struct history_erasure *k)
{
    h->added -= k->found;
    if (history_is_whole(h))
        h->clipped -= k->found - k->count;
    else
        h->base -= k->count - k->found;
}

int
history_erase(struct history *h, const struct kv *kv,
              struct history_erasure *keys, size_t count, size_t *blocks)
{
    struct erase e = {
        .history = h, .kv = kv, .keys = keys, .count = count, .most = *blocks};
    int rc;

    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        keys[i].found = 0;
    rc = cancel_jobs(h, kv);
    for (unsigned i = 0; rc == 0 && i < h->count; i++)
        rc = erase_tier(&e, i);
    for (size_t i = 0; rc == 0 && i < count; i++)
        account_erased(h, &keys[i]);
    *blocks = e.blocks;
    return rc;
}
