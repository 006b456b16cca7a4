/* common/client/cmd/accept.c - countd log accept: an operator accepts what
 * cannot be had back, and the logs are merged again.
 *
 *     keyspace/ is older than log/        what it lacks stays missing
 *     live/requests/secret is lost        the keys under it are forgotten
 *
 * Read from the end: cmd_log_accept(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd_data.h"
#include "common/journal/requests.h"
#include "common/log/inspect.h"
#include "common/log/logfile.h"
#include "common/setup/merge_note.h"

#define ACCEPT_WAIT_MS 30000 /* for a worker that is writing a note */

/* ---- a lost secret ------------------------------------------------------- */

/* The hashes of keys that are forgotten. */
struct forgotten {
    uint8_t (*hashes)[MARK_HASH_SIZE];
    size_t count, capacity;
    bool has_logs; /* some take marks */
    int rc;
};

static void
add_hash(struct forgotten *f, const uint8_t hash[MARK_HASH_SIZE])
{
    void *more;

    if (f->count == f->capacity) {
        f->capacity = 2 * f->capacity + 1024;
        more = realloc(f->hashes, f->capacity * sizeof *f->hashes);
        if (!more) {
            f->rc = -ENOMEM;
            f->capacity = f->count;
            return;
        }
        f->hashes = more;
    }
    memcpy(f->hashes[f->count++], hash, MARK_HASH_SIZE);
}

static void
add_request(void *ctx, const struct counted_request *q)
{
    add_hash(ctx, q->mark.hash);
}

static int
add_mark(void *ctx, uint32_t number, const struct message *m,
         const struct slot_stamp *stamp)
{
    struct request_mark mark;

    (void)number;
    (void)stamp;
    if (!mark_is(m))
        return 0;
    mark_get(m, &mark);
    add_hash(ctx, mark.hash);
    return 0;
}

/* A log that cannot be read now is a live process's, or none with marks. */
static void
add_log(struct forgotten *f, int log_fd, const char *name)
{
    const int fd = logfile_open(log_fd, name);
    struct inspect report;
    uint32_t skipped;

    if (fd < 0)
        return;
    if (log_inspect(fd, UINT64_MAX, &report) == 0 && report.headers_rc == 0 &&
        report.header.state != LOG_EMPTY &&
        (report.header.features & LOG_HAS_MARKS) != 0) {
        f->has_logs = true;
        (void)logfile_each(fd, &report.header, report.end, add_mark, f,
                           &skipped);
    }
    (void)close(fd);
}

static int
compare_hashes(const void *a, const void *b)
{
    return memcmp(a, b, MARK_HASH_SIZE);
}

/* Finds the requests of live/requests and of the logs, each once. */
static int
find_forgotten(const struct datadir *d, struct requests *r, struct forgotten *f)
{
    struct logfile_list list;
    size_t count = 0;
    int rc;

    rc = requests_each(r, add_request, f);
    if (rc == 0)
        rc = logfile_list_read(&list, d->log_fd);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < list.count; i++)
        if (list.files[i].kind == LOGFILE_LOG && list.files[i].ours)
            add_log(f, d->log_fd, list.files[i].name);
    logfile_list_free(&list);
    if (f->count > 0)
        qsort(f->hashes, f->count, sizeof *f->hashes, compare_hashes);
    for (size_t i = 0; i < f->count; i++)
        if (i == 0 || compare_hashes(f->hashes[i], f->hashes[i - 1]) != 0)
            memmove(f->hashes[count++], f->hashes[i], MARK_HASH_SIZE);
    f->count = count;
    return f->rc;
}

/* Makes a secret where one is lost; *accepted: it did. */
static int
accept_lost_secret(const struct datadir *d, bool *accepted)
{
    struct forgotten f = {.hashes = NULL};
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
    rc = find_forgotten(d, &r, &f);
    *accepted = f.has_logs || requests_exist(&r) > 0;
    if (rc == 0 && *accepted)
        rc = requests_make(&r);
    free(f.hashes);
    if (rc < 0)
        return cmd_failed(rc, "make " REQUESTS_FOLDER "/" REQUESTS_SECRET);
    if (*accepted)
        diag(DIAG_INFO,
             "accepted: " REQUESTS_FOLDER "/" REQUESTS_SECRET
             " was lost; keys forgotten=%zu: a request with one of them that "
             "is sent again counts again; logs are merged again",
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
            rc = merge_note_accept(d, clock_unix_ms());
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

/* ---- the subcommand ------------------------------------------------------ */

int
cmd_log_accept(struct cmd_line *line)
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
