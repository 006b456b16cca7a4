/* common/log/inspect.c - see inspect.h: inspect_headers(), inspect_slots();
 * log_inspect() is both. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/inspect.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/files.h"
#include "common/base/folder.h"
#include "common/log/mark.h"
#include "common/log/slot.h"

#define INSPECT_CHUNK (1u << 20) /* bytes read at once */
#define INSPECT_TRIES 8          /* of a log that changes meanwhile */

/* ---- reading ------------------------------------------------------------ */

int
inspect_read(int fd, void *bytes, size_t size, uint64_t at)
{
    const ssize_t got = read_at(fd, bytes, size, at);

    if (got < 0)
        return (int)got;
    return (size_t)got == size ? 0 : -EBADMSG;
}

int
inspect_slot(int fd, const struct layout *l, uint32_t number, uint8_t *slot)
{
    return inspect_read(fd, slot, l->slot_size,
                        LOG_SLOTS_AT + (uint64_t)number * l->slot_size);
}

/* Whether two valid blocks are headers of one file, in different generations.
 */
static bool
is_same_file(const struct log_header *a, const struct log_header *b)
{
    return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0 &&
           a->index == b->index && a->slots == b->slots &&
           a->layout.keyspace_size == b->layout.keyspace_size &&
           a->layout.key_size == b->layout.key_size &&
           a->generation != b->generation;
}

/* Chooses the block that rules, or returns why none does.  If either block is
 * of a newer version the file must not be touched, even if the other is valid.
 */
static int
choose_header(const int rc[2], const struct log_header h[2], uint64_t index,
              struct inspect *look)
{
    int ruling;

    if (rc[0] == -EPROTONOSUPPORT || rc[1] == -EPROTONOSUPPORT)
        return -EPROTONOSUPPORT;
    if (rc[0] < 0 && rc[1] < 0)
        return -EBADMSG;
    if (rc[0] == 0 && rc[1] == 0) {
        if (!is_same_file(&h[0], &h[1]))
            return -EBADMSG;
        ruling = h[1].generation > h[0].generation;
    } else {
        ruling = rc[0] < 0;
    }
    if (index != UINT64_MAX && h[ruling].index != index)
        return -EBADMSG;
    look->header = h[ruling];
    look->next_block = !ruling;
    return 0;
}

/* The slots that a file of this size is too short for. */
static uint32_t
missing_slots(const struct log_header *h, uint64_t file_size)
{
    uint64_t held = 0;

    if (file_size > LOG_SLOTS_AT)
        held = (file_size - LOG_SLOTS_AT) / h->layout.slot_size;
    return held >= h->slots ? 0 : h->slots - (uint32_t)held;
}

int
inspect_headers(int fd, uint64_t index, struct inspect *look)
{
    uint8_t block[LOG_BLOCK_SIZE];
    struct log_header h[2];
    struct stat st;
    int rc[2], i;

    *look = (struct inspect){0};
    for (i = 0; i < 2; i++) {
        rc[i] =
            inspect_read(fd, block, sizeof block, (uint64_t)i * LOG_BLOCK_SIZE);
        if (rc[i] == 0)
            rc[i] = log_header_get(block, &h[i]);
        else if (rc[i] != -EBADMSG)
            return rc[i];
        look->header_ok[i] = rc[i] == 0;
    }
    look->headers_rc = choose_header(rc, h, index, look);
    if (look->headers_rc < 0)
        return 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    look->missing = missing_slots(&look->header, (uint64_t)st.st_size);
    return 0;
}

int
inspect_log(int dirfd, uint64_t index, struct inspect *look)
{
    char name[LOG_NAME_SIZE];
    int fd, rc;

    log_name(index, name);
    fd = folder_open_file(dirfd, name);
    if (fd < 0)
        return fd;
    rc = inspect_headers(fd, index, look);
    (void)close(fd);
    return rc;
}

/* What one pass over the slots finds. */
struct pass {
    uint32_t limit;  /* slots below it must be valid */
    uint32_t broken; /* slots below `limit` that are not valid */
    uint32_t synced; /* the most slots that a valid one says were durable */
    uint64_t later;  /* the highest epoch above the header's of a valid slot */
    bool want_later;
    uint64_t request_end; /* the slot after the request of the last mark */
};

/* A valid slot that follows the prefix extends it.  While the request that it
 * belongs to, or whose mark it is, has not ended, `whole` stays. */
static void
extend_prefix(struct inspect *look, struct pass *p, const struct message *m,
              uint64_t received_ms)
{
    if (mark_is(m)) {
        look->marks++;
        p->request_end = look->prefix + UINT64_C(1) + (uint64_t)m->increment;
    }
    look->has_times = look->has_times || m->minute != 0;
    look->prefix++;
    look->last_ms = received_ms;
    if (look->prefix >= p->request_end) {
        look->whole = look->prefix;
        look->whole_ms = received_ms;
    }
}

static void
check_slot(struct inspect *look, struct pass *p, const uint8_t *slot,
           uint32_t number)
{
    struct log_header later;
    struct slot_stamp stamp;
    struct message m;

    if (slot_parse(&look->header, slot, number, &m, &stamp) == 0) {
        if (look->valid++ == 0)
            look->first_ms = stamp.received_ms;
        look->end = number + 1;
        if (look->prefix == number)
            extend_prefix(look, p, &m, stamp.received_ms);
        /* A slot can only know that slots before it were durable. */
        if (stamp.synced > p->synced && stamp.synced <= number)
            p->synced = stamp.synced;
        return;
    }
    if (number < p->limit)
        p->broken++;
    if (!p->want_later)
        return;
    later = look->header;
    later.epoch = get_le32(slot + later.layout.message_size);
    if (later.epoch > look->header.epoch && later.epoch > p->later &&
        slot_parse(&later, slot, number, &m, &stamp) == 0)
        p->later = later.epoch;
}

static int
pass_over_slots(int fd, struct inspect *look, struct pass *p, uint8_t *chunk)
{
    const uint32_t size = look->header.layout.slot_size;
    const uint32_t there = look->header.slots - look->missing;
    uint32_t from, i, n;
    int rc;

    assert(size > 0 && size <= INSPECT_CHUNK);
    look->prefix = look->valid = look->end = 0;
    look->marks = look->whole = 0;
    look->has_times = false;
    look->first_ms = look->last_ms = look->whole_ms = 0;
    p->request_end = 0;
    for (from = 0; from < there; from += n) {
        n = INSPECT_CHUNK / size;
        if (n > there - from)
            n = there - from;
        rc = inspect_read(fd, chunk, (size_t)n * size,
                          LOG_SLOTS_AT + (uint64_t)from * size);
        if (rc < 0)
            return rc;
        for (i = 0; i < n; i++)
            check_slot(look, p, chunk + (size_t)i * size, from + i);
    }
    return 0;
}

/* Passes over the slots; if some that must be valid are not, passes again to
 * count them, because how many must be valid is known only after the first
 * pass. */
static int
judge_slots(int fd, struct inspect *look, uint8_t *chunk)
{
    struct pass p = {.limit = 0};
    int rc;

    if (look->header.state == LOG_EMPTY)
        p.want_later = !look->header_ok[look->next_block];
    if (look->header.state == LOG_SEALED)
        p.limit = (uint32_t)look->header.count;
    rc = pass_over_slots(fd, look, &p, chunk);
    if (rc < 0)
        return rc;

    /* The state in the invalid block was OPEN: the valid block precedes it. */
    if (p.later > 0) {
        look->header.state = LOG_OPEN;
        look->header.features |= LOG_HAS_TIMES;
        look->header.epoch = p.later;
        p = (struct pass){.limit = 0};
        rc = pass_over_slots(fd, look, &p, chunk);
        if (rc < 0)
            return rc;
    }
    /* The slots of an EMPTY log are merged: none of them must be valid. */
    if (look->header.state == LOG_EMPTY)
        p.synced = 0;
    if (p.synced > p.limit)
        p.limit = p.synced;
    p.broken = 0;
    if (look->prefix < p.limit) {
        rc = pass_over_slots(fd, look, &p, chunk);
        if (rc < 0)
            return rc;
    }
    look->damaged = p.broken;
    return 0;
}

int
inspect_slots(int fd, struct inspect *look)
{
    const uint32_t missing = look->missing;
    uint8_t *chunk;
    int rc;

    assert(look->headers_rc == 0);
    chunk = malloc(INSPECT_CHUNK);
    if (!chunk)
        return -ENOMEM;
    rc = judge_slots(fd, look, chunk);
    free(chunk);
    /* A log is written in full when it is created, so missing bytes are damage.
     */
    look->damaged += missing;
    return rc == -EBADMSG ? -EIO : rc; /* truncated while it was read */
}

/* Whether a log that was judged has another header since. */
static bool
has_changed(int fd, uint64_t index, const struct inspect *look)
{
    struct inspect now;

    return inspect_headers(fd, index, &now) == 0 && now.headers_rc == 0 &&
           now.header.generation != look->header.generation;
}

int
log_inspect(int fd, uint64_t index, struct inspect *look)
{
    int rc, tries = 0;

    do {
        rc = inspect_headers(fd, index, look);
        if (rc == 0 && look->headers_rc == 0)
            rc = inspect_slots(fd, look);
    } while (rc == 0 && look->damaged > 0 && has_changed(fd, index, look) &&
             ++tries < INSPECT_TRIES);
    return rc;
}
