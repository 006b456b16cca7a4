/* common/client/cmd/held.c - countd held: what waits for a keyspace that cannot
 * take it; held drop gives it up. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "common/client/cmd/cmd_data.h"

/* ---- list -------------------------------------------------------------- */

struct held_list {
    struct waiting_limits limits;
    struct store_session in;
    struct output out;
    uint64_t now_ms;
    bool any;
};

/* People see how long ago a time is. */
static void
show_age(const struct held_list *l, struct cell *time, char age[32])
{
    output_age((int64_t)l->now_ms - time->number, age);
    *time = cell_text(age);
}

static int
list_row(void *ctx, const struct waiting_sum *sum)
{
    struct held_list *l = ctx;
    char oldest[32], since[32], why[WAITING_WHY_SIZE];
    struct cell cells[WAITING_COLUMNS];

    l->any = true;
    waiting_cells(l->in.store, sum, &l->limits, why, cells);
    if (l->out.format == OUTPUT_PEOPLE) {
        show_age(l, &cells[WAITING_OLDEST], oldest);
        show_age(l, &cells[WAITING_SINCE], since);
    }
    output_row(&l->out, cells);
    return 0;
}

static int
held_list(struct cmd_line *line)
{
    struct held_list l = {.limits = {line->config.keyspace_max,
                                     line->config.keyspace_max_keys, 0},
                          .now_ms = clock_unix_ms()};
    struct unmerged unmerged;
    int rc, status;

    status = store_session_open(line, SESSION_READ, &l.in);
    if (status != 0)
        return status;
    rc = unmerged_read(&l.in.dir, &l.in.waiting, l.in.store, &unmerged);
    if (rc == 0) {
        output_init(&l.out, line, waiting_columns, WAITING_COLUMNS);
        rc = waiting_each(l.in.store, &l.in.waiting, list_row, &l);
        output_fini(&l.out);
    }
    if (rc < 0) {
        status = cmd_failed(rc, "read log/" WAITING_FOLDER);
    } else if (l.any || unmerged.damaged > 0) {
        /* The rows say it; countd log list. */
        unmerged.fills = unmerged.logs = 0;
        unmerged_warn(&unmerged, "not merged");
        status = CONFIG_EXIT_NEGATIVE;
    }
    store_session_close(&l.in);
    return status;
}

/* ---- drop -------------------------------------------------------------- */

/* Returns an exit status. */
static int
drop_one(const struct cmd_line *line, struct store_session *in,
         const char *text, struct wait_turn *turn)
{
    const struct increment_name name = cmd_name(line, text, "keyspace");
    struct waiting_left_out what = {.name = name.bytes, .size = name.size};
    int rc;

    do
        rc = waiting_leave_out(&in->waiting, &what);
    while (wait_turn(turn, rc, 0));
    if (rc < 0)
        return cmd_failed(rc, "drop what waits for keyspace %s", text);
    (void)printf("dropped keyspace=%s held=%" PRIu64 "\n", text, what.fills);
    return what.fills > 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_NEGATIVE;
}

static int
held_drop_named(struct cmd_line *line)
{
    const uint64_t timeout_ms = cmd_option_ms(line, "timeout", 30000);
    struct wait_turn turn = {0};
    struct store_session in;
    int status;

    for (int i = 1; i < line->arg_count; i++)
        (void)cmd_name(line, line->args[i], "keyspace"); /* refused at once */
    status = store_session_open(line, SESSION_WRITE, &in);
    if (status != 0)
        return status;
    turn.deadline_ms = clock_ms() + timeout_ms;
    for (int i = 1; i < line->arg_count; i++)
        status = cmd_worse(status, drop_one(line, &in, line->args[i], &turn));
    store_session_close(&in);
    return status;
}

int
cmd_held(struct cmd_line *line)
{
    static const struct cmd_verb verbs[] = {{"", 0, 0, held_list},
                                            {"drop", 2, -1, held_drop_named}};

    return cmd_run_verb(line, verbs, sizeof verbs / sizeof verbs[0]);
}
