/* common/client/cmd/range.c - countd top, countd range: rows by count. */
#include <errno.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/wire/query.h"

static const struct output_column columns[] = {
    {"rank", "rank", true},
    {"count", "count", true},
    {"key", "key", false},
};

struct range {
    struct countd *c;
    struct cmd_name keyspace;
    int64_t offset;
    int64_t length;
    int64_t as_of_ms; /* of the first page, which is the oldest */
    bool missing;     /* there is no such keyspace */
    bool answered;    /* nothing is printed before that */
    struct output out;
};

static void
print_rows(struct range *r, const struct countd_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct countd_row *row = &rows->rows[i];
        const struct cell cells[] = {
            cell_number(r->offset + (int64_t)i),
            cell_number(row->count),
            cell_name(row->key, row->key_size),
        };

        output_row(&r->out, cells);
    }
}

/* A negative offset becomes the rank of the row it found. */
static int
settle_offset(struct range *r, const struct countd_rows *rows)
{
    if (r->offset >= 0 || rows->count == 0)
        return 0;
    return countd_rank(r->c, r->keyspace.bytes, r->keyspace.size,
                       rows->rows[0].key, rows->rows[0].key_size, &r->offset);
}

static void
begin(struct range *r)
{
    r->answered = true;
    output_fact(&r->out, "keyspace",
                cell_name(r->keyspace.bytes, r->keyspace.size));
}

static int
finish(struct range *r, int rc)
{
    output_rows_end(&r->out);
    /* Of nothing only a program wants to know how fresh it is. */
    if (rc == 0 && (!r->missing || r->out.format == OUTPUT_JSON))
        output_as_of(&r->out, r->as_of_ms);
    return output_fini(&r->out);
}

/* No rows: is it past the end, or is there nothing at all? */
static int
find_missing(struct range *r)
{
    int64_t total;
    const int rc =
        countd_total(r->c, r->keyspace.bytes, r->keyspace.size, &total);

    r->missing = rc == -ENOENT;
    return rc == -ENOENT ? 0 : rc;
}

/* One request at a time until `length` rows or the end. */
static int
print_pages(struct range *r)
{
    bool first = true;
    size_t got;

    do {
        const int64_t ask =
            r->length < QUERY_ROWS_MAX ? r->length : QUERY_ROWS_MAX;
        struct countd_rows *rows;
        int rc = countd_range(r->c, r->keyspace.bytes, r->keyspace.size,
                              r->offset, ask, &rows);

        if (rc < 0)
            return rc;
        got = rows->count;
        if (first)
            r->as_of_ms = rows->as_of_ms;
        if (first && got == 0)
            rc = find_missing(r);
        if (first && rc == 0)
            begin(r);
        first = false;
        if (rc == 0)
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
run(struct cmd_line *line, struct range *r)
{
    int status, rc, ended;

    status = cmd_name(line->args[0], "keyspace", &r->keyspace);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, 0, &r->c);
    if (status != 0)
        return status;

    output_init(&r->out, line, columns, sizeof columns / sizeof columns[0]);
    rc = print_pages(r);
    ended = r->answered ? finish(r, rc) : 0;
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
    struct range r = {0};
    const int status =
        cmd_option_number(line, "n", 1, INT64_MAX, 20, &r.length);

    return status != 0 ? status : run(line, &r);
}

int
cmd_range(struct cmd_line *line)
{
    struct range r = {0};
    int status;

    /* INT64_MIN marks an extended request on the wire. */
    status =
        cmd_number(line->args[1], "offset", -INT64_MAX, INT64_MAX, &r.offset);
    if (status == 0)
        status = cmd_number(line->args[2], "length", 0, INT64_MAX, &r.length);
    return status != 0 ? status : run(line, &r);
}
