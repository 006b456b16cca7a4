/* common/store/lmdb/held_salvage.c - whole records in any bytes.
 *
 * Records are found by their magic, wherever they are, and proved by their
 * checksum; what LMDB thinks of the pages around them does not matter.  So
 * there are also records of older commits, some that were deleted since, and
 * some whose commit never came.
 */
#include "common/store/lmdb/held_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/base/bytes.h"

/* Where a record begins, whole or (size 0) damaged. */
struct place {
    uint64_t id;
    uint32_t crc; /* tells records of one id apart: an id whose commit never
                     came is given again */
    size_t size;
    const uint8_t *at;
};

struct places {
    struct place *place;
    size_t count, room;
};

static int
note(struct places *all, const uint8_t *at, size_t size)
{
    if (all->count == all->room) {
        const size_t room = all->room * 2 + 1024;
        struct place *more = reallocarray(all->place, room, sizeof *more);

        if (more == NULL)
            return -ENOMEM;
        all->place = more;
        all->room = room;
    }
    all->place[all->count++] = (struct place){
        .id = held_value_id(at), .crc = get_le32(at), .size = size, .at = at};
    return 0;
}

static int
scan(struct places *all, const uint8_t *bytes, size_t size)
{
    size_t i = 0;
    int rc = 0;

    while (rc == 0) {
        size_t whole;

        i += held_value_scan(bytes + i, size - i);
        if (size - i < HELD_HEAD_SIZE)
            break;
        whole = held_value_size(bytes + i, size - i);
        rc = note(all, bytes + i, whole);
        i += whole > 0 ? whole : 1;
    }
    return rc;
}

/* By id, then what is the same together; damaged ones last. */
static int
compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if ((x->size == 0) != (y->size == 0))
        return x->size == 0 ? 1 : -1;
    return (x->crc > y->crc) - (x->crc < y->crc);
}

/* Gives each record once; counts the ids of which none is whole. */
static int
give(struct places *all, struct held_memory *memory,
     int (*found)(void *ctx, const struct held_record *r), void *ctx,
     uint64_t *lost)
{
    const struct place *end = all->place + all->count, *before = NULL;
    bool whole = false;
    int rc = 0;

    for (const struct place *p = all->place; rc == 0 && p < end; p++) {
        const bool same = before != NULL && before->id == p->id;
        struct held_record record;
        struct held_head head;

        if (!same)
            whole = false;
        if (p->size > 0 && (!same || before->crc != p->crc) &&
            held_head_parse(p->at, p->size, &head)) {
            rc = held_record_read(memory, &head, &record);
            whole |= rc == 0;
            if (rc == 0)
                rc = found(ctx, &record);
            else if (rc == -EBADMSG)
                rc = 0;
        }
        if ((p + 1 == end || p[1].id != p->id) && !whole)
            ++*lost;
        before = p;
    }
    return rc;
}

int
held_salvage(int fd, int (*found)(void *ctx, const struct held_record *r),
             void *ctx, uint64_t *lost)
{
    struct held_memory memory = {.mark_room = 0};
    struct places all = {.count = 0};
    struct stat st;
    void *bytes;
    int rc;

    *lost = 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size == 0)
        return 0;
    bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    rc = scan(&all, bytes, (size_t)st.st_size);
    if (rc == 0 && all.count > 0) {
        qsort(all.place, all.count, sizeof *all.place, compare);
        rc = give(&all, &memory, found, ctx, lost);
    }
    (void)munmap(bytes, (size_t)st.st_size); /* cannot fail: it is ours */
    free(memory.marks);
    free(memory.deltas);
    free(all.place);
    return rc;
}
