/* writer/quota/journal_numbers.c - see journal_numbers.h.  Number n is in the
 * file at byte (n - 1) * sizeof(struct number). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/journal_numbers.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/files.h"

static const char file_name[] = "quota-numbers";

void
journal_numbers_init(struct journal_numbers *n, int dirfd)
{
    const int rc = pthread_mutex_init(&n->mutex, NULL);

    assert(rc == 0); /* glibc's cannot fail */
    n->dirfd = dirfd;
    n->fd = -1;
    n->count = n->in_file = 0;
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

static uint64_t
byte_of(uint64_t number)
{
    return (number - 1) * sizeof(struct number);
}

static struct number *
in_tail(struct journal_numbers *n, uint64_t number)
{
    return &n->tail[number - 1 - n->in_file];
}

/* Reads from the file; it is whole, unless the disk has lost it. */
static int
read_file(struct journal_numbers *n, uint64_t first, struct number *out,
          size_t count)
{
    const ssize_t got =
        read_at(n->fd, out, count * sizeof *out, byte_of(first));

    if (got < 0)
        return (int)got;
    return (size_t)got == count * sizeof *out ? 0 : -EIO;
}

static int
move_tail(struct journal_numbers *n)
{
    int rc = n->fd < 0 ? open_file(n) : 0;

    if (rc == 0)
        rc = write_at(n->fd, n->tail, sizeof n->tail, byte_of(n->in_file + 1));
    if (rc == 0)
        n->in_file = n->count;
    return rc;
}

int
journal_numbers_reserve(struct journal_numbers *n)
{
    int rc;

    if (n->count - n->in_file < JOURNAL_NUMBERS_TAIL)
        return 0;
    (void)pthread_mutex_lock(&n->mutex);
    rc = move_tail(n);
    (void)pthread_mutex_unlock(&n->mutex);
    return rc;
}

void
journal_numbers_add(struct journal_numbers *n, struct number what)
{
    const uint64_t number = n->count + 1;

    assert(number - n->in_file <= JOURNAL_NUMBERS_TAIL);
    *in_tail(n, number) = what;
    atomic_store_explicit(&n->count, number, memory_order_release);
}

int
journal_numbers_get(struct journal_numbers *n, uint64_t number,
                    struct number *what)
{
    if (number == 0 || number > n->count)
        return -ENOENT;
    if (number <= n->in_file)
        return read_file(n, number, what, 1);
    *what = *in_tail(n, number);
    return 0;
}

int
journal_numbers_cancel(struct journal_numbers *n, uint64_t number, uint64_t by)
{
    int rc = 0;

    assert(number > 0 && number <= n->count);
    (void)pthread_mutex_lock(&n->mutex);
    if (number > n->in_file)
        in_tail(n, number)->other = by;
    else
        rc = write_at(n->fd, &by, sizeof by,
                      byte_of(number) + offsetof(struct number, other));
    (void)pthread_mutex_unlock(&n->mutex);
    return rc;
}

int
journal_numbers_read(struct journal_numbers *n, uint64_t first,
                     struct number *out, size_t max)
{
    uint64_t end;
    int rc = 0;

    (void)pthread_mutex_lock(&n->mutex);
    end = first <= n->in_file ? n->in_file : n->count;
    if (end + 1 - first < max)
        max = (size_t)(end + 1 - first);
    if (first <= n->in_file)
        rc = read_file(n, first, out, max);
    else if (max > 0)
        memcpy(out, in_tail(n, first), max * sizeof *out);
    (void)pthread_mutex_unlock(&n->mutex);
    return rc < 0 ? rc : (int)max;
}
