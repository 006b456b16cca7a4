/* writer/quota/journal_length.c - see journal_length.h. */
#include "writer/quota/journal_length.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/diag.h"
#include "common/base/files.h"

#define SIZE  44u
#define FLAGS (O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)

static const uint8_t magic[8] = {'C', 'O', 'U', 'N', 'T', 'D', 'L', '1'};

static uint64_t
inode_of(const struct journal *j)
{
    struct stat st;

    return fstat(j->fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Bytes read; negative: it is not there, or cannot be read. */
static ssize_t
read_length(int dirfd, uint8_t bytes[SIZE])
{
    const int fd = openat(dirfd, JOURNAL_LENGTH_NAME, O_RDONLY | FLAGS);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read_at(fd, bytes, SIZE, 0);
    (void)close(fd); /* only read */
    return n;
}

void
journal_length_check(const struct journal *j)
{
    uint8_t bytes[SIZE];
    const ssize_t n = read_length(j->dirfd, bytes);
    uint64_t records;

    if (n <= 0)
        return; /* a new journal; or one that was being made */
    if (n < (ssize_t)SIZE || memcmp(bytes, magic, 8) != 0 ||
        get_le32(bytes + 40) != crc_of(bytes, 40)) {
        diag(DIAG_WARNING,
             "data_dir/live/" JOURNAL_LENGTH_NAME
             " is damaged: whether the journal of quotas is an older copy "
             "cannot be told; it is written anew");
        return;
    }
    if (memcmp(bytes + 8, j->uuid, sizeof j->uuid) != 0)
        return; /* another journal */
    records = get_le64(bytes + 24);
    if (records > j->durable)
        diag(DIAG_WARNING,
             "data_dir/live/" JOURNAL_NAME " is an older copy, or was cut: it "
             "has %" PRIu64 " records and had %" PRIu64
             ": what was answered since is forgotten, and journal numbers are "
             "given again",
             j->durable, records);
    else if (get_le64(bytes + 32) != inode_of(j))
        diag(DIAG_WARNING,
             "data_dir/live/" JOURNAL_NAME
             " was put in place of another: if that was newer, what was "
             "answered since is forgotten, and journal numbers are given "
             "again");
}

static int
write_length(int dirfd, const uint8_t bytes[SIZE])
{
    const int fd =
        openat(dirfd, JOURNAL_LENGTH_NAME, O_WRONLY | O_CREAT | FLAGS, 0600);
    int rc;

    if (fd < 0)
        return -errno;
    rc = write_at(fd, bytes, SIZE, 0); /* within a sector: never torn */
    if (rc == 0 && fdatasync(fd) < 0)
        rc = -errno;
    (void)close(fd); /* synced, or failed already */
    return rc;
}

void
journal_length_write(const struct journal *j, uint64_t records)
{
    static struct diag_repeat said;
    uint8_t bytes[SIZE];
    int rc;

    memcpy(bytes, magic, 8);
    memcpy(bytes + 8, j->uuid, sizeof j->uuid);
    put_le64(bytes + 24, records);
    put_le64(bytes + 32, inode_of(j));
    put_le32(bytes + 40, crc_of(bytes, 40));
    rc = write_length(j->dirfd, bytes);
    if (rc < 0)
        diag_repeating(&said, DIAG_WARNING,
                       "write data_dir/live/" JOURNAL_LENGTH_NAME
                       ": %s: an older copy of the journal of quotas may not "
                       "be told",
                       diag_text(rc));
}
