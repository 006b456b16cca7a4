/* common/client/cmd/logfile.c - see logfile.h. */
#include "common/client/cmd/logfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/dirstream.h"
#include "common/log/slot.h"

#define SLOTS_AT_ONCE 512
#define UNPACK_SIZE   (64 << 10)
#define UNPACKED_MAX  ((uint64_t)2 << 30) /* log.size ends below it */

/* ---- names ------------------------------------------------------------- */

/* "bad-NNNNNNNNNN-EPOCH" behind its prefix. */
static bool
parse_set_aside(const char *name, const char *prefix, uint64_t *index)
{
    const size_t size = strlen(prefix);
    char digits[LOG_NAME_SIZE];
    bool lock;

    if (strncmp(name, prefix, size) != 0)
        return false;
    name += size;
    if (strnlen(name, LOG_NAME_SIZE) < LOG_NAME_SIZE ||
        name[LOG_NAME_SIZE - 1] != '-')
        return false;
    memcpy(digits, name, LOG_NAME_SIZE - 1);
    digits[LOG_NAME_SIZE - 1] = '\0';
    return log_parse_name(digits, index, &lock) == 0 && !lock;
}

enum logfile_kind
logfile_parse(const char *name, uint64_t *index)
{
    bool lock;

    if (log_parse_name(name, index, &lock) == 0)
        return lock ? LOGFILE_LOCK : LOGFILE_LOG;
    if (parse_set_aside(name, "bad-", index))
        return LOGFILE_BAD;
    if (parse_set_aside(name, "salvaged-", index))
        return LOGFILE_SALVAGED;
    *index = UINT64_MAX;
    return LOGFILE_OTHER;
}

/* ---- the list ---------------------------------------------------------- */

static int
compare_files(const void *a, const void *b)
{
    const struct logfile *x = a;
    const struct logfile *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int
add_file(struct logfile_list *list, int log_fd, const char *name)
{
    struct logfile *f;
    struct stat st;

    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 64;
        struct logfile *larger =
            realloc(list->files, capacity * sizeof *larger);

        if (larger == NULL)
            return -ENOMEM;
        list->files = larger;
        list->capacity = capacity;
    }
    if (fstatat(log_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno; /* gone meanwhile */
    f = &list->files[list->count];
    *f = (struct logfile){
        .mode = st.st_mode & 07777,
        .mtime_ms = (uint64_t)st.st_mtim.tv_sec * 1000 +
                    (uint64_t)st.st_mtim.tv_nsec / 1000000,
    };
    memcpy(f->name, name, strnlen(name, sizeof f->name - 1));
    f->kind = logfile_parse(f->name, &f->index);
    list->count++;
    return 0;
}

/* Marks the logs that have a lock, and keeps only locks without a log. */
static void
join_locks(struct logfile_list *list)
{
    size_t kept = 0;
    size_t log = 0;

    /* Sorted: logs by index, then locks by index. */
    for (size_t i = 0; i < list->count; i++) {
        struct logfile *f = &list->files[i];

        if (f->kind == LOGFILE_LOCK) {
            while (log < kept && list->files[log].kind == LOGFILE_LOG &&
                   list->files[log].index < f->index)
                log++;
            if (log < kept && list->files[log].kind == LOGFILE_LOG &&
                list->files[log].index == f->index) {
                list->files[log].locked = true;
                continue;
            }
        }
        list->files[kept++] = *f;
    }
    list->count = kept;
}

int
logfile_list_read(struct logfile_list *list, int log_fd)
{
    const char *name;
    DIR *dir;
    int rc;

    *list = (struct logfile_list){0};
    rc = dirstream_open(log_fd, ".", &dir);
    if (rc < 0)
        return rc;
    while ((rc = dirstream_next(dir, &name)) > 0) {
        if (name[0] == '.' || strcmp(name, "writer") == 0)
            continue;
        rc = add_file(list, log_fd, name);
        if (rc < 0)
            break;
    }
    (void)closedir(dir); /* only read */
    if (rc < 0) {
        logfile_list_free(list);
        return rc;
    }
    if (list->count > 0)
        qsort(list->files, list->count, sizeof *list->files, compare_files);
    join_locks(list);
    return 0;
}

void
logfile_list_free(struct logfile_list *list)
{
    free(list->files);
    *list = (struct logfile_list){0};
}

/* ---- opening ----------------------------------------------------------- */

/* With the flock nobody else may change the mode: opens the file up, opens
 * it, and puts the mode back. */
static int
open_with_flock(int log_fd, const char *name, int lock_fd)
{
    struct stat st, now;
    int fd, rc;

    if (fstat(lock_fd, &st) < 0)
        return -errno;
    if (fstatat(log_fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (st.st_ino != now.st_ino || (st.st_mode & 07777) != LOG_MODE_FULL)
        return -EBUSY; /* it has changed hands */
    if (fchmod(lock_fd, LOG_MODE_OWNED) < 0)
        return -errno;
    fd = openat(log_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    rc = fd < 0 ? -errno : fd;
    if (fchmod(lock_fd, LOG_MODE_FULL) < 0 && fd >= 0) {
        rc = -errno;
        (void)close(fd); /* only opened */
    }
    return rc;
}

int
logfile_open(int log_fd, const char *name)
{
    int lock_fd, rc;

    rc = openat(log_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (rc >= 0)
        return rc;
    if (errno != EACCES)
        return -errno;
    lock_fd =
        openat(log_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (lock_fd < 0)
        return -errno;
    if (flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
        rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
    else
        rc = open_with_flock(log_fd, name, lock_fd);
    (void)close(lock_fd); /* nothing was written; drops the flock */
    return rc;
}

/* Moves all of a gzip stream into `to`. */
static int
unpack(gzFile from, int to)
{
    static uint8_t bytes[UNPACK_SIZE];

    for (;;) {
        const int n = gzread(from, bytes, sizeof bytes);
        int done = 0;

        if (n < 0 || (n == 0 && !gzeof(from)))
            return -EBADMSG;
        while (done < n) {
            const ssize_t m = write(to, bytes + done, (size_t)(n - done));

            if (m < 0)
                return -errno;
            done += (int)m;
        }
        if (n == 0)
            return 0;
    }
}

/* The archive leaves out what a log has not used; a log is as long as its
 * header says, and what is missing would count as damage. */
static int
lengthen(int fd)
{
    struct layout layout;
    struct log_header h;
    struct stat st;
    uint64_t size;

    if (logfile_header(fd, &h) < 0 ||
        layout_init(&layout, h.keyspace_size, h.key_size) < 0)
        return 0; /* whoever reads it says so */
    if (fstat(fd, &st) < 0)
        return -errno;
    size = LOG_SLOTS_AT + (uint64_t)h.slots * layout.slot_size;
    if (size <= (uint64_t)st.st_size || size > UNPACKED_MAX)
        return 0;
    return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

int
logfile_unpack(int archive_fd, const char *name)
{
    gzFile from;
    int fd, to, rc;

    fd = openat(archive_fd, name,
                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    from = gzdopen(fd, "rb");
    if (from == NULL) {
        (void)close(fd); /* only read */
        return -ENOMEM;
    }
    to = memfd_create("log", MFD_CLOEXEC);
    if (to < 0) {
        rc = -errno;
        goto close_from;
    }
    rc = gzdirect(from) ? -EBADMSG : unpack(from, to);
    if (gzclose(from) != Z_OK && rc == 0)
        rc = -EBADMSG; /* truncated */
    if (rc == 0)
        rc = lengthen(to);
    if (rc == 0)
        return to;
    (void)close(to); /* memory */
    return rc;

close_from:
    (void)gzclose(from); /* only read */
    return rc;
}

/* ---- reading ----------------------------------------------------------- */

static int
read_all(int fd, void *bytes, size_t size, uint64_t at, size_t *got)
{
    *got = 0;
    while (*got < size) {
        const ssize_t n =
            pread(fd, (char *)bytes + *got, size - *got, (off_t)(at + *got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    return 0;
}

int
logfile_header(int fd, struct log_header *out)
{
    uint8_t blocks[2 * LOG_BLOCK_SIZE];
    struct log_header h;
    bool found = false;
    int result = -EBADMSG;
    size_t got;
    int rc;

    rc = read_all(fd, blocks, sizeof blocks, 0, &got);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < 2 && got == sizeof blocks; i++) {
        rc = log_header_get(blocks + i * LOG_BLOCK_SIZE, &h);
        if (rc == -EPROTONOSUPPORT)
            result = rc;
        if (rc < 0 || (found && h.generation <= out->generation))
            continue;
        *out = h;
        found = true;
    }
    return found ? 0 : result;
}

int
logfile_sizes(int log_fd, struct layout *out)
{
    struct logfile_list list;
    struct log_header h;
    int rc;

    rc = logfile_list_read(&list, log_fd);
    if (rc < 0)
        return rc;
    rc = -ENOENT;
    for (size_t i = 0; rc == -ENOENT && i < list.count; i++) {
        int fd;

        if (list.files[i].kind != LOGFILE_LOG)
            continue;
        fd = openat(log_fd, list.files[i].name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue; /* a full one, or gone */
        if (logfile_header(fd, &h) == 0)
            rc = layout_init(out, h.keyspace_size, h.key_size);
        (void)close(fd); /* only read */
    }
    logfile_list_free(&list);
    return rc;
}

int
logfile_each(int fd, const struct log_header *h, uint32_t end,
             int (*slot)(void *ctx, uint32_t number, const struct message *m,
                         const struct slot_stamp *stamp),
             void *ctx, uint32_t *skipped)
{
    struct layout layout;
    uint8_t *bytes;
    int rc;

    *skipped = 0;
    rc = layout_init(&layout, h->keyspace_size, h->key_size);
    assert(rc == 0); /* the header was checked */
    bytes = malloc((size_t)SLOTS_AT_ONCE * layout.slot_size);
    if (bytes == NULL)
        return -ENOMEM;
    for (uint32_t from = 0; rc == 0 && from < end; from += SLOTS_AT_ONCE) {
        const uint32_t left = end - from;
        const uint32_t ask = left < SLOTS_AT_ONCE ? left : SLOTS_AT_ONCE;
        size_t got;

        rc = read_all(fd, bytes, (size_t)ask * layout.slot_size,
                      LOG_SLOTS_AT + (uint64_t)from * layout.slot_size, &got);
        for (uint32_t i = 0; rc == 0 && i < ask; i++) {
            struct slot_stamp stamp;
            struct message m;

            if ((size_t)(i + 1) * layout.slot_size > got ||
                slot_parse(&layout, bytes + (size_t)i * layout.slot_size,
                           h->uuid, from + i, h->epoch, &m, &stamp) < 0)
                (*skipped)++;
            else
                rc = slot(ctx, from + i, &m, &stamp);
        }
    }
    free(bytes);
    return rc;
}
