/* writer/quota/journal_replay.c - the start of a journal: made, read, mended;
 * see journal.h.
 *
 * Reading goes on to the first record that is not good.  If a good GROUP stands
 * behind it, it was durable once, and the file is damaged.  Else it and all
 * that follows is of the last group, which nobody was answered for: it is cut.
 * The last group is written and synced once more, for it may be in memory only:
 * the process before may have ended, or been told of a failure, in its sync.
 */
#include "writer/quota/journal_internal.h"

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

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/files.h"

#define BLOCK     ((size_t)8192) /* records read at once */
#define TEMP_NAME JOURNAL_NAME ".tmp"

int
journal_exists(int dirfd, bool *exists)
{
    struct stat st;

    *exists = fstatat(dirfd, JOURNAL_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (*exists || errno == ENOENT)
        return 0;
    return -errno;
}

/* ---- making ------------------------------------------------------ */

static int
fill(int fd, const struct journal_header *h)
{
    uint8_t head[RECORDS_AT];
    int rc;

    journal_header_put(h, head);
    rc = write_at(fd, head, sizeof head, 0);
    if (rc == 0)
        rc = journal_write_zeros(fd, RECORDS_AT, JOURNAL_FIRST - RECORDS_AT);
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
    rc = fill(fd, &h);
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
    uint64_t change; /* where the change began that it is a part of */
    uint64_t group;  /* the last GROUP */
    uint64_t ms;
    bool ended;
    bool dirty; /* something stands behind the end */
    bool odd;   /* the file ends within a record */
};

static int
damaged(const struct replay *p, uint64_t record, const char *what)
{
    diag(DIAG_ERROR,
         "the journal of quotas is damaged: %s: data_dir/live/" JOURNAL_NAME
         " record=%" PRIu64 " byte=%" PRIu64,
         what, record, journal_byte(record));
    (void)p;
    return -EBADMSG;
}

/* Keeps the bytes of the last group. */
static bool
keep(struct replay *p, const uint8_t *bytes)
{
    struct journal_group *g = &p->j->groups[0];

    if (g->count == JOURNAL_GROUP)
        return false;
    memcpy(g->bytes + g->count * JOURNAL_RECORD_SIZE, bytes,
           JOURNAL_RECORD_SIZE);
    g->count++;
    return true;
}

/* A good record. */
static int
take_record(struct replay *p, const struct journal_record *r,
            const uint8_t *bytes)
{
    int rc = 0;

    if (r->type == JOURNAL_RECORD_GROUP) {
        if (p->change != p->at)
            return damaged(p, p->at, "a change is cut short");
        p->group = p->at;
        p->ms = (uint64_t)r->value;
        p->j->groups[0].first = p->at;
        p->j->groups[0].count = 0;
    } else if (p->at == 0) {
        return damaged(p, p->at, "no group begins it");
    }
    if (!keep(p, bytes))
        return damaged(p, p->at, "a group is too large");
    if (r->type != JOURNAL_RECORD_GROUP)
        rc = p->take(p->ctx, r, p->ms);
    if (rc == -EBADMSG)
        return damaged(p, p->at, "it contradicts what is before it");
    p->at++;
    if (!r->part)
        p->change = p->at;
    return rc;
}

/* A record behind the end. */
static int
look_behind(struct replay *p, uint64_t number, const uint8_t *bytes)
{
    struct journal_record r;

    if (journal_record_is_blank(bytes))
        return 0;
    p->dirty = true;
    if (journal_record_get(bytes, p->j->uuid, number, &r) == 0 &&
        r.type == JOURNAL_RECORD_GROUP)
        return damaged(p, p->at, "records that were durable are not good");
    return 0;
}

static int
take_block(struct replay *p, uint64_t first, size_t count)
{
    struct journal_record r;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++) {
        const uint8_t *bytes = p->block + i * JOURNAL_RECORD_SIZE;

        if (!p->ended &&
            journal_record_get(bytes, p->j->uuid, first + i, &r) == 0) {
            rc = take_record(p, &r, bytes);
            continue;
        }
        p->ended = true;
        rc = look_behind(p, first + i, bytes);
    }
    return rc;
}

static int
read_records(struct replay *p)
{
    uint64_t first = 0;
    ssize_t got;
    int rc;

    do {
        got = read_at(p->j->fd, p->block, BLOCK * JOURNAL_RECORD_SIZE,
                      journal_byte(first));
        if (got < 0)
            return (int)got;
        rc = take_block(p, first, (size_t)got / JOURNAL_RECORD_SIZE);
        first += (size_t)got / JOURNAL_RECORD_SIZE;
    } while (rc == 0 && got == (ssize_t)(BLOCK * JOURNAL_RECORD_SIZE));
    p->odd = (size_t)got % JOURNAL_RECORD_SIZE > 0;
    p->j->size = journal_byte(first);
    return rc;
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
                         " was made by a later version of countd");
        return rc;
    }
    if (rc < 0) {
        diag(DIAG_ERROR, "the journal of quotas is damaged: both copies of its "
                         "header: data_dir/live/" JOURNAL_NAME);
        return rc;
    }
    if (one_bad)
        diag(DIAG_WARNING,
             "one copy of the header of data_dir/live/" JOURNAL_NAME
             " is damaged; the other is good");
    memcpy(j->uuid, h.uuid, sizeof j->uuid);
    j->limit = h.limit;
    return 0;
}

/* ---- mending ----------------------------------------------------- */

/* The last group is written again up to its last whole change, and zeros behind
 * it. */
static int
mend(struct replay *p)
{
    struct journal *j = p->j;
    struct journal_group *g = &j->groups[0];
    int rc = 0;

    if (p->change < p->at)
        p->dirty = true;
    g->count = (size_t)(p->change - g->first);
    if (p->dirty) {
        j->cut = 1;
        diag(DIAG_WARNING,
             "the journal of quotas ends within a group that nobody was "
             "answered for: cut off from record=%" PRIu64 " byte=%" PRIu64,
             p->change, journal_byte(p->change));
        rc = journal_write_zeros(j->fd, journal_byte(p->change),
                                 j->size - journal_byte(p->change));
    }
    if (rc == 0 && g->count > 0)
        rc = write_at(j->fd, g->bytes, g->count * JOURNAL_RECORD_SIZE,
                      journal_byte(g->first));
    if (rc == 0 && p->odd && ftruncate(j->fd, (off_t)j->size) < 0)
        rc = -errno;
    if (rc == 0 && fsync(j->fd) < 0)
        rc = -errno;
    j->marked = g->count == 1 || p->change == 0;
    j->durable = p->change;
    j->groups[0] =
        (struct journal_group){.bytes = g->bytes, .first = p->change};
    j->groups[1].first = p->change;
    return rc;
}

static int
replay(struct journal *j, int (*begin)(void *ctx, const struct journal *j),
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
    if (rc == 0)
        rc = read_records(&p);
    if (rc == 0)
        rc = mend(&p);
    free(p.block);
    return rc;
}

int
journal_open(struct journal *j, int dirfd,
             int (*begin)(void *ctx, const struct journal *j),
             journal_take *take, void *ctx)
{
    int rc;

    *j = (struct journal){.dirfd = dirfd, .fd = -1};
    j->fd = openat(dirfd, JOURNAL_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (j->fd < 0)
        return -errno;
    rc = replay(j, begin, take, ctx);
    if (rc < 0)
        journal_close(j);
    return rc;
}
