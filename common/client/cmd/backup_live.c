/* common/client/cmd/backup_live.c - see cmd_data.h.
 *
 * Entry points, read from the end: backup_dropped(), backup_kept(), backup_live(),
 * backup_requests(), copy_quotas(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/dirstream.h"
#include "common/base/files.h"
#include "common/base/folder.h"
#include "common/base/state_file.h"
#include "common/log/requests.h"

/* ---- one file ---------------------------------------------------------- */

static int
make_file(int dir_fd, const char *name)
{
    const int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd < 0 ? -errno : fd;
}

static int
finish_file(int fd, int rc)
{
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    if (close(fd) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

/* ---- the quota journal and its note ------------------------------------ */

#define QUOTA_JOURNAL "quota"
#define QUOTA_NOTE    "quota-end"
#define QUOTA_PREFIX  "quota"
#define QUOTA_TRIES   100
#define QUOTA_WAIT_NS 10000000L

/* Offsets and sizes as in data/FORMAT.md, section 10. */
#define NOTE_SIZE   72u
#define HEADER_SIZE 72u
#define HEADER_COPY 512u
#define RECORDS_AT  4096u
#define RECORD_SIZE 24u

/* What a header of the journal and a note say. */
struct quota_end {
    uint8_t note[NOTE_SIZE];
    uint64_t byte; /* where the records end that the note calls durable;
                      UINT64_MAX: the two do not fit */
};

/* Reads a file's first bytes; false when there are fewer. */
static bool
read_start(int dir_fd, const char *name, uint8_t *bytes, size_t size)
{
    const int fd = folder_open_file(dir_fd, name);
    ssize_t got;

    if (fd < 0)
        return false;
    got = read_at(fd, bytes, size, 0);
    (void)close(fd);
    return got == (ssize_t)size;
}

/* Whether the header and the note are of one journal and one generation; then
 * *byte is the end of the records that the note calls durable. */
static bool
find_end(const uint8_t *header, const uint8_t *note, uint64_t *byte)
{
    const uint64_t first = get_le64(header + 48);
    const uint64_t checkpoint = get_le64(header + 56);
    const uint64_t end = get_le64(note + 40);

    if (!state_is_good(header, HEADER_SIZE, NULL) ||
        !state_is_good(note, NOTE_SIZE, NULL) ||
        memcmp(header + 8, note + 8, 16) != 0 ||
        get_le32(header + 44) != get_le32(note + 64) || end < first ||
        checkpoint > INT64_MAX / 2 || end - first > INT64_MAX / 64)
        return false;
    *byte = RECORDS_AT +
            (checkpoint + RECORDS_AT - 1) / RECORDS_AT * RECORDS_AT +
            (end - first) * RECORD_SIZE;
    return true;
}

/* Opens the journal and reads the note of its end.  The note says that the
 * records before it are durable, and records are only added: a copy up to there
 * is the journal as it was at that moment.  For a moment the two do not fit,
 * while a checkpoint replaces the journal. */
static int
open_journal(int from_fd, struct quota_end *end)
{
    const struct timespec pause = {.tv_nsec = QUOTA_WAIT_NS};
    uint8_t header[HEADER_COPY + HEADER_SIZE];
    int fd = -ENOENT;

    end->byte = UINT64_MAX;
    for (int i = 0; end->byte == UINT64_MAX && i < QUOTA_TRIES; i++) {
        if (i > 0) {
            (void)close(fd);
            (void)nanosleep(&pause, NULL); /* a signal only shortens it */
        }
        fd = folder_open_file(from_fd, QUOTA_JOURNAL);
        if (fd < 0)
            return fd;
        if (!read_start(from_fd, QUOTA_NOTE, end->note, NOTE_SIZE))
            break; /* there is none, so no process changes the journal */
        if (read_at(fd, header, sizeof header, 0) < (ssize_t)sizeof header)
            break;
        if (!find_end(header, end->note, &end->byte))
            (void)find_end(header + HEADER_COPY, end->note, &end->byte);
    }
    return fd;
}

/* Copies the journal up to the note's end and the zeros after it. */
static int
copy_journal(int from, int to_fd, uint64_t end)
{
    const int to = make_file(to_fd, QUOTA_JOURNAL);
    struct stat st;
    int64_t rc;

    if (to < 0)
        return to;
    rc = copy_at(from, 0, end, to, 0);
    if (rc >= 0 && (fstat(from, &st) < 0 || (end < (uint64_t)st.st_size &&
                                             ftruncate(to, st.st_size) < 0)))
        rc = -errno;
    return finish_file(to, rc < 0 ? (int)rc : 0);
}

/* A journal and a note that do not fit are copied as they are: what is wrong
 * with them is reported where they are served. */
static int
copy_quotas(int from_fd, int to_fd)
{
    struct quota_end end;
    const int fd = open_journal(from_fd, &end);
    int to, rc = 0;

    if (fd < 0 && fd != -ENOENT)
        return fd;
    if (fd >= 0) {
        rc = copy_journal(fd, to_fd, end.byte);
        (void)close(fd);
    }
    if (rc < 0)
        return rc;
    if (end.byte == UINT64_MAX)
        return folder_copy_file(from_fd, QUOTA_NOTE, to_fd);
    to = make_file(to_fd, QUOTA_NOTE);
    return to < 0 ? to : finish_file(to, write_at(to, end.note, NOTE_SIZE, 0));
}

/* ---- requests with an Idempotency-Key ---------------------------------- */

struct requests_copy {
    int to_fd;
    const struct archived_list *fills; /* whose records are; NULL: all are */
};

/* A record that does not check is being written, or does not count. */
static bool
is_wanted(const struct requests_copy *c, const uint8_t record[REQUEST_SIZE])
{
    return state_is_good(record, REQUEST_SIZE, NULL) &&
           (!c->fills ||
            archived_has(c->fills, record + 24, get_le64(record + 40)));
}

/* Adds wanted records to the end of a file, which is at `end`. */
static int
copy_records(const struct requests_copy *c, int from, int to, uint64_t end)
{
    uint8_t bytes[64 * REQUEST_SIZE];
    uint64_t at = 0;
    ssize_t got;
    int rc = 0;

    while (rc == 0 && (got = read_at(from, bytes, sizeof bytes, at)) > 0) {
        size_t size = 0;

        at += (uint64_t)got;
        for (size_t i = 0; i + REQUEST_SIZE <= (size_t)got; i += REQUEST_SIZE)
            if (is_wanted(c, bytes + i)) {
                memmove(bytes + size, bytes + i, REQUEST_SIZE);
                size += REQUEST_SIZE;
            }
        rc = size > 0 ? write_at(to, bytes, size, end) : 0;
        end += size;
        if (got < (ssize_t)sizeof bytes)
            return rc;
    }
    return rc < 0 ? rc : (int)got;
}

static int
copy_requests(void *ctx, int folder_fd, const char *name)
{
    const struct requests_copy *c = ctx;
    struct stat st;
    int from, to, rc;

    if (name[0] < '0' || name[0] > '9') /* the secret */
        return c->fills ? 0 : folder_copy_file(folder_fd, name, c->to_fd);
    from = folder_open_file(folder_fd, name);
    if (from < 0)
        return from == -ENOENT ? 0 : from;
    to = openat(c->to_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    rc = to < 0 || fstat(to, &st) < 0 ? -errno : 0;
    if (rc == 0)
        rc = copy_records(c, from, to, (uint64_t)st.st_size);
    if (to >= 0)
        rc = finish_file(to, rc);
    (void)close(from);
    return rc;
}

int
backup_requests(int from_fd, int to_fd, const struct archived_list *fills)
{
    struct requests_copy c = {.fills = fills};
    uint8_t secret[REQUESTS_KEY_SIZE];
    struct requests requests;
    int live, rc;

    requests_init(&requests, from_fd);
    rc = requests_secret(&requests, secret);
    if (rc < 0)
        return rc == -ENOKEY ? 0 : rc; /* there are none that mean anything */
    live = folder_make(to_fd, "live");
    if (live < 0)
        return live;
    c.to_fd = folder_make(live, "requests");
    rc = c.to_fd < 0
             ? c.to_fd
             : finish_file(c.to_fd, dirstream_each(from_fd, REQUESTS_FOLDER,
                                                   copy_requests, &c));
    return finish_file(live, rc);
}

static int
remove_copied(void *ctx, int folder_fd, const char *name)
{
    (void)ctx;
    if (strcmp(name, REQUESTS_SECRET) == 0)
        return 0;
    return unlinkat(folder_fd, name, 0) < 0 ? -errno : 1;
}

int
backup_requests_remove(int to_fd)
{
    int rc, removed = 0;

    while ((rc = dirstream_each(to_fd, REQUESTS_FOLDER, remove_copied, NULL)) >
           0)
        removed = 1;
    return rc < 0 ? rc : removed;
}

/* ---- all --------------------------------------------------------------- */

/* The quota journal and its note are copied together; the second note and
 * unfinished files are not: the note may be ahead of the copy, which would then
 * be refused as an older one. */
static int
copy_other(void *ctx, int folder_fd, const char *name)
{
    const int *to_fd = ctx;
    struct stat st;

    if (strncmp(name, QUOTA_PREFIX, strlen(QUOTA_PREFIX)) == 0)
        return 0;
    if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return S_ISREG(st.st_mode) ? folder_copy_file(folder_fd, name, *to_fd) : 0;
}

int
backup_live(int from_fd, int to_fd)
{
    int from, to, rc;

    from = folder_open(from_fd, "live");
    if (from < 0)
        return from == -ENOENT ? 0 : from;
    to = folder_make(to_fd, "live");
    rc = to < 0 ? to : copy_quotas(from, to);
    if (rc == 0)
        rc = dirstream_each(from, ".", copy_other, &to);
    if (to >= 0)
        rc = finish_file(to, rc);
    (void)close(from);
    return rc;
}

/* ---- what was merged meanwhile ------------------------------------------ */

int
backup_kept(int from_fd, const char *kept_path, struct store_session *copy,
            int to_fd)
{
    struct archived_list list = {.count = 0};
    struct place place = {.in = copy};
    int rc;

    rc = archived_add(&list, kept_path);
    archived_sort(&list);
    for (size_t i = 0; rc == 0 && i < list.count; i++)
        rc = place_archived(&place, &list.logs[i]);
    place_fini(&place);
    archived_sort_fills(&list);
    if (rc == 0 && list.count > 0)
        rc = backup_requests(from_fd, to_fd, &list);
    archived_free(&list);
    return rc;
}

/* ---- what was dropped ------------------------------------------------------ */

struct dropped {
    struct store_session *in;
    const uint8_t *name;
    size_t size;
};

static bool
is_dropped(void *ctx, const struct log_fill *id)
{
    const struct dropped *d = ctx;
    const struct waiting *w = &d->in->waiting;

    return !waiting_has(w, waiting_find(w, d->name, d->size), id) &&
           waiting_is_in(d->in->store, d->name, d->size, id) == 0;
}

/* Whether any fill of a name was. */
static bool
has_dropped(struct dropped *d, const struct waiting *copy, uint32_t name)
{
    size_t count;
    const struct waiting_part *p = waiting_parts(copy, name, &count);

    while (count > 0 && !is_dropped(d, &p->fill->id)) {
        p++;
        count--;
    }
    return count > 0;
}

int
backup_dropped(struct store_session *in, struct waiting *copy)
{
    int rc;

    rc = waiting_list(copy);
    if (rc == 0 && copy->names.count > 0)
        rc = unmerged_list(&in->waiting); /* before marks are asked */
    for (uint32_t i = 0; rc == 0 && i < copy->names.count; i++) {
        uint8_t name[MESSAGE_NAME_MAX];
        struct dropped d = {.in = in, .name = name};
        const uint8_t *listed = name_table_name(&copy->names, i, &d.size);

        memcpy(name, listed, d.size); /* the next list may move it */
        if (has_dropped(&d, copy, i))
            rc = waiting_leave_out(
                copy, &(struct waiting_left_out){.name = name,
                                                 .size = d.size,
                                                 .leaves = is_dropped,
                                                 .ctx = &d});
    }
    return rc;
}
