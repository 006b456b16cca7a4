/* common/client/cmd/store.c - countd store: the database of the counters; its
 * tables made; keyspaces of files moved there; what to do when it has lost
 * something.  Read from the end: cmd_store(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/client/cmd/cmd_data.h"
#include "common/setup/overview.h"
#include "common/store/postgresql/postgresql_store.h"

static int
open_store(const struct cmd_line *line, const struct datadir *sender,
           bool repairs, struct store **out)
{
    const struct postgresql_options options = {.config = &line->config,
                                               .connects_later = true,
                                               .sender = sender,
                                               .repairs = repairs,
                                               .quiet = sender != NULL,
                                               .writable = true};
    const int rc = postgresql_store_open(out, &options);

    return rc < 0 ? cmd_failed(rc, "open the store") : CONFIG_EXIT_OK;
}

/* The engine has reported why, except for the errors that are named here. */
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

static const struct table_column columns[] = {{"fact", "fact", false},
                                              {"value", "value", false}};

static void
print_fact(void *ctx, const char *name, const char *value)
{
    output_row(ctx, (const struct cell[]){cell_text(name), cell_text(value)});
}

/* 0, or the exit status of a directory without a database. */
static int
need_postgresql(const struct cmd_line *line)
{
    return line->config.store_postgresql
               ? 0
               : cmd_fail(CONFIG_EXIT_NEGATIVE,
                          "store = files: counters are in %s/keyspace",
                          line->config.data_dir);
}

/* With the database and this directory's numbers, also if it is behind. */
static int
use_store(struct cmd_line *line,
          int (*use)(struct cmd_line *line, struct store *s))
{
    struct store *s;
    struct datadir d;
    int status = need_postgresql(line);

    if (status == 0)
        status = wait_datadir(line, &d);
    if (status != 0)
        return status;
    status = open_store(line, &d, true, &s);
    if (status == 0) {
        status = use(line, s);
        store_close(s);
    }
    datadir_close(&d);
    return status;
}

static void
print_trouble(void *ctx, const char *text)
{
    print_fact(ctx, "trouble", text);
}

/* In the words of countd status, for what a worker would see. */
static int
print_troubles(const struct store *s, struct output *out)
{
    static struct overview o = {.count = 1};

    o.rows[0].kind = STATUS_WORKER;
    o.rows[0].values[STATUS_ALIVE] = 1;
    postgresql_store_figures(s, o.rows[0].values);
    return overview_troubles(&o, print_trouble, out);
}

static int
report_store(struct cmd_line *line, struct store *s)
{
    static struct output out;
    int rc, troubles;

    output_init(&out, line, OUTPUT_COLUMNS(columns));
    rc = postgresql_store_report(s, print_fact, &out);
    if (rc < 0)
        return fail_store(s, rc);
    troubles = print_troubles(s, &out);
    output_fini(&out);
    return troubles > 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}

static int
show_store(struct cmd_line *line)
{
    return use_store(line, report_store);
}

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
        (void)fputs(text, stdout);
        free(text);
        return CONFIG_EXIT_OK;
    }
    status = open_store(line, NULL, false, &s);
    if (status != 0)
        return status;
    rc = postgresql_store_init(s);
    if (rc < 0)
        status = fail_store(s, rc);
    else
        (void)printf("made schema=%s\n", line->config.store_schema);
    store_close(s);
    return status;
}

/* ---- keyspaces of files --------------------------------------------------- */

struct import {
    struct store *from, *to;
    uint64_t count; /* keyspaces that were imported */
    int status;     /* the worst */
};

/* One that merges into files would go on with a new one; one that merges into the
 * database would be first. */
static int
refuse_worker(const struct cmd_line *line)
{
    static struct overview o;
    int status = 0;

    overview_init(&o, line->config.data_dir);
    if (overview_read(&o) == 0)
        for (size_t i = 1; status == 0 && i < o.count; i++)
            if (o.rows[i].kind == STATUS_WORKER &&
                o.rows[i].values[STATUS_ALIVE] == 1)
                status = cmd_fail(CONFIG_EXIT_NEGATIVE,
                                  "countd-worker runs, pid %d: stop it before "
                                  "its keyspaces are imported",
                                  (int)o.rows[i].pid);
    overview_close(&o);
    return status;
}

static int
fail_import(const struct import *i, const char *name, int rc)
{
    static const struct {
        int rc;
        const char *why;
    } reasons[] = {
        {-ENOENT, "there is no file of it in keyspace/"},
        {-ENOTEMPTY, "it has counts in the database already"},
        {-EEXIST, "keyspace/ has another file of it that was moved before"},
        {-EINPROGRESS, "a merge was killed; have a worker complete it first, "
                       "with store = files"},
        {-EDQUOT, "keyspace.max forbids another keyspace"},
    };

    for (size_t r = 0; r < sizeof reasons / sizeof *reasons; r++)
        if (rc == reasons[r].rc)
            return cmd_fail(CONFIG_EXIT_NEGATIVE,
                            "keyspace %s is not imported: %s", name,
                            reasons[r].why);
    return *store_trouble(i->to) != '\0'
               ? fail_store(i->to, rc)
               : cmd_failed(rc, "import keyspace %s", name);
}

/* Goes on with the next one after a failure. */
static int
import_one(void *ctx, const uint8_t *name, size_t size, int64_t keys)
{
    const char *text = cmd_text(name, size);
    struct import *i = ctx;
    uint64_t count;
    const int rc = postgresql_store_import(i->to, i->from, name, size, &count);

    (void)keys; /* of the listing; `count` is sure */
    if (rc < 0)
        i->status = fail_import(i, text, rc);
    else
        (void)printf("imported keyspace=%s keys=%" PRIu64 "\n", text, count);
    i->count += rc == 0;
    return 0;
}

static int
import_all(struct import *i, const struct cmd_line *line)
{
    struct increment_name name;
    int rc = 0;

    if (line->arg_count == 1)
        rc = store_list(i->from, NULL, 0, import_one, i);
    for (int n = 1; n < line->arg_count; n++) {
        name = cmd_name(line, line->args[n], "keyspace");
        (void)import_one(i, name.bytes, name.size, 0); /* i->status has it */
    }
    if (rc < 0)
        return cmd_failed(rc, "list the keyspaces");
    if (i->count > 0 && postgresql_store_analyze(i->to) < 0)
        diag(DIAG_WARNING, "ANALYZE: %s: queries may be slow for some minutes",
             store_trouble(i->to));
    return i->status;
}

static int
import_keyspaces(struct cmd_line *line)
{
    struct import i = {.status = CONFIG_EXIT_OK};
    struct cmd_line files = *line;
    struct datadir d;
    int rc, status = need_postgresql(line);

    for (int n = 1; n < line->arg_count; n++)
        (void)cmd_name(line, line->args[n], "keyspace"); /* refused at once */
    if (status == 0)
        status = wait_datadir(line, &d);
    if (status != 0)
        return status;
    files.config.store_postgresql = false;
    status = refuse_worker(line);
    rc = status == 0 ? store_session_store(&files, d.keyspace_fd, true, &i.from)
                     : 0;
    if (rc < 0)
        status = cmd_failed(rc, "open %s/keyspace", line->config.data_dir);
    if (status == 0)
        status = open_store(line, &d, false, &i.to);
    if (status == 0)
        status = import_all(&i, line);
    store_close(i.to);
    store_close(i.from);
    datadir_close(&d);
    return status;
}

/* ---- a database that is behind ------------------------------------------ */

/* What archive/ has and the database lacks. */
static int
replay_archive(struct cmd_line *line)
{
    struct cmd_line replay = *line; /* of countd replay, without options */
    char *folder = line->config.data_dir;
    const int status = need_postgresql(line);

    for (replay.cmd = cmd_table; strcmp(replay.cmd->name, "replay") != 0;)
        replay.cmd++;
    memset(replay.values, 0, sizeof replay.values);
    replay.args = &folder;
    replay.arg_count = 1;
    return status != 0 ? status : cmd_replay(&replay);
}

static int
accept_loss(struct cmd_line *line, struct store *s)
{
    uint64_t has, acked;
    const int rc = postgresql_store_accept(s, &has, &acked);

    (void)line;
    if (rc < 0)
        return fail_store(s, rc);
    if (acked == 0)
        (void)printf("the database is not behind: nothing to accept\n");
    else
        (void)printf("accepted: the database had %" PRIu64 " of %" PRIu64
                     " transactions; workers merge again\n",
                     has, acked);
    return CONFIG_EXIT_OK;
}

static int
accept_store(struct cmd_line *line)
{
    return use_store(line, accept_loss);
}

static int
forget_directory(struct cmd_line *line, struct store *s)
{
    const char *id = line->args[1];
    const int rc = postgresql_store_forget(s, id);

    if (rc == -ENOENT)
        return cmd_fail(CONFIG_EXIT_NEGATIVE, "no directory %s is known", id);
    return rc < 0 ? fail_store(s, rc) : CONFIG_EXIT_OK;
}

static int
forget_store(struct cmd_line *line)
{
    return use_store(line, forget_directory);
}

int
cmd_store(struct cmd_line *line)
{
    static const struct cmd_verb verbs[] = {{"", 0, 0, show_store},
                                            {"init", 1, 1, init_store},
                                            {"import", 1, -1, import_keyspaces},
                                            {"replay", 1, 1, replay_archive},
                                            {"accept", 1, 1, accept_store},
                                            {"forget", 2, 2, forget_store}};

    return cmd_run_verb(line, verbs, sizeof verbs / sizeof verbs[0]);
}
