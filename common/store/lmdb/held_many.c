/* common/store/lmdb/held_many.c - one held file for many keyspaces; see held.h.
 *
 * Exactly once: the records of a keyspace here are merged under the mark of
 * their log and epoch, like those in a file of their own.  What is merged is
 * found in by that mark until a later epoch of the log is merged, so it is
 * dropped from the file before: the file is written anew without it and put in
 * place of the old one.  Who does that, or replaces a file of the same fill,
 * holds a flock on the file that has the name, and looks again under the lock
 * whether it still has: of two workers one then works on a file that the other
 * has replaced already, and notices.  A process that dies loses its lock.
 *
 * A client that sends a new name now and then must not make a file with every
 * log handed on: what a log has for one more epoch is put behind what is in
 * its newest file, as long as that is small.  That file, too, is written anew
 * and replaced.  In a file the epochs of a keyspace rise, and are merged in
 * that order; so where a later one is in, the earlier ones are.
 */
#include "common/store/lmdb/held_file.h"
#include "common/store/lmdb/held_files.h"

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

#include "common/base/bytes.h"
#include "common/base/dirstream.h"
#include "common/wire/name.h"

#define PREFIX     "%m"              /* no keyspace's file is called so */
#define FIRST_AT   72                /* of the first keyspace */
#define GROUP_SIZE 34                /* without name and records */
#define LOOKS_MAX  8                 /* while others replace the file */
#define SMALL      ((size_t)1 << 20) /* a file of more is left as it is */

static const uint8_t magic[8] = "COUNTDM1";

bool
heldfile_is_many(const char *file)
{
    return strncmp(file, PREFIX ",", strlen(PREFIX ",")) == 0;
}

static void
temporary_name(const struct store_mark *mark, char temporary[HELD_TEMP_SIZE])
{
    char file[HELD_NAME_SIZE];

    heldfile_name(PREFIX, mark, file);
    (void)snprintf(temporary, HELD_TEMP_SIZE, "%%t%s", file); /* fits */
}

/* ---- keyspaces in the file ---------------------------------------------- */

static uint64_t
group_epoch(const uint8_t *at)
{
    return get_le64(at);
}

/* The size of the keyspace at `at`, with its name and records, or -EBADMSG. */
static int64_t
group_size(const uint8_t *at, size_t size)
{
    uint64_t count, bytes;
    size_t name_size;

    if (size < GROUP_SIZE)
        return -EBADMSG;
    count = get_le64(at + 16);
    bytes = get_le64(at + 24);
    name_size = get_le16(at + 32);
    if (name_size == 0 || name_size > NAME_MAX_SIZE ||
        name_size > size - GROUP_SIZE ||
        memchr(at + GROUP_SIZE, 0, name_size) != NULL ||
        bytes > size - GROUP_SIZE - name_size ||
        count > bytes / HELD_RECORD_SIZE)
        return -EBADMSG;
    return (int64_t)(GROUP_SIZE + name_size + bytes);
}

/* ---- writing ----------------------------------------------------------- */

/* What the head says of the keyspaces. */
struct summary {
    uint64_t keyspaces;
    uint64_t last; /* epoch */
    uint64_t oldest_ms, newest_ms;
};

static void
summary_add(struct summary *s, uint64_t epoch, uint64_t first_ms)
{
    s->keyspaces++;
    if (epoch > s->last)
        s->last = epoch;
    if (first_ms < s->oldest_ms)
        s->oldest_ms = first_ms;
    if (first_ms > s->newest_ms)
        s->newest_ms = first_ms;
}

static void
put_head(uint8_t head[FIRST_AT], const struct store_mark *first,
         const struct summary *s)
{
    memset(head, 0, FIRST_AT);
    memcpy(head, magic, sizeof magic);
    put_le32(head + 8, HELD_VERSION);
    memcpy(head + 16, first->uuid, sizeof first->uuid);
    put_le64(head + 32, first->epoch);
    put_le64(head + 40, s->oldest_ms);
    put_le64(head + 48, s->keyspaces);
    put_le64(head + 56, s->last);
    put_le64(head + 64, s->newest_ms);
}

static int
open_out(struct held_out **out, int held_fd, const char *temporary,
         const struct store_mark *first, const struct summary *s)
{
    uint8_t head[FIRST_AT];
    int rc;

    put_head(head, first, s);
    rc = heldfile_out_open(out, held_fd, temporary, head);
    if (rc == 0)
        heldfile_out_put(*out, head + HELD_HEAD_SIZE,
                         FIRST_AT - HELD_HEAD_SIZE);
    return rc;
}

/* Writes what is not dropped, as it lies. */
static void
put_kept(struct held_out *o, const struct heldfile_many *m)
{
    size_t at = FIRST_AT;
    uint64_t i;

    for (i = 0; i < m->keyspaces && o->rc == 0; i++) {
        const size_t n = (size_t)group_size(m->bytes + at, m->size - at);

        if (!m->drop[i])
            heldfile_out_put(o, m->bytes + at, n);
        at += n;
    }
}

int
heldfile_many_add(struct held_out *o, const uint8_t *name, size_t name_size,
                  const struct store_delta *deltas, size_t count)
{
    uint8_t head[GROUP_SIZE];
    uint64_t size = 0;
    size_t i;

    assert(name_size > 0 && name_size <= NAME_MAX_SIZE);
    for (i = 0; i < count; i++)
        size += HELD_RECORD_SIZE + (uint64_t)deltas[i].key_size;
    put_le64(head, o->mark.epoch);
    put_le64(head + 8, o->mark.first_ms);
    put_le64(head + 16, count);
    put_le64(head + 24, size);
    put_le16(head + 32, (uint16_t)name_size);
    heldfile_out_put(o, head, sizeof head);
    heldfile_out_put(o, name, name_size);
    for (i = 0; i < count && o->rc == 0; i++)
        heldfile_out_delta(o, &deltas[i]);
    return o->rc;
}

int
heldfile_many_end(struct held_out *o, int held_fd,
                  const struct store_mark *mark, int error, bool sync)
{
    char temporary[HELD_TEMP_SIZE];

    temporary_name(mark, temporary);
    return heldfile_out_close(o, held_fd, temporary, error, sync);
}

void
heldfile_many_discard(int held_fd, const struct store_mark *mark)
{
    char temporary[HELD_TEMP_SIZE];

    temporary_name(mark, temporary);
    (void)unlinkat(held_fd, temporary, 0); /* else it is tidied up */
}

/* ---- reading ----------------------------------------------------------- */

int
heldfile_many_head(const uint8_t *head, struct heldfile *h)
{
    if (memcmp(head, magic, sizeof magic) != 0)
        return -EBADMSG;
    if (get_le32(head + 8) != HELD_VERSION)
        return -EPROTONOSUPPORT;
    memcpy(h->mark.uuid, head + 16, sizeof h->mark.uuid);
    h->mark.epoch = get_le64(head + 32);
    h->mark.first_ms = get_le64(head + 40);
    h->keyspaces = get_le64(head + 48);
    h->newest_ms = get_le64(head + 64);
    return h->keyspaces > 0 ? 0 : -EBADMSG;
}

/* Walks through all keyspaces once, so that held_many_next cannot fail. */
static int
check_groups(const struct heldfile_many *m)
{
    size_t at = FIRST_AT;
    uint64_t i;

    if (m->keyspaces > m->size / GROUP_SIZE)
        return -EBADMSG;
    for (i = 0; i < m->keyspaces; i++) {
        const int64_t n = group_size(m->bytes + at, m->size - at);

        if (n < 0)
            return (int)n;
        if (group_epoch(m->bytes + at) > m->last)
            return -EBADMSG;
        at += (size_t)n;
    }
    return at == m->size ? 0 : -EBADMSG;
}

static int
check_file(struct heldfile_many *m)
{
    struct heldfile h;
    uint32_t crc;
    int rc;

    if (m->size < FIRST_AT)
        return -EBADMSG;
    rc = heldfile_many_head(m->bytes, &h);
    if (rc < 0)
        return rc;
    crc = (uint32_t)crc32_z(0, m->bytes + HELD_CRC_AT + 4,
                            m->size - HELD_CRC_AT - 4);
    if (crc != get_le32(m->bytes + HELD_CRC_AT))
        return -EBADMSG;
    m->mark = h.mark;
    m->last = get_le64(m->bytes + 56);
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
lock_file(struct heldfile_many *m, int held_fd, const char *file)
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
open_once(int held_fd, const char *file, bool lock, struct heldfile_many *m)
{
    int rc = 0;

    *m = (struct heldfile_many){.at = FIRST_AT};
    m->fd = heldfile_file_open(held_fd, file, &m->size);
    if (m->fd < 0)
        return m->fd;
    if (lock)
        rc = lock_file(m, held_fd, file);
    if (rc < 0)
        heldfile_many_free(m);
    return rc;
}

static int
open_many(int held_fd, const char *file, bool lock, struct heldfile_many *m)
{
    int rc = -EAGAIN;
    unsigned i;

    assert(heldfile_is_many(file));
    for (i = 0; i < LOOKS_MAX && rc == -EAGAIN; i++)
        rc = open_once(held_fd, file, lock, m);
    return rc;
}

static int
load(struct heldfile_many *m)
{
    int rc;

    m->bytes = malloc(m->size + 1);
    if (!m->bytes)
        return -ENOMEM;
    rc = heldfile_file_read(m->fd, m->bytes, m->size);
    return rc < 0 ? rc : check_file(m);
}

int
heldfile_many_get(int held_fd, const char *file, bool lock,
                  struct heldfile_many *out)
{
    int rc;

    rc = open_many(held_fd, file, lock, out);
    if (rc < 0)
        return rc;
    rc = load(out);
    if (rc < 0)
        heldfile_many_free(out);
    return rc;
}

int
heldfile_many_set_aside(int held_fd, const char *file, char *aside, size_t size)
{
    struct heldfile_many m;
    int rc;

    rc = open_many(held_fd, file, true, &m);
    if (rc == -EBADMSG) /* no regular file: nobody can hold it */
        return heldfile_set_aside(held_fd, file, aside, size);
    if (rc < 0)
        return rc;
    rc = m.locked ? load(&m) : 0;
    if (rc == -EBADMSG)
        rc = heldfile_set_aside(held_fd, file, aside, size);
    else if (rc == 0)
        rc = -EBUSY;
    heldfile_many_free(&m);
    return rc;
}

void
heldfile_many_free(struct heldfile_many *m)
{
    (void)close(m->fd); /* opened for reading only */
    free(m->bytes);
    free(m->drop);
    free(m->deltas);
    *m = (struct heldfile_many){.fd = -1};
}

void
heldfile_many_rewind(struct heldfile_many *m)
{
    m->at = FIRST_AT;
    m->next = 0;
}

bool
heldfile_many_next(struct heldfile_many *m, struct heldfile *h)
{
    const uint8_t *at = m->bytes + m->at;

    if (m->next == m->keyspaces)
        return false;
    memset(h, 0, sizeof *h);
    h->mark = m->mark;
    h->mark.epoch = group_epoch(at);
    h->mark.first_ms = get_le64(at + 8);
    h->count = get_le64(at + 16);
    h->name_size = get_le16(at + 32);
    memcpy(h->name, at + GROUP_SIZE, h->name_size);
    m->records = at + GROUP_SIZE + h->name_size;
    m->at += GROUP_SIZE + h->name_size + get_le64(at + 24);
    m->next++;
    return true;
}

bool
heldfile_many_later(const struct heldfile_many *m, const struct heldfile *h,
                    size_t *from, struct store_mark *mark)
{
    size_t at = *from == 0 ? m->at : *from;

    while (at < m->size) {
        const uint8_t *group = m->bytes + at;

        at += (size_t)group_size(group, m->size - at);
        if (get_le16(group + 32) != h->name_size ||
            memcmp(group + GROUP_SIZE, h->name, h->name_size) != 0)
            continue;
        *mark = m->mark;
        mark->epoch = group_epoch(group);
        mark->first_ms = get_le64(group + 8);
        *from = at;
        return true;
    }
    return false;
}

static int
reserve_deltas(struct heldfile_many *m, size_t count)
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
heldfile_many_records(struct heldfile_many *m, struct heldfile *h)
{
    const uint8_t *end = m->bytes + m->at, *at = m->records;
    size_t i;
    int rc;

    rc = reserve_deltas(m, h->count);
    if (rc < 0)
        return rc;
    for (i = 0; i < h->count; i++) {
        rc = heldfile_delta_get(at, (size_t)(end - at), &m->deltas[i]);
        if (rc < 0)
            return rc;
        if (i > 0 && !heldfile_delta_before(&m->deltas[i - 1], &m->deltas[i]))
            return -EBADMSG;
        at += rc;
    }
    h->deltas = m->deltas;
    return at == end ? 0 : -EBADMSG;
}

/* ---- putting keyspaces behind others ---------------------------------- */

/* The newest file of this log, up to this epoch; false: there is none. */
static int
find_newest(int held_fd, const struct store_mark *mark, char *file,
            uint64_t *epoch)
{
    struct store_mark found;
    const char *name;
    bool any = false;
    DIR *dir;
    int rc;

    rc = dirstream_open(held_fd, ".", &dir);
    if (rc < 0)
        return rc;
    while ((rc = dirstream_next(dir, &name)) > 0) {
        if (!heldfile_is_many(name) || !heldfile_parse_name(name, &found) ||
            memcmp(found.uuid, mark->uuid, sizeof found.uuid) != 0 ||
            found.epoch > mark->epoch || (any && found.epoch < *epoch))
            continue;
        any = true;
        *epoch = found.epoch;
        (void)snprintf(file, HELD_NAME_SIZE, "%s", name); /* fits */
    }
    (void)closedir(dir); /* only read */
    return rc < 0 ? rc : any;
}

/* Marks for dropping what the file has of this very epoch: it is written again.
 *   -EEXIST  it has records of another fill of it */
static int
drop_epoch(struct heldfile_many *m, const struct store_mark *mark,
           struct summary *left)
{
    struct heldfile h;
    int rc = 0;

    while (heldfile_many_next(m, &h)) {
        if (h.mark.epoch == mark->epoch) {
            m->drop[m->next - 1] = true;
            if (h.mark.first_ms != mark->first_ms)
                rc = -EEXIST;
        } else {
            summary_add(left, h.mark.epoch, h.mark.first_ms);
        }
    }
    return rc;
}

static void
note_base(struct held_many_base *base, const struct stat *st, uint64_t epoch)
{
    *base = (struct held_many_base){.any = true,
                                    .epoch = epoch,
                                    .inode = st->st_ino,
                                    .size = st->st_size,
                                    .changed = st->st_ctim};
}

/* Reads the file that the new keyspaces go behind, if there is one.  1: it is
 * in `m`; 0: they get a file of their own. */
static int
find_base(int held_fd, const struct store_mark *mark, struct heldfile_many *m,
          struct held_many_base *base)
{
    char file[HELD_NAME_SIZE];
    uint64_t epoch = 0;
    struct stat st;
    int rc;

    *base = (struct held_many_base){.any = false};
    rc = find_newest(held_fd, mark, file, &epoch);
    if (rc <= 0)
        return rc;
    rc = heldfile_many_get(held_fd, file, true, m);
    if (rc == -ENOENT)
        return 0;
    if (rc == -EBADMSG || rc == -EPROTONOSUPPORT)
        return epoch == mark->epoch ? -EEXIST : 0;
    if (rc < 0)
        return rc;
    if (m->last < mark->epoch && (m->size >= SMALL || !m->locked)) {
        heldfile_many_free(m); /* too large, or in another's hands */
        return 0;
    }
    if (fstat(m->fd, &st) < 0) {
        rc = -errno;
        heldfile_many_free(m);
        return rc;
    }
    note_base(base, &st, epoch);
    return 1;
}

int
heldfile_many_begin(struct held_out **out, int held_fd,
                    const struct store_mark *mark, uint64_t keyspaces,
                    struct held_many_base *base)
{
    struct summary sum = {.oldest_ms = UINT64_MAX};
    struct store_mark first = *mark;
    char temporary[HELD_TEMP_SIZE];
    struct heldfile_many m;
    int rc, found;

    assert(keyspaces > 0);
    temporary_name(mark, temporary);
    found = find_base(held_fd, mark, &m, base);
    if (found < 0)
        return found;
    rc = found ? drop_epoch(&m, mark, &sum) : 0;
    if (found)
        first.epoch = base->epoch;
    summary_add(&sum, mark->epoch, mark->first_ms);
    sum.keyspaces += keyspaces - 1;
    if (rc == 0)
        rc = open_out(out, held_fd, temporary, &first, &sum);
    if (rc == 0) {
        (*out)->mark = *mark;
        if (found)
            put_kept(*out, &m);
    }
    if (found)
        heldfile_many_free(&m);
    return rc;
}

static bool
is_base(const struct stat *st, const struct held_many_base *base)
{
    return st->st_ino == base->inode && st->st_size == base->size &&
           st->st_ctim.tv_sec == base->changed.tv_sec &&
           st->st_ctim.tv_nsec == base->changed.tv_nsec;
}

/* Puts the new file in place of the one it was made from, unless that has
 * changed meanwhile. */
static int
replace(int held_fd, const char *temporary, const char *file,
        const struct held_many_base *base)
{
    struct heldfile_many there;
    struct stat st;
    int rc;

    rc = open_many(held_fd, file, true, &there);
    if (rc == -ENOENT)
        return -EEXIST;
    if (rc < 0)
        return rc;
    if (!there.locked || fstat(there.fd, &st) < 0 || !is_base(&st, base))
        rc = -EEXIST;
    else if (renameat(held_fd, temporary, held_fd, file) < 0)
        rc = -errno;
    heldfile_many_free(&there);
    return rc;
}

int
heldfile_many_publish(int held_fd, const struct store_mark *mark,
                      const struct held_many_base *base)
{
    char file[HELD_NAME_SIZE], temporary[HELD_TEMP_SIZE];
    struct store_mark first = *mark;

    temporary_name(mark, temporary);
    if (base->any) {
        first.epoch = base->epoch;
        heldfile_name(PREFIX, &first, file);
        return replace(held_fd, temporary, file, base);
    }
    heldfile_name(PREFIX, mark, file);
    return renameat2(held_fd, temporary, held_fd, file, RENAME_NOREPLACE) < 0
               ? -errno
               : 0;
}

/* ---- dropping ---------------------------------------------------------- */

static int
write_kept(struct heldfile_many *m, int held_fd, const char *temporary)
{
    struct summary left = {.oldest_ms = UINT64_MAX};
    struct held_out *o;
    struct heldfile h;
    int rc;

    heldfile_many_rewind(m);
    while (heldfile_many_next(m, &h))
        if (!m->drop[m->next - 1])
            summary_add(&left, h.mark.epoch, h.mark.first_ms);
    rc = open_out(&o, held_fd, temporary, &m->mark, &left);
    if (rc < 0)
        return rc;
    put_kept(o, m);
    return heldfile_out_close(o, held_fd, temporary, 0, true);
}

int
heldfile_many_drop(struct heldfile_many *m, int held_fd, const char *file)
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
        return heldfile_remove(held_fd, file);

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
