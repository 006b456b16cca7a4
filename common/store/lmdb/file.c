/* common/store/lmdb/file.c - keyspace files as files: create, check,
 * clean.
 *
 * LMDB's own creation does not survive a crash (a file of zeros is invalid for
 * ever), so a file is made under a %t name, committed, closed, synced, and
 * then renamed without replacing: of two creators one wins and the other opens
 * the winner's.  The creator holds a flock on the file; one that can be taken
 * on an old %t file belongs to the dead.
 */
#include "common/store/lmdb/keyspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/dirstream.h"

#define TEMP_PREFIX "%t"
#define TEMP_AGE_MS 60000
#define LOCK_TRIES  5
#define WALK_TRIES  4
#define WALK_SIZE   ((uint64_t)256 << 20)

/* LMDB 0.9's meta page, native byte order: a 16-byte page header, then magic
 * u32, version u32, address u64, map size u64, two 48-byte database records
 * (the first begins with the page size u32), last page u64, txn id u64. */
#define META_MAGIC    0xbeefc0deu
#define META_VERSION  1u
#define META_SIZE     152
#define META_FREE_AT  40
#define META_MAIN_AT  88
#define META_MAGIC_AT 16
#define META_MAP_AT   32
#define META_PAGE_AT  40
#define META_LAST_AT  136
#define META_TXN_AT   144

/* LMDB 0.9's lock file: two heads and the readers, each of one cache line. */
#define LOCK_SIZE ((off_t)(2 + KEYSPACE_READERS) * 64)

void
keyspace_path(int dir_fd, const char *file, char path[KEYSPACE_PATH_SIZE])
{
    (void)snprintf(path, KEYSPACE_PATH_SIZE, "/proc/self/fd/%d/%s", dir_fd,
                   file); /* sized for the longest */
}

/* Reads the meta page at `at`; -EBADMSG when it is none. */
static int
meta_read(int fd, off_t at, struct keyspace_meta *out)
{
    uint8_t bytes[META_SIZE];
    uint32_t magic, version;
    ssize_t size;

    size = pread(fd, bytes, sizeof bytes, at);
    if (size < 0)
        return -errno;
    if (size != (ssize_t)sizeof bytes)
        return -EBADMSG;
    memcpy(&magic, bytes + META_MAGIC_AT, sizeof magic);
    memcpy(&version, bytes + META_MAGIC_AT + 4, sizeof version);
    memcpy(&out->map_size, bytes + META_MAP_AT, sizeof out->map_size);
    memcpy(&out->page_size, bytes + META_PAGE_AT, sizeof out->page_size);
    memcpy(&out->last_page, bytes + META_LAST_AT, sizeof out->last_page);
    memcpy(&out->txn, bytes + META_TXN_AT, sizeof out->txn);
    memcpy(out->free, bytes + META_FREE_AT, sizeof out->free);
    memcpy(out->main, bytes + META_MAIN_AT, sizeof out->main);
    return magic == META_MAGIC && version == META_VERSION ? 0 : -EBADMSG;
}

int
keyspace_file_meta(int fd, uint64_t txn, struct keyspace_meta *out,
                   const char **why)
{
    struct keyspace_meta m, other;
    int rc;

    *why = "it is not an LMDB file";
    rc = meta_read(fd, 0, &m);
    if (rc < 0)
        return rc;
    if (m.page_size < 512 || m.page_size > 65536 ||
        (m.page_size & (m.page_size - 1)) != 0) {
        *why = "its page size is damaged";
        return -EBADMSG;
    }
    *why = "its second meta page is damaged";
    rc = meta_read(fd, (off_t)m.page_size, &other);
    if (rc == 0 && other.page_size != m.page_size)
        rc = -EBADMSG;
    if (rc < 0)
        return rc;
    if (txn != 0 ? other.txn == txn : other.txn > m.txn)
        m = other;
    if (txn != 0 && m.txn != txn)
        return -EAGAIN;
    if (m.map_size > KEYSPACE_MAP_MAX ||
        m.last_page >= KEYSPACE_MAP_MAX / m.page_size) {
        *why = "its size is damaged";
        return -EBADMSG;
    }
    *out = m;
    return 0;
}

static void
no_fault(void *ctx, const char *text)
{
    (void)ctx;  /* it is enough to know that there was one */
    (void)text; /* likewise */
}

int
keyspace_file_walk(int fd, struct keyspace_walk *walk)
{
    struct keyspace_walk quiet = *walk;
    struct keyspace_meta m, now;
    const char *why;
    int rc;

    quiet.fault = no_fault;

    /* Pages of a snapshot that no reader holds may be written again while we
     * look: faults count only when there has been no commit meanwhile. */
    for (unsigned i = 0; i < WALK_TRIES; i++) {
        rc = keyspace_file_meta(fd, 0, &m, &why);
        if (rc == 0)
            rc = keyspace_walk(fd, &m, &quiet);
        if (rc < 0 || quiet.faults == 0)
            break;
        rc = keyspace_file_meta(fd, 0, &now, &why);
        if (rc < 0)
            break;
        /* Not from the first look, which may have met half a commit. */
        if (now.txn == m.txn)
            return keyspace_walk(fd, &now, walk);
    }
    walk->used_pages = quiet.used_pages;
    walk->free_pages = quiet.free_pages;
    walk->faults = 0;
    return rc;
}

/* Whether LMDB can use the pages.  LMDB may count pages at the end that it
 * never wrote, so a file that is shorter than its meta page says may be whole;
 * and the pages of a large file are only read where a crash of the reader
 * would cost more than the time. */
static int
pages_check(int fd, uint64_t size, bool writable, const char **why)
{
    struct keyspace_walk walk = {.fault = no_fault, .quick = true};
    struct keyspace_meta m;
    bool whole;
    int rc;

    rc = keyspace_file_meta(fd, 0, &m, why);
    if (rc < 0)
        return rc;
    whole = (m.last_page + 1) * m.page_size <= size;
    if (whole && !writable && size > WALK_SIZE)
        return 0;
    *why = whole ? "its pages are damaged" : "it is shorter than it says it is";
    rc = keyspace_file_walk(fd, &walk);
    if (rc < 0) {
        *why = "read its pages";
        return rc;
    }
    return walk.faults > 0 ? -EBADMSG : 0;
}

int
keyspace_file_check(int dir_fd, const char *file, bool writable,
                    const char **why)
{
    struct stat st;
    int fd, rc;

    *why = "cannot open it";
    /* Not blocking: to open a FIFO would wait for somebody to write to it. */
    fd = openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP) {
        *why = "it is a symbolic link";
        return -EBADMSG;
    }
    if (fd < 0 && errno == ENXIO) {
        *why = "it is a socket";
        return -EBADMSG;
    }
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0) {
        rc = -errno;
        goto close_fd;
    }
    if (!S_ISREG(st.st_mode)) {
        *why = "it is not a regular file";
        rc = -EBADMSG;
        goto close_fd;
    }
    rc = pages_check(fd, (uint64_t)st.st_size, writable, why);

close_fd:
    (void)close(fd); /* only read */
    return rc;
}

/* Gives the lock file the blocks it lacks; LMDB sets its size. */
static int
lock_room(int fd, const char **why)
{
    struct stat st;
    int rc;

    if (fstat(fd, &st) < 0)
        return -errno;
    *why = "its lock file is not a regular file";
    if (!S_ISREG(st.st_mode))
        return -EBADMSG;
    *why = "make its lock file";
    if (st.st_size <= LOCK_SIZE && (off_t)st.st_blocks * 512 >= LOCK_SIZE)
        return 0;
    do
        rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, LOCK_SIZE) < 0 ? -errno : 0;
    while (rc == -EINTR);
    if (rc == -EDQUOT)
        return -ENOSPC; /* of the user; here it is for too many keyspaces */

    /* Not on this file system: LMDB must do without. */
    return rc == -EOPNOTSUPP || rc == -ENOSYS ? 0 : rc;
}

int
keyspace_file_lock(int dir_fd, const char *file, const char **why)
{
    char lock[KEYSPACE_FILE_SIZE + 8];
    int fd, rc;

    *why = "make its lock file";
    (void)snprintf(lock, sizeof lock, "%s-lock", file); /* fits */
    fd = openat(dir_fd, lock,
                O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    rc = fd < 0 ? -errno : 0;
    if (rc == -EDQUOT)
        return -ENOSPC;
    if (rc == -ELOOP) {
        *why = "its lock file is a symbolic link";
        return -EBADMSG;
    }
    /* LMDB reads without one where nothing can be written, or says it. */
    if (rc == -EROFS || rc == -EACCES || rc == -EPERM)
        return 0;
    if (rc < 0)
        return rc;
    rc = lock_room(fd, why);
    (void)close(fd); /* nothing was written through it */
    return rc;
}

/* ---- making files ------------------------------------------------------ */

/* What is in a keyspace without rows. */
static int
fill_txn(struct lmdb *s, MDB_txn *txn, const uint8_t *name, size_t name_size,
         struct marks *marks)
{
    static const char *const names[] = {"keys", "ranks", "meta"};
    struct keyspace_state state = {.change = 1};
    MDB_dbi dbi = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof names / sizeof *names; i++)
        rc = lmdb_error(mdb_dbi_open(txn, names[i], MDB_CREATE, &dbi));
    for (int i = 0; i < KEYSPACE_TREES; i++)
        state.roots[i].next_id = 1;
    if (rc == 0)
        rc = keyspace_header_put(txn, dbi, &s->options, name, name_size);
    for (size_t i = 0; i < marks->count; i++)
        marks->found[i].there = false;
    if (rc == 0)
        rc = marks_write(txn, dbi, &state, marks, NULL);
    return rc < 0 ? rc : keyspace_state_put(txn, dbi, &state);
}

/* Writes the empty keyspace through LMDB; the caller makes it durable. */
static int
fill_file(struct lmdb *s, const char *path, const uint8_t *name,
          size_t name_size, struct marks *marks)
{
    MDB_txn *txn = NULL;
    MDB_env *env;
    int rc;

    rc = lmdb_error(mdb_env_create(&env));
    if (rc < 0)
        return rc;
    rc = lmdb_error(mdb_env_set_maxdbs(env, 8));
    if (rc == 0)
        rc = lmdb_error(mdb_env_set_mapsize(
            env, KEYSPACE_MAP_FIRST + marks->count * KEYSPACE_MARK_SIZE * 2));

    /* Nobody else knows this file yet: no lock file, and one fsync of our own
     * afterwards instead of LMDB's. */
    if (rc == 0)
        rc = lmdb_error(mdb_env_open(
            env, path, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOLOCK | MDB_NOSYNC,
            0600));
    if (rc == 0)
        rc = lmdb_error(mdb_txn_begin(env, NULL, 0, &txn));
    if (rc == 0)
        rc = fill_txn(s, txn, name, name_size, marks);
    if (rc == 0)
        rc = lmdb_error(mdb_txn_commit(txn));
    else if (txn != NULL)
        mdb_txn_abort(txn);
    mdb_env_close(env);
    return rc;
}

/* Makes a durable %t file of a keyspace without rows; returns its
 * descriptor. */
static int
make_file(struct lmdb *s, const uint8_t *name, size_t name_size,
          const struct store_mark *marks, size_t count,
          char temp[KEYSPACE_FILE_SIZE])
{
    const int dir_fd = s->options.keyspace_fd;
    char path[KEYSPACE_PATH_SIZE];
    struct marks m;
    int fd, rc;

    rc = marks_init(&m, marks, count);
    if (rc < 0)
        return rc;
    fd = keyspace_file_temp(dir_fd, temp);
    if (fd < 0) {
        marks_fini(&m);
        return fd;
    }
    keyspace_path(dir_fd, temp, path);
    rc = fill_file(s, path, name, name_size, &m);
    marks_fini(&m);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    if (rc == 0)
        return fd;
    (void)unlinkat(dir_fd, temp, 0); /* a left over one is cleaned later */
    (void)close(fd);                 /* it is no longer anybody's */
    return rc;
}

int
keyspace_file_rename(int dir_fd, const char *from, const char *to)
{
    if (renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;

    /* Not on this file system: a link does not replace either. */
    if (linkat(dir_fd, from, dir_fd, to, 0) < 0)
        return -errno;
    return unlinkat(dir_fd, from, 0) < 0 ? -errno : 0;
}

int
keyspace_file_temp(int dir_fd, char temp[KEYSPACE_FILE_SIZE])
{
    uint64_t random;
    int fd, rc;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return -EIO;
    (void)snprintf(temp, KEYSPACE_FILE_SIZE, "%s%016llx%s", TEMP_PREFIX,
                   (unsigned long long)random, KEYSPACE_SUFFIX); /* fits */
    fd = openat(dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        rc = -errno;
        (void)close(fd);                 /* nothing in it yet */
        (void)unlinkat(dir_fd, temp, 0); /* a left over one is cleaned later */
        return rc;
    }
    return fd;
}

int
keyspace_file_create(struct lmdb *s, const uint8_t *name, size_t name_size,
                     const char *file)
{
    const int dir_fd = s->options.keyspace_fd;
    char temp[KEYSPACE_FILE_SIZE];
    int fd, rc;

    fd = make_file(s, name, name_size, NULL, 0, temp);
    if (fd < 0)
        return fd;
    rc = keyspace_file_rename(dir_fd, temp, file);
    if (rc < 0)
        (void)unlinkat(dir_fd, temp, 0); /* a left over one is cleaned later */
    if (rc == 0 && fsync(dir_fd) < 0)
        rc = -errno;
    (void)close(fd); /* synced above */
    return rc;
}

/* ---- taking files away ------------------------------------------------- */

int
keyspace_dir_lock(const struct lmdb *s, int how)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        const struct timespec pause = {.tv_nsec = 1000000L << i};

        if (flock(s->lock_fd, how | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return -errno;
        (void)nanosleep(&pause, NULL); /* shorter is no harm */
    }
    return -EAGAIN;
}

void
keyspace_dir_unlock(const struct lmdb *s)
{
    (void)flock(s->lock_fd, LOCK_UN); /* cannot fail: it is held */
}

/* The lock file goes with its data file, while nobody is between opening the
 * one and the other.  Who has both open yet goes on in a world of his own, and
 * soon notices. */
static void
remove_lock(int dir_fd, const char *file)
{
    char lock[KEYSPACE_LOCK_SIZE];

    (void)snprintf(lock, sizeof lock, "%s-lock", file); /* fits */
    (void)unlinkat(dir_fd, lock, 0); /* a left over one serves the next file */
}

int
keyspace_file_remove(const struct lmdb *s, const char *file)
{
    const int dir_fd = s->options.keyspace_fd;
    int rc;

    rc = keyspace_dir_lock(s, LOCK_EX);
    if (rc < 0)
        return rc;
    if (unlinkat(dir_fd, file, 0) < 0)
        rc = -errno;
    else
        remove_lock(dir_fd, file);
    keyspace_dir_unlock(s);
    if (rc == 0 && fsync(dir_fd) < 0)
        rc = -errno;
    return rc;
}

int
keyspace_file_replace(struct lmdb *s, const uint8_t *name, size_t name_size,
                      const char *file, const struct store_mark *marks,
                      size_t count)
{
    const int dir_fd = s->options.keyspace_fd;
    char temp[KEYSPACE_FILE_SIZE];
    int fd, rc;

    fd = make_file(s, name, name_size, marks, count, temp);
    if (fd < 0)
        return fd;
    rc = keyspace_dir_lock(s, LOCK_EX);
    if (rc == 0) {
        if (renameat(dir_fd, temp, dir_fd, file) < 0)
            rc = -errno;
        else
            remove_lock(dir_fd, file);
        keyspace_dir_unlock(s);
    }
    if (rc < 0)
        (void)unlinkat(dir_fd, temp, 0); /* a left over one is cleaned later */
    if (rc == 0 && fsync(dir_fd) < 0)
        rc = -errno;
    (void)close(fd); /* synced above */
    return rc;
}

/* Removes one %t file when its maker is dead. */
static void
clean_one(int dir_fd, const char *file)
{
    struct stat st;
    const int fd =
        openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        (uint64_t)st.st_mtime * 1000 + TEMP_AGE_MS < clock_unix_ms() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(dir_fd, file, 0); /* or the next one to look will */
    (void)close(fd);                     /* only looked at */
}

void
keyspace_file_clean(int dir_fd)
{
    const char *name;
    DIR *d;

    /* What is left is for the next one to look. */
    if (dirstream_open(dir_fd, ".", &d) < 0)
        return;
    while (dirstream_next(d, &name) > 0)
        if (strncmp(name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0)
            clean_one(dir_fd, name);
    (void)closedir(d); /* only looked at */
}
