/* common/store/lmdb/keyspace_peek.c - see keyspace_peek.h:
 * keyspace_peek().
 *
 * Records are those of the newest commit: LMDB does not overwrite the pages of
 * that commit before the next one is in its meta page, which is read again
 * afterwards.  Records carry checksums. */
#include "common/store/lmdb/keyspace_peek.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"

#define PEEK_TRIES 100 /* other processes may commit meanwhile */
#define REFUSED_MS 60000

/* ---- the check before LMDB opens a file --------------------------------- */

static bool
state_change(const uint8_t *value, size_t size, uint64_t *out)
{
    uint8_t bytes[KEYSPACE_STATE_SIZE];
    const MDB_val v = {.mv_size = sizeof bytes, .mv_data = bytes};
    struct keyspace_state state;

    if (size != sizeof bytes)
        return false;
    memcpy(bytes, value, sizeof bytes);
    if (keyspace_state_parse(&v, &state) < 0)
        return false;
    *out = state.change;
    return true;
}

const struct pages_counter keyspace_change_counter = {
    .db = "meta", .key = KEYSPACE_STATE_KEY, .get = state_change};

/* Opens the file, which must be a regular one. */
static int
open_file(int dir_fd, const char *file, struct stat *st, const char **why)
{
    int fd, rc;

    *why = "cannot open it";
    /* O_NONBLOCK: opening a FIFO would wait for a writer. */
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
    rc = fstat(fd, st) < 0 ? -errno : 0;
    if (rc == 0 && !S_ISREG(st->st_mode)) {
        *why = "it is not a regular file";
        rc = -EBADMSG;
    }
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

static bool
same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Whether this file was found damaged recently and has not changed since. */
static bool
is_refused(const struct keyspace_refused *r, const struct stat *st)
{
    return r->why != NULL && clock_ms() - r->at_ms < REFUSED_MS &&
           r->inode == st->st_ino && r->device == st->st_dev &&
           r->size == st->st_size && same_time(&r->written, &st->st_mtim) &&
           same_time(&r->changed, &st->st_ctim);
}

int
keyspace_file_check(struct lmdb *s, const char *file, bool own_failed,
                    const char **why)
{
    struct keyspace_refused *refused;
    struct stat st;
    int fd, rc;

    fd = open_file(s->options.keyspace_fd, file, &st, why);
    if (fd < 0)
        return fd;
    refused = &s->refused[st.st_ino % KEYSPACE_REFUSED];
    if (is_refused(refused, &st)) {
        *why = refused->why;
        rc = -EBADMSG;
        goto close_fd;
    }
    rc = pages_check_file(
        fd, s->options.writable ? PAGES_FOR_WRITING : PAGES_FOR_READING, why);
    if (rc == 0 && !own_failed)
        rc = pages_check_newest(fd, &keyspace_change_counter, why);
    if (rc == -EBADMSG)
        *refused = (struct keyspace_refused){.why = *why,
                                             .at_ms = clock_ms(),
                                             .device = st.st_dev,
                                             .inode = st.st_ino,
                                             .size = st.st_size,
                                             .written = st.st_mtim,
                                             .changed = st.st_ctim};

close_fd:
    (void)close(fd);
    return rc;
}

/* ---- name and state ---------------------------------------------------- */

/* Reads both records as of one meta page. */
static int
read_records(int fd, const struct pages_meta *m,
             const struct lmdb_options *options, struct keyspace *k,
             struct keyspace_state *state, const char **why)
{
    uint8_t page[PAGES_SIZE_MAX], *value;
    MDB_val v;
    int rc;

    *why = "its name is not there";
    rc = pages_find(fd, m, "meta", KEYSPACE_NAME_KEY, page, &value, &v.mv_size);
    if (rc < 0)
        return rc;
    v.mv_data = value;
    rc = keyspace_header_parse(&v, options, k, why);
    if (rc < 0)
        return rc;
    *why = "its state is damaged";
    rc =
        pages_find(fd, m, "meta", KEYSPACE_STATE_KEY, page, &value, &v.mv_size);
    if (rc < 0)
        return rc;
    v.mv_data = value;
    return keyspace_state_parse(&v, state);
}

static int
peek_file(int fd, const struct lmdb_options *options, struct keyspace *k,
          struct keyspace_state *state, const char **why)
{
    struct pages_meta m, now;
    int rc;

    rc = pages_meta(fd, 0, &m, why);
    for (int i = 0; rc == 0 && i < PEEK_TRIES; i++) {
        struct keyspace found = *k;
        const char *unseen;
        int read = read_records(fd, &m, options, &found, state, why);

        if (read == 0)
            read = pages_check_newest(fd, &keyspace_change_counter, why);
        rc = pages_meta(fd, 0, &now, &unseen);
        if (rc == 0 && now.txn == m.txn) {
            if (read == 0)
                *k = found;
            return read == -ENOENT ? -EBADMSG : read;
        }
        m = now;
    }
    *why = "look at it";
    return rc < 0 ? rc : -EAGAIN;
}

int
keyspace_peek(const struct lmdb_options *options, struct keyspace *k,
              struct keyspace_state *state, const char **why)
{
    struct stat st;
    int fd, rc;

    fd = open_file(options->keyspace_fd, k->file, &st, why);
    if (fd < 0)
        return fd;
    rc = peek_file(fd, options, k, state, why);
    (void)close(fd);
    return rc;
}

int
keyspace_peek_each(const struct lmdb_options *options, const char *file,
                   int (*each)(void *ctx, uint8_t *key, size_t key_size,
                               uint8_t *value, size_t size),
                   void *ctx, const char **why)
{
    struct pages_meta m, now;
    struct stat st;
    int fd, rc;

    fd = open_file(options->keyspace_fd, file, &st, why);
    if (fd < 0)
        return fd;
    rc = pages_meta(fd, 0, &m, why);
    if (rc == 0) {
        *why = "its records are damaged";
        rc = pages_each(fd, &m, "meta", each, ctx);
        rc = rc == -ENOENT ? -EBADMSG : rc;
    }
    if (rc == 0)
        rc = pages_check_newest(fd, &keyspace_change_counter, why);
    if (rc == 0)
        rc = pages_meta(fd, 0, &now, why);
    if (rc == 0 && now.txn != m.txn)
        rc = -EAGAIN;
    (void)close(fd);
    return rc;
}
