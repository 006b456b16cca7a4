/* common/client/cmd/log.c - countd log: list, dump, verify commit logs.
 *
 * All of these only look.  salvage is in salvage.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/logfile.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/wait.h"
#include "common/log/archive.h"
#include "common/log/inspect.h"
#include "common/log/slot.h"

#define OPEN_TRIES 50 /* of a log that is changing hands */

/* ---- list -------------------------------------------------------------- */

static const struct output_column list_columns[] = {
    {"log", "log", false},    {"state", "state", false},
    {"mode", "mode", false},  {"used", "used", true},
    {"slots", "slots", true}, {"age", "age_ms", true},
    {"epoch", "epoch", true}, {"uuid", "uuid", false},
};

/* What is known of one file. */
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
    (void)m;      /* likewise */
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

/* Does not claim, so it disturbs nobody: of a full log that its user may not
 * open only the mode and the time of its first message are shown. */
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
    (void)close(fd); /* only read */
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

static int
run_list(struct cmd_line *line, const struct datadir *d)
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

/* ---- one log ----------------------------------------------------------- */

static bool
is_archived(const char *name)
{
    struct archive_name n;

    return archive_name_parse(name, &n) == 0 && !n.missing;
}

/* "7" and "0000000007" are the log, any other name is itself, with its folder
 * or without. */
static int
log_argument(const char *text, char name[LOGFILE_NAME_SIZE])
{
    uint64_t index;
    int64_t number;

    if (strncmp(text, "log/", 4) == 0)
        text += 4;
    else if (strncmp(text, "archive/", 8) == 0)
        text += 8;
    if (cmd_parse_number(text, strlen(text), &number) == 0 && number >= 0 &&
        number <= (int64_t)LOG_INDEX_MAX) {
        log_name((uint64_t)number, name);
        return 0;
    }
    if (strlen(text) < LOGFILE_NAME_SIZE &&
        (is_archived(text) || logfile_parse(text, &index) != LOGFILE_OTHER)) {
        memcpy(name, text, strlen(text) + 1);
        return 0;
    }
    diag(DIAG_ERROR,
         "%s: give the number of a log or the name of a file in "
         "log/ or archive/; countd log list shows them",
         text);
    return CONFIG_EXIT_USAGE;
}

static int
open_archived(const struct datadir *d, const char *name)
{
    const int dirfd =
        openat(d->fd, ARCHIVE_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd;

    if (dirfd < 0)
        return -errno;
    fd = logfile_unpack(dirfd, name);
    (void)close(dirfd); /* only read */
    return fd;
}

static int
open_log(const struct datadir *d, const char *name)
{
    unsigned pause_ms = 0;
    int fd = -EBUSY;

    if (is_archived(name))
        fd = open_archived(d, name);
    for (int i = 0; i < OPEN_TRIES && fd == -EBUSY; i++) {
        fd = logfile_open(d->log_fd, name);
        if (fd == -EBUSY)
            wait_pause(&pause_ms);
    }
    if (fd == -ENOENT && is_archived(name))
        diag(DIAG_ERROR, "there is no %s in archive/", name);
    else if (fd == -ENOENT)
        diag(DIAG_ERROR, "there is no log %s; countd log list shows them",
             name);
    else if (fd == -EBADMSG)
        diag(DIAG_ERROR, "archive/%s is damaged: nothing of it is shown", name);
    else if (fd < 0)
        diag_errno(DIAG_ERROR, fd, "open log %s", name);
    return fd;
}

/* No such log, or none that can be read, is an answer. */
static int
open_status(int rc)
{
    return rc == -ENOENT || rc == -EBADMSG ? CONFIG_EXIT_NEGATIVE
                                           : CONFIG_EXIT_SYSTEM;
}

struct dump {
    struct output out;
};

static const struct output_column dump_columns[] = {
    {"slot", "slot", true},
    {"received_ms", "received_ms", true},
    {"increment", "increment", true},
    {"keyspace", "keyspace", false},
    {"key", "key", false},
};

static int
dump_slot(void *ctx, uint32_t number, const struct message *m,
          const struct slot_stamp *stamp)
{
    struct dump *dump = ctx;

    output_row(&dump->out, (const struct cell[]){
                               cell_number(number),
                               cell_number((int64_t)stamp->received_ms),
                               cell_number(m->increment),
                               cell_name(m->keyspace, m->keyspace_size),
                               cell_name(m->key, m->key_size),
                           });
    return 0;
}

/* Slots that may hold something: of an open log those behind its last valid
 * one are the previous lap's. */
static int
used_end(int fd, const struct log_header *h, uint32_t *end)
{
    struct inspect report;
    int rc;

    *end = 0;
    if (h->state == LOG_SEALED)
        *end = (uint32_t)h->count;
    if (h->state != LOG_OPEN)
        return 0;
    rc = log_inspect(fd, h->index, &report);
    if (rc == 0)
        *end = report.end;
    return rc;
}

static int
run_dump(struct cmd_line *line, const struct datadir *d, const char *name)
{
    struct log_header header;
    uint32_t skipped = 0;
    struct dump dump;
    uint32_t end = 0;
    int fd, rc, status;

    fd = open_log(d, name);
    if (fd < 0)
        return open_status(fd);
    rc = logfile_header(fd, &header);
    if (rc == 0)
        rc = used_end(fd, &header, &end);
    if (rc < 0) {
        diag(DIAG_ERROR, "log %s: %s; nothing can be read", name,
             rc == -EPROTONOSUPPORT ? "of a newer version"
                                    : "its headers are damaged");
        (void)close(fd); /* only read */
        return CONFIG_EXIT_NEGATIVE;
    }
    output_init(&dump.out, line, dump_columns,
                sizeof dump_columns / sizeof dump_columns[0]);
    /* Tab-separated is what this is for; --json is the other choice. */
    if (dump.out.format == OUTPUT_PEOPLE)
        dump.out.format = OUTPUT_TSV;
    rc = logfile_each(fd, &header, end, dump_slot, &dump, &skipped);
    output_rows_end(&dump.out);
    status = output_fini(&dump.out);
    (void)close(fd); /* only read */
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "read log %s", name);
    if (skipped > 0)
        diag(DIAG_WARNING,
             "log %s: slots left out because they are not "
             "valid: %" PRIu32,
             name, skipped);
    if (rc < 0)
        return CONFIG_EXIT_SYSTEM;
    return status == 0 && skipped > 0 ? CONFIG_EXIT_NEGATIVE : status;
}

/* ---- verify ------------------------------------------------------------ */

static const char *const states[] = {
    [LOG_EMPTY] = "empty",
    [LOG_OPEN] = "open",
    [LOG_SEALED] = "full",
};

static int
print_report(const struct cmd_line *line, const char *name,
             const struct inspect *r)
{
    struct output out;

    output_init(&out, line, NULL, 0);
    output_fact(&out, "log", cell_name(name, strlen(name)));
    output_fact(&out, "headers_good",
                cell_number(r->header_ok[0] + r->header_ok[1]));
    if (r->headers_rc == 0) {
        output_fact(&out, "state", cell_text(states[r->header.state]));
        output_fact(&out, "epoch", cell_number((int64_t)r->header.epoch));
        output_fact(&out, "slots", cell_number(r->header.slots));
        /* What an empty log holds is of the past. */
        output_fact(&out, "valid",
                    cell_number(r->header.state == LOG_EMPTY ? 0 : r->valid));
        output_fact(&out, "damaged", cell_number(r->damaged));
    }
    if (out.format == OUTPUT_JSON)
        return output_fini(&out);

    /* output_fini() tells what stdout did not take. */
    if (r->headers_rc == 0 && r->header.state == LOG_EMPTY)
        (void)printf("log %s: empty, epoch %" PRIu64 ", %" PRIu32 " slots\n",
                     name, r->header.epoch, r->header.slots);
    else if (r->headers_rc == 0)
        (void)printf("log %s: %s, epoch %" PRIu64 ", %" PRIu32
                     " valid slot%s of %" PRIu32 ", %" PRIu32 " damaged\n",
                     name, states[r->header.state], r->header.epoch, r->valid,
                     output_plural(r->valid), r->header.slots, r->damaged);
    if (r->headers_rc == -EPROTONOSUPPORT)
        (void)printf("log %s: of a newer version\n", name);
    else if (r->headers_rc < 0)
        (void)printf("log %s: both headers are damaged\n", name);
    else if (!r->header_ok[0] || !r->header_ok[1])
        (void)printf("log %s: header block %d is not valid; the other one "
                     "rules\n",
                     name, r->header_ok[0] ? 1 : 0);
    return output_fini(&out);
}

static int
run_verify(struct cmd_line *line, const struct datadir *d, const char *name)
{
    struct inspect report;
    uint64_t index;
    int fd, rc, status;

    fd = open_log(d, name);
    if (fd < 0)
        return open_status(fd);
    if (logfile_parse(name, &index) != LOGFILE_LOG)
        index = UINT64_MAX;
    rc = log_inspect(fd, index, &report);
    (void)close(fd); /* only read */
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read log %s", name);
        return CONFIG_EXIT_SYSTEM;
    }
    status = print_report(line, name, &report);
    if (status == 0 && (report.headers_rc < 0 || report.damaged > 0))
        return CONFIG_EXIT_NEGATIVE;
    return status;
}

/* ---- the subcommand ---------------------------------------------------- */

static int
misuse(void)
{
    diag(DIAG_ERROR,
         "usage: countd log [options] [list | dump N | verify N | salvage "
         "FILE]; see countd log -h");
    return CONFIG_EXIT_USAGE;
}

int
cmd_log(struct cmd_line *line)
{
    const char *what = line->arg_count > 0 ? line->args[0] : "list";
    const bool list = strcmp(what, "list") == 0;
    const bool dump = strcmp(what, "dump") == 0;
    const bool verify = strcmp(what, "verify") == 0;
    char name[LOGFILE_NAME_SIZE] = "";
    struct datadir d;
    int status;

    if (!list && !dump && !verify && strcmp(what, "salvage") != 0)
        return misuse();
    if ((list || dump || verify) &&
        (cmd_value(line, "keep") || cmd_value(line, "remove") ||
         cmd_value(line, "dry-run"))) {
        diag(DIAG_ERROR, "--keep, --remove and --dry-run are for salvage");
        return CONFIG_EXIT_USAGE;
    }
    if (line->arg_count != (list && line->arg_count == 0 ? 0 : list ? 1 : 2))
        return misuse();
    status = list ? 0 : log_argument(line->args[1], name);
    if (status != 0)
        return status;
    if (!list && !dump && !verify)
        return cmd_salvage(line, name);
    status = wait_datadir(line, &d);
    if (status != 0)
        return status;
    if (list)
        status = run_list(line, &d);
    else if (dump)
        status = run_dump(line, &d, name);
    else
        status = run_verify(line, &d, name);
    datadir_close(&d);
    return status;
}
