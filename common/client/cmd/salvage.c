/* common/client/cmd/salvage.c - countd log salvage: merges what is valid in a
 * quarantined log, on the operator's word.
 *
 * The records are placed in log/waiting/ under the log's own name, and a worker
 * merges them: what a worker had merged before the damage was found is not
 * merged again, and salvaging twice changes nothing.  Damaged slots are lost;
 * how many is said.
 *
 * A request with an Idempotency-Key may have been sent again meanwhile: one
 * that another fill has by now, as live/requests says, is left out, and so is
 * one whose end is missing, since no client was answered for it.  The others
 * are recorded there before they are merged.  A countd-write that runs knows
 * requests which are in its OPEN log alone, and does not read what is recorded:
 * while a request of the log is neither recorded for it nor for another fill,
 * the command takes the writer's lock and has all logs recovered.
 *
 * Read from the end: cmd_salvage(), run_salvage().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd_data.h"
#include "common/log/inspect.h"
#include "common/log/log_recover.h"
#include "common/log/logdir.h"
#include "common/log/logfile.h"
#include "common/log/requests.h"
#include "common/log/slot.h"

/* A request with a key, in the log. */
struct salvage_request {
    struct marked marked;
    uint32_t number; /* of its mark's slot */
    bool left_out;
    bool is_recorded; /* in live/requests, as of this log */
};

struct salvage_requests {
    struct requests journal;
    struct salvage_request *at;
    size_t count, capacity;
    size_t next;       /* while slots are read: the next one */
    uint64_t out_end;  /* slots before it are of one that is left out */
    uint64_t left_out; /* increments */
    uint64_t unsure;   /* increments; see is_unsure() */
    uint64_t after;    /* while slots are read: the number after the last */
    uint64_t run_end;  /* of the last good mark */
    bool is_doubtful;  /* a slot that is lost may have been a mark */
};

struct salvage {
    struct salvage_requests requests;
    int writer_fd; /* has the writer's lock; -1 */
    int fd;        /* of the log; -1 */
    const struct cmd_line *line;
    const char *name;
    struct store_session in;
    struct inspect report;
    struct place place;
    slot_visit *visit; /* while slots are read: of those that are placed */
    void *visit_ctx;
};

/* ---- requests with a key ------------------------------------------------ */

static int
take_mark(void *ctx, uint32_t number, const struct message *m,
          const struct slot_stamp *stamp)
{
    struct salvage_requests *r = ctx;
    struct salvage_request *q;

    if (!mark_is(m))
        return 0;
    if (array_grow(&r->at, &r->capacity, r->count + 1, sizeof *r->at) < 0)
        return -ENOMEM;
    q = &r->at[r->count++];
    *q = (struct salvage_request){
        .number = number, .marked = {.received_ms = stamp->received_ms}};
    mark_get(m, &q->marked.mark);
    return 0;
}

static int
compare_hashes(const void *a, const void *b)
{
    const struct salvage_request *x = a, *y = b;

    return memcmp(x->marked.mark.hash, y->marked.mark.hash, MARK_HASH_SIZE);
}

static int
compare_numbers(const void *a, const void *b)
{
    const struct salvage_request *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

/* A request that live/requests has, of this fill or of another. */
static void
see_counted(void *ctx, const struct counted_request *q)
{
    const struct salvage *s = ctx;
    const struct salvage_requests *r = &s->requests;
    const struct log_header *h = &s->report.header;
    const struct salvage_request wanted = {.marked = {.mark = q->mark}};
    struct salvage_request *found;

    found = bsearch(&wanted, r->at, r->count, sizeof *r->at, compare_hashes);
    if (!found)
        return;
    if (q->epoch == h->epoch &&
        memcmp(q->uuid, h->uuid, MESSAGE_UUID_SIZE) == 0)
        found->is_recorded = true;
    else
        found->left_out = true;
}

/* Determines which requests count already, or are not whole; *unknown becomes
 * the number of those that no record decides. */
static int
classify_requests(struct salvage *s, size_t *unknown)
{
    struct salvage_requests *r = &s->requests;
    int rc;

    *unknown = 0;
    qsort(r->at, r->count, sizeof *r->at, compare_hashes);
    rc = requests_each(&r->journal, see_counted, s);
    qsort(r->at, r->count, sizeof *r->at, compare_numbers);
    for (size_t i = 0; i < r->count; i++) {
        struct salvage_request *q = &r->at[i];

        if (q->number + UINT64_C(1) + q->marked.mark.count > s->report.end)
            q->left_out = true;
        *unknown += !q->left_out && !q->is_recorded;
    }
    return rc;
}

/* Recovers logs whose owner died.  Afterwards the requests of all logs are in
 * live/requests. */
static int
recover_logs(struct salvage *s)
{
    struct log_unsealed u;
    struct logdir dir;
    int rc = wait_logs_open(s->line, s->in.dir.log_fd, &dir);

    if (rc < 0)
        return rc;
    dir.requests = &s->requests.journal;
    rc = logdir_scan(&dir);
    for (size_t i = 0; rc == 0 && i < dir.count; i++)
        if (dir.entries[i].ours &&
            log_unsealed(dir.fd, dir.entries[i].index, dir.requests, &u) > 0) {
            diag(DIAG_ERROR,
                 "log=%" PRIu64 " is not recovered yet, and may have requests "
                 "with an Idempotency-Key that %s has, too; nothing was merged",
                 dir.entries[i].index, s->name);
            rc = -EBUSY;
        }
    logdir_close(&dir);
    return rc;
}

/* Takes the writer's lock until the command ends.  -EBUSY: reported */
static int
exclude_writer(struct salvage *s)
{
    long pid = 0;
    int rc;

    rc = datadir_writer_lock(&s->in.dir, &s->writer_fd, &pid);
    if (rc == -EBUSY)
        diag(DIAG_ERROR,
             "%s has requests with an Idempotency-Key that may be sent again: "
             "stop countd-write pid=%ld and salvage it then; nothing was "
             "merged",
             s->name, pid);
    return rc == 0 ? recover_logs(s) : rc;
}

/* Finds the requests of the log that count already, or are not whole.  Without
 * live/requests their keys mean nothing: none is known to count. */
static int
find_left_out(struct salvage *s)
{
    struct salvage_requests *r = &s->requests;
    size_t unknown = 0;
    int rc;

    if (r->count == 0)
        return 0;
    requests_init(&r->journal, s->in.dir.fd);
    rc = classify_requests(s, &unknown);
    if (rc == 0 && unknown > 0 && s->place.dry_run)
        diag(DIAG_WARNING,
             "requests=%zu with an Idempotency-Key may have been sent again: "
             "those that were are left out",
             unknown);
    else if (rc == 0 && unknown > 0)
        rc = exclude_writer(s);
    if (rc == 0 && s->writer_fd >= 0)
        rc = classify_requests(s, &unknown);
    return rc == -ENOKEY ? 0 : rc;
}

/* Records the requests that are about to be merged: from now on the same one is
 * not counted again. */
static int
record_requests(struct salvage *s)
{
    struct salvage_requests *r = &s->requests;
    struct marked *marks;
    size_t count = 0;
    int rc;

    if (r->count == 0 || s->place.dry_run)
        return 0;
    marks = malloc(r->count * sizeof *marks);
    if (!marks)
        return -ENOMEM;
    for (size_t i = 0; i < r->count; i++)
        if (!r->at[i].left_out)
            marks[count++] = r->at[i].marked;
    rc = requests_put(&r->journal, &s->report.header, marks, count);
    free(marks);
    return rc == -ENOKEY ? 0 : rc;
}

/* Whether a slot is of a request that is left out; slots come in order. */
static bool
is_left_out(struct salvage_requests *r, uint32_t number)
{
    while (r->next < r->count && r->at[r->next].number <= number) {
        const struct salvage_request *q = &r->at[r->next++];

        if (q->left_out)
            r->out_end = q->number + UINT64_C(1) + q->marked.mark.count;
    }
    return number < r->out_end;
}

/* Whether a slot may be of a request whose mark is damaged: that is so behind
 * lost slots up to the next good mark.  It is merged, since it may have been
 * acknowledged without a key.  Slots come in order. */
static bool
is_unsure(struct salvage_requests *r, uint32_t number, const struct message *m)
{
    struct request_mark mark;

    if (number > r->after && number > r->run_end)
        r->is_doubtful = true;
    r->after = number + UINT64_C(1);
    if (mark_is(m)) {
        mark_get(m, &mark);
        r->run_end = r->after + mark.count;
        r->is_doubtful = false;
    }
    return r->is_doubtful && number >= r->run_end;
}

/* ---- reading the log --------------------------------------------------- */

static int
take_slot(void *ctx, uint32_t number, const struct message *m,
          const struct slot_stamp *stamp)
{
    struct salvage *s = ctx;
    const bool left_out = is_left_out(&s->requests, number);
    const bool unsure = is_unsure(&s->requests, number, m);

    if (mark_is(m))
        return 0;
    /* The requests of a log that was sealed are in live/requests. */
    if (unsure && s->report.header.state == LOG_OPEN &&
        (s->report.header.features & LOG_HAS_MARKS) != 0)
        s->requests.unsure++;
    s->requests.left_out += left_out;
    return left_out ? 0 : s->visit(s->visit_ctx, number, m, stamp);
}

/* For place_fill(). */
static int
read_slots(void *ctx, slot_visit *visit, void *visit_ctx)
{
    struct salvage *s = ctx;
    struct salvage_requests *r = &s->requests;

    s->visit = visit;
    s->visit_ctx = visit_ctx;
    r->left_out = r->unsure = 0;
    r->next = 0;
    r->out_end = r->after = r->run_end = 0;
    r->is_doubtful = false;
    return logfile_each(&(struct logfile_slots){.fd = s->fd,
                                                .header = &s->report.header,
                                                .end = s->report.end},
                        take_slot, s);
}

/* Opens the log, looks at all of it, and reads its marks. */
static int
read_log(struct salvage *s)
{
    int rc;

    s->fd = logfile_open(s->in.dir.log_fd, s->name);
    if (s->fd < 0)
        return s->fd;
    rc = log_inspect(s->fd, UINT64_MAX, &s->report);
    if (rc < 0 || s->report.headers_rc < 0)
        return rc;
    rc = logfile_each(&(struct logfile_slots){.fd = s->fd,
                                              .header = &s->report.header,
                                              .end = s->report.end},
                      take_mark, &s->requests);
    return rc == 0 ? find_left_out(s) : rc;
}

/* ---- placing ----------------------------------------------------------- */

static void
report_ahead(const uint8_t *name, size_t name_size)
{
    diag(DIAG_ERROR,
         "keyspace %s has a later or another fill of this log: "
         "was the directory restored? nothing merged into it",
         cmd_text(name, name_size));
}

/* Removes or renames the file after all of it is placed. */
static int
remove_salvaged(struct salvage *s)
{
    char to[LOGFILE_NAME_SIZE + 16];
    int rc = 0;

    if (cmd_value(s->line, "keep") != NULL || s->place.dry_run ||
        s->place.names_ahead > 0)
        return 0;
    if (cmd_value(s->line, "remove") != NULL) {
        if (unlinkat(s->in.dir.log_fd, s->name, 0) < 0)
            rc = -errno;
    } else {
        /* "bad-N-EPOCH" becomes "salvaged-N-EPOCH". */
        (void)snprintf(to, sizeof to, "salvaged-%s", s->name + strlen("bad-"));
        if (renameat2(s->in.dir.log_fd, s->name, s->in.dir.log_fd, to,
                      RENAME_NOREPLACE) < 0)
            rc = -errno;
    }
    if (rc == 0 && fsync(s->in.dir.log_fd) < 0)
        rc = -errno;
    return rc;
}

/* ---- the subcommand ---------------------------------------------------- */

static void
print_result(struct salvage *s)
{
    const uint64_t merged = s->place.wanted - s->place.waiting;
    struct output out;

    output_init(&out, s->line, NULL, 0);
    output_fact(&out, "log", cell_name(s->name, strlen(s->name)));
    output_count(&out, "merged", merged);
    output_count(&out, "already_merged", s->place.already);
    output_count(&out, "waiting", s->place.waiting);
    output_count(&out, "damaged", s->report.damaged);
    output_count(&out, "left_out", s->requests.left_out);
    output_count(&out, "unsure", s->requests.unsure);
    output_count(&out, "keyspaces_failed", s->place.names_ahead);
    output_fact(&out, "dry_run", cell_bool(s->place.dry_run));
    output_text(&out,
                "%s: %" PRIu64 " increment%s %s, %" PRIu64
                " merged already, %" PRIu32 " damaged and lost",
                s->name, merged, output_plural(merged),
                s->place.dry_run ? "would be merged" : "merged",
                s->place.already, s->report.damaged);
    if (s->place.waiting > 0)
        output_text(&out, ", %" PRIu64 " wait (countd held)", s->place.waiting);
    if (s->requests.left_out > 0)
        output_text(&out,
                    ", %" PRIu64 " left out: their requests were sent again "
                    "and count, or are not whole",
                    s->requests.left_out);
    if (s->requests.unsure > 0)
        output_text(&out,
                    ", %" PRIu64 " of them behind damaged slots: if these are "
                    "of a request with an Idempotency-Key that is sent again, "
                    "it counts twice",
                    s->requests.unsure);
    output_text(&out, "\n");
    output_fini(&out);
}

/* Salvages one log of the open directory. */
static int
run_salvage(struct salvage *s)
{
    struct archive_header h;
    int rc, status;

    rc = read_log(s);
    if (rc == -ENOENT)
        return cmd_fail(CONFIG_EXIT_NEGATIVE,
                        "there is no log %s; countd log list shows them",
                        s->name);
    if (rc < 0)
        return rc == -EBUSY ? CONFIG_EXIT_SYSTEM /* reported */
                            : cmd_failed(rc, "read %s", s->name);
    if (s->report.headers_rc < 0)
        return cmd_fail(
            CONFIG_EXIT_NEGATIVE,
            "%s: both headers are damaged or newer; without a "
            "header current and old slots look alike: nothing can be merged",
            s->name);
    /* The log would hide that fills before it are missing. */
    if (!s->place.dry_run && wait_report_older(s->line))
        return CONFIG_EXIT_SYSTEM;
    h = archive_header_of(&s->report.header);
    rc = record_requests(s);
    /* A keyspace that has another fill of this epoch is left out: their order
     * is unknown. */
    if (rc == 0)
        rc = place_fill(&s->place, &h, &(struct waiting_source){read_slots, s});
    if (rc == 0)
        rc = remove_salvaged(s);
    if (rc < 0)
        return cmd_failed(rc, "salvage %s", s->name);
    status = place_merge(&s->place, s->line);
    if (status <= CONFIG_EXIT_NEGATIVE)
        print_result(s);
    return s->place.names_ahead > 0 ? CONFIG_EXIT_SYSTEM : status;
}

int
cmd_salvage(struct cmd_line *line, const char *file)
{
    struct salvage s = {
        .line = line,
        .name = file,
        .writer_fd = -1,
        .fd = -1,
        .place = {.in = &s.in,
                  .dry_run = cmd_value(line, "dry-run") != NULL,
                  .ahead = report_ahead},
    };
    uint64_t index;
    int status;

    if (logfile_parse(file, &index) != LOGFILE_BAD)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "%s: only quarantined logs, bad-N-EPOCH, are "
                        "salvaged; daemons take care of the others",
                        file);
    if (cmd_value(line, "keep") && cmd_value(line, "remove"))
        return cmd_fail(CONFIG_EXIT_USAGE, "give --keep or --remove, not both");
    status = store_session_open(
        line, s.place.dry_run ? SESSION_READ : SESSION_WRITE, &s.in);
    if (status != 0)
        return status;
    status = run_salvage(&s);
    if (s.fd >= 0)
        (void)close(s.fd);
    store_session_close(&s.in);
    place_fini(&s.place);
    if (s.writer_fd >= 0)
        (void)close(s.writer_fd);
    free(s.requests.at);
    return status;
}
