/* common/log/waiting_write.c - see waiting.h: waiting_add() and waiting_end()
 * make a file, waiting_copy() copies all.
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
#include "common/log/mark.h"

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

/* ---- a part of a fill ------------------------------------------------------ */

static int
count_record(void *ctx, uint32_t number, const struct message *m,
             const struct slot_stamp *stamp)
{
    struct name_table *names = ctx;
    uint32_t name;
    int rc;

    (void)number;
    (void)stamp;
    if (mark_is(m) || m->increment == 0)
        return 0; /* it changes nothing and makes no key */
    rc = name_table_put(names, m->keyspace, m->keyspace_size, &name);
    if (rc == 0)
        names->entries[name].note++;
    return rc;
}

int
waiting_count_records(const struct waiting_source *from,
                      struct name_table *names)
{
    return from->read(from->ctx, count_record, names);
}

/* A part of a fill that is written. */
struct part {
    struct archive_writer *writer;
    const struct name_table *names;
};

static int
write_record(void *ctx, uint32_t number, const struct message *m,
             const struct slot_stamp *stamp)
{
    const struct part *p = ctx;
    uint32_t name;

    (void)number;
    if (m->increment == 0)
        return 0;
    name = name_table_find(p->names, m->keyspace, m->keyspace_size);
    return name != NAME_TABLE_NONE && p->names->entries[name].note > 0
               ? archive_writer_add(p->writer, m, stamp->received_ms)
               : 0;
}

/* Begins a member with the names that are noted, if there are any, and the file
 * if need be. */
static int
begin_member(struct waiting *w, struct waiting_new *n, struct archive_header h,
             const struct name_table *t)
{
    struct archive_fill_name *names = calloc(t->count + 1, sizeof *names);
    int rc = names ? 0 : -ENOMEM;

    h.count = h.names = 0;
    for (size_t i = 0; rc == 0 && i < t->count; i++) {
        const struct name_entry *e = &t->entries[i];

        if (e->note == 0)
            continue;
        h.count += e->note;
        names[h.names++] =
            (struct archive_fill_name){t->bytes + e->at, e->size, e->note};
    }
    if (rc == 0 && h.names > 0 && n->fd < 0)
        rc = waiting_begin(w, n, n->placed);
    if (rc == 0 && h.names > 0) {
        if (h.first_ms < n->first_ms)
            n->first_ms = h.first_ms;
        rc = archive_writer_begin(w->writer, &h, names, n->fd, n->at);
    }
    free(names);
    return rc < 0 ? rc : h.names > 0;
}

int
waiting_add(struct waiting *w, struct waiting_new *n,
            const struct archive_header *h, const struct name_table *names,
            const struct waiting_source *from)
{
    struct part p = {.names = names};
    int rc;

    rc = begin_member(w, n, *h, names);
    if (rc <= 0)
        return rc;
    p.writer = w->writer;
    rc = from->read(from->ctx, write_record, &p);
    if (rc == 0)
        rc = archive_writer_end(w->writer, &n->at);
    return rc < 0 ? rc : 1;
}

/* ---- the end of a file ----------------------------------------------------- */

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
    const int rc = waiting_open_folder(w);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    return fsync(w->dir_fd) < 0 ? -errno : 0;
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
