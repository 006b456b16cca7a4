/* common/client/cmd/load.c - countd load: increments from lines of text.
 *
 * A line is KEYSPACE TAB KEY [TAB INCREMENT], names in their text form.  Bad
 * lines are reported and passed over; whatever the server does not
 * acknowledge is reported as such, never sent twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/lines.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/progress.h"
#include "common/client/cmd/stop.h"

#define BAD_SHOWN_MAX 20
#define BUFFER_SIZE   ((size_t)4 << 20) /* of the library */
#define WAIT_MS       20                /* between two looks at the progress */
#define LOOK_LINES    1024              /* between two looks at the clock */

struct load {
    struct countd *c;
    const struct cmd_line *line;
    enum cmd_peer peer;
    bool strict;
    uint64_t timeout_ms;
    struct progress progress;
    const char *path; /* of the file being read, as given */
    uint64_t past;    /* bytes of the files before it */
    uint64_t sent;    /* increments given to the library */
    uint64_t bad;     /* lines */
    int file_status;  /* the worst of the files' errors */
    bool stopped;     /* --strict met a bad line, or a signal came */
    struct stop stop;
    uint64_t last_line; /* taken of this file */
    int64_t pending;    /* at the last look */
    uint64_t moved_ms;  /* when `pending` last changed */
};

/* ---- lines ------------------------------------------------------------- */

static void
bad_line(struct load *l, const struct lines *lines, const char *why)
{
    char path[NAME_TEXT_SIZE];

    l->stopped = l->strict;
    if (++l->bad > BAD_SHOWN_MAX)
        return;
    (void)name_escape((const uint8_t *)l->path, strnlen(l->path, NAME_MAX_SIZE),
                      path); /* its length is not needed */
    progress_clear(&l->progress);
    diag(DIAG_WARNING, "%s:%" PRIu64 ": %s", path, lines->number, why);
    if (l->bad == BAD_SHOWN_MAX && !l->strict)
        diag(DIAG_WARNING, "further bad lines are only counted");
}

/* Cuts the field up to the next tab off; false when there is none left. */
static bool
cut_field(const char **text, size_t *left, const char **field, size_t *size)
{
    const char *tab;

    if (*text == NULL)
        return false;
    tab = memchr(*text, '\t', *left);
    *field = *text;
    *size = tab ? (size_t)(tab - *text) : *left;
    *left -= tab ? *size + 1 : *size;
    *text = tab ? tab + 1 : NULL;
    return true;
}

static const char *
read_name(const char *field, size_t size, struct cmd_name *out)
{
    const int rc = name_unescape(field, size, out->bytes, sizeof out->bytes);

    if (rc == -ENAMETOOLONG)
        return "a name of more than 256 bytes";
    if (rc < 0)
        return "a bad escape; use \\t \\n \\r \\\\ and \\xHH";
    if (rc == 0)
        return "an empty name";
    out->size = (size_t)rc;
    return NULL;
}

struct record {
    struct cmd_name keyspace, key;
    int64_t increment;
};

/* NULL, or what is wrong with the line. */
static const char *
read_record(const char *text, size_t left, struct record *out)
{
    const char *field, *why;
    size_t size;

    if (!cut_field(&text, &left, &field, &size))
        return "an empty line";
    why = read_name(field, size, &out->keyspace);
    if (why != NULL)
        return why;
    if (!cut_field(&text, &left, &field, &size))
        return "no tab; give KEYSPACE TAB KEY TAB INCREMENT";
    why = read_name(field, size, &out->key);
    if (why != NULL)
        return why;
    out->increment = 1;
    if (!cut_field(&text, &left, &field, &size))
        return NULL;
    switch (cmd_parse_number(field, size, &out->increment)) {
    case 0:
        break;
    case -ERANGE:
        return "the increment does not fit 64 bits";
    default:
        return "the increment is not a whole number";
    }
    return text == NULL ? NULL : "more than three columns";
}

/* ---- sending ----------------------------------------------------------- */

/* Lets the library work for a moment.  0: all is out and acknowledged;
 * -EAGAIN: not yet. */
static int
give_time(struct load *l)
{
    const int rc = countd_flush(l->c, WAIT_MS);
    const uint64_t now = clock_ms();
    int64_t pending;

    l->stopped |= stop_asked(&l->stop);
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
show(struct load *l, const struct lines *lines)
{
    progress_show(&l->progress, l->past + (lines ? lines_done(lines) : 0),
                  l->sent, "increment");
}

/* -EINTR: a signal came before there was room for it. */
static int
send_record(struct load *l, const struct lines *lines,
            const struct record *record)
{
    int rc;

    l->moved_ms = 0;
    for (;;) {
        rc =
            countd_incr(l->c, record->keyspace.bytes, record->keyspace.size,
                        record->key.bytes, record->key.size, record->increment);
        if (rc != -EAGAIN)
            break;
        show(l, lines);
        rc = give_time(l);
        if (rc < 0 && rc != -EAGAIN)
            return rc;
        if (l->stopped)
            return -EINTR;
    }

    if (rc == 0)
        l->sent++;
    if (rc != -ENAMETOOLONG)
        return rc;
    bad_line(l, lines, "a name longer than the server's message has room for");
    return 0;
}

static int
take_line(struct load *l, const struct lines *lines, const char *text,
          size_t size)
{
    struct record record;
    const char *why;

    if (size == 0)
        return 0;
    why =
        lines->cut ? "the line is too long" : read_record(text, size, &record);
    if (why != NULL) {
        bad_line(l, lines, why);
        return 0;
    }
    return send_record(l, lines, &record);
}

/* Waits until all is acknowledged (silent port: sent). */
static int
drain(struct load *l, const struct lines *lines)
{
    int rc;

    l->moved_ms = 0;
    do {
        rc = give_time(l);
        if (rc != -EAGAIN)
            progress_due(&l->progress);
        show(l, lines);
    } while (rc == -EAGAIN);
    return rc;
}

/* Sends the lines that have come. */
static int
take_lines(struct load *l, struct lines *lines)
{
    const char *text;
    size_t size;
    int rc = 0;

    while (rc == 0 && !l->stopped && lines_next(lines, &text, &size)) {
        rc = take_line(l, lines, text, size);
        if (rc == -EINTR)
            return 0; /* `stopped` says so */
        if (rc == 0)
            l->last_line = lines->number;
        if (lines->number % LOOK_LINES == 0) {
            show(l, lines);
            l->stopped |= stop_asked(&l->stop);
        }
    }
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

/* Says why a file could not be read to its end; what came before it is sent
 * all the same. */
static void
file_failed(struct load *l, const struct lines *lines, int rc)
{
    char path[NAME_TEXT_SIZE];

    l->file_status = CONFIG_EXIT_SYSTEM;
    (void)name_escape((const uint8_t *)l->path, strnlen(l->path, NAME_MAX_SIZE),
                      path); /* its length is not needed */
    progress_clear(&l->progress);
    if (rc == -EBADMSG || rc == -ENODATA)
        diag(DIAG_ERROR,
             "%s: the gzip file %s; the lines up to %" PRIu64 " are taken",
             path, rc == -EBADMSG ? "is damaged" : "ends too early",
             lines->number);
    else
        diag_errno(DIAG_ERROR, rc, "read %s line=%" PRIu64, path,
                   lines->number);
}

/* One file.  An error of the file is counted and passed over (as with cat);
 * one of the connection is returned. */
static int
load_file(struct load *l, const char *path)
{
    struct lines lines;
    int filled, rc;

    l->path = path;
    l->last_line = 0;
    filled = lines_open(&lines, path);
    if (filled < 0) {
        open_failed(l, filled);
        return 0;
    }
    rc = 0;
    while (rc == 0 && !l->stopped) {
        /* Before waiting for a pipe, what came so far is made durable. */
        if (!lines_ready(&lines)) {
            rc = drain(l, &lines);
            l->stopped |= rc == 0 && stop_wait(&l->stop, lines.fd);
            if (rc < 0 || l->stopped)
                break;
        }
        filled = lines_fill(&lines);
        if (filled <= 0)
            break;
        if (rc == 0)
            rc = take_lines(l, &lines);
    }
    if (filled == -EISDIR)
        open_failed(l, filled);
    else if (filled < 0)
        file_failed(l, &lines, filled);
    l->past += lines_done(&lines);
    lines_close(&lines);
    return rc;
}

/* ---- the whole --------------------------------------------------------- */

/* Bytes of all files; 0 when one of them is no plain file. */
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

static int
print_totals(struct load *l)
{
    const bool json = cmd_value(l->line, "json") != NULL;
    const uint64_t ms = progress_ms(&l->progress);
    const uint64_t spent = ms > 0 ? ms : 1;
    struct output out;

    output_init(&out, l->line, NULL, 0);
    output_fact(&out, "increments", cell_number((int64_t)l->sent));
    output_fact(&out, "bad_lines", cell_number((int64_t)l->bad));
    output_fact(&out, "ms", cell_number((int64_t)ms));
    output_fact(&out, "acknowledged", cell_bool(l->peer == CMD_WRITER));
    if (!json) /* output_fini() tells, here and below */
        (void)printf("%" PRIu64 " increment%s %s in %.2f s (%" PRIu64 "/s)",
                     l->sent, output_plural(l->sent),
                     l->peer == CMD_WRITER ? "acknowledged" : "sent",
                     (double)ms / 1000, l->sent * 1000 / spent);
    if (!json && l->bad > 0)
        (void)printf(", %" PRIu64 " bad line%s", l->bad, output_plural(l->bad));
    if (!json)
        (void)putchar('\n');
    return output_fini(&out);
}

/* After an error: what may be counted on, so that nobody loads lines again
 * that are in, or forgets those that are not. */
static void
print_loss(struct load *l)
{
    uint64_t unsent, unknown;

    countd_pending(l->c, &unsent, &unknown);
    unknown += countd_lost(l->c);
    diag(DIAG_WARNING,
         "increments=%" PRIu64 ": the first %" PRIu64 " are %s, the next "
         "%" PRIu64 " may or may not be counted, the last %" PRIu64
         " were not sent",
         l->sent, l->sent - unknown - unsent,
         l->peer == CMD_WRITER ? "acknowledged" : "sent", unknown, unsent);
}

static int
run(struct load *l)
{
    const struct cmd_line *line = l->line;
    int rc = 0;

    if (line->arg_count == 0)
        rc = load_file(l, "-");
    for (int i = 0; rc == 0 && !l->stopped && i < line->arg_count; i++)
        rc = load_file(l, line->args[i]);
    if (rc == 0)
        rc = drain(l, NULL);
    progress_clear(&l->progress);
    if (l->stop.signo != 0)
        diag(DIAG_WARNING,
             "stopped by a signal: %s:%" PRIu64 " is the last line taken",
             l->path, l->last_line);
    if (rc < 0) {
        print_loss(l);
        return cmd_peer_failed(line, l->peer, rc);
    }
    return print_totals(l);
}

int
cmd_load(struct cmd_line *line)
{
    const bool silent = cmd_value(line, "silent") != NULL;
    struct load l = {
        .line = line,
        .peer = silent ? CMD_WRITER_SILENT : CMD_WRITER,
        .strict = cmd_value(line, "strict") != NULL,
    };
    int rc, status;

    status = cmd_option_ms(line, "timeout", 60000, &l.timeout_ms);
    if (status == 0)
        status = cmd_connect(line, l.peer, BUFFER_SIZE, &l.c);
    if (status != 0)
        return status;
    rc = stop_init(&l.stop);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "wait for signals");
        status = CONFIG_EXIT_SYSTEM;
        goto close_client;
    }
    progress_init(&l.progress, "loading", total_size(line));
    status = run(&l);
    stop_fini(&l.stop);

close_client:
    countd_close(l.c);
    if (status == 0 && l.file_status != 0)
        return l.file_status;
    return status == 0 && l.bad > 0 ? CONFIG_EXIT_NEGATIVE : status;
}
