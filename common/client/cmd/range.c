/* common/client/cmd/range.c - countd top, countd range: rows by count. Read
 * from the end: cmd_top(), cmd_range(), run_range(). */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/period.h"
#include "common/wire/query.h"

static const struct table_column columns[] = {
    {"rank", "rank", true},
    {"count", "count", true},
    {"key", "key", false},
    {"", "at_limit", false}, /* in JSON, where it is */
};

#define COLUMNS 3 /* of all forms */

struct range_command {
    struct countd *c;
    struct cmd_name keyspace;
    int64_t offset;
    int64_t length;
    int64_t as_of_ms;           /* of the first page, which is the oldest */
    bool missing;               /* there is no such keyspace */
    bool paged;                 /* of more than one request */
    struct countd_facts before; /* of the keyspace, when the first was asked */
    bool answered;              /* nothing is printed before that */
    struct output out;
};

/* At a limit of int64 increments may have been lost; countd get shows whether
 * any were. */
static bool
is_at_limit(int64_t count)
{
    return count == INT64_MIN || count == INT64_MAX;
}

static void
print_rows(struct range_command *r, const struct countd_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct countd_row *row = &rows->rows[i];
        const struct cell cells[] = {
            cell_number(r->offset + (int64_t)i),
            cell_number(row->count),
            cell_name(row->key, row->key_size),
            is_at_limit(row->count) ? cell_bool(true) : cell_absent(),
        };

        output_row(&r->out, cells);
    }
}

/* A negative offset becomes the rank of the row it found. */
static int
settle_offset(struct range_command *r, const struct countd_rows *rows)
{
    if (r->offset >= 0 || rows->count == 0)
        return 0;
    return countd_rank(r->c, r->keyspace.bytes, r->keyspace.size,
                       rows->rows[0].key, rows->rows[0].key_size, &r->offset);
}

static void
print_scope(struct range_command *r)
{
    r->answered = true;
    output_fact(&r->out, "keyspace",
                cell_name(r->keyspace.bytes, r->keyspace.size));
}

/* Reports what the rows do not show: saturated counters, and changes between
 * the requests of a long answer. */
static void
report_facts(struct range_command *r)
{
    struct countd_facts after;

    output_fact(&r->out, "saturated", cell_number(r->before.saturated));
    if (r->before.saturated > 0 && r->out.format == OUTPUT_PEOPLE)
        diag(DIAG_INFO,
             "saturated=%" PRId64
             " of the keyspace's counters, which once left "
             "the range of 64 bits; countd get shows which",
             r->before.saturated);
    if (r->paged &&
        countd_about(r->c, r->keyspace.bytes, r->keyspace.size, NULL, 0,
                     &after) == 0 &&
        (after.count != r->before.count || after.keys != r->before.keys))
        diag(DIAG_WARNING,
             "counts changed meanwhile, and more than %d rows are several "
             "requests, each of its own moment: rows may be missing or there "
             "twice",
             QUERY_ROWS_MAX);
}

static int
print_end(struct range_command *r, int rc)
{
    output_rows_end(&r->out);
    if (rc == 0 && !r->missing)
        report_facts(r);
    /* No rows: only JSON output includes as_of_ms. */
    if (rc == 0 && (!r->missing || r->out.format == OUTPUT_JSON))
        output_as_of(&r->out, r->as_of_ms);
    return output_fini(&r->out);
}

/* What is known of the keyspace; is there any? */
static int
ask_facts(struct range_command *r)
{
    const int rc = countd_about(r->c, r->keyspace.bytes, r->keyspace.size, NULL,
                                0, &r->before);

    r->missing = rc == -ENOENT;
    return rc == -ENOENT ? 0 : rc;
}

/* One request at a time until `length` rows or the end. */
static int
print_pages(struct range_command *r)
{
    bool first = true;
    size_t got;

    do {
        const int64_t ask =
            r->length < QUERY_ROWS_MAX ? r->length : QUERY_ROWS_MAX;
        struct countd_rows *rows = NULL;
        int rc = first ? ask_facts(r) : 0;

        if (rc == 0)
            rc = countd_range(r->c, r->keyspace.bytes, r->keyspace.size,
                              r->offset, ask, &rows);
        if (rc < 0)
            return rc;
        r->paged |= !first;
        assert(rows);
        got = rows->count;
        if (first)
            r->as_of_ms = rows->as_of_ms;
        if (first)
            print_scope(r);
        first = false;
        rc = settle_offset(r, rows);
        if (rc == 0)
            print_rows(r, rows);
        countd_rows_free(rows);
        if (rc < 0)
            return rc;
        r->offset += (int64_t)got;
        r->length -= (int64_t)got;
    } while (r->length > 0 && got > 0);
    return 0;
}

static int
run_range(struct cmd_line *line, struct range_command *r)
{
    int status, rc, ended;

    status = cmd_name(line, line->args[0], "keyspace", &r->keyspace);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, 0, &r->c);
    if (status != 0)
        return status;

    output_init(&r->out, line, columns, COLUMNS);
    if (r->out.format == OUTPUT_JSON)
        r->out.column_count = sizeof columns / sizeof columns[0];
    rc = print_pages(r);
    ended = r->answered ? print_end(r, rc) : 0;
    countd_close(r->c);
    if (rc < 0)
        return cmd_peer_failed(line, CMD_READER, rc);
    if (r->missing)
        diag(DIAG_INFO, "no such keyspace");
    return ended == 0 && r->missing ? CONFIG_EXIT_NEGATIVE : ended;
}

int
cmd_top(struct cmd_line *line)
{
    struct range_command r = {0};
    int status;

    if (line->arg_count > 1 && cmd_value(line, "n") != NULL)
        return cmd_misuse(line, line->args[1], "give the rows once");
    status = cmd_option_number(line, "n", 1, INT64_MAX, 20, &r.length);
    if (status == 0 && line->arg_count > 1)
        status = cmd_number(line->args[1], "N", 1, INT64_MAX, &r.length);
    if (status == 0 && period_is_asked(line))
        return period_top(line, r.length);
    return status != 0 ? status : run_range(line, &r);
}

int
cmd_range(struct cmd_line *line)
{
    struct range_command r = {0};
    int status;

    /* INT64_MIN marks an extended request on the wire. */
    status =
        cmd_number(line->args[1], "offset", -INT64_MAX, INT64_MAX, &r.offset);
    if (status == 0)
        status = cmd_number(line->args[2], "length", 0, INT64_MAX, &r.length);
    return status != 0 ? status : run_range(line, &r);
}
