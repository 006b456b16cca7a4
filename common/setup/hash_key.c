/* common/setup/hash_key.c - see hash_key.h. */
#include "common/setup/hash_key.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/base/files.h"
#include "common/setup/disk.h"

#define FILE_FLAGS (O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
#define FILE_MODE  0600
#define KEY_CRC    28 /* where it is, and how much it covers */

struct key_file {
    uint8_t magic[8];
    uint8_t key[NAME_HASH_KEY];
    uint8_t zero[4];
    uint8_t crc[4];
};

static_assert(sizeof(struct key_file) == 32, "file size is fixed");
static_assert(_Alignof(struct key_file) == 1, "may sit at any address");
static_assert(offsetof(struct key_file, crc) == KEY_CRC, "file offset");

static const uint8_t magic[8] = {'C', 'O', 'U', 'N', 'T', 'D', 'K', '1'};

static uint32_t
crc_of(const struct key_file *f)
{
    return (uint32_t)crc32_z(0, (const uint8_t *)f, KEY_CRC);
}

static bool
is_whole(const struct key_file *f)
{
    return memcmp(f->magic, magic, sizeof magic) == 0 &&
           get_le32(f->crc) == crc_of(f) && get_le32(f->zero) == 0;
}

/*   -EBADMSG  not such a file, or damaged; -ELOOP  a link */
static int
read_key(int dirfd, uint8_t key[NAME_HASH_KEY])
{
    uint8_t bytes[sizeof(struct key_file) + 1];
    struct key_file f;
    struct stat st;
    ssize_t size;
    int fd, rc = 0;

    fd = openat(dirfd, "%key", O_RDONLY | FILE_FLAGS);
    if (fd < 0)
        return -errno;
    size = read_at(fd, bytes, sizeof bytes, 0);
    if (size < 0)
        rc = (int)size;
    else if (fstat(fd, &st) < 0)
        rc = -errno;
    else if (size != sizeof f || !S_ISREG(st.st_mode))
        rc = -EBADMSG;
    (void)close(fd); /* only read */
    if (rc < 0)
        return rc;
    memcpy(&f, bytes, sizeof f);
    if (!is_whole(&f))
        return -EBADMSG;
    memcpy(key, f.key, NAME_HASH_KEY);
    return 0;
}

/* A random key under its name at once and whole, or not at all.  When two try,
 * link(2) lets one through and both read what that one wrote. */
static int
make_key(int dirfd)
{
    struct key_file f = {.zero = {0}};
    char temp[DISK_TEMP_SIZE];
    ssize_t size;
    int fd, rc;

    rc = disk_temp_name("%key-", temp);
    if (rc < 0)
        return rc;
    memcpy(f.magic, magic, sizeof magic);
    if (getrandom(f.key, sizeof f.key, 0) != (ssize_t)sizeof f.key)
        return -EIO;
    put_le32(f.crc, crc_of(&f));
    fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | FILE_FLAGS,
                FILE_MODE);
    if (fd < 0)
        return -errno;
    do
        size = pwrite(fd, &f, sizeof f, 0);
    while (size < 0 && errno == EINTR);
    if (size >= 0 && size != (ssize_t)sizeof f)
        rc = -ENOSPC;
    else if (size < 0 || fsync(fd) < 0)
        rc = -errno;
    (void)close(fd); /* synced, or unlinked below */
    if (rc == 0 && linkat(dirfd, temp, dirfd, "%key", 0) < 0 && errno != EEXIST)
        rc = -errno;
    if (unlinkat(dirfd, temp, 0) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

/* 1 when there is a file of a long name, 0 when there is none. */
static int
has_hashed_files(int dirfd)
{
    const char *name;
    DIR *dir;
    int rc;

    rc = dirstream_open(dirfd, ".", &dir);
    if (rc < 0)
        return rc;
    do
        rc = dirstream_next(dir, &name);
    while (rc > 0 && strncmp(name, "%h", 2) != 0);
    (void)closedir(dir); /* only read */
    return rc;
}

/* There is no key: may one be made? */
static int
may_make(int dirfd, bool make)
{
    const int rc = has_hashed_files(dirfd);

    if (rc == 0 && make)
        return 0;
    if (rc == 0) {
        diag(DIAG_ERROR, "the data directory has no file keyspace/%%key yet; "
                         "start countd-write or countd-worker on it first");
        return -ENOENT;
    }
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read the folder keyspace");
        return rc;
    }
    diag(DIAG_ERROR,
         "keyspace/%%key is gone, and without it the files of long keyspace "
         "names (keyspace/%%h*) cannot be found; restore it from a backup of "
         "this data directory");
    return -EBADMSG;
}

static int
refuse_damaged(int dirfd)
{
    if (has_hashed_files(dirfd) == 0)
        diag(DIAG_ERROR,
             "keyspace/%%key is damaged; there are no files of long keyspace "
             "names (keyspace/%%h*) that need it: stop all daemons and remove "
             "it, a new one is made");
    else
        diag(DIAG_ERROR,
             "keyspace/%%key is damaged, and without it the files of long "
             "keyspace names (keyspace/%%h*) cannot be found; restore it from "
             "a backup of this data directory");
    return -EBADMSG;
}

int
hash_key_load(int keyspace_fd, bool make, uint8_t key[NAME_HASH_KEY])
{
    int rc;

    rc = read_key(keyspace_fd, key);
    if (rc == -ENOENT) {
        rc = may_make(keyspace_fd, make);
        if (rc < 0)
            return rc;
        rc = make_key(keyspace_fd);
        if (rc == 0)
            rc = read_key(keyspace_fd, key);
    }
    if (rc == -EBADMSG || rc == -ELOOP)
        return refuse_damaged(keyspace_fd);
    /* Also when it was there: its maker may have died before this. */
    if (rc == 0 && make && fsync(keyspace_fd) < 0)
        rc = -errno;
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "read or make the file keyspace/%%key");
    return rc;
}
