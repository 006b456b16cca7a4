/* common/log/waiting.c - see waiting.h: waiting_list(), claims. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/waiting_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/base/folder.h"
#include "common/log/log_owner.h"

int
waiting_open(struct waiting *w, int log_fd, bool writable, bool placed,
             uint64_t max)
{
    *w = (struct waiting){.log_fd = log_fd,
                          .dir_fd = -1,
                          .writable = writable,
                          .placed = placed,
                          .max = max,
                          .oldest_ms = UINT64_MAX};
    return name_table_init(&w->names);
}

void
waiting_close(struct waiting *w)
{
    for (size_t i = 0; i < w->file_count; i++) {
        waiting_let_go(w->files[i]);
        free(w->files[i]);
    }
    free(w->files);
    while (w->index.fill_count > 0)
        free(w->index.fills[--w->index.fill_count]);
    free(w->index.fills);
    free(w->index.parts);
    name_table_clear(&w->names);
    archive_writer_free(w->writer);
    if (w->dir_fd >= 0)
        (void)close(w->dir_fd); /* holds no data */
}

/* ---- reading a file ------------------------------------------------------ */

static int
add_part(void *ctx, const struct archive_fill_name *n)
{
    struct waiting *w = ctx;
    struct waiting_index *x = &w->index;
    struct waiting_fill *fill = x->fills[x->fill_count];
    struct waiting_part *p;
    uint32_t name;
    int rc;

    rc = name_table_put(&w->names, n->name, n->size, &name);
    if (rc == 0)
        rc = array_grow(&x->parts, &x->part_capacity, x->part_count + 1,
                        sizeof *x->parts);
    if (rc < 0)
        return rc;
    assert(x->parts);
    p = x->part_count > 0 ? &x->parts[x->part_count - 1] : NULL;
    if (p && p->name == name && p->fill == fill)
        p->increments += n->increments;
    else
        x->parts[x->part_count++] = (struct waiting_part){
            .name = name, .fill = fill, .increments = n->increments};
    return 0;
}

/* Adds a member of the last file to the index, at its end. */
static int
add_member(void *ctx, int fd, const struct archive_member *m)
{
    struct waiting *w = ctx;
    struct waiting_index *x = &w->index;
    struct waiting_file *file = w->files[w->file_count - 1];
    const size_t parts = x->part_count;
    struct waiting_fill *fill;
    struct archive_header h;
    int rc;

    rc = array_grow(&x->fills, &x->fill_capacity, x->fill_count + 1,
                    sizeof(struct waiting_fill *));
    fill = rc == 0 ? malloc(sizeof *fill) : NULL;
    if (!fill)
        return -ENOMEM;
    x->fills[x->fill_count] = fill;
    rc = archive_read_names(fd, m, &h, add_part, w);
    if (rc != 0) {
        x->part_count = parts;
        free(fill);
        return rc;
    }
    *fill = (struct waiting_fill){.id = LOG_FILL_OF(&h),
                                  .file = file,
                                  .member = *m,
                                  .count = (uint32_t)h.count};
    if (file->last)
        file->last->next = fill;
    else
        file->first = fill;
    file->last = fill;
    x->fill_count++;
    return 0;
}

static int
read_file(struct waiting *w, struct waiting_file *f)
{
    const int fd = folder_open_file(w->dir_fd, f->name);
    struct stat st;
    int rc = 0;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0) {
        rc = -errno;
    } else {
        f->size = (uint64_t)st.st_size;
        f->since_ms = log_owner_mtime_ms(&st);
        if (!f->placed || w->placed)
            rc = archive_each_member(fd, f->size, add_member, w, &f->damaged);
    }
    (void)close(fd);
    if (rc == -EPROTONOSUPPORT)
        diag(DIAG_ERROR,
             "log/" WAITING_FOLDER "/%s was written by a newer version: "
             "nothing is merged without it",
             f->name);
    return rc;
}

/* ---- the folder ---------------------------------------------------------- */

static int
by_file_name(const void *a, const void *b)
{
    const struct waiting_file *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* What died while it was written. */
static void
remove_temporary(struct waiting *w, const char *name)
{
    const int fd = folder_open_file(w->dir_fd, name);

    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(w->dir_fd, name, 0); /* else the next one does it */
    (void)close(fd);
}

static int
add_file(struct waiting *w, const struct waiting_file *file)
{
    struct waiting_file *f;
    int rc;

    rc = array_grow(&w->files, &w->file_capacity, w->file_count + 1,
                    sizeof(struct waiting_file *));
    f = rc == 0 ? malloc(sizeof *f) : NULL;
    if (!f)
        return -ENOMEM;
    *f = *file;
    w->files[w->file_count++] = f;
    rc = read_file(w, f);
    if (rc == -ENOENT) { /* it was merged just now */
        f->listed = false;
        rc = 0;
    }
    return rc;
}

static int
see_name(void *ctx, int folder_fd, const char *name)
{
    struct waiting *w = ctx;
    const bool held = strncmp(name, "held-", 5) == 0;
    struct waiting_file file = {.placed = !held, .listed = true, .lock_fd = -1};
    struct waiting_file *key = &file, **known = NULL;

    (void)folder_fd;
    if (name[0] == '%' && w->writable)
        remove_temporary(w, name);
    w->bad_files += strncmp(name, WAITING_BAD, strlen(WAITING_BAD)) == 0;
    if ((!held && strncmp(name, "placed-", 7) != 0) ||
        strlen(name) >= WAITING_NAME_SIZE)
        return 0;
    strcpy(file.name, name);
    if (w->sorted_count > 0)
        known = bsearch(&key, w->files, w->sorted_count,
                        sizeof(struct waiting_file *), by_file_name);
    if (!known)
        return add_file(w, &file);
    (*known)->listed = true;
    return 0;
}

/* Removes the files that are gone, after their fills. */
static void
drop_files(struct waiting *w)
{
    size_t kept = 0;

    for (size_t i = 0; i < w->file_count; i++)
        if (w->files[i]->listed)
            w->files[kept++] = w->files[i];
        else
            free(w->files[i]);
    w->file_count = w->sorted_count = kept;
    if (kept > 1)
        qsort(w->files, kept, sizeof(struct waiting_file *), by_file_name);
}

static void
count_all(struct waiting *w)
{
    w->held_bytes = w->held_fills = 0;
    w->held_files = w->placed_files = 0;
    w->oldest_ms = UINT64_MAX;
    w->newest_ms = 0;
    for (size_t i = 0; i < w->file_count; i++) {
        struct waiting_file *f = w->files[i];

        f->fills = 0;
        w->placed_files += f->placed;
        w->held_files += !f->placed;
        w->held_bytes += f->placed ? 0
                                   : (f->size + WAITING_BLOCK - 1) /
                                         WAITING_BLOCK * WAITING_BLOCK;
    }
    for (size_t i = 0; i < w->index.fill_count; i++) {
        const struct waiting_fill *f = w->index.fills[i];

        f->file->fills++;
        if (f->file->placed)
            continue;
        w->held_fills++;
        if (f->id.first_ms < w->oldest_ms)
            w->oldest_ms = f->id.first_ms;
        if (f->id.first_ms > w->newest_ms)
            w->newest_ms = f->id.first_ms;
    }
}

/* Lists the folder and reads new files.  After an error these are forgotten, and
 * come with the next list.  Returns whether there were any. */
static int
read_folder(struct waiting *w)
{
    const size_t fills = w->index.fill_count, parts = w->index.part_count;
    bool gone = false, any_new;
    int rc;

    w->bad_files = 0;
    for (size_t i = 0; i < w->file_count; i++)
        w->files[i]->listed = w->files[i]->lock_fd >= 0;
    rc = dirstream_each(w->dir_fd, ".", see_name, w);
    for (size_t i = 0; i < w->file_count; i++)
        gone = gone || !w->files[i]->listed;
    any_new = w->file_count > w->sorted_count;
    if (rc < 0) {
        while (w->index.fill_count > fills)
            free(w->index.fills[--w->index.fill_count]);
        while (w->file_count > w->sorted_count)
            free(w->files[--w->file_count]);
        w->index.part_count = parts;
        return rc;
    }
    if (gone || any_new)
        waiting_index_sort(w);
    drop_files(w);
    if (w->file_count == 0)
        name_table_clear(&w->names);
    count_all(w);
    return any_new;
}

/* The later of two files that come while the folder is read may be found and the
 * earlier not.  The next reading finds it; the last one finds nothing new. */
static int
list_folder(struct waiting *w)
{
    int rc;

    while ((rc = read_folder(w)) > 0)
        continue;
    return rc;
}

int
waiting_open_folder(struct waiting *w)
{
    if (w->dir_fd < 0)
        w->dir_fd = folder_open(w->log_fd, WAITING_FOLDER);
    return w->dir_fd < 0 ? w->dir_fd : 0;
}

int
waiting_list(struct waiting *w)
{
    int rc = waiting_open_folder(w);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    if (w->locked)
        return list_folder(w);
    if (flock(w->dir_fd, LOCK_SH | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    rc = list_folder(w);
    (void)flock(w->dir_fd, LOCK_UN); /* giving it up cannot fail */
    return rc;
}

/* ---- merging -------------------------------------------------------------- */

int
waiting_claim(struct waiting *w, struct waiting_file *file)
{
    struct stat st;
    int fd, rc;

    assert(file->lock_fd < 0);
    fd = folder_open_file(w->dir_fd, file->name);
    if (fd < 0)
        return fd;
    rc = log_owner_take_flock(fd, &st);
    if (rc == -EBUSY)
        rc = -EAGAIN;
    else if (rc == 0 && st.st_nlink == 0)
        rc = -ENOENT; /* replaced, or merged by another */
    if (rc < 0)
        (void)close(fd);
    else
        file->lock_fd = fd;
    return rc;
}

void
waiting_let_go(struct waiting_file *file)
{
    if (file->lock_fd >= 0)
        (void)close(file->lock_fd);
    file->lock_fd = -1;
}

int
waiting_remove(struct waiting *w, struct waiting_file *file)
{
    int rc = 0;

    assert(file->lock_fd >= 0 && !file->damaged);
    if (unlinkat(w->dir_fd, file->name, 0) < 0 && errno != ENOENT)
        rc = -errno;
    waiting_let_go(file);
    return rc;
}
