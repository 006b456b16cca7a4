/* common/store/history/write.c - writing a run. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/runs.h"

#include <assert.h>
#include <string.h>

static void
begin_block(struct run_writer *w)
{
    rows_begin(&w->block);
    if (w->kv->value_size > 0)
        w->block.size_max = w->kv->value_size;
}

void
run_begin(struct run_writer *w, const struct period *p, struct run_info *run,
          const uint8_t *at, size_t at_size)
{
    w->run = run;
    run_key(&w->key, p, run, at, at_size);
    begin_block(w);
}

/* Ends the current block; the next one begins at `next`, shortened, or the run
 * ends (NULL). */
static int
flush_block(struct run_writer *w, const uint8_t *next, size_t next_size)
{
    const struct rows_writer *b = &w->block;
    size_t size;
    int rc;

    if (next != NULL)
        next_size = rows_apart(b->last, b->last_size, next, next_size);
    size = rows_end(&w->block, w->key.bytes, w->key.size, next, next_size);
    rc = w->kv->put(w->kv->ctx, w->key.bytes, w->key.size, b->bytes, size);
    if (rc < 0)
        return rc;
    w->run->blocks++;
    w->run->bytes += size + w->key.size;
    if (next != NULL) {
        memcpy(w->key.bytes + RUN_KEY_HEAD, next, next_size);
        w->key.size = RUN_KEY_HEAD + next_size;
    }
    return 0;
}

int
run_add(struct run_writer *w, const struct history_row *row)
{
    bool fits = rows_add(&w->block, row);
    int rc;

    if (!fits) {
        rc = flush_block(w, row->key, row->key_size);
        if (rc < 0)
            return rc;
        begin_block(w);
        fits = rows_add(&w->block, row);
        assert(fits); /* any row does, into an empty one */
    }
    w->run->cells |= row->cells;
    if (row->key_size == 0)
        return 0;
    for (uint64_t rest = row->cells; rest != 0; rest &= rest - 1)
        w->run->sum += row->sums[__builtin_ctzll(rest)];
    return 0;
}

int
run_end(struct run_writer *w, const uint8_t *next, size_t next_size)
{
    return w->block.rows == 0 ? 0 : flush_block(w, next, next_size);
}
