/* tests/bench/http_ceiling.c - a server that answers every request alike; see
 * http_load.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/http_load.h"
#include "tests/lib/test.h"

#define FILE_SIZE ((size_t)64 << 20)
#define ROUND_MAX 4096 /* requests of a round that syncs */

/* The files of a server that syncs, which are written from the beginning again
 * when they are full. */
struct files {
    const char *folder;
    size_t slot;
};

static struct {
    int fd, silent_fd;
    off_t at, silent_at;
    uint8_t *slots; /* of a round */
} file;

/* One request ends in each empty line, and its body is after it: the load sends
 * whole requests. */
static size_t
take_requests(const struct ceiling *c, struct ceiling_conn *conn)
{
    const char *at = (const char *)conn->in, *end = at + conn->have;
    const char *line = memmem(at, conn->have, "\r\n\r\n", 4);

    (void)c; /* all are alike */
    if (conn->is_silent) {
        must(pwrite(file.silent_fd, conn->in, conn->have, file.silent_at),
             "write");
        file.silent_at = (file.silent_at + (off_t)conn->have) % (16 << 20);
        return conn->have;
    }
    if (line)
        conn->ends = memmem(at, (size_t)(line - at), "close", 5) != NULL;
    for (; line; line = memmem(at, (size_t)(end - at), "\r\n\r\n", 4)) {
        conn->owed++;
        at = line + 4;
    }
    return conn->have;
}

/* One write and one sync for all requests of a round. */
static void
sync_requests(const struct ceiling *c, uint64_t count)
{
    const struct files *f = c->ctx;
    const size_t size = count * f->slot;

    assert_true(count <= ROUND_MAX);
    if (count == 0)
        return;
    if ((size_t)file.at + size > FILE_SIZE)
        file.at = 0;
    must(pwrite(file.fd, file.slots, size, file.at), "write");
    must(fdatasync(file.fd), "sync");
    file.at += (off_t)size;
}

static int
open_file(const struct files *f, const char *name)
{
    char path[600];

    (void)snprintf(path, sizeof path, "%s/%s", f->folder, name);
    return (int)must(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), path);
}

/* As of countd-write's logs, there are zeros ahead of what is written. */
static void
open_files(const struct ceiling *c)
{
    static uint8_t zeros[1 << 20];
    const struct files *f = c->ctx;

    file.fd = open_file(f, "file");
    file.silent_fd = open_file(f, "silent");
    for (size_t i = 0; i < FILE_SIZE / sizeof zeros; i++)
        must(write(file.fd, zeros, sizeof zeros), "write");
    file.slots = need(ROUND_MAX, f->slot);
    must(fsync(file.fd), "sync");
}

pid_t
http_ceiling_start(uint16_t ports[2], const char *answer, size_t size,
                   const char *folder, size_t slot)
{
    const struct files f = {.folder = folder, .slot = slot};
    const struct ceiling c = {.take = take_requests,
                              .open = slot > 0 ? open_files : NULL,
                              .sync = slot > 0 ? sync_requests : NULL,
                              .answer = answer,
                              .answer_size = size,
                              .ctx = &f};

    return ceiling_start(&c, &ports[0], slot > 0 ? &ports[1] : NULL);
}
