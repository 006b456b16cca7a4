/* tests/crash/standin_append.c - a stand-in for the writer, to test the tests:
 * appends each 520-byte message and a checksum to one file, syncs, answers.
 *
 *     standin_append -d DIR [-o HOW ...] --ready-fd N
 *
 * HOW plants a bug: `early` answers before the sync, `nosync` never syncs,
 * `nodirsync` leaves the new name to chance, `twice` appends one message in a
 * hundred twice, `noise` ignores it (any other word does).
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE 520
#define RECORD  (MESSAGE + 8)
#define PEERS   64

static bool early, nosync, nodirsync, twice;
static int file;
static volatile sig_atomic_t stopped;

static struct peer {
    int fd;
    size_t have;
    unsigned owed;
    uint8_t bytes[64 * MESSAGE];
} peers[PEERS];

static void
stop(int signo)
{
    stopped = signo;
}

static uint64_t
sum(const uint8_t *bytes, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u;
    size_t i;

    for (i = 0; i < size; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

static void
append(const uint8_t *message)
{
    uint8_t record[RECORD];
    uint64_t h = sum(message, MESSAGE);

    memcpy(record, message, MESSAGE);
    memcpy(record + MESSAGE, &h, 8);
    if (write(file, record, sizeof record) != sizeof record)
        exit(111);
}

static void
answer(struct peer *p)
{
    for (; p->owed > 0; p->owed--)
        if (send(p->fd, "WIN", 3, MSG_NOSIGNAL) < 0)
            break;
}

static void
take(struct peer *p)
{
    static unsigned count;
    ssize_t n = recv(p->fd, p->bytes + p->have, sizeof p->bytes - p->have, 0);
    size_t at;

    if (n <= 0) {
        if (close(p->fd) < 0)
            exit(111);
        p->fd = -1;
        p->have = p->owed = 0;
        return;
    }
    p->have += (size_t)n;
    for (at = 0; p->have - at >= MESSAGE; at += MESSAGE, p->owed++) {
        append(p->bytes + at);
        if (twice && ++count % 100 == 0)
            append(p->bytes + at);
    }
    memmove(p->bytes, p->bytes + at, p->have - at);
    p->have -= at;
}

static void
turn(int listener)
{
    struct pollfd polls[PEERS + 1];
    bool news = false;
    int i;

    for (i = 0; i < PEERS; i++)
        polls[i] = (struct pollfd){.fd = peers[i].fd, .events = POLLIN};
    polls[PEERS] = (struct pollfd){.fd = listener, .events = POLLIN};
    if (poll(polls, PEERS + 1, 1000) < 0)
        return;
    for (i = 0; i < PEERS; i++)
        if (polls[i].fd >= 0 && polls[i].revents) {
            take(&peers[i]);
            news = true;
        }
    for (i = 0; early && i < PEERS; i++)
        answer(&peers[i]);
    if (news && !nosync && fdatasync(file) < 0)
        exit(111);
    for (i = 0; i < PEERS; i++)
        answer(&peers[i]);
    for (i = 0; (polls[PEERS].revents & POLLIN) && i < PEERS; i++)
        if (peers[i].fd < 0) {
            peers[i].fd = accept(listener, NULL, NULL);
            break;
        }
}

static int
start_listening(int ready)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) < 0 ||
        listen(fd, 64) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) < 0)
        exit(111);
    dprintf(ready, "ack=127.0.0.1:%u\n\n", ntohs(at.sin_port));
    if (close(ready) < 0)
        exit(111);
    return fd;
}

static void
open_file(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY);

    file = openat(fd, "messages", O_RDWR | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || file < 0 || (!nodirsync && fsync(fd) < 0) || close(fd) < 0)
        exit(111);
}

int
main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = stop};
    const char *dir = ".";
    int i, ready = -1, listener;

    for (i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "-d") == 0)
            dir = argv[i + 1];
        else if (strcmp(argv[i], "--ready-fd") == 0)
            ready = atoi(argv[i + 1]);
        early = early || strcmp(argv[i + 1], "early") == 0;
        nosync = nosync || strcmp(argv[i + 1], "nosync") == 0;
        nodirsync = nodirsync || strcmp(argv[i + 1], "nodirsync") == 0;
        twice = twice || strcmp(argv[i + 1], "twice") == 0;
    }
    if (sigaction(SIGTERM, &action, NULL) < 0)
        return 111;
    for (i = 0; i < PEERS; i++)
        peers[i].fd = -1;
    open_file(dir);
    listener = start_listening(ready);
    while (!stopped)
        turn(listener);
    return 0;
}
