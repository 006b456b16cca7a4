/* writer/sequence_mark.c - see sequence_mark.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/sequence_mark.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/base/files.h"
#include "common/journal/requests.h"

#define MARK_SIZE  44
#define ID_AT      24
#define CRC_AT     40
#define MAGIC_SIZE 8

static const uint8_t magic[MAGIC_SIZE] = {'C', 'O', 'U', 'N',
                                          'T', 'D', 'S', '2'};

/* ---- moving ------------------------------------------------------------- */

/* The identity is there already. */
static void
format_mark(const struct sequence_mark *m, uint64_t until,
            uint8_t bytes[MARK_SIZE])
{
    memcpy(bytes, magic, MAGIC_SIZE);
    put_le32(bytes + 8, m->reserve);
    put_le32(bytes + 12, m->server_no);
    put_le64(bytes + 16, until);
    put_le32(bytes + CRC_AT, crc_of(bytes, CRC_AT));
}

static int
write_file(const struct sequence_mark *m, const char *name, uint64_t until)
{
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    const int fd = openat(m->dirfd, name, flags, 0600);
    uint8_t bytes[MARK_SIZE];
    int rc;

    if (fd < 0)
        return -errno;
    rc = file_identity(fd, bytes + ID_AT);
    if (rc == 0) {
        format_mark(m, until, bytes);
        rc = write_at(fd, bytes, MARK_SIZE, 0);
    }
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    (void)close(fd);
    return rc;
}

int
sequence_mark_move(struct sequence_mark *m, uint64_t until)
{
    char temp[SEQUENCE_MARK_NAME_SIZE + 4];
    int rc;

    assert(until >= m->until);
    (void)snprintf(temp, sizeof temp, "%s.new", m->name);
    /* Sync the file before the rename: the name must never lead to a mark that
     * a power loss can take back. */
    rc = write_file(m, temp, until);
    if (rc == 0 && renameat(m->dirfd, temp, m->dirfd, m->name) < 0)
        rc = -errno;
    if (rc == 0 && fsync(m->dirfd) < 0)
        rc = -errno;
    if (rc == 0)
        m->until = until;
    return rc;
}

/* ---- reading ------------------------------------------------------------ */

/* Whether a folder has anything in it but `but`, which each start makes.  One
 * that cannot be read counts as empty: the result only decides about a warning.
 */
static bool
has_entries(int dirfd, const char *folder, const char *but)
{
    const char *name;
    DIR *dir;
    int rc;

    rc = dirstream_open(dirfd, folder, &dir);
    if (rc < 0)
        return false;
    do
        rc = dirstream_next(dir, &name);
    while (rc > 0 && strcmp(name, but) == 0);
    (void)closedir(dir);
    return rc > 0;
}

static void
report_missing(const struct sequence_mark *m)
{
    if (has_entries(m->dirfd, ".", strchr(REQUESTS_FOLDER, '/') + 1) ||
        has_entries(m->dirfd, "../keyspace", ""))
        diag(DIAG_WARNING,
             "live/%s does not exist, and the data directory is in use: "
             "numbers begin at the clock; if this server has given numbers and "
             "the clock was set back since, some may be given twice",
             m->name);
}

static int
parse_mark(struct sequence_mark *m, const uint8_t *bytes, ssize_t size)
{
    if (size == MARK_SIZE && memcmp(bytes, magic, MAGIC_SIZE) == 0 &&
        get_le32(bytes + CRC_AT) == crc_of(bytes, CRC_AT) &&
        get_le32(bytes + 8) == m->reserve &&
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

static int
read_file(struct sequence_mark *m, int fd)
{
    uint8_t bytes[MARK_SIZE + 1], id[FILE_IDENTITY_SIZE];
    const ssize_t size = read_at(fd, bytes, sizeof bytes, 0);
    int rc;

    if (size < 0)
        return (int)size;
    rc = file_identity(fd, id);
    if (rc == 0)
        rc = parse_mark(m, bytes, size);
    if (rc == 0)
        m->is_copy = memcmp(bytes + ID_AT, id, FILE_IDENTITY_SIZE) != 0;
    return rc;
}

int
sequence_mark_read(struct sequence_mark *m, int dirfd, uint32_t reserve,
                   uint32_t server_no)
{
    int fd, rc;

    *m = (struct sequence_mark){
        .dirfd = dirfd, .reserve = reserve, .server_no = server_no};
    (void)snprintf(m->name, sizeof m->name, "sequence-%u-%u", reserve,
                   server_no);
    fd = openat(dirfd, m->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        report_missing(m);
        return 0;
    }
    rc = fd < 0 ? -errno : read_file(m, fd);
    if (fd >= 0)
        (void)close(fd);
    if (rc < 0 && rc != -EBADMSG)
        diag_errno(DIAG_ERROR, rc, "read live/%s", m->name);
    return rc;
}
