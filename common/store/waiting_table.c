/* common/store/waiting_table.c - see waiting_table.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/waiting_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"

/* ---- sums ------------------------------------------------------------------- */

int
waiting_is_in(struct store *s, const uint8_t *name, size_t name_size,
              const struct log_fill *id)
{
    const struct store_batch batch = {
        .name = name, .name_size = name_size, .marks = id, .mark_count = 1};
    struct store_mark_info info;
    const int rc = store_marks(s, &batch, &info);

    return rc < 0 ? rc
                  : info.state == STORE_MARK_DONE ||
                        info.state == STORE_MARK_AHEAD;
}

/* How many of the first of these fills, which are of one log and in order, a
 * keyspace has: it has none behind the first that it has not (R3). */
static size_t
count_in(struct store *s, const struct waiting_part *parts, size_t count,
         struct waiting_sum *sum)
{
    size_t from = 0;

    while (s && sum->error == 0 && from < count) {
        const size_t at = from + (count - from) / 2;
        const int rc =
            waiting_is_in(s, sum->name, sum->name_size, &parts[at].fill->id);

        if (rc < 0)
            sum->error = rc;
        else if (rc > 0)
            from = at + 1;
        else
            count = at;
    }
    return sum->error == 0 ? from : 0;
}

static void
add_fill(struct waiting_sum *sum, const struct waiting_fill *f,
         uint32_t increments)
{
    if (sum->fills++ == 0 || f->file->since_ms < sum->since_ms)
        sum->since_ms = f->file->since_ms;
    sum->increments += increments;
    sum->bytes += f->member.size;
    if (f->id.first_ms < sum->oldest_ms)
        sum->oldest_ms = f->id.first_ms;
    if (f->id.first_ms > sum->newest_ms)
        sum->newest_ms = f->id.first_ms;
}

/* Whether part i is of the fill of the part before: another file has it, too. */
static bool
is_copy(const struct waiting_part *p, size_t i)
{
    return i > 0 && log_fill_compare(&p[i - 1].fill->id, &p[i].fill->id) == 0;
}

void
waiting_sum(struct store *s, const struct waiting *w, uint32_t name,
            struct waiting_sum *out)
{
    const struct waiting_part *p;
    size_t count, i, end;

    *out = (struct waiting_sum){
        .counts = out->counts, .ctx = out->ctx, .oldest_ms = UINT64_MAX};
    p = waiting_parts(w, name, &count);
    if (count > 0)
        out->name = name_table_name(&w->names, name, &out->name_size);
    for (i = 0; i < count; i = end) {
        for (end = i + 1;
             end < count &&
             log_fill_is_of_log(&p[end].fill->id, p[i].fill->id.uuid);)
            end++;
        i += count_in(s, p + i, end - i, out);
        for (; i < end; i++)
            if (!is_copy(p, i) &&
                (!out->counts || out->counts(out->ctx, &p[i].fill->id)))
                add_fill(out, p[i].fill, p[i].increments);
    }
}

struct order {
    const uint8_t *name;
    size_t size;
    uint32_t number;
};

static int
by_name(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    return bytes_compare(x->name, x->size, y->name, y->size);
}

int
waiting_each(struct store *s, const struct waiting *w,
             int (*row)(void *ctx, const struct waiting_sum *sum), void *ctx)
{
    struct order *names = calloc(w->names.count + 1, sizeof *names);
    struct waiting_sum sum = {.counts = NULL};
    int rc = names ? 0 : -ENOMEM;

    for (uint32_t i = 0; rc == 0 && i < w->names.count; i++) {
        names[i].name = name_table_name(&w->names, i, &names[i].size);
        names[i].number = i;
    }
    if (rc == 0)
        qsort(names, w->names.count, sizeof *names, by_name);
    for (size_t i = 0; rc == 0 && i < w->names.count; i++) {
        waiting_sum(s, w, names[i].number, &sum);
        if (sum.fills > 0)
            rc = row(ctx, &sum);
    }
    free(names);
    return rc;
}

/* ---- rows ------------------------------------------------------------------ */

const struct table_column waiting_columns[WAITING_COLUMNS] = {
    {"fills", "fills", true},       {"increments", "increments", true},
    {"bytes", "bytes", true},       {"oldest", "oldest_ms", true},
    {"since", "since_ms", true},    {"why", "why", false},
    {"keyspace", "keyspace", false}};

/* Why a keyspace does not take what waits for it, as it is now.  Of what is near
 * keyspace.max_keys only the merge knows how many keys are new. */
static void
put_why(struct store *s, const struct waiting_sum *sum,
        struct waiting_limits *limits, char why[WAITING_WHY_SIZE])
{
    struct store_query q = {
        .op = STORE_TOTAL, .name = sum->name, .name_size = sum->name_size};
    int rc = sum->error == 0 ? store_read(s, &q, NULL, 0) : sum->error;
    const bool is_new = rc == -ENOENT;
    const uint64_t keys = is_new ? 0 : q.totals.keys;

    if (is_new)
        rc = limits->keyspaces_max > 0 && limits->keyspaces == 0
                 ? store_count(s, &limits->keyspaces)
                 : 0;
    if (rc < 0)
        (void)snprintf(why, WAITING_WHY_SIZE, "%s", diag_text(rc));
    else if (is_new && limits->keyspaces_max > 0 &&
             limits->keyspaces >= limits->keyspaces_max)
        (void)snprintf(why, WAITING_WHY_SIZE, "over keyspace.max=%" PRIu64,
                       limits->keyspaces_max);
    else if (limits->keys_max > 0 && keys >= limits->keys_max)
        (void)snprintf(why, WAITING_WHY_SIZE, "over keyspace.max_keys=%" PRIu64,
                       limits->keys_max);
    else if (limits->keys_max > 0 && keys + sum->increments > limits->keys_max)
        (void)snprintf(why, WAITING_WHY_SIZE,
                       "would pass keyspace.max_keys=%" PRIu64
                       ", or is being merged",
                       limits->keys_max);
    else
        (void)snprintf(why, WAITING_WHY_SIZE, "is being merged");
}

void
waiting_cells(struct store *s, const struct waiting_sum *sum,
              struct waiting_limits *limits, char why[WAITING_WHY_SIZE],
              struct cell cells[WAITING_COLUMNS])
{
    why[0] = '\0';
    if (s)
        put_why(s, sum, limits, why);
    cells[0] = cell_number((int64_t)sum->fills);
    cells[1] = cell_number((int64_t)sum->increments);
    cells[2] = cell_number((int64_t)sum->bytes);
    cells[WAITING_OLDEST] = cell_number((int64_t)sum->oldest_ms);
    cells[WAITING_SINCE] = cell_number((int64_t)sum->since_ms);
    cells[5] = cell_text(why);
    cells[6] = cell_name(sum->name, sum->name_size);
}
