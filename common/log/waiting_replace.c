/* common/log/waiting_replace.c - see waiting.h: files are joined, written again
 * without a keyspace, or without what is damaged in them (R6). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/waiting_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/base/files.h"

/* ---- the folder's lock ----------------------------------------------------- */

void
waiting_unlock(struct waiting *w)
{
    w->locked = false;
    (void)flock(w->dir_fd, LOCK_UN); /* giving it up cannot fail */
}

int
waiting_lock(struct waiting *w, int how)
{
    int rc;

    rc = waiting_open_folder(w);
    if (rc < 0)
        return rc;
    if (flock(w->dir_fd, how | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    w->locked = true;
    rc = waiting_list(w);
    if (rc < 0)
        waiting_unlock(w);
    return rc;
}

/* ---- one file -------------------------------------------------------------- */

struct left_out {
    struct waiting_left_out *what; /* size 0: no name is left out */

    /* While files are written again. */
    struct waiting *w;
    struct waiting_new new;
    struct waiting_fill *next; /* of the file: at the member, or behind it */
    int error;                 /* of writing */

    /* State while a member is copied. */
    struct archive_header header;
    bool found;
};

static int
see_fill_name(void *ctx, const struct archive_fill_name *n)
{
    struct left_out *l = ctx;

    l->found = l->found ||
               (l->what->size > 0 &&
                bytes_equal(n->name, n->size, l->what->name, l->what->size));
    return 0;
}

struct member_source {
    int fd;
    const struct archive_member *member;
};

static int
read_member(void *ctx, slot_visit *visit, void *visit_ctx)
{
    const struct member_source *s = ctx;

    return archive_each(s->fd, s->member, visit, visit_ctx);
}

/* Writes a member without the records of a name, if anything of it stays. */
static int
filter_member(struct left_out *l, int fd, const struct archive_member *m)
{
    struct member_source of = {fd, m};
    const struct waiting_source from = {read_member, &of};
    struct name_table names;
    uint32_t name;
    int rc;

    rc = name_table_init(&names);
    if (rc == 0)
        rc = waiting_count_records(&from, &names);
    name = name_table_find(&names, l->what->name, l->what->size);
    if (name != NAME_TABLE_NONE)
        names.entries[name].note = 0;
    if (rc == 0)
        rc = waiting_add(l->w, &l->new, &l->header, &names, &from);
    name_table_clear(&names);
    return rc < 0 ? rc : 0;
}

/* Whether two members have the same bytes. */
static bool
is_same_member(const struct waiting_fill *a, const struct waiting_fill *b)
{
    const size_t size = (size_t)a->member.size;
    uint8_t *bytes;
    bool same;

    if (b->member.size != size)
        return false;
    bytes = malloc(2 * size);
    same =
        bytes &&
        read_at(a->file->lock_fd, bytes, size, a->member.at) == (ssize_t)size &&
        read_at(b->file->lock_fd, bytes + size, size, b->member.at) ==
            (ssize_t)size &&
        memcmp(bytes, bytes + size, size) == 0;
    free(bytes);
    return same;
}

/* Whether a member is in the new file already.  Files and their members are
 * copied in the order that the index has those of a fill in. */
static bool
is_copied(const struct waiting *w, const struct waiting_fill *f)
{
    const struct waiting_fill *e;

    for (uint32_t i = f->number; i-- > 0;) {
        e = w->index.fills[i];
        if (log_fill_compare(&e->id, &f->id) != 0)
            return false;
        if (e->copied && is_same_member(e, f))
            return true;
    }
    return false;
}

/* Adds a member to the new file, if anything of it stays. */
static int
write_member(struct left_out *l, int fd, const struct archive_member *m)
{
    const struct log_fill id = LOG_FILL_OF(&l->header);
    struct waiting_fill *fill;
    int64_t copied;

    if (l->found && (!l->what->leaves || l->what->leaves(l->what->ctx, &id)))
        return filter_member(l, fd, m);
    while (l->next && l->next->member.at < m->at)
        l->next = l->next->next;
    fill = l->next && l->next->member.at == m->at ? l->next : NULL;
    if (fill && is_copied(l->w, fill))
        return 0;
    if (l->header.first_ms < l->new.first_ms)
        l->new.first_ms = l->header.first_ms;
    copied = copy_at(fd, m->at, m->size, l->new.fd, l->new.at);
    l->new.at += m->size;
    if (fill)
        fill->copied = true;
    return copied < 0 ? (int)copied : copied < (int64_t)m->size ? -EIO : 0;
}

/* For archive_each_member(), which takes its errors for damage. */
static int
rewrite_member(void *ctx, int fd, const struct archive_member *m)
{
    struct left_out *l = ctx;
    int rc;

    l->found = false;
    rc = archive_read_names(fd, m, &l->header, see_fill_name, l);
    if (rc == 0)
        rc = archive_each(fd, m, NULL, NULL);
    if (rc < 0)
        return rc;
    l->error = write_member(l, fd, m);
    return l->error != 0;
}

/* Adds a file to the new one.  1: some of it is damaged */
static int
rewrite_file(struct left_out *l, struct waiting_file *f)
{
    bool damaged = false;
    int rc;

    rc = waiting_claim(l->w, f);
    if (rc < 0)
        return rc;
    if (l->new.since_ms == 0 || f->since_ms < l->new.since_ms)
        l->new.since_ms = f->since_ms;
    l->next = f->first;
    rc = archive_each_member(f->lock_fd, f->size, rewrite_member, l, &damaged);
    return rc < 0 ? rc : rc > 0 ? l->error : damaged;
}

/* Removes the old name of a file that was replaced, or, if it was damaged,
 * keeps it as bad-. */
static int
retire_file(struct waiting *w, struct waiting_file *f, bool lost)
{
    char bad[WAITING_NAME_SIZE + sizeof WAITING_BAD];
    int rc = 0;

    if (lost) {
        (void)snprintf(bad, sizeof bad, WAITING_BAD "%s", f->name);
        if (renameat(w->dir_fd, f->name, w->dir_fd, bad) < 0)
            rc = -errno;
        else
            diag(DIAG_ERROR,
                 "log/" WAITING_FOLDER "/%s is damaged: what is good in it was "
                 "copied, the rest is lost; it is kept as %s",
                 f->name, bad);
    } else if (unlinkat(w->dir_fd, f->name, 0) < 0) {
        rc = -errno;
    }
    return rc == -ENOENT ? 0 : rc;
}

/* Replaces files, with the folder taken: by one without a name, and without what
 * is damaged in them.  One that is in use is passed over, or, if it is the only
 * one, -EAGAIN. */
static int
replace_files(struct waiting *w, struct waiting_file **files, size_t count,
              struct left_out *l)
{
    bool lost[WAITING_JOIN_COUNT] = {false};
    int rc;

    l->w = w;
    for (size_t i = 0; i < w->index.fill_count; i++)
        w->index.fills[i]->copied = false;
    rc = waiting_begin(w, &l->new, files[0]->placed);
    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = rewrite_file(l, files[i]);
        lost[i] = rc > 0;
        if (rc > 0 || rc == -ENOENT || (rc == -EAGAIN && count > 1))
            rc = 0;
    }
    if (rc == 0 && l->new.at > 0)
        rc = waiting_end(w, &l->new);
    else
        waiting_abort(w, &l->new);
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && files[i]->lock_fd >= 0)
            rc = retire_file(w, files[i], lost[i]);
        waiting_let_go(files[i]);
    }
    return rc;
}

/* ---- replacing ------------------------------------------------------------ */

/* The first small files; returns how many, up to one more than are joined. */
static size_t
find_small(const struct waiting *w,
           struct waiting_file *small[WAITING_JOIN_COUNT + 1])
{
    size_t count = 0;

    for (size_t i = 0; i < w->file_count && count <= WAITING_JOIN_COUNT; i++) {
        struct waiting_file *f = w->files[i];

        if (!f->placed && !f->damaged && f->size < WAITING_JOIN_SIZE)
            small[count++] = f;
    }
    return count;
}

int
waiting_join(struct waiting *w)
{
    struct waiting_file *small[WAITING_JOIN_COUNT + 1];
    struct left_out none = {.what = &(struct waiting_left_out){.size = 0}};
    int rc;

    if (find_small(w, small) <= WAITING_JOIN_COUNT)
        return 0;
    rc = waiting_lock(w, LOCK_EX);
    if (rc < 0)
        return rc == -ENOENT || rc == -EAGAIN ? 0 : rc;
    if (find_small(w, small) > WAITING_JOIN_COUNT)
        rc = replace_files(w, small, WAITING_JOIN_COUNT, &none);
    if (rc == 0)
        rc = waiting_sync(w);
    waiting_unlock(w);
    return rc;
}

/* How many fills of a file the name is to be left out of. */
static uint64_t
count_left_out(const struct waiting *w, const struct waiting_file *f,
               const struct waiting_left_out *what)
{
    const struct waiting_part *p;
    uint64_t found = 0;
    size_t count;

    p = waiting_parts(w, waiting_find(w, what->name, what->size), &count);
    for (size_t i = 0; i < count; i++) {
        const struct waiting_fill *fill = p[i].fill;

        found += fill->file == f &&
                 (!what->leaves || what->leaves(what->ctx, &fill->id));
    }
    return found;
}

/* Replaces each file that has the name, or, without a name, each that is
 * damaged; counts the fills that the name was left out of. */
static int
replace_each(struct waiting *w, struct waiting_left_out *what)
{
    struct left_out l = {.what = what};
    int rc;

    rc = waiting_lock(w, LOCK_EX);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    for (size_t i = 0; rc == 0 && i < w->file_count; i++) {
        const uint64_t count = what->size > 0
                                   ? count_left_out(w, w->files[i], what)
                                   : w->files[i]->damaged;

        if (count == 0)
            continue;
        rc = replace_files(w, &w->files[i], 1, &l);
        what->fills += rc == 0 ? count : 0;
    }
    if (rc == 0)
        rc = waiting_sync(w);
    waiting_unlock(w);
    return rc;
}

int
waiting_leave_out(struct waiting *w, struct waiting_left_out *what)
{
    assert(w->placed && what->size > 0);
    return replace_each(w, what);
}

int
waiting_repair(struct waiting *w)
{
    return replace_each(w, &(struct waiting_left_out){.size = 0});
}
