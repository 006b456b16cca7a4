/* common/log/waiting_replace.c - see waiting.h: files are joined, written again
 * without a keyspace, or without what is damaged in them (R6). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/waiting_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"

/* ---- the folder's lock ----------------------------------------------------- */

int
waiting_lock(struct waiting *w, int how)
{
    int rc;

    rc = waiting_list(w); /* which opens it */
    if (rc < 0 || w->dir_fd < 0)
        return rc < 0 ? rc : -ENOENT;
    if (flock(w->dir_fd, how | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    w->locked = true;
    rc = waiting_list(w);
    if (rc < 0) {
        w->locked = false;
        (void)flock(w->dir_fd, LOCK_UN); /* cannot fail */
    }
    return rc;
}

void
waiting_unlock(struct waiting *w)
{
    w->locked = false;
    (void)flock(w->dir_fd, LOCK_UN); /* cannot fail */
}

/* ---- one file -------------------------------------------------------------- */

/* What a member is, and the names that stay. */
struct left_out {
    const uint8_t *name; /* size 0: no name is left out */
    size_t size;
    bool (*leaves)(void *ctx, const struct waiting_fill *f); /* NULL: always */
    void *ctx;
    bool found;
    uint64_t increments; /* of the others */
    struct archive_header header;
};

static int
see_fill_name(void *ctx, const struct archive_fill_name *n)
{
    struct left_out *l = ctx;

    if (l->size > 0 && bytes_equal(n->name, n->size, l->name, l->size))
        l->found = true;
    else
        l->increments += n->increments;
    return 0;
}

/* Writes a member without the records of a name; its names are then those of
 * its records again. */
static int
filter_member(struct waiting *w, struct waiting_new *n, struct left_out *l,
              struct archive_reader *r)
{
    const struct archive_record *records;
    int count, rc;

    l->header.count = l->increments;
    l->header.names = 0;
    rc = waiting_member(w, n, &l->header, NULL);
    while (rc == 0 && (count = archive_reader_next(r, &records)) != 0) {
        rc = count < 0 ? count : 0;
        for (int i = 0; rc == 0 && i < count; i++) {
            const struct message *m = &records[i].m;

            if (m->increment != 0 &&
                !bytes_equal(m->keyspace, m->keyspace_size, l->name, l->size))
                rc = waiting_record(w, m, records[i].received_ms);
        }
    }
    return rc == 0 ? waiting_member_end(w, n) : rc;
}

/* Whether the name is left out of a fill that has it. */
static bool
leaves_fill(const struct left_out *l)
{
    struct waiting_fill f = {.epoch = l->header.epoch,
                             .first_ms = l->header.first_ms};

    memcpy(f.uuid, l->header.uuid, sizeof f.uuid);
    return l->found && (!l->leaves || l->leaves(l->ctx, &f));
}

/* Adds one member to the new file, if anything of it stays.  1: it is damaged. */
static int
rewrite_member(struct waiting *w, struct waiting_new *n, int fd,
               const struct archive_member *m, struct left_out *l)
{
    struct archive_reader *r;
    int rc;

    l->found = false;
    l->increments = 0;
    rc = archive_read_names(fd, m, &l->header, see_fill_name, l);
    if (rc == 0)
        rc = archive_reader_open(&r, fd, m);
    if (rc < 0)
        return rc == -EBADMSG || rc == -EIO ? 1 : rc;
    if (!leaves_fill(l)) {
        if (l->header.first_ms < n->first_ms)
            n->first_ms = l->header.first_ms;
        rc = waiting_copy_bytes(fd, m->at, m->size, n->fd, &n->at);
    } else if (l->increments > 0) {
        rc = filter_member(w, n, l, r);
    }
    archive_reader_close(r);
    return rc;
}

/* Adds the members of a claimed file to the new one; *lost: some are damaged. */
static int
rewrite_members(struct waiting *w, struct waiting_new *n,
                const struct waiting_file *f, struct left_out *l, bool *lost)
{
    struct archive_member m = {.at = 0};
    int rc;

    while ((rc = archive_member_find(f->lock_fd, f->size, &m)) != -ENOENT) {
        if (rc == 0)
            rc = rewrite_member(w, n, f->lock_fd, &m, l);
        else if (rc == -EBADMSG || rc == -EIO)
            rc = 1;
        if (rc < 0)
            return rc;
        *lost = *lost || rc > 0;
        if (rc == 0)
            m.at += m.size;
        else if (m.at >= f->size ||
                 archive_member_seek(f->lock_fd, m.at + 1, f->size, &m.at) <
                     0 ||
                 m.at == f->size)
            break;
    }
    return 0;
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
    struct waiting_new n;
    int rc;

    rc = waiting_begin(w, &n, files[0]->placed);
    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = waiting_claim(w, files[i]);
        if (rc == 0) {
            if (n.since_ms == 0 || files[i]->since_ms < n.since_ms)
                n.since_ms = files[i]->since_ms;
            rc = rewrite_members(w, &n, files[i], l, &lost[i]);
        } else if (rc == -ENOENT || (rc == -EAGAIN && count > 1)) {
            rc = 0;
        }
    }
    if (rc == 0 && n.at > 0)
        rc = waiting_end(w, &n);
    else
        waiting_abort(w, &n);
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && files[i]->lock_fd >= 0)
            rc = retire_file(w, files[i], lost[i]);
        waiting_let_go(w, files[i]);
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
    struct left_out none = {.size = 0};
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
               const struct left_out *l)
{
    const uint32_t name = waiting_find(w, l->name, l->size);
    const struct waiting_part *p;
    uint64_t found = 0;
    size_t count = 0;

    p = name == WAITING_NONE ? NULL : waiting_parts(w, name, &count);
    for (size_t i = 0; i < count; i++) {
        const struct waiting_fill *fill = &w->index.fills[p[i].fill];

        found += fill->file == f && (!l->leaves || l->leaves(l->ctx, fill));
    }
    return found;
}

int
waiting_leave_out(struct waiting *w, const uint8_t *name, size_t size,
                  bool (*leaves)(void *ctx, const struct waiting_fill *f),
                  void *ctx, uint64_t *fills)
{
    struct left_out l = {
        .name = name, .size = size, .leaves = leaves, .ctx = ctx};
    int rc;

    assert(w->placed);
    rc = waiting_lock(w, LOCK_EX);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    for (size_t i = 0; rc == 0 && i < w->file_count; i++) {
        const uint64_t count = count_left_out(w, w->files[i], &l);

        if (count == 0)
            continue;
        rc = replace_files(w, &w->files[i], 1, &l);
        *fills += rc == 0 ? count : 0;
    }
    if (rc == 0)
        rc = waiting_sync(w);
    waiting_unlock(w);
    return rc;
}

int
waiting_repair(struct waiting *w)
{
    struct left_out none = {.size = 0};
    int rc;

    rc = waiting_lock(w, LOCK_EX);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    for (size_t i = 0; rc == 0 && i < w->file_count; i++)
        if (w->files[i]->damaged)
            rc = replace_files(w, &w->files[i], 1, &none);
    if (rc == 0)
        rc = waiting_sync(w);
    waiting_unlock(w);
    return rc;
}
