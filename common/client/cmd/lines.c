/* common/client/cmd/lines.c - see cmd_terminal.h: lines_open(), detect_format()
 * at the first bytes, then lines_next() and lines_fill() in turn. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_terminal.h"
#include "common/wire/increment_line.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

int
lines_open(struct lines *l, const char *path)
{
    memset(l, 0, offsetof(struct lines, raw));
    l->fd = STDIN_FILENO;
    if (strcmp(path, "-") != 0)
        l->fd = open(path, O_RDONLY | O_CLOEXEC);
    return l->fd < 0 ? -errno : 0;
}

void
lines_close(struct lines *l)
{
    if (l->gzip)
        (void)inflateEnd(&l->z);
    if (l->fd > STDIN_FILENO)
        (void)close(l->fd); /* only read: nothing can be lost */
    l->fd = -1;
}

bool
lines_ready(const struct lines *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};

    /* A failed poll: let read() say what is wrong. */
    return l->ended || (l->gzip && l->z.avail_in > 0) || poll(&p, 1, 0) != 0;
}

uint64_t
lines_done(const struct lines *l)
{
    return l->read_size - (l->gzip ? l->z.avail_in : l->end - l->at);
}

static ssize_t
read_some(struct lines *l, void *to, size_t size)
{
    ssize_t n;

    do
        n = read(l->fd, to, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    l->read_size += (uint64_t)n;
    return n;
}

/* Determines from the first bytes: gzip, text, or neither. */
static int
detect_format(struct lines *l)
{
    ssize_t n = 0;
    size_t got = 0;

    /* Two bytes identify gzip, and may arrive one at a time. Waiting for more
     * would delay the first line. */
    while (got < 2) {
        n = read_some(l, l->raw + got, LINES_BUFFER - got);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    if (n < 0)
        return (int)n;
    l->started = true;
    if (got >= 2 && l->raw[0] == 0x1f && l->raw[1] == 0x8b) {
        /* 15: largest window; + 16: gzip only. */
        if (inflateInit2(&l->z, 15 + 16) != Z_OK)
            return -ENOMEM;
        l->gzip = true;
        l->in_member = true;
        l->z.next_in = l->raw;
        l->z.avail_in = (uInt)got;
        return 1;
    }
    /* Text has no NUL, and what is packed or UTF-16 has one soon. */
    if (memchr(l->raw, '\0', got) != NULL)
        return -EILSEQ;
    memcpy(l->text, l->raw, got);
    l->end = got;
    l->ended = got == 0;
    return 1;
}

/* Inflates what there is into the text. */
static int
inflate_some(struct lines *l)
{
    int rc;

    if (!l->in_member) {
        if (inflateReset(&l->z) != Z_OK)
            return -EBADMSG;
        l->in_member = true;
    }
    l->z.next_out = (Bytef *)l->text + l->end;
    l->z.avail_out = (uInt)(LINES_BUFFER - l->end);
    rc = inflate(&l->z, Z_NO_FLUSH);
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
        return rc == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
    l->in_member = rc != Z_STREAM_END;
    l->end = LINES_BUFFER - l->z.avail_out;
    return 1;
}

static int
fill_gzip(struct lines *l)
{
    ssize_t n;

    /* A full output buffer may have left some inside of zlib. */
    if (l->z.avail_in == 0 && !(l->in_member && l->z.avail_out == 0)) {
        n = read_some(l, l->raw, LINES_BUFFER);
        if (n < 0)
            return (int)n;
        if (n == 0) {
            l->ended = true;
            return l->in_member ? -ENODATA : 1;
        }
        l->z.next_in = l->raw;
        l->z.avail_in = (uInt)n;
    }
    return inflate_some(l);
}

int
lines_fill(struct lines *l)
{
    ssize_t n;

    if (l->ended)
        return l->at < l->end;
    /* The rest is the beginning of a line: make space for all of it. */
    memmove(l->text, l->text + l->at, l->end - l->at);
    l->end -= l->at;
    l->at = 0;
    assert(l->end < LINES_BUFFER);
    if (!l->started)
        return detect_format(l);
    if (l->gzip)
        return fill_gzip(l);
    n = read_some(l, l->text + l->end, LINES_BUFFER - l->end);
    if (n < 0)
        return (int)n;
    l->end += (size_t)n;
    l->ended = n == 0;
    return !l->ended || l->at < l->end;
}

bool
lines_next(struct lines *l, const char **text, size_t *size)
{
    while (l->at < l->end) {
        const char *from = l->text + l->at;
        const size_t left = l->end - l->at;
        const char *newline = memchr(from, '\n', left);
        const bool is_rest = l->skipping;
        size_t length = newline ? (size_t)(newline - from) : left, begin;

        if (!newline && !l->ended && left <= LINES_SIZE_MAX + 1)
            return false;
        /* A whole line, the last one, or one too long whose end has not come. */
        l->at += length + (newline != NULL);
        l->skipping = !newline && !l->ended;
        if (is_rest)
            continue;
        if (!l->skipping && length > 0 && from[length - 1] == '\r')
            length--;
        l->cut = length > LINES_SIZE_MAX;
        if (l->cut)
            length = LINES_SIZE_MAX;
        l->number++;
        begin = l->number == 1 ? increment_text_begin(from, length) : 0;
        *text = from + begin;
        *size = length - begin;
        return true;
    }
    return false;
}
