/* common/client/cmd/export.c - countd export: all rows, in the columns that
 * countd load reads.
 *
 * Rows come in pages, each of its own moment, largest first.  When the totals
 * of a keyspace are others at its end than at its beginning, counts changed
 * meanwhile, and that is said. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/wire/query.h"

static const struct table_column columns[] = {
    {"keyspace", "keyspace", false},
    {"key", "key", false},
    {"count", "count", true},
};

struct export
{
    struct countd *c;
    struct output out;
    uint64_t missing; /* keyspaces that were named and do not exist */
};

static void
print_rows(struct export *e, const struct cmd_name *keyspace,
           const struct countd_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct countd_row *row = &rows->rows[i];
        const struct cell cells[] = {
            cell_name(keyspace->bytes, keyspace->size),
            cell_name(row->key, row->key_size),
            cell_number(row->count),
        };

        output_row(&e->out, cells);
    }
}

static void
warn_torn(const struct cmd_name *keyspace)
{
    char text[NAME_TEXT_SIZE];

    (void)name_escape(keyspace->bytes, keyspace->size, text);
    diag(DIAG_WARNING,
         "keyspace=%s: counts changed meanwhile, so rows may be missing or "
         "there twice; countd backup copies one moment",
         text);
}

/* 0, or an error of libcountd; a keyspace that is not there is counted. */
static int
export_one(struct export *e, const struct cmd_name *keyspace)
{
    struct countd_facts before, after;
    int64_t offset = 0;
    size_t got;
    int rc;

    rc = countd_about(e->c, keyspace->bytes, keyspace->size, NULL, 0, &before);
    if (rc == -ENOENT) {
        e->missing++;
        return 0;
    }
    if (rc < 0)
        return rc;
    do {
        struct countd_rows *rows;

        rc = countd_range(e->c, keyspace->bytes, keyspace->size, offset,
                          QUERY_ROWS_MAX, &rows);
        if (rc < 0)
            return rc;
        got = rows->count;
        print_rows(e, keyspace, rows);
        countd_rows_free(rows);
        offset += (int64_t)got;
    } while (got == QUERY_ROWS_MAX && !ferror(stdout));
    if (offset <= QUERY_ROWS_MAX)
        return 0;
    rc = countd_about(e->c, keyspace->bytes, keyspace->size, NULL, 0, &after);
    if (rc == -ENOENT ||
        (rc == 0 && (after.count != before.count || after.keys != before.keys)))
        warn_torn(keyspace);
    return rc == -ENOENT ? 0 : rc;
}

/* Every keyspace there is, page by page of their names. */
static int
export_all(struct export *e)
{
    struct cmd_name name = {0};
    struct countd_rows *rows;
    size_t got;
    int rc;

    do {
        rc = countd_keyspaces(e->c, name.bytes, name.size, &rows);
        if (rc < 0)
            return rc;
        got = rows->count;
        for (size_t i = 0; rc == 0 && i < got && !ferror(stdout); i++) {
            name.size = rows->rows[i].key_size;
            memcpy(name.bytes, rows->rows[i].key, name.size);
            rc = export_one(e, &name);
        }
        countd_rows_free(rows);
        e->missing = 0; /* what went meanwhile was not asked for by name */
    } while (rc == 0 && got > 0 && !ferror(stdout));
    return rc;
}

static int
export_named(struct export *e, const struct cmd_line *line)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < line->arg_count; i++) {
        struct cmd_name name;

        (void)cmd_name(line, line->args[i], "keyspace",
                       &name); /* it was checked */
        rc = export_one(e, &name);
    }
    return rc;
}

int
cmd_export(struct cmd_line *line)
{
    struct export e = {0};
    struct cmd_name name;
    int rc, status = 0, printed;

    for (int i = 0; status == 0 && i < line->arg_count; i++)
        status = cmd_name(line, line->args[i], "keyspace", &name);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, 0, &e.c);
    if (status != 0)
        return status;
    output_init(&e.out, line, columns, sizeof columns / sizeof columns[0]);
    e.out.format = OUTPUT_TSV;
    rc = line->arg_count > 0 ? export_named(&e, line) : export_all(&e);
    printed = output_fini(&e.out);
    (void)countd_close(e.c); /* nothing was sent to be counted */
    if (rc < 0)
        return cmd_peer_failed(line, CMD_READER, rc);
    if (e.missing > 0)
        diag(DIAG_INFO, "%" PRIu64 " of the keyspaces: no such keyspace",
             e.missing);
    if (printed != 0)
        return printed;
    return e.missing > 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}
