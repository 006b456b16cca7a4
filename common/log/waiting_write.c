/* common/log/waiting_write.c - see waiting.h: waiting_end() makes a file,
 * waiting_copy() copies all.
 *
 * A file is flocked as long as it has its temporary name: who finds the flock
 * free knows that its maker died. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/waiting_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/log/log_owner.h"

/* ---- a new file ----------------------------------------------------------- */

/* Under a name that no other file has. */
static int
make_file(const struct waiting *w, struct waiting_new *n)
{
    uint32_t bits;

    do {
        if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
            return -EIO;
        (void)snprintf(n->temporary, sizeof n->temporary, "%%t%08" PRIx32,
                       bits);
        n->fd = log_owner_make_file(w->dir_fd, n->temporary);
    } while (n->fd == -ESTALE || n->fd == -EEXIST);
    return n->fd < 0 ? n->fd : 0;
}

int
waiting_begin(struct waiting *w, struct waiting_new *n, bool placed)
{
    int rc = 0;

    assert(w->writable);
    *n = (struct waiting_new){
        .fd = -1, .placed = placed, .first_ms = UINT64_MAX};
    if (w->dir_fd < 0) {
        w->dir_fd = folder_make(w->log_fd, WAITING_FOLDER);
        if (w->dir_fd < 0)
            return w->dir_fd;
    }
    if (!w->writer)
        rc = archive_writer_new(&w->writer);
    return rc < 0 ? rc : make_file(w, n);
}

int
waiting_member(struct waiting *w, struct waiting_new *n,
               const struct archive_header *h,
               const struct archive_fill_name *names)
{
    if (h->first_ms < n->first_ms)
        n->first_ms = h->first_ms;
    return archive_writer_begin(w->writer, h, names, n->fd, n->at);
}

int
waiting_record(struct waiting *w, const struct message *m, uint64_t received_ms)
{
    return archive_writer_add(w->writer, m, received_ms);
}

int
waiting_member_end(struct waiting *w, struct waiting_new *n)
{
    return archive_writer_end(w->writer, &n->at);
}

static void
close_new(struct waiting_new *n)
{
    (void)close(n->fd); /* synced, or given up */
    n->fd = -1;
}

void
waiting_abort(struct waiting *w, struct waiting_new *n)
{
    (void)unlinkat(w->dir_fd, n->temporary, 0); /* else who lists does it */
    close_new(n);
}

/* Since when what is in it waits. */
static void
set_since(const struct waiting_new *n)
{
    const struct timespec t = {.tv_sec = (time_t)(n->since_ms / 1000),
                               .tv_nsec = (long)(n->since_ms % 1000) * 1000000};

    if (n->since_ms > 0)
        (void)futimens(n->fd,
                       (const struct timespec[2]){t, t}); /* shown only */
}

static int
publish_file(struct waiting *w, struct waiting_new *n)
{
    set_since(n);
    if (fsync(n->fd) < 0)
        return -errno;
    (void)snprintf(n->name, sizeof n->name, "%s-%013" PRIu64 "-%s.gz",
                   n->placed ? "placed" : "held", n->first_ms,
                   n->temporary + 2);
    /* -EEXIST: 1 in 2^32, and the caller comes again. */
    if (renameat2(w->dir_fd, n->temporary, w->dir_fd, n->name,
                  RENAME_NOREPLACE) < 0)
        return -errno;
    return waiting_sync(w);
}

int
waiting_end(struct waiting *w, struct waiting_new *n)
{
    const uint64_t size =
        (n->at + WAITING_BLOCK - 1) / WAITING_BLOCK * WAITING_BLOCK;
    int rc;

    if (!n->placed && !w->locked && w->max > 0 && w->held_bytes + size > w->max)
        rc = -EDQUOT;
    else
        rc = publish_file(w, n);
    if (rc < 0)
        waiting_abort(w, n);
    else
        close_new(n);
    return rc;
}

int
waiting_sync(struct waiting *w)
{
    if (w->dir_fd < 0)
        w->dir_fd = folder_open(w->log_fd, WAITING_FOLDER);
    if (w->dir_fd == -ENOENT)
        return 0;
    return w->dir_fd < 0 ? w->dir_fd : fsync(w->dir_fd) < 0 ? -errno : 0;
}

/* ---- check and copy -------------------------------------------------------- */

static int
check_member(void *ctx, int fd, const struct archive_member *m)
{
    (void)ctx;
    return archive_each(fd, m, NULL, NULL);
}

static int
check_file(struct waiting *w, const struct waiting_file *f,
           void (*fault)(void *ctx, const char *text), void *ctx)
{
    const int fd = folder_open_file(w->dir_fd, f->name);
    bool damaged = false;
    char text[128];
    int rc;

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd; /* merged meanwhile */
    rc = archive_each_member(fd, f->size, check_member, NULL, &damaged);
    (void)close(fd);
    if (damaged) {
        (void)snprintf(text, sizeof text, "%s is damaged", f->name);
        fault(ctx, text);
    }
    return rc;
}

int
waiting_check(struct waiting *w, void (*fault)(void *ctx, const char *text),
              void *ctx)
{
    int rc;

    rc = waiting_list(w);
    for (size_t i = 0; rc == 0 && i < w->file_count; i++)
        rc = check_file(w, w->files[i], fault, ctx);
    return rc;
}

int
waiting_copy(struct waiting *w, int to_log_fd)
{
    int to, rc;

    rc = waiting_lock(w, LOCK_SH);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    to = folder_make(to_log_fd, WAITING_FOLDER);
    rc = to < 0 ? to : 0;
    for (size_t i = 0; rc == 0 && i < w->file_count; i++)
        rc = folder_copy_file(w->dir_fd, w->files[i]->name, to);
    waiting_unlock(w);
    if (rc == 0 && fsync(to) < 0)
        rc = -errno;
    if (to >= 0)
        (void)close(to); /* synced, or given up */
    return rc;
}
