/* tests/unit/test_resp_service.c - connections of the RESP port in one process:
 * what happens between countd-read and a countd-write that the test plays, and
 * in which turns of the loop long work is done. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/answer_fixture.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include "common/net/conn_internal.h"
#include "common/net/local.h"
#include "reader/resp/resp_internal.h"
#include "tests/lib/client.h"
#include "tests/lib/turns.h"

#define HEARD_MAX ((size_t)4 << 20)
#define PEERS     80
#define DOWN                                                                   \
    "-MASTERDOWN countd-write cannot be reached: nothing was counted\r\n"
#define UNSURE "-UNSURE countd-write went away: counted once or not at all\r\n"

struct server {
    struct fixture *site;
    struct config config;
    struct loop *loop;
    struct jobs jobs;
    struct resp_service resp;
    struct listener_config row;
    struct conns *conns;
    struct local_folder sockets;
    struct local socket;
    int writer;  /* the test's end of the connection that forwards */
    int peer;    /* that is to hear bytes; -1: increments are taken */
    size_t want; /* bytes after which the loop stops */
    size_t most; /* bytes that are taken from the peer */
    bool ends;   /* the writer acknowledges one and ends in this turn */
    unsigned turns;
    int peers[PEERS]; /* that have joined and not left */
    size_t peer_count;
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
    const ssize_t n =
        recv(f->peer, f->heard + f->size, f->most - f->size, MSG_DONTWAIT);

    f->size += n > 0 ? (size_t)n : 0;
    f->heard[f->size] = '\0';
    if (f->peer < 0)
        return f->resp.forward.state == FORWARD_UP;
    return f->size >= f->want;
}

static bool
after_turn(void *ctx)
{
    struct server *f = ctx;
    bool more, works;

    if (f->ends && conns_have_work(f->conns))
        end_writer(f);
    more = conn_turn(f->conns);
    forward_send(&f->resp.forward);
    works = jobs_end_turn(&f->jobs);
    f->turns++;
    if (has_heard(f))
        loop_stop(f->loop);
    return more || works || conns_have_work(f->conns);
}

static void
fill_store(struct fixture *f)
{
    static struct store_delta rows[4000];
    static char keys[4000][204];

    for (unsigned i = 0; i < 4000; i++) {
        memset(keys[i], 'a', sizeof keys[i]);
        (void)snprintf(keys[i] + 195, 9, "%08u", i);
        rows[i] = (struct store_delta){
            .key = (const uint8_t *)keys[i], .key_size = 203, .sum = i};
    }
    assert_rc(stored_apply(f->store, "big", NULL, rows, 4000), 0);
    assert_rc(stored_add(f->store, "small", NULL, "k", 7), 0);
}

static void hear_answer(struct server *f, int fd, const char *want);

/* Plays the next countd-write: takes the increment of 0 and acknowledges it. */
static void
begin_writer(struct server *f)
{
    f->writer = accept4(f->socket.fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(f->writer >= 0);
    hear_answer(f, f->writer, NULL);
    assert_int_equal(f->size, f->site->layout.message_size);
    client_send(f->writer, "WIN", 3);
    hear_answer(f, -1, NULL);
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
setup_with(void **state, uint64_t wait_ms)
{
    static struct server f;
    const struct conns_options options = {.rows = &f.row,
                                          .count = 1,
                                          .shared = PEERS,
                                          .pool_size = (size_t)64 << 20,
                                          .answer_max = RESP_ANSWER_MAX};

    f = (struct server){.site = fixture_make(NULL, fill_store, 1), .peer = -1};
    config_defaults(&f.config);
    (void)snprintf(f.config.data_dir, sizeof f.config.data_dir, "%s",
                   f.site->dir.path);
    f.config.resp_wait_ms = wait_ms;
    open_sockets(&f);
    f.loop = loop_new();
    assert_non_null(f.loop);
    jobs_init(&f.jobs, f.loop, f.site->store, &f.site->as_of,
              f.config.read_max_time_ms);
    assert_rc(
        resp_service_init(&f.resp, &f.jobs, &f.config, &f.site->layout, PEERS),
        0);
    f.row = (struct listener_config){.name = "resp",
                                     .max_key = "read.max_connections",
                                     .protocol = &resp_protocol,
                                     .ctx = &f.resp,
                                     .max = PEERS};
    assert_rc(conns_init(&f.conns, f.loop, &options), 0);
    loop_after_turn(f.loop, after_turn, &f);
    begin_writer(&f);
    *state = &f;
    return 0;
}

static int
setup(void **state)
{
    return setup_with(state, 0);
}

static int
setup_patient(void **state)
{
    fault_stop_clock();
    return setup_with(state, 2000);
}

static int
end_server(void **state)
{
    struct server *f = *state;
    void *site = f->site;

    fault_clear();
    while (f->peer_count > 0)
        client_close(f->peers[--f->peer_count]);
    conns_fini(f->conns);
    resp_service_fini(&f->resp);
    jobs_fini(&f->jobs);
    loop_free(f->loop);
    local_close(&f->sockets, &f->socket);
    assert_rc(close(f->sockets.fd), 0);
    return teardown(&site);
}

#define CASE(name, f) TEST_IN(name, struct server *f, setup, end_server)
#define PATIENT(name, f)                                                       \
    TEST_IN(name, struct server *f, setup_patient, end_server)

/* ---- peers --------------------------------------------------------------- */

static int
join_peer(struct server *f)
{
    int pair[2];

    assert_rc(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                         pair),
              0);
    assert_rc(conns_take(f->conns, 0, pair[0]), 0);
    assert_true(f->peer_count < PEERS);
    return f->peers[f->peer_count++] = pair[1];
}

/* The peer that has joined last closes. */
static void
end_peer(struct server *f)
{
    client_close(f->peers[--f->peer_count]);
}

/* The loop runs until the peer has heard `want` bytes. */
static void
hear_bytes(struct server *f, int fd, size_t want, size_t most)
{
    f->peer = fd;
    f->want = want;
    f->most = most;
    f->size = 0;
    f->turns = 0;
    turns_run(f->loop);
}

/* The peer hears `want`, and no more of it; NULL: anything. */
static void
hear_answer(struct server *f, int fd, const char *want)
{
    hear_bytes(f, fd, want ? strlen(want) : 1, HEARD_MAX - 1);
    if (want)
        assert_string_equal(f->heard, want);
}

static void
talk_to(struct server *f, int fd, const char *sent, const char *want)
{
    client_send(fd, sent, strlen(sent));
    hear_answer(f, fd, want);
}

/* Messages arrive at countd-write, which acknowledges nothing by itself. */
static void
take_messages(struct server *f, size_t count)
{
    const size_t size = count * f->site->layout.message_size;

    hear_bytes(f, f->writer, size, size);
}

static void
expect_begin(const struct server *f, const char *want)
{
    if (strncmp(f->heard, want, strlen(want)) != 0)
        fail_msg("heard: %s", f->heard);
}

CASE(a_service_begins_whole_or_not_at_all, f)
{
    static struct resp_service other;
    bool is_hit = true;

    for (unsigned n = 1; is_hit; n++) {
        int rc;

        fault_inject("memory", n, ENOMEM);
        rc = resp_service_init(&other, &f->jobs, &f->config, &f->site->layout,
                               PEERS);
        is_hit = fault_hit();
        fault_clear();
        assert_rc(rc, is_hit ? -ENOMEM : 0);
    }
    resp_service_fini(&other);
}

/* ---- countd-write -------------------------------------------------------- */

CASE(what_was_acknowledged_before_a_send_failed_is_answered, f)
{
    const int one = join_peer(f), two = join_peer(f);

    talk_to(f, two, "PING\r\n", "+PONG\r\n");
    client_send(one, "INCR one\r\nPING\r\n", 16);
    take_messages(f, 1);

    f->ends = true;
    talk_to(f, two, "INCR two\r\n", DOWN);
    hear_answer(f, one, ":1\r\n+PONG\r\n");

    assert_int_equal(f->resp.forward.stats.unsure, 0);
    assert_int_equal(f->resp.forward.stats.refused, 1);
}

CASE(what_was_sent_and_not_acknowledged_is_unsure, f)
{
    const int one = join_peer(f);

    fault_stop_clock();
    client_send(one, "INCR one\r\nINCR one\r\n", 20);
    take_messages(f, 2);
    end_writer(f);
    hear_answer(f, one, ":1\r\n" UNSURE);
    talk_to(f, one, "INCR one\r\n", DOWN);
}

/* The next countd-write counts what was not sent to the one before it. */
PATIENT(an_increment_waits_for_the_next_countd_write, f)
{
    const int one = join_peer(f), two = join_peer(f), three = join_peer(f);

    client_send(one, "INCR one\r\nINCR one\r\n", 20);
    take_messages(f, 2);
    assert_rc(shutdown(f->writer, SHUT_RD), 0);
    client_send(two, "INCR two\r\n", 10);
    talk_to(f, three, "PING\r\n", "+PONG\r\n");
    client_send(f->writer, "WIN", 3);
    end_writer(f);
    hear_answer(f, one, ":1\r\n:2\r\n");
    for (int i = 0; i < 3; i++) { /* turns */
        talk_to(f, one, "PING\r\n", "+PONG\r\n");
        fault_pass_ns(UINT64_C(600000000));
    }
    talk_to(f, one, "PING\r\n", "+PONG\r\n");

    begin_writer(f);
    take_messages(f, 1);
    client_send(f->writer, "WIN", 3);
    hear_answer(f, two, ":1\r\n");
    assert_int_equal(f->resp.forward.stats.unsure, 0);
    assert_int_equal(f->resp.forward.stats.refused, 0);
}

PATIENT(an_increment_that_waited_for_resp_wait_is_refused, f)
{
    const int one = join_peer(f), two = join_peer(f);

    client_close(f->writer);
    talk_to(f, two, "PING\r\n", "+PONG\r\n");
    client_send(one, "INCR one\r\nPING\r\n", 16);
    talk_to(f, two, "PING\r\n", "+PONG\r\n");
    fault_pass_ns(UINT64_C(1900000000));
    talk_to(f, two, "PING\r\n", "+PONG\r\n");
    f->peer = one;
    f->size = 0;
    (void)has_heard(f);
    assert_int_equal(f->size, 0);

    fault_pass_ns(UINT64_C(200000000));
    hear_answer(f, one, DOWN "+PONG\r\n");
    talk_to(f, two, "INCR two\r\n", DOWN);
}

/* Also one that had closed before its command was begun. */
CASE(a_client_that_closes_while_it_waits_is_let_go, f)
{
    const struct listener *d = conns_listener(f->conns, 0);
    const int two = join_peer(f);

    for (int before = 0; before < 2; before++) {
        const int one = join_peer(f);

        /* Another key: what was counted may be readable by now. */
        client_send(one, before ? "INCR two\r\n" : "INCR one\r\n", 10);
        take_messages(f, 1);
        client_send(f->writer, "WIN", 3);
        hear_answer(f, one, ":1\r\n");
        client_send(one, "WAIT 1 0\r\n", 10);
        if (!before) {
            talk_to(f, two, "PING\r\n", "+PONG\r\n");
            assert_int_equal(d->open, 2);
        }
        assert_rc(shutdown(one, SHUT_WR), 0);
        for (int i = 0; i < 3; i++) /* turns */
            talk_to(f, two, "PING\r\n", "+PONG\r\n");
        assert_int_equal(d->open, 1);
        end_peer(f);
    }
}

CASE(who_closes_behind_a_wait_gets_the_answers_before_it, f)
{
    const int one = join_peer(f);

    client_send(one, "INCR one\r\n", 10);
    take_messages(f, 1);
    client_send(f->writer, "WIN", 3);
    hear_answer(f, one, ":1\r\n");
    client_send(one, "PING\r\nWAIT 1 0\r\n", 16);
    assert_rc(shutdown(one, SHUT_WR), 0);
    hear_answer(f, one, "+PONG\r\n");
}

/* The connection has the number of its increment until that is acknowledged. */
CASE(an_answer_is_awaited_for_a_second_after_its_client_closed, f)
{
    const struct listener *d = conns_listener(f->conns, 0);
    const int one = join_peer(f), two = join_peer(f), three = join_peer(f);

    fault_stop_clock();
    client_send(one, "INCR one\r\n", 10);
    assert_rc(shutdown(one, SHUT_WR), 0);
    take_messages(f, 1);
    client_send(f->writer, "WIN", 3);
    hear_answer(f, one, ":1\r\n");

    client_send(three, "INCR one\r\n", 10);
    assert_rc(shutdown(three, SHUT_WR), 0);
    take_messages(f, 1);
    for (int i = 0; i < 4; i++) { /* turns */
        fault_pass_ns(UINT64_C(500000000));
        talk_to(f, two, "PING\r\n", "+PONG\r\n");
    }
    assert_int_equal(d->open, 1);
    assert_int_equal(d->used, 2);
    client_send(f->writer, "WIN", 3);
    for (int i = 0; i < 3; i++)
        talk_to(f, two, "PING\r\n", "+PONG\r\n");
    assert_int_equal(d->used, 1);
}

/* ---- giving way ---------------------------------------------------------- */

/* A pattern that each key of "big" is compared with at each of its bytes. */
#define HEAVY "ZSCAN big 0 COUNT 4000 MATCH *[b-z]*x\r\n"

static void
send_times(int fd, const char *text, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        client_send(fd, text, strlen(text));
}

/* Answers in what the peer has heard, each of which begins with a cursor. */
static unsigned
count_answers(struct server *f, int fd)
{
    unsigned count = 0;

    f->peer = fd;
    f->size = 0;
    (void)has_heard(f);
    for (const char *at = f->heard; (at = strstr(at, "*2\r\n")); at++)
        count++;
    return count;
}

/* Another peer is answered before the 40 scans of one are done. */
static void
expect_to_give_way(struct server *f, int one)
{
    const int two = join_peer(f);
    unsigned done;

    talk_to(f, two, "PING\r\n", "+PONG\r\n");
    done = count_answers(f, one);
    if (done >= 40)
        fail_msg("%u scans were done first", done);
    while (done < 40) {
        talk_to(f, two, "PING\r\n", "+PONG\r\n");
        done += count_answers(f, one);
    }
    assert_int_equal(done, 40);
}

CASE(a_pipeline_gives_way_between_commands, f)
{
    const int one = join_peer(f);

    send_times(one, HEAVY, 40);
    expect_to_give_way(f, one);
}

CASE(a_transaction_gives_way_between_commands, f)
{
    const int one = join_peer(f);

    talk_to(f, one, "MULTI\r\n", "+OK\r\n");
    for (int i = 0; i < 40; i++)
        talk_to(f, one, HEAVY, "+QUEUED\r\n");
    client_send(one, "EXEC\r\n", 6);
    expect_to_give_way(f, one);
}

/* Also while the answers before wait for countd-write. */
CASE(increments_that_give_way_are_sent_without_an_acknowledgement, f)
{
    const int one = join_peer(f);

    f->resp.step_ns = 0;
    send_times(one, "INCR one\r\n", 3);
    for (int i = 0; i < 3; i++)
        take_messages(f, 1);
    client_send(f->writer, "WINWINWIN", 9);
    hear_answer(f, one, ":1\r\n:2\r\n:3\r\n");
}

CASE(many_names_are_looked_up_in_several_turns, f)
{
    static char sent[64000], want[64000];
    char *at = stpcpy(sent, "EXISTS"), *answer = stpcpy(want, "*4000\r\n");
    const int one = join_peer(f);

    for (int i = 0; i < 4000; i++)
        at += sprintf(at, " %s", i % 2 == 0 ? "small" : "none");
    (void)stpcpy(at, "\r\n");
    f->resp.step_ns = 0;
    talk_to(f, one, sent, ":2000\r\n");
    assert_true(f->turns >= 4000);

    at = stpcpy(sent, "HMGET small");
    for (int i = 0; i < 4000; i++) {
        at = stpcpy(at, i % 2 == 0 ? " k" : " n");
        answer = stpcpy(answer, i % 2 == 0 ? "$1\r\n7\r\n" : "$-1\r\n");
    }
    (void)stpcpy(at, "\r\n");
    talk_to(f, one, sent, want);
    assert_true(f->turns >= 4000);
    talk_to(f, one, "MGET a b\r\n", "*2\r\n$-1\r\n$-1\r\n");
}

/* Its token may leave the file between two names. */
CASE(a_command_that_has_begun_ends_without_its_right, f)
{
    const int one = join_peer(f), two = join_peer(f);
    struct resp_state *s =
        conn_state(listener_open_conn(conns_listener(f->conns, 0), 0));

    f->resp.step_ns = 0;
    send_times(one, "HMGET small k k k k k k k k k\r\n", 1);
    talk_to(f, two, "PING\r\n", "+PONG\r\n");
    assert_in_range(s->progress, 1, 8);
    s->rights = 0;
    hear_answer(f, one,
                "*9\r\n$1\r\n7\r\n$1\r\n7\r\n$1\r\n7\r\n$1\r\n7\r\n"
                "$1\r\n7\r\n$1\r\n7\r\n$1\r\n7\r\n$1\r\n7\r\n$1\r\n7\r\n");
    talk_to(f, one, "GET k\r\n", "-NOAUTH Authentication required.\r\n");
}

/* A cursor comes back with what was looked at. */
CASE(a_scan_of_members_gives_way_and_misses_none, f)
{
    const int one = join_peer(f);

    f->resp.step_ns = 0;
    talk_to(f, one, "ZSCAN small 0 COUNT 4000\r\n",
            "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nk\r\n$1\r\n7\r\n");
    talk_to(f, one, "HSCAN big 0 COUNT 4000 MATCH *00000016\r\n",
            "*2\r\n$2\r\n16\r\n*0\r\n");
    talk_to(f, one, "HSCAN big 3999 COUNT 4000 MATCH *9\r\n", NULL);
    assert_has(f->heard, "*2\r\n$1\r\n0\r\n*2\r\n$203\r\naaa");
    talk_to(f, one, "HSCAN big 4000 COUNT 4000\r\n", "*2\r\n$1\r\n0\r\n*0\r\n");
}

/* Also from a cursor whose place the connection does not know. */
CASE(a_scan_of_keyspaces_goes_on_where_its_cursor_says, f)
{
    const int one = join_peer(f), two = join_peer(f);

    assert_rc(stored_add(f->site->store, "name", NULL, "k", 1), 0);
    talk_to(f, one, "SCAN 0 COUNT 1\r\nSCAN 1 COUNT 1\r\nSCAN 1 COUNT 1\r\n",
            "*2\r\n$1\r\n1\r\n*1\r\n$3\r\nbig\r\n"
            "*2\r\n$1\r\n2\r\n*1\r\n$4\r\nname\r\n"
            "*2\r\n$1\r\n2\r\n*1\r\n$4\r\nname\r\n");
    talk_to(f, two, "SCAN 2 COUNT 2\r\n",
            "*2\r\n$1\r\n0\r\n*1\r\n$5\r\nsmall\r\n");
}

CASE(what_takes_longer_than_it_may_is_an_error_and_the_next_is_answered, f)
{
    const int one = join_peer(f);

    f->jobs.max_time_ms = 0;
    client_send(one, "KEYS *\r\n", 8);
    hear_answer(f, one, NULL);
    expect_begin(f, "-ERR the answer takes longer than read.max_time");
    f->jobs.max_time_ms = 10000;
    talk_to(f, one, "DBSIZE\r\n", ":2\r\n");
}

/* Each connection has one of the places that its client may have. */
CASE(lists_of_many_connections_are_made_in_turns_and_others_wait_in_line, f)
{
    int fds[JOBS_MAX / 2 + 2];
    const size_t count = sizeof fds / sizeof fds[0];

    f->jobs.step_ns = 0;
    for (size_t i = 0; i < count; i++) {
        fds[i] = join_peer(f);
        client_send(fds[i], "DBSIZE\r\n", 8);
    }
    hear_answer(f, fds[0], ":2\r\n");
    assert_int_equal(f->jobs.placed, JOBS_MAX / 2);
    assert_false(list_alone(&f->jobs.line));
    for (size_t i = 1; i + 1 < count; i++)
        hear_answer(f, fds[i], ":2\r\n");
    end_peer(f); /* and its job ends */
}

CASE(a_pattern_is_4_kib_at_most, f)
{
    static char sent[5000];
    const int one = join_peer(f);

    (void)strcpy(sent, "KEYS ");
    memset(sent + 5, '*', 4092);
    (void)strcpy(sent + 5 + 4092, "mall\r\n");
    talk_to(f, one, sent, "*1\r\n$5\r\nsmall\r\n");
    (void)strcpy(sent + 5 + 4092, "*mall\r\n");
    talk_to(f, one, sent, "-ERR a pattern is longer than 4096 bytes\r\n");
}

/* ---- commands ------------------------------------------------------------ */

CASE(clients_are_listed_with_what_they_do, f)
{
    const int one = join_peer(f), two = join_peer(f);

    talk_to(f, one, "CLIENT SETNAME me\r\n", "+OK\r\n");
    talk_to(f, two, "MULTI\r\nECHO a\r\n", "+OK\r\n+QUEUED\r\n");
    talk_to(f, one, "CLIENT INFO\r\n", NULL);
    assert_has(f->heard, "\r\nid=1 addr=socket/resp:0 laddr=");
    assert_has(f->heard, " name=me age=");
    assert_has(f->heard, " flags=N db=0 ");
    assert_lacks(f->heard, "id=2 ");
    f->jobs.step_ns = 0;
    talk_to(f, one, "CLIENT LIST\r\n", NULL);
    assert_true(f->turns >= PEERS);
    assert_has(f->heard, " name=me ");
    assert_has(f->heard, "\nid=2 ");
    assert_has(f->heard, " flags=x db=0 sub=0 psub=0 multi=1 ");
}

/* ---- memory of transactions ---------------------------------------------- */

/* Queues a request of `size` bytes, about. */
static void
queue_request(struct server *f, int fd, size_t size, const char *want)
{
    static char bytes[RESP_BULK_MAX + 64];
    int head;

    assert_true(size <= RESP_BULK_MAX);
    head = snprintf(bytes, sizeof bytes, "*2\r\n$4\r\nECHO\r\n$%zu\r\n", size);
    memset(bytes + head, 'e', size);
    memcpy(bytes + (size_t)head + size, "\r\n", 3);
    talk_to(f, fd, bytes, want);
}

static int
begin_transaction(struct server *f, unsigned requests)
{
    const int fd = join_peer(f);

    talk_to(f, fd, "MULTI\r\n", "+OK\r\n");
    for (unsigned i = 0; i < requests; i++)
        queue_request(f, fd, 60000, NULL);
    return fd;
}

#define SHORT                                                                  \
    "-ERR the transactions of all clients need too much memory: send fewer "   \
    "commands in one, or this one again later\r\n"

CASE(idle_transactions_leave_memory_for_others, f)
{
    size_t available, queued = 0;
    int idle[63], one;

    fault_stop_clock();
    for (int i = 0; i < 63; i++)
        idle[i] = begin_transaction(f, 4);
    available = f->resp.queued.free_count * (size_t)POOL_CHUNK_SIZE;
    one = begin_transaction(f, 1);
    while (strcmp(f->heard, "+QUEUED\r\n") == 0) {
        queued += 60000;
        queue_request(f, one, 60000, NULL);
    }
    assert_in_range(queued, 1, available / 4);
    assert_string_equal(f->heard, SHORT);
    talk_to(f, one, "EXEC\r\n",
            "-EXECABORT Transaction discarded because of previous errors.\r\n");

    fault_pass_ns(UINT64_C(6000000000));
    talk_to(f, one, "MULTI\r\n", "+OK\r\n");
    for (int i = 0; i < 15; i++)
        queue_request(f, one, 65000, "+QUEUED\r\n");
    talk_to(
        f, idle[0], "EXEC\r\n",
        "-EXECABORT Transaction discarded because of its age: others needed "
        "its memory.\r\n");
    talk_to(f, idle[0], "PING\r\n", "+PONG\r\n");
}

CASE(a_transaction_that_is_being_done_is_not_discarded, f)
{
    static char want[16 * 60016 + 8];
    const int one = begin_transaction(f, 16), two = join_peer(f);
    char *at = stpcpy(want, "*16\r\n");
    uint32_t taken;

    fault_stop_clock();
    for (int i = 0; i < 16; i++) {
        at = stpcpy(at, "$60000\r\n");
        memset(at, 'e', 60000);
        at = stpcpy(at + 60000, "\r\n");
    }
    fault_pass_ns(UINT64_C(6000000000));
    f->resp.step_ns = 0;
    client_send(one, "EXEC\r\n", 6);
    talk_to(f, two, "MULTI\r\n", "+OK\r\n");

    taken = f->resp.queued.free_count - 100;
    f->resp.queued.free_count -= taken;
    queue_request(f, two, 60000, SHORT);
    f->resp.queued.free_count += taken;

    hear_answer(f, one, want);
}
