/* common/client/cmd/load.c - countd load: increments from lines of text.
 *
 * increment_line.h defines a line.  Bad lines are reported and skipped;
 * increments that the server does not acknowledge are reported and never sent
 * twice.  The file and line of the latest increments are remembered, so that
 * after a broken connection the command reports up to which line they are
 * acknowledged.  Read from the end: cmd_load(), load_files(), load_file().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/load.h"
#include "common/wire/event_time.h"

#define BAD_SHOWN_MAX 20
#define WAIT_MS       20    /* between two looks at the progress */
#define PLACES        65536 /* increments whose line is remembered */

/* Where increment i came from: i % PLACES. */
static struct load_place {
    const char *path;
    uint64_t line;
} places[PLACES];

/* ---- lines ------------------------------------------------------------- */

static void
bad_line(struct load *l, const struct lines *lines, const char *why)
{
    l->stopped |= l->strict;
    if (++l->bad > BAD_SHOWN_MAX)
        return;
    progress_clear(&l->progress);
    diag(DIAG_WARNING, "%s:%" PRIu64 ": %s", cmd_text(l->path, strlen(l->path)),
         lines->number, why);
    if (l->bad == BAD_SHOWN_MAX && !l->strict)
        diag(DIAG_WARNING, "further bad lines are only counted");
}

/* ---- sending ----------------------------------------------------------- */

/* Lets the library work for a moment.  0: all is out and acknowledged;
 * -EAGAIN: not yet. */
static int
give_time(struct load *l)
{
    const int rc = countd_sync(l->c, WAIT_MS);
    const uint64_t now = clock_ms();
    int64_t pending;

    l->stopped |= interrupt_asked(&l->stop);
    if (rc != -ETIMEDOUT)
        return rc;
    pending = countd_poll(l->c);
    if (pending != l->pending || l->moved_ms == 0) {
        l->pending = pending;
        l->moved_ms = now;
    }
    return now - l->moved_ms > l->timeout_ms ? -ETIMEDOUT : -EAGAIN;
}

static void
show_progress(struct load *l, const struct lines *lines)
{
    progress_show(&l->progress,
                  l->bytes_before + (lines ? lines_done(lines) : 0), l->sent,
                  "increment");
}

/* -EINTR: a signal came before the record was buffered. */
static int
send_record(struct load *l, const struct lines *lines,
            const struct increment *record)
{
    int rc = 0;

    l->moved_ms = 0;
    while (l->c != NULL) {
        rc = countd_incr_at(
            l->c, countd_bytes(record->keyspace.bytes, record->keyspace.size),
            countd_bytes(record->key.bytes, record->key.size), record->count,
            record->at);
        if (rc != -EAGAIN)
            break;
        show_progress(l, lines);
        rc = give_time(l);
        if (rc < 0 && rc != -EAGAIN)
            return rc;
        if (l->stopped)
            return -EINTR;
    }

    if (rc == 0)
        places[l->sent++ % PLACES] =
            (struct load_place){.path = l->path, .line = lines->number};
    return rc;
}

bool
load_read_line(struct load *l, const struct lines *lines, const char *text,
               size_t size, struct increment *out)
{
    const struct increment_fault *fault;
    enum csv_result result = CSV_ROW;
    const char *wrong = NULL;

    if (size == 0 && !(l->csv && l->csv->size > 0))
        return false;
    if (lines->cut) {
        wrong = "the line is too long";
        if (l->csv)
            l->csv->size = 0; /* of its row */
    } else if (l->csv) {
        result = csv_take(l->csv, &l->form, text, size, out);
        wrong = l->csv->wrong;
    } else {
        fault = increment_line_read(&l->form, text, size, out);
        wrong = fault ? fault->text : NULL;
    }
    if (result == CSV_ROW && !wrong && l->once && out->at == 0)
        wrong = "no time, which --once needs; or give --at";
    if (wrong)
        bad_line(l, lines, wrong);
    /* Without columns the file is not read any further, nor is any other. */
    if (result == CSV_NO_COLUMNS) {
        l->file_status = CONFIG_EXIT_USAGE;
        l->stopped = true;
    }
    return result == CSV_ROW && !wrong;
}

/* Waits until all is acknowledged (on a silent port: sent). */
static int
await_acks(struct load *l, const struct lines *lines)
{
    int rc;

    if (l->c == NULL)
        return 0;
    l->moved_ms = 0;
    do {
        rc = give_time(l);
        show_progress(l, lines);
    } while (rc == -EAGAIN);
    return rc;
}

/* Sends the lines that have come, LINES_BUFFER bytes at most. */
static int
take_lines(struct load *l, struct lines *lines)
{
    const char *text;
    size_t size;
    int rc = 0;

    while (rc == 0 && !l->stopped && lines_next(lines, &text, &size)) {
        struct increment record;

        if (load_read_line(l, lines, text, size, &record))
            rc = send_record(l, lines, &record);
        if (rc == -EINTR)
            return 0; /* `stopped` says so */
        if (rc == 0)
            l->last_line = lines->number;
    }
    show_progress(l, lines);
    l->stopped |= interrupt_asked(&l->stop);
    return rc;
}

/* A name that is none, or of what may not be read, is misuse. */
static void
open_failed(struct load *l, int rc)
{
    const bool misuse = rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES ||
                        rc == -EISDIR || rc == -ELOOP || rc == -ENAMETOOLONG;
    const int status = misuse ? CONFIG_EXIT_USAGE : CONFIG_EXIT_SYSTEM;

    progress_clear(&l->progress);
    diag_errno(DIAG_ERROR, rc, "open %s", l->path);
    if (status > l->file_status)
        l->file_status = status;
}

/* Reports why a file could not be read to its end. The lines before that are
 * still sent, unless files are loaded once. */
static void
file_failed(struct load *l, const struct lines *lines, int rc)
{
    const char *path = cmd_text(l->path, strlen(l->path));

    l->file_status = CONFIG_EXIT_SYSTEM;
    progress_clear(&l->progress);
    if (rc == -EILSEQ)
        diag(DIAG_ERROR,
             "%s: not text, plain or gzip: unpack or convert it first", path);
    else if (rc == -EBADMSG || rc == -ENODATA)
        diag(DIAG_ERROR,
             cmd_value(l->line, "once")
                 ? "%s: the gzip file %s behind line %" PRIu64
                 : "%s: the gzip file %s; the lines up to %" PRIu64
                   " are taken",
             path, rc == -EBADMSG ? "is damaged" : "ends too early",
             lines->number);
    else
        diag_errno(DIAG_ERROR, rc, "read %s line=%" PRIu64, path,
                   lines->number);
}

int
load_begin_file(struct load *l, const char *path, struct lines *lines)
{
    const int rc = lines_open(lines, path);

    l->path = path;
    l->last_line = 0;
    l->form.latest = (int64_t)(clock_unix_ms() / 1000) + EVENT_TIME_AHEAD;
    if (l->csv)
        csv_begin(l->csv);
    if (rc < 0)
        open_failed(l, rc);
    return rc;
}

void
load_end_file(struct load *l, struct lines *lines, int filled)
{
    if (l->csv && l->csv->size > 0 && filled == 0 && !l->stopped)
        bad_line(l, lines, "a quote is open at the end");
    if (filled == -EISDIR)
        open_failed(l, filled);
    else if (filled < 0)
        file_failed(l, lines, filled);
    l->bytes_before += lines_done(lines);
    lines_close(lines);
}

/* One file.  An error of the file is counted and passed over (as with cat);
 * one of the connection is returned. */
static int
load_file(struct load *l, const char *path)
{
    struct lines lines;
    int filled, rc = 0;

    filled = load_begin_file(l, path, &lines);
    if (filled < 0)
        return 0;
    while (rc == 0 && !l->stopped) {
        /* Before waiting for a pipe, what came so far is made durable. */
        if (!lines_ready(&lines)) {
            rc = await_acks(l, &lines);
            l->stopped |= rc == 0 && interrupt_wait(&l->stop, lines.fd);
            if (rc < 0 || l->stopped)
                break;
        }
        filled = lines_fill(&lines);
        if (filled <= 0)
            break;
        l->form.latest = (int64_t)(clock_unix_ms() / 1000) + EVENT_TIME_AHEAD;
        rc = take_lines(l, &lines);
    }
    load_end_file(l, &lines, filled);
    return rc;
}

/* ---- the whole --------------------------------------------------------- */

/* Returns the bytes of all files; 0 if one of them is not a regular file. */
static uint64_t
total_size(const struct cmd_line *line)
{
    uint64_t total = 0;

    for (int i = 0; i < line->arg_count; i++) {
        struct stat st;

        if (strcmp(line->args[i], "-") == 0 || stat(line->args[i], &st) < 0 ||
            !S_ISREG(st.st_mode))
            return 0;
        total += (uint64_t)st.st_size;
    }
    return total;
}

static void
print_totals(struct load *l)
{
    const uint64_t ms = progress_ms(&l->progress);
    const uint64_t elapsed_ms = ms > 0 ? ms : 1;
    struct output out;

    output_init(&out, l->line, NULL, 0);
    output_count(&out, "increments", l->sent);
    output_count(&out, "bad_lines", l->bad);
    output_count(&out, "ms", ms);
    output_fact(&out, "acknowledged",
                cell_bool(l->c != NULL && l->peer == CMD_WRITER));
    output_text(&out, "%" PRIu64 " increment%s %s in %.2f s (%" PRIu64 "/s)",
                l->sent, output_plural(l->sent),
                l->c == NULL            ? "read, none sent,"
                : l->peer == CMD_WRITER ? "acknowledged"
                                        : "sent",
                (double)ms / 1000, l->sent * 1000 / elapsed_ms);
    if (l->bad > 0)
        output_text(&out, ", %" PRIu64 " bad line%s", l->bad,
                    output_plural(l->bad));
    output_text(&out, "\n");
    output_fini(&out);
}

/* Where increment `number` (from 1) came from, as far as that is remembered. */
static void
print_place(const struct load *l, uint64_t number, const char *what)
{
    const struct load_place *p = &places[(number - 1) % PLACES];

    if (number == 0 || l->sent - number >= PLACES)
        return;
    diag(DIAG_WARNING,
         "stopped by an error: %s:%" PRIu64 " is the last line %s",
         cmd_text(p->path, strlen(p->path)), p->line, what);
}

/* After an error: reports which lines are counted and which are not, so that
 * the user loads no line twice and forgets none. */
static void
print_loss(struct load *l)
{
    const char *known = l->peer == CMD_WRITER ? "acknowledged" : "sent";
    uint64_t unsent, unknown;

    countd_pending(l->c, &unsent, &unknown);
    unknown += countd_lost(l->c);
    diag(DIAG_WARNING,
         "increments=%" PRIu64 ": the first %" PRIu64 " are %s, the next "
         "%" PRIu64 " may or may not be counted, the last %" PRIu64
         " were not sent",
         l->sent, l->sent - unknown - unsent, known, unknown, unsent);
    print_place(l, l->sent - unknown - unsent, known);
    if (unknown > 0)
        print_place(l, l->sent - unsent, "that may be counted");
}

static int
load_files(struct load *l)
{
    const struct cmd_line *line = l->line;
    int rc = interrupt_init(&l->stop), status = 0;

    if (rc < 0)
        return cmd_failed(rc, "wait for signals");
    progress_init(&l->progress, "loading", total_size(line));
    if (line->arg_count == 0)
        rc = load_file(l, "-");
    for (int i = 0; rc == 0 && !l->stopped && i < line->arg_count; i++)
        rc = load_file(l, line->args[i]);
    if (rc == 0)
        rc = await_acks(l, NULL);
    progress_clear(&l->progress);
    if (l->stop.signo != 0)
        diag(DIAG_WARNING,
             "stopped by a signal: %s:%" PRIu64 " is the last line taken",
             cmd_text(l->path, strlen(l->path)), l->last_line);
    if (rc < 0) {
        print_loss(l);
        status = cmd_peer_failed(line, l->peer, rc);
    } else {
        print_totals(l);
    }
    interrupt_fini(&l->stop);
    return status;
}

/* Reads --csv and what goes with it. */
static void
read_csv(struct load *l, struct csv *csv)
{
    const struct cmd_line *line = l->line;
    const char *columns = cmd_value(line, "columns");
    const char *keyspace = cmd_value(line, "keyspace"), *wrong;

    if (cmd_value(line, "csv") != NULL)
        l->csv = csv;
    else if (columns || keyspace)
        *line->status = cmd_misuse(line, columns ? "--columns" : "--keyspace",
                                   "only with --csv");
    if (keyspace)
        csv->keyspace = cmd_name(line, keyspace, "keyspace");
    wrong = columns && *line->status == 0 ? csv_columns(csv, columns) : NULL;
    if (wrong)
        *line->status = cmd_misuse(line, columns, wrong);
}

int
cmd_load(struct cmd_line *line)
{
    const bool silent = cmd_value(line, "silent") != NULL;
    struct load l = {
        .line = line,
        .peer = silent ? CMD_WRITER_SILENT : CMD_WRITER,
        .strict = cmd_value(line, "strict") != NULL,
        .once = cmd_value(line, "once") != NULL,
        .form = {.raw = line->raw,
                 .keyspace_max = (size_t)line->config.keyspace_size,
                 .key_max = (size_t)line->config.key_size},
    };
    struct csv csv = {.raw = line->raw};
    int status;

    read_csv(&l, &csv);
    l.form.at = cmd_event_time(line, "at");
    l.timeout_ms = cmd_option_ms(line, "timeout", 60000);
    if (l.once)
        return *line->status != 0 ? *line->status : load_once(&l);
    status = cmd_value(line, "dry-run") == NULL
                 ? cmd_connect(line, l.peer, &l.c)
                 : *line->status;
    if (status != 0)
        return status;
    status = load_files(&l);
    (void)countd_close(l.c); /* print_loss() has told what went with it */
    status = cmd_worse(status, l.file_status);
    return cmd_worse(status, l.bad > 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK);
}
