/* tests/lib/cluster_servers.c - see cluster_servers.h. */
#include "tests/lib/cluster_servers.h"

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

#define SERVER  "/usr/bin/redis-server"
#define WAIT_MS 20000
#define PACE_MS 10

#define PORT_FIRST 10000
#define PORT_COUNT 22000

/* ---- talking to a server ------------------------------------------------ */

static void
append_reply(char *text, const redisReply *reply)
{
    const size_t used = strlen(text), left = CLUSTER_SERVERS_TEXT - used;

    if (reply->type == REDIS_REPLY_INTEGER)
        (void)snprintf(text + used, left, "%lld", reply->integer);
    else if (reply->type != REDIS_REPLY_ARRAY)
        (void)snprintf(text + used, left, "%s", reply->str ? reply->str : "");
    else
        for (size_t i = 0; i < reply->elements; i++) {
            append_reply(text, reply->element[i]);
            (void)strncat(text, "\n", CLUSTER_SERVERS_TEXT - strlen(text) - 1);
        }
}

const char *
cluster_servers_run(struct cluster_servers *r, unsigned server,
                    const char *format, ...)
{
    static char text[CLUSTER_SERVERS_TEXT];
    const struct timeval wait = {.tv_sec = 5};
    redisContext *link =
        redisConnectWithTimeout("127.0.0.1", r->ports[server], wait);
    redisReply *reply = NULL;
    va_list args;

    text[0] = '\0';
    va_start(args, format);
    if (link != NULL && link->err == 0 &&
        redisSetTimeout(link, wait) == REDIS_OK)
        reply = redisvCommand(link, format, args);
    va_end(args);
    if (reply != NULL) {
        append_reply(text, reply);
        freeReplyObject(reply);
    }
    if (link != NULL)
        redisFree(link);
    return text;
}

void
cluster_servers_await(struct cluster_servers *r, unsigned server,
                      const char *command, const char *text)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();

    while (strstr(cluster_servers_run(r, server, command), text) == NULL) {
        if (clock_ms() > end_ms)
            fail_msg("server %u: %s does not say \"%s\" but: %s", server,
                     command, text, cluster_servers_run(r, server, command));
        (void)poll(NULL, 0, PACE_MS);
    }
}

unsigned
cluster_servers_master(struct cluster_servers *r, unsigned from, unsigned slot)
{
    const struct timeval wait = {.tv_sec = 5};
    redisContext *link =
        redisConnectWithTimeout("127.0.0.1", r->ports[from], wait);
    redisReply *map = redisCommand(link, "CLUSTER SLOTS");
    unsigned found = CLUSTER_SERVERS_SERVERS;

    for (size_t i = 0; map != NULL && i < map->elements; i++) {
        redisReply **row = map->element[i]->element;

        if (slot < row[0]->integer || slot > row[1]->integer)
            continue;
        for (unsigned s = 0; s < CLUSTER_SERVERS_SERVERS; s++)
            if (r->ports[s] == row[2]->element[1]->integer)
                found = s;
    }
    assert_true(found < CLUSTER_SERVERS_SERVERS);
    freeReplyObject(map);
    redisFree(link);
    return found;
}

void
cluster_servers_flush(struct cluster_servers *r)
{
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        if (strstr(cluster_servers_run(r, i, "ROLE"), "master") != NULL)
            assert_string_equal(cluster_servers_run(r, i, "FLUSHALL"), "OK");
}

void
cluster_servers_config(const struct cluster_servers *r, struct config *c)
{
    config_defaults(c);
    c->store_cluster = true;
    (void)snprintf(c->store_nodes, sizeof c->store_nodes, "%s", r->nodes);
}

void
cluster_servers_await_sent(struct store *s)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)30000 * test_slow();

    while (store_pending(s)) {
        if (clock_ms() > end_ms)
            fail_msg("entries still wait");
        (void)poll(NULL, 0, 2);
    }
}

/* ---- starting ----------------------------------------------------------- */

/* Finds free ports, below those that the kernel gives to connections.  The
 * sockets stay bound, so that no other servers takes a port before its server
 * listens, or while that is down: a server may bind it too, because both
 * sockets have SO_REUSEADDR; a socket of this function may not, because it has
 * none yet. */
static void
find_ports(int *ports, int *fds, size_t count)
{
    struct random random = {.state = clock_ns() ^ (uint64_t)getpid() << 40};
    const int on = 1;

    for (size_t i = 0; i < count; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fds[i] >= 0);
        do {
            ports[i] = PORT_FIRST + (int)random_below(&random, PORT_COUNT);
            at.sin_port = htons((uint16_t)ports[i]);
        } while (bind(fds[i], (struct sockaddr *)&at, sizeof at) < 0);
        assert_int_equal(
            setsockopt(fds[i], SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    }
}

void
cluster_servers_restart(struct cluster_servers *r, unsigned server)
{
    char port[8], bus[8], dir[sizeof r->tmp.path + 16];
    const char *const argv[] = {"--port",
                                port,
                                "--cluster-port",
                                bus,
                                "--bind",
                                "127.0.0.1",
                                "--dir",
                                dir,
                                "--cluster-enabled",
                                "yes",
                                "--cluster-node-timeout",
                                "1000",
                                "--cluster-replica-validity-factor",
                                "0",
                                "--appendonly",
                                "yes",
                                "--aof-load-truncated",
                                "no",
                                "--save",
                                "",
                                "--repl-diskless-sync-delay",
                                "0",
                                "--enable-debug-command",
                                "yes",
                                NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};

    (void)snprintf(port, sizeof port, "%d", r->ports[server]);
    (void)snprintf(bus, sizeof bus, "%d", r->bus[server]);
    (void)snprintf(dir, sizeof dir, "%s/%u", r->tmp.path, server);
    assert_int_equal(daemon_start_how(&r->servers[server], SERVER, &how), 0);
    cluster_servers_await(r, server, "PING", "PONG");
}

/* Gives the masters their slots and has all meet. */
static void
form_cluster(struct cluster_servers *r)
{
    char id[CLUSTER_SERVERS_MASTERS][64];

    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        (void)cluster_servers_run(r, i, "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++) {
        const unsigned each = 16384 / CLUSTER_SERVERS_MASTERS + 1;
        const unsigned last = (i + 1) * each - 1;

        assert_string_equal(
            cluster_servers_run(r, i, "CLUSTER ADDSLOTSRANGE %u %u", i * each,
                                last < 16383 ? last : 16383),
            "OK");
        (void)snprintf(id[i], sizeof id[i], "%s",
                       cluster_servers_run(r, i, "CLUSTER MYID"));
    }
    for (unsigned i = 1; i < CLUSTER_SERVERS_SERVERS; i++)
        (void)cluster_servers_run(r, i, "CLUSTER MEET 127.0.0.1 %d %d",
                                  r->ports[0], r->bus[0]);
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        cluster_servers_await(r, i, "CLUSTER INFO", "cluster_known_nodes:6");
    for (unsigned i = CLUSTER_SERVERS_MASTERS; i < CLUSTER_SERVERS_SERVERS;
         i++) {
        const uint64_t end_ms = clock_ms() + WAIT_MS;

        while (strcmp(cluster_servers_run(r, i, "CLUSTER REPLICATE %s",
                                          id[i - CLUSTER_SERVERS_MASTERS]),
                      "OK") != 0) {
            assert_true(clock_ms() < end_ms);
            (void)poll(NULL, 0, PACE_MS);
        }
    }
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        cluster_servers_await(r, i, "CLUSTER INFO", "cluster_state:ok");
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++)
        cluster_servers_await(r, i, "INFO replication", "state=online");
}

bool
cluster_servers_start(struct cluster_servers *r)
{
    int ports[2 * CLUSTER_SERVERS_SERVERS];

    *r = (struct cluster_servers){.nodes = ""};
    if (access(SERVER, X_OK) != 0)
        return false;
    tmpdir_make_in_memory(&r->tmp);
    find_ports(ports, r->port_fds, 2 * CLUSTER_SERVERS_SERVERS);
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++) {
        char name[8];

        r->ports[i] = ports[i];
        r->bus[i] = ports[CLUSTER_SERVERS_SERVERS + i];
        (void)snprintf(name, sizeof name, "%u", i);
        assert_int_equal(mkdirat(r->tmp.fd, name, 0700), 0);
        cluster_servers_restart(r, i);
    }
    (void)snprintf(r->nodes, sizeof r->nodes, "127.0.0.1:%d 127.0.0.1:%d",
                   r->ports[0], r->ports[1]);
    form_cluster(r);
    return true;
}

void
cluster_servers_stop(struct cluster_servers *r)
{
    if (r->nodes[0] == '\0')
        return;
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        daemon_fini(&r->servers[i]);
    for (unsigned i = 0; i < 2 * CLUSTER_SERVERS_SERVERS; i++)
        (void)close(r->port_fds[i]);
    tmpdir_remove(&r->tmp);
}
