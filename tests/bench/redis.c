/* tests/bench/redis.c - see redis.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/redis.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/lib/client.h"
#include "tests/lib/test.h"

#define AHEAD     10000u /* commands that are sent before answers are read */
#define TEXT_SIZE ((size_t)AHEAD * 128)
#define WAIT_MS   10000

static const char *const places[] = {"/usr/bin/redis-server",
                                     "/usr/local/bin/redis-server"};

static char text[TEXT_SIZE + 1]; /* commands, or an answer */

/* ---- servers ------------------------------------------------------------ */

/* Waits until it serves, on a connection that stays. */
static void
await_server(struct redis *r)
{
    const uint64_t end_ms = clock_ms() + WAIT_MS;

    while ((r->fd = client_try_connect(r->port)) < 0) {
        assert_true(daemon_alive(&r->daemon) && clock_ms() < end_ms);
        (void)poll(NULL, 0, 5); /* paces the trying */
    }
}

bool
redis_open(struct redis *r, const char *dir, const char *sync)
{
    char port[8], folder[32];
    const char *const argv[] = {"--port",
                                port,
                                "--bind",
                                "127.0.0.1",
                                "--dir",
                                dir,
                                "--save",
                                "",
                                "--appendonly",
                                sync ? "yes" : "no",
                                "--appendfsync",
                                sync ? sync : "no",
                                "--appenddirname",
                                folder,
                                "--auto-aof-rewrite-percentage",
                                "0",
                                NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    const char *path = access(places[0], X_OK) == 0 ? places[0] : places[1];

    *r = (struct redis){.fd = -1};
    if (access(path, X_OK) < 0)
        return false;
    r->port = daemon_free_port();
    (void)snprintf(port, sizeof port, "%u", r->port);
    (void)snprintf(folder, sizeof folder, "redis-%s", sync ? sync : "no");
    assert_rc(daemon_start_how(&r->daemon, path, &how), 0);
    await_server(r);
    return true;
}

void
redis_close(struct redis *r)
{
    if (r->port == 0)
        return;
    client_close(r->fd);
    daemon_fini(&r->daemon);
}

/* ---- history ------------------------------------------------------------ */

/* Adds what comes to `text`. */
static size_t
receive_more(const struct redis *r, size_t have)
{
    const long n =
        client_try_read(r->fd, text + have, TEXT_SIZE - have, WAIT_MS);

    assert_true(n > 0);
    text[have + (size_t)n] = '\0';
    return (size_t)n;
}

static size_t
put_command(char *at, const struct store_delta *d)
{
    char key[STORE_NAME_MAX + 16], hour[8], sum[24];
    const int key_size = snprintf(key, sizeof key, "%.*s:%u", d->key_size,
                                  (const char *)d->key, d->minute / 1440);
    const int hour_size =
        snprintf(hour, sizeof hour, "%u", d->minute / 60 % 24);
    const int sum_size = snprintf(sum, sizeof sum, "%lld", (long long)d->sum);

    return (size_t)sprintf(
        at, "*4\r\n$7\r\nHINCRBY\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n",
        key_size, key, hour_size, hour, sum_size, sum);
}

double
redis_apply(struct redis *r, const struct store_delta *deltas, size_t count)
{
    const uint64_t start = clock_ns();

    for (size_t at = 0, n; at < count; at += n) {
        size_t size = 0, left;

        n = count - at < AHEAD ? count - at : AHEAD;
        for (size_t i = 0; i < n; i++) {
            assert_true(deltas[at + i].key_size <= 32); /* TEXT_SIZE */
            size += put_command(text + size, &deltas[at + i]);
        }
        client_send(r->fd, text, size);
        for (left = n; left > 0;) { /* each answer is a number on a line */
            size = receive_more(r, 0);
            assert_null(memchr(text, '-', size));
            for (size_t i = 0; i < size; i++)
                left -= text[i] == '\n';
        }
    }
    return (double)(clock_ns() - start) / 1e6;
}

double
redis_size(struct redis *r)
{
    static const char ask[] = "*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n";
    static const char name[] = "used_memory_dataset:";
    size_t have = 0;
    const char *at;

    client_send(r->fd, ask, sizeof ask - 1);
    do {
        have += receive_more(r, have);
        at = strstr(text, name);
    } while (have < 3 || strcmp(text + have - 2, "\r\n") != 0 || !at);
    return strtod(at + sizeof name - 1, NULL);
}
