/* common/client/cmd/held.c - countd held: what waits for a keyspace that cannot
 * take it; held drop gives it up. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/store_session.h"
#include "common/client/cmd/wait_merged.h"

/* ---- list -------------------------------------------------------------- */

static const struct table_column columns[] = {
    {"records", "records", true},   {"fills", "fills", true},
    {"bytes", "bytes", true},       {"oldest", "oldest_ms", true},
    {"since", "since_ms", true},    {"why", "why", false},
    {"keyspace", "keyspace", false}};

#define WHY_SIZE 96

struct held_list {
    const struct config *config;
    struct output out;
    uint64_t now_ms;
    bool any;
};

/* Unix time; for people how long ago that is. */
static struct cell
time_cell(const struct held_list *l, uint64_t unix_ms, char age[32])
{
    if (l->out.format != OUTPUT_PEOPLE)
        return cell_number((int64_t)unix_ms);
    output_age((int64_t)(l->now_ms - unix_ms), age);
    return cell_text(age);
}

/* Why a keyspace refused, with the settings and their values where it may be
 * one of these. */
static const char *
why_text(const struct config *c, int error, char text[WHY_SIZE])
{
    if (error == 0)
        return "waits behind records that were held before it";
    if (abs(error) != EDQUOT)
        return diag_text(error);
    if (c->keyspace_max_keys == 0)
        (void)snprintf(text, WHY_SIZE, "over keyspace.max=%" PRIu64,
                       c->keyspace_max);
    else
        (void)snprintf(text, WHY_SIZE,
                       "over keyspace.max=%" PRIu64
                       " or keyspace.max_keys=%" PRIu64,
                       c->keyspace_max, c->keyspace_max_keys);
    return text;
}

static int
list_row(void *ctx, const struct held_summary *s)
{
    struct held_list *l = ctx;
    char oldest[32], since[32], why[WHY_SIZE];

    l->any = true;
    output_row(&l->out, (const struct cell[]){
                            cell_number((int64_t)s->records),
                            cell_number((int64_t)s->fills),
                            cell_number((int64_t)s->bytes),
                            time_cell(l, s->oldest_ms, oldest),
                            time_cell(l, s->since_ms, since),
                            cell_text(why_text(l->config, s->error, why)),
                            cell_name(s->name, s->name_size),
                        });
    return 0;
}

static int
held_list(struct cmd_line *line)
{
    struct held_list l = {.config = &line->config, .now_ms = clock_unix_ms()};
    struct store_session in;
    struct unmerged unmerged;
    int rc, status;

    status = store_session_open(line, false, &in);
    if (status != 0)
        return status;
    rc = unmerged_snapshot_begin(in.held);
    if (rc == 0) {
        output_init(&l.out, line, columns, sizeof columns / sizeof columns[0]);
        rc = held_each(in.held, list_row, &l);
        held_snapshot_end(in.held);
        output_rows_end(&l.out);
        status = output_fini(&l.out);
    }
    if (rc == 0)
        rc = unmerged_read(&in.dir, in.held, &unmerged);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read " HELD_FOLDER);
        status = CONFIG_EXIT_SYSTEM;
    } else if (status == 0 && (l.any || unmerged.damaged > 0)) {
        unmerged.held = unmerged.logs =
            0; /* the rows say it; countd log list */
        unmerged_warn(&unmerged, "not merged");
        status = CONFIG_EXIT_NEGATIVE;
    }
    store_session_close(&in);
    return status;
}

/* ---- drop -------------------------------------------------------------- */

/* Returns an exit status. */
static int
drop_one(const struct cmd_line *line, struct store_session *in,
         const char *text, struct wait_turn *turn)
{
    struct cmd_name name;
    uint64_t records;
    int rc, status;

    status = cmd_name(line, text, "keyspace", &name);
    if (status != 0)
        return status;
    do
        rc = held_drop(in->held, name.bytes, name.size, &records);
    while (wait_turn(turn, rc, held_holder(in->held)));
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "drop what is held of keyspace %s", text);
        return CONFIG_EXIT_SYSTEM;
    }
    (void)printf("dropped keyspace=%s held=%" PRIu64 "\n", text,
                 records); /* output_fini() reports errors of stdout */
    return records > 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_NEGATIVE;
}

static int
held_drop_named(struct cmd_line *line)
{
    struct wait_turn turn = {0};
    struct cmd_name name;
    uint64_t timeout_ms;
    struct store_session in;
    int status;

    status = cmd_option_ms(line, "timeout", 30000, &timeout_ms);
    for (int i = 1; status == 0 && i < line->arg_count; i++)
        status = cmd_name(line, line->args[i], "keyspace", &name);
    if (status == 0)
        status = store_session_open(line, true, &in);
    if (status != 0)
        return status;
    turn.deadline_ms = clock_ms() + timeout_ms;
    for (int i = 1; i < line->arg_count; i++) {
        const int one = drop_one(line, &in, line->args[i], &turn);

        status = one > status ? one : status;
    }
    store_session_close(&in);
    return fflush(stdout) == 0 ? status : CONFIG_EXIT_SYSTEM;
}

/* ---- which ------------------------------------------------------------- */

int
cmd_held(struct cmd_line *line)
{
    const char *what = line->arg_count > 0 ? line->args[0] : "";

    if (line->arg_count == 0)
        return held_list(line);
    if (strcmp(what, "drop") == 0 && line->arg_count > 1)
        return held_drop_named(line);
    diag(DIAG_ERROR, "usage: countd held [options] %s; see countd held -h",
         line->cmd->arguments);
    return CONFIG_EXIT_USAGE;
}
