/* writer/quota/journal.c - see journal.h: journal_put(), journal_sync(),
 * journal_checkpoint(); at a start journal_make(), journal_open().
 *
 * The journal ends at its first bad record, if that record is not before the
 * noted end, belongs to the last group, and a piece of that group is missing: a
 * kill or a loss of power leaves zeros, never other bytes.  Any other bad
 * record is damage.
 *
 * A start writes and syncs the last group once more, because it may be only in
 * memory: the process before may have ended before its sync, or the sync may
 * have failed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/crc.h"
#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/base/state_file.h"

#define TEMP_NAME  JOURNAL_NAME ".new"
#define NOTE_MAGIC "COUNTDE1"
#define GROUP_SIZE (JOURNAL_GROUP * JOURNAL_RECORD_SIZE)

static uint64_t
byte_of(const struct journal *j, uint64_t record)
{
    return j->records_at + (record - j->head.first) * JOURNAL_RECORD_SIZE;
}

/* The byte where records begin after a checkpoint of this size. */
static uint64_t
records_after(uint64_t checkpoint_size)
{
    return RECORDS_AT + (checkpoint_size + 4095) / 4096 * 4096;
}

/* ---- the note ---------------------------------------------------- */

int
journal_file_exists(int dirfd, const char *name, bool *exists)
{
    *exists = faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return *exists || errno == ENOENT ? 0 : -errno;
}

static int
write_note(const struct journal *j, uint64_t end)
{
    uint8_t bytes[JOURNAL_NOTE_SIZE] = {0};

    memcpy(bytes + 8, j->head.uuid, sizeof j->head.uuid);
    put_le64(bytes + 40, end);
    put_le32(bytes + 64, j->head.generation);
    return state_write(j->note_fd, bytes, sizeof bytes, NOTE_MAGIC);
}

/* Opens or makes the note, and returns its end; 0: it has none. */
static int
read_note(struct journal *j, uint64_t *end)
{
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    uint8_t bytes[JOURNAL_NOTE_SIZE];
    int rc;

    *end = 0;
    j->note_fd = openat(j->dirfd, JOURNAL_NOTE_NAME, flags, 0600);
    if (j->note_fd < 0)
        return -errno;
    rc = state_read(j->note_fd, bytes, sizeof bytes, NOTE_MAGIC);
    if (rc < 0 && rc != -EBADMSG)
        return rc == -ENOENT ? 0 : rc; /* a new one */
    if (rc < 0)
        diag(DIAG_WARNING, "data_dir/live/" JOURNAL_NOTE_NAME
                           " is damaged and is written anew; an older copy of "
                           "the quota journal may go undetected");
    else if (memcmp(bytes + 8, j->head.uuid, sizeof j->head.uuid) != 0)
        diag(DIAG_WARNING, "data_dir/live/" JOURNAL_NOTE_NAME
                           " belongs to another quota journal, which was "
                           "replaced");
    else
        *end = get_le64(bytes + 40);
    return 0;
}

/* ---- groups ------------------------------------------------------ */

size_t
journal_free(const struct journal *j)
{
    const struct journal_group *g = &j->groups[j->collecting];
    const uint64_t end =
        j->head.first + (j->size - j->records_at) / JOURNAL_RECORD_SIZE;
    const uint64_t used = g->first + (g->count == 0 ? 1 : g->count);
    const size_t left = JOURNAL_GROUP - g->count;

    if (used >= end)
        return 0;
    return end - used < left ? (size_t)(end - used) : left;
}

void
journal_put(struct journal *j, const struct journal_record *r)
{
    struct journal_group *g = &j->groups[j->collecting];

    assert(journal_free(j) > 0);
    if (g->count == 0)
        g->count = 1; /* the GROUP record, written when the group is whole */
    journal_record_put(r, j->head.uuid, g->first + g->count,
                       g->bytes + g->count * JOURNAL_RECORD_SIZE);
    g->count++;
}

void
journal_begin(struct journal *j, uint64_t now_ms)
{
    struct journal_group *g = &j->groups[j->collecting];
    const struct journal_record r = {.type = JOURNAL_RECORD_GROUP,
                                     .value = (int64_t)now_ms,
                                     .after = (int64_t)g->count - 1};

    assert(!j->in_flight);
    if (g->count > 0)
        journal_record_put(&r, j->head.uuid, g->first, g->bytes);
    j->in_flight = true;
    j->collecting = 1 - j->collecting;
    j->groups[j->collecting].first = g->first + g->count;
    j->groups[j->collecting].count = 0;
}

int
journal_sync(struct journal *j)
{
    const struct journal_group *g = &j->groups[1 - j->collecting];
    int rc;

    if (g->count == 0)
        return 0;
    rc = write_at(j->fd, g->bytes, g->count * JOURNAL_RECORD_SIZE,
                  byte_of(j, g->first));
    if (rc == 0 && fdatasync(j->fd) < 0)
        rc = -errno;
    /* A note that cannot be written fails the group: an older copy of the
     * journal would not be recognised. */
    return rc < 0 ? rc : write_note(j, g->first + g->count);
}

void
journal_end(struct journal *j, int rc)
{
    struct journal_group *g = &j->groups[1 - j->collecting];

    j->in_flight = false;
    if (rc < 0)
        return;
    j->durable = g->first + g->count;
    g->count = 0;
}

void
journal_close(struct journal *j)
{
    if (j->fd >= 0)
        (void)close(j->fd);
    if (j->note_fd >= 0)
        (void)close(j->note_fd);
    for (unsigned i = 0; i < 2; i++)
        free(j->groups[i].bytes);
    *j = (struct journal){.fd = -1, .note_fd = -1};
}

/* ---- checkpoints ------------------------------------------------- */

bool
journal_needs_checkpoint(const struct journal *j)
{
    return byte_of(j, j->durable) + 2 * GROUP_SIZE > j->size;
}

/* The header is written last, and the file is synced as a whole. */
static int
write_file(int fd, const struct journal_header *h, const uint8_t *state,
           uint64_t *size)
{
    const uint64_t state_end = RECORDS_AT + h->checkpoint_size;
    uint8_t head[RECORDS_AT];
    int rc;

    *size = records_after(h->checkpoint_size) + JOURNAL_GROWTH +
            h->checkpoint_size + 2 * GROUP_SIZE;
    journal_header_put(h, head);
    rc = write_at(fd, state, h->checkpoint_size, RECORDS_AT);
    if (rc == 0)
        rc = write_zeros(fd, *size - state_end, state_end);
    if (rc == 0)
        rc = write_at(fd, head, sizeof head, 0);
    return rc == 0 && fsync(fd) < 0 ? -errno : rc;
}

/* Writes a new file durably (header, state, zeros for the records) and renames
 * it into place.  Returns its descriptor; the folder is not synced. */
static int
new_file(int dirfd, const struct journal_header *h, const uint8_t *state,
         uint64_t *size)
{
    const int flags = O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    const int fd = openat(dirfd, TEMP_NAME, flags, 0600);
    int rc;

    if (fd < 0)
        return -errno;
    rc = write_file(fd, h, state, size);
    if (rc == 0 && renameat(dirfd, TEMP_NAME, dirfd, JOURNAL_NAME) < 0)
        rc = -errno;
    if (rc == 0)
        return fd;
    (void)close(fd);
    (void)unlinkat(dirfd, TEMP_NAME, 0); /* it may have filled the disk */
    return rc;
}

static int
report_failure(int rc)
{
    static struct diag_repeat warning;

    diag_repeating(
        &warning, DIAG_WARNING,
        "write data_dir/live/" TEMP_NAME
        ": %s; when the quota journal is full, changes of quotas are "
        "refused until this works",
        diag_text(rc));
    return 0;
}

int
journal_checkpoint(struct journal *j, uint64_t end, const uint8_t *state,
                   size_t state_size)
{
    struct journal_header h = j->head;
    uint64_t size;
    int fd;

    h.generation++;
    h.first = end;
    h.checkpoint_size = state_size;
    h.checkpoint_crc = crc_of(state, state_size);
    fd = new_file(j->dirfd, &h, state, &size);
    if (fd < 0)
        return report_failure(fd);
    (void)close(j->fd);
    j->fd = fd;
    j->head = h;
    j->records_at = records_after(state_size);
    j->size = size;
    return fsync(j->dirfd) < 0 ? -errno : write_note(j, end);
}

/* ---- a new journal ----------------------------------------------- */

int
journal_make(int dirfd, int64_t limit)
{
    struct journal_header h = {.limit = limit, .made_ms = clock_unix_ms()};
    uint64_t size;
    int fd, rc = 0;

    if (getrandom(h.uuid, sizeof h.uuid, 0) != (ssize_t)sizeof h.uuid)
        return -EIO;
    fd = new_file(dirfd, &h, NULL, &size);
    if (fd < 0)
        return fd;
    if (fsync(dirfd) < 0)
        rc = -errno;
    (void)close(fd); /* synced */
    return rc;
}

/* ---- reading ----------------------------------------------------- */

struct replay {
    struct journal *j;
    const struct journal_reader *reader;
    const uint8_t *bytes; /* the whole file */
    uint64_t end;         /* number of the record after the last one */
    uint64_t noted;       /* the note's end */
    uint64_t at;          /* number of the next record */
    uint64_t change;      /* first record of the current change */
    uint64_t group;       /* the last GROUP */
    uint64_t next;        /* where the next GROUP belongs */
    uint64_t ms;
    uint64_t dirty; /* after the last record past the end with bytes; or 0 */
};

static const uint8_t *
bytes_of(const struct replay *p, uint64_t record)
{
    return p->bytes + byte_of(p->j, record);
}

static bool
get_record(const struct replay *p, uint64_t number, struct journal_record *r)
{
    return number < p->end &&
           journal_record_get(bytes_of(p, number), p->j->head.uuid, number,
                              r) == 0;
}

static int
report_damage(const struct replay *p, uint64_t record, const char *what)
{
    diag(DIAG_ERROR,
         "the quota journal is damaged: %s: data_dir/live/" JOURNAL_NAME
         " record=%" PRIu64 " byte=%" PRIu64,
         what, record, byte_of(p->j, record));
    return -EBADMSG;
}

static int
take_group(struct replay *p, const struct journal_record *r)
{
    if (p->change != p->at)
        return report_damage(p, p->at, "a change is cut short");
    if (r->part || r->after < 0 || (uint64_t)r->after >= JOURNAL_GROUP)
        return report_damage(p, p->at, "the record of a group is not valid");
    p->group = p->at;
    p->next = p->at + 1 + (uint64_t)r->after;
    p->ms = (uint64_t)r->value;
    return 0;
}

static int
take_record(struct replay *p, const struct journal_record *r)
{
    int rc;

    if (r->type == JOURNAL_RECORD_GROUP)
        rc = take_group(p, r);
    else if (p->at == p->j->head.first)
        return report_damage(p, p->at, "no group begins it");
    else if (p->at - p->group >= JOURNAL_GROUP)
        return report_damage(p, p->at, "a group is too large");
    else
        rc = p->reader->take(p->reader->ctx, r, p->ms);
    if (rc == -EBADMSG && r->type != JOURNAL_RECORD_GROUP)
        return report_damage(p, p->at, "it contradicts what is before it");
    p->at++;
    if (!r->part)
        p->change = p->at;
    return rc;
}

/* Takes the records up to the end.  A group is begun when the group before it
 * is durable, so there is no good group after the end. */
static int
read_records(struct replay *p)
{
    struct journal_record r;
    int rc = 0;

    while (rc == 0 && get_record(p, p->at, &r))
        rc = take_record(p, &r);
    for (uint64_t i = p->at; rc == 0 && i < p->end; i++) {
        if (journal_record_is_blank(bytes_of(p, i)))
            continue;
        p->dirty = i + 1;
        if (get_record(p, i, &r) && r.type == JOURNAL_RECORD_GROUP)
            rc = report_damage(p, p->at,
                               "records that were durable are not good");
    }
    return rc;
}

/* Whether a piece of the records from `from` to `to` is missing: the file ends
 * in them, or one of their words is zero, which no written word is. */
static bool
has_gap(const struct replay *p, uint64_t from, uint64_t to)
{
    bool gap = to > p->end;

    if (to - from > JOURNAL_GROUP)
        return false;
    for (uint64_t at = 0; !gap && at < (to - from) * JOURNAL_RECORD_SIZE;
         at += 8)
        gap = get_le64(bytes_of(p, from) + at) == 0;
    return gap;
}

/* Bytes after the end must be the rest of a group that a kill or a loss of
 * power tore. */
static int
check_end(const struct replay *p)
{
    const bool within = p->at < p->next;

    if (p->at < p->noted) {
        diag(DIAG_ERROR,
             "the quota journal is damaged, or is an older copy: "
             "data_dir/live/" JOURNAL_NAME " has %" PRIu64
             " records that are good and had %" PRIu64
             ": restore the newer one; to serve this one nevertheless, which "
             "forgets what was answered since, remove "
             "data_dir/live/" JOURNAL_NOTE_NAME,
             p->at, p->noted);
        return -EBADMSG;
    }
    if ((within && !has_gap(p, p->group, p->next)) ||
        (!within && p->dirty > 0 && !has_gap(p, p->at, p->dirty)))
        return report_damage(p, p->at,
                             "a record of the last group is not good");
    return 0;
}

static int
report_bad(const char *what)
{
    diag(DIAG_ERROR,
         "the quota journal is damaged: %s: data_dir/live/" JOURNAL_NAME, what);
    return -EBADMSG;
}

/* Reads the header, and the checkpoint after it. */
static int
read_header(struct replay *p, uint64_t size)
{
    struct journal *j = p->j;
    struct journal_header *h = &j->head;
    bool one_bad;
    int rc;

    rc = size < RECORDS_AT ? -EBADMSG
                           : journal_header_get(p->bytes, h, &one_bad);
    if (rc == -EPROTO)
        diag(DIAG_ERROR, "data_dir/live/" JOURNAL_NAME
                         " was written by a newer version of countd");
    if (rc < 0)
        return rc == -EPROTO ? rc : report_bad("both copies of its header");
    if (one_bad)
        diag(DIAG_WARNING,
             "one copy of the header of data_dir/live/" JOURNAL_NAME
             " is damaged; the other is good");
    if (h->checkpoint_size > size - RECORDS_AT ||
        crc_of(p->bytes + RECORDS_AT, h->checkpoint_size) != h->checkpoint_crc)
        return report_bad("its checkpoint");
    j->records_at = records_after(h->checkpoint_size);
    p->end = h->first;
    if (size > j->records_at)
        p->end += (size - j->records_at) / JOURNAL_RECORD_SIZE;
    j->size = byte_of(j, p->end);
    p->at = p->change = p->group = p->next = h->first;
    rc = p->reader->begin(p->reader->ctx, h->limit, p->bytes + RECORDS_AT,
                          h->checkpoint_size);
    return rc == -EBADMSG ? report_bad("its checkpoint") : rc;
}

/* ---- repairing --------------------------------------------------- */

static int
cut_rest(struct replay *p)
{
    struct journal *j = p->j;
    const uint64_t byte = byte_of(j, p->change);

    j->cut = true;
    diag(DIAG_WARNING,
         "quota journal: removed an incomplete group at record=%" PRIu64
         " byte=%" PRIu64 "; none of its requests was answered",
         p->change, byte);
    return write_zeros(j->fd, j->size - byte, byte);
}

/* Writes the last group again, up to its last whole change, and zeros after
 * it. */
static int
repair_end(struct replay *p)
{
    struct journal *j = p->j;
    int rc = 0;

    if (p->dirty > 0 || p->change < p->at)
        rc = cut_rest(p);
    if (rc == 0 && p->change > p->group)
        rc = write_at(j->fd, bytes_of(p, p->group),
                      (p->change - p->group) * JOURNAL_RECORD_SIZE,
                      byte_of(j, p->group));
    if (rc == 0 && ftruncate(j->fd, (off_t)j->size) < 0)
        rc = -errno; /* a part of a record */
    if (rc == 0 && fsync(j->fd) < 0)
        rc = -errno;
    /* A checkpoint may have been renamed without a sync of the folder. */
    if (rc == 0 && fsync(j->dirfd) < 0)
        rc = -errno;
    j->durable = j->groups[0].first = j->groups[1].first = p->change;
    return rc < 0 ? rc : write_note(j, p->change);
}

/* Reads the whole file. */
static int
read_file(int fd, uint8_t **bytes, uint64_t *size)
{
    struct stat st;
    ssize_t got;

    if (fstat(fd, &st) < 0)
        return -errno;
    *bytes = malloc((size_t)st.st_size + 1);
    if (!*bytes)
        return -ENOMEM;
    got = read_at(fd, *bytes, (size_t)st.st_size, 0);
    *size = got < 0 ? 0 : (uint64_t)got;
    return got < 0 ? (int)got : 0;
}

static int
replay_journal(struct journal *j, const struct journal_reader *reader)
{
    struct replay p = {.j = j, .reader = reader};
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    int rc = 0;

    for (unsigned i = 0; i < 2; i++) {
        j->groups[i].bytes = malloc(JOURNAL_GROUP * JOURNAL_RECORD_SIZE);
        if (!j->groups[i].bytes)
            return -ENOMEM;
    }
    rc = read_file(j->fd, &bytes, &size);
    p.bytes = bytes;
    if (rc == 0)
        rc = read_header(&p, size);
    if (rc == 0)
        rc = read_note(j, &p.noted);
    if (rc == 0)
        rc = read_records(&p);
    if (rc == 0)
        rc = check_end(&p);
    if (rc == 0)
        rc = repair_end(&p);
    free(bytes);
    return rc;
}

int
journal_open(struct journal *j, int dirfd, const struct journal_reader *reader)
{
    int rc;

    *j = (struct journal){.dirfd = dirfd, .fd = -1, .note_fd = -1};
    j->fd = openat(dirfd, JOURNAL_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (j->fd < 0)
        return -errno;
    rc = replay_journal(j, reader);
    if (rc < 0)
        journal_close(j);
    return rc;
}
