/* tests/lib/quota_server.c - see quota_server.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include "tests/lib/quota_server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/fault.h"
#include "tests/lib/turns.h"

/* ---- peers ------------------------------------------------------- */

int
fixture_answer(const struct quota_peer *p, size_t nth, char body[64])
{
    const char *at = p->heard;

    body[0] = '\0';
    for (size_t i = 0;; i++) {
        const char *end = strstr(at, "\r\n\r\n");
        const char *length = strstr(at, "Content-length: ");
        int status, size;

        if (!end || !length || length > end)
            return FIXTURE_CLOSED;
        assert_int_equal(sscanf(at, "HTTP/1.%*c %d", &status), 1);
        assert_int_equal(sscanf(length, "Content-length: %d", &size), 1);
        end += 4;
        if ((size_t)(end - p->heard) + (size_t)size > p->size)
            return FIXTURE_CLOSED;
        if (i == nth) {
            (void)snprintf(body, 64, "%.*s", size < 63 ? size : 63, end);
            return status;
        }
        at = end + size;
    }
}

static void
hear_peer(struct quota_peer *p)
{
    char body[64];
    ssize_t n;

    if (p->fd < 0 || p->ended)
        return;
    while ((n = read(p->fd, p->heard + p->size, FIXTURE_HEARD - 1 - p->size)) >
           0)
        p->size += (size_t)n;
    p->ended = n == 0 || (n < 0 && errno != EAGAIN);
    p->heard[p->size] = '\0';
    while (fixture_answer(p, p->answers, body) != FIXTURE_CLOSED)
        p->answers++;
}

static bool
after_turn(void *ctx)
{
    struct quota_server *r = ctx;
    bool more;

    more = conn_turn(r->conns);
    quota_turn(&r->service);
    r->has_failed = r->service.commit.failed;
    for (size_t i = 0; i < FIXTURE_PEERS; i++)
        hear_peer(&r->peers[i]);
    if (r->enough(r))
        loop_stop(r->loop);
    return more || conns_have_work(r->conns);
}

bool
fixture_is_heard(struct quota_server *r)
{
    return r->waits->answers >= r->want || r->waits->ended || r->has_failed;
}

void
fixture_run(struct quota_server *r, bool (*enough)(struct quota_server *r))
{
    r->enough = enough;
    turns_run(r->loop);
}

struct quota_peer *
fixture_join(struct quota_server *r, size_t i)
{
    struct quota_peer *p = &r->peers[i];
    int fds[2];

    if (p->fd >= 0)
        (void)close(p->fd); /* what it heard is not needed any more */
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
        0);
    assert_rc(conns_take(r->conns, 0, fds[0]), 0);
    *p = (struct quota_peer){.fd = fds[1]};
    return p;
}

void
fixture_ask(struct quota_peer *p, const char *method, const char *target,
            const char *key)
{
    char text[512];
    int size;

    size = snprintf(text, sizeof text,
                    "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s\r\n", method,
                    target, key ? "Idempotency-Key: " : "", key ? key : "",
                    key ? "\r\n" : "");
    assert_true(size < (int)sizeof text);
    assert_int_equal(send(p->fd, text, (size_t)size, MSG_NOSIGNAL), size);
}

int
fixture_once_keyed(struct quota_server *r, const char *method,
                   const char *target, const char *key, char body[64])
{
    struct quota_peer *p = fixture_join(r, 0);

    fixture_ask(p, method, target, key);
    r->waits = p;
    r->want = 1;
    fixture_run(r, fixture_is_heard);
    return fixture_answer(p, 0, body);
}

int
fixture_once(struct quota_server *r, const char *target, char body[64])
{
    return fixture_once_keyed(r, "POST", target, NULL, body);
}

/* ---- the fixture ----------------------------------------------------- */

void
fixture_start(struct quota_server *r)
{
    const struct conns_options o = {.rows = &r->row,
                                    .count = 1,
                                    .shared = FIXTURE_PEERS + 2,
                                    .pool_size = 1 << 20,
                                    .answer_max = quota_answer_max(&r->config)};

    r->loop = loop_new();
    assert_non_null(r->loop);
    loop_after_turn(r->loop, after_turn, r);
    r->site = (struct http_site){.count = 0};
    r->row = (struct listener_config){.name = "http",
                                      .protocol = &http_protocol,
                                      .ctx = &r->site,
                                      .max = FIXTURE_PEERS + 2};
    assert_rc(conns_init(&r->conns, r->loop, &o), 0);
    for (size_t i = 0; i < FIXTURE_PEERS; i++)
        r->peers[i].fd = -1;
    r->has_failed = false;
    assert_rc(quota_open(&r->service, r->loop, r->dir.fd, &r->config,
                         FIXTURE_PEERS + 2),
              0);
    http_site_add(&r->site, quota_routes, quota_route_count, &r->service,
                  TOKENS_QUOTA);
}

/* As a kill: what is not durable is gone from memory. */
void
fixture_stop(struct quota_server *r)
{
    for (size_t i = 0; i < FIXTURE_PEERS; i++)
        if (r->peers[i].fd >= 0)
            assert_int_equal(close(r->peers[i].fd), 0);
    conns_fini(r->conns);
    quota_close(&r->service);
    loop_free(r->loop);
    r->loop = NULL;
}

void
fixture_restart(struct quota_server *r)
{
    fixture_stop(r);
    fixture_start(r);
}

int
fixture_setup(void **state)
{
    static struct quota_server r;
    char why[CONFIG_WHY_SIZE];

    memset(&r, 0, sizeof r);
    tmpdir_make_in_memory(&r.dir);
    config_defaults(&r.config);
    assert_rc(config_set(&r.config, "quota.enable", "on", why), 0);
    r.config.quota_limit = FIXTURE_LIMIT;
    *state = &r;
    return 0;
}

int
fixture_teardown(void **state)
{
    struct quota_server *r = *state;

    fault_clear();
    if (r->loop != NULL) /* the test has failed */
        fixture_stop(r);
    tmpdir_remove(&r->dir);
    return 0;
}
