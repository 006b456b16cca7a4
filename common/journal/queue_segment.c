/* common/journal/queue_segment.c - segment files: queue_segment_read() takes
 * their groups, queue_roll() begins one, queue_segments_remove() ends them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/journal/queue_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/boot_id.h"
#include "common/base/crc.h"
#include "common/base/dirstream.h"
#include "common/base/files.h"

#define HEADER_COPY 512u /* byte of the second copy */
#define HEADER_SIZE 48u

int
queue_segment_open(const struct queue *q, uint32_t number, int access)
{
    char name[QUEUE_NAME_SIZE];
    int fd;

    (void)snprintf(name, sizeof name, "%u", number);
    fd = openat(q->options.dir_fd, name, access | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int
queue_segments_reach(struct queue *q, uint32_t number)
{
    const uint32_t from = q->tail == 0 ? number : q->tail + 1;
    int rc;

    if (q->tail == 0)
        q->lowest = number;
    rc = array_grow(&q->segments, &q->segment_capacity, number - q->lowest + 1,
                    sizeof *q->segments);
    for (uint32_t n = from; rc == 0 && n <= number; n++)
        *queue_segment_of(q, n) = (struct queue_segment){.end = 0};
    return rc;
}

/* ---- reading groups ----------------------------------------------------- */

/* A segment in memory: byte `base` of the file is at `bytes`. */
struct view {
    const uint8_t *bytes;
    uint64_t base, limit;
    uint32_t number;
    struct queue_bounds bounds;
};

/* The group, damaged or not, that one place of a segment shows. */
struct place {
    const uint8_t *bytes;
    bool is_line; /* a line of it is there */
    bool is_head; /* a good header of a group */
    uint64_t all; /* bytes that the group has, or a line */
    uint64_t there;
    uint32_t good;  /* entries */
    bool is_whole;  /* a group with all its entries */
    uint64_t later; /* the next good group, or the limit */
};

/* The next good group on a line from `at` on, or the limit. */
static uint64_t
find_group(const struct queue *q, const struct view *v, uint64_t at)
{
    for (; at + QUEUE_LINE <= v->limit; at += QUEUE_LINE)
        if (queue_is_group(q, v->bytes + (at - v->base), v->number))
            return at;
    return v->limit;
}

static struct place
inspect_place(const struct queue *q, const struct view *v, uint64_t at)
{
    struct place p = {.bytes = v->bytes + (at - v->base),
                      .is_line = at + QUEUE_LINE <= v->limit};

    p.is_head = p.is_line && queue_is_group(q, p.bytes, v->number);
    p.all = p.is_head ? get_le64(p.bytes + 8) : QUEUE_LINE;
    p.there = p.all <= v->limit - at ? p.all : v->limit - at;
    p.good = p.is_head ? queue_good_entries(q, p.bytes, (size_t)p.there) : 0;
    p.is_whole =
        p.is_head && p.there == p.all && p.good == get_le32(p.bytes + 40);
    if (!p.is_whole)
        p.later = find_group(q, v, at + (p.is_head ? p.there : QUEUE_LINE));
    return p;
}

/* Whether what is here was never written: groups end before it. */
static bool
is_unwritten(const struct view *v, const struct place *p, uint64_t at)
{
    return !p->is_head &&
           (!p->is_line || queue_is_zero(p->bytes + QUEUE_LINE - 4, 4)) &&
           at >= v->bounds.durable && (p->later == v->limit || !v->bounds.last);
}

/* Whether this is the last group, torn by a power loss. */
static bool
is_torn(const struct view *v, const struct place *p, uint64_t at)
{
    return v->bounds.last && at >= v->bounds.durable && p->is_head &&
           p->later >= v->limit &&
           (p->there < p->all || queue_zero_lines(p->bytes, (size_t)p->there) >
                                     get_le32(p->bytes + 44));
}

/* A damaged group: its good entries count when all of it is there. */
static int
take_damaged(struct queue *q, const struct view *v, const struct place *p,
             uint64_t at)
{
    queue_report_damage(q, v->number, at,
                        p->is_head ? "records are lost" : "a group is lost");
    queue_segment_of(q, v->number)->bad = true;
    return p->is_head && p->there == p->all ? queue_take_group(q, p->bytes, at)
                                            : 0;
}

/* Takes the groups from byte *at on, to where they end. */
static int
take_groups(struct queue *q, const struct view *v, uint64_t *at)
{
    int rc = 0;

    while (rc == 0 && *at < v->limit) {
        const struct place p = inspect_place(q, v, *at);

        if (p.is_whole) {
            if (q->number > 0 && get_le64(p.bytes + 16) > q->number)
                queue_report_damage(q, v->number, *at,
                                    "groups before it are missing");
            rc = queue_take_group(q, p.bytes, *at);
            *at += rc == 0 ? p.all : 0;
            continue;
        }
        if (is_unwritten(v, &p, *at)) {
            if (p.later == v->limit)
                break;
            *at = p.later;
        } else if (is_torn(v, &p, *at)) {
            break;
        } else {
            rc = take_damaged(q, v, &p, *at);
            *at = p.later;
        }
    }
    return rc;
}

/* ---- reading a segment -------------------------------------------------- */

static const uint8_t *
good_header(const uint8_t *b, uint64_t size, uint32_t number)
{
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t *h = b + (size_t)HEADER_COPY * i;

        if (size >= QUEUE_FIRST && memcmp(h, "COUNTDJ1", 8) == 0 &&
            get_le32(h + 44) == crc_of(h, 44) && get_le32(h + 40) == number)
            return h;
    }
    return NULL;
}

/* The byte where groups begin, or `size` when the header is damaged. */
static uint64_t
take_header(struct queue *q, uint32_t number, const uint8_t *b, uint64_t size)
{
    const uint8_t *head = b == NULL ? NULL : good_header(b, size, number);

    q->next = 1;
    if (head == NULL) {
        queue_report_damage(q, number, 0,
                            "its header is damaged: all of it is lost");
        queue_segment_of(q, number)->bad = true;
        return size;
    }
    if (!queue_is_zero(q->uuid, 16) && memcmp(q->uuid, head + 8, 16) != 0)
        queue_report_damage(q, number, 8, "it is of another queue");
    memcpy(q->uuid, head + 8, sizeof q->uuid);
    return QUEUE_FIRST;
}

/* Reads a segment from byte `from` to `limit` into memory.  *size: the byte
 * where that ends. */
static int
load_bytes(const struct queue *q, uint32_t number, uint64_t from,
           uint64_t limit, uint8_t **out, uint64_t *size)
{
    const int fd = queue_segment_open(q, number, O_RDONLY);
    struct stat st = {.st_size = 0};
    ssize_t got = 0;
    int rc = 0;

    *out = NULL;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        rc = -errno;
    *size = (uint64_t)st.st_size < limit ? (uint64_t)st.st_size : limit;
    if (rc == 0 && *size > from) {
        *out = malloc((size_t)(*size - from));
        got = *out == NULL ? -ENOMEM
                           : read_at(fd, *out, (size_t)(*size - from), from);
        rc = got < 0 ? (int)got : 0;
        *size = from + (uint64_t)(got < 0 ? 0 : got);
    }
    (void)close(fd);
    return rc;
}

int
queue_segment_read(struct queue *q, uint32_t number, uint64_t from,
                   const struct queue_bounds *bounds)
{
    struct view v = {.base = from, .number = number, .bounds = *bounds};
    uint64_t size = from;
    uint8_t *bytes;
    int rc;

    rc = load_bytes(q, number, from, bounds->limit, &bytes, &size);
    if (rc == 0)
        rc = queue_segments_reach(q, number);
    if (rc < 0)
        goto free_bytes;
    if (number > q->tail)
        q->tail = number;
    if (from == 0)
        from = take_header(q, number, bytes, size);
    if (bounds->durable > size && !bounds->closed)
        queue_report_damage(q, number, size, "it was longer");
    if (bounds->closed)
        v.bounds.durable = 0; /* missing groups are known by their numbers */
    v.bytes = bytes;
    v.limit = size;
    if (bytes != NULL && from < size)
        rc = take_groups(q, &v, &from);
    if (rc == 0)
        queue_segment_of(q, number)->end = q->end = from;

free_bytes:
    free(bytes);
    return rc;
}

static int
compare_numbers(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

struct numbers {
    uint32_t *at;
    size_t count, capacity;
};

static int
take_number(void *ctx, int dir_fd, const char *name)
{
    struct numbers *l = ctx;
    char *end;
    const unsigned long n = strtoul(name, &end, 10);

    (void)dir_fd;
    if (*end != '\0' || n == 0 || n > UINT32_MAX || name[0] < '1' ||
        name[0] > '9')
        return 0;
    if (array_grow(&l->at, &l->capacity, l->count + 1, sizeof *l->at) < 0)
        return -ENOMEM;
    l->at[l->count++] = (uint32_t)n;
    return 0;
}

int
queue_segments_list(const struct queue *q, uint32_t **out, size_t *count)
{
    struct numbers l = {.at = NULL};
    const int rc = dirstream_each(q->options.dir_fd, ".", take_number, &l);

    if (l.count > 1)
        qsort(l.at, l.count, sizeof *l.at, compare_numbers);
    *out = l.at;
    *count = l.count;
    return rc;
}

/* ---- beginning and removing --------------------------------------------- */

/* Ends the tail file where its groups end, whatever a failed write left. */
static int
seal_tail(struct queue *q)
{
    if (q->tail_fd < 0)
        return 0;
    if (!queue_segment_of(q, q->tail)->bad &&
        ftruncate(q->tail_fd, (off_t)q->end) < 0)
        return -errno;
    return fsync(q->tail_fd) < 0 ? -errno : 0;
}

static int
write_segment(const struct queue *q, int fd, uint32_t number)
{
    static const uint8_t magic[] = {'C', 'O', 'U', 'N', 'T', 'D', 'J', '1'};
    uint8_t head[QUEUE_FIRST] = {0};
    int rc;

    memcpy(head, magic, sizeof magic);
    memcpy(head + 8, q->uuid, 16);
    memcpy(head + 24, boot_id_get(), BOOT_ID_SIZE);
    put_le32(head + 40, number);
    put_le32(head + 44, crc_of(head, 44));
    memcpy(head + HEADER_COPY, head, HEADER_SIZE);
    rc = write_zeros(fd, q->options.segment_size, 0);
    if (rc == 0)
        rc = write_at(fd, head, sizeof head, 0);
    return rc == 0 && fsync(fd) < 0 ? -errno : rc;
}

int
queue_roll(struct queue *q, uint32_t number)
{
    const int dir_fd = q->options.dir_fd;
    char name[QUEUE_NAME_SIZE];
    int fd, rc;

    rc = seal_tail(q);
    if (rc < 0)
        return rc;
    if (queue_is_zero(q->uuid, 16) && getrandom(q->uuid, 16, 0) != 16)
        return -EIO;
    fd = openat(dir_fd, "new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    (void)snprintf(name, sizeof name, "%u", number);
    rc = write_segment(q, fd, number);
    if (rc == 0 && renameat(dir_fd, "new", dir_fd, name) < 0)
        rc = -errno;
    if (rc == 0 && fsync(dir_fd) < 0)
        rc = -errno;
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    if (q->tail_fd >= 0)
        (void)close(q->tail_fd);
    q->tail_fd = fd;
    return 0;
}

void
queue_segments_remove(struct queue *q, uint32_t oldest)
{
    for (; q->tail > 0 && q->lowest < oldest && q->lowest < q->tail;
         q->lowest++) {
        const int dir_fd = q->options.dir_fd;
        char name[QUEUE_NAME_SIZE], bad[QUEUE_NAME_SIZE];

        (void)snprintf(name, sizeof name, "%u", q->lowest);
        (void)snprintf(bad, sizeof bad, "bad-%u", q->lowest);
        if (q->segments[0].bad)
            (void)renameat(dir_fd, name, dir_fd, bad);
        else
            (void)unlinkat(dir_fd, name, 0); /* or after the next load */
        memmove(q->segments, q->segments + 1,
                (q->tail - q->lowest) * sizeof *q->segments);
    }
}
