/* common/client/cmd/check.c - countd check: is everything on disk what it
 * should be?  Repairs nothing.
 *
 * Keyspaces are read before logs: epochs only grow, so in a sound directory a
 * mark that was read before a header is never above it, even while daemons
 * run.  Read from the end: cmd_check(), run_check(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/client/cmd/cmd_data.h"
#include "common/client/cmd/cmd_terminal.h"
#include "common/log/inspect.h"
#include "common/log/logfile.h"
#include "common/log/requests.h"
#include "common/setup/merge_note.h"

/* The highest epoch any keyspace has of one log. */
struct known {
    struct log_fill mark;
    struct increment_name keyspace; /* that has it */
};

struct check {
    const struct cmd_line *line;
    struct store_session in;
    struct output out;
    struct progress progress;

    char where[NAME_TEXT_SIZE + 16]; /* what is being looked at */
    struct increment_name keyspace;
    void *known; /* struct known, as tsearch(3) has them */

    uint64_t keyspaces, keys, blocks, logs, held;
    uint64_t waiting;   /* full logs */
    uint64_t saturated; /* keys that are flagged */
    uint64_t faults;
};

static const struct table_column columns[] = {
    {"where", "where", false},
    {"what", "what", false},
};

/* ---- findings ---------------------------------------------------------- */

#define FAULT       "FAULT: " /* what begins the text of a fault */
#define FINDING_MAX 2048      /* bytes of a text, with a name */

static void report_finding(struct check *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
report_finding(struct check *c, const char *format, ...)
{
    char text[FINDING_MAX];
    va_list args;

    /* Fits: a finding names one thing. */
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->faults += strncmp(text, FAULT, strlen(FAULT)) == 0;
    progress_clear(&c->progress);
    output_row(&c->out, (const struct cell[]){
                            cell_text(c->where),
                            cell_text(text),
                        });
}

static void
check_name(struct check *c, const char *kind, const uint8_t *name, size_t size)
{
    (void)snprintf(c->where, sizeof c->where, "%s %s", kind,
                   cmd_text(name, size)); /* a cut name still helps */
}

static void
check_file_name(struct check *c, const char *kind, const char *name)
{
    check_name(c, kind, (const uint8_t *)name, strlen(name));
}

/* ---- marks ------------------------------------------------------------- */

static int
compare_known(const void *a, const void *b)
{
    const struct known *x = a, *y = b;

    return memcmp(x->mark.uuid, y->mark.uuid, sizeof x->mark.uuid);
}

static int
keep_mark(void *ctx, const struct log_fill *m,
          const struct store_mark_info *info)
{
    struct check *c = ctx;
    struct known *k = malloc(sizeof *k), **at;

    if (k == NULL)
        return -ENOMEM;
    *k = (struct known){.mark = *m, .keyspace = c->keyspace};
    at = tsearch(k, &c->known, compare_known);
    if (at == NULL || *at != k) {
        if (at != NULL && m->epoch > (*at)->mark.epoch)
            **at = *k;
        free(k);
    }
    if (at == NULL)
        return -ENOMEM;
    if (info->state == STORE_MARK_PARTIAL)
        report_finding(
            c,
            "a log is merged in part; a worker will go on (epoch=%" PRIu64 ")",
            m->epoch);
    return 0;
}

/* ---- keyspaces --------------------------------------------------------- */

static void
keyspace_fault(void *ctx, const char *text)
{
    report_finding(ctx, FAULT "%s", text);
}

static void
check_keyspace(struct check *c, const uint8_t *name, size_t size)
{
    struct store_check result = {.fault = keyspace_fault, .ctx = c};
    int rc;

    check_name(c, "keyspace", name, size);
    c->keyspace.size = size;
    memcpy(c->keyspace.bytes, name, size);
    rc = store_check(c->in.store, name, size, &result);
    c->keyspaces++;
    c->keys += result.keys;
    c->saturated += result.saturated;
    c->blocks += result.blocks;
    if (rc == -ENOENT) {
        if (c->line->arg_count > 0)
            report_finding(c, FAULT "there is no such keyspace");
        else if (store_session_is_file(name, size))
            report_finding(c, FAULT
                           "a file in which its keyspace's name is damaged, or "
                           "another's: it was renamed or copied");
        return; /* or it was removed since it was listed */
    }
    if (rc < 0) {
        report_finding(c, FAULT "cannot be checked: %s", diag_text(rc));
        return;
    }
    rc = store_each_mark(c->in.store, name, size, keep_mark, c);
    if (rc < 0)
        report_finding(c, FAULT "its marks cannot be read: %s", diag_text(rc));
    progress_show(&c->progress, 0, c->keyspaces, "keyspace");
}

/* All, with those that were emptied: a log is compared with their marks. */
static int
check_listed(struct check *c)
{
    struct store_listing *l;
    struct store_listed found;
    int rc = store_listing_open(c->in.store, &l);

    if (rc < 0)
        return rc;
    l->with_empty = true;
    store_listing_start(l, NULL, 0);
    while ((rc = store_listing_next(l, UINT64_MAX, &found)) == 1)
        check_keyspace(c, found.name, found.name_size);
    store_listing_close(l);
    return rc;
}

static int
check_keyspaces(struct check *c)
{
    struct increment_name name;

    if (c->line->arg_count == 0)
        return check_listed(c);
    for (int i = 0; i < c->line->arg_count; i++) {
        name = cmd_name(c->line, c->line->args[i], "keyspace");
        check_keyspace(c, name.bytes, name.size);
    }
    return 0;
}

/* ---- logs -------------------------------------------------------------- */

static const char *const states[] = {
    [LOG_EMPTY] = "empty",
    [LOG_OPEN] = "open",
    [LOG_SEALED] = "full",
};

/* A log against what the keyspaces know of it. */
static void
check_mark(struct check *c, const struct log_header *h)
{
    struct known wanted, *const *at;
    const struct known *k;

    memcpy(wanted.mark.uuid, h->uuid, sizeof wanted.mark.uuid);
    at = tfind(&wanted, &c->known, compare_known);
    k = at != NULL ? *at : NULL;
    if (k == NULL || k->mark.epoch < h->epoch)
        return;
    if (k->mark.epoch == h->epoch) {
        if (h->state == LOG_SEALED && k->mark.first_ms != h->first_ms)
            report_finding(
                c, "another fill of its epoch is merged: the directory was put "
                   "together from copies of different times; a worker will "
                   "merge this one too");
        return;
    }
    report_finding(
        c,
        FAULT "%s, epoch %" PRIu64 ", but keyspace %s has epoch %" PRIu64
              " of it merged: was the directory put together from copies of "
              "different times?",
        states[h->state], h->epoch,
        cmd_text(k->keyspace.bytes, k->keyspace.size), k->mark.epoch);
}

static void
check_report(struct check *c, const struct logfile *f, const struct inspect *r)
{
    if (r->headers_rc == -EPROTONOSUPPORT) {
        report_finding(c, FAULT "written by a newer version of countd");
        return;
    }
    if (r->headers_rc < 0) {
        report_finding(c, FAULT
                       "both headers are damaged; a daemon will set it aside");
        return;
    }
    if (r->damaged > 0)
        report_finding(c,
                       FAULT "slots damaged: %" PRIu32 " of %" PRIu32
                             "; a daemon will set it aside",
                       r->damaged, r->valid + r->damaged);
    if (!r->header_ok[0] || !r->header_ok[1])
        report_finding(c, "header block %d is not valid; the other one rules",
                       r->header_ok[0] ? 1 : 0);
    check_mark(c, &r->header);
    if (r->header.state != LOG_SEALED)
        return;
    c->waiting++;
    report_finding(c, "%s: %" PRIu32 " increment%s to be merged",
                   f->locked ? "owned" : "full",
                   r->header.count - r->header.marks,
                   output_plural(r->header.count - r->header.marks));
}

static void
check_log(struct check *c, const struct logfile *f)
{
    struct inspect r;
    int fd, rc;

    c->logs++;
    fd = wait_open_log(c->in.dir.log_fd, f->name);
    if (fd == -ENOENT)
        return; /* gone meanwhile: its owner set it aside */
    if (fd < 0) {
        report_finding(c, FAULT "cannot be opened: %s", diag_text(fd));
        return;
    }
    rc = log_inspect(fd, f->index, &r);
    (void)close(fd);
    if (rc < 0)
        report_finding(c, FAULT "cannot be read: %s", diag_text(rc));
    else
        check_report(c, f, &r);
}

static int
check_file(void *ctx, const struct logfile *f)
{
    static const char *const findings[] = {
        [LOGFILE_LOCK] = "a lock without its log: being made, or its maker "
                         "died; a daemon removes it",
        [LOGFILE_BAD] = FAULT "a damaged log that was quarantined; countd log "
                              "salvage merges what is valid in it",
        [LOGFILE_SALVAGED] = "was quarantined and salvaged; it may be removed",
        [LOGFILE_OTHER] = "is not countd's, left alone",
    };
    struct check *c = ctx;

    check_file_name(c, "log", f->name);
    if (f->kind == LOGFILE_LOG)
        check_log(c, f);
    else
        report_finding(c, "%s", findings[f->kind]);
    return 0;
}

/* That keyspace/ is not an older copy of what the logs were merged into. */
static int
check_merge_note(struct check *c)
{
    char text[MERGE_NOTE_TEXT];
    struct merge_note n;
    int rc;

    rc = merge_note_read(&c->in.dir, &n);
    if (rc < 0 || !merge_note_is_older(&n))
        return rc;
    check_file_name(c, "keyspaces", "keyspace/");
    merge_note_explain(&n, text);
    report_finding(c, FAULT "%s", text);
    return 0;
}

/* ---- what waits ---------------------------------------------------------- */

static int
note_waiting(void *ctx, const struct waiting_sum *sum)
{
    struct check *c = ctx;

    c->held += sum->fills;
    check_name(c, "keyspace", sum->name, sum->name_size);
    report_finding(c,
                   "fills of logs wait for it: %" PRIu64
                   "; a worker merges them when it can, countd held says more",
                   sum->fills);
    return 0;
}

static int
check_damaged_file(void *ctx, int folder_fd, const char *file)
{
    struct check *c = ctx;

    (void)folder_fd;
    if (strncmp(file, WAITING_BAD, strlen(WAITING_BAD)) != 0)
        return 0;
    check_file_name(c, "waiting", file);
    report_finding(c,
                   FAULT
                   "a damaged file: what was damaged in it is lost; remove "
                   "log/" WAITING_FOLDER "/%s when you have no use for it",
                   file);
    return 0;
}

static int
check_waiting(struct check *c)
{
    int rc;

    rc = unmerged_list(&c->in.waiting);
    if (rc == 0)
        rc = waiting_each(c->in.store, &c->in.waiting, note_waiting, c);
    check_file_name(c, "waiting", WAITING_FOLDER);
    if (rc == 0)
        rc = waiting_check(&c->in.waiting, keyspace_fault, c);
    if (rc == 0)
        rc = dirstream_each(c->in.dir.log_fd, WAITING_FOLDER,
                            check_damaged_file, c);
    return rc;
}

/* ---- requests with an Idempotency-Key ------------------------------------ */

static void
ignore_request(void *ctx, const struct counted_request *q)
{
    (void)ctx; /* that it can be read is enough */
    (void)q;
}

static int
check_requests(struct check *c)
{
    uint8_t secret[REQUESTS_KEY_SIZE];
    struct requests r;
    int rc;

    requests_init(&r, c->in.dir.fd);
    rc = requests_each(&r, ignore_request, NULL);
    check_file_name(c, "requests", REQUESTS_FOLDER);
    if (rc == 0 && r.damaged > 0)
        report_finding(c, FAULT
                       "damaged: a request with an Idempotency-Key that was "
                       "recorded there and is sent again counts again");
    if (rc == 0 && requests_exist(&r) > 0 &&
        requests_secret(&r, secret) == -ENOKEY)
        report_finding(c, FAULT
                       "secret, which its keys are hashed under, is lost: "
                       "restore it, or see countd log accept");
    return rc;
}

/* ---- the subcommand ---------------------------------------------------- */

static void
print_summary(struct check *c)
{
    output_rows_end(&c->out);
    output_count(&c->out, "keyspaces", c->keyspaces);
    output_count(&c->out, "keys", c->keys);
    output_count(&c->out, "saturated", c->saturated);
    output_count(&c->out, "blocks", c->blocks);
    output_count(&c->out, "logs", c->logs);
    output_count(&c->out, "logs_waiting", c->waiting);
    output_count(&c->out, "held", c->held);
    output_count(&c->out, "faults", c->faults);
    if (c->out.format == OUTPUT_PEOPLE)
        (void)printf("keyspaces=%" PRIu64 " keys=%" PRIu64 " blocks=%" PRIu64
                     " logs=%" PRIu64 " waiting=%" PRIu64 " held=%" PRIu64
                     ": %" PRIu64 " fault%s\n",
                     c->keyspaces, c->keys, c->blocks, c->logs, c->waiting,
                     c->held, c->faults, output_plural(c->faults));
    if (c->out.format == OUTPUT_PEOPLE && c->saturated > 0)
        (void)printf("saturated=%" PRIu64
                     ": keys whose sum once left the range "
                     "of 64 bits\n",
                     c->saturated);
    output_fini(&c->out);
}

static int
check_rest(struct check *c)
{
    int rc = check_merge_note(c);

    if (rc == 0)
        rc = logfile_list_each(c->in.dir.log_fd, check_file, c);
    if (rc == 0)
        rc = check_waiting(c);
    return rc == 0 ? check_requests(c) : rc;
}

/* Checks the named keyspaces; without names, the whole open directory. */
static int
run_check(struct check *c)
{
    int rc;

    output_init(&c->out, c->line, OUTPUT_COLUMNS(columns));
    progress_init(&c->progress, "checking", 0);
    rc = check_keyspaces(c);
    if (rc == 0 && c->line->arg_count == 0)
        rc = check_rest(c);
    progress_clear(&c->progress);
    print_summary(c);
    if (rc < 0)
        return cmd_failed(rc, "check %s", c->line->config.data_dir);
    return c->faults > 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}

int
cmd_check(struct cmd_line *line)
{
    struct check c = {.line = line};
    int status;

    for (int i = 0; i < line->arg_count; i++)
        (void)cmd_name(line, line->args[i], "keyspace"); /* refused at once */
    status = store_session_open(line, SESSION_READ, &c.in);
    if (status != 0)
        return status;
    status = run_check(&c);
    store_session_close(&c.in);
    tdestroy(c.known, free);
    return status;
}
