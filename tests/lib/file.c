/* tests/lib/file.c - see file.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"
#include "tests/lib/test.h"

const char *
file_path(const char *folder, const char *name, ...)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    va_list args;
    int size = snprintf(path, sizeof paths[0], "%s/", folder);

    va_start(args, name);
    size += vsnprintf(path + size, sizeof paths[0] - (size_t)size, name, args);
    va_end(args);
    assert_in_range(size, 1, sizeof paths[0] - 1);
    return path;
}

static int
open_file(const char *path, int flags)
{
    const int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd < 0)
        fail_msg("open %s: %s", path, strerror(errno));
    return fd;
}

size_t
file_read(const char *path, void *bytes, size_t size)
{
    const int fd = open_file(path, O_RDONLY);
    const ssize_t n = read(fd, bytes, size);

    assert_in_range(n, 0, size - 1);
    ((char *)bytes)[n] = '\0';
    assert_int_equal(close(fd), 0);
    return (size_t)n;
}

void
file_put(const char *path, const void *bytes, size_t size)
{
    const int fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);

    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(close(fd), 0);
}

/* Opened for all by its owner, whose the file is; its mode stays. */
static int
open_whatever(const char *path, struct stat *st)
{
    int fd;

    assert_int_equal(stat(path, st), 0);
    assert_int_equal(chmod(path, 0600), 0);
    fd = open_file(path, O_RDWR);
    assert_int_equal(fchmod(fd, st->st_mode & 07777), 0);
    return fd;
}

uint8_t *
file_bytes(const char *path, size_t *size)
{
    struct stat st;
    const int fd = open_whatever(path, &st);
    uint8_t *bytes = test_memory(malloc((size_t)st.st_size + 1));

    *size = (size_t)st.st_size;
    assert_int_equal(read_at(fd, bytes, *size, 0), st.st_size);
    bytes[*size] = '\0';
    assert_int_equal(close(fd), 0);
    return bytes;
}

void
file_write(const char *path, off_t at, const void *bytes, size_t size)
{
    struct stat st;
    const int fd = open_whatever(path, &st);

    assert_int_equal(pwrite(fd, bytes, size, at), size);
    assert_int_equal(close(fd), 0);
}

void
file_flip(const char *path, off_t at, uint8_t bits)
{
    struct stat st;
    const int fd = open_whatever(path, &st);
    uint8_t byte;

    at += at < 0 ? st.st_size : 0;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= bits;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
}
