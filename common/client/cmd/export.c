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

static const struct table_column columns[] = {
    {"keyspace", "keyspace", false},
    {"key", "key", false},
    {"count", "count", true},
};

struct export
{
    struct lookup l;
    bool is_named; /* keyspaces, of which each must exist */
    bool lacks;    /* one */
};

static int
print_page(void *ctx, const struct countd_rows *rows)
{
    struct export *e = ctx;

    for (size_t i = 0; i < rows->count; i++) {
        const struct countd_row *row = &rows->rows[i];
        const struct cell cells[] = {
            cell_name(e->l.keyspace.bytes, e->l.keyspace.size),
            cell_name(row->key, row->key_size),
            cell_number(row->count),
        };

        output_row(&e->l.out, cells);
    }
    return ferror(stdout) ? 1 : 0;
}

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
    lookup_report_missing("keyspace", &e->l.keyspace);
    e->lacks = true;
}

/* Exports e->l.keyspace.  0, or an error of libcountd; a keyspace that is not
 * there is reported. */
static int
export_one(struct export *e)
{
    const struct cmd_name *k = &e->l.keyspace;
    struct countd_facts facts;
    bool changed;
    int rc;

    rc = countd_about(e->l.c, k->bytes, k->size, NULL, 0, &facts);
    if (rc == -ENOENT) {
        report_missing(e);
        return 0;
    }
    if (rc < 0)
        return rc;
    e->l.offset = 0;
    rc = lookup_pages(&e->l, INT64_MAX, print_page, e, &facts, &changed);
    if (changed)
        warn_torn(k);
    return rc;
}

static int
export_listed(void *ctx, const struct countd_rows *rows)
{
    struct export *e = ctx;
    struct cmd_name *name = &e->l.keyspace;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < rows->count; i++) {
        name->size = rows->rows[i].key_size;
        memcpy(name->bytes, rows->rows[i].key, name->size);
        rc = ferror(stdout) ? 1 : export_one(e);
    }
    return rc;
}

static int
export_named(struct export *e, const struct cmd_line *line)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < line->arg_count; i++) {
        e->l.keyspace = cmd_name(line, line->args[i], "keyspace");
        rc = export_one(e);
    }
    return rc;
}

int
cmd_export(struct cmd_line *line)
{
    struct export e = {.l = {.line = line}, .is_named = line->arg_count > 0};
    int rc, status;

    for (int i = 0; i < line->arg_count; i++)
        (void)cmd_name(line, line->args[i], "keyspace"); /* refused at once */
    status = cmd_connect(line, CMD_READER, 0, &e.l.c);
    if (status != 0)
        return status;
    output_init(&e.l.out, line, OUTPUT_COLUMNS(columns));
    e.l.out.format = OUTPUT_TSV;
    rc = e.is_named ? export_named(&e, line)
                    : lookup_keyspaces(e.l.c, export_listed, &e);
    status = output_fini(&e.l.out);
    if (status == 0 && e.lacks)
        status = CONFIG_EXIT_NEGATIVE;
    return lookup_close(&e.l, CMD_READER, rc, status);
}
