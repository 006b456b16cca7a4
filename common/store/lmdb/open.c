/* common/store/lmdb/open.c - open environments: the table, its LRU,
 * transactions.
 *
 * LMDB must not have a file open twice in a process, so there is one table by
 * name.  Each environment keeps one reader transaction, reset between views.
 * A map that is too small is doubled; one that another process has doubled is
 * taken over.
 */
#include "common/store/lmdb/peek.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/dirstream.h"

#define OPEN_TRIES     5
#define CLOSE_TRIES    2 /* one has what another needs, and a little more */
#define CHECK_EVERY_MS 60000
#define LOOK_EVERY_MS  100  /* at a file that is only read */
#define FULL_MS        1000 /* a full directory is counted again after that */
#define RECOUNT_EVERY  16
#define RECOUNT_NEAR   1024u /* keyspaces below the limit */

int
keyspace_trouble(struct lmdb *s, const uint8_t *name, size_t name_size,
                 const char *what, int rc)
{
    char text[NAME_TEXT_SIZE];

    (void)name_escape(name, name_size, text); /* its length is not needed */
    diag_repeating(&s->trouble, DIAG_ERROR, "keyspace=%s: %s: %s", text, what,
                   diag_text(rc));
    return rc;
}

int
keyspace_disk_error(const struct lmdb *s, int rc, uint64_t size)
{
    struct statvfs fs;

    if (rc != -EIO || fstatvfs(s->options.keyspace_fd, &fs) < 0)
        return rc;
    return (uint64_t)fs.f_bavail * fs.f_frsize < size + KEYSPACE_MAP_FIRST
               ? -ENOSPC
               : rc;
}

void
keyspace_close(struct keyspace *k)
{
    if (k->env == NULL)
        return;
    if (k->keys_cursor != NULL)
        mdb_cursor_close(k->keys_cursor);
    if (k->ranks_cursor != NULL)
        mdb_cursor_close(k->ranks_cursor);
    if (k->reader != NULL)
        mdb_txn_abort(k->reader);
    mdb_env_close(k->env);
    *k = (struct keyspace){.env = NULL};
}

/* Begins a transaction, taking over a map that others have grown. */
static int
begin(struct keyspace *k, unsigned flags, MDB_txn **out)
{
    int code = MDB_MAP_RESIZED;

    for (int i = 0; i < OPEN_TRIES && code != 0; i++) {
        code = mdb_txn_begin(k->env, NULL, flags, out);
        if (code == MDB_MAP_RESIZED) {
            const int resized = mdb_env_set_mapsize(k->env, 0);

            k->snapshot = 0;
            if (resized != 0)
                return order_error(resized);
        } else if (code == MDB_READERS_FULL) {
            int dead;
            const int checked = mdb_reader_check(k->env, &dead);

            if (checked != 0 || dead == 0)
                return -EMFILE;
        } else if (code != 0) {
            break;
        }
    }
    return order_error(code);
}

/* ---- replaced files ---------------------------------------------------- */

/* LMDB takes the number of the last commit from the lock file as long as any
 * process has that open, whatever data file is under the name by then.  It
 * would show an old commit of the new file, and the next would overwrite the
 * newest.  So nobody reads or writes before that number is one of the file's,
 * and who has the old file open notices soon and closes it; the lock file is
 * then made anew by LMDB itself.  (Removing it instead would let two processes
 * write at once.) */

static ino_t
lock_inode(const struct lmdb *s, const struct keyspace *k)
{
    char lock[KEYSPACE_FILE_SIZE + 8];
    struct stat st;

    (void)snprintf(lock, sizeof lock, "%s-lock", k->file); /* fits */
    return fstatat(s->options.keyspace_fd, lock, &st, AT_SYMLINK_NOFOLLOW) < 0
               ? 0
               : st.st_ino;
}

bool
keyspace_replaced(const struct lmdb *s, const struct keyspace *k)
{
    struct stat st;

    if (fstatat(s->options.keyspace_fd, k->file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT;
    return st.st_ino != k->inode || st.st_dev != k->device ||
           lock_inode(s, k) != k->lock_inode;
}

/* Remembers which files are open. */
static int
note_files(const struct lmdb *s, struct keyspace *k, int *fd)
{
    struct stat st;

    if (mdb_env_get_fd(k->env, fd) != 0)
        return -EINVAL;
    if (fstat(*fd, &st) < 0)
        return -errno;
    k->device = st.st_dev;
    k->inode = st.st_ino;
    k->lock_inode = lock_inode(s, k);
    return 0;
}

/* True when the commit that LMDB shows is in the file, now or after another
 * look: others commit meanwhile. */
static int
check_commit(const struct lmdb *s, struct keyspace *k, const char **why)
{
    int fd = -1, rc;

    *why = "open";
    rc = note_files(s, k, &fd);
    if (rc < 0)
        return rc;
    rc = -EAGAIN;
    for (int i = 0; i < OPEN_TRIES && rc == -EAGAIN; i++) {
        struct pages_meta meta;
        MDB_txn *txn;
        size_t id;

        rc = begin(k, MDB_RDONLY, &txn);
        if (rc < 0)
            return rc;
        id = mdb_txn_id(txn);
        rc = pages_meta(fd, id, &meta, why);
        if (rc == 0 && id != meta.txn)
            rc = -EAGAIN;
        mdb_txn_abort(txn);
    }
    if (rc != -EAGAIN)
        return rc;
    *why = "it was replaced, and the old one is open elsewhere yet";
    return -EBUSY;
}

/* Whether a write transaction goes on from the newest commit of the file that
 * has the name.  Nobody else can commit now. */
static bool
is_current(const struct lmdb *s, const struct keyspace *k, MDB_txn *txn)
{
    struct pages_meta meta;
    const char *why;
    int fd;

    if (keyspace_replaced(s, k) || mdb_env_get_fd(k->env, &fd) != 0)
        return false;
    /* What cannot be read is met again by who reads. */
    return pages_meta(fd, 0, &meta, &why) < 0 ||
           mdb_txn_id(txn) == meta.txn + 1;
}

static void
close_replaced(struct keyspace *k)
{
    char text[NAME_TEXT_SIZE];

    (void)name_escape(k->name, k->name_size, text); /* its length: unused */
    diag(DIAG_WARNING,
         "keyspace=%s: its file was replaced or removed while it was in use; "
         "going on with what has its name now",
         text);
    keyspace_close(k);
}

/* Closes it if it was replaced; now and then where it is only read. */
static bool
closed_replaced(struct lmdb *s, struct keyspace *k)
{
    const uint64_t now = clock_ms();

    if (k->reading ||
        (!s->options.writable && now - k->looked_ms < LOOK_EVERY_MS))
        return false;
    k->looked_ms = now;
    if (!k->stale && !keyspace_replaced(s, k))
        return false;
    close_replaced(k);
    return true;
}

void
lmdb_look(struct lmdb *s)
{
    for (unsigned i = 0; i < s->options.open_max; i++) {
        struct keyspace *k = &s->slots[i];

        if (k->hash != 0 && !k->reading &&
            (k->stale || keyspace_replaced(s, k)))
            close_replaced(k);
    }
}

/* ---- opening ----------------------------------------------------------- */

/* Opens databases and checks the header, in the reader transaction. */
static int
open_databases(struct lmdb *s, struct keyspace *k, const char **why)
{
    MDB_txn *txn;
    int rc;

    *why = "begin";
    rc = begin(k, MDB_RDONLY, &txn);
    if (rc < 0)
        return rc;
    *why = "its databases are not there";
    rc = order_error(mdb_dbi_open(txn, "keys", 0, &k->keys));
    if (rc == 0)
        rc = order_error(mdb_dbi_open(txn, "ranks", 0, &k->ranks));
    if (rc == 0)
        rc = order_error(mdb_dbi_open(txn, "meta", 0, &k->meta));
    if (rc == 0)
        rc = keyspace_header_check(txn, k->meta, &s->options, k, why);
    if (rc < 0) {
        mdb_txn_abort(txn);
        return rc;
    }

    /* Committing keeps the handles. */
    rc = order_error(mdb_txn_commit(txn));
    if (rc == 0)
        rc = begin(k, MDB_RDONLY, &k->reader);
    if (rc == 0)
        rc = order_error(mdb_cursor_open(k->reader, k->keys, &k->keys_cursor));
    if (rc == 0)
        rc =
            order_error(mdb_cursor_open(k->reader, k->ranks, &k->ranks_cursor));
    if (rc == 0)
        mdb_txn_reset(k->reader);
    return rc;
}

/* Opens the environment.  Others opening or closing it at the same moment can
 * make that fail for a moment. */
static int
open_env(struct lmdb *s, struct keyspace *k)
{
    const unsigned flags =
        MDB_NOSUBDIR | MDB_NOTLS | (s->options.writable ? 0 : MDB_RDONLY);
    char path[KEYSPACE_PATH_SIZE];
    int rc = 0;

    keyspace_path(s->options.keyspace_fd, k->file, path);
    for (int i = 0; i < OPEN_TRIES; i++) {
        const struct timespec pause = {.tv_nsec = 1000000L << i};

        rc = order_error(mdb_env_create(&k->env));
        if (rc < 0) {
            k->env = NULL;
            return rc;
        }
        rc = order_error(mdb_env_set_maxdbs(k->env, 8));
        if (rc == 0)
            rc = order_error(mdb_env_set_maxreaders(k->env, KEYSPACE_READERS));
        if (rc == 0)
            rc = order_error(mdb_env_open(k->env, path, flags, 0600));
        if (rc == 0)
            return 0;
        mdb_env_close(k->env);
        k->env = NULL;
        if (rc != -EINVAL && rc != -EAGAIN && rc != -EACCES)
            return rc;
        (void)nanosleep(&pause, NULL); /* shorter is no harm */
    }
    return rc;
}

static uint64_t
name_hash(const uint8_t *name, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < size; i++)
        h = (h ^ name[i]) * 0x100000001b3u;
    return h | 1; /* 0 is a free slot */
}

/* One try; *why not. */
static int
try_open(struct lmdb *s, struct keyspace *k, const char **why)
{
    int rc;

    rc = keyspace_file_check(
        s, k->file, s->failed == name_hash(k->name, k->name_size), why);
    if (rc == 0)
        rc = keyspace_file_lock(s->options.keyspace_fd, k->file, why);
    if (rc == 0) {
        *why = "open";
        rc = open_env(s, k);

        /* The data file is good, and the lock file is made anew unless others
         * have it open. */
        if (rc == -EBADMSG || rc == -EPROTONOSUPPORT)
            *why = "its lock file is damaged, the file itself is not: stop all "
                   "daemons and start them again";
    }
    if (rc == 0)
        rc = check_commit(s, k, why);
    if (rc == 0)
        rc = open_databases(s, k, why);
    return rc;
}

/* The least recently used of those that no view needs; NULL: there is none. */
static struct keyspace *
table_oldest(struct lmdb *s)
{
    struct keyspace *oldest = NULL;

    for (unsigned i = 0; i < s->options.open_max; i++) {
        struct keyspace *k = &s->slots[i];

        if (k->hash != 0 && !k->reading &&
            (oldest == NULL || k->used < oldest->used))
            oldest = k;
    }
    return oldest;
}

/* Where there are too few descriptors: closes a keyspace.  True: try again. */
static bool
closed_for_files(struct lmdb *s, int rc)
{
    struct keyspace *oldest;

    if (rc != -EMFILE && rc != -ENFILE)
        return false;
    oldest = table_oldest(s);
    if (oldest == NULL)
        return false;
    keyspace_close(oldest);
    return true;
}

/* Opens what k->file names; says why not. */
static int
open_keyspace(struct lmdb *s, struct keyspace *k)
{
    const struct keyspace closed = *k;
    const char *why;
    int rc, dead;

    rc = try_open(s, k, &why);
    for (int i = 0; i < CLOSE_TRIES && closed_for_files(s, rc); i++) {
        keyspace_close(k);
        *k = closed;
        rc = try_open(s, k, &why);
    }
    if (rc == -ENOENT && k->env == NULL)
        return rc;
    if (rc < 0) {
        const struct keyspace named = *k;

        keyspace_close(k);
        if (named.name_size == 0)
            return keyspace_trouble(s, (const uint8_t *)named.file,
                                    strlen(named.file), why, rc);
        return keyspace_trouble(s, named.name, named.name_size, why, rc);
    }
    (void)mdb_reader_check(k->env, &dead); /* again in a minute */
    k->checked_ms = clock_ms();
    return 0;
}

int
keyspace_open_file(struct lmdb *s, const char *file, struct keyspace *out)
{
    *out = (struct keyspace){.env = NULL};
    (void)snprintf(out->file, sizeof out->file, "%s" KEYSPACE_SUFFIX, file);
    return open_keyspace(s, out);
}

static bool
is_keyspace(const struct keyspace *k, uint64_t hash, const uint8_t *name,
            size_t name_size)
{
    return k->hash == hash && k->name_size == name_size &&
           memcmp(k->name, name, name_size) == 0;
}

static struct keyspace *
table_find(struct lmdb *s, uint64_t hash, const uint8_t *name, size_t name_size)
{
    if (s->last != NULL && is_keyspace(s->last, hash, name, name_size))
        return s->last;
    for (unsigned i = 0; i < s->options.open_max; i++)
        if (is_keyspace(&s->slots[i], hash, name, name_size))
            return &s->slots[i];
    return NULL;
}

/* A free slot: the least recently used one that no view needs is closed. */
static struct keyspace *
table_slot(struct lmdb *s)
{
    struct keyspace *oldest;

    for (unsigned i = 0; i < s->options.open_max; i++)
        if (s->slots[i].hash == 0)
            return &s->slots[i];
    oldest = table_oldest(s);
    assert(oldest != NULL); /* one view at most, and open_max is above that */
    keyspace_close(oldest);
    return oldest;
}

static int
count_file(void *ctx, const char *file)
{
    uint64_t *count = ctx;

    (void)file; /* counted, whatever it is called */
    ++*count;
    return 0;
}

/* Refuses one more keyspace above the limit.  The directory is counted only
 * now and then while the limit is far, and when it is full: names come from
 * the network, and each of them may be a new one. */
static int
check_limit(struct lmdb *s)
{
    const uint64_t max = s->options.keyspace_max;
    int rc;

    if (max == 0)
        return 0;
    if (clock_ms() < s->full_until_ms)
        return -EDQUOT;
    if (s->known == 0 || s->created_since >= RECOUNT_EVERY ||
        s->known + RECOUNT_NEAR >= max) {
        uint64_t count = 0;

        rc = keyspace_each_file(s, count_file, &count);
        if (rc < 0)
            return rc;
        s->known = count;
        s->created_since = 0;
    }
    if (s->known + s->created_since < max)
        return 0;
    s->full_until_ms = clock_ms() + FULL_MS;
    return -EDQUOT;
}

static int
create(struct lmdb *s, const struct keyspace *k)
{
    int rc;

    rc = check_limit(s);
    for (int i = 0; i < CLOSE_TRIES && closed_for_files(s, rc); i++)
        rc = check_limit(s);
    if (rc < 0)
        return rc;
    rc = keyspace_file_create(s, k->name, k->name_size, k->file);
    for (int i = 0; i < CLOSE_TRIES && closed_for_files(s, rc); i++)
        rc = keyspace_file_create(s, k->name, k->name_size, k->file);
    if (rc == -EEXIST)
        return 0; /* somebody was faster; theirs is as good */
    if (rc < 0)
        return keyspace_trouble(s, k->name, k->name_size, "create",
                                keyspace_disk_error(s, rc, KEYSPACE_MAP_FIRST));
    s->created_since++;
    return 0;
}

int
keyspace_get(struct lmdb *s, const uint8_t *name, size_t name_size,
             enum keyspace_need need, struct keyspace **out)
{
    const uint64_t hash = name_hash(name, name_size);
    struct keyspace opened = {.env = NULL};
    struct keyspace *k;
    char file[NAME_FILE_SIZE];
    int rc;

    assert(name_size >= 1 && name_size <= NAME_MAX_SIZE);
    k = table_find(s, hash, name, name_size);
    if (k != NULL && closed_replaced(s, k))
        k = NULL;
    if (k == NULL) {
        name_to_file(name, name_size, s->options.hash_key, file);
        (void)snprintf(opened.file, sizeof opened.file, "%s" KEYSPACE_SUFFIX,
                       file); /* sized for the longest */
        opened.name_size = name_size;
        memcpy(opened.name, name, name_size);
        rc = open_keyspace(s, &opened);
        if (rc == -ENOENT && need == KEYSPACE_CREATE) {
            memcpy(opened.name, name, name_size);
            opened.name_size = name_size;
            rc = create(s, &opened);
            if (rc == 0)
                rc = open_keyspace(s, &opened);
        }
        if (rc < 0)
            return rc;
        k = table_slot(s);
        *k = opened;
        k->hash = hash;
    }
    k->used = ++s->clock;
    s->last = k;
    *out = k;
    return 0;
}

int
keyspace_read(struct keyspace *k)
{
    int code = 0;

    assert(!k->reading);
    for (int i = 0; i < OPEN_TRIES; i++) {
        code = mdb_txn_renew(k->reader);
        if (code != MDB_MAP_RESIZED)
            break;

        /* Somebody has grown the map; no transaction of ours is active. */
        k->snapshot = 0;
        code = mdb_env_set_mapsize(k->env, 0);
        if (code != 0)
            break;
    }
    k->reading = code == 0;
    return order_error(code);
}

void
keyspace_read_end(struct keyspace *k)
{
    assert(k->reading);
    mdb_txn_reset(k->reader);
    k->reading = false;
}

int
keyspace_write(const struct lmdb *s, struct keyspace *k, MDB_txn **out)
{
    const uint64_t now = clock_ms();
    int dead, rc;

    assert(!k->reading); /* the map may move */
    if (now - k->checked_ms > CHECK_EVERY_MS) {
        (void)mdb_reader_check(k->env, &dead); /* again in a minute */
        k->checked_ms = now;
    }
    rc = begin(k, 0, out);
    if (rc < 0 || is_current(s, k, *out))
        return rc;
    mdb_txn_abort(*out);
    k->stale = true;
    return -ESTALE;
}

void
keyspace_retain(struct lmdb *s, struct keyspace *k, uint64_t pages, bool done)
{
    const uint64_t most = s->options.txn_memory / KEYSPACE_PAGE_COST;

    if (pages > k->retained)
        k->retained = pages;
    for (;;) {
        struct keyspace *largest = NULL;
        uint64_t sum = 0;

        for (unsigned i = 0; i < s->options.open_max; i++) {
            struct keyspace *other = &s->slots[i];

            sum += other->retained;
            if ((done || other != k) && !other->reading &&
                other->retained > 0 &&
                (largest == NULL || other->retained > largest->retained))
                largest = other;
        }
        if (sum <= most || largest == NULL)
            return;
        keyspace_close(largest);
    }
}

int
keyspace_grow(struct keyspace *k, size_t least)
{
    MDB_envinfo info;
    size_t size;
    int rc;

    assert(!k->reading);
    rc = order_error(mdb_env_info(k->env, &info));
    if (rc < 0)
        return rc;
    size = info.me_mapsize < KEYSPACE_MAP_FIRST ? KEYSPACE_MAP_FIRST
                                                : info.me_mapsize;
    do {
        if (size > KEYSPACE_MAP_MAX / 2)
            return -EFBIG;
        size *= 2;
    } while (size < least);
    k->snapshot = 0;
    return order_error(mdb_env_set_mapsize(k->env, size));
}

int
keyspace_each_file(struct lmdb *s, int (*file)(void *ctx, const char *f),
                   void *ctx)
{
    char stem[NAME_FILE_SIZE];
    const char *name;
    DIR *d;
    int rc;

    rc = dirstream_open(s->options.keyspace_fd, ".", &d);
    if (rc < 0)
        return rc;
    while ((rc = dirstream_next(d, &name)) > 0) {
        if (!keyspace_file_stem(name, stem))
            continue;
        rc = file(ctx, stem);
        if (rc != 0)
            break;
    }
    (void)closedir(d); /* only read */
    return rc;
}
