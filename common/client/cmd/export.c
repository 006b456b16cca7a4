/* common/client/cmd/export.c - countd export: all rows, in the columns that
 * countd load reads.
 *
 * Rows come in pages, each of its own moment, largest first.  When the totals
 * of a keyspace are others at its end than at its beginning, counts changed
 * meanwhile, and that is said. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/export.h"

static const struct table_column columns[] = {
    {"keyspace", "keyspace", false},
    {"key", "key", false},
    {"count", "count", true},
    {"at", "at", false}, /* with --history */
};

static void
warn_torn(const struct cmd_name *keyspace)
{
    diag(DIAG_WARNING,
         "keyspace=%s: counts changed meanwhile, so rows may be missing or "
         "there twice; countd backup copies one moment",
         cmd_text(keyspace->bytes, keyspace->size));
}

static void
report_missing(struct export *e)
{
    if (!e->is_named)
        return; /* it went meanwhile */
    diag(DIAG_INFO, "no such keyspace: %s",
         cmd_text(e->keyspace.bytes, e->keyspace.size));
    e->lacks = true;
}

static void
print_rows(struct export *e, const struct countd_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct countd_row *row = &rows->rows[i];
        const struct cell cells[] = {
            cell_name(e->keyspace.bytes, e->keyspace.size),
            cell_name(row->key, row->key_size),
            cell_number(row->count),
        };

        output_row(&e->out, cells);
    }
}

/* Prints all counts, largest first. */
static int
print_counts(struct export *e)
{
    const struct cmd_name *k = &e->keyspace;
    struct countd_rows *rows;
    int64_t offset = 0, first;
    size_t got;
    int rc;

    do {
        rc = document_range(e->c, k->bytes, k->size, offset, COUNTD_ROWS_MAX,
                            &first, &rows);
        if (rc < 0)
            return rc;
        print_rows(e, rows);
        got = rows->count;
        offset += (int64_t)got;
        countd_rows_free(rows);
    } while (got == COUNTD_ROWS_MAX && !ferror(stdout));
    return 0;
}

/* Exports e->keyspace.  0, or an error of libcountd; a keyspace that is not
 * there is reported. */
static int
export_one(struct export *e)
{
    const struct cmd_name *k = &e->keyspace;
    struct countd_facts before, after;
    int rc;

    rc = countd_about(e->c, k->bytes, k->size, NULL, 0, &before);
    if (rc == -ENOENT)
        report_missing(e);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    e->is_torn = false;
    rc = e->history ? export_history(e) : print_counts(e);
    if (rc < 0)
        return rc;
    rc = countd_about(e->c, k->bytes, k->size, NULL, 0, &after);
    if (rc == -ENOENT ||
        (rc == 0 && (e->is_torn || before.count != after.count ||
                     before.keys != after.keys)))
        warn_torn(k);
    return rc == -ENOENT ? 0 : rc;
}

/* All keyspaces, by name. */
static int
export_all(struct export *e)
{
    struct cmd_name *name = &e->keyspace;
    struct countd_rows *rows;
    size_t got;
    int rc;

    do {
        rc = countd_keyspaces(e->c, name->bytes, name->size, &rows);
        if (rc < 0)
            return rc;
        got = rows->count;
        for (size_t i = 0; rc == 0 && i < got && !ferror(stdout); i++) {
            name->size = rows->rows[i].key_size;
            memcpy(name->bytes, rows->rows[i].key, name->size);
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
    status = cmd_connect(line, CMD_READER, 0, &e.c);
    if (status != 0)
        return status;
    output_init(&e.out, line, columns, e.history ? 4 : 3);
    e.out.format = OUTPUT_TSV;
    rc = e.is_named ? export_named(&e, line) : export_all(&e);
    status = output_fini(&e.out);
    if (status == 0 && e.lacks)
        status = CONFIG_EXIT_NEGATIVE;
    (void)countd_close(e.c); /* nothing was sent to be counted */
    return rc < 0 ? cmd_peer_failed(line, CMD_READER, rc) : status;
}
