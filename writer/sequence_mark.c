/* writer/sequence_mark.c - see sequence_mark.h. */
#include "writer/sequence_mark.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/crc.h"
#include "common/base/diag.h"
#include "common/base/files.h"

#define COPIES     2
#define COPY_AT    4096
#define FILE_SIZE  (COPIES * COPY_AT)
#define FILE_FLAGS (O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
#define FILE_MODE  0600
#define TOUCHED_MS                                                             \
    2000 /* a change so long after the last write is another's                 \
          */

struct mark_copy {
    uint8_t magic[8];
    uint8_t reserve[4];
    uint8_t server_no[4];
    uint8_t generation[8];
    uint8_t until[8];
    uint8_t written[8];
    uint8_t inode[8];
    uint8_t zero[12];
    uint8_t crc[4];
};

static_assert(sizeof(struct mark_copy) == 64, "as in the header");
static_assert(offsetof(struct mark_copy, crc) == 60, "as in the header");

static const char magic[] = "COUNTDS1";

/* ---- copies ------------------------------------------------------------- */

static void
make_copy(const struct sequence_mark *m, uint64_t until, struct mark_copy *c)
{
    memset(c, 0, sizeof *c);
    memcpy(c->magic, magic, sizeof c->magic);
    put_le32(c->reserve, m->reserve);
    put_le32(c->server_no, m->server_no);
    put_le64(c->generation, m->generation);
    put_le64(c->until, until);
    put_le64(c->written, clock_unix_ms());
    put_le64(c->inode, m->inode);
    put_le32(c->crc,
             crc_of((const uint8_t *)c, offsetof(struct mark_copy, crc)));
}

static bool
is_whole(const struct sequence_mark *m, const struct mark_copy *c)
{
    return memcmp(c->magic, magic, sizeof c->magic) == 0 &&
           get_le32(c->crc) ==
               crc_of((const uint8_t *)c, offsetof(struct mark_copy, crc)) &&
           get_le32(c->reserve) == m->reserve &&
           get_le32(c->server_no) == m->server_no;
}

static int
write_copy(const struct sequence_mark *m, int i, uint64_t until)
{
    struct mark_copy c;
    int rc;

    make_copy(m, until, &c);
    rc = write_at(m->fd, &c, sizeof c, (uint64_t)i * COPY_AT);
    if (rc < 0)
        return rc;
    return fdatasync(m->fd) < 0 ? -errno : 0;
}

int
sequence_mark_move(struct sequence_mark *m, uint64_t until)
{
    int rc = 0;

    assert(until >= m->until);
    m->generation++;
    /* One after the other: a power cut tears one at most. */
    for (int i = 0; rc == 0 && i < COPIES; i++)
        rc = write_copy(m, i, until);
    if (rc == 0)
        m->until = until;
    return rc;
}

/* ---- reading ------------------------------------------------------------ */

/* Bytes read; those behind the end of the file are zero. */
static int
read_copy(const struct sequence_mark *m, int i, struct mark_copy *c)
{
    ssize_t n;

    memset(c, 0, sizeof *c);
    n = read_at(m->fd, c, sizeof *c, (uint64_t)i * COPY_AT);
    return n < 0 ? (int)n : 0;
}

static bool
was_replaced(const struct sequence_mark *m, const struct stat *st,
             uint64_t written_ms, uint64_t inode)
{
    const uint64_t changed_ms =
        (uint64_t)st->st_ctim.tv_sec * 1000 +
        (uint64_t)st->st_ctim.tv_nsec / UINT64_C(1000000);

    return inode != m->inode || changed_ms > written_ms + TOUCHED_MS;
}

static int
judge_replaced(const struct sequence_mark *m, uint64_t written_ms)
{
    if (clock_unix_ms() < written_ms) {
        diag(DIAG_ERROR,
             "live/%s was put in place of another, and the clock is behind the "
             "time when it was written: numbers could be given twice, so none "
             "is; set the clock and start again",
             m->name);
        return -ESTALE;
    }
    diag(DIAG_WARNING,
         "live/%s was put in place of another, or touched; no number is given "
         "twice unless the clock was set back after it was written",
         m->name);
    return 0;
}

static int
read_mark(struct sequence_mark *m, const struct stat *st)
{
    struct mark_copy copies[COPIES];
    uint64_t written_ms = 0, inode = 0;
    int whole = 0, rc = 0;

    for (int i = 0; rc == 0 && i < COPIES; i++) {
        const struct mark_copy *c = &copies[i];

        rc = read_copy(m, i, &copies[i]);
        if (rc < 0 || !is_whole(m, c))
            continue;
        whole++;
        /* The higher of each: one may be of a move that was cut short. */
        if (get_le64(c->generation) >= m->generation)
            inode = get_le64(c->inode);
        if (get_le64(c->generation) > m->generation)
            m->generation = get_le64(c->generation);
        if (get_le64(c->until) > m->until)
            m->until = get_le64(c->until);
        if (get_le64(c->written) > written_ms)
            written_ms = get_le64(c->written);
    }
    if (rc < 0)
        return rc;
    if (whole == 0) {
        diag(DIAG_ERROR,
             "live/%s is damaged, both copies of it: no sequence number is "
             "given; when the clock is right and past the second of the last "
             "number that was given (countd seq explain), remove it",
             m->name);
        return -EBADMSG;
    }
    if (whole < COPIES)
        diag(DIAG_WARNING,
             "live/%s: one of two copies is damaged; the other is enough, and "
             "is written twice again",
             m->name);
    m->replaced = was_replaced(m, st, written_ms, inode);
    return m->replaced ? judge_replaced(m, written_ms) : 0;
}

/* ---- making ------------------------------------------------------------- */

/* A file with both copies, under another name first: one that is begun and not
 * whole would look damaged. */
static int
make_file(const struct sequence_mark *m, int dirfd)
{
    static const uint8_t zeros[FILE_SIZE];
    struct sequence_mark made = *m;
    char temp[SEQUENCE_MARK_NAME_SIZE + 4];
    struct stat st;
    int rc;

    (void)snprintf(temp, sizeof temp, "%s.new", m->name); /* fits */
    made.fd = openat(dirfd, temp, FILE_FLAGS | O_CREAT | O_TRUNC, FILE_MODE);
    if (made.fd < 0)
        return -errno;
    rc = fstat(made.fd, &st) < 0 ? -errno : 0;
    made.inode = (uint64_t)st.st_ino;
    if (rc == 0)
        rc = write_at(made.fd, zeros, sizeof zeros, 0);
    if (rc == 0)
        rc = sequence_mark_move(&made, 0);
    if (rc == 0 && fsync(made.fd) < 0)
        rc = -errno;
    (void)close(made.fd); /* synced, or given up */
    if (rc == 0 && renameat(dirfd, temp, dirfd, m->name) < 0)
        rc = -errno;
    return rc;
}

static int
open_file(struct sequence_mark *m, int dirfd)
{
    int rc;

    m->fd = openat(dirfd, m->name, FILE_FLAGS);
    if (m->fd < 0 && errno == ENOENT) {
        rc = make_file(m, dirfd);
        if (rc < 0)
            return rc;
        m->fd = openat(dirfd, m->name, FILE_FLAGS);
    }
    if (m->fd < 0)
        return -errno;
    if (flock(m->fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    /* Also when it was there: who made it may have died before this. */
    return fsync(dirfd) < 0 ? -errno : 0;
}

int
sequence_mark_open(struct sequence_mark *m, int dirfd, uint32_t reserve,
                   uint32_t server_no)
{
    struct stat st;
    int rc;

    *m = (struct sequence_mark){
        .fd = -1, .reserve = reserve, .server_no = server_no};
    (void)snprintf(m->name, sizeof m->name, "sequence-%u-%u", reserve,
                   server_no); /* fits */
    rc = open_file(m, dirfd);
    if (rc == 0 && fstat(m->fd, &st) < 0)
        rc = -errno;
    if (rc == 0 && !S_ISREG(st.st_mode))
        rc = -ELOOP;
    if (rc == 0) {
        m->inode = (uint64_t)st.st_ino;
        rc = read_mark(m, &st);
    }
    if (rc == -EBUSY)
        diag(DIAG_ERROR,
             "another process has live/%s: give it another "
             "sequence.server_no, or stop it",
             m->name);
    else if (rc < 0 && rc != -EBADMSG && rc != -ESTALE)
        diag_errno(DIAG_ERROR, rc, "open live/%s", m->name);
    if (rc < 0)
        sequence_mark_close(m);
    return rc;
}

void
sequence_mark_close(struct sequence_mark *m)
{
    if (m->fd >= 0)
        (void)close(m->fd); /* all that counts is synced */
    m->fd = -1;
}
