/* common/client/cmd/export_history.c - countd export --history: all of the
 * history of a keyspace as lines that countd load reads, and what its counts
 * have beyond that.
 *
 *     step by step    each key's sum in the finest step that is retained, of the
 *                     step's beginning: in order of time, then key, since load
 *                     sends a time message for each change of the minute
 *     then the rest   what a key's count has that no step has: from before there
 *                     was history, or removed since
 *
 * A sum of 0 is two lines, so that the key and the step are there behind a load,
 * and one beyond int64 is several.  A count at a bound that its sum is beyond has
 * no rest: a load stops at the bound, too.
 *
 * Entry points: export_history(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/event_time.h"

/* Rows of one answer about sums: a number in rows[i].count, unless `wide` has
 * it, and the bytes of the keys behind them. */
struct page {
    int64_t from, to; /* the step; 0 and 0: there is none */
    size_t count;
    struct countd_row rows[COUNTD_ROWS_MAX];
    struct countd_sum sums[COUNTD_ROWS_MAX]; /* any: instead of the count */
    uint8_t *keys;
    size_t keys_size;
};

/* ---- asking -------------------------------------------------------------- */

static int
take_page(struct document *d, struct page *p)
{
    uint8_t *at;

    if (d->answer.size > p->keys_size) {
        free(p->keys);
        p->keys = malloc(d->answer.size);
        p->keys_size = p->keys ? d->answer.size : 0;
        if (!p->keys)
            return -ENOMEM;
    }
    at = p->keys;
    memset(p->sums, 0, sizeof p->sums);
    while (document_next(d)) {
        int size;

        if (!d->in_rows) {
            document_number(d, "from", &p->from);
            document_number(d, "to", &p->to);
            continue;
        }
        document_sum(d, "sum", &p->sums[d->row]);
        size = document_name(d, "key", at);
        if (size < 0)
            continue;
        p->rows[d->row].key = (const char *)at;
        p->rows[d->row].key_size = (size_t)size;
        at += size;
        document_plain_rows(d, p->rows, &at);
    }
    p->count = d->row;
    return 0;
}

/* The rows behind a key of the step at `from`; below 0: of all that is
 * retained. */
static int
ask_sums(struct export *e, int64_t from, const struct cmd_name *after,
         struct page *p)
{
    struct document d;
    int rc;

    p->from = p->to = 0;
    document_about(e->c, &d, "sums", e->keyspace.bytes, e->keyspace.size, NULL,
                   0);
    if (from >= 0)
        document_put_number(&d, "from", from, "");
    if (after->size > 0)
        document_put_name(&d, "after", after->bytes, after->size);
    document_put_number(&d, "n", COUNTD_ROWS_MAX, "");
    rc = document_ask(&d);
    if (rc == 0)
        rc = take_page(&d, p);
    return document_end_with(&d, rc, NULL);
}

static void
keep_last(const struct page *p, struct cmd_name *after)
{
    const struct countd_row *row = &p->rows[p->count - 1];

    after->size = row->key_size;
    memcpy(after->bytes, row->key, row->key_size);
}

static int128
sum_of(const struct page *p, size_t row)
{
    const struct countd_sum *s = &p->sums[row];

    return s->any ? int128_of(s->high, s->low) : p->rows[row].count;
}

/* ---- lines --------------------------------------------------------------- */

static void
print_line(struct export *e, const struct countd_row *row, int64_t n,
           int64_t at)
{
    const struct cell cells[] = {cell_name(e->keyspace.bytes, e->keyspace.size),
                                 cell_name(row->key, row->key_size),
                                 cell_number(n), cell_number(at)};

    output_row(&e->out, cells);
}

static void
print_sum(struct export *e, const struct countd_row *row, int128 sum,
          int64_t at)
{
    if (at < EVENT_TIME_MIN)
        at = EVENT_TIME_MIN;
    if (sum == 0) {
        print_line(e, row, 1, at);
        sum = -1;
    }
    while (sum != 0) {
        const int64_t n = sum > INT64_MAX   ? INT64_MAX
                          : sum < INT64_MIN ? INT64_MIN
                                            : (int64_t)sum;

        print_line(e, row, n, at);
        sum -= n;
    }
}

/* ---- steps --------------------------------------------------------------- */

/* A step that became another one while it was printed is there in part. */
static void
check_step(struct export *e, const struct page *p, int64_t from, int64_t to,
           bool goes_on)
{
    if (goes_on && (p->from != from || p->to != to))
        e->is_torn = true;
}

static int
print_steps(struct export *e, struct page *p)
{
    struct cmd_name after = {.size = 0};
    int64_t at = e->from, from = 0, to = 0;
    int rc;

    do {
        rc = ask_sums(e, at, &after, p);
        if (rc < 0 || p->to == 0 || p->from >= e->to)
            break;
        check_step(e, p, from, to, after.size > 0);
        from = p->from;
        to = p->to;
        for (size_t i = 0; i < p->count; i++)
            print_sum(e, &p->rows[i], sum_of(p, i), from);
        at = from;
        if (p->count == COUNTD_ROWS_MAX) {
            keep_last(p, &after);
        } else {
            after.size = 0;
            at = to;
        }
    } while (!ferror(stdout));
    return rc;
}

/* ---- the rest ------------------------------------------------------------ */

static int
compare_rows(const struct countd_row *a, const struct countd_row *b)
{
    return bytes_compare((const uint8_t *)a->key, a->key_size,
                         (const uint8_t *)b->key, b->key_size);
}

/* The next page of sums when all of this one are before what comes. */
static int
refill(struct export *e, struct page *p, size_t *at)
{
    struct cmd_name after;

    if (*at < p->count || p->count < COUNTD_ROWS_MAX)
        return 0;
    keep_last(p, &after);
    *at = 0;
    return ask_sums(e, -1, &after, p);
}

static bool
is_explained(int64_t count, int128 sum)
{
    return sum == count || (count == INT64_MAX && sum > count) ||
           (count == INT64_MIN && sum < count);
}

/* Goes over counts and sums, which are both in key order. */
static int
print_rests_of(struct export *e, const struct countd_rows *counts,
               struct page *p, size_t *at)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < counts->count; i++) {
        const struct countd_row *row = &counts->rows[i];
        int order = -1; /* of the sum at `at` to this key */

        while ((rc = refill(e, p, at)) == 0 && *at < p->count &&
               (order = compare_rows(&p->rows[*at], row)) < 0)
            ++*at;
        if (rc < 0)
            break;
        if (*at == p->count || order > 0)
            print_sum(e, row, row->count, EVENT_TIME_MIN);
        else if (!is_explained(row->count, sum_of(p, *at)))
            print_sum(e, row, row->count - sum_of(p, *at), EVENT_TIME_MIN);
    }
    return rc;
}

static int
print_rests(struct export *e, struct page *p)
{
    const struct cmd_name *k = &e->keyspace;
    struct cmd_name after = {.size = 0};
    struct countd_rows *counts;
    size_t at = 0, got;
    int rc = ask_sums(e, -1, &after, p);

    if (rc == -ENODATA) { /* no history: all of it is the rest */
        p->count = 0;
        rc = 0;
    }
    if (rc < 0)
        return rc;
    do {
        rc = countd_keys(e->c, k->bytes, k->size, NULL, 0, after.bytes,
                         after.size, COUNTD_ROWS_MAX, &counts);
        if (rc < 0)
            return rc;
        rc = print_rests_of(e, counts, p, &at);
        got = counts->count;
        if (got > 0) {
            after.size = counts->rows[got - 1].key_size;
            memcpy(after.bytes, counts->rows[got - 1].key, after.size);
        }
        countd_rows_free(counts);
    } while (rc == 0 && got == COUNTD_ROWS_MAX && !ferror(stdout));
    return rc;
}

int
export_history(struct export *e)
{
    struct page *p = calloc(1, sizeof *p);
    int rc = p ? print_steps(e, p) : -ENOMEM;

    if (rc == -ENODATA)
        rc = 0;
    if (rc == 0 && !e->is_part && !ferror(stdout))
        rc = print_rests(e, p);
    if (p)
        free(p->keys);
    free(p);
    return rc;
}
