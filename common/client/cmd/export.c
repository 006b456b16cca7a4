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

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/lib/document.h"

static const struct table_column columns[] = {
    {"keyspace", "keyspace", false},
    {"key", "key", false},
    {"count", "count", true},
};

struct export
{
    struct countd *c;
    struct cmd_name keyspace;
    bool is_named; /* keyspaces, of which each must exist */
    bool lacks;    /* one */
    struct output out;
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

/* Exports e->keyspace.  0, or an error of libcountd; a keyspace that is not
 * there is reported. */
static int
export_one(struct export *e)
{
    const struct cmd_name *k = &e->keyspace;
    struct countd_facts before, after;
    struct countd_rows *rows;
    int64_t offset = 0, first;
    size_t got;
    int rc;

    rc = countd_about(e->c, k->bytes, k->size, NULL, 0, &before);
    if (rc == -ENOENT)
        report_missing(e);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
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
    rc = countd_about(e->c, k->bytes, k->size, NULL, 0, &after);
    if (rc == -ENOENT ||
        (rc == 0 && (before.count != after.count || before.keys != after.keys)))
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

int
cmd_export(struct cmd_line *line)
{
    struct export e = {.is_named = line->arg_count > 0};
    int rc, status;

    for (int i = 0; i < line->arg_count; i++)
        (void)cmd_name(line, line->args[i], "keyspace"); /* refused at once */
    status = cmd_connect(line, CMD_READER, 0, &e.c);
    if (status != 0)
        return status;
    output_init(&e.out, line, OUTPUT_COLUMNS(columns));
    e.out.format = OUTPUT_TSV;
    rc = e.is_named ? export_named(&e, line) : export_all(&e);
    status = output_fini(&e.out);
    if (status == 0 && e.lacks)
        status = CONFIG_EXIT_NEGATIVE;
    (void)countd_close(e.c); /* nothing was sent to be counted */
    return rc < 0 ? cmd_peer_failed(line, CMD_READER, rc) : status;
}
