/* common/log/requests.c - see requests.h: requests_put() stores,
 * requests_each() reads, requests_secret() and requests_make() begin. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/base/files.h"
#include "common/base/folder.h"
#include "common/base/state_file.h"

#define HOUR_MS     UINT64_C(3600000)
#define KEEP_HOURS  (REQUESTS_KEEP_S / 3600 + 1)
#define SECRET_SIZE (REQUESTS_KEY_SIZE + 4)
#define SECRET_NEW  REQUESTS_SECRET ".new"
#define NAME_SIZE   24
#define NO_FILE     UINT64_MAX
#define EARLIER     "lock" /* a file that only an earlier version made */
#define BUFFER_SIZE ((size_t)1024 * REQUEST_SIZE)
#define WAIT_NS     5000000L
#define WAITS       200 /* for another process: a second */
#define WAITS_BRIEF 10  /* the same of a caller that comes again */

/* ---- the files ----------------------------------------------------------- */

/* A file is a number: its hour, then its part in the low 32 bits. */
static void
format_name(uint64_t file, char name[NAME_SIZE])
{
    const uint32_t part = (uint32_t)file;

    if (part == 0)
        (void)snprintf(name, NAME_SIZE, "%010" PRIu64, file >> 32);
    else
        (void)snprintf(name, NAME_SIZE, "%010" PRIu64 ".%" PRIu32, file >> 32,
                       part);
}

static bool
parse_name(const char *name, uint64_t *file)
{
    char *end, again[NAME_SIZE];
    const uint64_t hour = strtoull(name, &end, 10);
    const uint64_t part = *end == '.' ? strtoull(end + 1, NULL, 10) : 0;

    if (hour > UINT32_MAX || part > UINT32_MAX)
        return false;
    *file = hour << 32 | part;
    format_name(*file, again);
    return strcmp(name, again) == 0;
}

/* What the folder has. */
struct search {
    uint64_t from;
    uint64_t next;   /* the first file at or after `from`; NO_FILE */
    uint64_t newest; /* 0: there is none */
    uint64_t bytes;  /* of all */
};

static int
see_file(void *ctx, int folder_fd, const char *name)
{
    struct search *s = ctx;
    struct stat st;
    uint64_t file;

    if (!parse_name(name, &file))
        return 0;
    if (file >= s->from && file < s->next)
        s->next = file;
    if (file > s->newest)
        s->newest = file;
    if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        s->bytes += (uint64_t)st.st_size;
    return 0;
}

static int
search_files(const struct requests *r, uint64_t from, struct search *s)
{
    *s = (struct search){.from = from, .next = NO_FILE};
    return dirstream_each(r->data_fd, REQUESTS_FOLDER, see_file, s);
}

int
requests_exist(struct requests *r)
{
    struct search s;
    const int rc = search_files(r, 0, &s);

    return rc < 0 ? rc : s.next != NO_FILE;
}

/* ---- opening, and the secret --------------------------------------------- */

void
requests_init(struct requests *r, int data_fd)
{
    *r = (struct requests){
        .data_fd = data_fd, .named = NO_FILE, .removed_ms = clock_ms()};
}

/* Reads the secret as it is on disk. */
static int
read_secret(struct requests *r, uint8_t secret[REQUESTS_KEY_SIZE])
{
    static struct diag_repeat earlier, damaged;
    uint8_t bytes[SECRET_SIZE];
    int fd, rc;

    fd = folder_open_file(r->data_fd, REQUESTS_FOLDER "/" REQUESTS_SECRET);
    if (fd == -ENOENT &&
        faccessat(r->data_fd, REQUESTS_FOLDER "/" EARLIER, F_OK, 0) == 0) {
        diag_repeating(&earlier, DIAG_ERROR,
                       REQUESTS_FOLDER
                       " is of an earlier version: let that version end 24 "
                       "hours after its last request with an Idempotency-Key, "
                       "then remove the folder; or remove it now: its keys "
                       "are forgotten");
        return -EPROTONOSUPPORT;
    }
    if (fd < 0)
        return fd == -ENOENT ? -ENOKEY : fd;
    rc = state_read(fd, bytes, sizeof bytes, NULL);
    (void)close(fd);
    if (rc == -EBADMSG || rc == -ENOENT) {
        diag_repeating(&damaged, DIAG_ERROR,
                       REQUESTS_FOLDER "/" REQUESTS_SECRET " is damaged");
        return -ENOKEY;
    }
    if (rc == 0)
        memcpy(secret, bytes, REQUESTS_KEY_SIZE);
    return rc;
}

/* Writes r->secret into the folder, which it makes.  Its name is there only when
 * it is durable. */
static int
write_secret(const struct requests *r)
{
    const int folder = folder_make(r->data_fd, REQUESTS_FOLDER);
    uint8_t bytes[SECRET_SIZE];
    int fd = -1, rc;

    if (folder < 0)
        return folder;
    memcpy(bytes, r->secret, REQUESTS_KEY_SIZE);
    rc = folder_sync_parent(folder);
    if (rc == 0) {
        fd =
            openat(folder, SECRET_NEW,
                   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        rc = fd < 0 ? -errno : state_write(fd, bytes, sizeof bytes, NULL);
    }
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    if (fd >= 0)
        (void)close(fd);
    if (rc == 0 && renameat(folder, SECRET_NEW, folder, REQUESTS_SECRET) < 0)
        rc = -errno;
    if (rc == 0 && fsync(folder) < 0)
        rc = -errno;
    (void)close(folder);
    return rc;
}

int
requests_secret(struct requests *r, uint8_t secret[REQUESTS_KEY_SIZE])
{
    const int rc = read_secret(r, secret);

    if (rc == 0) {
        memcpy(r->secret, secret, REQUESTS_KEY_SIZE);
        r->has_secret = true;
    }
    return rc;
}

int
requests_make(struct requests *r)
{
    int rc;

    if (getrandom(r->secret, sizeof r->secret, 0) != sizeof r->secret)
        return -EIO;
    rc = write_secret(r);
    r->has_secret = rc == 0;
    return rc;
}

/* Sees to it that there is a secret.  What the writer, which hashes keys, has
 * in memory is what they are hashed under, whatever became of the file. */
static int
check_secret(struct requests *r)
{
    uint8_t secret[REQUESTS_KEY_SIZE];
    const int rc = read_secret(r, secret);

    if (!r->has_secret || (rc < 0 && rc != -ENOKEY) ||
        (rc == 0 && memcmp(secret, r->secret, sizeof secret) == 0))
        return rc == -EPROTONOSUPPORT ? -ENOKEY : rc;
    diag(DIAG_WARNING,
         REQUESTS_FOLDER "/" REQUESTS_SECRET " was removed or replaced: it is "
                         "written again");
    return write_secret(r);
}

/* ---- storing ------------------------------------------------------------- */

static uint8_t *
format_records(const struct requests *r, const struct log_header *fill,
               const struct marked *marks, size_t count)
{
    uint8_t *bytes = malloc(count * REQUEST_SIZE), *b = bytes;

    for (size_t i = 0; bytes && i < count; i++, b += REQUEST_SIZE) {
        memcpy(b, marks[i].mark.hash, MARK_HASH_SIZE);
        put_le64(b + 16, marks[i].mark.body);
        memcpy(b + 24, fill->uuid, MESSAGE_UUID_SIZE);
        put_le64(b + 40, fill->epoch);
        put_le32(b + 48, marks[i].mark.count);
        put_le32(b + 52, (uint32_t)(marks[i].received_ms / 1000));
        put_le32(b + 56, r->process);
        state_seal(b, REQUEST_SIZE, NULL);
    }
    return bytes;
}

static uint64_t
file_size(int folder, uint64_t file)
{
    char name[NAME_SIZE];
    struct stat st;

    format_name(file, name);
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return (uint64_t)st.st_size;
}

/* The file for requests up to `last_ms`: that of their hour, so that it is over
 * when all of them are; but none before the newest one, nor one that this
 * process gave up.  A file that has all that is remembered is full. */
static int
choose_file(const struct requests *r, int folder, uint64_t last_ms,
            uint64_t *file)
{
    struct search s;
    const int rc = search_files(r, 0, &s);

    *file = (last_ms / HOUR_MS) << 32;
    if (s.newest > *file)
        *file = s.newest;
    if (*file < r->least)
        *file = r->least;
    if (r->max > 0 && file_size(folder, *file) >= r->max * REQUEST_SIZE)
        ++*file;
    return rc;
}

/* Opens a file for its one process that stores now; makes it if need be.  The
 * writer's thread makes logs, too: it does not wait for long. */
static int
open_locked(const struct requests *r, int folder, const char *name,
            struct stat *st)
{
    const int waits = r->max > 0 ? WAITS_BRIEF : WAITS;
    const struct timespec pause = {.tv_nsec = WAIT_NS};

    for (int i = 0;; i++) {
        const int fd = openat(
            folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
            return -errno;
        /* Another process may have removed it meanwhile. */
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, st) == 0 &&
            st->st_nlink > 0)
            return fd;
        (void)close(fd);
        if (i == waits)
            return -EAGAIN;
        (void)nanosleep(&pause, NULL); /* a signal only shortens it */
    }
}

/* Appends to a file, durably.  Each process syncs the name of a
 * file itself: the one that made it may have died before. */
static int
append_records(struct requests *r, int folder, uint64_t file,
               const uint8_t *bytes, size_t size)
{
    char name[NAME_SIZE];
    struct stat st;
    uint64_t count;
    int fd, rc;

    format_name(file, name);
    fd = open_locked(r, folder, name, &st);
    if (fd < 0)
        return fd;
    count = ((uint64_t)st.st_size + REQUEST_SIZE - 1) / REQUEST_SIZE;
    rc = write_at(fd, bytes, size, count * REQUEST_SIZE);
    if (rc == 0 && fdatasync(fd) < 0)
        rc = -errno;
    if (rc == 0 && file != r->named && fsync(folder) < 0)
        rc = -errno;
    if (rc == 0)
        r->named = file;
    else
        r->least = file + 1;
    if (rc < 0 && count == 0)
        (void)unlinkat(folder, name, 0); /* an empty one does no harm */
    (void)close(fd);
    return rc;
}

/* Removes a file that no process is writing to. */
static bool
remove_file(int folder, uint64_t file)
{
    char name[NAME_SIZE];
    bool is_removed;
    int fd;

    format_name(file, name);
    fd = folder_open_file(folder, name);
    if (fd < 0)
        return false;
    is_removed =
        flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(folder, name, 0) == 0;
    (void)close(fd);
    return is_removed;
}

/* Removes the oldest files as far as the window has passed them.  A later call
 * removes what stays. */
static void
remove_old(struct requests *r, int folder)
{
    const uint64_t hour = clock_unix_ms() / HOUR_MS;
    const uint64_t max = r->max * REQUEST_SIZE;
    uint64_t over = NO_FILE; /* the hour whose files are removed */
    uint64_t after, file;
    struct search s;
    int rc = search_files(r, 0, &s);

    if (clock_ms() - r->removed_ms >= HOUR_MS &&
        (s.next >> 32) + KEEP_HOURS <= hour)
        over = s.next >> 32;
    after = s.bytes;
    while (rc == 0 && s.next < s.newest) {
        file = s.next;
        after -= file_size(folder, file);
        if ((after < max && file >> 32 != over) || !remove_file(folder, file))
            break;
        if (after < max)
            r->removed_ms = clock_ms();
        rc = search_files(r, file + 1, &s);
    }
}

int
requests_put(struct requests *r, const struct log_header *fill,
             const struct marked *marks, size_t count)
{
    uint64_t file = 0, last_ms = 0;
    uint8_t *bytes;
    int folder, rc = check_secret(r);

    if (rc < 0 || count == 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        if (marks[i].received_ms > last_ms)
            last_ms = marks[i].received_ms;
    while (r->process == 0)
        if (getrandom(&r->process, sizeof r->process, 0) < 0)
            return -errno;
    folder = folder_open(r->data_fd, REQUESTS_FOLDER);
    if (folder < 0)
        return folder;
    bytes = format_records(r, fill, marks, count);
    rc = bytes ? choose_file(r, folder, last_ms, &file) : -ENOMEM;
    if (rc == 0)
        rc = append_records(r, folder, file, bytes, count * REQUEST_SIZE);
    free(bytes);
    if (rc == 0 && r->max > 0)
        remove_old(r, folder);
    (void)close(folder);
    return rc;
}

/* ---- reading ------------------------------------------------------------- */

struct record_reader {
    int fd;
    uint64_t first, count; /* records in the buffer */
    uint8_t *buffer;       /* BUFFER_SIZE */
};

/* Record `number`, until the next call: 1, or 0 after the last whole one. */
static int
read_record(struct record_reader *f, uint64_t number, const uint8_t **record)
{
    ssize_t got;

    if (number < f->first || number >= f->first + f->count) {
        got = read_at(f->fd, f->buffer, BUFFER_SIZE, number * REQUEST_SIZE);
        f->first = number;
        f->count = got < 0 ? 0 : (uint64_t)got / REQUEST_SIZE;
        if (got < 0)
            return (int)got;
        if (f->count == 0)
            return 0;
    }
    *record = f->buffer + (number - f->first) * REQUEST_SIZE;
    return 1;
}

static bool
is_good(const uint8_t *b)
{
    return get_le32(b + 56) != 0 && state_is_good(b, REQUEST_SIZE, NULL);
}

static void
get_request(const uint8_t *b, struct counted_request *out)
{
    memcpy(out->mark.hash, b, MARK_HASH_SIZE);
    out->mark.body = get_le64(b + 16);
    memcpy(out->uuid, b + 24, sizeof out->uuid);
    out->epoch = get_le64(b + 40);
    out->mark.count = get_le32(b + 48);
    out->at_s = get_le32(b + 52);
}

/* 1: `record`, which is bad, was durable once.  A page that a power loss took
 * is zeros: they belong to the append of the next good record, or to one before
 * it. */
static int
is_damage(struct record_reader *f, uint64_t number, const uint8_t *record)
{
    static const uint8_t zeros[REQUEST_SIZE];
    uint8_t of[REQUEST_SIZE];
    int rc;

    memcpy(of, record, sizeof of);
    while ((rc = read_record(f, ++number, &record)) > 0) {
        if (!is_good(record))
            continue;
        if (memcmp(of, zeros, sizeof of) == 0)
            memcpy(of, record, sizeof of);
        else if (memcmp(of + 56, record + 56, 4) == 0 &&
                 memcmp(of + 24, record + 24, 24) != 0)
            return 1;
    }
    return rc;
}

/* Judges the first of a run of bad records: 1: it is damage.  It is read again,
 * into *record: one that its process was still writing is whole by the time that
 * a later fill of that process is seen. */
static int
judge_record(struct record_reader *f, uint64_t number, const uint8_t **record)
{
    const int damage = is_damage(f, number, *record);
    int rc;

    f->count = 0;
    rc = damage < 0 ? damage : read_record(f, number, record);
    return rc <= 0 ? rc : damage > 0 && !is_good(*record);
}

static void
report_damage(struct requests *r, const char *name)
{
    r->damaged++;
    diag(DIAG_ERROR,
         "%s is damaged: requests with an Idempotency-Key that were recorded "
         "there and are sent again count again",
         name);
}

/* Visits the good records of a file.  The first of each run of bad ones is
 * judged, until one is damage. */
static int
read_file(struct requests *r, struct record_reader *f, const char *name,
          void (*visit)(void *ctx, const struct counted_request *q), void *ctx)
{
    bool is_run = false, is_reported = false;
    struct counted_request q;
    const uint8_t *b;
    int rc;

    for (uint64_t i = 0; (rc = read_record(f, i, &b)) > 0; i++) {
        bool is_whole = is_good(b);

        if (!is_whole && !is_run && !is_reported) {
            is_run = true;
            rc = judge_record(f, i, &b);
            if (rc < 0)
                return rc;
            is_reported = rc > 0;
            if (is_reported)
                report_damage(r, name);
            is_whole = is_good(b);
        }
        if (is_whole) {
            get_request(b, &q);
            visit(ctx, &q);
            is_run = false;
        }
    }
    return rc;
}

int
requests_each(struct requests *r,
              void (*visit)(void *ctx, const struct counted_request *q),
              void *ctx)
{
    struct record_reader f = {.buffer = malloc(BUFFER_SIZE)};
    struct search s = {.next = 0};
    int rc = f.buffer ? search_files(r, 0, &s) : -ENOMEM;

    while (rc == 0 && s.next != NO_FILE) {
        char name[sizeof REQUESTS_FOLDER + NAME_SIZE] = REQUESTS_FOLDER "/";

        format_name(s.next, name + sizeof REQUESTS_FOLDER);
        f.count = 0;
        f.fd = folder_open_file(r->data_fd, name);
        if (f.fd >= 0) {
            rc = read_file(r, &f, name, visit, ctx);
            (void)close(f.fd);
        } else if (f.fd != -ENOENT) { /* what was removed is not known */
            rc = f.fd;
        }
        if (rc == 0)
            rc = search_files(r, s.next + 1, &s);
    }
    free(f.buffer);
    return rc;
}
