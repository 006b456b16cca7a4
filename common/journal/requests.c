/* common/journal/requests.c - see requests.h: requests_put() stores,
 * requests_each() reads, requests_secret() and requests_make() begin. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/journal/requests.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/folder.h"
#include "common/journal/queue.h"

#define SEGMENT_SIZE  (1u << 20)
#define COMPACT_BYTES ((uint64_t)8 << 20)
#define WAIT_NS       5000000L
#define WAITS         200 /* for another process: a second */
#define WAITS_BRIEF   10  /* the same of a caller that comes again */

struct requests {
    struct mark_store store;
    int data_fd, dir_fd;
    bool writable;
    uint64_t damaged;    /* times that damage was reported */
    struct queue *queue; /* NULL: not open */
    uint64_t max;        /* 0: nothing is forgotten */
};

/* ---- what the queue has -------------------------------------------------- */

static void
get_request(const uint8_t *b, struct counted_request *out)
{
    memcpy(out->mark.hash, b, MARK_HASH_SIZE);
    out->mark.body = get_le64(b + 16);
    memcpy(out->uuid, b + 24, sizeof out->uuid);
    out->epoch = get_le64(b + 40);
    out->mark.count = get_le32(b + 48);
    out->at_s = get_le32(b + 52);
}

static void
report_damage(void *ctx, const char *text)
{
    ((struct requests *)ctx)->damaged++;
    diag(DIAG_ERROR,
         REQUESTS_FOLDER " is damaged: %s; requests with an Idempotency-Key "
                         "that were recorded there and are sent again count "
                         "again",
         text);
}

/* Reads a record of *count requests.  -EBADMSG is reported. */
static int
read_record(struct requests *r, uint64_t id, const uint8_t **bytes,
            size_t *count)
{
    size_t size = 0;
    const int rc = queue_read(r->queue, id, bytes, &size);

    *count = size / REQUEST_SIZE;
    if (rc == -EBADMSG)
        report_damage(r, "a record is lost");
    return rc;
}

/* ---- opening ------------------------------------------------------------- */

static int
store_marks(struct mark_store *s, const struct log_header *fill,
            const struct marked *marks, size_t count)
{
    return requests_put((struct requests *)s, fill, marks, count);
}

int
requests_open(struct requests **out, int data_fd)
{
    struct requests *r = calloc(1, sizeof *r);

    static_assert(offsetof(struct requests, store) == 0, "as store_marks()");
    if (!r)
        return -ENOMEM;
    r->store.store = store_marks;
    r->data_fd = data_fd;
    r->dir_fd = -1;
    r->writable = true;
    *out = r;
    return 0;
}

static void
close_queue(struct requests *r)
{
    if (r->queue)
        queue_close(r->queue);
    if (r->dir_fd >= 0)
        (void)close(r->dir_fd);
    r->queue = NULL;
    r->dir_fd = -1;
}

void
requests_close(struct requests *r)
{
    if (!r)
        return;
    close_queue(r);
    free(r);
}

void
requests_read_only(struct requests *r)
{
    r->writable = false;
}

uint64_t
requests_damaged(const struct requests *r)
{
    return r->damaged;
}

struct mark_store *
requests_store(struct requests *r)
{
    return &r->store;
}

/* Opens the queue in its folder, with a secret or without. */
static int
open_queue(struct requests *r)
{
    struct queue_options options = {.writable = r->writable,
                                    .segment_size = SEGMENT_SIZE,
                                    .report = report_damage,
                                    .ctx = r};
    int rc;

    rc = folder_open(r->data_fd, REQUESTS_FOLDER);
    if (rc < 0)
        return rc == -ENOENT ? -ENOKEY : rc;
    r->dir_fd = rc;
    options.dir_fd = r->dir_fd;
    rc = queue_open(&r->queue, &options);
    if (rc < 0) {
        r->queue = NULL;
        close_queue(r);
    }
    return rc == -ENOENT ? -ENOKEY : rc;
}

/* Opens the queue, unless it is, and knows what other processes did. */
static int
use_queue(struct requests *r)
{
    int rc = r->queue ? queue_refresh(r->queue) : open_queue(r);

    if (rc == 0 && !queue_uuid(r->queue)) {
        close_queue(r);
        rc = -ENOKEY;
    }
    return rc;
}

int
requests_secret(struct requests *r, uint8_t secret[REQUESTS_KEY_SIZE])
{
    const int rc = use_queue(r);

    if (rc == 0)
        memcpy(secret, queue_uuid(r->queue), REQUESTS_KEY_SIZE);
    return rc;
}

/* Makes the folder, durably. */
static int
make_folder(const struct requests *r)
{
    const int live = folder_open(r->data_fd, "live");
    int fd;

    if (live < 0)
        return live;
    fd = folder_make(live, "requests");
    (void)close(live);
    if (fd < 0)
        return fd;
    (void)close(fd);
    return 0;
}

int
requests_make(struct requests *r)
{
    int rc = make_folder(r);

    if (rc == 0)
        rc = open_queue(r);
    if (rc == 0)
        rc = queue_commit(r->queue, NULL); /* the first segment has the uuid */
    if (rc < 0)
        close_queue(r);
    return rc;
}

/* ---- storing ------------------------------------------------------------- */

void
requests_limit(struct requests *r, uint64_t max)
{
    r->max = max;
}

static uint8_t *
format_marks(const struct log_header *fill, const struct marked *marks,
             size_t count)
{
    uint8_t *bytes = malloc(count * REQUEST_SIZE), *b = bytes;

    for (size_t i = 0; bytes && i < count; i++, b += REQUEST_SIZE) {
        memcpy(b, marks[i].mark.hash, MARK_HASH_SIZE);
        put_le64(b + 16, marks[i].mark.body);
        memcpy(b + 24, fill->uuid, MESSAGE_UUID_SIZE);
        put_le64(b + 40, fill->epoch);
        put_le32(b + 48, marks[i].mark.count);
        put_le32(b + 52, (uint32_t)(marks[i].received_ms / 1000));
    }
    return bytes;
}

/* Adds to the group that the oldest records are gone which the window has
 * passed, with `more` requests to come, or which are damaged. */
static int
forget_old(struct requests *r, size_t more)
{
    const uint64_t now_s = clock_unix_ms() / 1000;
    const uint8_t *bytes;
    struct queue_stats s;
    uint64_t total, id = 0;
    size_t count;
    int rc = 0;

    queue_stats(r->queue, &s);
    total = (s.bytes - s.records * QUEUE_ENTRY) / REQUEST_SIZE + more;
    while (rc == 0 && r->max > 0 && (id = queue_next(r->queue, id)) != 0) {
        rc = read_record(r, id, &bytes, &count);
        if (rc < 0 && rc != -EBADMSG)
            break;
        if (rc == 0 && count > 0 && total - count < r->max &&
            get_le32(bytes + (count - 1) * REQUEST_SIZE + 52) +
                    (uint64_t)REQUESTS_KEEP_S >=
                now_s)
            break;
        total -= count;
        rc = queue_remove(r->queue, id);
    }
    return rc;
}

/* Takes the lock of the one process that stores.  The writer's thread makes
 * logs, too: it does not wait for long. */
static int
acquire_queue(struct requests *r)
{
    const int waits = r->max > 0 ? WAITS_BRIEF : WAITS;
    const struct timespec pause = {.tv_nsec = WAIT_NS};
    int rc = queue_acquire(r->queue);

    for (int i = 0; rc == -EAGAIN && i < waits; i++) {
        (void)nanosleep(&pause, NULL); /* a signal only shortens it */
        rc = queue_acquire(r->queue);
    }
    return rc;
}

int
requests_put(struct requests *r, const struct log_header *fill,
             const struct marked *marks, size_t count)
{
    uint8_t *bytes;
    int rc = use_queue(r);

    assert(r->writable);
    if (rc < 0 || count == 0)
        return rc;
    bytes = format_marks(fill, marks, count);
    if (!bytes)
        return -ENOMEM;
    rc = acquire_queue(r);
    if (rc == 0) {
        rc = queue_put(r->queue, bytes, count * REQUEST_SIZE);
        if (rc == 0)
            rc = forget_old(r, count);
        if (rc == 0)
            rc = queue_commit(r->queue, NULL);
        queue_discard(r->queue);
        queue_release(r->queue);
    }
    free(bytes);
    /* After an error the next call gives the space back. */
    if (rc == 0 && r->max > 0)
        (void)queue_compact(r->queue, COMPACT_BYTES);
    return rc;
}

/* ---- reading ------------------------------------------------------------- */

int
requests_each(struct requests *r,
              void (*visit)(void *ctx, const struct counted_request *q),
              void *ctx)
{
    uint64_t id = 0;
    int rc = use_queue(r);

    while (rc == 0 && (id = queue_next(r->queue, id)) != 0) {
        struct counted_request q;
        const uint8_t *bytes;
        size_t count;

        rc = read_record(r, id, &bytes, &count);
        for (size_t i = 0; rc == 0 && i < count; i++) {
            get_request(bytes + i * REQUEST_SIZE, &q);
            visit(ctx, &q);
        }
        if (rc == -EBADMSG)
            rc = 0;
    }
    return rc;
}

int
requests_lock(struct requests *r)
{
    const int rc = use_queue(r);

    return rc < 0 ? rc : acquire_queue(r);
}

void
requests_unlock(struct requests *r)
{
    queue_release(r->queue);
}
