/* common/client/cmd/log_list.c - see log_list.h. */
#include "common/client/cmd/log_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/logfile.h"
#include "common/client/cmd/output.h"
#include "common/log/inspect.h"
#include "common/log/slot.h"

static const struct table_column list_columns[] = {
    {"log", "log", false},    {"state", "state", false},
    {"mode", "mode", false},  {"used", "used", true},
    {"slots", "slots", true}, {"age", "age_ms", true},
    {"epoch", "epoch", true}, {"uuid", "uuid", false},
};

/* State and header of one file. */
struct looked {
    const char *state;
    bool header_known;
    struct log_header header;
    int64_t used;      /* -1: not known */
    uint64_t first_ms; /* 0: none */
};

static const char *
state_by_mode(const struct logfile *f)
{
    switch (f->mode) {
    case LOG_MODE_EMPTY:
        return f->locked ? "owned" : "empty";
    case LOG_MODE_FULL:
        return f->locked ? "owned" : "full";
    default:
        return "owned";
    }
}

static int
keep_first(void *ctx, uint32_t number, const struct message *m,
           const struct slot_stamp *stamp)
{
    uint64_t *first_ms = ctx;

    (void)number; /* only the stamp of the first one is wanted */
    (void)m;
    *first_ms = stamp->received_ms;
    return 1;
}

/* How far an open log is filled. */
static void
look_at_slots(int fd, const struct logfile *f, struct looked *out)
{
    struct inspect report;
    uint32_t skipped;

    if (log_inspect(fd, f->kind == LOGFILE_LOG ? f->index : UINT64_MAX,
                    &report) < 0 ||
        report.headers_rc < 0)
        return;
    out->used = report.valid;
    if (report.valid > 0)
        (void)logfile_each(fd, &report.header, report.end, keep_first,
                           &out->first_ms, &skipped); /* 0: not shown */
}

static void
look_at_header(int fd, const struct logfile *f, struct looked *out)
{
    const int rc = logfile_header(fd, &out->header);

    out->header_known = rc == 0;
    if (rc < 0) {
        out->state = rc == -EPROTONOSUPPORT ? "newer version" : "damaged";
        return;
    }
    switch (out->header.state) {
    case LOG_EMPTY:
        out->state = "empty";
        out->used = 0;
        break;
    case LOG_OPEN:
        out->state = "open";
        look_at_slots(fd, f, out);
        break;
    case LOG_SEALED:
        out->state = f->locked ? "merging" : "full";
        out->used = (int64_t)out->header.count;
        out->first_ms = out->header.first_ms;
        break;
    }
}

/* Reads a file without claiming it, so no daemon is disturbed. A full log that
 * this user may not open is shown with its mode and the time of its first
 * message only. */
static void
look_at(int log_fd, const struct logfile *f, struct looked *out)
{
    int fd;

    *out = (struct looked){.state = state_by_mode(f), .used = -1};
    if (f->mode == LOG_MODE_FULL)
        out->first_ms = f->mtime_ms;
    if (f->kind == LOGFILE_LOCK) {
        out->state = "lock only";
        return;
    }
    if (f->kind == LOGFILE_OTHER) {
        out->state = "not countd's";
        return;
    }
    fd =
        openat(log_fd, f->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    look_at_header(fd, f, out);
    if (f->kind != LOGFILE_LOG) {
        look_at_slots(fd, f, out);
        out->state = f->kind == LOGFILE_BAD ? "quarantined" : "salvaged";
    }
    (void)close(fd);
}

static struct cell
age_cell(const struct output *out, uint64_t first_ms, char text[32])
{
    int64_t age_ms;

    if (first_ms == 0)
        return cell_none();
    age_ms = (int64_t)(clock_unix_ms() - first_ms);
    if (out->format != OUTPUT_PEOPLE)
        return cell_number(age_ms);
    output_age(age_ms, text);
    return cell_text(text);
}

static void
list_row(struct output *out, int log_fd, const struct logfile *f)
{
    char mode[8], age[32], uuid[33];
    struct looked l;

    look_at(log_fd, f, &l);
    (void)snprintf(mode, sizeof mode, "%04o", f->mode); /* four digits */
    for (size_t i = 0; i < sizeof l.header.uuid; i++)
        (void)snprintf(uuid + 2 * i, 3, "%02x",
                       l.header.uuid[i]); /* two digits */
    if (out->format == OUTPUT_PEOPLE)
        uuid[8] = '\0';
    output_row(
        out,
        (const struct cell[]){
            cell_name(f->name, strlen(f->name)),
            cell_text(l.state),
            cell_text(mode),
            l.used >= 0 ? cell_number(l.used) : cell_none(),
            l.header_known ? cell_number(l.header.slots) : cell_none(),
            age_cell(out, l.first_ms, age),
            l.header_known ? cell_number((int64_t)l.header.epoch) : cell_none(),
            l.header_known ? cell_text(uuid) : cell_none(),
        });
}

int
log_list(struct cmd_line *line, const struct datadir *d)
{
    struct logfile_list list;
    struct output out;
    int rc;

    rc = logfile_list_read(&list, d->log_fd);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read %s/log", line->config.data_dir);
        return CONFIG_EXIT_SYSTEM;
    }
    output_init(&out, line, list_columns,
                sizeof list_columns / sizeof list_columns[0]);
    for (size_t i = 0; i < list.count; i++)
        list_row(&out, d->log_fd, &list.files[i]);
    output_rows_end(&out);
    logfile_list_free(&list);
    return output_fini(&out);
}
