/* writer/quota/journal_replay.c - the start of a journal: it is made, read and
 * repaired; see journal.h.
 *
 * Entry points: journal_make(), journal_open().
 *
 * The journal ends at the first record that is not good, if that is not before
 * the noted end (journal_note.h), belongs to the last group, and a piece of
 * that group is missing: a kill or a loss of power leaves zeros, never other
 * bytes.  Anything else is damage.
 *
 * The last group is written and synced once more, because it may be in memory
 * only: the process before may have ended, or a sync may have failed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/files.h"

#define BLOCK     ((size_t)8192) /* records read at once */
#define TEMP_NAME JOURNAL_NAME ".tmp"

/* ---- making ------------------------------------------------------ */

static int
write_new(int fd, const struct journal_header *h)
{
    uint8_t head[RECORDS_AT];
    int rc;

    journal_header_put(h, head);
    rc = write_at(fd, head, sizeof head, 0);
    if (rc == 0)
        rc = write_zeros(fd, JOURNAL_FIRST - RECORDS_AT, RECORDS_AT);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    return rc;
}

int
journal_make(int dirfd, int64_t limit)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    struct journal_header h = {.limit = limit, .made_ms = clock_unix_ms()};
    int fd, rc;

    if (getrandom(h.uuid, sizeof h.uuid, 0) != (ssize_t)sizeof h.uuid)
        return -EIO;
    /* What a crash in here left. */
    if (unlinkat(dirfd, TEMP_NAME, 0) < 0 && errno != ENOENT)
        return -errno;
    fd = openat(dirfd, TEMP_NAME, flags, 0600);
    if (fd < 0)
        return -errno;
    rc = write_new(fd, &h);
    if (rc == 0 && renameat(dirfd, TEMP_NAME, dirfd, JOURNAL_NAME) < 0)
        rc = -errno;
    if (rc == 0 && fsync(dirfd) < 0)
        rc = -errno;
    (void)close(fd); /* synced, or of no use */
    return rc;
}

/* ---- reading ----------------------------------------------------- */

struct replay {
    struct journal *j;
    journal_take *take;
    void *ctx;
    uint8_t *block;
    uint64_t at;     /* number of the next record */
    uint64_t change; /* first record of the current change */
    uint64_t group;  /* the last GROUP */
    uint64_t next;   /* where the next GROUP belongs */
    uint64_t ms;
    uint64_t dirty; /* after the last record with bytes after the end; or 0 */
    bool ended;
    bool odd; /* the file ends within a record */
};

static int
report_damage(const struct replay *p, uint64_t record, const char *what)
{
    diag(DIAG_ERROR,
         "the quota journal is damaged: %s: data_dir/live/" JOURNAL_NAME
         " record=%" PRIu64 " byte=%" PRIu64,
         what, record, journal_byte(p->j, record));
    return -EBADMSG;
}

/* Stores the bytes of the last group. */
static bool
store_bytes(struct replay *p, const uint8_t *bytes)
{
    struct journal_group *g = &p->j->groups[0];

    if (g->count == JOURNAL_GROUP)
        return false;
    memcpy(g->bytes + g->count * JOURNAL_RECORD_SIZE, bytes,
           JOURNAL_RECORD_SIZE);
    g->count++;
    return true;
}

static int
take_record(struct replay *p, const struct journal_record *r,
            const uint8_t *bytes)
{
    int rc = 0;

    if (r->type == JOURNAL_RECORD_GROUP) {
        if (p->change != p->at)
            return report_damage(p, p->at, "a change is cut short");
        if (r->part || r->after < 0 || (uint64_t)r->after >= JOURNAL_GROUP)
            return report_damage(p, p->at,
                                 "the record of a group is not valid");
        p->group = p->at;
        p->next = p->at + 1 + (uint64_t)r->after;
        p->ms = (uint64_t)r->value;
        p->j->groups[0].first = p->at;
        p->j->groups[0].count = 0;
    } else if (p->at == p->j->head.first) {
        return report_damage(p, p->at, "no group begins it");
    }
    if (!store_bytes(p, bytes))
        return report_damage(p, p->at, "a group is too large");
    if (r->type != JOURNAL_RECORD_GROUP)
        rc = p->take(p->ctx, r, p->ms);
    if (rc == -EBADMSG)
        return report_damage(p, p->at, "it contradicts what is before it");
    p->at++;
    if (!r->part)
        p->change = p->at;
    return rc;
}

/* A record at or after the end.  A group is begun when the one before it is
 * durable. */
static int
check_rest(struct replay *p, uint64_t number, const uint8_t *bytes)
{
    struct journal_record r;

    if (journal_record_is_blank(bytes))
        return 0;
    p->dirty = number + 1;
    if (journal_record_get(bytes, p->j->head.uuid, number, &r) < 0 ||
        r.type != JOURNAL_RECORD_GROUP)
        return 0;
    return report_damage(p, p->at, "records that were durable are not good");
}

static int
take_block(struct replay *p, uint64_t first, size_t count)
{
    struct journal_record r;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++) {
        const uint8_t *bytes = p->block + i * JOURNAL_RECORD_SIZE;

        if (!p->ended &&
            journal_record_get(bytes, p->j->head.uuid, first + i, &r) == 0) {
            rc = take_record(p, &r, bytes);
            continue;
        }
        p->ended = true;
        rc = check_rest(p, first + i, bytes);
    }
    return rc;
}

static int
read_records(struct replay *p)
{
    uint64_t first = p->j->head.first;
    ssize_t got;
    int rc;

    do {
        got = read_at(p->j->fd, p->block, BLOCK * JOURNAL_RECORD_SIZE,
                      journal_byte(p->j, first));
        if (got < 0)
            return (int)got;
        rc = take_block(p, first, (size_t)got / JOURNAL_RECORD_SIZE);
        first += (size_t)got / JOURNAL_RECORD_SIZE;
    } while (rc == 0 && got == (ssize_t)(BLOCK * JOURNAL_RECORD_SIZE));
    p->odd = (size_t)got % JOURNAL_RECORD_SIZE > 0;
    p->j->size = journal_byte(p->j, first);
    return rc;
}

/* ---- the end ----------------------------------------------------- */

/* Whether a piece of the records from `from` to `to` is missing: the file ends
 * in them, or one of their words is zero, which none was when it was written.
 */
static int
has_gap(const struct replay *p, uint64_t from, uint64_t to, bool *gap)
{
    const size_t size = (size_t)(to - from) * JOURNAL_RECORD_SIZE;
    uint8_t *bytes = p->j->groups[1].bytes;
    ssize_t got;

    got = read_at(p->j->fd, bytes, size, journal_byte(p->j, from));
    if (got < 0)
        return (int)got;
    *gap = (size_t)got < size;
    for (size_t at = 0; !*gap && at < size; at += 8)
        *gap = get_le64(bytes + at) == 0;
    return 0;
}

/* What is after the end must be the rest of a group that a kill or a loss of
 * power tore. */
static int
check_torn(const struct replay *p)
{
    const bool within = p->at < p->next;
    const uint64_t from = within ? p->group : p->at;
    const uint64_t to = within ? p->next : p->dirty;
    bool gap = false;
    int rc = 0;

    if (!within && p->dirty == 0)
        return 0;
    if (to - from <= JOURNAL_GROUP)
        rc = has_gap(p, from, to, &gap);
    if (rc == 0 && !gap)
        rc = report_damage(p, p->at, "a record of the last group is not good");
    return rc;
}

static int
check_end(const struct replay *p)
{
    const struct journal_note *note = &p->j->note;

    if (p->at < note->end) {
        diag(DIAG_ERROR,
             "the quota journal is damaged, or is an older copy: "
             "data_dir/live/" JOURNAL_NAME " has %" PRIu64
             " records that are good and had %" PRIu64
             ": restore the newer one; to serve this one nevertheless, which "
             "forgets what was answered since, remove "
             "data_dir/live/" JOURNAL_NOTE_NAME,
             p->at, note->end);
        return -EBADMSG;
    }
    if (note->is_copy)
        diag(DIAG_WARNING,
             "data_dir/live/" JOURNAL_NAME
             " was put in place of another: if that was newer, what was "
             "answered since is forgotten, and journal numbers are given "
             "again");
    return check_torn(p);
}

static int
read_header(struct journal *j)
{
    uint8_t head[RECORDS_AT];
    struct journal_header h;
    bool one_bad;
    ssize_t got;
    int rc;

    got = read_at(j->fd, head, sizeof head, 0);
    if (got < 0)
        return (int)got;
    rc = got < (ssize_t)sizeof head ? -EBADMSG
                                    : journal_header_get(head, &h, &one_bad);
    if (rc == -EPROTO) {
        diag(DIAG_ERROR, "data_dir/live/" JOURNAL_NAME
                         " was written by a newer version of countd");
        return rc;
    }
    if (rc < 0) {
        diag(DIAG_ERROR, "the quota journal is damaged: both copies of its "
                         "header: data_dir/live/" JOURNAL_NAME);
        return rc;
    }
    if (one_bad)
        diag(DIAG_WARNING,
             "one copy of the header of data_dir/live/" JOURNAL_NAME
             " is damaged; the other is good");
    j->head = h;
    /* A size that a file cannot have, which no checksum vouches for. */
    if (h.checkpoint_size > INT64_MAX / 2)
        return report_damage(&(struct replay){.j = j}, h.first, "its header");
    j->records_at = journal_records_at(h.checkpoint_size);
    return journal_note_open(&j->note, j->dirfd, JOURNAL_NOTE_NAME, j->fd,
                             j->head.uuid, h.generation);
}

/* ---- repairing --------------------------------------------------- */

static int
cut_rest(struct replay *p)
{
    struct journal *j = p->j;

    j->cut = 1;
    diag(DIAG_WARNING,
         "quota journal: removed an incomplete group at record=%" PRIu64
         " byte=%" PRIu64 "; none of its requests was answered",
         p->change, journal_byte(j, p->change));
    return write_zeros(j->fd, j->size - journal_byte(j, p->change),
                       journal_byte(j, p->change));
}

/* Writes the last group again, up to its last whole change, and zeros after
 * it. */
static int
repair_end(struct replay *p)
{
    struct journal *j = p->j;
    struct journal_group *g = &j->groups[0];
    int rc = 0;

    g->count = (size_t)(p->change - g->first);
    if (p->dirty > 0 || p->change < p->at)
        rc = cut_rest(p);
    if (rc == 0 && g->count > 0)
        rc = write_at(j->fd, g->bytes, g->count * JOURNAL_RECORD_SIZE,
                      journal_byte(j, g->first));
    if (rc == 0 && p->odd && ftruncate(j->fd, (off_t)j->size) < 0)
        rc = -errno;
    if (rc == 0 && fsync(j->fd) < 0)
        rc = -errno;
    /* A checkpoint may have been renamed and not have been synced. */
    if (rc == 0 && fsync(j->dirfd) < 0)
        rc = -errno;
    if (rc == 0)
        rc = journal_note_write(&j->note, p->change);
    if (rc == 0)
        journal_note_sync(&j->note);
    j->durable = p->change;
    j->groups[0] =
        (struct journal_group){.bytes = g->bytes, .first = p->change};
    j->groups[1].first = p->change;
    return rc;
}

static int
replay_journal(struct journal *j,
               int (*begin)(void *ctx, const struct journal *j),
               journal_take *take, void *ctx)
{
    struct replay p = {.j = j, .take = take, .ctx = ctx};
    int rc;

    p.block = malloc(BLOCK * JOURNAL_RECORD_SIZE);
    if (!p.block)
        return -ENOMEM;
    rc = journal_groups_init(j);
    if (rc == 0)
        rc = read_header(j);
    if (rc == 0)
        rc = begin(ctx, j);
    if (rc == -EBADMSG)
        diag(DIAG_ERROR, "the quota journal is damaged: its checkpoint: "
                         "data_dir/live/" JOURNAL_NAME);
    p.at = p.change = p.group = p.next = j->head.first;
    j->groups[0].first = j->head.first;
    if (rc == 0)
        rc = read_records(&p);
    if (rc == 0)
        rc = check_end(&p);
    if (rc == 0)
        rc = repair_end(&p);
    free(p.block);
    return rc;
}

int
journal_open(struct journal *j, int dirfd,
             int (*begin)(void *ctx, const struct journal *j),
             journal_take *take, void *ctx)
{
    int rc;

    *j = (struct journal){.dirfd = dirfd, .fd = -1, .note.fd = -1};
    j->fd = openat(dirfd, JOURNAL_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (j->fd < 0)
        return -errno;
    rc = replay_journal(j, begin, take, ctx);
    if (rc < 0)
        journal_close(j);
    return rc;
}
