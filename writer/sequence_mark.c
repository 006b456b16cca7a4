/* writer/sequence_mark.c - see sequence_mark.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/sequence_mark.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/base/state_file.h"

#define MAGIC     "COUNTDS2"
#define MARK_SIZE 44

int
sequence_mark_move(struct sequence_mark *m, uint64_t until)
{
    uint8_t bytes[MARK_SIZE] = {0};
    int rc;

    assert(until >= m->until);
    put_le32(bytes + 8, m->reserve);
    put_le32(bytes + 12, m->server_no);
    put_le64(bytes + 16, until);
    rc = state_write(m->fd, bytes, sizeof bytes, MAGIC);
    if (rc == 0 && fdatasync(m->fd) < 0)
        rc = -errno;
    if (rc == 0)
        m->until = until;
    return rc;
}

static int
read_mark(struct sequence_mark *m)
{
    uint8_t bytes[MARK_SIZE];
    const int rc = state_read(m->fd, bytes, sizeof bytes, MAGIC);

    if (rc < 0 && rc != -EBADMSG)
        return rc == -ENOENT ? 0 : rc; /* a new one */
    if (rc == 0 && get_le32(bytes + 8) == m->reserve &&
        get_le32(bytes + 12) == m->server_no) {
        m->until = get_le64(bytes + 16);
        return 0;
    }
    diag(DIAG_ERROR,
         "live/%s is damaged: no sequence number is given; when the clock is "
         "right and past the second of the last number that was given (countd "
         "seq explain), remove the file and start again",
         m->name);
    return -EBADMSG;
}

int
sequence_mark_open(struct sequence_mark *m, int dirfd, uint32_t reserve,
                   uint32_t server_no)
{
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    int rc;

    *m = (struct sequence_mark){.reserve = reserve, .server_no = server_no};
    (void)snprintf(m->name, sizeof m->name, "sequence-%u-%u", reserve,
                   server_no);
    m->fd = openat(dirfd, m->name, flags, 0600);
    /* The name is durable before a number is given. */
    rc = m->fd < 0 || fsync(dirfd) < 0 ? -errno : 0;
    if (rc == 0)
        rc = read_mark(m);
    if (rc < 0 && rc != -EBADMSG)
        diag_errno(DIAG_ERROR, rc, "open live/%s", m->name);
    return rc;
}

void
sequence_mark_close(struct sequence_mark *m)
{
    if (m->fd >= 0)
        (void)close(m->fd);
    m->fd = -1;
}
