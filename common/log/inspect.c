/* common/log/inspect.c - see inspect.h: inspect_headers(), inspect_slots();
 * log_inspect() is both. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/inspect.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/files.h"
#include "common/base/folder.h"
#include "common/log/logfile.h"
#include "common/log/mark.h"

#define INSPECT_TRIES 8 /* of a log that changes meanwhile */

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

/* Sets the number of slots that the file is too short for. */
static int
find_missing(int fd, struct inspect *look)
{
    const struct log_header *h = &look->header;
    uint64_t held = 0;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size > LOG_SLOTS_AT)
        held = ((uint64_t)st.st_size - LOG_SLOTS_AT) / h->layout.slot_size;
    look->missing = held >= h->slots ? 0 : h->slots - (uint32_t)held;
    return 0;
}

int
inspect_headers(int fd, uint64_t index, struct inspect *look)
{
    uint8_t block[LOG_BLOCK_SIZE];
    struct log_header h[2];
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
    return look->headers_rc < 0 ? 0 : find_missing(fd, look);
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

/* What one pass over the valid slots finds, beside what it writes to `look`. */
struct pass {
    struct inspect *look;
    uint32_t limit;  /* slots below it must be valid */
    uint32_t good;   /* valid slots below `limit` */
    uint32_t synced; /* the most slots that a valid one says were durable */
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

static int
see_slot(void *ctx, uint32_t number, const struct message *m,
         const struct slot_stamp *stamp)
{
    struct pass *p = ctx;
    struct inspect *look = p->look;

    if (look->valid++ == 0)
        look->first_ms = stamp->received_ms;
    look->end = number + 1;
    if (look->prefix == number)
        extend_prefix(look, p, m, stamp->received_ms);
    p->good += number < p->limit;
    /* A slot can only know that slots before it were durable. */
    if (stamp->synced > p->synced && stamp->synced <= number)
        p->synced = stamp->synced;
    return 0;
}

static int
pass_over_slots(int fd, struct inspect *look, struct pass *p, uint32_t limit)
{
    struct logfile_slots slots = {.fd = fd,
                                  .header = &look->header,
                                  .end = look->header.slots - look->missing};

    look->prefix = look->valid = look->end = 0;
    look->marks = look->whole = 0;
    look->has_times = false;
    look->first_ms = look->last_ms = look->whole_ms = 0;
    *p = (struct pass){.look = look, .limit = limit};
    return logfile_each(&slots, see_slot, p);
}

/* Sets *epoch to the highest one of a valid slot above the header's; 0: none.
 */
static int
find_later(int fd, const struct inspect *look, uint64_t *epoch)
{
    struct log_header later = look->header;
    uint8_t slot[SLOT_SIZE_MAX];
    struct slot_stamp stamp;
    struct message m;
    int rc = 0;

    *epoch = 0;
    for (uint32_t i = 0; rc == 0 && i < later.slots - look->missing; i++) {
        rc = inspect_slot(fd, &later.layout, i, slot);
        later.epoch = rc == 0 ? get_le32(slot + later.layout.message_size) : 0;
        if (later.epoch > look->header.epoch && later.epoch > *epoch &&
            slot_parse(&later, slot, i, &m, &stamp) == 0)
            *epoch = later.epoch;
    }
    return rc;
}

/* The state in the invalid block beside an EMPTY header was OPEN, if there are
 * slots of a later epoch: the valid block precedes it. */
static int
judge_empty(int fd, struct inspect *look)
{
    uint64_t epoch;
    int rc;

    if (look->header.state != LOG_EMPTY || look->header_ok[look->next_block])
        return 0;
    rc = find_later(fd, look, &epoch);
    if (rc < 0 || epoch == 0)
        return rc;
    look->header.state = LOG_OPEN;
    look->header.features |= LOG_HAS_TIMES;
    look->header.epoch = epoch;
    return 0;
}

/* Passes over the slots; if some that must be valid are not, passes again to
 * count them, because how many must be valid is known only after the first
 * pass. */
static int
judge_slots(int fd, struct inspect *look)
{
    const uint32_t there = look->header.slots - look->missing;
    uint32_t limit = 0;
    struct pass p;
    int rc;

    if (look->header.state == LOG_SEALED)
        limit = look->header.count;
    rc = pass_over_slots(fd, look, &p, limit);
    /* The slots of an EMPTY log are merged: none of them must be valid. */
    if (look->header.state != LOG_EMPTY && p.synced > limit)
        limit = p.synced;
    if (limit > there)
        limit = there;
    if (rc < 0 || look->prefix >= limit)
        return rc;
    rc = pass_over_slots(fd, look, &p, limit);
    look->damaged = limit - p.good;
    return rc;
}

int
inspect_slots(int fd, struct inspect *look)
{
    int rc;

    assert(look->headers_rc == 0);
    rc = judge_empty(fd, look);
    if (rc == 0)
        rc = judge_slots(fd, look);
    /* A log is written in full when it is created, so missing bytes are damage,
     * also those that were cut off while it was read. */
    if (rc == 0)
        rc = find_missing(fd, look);
    look->damaged += look->missing;
    return rc == -EBADMSG ? -EIO : rc; /* cut off while it was read */
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
