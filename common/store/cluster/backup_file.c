/* common/store/cluster/backup_file.c - see backup_file.h.
 *
 * Entry points: backup_file_create(), backup_file_add(), backup_file_finish(),
 * backup_file_open(), backup_file_next(). */
#include "common/store/cluster/backup_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/crc.h"

#define MAGIC      "COUNTDR1"
#define MAGIC_SIZE 8
#define FRAME_SIZE 8 /* size and crc32 */
#define BLOCK_MAX  ((size_t)1 << 30)

/* The bytes of a block before its fields, with the kind. */
static size_t
head_size_of(const uint8_t *bytes, size_t size)
{
    switch (bytes[0]) {
    case BACKUP_HEAD:
    case BACKUP_END:
        return size; /* no fields */
    case BACKUP_PERIOD:
        return 1 + CLUSTER_PERIOD_HEAD;
    case BACKUP_COUNTS:
        return 1;
    default:
        return 0;
    }
}

static int
open_stream(struct backup_file *f, int dir_fd, const char *name, int flags,
            const char *mode)
{
    const int fd = openat(dir_fd, name, flags | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -errno : 0;

    *f = (struct backup_file){.stream = fd < 0 ? NULL : fdopen(fd, mode)};
    if (fd >= 0 && f->stream == NULL) {
        rc = -errno;
        (void)close(fd);
    }
    return rc;
}

void
backup_file_close(struct backup_file *f)
{
    if (f->stream != NULL)
        (void)fclose(f->stream); /* what was written is synced, or removed */
    free(f->bytes);
    *f = (struct backup_file){.stream = NULL};
}

/* ---- writing ------------------------------------------------------------ */

static int
write_bytes(struct backup_file *f, const void *bytes, size_t size)
{
    errno = EIO;
    return fwrite(bytes, 1, size, f->stream) == size ? 0 : -errno;
}

int
backup_file_create(struct backup_file *f, int dir_fd, const char *name)
{
    int rc;

    rc = open_stream(f, dir_fd, name, O_WRONLY | O_CREAT | O_EXCL, "w");
    return rc == 0 ? write_bytes(f, MAGIC, MAGIC_SIZE) : rc;
}

static int
write_block(struct backup_file *f)
{
    uint8_t frame[FRAME_SIZE];
    int rc;

    if (f->size == 0)
        return 0;
    put_le32(frame, (uint32_t)f->size);
    put_le32(frame + 4, crc_of(f->bytes, f->size));
    rc = write_bytes(f, frame, sizeof frame);
    if (rc == 0)
        rc = write_bytes(f, f->bytes, f->size);
    f->size = 0;
    f->blocks++;
    return rc;
}

int
backup_file_begin(struct backup_file *f, enum backup_block kind,
                  const void *head, size_t head_size)
{
    int rc;

    rc = write_block(f);
    if (rc == 0)
        rc = array_grow(&f->bytes, &f->capacity, 1 + head_size, 1);
    if (rc < 0)
        return rc;
    f->bytes[0] = (uint8_t)kind;
    if (head_size > 0)
        memcpy(f->bytes + 1, head, head_size);
    f->size = f->head_size = 1 + head_size;
    return 0;
}

/* Writes the block and begins another one with its head. */
static int
continue_block(struct backup_file *f)
{
    const size_t head_size = f->head_size;
    int rc;

    rc = write_block(f);
    f->size = head_size;
    return rc;
}

int
backup_file_add(struct backup_file *f, const struct backup_field *field)
{
    const size_t more = 8 + field->field_size + field->value_size;
    uint8_t *at;
    int rc = 0;

    if (f->size > BACKUP_BLOCK_ENOUGH)
        rc = continue_block(f);
    if (rc == 0)
        rc = array_grow(&f->bytes, &f->capacity, f->size + more, 1);
    if (rc < 0)
        return rc;
    at = f->bytes + f->size;
    put_le32(at, (uint32_t)field->field_size);
    put_le32(at + 4, (uint32_t)field->value_size);
    memcpy(at + 8, field->field, field->field_size);
    memcpy(at + 8 + field->field_size, field->value, field->value_size);
    f->size += more;
    return 0;
}

int
backup_file_finish(struct backup_file *f)
{
    uint8_t blocks[8];
    int rc;

    rc = write_block(f);
    put_le64(blocks, f->blocks);
    if (rc == 0)
        rc = backup_file_begin(f, BACKUP_END, blocks, sizeof blocks);
    if (rc == 0)
        rc = write_block(f);
    if (rc == 0 && (fflush(f->stream) != 0 || fsync(fileno(f->stream)) < 0))
        rc = -errno;
    return rc;
}

/* ---- reading ------------------------------------------------------------ */

static int
read_bytes(struct backup_file *f, void *bytes, size_t size)
{
    if (fread(bytes, 1, size, f->stream) == size)
        return 0;
    return ferror(f->stream) ? -EIO : -EBADMSG;
}

int
backup_file_open(struct backup_file *f, int dir_fd, const char *name)
{
    uint8_t magic[MAGIC_SIZE];
    int rc;

    rc = open_stream(f, dir_fd, name, O_RDONLY, "r");
    if (rc == 0)
        rc = read_bytes(f, magic, sizeof magic);
    if (rc < 0)
        return rc;
    return memcmp(magic, MAGIC, MAGIC_SIZE) != 0 ? -EBADMSG : 0;
}

int
backup_file_next(struct backup_file *f, enum backup_block *kind,
                 const uint8_t **head)
{
    uint8_t frame[FRAME_SIZE];
    int rc;

    rc = read_bytes(f, frame, sizeof frame);
    if (rc < 0)
        return rc;
    f->size = get_le32(frame);
    if (f->size < 1 || f->size > BLOCK_MAX)
        return -EBADMSG;
    rc = array_grow(&f->bytes, &f->capacity, f->size, 1);
    if (rc == 0)
        rc = read_bytes(f, f->bytes, f->size);
    if (rc < 0)
        return rc;
    f->head_size = head_size_of(f->bytes, f->size);
    if (crc_of(f->bytes, f->size) != get_le32(frame + 4) || f->head_size == 0 ||
        f->head_size > f->size)
        return -EBADMSG;
    *kind = f->bytes[0];
    *head = f->bytes + 1;
    if (*kind == BACKUP_END && (f->size != 9 || get_le64(*head) != f->blocks ||
                                fgetc(f->stream) != EOF))
        return -EBADMSG;
    f->blocks++;
    return 0;
}

bool
backup_file_field(const struct backup_file *f, size_t *at,
                  struct backup_field *out)
{
    const size_t from = *at == 0 ? f->head_size : *at;
    const uint8_t *bytes = f->bytes + from;
    const size_t left = f->size - from;

    if (left < 8)
        return false;
    out->field_size = get_le32(bytes);
    out->value_size = get_le32(bytes + 4);
    if (out->field_size > left - 8 ||
        out->value_size > left - 8 - out->field_size)
        return false;
    out->field = bytes + 8;
    out->value = bytes + 8 + out->field_size;
    *at = from + 8 + out->field_size + out->value_size;
    return true;
}
