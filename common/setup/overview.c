/* common/setup/overview.c - see overview.h: overview_open(),
 * overview_read(), then overview_troubles() or overview_report(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/overview.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/setup/config.h"

static int
attach_board(struct overview *o, char *error, size_t size)
{
    struct countd_board_shape shape;

    status_shape(&shape);
    return countd_board_attach(&o->board, o->path, &shape,
                               COUNTD_BOARD_READ_ONLY | COUNTD_BOARD_ORPHAN,
                               error, size);
}

void
overview_init(struct overview *o, const char *data_dir)
{
    memset(o, 0, sizeof *o);
    if (snprintf(o->path, sizeof o->path, "%s/" STATUS_FILE, data_dir) >=
        (int)sizeof o->path)
        o->path[0] = '\0';
}

int
overview_open(struct overview *o, const char *data_dir)
{
    char error[COUNTD_BOARD_ERROR_SIZE];
    int rc;

    overview_init(o, data_dir);
    rc = o->path[0] == '\0' ? -ENAMETOOLONG
                            : attach_board(o, error, sizeof error);
    if (rc == 0)
        return 0;
    if (rc == -ENOENT)
        diag(DIAG_ERROR,
             "there is no %s: no countd-write has run on this data directory",
             o->path);
    else if (rc == -ENAMETOOLONG)
        diag_errno(DIAG_ERROR, rc, "data_dir");
    else
        diag(DIAG_ERROR, "%s", error);
    return rc == -ENOENT ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_SYSTEM;
}

void
overview_close(struct overview *o)
{
    if (o->board)
        countd_board_close(o->board);
    o->board = NULL;
}

/* ---- reading ----------------------------------------------------------- */

static int
read_rows(struct overview *o)
{
    o->count = 0;
    for (uint32_t i = 0; i < STATUS_SLOTS; i++) {
        struct overview_row *r = &o->rows[o->count];
        const int rc =
            countd_board_read_cell(o->board, i, 0, r->values, &r->pid);

        if (rc < 0)
            return rc;
        if (r->pid == 0 || r->values[STATUS_KIND] <= STATUS_NONE ||
            r->values[STATUS_KIND] >= STATUS_KINDS)
            continue;
        r->kind = (enum status_kind)r->values[STATUS_KIND];
        r->slot = i;
        o->count++;
    }
    return 0;
}

static void
count_log(struct overview *o, size_t index)
{
    const int64_t *v = o->logs[index];
    const int64_t state = v[STATUS_LOG_STATE];
    int64_t lag;

    if (state <= STATUS_LOG_NONE || state >= STATUS_LOG_STATES)
        return;
    o->log_end = index + 1;
    o->by_state[state]++;
    if (state == STATUS_LOG_EMPTY)
        return;
    if (v[STATUS_LOG_MESSAGES] > 0)
        o->messages += v[STATUS_LOG_MESSAGES];
    else if (v[STATUS_LOG_MESSAGES] < 0)
        o->uncounted++;
    lag = (int64_t)o->now_ms - v[STATUS_LOG_SINCE_MS];
    if (v[STATUS_LOG_SINCE_MS] > 0 && lag > o->lag_ms)
        o->lag_ms = lag;
}

static int
read_all(struct overview *o)
{
    struct countd_board_info info;
    uint64_t generation;
    int rc;

    countd_board_info(o->board, &info);
    o->alive = info.master_alive != COUNTD_BOARD_DEAD;
    o->writer = info.master;
    o->created_ms = info.created_ms;
    o->now_ms = clock_unix_ms();
    o->log_end = o->uncounted = 0;
    o->messages = o->lag_ms = 0;
    memset(o->by_state, 0, sizeof o->by_state);
    rc = read_rows(o);
    for (size_t i = 0; i < STATUS_LOGS && rc == 0; i++) {
        rc = countd_board_read(o->board, STATUS_SLOTS + (uint32_t)i, o->logs[i],
                               &generation);
        count_log(o, i);
    }
    return rc;
}

int
overview_read(struct overview *o)
{
    char error[COUNTD_BOARD_ERROR_SIZE];
    int rc = o->board ? read_all(o) : -ENOTCONN;

    if (rc != -ENOTCONN)
        return rc;
    overview_close(o);
    rc = attach_board(o, error, sizeof error);
    return rc == 0 ? read_all(o) : rc;
}

const struct overview_row *
overview_writer(const struct overview *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i].kind == STATUS_WRITER)
            return &o->rows[i];
    return NULL;
}

int64_t
overview_silent_ms(const struct overview *o, const struct overview_row *r)
{
    const int64_t ms = (int64_t)o->now_ms - r->values[STATUS_BEAT_MS];

    return ms > 0 ? ms : 0;
}

static int64_t
silent_max_ms(const struct overview_row *r)
{
    return r->kind == STATUS_WRITER ? OVERVIEW_HUNG_MS : OVERVIEW_SILENT_MS;
}

bool
overview_writer_works(const struct overview *o)
{
    const struct overview_row *w = overview_writer(o);

    return o->alive && (!w || overview_silent_ms(o, w) <= OVERVIEW_HUNG_MS);
}

void
overview_port_name(const struct overview_row *row, char name[17])
{
    memcpy(name, &row->values[STATUS_L_NAME], 16);
    name[16] = '\0';
    for (char *c = name; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

/* ---- troubles ---------------------------------------------------------- */

struct troubles {
    void (*each)(void *ctx, const char *text);
    void *ctx;
    int count;
};

static void report_trouble(struct troubles *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
report_trouble(struct troubles *t, const char *format, ...)
{
    char text[OVERVIEW_TEXT];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* cut is good enough */
    va_end(args);
    t->count++;
    t->each(t->ctx, text);
}

static size_t
count_living(const struct overview *o, enum status_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < o->count; i++)
        n += o->rows[i].kind == kind && o->rows[i].pid > 0;
    return n;
}

static void
report_daemons_troubles(const struct overview *o, struct troubles *t)
{
    const bool settled = o->now_ms > o->created_ms + OVERVIEW_GRACE_MS;

    if (!o->alive)
        report_trouble(t, "countd-write is down, pid %ld was the last",
                       (long)o->writer);
    if (settled && count_living(o, STATUS_WORKER) == 0)
        report_trouble(t, "no countd-worker runs: nothing is merged");
    if (settled && count_living(o, STATUS_READER) == 0)
        report_trouble(t, "no countd-read runs");
    for (size_t i = 0; i < o->count; i++) {
        const struct overview_row *r = &o->rows[i];
        const int64_t silent = overview_silent_ms(o, r);
        const char *name = r->kind == STATUS_READER   ? "read"
                           : r->kind == STATUS_WORKER ? "worker"
                                                      : "write";

        if (r->kind == STATUS_LISTENER)
            continue;
        if (r->pid < 0 && r->kind != STATUS_WRITER)
            report_trouble(t, "countd-%s died, pid %ld", name, (long)-r->pid);
        else if (r->pid > 0 && silent > silent_max_ms(r))
            report_trouble(t,
                           "countd-%s says nothing for %" PRId64
                           " s, pid %ld: it is stopped or hangs",
                           name, silent / 1000, (long)r->pid);
    }
}

static void
report_data_troubles(const struct overview *o, struct troubles *t)
{
    const struct overview_row *w = overview_writer(o);
    int64_t damaged = 0;
    bool held = false, waits = false, older = false, rests = false;

    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i].kind == STATUS_WORKER && o->rows[i].pid > 0) {
            if (o->rows[i].values[STATUS_M_HELD_BAD] > damaged)
                damaged = o->rows[i].values[STATUS_M_HELD_BAD];
            held |= o->rows[i].values[STATUS_M_HELD_NOW] != 0;
            waits |= o->rows[i].values[STATUS_M_WAITING] != 0;
            older |= o->rows[i].values[STATUS_M_OLDER] != 0;
        }
    for (size_t i = 0; i < o->count; i++) {
        const struct overview_row *r = &o->rows[i];

        if (r->kind == STATUS_READER && r->pid > 0 &&
            r->values[STATUS_R_AS_OF_MS] > 0 &&
            (int64_t)o->now_ms - r->values[STATUS_R_AS_OF_MS] > OVERVIEW_LAG_MS)
            rests = true;
    }
    if (rests)
        report_trouble(t, "as_of_ms rests for more than a minute: what is read "
                          "is old");
    if (o->lag_ms > OVERVIEW_LAG_MS)
        report_trouble(t, "the merge is %" PRId64 " s behind",
                       o->lag_ms / 1000);
    if (held)
        report_trouble(t,
                       "records are held for keyspaces that cannot take them: "
                       "countd held");
    if (damaged > 0)
        report_trouble(t,
                       "%" PRId64 " file%s of held records damaged: countd "
                       "check; remove held/bad-* afterwards",
                       damaged, damaged == 1 ? "" : "s");
    if (older)
        report_trouble(t,
                       "keyspace/ is older than log/ or was replaced, nothing "
                       "is merged: see the messages of countd-worker");
    if (waits)
        report_trouble(t, "a worker cannot write now: see its messages");
    if (!w)
        return;
    if ((int64_t)o->now_ms - w->values[STATUS_W_STATSD_DROPPED_MS] <
        OVERVIEW_RECENT_MS)
        report_trouble(t,
                       "the kernel dropped StatsD datagrams within the last "
                       "ten minutes, %" PRId64
                       " since the start: raise statsd.rcvbuf",
                       w->values[STATUS_W_STATSD_DROPPED]);
    if (w->values[STATUS_W_QUARANTINED] > 0)
        report_trouble(t, "%" PRId64 " damaged log%s quarantined: countd log",
                       w->values[STATUS_W_QUARANTINED],
                       w->values[STATUS_W_QUARANTINED] == 1 ? "" : "s");
    if (w->values[STATUS_W_DISK_SIZE] > 0 &&
        w->values[STATUS_W_DISK_FREE] <
            w->values[STATUS_W_DISK_SIZE] / OVERVIEW_DISK_SHARE)
        report_trouble(t, "the disk is nearly full: %" PRId64 " MB free",
                       w->values[STATUS_W_DISK_FREE] / 1000000);
}

int
overview_troubles(const struct overview *o,
                  void (*each)(void *ctx, const char *text), void *ctx)
{
    struct troubles t = {each, ctx, 0};

    report_daemons_troubles(o, &t);
    report_data_troubles(o, &t);
    return t.count;
}

/* ---- for programs ------------------------------------------------------ */

const struct table_column overview_columns[OVERVIEW_COLUMNS] = {
    {"process", "process", false}, {"pid", "pid", true},
    {"alive", "alive", false},     {"figure", "figure", false},
    {"value", "value", true},
};

const struct table_column overview_sentences[1] = {
    {"sentence", "sentence", false}};

static void
count_trouble(void *ctx, const char *text)
{
    (void)ctx;  /* overview_troubles() counts */
    (void)text; /* the facts say it */
}

/* Every figure of a row, under its name. */
static void
report_row(const struct overview_row *r, const struct overview_sink *sink)
{
    const bool listener = r->kind == STATUS_LISTENER;
    char name[32] = "port ";

    if (listener)
        overview_port_name(r, name + 5);
    for (size_t i = listener ? (size_t)STATUS_L_OPEN : STATUS_STARTED_MS;
         status_name(r->kind, i); i++) {
        const struct cell cells[OVERVIEW_COLUMNS] = {
            cell_text(listener ? name : status_kind_name(r->kind)),
            cell_number(r->pid < 0 ? -r->pid : r->pid),
            cell_bool(r->pid > 0),
            cell_text(status_name(r->kind, i)),
            cell_number(r->values[i]),
        };

        sink->row(sink->ctx, cells);
    }
}

int
overview_report(const struct overview *o, const struct overview_sink *sink)
{
    const int troubles = overview_troubles(o, count_trouble, NULL);

    sink->fact(sink->ctx, "writer_alive", cell_bool(o->alive));
    sink->fact(sink->ctx, "troubles", cell_number(troubles));
    sink->fact(sink->ctx, "lag_ms", cell_number(o->lag_ms));
    sink->fact(sink->ctx, "unmerged", cell_number(o->messages));
    sink->fact(sink->ctx, "logs_uncounted", cell_number((int64_t)o->uncounted));
    for (int i = STATUS_LOG_EMPTY; i < STATUS_LOG_STATES; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "logs_%s", status_log_name(i));
        sink->fact(sink->ctx, name, cell_number((int64_t)o->by_state[i]));
    }
    for (size_t i = 0; i < o->count; i++)
        report_row(&o->rows[i], sink);
    return troubles;
}
