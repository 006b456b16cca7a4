/* common/log/log.c - see log.h; names, header bytes and judgement are in
 * log_look.c.
 *
 * How a log goes round when nothing fails:
 *
 *     create   lock-N, flock, zeros, headers EMPTY, 0400, fsync, link N,
 *              unlink lock-N, fsync of the directory
 *     claim    link lock-N, flock, look again, 0600, read the headers
 *     begin    header OPEN(e+1), sync: before the first slot of e+1, else a
 *              power loss could leave SEALED(e) over slots of e+1
 *     append   slots; a message is acknowledged behind the sync that covers it
 *     seal     sync the slots, then header SEALED, sync: were they one, the
 *              header could reach the disk first and promise slots that are
 *              not there
 *     release  mtime, 0200, unlink lock-N, drop the flock
 *     claim    by a worker, which commits what is in it under marks
 *     empty    header EMPTY; not synced, since the marks tell the same
 *     release  0400, unlink lock-N, drop the flock
 *
 * Each step leaves a state that says what is to be done next, so dying
 * between any two needs nothing but log_recover().  link(2) lets one claimant
 * through and shows that a log is in use; only the flock proves that somebody
 * alive uses it.  Whoever holds it looks again, since what was seen before it
 * was held may be old. */
#include "common/log/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/log/log_look.h"

/* O_NONBLOCK changes nothing for files; it keeps an open of what turns out to
 * be a pipe from waiting for its other end. */
#define OPEN_FLAGS     (O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
#define MODE_MASK      07777
#define CREATE_TRIES   8
#define BAD_NAME_TRIES 1000
#define YOUNG_MS       1000 /* how long a creator may take to get his flock */

/* ---- small steps -------------------------------------------------------- */

static pthread_once_t boot_id_once = PTHREAD_ONCE_INIT;
static uint8_t boot_id[16]; /* stays zero where /proc is out of reach */

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void
read_boot_id(void)
{
    char text[64];
    ssize_t size, i;
    int fd, digit, n = 0;

    fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    size = read(fd, text, sizeof text);
    (void)close(fd); /* it was only read */
    for (i = 0; i < size && n < 32; i++) {
        digit = hex_digit(text[i]);
        if (digit < 0)
            continue;
        boot_id[n / 2] = (uint8_t)(boot_id[n / 2] << 4 | digit);
        n++;
    }
}

static bool
same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A log is a regular file of ours; anything else is left alone. */
static int
check_ours(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() ? 0 : -EPERM;
}

static int
look_at(int dirfd, const char *name, struct stat *st)
{
    if (fstatat(dirfd, name, st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return check_ours(st);
}

/* 1 when `name` is the file `st` says, 0 when it is another or none. */
static int
names_file(int dirfd, const char *name, const struct stat *st)
{
    struct stat now;

    if (fstatat(dirfd, name, &now, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return same_file(&now, st);
}

/* Opens a log of any state.  Its mode forbids one access or the other to all
 * but root and may change between look and open, so both are tried.  For the
 * flock either will do. */
static int
open_as_is(int dirfd, const char *name)
{
    static const int access[] = {O_RDONLY, O_WRONLY, O_RDONLY};
    size_t i;
    int fd;

    for (i = 0; i < sizeof access / sizeof access[0]; i++) {
        fd = openat(dirfd, name, access[i] | OPEN_FLAGS);
        if (fd >= 0)
            return fd;
        if (errno == ELOOP)
            return -EPERM;
        if (errno != EACCES)
            return -errno;
    }
    return -EACCES;
}

/* Takes the flock of an open file.
 *   -EBUSY  somebody alive owns it */
static int
take_flock(int fd, struct stat *st)
{
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    if (fstat(fd, st) < 0)
        return -errno;
    return check_ours(st);
}

/* Opens `name` as it is and takes its flock. */
static int
open_locked(int dirfd, const char *name, struct stat *st)
{
    int fd, rc;

    fd = open_as_is(dirfd, name);
    if (fd < 0)
        return fd;
    rc = take_flock(fd, st);
    if (rc == 0)
        return fd;
    (void)close(fd); /* nothing was written through it */
    return rc;
}

static int
pwrite_all(int fd, const uint8_t *bytes, size_t size, uint64_t at)
{
    ssize_t n;

    while (size > 0) {
        n = pwrite(fd, bytes, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        bytes += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return 0;
}

/* Never tried again when it fails: the kernel may have dropped what it could
 * not write and would say 0 the second time. */
static int
sync_data(int fd)
{
    return fdatasync(fd) < 0 ? -errno : 0;
}

/* Writes `h` with the next generation to the block that does not rule, so a
 * torn write leaves the other. */
static int
write_header(struct log *log, struct log_header h)
{
    uint8_t block[LOG_BLOCK_SIZE];
    int rc;

    assert(log->turn == 0 || log->turn == 1);
    (void)pthread_once(&boot_id_once, read_boot_id); /* cannot fail */
    memcpy(h.boot_id, boot_id, sizeof h.boot_id);
    h.pid = (uint64_t)getpid();
    h.generation = log->header.generation + 1;
    log_header_put(&h, block);
    rc = pwrite_all(log->fd, block, sizeof block,
                    (uint64_t)log->turn * LOG_BLOCK_SIZE);
    if (rc < 0)
        return rc;
    log->header = h;
    log->turn = !log->turn;
    return 0;
}

/* ---- giving up ---------------------------------------------------------- */

void
log_abandon(struct log *log)
{
    if (log->fd >= 0)
        (void)close(log->fd); /* what matters was synced, or is not trusted */
    if (log->lock_fd >= 0)
        (void)close(log->lock_fd); /* likewise */
    log->fd = -1;
    log->lock_fd = -1;
}

/* Unlinks lock-N if it is the file whose flock we hold. */
static int
unlink_lock(int dirfd, uint64_t index, int lock_fd)
{
    char lock[LOG_LOCK_SIZE];
    struct stat st;
    int rc;

    log_lock_name(index, lock);
    if (fstat(lock_fd, &st) < 0)
        return -errno;
    rc = names_file(dirfd, lock, &st);
    if (rc <= 0)
        return rc;
    return unlinkat(dirfd, lock, 0) < 0 ? -errno : 0;
}

/* Shows `mode`, drops lock and flock, closes. */
static int
let_go(struct log *log, mode_t mode)
{
    int rc = 0;

    if (fchmod(log->lock_fd, mode) < 0)
        rc = -errno;
    if (rc == 0)
        rc = unlink_lock(log->dirfd, log->header.index, log->lock_fd);
    log_abandon(log);
    return rc;
}

int
log_release(struct log *log)
{
    struct timespec times[2];
    int rc;

    assert(log->lock_fd >= 0 && log->fd >= 0);
    assert(log->header.state != LOG_OPEN);

    if (log->header.state == LOG_EMPTY)
        return let_go(log, LOG_MODE_EMPTY);

    /* Readers may not open a full log: its mtime tells them from when its
     * oldest increment is.  So it is set before the mode shows it as full. */
    times[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    times[1].tv_sec = (time_t)(log->header.first_ms / 1000);
    times[1].tv_nsec = (long)(log->header.first_ms % 1000) * 1000000;
    if (futimens(log->lock_fd, times) < 0) {
        rc = -errno;
        log_abandon(log);
        return rc;
    }
    return let_go(log, LOG_MODE_FULL);
}

/* Renames N, whose flock we hold, to the first free bad-N-EPOCH[.NUMBER]. */
static int
rename_bad(int dirfd, uint64_t index, uint64_t epoch)
{
    char name[LOG_NAME_SIZE], bad[LOG_BAD_SIZE];
    int i, n;

    log_name(index, name);
    n = snprintf(bad, sizeof bad, "bad-%s-%llu", name,
                 (unsigned long long)epoch);
    assert(n > 0 && (size_t)n < sizeof bad);
    for (i = 1; i < BAD_NAME_TRIES; i++) {
        if (renameat2(dirfd, name, dirfd, bad, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
        snprintf(bad + n, sizeof bad - (size_t)n, ".%d", i);
    }
    return -EEXIST;
}

int
log_quarantine(struct log *log)
{
    const uint64_t index = log->header.index;
    char name[LOG_NAME_SIZE];
    struct stat st;
    int rc;

    assert(log->lock_fd >= 0);

    log_name(index, name);
    rc = fstat(log->lock_fd, &st) < 0 ? -errno : 0;
    if (rc == 0) {
        rc = names_file(log->dirfd, name, &st);
        rc = rc == 0 ? -ESTALE : rc;
    }
    if (rc < 0) {
        log_abandon(log);
        return rc;
    }
    /* The name first: dying behind it leaves a lock without its log, which
     * recovery removes, and never the log back in the round. */
    rc = rename_bad(log->dirfd, index, log->header.epoch);
    if (rc < 0) {
        log_abandon(log);
        return rc;
    }
    rc = let_go(log, LOG_MODE_EMPTY);
    if (fsync(log->dirfd) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

/* ---- acting on what the headers say ------------------------------------- */

static void
adopt(struct log *log, const struct log_look *look)
{
    log->header = look->header;
    log->layout = look->layout;
    log->turn = look->turn;
    log->count = 0;
    log->first_ms = 0;
    log->last_ms = 0;
    if (log->header.state == LOG_SEALED) {
        log->count = (uint32_t)log->header.count;
        log->first_ms = log->header.first_ms;
        log->last_ms = log->header.last_ms;
    }
}

/* The owner died while it filled the log, or no header says that it did not:
 * counts what is there, makes it durable and seals it. */
static int
recover_open(struct log *log, struct log_look *look)
{
    int rc;

    /* When the owner died of a failed sync, the page cache holds slots that
     * the disk does not, marked clean.  So all that is dirty is written, what
     * is clean dropped, and only then read.  The second is best effort: a
     * slot believed wrongly was never acknowledged. */
    rc = sync_data(log->fd);
    if (rc < 0)
        return rc;
    (void)posix_fadvise(log->fd, 0, 0, POSIX_FADV_DONTNEED); /* see above */

    rc = log_look_headers(log->fd, log->header.index, look);
    if (rc < 0)
        return rc;
    if (look->headers_rc < 0)
        return look->headers_rc;
    rc = log_look_slots(log->fd, look);
    if (rc < 0)
        return rc;
    adopt(log, look);
    if (look->damaged > 0)
        return -EBADMSG;
    if (log->header.state != LOG_OPEN)
        return 0;

    /* What lies behind the first slot that does not check was never
     * acknowledged; its epoch keeps it from ever counting. */
    log->count = look->prefix;
    log->first_ms = look->first_ms;
    log->last_ms = look->last_ms;
    return log_seal(log);
}

/* Reads the headers of a log we hold, and recovers it when it is OPEN: it is
 * EMPTY or SEALED then.
 *   -EBADMSG  damaged, -EPROTONOSUPPORT */
static int
settle(struct log *log)
{
    struct log_look look;
    int rc;

    rc = log_look_headers(log->fd, log->header.index, &look);
    if (rc < 0)
        return rc;
    if (look.headers_rc < 0)
        return look.headers_rc;
    adopt(log, &look);
    if (look.missing > 0)
        return -EBADMSG;

    /* EMPTY beside a lost block: that may have said OPEN. */
    if (look.header.state == LOG_OPEN ||
        (look.header.state == LOG_EMPTY && !look.header_ok[look.turn]))
        return recover_open(log, &look);
    return 0;
}

/* settle(), and what follows when it fails.  `mode` is what a log of a newer
 * version goes back to; LOG_MODE_OWNED leaves it as it is. */
static int
settle_or_give_up(struct log *log, mode_t mode)
{
    int rc, failed;

    rc = settle(log);
    if (rc == 0)
        return 0;
    if (rc == -EBADMSG) {
        failed = log_quarantine(log);
        return failed < 0 ? failed : rc;
    }
    if (rc == -EPROTONOSUPPORT && mode != LOG_MODE_OWNED) {
        failed = let_go(log, mode);
        return failed < 0 ? failed : rc;
    }
    log_abandon(log);
    return rc;
}

/* With the flock of `lock_fd`, the file `st`: makes it ours to read and write
 * whatever its mode allowed. */
static int
make_ours(struct log *log, int dirfd, uint64_t index, int lock_fd,
          const struct stat *st)
{
    char name[LOG_NAME_SIZE];
    struct stat now;
    int fd, rc;

    log_name(index, name);
    if (fchmod(lock_fd, LOG_MODE_OWNED) < 0)
        return -errno;
    fd = openat(dirfd, name, O_RDWR | OPEN_FLAGS);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &now) < 0) {
        rc = -errno;
        goto close_fd;
    }
    if (!same_file(&now, st)) {
        rc = -ESTALE;
        goto close_fd;
    }
    *log = (struct log){.dirfd = dirfd,
                        .lock_fd = lock_fd,
                        .fd = fd,
                        .header = {.index = index}};
    return 0;

close_fd:
    (void)close(fd); /* nothing was written through it */
    return rc;
}

/* ---- claim -------------------------------------------------------------- */

/* The second look, under the flock: 0 when N and lock-N are this file and it
 * shows what the first look saw. */
static int
still_claimable(int dirfd, uint64_t index, mode_t want, const struct stat *st)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    int rc;

    if ((st->st_mode & MODE_MASK) != want)
        return -ESTALE;
    log_name(index, name);
    rc = names_file(dirfd, name, st);
    if (rc == 1) {
        log_lock_name(index, lock);
        rc = names_file(dirfd, lock, st);
    }
    if (rc < 0)
        return rc;
    return rc == 1 ? 0 : -ESTALE;
}

/* Steps 1 to 4: the log is ours, whatever its header says. */
static int
acquire(struct log *log, int dirfd, uint64_t index, mode_t want)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    struct stat st = {0};
    int lock_fd, rc;

    log_name(index, name);
    log_lock_name(index, lock);
    rc = look_at(dirfd, name, &st);
    if (rc < 0)
        return rc;
    if ((st.st_mode & MODE_MASK) != want)
        return -ESTALE;

    /* Of all claimants link(2) lets one through.  From here on a failure
     * leaves the link to recovery: without the flock it is not ours. */
    if (linkat(dirfd, name, dirfd, lock, 0) < 0)
        return errno == EEXIST ? -EBUSY : -errno;
    lock_fd = open_locked(dirfd, name, &st);
    if (lock_fd < 0)
        return lock_fd;
    rc = still_claimable(dirfd, index, want, &st);
    if (rc == 0)
        rc = make_ours(log, dirfd, index, lock_fd, &st);
    if (rc < 0)
        (void)close(lock_fd); /* nothing was written through it */
    return rc;
}

int
log_claim(struct log *log, int dirfd, uint64_t index, mode_t want_mode)
{
    const enum log_state want =
        want_mode == LOG_MODE_EMPTY ? LOG_EMPTY : LOG_SEALED;
    struct log mine = {.lock_fd = -1, .fd = -1};
    int rc;

    assert(dirfd >= 0 && index <= LOG_INDEX_MAX);
    assert(want_mode == LOG_MODE_EMPTY || want_mode == LOG_MODE_FULL);

    rc = acquire(&mine, dirfd, index, want_mode);
    if (rc < 0)
        return rc;

    /* From here the header decides and not the mode, which may be of any age
     * after a power loss. */
    rc = settle_or_give_up(&mine, want_mode);
    if (rc < 0)
        return rc;
#ifdef COUNTD_MUTANT_TRUST_MODE
    mine.header.state = want;
#endif
    if (mine.header.state != want) {
        rc = log_release(&mine);
        return rc < 0 ? rc : -ESTALE;
    }
    *log = mine;
    return 0;
}

/* ---- recovery ----------------------------------------------------------- */

/* True when the file was made or changed within the last moments.  A time in
 * the future is old: the clock was set back, and nobody shall wait for it. */
static bool
is_young(const struct stat *st)
{
    const uint64_t now = clock_unix_ms();
    uint64_t changed;

    if (st->st_ctim.tv_sec < 0)
        return false;
    changed = (uint64_t)st->st_ctim.tv_sec * 1000 +
              (uint64_t)st->st_ctim.tv_nsec / 1000000;
    return changed <= now && now - changed < YOUNG_MS;
}

/* Removes lock-N when it is no link of N: its creator died.  One just made is
 * left to a later scan: its creator may be about to take the flock, and who is
 * woken by the new name would be in his way each time.
 *   0 also when it is gone or a link of N, -EBUSY when its creator lives or
 *   may live */
static int
recover_lone_lock(int dirfd, uint64_t index)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    struct stat st = {0};
    int fd, rc;

    log_name(index, name);
    log_lock_name(index, lock);
    fd = open_as_is(dirfd, lock);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    rc = fstat(fd, &st) < 0 ? -errno : check_ours(&st);
    if (rc == 0)
        rc = is_young(&st) ? -EBUSY : take_flock(fd, &st);
    if (rc < 0)
        goto close_lock;

    /* Under the flock once more: the creator may have finished, or a new one
     * begun, since we looked. */
    rc = names_file(dirfd, name, &st);
    if (rc == 0)
        rc = unlink_lock(dirfd, index, fd);
    else if (rc == 1)
        rc = 0;

close_lock:
    (void)close(fd); /* nothing was written through it */
    return rc;
}

/* 1 when the log N, seen as `st`, shows that it is owned or that its owner
 * died; 0 when it is at rest.  *alien: lock-N is there and another file. */
static int
looks_owned(int dirfd, uint64_t index, const struct stat *st, bool *alien)
{
    const mode_t mode = st->st_mode & MODE_MASK;
    char lock[LOG_LOCK_SIZE];
    struct stat lock_st;

    *alien = false;
    log_lock_name(index, lock);
    if (fstatat(dirfd, lock, &lock_st, AT_SYMLINK_NOFOLLOW) == 0) {
        *alien = !same_file(st, &lock_st);
        if (!*alien)
            return 1;
    } else if (errno != ENOENT) {
        return -errno;
    }
    return mode != LOG_MODE_EMPTY && mode != LOG_MODE_FULL;
}

/* True when the log is seen to be of a newer version; what its mode forbids us
 * to read may be as well. */
static bool
is_newer(int fd, uint64_t index)
{
    struct log_look look;

    return log_look_headers(fd, index, &look) == 0 &&
           look.headers_rc == -EPROTONOSUPPORT;
}

/* N is there and seems to have lost its owner.
 *
 * A log of a newer version is not touched, since each change would wake the
 * workers that watch and have us here again.  Only one that cannot be read is
 * made readable, once. */
static int
recover_log(int dirfd, uint64_t index)
{
    char name[LOG_NAME_SIZE];
    struct log log = {.lock_fd = -1, .fd = -1};
    struct stat st = {0};
    bool alien;
    int lock_fd, rc;

    log_name(index, name);
    lock_fd = open_locked(dirfd, name, &st);
    if (lock_fd < 0)
        return lock_fd;

    /* Somebody may have recovered it, or replaced it, since we looked. */
    rc = names_file(dirfd, name, &st);
    if (rc == 1)
        rc = looks_owned(dirfd, index, &st, &alien);
    if (rc == 1 && is_newer(lock_fd, index))
        rc = -EPROTONOSUPPORT;
    if (rc <= 0)
        goto close_lock;
    rc = make_ours(&log, dirfd, index, lock_fd, &st);
    if (rc < 0)
        goto close_lock;
    rc = settle_or_give_up(&log, LOG_MODE_OWNED);
    return rc < 0 ? rc : log_release(&log);

close_lock:
    (void)close(lock_fd); /* nothing was written through it */
    return rc;
}

int
log_recover(int dirfd, uint64_t index)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    struct stat st = {0};
    bool alien;
    int rc;

    assert(dirfd >= 0 && index <= LOG_INDEX_MAX);

    log_name(index, name);
    rc = look_at(dirfd, name, &st);
    if (rc == -ENOENT) {
        log_lock_name(index, lock);
        if (fstatat(dirfd, lock, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        return recover_lone_lock(dirfd, index);
    }
    if (rc < 0)
        return rc;
    rc = looks_owned(dirfd, index, &st, &alien);
    if (rc < 0)
        return rc;
#ifdef COUNTD_MUTANT_UNLINK_WITHOUT_FLOCK
    log_lock_name(index, lock);
    (void)unlinkat(dirfd, lock, 0); /* the planted bug */
#endif
    if (alien) {
        const int lone = recover_lone_lock(dirfd, index);

        if (lone < 0)
            return lone;
    }
    return rc == 0 ? 0 : recover_log(dirfd, index);
}

/* ---- create ------------------------------------------------------------- */

/* Makes lock-N and takes its flock, which somebody who takes it for a dead
 * creator's may get first: he unlinks it, and we start again.
 *   -EAGAIN  he has not yet, or somebody did so each time */
static int
create_lock(int dirfd, const char *lock)
{
    struct stat st;
    int fd, i, rc;

    for (i = 0; i < CREATE_TRIES; i++) {
        fd = openat(dirfd, lock, O_RDWR | O_CREAT | O_EXCL | OPEN_FLAGS,
                    LOG_MODE_OWNED);
        if (fd < 0 && errno == EEXIST && i > 0)
            break;
        if (fd < 0)
            return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            rc = fstat(fd, &st) < 0 ? -errno : names_file(dirfd, lock, &st);
            if (rc == 1)
                return fd;
        } else {
            rc = errno == EWOULDBLOCK ? 0 : -errno;
        }
        (void)close(fd); /* it is empty, and no longer there or not ours */
        if (rc < 0)
            return rc;
    }
    return -EAGAIN;
}

static int
fill_zeros(int fd, uint64_t size)
{
    uint8_t *chunk;
    uint64_t at;
    size_t n;
    int rc = 0;

    chunk = log_chunk_map();
    if (!chunk)
        return -ENOMEM;
    for (at = 0; at < size && rc == 0; at += n) {
        n = size - at < LOG_CHUNK_SIZE ? (size_t)(size - at) : LOG_CHUNK_SIZE;
        rc = pwrite_all(fd, chunk, n, at);
    }
    log_chunk_unmap(chunk);
    return rc;
}

/* Writes a whole EMPTY log into `fd` and makes it durable.  Zeros and not only
 * space: a sync of unwritten space costs a journal commit each time, and a
 * full disk is met here instead of in the middle of a fill. */
static int
fill_new(int fd, uint64_t index, const struct layout *l, uint32_t slots)
{
    struct log log = {.fd = fd, .lock_fd = -1};
    struct log_header h = {
        .index = index,
        .state = LOG_EMPTY,
        .slot_size = l->slot_size,
        .slots = slots,
        .keyspace_size = l->keyspace_size,
        .key_size = l->key_size,
    };
    int rc;

    if (getrandom(h.uuid, sizeof h.uuid, 0) != (ssize_t)sizeof h.uuid)
        return -EIO;
    rc = fill_zeros(fd, LOG_SLOTS_AT + (uint64_t)slots * l->slot_size);
    if (rc == 0)
        rc = write_header(&log, h);
    if (rc == 0)
        rc = write_header(&log, h);
    if (rc < 0)
        return rc;
    if (fchmod(fd, LOG_MODE_EMPTY) < 0)
        return -errno;
    return fsync(fd) < 0 ? -errno : 0;
}

/* Gives the finished file its name. */
static int
publish(int dirfd, uint64_t index, int fd)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    int rc;

    log_name(index, name);
    log_lock_name(index, lock);
    if (linkat(dirfd, lock, dirfd, name, 0) < 0)
        return -errno;
    rc = unlink_lock(dirfd, index, fd);
    if (rc < 0)
        return rc; /* a finished log that shows an owner: recovery */
    if (fsync(dirfd) < 0) {
        rc = -errno;
        /* A power cut might now take the name, and all that is in the log by
         * then.  Nobody can have claimed it: we hold its flock.  Should this
         * fail too, log_begin() syncs the directory before the first fill. */
        (void)unlinkat(dirfd, name, 0); /* see above */
        return rc;
    }
    return 0;
}

int
log_create(int dirfd, uint64_t index, const struct layout *l, uint32_t slots)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    struct stat st;
    int fd, rc;

    assert(dirfd >= 0 && index <= LOG_INDEX_MAX && slots > 0);

    log_name(index, name);
    log_lock_name(index, lock);
    fd = create_lock(dirfd, lock);
    if (fd < 0)
        return fd;

    /* link(2) would tell as well, but only after all the writing. */
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        rc = -EEXIST;
    else
        rc = errno == ENOENT ? 0 : -errno;
    if (rc == 0)
        rc = fill_new(fd, index, l, slots);
    if (rc == 0)
        rc = publish(dirfd, index, fd);
    if (rc < 0)
        (void)unlink_lock(dirfd, index, fd); /* or recovery does */
    (void)close(fd);                         /* synced, or gone */
    return rc;
}

/* ---- filling and emptying ----------------------------------------------- */

int
log_begin(struct log *log)
{
    struct log_header h = log->header;
    int rc;

    assert(log->fd >= 0 && h.state == LOG_EMPTY);

    /* A log that was never filled may owe its name to a creator that died
     * before it synced the directory. */
    if (h.epoch == 0 && fsync(log->dirfd) < 0)
        return -errno;
    h.state = LOG_OPEN;
    h.epoch++;
    h.count = 0;
    h.first_ms = 0;
    h.last_ms = 0;
    rc = write_header(log, h);
    if (rc < 0)
        return rc;
    log->count = 0;
    log->first_ms = 0;
    log->last_ms = 0;
    return sync_data(log->fd);
}

int
log_append(struct log *log, const uint8_t *slots, uint32_t count,
           uint64_t first_ms, uint64_t last_ms)
{
    const uint32_t size = log->header.slot_size;
    int rc;

    assert(log->fd >= 0 && log->header.state == LOG_OPEN);
    assert(count > 0 && count <= log->header.slots - log->count);
    assert(log->count == 0 || first_ms >= log->last_ms);

    rc = pwrite_all(log->fd, slots, (size_t)count * size,
                    LOG_SLOTS_AT + (uint64_t)log->count * size);
    if (rc < 0)
        return rc;
    if (log->count == 0)
        log->first_ms = first_ms;
    log->last_ms = last_ms;
    log->count += count;
    return 0;
}

int
log_sync(struct log *log)
{
    assert(log->fd >= 0);
    return sync_data(log->fd);
}

/* -ESTALE when the file is no longer N: removed or replaced by hand, and what
 * is in it would never be read. */
static int
check_in_place(const struct log *log)
{
    char name[LOG_NAME_SIZE];
    struct stat st;
    int rc;

    if (fstat(log->fd, &st) < 0)
        return -errno;
    log_name(log->header.index, name);
    rc = names_file(log->dirfd, name, &st);
    if (rc < 0)
        return rc;
    return rc == 1 && st.st_nlink > 0 ? 0 : -ESTALE;
}

int
log_seal(struct log *log)
{
    struct log_header h = log->header;
    int rc;

    assert(log->fd >= 0 && h.state == LOG_OPEN);
    assert(log->count <= h.slots);

    rc = check_in_place(log);
    if (rc < 0)
        return rc;
    if (log->count > 0) {
        h.state = LOG_SEALED;
        h.count = log->count;
        h.first_ms = log->first_ms;
        h.last_ms = log->last_ms;
#ifndef COUNTD_MUTANT_SEAL_EARLY
        rc = sync_data(log->fd);
        if (rc < 0)
            return rc;
#endif
    } else {
        h.state = LOG_EMPTY;
    }
    rc = write_header(log, h);
    return rc < 0 ? rc : sync_data(log->fd);
}

int
log_read(const struct log *log, uint32_t from, uint32_t count, uint8_t *slots)
{
    const uint32_t size = log->header.slot_size;

    assert(log->fd >= 0);
    assert(from <= log->header.slots && count <= log->header.slots - from);

    return log_pread(log->fd, slots, (size_t)count * size,
                     LOG_SLOTS_AT + (uint64_t)from * size);
}

int
log_empty(struct log *log)
{
    struct log_header h = log->header;

    assert(log->fd >= 0 && h.state == LOG_SEALED);

    h.state = LOG_EMPTY;
    h.count = 0;
    h.first_ms = 0;
    h.last_ms = 0;
    return write_header(log, h);
}
