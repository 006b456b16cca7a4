/* common/store/lmdb/held_salvage.c - whole records in any bytes.
 *
 * Values are found by their magic, wherever they are, and proved by their
 * checksum; what LMDB thinks of the pages around them does not matter.  So
 * there are also values of older commits, of records that were deleted since,
 * and of some whose commit never came.
 */
#include "common/store/lmdb/held_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/files.h"

#define CHUNK ((size_t)1 << 20)

/* A value, and where it is. */
struct place {
    uint64_t id;
    uint64_t nonce;
    uint32_t part;
    uint32_t size;
    off_t at;
};

struct salvage {
    int fd;
    struct place *places;
    size_t count, room;
    struct held_memory memory;
    int (*found)(void *ctx, const struct held_record *r);
    void *ctx;
    uint64_t *lost;
};

/* Notes a value, whole or (size 0) damaged. */
static int
note(struct salvage *s, const uint8_t *value, size_t size, off_t at)
{
    if (s->count == s->room) {
        const size_t room = s->room * 2 + 1024;
        struct place *more = reallocarray(s->places, room, sizeof *more);

        if (more == NULL)
            return -ENOMEM;
        s->places = more;
        s->room = room;
    }
    s->places[s->count++] = (struct place){.id = held_value_id(value),
                                           .nonce = held_value_nonce(value),
                                           .part = held_value_part(value),
                                           .size = (uint32_t)size,
                                           .at = at};
    return 0;
}

/* Notes the values in `size` bytes of the file.  Returns how many bytes were
 * looked at: a value that may go on behind them is left for the next time. */
static int64_t
scan(struct salvage *s, const uint8_t *bytes, size_t size, off_t at, bool last)
{
    size_t i = 0;

    for (;;) {
        size_t value_size;
        int rc;

        i += held_value_scan(bytes + i, size - i);
        if (!last && i + HELD_VALUE_MAX > size)
            return (int64_t)i;
        if (i + HELD_PART_HEAD > size)
            return (int64_t)size;
        value_size = held_value_size(bytes + i, size - i);
        rc = note(s, bytes + i, value_size, at + (off_t)i);
        if (rc < 0)
            return rc;
        i += value_size > 0 ? value_size : 1;
    }
}

static int
scan_file(struct salvage *s)
{
    uint8_t *bytes = malloc(CHUNK);
    int64_t done = 0;
    ssize_t got;

    if (bytes == NULL)
        return -ENOMEM;
    for (off_t at = 0;; at += done) {
        got = read_at(s->fd, bytes, CHUNK, (uint64_t)at);
        if (got <= 0)
            break;
        done = scan(s, bytes, (size_t)got, at, (size_t)got < CHUNK);
        if (done < 0 || (size_t)got < CHUNK)
            break;
    }
    free(bytes);
    return done < 0 ? (int)done : got < 0 ? (int)got : 0;
}

/* By id, then what belongs together; damaged ones last. */
static int
compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if ((x->size == 0) != (y->size == 0))
        return x->size == 0 ? 1 : -1;
    if (x->nonce != y->nonce)
        return x->nonce < y->nonce ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

/* Reads a value again; -EBADMSG when it is no longer what it was. */
static int
read_value(const struct salvage *s, const struct place *p,
           uint8_t bytes[HELD_VALUE_MAX])
{
    const ssize_t got = read_at(s->fd, bytes, p->size, (uint64_t)p->at);

    if (got < 0)
        return (int)got;
    return (size_t)got == p->size && held_value_size(bytes, p->size) == p->size
               ? 0
               : -EBADMSG;
}

/* Has the whole body in memory, from the places of the parts: those from `p`
 * on, up to `end`. */
static int
read_body(struct salvage *s, const struct held_head *head,
          const struct place *p, const struct place *end)
{
    uint8_t bytes[HELD_VALUE_MAX];
    uint64_t at = head->body_here;
    int rc;

    rc = held_memory_reserve(&s->memory, head, head->body_size);
    if (rc < 0)
        return rc;
    memcpy(s->memory.body, head->body, head->body_here);
    for (uint32_t part = 1; part <= head->parts; part++) {
        const uint8_t *body;
        size_t size;

        while (p < end && p->part < part)
            p++;
        if (p == end || p->part != part)
            return -EBADMSG;
        rc = read_value(s, p, bytes);
        if (rc < 0)
            return rc;
        body = held_part_parse(bytes, p->size, head, part, &size);
        if (body == NULL)
            return -EBADMSG;
        memcpy(s->memory.body + at, body, size);
        at += size;
    }
    return 0;
}

/* Has the record of these values, all of one id and nonce, in memory.  -EBADMSG
 * when they are not all there. */
static int
read_record(struct salvage *s, const struct place *p, const struct place *end,
            struct held_record *out)
{
    uint8_t bytes[HELD_VALUE_MAX];
    struct held_head head;
    int rc;

    if (p->part != 0)
        return -EBADMSG;
    rc = read_value(s, p, bytes);
    if (rc < 0)
        return rc;
    if (!held_head_parse(bytes, p->size, &head) || head.parts > s->count)
        return -EBADMSG;
    rc = read_body(s, &head, p, end);
    return rc < 0 ? rc : held_memory_record(&s->memory, &head, out);
}

/* All values of one id. */
static int
give_id(struct salvage *s, const struct place *p, const struct place *end)
{
    bool whole = false;
    int rc = 0;

    while (rc == 0 && p < end && p->size > 0) {
        const struct place *next = p;
        struct held_record record;

        while (next < end && next->size > 0 && next->nonce == p->nonce)
            next++;
        rc = read_record(s, p, next, &record);
        if (rc == 0) {
            whole = true;
            rc = s->found(s->ctx, &record);
        } else if (rc == -EBADMSG) {
            rc = 0;
        }
        p = next;
    }
    if (rc == 0 && !whole)
        ++*s->lost;
    return rc;
}

int
held_salvage(int fd, int (*found)(void *ctx, const struct held_record *r),
             void *ctx, uint64_t *lost)
{
    struct salvage s = {.fd = fd, .found = found, .ctx = ctx, .lost = lost};
    const struct place *p, *end, *next;
    int rc;

    *lost = 0;
    rc = scan_file(&s);
    if (rc == 0 && s.count > 0) {
        qsort(s.places, s.count, sizeof *s.places, compare);
        end = s.places + s.count;
        for (p = s.places; rc == 0 && p < end; p = next) {
            for (next = p; next < end && next->id == p->id;)
                next++;
            rc = give_id(&s, p, next);
        }
    }
    held_memory_free(&s.memory);
    free(s.places);
    return rc;
}
