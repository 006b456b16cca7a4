/* common/client/cmd/store.c - countd store: the database of the counters, and
 * its tables made. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/client/cmd/cmd.h"
#include "common/store/postgresql/postgresql_store.h"

static int
open_store(const struct cmd_line *line, struct store **out)
{
    const struct postgresql_options options = {
        .conninfo = line->config.store_conninfo,
        .schema = line->config.store_schema,
        .timeout_ms = line->config.store_timeout_ms,
        .writable = true};
    const int rc = postgresql_store_open(out, &options);

    return rc < 0 ? cmd_failed(rc, "open the store") : CONFIG_EXIT_OK;
}

/* The engine has reported why, but for what is named here. */
static int
fail_store(const struct store *s, int rc)
{
    if (rc == -EEXIST)
        return cmd_fail(CONFIG_EXIT_NEGATIVE, "nothing is made: %s",
                        store_trouble(s));
    return cmd_fail(rc == -EPERM ? CONFIG_EXIT_USAGE : CONFIG_EXIT_SYSTEM,
                    "PostgreSQL: %s", store_trouble(s));
}

/* ---- facts ------------------------------------------------------------- */

enum { COLUMN_FACT, COLUMN_VALUE, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [COLUMN_FACT] = {"fact", "fact", false},
    [COLUMN_VALUE] = {"value", "value", false},
};

static void
print_fact(void *ctx, const char *name, const char *value)
{
    const struct cell cells[COLUMNS] = {
        [COLUMN_FACT] = cell_text(name), [COLUMN_VALUE] = cell_text(value)};

    output_row(ctx, cells);
}

static int
show_store(struct cmd_line *line)
{
    static struct output out;
    struct store *s;
    int rc, status;

    if (!line->config.store_postgresql)
        return cmd_fail(CONFIG_EXIT_NEGATIVE,
                        "store = files: counters are in %s/keyspace",
                        line->config.data_dir);
    status = open_store(line, &s);
    if (status != 0)
        return status;
    output_init(&out, line, OUTPUT_COLUMNS(columns));
    rc = postgresql_store_report(s, print_fact, &out);
    if (rc < 0) {
        status = fail_store(s, rc);
    } else {
        output_rows_end(&out);
        status = output_fini(&out);
    }
    store_close(s);
    return status;
}

/* ---- init -------------------------------------------------------------- */

static int
init_store(struct cmd_line *line)
{
    struct store *s;
    char *text;
    int rc, status;

    if (cmd_value(line, "print")) {
        text = postgresql_schema_text(line->config.store_schema);
        if (!text)
            return cmd_failed(-ENOMEM, "print the statements");
        (void)fputs(text, stdout); /* fflush() reports it */
        free(text);
        return fflush(stdout) == 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_SYSTEM;
    }
    status = open_store(line, &s);
    if (status != 0)
        return status;
    rc = postgresql_store_init(s);
    if (rc < 0)
        status = fail_store(s, rc);
    else
        (void)printf("made schema=%s\n", line->config.store_schema);
    store_close(s);
    return fflush(stdout) == 0 ? status : CONFIG_EXIT_SYSTEM;
}

int
cmd_store(struct cmd_line *line)
{
    static const struct cmd_verb verbs[] = {{"", 0, 0, show_store},
                                            {"init", 1, 1, init_store}};

    return cmd_run_verb(line, verbs, sizeof verbs / sizeof verbs[0]);
}
