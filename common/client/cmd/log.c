/* common/client/cmd/log.c - countd log: the list of all commit logs, by their
 * names, modes, headers and, while one is being filled, slots; the dump of one.
 *
 * Both only read, and logs may change hands meanwhile.  salvage is in
 * salvage.c.  Read from the end: cmd_log(). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/folder.h"
#include "common/client/cmd/cmd_data.h"
#include "common/log/archive.h"
#include "common/log/inspect.h"
#include "common/log/log_table.h"
#include "common/log/logfile.h"
#include "common/log/mark.h"
#include "common/log/slot.h"
#include "common/setup/merge_note.h"
#include "common/wire/increment_line.h"

#define UUID_SHOWN     8     /* digits that people see */
#define ACCEPT_WAIT_MS 30000 /* for a worker that is writing a note */

/* ---- list --------------------------------------------------------------- */

static void
list_row(struct output *out, int log_fd, const struct logfile *f)
{
    struct log_row row = {.mode = ""};
    char age[32];

    log_row_read(log_fd, f, clock_unix_ms(), &row);
    if (out->format == OUTPUT_PEOPLE) {
        row.uuid[UUID_SHOWN] = '\0';
        if (row.cells[LOG_AGE].kind == CELL_NUMBER) {
            output_age(row.cells[LOG_AGE].number, age);
            row.cells[LOG_AGE] = cell_text(age);
        }
    }
    output_row(out, row.cells);
}

static int
list_logs(const struct cmd_line *line, const struct datadir *d)
{
    struct logfile_list list;
    struct output out;
    int rc;

    rc = logfile_list_read(&list, d->log_fd);
    if (rc < 0)
        return cmd_failed(rc, "read %s/log", line->config.data_dir);
    output_init(&out, line, log_columns, LOG_COLUMNS);
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

static int
open_log(const struct datadir *d, const char *name)
{
    const int fd = wait_open_log(d->log_fd, name);

    if (fd == -ENOENT)
        diag(DIAG_ERROR, "there is no log %s; countd log list shows them",
             name);
    else if (fd < 0)
        diag_errno(DIAG_ERROR, fd, "open log %s", name);
    return fd;
}

/* That there is no such log, or that it is damaged, is an answer. */
static int
open_status(int rc)
{
    return rc == -ENOENT || rc == -EBADMSG || rc == -EPROTONOSUPPORT
               ? CONFIG_EXIT_NEGATIVE
               : CONFIG_EXIT_SYSTEM;
}

/* Opens and checks an archived log; *fd is closed with it. */
static int
open_archived(const struct datadir *d, const char *name,
              struct archive_reader **out, int *fd)
{
    char path[sizeof ARCHIVE_FOLDER + LOGFILE_NAME_SIZE];
    int rc;

    (void)snprintf(path, sizeof path, "%s/%s", ARCHIVE_FOLDER, name);
    *fd = folder_open_file(d->fd, path);
    rc = *fd < 0 ? *fd : archive_reader_open(out, *fd);
    if (rc < 0 && *fd >= 0)
        (void)close(*fd);
    if (rc == -ENOENT)
        diag(DIAG_ERROR, "there is no %s in archive/", name);
    else if (rc == -EBADMSG)
        diag(DIAG_ERROR, "archive/%s is damaged: nothing of it is shown", name);
    else if (rc == -EPROTONOSUPPORT)
        diag(DIAG_ERROR,
             "archive/%s has the format of another version: use the countd "
             "that wrote it",
             name);
    else if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "read archive/%s", name);
    return rc;
}

struct dump {
    struct output out;
};

static const struct table_column dump_columns[] = {
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

    if (mark_is(m))
        return 0; /* no increment */
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

static void
begin_dump(const struct cmd_line *line, struct dump *dump)
{
    output_init(&dump->out, line, dump_columns,
                sizeof dump_columns / sizeof dump_columns[0]);
    /* Tab-separated is what this is for; --json is the other choice. */
    if (dump->out.format == OUTPUT_PEOPLE)
        dump->out.format = OUTPUT_TSV;
}

static int
dump_archived(const struct cmd_line *line, const struct datadir *d,
              const char *name)
{
    const struct archive_record *records;
    struct archive_reader *from;
    uint32_t number = 0;
    struct dump dump;
    int count, fd, rc, status;

    rc = open_archived(d, name, &from, &fd);
    if (rc < 0)
        return open_status(rc);
    begin_dump(line, &dump);
    while ((count = archive_reader_next(from, &records)) > 0)
        for (int i = 0; i < count; i++) {
            const struct slot_stamp stamp = {.received_ms =
                                                 records[i].received_ms};

            (void)dump_slot(&dump, number++, &records[i].m, &stamp); /* 0 */
        }
    output_rows_end(&dump.out);
    status = output_fini(&dump.out);
    archive_reader_close(from);
    (void)close(fd);
    if (count < 0)
        return cmd_failed(count, "read archive/%s", name);
    return status;
}

static int
run_dump(struct cmd_line *line, const struct datadir *d, const char *name)
{
    struct log_header header;
    uint32_t skipped = 0;
    struct dump dump;
    uint32_t end = 0;
    int fd, rc, status;

    if (is_archived(name))
        return dump_archived(line, d, name);
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
        (void)close(fd);
        return CONFIG_EXIT_NEGATIVE;
    }
    begin_dump(line, &dump);
    rc = logfile_each(fd, &header, end, dump_slot, &dump, &skipped);
    output_rows_end(&dump.out);
    status = output_fini(&dump.out);
    (void)close(fd);
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

/* ---- accept ------------------------------------------------------------- */

/* Has workers merge again beside a keyspace/ that is older than log/. */
static int
accept_older(const struct datadir *d)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + ACCEPT_WAIT_MS};
    char text[MERGE_NOTE_TEXT];
    struct merge_note n;
    int rc;

    rc = merge_note_read(d, &n);
    if (rc == 0 && !merge_note_is_older(&n)) {
        diag(DIAG_INFO, "keyspace/ is not older than log/: nothing to accept");
        return CONFIG_EXIT_OK;
    }
    if (rc == 0)
        do
            rc = merge_note_accept(d, clock_unix_ms());
        while (wait_turn(&turn, rc, 0));
    if (rc < 0)
        return cmd_failed(rc, "write keyspace/" MERGE_NOTE_FILE
                              " and log/" MERGE_NOTE_FILE);
    merge_note_lacks(&n, text);
    diag(DIAG_INFO, "accepted: %s; workers merge again", text);
    return CONFIG_EXIT_OK;
}

/* ---- the subcommand ---------------------------------------------------- */

/* The subcommands; the last two have an argument. */
enum log_command { LOG_LIST, LOG_ACCEPT, LOG_DUMP, LOG_SALVAGE, LOG_COMMANDS };

static enum log_command
parse_command(const struct cmd_line *line)
{
    static const char *const names[LOG_COMMANDS] = {"list", "accept", "dump",
                                                    "salvage"};
    int i = 0;

    if (line->arg_count == 0)
        return LOG_LIST;
    while (i < LOG_COMMANDS && strcmp(line->args[0], names[i]) != 0)
        i++;
    return i < LOG_COMMANDS && line->arg_count == (i >= LOG_DUMP ? 2 : 1)
               ? (enum log_command)i
               : LOG_COMMANDS;
}

int
cmd_log(struct cmd_line *line)
{
    const enum log_command command = parse_command(line);
    char name[LOGFILE_NAME_SIZE] = "";
    struct datadir d;
    int status = 0;

    if (command == LOG_COMMANDS)
        return cmd_usage(line);
    if (command >= LOG_DUMP)
        status = log_argument(line->args[1], name);
    if (status != 0)
        return status;
    if (command == LOG_SALVAGE)
        return cmd_salvage(line, name);
    status = wait_datadir(line, &d);
    if (status != 0)
        return status;
    if (command == LOG_LIST)
        status = list_logs(line, &d);
    else if (command == LOG_DUMP)
        status = run_dump(line, &d, name);
    else
        status = accept_older(&d);
    datadir_close(&d);
    return status;
}
