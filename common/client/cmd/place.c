/* common/client/cmd/place.c - see cmd_data.h: a fill is gone through twice, to
 * find its keyspaces and what they have of it, and to write what they lack. */
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

void
place_fini(struct place *p)
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
place_begin(struct place *p, const struct archive_header *h)
{
    place_fini(p);
    p->header = *h;
    p->fill = (struct waiting_fill){.epoch = h->epoch, .first_ms = h->first_ms};
    memcpy(p->fill.uuid, h->uuid, sizeof p->fill.uuid);
}

int
place_count(struct place *p, const struct message *m)
{
    struct place_name *n;

    if (m->increment == 0)
        return 0; /* it changes nothing and makes no key */
    n = find_name(p, m);
    if (!n)
        return add_name(p, m);
    p->last = n;
    n->fill.increments++;
    return 0;
}

/* ---- what each has ------------------------------------------------------------ */

struct other {
    const struct waiting_fill *fill;
    bool later; /* than it is what the keyspace has */
};

static int
see_mark(void *ctx, const struct store_fill *m,
         const struct store_mark_info *info)
{
    struct other *o = ctx;

    (void)info; /* how far it came does not matter */
    if (memcmp(m->uuid, o->fill->uuid, sizeof m->uuid) == 0)
        o->later = m->first_ms > o->fill->first_ms;
    return 0;
}

/* What a keyspace has of the fill.  Of two with one epoch, the later one has
 * the later first increment. */
static int
read_state(const struct place *p, const struct place_name *n,
           enum store_mark_state *state)
{
    struct store_fill mark = {.epoch = p->fill.epoch,
                              .first_ms = p->fill.first_ms};
    struct store_mark_info info = {.state = STORE_MARK_NONE};
    struct other o = {.fill = &p->fill};
    int rc = 0;

    memcpy(mark.uuid, p->fill.uuid, sizeof mark.uuid);
    if (p->in)
        rc = store_marks(p->in->store, n->fill.name, n->fill.size, &mark, 1,
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
    return p->in && waiting_same(&p->in->waiting,
                                 waiting_find(&p->in->waiting, n->fill.name,
                                              n->fill.size),
                                 p->fill.uuid, p->fill.epoch, p->fill.first_ms);
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

/* ---- writing ------------------------------------------------------------------- */

int
place_decide(struct place *p)
{
    struct archive_fill_name *names;
    size_t count = 0;
    int rc = 0;

    p->writes = false;
    p->last = NULL;
    p->header.count = p->header.names = 0;
    for (size_t i = 0; i < p->count; i++) {
        decide_name(p, p->list[i]);
        if (p->list[i]->what == PLACE_WRITE)
            p->header.count += p->list[i]->fill.increments;
    }
    if (p->header.count == 0 || p->dry_run)
        return 0;
    names = calloc(p->count, sizeof *names);
    if (!names)
        return -ENOMEM;
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i]->what == PLACE_WRITE)
            names[count++] = p->list[i]->fill;
    p->header.names = (uint32_t)count;
    rc = waiting_begin(&p->in->waiting, &p->file, true);
    if (rc == 0) {
        p->writes = true;
        rc = waiting_member(&p->in->waiting, &p->file, &p->header, names);
        if (rc < 0)
            place_abort(p);
    }
    free(names);
    return rc;
}

int
place_write(struct place *p, const struct message *m, uint64_t received_ms)
{
    struct place_name *n;

    if (!p->writes || m->increment == 0)
        return 0;
    n = find_name(p, m);
    p->last = n;
    return n && n->what == PLACE_WRITE
               ? waiting_record(&p->in->waiting, m, received_ms)
               : 0;
}

int
place_end(struct place *p)
{
    int rc;

    if (!p->writes)
        return 0;
    rc = waiting_member_end(&p->in->waiting, &p->file);
    if (rc < 0) {
        place_abort(p);
        return rc;
    }
    p->writes = false;
    return waiting_end(&p->in->waiting, &p->file);
}

void
place_abort(struct place *p)
{
    if (p->writes)
        waiting_abort(&p->in->waiting, &p->file);
    p->writes = false;
}

/* ---- merging --------------------------------------------------------------------- */

/* Until nothing can be merged.  While keyspace/ is older than log/, what was
 * placed alone (R11 of common/log/waiting.h). */
int
place_merge(const struct cmd_line *line, const struct store_session *in)
{
    const char *args[CMD_DAEMON_ARGS];
    char path[PATH_MAX];
    const pid_t parent = getpid();
    struct merge_note note;
    int status;
    pid_t pid;

    cmd_daemon_path("countd-worker", path);
    cmd_daemon_args(&line->sources, "countd-worker",
                    merge_note_read(&in->dir, &note) == 0 &&
                            merge_note_is_older(&note)
                        ? "--once=placed"
                        : "--once",
                    NULL, args);
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* cannot fail */
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

int
place_waiting(struct store_session *in, const struct cmd_name *keyspace,
              bool (*is_placed)(void *ctx, const struct waiting_fill *f),
              void *ctx, uint64_t *increments)
{
    struct waiting_sum sum;
    int rc;

    *increments = 0;
    rc = unmerged_list(&in->waiting);
    for (uint32_t i = 0; rc == 0 && i < in->waiting.name_count; i++) {
        size_t size;
        const uint8_t *name = waiting_name(&in->waiting, i, &size);

        if (keyspace && keyspace->size > 0 &&
            !bytes_equal(name, size, keyspace->bytes, keyspace->size))
            continue;
        waiting_sum(in->store, &in->waiting, i, is_placed, ctx, &sum);
        *increments += sum.increments;
    }
    return rc;
}
