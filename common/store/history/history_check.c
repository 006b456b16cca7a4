/* common/store/history/history_check.c - every block and record of history
 * against each other and the state.
 *
 * Entry points: history_proof(), history_check(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/runs.h"

#include <errno.h>
#include <stdio.h>

#include "common/base/bytes.h"
#include "common/wire/name.h"

/* What a tier's runs add up to. */
struct tier_sums {
    uint64_t blocks, bytes;
    int128 sum, rolled;
};

struct checking {
    const struct history *h;
    const struct kv *kv;
    struct history_check *out;
    struct tier_sums tally[HISTORY_TIERS];
    unsigned tier;
};

static void
report_fault(struct checking *c, const char *what)
{
    char text[160];

    /* A cut text is fine. */
    (void)snprintf(text, sizeof text, "history: tier %u: %s", c->tier, what);
    c->out->fault(c->out->ctx, text);
}

uint128
history_proof(const uint8_t hash[16], const uint8_t *key, size_t size,
              int128 sum)
{
    uint8_t out[16];

    name_siphash128(hash, key, size, out);
    return get_le64(out) * (uint128)sum;
}

/* ---- one run ----------------------------------------------------------- */

/* What a run adds up to. */
struct run_tally {
    uint64_t cells, rows;
    int128 sum;
    int128 all[HISTORY_CELLS], keys[HISTORY_CELLS];
};

static void
check_row(struct checking *c, const struct period *p, const struct run_info *r,
          const struct rows_reader *b, struct run_tally *y)
{
    const struct history_tier *t = &c->h->tier[p->tier];
    int128 sums[HISTORY_CELLS], *to = y->rows++ == 0 ? y->all : y->keys;
    int128 sum = 0;

    if (b->cells >> 1 >> (t->period / t->step - 1) != 0)
        report_fault(c, "a row has more steps than its period");
    if (!rows_sums_fit(b))
        report_fault(c, "a row's sums are not of its size");
    rows_sums(b, sums);
    y->cells |= b->cells;
    for (uint64_t rest = b->cells; rest != 0; rest &= rest - 1) {
        const int i = __builtin_ctzll(rest);

        to[i] += sums[i];
        sum += sums[i];
    }
    y->sum += b->key_size > 0 ? sum : 0;
    if (b->key_size == 0 && y->rows > 1)
        report_fault(c, "a run has two rows of all keys");
    if (b->key_size > 0 && (r->flags & RUN_ROLLED) == 0)
        c->out->proof += history_proof(c->out->hash, b->key, b->key_size, sum);
}

static int
read_rows(struct checking *c, const struct period *p, const struct run_info *r,
          struct run_tally *y)
{
    uint8_t last[HISTORY_KEY_MAX];
    size_t last_size = 0, blocks = 0;
    struct source s = {.kv = c->kv, .loaded = &blocks};
    int rc;

    rc = source_open(&s, p, r, last, 0);
    while (rc == 0 && !s.over) {
        if (y->rows == 0 ? s.block.key_size != 0
                         : bytes_compare(last, last_size, s.block.key,
                                         s.block.key_size) >= 0)
            report_fault(c, "rows are not in order");
        check_row(c, p, r, &s.block, y);
        last_size = s.block.key_size;
        memcpy(last, s.block.key, last_size);
        rc = source_next(&s);
    }
    if (rc == 0 && blocks != r->blocks)
        rc = -EBADMSG;
    c->out->blocks += blocks;
    return rc;
}

static int
check_run(struct checking *c, const struct period *p, const struct run_info *r)
{
    struct run_tally y = {.rows = 0};
    struct tier_sums *t = &c->tally[p->tier];
    int rc;

    t->blocks += r->blocks;
    t->bytes += r->bytes;
    if (!run_counts(r))
        return 0; /* not whole */
    rc = read_rows(c, p, r, &y);
    if (rc == -EBADMSG) {
        report_fault(c, "a block of a run is damaged or missing");
        rc = 0;
    } else if (rc == 0) {
        if (y.sum != r->sum || y.cells != r->cells)
            report_fault(c, "a run is not what its record says");
        if (memcmp(y.all, y.keys, sizeof y.all) != 0)
            report_fault(c, "the row of all keys is not the sum of the others");
    }
    t->sum += r->sum;
    t->rolled += (r->flags & RUN_ROLLED) != 0 ? r->sum : 0;
    return rc;
}

/* ---- tiers ------------------------------------------------------------- */

static int
check_tier(struct checking *c)
{
    const struct history_tier *t = &c->h->tier[c->tier];
    const struct tier_sums *y = &c->tally[c->tier];
    uint32_t at = 0, last = HISTORY_NEVER;
    struct period p;
    int rc;

    while ((rc = period_after(c->h, c->kv, c->tier, at, &p)) > 0) {
        if (p.before != last)
            report_fault(c, "periods are not linked");
        for (unsigned i = 0; i < p.count; i++) {
            rc = check_run(c, &p, &p.runs[i]);
            if (rc < 0)
                return rc;
        }
        last = p.start;
        at = p.start + 1;
        c->out->entries++;
    }
    if (rc == -EBADMSG) {
        report_fault(c, "a period's record is damaged or missing");
        return 0;
    }
    if (rc < 0)
        return rc;
    c->out->entries += y->blocks;
    if (last != t->last)
        report_fault(c, "its last period is not the one that the state says");
    if (y->blocks != t->blocks || y->bytes != t->bytes)
        report_fault(c, "it has not the blocks that the state says");
    if (y->sum != t->in - t->dropped)
        report_fault(c, "its sum is not what the state says");
    return 0;
}

/* Tiers against each other and the total. */
static void
check_tiers(struct checking *c)
{
    const struct history *h = c->h;
    int128 added = 0;

    for (c->tier = 0; c->tier < h->count; c->tier++) {
        const struct history_tier *t = &h->tier[c->tier];
        const struct tier_sums *y = &c->tally[c->tier];

        added += t->in;
        if (c->tier + 1 == h->count)
            break;
        added -= t->rolled;
        if (y->sum - y->rolled != t->in - t->rolled)
            report_fault(c, "what is not rolled up is not what the state says");
    }
    if (added != h->added)
        report_fault(c, "the tiers are not all that was added");
}

int
history_check(const struct history *h, const struct kv *kv,
              const struct history_whole *whole, struct history_check *out)
{
    struct checking c = {.h = h, .kv = kv, .out = out};
    int rc = 0;

    for (c.tier = 0; rc == 0 && c.tier < h->count; c.tier++)
        rc = check_tier(&c);
    if (rc < 0)
        return rc;
    check_tiers(&c);
    if (out->entries != whole->entries)
        out->fault(out->ctx, "history: it has entries that belong to no run");
    if (!history_explains(h, whole->sum))
        out->fault(out->ctx, "history: it does not explain the sum");
    if (history_is_whole(h) && whole->saturated == 0 &&
        out->proof != whole->proof)
        out->fault(out->ctx,
                   "history: it does not explain the counts of the keys");
    return 0;
}
