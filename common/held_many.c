/* common/held_many.c - one held file for many keyspaces; see held.h.
 *
 * Exactly once: the records of a keyspace here are merged under the mark of
 * their log and epoch, like those in a file of their own.  What is merged is
 * found in by that mark until a later epoch of the log is merged, so it is
 * dropped from the file before: the file is written anew without it and put in
 * place of the old one.  Who does that, or replaces a file of the same fill,
 * holds a flock on the file that has the name, and looks again under the lock
 * whether it still has: of two workers one then works on a file that the other
 * has replaced already, and notices.  A process that dies loses its lock.
 */
#include "common/held.h"
#include "common/held_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/bytes.h"
#include "common/name.h"

#define PREFIX     "%m" /* no keyspace's file is called so */
#define GROUP_SIZE 18   /* without name and records */
#define LOOKS_MAX  8    /* while others replace the file */

static const uint8_t magic[8] = "COUNTDM1";

bool
held_is_many(const char *file)
{
    return strncmp(file, PREFIX ",", strlen(PREFIX ",")) == 0;
}

static void
temporary_name(const struct store_mark *mark, char temporary[HELD_TEMP_SIZE])
{
    char file[HELD_NAME_SIZE];

    held_name(PREFIX, mark, file);
    (void)snprintf(temporary, HELD_TEMP_SIZE, "%%t%s", file); /* fits */
}

/* ---- writing ----------------------------------------------------------- */

static void
put_head(uint8_t head[HELD_HEAD_SIZE], const struct store_mark *mark,
         uint64_t keyspaces)
{
    memset(head, 0, HELD_HEAD_SIZE);
    memcpy(head, magic, sizeof magic);
    put_le32(head + 8, HELD_VERSION);
    memcpy(head + 16, mark->uuid, sizeof mark->uuid);
    put_le64(head + 32, mark->epoch);
    put_le64(head + 40, mark->first_ms);
    put_le64(head + 48, keyspaces);
}

int
held_many_begin(struct held_out **out, int held_fd,
                const struct store_mark *mark, uint64_t keyspaces)
{
    char temporary[HELD_TEMP_SIZE];
    uint8_t head[HELD_HEAD_SIZE];

    assert(keyspaces > 0);
    temporary_name(mark, temporary);
    put_head(head, mark, keyspaces);
    return held_out_open(out, held_fd, temporary, head);
}

int
held_many_add(struct held_out *o, const uint8_t *name, size_t name_size,
              const struct store_delta *deltas, size_t count)
{
    uint8_t head[GROUP_SIZE];
    uint64_t size = 0;
    size_t i;

    assert(name_size > 0 && name_size <= NAME_MAX_SIZE);
    for (i = 0; i < count; i++)
        size += HELD_RECORD_SIZE + (uint64_t)deltas[i].key_size;
    put_le64(head, count);
    put_le64(head + 8, size);
    put_le16(head + 16, (uint16_t)name_size);
    held_out_put(o, head, sizeof head);
    held_out_put(o, name, name_size);
    for (i = 0; i < count && o->rc == 0; i++)
        held_out_delta(o, &deltas[i]);
    return o->rc;
}

int
held_many_end(struct held_out *o, int held_fd, const struct store_mark *mark,
              int error, bool sync)
{
    char temporary[HELD_TEMP_SIZE];

    temporary_name(mark, temporary);
    return held_out_close(o, held_fd, temporary, error, sync);
}

void
held_many_discard(int held_fd, const struct store_mark *mark)
{
    char temporary[HELD_TEMP_SIZE];

    temporary_name(mark, temporary);
    (void)unlinkat(held_fd, temporary, 0); /* else it is tidied up */
}

/* Puts the new file in place of the one that has its name. */
static int
replace(int held_fd, const char *temporary, const char *file, uint64_t first_ms)
{
    struct held_many there;
    int rc;

    rc = held_many_get(held_fd, file, true, &there);
    if (rc == -EBADMSG)
        return -EEXIST; /* to be set aside first */
    if (rc < 0)
        return rc;
    if (there.mark.first_ms != first_ms || !there.locked)
        rc = -EEXIST;
    else if (renameat(held_fd, temporary, held_fd, file) < 0)
        rc = -errno;
    held_many_free(&there);
    return rc;
}

int
held_many_publish(int held_fd, const struct store_mark *mark)
{
    char file[HELD_NAME_SIZE], temporary[HELD_TEMP_SIZE];
    unsigned i;
    int rc = -ENOENT;

    held_name(PREFIX, mark, file);
    temporary_name(mark, temporary);

    /* One that is there may go between two looks. */
    for (i = 0; i < LOOKS_MAX && rc == -ENOENT; i++) {
        if (renameat2(held_fd, temporary, held_fd, file, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
        rc = replace(held_fd, temporary, file, mark->first_ms);
    }
    return rc == -ENOENT ? -EEXIST : rc;
}

/* ---- reading ----------------------------------------------------------- */

int
held_many_head(const uint8_t *head, struct held *h)
{
    if (memcmp(head, magic, sizeof magic) != 0)
        return -EBADMSG;
    if (get_le32(head + 8) != HELD_VERSION)
        return -EPROTONOSUPPORT;
    memcpy(h->mark.uuid, head + 16, sizeof h->mark.uuid);
    h->mark.epoch = get_le64(head + 32);
    h->mark.first_ms = get_le64(head + 40);
    h->keyspaces = get_le64(head + 48);
    return h->keyspaces > 0 ? 0 : -EBADMSG;
}

/* The size of the keyspace at `at`, with its name and records, or -EBADMSG. */
static int64_t
group_size(const uint8_t *at, size_t size)
{
    uint64_t count, bytes;
    size_t name_size;

    if (size < GROUP_SIZE)
        return -EBADMSG;
    count = get_le64(at);
    bytes = get_le64(at + 8);
    name_size = get_le16(at + 16);
    if (name_size == 0 || name_size > NAME_MAX_SIZE ||
        name_size > size - GROUP_SIZE ||
        memchr(at + GROUP_SIZE, 0, name_size) != NULL ||
        bytes > size - GROUP_SIZE - name_size ||
        count > bytes / HELD_RECORD_SIZE)
        return -EBADMSG;
    return (int64_t)(GROUP_SIZE + name_size + bytes);
}

/* Walks through all keyspaces once, so that held_many_next cannot fail. */
static int
check_groups(const struct held_many *m)
{
    size_t at = HELD_HEAD_SIZE;
    uint64_t i;

    if (m->keyspaces > m->size / GROUP_SIZE)
        return -EBADMSG;
    for (i = 0; i < m->keyspaces; i++) {
        const int64_t n = group_size(m->bytes + at, m->size - at);

        if (n < 0)
            return (int)n;
        at += (size_t)n;
    }
    return at == m->size ? 0 : -EBADMSG;
}

static int
check_file(struct held_many *m)
{
    struct held h;
    uint32_t crc;
    int rc;

    if (m->size < HELD_HEAD_SIZE)
        return -EBADMSG;
    rc = held_many_head(m->bytes, &h);
    if (rc < 0)
        return rc;
    crc = (uint32_t)crc32_z(0, m->bytes + HELD_CRC_AT + 4,
                            m->size - HELD_CRC_AT - 4);
    if (crc != get_le32(m->bytes + HELD_CRC_AT))
        return -EBADMSG;
    m->mark = h.mark;
    m->keyspaces = h.keyspaces;
    rc = check_groups(m);
    if (rc < 0)
        return rc;
    m->drop = calloc(m->keyspaces, sizeof *m->drop);
    return m->drop ? 0 : -ENOMEM;
}

/* Takes the lock of the file that has the name.
 *   -EAGAIN  that is another one by now */
static int
lock_file(struct held_many *m, int held_fd, const char *file)
{
    struct stat ours, named;

    if (flock(m->fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? 0 : -errno;
    if (fstat(m->fd, &ours) < 0 ||
        fstatat(held_fd, file, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (ours.st_ino != named.st_ino || ours.st_dev != named.st_dev)
        return -EAGAIN;
    m->locked = true;
    return 0;
}

static int
open_once(int held_fd, const char *file, bool lock, struct held_many *m)
{
    int rc = 0;

    *m = (struct held_many){.at = HELD_HEAD_SIZE};
    m->fd = held_file_open(held_fd, file, &m->size);
    if (m->fd < 0)
        return m->fd;
    if (lock)
        rc = lock_file(m, held_fd, file);
    if (rc < 0)
        held_many_free(m);
    return rc;
}

static int
open_many(int held_fd, const char *file, bool lock, struct held_many *m)
{
    int rc = -EAGAIN;
    unsigned i;

    assert(held_is_many(file));
    for (i = 0; i < LOOKS_MAX && rc == -EAGAIN; i++)
        rc = open_once(held_fd, file, lock, m);
    return rc;
}

static int
load(struct held_many *m)
{
    int rc;

    m->bytes = malloc(m->size + 1);
    if (!m->bytes)
        return -ENOMEM;
    rc = held_file_read(m->fd, m->bytes, m->size);
    return rc < 0 ? rc : check_file(m);
}

int
held_many_get(int held_fd, const char *file, bool lock, struct held_many *out)
{
    int rc;

    rc = open_many(held_fd, file, lock, out);
    if (rc < 0)
        return rc;
    rc = load(out);
    if (rc < 0)
        held_many_free(out);
    return rc;
}

int
held_many_set_aside(int held_fd, const char *file, char *aside, size_t size)
{
    struct held_many m;
    int rc;

    rc = open_many(held_fd, file, true, &m);
    if (rc < 0)
        return rc;
    rc = m.locked ? load(&m) : 0;
    if (rc == -EBADMSG)
        rc = held_set_aside(held_fd, file, aside, size);
    else if (rc == 0)
        rc = -EBUSY;
    held_many_free(&m);
    return rc;
}

void
held_many_free(struct held_many *m)
{
    (void)close(m->fd); /* opened for reading only */
    free(m->bytes);
    free(m->drop);
    free(m->deltas);
    *m = (struct held_many){.fd = -1};
}

void
held_many_rewind(struct held_many *m)
{
    m->at = HELD_HEAD_SIZE;
    m->next = 0;
}

bool
held_many_next(struct held_many *m, struct held *h)
{
    const uint8_t *at = m->bytes + m->at;

    if (m->next == m->keyspaces)
        return false;
    memset(h, 0, sizeof *h);
    h->mark = m->mark;
    h->count = get_le64(at);
    h->name_size = get_le16(at + 16);
    memcpy(h->name, at + GROUP_SIZE, h->name_size);
    m->records = at + GROUP_SIZE + h->name_size;
    m->at += GROUP_SIZE + h->name_size + get_le64(at + 8);
    m->next++;
    return true;
}

static int
reserve_deltas(struct held_many *m, size_t count)
{
    struct store_delta *more;

    if (count < m->deltas_max)
        return 0;
    more = realloc(m->deltas, (count + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    m->deltas = more;
    m->deltas_max = count + 1;
    return 0;
}

/* The records of `h` end where the next keyspace begins. */
int
held_many_records(struct held_many *m, struct held *h)
{
    const uint8_t *end = m->bytes + m->at, *at = m->records;
    size_t i;
    int rc;

    rc = reserve_deltas(m, h->count);
    if (rc < 0)
        return rc;
    for (i = 0; i < h->count; i++) {
        rc = held_delta_get(at, (size_t)(end - at), &m->deltas[i]);
        if (rc < 0)
            return rc;
        if (i > 0 && !held_delta_before(&m->deltas[i - 1], &m->deltas[i]))
            return -EBADMSG;
        at += rc;
    }
    h->deltas = m->deltas;
    return at == end ? 0 : -EBADMSG;
}

/* ---- dropping ---------------------------------------------------------- */

/* Writes what is kept; in large pieces, as it lies. */
static int
write_kept(const struct held_many *m, int held_fd, const char *temporary)
{
    uint8_t head[HELD_HEAD_SIZE];
    struct held_out *o;
    size_t at = HELD_HEAD_SIZE;
    uint64_t i;
    int rc;

    put_head(head, &m->mark, m->keyspaces - m->dropped);
    rc = held_out_open(&o, held_fd, temporary, head);
    if (rc < 0)
        return rc;
    for (i = 0; i < m->keyspaces && o->rc == 0; i++) {
        const size_t n = (size_t)group_size(m->bytes + at, m->size - at);

        if (!m->drop[i])
            held_out_put(o, m->bytes + at, n);
        at += n;
    }
    return held_out_close(o, held_fd, temporary, 0, true);
}

int
held_many_drop(struct held_many *m, int held_fd, const char *file)
{
    char temporary[HELD_TEMP_SIZE];
    uint64_t i;
    int rc;

    assert(m->locked);
    m->dropped = 0;
    for (i = 0; i < m->keyspaces; i++)
        m->dropped += m->drop[i];
    if (m->dropped == 0)
        return 0;
    if (m->dropped == m->keyspaces)
        return held_remove(held_fd, file);

    /* Not the name that the owner of the log writes: it may, meanwhile. */
    (void)snprintf(temporary, sizeof temporary, "%%tr%s", file); /* fits */
    rc = write_kept(m, held_fd, temporary);
    if (rc < 0)
        return rc;
    if (renameat(held_fd, temporary, held_fd, file) < 0) {
        rc = -errno;
        (void)unlinkat(held_fd, temporary, 0); /* else it is tidied up */
        return rc;
    }
    return fsync(held_fd) < 0 ? -errno : 0;
}
