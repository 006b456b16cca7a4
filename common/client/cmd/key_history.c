/* common/client/cmd/key_history.c - see key_history.h:
 * key_history_read(), then key_history_add() for each increment. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/key_history.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/array.h"

#define MINUTE 60   /* seconds */
#define DAY    1440 /* minutes; a clock may be so far ahead */
#define HOUR   60

static int
add_row(struct key_history *p, const struct key_history_row *row)
{
    const int rc =
        array_grow(&p->rows, &p->capacity, p->count + 1, sizeof *p->rows);

    if (rc == 0)
        p->rows[p->count++] = *row;
    return rc;
}

static int
add_buckets(struct key_history *p, const struct store_history_query *q)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < (q->to - q->from) / q->step; i++) {
        const struct store_bucket *b = &q->buckets[i];
        const struct key_history_row row = {
            .start = ((int64_t)q->from + (int64_t)i * q->step) * MINUTE,
            .any = true,
            .sum = b->sum,
        };

        if (!b->any)
            continue;
        p->sum += row.sum;
        rc = add_row(p, &row);
    }
    return rc;
}

/* One answer after the other, of as many steps as one can have. */
static int
read_steps(struct key_history *p, struct store *store,
           const struct store_history_query *ask, uint32_t end)
{
    const uint64_t most = (uint64_t)ask->step * STORE_BUCKETS_MAX;
    struct store_history_query q;
    uint32_t at = 0;
    int rc = 0;

    while (rc == 0 && at < end) {
        q = *ask;
        q.from = at;
        q.to = end - at < most ? end : at + (uint32_t)most;
        rc = store_history(store, &q, 0);
        if (rc == 0)
            rc = add_buckets(p, &q);
        at = q.to;
    }
    return rc;
}

/* Finds the finest step that the keyspace retains, and the time since which its
 * history is complete: the coarsest step is retained longest, the finest one
 * shows most exactly when history began. */
static int
find_step(struct key_history *p, struct store *store,
          struct store_history_query *ask, uint32_t end)
{
    static const uint32_t steps[] = {DAY, HOUR, 1};
    int found = -EINVAL;

    for (size_t i = 0; i < 3; i++) {
        struct store_history_query q = *ask;
        int rc;

        q.step = steps[i];
        q.from = q.to = end;
        rc = store_history(store, &q, 0);
        if (rc < 0 && rc != -EINVAL)
            return rc;
        if (rc < 0)
            continue;
        if (found < 0)
            ask->step = q.step;
        if (found < 0 || (int64_t)q.since * MINUTE < p->since)
            p->since = (int64_t)q.since * MINUTE;
        found = 0;
    }
    return found;
}

int
key_history_read(struct key_history *p, struct store *store,
                 const struct increment_name *keyspace,
                 const struct increment_name *key, uint64_t now_ms)
{
    const uint64_t minute = (now_ms / 60000 / DAY + 3) * DAY;
    const uint32_t end = minute < UINT32_MAX ? (uint32_t)minute : 0;
    struct store_history_query ask = {.op = STORE_HISTORY_KEY,
                                      .name = keyspace->bytes,
                                      .name_size = keyspace->size,
                                      .key = key->bytes,
                                      .key_size = key->size};
    int rc;

    ask.buckets = malloc(STORE_BUCKETS_MAX * sizeof *ask.buckets);
    if (ask.buckets == NULL)
        return -ENOMEM;
    rc = find_step(p, store, &ask, end);
    if (rc == 0)
        rc = read_steps(p, store, &ask, end);
    free(ask.buckets);
    p->kept = rc == 0;
    p->step = (int64_t)ask.step * MINUTE;
    return rc == -ENOENT || rc == -ENODATA || rc == -EINVAL ? 0 : rc;
}

/* Those of a log come by time, so mostly in the step of the one before. */
int
key_history_add(struct key_history *p, uint64_t received_ms, int64_t increment)
{
    const int64_t seconds = (int64_t)(received_ms / 1000);
    struct key_history_row row = {.logged = increment};

    if (!p->kept)
        return 0;
    row.start = seconds / p->step * p->step;
    if (p->found >= p->count || p->rows[p->found].start != row.start)
        for (p->found = 0; p->found < p->count; p->found++)
            if (p->rows[p->found].start == row.start)
                break;
    if (p->found == p->count)
        return add_row(p, &row);
    p->rows[p->found].logged += increment;
    return 0;
}

static int
by_time(const void *a, const void *b)
{
    const struct key_history_row *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

static const struct table_column history_columns[] = {
    {"history from", "from", false},
    {"sum", "sum", true},
    {"in archived logs", "logged", true},
};

void
key_history_print(struct key_history *p, struct output *o, bool utc)
{
    char from[TIME_TEXT_SIZE], sum[CELL_SUM_SIZE], logged[CELL_SUM_SIZE];

    if (o->format == OUTPUT_TSV)
        return;
    if (p->count > 0)
        qsort(p->rows, p->count, sizeof *p->rows, by_time);
    output_next_rows(o, "history", history_columns, 3);
    for (size_t i = 0; i < p->count; i++) {
        const struct key_history_row *r = &p->rows[i];
        const struct cell cells[] = {
            o->format == OUTPUT_PEOPLE ? cell_text(from)
                                       : cell_number(r->start),
            r->any ? cell_sum(r->sum, sum) : cell_none(),
            cell_sum(r->logged, logged),
        };

        cmd_time_format((uint64_t)r->start * 1000, utc, from);
        output_row(o, cells);
    }
    output_rows_end(o);
}

void
key_history_facts(const struct key_history *p, struct output *o, int64_t count)
{
    const int128 outside = (int128)count - p->sum;
    char text[CELL_SUM_SIZE];

    output_fact(o, "history_sum",
                p->kept ? cell_sum(p->sum, text) : cell_none());
    output_fact(o, "history_since",
                p->kept ? cell_number(p->since) : cell_none());
    output_fact(o, "not_in_history",
                p->kept ? cell_sum(outside, text) : cell_none());
}

void
key_history_summarize(const struct key_history *p, int64_t count, bool utc)
{
    const int128 outside = (int128)count - p->sum;
    char when[TIME_TEXT_SIZE], text[CELL_SUM_SIZE];

    if (!p->kept) {
        (void)puts("in history: no history is kept");
        return;
    }
    (void)printf("in history: %s\n", cell_sum_text(p->sum, text));
    cmd_time_format((uint64_t)p->since * 1000, utc, when);
    if (p->since > 0)
        (void)printf("not known: what came before %s, when no history was kept "
                     "yet or which is older than it is kept\n",
                     when);
    if (outside != 0)
        (void)printf("not in history: %s, %s by del or drop, or beyond a limit "
                     "of int64\n",
                     cell_sum_text(outside, text),
                     p->since > 0 ? "from before that, or changed" : "changed");
}
