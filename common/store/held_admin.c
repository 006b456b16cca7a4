/* common/store/held_admin.c - lists, checks and copies what is held.
 *
 * Entry points: held_each(), held_check(), held_copy(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/held_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/dirstream.h"
#include "common/base/folder.h"

/* ---- listing ------------------------------------------------------------ */

static void
add_entry(struct held_summary *s, const struct held_entry *e)
{
    s->records++;
    s->fills += e->fill_count;
    s->bytes += e->size;
    s->oldest_ms = e->oldest_ms < s->oldest_ms ? e->oldest_ms : s->oldest_ms;
    s->since_ms = e->held_ms < s->since_ms ? e->held_ms : s->since_ms;
    s->error = s->error != 0 ? s->error : e->error;
}

int
held_each(struct held *h, int (*row)(void *ctx, const struct held_summary *s),
          void *ctx)
{
    uint8_t name[STORE_NAME_MAX];
    size_t size = 0;
    int rc = 0;

    while (rc == 0 && held_next_name(h, name, size, name, &size) == 0) {
        struct held_summary s = {.name = name,
                                 .name_size = size,
                                 .oldest_ms = UINT64_MAX,
                                 .since_ms = UINT64_MAX};
        const struct held_entry *e = NULL;

        while ((e = held_next_entry(h, name, size, e != NULL ? e->id : 0)) !=
               NULL)
            add_entry(&s, e);
        rc = row(ctx, &s);
    }
    return rc;
}

/* ---- checking ----------------------------------------------------------- */

struct check {
    void (*fault)(void *ctx, const char *text);
    void *ctx;
    struct store_check_result *out;
};

static void
report_fault(void *ctx, const char *text)
{
    struct check *c = ctx;

    if (c->out->faults++ < 100)
        c->fault(c->ctx, text);
}

/* Whether a record is what held_next() can give. */
static int
check_record(void *ctx, uint64_t id, const uint8_t *bytes, size_t size)
{
    struct check *c = ctx;
    struct store_delta *deltas;
    struct held_head head;

    (void)id;
    if (!held_head_parse(bytes, size, &head)) {
        report_fault(c, "a record is none of this version");
        return 0;
    }
    deltas = calloc(head.deltas + (size_t)1, sizeof *deltas);
    if (deltas == NULL)
        return -ENOMEM;
    if (!held_deltas_parse(&head, deltas))
        report_fault(c, "the changes of a record are out of order");
    free(deltas);
    c->out->marks += head.marks;
    return 0;
}

int
held_check(const struct held *h, void (*fault)(void *ctx, const char *text),
           void *ctx, struct store_check_result *out)
{
    struct check c = {.fault = fault, .ctx = ctx, .out = out};
    struct queue_options options = {.segment_size = HELD_SEGMENT_SIZE,
                                    .added = check_record,
                                    .report = report_fault,
                                    .ctx = &c};
    struct queue_stats stats;
    struct queue *q;
    int rc;

    *out = (struct store_check_result){.keys = 0};
    options.dir_fd = folder_open(h->options.data_fd, HELD_FOLDER);
    if (options.dir_fd < 0)
        return options.dir_fd == -ENOENT ? 0 : options.dir_fd;
    rc = queue_open(&q, &options);
    if (rc == 0) {
        queue_stats(q, &stats);
        out->keys = out->blocks = stats.records;
        out->file_size = stats.file_bytes;
        out->used_size = stats.bytes;
        queue_close(q);
    }
    (void)close(options.dir_fd);
    return rc == -ENOENT ? 0 : rc;
}

uint64_t
held_damaged_files(const struct held *h)
{
    struct queue_stats stats = {.bad_segments = 0};
    uint64_t files = 0;
    const char *name;
    DIR *dir;

    if (h->queue != NULL)
        queue_stats(h->queue, &stats);
    if (h->dir_fd < 0 || dirstream_open(h->dir_fd, ".", &dir) < 0)
        return stats.bad_segments;
    while (dirstream_next(dir, &name) > 0)
        files += strncmp(name, HELD_BAD_PREFIX, strlen(HELD_BAD_PREFIX)) == 0;
    (void)closedir(dir);
    return stats.bad_segments + files;
}

/* ---- copying ------------------------------------------------------------ */

static void
ignore_report(void *ctx, const char *text)
{
    (void)ctx;
    (void)text; /* the copy is new; it is checked afterwards */
}

/* Copies the first record that is not before this id of this keyspace; both
 * become those of the next.  1: there was none. */
static int
copy_record(struct held *h, struct queue *to, uint8_t *name, size_t *name_size,
            uint64_t *id)
{
    const struct held_entry *e =
        held_index_find(&h->index, name, *name_size, *id);
    struct held_head head;
    int rc;

    if (e == NULL)
        return 1;
    *id = e->id + 1;
    *name_size = e->name_size;
    memcpy(name, held_entry_name(&h->index, e), e->name_size);
    rc = held_read(h, e->id, &head);
    if (rc == 0)
        rc = queue_put(to, head.name - HELD_HEAD_SIZE, (size_t)head.size);
    if (rc == 0 && queue_collected(to) >= HELD_GROUP_SIZE)
        rc = queue_commit(to, NULL);
    return rc;
}

static int
copy_records(struct held *h, int dir_fd)
{
    const struct queue_options options = {.dir_fd = dir_fd,
                                          .writable = true,
                                          .segment_size = HELD_SEGMENT_SIZE,
                                          .report = ignore_report};
    uint8_t name[STORE_NAME_MAX];
    size_t name_size = 0;
    struct queue *to;
    uint64_t id = 0;
    int rc;

    rc = queue_open(&to, &options);
    if (rc < 0)
        return rc;
    while (rc == 0)
        rc = copy_record(h, to, name, &name_size, &id);
    if (rc == 1)
        rc = queue_commit(to, NULL);
    if (rc == 0)
        rc = queue_rest(to);
    queue_close(to);
    return rc;
}

int
held_copy(struct held *h, int to_fd)
{
    int dir_fd, rc;

    rc = held_refresh(h);
    if (rc < 0 || !held_any(h))
        return rc;
    if (mkdirat(to_fd, HELD_FOLDER, 0700) < 0)
        return -errno;
    dir_fd = folder_open(to_fd, HELD_FOLDER);
    if (dir_fd < 0)
        return dir_fd;
    rc = copy_records(h, dir_fd);
    if (rc == 0 && fsync(dir_fd) < 0)
        rc = -errno;
    (void)close(dir_fd);
    return rc;
}
