/* common/setup/status.c - see status.h: status_create() makes the board,
 * status_put() and status_put_log() attach and put rows, status_print() prints
 * one. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/status.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/net/http.h"
#include "common/setup/figures.h"

#define LOG_TRIES 4 /* of a slot that others change, too */
#define LINE_SIZE 2048

static const char *const kinds[STATUS_KINDS] = {"none",   "writer", "worker",
                                                "reader", "port",   "live"};

static const char *const log_names[STATUS_LOG_VALUES] = {
    "state", "epoch", "messages", "owner", "since_ms"};

const char *
status_kind_name(enum status_kind kind)
{
    return kinds[kind];
}

/* ---- the board --------------------------------------------------------- */

void
status_shape(struct countd_board_shape *out)
{
    static const char *names[STATUS_LOG_VALUES + STATUS_CELL_VALUES];

    for (size_t i = 0; i < STATUS_LOG_VALUES + STATUS_CELL_VALUES; i++)
        names[i] = i < STATUS_LOG_VALUES ? log_names[i] : "";
    names[STATUS_LOG_VALUES + STATUS_CELL_KIND] = "kind";
    names[STATUS_LOG_VALUES + STATUS_CELL_STARTED_MS] =
        figures[STATUS_STARTED_MS].name;
    names[STATUS_LOG_VALUES + STATUS_CELL_BEAT_MS] =
        figures[STATUS_BEAT_MS].name;
    *out = (struct countd_board_shape){.size = sizeof *out,
                                       .slots = STATUS_SLOTS + STATUS_LOGS,
                                       .shared_count = STATUS_LOG_VALUES,
                                       .private_count = STATUS_CELL_VALUES,
                                       .cells = 1,
                                       .names = names};
}

void
status_init(struct status *s, const char *data_dir)
{
    *s = (struct status){.started_ms = clock_unix_ms()};
    if (snprintf(s->path, sizeof s->path, "%s/" STATUS_FILE, data_dir) >=
        (int)sizeof s->path)
        s->path[0] = '\0'; /* nothing can be there */
}

/* Stores a number that distinguishes this board from the next one; never 0. */
static void
note_epoch(struct status *s)
{
    struct countd_board_info info;

    countd_board_info(s->board, &info);
    s->epoch = info.epoch | 1;
}

void
status_create(struct status *s, const char *data_dir)
{
    char error[COUNTD_BOARD_ERROR_SIZE];
    struct countd_board_shape shape;
    int rc;

    status_init(s, data_dir);
    s->master = true;
    status_shape(&shape);
    rc = countd_board_create(&s->board, s->path, &shape, error);
    /* A file of that name in the data directory is ours, whatever has become of
     * it. */
    if (rc == -EBADMSG && unlink(s->path) == 0)
        rc = countd_board_create(&s->board, s->path, &shape, error);
    if (rc < 0)
        diag(DIAG_WARNING, "countd status will not work: %s", error);
    else
        note_epoch(s);
}

void
status_close(struct status *s)
{
    if (s->board)
        countd_board_close(s->board);
    s->board = NULL;
}

/* Attaches if there is a board, even one whose master has died: countd status
 * then still shows which daemons live. */
static bool
is_attached(struct status *s)
{
    char error[COUNTD_BOARD_ERROR_SIZE];
    int64_t values[STATUS_LOG_VALUES];
    struct countd_board_shape shape;
    uint64_t generation;
    int rc;

    if (s->board && !s->master &&
        countd_board_read(s->board, 0, values, &generation) == -ENOTCONN)
        status_close(s); /* there is a newer one */
    if (s->board || s->master)
        return s->board != NULL;
    status_shape(&shape);
    rc = countd_board_attach(&s->board, s->path, &shape, COUNTD_BOARD_ORPHAN,
                             error);
    if (rc < 0 && rc != -ENOENT && rc != -ESRCH && rc != -EAGAIN &&
        !s->reported) {
        s->reported = true;
        diag(DIAG_WARNING, "countd status will not show this process: %s",
             error);
    }
    if (rc == 0)
        note_epoch(s);
    return rc == 0;
}

/* ---- rows -------------------------------------------------------------- */

/* Whether a slot may be claimed in this round. First the slot of a dead process
 * that this one replaces, so that it is no longer reported missing; then a free
 * one; last a slot of any dead process, because countd status reports those as
 * long as their slots are not needed. */
static bool
is_for(const struct status_row *row, int round, const int64_t *values,
       pid_t owner)
{
    if (owner > 0)
        return false;
    if (round == 2)
        return owner < 0;
    if (round == 1)
        return owner == 0;
    return owner < 0 && values[STATUS_CELL_KIND] == row->kind &&
           memcmp(values + STATUS_CELL_NAME, row->name, STATUS_NAME) == 0;
}

static bool
claim_slot(struct status *s, struct status_row *row)
{
    int64_t values[STATUS_CELL_VALUES];
    uint32_t cell;
    pid_t owner;

    for (int round = 0; round < 3; round++)
        for (uint32_t i = 0; i < STATUS_SLOTS; i++) {
            if (countd_board_read_cell(s->board, i, 0, values, &owner) < 0 ||
                !is_for(row, round, values, owner))
                continue;
            if (countd_board_claim(s->board, i, &cell) == 0) {
                row->slot = i;
                row->epoch = s->epoch;
                return true;
            }
        }
    return false;
}

void
status_put(struct status *s, struct status_row *row)
{
    int64_t cell[STATUS_CELL_VALUES] = {
        [STATUS_CELL_KIND] = row->kind,
        [STATUS_CELL_STARTED_MS] = (int64_t)s->started_ms,
        [STATUS_CELL_BEAT_MS] = (int64_t)clock_unix_ms(),
        [STATUS_CELL_STEADY_MS] = (int64_t)clock_ms()};
    struct countd_board_value all[STATUS_CELL_VALUES];
    struct countd_board_change change = {.values = all,
                                         .count = STATUS_CELL_VALUES};
    size_t count;
    const struct figure *f = figures_of(row->kind, &count);

    if (!is_attached(s) || (row->epoch != s->epoch && !claim_slot(s, row)))
        return;
    assert(STATUS_CELL_FIGURES + count <= STATUS_CELL_VALUES);
    memcpy(cell + STATUS_CELL_NAME, row->name, STATUS_NAME);
    memcpy(cell + STATUS_CELL_FIGURES, row->values + (f - figures),
           count * sizeof *cell);
    for (uint32_t i = 0; i < STATUS_CELL_VALUES; i++)
        all[i] = (struct countd_board_value){i, cell[i]};
    /* After an error the next call puts newer values. */
    (void)countd_board_update(s->board, row->slot, 0, NULL, &change);
}

void
status_get_log(struct status *s, uint64_t index, int64_t *values)
{
    uint64_t generation;

    memset(values, 0, STATUS_LOG_VALUES * sizeof *values);
    if (index >= STATUS_LOGS || !is_attached(s))
        return;
    /* After an error the values stay zero. */
    (void)countd_board_read(s->board, STATUS_SLOTS + (uint32_t)index, values,
                            &generation);
}

void
status_put_log(struct status *s, uint64_t index, const int64_t *values)
{
    const uint32_t slot = STATUS_SLOTS + (uint32_t)index;
    int64_t there[STATUS_LOG_VALUES];
    uint64_t generation;

    if (index >= STATUS_LOGS || !is_attached(s))
        return;
    for (int i = 0; i < LOG_TRIES; i++) {
        if (countd_board_read(s->board, slot, there, &generation) < 0 ||
            memcmp(there, values, sizeof there) == 0 ||
            countd_board_update(s->board, slot, generation, values, NULL) !=
                -ESTALE)
            return;
    }
}

void
status_fill_listener(struct status_row *row, const struct listener *d)
{
    int64_t *v = row->values;

    static_assert(sizeof d->stats ==
                      (STATUS_L_PORT - STATUS_L_CONNECTIONS) * sizeof *v,
                  "its statistics are figures, in their order");
    row->kind = STATUS_LISTENER;
    (void)snprintf(row->name, sizeof row->name, "%s", d->row->name);
    v[STATUS_L_OPEN] = (int64_t)d->open;
    memcpy(v + STATUS_L_CONNECTIONS, &d->stats, sizeof d->stats);
    v[STATUS_L_PORT] = d->port;
    if (d->row->protocol == &http_protocol) {
        const struct http_site *site = d->row->ctx;

        memcpy(v + STATUS_L_HTTP_2XX, site->stats.by_class,
               sizeof site->stats.by_class);
    }
}

void
status_print(const char *before, const struct status_row *row)
{
    size_t count, at = 0;
    const struct figure *f = figures_of(row->kind, &count);
    char line[LINE_SIZE];

    if (row->name[0] != '\0')
        at = (size_t)snprintf(line, sizeof line, "%s=%s ",
                              status_kind_name(row->kind), row->name);
    for (size_t i = 0; i < count && at < sizeof line; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%s=%" PRId64,
                               i > 0 ? " " : "", f[i].name,
                               row->values[&f[i] - figures]);
    diag(DIAG_INFO, "%s%s", before, line);
}
