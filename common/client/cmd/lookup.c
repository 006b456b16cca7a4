/* common/client/cmd/lookup.c - countd get, rank, total, around, top, range; and
 * what commands that query the reader share (struct lookup of cmd.h).  Each
 * section ends with its commands: cmd_total(), then cmd_range(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/client/lib/document.h"
#include "common/wire/query.h"

#define AROUND_ROWS 11
#define TOP_ROWS    20

int
lookup_open(struct lookup *l, const struct cmd_line *line, int names)
{
    l->line = line;
    l->has_begun = false;
    l->keyspace = cmd_name(line, line->args[0], "keyspace");
    l->key.size = 0;
    if (names > 1)
        l->key = cmd_name(line, line->args[1], "key");
    return cmd_connect(line, CMD_READER, 0, &l->c);
}

void
lookup_begin(struct lookup *l, const struct table_column *columns,
             size_t column_count)
{
    l->has_begun = true;
    output_init(&l->out, l->line, columns, column_count);
    output_fact(&l->out, "keyspace",
                cell_name(l->keyspace.bytes, l->keyspace.size));
    if (l->key.size > 0)
        output_fact(&l->out, "key", cell_name(l->key.bytes, l->key.size));
}

void
lookup_report_missing(const char *what, const struct cmd_name *name)
{
    diag(DIAG_INFO, "no such %s: %s", what, cmd_text(name->bytes, name->size));
}

/* Only JSON shows that there are no rows. */
static int
print_nothing(struct lookup *l, int64_t as_of_ms)
{
    lookup_begin(l, NULL, 0);
    if (l->out.format != OUTPUT_JSON)
        return 0;
    output_rows_end(&l->out);
    output_as_of(&l->out, as_of_ms);
    return output_fini(&l->out);
}

/* Returns an exit status. */
static int
report_absence(struct lookup *l)
{
    struct countd_facts facts = {0};
    const int rc = countd_about(l->c, l->keyspace.bytes, l->keyspace.size, NULL,
                                0, &facts);
    int status = 0;

    if (!l->has_begun)
        status = print_nothing(l, facts.as_of_ms);
    if (rc != -ENOENT && l->key.size > 0)
        lookup_report_missing("key", &l->key);
    else
        lookup_report_missing("keyspace", &l->keyspace);
    return status;
}

int
lookup_close(struct lookup *l, enum cmd_peer peer, int rc, int status)
{
    if (rc == -ENOENT && status == 0)
        status = report_absence(l);
    countd_close(l->c);
    if (rc < 0 && rc != -ENOENT)
        return cmd_peer_failed(l->line, peer, rc);
    return status == 0 && rc < 0 ? CONFIG_EXIT_NEGATIVE : status;
}

int
lookup_pages(struct lookup *l, int64_t length,
             int (*page)(void *ctx, const struct countd_rows *rows), void *ctx,
             const struct countd_facts *before, bool *changed)
{
    const struct cmd_name *k = &l->keyspace;
    struct countd_facts after;
    int64_t count, got, first = 0;
    int requests = 0, rc;

    *changed = false;
    do {
        struct countd_rows *rows;

        count = length < QUERY_ROWS_MAX ? length : QUERY_ROWS_MAX;
        rc = document_range(l->c, k->bytes, k->size, l->offset, count, &first,
                            &rows);
        if (rc < 0)
            return rc;
        requests++;
        got = (int64_t)rows->count;
        if (got > 0) /* a negative offset becomes a rank */
            l->offset = first;
        rc = page(ctx, rows);
        countd_rows_free(rows);
        l->offset += got;
        length -= got;
    } while (rc == 0 && length > 0 && got == count);
    if (rc != 0 || requests == 1)
        return rc < 0 ? rc : 0;
    rc = countd_about(l->c, k->bytes, k->size, NULL, 0, &after);
    *changed = rc == -ENOENT || (rc == 0 && (after.count != before->count ||
                                             after.keys != before->keys));
    return rc == -ENOENT ? 0 : rc;
}

int
lookup_keyspaces(struct countd *c,
                 int (*page)(void *ctx, const struct countd_rows *rows),
                 void *ctx)
{
    struct cmd_name after = {.size = 0};
    size_t got;
    int rc;

    do {
        struct countd_rows *rows;

        rc = countd_keyspaces(c, after.bytes, after.size, &rows);
        if (rc < 0)
            return rc;
        got = rows->count;
        rc = page(ctx, rows);
        if (got > 0) {
            after.size = rows->rows[got - 1].key_size;
            memcpy(after.bytes, rows->rows[got - 1].key, after.size);
        }
        countd_rows_free(rows);
    } while (rc == 0 && got > 0);
    return rc;
}

/* ---- one number --------------------------------------------------------- */

enum what { WHAT_COUNT, WHAT_RANK, WHAT_TOTAL };

static const char *const words[] = {
    [WHAT_COUNT] = "count",
    [WHAT_RANK] = "rank",
    [WHAT_TOTAL] = "total",
};

static int
print_number(struct lookup *l, enum what what, const struct countd_facts *facts,
             bool found)
{
    const int64_t number = what == WHAT_RANK ? facts->rank : facts->count;

    lookup_begin(l, NULL, 0);
    output_fact(&l->out, words[what],
                found ? cell_number(number) : cell_none());
    if (found && what == WHAT_RANK)
        output_fact(&l->out, "count", cell_number(facts->count));
    if (found && what == WHAT_TOTAL)
        output_fact(&l->out, "keys", cell_number(facts->keys));
    if (found)
        output_fact(&l->out, "saturated", cell_number(facts->saturated));
    output_fact(&l->out, "as_of_ms", cell_number(facts->as_of_ms));
    if (found)
        output_text(&l->out, "%" PRId64 "\n",
                    number +
                        (what == WHAT_RANK && l->out.format == OUTPUT_PEOPLE));
    if (found && what == WHAT_COUNT && facts->saturated &&
        l->out.format == OUTPUT_PEOPLE)
        diag(DIAG_INFO, "saturated: a sum once left the range of 64 bits, so "
                        "the count is not exact");
    return output_fini(&l->out);
}

static int
print_key_number(struct cmd_line *line, enum what what)
{
    struct countd_facts facts = {0};
    struct lookup l;
    int rc, status;

    status = lookup_open(&l, line, what == WHAT_TOTAL ? 1 : 2);
    if (status != 0)
        return status;
    rc = countd_about(l.c, l.keyspace.bytes, l.keyspace.size, l.key.bytes,
                      l.key.size, &facts);
    if (rc == 0 || rc == -ENOENT)
        status = print_number(&l, what, &facts, rc == 0);
    return lookup_close(&l, CMD_READER, rc, status);
}

int
cmd_get(struct cmd_line *line)
{
    return line->arg_count > 2 ? lookup_keys(line)
                               : print_key_number(line, WHAT_COUNT);
}

int
cmd_rank(struct cmd_line *line)
{
    return lookup_is_period(line) ? lookup_period_rank(line)
                                  : print_key_number(line, WHAT_RANK);
}

int
cmd_total(struct cmd_line *line)
{
    return print_key_number(line, WHAT_TOTAL);
}

/* ---- rows by count ------------------------------------------------------ */

static const struct table_column columns[] = {
    {"rank", "rank", true},
    {"count", "count", true},
    {"key", "key", false},
    {"", "at_limit", false}, /* JSON of top and range: only if true */
};

#define COLUMNS 3 /* without at_limit */

/* At a limit of int64 increments may have been lost; countd get shows whether
 * any were. */
static bool
is_at_limit(int64_t count)
{
    return count == INT64_MIN || count == INT64_MAX;
}

static int
print_rows(struct lookup *l, int64_t first, const struct countd_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct countd_row *row = &rows->rows[i];
        const struct cell cells[] = {
            cell_rank(first + (int64_t)i),
            cell_number(row->count),
            cell_name(row->key, row->key_size),
            is_at_limit(row->count) ? cell_bool(true) : cell_absent(),
        };

        output_row(&l->out, cells);
    }
    return 0;
}

int
cmd_around(struct cmd_line *line)
{
    int64_t length = AROUND_ROWS, first;
    struct countd_rows *rows;
    struct lookup l;
    int rc, status;

    if (line->arg_count > 2)
        length = cmd_number(line, line->args[2], "N", 1, QUERY_ROWS_MAX - 1);
    status = lookup_open(&l, line, 2);
    if (status != 0)
        return status;
    rc = countd_around(l.c, l.keyspace.bytes, l.keyspace.size, l.key.bytes,
                       l.key.size, length, &first, &rows);
    if (rc == 0) {
        lookup_begin(&l, columns, COLUMNS);
        (void)print_rows(&l, first, rows);
        output_rows_end(&l.out);
        output_as_of(&l.out, rows->as_of_ms);
        status = output_fini(&l.out);
        countd_rows_free(rows);
    }
    return lookup_close(&l, CMD_READER, rc, status);
}

static int
print_page(void *ctx, const struct countd_rows *rows)
{
    struct lookup *l = ctx;

    return print_rows(l, l->offset, rows);
}

/* Reports what the rows do not show: saturated counters, and changes between
 * the requests of a long answer. */
static void
report_facts(struct lookup *l, const struct countd_facts *facts, bool changed)
{
    output_fact(&l->out, "saturated", cell_number(facts->saturated));
    if (facts->saturated > 0 && l->out.format == OUTPUT_PEOPLE)
        diag(DIAG_INFO,
             "saturated=%" PRId64
             " of the keyspace's counters, which once left "
             "the range of 64 bits; countd get shows which",
             facts->saturated);
    if (changed)
        diag(DIAG_WARNING,
             "counts changed meanwhile, and more than %d rows are several "
             "requests, each of its own moment: rows may be missing or there "
             "twice",
             QUERY_ROWS_MAX);
}

static int
print_range(struct lookup *l, int64_t length, int *rc)
{
    struct countd_facts facts = {0};
    bool changed;

    *rc = countd_about(l->c, l->keyspace.bytes, l->keyspace.size, NULL, 0,
                       &facts);
    if (*rc < 0)
        return 0;
    lookup_begin(l, columns, COLUMNS);
    if (l->out.format == OUTPUT_JSON)
        l->out.column_count = sizeof columns / sizeof columns[0];
    *rc = lookup_pages(l, length, print_page, l, &facts, &changed);
    output_rows_end(&l->out);
    if (*rc == 0) {
        report_facts(l, &facts, changed);
        output_as_of(&l->out, facts.as_of_ms);
    }
    return output_fini(&l->out);
}

static int
run_range(struct cmd_line *line, int64_t offset, int64_t length)
{
    struct lookup l = {.offset = offset};
    int rc, status;

    status = lookup_open(&l, line, 1);
    if (status != 0)
        return status;
    status = print_range(&l, length, &rc);
    return lookup_close(&l, CMD_READER, rc, status);
}

int
cmd_top(struct cmd_line *line)
{
    int64_t length;

    if (line->arg_count > 1 && cmd_value(line, "n") != NULL)
        return cmd_misuse(line, line->args[1], "give the rows once");
    length = line->arg_count > 1
                 ? cmd_number(line, line->args[1], "N", 1, INT64_MAX)
                 : cmd_option_number(line, "n", 1, INT64_MAX, TOP_ROWS);
    return lookup_is_period(line) ? lookup_period_top(line, length)
                                  : run_range(line, 0, length);
}

int
cmd_range(struct cmd_line *line)
{
    /* INT64_MIN marks an extended request on the wire. */
    const int64_t offset =
        cmd_number(line, line->args[1], "offset", -INT64_MAX, INT64_MAX);
    const int64_t length =
        cmd_number(line, line->args[2], "length", 0, INT64_MAX);

    return run_range(line, offset, length);
}
