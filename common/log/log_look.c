/* common/log/log_look.c - names, header bytes and judgement of a commit log;
 * see log.h and log_look.h. */
#include "common/log/log_look.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bytes.h"

#define VERSION    1
#define DIGITS     10
#define HEADER_CRC 124 /* where it is, and how much it covers */

static const uint8_t magic[8] = {'C', 'O', 'U', 'N', 'T', 'D', 'L', '1'};

/* ---- names -------------------------------------------------------------- */

void
log_name(uint64_t index, char name[LOG_NAME_SIZE])
{
    int i;

    assert(index <= LOG_INDEX_MAX);
    for (i = DIGITS - 1; i >= 0; i--, index /= 10)
        name[i] = (char)('0' + index % 10);
    name[DIGITS] = '\0';
}

void
log_lock_name(uint64_t index, char name[LOG_LOCK_SIZE])
{
    memcpy(name, "lock-", sizeof "lock-");
    log_name(index, name + 5);
}

int
log_parse_name(const char *file, uint64_t *index, bool *lock)
{
    const bool is_lock = strncmp(file, "lock-", 5) == 0;
    uint64_t value = 0;
    int i;

    if (is_lock)
        file += 5;
    for (i = 0; i < DIGITS; i++) {
        if (file[i] < '0' || file[i] > '9')
            return -EINVAL;
        value = value * 10 + (uint64_t)(file[i] - '0');
    }
    if (file[DIGITS] != '\0')
        return -EINVAL;
    *index = value;
    *lock = is_lock;
    return 0;
}

/* ---- header bytes ------------------------------------------------------- */

void
log_header_put(const struct log_header *h, uint8_t bytes[LOG_BLOCK_SIZE])
{
    memset(bytes, 0, LOG_BLOCK_SIZE);
    memcpy(bytes, magic, sizeof magic);
    put_le32(bytes + 8, VERSION);
    memcpy(bytes + 16, h->uuid, sizeof h->uuid);
    put_le64(bytes + 32, h->index);
    put_le64(bytes + 40, h->generation);
    put_le64(bytes + 48, h->epoch);
    put_le32(bytes + 56, (uint32_t)h->state);
    put_le32(bytes + 60, h->slot_size);
    put_le32(bytes + 64, h->slots);
    put_le16(bytes + 68, h->keyspace_size);
    put_le16(bytes + 70, h->key_size);
    put_le64(bytes + 72, h->count);
    put_le64(bytes + 80, h->first_ms);
    put_le64(bytes + 88, h->last_ms);
    memcpy(bytes + 96, h->boot_id, sizeof h->boot_id);
    put_le64(bytes + 112, h->pid);
    put_le32(bytes + HEADER_CRC, (uint32_t)crc32_z(0, bytes, HEADER_CRC));
}

/* A checksum says that the bytes are what was written; this, that it was
 * written by something that kept the rules. */
static bool
is_sane(const struct log_header *h)
{
    struct layout l;

    if (layout_init(&l, h->keyspace_size, h->key_size) < 0)
        return false;
    if (h->slot_size != l.slot_size || h->slots == 0)
        return false;
    if (h->index > LOG_INDEX_MAX || h->generation == 0)
        return false;
    if (h->generation >> 63 || h->epoch >> 63) /* nobody counts so far */
        return false;
    switch (h->state) {
    case LOG_EMPTY:
    case LOG_OPEN:
        return true;
    case LOG_SEALED:
        return h->count > 0 && h->count <= h->slots;
    }
    return false;
}

int
log_header_get(const uint8_t bytes[LOG_BLOCK_SIZE], struct log_header *out)
{
    struct log_header h;

    if (memcmp(bytes, magic, sizeof magic) != 0)
        return -EBADMSG;
    if (crc32_z(0, bytes, HEADER_CRC) != get_le32(bytes + HEADER_CRC))
        return -EBADMSG;
    if (get_le32(bytes + 8) != VERSION || get_le32(bytes + 12) != 0)
        return -EPROTONOSUPPORT;
    if (get_le32(bytes + 120) != 0)
        return -EBADMSG;
    if (!bytes_are_zero(bytes + LOG_HEADER_SIZE,
                        LOG_BLOCK_SIZE - LOG_HEADER_SIZE))
        return -EBADMSG;

    memcpy(h.uuid, bytes + 16, sizeof h.uuid);
    h.index = get_le64(bytes + 32);
    h.generation = get_le64(bytes + 40);
    h.epoch = get_le64(bytes + 48);
    h.state = (enum log_state)get_le32(bytes + 56);
    h.slot_size = get_le32(bytes + 60);
    h.slots = get_le32(bytes + 64);
    h.keyspace_size = get_le16(bytes + 68);
    h.key_size = get_le16(bytes + 70);
    h.count = get_le64(bytes + 72);
    h.first_ms = get_le64(bytes + 80);
    h.last_ms = get_le64(bytes + 88);
    memcpy(h.boot_id, bytes + 96, sizeof h.boot_id);
    h.pid = get_le64(bytes + 112);
    if (!is_sane(&h))
        return -EBADMSG;
    *out = h;
    return 0;
}

uint32_t
log_slots(uint64_t log_size, const struct layout *l)
{
    uint64_t slots;

    if (log_size < LOG_SLOTS_AT)
        return 0;
    slots = (log_size - LOG_SLOTS_AT) / l->slot_size;
    return slots > UINT32_MAX ? UINT32_MAX : (uint32_t)slots;
}

/* ---- reading ------------------------------------------------------------ */

uint8_t *
log_chunk_map(void)
{
    void *chunk = mmap(NULL, LOG_CHUNK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return chunk == MAP_FAILED ? NULL : chunk;
}

void
log_chunk_unmap(uint8_t *chunk)
{
    (void)munmap(chunk, LOG_CHUNK_SIZE); /* whole and ours: cannot fail */
}

int
log_pread(int fd, void *bytes, size_t size, uint64_t at)
{
    uint8_t *to = bytes;
    ssize_t n;

    while (size > 0) {
        n = pread(fd, to, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EBADMSG;
        to += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return 0;
}

/* Both blocks are valid: do they belong to one file and one history? */
static bool
agree(const struct log_header *a, const struct log_header *b)
{
    return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0 &&
           a->index == b->index && a->slots == b->slots &&
           a->keyspace_size == b->keyspace_size && a->key_size == b->key_size &&
           a->generation != b->generation;
}

/* Chooses the block that rules, or says why none does.  A block of a newer
 * version forbids to touch the file even when the other is one of ours. */
static int
choose(const int rc[2], const struct log_header h[2], uint64_t index,
       struct log_look *look)
{
    int ruling;

    if (rc[0] == -EPROTONOSUPPORT || rc[1] == -EPROTONOSUPPORT)
        return -EPROTONOSUPPORT;
    if (rc[0] < 0 && rc[1] < 0)
        return -EBADMSG;
    if (rc[0] == 0 && rc[1] == 0) {
        if (!agree(&h[0], &h[1]))
            return -EBADMSG;
        ruling = h[1].generation > h[0].generation;
    } else {
        ruling = rc[0] < 0;
    }
    if (index != UINT64_MAX && h[ruling].index != index)
        return -EBADMSG;
    look->header = h[ruling];
    look->turn = !ruling;
    return 0;
}

/* Slots that a file of this size is too short for. */
static uint32_t
missing_slots(const struct log_header *h, uint64_t file_size)
{
    uint64_t held = 0;

    if (file_size > LOG_SLOTS_AT)
        held = (file_size - LOG_SLOTS_AT) / h->slot_size;
    return held >= h->slots ? 0 : h->slots - (uint32_t)held;
}

int
log_look_headers(int fd, uint64_t index, struct log_look *look)
{
    uint8_t block[LOG_BLOCK_SIZE];
    struct log_header h[2];
    struct stat st;
    int rc[2], i;

    *look = (struct log_look){0};
    for (i = 0; i < 2; i++) {
        rc[i] =
            log_pread(fd, block, sizeof block, (uint64_t)i * LOG_BLOCK_SIZE);
        if (rc[i] == 0)
            rc[i] = log_header_get(block, &h[i]);
        else if (rc[i] != -EBADMSG)
            return rc[i];
        look->header_ok[i] = rc[i] == 0;
    }
    look->headers_rc = choose(rc, h, index, look);
    if (look->headers_rc < 0)
        return 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    look->missing = missing_slots(&look->header, (uint64_t)st.st_size);
    rc[0] = layout_init(&look->layout, look->header.keyspace_size,
                        look->header.key_size);
    assert(rc[0] == 0);
    return 0;
}

/* What one run over the slots sees. */
struct pass {
    uint64_t epoch;
    uint32_t limit;  /* slots below it must be valid: count those not */
    uint32_t broken; /* that many are not */
    uint32_t synced; /* slots that some valid one says were durable */
    uint64_t later;  /* highest epoch above `epoch` of a slot that checks */
    bool want_later;
};

static void
see_slot(struct log_look *look, struct pass *p, const uint8_t *slot,
         uint32_t number)
{
    struct slot_stamp stamp;
    struct message m;
    uint64_t epoch;

    if (slot_parse(&look->layout, slot, look->header.uuid, number, p->epoch, &m,
                   &stamp) == 0) {
        look->valid++;
        look->end = number + 1;
        if (look->prefix == number) {
            look->prefix++;
            look->last_ms = stamp.received_ms;
        }
        if (number == 0)
            look->first_ms = stamp.received_ms;
        /* No slot can know more than those before it. */
        if (stamp.synced > p->synced && stamp.synced <= number)
            p->synced = stamp.synced;
        return;
    }
    if (number < p->limit)
        p->broken++;
    if (!p->want_later)
        return;
    epoch = get_le64(slot + look->layout.message_size);
    if (epoch > p->epoch && epoch > p->later &&
        slot_parse(&look->layout, slot, look->header.uuid, number, epoch, &m,
                   &stamp) == 0)
        p->later = epoch;
}

static int
run(int fd, struct log_look *look, struct pass *p, uint8_t *chunk)
{
    const uint32_t size = look->layout.slot_size;
    const uint32_t there = look->header.slots - look->missing;
    uint32_t from, i, n;
    int rc;

    assert(size > 0 && size <= LOG_CHUNK_SIZE);
    look->prefix = look->valid = look->end = 0;
    look->first_ms = look->last_ms = 0;
    for (from = 0; from < there; from += n) {
        n = LOG_CHUNK_SIZE / size;
        if (n > there - from)
            n = there - from;
        rc = log_pread(fd, chunk, (size_t)n * size,
                       LOG_SLOTS_AT + (uint64_t)from * size);
        if (rc < 0)
            return rc;
        for (i = 0; i < n; i++)
            see_slot(look, p, chunk + (size_t)i * size, from + i);
    }
    return 0;
}

/* Runs over the slots, and once more over those that have to be valid when
 * the first run found that some are not: how many is known only after it. */
static int
judge(int fd, struct log_look *look, uint8_t *chunk)
{
    struct pass p = {.epoch = look->header.epoch};
    int rc;

    if (look->header.state == LOG_EMPTY)
        p.want_later = !look->header_ok[look->turn];
    if (look->header.state == LOG_SEALED)
        p.limit = (uint32_t)look->header.count;
    rc = run(fd, look, &p, chunk);
    if (rc < 0)
        return rc;

    /* The lost block said OPEN, and this one is what it followed. */
    if (p.later > 0) {
        look->header.state = LOG_OPEN;
        look->header.epoch = p.later;
        p = (struct pass){.epoch = p.later};
        rc = run(fd, look, &p, chunk);
        if (rc < 0)
            return rc;
    }
    /* What an EMPTY log holds is merged, and nothing in it is owed. */
    if (look->header.state == LOG_EMPTY)
        p.synced = 0;
    if (p.synced > p.limit)
        p.limit = p.synced;
    p.broken = 0;
    if (look->prefix < p.limit) {
        rc = run(fd, look, &p, chunk);
        if (rc < 0)
            return rc;
    }
    look->damaged = p.broken;
    return 0;
}

int
log_look_slots(int fd, struct log_look *look)
{
    const uint32_t missing = look->missing;
    uint8_t *chunk;
    int rc;

    assert(look->headers_rc == 0);
    chunk = log_chunk_map();
    if (!chunk)
        return -ENOMEM;
    rc = judge(fd, look, chunk);
    log_chunk_unmap(chunk);
    /* A log is written in full when it is created, so bytes that are not
     * there are damage whatever they were. */
    look->damaged += missing;
    return rc == -EBADMSG ? -EIO : rc; /* cut short while we read it */
}

int
log_inspect(int fd, uint64_t index, struct log_report *out)
{
    struct log_look look;
    int rc;

    rc = log_look_headers(fd, index, &look);
    if (rc < 0)
        return rc;
    if (look.headers_rc == 0) {
        rc = log_look_slots(fd, &look);
        if (rc < 0)
            return rc;
    }
    *out = (struct log_report){
        .headers_rc = look.headers_rc,
        .header_ok = {look.header_ok[0], look.header_ok[1]},
        .header = look.header,
        .valid = look.valid,
        .damaged = look.damaged,
        .end = look.end,
    };
    return 0;
}
