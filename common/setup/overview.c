/* common/setup/overview.c - see overview.h: overview_open(),
 * overview_read(), then overview_troubles() or overview_write(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/overview.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/setup/config.h"
#include "common/setup/figures.h"

static int
attach_board(struct overview *o, char *error)
{
    struct countd_board_shape shape;

    status_shape(&shape);
    return countd_board_attach(&o->board, o->path, &shape,
                               COUNTD_BOARD_READ_ONLY | COUNTD_BOARD_ORPHAN,
                               error);
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
    rc = o->path[0] == '\0' ? -ENAMETOOLONG : attach_board(o, error);
    if (rc == 0)
        return 0;
    if (rc == -ENOENT)
        diag(DIAG_ERROR,
             "there is no %s: no countd-write has run on this data directory; "
             "-d or data_dir names another",
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

static int64_t
life_value(int life)
{
    return life == COUNTD_BOARD_UNKNOWN ? FIGURE_UNKNOWN
                                        : life == COUNTD_BOARD_ALIVE;
}

static void
put_name(const int64_t *cell, char name[STATUS_NAME + 1])
{
    memcpy(name, cell + STATUS_CELL_NAME, STATUS_NAME);
    name[STATUS_NAME] = '\0';
    for (char *c = name; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

/* How long ago a row was put: by the clock that nobody sets.  Unless the process
 * is seen to live the machine may have been started since, which sets that clock
 * back: then the other one may know of more. */
static int64_t
silence_of(const struct overview *o, const int64_t *cell, int life)
{
    const int64_t put = cell[STATUS_CELL_STEADY_MS];
    const int64_t now = (int64_t)clock_ms();
    const bool is_known = put > 0 && put <= now;
    int64_t ms = (int64_t)o->now_ms - cell[STATUS_CELL_BEAT_MS];

    if (is_known && (life == COUNTD_BOARD_ALIVE || now - put > ms))
        ms = now - put;
    return ms > 0 ? ms : 0;
}

static int
read_rows(struct overview *o)
{
    int64_t cell[STATUS_CELL_VALUES];
    struct countd_board_owner owner;
    size_t count;

    for (uint32_t i = 0; i < STATUS_SLOTS; i++) {
        struct overview_row *r = &o->rows[o->count];
        int64_t *v = r->values;
        const struct figure *f;
        const int rc = countd_board_read_owned(o->board, i, 0, cell, &owner);

        if (rc < 0)
            return rc;
        if (owner.pid == 0 || cell[STATUS_CELL_KIND] <= STATUS_NONE ||
            cell[STATUS_CELL_KIND] >= STATUS_KINDS)
            continue;
        r->kind = (enum status_kind)cell[STATUS_CELL_KIND];
        r->pid = owner.pid;
        r->slot = i;
        put_name(cell, r->name);
        v[STATUS_ALIVE] = life_value(owner.life);
        v[STATUS_STARTED_MS] = cell[STATUS_CELL_STARTED_MS];
        v[STATUS_BEAT_MS] = cell[STATUS_CELL_BEAT_MS];
        v[STATUS_SILENT_MS] = silence_of(o, cell, owner.life);
        f = figures_of(r->kind, &count);
        memcpy(v + (f - figures), cell + STATUS_CELL_FIGURES,
               count * sizeof *v);
        o->count++;
    }
    return 0;
}

static void
count_log(struct overview *o, const int64_t *v)
{
    const int64_t state = v[STATUS_LOG_STATE];
    int64_t *facts = o->rows[0].values, lag;

    if (state <= STATUS_LOG_NONE || state >= STATUS_LOG_STATES)
        return;
    facts[STATUS_D_LOGS_EMPTY + state - STATUS_LOG_EMPTY]++;
    if (state == STATUS_LOG_EMPTY)
        return;
    if (v[STATUS_LOG_MESSAGES] > 0)
        facts[STATUS_D_UNMERGED] += v[STATUS_LOG_MESSAGES];
    else if (v[STATUS_LOG_MESSAGES] < 0)
        facts[STATUS_D_LOGS_UNCOUNTED]++;
    lag = (int64_t)o->now_ms - v[STATUS_LOG_SINCE_MS];
    if (v[STATUS_LOG_SINCE_MS] > 0 && lag > facts[STATUS_D_LAG_MS])
        facts[STATUS_D_LAG_MS] = lag;
}

/* How many of the kind are not dead; daemons need time to find a new board. */
static int64_t
count_living(const struct overview *o, enum status_kind kind)
{
    int64_t n = 0;

    for (size_t i = 0; i < o->count; i++)
        n += o->rows[i].kind == kind && !overview_is_dead(&o->rows[i]);
    return n > 0 || o->now_ms > o->created_ms + OVERVIEW_GRACE_MS
               ? n
               : FIGURE_UNKNOWN;
}

static void
ignore_sentence(void *ctx, const char *text)
{
    (void)ctx; /* overview_troubles() counts */
    (void)text;
}

static int
read_all(struct overview *o)
{
    struct countd_board_info info;
    int64_t *facts = o->rows[0].values, log[STATUS_LOG_VALUES];
    uint64_t generation;
    int rc;

    countd_board_info(o->board, &info);
    o->rows[0] =
        (struct overview_row){.kind = STATUS_DIRECTORY, .pid = info.master};
    facts[STATUS_ALIVE] = 1;
    facts[STATUS_D_WRITER_ALIVE] = life_value(info.master_alive);
    o->count = 1;
    o->created_ms = info.created_ms;
    o->now_ms = clock_unix_ms();
    rc = read_rows(o);
    for (size_t i = 0; i < STATUS_LOGS && rc == 0; i++) {
        rc = countd_board_read(o->board, STATUS_SLOTS + (uint32_t)i, log,
                               &generation);
        if (rc == 0)
            count_log(o, log);
    }
    facts[STATUS_D_WORKERS] = count_living(o, STATUS_WORKER);
    facts[STATUS_D_READERS] = count_living(o, STATUS_READER);
    facts[STATUS_D_TROUBLES] = overview_troubles(o, ignore_sentence, NULL);
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
    rc = attach_board(o, error);
    return rc == 0 ? read_all(o) : rc;
}

bool
overview_writer_works(const struct overview *o)
{
    bool silent = false;

    for (size_t i = 0; i < o->count; i++)
        silent |= o->rows[i].kind == STATUS_WRITER &&
                  o->rows[i].values[STATUS_SILENT_MS] > OVERVIEW_HUNG_MS;
    return overview_fact(o, STATUS_D_WRITER_ALIVE) != 0 && !silent;
}

/* ---- what needs an operator --------------------------------------------- */

static const char *
figure_text(const struct figure *f, int64_t value, char text[32])
{
    if (f->unit == FIGURE_MS)
        (void)snprintf(text, 32, "%" PRId64 " s", value / 1000);
    else if (f->unit == FIGURE_BYTES)
        (void)snprintf(text, 32, "%" PRId64 " MB", value / 1000000);
    else
        (void)snprintf(text, 32, "%" PRId64, value);
    return text;
}

static void
write_sentence(const struct figure *f, const struct overview_row *r,
               char text[OVERVIEW_TEXT])
{
    const int64_t value = r->values[f - figures];
    const char *const begin = f->needs == FIGURE_NOTED ? "note: " : "";
    char number[32], pid[32];
    size_t at = strlen(begin);

    memcpy(text, begin, at + 1);
    (void)snprintf(pid, sizeof pid, "%ld", (long)r->pid);
    for (const char *c = f->sentence; *c != '\0'; c++) {
        const char one[2] = {*c, '\0'};
        const char *part = one;

        if (*c == '#')
            part = figure_text(f, value, number);
        else if (*c == '~')
            part = value == 1 ? "" : "s";
        else if (*c == '&')
            part = pid;
        else if (*c == '@')
            part = r->kind == STATUS_READER   ? "read"
                   : r->kind == STATUS_WORKER ? "worker"
                                              : "write";
        at += (size_t)snprintf(text + at, OVERVIEW_TEXT - at, "%s", part);
        if (at >= OVERVIEW_TEXT)
            return; /* cut is good enough */
    }
}

/* `v` is the figure and the one after it. */
static bool
needs_operator(const struct overview *o, const struct figure *f,
               const int64_t *v, int64_t limit)
{
    const int64_t now_ms = (int64_t)o->now_ms;

    switch (v[0] == FIGURE_UNKNOWN ? FIGURE_NEVER : f->needs) {
    case FIGURE_ZERO:
        return v[0] == 0;
    case FIGURE_ABOVE:
    case FIGURE_NOTED:
        return v[0] > limit;
    case FIGURE_OLD:
        return v[0] > 0 && now_ms - v[0] > limit;
    case FIGURE_RECENT:
        return now_ms - v[1] < limit;
    case FIGURE_SHARE:
        return v[0] < v[1] / limit;
    default:
        return false;
    }
}

/* The dead are not judged by what they put last, except for the writer, which
 * speaks for the directory; that it is dead is a figure of the directory. */
static bool
is_judged(const struct figure *f, const struct overview_row *r)
{
    if (f->kind != STATUS_PROCESS)
        return f->kind == r->kind &&
               (r->kind == STATUS_WRITER || !overview_is_dead(r));
    if (!status_is_daemon(r->kind))
        return false;
    return f == &figures[STATUS_ALIVE] ? r->kind != STATUS_WRITER
                                       : !overview_is_dead(r);
}

static int64_t
limit_of(const struct figure *f, const struct overview_row *r)
{
    return f == &figures[STATUS_SILENT_MS] && r->kind == STATUS_WRITER
               ? OVERVIEW_HUNG_MS
               : f->limit;
}

/* Calls `each` for the sentences of the figure: one for each process, if it is
 * one of those, or else one with the largest value.  Returns how many need an
 * operator. */
static int
judge_rows(const struct overview *o, const struct figure *f,
           void (*each)(void *ctx, const char *text), void *ctx)
{
    const size_t i = (size_t)(f - figures);
    const struct overview_row *worst = NULL, *r;
    char text[OVERVIEW_TEXT];
    int count = 0;

    for (r = o->rows; r < o->rows + o->count; r++) {
        if (!is_judged(f, r) ||
            !needs_operator(o, f, &r->values[i], limit_of(f, r)))
            continue;
        if (f->kind != STATUS_PROCESS) {
            if (!worst || r->values[i] > worst->values[i])
                worst = r;
            continue;
        }
        write_sentence(f, r, text);
        each(ctx, text);
        count++;
    }
    if (!worst)
        return count;
    write_sentence(f, worst, text);
    each(ctx, text);
    return f->needs != FIGURE_NOTED;
}

int
overview_troubles(const struct overview *o,
                  void (*each)(void *ctx, const char *text), void *ctx)
{
    int count = 0;

    for (size_t i = 0; i < STATUS_FIGURES; i++)
        if (figures[i].needs != FIGURE_NEVER)
            count += judge_rows(o, &figures[i], each, ctx);
    return count;
}

/* ---- for programs ------------------------------------------------------ */

#define COLUMNS 6
static const struct table_column columns[COLUMNS] = {
    {"process", "process", false}, {"pid", "pid", true},
    {"alive", "alive", false},     {"figure", "figure", false},
    {"value", "value", true},      {"unit", "unit", false},
};

static const struct table_column sentences[] = {
    {"sentence", "sentence", false}};

static struct cell
figure_cell(const struct figure *f, int64_t value)
{
    if (value == FIGURE_UNKNOWN)
        return cell_none();
    return f->unit == FIGURE_BOOL ? cell_bool(value != 0) : cell_number(value);
}

/* The figures of a kind that a row has. */
static void
write_figures(const struct overview_row *r, enum status_kind kind,
              struct table_writer *t)
{
    static const char *const units[] = {[FIGURE_ONE] = "",
                                        [FIGURE_BYTES] = "bytes",
                                        [FIGURE_MS] = "ms",
                                        [FIGURE_US] = "us",
                                        [FIGURE_BOOL] = ""};
    char name[32];
    size_t count;
    const struct figure *f = figures_of(kind, &count);

    (void)snprintf(name, sizeof name, "%s%s%s", status_kind_name(r->kind),
                   r->name[0] != '\0' ? " " : "", r->name);
    for (const struct figure *end = f + count; f < end; f++) {
        const struct cell cells[COLUMNS] = {
            cell_text(name),
            cell_number(r->pid),
            figure_cell(&figures[STATUS_ALIVE], r->values[STATUS_ALIVE]),
            cell_text(f->name),
            cell_number(r->values[f - figures]),
            cell_text(units[f->unit]),
        };

        if (f != &figures[STATUS_ALIVE]) /* that is a column */
            table_row(t, cells);
    }
}

static void
write_trouble(void *ctx, const char *text)
{
    const struct cell cell = cell_text(text);

    table_row(ctx, &cell);
}

void
overview_write(const struct overview *o, struct table_writer *t)
{
    size_t count;
    const struct figure *f = figures_of(STATUS_DIRECTORY, &count);

    table_next_rows(t, "rows", columns, COLUMNS);
    for (const struct figure *end = f + count; f < end; f++)
        table_fact(t, f->name, figure_cell(f, o->rows[0].values[f - figures]));
    for (size_t i = 1; i < o->count; i++) {
        if (status_is_daemon(o->rows[i].kind))
            write_figures(&o->rows[i], STATUS_PROCESS, t);
        write_figures(&o->rows[i], o->rows[i].kind, t);
    }
    table_rows_end(t);
    if (t->format == TABLE_JSON) {
        table_next_rows(t, "sentences", sentences, 1);
        /* A fact has their number. */
        (void)overview_troubles(o, write_trouble, t);
        table_rows_end(t);
    }
    table_end(t);
}
