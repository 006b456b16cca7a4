/* common/client/cmd/place.c - see cmd_data.h: place_fill() goes through a fill
 * twice, to find its keyspaces and what they have of it, and to write what they
 * lack; place_merge(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
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

enum place_what { PLACE_COUNT, PLACE_WRITE, PLACE_LEAVE };

struct place_name {
    struct archive_fill_name fill; /* its name is behind it */
    enum place_what what;
    uint8_t bytes[];
};

static int
by_name(const void *a, const void *b)
{
    const struct place_name *x = a, *y = b;

    return bytes_compare(x->fill.name, x->fill.size, y->fill.name,
                         y->fill.size);
}

static struct place_name *
find_name(const struct place *p, const struct message *m)
{
    const struct place_name key = {
        .fill = {.name = m->keyspace, .size = m->keyspace_size}};
    struct place_name *const *at;

    if (p->last && by_name(p->last, &key) == 0)
        return p->last;
    at = tfind(&key, &p->names, by_name);
    return at ? *at : NULL;
}

static int
add_name(struct place *p, const struct message *m)
{
    struct place_name *n;
    int rc;

    rc = array_grow(&p->list, &p->capacity, p->count + 1,
                    sizeof(struct place_name *));
    n = rc == 0 ? calloc(1, sizeof *n + m->keyspace_size) : NULL;
    if (!n)
        return -ENOMEM;
    memcpy(n->bytes, m->keyspace, m->keyspace_size);
    n->fill = (struct archive_fill_name){n->bytes, m->keyspace_size, 1};
    p->list[p->count++] = n;
    p->last = n;
    return tsearch(n, &p->names, by_name) ? 0 : -ENOMEM;
}

static void
forget_node(void *node)
{
    (void)node; /* the list has it */
}

static void
forget_names(struct place *p)
{
    tdestroy(p->names, forget_node);
    for (size_t i = 0; i < p->count; i++)
        free(p->list[i]);
    free(p->list);
    p->names = NULL;
    p->list = NULL;
    p->last = NULL;
    p->count = p->capacity = 0;
}

void
place_fini(struct place *p)
{
    forget_names(p);
    free(p->fills);
    p->fills = NULL;
    p->fill_count = p->fill_capacity = 0;
}

/* Whether the increments of a keyspace are not placed. */
static bool
is_left_out(const struct place *p, const struct message *m)
{
    return p->keyspace.size > 0 &&
           !bytes_equal(m->keyspace, m->keyspace_size, p->keyspace.bytes,
                        p->keyspace.size);
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

/* What a keyspace has of the fill.  Of two with one epoch, the later one has
 * the later first increment. */
static int
read_state(const struct place *p, const struct place_name *n,
           enum store_mark_state *state)
{
    struct store_mark_info info = {.state = STORE_MARK_NONE};
    struct other o = {.fill = &p->fill};
    int rc = 0;

    if (p->in)
        rc = store_marks(p->in->store, n->fill.name, n->fill.size, &p->fill, 1,
                         &info);
    if (rc == 0 && info.state == STORE_MARK_OTHER)
        rc = store_each_mark(p->in->store, n->fill.name, n->fill.size, see_mark,
                             &o);
    *state = o.later ? STORE_MARK_AHEAD : info.state;
    return rc;
}

/* Whether some file names the keyspace for this very fill already. */
static bool
is_waiting(const struct place *p, const struct place_name *n)
{
    return p->in && waiting_has(&p->in->waiting,
                                waiting_find(&p->in->waiting, n->fill.name,
                                             n->fill.size),
                                &p->fill);
}

/* A keyspace that cannot be read gets its records when it can be. */
static void
decide_name(struct place *p, struct place_name *n)
{
    enum store_mark_state state;
    const int rc = read_state(p, n, &state);

    n->what = PLACE_LEAVE;
    if (rc == 0 && state == STORE_MARK_DONE) {
        p->already += n->fill.increments;
    } else if (rc == 0 && state == STORE_MARK_AHEAD) {
        p->passed += n->fill.increments;
        if (p->ahead)
            p->ahead(n->fill.name, n->fill.size);
        p->names_ahead++;
    } else {
        p->wanted += n->fill.increments;
        n->what = is_waiting(p, n) ? PLACE_LEAVE : PLACE_WRITE;
    }
}

/* ---- one fill ------------------------------------------------------------------ */

int
place_take(struct place *p, const struct message *m, uint64_t received_ms)
{
    struct place_name *n;

    if (m->increment == 0)
        return 0; /* it changes nothing and makes no key */
    n = find_name(p, m);
    if (n)
        p->last = n;
    if (p->file.fd >= 0)
        return n && n->what == PLACE_WRITE
                   ? waiting_record(&p->in->waiting, m, received_ms)
                   : 0;
    if (!n)
        return is_left_out(p, m) ? 0 : add_name(p, m);
    n->fill.increments++;
    return 0;
}

/* Begins a file for what the keyspaces lack, if that is anything. */
static int
begin_file(struct place *p, struct archive_header h)
{
    struct archive_fill_name *names = calloc(p->count + 1, sizeof *names);
    int rc = names ? 0 : -ENOMEM;

    h.count = h.names = 0;
    for (size_t i = 0; rc == 0 && i < p->count; i++)
        if (p->list[i]->what == PLACE_WRITE) {
            h.count += p->list[i]->fill.increments;
            names[h.names++] = p->list[i]->fill;
        }
    if (rc == 0 && h.count > 0) {
        rc = waiting_begin(&p->in->waiting, &p->file, true);
        if (rc == 0)
            rc = waiting_member(&p->in->waiting, &p->file, &h, names);
    }
    free(names);
    return rc;
}

/* Finds what each keyspace lacks. */
static int
decide(struct place *p)
{
    const uint64_t wanted = p->wanted;

    p->last = NULL;
    for (size_t i = 0; i < p->count; i++)
        decide_name(p, p->list[i]);
    if (p->wanted == wanted)
        return 0;
    if (array_grow(&p->fills, &p->fill_capacity, p->fill_count + 1,
                   sizeof *p->fills) < 0)
        return -ENOMEM;
    p->fills[p->fill_count++] = p->fill;
    return 0;
}

/* Ends the file, which is durable then, its name included. */
static int
end_file(struct place *p, int rc)
{
    struct waiting *w = &p->in->waiting;

    if (rc == 0)
        rc = waiting_member_end(w, &p->file);
    if (rc == 0)
        rc = waiting_end(w, &p->file);
    else
        waiting_abort(w, &p->file);
    p->file.fd = -1;
    return rc;
}

int
place_fill(struct place *p, const struct archive_header *h,
           int (*read)(void *ctx, struct place *p), void *ctx)
{
    int rc;

    forget_names(p);
    p->file.fd = -1;
    p->fill = LOG_FILL_OF(h);
    rc = read(ctx, p);
    p->unread = rc < 0;
    if (rc == 0)
        rc = decide(p);
    if (rc == 0 && !p->dry_run)
        rc = begin_file(p, *h);
    if (rc == 0 && p->file.fd >= 0)
        rc = read(ctx, p);
    return p->file.fd >= 0 ? end_file(p, rc) : rc;
}

/* ---- an archived log ------------------------------------------------------------ */

struct place_archive {
    const struct archived *log;
    void (*seen)(void *ctx, int records);
    void *ctx;
};

static int
read_archive(void *ctx, struct place *p)
{
    const struct place_archive *a = ctx;
    const struct archive_record *records;
    struct archive_reader *from;
    int fd, count, rc;

    rc = archived_open(a->log, &from, &fd);
    if (rc < 0)
        return rc;
    while (rc == 0 && (count = archive_reader_next(from, &records)) != 0) {
        rc = count < 0 ? count : 0;
        for (int i = 0; rc == 0 && i < count; i++)
            rc = place_take(p, &records[i].m, records[i].received_ms);
        if (a->seen && p->file.fd < 0)
            a->seen(a->ctx, count);
    }
    archived_close(from, fd);
    return rc;
}

int
place_archived(struct place *p, const struct archived *log,
               void (*seen)(void *ctx, int records), void *ctx)
{
    struct place_archive a = {.log = log, .seen = seen, .ctx = ctx};

    p->unread = log->error < 0 || log->missing;
    if (p->unread)
        return log->missing ? -ENOENT : log->error;
    return place_fill(p, &log->header, read_archive, &a);
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
    struct waiting_sum sum;
    int rc;

    qsort(p->fills, p->fill_count, sizeof *p->fills, log_fill_compare);
    rc = unmerged_list(w);
    for (uint32_t i = 0; rc == 0 && i < w->name_count; i++) {
        size_t size;
        const uint8_t *name = waiting_name(w, i, &size);
        const struct message m = {.keyspace = name,
                                  .keyspace_size = (uint16_t)size};

        if (is_left_out(p, &m))
            continue;
        waiting_sum(p->in->store, w, i, is_wanted, p, &sum);
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
    return rc < 0 ? rc : count_waiting(p);
}
