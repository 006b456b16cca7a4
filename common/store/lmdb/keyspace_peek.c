/* common/store/lmdb/keyspace_peek.c - keyspace_file_check(),
 * keyspace_peek(): a file read without LMDB.
 *
 * Records are those of the newest commit: LMDB does not overwrite the pages of
 * that commit before the next one is in its meta page, which is read again
 * afterwards.  Records carry checksums. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_peek.h"

#include <errno.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/folder.h"

#define PEEK_TRIES 100 /* other processes may commit meanwhile */
#define REFUSED_MS 60000

/* ---- the check before LMDB opens a file --------------------------------- */

static int
take_change(void *ctx, uint8_t *key_bytes, size_t key_size,
            uint8_t *value_bytes, size_t size)
{
    const MDB_val key = {.mv_size = key_size, .mv_data = key_bytes};
    const MDB_val value = {.mv_size = size, .mv_data = value_bytes};
    struct keyspace_state state;
    uint64_t *change = ctx;
    int rc;

    if (!keyspace_is_record(&key, KEYSPACE_STATE_KEY))
        return 0;
    rc = keyspace_state_parse(&value, &state);
    if (rc < 0)
        return rc;
    *change = state.change;
    return 1;
}

int
keyspace_change_read(int fd, const struct pages_meta *meta, uint64_t *out)
{
    return pages_each(fd, meta,
                      &(struct pages_records){"meta", take_change, out});
}

int
keyspace_file_open(int dir_fd, const char *file, struct stat *st,
                   const char **why)
{
    int fd, rc;

    fd = folder_open_file(dir_fd, file);
    *why = fd == -ELOOP   ? "it is a symbolic link"
           : fd == -ENXIO ? "it is a socket"
                          : "cannot open it";
    if (fd < 0)
        return fd == -ELOOP || fd == -ENXIO ? -EBADMSG : fd;
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

/* Whether this file was found damaged recently and has not changed since. */
static bool
is_refused(const struct keyspace_refused *r, const struct stat *st)
{
    return r->why != NULL && clock_ms() - r->at_ms < REFUSED_MS &&
           r->inode == st->st_ino && r->device == st->st_dev &&
           r->changed.tv_sec == st->st_ctim.tv_sec &&
           r->changed.tv_nsec == st->st_ctim.tv_nsec;
}

int
keyspace_file_check(struct lmdb *s, const char *file, bool own_failed,
                    const char **why)
{
    struct keyspace_refused *refused;
    struct stat st;
    int fd, rc;

    fd = keyspace_file_open(s->options.keyspace_fd, file, &st, why);
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
        rc = pages_check_newest(fd, keyspace_change_read, why);
    if (rc == -EBADMSG)
        *refused = (struct keyspace_refused){.why = *why,
                                             .at_ms = clock_ms(),
                                             .device = st.st_dev,
                                             .inode = st.st_ino,
                                             .changed = st.st_ctim};

close_fd:
    (void)close(fd);
    return rc;
}

/* ---- records ------------------------------------------------------------ */

/* The records of a file, as they are read. */
struct peeking {
    const struct lmdb_options *options;
    struct keyspace *keyspace;
    struct keyspace_state *state;
    struct marks_sum marks;
    const char **why;
    bool has_name, has_state;
};

static int
peek_record(void *ctx, uint8_t *key_bytes, size_t key_size,
            uint8_t *value_bytes, size_t size)
{
    const MDB_val key = {.mv_size = key_size, .mv_data = key_bytes};
    const MDB_val value = {.mv_size = size, .mv_data = value_bytes};
    struct peeking *p = ctx;

    if (keyspace_is_record(&key, KEYSPACE_NAME_KEY)) {
        p->has_name = true;
        return keyspace_header_parse(&value, p->options, p->keyspace, p->why);
    }
    *p->why = "its state is damaged";
    if (keyspace_is_record(&key, KEYSPACE_STATE_KEY)) {
        p->has_state = true;
        return keyspace_state_parse(&value, p->state);
    }
    /* One that is damaged is found where marks are read: the rows are good. */
    return p->marks.mark != NULL ? marks_count(&p->marks, &key, &value) : 0;
}

/* Reads all records as of one meta page. */
static int
read_records(int fd, const struct pages_meta *m, struct peeking *p)
{
    int rc;

    *p->why = "its records are damaged";
    rc = pages_each(fd, m, &(struct pages_records){"meta", peek_record, p});
    if (rc != 0)
        return rc == -ENOENT ? -EBADMSG : rc;
    *p->why = p->has_name ? "its state is damaged" : "its name is not there";
    if (!p->has_name || !p->has_state)
        return -EBADMSG;
    return p->marks.mark == NULL || marks_sum_ok(&p->marks, p->state)
               ? 0
               : -EBADMSG;
}

static int
peek_file(int fd, const struct peeking *p)
{
    int tries = p->marks.mark == NULL ? PEEK_TRIES : 1;
    struct pages_meta m, now;
    int rc;

    rc = pages_meta(fd, &m, p->why);
    for (; rc == 0 && tries > 0; tries--) {
        struct keyspace found = *p->keyspace;
        struct peeking once = *p;
        const char *unseen;
        int read;

        once.keyspace = &found;
        read = read_records(fd, &m, &once);
        if (read == 0)
            read = pages_check_newest(fd, keyspace_change_read, p->why);
        rc = pages_meta(fd, &now, &unseen);
        if (rc == 0 && now.txn == m.txn) {
            if (read == 0)
                *p->keyspace = found;
            return read;
        }
        m = now;
    }
    *p->why = "look at it";
    return rc < 0 ? rc : -EAGAIN;
}

int
keyspace_peek(const struct lmdb_options *options, struct keyspace *k,
              struct keyspace_state *state, const struct marks_sum *marks,
              const char **why)
{
    const struct peeking p = {.options = options,
                              .keyspace = k,
                              .state = state,
                              .marks = marks ? *marks : (struct marks_sum){0},
                              .why = why};
    struct stat st;
    int fd, rc;

    fd = keyspace_file_open(options->keyspace_fd, k->file, &st, why);
    if (fd < 0)
        return fd;
    rc = peek_file(fd, &p);
    (void)close(fd);
    return rc;
}
