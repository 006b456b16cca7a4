/* common/client/cmd/log.c - countd log: the list of all commit logs, by their
 * names, modes, headers and, while one is being filled, slots; the dump of one.
 *
 * Both only read, and logs may change hands meanwhile; accept writes, and so does
 * salvage, in salvage.c.  Read from the end: cmd_log(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd_data.h"
#include "common/log/archive.h"
#include "common/log/inspect.h"
#include "common/log/log_table.h"
#include "common/log/logfile.h"
#include "common/log/mark.h"
#include "common/log/requests.h"
#include "common/log/slot.h"
#include "common/setup/merge_note.h"
#include "common/wire/increment_line.h"

#define UUID_SHOWN 8 /* digits that people see */

/* ---- list --------------------------------------------------------------- */

struct log_list {
    struct output out;
    int log_fd;
};

static int
list_row(void *ctx, const struct logfile *f)
{
    struct log_row row = {.mode = ""};
    struct log_list *l = ctx;
    char age[32];

    log_row_read(l->log_fd, f, clock_unix_ms(), &row);
    if (l->out.format == OUTPUT_PEOPLE) {
        row.uuid[UUID_SHOWN] = '\0';
        if (row.cells[LOG_AGE].kind == CELL_NUMBER) {
            output_age(row.cells[LOG_AGE].number, age);
            row.cells[LOG_AGE] = cell_text(age);
        }
    }
    output_row(&l->out, row.cells);
    return 0;
}

static int
list_logs(struct cmd_line *line)
{
    struct log_list l;
    struct datadir d;
    int rc, status;

    status = wait_datadir(line, &d);
    if (status != 0)
        return status;
    output_init(&l.out, line, log_columns, LOG_COLUMNS);
    l.log_fd = d.log_fd;
    rc = logfile_list_each(d.log_fd, list_row, &l);
    datadir_close(&d);
    if (rc < 0)
        return cmd_failed(rc, "read %s/log", line->config.data_dir);
    output_fini(&l.out);
    return CONFIG_EXIT_OK;
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
    if (increment_number_parse(text, strlen(text), &number) == 0 &&
        number >= 0 && number <= (int64_t)LOG_INDEX_MAX) {
        log_name((uint64_t)number, name);
        return 0;
    }
    if (strlen(text) < LOGFILE_NAME_SIZE &&
        (is_archived(text) || logfile_parse(text, &index) != LOGFILE_OTHER)) {
        memcpy(name, text, strlen(text) + 1);
        return 0;
    }
    return cmd_fail(CONFIG_EXIT_USAGE,
                    "%s: give the number of a log or the name of a file in "
                    "log/ or archive/; countd log list shows them",
                    text);
}

static const struct table_column dump_columns[] = {
    {"slot", "slot", true},
    {"received_ms", "received_ms", true},
    {"increment", "increment", true},
    {"keyspace", "keyspace", false},
    {"key", "key", false},
    {"at", "at", true}, /* Unix seconds of its minute, if it has one */
};

static int
dump_slot(void *ctx, uint32_t number, const struct message *m,
          const struct slot_stamp *stamp)
{
    struct output *out = ctx;

    if (mark_is(m))
        return 0; /* no increment */
    output_row(out, (const struct cell[]){
                        cell_number(number),
                        cell_number((int64_t)stamp->received_ms),
                        cell_number(m->increment),
                        cell_name(m->keyspace, m->keyspace_size),
                        cell_name(m->key, m->key_size),
                        m->minute > 0 ? cell_number((int64_t)m->minute * 60)
                                      : cell_none(),
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
        *end = h->count;
    if (h->state != LOG_OPEN)
        return 0;
    rc = log_inspect(fd, h->index, &report);
    if (rc == 0)
        *end = report.end;
    return rc;
}

static void
begin_dump(const struct cmd_line *line, struct output *out)
{
    output_init(out, line, OUTPUT_COLUMNS(dump_columns));
    /* Tab-separated is what this is for; --json is the other choice. */
    if (out->format == OUTPUT_PEOPLE)
        out->format = OUTPUT_TSV;
}

static int
dump_archived(const struct cmd_line *line, const char *name)
{
    char path[CONFIG_TEXT_SIZE + sizeof "/" ARCHIVE_FOLDER "/" +
              LOGFILE_NAME_SIZE];
    const struct archived file = {.path = path};
    struct output out;
    int rc;

    (void)snprintf(path, sizeof path, "%s/" ARCHIVE_FOLDER "/%s",
                   line->config.data_dir, name);
    begin_dump(line, &out);
    rc = archived_each(&file, dump_slot, &out);
    if (rc == 0) {
        output_fini(&out);
        return CONFIG_EXIT_OK;
    }
    if (rc == -ENOENT)
        return cmd_fail(CONFIG_EXIT_NEGATIVE, "there is no %s in archive/",
                        name);
    archived_report(path, rc);
    /* That it is damaged is an answer. */
    return rc == -EBADMSG || rc == -EPROTONOSUPPORT ? CONFIG_EXIT_NEGATIVE
                                                    : CONFIG_EXIT_SYSTEM;
}

static int
dump_slots(const struct cmd_line *line, int fd, const char *name)
{
    struct inspect look;
    struct logfile_slots slots = {.fd = fd, .header = &look.header};
    struct output out;
    int rc;

    rc = inspect_headers(fd, UINT64_MAX, &look);
    if (rc == 0)
        rc = look.headers_rc;
    if (rc == 0)
        rc = used_end(fd, &look.header, &slots.end);
    if (rc < 0)
        return cmd_fail(CONFIG_EXIT_NEGATIVE, "log %s: %s; nothing can be read",
                        name,
                        rc == -EPROTONOSUPPORT ? "of a newer version"
                                               : "its headers are damaged");
    begin_dump(line, &out);
    rc = logfile_each(&slots, dump_slot, &out);
    output_fini(&out);
    if (slots.skipped > 0)
        diag(DIAG_WARNING,
             "log %s: slots left out because they are not "
             "valid: %" PRIu32,
             name, slots.skipped);
    if (rc < 0)
        return cmd_failed(rc, "read log %s", name);
    return slots.skipped > 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}

static int
dump_log(struct cmd_line *line)
{
    char name[LOGFILE_NAME_SIZE];
    struct datadir d;
    int fd, status;

    status = log_argument(line->args[1], name);
    if (status == 0)
        status = wait_datadir(line, &d);
    if (status != 0)
        return status;
    if (is_archived(name)) {
        status = dump_archived(line, name);
    } else {
        fd = wait_open_log(d.log_fd, name);
        if (fd == -ENOENT)
            status = cmd_fail(CONFIG_EXIT_NEGATIVE,
                              "there is no log %s; countd log list shows them",
                              name);
        else if (fd < 0)
            status = cmd_failed(fd, "open log %s", name);
        else
            status = dump_slots(line, fd, name);
        if (fd >= 0)
            (void)close(fd);
    }
    datadir_close(&d);
    return status;
}

/* ---- accept --------------------------------------------------------------- */

/* An operator accepts what cannot be had back, and the logs are merged again.
 *
 *     keyspace/ is older than log/        what it lacks stays missing
 *     live/requests/secret is lost        the keys under it are forgotten */

#define ACCEPT_WAIT_MS 30000 /* for a worker that is writing a note */

/* ---- a lost secret ------------------------------------------------------- */

struct forgotten {
    int log_fd;
    uint64_t count;   /* requests; one whose log was just being sealed twice */
    bool is_recorded; /* some are in live/requests */
    bool has_logs;    /* some logs take marks */
};

static void
count_request(void *ctx, const struct counted_request *q)
{
    struct forgotten *f = ctx;

    (void)q;
    f->count++;
    f->is_recorded = true;
}

static int
count_mark(void *ctx, uint32_t number, const struct message *m,
           const struct slot_stamp *stamp)
{
    struct forgotten *f = ctx;

    (void)number;
    (void)stamp;
    f->count += mark_is(m);
    return 0;
}

/* The marks of a log that is sealed are in live/requests, if that is there.  A log
 * that cannot be read now is a live process's, or none with marks. */
static int
count_log(void *ctx, const struct logfile *log)
{
    struct forgotten *f = ctx;
    struct inspect report;
    int fd;

    if (log->kind != LOGFILE_LOG || !log->ours)
        return 0;
    fd = logfile_open(f->log_fd, log->name);
    if (fd < 0)
        return 0;
    if (log_inspect(fd, UINT64_MAX, &report) == 0 && report.headers_rc == 0 &&
        report.header.state != LOG_EMPTY &&
        (report.header.features & LOG_HAS_MARKS) != 0) {
        f->has_logs = true;
        if (report.header.state == LOG_OPEN || !f->is_recorded)
            (void)logfile_each(&(struct logfile_slots){.fd = fd,
                                                       .header = &report.header,
                                                       .end = report.end},
                               count_mark, f);
    }
    (void)close(fd);
    return 0;
}

/* Makes a secret where one is lost; *accepted: it did. */
static int
accept_lost_secret(const struct datadir *d, bool *accepted)
{
    struct forgotten f = {.log_fd = d->log_fd};
    uint8_t secret[REQUESTS_KEY_SIZE];
    struct requests r;
    int rc;

    *accepted = false;
    requests_init(&r, d->fd);
    rc = requests_secret(&r, secret);
    if (rc != -ENOKEY)
        return rc == -EPROTONOSUPPORT ? CONFIG_EXIT_SYSTEM /* reported */
               : rc < 0               ? cmd_failed(rc, "read " REQUESTS_FOLDER)
                                      : CONFIG_EXIT_OK;
    rc = requests_each(&r, count_request, &f);
    if (rc == 0)
        rc = logfile_list_each(d->log_fd, count_log, &f);
    *accepted = f.has_logs || requests_exist(&r) > 0;
    if (rc == 0 && *accepted)
        rc = requests_make(&r);
    if (rc < 0)
        return cmd_failed(rc, "make " REQUESTS_FOLDER "/" REQUESTS_SECRET);
    if (*accepted)
        diag(DIAG_INFO,
             "accepted: " REQUESTS_FOLDER "/" REQUESTS_SECRET
             " was lost; keys forgotten=%" PRIu64
             ": a request with one of them that is sent again counts again; "
             "logs are merged again",
             f.count);
    return CONFIG_EXIT_OK;
}

/* ---- keyspace/ that is older --------------------------------------------- */

/* Has workers merge again beside a keyspace/ that is older than log/. */
static int
accept_older(const struct datadir *d, bool *accepted)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + ACCEPT_WAIT_MS};
    char text[MERGE_NOTE_TEXT];
    struct merge_note n;
    int rc;

    rc = merge_note_read(d, &n);
    *accepted = rc == 0 && merge_note_is_older(&n);
    if (*accepted)
        do
            rc = merge_note_write(d, clock_unix_ms(), true);
        while (wait_turn(&turn, rc, 0));
    if (rc < 0)
        return cmd_failed(rc, "write keyspace/" MERGE_NOTE_FILE
                              " and log/" MERGE_NOTE_FILE);
    if (*accepted) {
        merge_note_lacks(&n, text);
        diag(DIAG_INFO, "accepted: %s; workers merge again", text);
    }
    return CONFIG_EXIT_OK;
}

static int
accept_log(struct cmd_line *line)
{
    bool older = false, lost = false;
    struct datadir d;
    int status;

    status = wait_datadir(line, &d);
    if (status != 0)
        return status;
    status = accept_older(&d, &older);
    if (status == 0)
        status = accept_lost_secret(&d, &lost);
    datadir_close(&d);
    if (status == 0 && !older && !lost)
        diag(DIAG_INFO, "keyspace/ is not older than log/, and " REQUESTS_FOLDER
                        "/" REQUESTS_SECRET " is not lost: nothing to accept");
    return status;
}

/* ---- the subcommand ---------------------------------------------------- */

static int
salvage_log(struct cmd_line *line)
{
    char name[LOGFILE_NAME_SIZE];
    const int status = log_argument(line->args[1], name);

    return status == 0 ? cmd_salvage(line, name) : status;
}

int
cmd_log(struct cmd_line *line)
{
    static const struct cmd_verb verbs[] = {
        {"", 0, 0, list_logs},          {"list", 1, 1, list_logs},
        {"accept", 1, 1, accept_log},   {"dump", 2, 2, dump_log},
        {"salvage", 2, 2, salvage_log},
    };

    return cmd_run_verb(line, verbs, sizeof verbs / sizeof verbs[0]);
}
