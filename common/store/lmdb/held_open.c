/* common/store/lmdb/held_open.c - data/held.mdb as a file: make, open, find
 * damage, set aside, begin transactions.
 *
 * LMDB takes the number of the last commit from the lock file as long as any
 * process has that open, whatever data file has the name by then.  So each
 * transaction looks whether that number is one of the file's; when it is not,
 * the environment is closed again, for the last one who closes it makes LMDB
 * begin a new lock file.
 *
 * A damaged file is renamed while its flock is held, which all writers hold
 * from before their transaction until they have seen that the file still has
 * the name: nothing that somebody takes for kept is renamed away unseen.  Its
 * lock file goes first, so that a process which never looks again, as it is
 * stopped, has nothing of the new file.  The data file that has the name is
 * opened before any lock file is, so nobody has a new one with an old lock
 * file.  (LMDB
 * makes an empty file where one has gone in the moment between our look and its
 * own; that is found to be no file of ours, and is set aside like a damaged
 * one.)
 */
#include "common/store/lmdb/held_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/store/lmdb/env.h"
#include "common/store/lmdb/pages.h"

#define OPEN_TRIES 5

int
held_trouble(struct held *h, const char *what, int rc)
{
    if (rc == -EBADMSG) /* what says it all */
        diag_repeating(&h->trouble, DIAG_ERROR, "%s: %s", HELD_FILE, what);
    else
        diag_repeating(&h->trouble, DIAG_ERROR, "%s: %s: %s", HELD_FILE, what,
                       diag_text(rc));
    return rc;
}

/* -EIO from LMDB is often a full disk. */
static int
disk_error(const struct held *h, int rc)
{
    return env_disk_error(h->options.data_fd, rc,
                          (uint64_t)HELD_CUT_PAGES * 4096);
}

int
held_error(struct held *h, int code)
{
    int rc = lmdb_error(code);

    if (code == MDB_KEYEXIST)
        rc = -EBADMSG; /* ids are new */
    if (rc == -EXFULL || rc == -E2BIG)
        rc = -ENOSPC; /* no more room in the map than there may be */
    if (rc == -EBADMSG || code == MDB_PANIC)
        h->file.stale = true;
    return disk_error(h, rc);
}

void
held_file_close(struct held *h)
{
    struct held_file *f = &h->file;

    assert(h->look == NULL && h->write == NULL);
    if (f->env != NULL)
        mdb_env_close(f->env);
    if (f->fd >= 0)
        (void)close(f->fd); /* only locked */
    *f = (struct held_file){.fd = -1};
    h->flocked = false;
}

bool
held_file_is_named(const struct held *h)
{
    struct stat st;

    return fstatat(h->options.data_fd, HELD_FILE, &st, AT_SYMLINK_NOFOLLOW) ==
               0 &&
           st.st_ino == h->file.inode && st.st_dev == h->file.device &&
           (h->file.env == NULL ||
            env_lock_inode(h->options.data_fd, HELD_FILE) ==
                h->file.lock_inode);
}

int
held_file_flock(struct held *h)
{
    const int rc = lock_take(h->file.fd, &h->holder);

    if (rc < 0)
        return rc;
    h->flocked = true;
    return held_file_is_named(h) ? 0 : -ESTALE;
}

void
held_file_unlock(struct held *h)
{
    if (h->flocked)
        (void)flock(h->file.fd, LOCK_UN); /* cannot fail: it is ours */
    h->flocked = false;
}

/* ---- making ------------------------------------------------------------ */

static int
open_databases(struct held_file *f, MDB_txn *txn, unsigned flags)
{
    int code;

    code = mdb_dbi_open(txn, "records", flags, &f->records);
    if (code == 0)
        code = mdb_dbi_open(txn, "fills", flags, &f->fills);
    if (code == 0)
        code = mdb_dbi_open(txn, "meta", flags, &f->meta);
    return code;
}

static int
fill_empty(void *ctx, MDB_txn *txn)
{
    struct held_file f = {.fd = -1};
    int code;

    (void)ctx; /* every new file is the same */
    code = open_databases(&f, txn, MDB_CREATE);
    if (code == 0)
        code = held_meta_make(txn, f.meta);
    return lmdb_error(code);
}

int
held_file_make(struct held *h)
{
    const int dir_fd = h->options.data_fd;
    char temp[KEYSPACE_FILE_SIZE];
    int fd, rc;

    keyspace_file_clean(dir_fd);
    fd = env_make(dir_fd, KEYSPACE_MAP_FIRST, fill_empty, NULL, temp);
    if (fd < 0)
        return held_trouble(h, "make it", disk_error(h, fd));
    rc = keyspace_file_rename(dir_fd, temp, HELD_FILE);
    if (rc < 0)
        (void)unlinkat(dir_fd, temp, 0); /* a left over one is cleaned later */
    if (rc == -EEXIST)
        rc = 0; /* somebody was faster; theirs is as good */
    if (rc == 0 && fsync(dir_fd) < 0)
        rc = -errno;
    (void)close(fd); /* synced above */
    return rc < 0 ? held_trouble(h, "make it", rc) : 0;
}

/* ---- damage ------------------------------------------------------------ */

/* Gives a damaged file, which h->file.fd is open for, the next free name. */
static int
rename_damaged(struct held *h, const char *why)
{
    char name[40];
    unsigned n = 1;
    int rc;

    (void)unlinkat(h->options.data_fd, HELD_FILE "-lock", 0); /* or as before */
    do {
        (void)snprintf(name, sizeof name, "bad-held-%u.mdb", n); /* fits */
        rc = keyspace_file_rename(h->options.data_fd, HELD_FILE, name);
    } while (rc == -EEXIST && n++ < UINT16_MAX);
    if (rc == 0 && fsync(h->options.data_fd) < 0)
        rc = -errno;
    if (rc < 0)
        return held_trouble(h, "set it aside, for it is damaged", rc);
    diag(DIAG_ERROR,
         "%s is damaged (%s): renamed to %s; what was held in it is not "
         "counted until countd held salvage %s brings it back",
         HELD_FILE, why, name, name);
    return 0;
}

/* ---- opening ----------------------------------------------------------- */

/* A descriptor of our own for what has the name, and which file that is. */
static int
open_data(struct held *h, const char **why)
{
    const int access = h->options.writable ? O_RDWR : O_RDONLY;
    struct stat st;
    int fd;

    /* Not blocking: to open a FIFO would wait for somebody to write to it. */
    fd = openat(h->options.data_fd, HELD_FILE,
                access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        h->file.fd = fd;
        h->file.inode = st.st_ino;
        h->file.device = st.st_dev;
        return 0;
    }
    (void)close(fd); /* only looked at */
    *why = "it is not a regular file";
    return -EBADMSG;
}

/* Opens the databases and compares them with what they say of themselves. */
static int
open_contents(struct held *h, const char **why)
{
    struct held_sums sums;
    MDB_txn *txn;
    int rc, dead;

    *why = "begin";
    (void)mdb_reader_check(h->file.env, &dead); /* or at the next opening */
    rc = held_begin_read(h, &txn);
    if (rc < 0)
        return rc;
    *why = "its databases are not there";
    rc = lmdb_error(open_databases(&h->file, txn, 0));
    if (rc == 0)
        rc = held_version_check(txn, h->file.meta, why);
    if (rc == 0) {
        *why = "its state is damaged";
        rc = held_sums_get(h, txn, &sums);
    }
    if (rc == 0) {
        *why = "what is held is not what its state says";
        rc = held_index_check(h, txn, &sums);
    }
    if (rc < 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    h->file.checked_ms = clock_ms();
    h->file.stale = false;
    return lmdb_error(mdb_txn_commit(txn)); /* keeps the databases' handles */
}

static bool
state_change(const uint8_t *value, size_t size, uint64_t *out)
{
    struct held_sums sums;

    if (!held_sums_parse(value, size, &sums))
        return false;
    *out = sums.change;
    return true;
}

const struct pages_counter held_change_counter = {
    .db = "meta", .key = "state", .get = state_change};

/* Lets LMDB open it.  No fault of the data file is found here. */
static int
open_env_of(struct held *h, const char **why)
{
    struct stat st;
    int rc, fd;

    rc = keyspace_file_lock(h->options.data_fd, HELD_FILE, why);
    if (rc == 0) {
        *why = "its lock file is damaged, the file itself is not: stop all "
               "daemons and start them again";
        rc = env_open(h->options.data_fd, HELD_FILE, h->options.writable,
                      &h->file.env);
    }
    if (rc == -EBADMSG || rc == -EPROTONOSUPPORT)
        return -EBUSY;
    if (rc < 0)
        return rc;
    *why = "open";
    h->file.lock_inode = env_lock_inode(h->options.data_fd, HELD_FILE);
    if (mdb_env_get_fd(h->file.env, &fd) != 0 || fstat(fd, &st) < 0)
        return -EINVAL;
    return st.st_ino == h->file.inode && st.st_dev == h->file.device ? 0
                                                                     : -ESTALE;
}

static void
close_env(struct held *h)
{
    if (h->file.env != NULL)
        mdb_env_close(h->file.env);
    h->file.env = NULL;
}

/* Opens what h->file.fd is open for; or *why not, and only that is open. */
static int
open_checked(struct held *h, const char **why)
{
    int rc;

    /* The pages, before LMDB reads any of them.  Who deletes what is held
     * relies on those of values as well. */
    rc = pages_check_file(
        h->file.fd,
        h->options.writable ? PAGES_FOR_DELETING : PAGES_FOR_READING, why);
    if (rc == 0 && !h->failed)
        rc = pages_check_newest(h->file.fd, &held_change_counter, why);
    if (rc == 0)
        rc = open_env_of(h, why);
    if (rc == 0)
        rc = open_contents(h, why);
    if (rc < 0)
        close_env(h);
    return rc;
}

int
held_file_reopen(struct held *h, const char **why)
{
    close_env(h);
    return open_checked(h, why);
}

/* The file was found damaged.  Looks again while nobody can write to it, and
 * takes the name from it: -ENOENT, there is none now. */
static int
set_aside(struct held *h, const char *why)
{
    int rc;

    if (!h->options.writable)
        return held_trouble(h, why, -EBADMSG);
    rc = held_file_flock(h);
    if (rc == 0)
        rc = open_checked(h, &why);
    if (rc == -EBADMSG)
        rc = rename_damaged(h, why);
    else
        return rc;
    return rc < 0 ? rc : -ENOENT;
}

/* One try.  -ESTALE: while it was made, the file was replaced. */
static int
try_open(struct held *h)
{
    const char *why = "open";
    int rc;

    rc = open_data(h, &why);
    if (rc == 0)
        rc = open_checked(h, &why);
    if (rc == -EBADMSG && h->file.fd >= 0)
        rc = set_aside(h, why);
    else if (rc < 0 && rc != -ENOENT && rc != -EAGAIN && rc != -ESTALE)
        return held_trouble(h, why, rc);
    if (rc < 0)
        return rc;
    held_file_unlock(h);
    return held_file_is_named(h) ? 0 : -ESTALE;
}

int
held_file_get(struct held *h)
{
    int rc = -ESTALE;

    if (h->file.env != NULL) {
        if (!h->file.stale && held_file_is_named(h))
            return 0;
        held_file_close(h);
    }
    for (int i = 0; i < OPEN_TRIES && rc == -ESTALE; i++) {
        rc = try_open(h);
        if (rc < 0)
            held_file_close(h);
    }
    return rc == -ESTALE ? -EAGAIN : rc;
}

/* ---- transactions ------------------------------------------------------ */

int
held_value_check(struct held *h, const MDB_val *value)
{
    return pages_value_ok(&h->map, value->mv_data, value->mv_size)
               ? 0
               : held_error(h, MDB_CORRUPTED);
}

/* Begins any transaction. */
static int
begin(struct held *h, unsigned flags, MDB_txn **out)
{
    bool moved; /* nothing of ours points into the map */
    const int rc = env_begin(h->file.env, flags, out, &moved);

    if (rc == -EBADMSG)
        h->file.stale = true;
    return rc;
}

int
held_begin_read(struct held *h, MDB_txn **out)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        MDB_envinfo info;
        MDB_txn *txn;
        int rc;

        rc = begin(h, MDB_RDONLY, &txn);
        if (rc < 0)
            return rc;
        rc = held_error(h, mdb_env_info(h->file.env, &info));
        /* A commit is in the file a moment before it is in the lock file. */
        if (rc == 0 && info.me_last_txnid - mdb_txn_id(txn) <= 1) {
            *out = txn;
            return 0;
        }
        mdb_txn_abort(txn);
        if (rc < 0)
            return rc;
    }
    h->file.stale = true;
    return -EAGAIN;
}

/* Grows the map to what a commit may need, and doubles it then. */
static int
make_room(struct held *h, uint64_t record_size)
{
    MDB_envinfo info;
    MDB_stat stat;
    uint64_t need;
    int rc;

    rc = held_error(h, mdb_env_info(h->file.env, &info));
    if (rc == 0)
        rc = held_error(h, mdb_env_stat(h->file.env, &stat));
    if (rc < 0)
        return rc;
    need = (info.me_last_pgno + 1) * (uint64_t)stat.ms_psize + HELD_MAP_ROOM +
           record_size;
    return info.me_mapsize >= need ? 0 : env_grow(h->file.env, need);
}

int
held_begin_write(struct held *h, uint64_t record_size, MDB_txn **out)
{
    MDB_envinfo info;
    MDB_txn *txn;
    int rc;

    assert(h->look == NULL); /* the map may move */
    rc = make_room(h, record_size);
    if (rc == 0)
        rc = begin(h, 0, &txn);
    if (rc < 0)
        return rc;
    rc = held_error(h, mdb_env_info(h->file.env, &info));
    if (rc == 0 && mdb_txn_id(txn) != info.me_last_txnid + 1)
        rc = -EAGAIN;
    if (rc == 0)
        rc = env_map_find(txn, h->file.meta, "state", &h->map);
    if (rc == 0) {
        *out = txn;
        return 0;
    }
    mdb_txn_abort(txn);
    h->file.stale = true;
    return rc;
}
