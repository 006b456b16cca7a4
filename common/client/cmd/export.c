/* common/client/cmd/export.c - countd export: all rows, in the columns that
 * countd load reads.
 *
 * Rows come in pages, each of its own moment, largest first.  When the totals
 * of a keyspace are others at its end than at its beginning, counts changed
 * meanwhile, and that is said.
 *
 * With --history:
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
 * Read from the end: cmd_export(), export_one(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/lib/document.h"
#include "common/wire/event_time.h"

struct export
{
    struct countd *c;
    struct increment_name keyspace;
    bool is_named; /* keyspaces, of which each must exist */
    bool lacks;    /* one */
    bool history;  /* and not counts alone */
    bool is_part;  /* of it, from `from` until `to`: Unix seconds */
    bool is_torn;  /* it changed while it was printed */
    int64_t from, to;
    struct output out;
};

static const struct table_column columns[] = {
    {"keyspace", "keyspace", false},
    {"key", "key", false},
    {"count", "count", true},
    {"at", "at", false}, /* with --history */
};

static void
print_line(struct export *e, const struct countd_row *row, int64_t n,
           int64_t at)
{
    const struct cell cells[] = {cell_name(e->keyspace.bytes, e->keyspace.size),
                                 cell_name(row->key.data, row->key.size),
                                 cell_number(n), cell_number(at)};

    output_row(&e->out, cells);
}

static struct countd_query
query_keyspace(const struct export *e)
{
    return (struct countd_query){
        .keyspace = countd_bytes(e->keyspace.bytes, e->keyspace.size),
        .length = COUNTD_ROWS_MAX};
}

/* Prints all counts, largest first. */
static int
print_counts(struct export *e)
{
    struct countd_query q = query_keyspace(e);
    struct countd_rows *rows;
    size_t got;
    int rc;

    do {
        rc = countd_range(e->c, &q, &rows);
        if (rc < 0)
            return rc;
        got = rows->count;
        for (size_t i = 0; i < got; i++)
            print_line(e, &rows->rows[i], rows->rows[i].count, 0);
        q.offset += (int64_t)got;
        countd_rows_free(rows);
    } while (got == COUNTD_ROWS_MAX && !ferror(stdout));
    return 0;
}

/* ---- steps --------------------------------------------------------------- */

/* The next page comes behind the last row of this one. */
static void
go_behind(struct countd_query *q, const struct countd_rows *rows,
          struct increment_name *last)
{
    const struct countd_name key = rows->rows[rows->count - 1].key;

    memcpy(last->bytes, key.data, key.size);
    q->after = countd_bytes(last->bytes, key.size);
}

static int128
sum_of(const struct countd_row *row)
{
    return int128_of(row->sum.high, row->sum.low);
}

static int
compare_names(struct countd_name a, struct countd_name b)
{
    return bytes_compare((const uint8_t *)a.data, a.size,
                         (const uint8_t *)b.data, b.size);
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

/* A step that became another one while it was printed is there in part. */
static int
print_steps(struct export *e)
{
    struct countd_query q = query_keyspace(e);
    int64_t from = 0, to = 0;
    struct countd_rows *rows;
    struct increment_name last;
    bool ends = false;
    int rc = 0;

    for (q.from = e->from; rc == 0 && !ends; countd_rows_free(rows)) {
        rows = NULL;
        rc = document_rows(e->c, "sums", DOCUMENT_FROM | DOCUMENT_N, &q, &rows);
        ends = rc < 0 || rows->to == 0 || rows->from >= e->to || ferror(stdout);
        if (ends)
            continue;
        e->is_torn |=
            q.after.size > 0 && (rows->from != from || rows->to != to);
        from = rows->from;
        to = rows->to;
        for (size_t i = 0; i < rows->count; i++)
            print_sum(e, &rows->rows[i], sum_of(&rows->rows[i]), from);
        q.from = rows->count == COUNTD_ROWS_MAX ? from : to;
        q.after.size = 0;
        if (rows->count == COUNTD_ROWS_MAX)
            go_behind(&q, rows, &last);
    }
    return rc;
}

/* ---- the rest ------------------------------------------------------------ */

static bool
is_explained(int64_t count, int128 sum)
{
    return sum == count || (count == INT64_MAX && sum > count) ||
           (count == INT64_MIN && sum < count);
}

/* Rows in the order of keys, page by page. */
struct pager {
    const char *command;
    unsigned puts;
    struct countd_query query;
    struct increment_name last; /* key that the query goes on behind */
    struct countd_rows *rows;
    size_t count, at; /* of the rows; the next one */
    bool ended;       /* there is no page behind this one */
};

/* The next row, which stays the next one; NULL: there is none. */
static int
peek_row(struct export *e, struct pager *p, const struct countd_row **row)
{
    int rc = 0;

    if (p->at == p->count && !p->ended) {
        if (p->rows)
            go_behind(&p->query, p->rows, &p->last);
        countd_rows_free(p->rows);
        p->rows = NULL;
        rc = document_rows(e->c, p->command, p->puts, &p->query, &p->rows);
        p->count = p->rows ? p->rows->count : 0;
        p->ended = p->count < COUNTD_ROWS_MAX;
        p->at = 0;
    }
    *row = p->at < p->count ? &p->rows->rows[p->at] : NULL;
    return rc;
}

/* Goes over counts and sums, which are both in key order.  Without a history all
 * of a count is the rest. */
static int
print_rests(struct export *e)
{
    struct pager counts = {.command = "keys",
                           .puts = DOCUMENT_N | DOCUMENT_MAY_LACK,
                           .query = query_keyspace(e)};
    struct pager sums = {.command = "sums",
                         .puts = DOCUMENT_FROM | DOCUMENT_N,
                         .query = query_keyspace(e)};
    const struct countd_row *row, *sum;
    int rc;

    sums.query.from = -1;
    while ((rc = peek_row(e, &counts, &row)) == 0 && row && !ferror(stdout)) {
        int order = 1; /* of the next sum to this key */

        rc = peek_row(e, &sums, &sum);
        /* There is no history only if its first page says so. */
        if (rc < 0 && (rc != -ENODATA || sums.query.after.size > 0))
            break;
        if (sum)
            order = compare_names(sum->key, row->key);
        if (order < 0) {
            sums.at++;
            continue;
        }
        if (order > 0 || !is_explained(row->count, sum_of(sum)))
            print_sum(e, row, row->count - (order > 0 ? 0 : sum_of(sum)),
                      EVENT_TIME_MIN);
        counts.at++;
    }
    countd_rows_free(counts.rows);
    countd_rows_free(sums.rows);
    return rc;
}

static int
export_history(struct export *e)
{
    const int rc = print_steps(e);

    if (rc < 0 && rc != -ENODATA)
        return rc;
    return e->is_part || ferror(stdout) ? 0 : print_rests(e);
}

/* ---- keyspaces ----------------------------------------------------------- */

/* Exports e->keyspace.  0, or an error of libcountd; a keyspace that is not
 * there is reported. */
static int
export_one(struct export *e)
{
    const struct countd_query q = query_keyspace(e);
    struct countd_facts before, after;
    int rc;

    rc = countd_about(e->c, &q, &before);
    if (rc == -ENOENT && e->is_named) { /* else it went meanwhile */
        diag(DIAG_INFO, "no such keyspace: %s",
             cmd_text(e->keyspace.bytes, e->keyspace.size));
        e->lacks = true;
    }
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    e->is_torn = false;
    rc = e->history ? export_history(e) : print_counts(e);
    if (rc < 0 && rc != -ENOENT) /* else it went meanwhile */
        return rc;
    rc = countd_about(e->c, &q, &after);
    if (rc == -ENOENT ||
        (rc == 0 && (e->is_torn || before.count != after.count ||
                     before.keys != after.keys)))
        diag(DIAG_WARNING,
             "keyspace=%s: counts changed meanwhile, so rows may be missing or "
             "there twice; countd backup copies one moment",
             cmd_text(e->keyspace.bytes, e->keyspace.size));
    return rc == -ENOENT ? 0 : rc;
}

/* All keyspaces, by name. */
static int
export_all(struct export *e)
{
    struct increment_name *name = &e->keyspace;
    struct countd_rows *rows;
    size_t got;
    int rc;

    do {
        const struct countd_query q = {
            .after = countd_bytes(name->bytes, name->size)};

        rc = countd_keyspaces(e->c, &q, &rows);
        if (rc < 0)
            return rc;
        got = rows->count;
        for (size_t i = 0; rc == 0 && i < got && !ferror(stdout); i++) {
            name->size = rows->rows[i].key.size;
            memcpy(name->bytes, rows->rows[i].key.data, name->size);
            rc = export_one(e);
        }
        countd_rows_free(rows);
    } while (rc == 0 && got > 0 && !ferror(stdout));
    return rc;
}

static int
export_named(struct export *e, const struct cmd_line *line)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < line->arg_count; i++) {
        e->keyspace = cmd_name(line, line->args[i], "keyspace");
        rc = export_one(e);
    }
    return rc;
}

/* Reads --history, --from and --to. */
static int
read_period(const struct cmd_line *line, struct export *e)
{
    const uint64_t now = clock_unix_ms();
    const char *from = cmd_value(line, "from"), *to = cmd_value(line, "to");

    e->history = cmd_value(line, "history") != NULL;
    e->is_part = from || to;
    e->from = (int64_t)(cmd_time_option(line, "from", now, 0) / 1000);
    e->to = (int64_t)(cmd_time_option(line, "to", now, UINT64_MAX) / 1000);
    if (e->is_part && !e->history && *line->status == 0)
        *line->status =
            cmd_misuse(line, from ? "--from" : "--to", "only with --history");
    if (e->is_part && *line->status == 0)
        diag(DIAG_INFO, "what counts have beyond this time is left out");
    return *line->status;
}

int
cmd_export(struct cmd_line *line)
{
    struct export e = {.is_named = line->arg_count > 0};
    int rc, status = read_period(line, &e);

    if (status != 0)
        return status;

    for (int i = 0; i < line->arg_count; i++)
        (void)cmd_name(line, line->args[i], "keyspace"); /* refused at once */
    status = cmd_connect(line, CMD_READER, &e.c);
    if (status != 0)
        return status;
    output_init(&e.out, line, columns, e.history ? 4 : 3);
    e.out.format = OUTPUT_TSV;
    rc = e.is_named ? export_named(&e, line) : export_all(&e);
    output_fini(&e.out);
    (void)countd_close(e.c); /* nothing was sent to be counted */
    if (rc < 0)
        return cmd_peer_failed(line, CMD_READER, rc);
    return e.lacks ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}
