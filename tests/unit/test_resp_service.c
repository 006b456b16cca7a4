/* tests/unit/test_resp_service.c - connections of the RESP port in one process:
 * what happens between countd-read and a countd-write that the test plays, and
 * in which turns of the loop long work is done. */
#include "tests/unit/answer_fixture.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include "common/net/conn_internal.h"
#include "common/net/local.h"
#include "reader/resp/resp_service.h"
#include "tests/lib/client.h"
#include "tests/lib/turns.h"

#define HEARD_MAX ((size_t)4 << 20)
#define DOWN                                                                   \
    "-MASTERDOWN countd-write cannot be reached: nothing was counted\r\n"
#define UNSURE "-UNSURE countd-write went away: counted once or not at all\r\n"

struct server {
    struct fixture *site;
    struct config config;
    struct loop *loop;
    struct resp_service resp;
    struct listener_config row;
    struct conns *conns;
    struct local_folder sockets;
    struct local socket;
    int writer;       /* the test's end of the connection that forwards */
    int peer;         /* that is to hear `want` */
    const char *want; /* NULL: the loop runs until `peer` hears a byte */
    bool ends;        /* the writer acknowledges one and ends in this turn */
    unsigned turns;
    size_t size;
    char heard[HEARD_MAX];
};

/* ---- the server ---------------------------------------------------------- */

static void
end_writer(struct server *f)
{
    client_send(f->writer, "WIN", 3);
    client_close(f->writer);
    f->ends = false;
}

static bool
has_heard(struct server *f)
{
    const ssize_t n = recv(f->peer, f->heard + f->size, HEARD_MAX - f->size - 1,
                           MSG_DONTWAIT);

    f->size += n > 0 ? (size_t)n : 0;
    f->heard[f->size] = '\0';
    return f->want == NULL ? f->size > 0 : f->size >= strlen(f->want);
}

static bool
after_turn(void *ctx)
{
    struct server *f = ctx;
    bool more;

    if (f->ends && conns_have_work(f->conns))
        end_writer(f);
    more = conn_turn(f->conns);
    f->turns++;
    if (has_heard(f))
        loop_stop(f->loop);
    return more || conns_have_work(f->conns);
}

static void
fill(struct fixture *f)
{
    static struct store_delta rows[4000];
    static char keys[4000][204];

    for (unsigned i = 0; i < 4000; i++) {
        memset(keys[i], 'a', sizeof keys[i]);
        (void)snprintf(keys[i] + 195, 9, "%08u", i);
        rows[i] = (struct store_delta){
            .key = (const uint8_t *)keys[i], .key_size = 203, .sum_low = i};
    }
    assert_rc(stored_apply(f->store, "big", NULL, rows, 4000), 0);
    assert_rc(stored_add(f->store, "small", NULL, "k", 7), 0);
}

static void
open_sockets(struct server *f)
{
    char path[sizeof f->site->dir.path + 16];

    (void)snprintf(path, sizeof path, "%s/%s", f->site->dir.path, LOCAL_FOLDER);
    assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
    f->sockets =
        (struct local_folder){.fd = open(path, O_DIRECTORY | O_CLOEXEC),
                              .path = f->site->dir.path,
                              .mode = 0600,
                              .gid = LOCAL_ANY_GROUP};
    assert_true(f->sockets.fd >= 0);
    assert_rc(local_open(&f->sockets, LOCAL_ACK, SOCK_STREAM, &f->socket), 0);
}

static int
setup(void **state)
{
    static struct server f;
    const struct conns_options options = {.rows = &f.row,
                                          .count = 1,
                                          .shared = 8,
                                          .pool_size = (size_t)64 << 20,
                                          .answer_max = RESP_ANSWER_MAX};

    f = (struct server){.site = fixture_make(NULL, fill, 1), .peer = -1};
    config_defaults(&f.config);
    (void)snprintf(f.config.data_dir, sizeof f.config.data_dir, "%s",
                   f.site->dir.path);
    open_sockets(&f);
    f.loop = loop_new();
    assert_non_null(f.loop);
    assert_rc(resp_service_init(&f.resp, f.loop, f.site->store, &f.site->as_of,
                                &f.config, &f.site->layout, 8),
              0);
    f.row = (struct listener_config){.name = "resp",
                                     .max_key = "read.max_connections",
                                     .protocol = &resp_protocol,
                                     .ctx = &f.resp,
                                     .max = 8};
    assert_rc(conns_init(&f.conns, f.loop, &options), 0);
    loop_after_turn(f.loop, after_turn, &f);
    f.writer = accept4(f.socket.fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(f.writer >= 0);
    *state = &f;
    return 0;
}

static int
end(void **state)
{
    struct server *f = *state;
    void *site = f->site;

    fault_clear();
    conns_fini(f->conns);
    resp_service_fini(&f->resp);
    loop_free(f->loop);
    local_close(&f->sockets, &f->socket);
    assert_rc(close(f->sockets.fd), 0);
    return teardown(&site);
}

#define CASE(name, f) TEST_IN(name, struct server *f, setup, end)

/* ---- peers --------------------------------------------------------------- */

static int
join(struct server *f)
{
    int pair[2];

    assert_rc(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                         pair),
              0);
    assert_rc(conns_take(f->conns, 0, pair[0]), 0);
    return pair[1];
}

/* The peer hears `want`, and no more of it. */
static void
hear(struct server *f, int fd, const char *want)
{
    f->peer = fd;
    f->want = want;
    f->size = 0;
    f->turns = 0;
    turns_run(f->loop);
    if (want)
        assert_string_equal(f->heard, want);
}

static void
talk(struct server *f, int fd, const char *sent, const char *want)
{
    client_send(fd, sent, strlen(sent));
    hear(f, fd, want);
}

/* ---- countd-write -------------------------------------------------------- */

CASE(what_was_acknowledged_before_a_send_failed_is_answered, f)
{
    const int one = join(f), two = join(f);
    uint8_t message[1024];

    talk(f, two, "PING\r\n", "+PONG\r\n");
    client_send(one, "INCR one\r\nPING\r\n", 16);
    talk(f, two, "PING\r\n", "+PONG\r\n");
    assert_int_equal(
        client_read(f->writer, message, f->site->layout.message_size),
        f->site->layout.message_size);

    f->ends = true;
    talk(f, two, "INCR two\r\n", DOWN);
    hear(f, one, ":1\r\n+PONG\r\n");

    assert_int_equal(f->resp.forward.stats.unsure, 0);
    client_close(one);
    client_close(two);
}

CASE(what_was_sent_and_not_acknowledged_is_unsure, f)
{
    const int one = join(f), two = join(f);
    uint8_t message[1024];

    client_send(one, "INCR one\r\nINCR one\r\n", 20);
    talk(f, two, "PING\r\n", "+PONG\r\n");
    assert_int_equal(
        client_read(f->writer, message, f->site->layout.message_size),
        f->site->layout.message_size);
    end_writer(f);
    hear(f, one, ":1\r\n" UNSURE);
    talk(f, one, "INCR one\r\n", DOWN);

    client_close(one);
    client_close(two);
}
