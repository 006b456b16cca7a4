/* common/store/held_admin.c - lists, checks and copies what is held.
 *
 * Entry points: held_each(), held_check(), held_copy(). */
#include "common/store/held_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/dirstream.h"
#include "common/base/folder.h"

/* ---- listing ------------------------------------------------------------ */

static struct held_summary
summarize_keyspace(struct held *h, const struct held_keyspace *k)
{
    struct held_summary s = {.name = k->name,
                             .name_size = k->name_size,
                             .oldest_ms = UINT64_MAX,
                             .since_ms = UINT64_MAX};
    const struct held_entry *e;
    uint64_t after = 0;

    while ((e = held_next_entry(h, k, after)) != NULL) {
        after = e->id;
        s.records++;
        s.fills += e->fills;
        s.bytes += e->size;
        s.oldest_ms = e->oldest_ms < s.oldest_ms ? e->oldest_ms : s.oldest_ms;
        s.since_ms = e->held_ms < s.since_ms ? e->held_ms : s.since_ms;
        s.error = s.error != 0 ? s.error : e->error;
    }
    return s;
}

int
held_each(struct held *h, int (*row)(void *ctx, const struct held_summary *s),
          void *ctx)
{
    const struct held_keyspace *k = NULL;
    struct held_summary s;
    int rc = 0;

    if (h->queue == NULL)
        return 0;
    for (k = held_index_next(&h->index, (const uint8_t *)"", 0);
         rc == 0 && k != NULL;
         k = held_index_next(&h->index, k->name, k->name_size)) {
        s = summarize_keyspace(h, k);
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
check_record(void *ctx, uint64_t id, uint64_t stream, const uint8_t *bytes,
             size_t size)
{
    struct check *c = ctx;
    struct store_delta *deltas;
    struct held_head head;
    bool good;

    (void)id;
    good = held_head_parse(bytes, size, &head) &&
           held_stream(head.name, head.name_size) == stream;
    if (!good) {
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

static int
copy_keyspace(struct held *h, const struct held_keyspace *k, struct queue *to)
{
    const struct held_entry *e;
    uint64_t after = 0;
    int rc = 0;

    while (rc == 0 && (e = held_next_entry(h, k, after)) != NULL) {
        struct held_head head;

        after = e->id;
        rc = held_read(h, after, &head);
        if (rc == 0)
            rc = queue_put(to, k->stream, head.name - HELD_HEAD_SIZE,
                           (size_t)head.size);
        if (rc == 0 && queue_collected(to) >= HELD_GROUP_SIZE)
            rc = queue_commit(to, NULL);
    }
    return rc;
}

static int
copy_records(struct held *h, int dir_fd)
{
    const struct queue_options options = {.dir_fd = dir_fd,
                                          .writable = true,
                                          .segment_size = HELD_SEGMENT_SIZE,
                                          .report = ignore_report};
    const struct held_keyspace *k;
    struct queue *to;
    int rc;

    rc = queue_open(&to, &options);
    if (rc < 0)
        return rc;
    for (k = held_index_next(&h->index, (const uint8_t *)"", 0);
         rc == 0 && k != NULL;
         k = held_index_next(&h->index, k->name, k->name_size))
        rc = copy_keyspace(h, k, to);
    if (rc == 0)
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
