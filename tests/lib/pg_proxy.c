/* tests/lib/pg_proxy.c - see pg_proxy.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/pg_proxy.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/pg_server.h"

struct pair {
    struct pg_proxy *proxy;
    int client, server;
};

static struct sockaddr_un
address_in(const char *folder)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const int size =
        snprintf(a.sun_path, sizeof a.sun_path, "%s/.s.PGSQL.5432", folder);

    assert_true(size > 0 && (size_t)size < sizeof a.sun_path);
    return a;
}

static bool
forward_bytes(const struct pair *p, bool from_server)
{
    char bytes[65536];
    const ssize_t n =
        read(from_server ? p->server : p->client, bytes, sizeof bytes);

    if (n <= 0 ||
        (p->proxy->look && !p->proxy->look(from_server, bytes, (size_t)n)))
        return false;
    if (!from_server && p->proxy->delay_ms > 0)
        (void)poll(NULL, 0, (int)p->proxy->delay_ms); /* the fault */
    return send(from_server ? p->client : p->server, bytes, (size_t)n,
                MSG_NOSIGNAL) == n;
}

static void *
serve_client(void *ctx)
{
    const struct sockaddr_un a = address_in(pg_server_path());
    struct pair *p = ctx;
    struct pollfd f[] = {{.fd = p->client, .events = POLLIN},
                         {.fd = p->server, .events = POLLIN}};
    bool open = connect(p->server, (const struct sockaddr *)&a, sizeof a) == 0;

    while (open && poll(f, 2, -1) > 0) {
        if (f[0].revents != 0)
            open = forward_bytes(p, false);
        if (open && f[1].revents != 0)
            open = forward_bytes(p, true);
    }
    (void)close(p->client);
    (void)close(p->server);
    p->proxy->clients--;
    free(p);
    return NULL;
}

static void *
accept_clients(void *ctx)
{
    struct pg_proxy *p = ctx;
    pthread_t thread;
    int client;

    while ((client = accept(p->listener, NULL, NULL)) >= 0) {
        struct pair *pair = malloc(sizeof *pair);

        if (!pair)
            abort();
        *pair = (struct pair){p, client,
                              socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        p->clients++;
        if (pthread_create(&thread, NULL, serve_client, pair) != 0 ||
            pthread_detach(thread) != 0)
            abort();
    }
    return NULL;
}

void
pg_proxy_start(struct pg_proxy *p)
{
    struct sockaddr_un a;

    (void)pg_server_path(); /* the server is there before the threads */
    tmpdir_make_in_memory(&p->dir);
    (void)snprintf(p->conninfo, sizeof p->conninfo,
                   "host=%s user=postgres dbname=postgres", p->dir.path);
    p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a = address_in(p->dir.path);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(p->listener, 64), 0);
    assert_int_equal(pthread_create(&p->thread, NULL, accept_clients, p), 0);
}

void
pg_proxy_stop(struct pg_proxy *p)
{
    (void)shutdown(p->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(p->thread, NULL), 0);
    while (p->clients > 0)
        (void)poll(NULL, 0, 1); /* paces the looking */
    (void)close(p->listener);
    tmpdir_remove(&p->dir);
}
