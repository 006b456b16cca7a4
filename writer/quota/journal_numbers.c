/* writer/quota/journal_numbers.c - see journal_numbers.h.
 *
 * A chunk in the file: crc32 of the rest (4), zero (4), its number (8), then
 * what each number is: amount (8), other (8).
 */
#include "writer/quota/journal_numbers.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"

#define CHUNK_SIZE 4096u
#define CHUNK_HEAD 16u

static const char file_name[] = "quota-numbers";

static_assert(CHUNK_HEAD + JOURNAL_NUMBERS_CHUNK * 16u == CHUNK_SIZE,
              "one page");

void
journal_numbers_init(struct journal_numbers *n, int dirfd)
{
    const int rc = pthread_mutex_init(&n->mutex, NULL);

    assert(rc == 0); /* glibc's cannot fail */
    n->dirfd = dirfd;
    n->fd = -1;
    n->count = 0;
    n->spilled = false;
}

void
journal_numbers_fini(struct journal_numbers *n)
{
    if (n->fd >= 0)
        (void)close(n->fd); /* nothing in it is needed any more */
    (void)pthread_mutex_destroy(&n->mutex); /* nobody holds it */
}

/* A file without a name: gone with its descriptor, however that ends. */
static int
open_file(struct journal_numbers *n)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int rc;

    /* What a crash between the two calls left. */
    if (unlinkat(n->dirfd, file_name, 0) < 0 && errno != ENOENT)
        return -errno;
    n->fd = openat(n->dirfd, file_name, flags, 0600);
    if (n->fd < 0)
        return -errno;
    if (unlinkat(n->dirfd, file_name, 0) < 0) {
        rc = -errno;
        (void)close(n->fd); /* empty */
        n->fd = -1;
        return rc;
    }
    return 0;
}

static int
write_chunk(struct journal_numbers *n, uint64_t chunk,
            const struct number *what)
{
    uint8_t bytes[CHUNK_SIZE];
    ssize_t done;

    put_le32(bytes + 4, 0);
    put_le64(bytes + 8, chunk);
    for (size_t i = 0; i < JOURNAL_NUMBERS_CHUNK; i++) {
        put_le64s(bytes + CHUNK_HEAD + 16 * i, what[i].amount);
        put_le64(bytes + CHUNK_HEAD + 16 * i + 8, what[i].other);
    }
    put_le32(bytes, crc_of(bytes + 4, CHUNK_SIZE - 4));
    done = pwrite(n->fd, bytes, CHUNK_SIZE, (off_t)(chunk * CHUNK_SIZE));
    if (done < 0)
        return -errno;
    return done == (ssize_t)CHUNK_SIZE ? 0 : -ENOSPC;
}

static int
read_chunk(struct journal_numbers *n, uint64_t chunk, struct number *what)
{
    uint8_t bytes[CHUNK_SIZE];
    ssize_t done;

    done = pread(n->fd, bytes, CHUNK_SIZE, (off_t)(chunk * CHUNK_SIZE));
    if (done < 0)
        return -errno;
    if (done != (ssize_t)CHUNK_SIZE || get_le64(bytes + 8) != chunk ||
        get_le32(bytes) != crc_of(bytes + 4, CHUNK_SIZE - 4))
        return -EBADMSG;
    for (size_t i = 0; i < JOURNAL_NUMBERS_CHUNK; i++) {
        what[i].amount = get_le64s(bytes + CHUNK_HEAD + 16 * i);
        what[i].other = get_le64(bytes + CHUNK_HEAD + 16 * i + 8);
    }
    return 0;
}

static void
lock_numbers(struct journal_numbers *n)
{
    const int rc = pthread_mutex_lock(&n->mutex);

    assert(rc == 0);
}

static void
unlock_numbers(struct journal_numbers *n)
{
    const int rc = pthread_mutex_unlock(&n->mutex);

    assert(rc == 0);
}

/* Whole chunks, all of which are in the file but, when `count` has just become
 * a multiple of them, the last. */
static uint64_t
chunks_in_file(const struct journal_numbers *n)
{
    return n->count == 0 ? 0 : (n->count - 1) / JOURNAL_NUMBERS_CHUNK;
}

static int
write_tail(struct journal_numbers *n)
{
    int rc = n->fd < 0 ? open_file(n) : 0;

    return rc < 0
               ? rc
               : write_chunk(n, n->count / JOURNAL_NUMBERS_CHUNK - 1, n->tail);
}

static bool
is_full(const struct journal_numbers *n)
{
    return n->count > 0 && n->count % JOURNAL_NUMBERS_CHUNK == 0;
}

int
journal_numbers_reserve(struct journal_numbers *n)
{
    int rc = 0;

    lock_numbers(n);
    if (is_full(n) && !n->spilled)
        rc = write_tail(n);
    n->spilled = rc == 0;
    unlock_numbers(n);
    return rc;
}

void
journal_numbers_add(struct journal_numbers *n, struct number what)
{
    lock_numbers(n);
    assert(!is_full(n) || n->spilled);
    n->tail[n->count % JOURNAL_NUMBERS_CHUNK] = what;
    n->count++;
    n->spilled = false;
    unlock_numbers(n);
}

int
journal_numbers_get(struct journal_numbers *n, uint64_t number,
                    struct number *what)
{
    const uint64_t at = number - 1, chunk = at / JOURNAL_NUMBERS_CHUNK;
    struct number all[JOURNAL_NUMBERS_CHUNK];
    int rc;

    if (number == 0 || number > n->count)
        return -ENOENT;
    if (chunk >= chunks_in_file(n)) {
        *what = n->tail[at % JOURNAL_NUMBERS_CHUNK];
        return 0;
    }
    rc = read_chunk(n, chunk, all);
    if (rc == 0)
        *what = all[at % JOURNAL_NUMBERS_CHUNK];
    return rc;
}

/* Where room was made the tail is in the file already. */
static int
cancel_in_tail(struct journal_numbers *n, uint64_t at, uint64_t by)
{
    struct number *number = &n->tail[at % JOURNAL_NUMBERS_CHUNK];
    const uint64_t before = number->other;
    int rc = 0;

    number->other = by;
    if (is_full(n) && n->spilled)
        rc = write_chunk(n, at / JOURNAL_NUMBERS_CHUNK, n->tail);
    if (rc < 0)
        number->other = before;
    return rc;
}

int
journal_numbers_cancel(struct journal_numbers *n, uint64_t number, uint64_t by)
{
    const uint64_t at = number - 1, chunk = at / JOURNAL_NUMBERS_CHUNK;
    struct number all[JOURNAL_NUMBERS_CHUNK];
    int rc = 0;

    assert(number > 0 && number <= n->count);
    lock_numbers(n);
    if (chunk >= chunks_in_file(n)) {
        rc = cancel_in_tail(n, at, by);
        goto out;
    }
    rc = read_chunk(n, chunk, all);
    if (rc < 0)
        goto out;
    all[at % JOURNAL_NUMBERS_CHUNK].other = by;
    rc = write_chunk(n, chunk, all);

out:
    unlock_numbers(n);
    return rc;
}

int
journal_numbers_read(struct journal_numbers *n, uint64_t chunk,
                     struct number out[JOURNAL_NUMBERS_CHUNK])
{
    const uint64_t before = chunk * JOURNAL_NUMBERS_CHUNK;
    int count = 0, rc = 0;

    lock_numbers(n);
    if (before < n->count)
        count = n->count - before < JOURNAL_NUMBERS_CHUNK
                    ? (int)(n->count - before)
                    : JOURNAL_NUMBERS_CHUNK;
    if (count > 0 && chunk >= chunks_in_file(n))
        memcpy(out, n->tail, (size_t)count * sizeof *out);
    else if (count > 0)
        rc = read_chunk(n, chunk, out);
    unlock_numbers(n);
    return rc < 0 ? rc : count;
}
