/* common/store/lmdb/held_files.c - see held.h.
 *
 * A file is whole before it has its name: written and synced as %t..., then
 * renamed without replacing, then the directory is synced.  '%t' never begins
 * the name of a keyspace file, and a set-aside name has no two commas, so the
 * three kinds of names cannot meet.
 */
#include "common/store/lmdb/held_files.h"
#include "common/store/lmdb/held_file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/wire/name.h"

#define UUID_TEXT  32
#define EPOCH_TEXT 16

static const uint8_t magic[8] = "COUNTDH1";

/* ---- names ------------------------------------------------------------- */

void
heldfile_name(const char *prefix, const struct store_mark *mark,
              char file[HELD_NAME_SIZE])
{
    char uuid[UUID_TEXT + 1];
    size_t i;

    for (i = 0; i < sizeof mark->uuid; i++)
        (void)snprintf(uuid + 2 * i, 3, "%02x", mark->uuid[i]); /* fits */
    (void)snprintf(file, HELD_NAME_SIZE, "%s,%s,%016llx", prefix, uuid,
                   (unsigned long long)mark->epoch); /* fits */
}

static void
file_name(const uint8_t *hash_key, const uint8_t *name, size_t name_size,
          const struct store_mark *mark, char file[HELD_NAME_SIZE])
{
    char keyspace[NAME_FILE_SIZE];

    name_to_file(name, name_size, hash_key, keyspace);
    heldfile_name(keyspace, mark, file);
}

static void
temporary_name(const uint8_t *hash_key, const uint8_t *name, size_t name_size,
               const struct store_mark *mark, char temporary[HELD_TEMP_SIZE])
{
    char file[HELD_NAME_SIZE];

    file_name(hash_key, name, name_size, mark, file);
    (void)snprintf(temporary, HELD_TEMP_SIZE, "%%t%s", file); /* fits */
}

static bool
is_hex(const char *at, size_t count)
{
    return strspn(at, "0123456789abcdef") >= count;
}

/* True for KEYSPACEFILE,UUID,EPOCH; not for %t names and those set aside. */
static bool
is_held_name(const char *file)
{
    const size_t tail = 1 + UUID_TEXT + 1 + EPOCH_TEXT;
    const size_t size = strlen(file);
    const char *at;

    if (size <= tail || size >= HELD_NAME_SIZE || strncmp(file, "%t", 2) == 0)
        return false;
    at = file + size - tail;
    return at[0] == ',' && is_hex(at + 1, UUID_TEXT) &&
           at[1 + UUID_TEXT] == ',' && is_hex(at + 2 + UUID_TEXT, EPOCH_TEXT);
}

static unsigned
digit_value(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

bool
heldfile_parse_name(const char *file, struct store_mark *mark)
{
    const char *at;
    size_t i;

    if (!is_held_name(file))
        return false;
    at = file + strlen(file) - EPOCH_TEXT;
    *mark = (struct store_mark){.epoch = 0};
    for (i = 0; i < EPOCH_TEXT; i++)
        mark->epoch = mark->epoch << 4 | digit_value(at[i]);
    at -= 1 + UUID_TEXT;
    for (i = 0; i < sizeof mark->uuid; i++)
        mark->uuid[i] =
            (uint8_t)(digit_value(at[2 * i]) << 4 | digit_value(at[2 * i + 1]));
    return true;
}

/* ---- writing ----------------------------------------------------------- */

static int
write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t n = write(fd, bytes, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

static void
out_flush(struct held_out *o)
{
    if (o->rc == 0)
        o->rc = write_all(o->fd, o->bytes, o->used);
    o->used = 0;
}

static void
out_bytes(struct held_out *o, const void *bytes, size_t size)
{
    assert(size <= HELD_BUFFER_SIZE);
    if (o->used + size > HELD_BUFFER_SIZE)
        out_flush(o);
    memcpy(o->bytes + o->used, bytes, size);
    o->used += size;
    o->crc = (uint32_t)crc32(o->crc, bytes, (unsigned)size);
}

void
heldfile_out_put(struct held_out *o, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    while (size > 0) {
        const size_t n = size < HELD_BUFFER_SIZE ? size : HELD_BUFFER_SIZE;

        out_bytes(o, at, n);
        at += n;
        size -= n;
    }
}

void
heldfile_out_delta(struct held_out *o, const struct store_delta *d)
{
    uint8_t bytes[HELD_RECORD_SIZE];

    put_le32(bytes, d->minute);
    put_le64s(bytes + 4, d->sum_high);
    put_le64(bytes + 12, d->sum_low);
    put_le16(bytes + 20, d->key_size);
    out_bytes(o, bytes, sizeof bytes);
    out_bytes(o, d->key, d->key_size);
}

int
heldfile_out_open(struct held_out **out, int held_fd, const char *temporary,
                  const uint8_t *head)
{
    struct held_out *o;
    int rc;

    /* Only the owner of the log writes this name, so what is there is left
     * from an owner that died. */
    if (unlinkat(held_fd, temporary, 0) < 0 && errno != ENOENT)
        return -errno;
    o = malloc(sizeof *o);
    if (!o)
        return -ENOMEM;
    o->fd = openat(held_fd, temporary,
                   O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (o->fd < 0) {
        rc = -errno;
        free(o);
        return rc;
    }
    o->rc = 0;
    o->used = HELD_CRC_AT + 4;
    memcpy(o->bytes, head, o->used);
    o->crc = (uint32_t)crc32(0, NULL, 0);
    out_bytes(o, head + HELD_CRC_AT + 4, HELD_HEAD_SIZE - HELD_CRC_AT - 4);
    *out = o;
    return 0;
}

/* The crc, known last, goes in at the end. */
static int
put_crc(const struct held_out *o)
{
    uint8_t crc[4];

    put_le32(crc, o->crc);
    if (lseek(o->fd, HELD_CRC_AT, SEEK_SET) < 0)
        return -errno;
    return write_all(o->fd, crc, sizeof crc);
}

int
heldfile_out_close(struct held_out *o, int held_fd, const char *temporary,
                   int error, bool sync)
{
    int rc = error;

    if (rc == 0)
        out_flush(o);
    if (rc == 0)
        rc = o->rc;
    if (rc == 0)
        rc = put_crc(o);
    if (rc == 0 && sync && fsync(o->fd) < 0)
        rc = -errno;
    (void)close(o->fd); /* synced, to be synced, or given up */
    free(o);
    if (rc < 0)
        (void)unlinkat(held_fd, temporary, 0); /* else it is tidied up */
    return rc;
}

static void
put_head(uint8_t head[HELD_HEAD_SIZE], size_t name_size,
         const struct store_mark *mark, size_t count)
{
    memset(head, 0, HELD_HEAD_SIZE);
    memcpy(head, magic, sizeof magic);
    put_le32(head + 8, HELD_VERSION);
    memcpy(head + 16, mark->uuid, sizeof mark->uuid);
    put_le64(head + 32, mark->epoch);
    put_le64(head + 40, mark->first_ms);
    put_le64(head + 48, count);
    put_le16(head + 56, (uint16_t)name_size);
}

/* Gives the finished file its name.  One that is there already was written
 * for the same records and stays, unless it is damaged: then the log it came
 * from still exists, and so do its records. */
static int
name_file(int held_fd, const char *temporary, const char *file,
          uint64_t first_ms)
{
    struct heldfile there;
    bool same;
    int rc;

    if (renameat2(held_fd, temporary, held_fd, file, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    rc = heldfile_get(held_fd, file, &there);
    if (rc == 0) {
        same = there.mark.first_ms == first_ms;
        heldfile_free(&there);
        if (!same)
            return -EEXIST;
        return unlinkat(held_fd, temporary, 0) < 0 ? -errno : 0;
    }
    if (rc != -EBADMSG)
        return rc;
    return renameat(held_fd, temporary, held_fd, file) < 0 ? -errno : 0;
}

int
heldfile_write(int held_fd, const uint8_t *hash_key, const uint8_t *name,
               size_t name_size, const struct store_mark *mark,
               const struct store_delta *deltas, size_t count, bool sync)
{
    char temporary[HELD_TEMP_SIZE];
    uint8_t head[HELD_HEAD_SIZE];
    struct held_out *o;
    size_t i;
    int rc;

    assert(name_size > 0 && name_size <= NAME_MAX_SIZE);
    temporary_name(hash_key, name, name_size, mark, temporary);
    put_head(head, name_size, mark, count);
    rc = heldfile_out_open(&o, held_fd, temporary, head);
    if (rc < 0)
        return rc;
    heldfile_out_put(o, name, name_size);
    for (i = 0; i < count && o->rc == 0; i++)
        heldfile_out_delta(o, &deltas[i]);
    return heldfile_out_close(o, held_fd, temporary, 0, sync);
}

int
heldfile_sync(int held_fd)
{
    /* One wait for all of them, where fsync would wait for each. */
    return syncfs(held_fd) < 0 ? -errno : 0;
}

int
heldfile_publish(int held_fd, const uint8_t *hash_key, const uint8_t *name,
                 size_t name_size, const struct store_mark *mark)
{
    char file[HELD_NAME_SIZE], temporary[HELD_TEMP_SIZE];

    file_name(hash_key, name, name_size, mark, file);
    temporary_name(hash_key, name, name_size, mark, temporary);
    return name_file(held_fd, temporary, file, mark->first_ms);
}

void
heldfile_discard(int held_fd, const uint8_t *hash_key, const uint8_t *name,
                 size_t name_size, const struct store_mark *mark)
{
    char temporary[HELD_TEMP_SIZE];

    temporary_name(hash_key, name, name_size, mark, temporary);
    (void)unlinkat(held_fd, temporary, 0); /* else it is tidied up */
}

int
heldfile_settle(int held_fd)
{
    return fsync(held_fd) < 0 ? -errno : 0;
}

int
heldfile_put(int held_fd, const uint8_t *hash_key, const uint8_t *name,
             size_t name_size, const struct store_mark *mark,
             const struct store_delta *deltas, size_t count)
{
    int rc;

    rc = heldfile_write(held_fd, hash_key, name, name_size, mark, deltas, count,
                        true);
    if (rc == 0)
        rc = heldfile_publish(held_fd, hash_key, name, name_size, mark);
    if (rc == 0)
        rc = heldfile_settle(held_fd);
    return rc;
}

/* ---- reading ----------------------------------------------------------- */

static int
get_head(const uint8_t head[HELD_HEAD_SIZE], struct heldfile *h)
{
    if (memcmp(head, magic, sizeof magic) != 0)
        return -EBADMSG;
    if (get_le32(head + 8) != HELD_VERSION)
        return -EPROTONOSUPPORT;
    h->name_size = get_le16(head + 56);
    if (h->name_size == 0 || h->name_size > NAME_MAX_SIZE)
        return -EBADMSG;
    memcpy(h->mark.uuid, head + 16, sizeof h->mark.uuid);
    h->mark.epoch = get_le64(head + 32);
    h->mark.first_ms = get_le64(head + 40);
    h->count = get_le64(head + 48);
    return 0;
}

bool
heldfile_delta_before(const struct store_delta *a, const struct store_delta *b)
{
    const size_t least = a->key_size < b->key_size ? a->key_size : b->key_size;
    const int order = memcmp(a->key, b->key, least);

    if (order != 0)
        return order < 0;
    if (a->key_size != b->key_size)
        return a->key_size < b->key_size;
    return a->minute < b->minute;
}

int
heldfile_delta_get(const uint8_t *at, size_t size, struct store_delta *d)
{
    if (size < HELD_RECORD_SIZE)
        return -EBADMSG;
    d->minute = get_le32(at);
    d->sum_high = get_le64s(at + 4);
    d->sum_low = get_le64(at + 12);
    d->key_size = get_le16(at + 20);
    d->key = at + HELD_RECORD_SIZE;
    if (d->key_size == 0 || d->key_size > NAME_MAX_SIZE ||
        d->key_size > size - HELD_RECORD_SIZE ||
        memchr(d->key, 0, d->key_size) != NULL)
        return -EBADMSG;
    return HELD_RECORD_SIZE + d->key_size;
}

static int
get_deltas(struct heldfile *h, size_t size)
{
    size_t at = HELD_HEAD_SIZE + h->name_size, i;
    int n;

    /* Each record takes more than HELD_RECORD_SIZE bytes. */
    if (h->count > size / HELD_RECORD_SIZE)
        return -EBADMSG;
    h->deltas = malloc((h->count + 1) * sizeof *h->deltas);
    if (!h->deltas)
        return -ENOMEM;
    for (i = 0; i < h->count; i++) {
        n = heldfile_delta_get(h->bytes + at, size - at, &h->deltas[i]);
        if (n < 0)
            return n;
        if (i > 0 && !heldfile_delta_before(&h->deltas[i - 1], &h->deltas[i]))
            return -EBADMSG;
        at += (size_t)n;
    }
    return at == size ? 0 : -EBADMSG;
}

static int
check_file(struct heldfile *h, size_t size)
{
    const uint8_t *rest = h->bytes + HELD_CRC_AT + 4;
    uint32_t crc;
    int rc;

    if (size < HELD_HEAD_SIZE)
        return -EBADMSG;
    rc = get_head(h->bytes, h);
    if (rc < 0)
        return rc;
    crc = (uint32_t)crc32_z(0, rest, size - HELD_CRC_AT - 4);
    if (crc != get_le32(h->bytes + HELD_CRC_AT) || !h->name_size ||
        size < HELD_HEAD_SIZE + h->name_size)
        return -EBADMSG;
    memcpy(h->name, h->bytes + HELD_HEAD_SIZE, h->name_size);
    return get_deltas(h, size);
}

int
heldfile_file_read(int fd, uint8_t *bytes, size_t size)
{
    size_t at = 0;

    while (at < size) {
        const ssize_t n = pread(fd, bytes + at, size - at, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EBADMSG;
        at += (size_t)n;
    }
    return 0;
}

static int
not_regular(const char *file)
{
    static struct diag_repeat repeat;

    diag_repeating(&repeat, DIAG_ERROR, "held=%s is not a regular file", file);
    return -EBADMSG;
}

int
heldfile_file_open(int held_fd, const char *file, size_t *size)
{
    struct stat st;
    int fd, rc;

    /* Not blocking: to open a FIFO would wait for somebody to write to it. */
    fd = openat(held_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    rc = fd < 0 ? -errno : 0;
    if (rc == -ELOOP || rc == -ENXIO)
        return not_regular(file); /* a link, a socket */
    if (rc < 0)
        return rc;
    if (fstat(fd, &st) < 0) {
        rc = -errno;
    } else if (!S_ISREG(st.st_mode)) {
        rc = not_regular(file);
    } else {
        *size = (size_t)st.st_size;
        return fd;
    }
    (void)close(fd); /* opened for reading only */
    return rc;
}

int
heldfile_get(int held_fd, const char *file, struct heldfile *out)
{
    struct heldfile *h = out;
    size_t size = 0;
    int fd, rc;

    fd = heldfile_file_open(held_fd, file, &size);
    if (fd < 0)
        return fd;
    memset(h, 0, sizeof *h);
    h->bytes = malloc(size + 1);
    rc = h->bytes ? heldfile_file_read(fd, h->bytes, size) : -ENOMEM;
    (void)close(fd); /* opened for reading only */
    if (rc == 0)
        rc = check_file(h, size);
    if (rc < 0)
        heldfile_free(h);
    return rc;
}

void
heldfile_free(struct heldfile *h)
{
    free(h->deltas);
    free(h->bytes);
    h->deltas = NULL;
    h->bytes = NULL;
    h->count = 0;
}

/* Reads head and keyspace.  What is not one leaves name_size 0. */
static int
read_head(int held_fd, const char *file, struct heldfile *h)
{
    uint8_t bytes[HELD_HEAD_SIZE + NAME_MAX_SIZE];
    size_t size = 0;
    int fd, rc;

    memset(h, 0, sizeof *h);
    fd = heldfile_file_open(held_fd, file, &size);
    if (fd < 0)
        return fd;
    if (size > sizeof bytes)
        size = sizeof bytes;
    rc = heldfile_file_read(fd, bytes, size);
    (void)close(fd); /* opened for reading only */
    if (rc == 0)
        rc = size < HELD_HEAD_SIZE    ? -EBADMSG
             : heldfile_is_many(file) ? heldfile_many_head(bytes, h)
                                      : get_head(bytes, h);
    if (rc == 0 && size < HELD_HEAD_SIZE + h->name_size)
        rc = -EBADMSG;
    if (rc == 0)
        memcpy(h->name, bytes + HELD_HEAD_SIZE, h->name_size);
    else
        *h = (struct heldfile){.newer = rc == -EPROTONOSUPPORT};
    return rc;
}

int
heldfile_each(int held_fd,
              int (*file)(void *ctx, const char *file,
                          const struct heldfile *h),
              void *ctx)
{
    struct heldfile h;
    const char *name;
    DIR *dir;
    int rc;

    rc = dirstream_open(held_fd, ".", &dir);
    if (rc < 0)
        return rc;
    while ((rc = dirstream_next(dir, &name)) > 0) {
        if (!is_held_name(name))
            continue;
        rc = read_head(held_fd, name, &h);
        if (rc == -ENOENT)
            continue; /* merged meanwhile */
        if (rc == 0 || rc == -EBADMSG || rc == -EPROTONOSUPPORT)
            rc = file(ctx, name, &h);
        if (rc != 0)
            break;
    }
    (void)closedir(dir); /* opened for reading only */
    return rc;
}

int
heldfile_remove(int held_fd, const char *file)
{
    assert(is_held_name(file));
    if (unlinkat(held_fd, file, 0) < 0 && errno != ENOENT)
        return -errno;
    /* Before a later epoch of the same log is merged, or a power loss could
     * bring the file back behind a mark that is ahead of it. */
    return fsync(held_fd) < 0 ? -errno : 0;
}

static int
is_unfinished(const struct dirent *entry)
{
    return strncmp(entry->d_name, "%t", 2) == 0;
}

int
heldfile_tidy(int held_fd, uint64_t age_ms)
{
    const uint64_t now = clock_unix_ms();
    struct dirent **files = NULL;
    struct stat st;
    int count, i, rc = 0;

    count = scandirat(held_fd, ".", &files, is_unfinished, NULL);
    if (count < 0)
        return -errno;
    for (i = 0; i < count; i++) {
        const char *file = files[i]->d_name;

        if (fstatat(held_fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            (uint64_t)st.st_mtim.tv_sec * 1000 + age_ms < now &&
            unlinkat(held_fd, file, 0) < 0 && errno != ENOENT)
            rc = -errno;
        free(files[i]);
    }
    free(files);
    return rc;
}

int
heldfile_set_aside(int held_fd, const char *file, char *aside, size_t size)
{
    const size_t tail = 1 + UUID_TEXT + 1 + EPOCH_TEXT;
    const char *uuid, *epoch;
    int keyspace;

    assert(is_held_name(file));
    keyspace = (int)(strlen(file) - tail);
    uuid = file + keyspace + 1;
    epoch = uuid + UUID_TEXT + 1;
    if (snprintf(aside, size, "bad-%.*s-%s-%.*s", UUID_TEXT, uuid, epoch,
                 keyspace, file) >= (int)size)
        return -ENAMETOOLONG;
    if (renameat(held_fd, file, held_fd, aside) < 0)
        return -errno;
    return fsync(held_fd) < 0 ? -errno : 0;
}

int
heldfile_keep(int held_fd, const uint8_t *hash_key, const struct heldfile *h,
              char *aside, size_t size)
{
    char file[HELD_NAME_SIZE];
    int rc;

    rc = heldfile_put(held_fd, hash_key, h->name, h->name_size, &h->mark,
                      h->deltas, h->count);
    if (rc < 0)
        return rc;
    file_name(hash_key, h->name, h->name_size, &h->mark, file);
    return heldfile_set_aside(held_fd, file, aside, size);
}

/* ---- how old ----------------------------------------------------------- */

struct oldest {
    int held_fd;
    const uint8_t *name;
    size_t name_size;
    uint64_t first_ms;
};

static int
note_oldest_of_many(struct oldest *o, const char *file,
                    const struct heldfile *head)
{
    struct heldfile_many many;
    struct heldfile h;
    int rc;

    if (head->mark.first_ms >= o->first_ms)
        return 0;
    rc = heldfile_many_get(o->held_fd, file, false, &many);
    if (rc == -ENOENT || rc == -EBADMSG)
        return 0; /* merged meanwhile, or like any damaged one */
    if (rc < 0)
        return rc;
    while (heldfile_many_next(&many, &h))
        if (h.name_size == o->name_size &&
            memcmp(h.name, o->name, h.name_size) == 0)
            o->first_ms = head->mark.first_ms;
    heldfile_many_free(&many);
    return 0;
}

static int
note_oldest(void *ctx, const char *file, const struct heldfile *h)
{
    struct oldest *o = ctx;

    if (h->keyspaces > 0)
        return note_oldest_of_many(o, file, h);
    if (h->name_size == o->name_size &&
        memcmp(h->name, o->name, h->name_size) == 0 &&
        h->mark.first_ms < o->first_ms)
        o->first_ms = h->mark.first_ms;
    return 0;
}

int
heldfile_oldest_ms(int held_fd, const uint8_t *name, size_t name_size,
                   uint64_t *oldest_ms)
{
    struct oldest o = {held_fd, name, name_size, UINT64_MAX};
    int rc;

    rc = heldfile_each(held_fd, note_oldest, &o);
    if (rc == 0)
        *oldest_ms = o.first_ms;
    return rc;
}
