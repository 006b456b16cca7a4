/* worker/aside.c - see aside.h. */
#include "worker/aside.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/name.h"
#include "worker/fate.h"
#include "worker/stuck.h"

#define TRIES_MAX  16     /* of one file while others merge it too */
#define TAIL       50     /* ,UUID,EPOCH in the name of a file */
#define SETTLED_MS 2000   /* an older change of data/keyspace is known of */
#define LOOK_MS    600000 /* files for many are tried that often anyway */

struct listing {
    struct dirent **files;
    int count;
};

/* One time through the directory. */
struct pass {
    struct listing before, now;
    struct stuck stuck; /* of the log that is looked at */
    bool leave_many;
    bool stopped;
    bool others; /* something for many stays, and not for want of room */
};

/* By log, then epoch. */
static int
compare(const char *a, const char *b)
{
    const int order = strcmp(a + strlen(a) - TAIL, b + strlen(b) - TAIL);

    return order != 0 ? order : strcmp(a, b);
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
    return compare((*a)->d_name, (*b)->d_name);
}

static int
is_held(const struct dirent *entry)
{
    struct store_mark mark;

    return heldfile_parse_name(entry->d_name, &mark);
}

static int
list(int held_fd, struct listing *l)
{
    l->files = NULL;
    l->count = scandirat(held_fd, ".", &l->files, is_held, by_name);
    return l->count < 0 ? -errno : 0;
}

static void
list_free(struct listing *l)
{
    int i;

    for (i = 0; i < l->count; i++)
        free(l->files[i]);
    free(l->files);
}

static bool
listed(const struct listing *l, const char *file)
{
    int low = 0, high = l->count;

    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = compare(l->files[middle]->d_name, file);

        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* ---- one file ---------------------------------------------------------- */

static void
set_aside(struct aside *a, const char *file, const char *why)
{
    char to[256];
    int rc;

    rc = heldfile_set_aside(a->held_fd, file, to, sizeof to);
    if (rc == -ENOENT)
        return; /* merged by another worker meanwhile */
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "set aside held=%s", file);
        return;
    }
    a->stats.damaged++;
    diag(DIAG_ERROR, "%s, kept as held/%s", why, to);
}

static int
exists(const struct aside *a, const char *file)
{
    struct stat st;

    return fstatat(a->held_fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Deltas above the last key that is in; they are sorted. */
static size_t
first_above(const struct heldfile *h, const struct lmdb_mark_info *info)
{
    size_t i;

    if (info->state != STORE_MARK_PARTIAL)
        return 0;
    for (i = 0; i < h->count; i++)
        if (fate_key_above(h->deltas[i].key, h->deltas[i].key_size,
                           info->last_key, info->last_key_size))
            break;
    return i;
}

/* Puts the records in, or finds them in.  -ESTALE: look again. */
static int
put_in_once(struct aside *a, const struct heldfile *h, bool *no_room)
{
    struct store_applied applied = {0};
    struct lmdb_mark_info info;
    size_t from;
    int rc;

    rc = lmdb_marks(a->store, h->name, h->name_size, &h->mark, 1, &info);
    if (rc < 0)
        return rc;
    switch (info.state) {
    case STORE_MARK_DONE:
        return lmdb_fence(a->store, h->name, h->name_size);
    case STORE_MARK_AHEAD:
        return -EOVERFLOW;
    case STORE_MARK_NONE:
    case STORE_MARK_OTHER:
    case STORE_MARK_PARTIAL:
        break;
    }
    from = first_above(h, &info);
    rc = lmdb_apply(a->store, h->name, h->name_size, &h->mark, &info, 1,
                    h->deltas + from, h->count - from, &applied);
    *no_room = applied.no_room;
    return rc;
}

static int
put_in(struct aside *a, const struct heldfile *h, bool *no_room)
{
    unsigned tries;
    int rc = -ESTALE;

    *no_room = false;
    for (tries = 0; tries < TRIES_MAX && rc == -ESTALE; tries++)
        rc = put_in_once(a, h, no_room);
    return rc;
}

/* 0: merged, or gone; else why it stays. */
static int
merge_file(struct aside *a, const char *file, struct heldfile *h)
{
    bool no_room;
    int rc;

    rc = put_in(a, h, &no_room);
    if (rc == -EOVERFLOW) {
        /* Whoever merges a later epoch removes this file first, so one that
         * is gone has been merged by another worker. */
        if (exists(a, file))
            set_aside(a, file,
                      "keyspace holds a later epoch than a held file: the "
                      "directory was restored from a backup");
        return 0;
    }
    if (rc < 0)
        return rc;
    rc = heldfile_remove(a->held_fd, file);
    if (rc == 0)
        a->stats.merged++;
    return rc;
}

static bool
is_wanted(const struct aside *a, const struct heldfile *h)
{
    return !a->wanted || !a->wanted_name ||
           a->wanted_name(a->ctx, h->name, h->name_size);
}

static int
try_file(struct aside *a, const char *file)
{
    static struct diag_repeat repeat, unread;
    char text[NAME_TEXT_SIZE];
    struct heldfile h;
    int rc;

    rc = heldfile_get(a->held_fd, file, &h);
    if (rc == -ENOENT)
        return 0;
    if (rc == -EBADMSG) {
        set_aside(a, file, "held file is damaged");
        return 0;
    }
    if (rc < 0) {
        diag_repeating(&unread, DIAG_ERROR, "read held=%s: %s", file,
                       diag_text(rc));
        if (a->stays)
            a->stays(a->ctx, file, NULL);
        return rc;
    }
    rc = is_wanted(a, &h) ? merge_file(a, file, &h) : 0;
    if (rc < 0) {
        (void)name_escape(h.name, h.name_size, text); /* its length: unused */
        diag_repeating(&repeat, DIAG_WARNING,
                       "held records stay: keyspace=%s records=%zu: %s", text,
                       h.count, diag_text(rc));
        if (a->stays)
            a->stays(a->ctx, file, &h);
    }
    heldfile_free(&h);
    return rc;
}

/* A file of one keyspace. */
static void
look_at_one(struct aside *a, struct pass *p, const char *file, bool known)
{
    const size_t size = strlen(file) - TAIL;
    const bool waits = !known || stuck_has(&p->stuck, file, size);

    a->busy = a->busy || !known;
    if (waits && a->stays)
        a->stays(a->ctx, file, NULL);
    if (waits || try_file(a, file) < 0)
        stuck_add(&p->stuck, file, size);
}

/* ---- files for many keyspaces ------------------------------------------ */

/* Keeps aside what is older than its keyspace: it is in no file then. */
static int
keep_aside(struct aside *a, const struct heldfile *h)
{
    char to[256];
    int rc;

    rc = heldfile_keep(a->held_fd, a->hash_key, h, to, sizeof to);
    if (rc < 0)
        return rc;
    a->stats.damaged++;
    diag(DIAG_ERROR,
         "keyspace holds a later epoch than a held file: the directory was "
         "restored from a backup, kept as held/%s",
         to);
    return 0;
}

/* An epoch of a keyspace that is past.  When a later one of the same file is
 * in, this one is, too; else the keyspace is newer than the file. */
static int
settle_past(struct aside *a, const struct heldfile_many *m,
            const struct heldfile *h)
{
    struct lmdb_mark_info info;
    struct store_mark mark;
    size_t from = 0;
    int rc;

    while (heldfile_many_later(m, h, &from, &mark)) {
        rc = lmdb_marks(a->store, h->name, h->name_size, &mark, 1, &info);
        if (rc < 0)
            return rc;
        if (info.state == STORE_MARK_DONE || info.state == STORE_MARK_PARTIAL)
            return lmdb_fence(a->store, h->name, h->name_size);
    }
    return keep_aside(a, h);
}

static bool
asked_to_stop(const struct aside *a)
{
    return a->stop && a->stop(a->stop_ctx);
}

/* The keyspace just found in the file.  0: its records are in, or not
 * wanted; -EAGAIN: it waits behind something; else why they stay. */
static int
try_keyspace(struct aside *a, struct pass *p, struct heldfile_many *m,
             struct heldfile *h)
{
    char name[NAME_FILE_SIZE];
    bool no_room = false;
    int rc = -EAGAIN;

    if (!is_wanted(a, h))
        return 0;
    name_to_file(h->name, h->name_size, a->hash_key, name);
    p->stopped = p->stopped || asked_to_stop(a);
    if (m->locked && !p->stopped && !stuck_has(&p->stuck, name, strlen(name))) {
        rc = heldfile_many_records(m, h);
        if (rc == 0)
            rc = put_in(a, h, &no_room);
        if (rc == -EOVERFLOW)
            rc = settle_past(a, m, h);
    }
    if (rc == 0) {
        m->drop[m->next - 1] = true;
        return 0;
    }
    p->others = p->others || !no_room;
    stuck_add(&p->stuck, name, strlen(name));
    return rc;
}

/* Tries all keyspaces.  Returns how many stay, of those wanted. */
static uint64_t
try_keyspaces(struct aside *a, struct pass *p, struct heldfile_many *m,
              const char *file, int *why)
{
    struct heldfile h;
    uint64_t stay = 0;
    int rc;

    while (heldfile_many_next(m, &h)) {
        rc = try_keyspace(a, p, m, &h);
        if (rc == 0)
            continue;
        stay++;
        if (rc != -EAGAIN)
            *why = rc;
        if (a->stays)
            a->stays(a->ctx, file, &h);
    }
    return stay;
}

/* What was merged could not be dropped: all of it stays. */
static void
all_stay(struct aside *a, struct pass *p, struct heldfile_many *m,
         const char *file)
{
    char name[NAME_FILE_SIZE];
    struct heldfile h;

    heldfile_many_rewind(m);
    while (heldfile_many_next(m, &h)) {
        name_to_file(h.name, h.name_size, a->hash_key, name);
        stuck_add(&p->stuck, name, strlen(name));
        if (a->stays)
            a->stays(a->ctx, file, &h);
    }
}

static void
merge_many(struct aside *a, struct pass *p, struct heldfile_many *m,
           const char *file)
{
    static struct diag_repeat repeat, drops;
    uint64_t stay;
    int why = 0, rc;

    a->busy = a->busy || !m->locked;
    stay = try_keyspaces(a, p, m, file, &why);
    if (why < 0)
        diag_repeating(&repeat, DIAG_WARNING,
                       "held records stay: held=%s keyspaces=%" PRIu64 ": %s",
                       file, stay, diag_text(why));
    rc = m->locked ? heldfile_many_drop(m, a->held_fd, file) : 0;
    if (rc == 0) {
        a->stats.merged += m->locked && m->dropped == m->keyspaces;
        return;
    }
    p->others = true;
    diag_repeating(&drops, DIAG_ERROR, "write held=%s: %s", file,
                   diag_text(rc));
    all_stay(a, p, m, file);
}

static int
set_many_aside(struct aside *a, const char *file)
{
    char to[256];
    int rc;

    rc = heldfile_many_set_aside(a->held_fd, file, to, sizeof to);
    if (rc < 0)
        return rc;
    a->stats.damaged++;
    diag(DIAG_ERROR, "held file is damaged, kept as held/%s", to);
    return 0;
}

/* Without a look inside, anything of this log may be in it. */
static void
look_at_many(struct aside *a, struct pass *p, const char *file, bool known)
{
    static struct diag_repeat unread;
    struct heldfile_many m;
    int rc = -EAGAIN;

    if (known && !p->stuck.all)
        rc = heldfile_many_get(a->held_fd, file, true, &m);
    if (rc == 0) {
        merge_many(a, p, &m, file);
        heldfile_many_free(&m);
        return;
    }
    if (rc == -EBADMSG)
        rc = set_many_aside(a, file);
    if (rc == 0 || rc == -ENOENT)
        return;
    if (rc != -EAGAIN && rc != -EBUSY)
        diag_repeating(&unread, DIAG_ERROR, "read held=%s: %s", file,
                       diag_text(rc));
    if (!p->stuck.all && (rc == -EAGAIN || rc == -EBUSY))
        a->busy = true;
    p->others = true;
    p->stuck.all = true;
    if (a->stays)
        a->stays(a->ctx, file, NULL);
}

/* ---- all files --------------------------------------------------------- */

static bool
same_log(const char *a, const char *b)
{
    return memcmp(a + strlen(a) - TAIL, b + strlen(b) - TAIL, TAIL - 16) == 0;
}

static void
look_at_file(struct aside *a, struct pass *p, const char *file)
{
    const bool known = listed(&p->before, file);
    struct store_mark mark;

    if (!heldfile_parse_name(file, &mark))
        return;
    if (a->wanted && !a->wanted(a->ctx, &mark))
        return;
    if (!heldfile_is_many(file))
        look_at_one(a, p, file, known);
    else if (!p->leave_many)
        look_at_many(a, p, file, known);
}

static void
look_at_files(struct aside *a, struct pass *p)
{
    int i;

    for (i = 0; i < p->now.count && !p->stopped; i++) {
        const char *file = p->now.files[i]->d_name;

        p->stopped = asked_to_stop(a);
        if (p->stopped)
            break;
        if (i > 0 && !same_log(p->now.files[i - 1]->d_name, file))
            stuck_clear(&p->stuck);
        look_at_file(a, p, file);
    }
}

static bool
same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Whether the last pass would only be repeated: no keyspace has come or gone
 * since. */
static bool
still_no_room(const struct aside *a, const struct stat *st)
{
    return a->no_room && clock_ms() - a->passed_ms < LOOK_MS &&
           same_time(&a->keyspace_mtime, &st->st_mtim) &&
           same_time(&a->keyspace_ctime, &st->st_ctim);
}

/* Times that are not long past may hide another change.  A store that has just
 * found no room goes on saying so for a moment, too. */
static bool
is_settled(const struct stat *st)
{
    return (uint64_t)st->st_mtim.tv_sec * 1000 + SETTLED_MS < clock_unix_ms() &&
           (uint64_t)st->st_ctim.tv_sec * 1000 + SETTLED_MS < clock_unix_ms();
}

/* A pass over everything.  What waits for room may be much, and is left alone
 * while there cannot be any. */
static void
pass_over_all(struct aside *a, struct pass *p)
{
    struct stat st;
    bool settled;

    if (fstat(a->keyspace_fd, &st) < 0) {
        look_at_files(a, p);
        return;
    }
    p->leave_many = still_no_room(a, &st);
    settled = is_settled(&st);
    look_at_files(a, p);
    if (p->leave_many)
        return;
    a->no_room = settled && !p->stopped && !p->others;
    a->keyspace_mtime = st.st_mtim;
    a->keyspace_ctime = st.st_ctim;
    a->passed_ms = clock_ms();
}

int
aside_merge(struct aside *a)
{
    struct pass p = {.leave_many = false};
    int rc;

    a->busy = false;
    rc = list(a->held_fd, &p.before);
    if (rc < 0)
        return rc;
    /* One reading of a directory that changes may show a later epoch and not
     * the earlier one; a second reading then shows the earlier one too.  So
     * only what both show is merged. */
    rc = p.before.count > 0 ? list(a->held_fd, &p.now) : -ENOENT;
    if (rc == 0) {
        stuck_init(&p.stuck, a->hash_key);
        if (a->wanted)
            look_at_files(a, &p);
        else
            pass_over_all(a, &p);
        stuck_free(&p.stuck);
        list_free(&p.now);
    }
    list_free(&p.before);
    return rc == -ENOENT ? 0 : rc;
}
