/* reader/read_state.c - commands about the state of the data directory:
 * processes, what waits, commit logs; see read_commands.h.
 *
 * The logs are read in steps, a file or a few in each turn of the loop. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_commands.h"

#include <errno.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/log/log_table.h"
#include "common/store/waiting_table.h"

#define ROWS_MAX QUERY_ROWS_MAX

/* ---- processes ---------------------------------------------------------- */

bool
read_board(struct read_http *h)
{
    return overview_read(&h->overview) == 0;
}

const struct read_problem *
read_status(struct read_request *a)
{
    static const struct read_problem no_board = {
        HTTP_UNAVAILABLE, "no-board",
        "no countd-write has run on this data directory"};

    if (!read_board(a->http))
        return &no_board;
    overview_write(&a->http->overview, &a->table);
    return NULL;
}

/* ---- what waits ---------------------------------------------------------- */

#define OPENED_MAX 64 /* of more keyspaces none is opened: that takes time */

struct waiting_rows {
    struct read_request *a;
    struct store *store;
    struct waiting_limits limits;
    size_t count;
};

static int
put_waiting(void *ctx, const struct waiting_sum *sum)
{
    struct waiting_rows *rows = ctx;
    struct cell cells[WAITING_COLUMNS];
    char why[WAITING_WHY_SIZE];

    if (rows->count++ == ROWS_MAX)
        return 1;
    waiting_cells(rows->store, sum, &rows->limits, why, cells);
    table_row(&rows->a->table, cells);
    return 0;
}

const struct read_problem *
read_held(struct read_request *a)
{
    static const struct read_problem too_many = {
        HTTP_UNAVAILABLE, "too-many-keyspaces",
        "fills wait for more than 4096 keyspaces; countd held lists them"};
    const struct as_of *f = a->http->jobs->as_of;
    struct waiting_rows rows = {.a = a, .limits = a->http->held_limits};

    /* A database would have to be waited for. */
    if (f->waiting.names.count <= OPENED_MAX && store_is_local(f->store))
        rows.store = f->store;

    table_next_rows(&a->table, "rows", waiting_columns, WAITING_COLUMNS);
    if (waiting_each(rows.store, &f->waiting, put_waiting, &rows) != 0)
        return &too_many;
    table_rows_end(&a->table);
    table_end(&a->table);
    return NULL;
}

/* ---- logs ---------------------------------------------------------------- */

/* Reads the names; the error is what read_logs() reports. */
static void
list_logs(struct read_request *a)
{
    struct read_job *w = a->job;
    struct read_logs *l = &w->logs;

    w->list_error = logfile_list_read(&l->list, a->http->dir->log_fd);
    if (w->list_error < 0 || l->list.count == 0 || l->list.count > ROWS_MAX)
        return;
    l->rows = scratch_take(&w->scratch, l->list.count * sizeof *l->rows);
    w->list_error = l->rows ? 0 : -ENOMEM;
}

bool
read_logs_step(struct read_request *a, uint64_t until_ns)
{
    struct read_logs *l = &a->job->logs;

    if (a->phase++ == 0) {
        list_logs(a);
        a->done = 0;
    }
    if (!l->rows)
        return true;
    while (a->done < l->list.count) {
        log_row_read(a->http->dir->log_fd, &l->list.files[a->done],
                     clock_unix_ms(), &l->rows[a->done]);
        a->done++;
        if (clock_ns() >= until_ns)
            break;
    }
    return a->done == l->list.count;
}

const struct read_problem *
read_logs(struct read_request *a)
{
    static const struct read_problem
        unreadable = {HTTP_INTERNAL_ERROR, "unreadable",
                      "the folder log cannot be read; the log of countd-read "
                      "says why"},
        too_many = {HTTP_UNAVAILABLE, "too-many-logs",
                    "log has more than 4096 files; countd log list shows them"};
    static struct diag_repeat failures;
    const struct read_logs *l = &a->job->logs;

    if (a->job->list_error < 0) {
        diag_repeating(&failures, DIAG_ERROR, "cannot read log: %s",
                       diag_text(a->job->list_error));
        return &unreadable;
    }
    if (l->list.count > ROWS_MAX)
        return &too_many;
    table_next_rows(&a->table, "rows", log_columns, LOG_COLUMNS);
    for (size_t i = 0; i < l->list.count; i++)
        table_row(&a->table, l->rows[i].cells);
    table_rows_end(&a->table);
    table_end(&a->table);
    return NULL;
}
