/* worker/aside.c - see aside.h. */
#include "worker/aside.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/name.h"
#include "worker/fate.h"

#define TRIES_MAX 16 /* of one file while others merge it too */

struct listing {
    struct dirent **files;
    int count;
};

static int
by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int
is_held(const struct dirent *entry)
{
    struct store_mark mark;

    return held_parse_name(entry->d_name, &mark);
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
        const int order = strcmp(l->files[middle]->d_name, file);

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

    rc = held_set_aside(a->held_fd, file, to, sizeof to);
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
first_above(const struct held *h, const struct store_mark_info *info)
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
put_in(struct aside *a, const struct held *h)
{
    struct store_applied applied = {0};
    struct store_mark_info info;
    size_t from;
    int rc;

    rc = store_marks(a->store, h->name, h->name_size, &h->mark, 1, &info);
    if (rc < 0)
        return rc;
    switch (info.state) {
    case STORE_MARK_DONE:
        return store_fence(a->store, h->name, h->name_size);
    case STORE_MARK_AHEAD:
        return -EOVERFLOW;
    case STORE_MARK_NONE:
    case STORE_MARK_OTHER:
    case STORE_MARK_PARTIAL:
        break;
    }
    from = first_above(h, &info);
    rc = store_apply(a->store, h->name, h->name_size, &h->mark, &info, 1,
                     h->deltas + from, h->count - from, &applied);
    return rc;
}

/* 0: merged, or gone; else why it stays. */
static int
merge_file(struct aside *a, const char *file, struct held *h)
{
    unsigned tries;
    int rc = -ESTALE;

    for (tries = 0; tries < TRIES_MAX && rc == -ESTALE; tries++)
        rc = put_in(a, h);
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
    rc = held_remove(a->held_fd, file);
    if (rc == 0)
        a->stats.merged++;
    return rc;
}

static int
try_file(struct aside *a, const char *file)
{
    static struct diag_repeat repeat, unread;
    char text[NAME_TEXT_SIZE];
    struct held h;
    int rc;

    rc = held_get(a->held_fd, file, &h);
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
    rc = merge_file(a, file, &h);
    if (rc < 0) {
        (void)name_escape(h.name, h.name_size, text); /* its length: unused */
        diag_repeating(&repeat, DIAG_WARNING,
                       "held records stay: keyspace=%s records=%zu: %s", text,
                       h.count, diag_text(rc));
        if (a->stays)
            a->stays(a->ctx, file, &h);
    }
    held_free(&h);
    return rc;
}

/* ---- all files --------------------------------------------------------- */

/* True when both are of one keyspace and log: all but the epoch is equal. */
static bool
same_log(const char *a, const char *b)
{
    const size_t size = strlen(a);

    return size == strlen(b) && memcmp(a, b, size - 16) == 0;
}

int
aside_merge(struct aside *a)
{
    struct listing before, now;
    const char *stuck = NULL;
    struct store_mark mark;
    int i, rc;

    rc = list(a->held_fd, &before);
    if (rc < 0)
        return rc;
    /* One reading of a directory that changes may show a later epoch and not
     * the earlier one; a second reading then shows the earlier one too.  So
     * only what both show is merged. */
    rc = before.count > 0 ? list(a->held_fd, &now) : -ENOENT;
    for (i = 0; rc == 0 && i < now.count; i++) {
        const char *file = now.files[i]->d_name;

        if (a->stop && a->stop(a->stop_ctx))
            break;
        if (stuck && same_log(stuck, file))
            continue;
        if (!held_parse_name(file, &mark))
            continue;
        if (a->wanted && !a->wanted(a->ctx, &mark))
            continue;
        if (!listed(&before, file)) {
            stuck = file;
            if (a->stays)
                a->stays(a->ctx, file, NULL);
        } else if (try_file(a, file) < 0) {
            stuck = file;
        }
    }
    if (rc == 0)
        list_free(&now);
    list_free(&before);
    return rc == -ENOENT ? 0 : rc;
}
