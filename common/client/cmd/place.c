/* common/client/cmd/place.c - see cmd_data.h: place_fill() goes through a fill
 * twice, to find its keyspaces and what they have of it, and to write what they
 * lack; place_merge(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/setup/merge_note.h"

/* ---- the keyspaces of a fill ------------------------------------------------ */

void
place_fini(struct place *p)
{
    name_table_clear(&p->names);
    free(p->fills);
    p->fills = NULL;
    p->fill_count = p->fill_capacity = 0;
}

/* Whether the increments of a keyspace are placed. */
static bool
is_chosen(const struct place *p, const uint8_t *name, size_t size)
{
    return p->keyspace.size == 0 ||
           bytes_equal(name, size, p->keyspace.bytes, p->keyspace.size);
}

/* ---- what each has ------------------------------------------------------------ */

struct other {
    const struct log_fill *fill;
    bool later; /* than it is what the keyspace has */
};

static int
see_mark(void *ctx, const struct log_fill *m,
         const struct store_mark_info *info)
{
    struct other *o = ctx;

    (void)info; /* how far it came does not matter */
    if (log_fill_is_of_log(m, o->fill->uuid))
        o->later = m->first_ms > o->fill->first_ms;
    return 0;
}

/* What a keyspace has of the fill.  If two have one epoch, the later one has
 * the later first increment. */
static int
read_state(struct place *p, const uint8_t *name, size_t size,
           enum store_mark_state *state)
{
    const struct store_batch batch = {
        .name = name, .name_size = size, .marks = &p->fill, .mark_count = 1};
    struct store_mark_info info = {.state = STORE_MARK_NONE};
    struct other o = {.fill = &p->fill};
    int rc = 0;

    if (p->in)
        rc = store_marks(p->in->store, &batch, &info);
    if (rc == 0 && info.state == STORE_MARK_OTHER) {
        p->has_other = true;
        rc = store_each_mark(p->in->store, name, size, see_mark, &o);
    }
    *state = o.later ? STORE_MARK_AHEAD : info.state;
    return rc;
}

/* A keyspace that cannot be read gets its records when it can be. */
static void
decide_name(struct place *p, uint32_t number)
{
    uint32_t *increments = &p->names.entries[number].note;
    enum store_mark_state state;
    size_t size;
    const uint8_t *name = name_table_name(&p->names, number, &size);
    int rc;

    if (!is_chosen(p, name, size)) {
        *increments = 0;
        return;
    }
    rc = read_state(p, name, size, &state);
    if (rc == 0 && state == STORE_MARK_DONE) {
        p->already += *increments;
        *increments = 0;
    } else if (rc == 0 && (state == STORE_MARK_AHEAD ||
                           (p->ahead && state == STORE_MARK_OTHER))) {
        p->passed += *increments;
        if (p->ahead)
            p->ahead(name, size);
        p->names_ahead++;
        *increments = 0;
    } else {
        p->wanted += *increments;
        /* A file may name the keyspace for this very fill already. */
        if (p->in &&
            waiting_has(&p->in->waiting,
                        waiting_find(&p->in->waiting, name, size), &p->fill))
            *increments = 0;
    }
}

/* ---- one fill ------------------------------------------------------------------ */

/* Finds what each keyspace lacks. */
static int
decide_names(struct place *p)
{
    const uint64_t wanted = p->wanted;

    for (uint32_t i = 0; i < p->names.count; i++)
        decide_name(p, i);
    if (p->wanted == wanted)
        return 0;
    if (array_grow(&p->fills, &p->fill_capacity, p->fill_count + 1,
                   sizeof *p->fills) < 0)
        return -ENOMEM;
    p->fills[p->fill_count++] = p->fill;
    return 0;
}

/* Writes what the keyspaces lack into a file, if that is anything; it is durable
 * then, its name included. */
static int
write_file(struct place *p, const struct archive_header *h,
           const struct waiting_source *from)
{
    struct waiting *w = &p->in->waiting;
    struct waiting_new file = {.fd = -1, .placed = true};
    const int rc = waiting_add(w, &file, h, &p->names, from);

    if (rc > 0)
        return waiting_end(w, &file);
    if (file.fd >= 0)
        waiting_abort(w, &file);
    return rc;
}

int
place_fill(struct place *p, const struct archive_header *h,
           const struct waiting_source *from)
{
    int rc;

    if (p->in && !p->is_listed) {
        rc = unmerged_list(&p->in->waiting);
        if (rc < 0)
            return rc;
        p->is_listed = true;
    }
    name_table_clear(&p->names);
    p->fill = LOG_FILL_OF(h);
    rc = name_table_init(&p->names);
    if (rc == 0)
        rc = waiting_count_records(from, &p->names);
    p->unread = rc < 0;
    if (rc == 0)
        rc = decide_names(p);
    return rc == 0 && !p->dry_run ? write_file(p, h, from) : rc;
}

/* ---- an archived log ------------------------------------------------------------ */

static int
read_archive(void *ctx, slot_visit *visit, void *visit_ctx)
{
    return archived_each(ctx, visit, visit_ctx);
}

int
place_archived(struct place *p, const struct archived *log)
{
    struct archived a = *log; /* that the source may point to */

    p->unread = log->error < 0 || log->missing;
    if (p->unread)
        return log->missing ? -ENOENT : log->error;
    return place_fill(p, &log->header,
                      &(struct waiting_source){read_archive, &a});
}

/* ---- merging --------------------------------------------------------------------- */

/* Until nothing can be merged.  While keyspace/ is older than log/, or a database
 * may be, what was placed alone (R11 of common/log/waiting.h). */
static int
run_worker(const struct cmd_line *line, const struct store_session *in)
{
    const char *args[CMD_DAEMON_ARGS];
    char path[PATH_MAX];
    const pid_t parent = getpid();
    struct merge_note note;
    int status;
    pid_t pid;

    cmd_daemon_path("countd-worker", path);
    cmd_daemon_args(&line->sources, "countd-worker",
                    line->config.store_postgresql ||
                            (merge_note_read(&in->dir, &note) == 0 &&
                             merge_note_is_older(&note))
                        ? "--once=placed"
                        : "--once",
                    NULL, args);
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() == parent)
            (void)execvp(path, (char *const *)(uintptr_t)args); /* failed */
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    diag(DIAG_ERROR, "%s did not end well, status %d: what was placed waits",
         path, WIFEXITED(status) ? WEXITSTATUS(status) : status);
    return -ECHILD;
}

static bool
is_wanted(void *ctx, const struct log_fill *id)
{
    const struct place *p = ctx;

    return bsearch(id, p->fills, p->fill_count, sizeof *id, log_fill_compare) !=
           NULL;
}

/* Adds up what waits of the fills that were wanted. */
static int
count_waiting(struct place *p)
{
    struct waiting *w = &p->in->waiting;
    struct waiting_sum sum = {.counts = is_wanted, .ctx = p};
    int rc;

    qsort(p->fills, p->fill_count, sizeof *p->fills, log_fill_compare);
    p->waiting = 0;
    rc = unmerged_list(w);
    for (uint32_t i = 0; rc == 0 && i < w->names.count; i++) {
        size_t size;
        const uint8_t *name = name_table_name(&w->names, i, &size);

        if (!is_chosen(p, name, size))
            continue;
        waiting_sum(p->in->store, w, i, &sum);
        p->waiting += sum.increments;
    }
    if (p->waiting > p->wanted)
        p->waiting = p->wanted;
    return rc;
}

int
place_merge(struct place *p, const struct cmd_line *line)
{
    int rc;

    if (p->dry_run || p->wanted == 0)
        return 0;
    rc = run_worker(line, p->in);
    if (rc == 0)
        rc = count_waiting(p);
    if (rc < 0)
        return rc == -ECHILD ? CONFIG_EXIT_SYSTEM /* reported */
                             : cmd_failed(rc, "merge what was placed");
    return p->waiting > 0 ? CONFIG_EXIT_NEGATIVE : 0;
}
