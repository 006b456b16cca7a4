/* writer/quota/journal_replay.c - the start of a journal: it is made, read and
 * repaired; see journal.h.
 *
 * Entry points: journal_make(), journal_open().
 *
 * The journal ends at the first record that is not good, if that is not before
 * the noted end, belongs to the last group, and a piece of that group is
 * missing: a kill or a loss of power leaves zeros, never other bytes.  Anything
 * else is damage.
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
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/crc.h"
#include "common/base/diag.h"
#include "common/base/files.h"

int
journal_make(int dirfd, int64_t limit)
{
    struct journal_header h = {.limit = limit, .made_ms = clock_unix_ms()};
    uint64_t size;
    int fd, rc = 0;

    if (getrandom(h.uuid, sizeof h.uuid, 0) != (ssize_t)sizeof h.uuid)
        return -EIO;
    fd = journal_write_file(dirfd, &h, NULL, &size);
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
    uint64_t end;         /* number of the record behind it */
    uint64_t noted;       /* the note's end */
    uint64_t at;          /* number of the next record */
    uint64_t change;      /* first record of the current change */
    uint64_t group;       /* the last GROUP */
    uint64_t next;        /* where the next GROUP belongs */
    uint64_t ms;
    uint64_t dirty; /* after the last record with bytes after the end; or 0 */
};

static const uint8_t *
bytes_of(const struct replay *p, uint64_t record)
{
    return p->bytes + journal_byte(p->j, record);
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
         what, record, journal_byte(p->j, record));
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

/* Takes the records up to the end.  A group is begun when the one before it is
 * durable: none is good behind the end. */
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
 * in them, or one of their words is zero, which none was when it was written.
 */
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

/* Bytes after the end must be the rest of a group that a kill or a loss of power
 * tore. */
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

/* The header, and the checkpoint behind it. */
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
    j->records_at = journal_records_at(h->checkpoint_size);
    p->end = h->first;
    if (size > j->records_at)
        p->end += (size - j->records_at) / JOURNAL_RECORD_SIZE;
    j->size = journal_byte(j, p->end);
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
    const uint64_t byte = journal_byte(j, p->change);

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
                      journal_byte(j, p->group));
    if (rc == 0 && ftruncate(j->fd, (off_t)j->size) < 0)
        rc = -errno; /* a part of a record */
    if (rc == 0 && fsync(j->fd) < 0)
        rc = -errno;
    /* A checkpoint may have been renamed and not have been synced. */
    if (rc == 0 && fsync(j->dirfd) < 0)
        rc = -errno;
    j->durable = j->groups[0].first = j->groups[1].first = p->change;
    return rc < 0 ? rc : journal_write_note(j, p->change);
}

/* Reads the file as a whole. */
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
        rc = journal_read_note(j, &p.noted);
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
