/* tests/unit/test_read_http.c - connections of countd-read's HTTP port, above
 * all while answers are made in steps. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/answer_fixture.h"

#include <sys/socket.h>

#include "common/net/conn_internal.h"
#include "reader/read_job.h"
#include "tests/lib/client.h"
#include "tests/lib/turns.h"

#define ROWS       2000 /* make an answer that is packed in steps */
#define ANSWER_MAX ((size_t)256 << 10)

struct server {
    struct fixture *site;
    struct store_engine engine; /* the store's, which a test may change */
    enum store_op failing;      /* reads that fail: */
    unsigned passed;            /* after so many */
    int error;
    struct config config;
    struct loop *loop;
    struct jobs jobs;
    struct read_http http;
    struct listener_config row;
    struct conns *conns;
    int peer;         /* whose answer is waited for; -1: that the job is done */
    const char *last; /* words of that answer */
    unsigned turns;   /* of the loop, since one connection began to wait */
    size_t size;
    char heard[ANSWER_MAX + 1];
};

static struct server server;
static const struct store_engine *real_engine;

/* ---- the server ---------------------------------------------------------- */

/* Whether the answer has come up to its last words. */
static bool
has_heard(struct server *f)
{
    const ssize_t n =
        recv(f->peer, f->heard + f->size, ANSWER_MAX - f->size, MSG_DONTWAIT);

    f->size += n > 0 ? (size_t)n : 0;
    f->heard[f->size] = '\0';
    return strstr(f->heard, f->last) != NULL;
}

static bool
after_turn(void *ctx)
{
    struct server *f = ctx;
    const bool more = conn_turn(f->conns);
    const bool works = jobs_end_turn(&f->jobs);

    f->turns++;
    if (f->peer < 0 ? !list_alone(&f->jobs.untaken) : has_heard(f))
        loop_stop(f->loop);
    return more || works || conns_have_work(f->conns);
}

/* Rows whose keys are numbers of `digits` digits and a text. */
static void
put_rows(struct store *s, const char *keyspace, unsigned count, int digits,
         const char *text)
{
    static struct store_delta rows[4000];
    static char keys[4000][256];

    assert_true(count <= 4000);
    for (unsigned i = 0; i < count; i++)
        rows[i] = (struct store_delta){
            .key = (const uint8_t *)keys[i],
            .key_size = (uint16_t)snprintf(keys[i], sizeof keys[i], "%0*u%s",
                                           digits, i, text),
            .sum = i};
    assert_rc(stored_apply(s, keyspace, NULL, rows, count), 0);
}

static void
put_keyspaces(struct fixture *f)
{
    assert_rc(stored_add(f->store, "a", NULL, "key", 1), 0);
    put_rows(f->store, "b", ROWS, 4, " of so many keys here");
}

static int
read_or_fail(struct store *s, struct store_query *q, size_t size_max)
{
    if (server.error < 0 && q->op == server.failing && server.passed-- == 0)
        return server.error;
    return real_engine->read(s, q, size_max);
}

static int
setup(void **state)
{
    struct server *f = &server;
    const struct conns_options options = {.rows = &f->row,
                                          .count = 1,
                                          .shared = 4,
                                          .pool_size = (size_t)64 << 20,
                                          .answer_max = READ_HTTP_LONGEST};

    *f = (struct server){.site = fixture_make(NULL, put_keyspaces, 1),
                         .peer = -1};
    real_engine = f->site->store->engine;
    f->engine = *real_engine;
    f->engine.read = read_or_fail;
    f->site->store->engine = &f->engine;
    config_defaults(&f->config);
    f->loop = loop_new();
    assert_non_null(f->loop);
    jobs_init(&f->jobs, f->loop, f->site->store, &f->site->as_of,
              f->config.read_max_time_ms);
    assert_rc(read_http_open(&f->http, &f->jobs, &f->site->datadir, &f->config),
              0);
    f->row = (struct listener_config){.name = "read-http",
                                      .max_key = "read.max_connections",
                                      .protocol = &http_protocol,
                                      .ctx = &f->http.site,
                                      .max = 4};
    assert_rc(conns_init(&f->conns, f->loop, &options), 0);
    loop_after_turn(f->loop, after_turn, f);
    *state = f;
    return 0;
}

static int
close_server(void **state)
{
    struct server *f = *state;
    void *site = f->site;

    fault_clear();
    conns_fini(f->conns);
    read_http_close(&f->http);
    jobs_fini(&f->jobs);
    loop_free(f->loop);
    return teardown(&site);
}

#define CASE(name) TEST_IN(name, struct server *f, setup, close_server)

/* ---- peers --------------------------------------------------------------- */

static void
ask_on(int fd, const char *target, const char *more)
{
    char head[512];
    const int size =
        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n",
                 target, more);

    client_send(fd, head, (size_t)size);
}

/* A connection that has asked. */
static int
ask_server(struct server *f, const char *target, const char *more)
{
    int pair[2];

    assert_rc(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                         pair),
              0);
    assert_rc(conns_take(f->conns, 0, pair[0]), 0);
    ask_on(pair[1], target, more);
    return pair[1];
}

static const struct read_job *
first_done(const struct server *f)
{
    return LOOP_OWNER(f->jobs.untaken.next, struct read_job, job.link);
}

/* Asks on a connection that ends when its answer is made and not yet sent; the
 * next one gets its place. */
static void
ask_and_go(struct server *f, const char *target, const char *more)
{
    const int fd = ask_server(f, target, more);

    turns_run(f->loop);
    assert_ptr_equal(first_done(f)->job.conn,
                     listener_open_conn(conns_listener(f->conns, 0), 0));
    conn_close(listener_open_conn(conns_listener(f->conns, 0), 0));
    client_close(fd);
}

/* The answer up to its last words, on a connection that has asked. */
static void
hear_answer(struct server *f, int fd, const char *last)
{
    f->size = f->turns = 0;
    f->peer = fd;
    f->last = last;
    turns_run(f->loop);
    client_close(fd);
}

static void
ask_and_hear(struct server *f, const char *target, const char *more,
             const char *last)
{
    hear_answer(f, ask_server(f, target, more), last);
}

CASE(who_comes_to_the_place_of_another_gets_an_answer_of_its_own)
{
    ask_and_go(f, "/v1/keyspaces", "");
    ask_and_hear(f, "/v1/keyspaces?after=a", "", "as_of_ms");

    assert_int_equal(f->jobs.placed, 0);
    assert_has(f->heard, "\"keyspace\": \"b\"");
    assert_lacks(f->heard, "\"keyspace\": \"a\"");
}

/* An answer without a version is made in between. */
CASE(what_was_packed_for_another_is_not_sent_to_who_takes_no_gzip)
{
    const char *next =
        "\r\nGET /v1/top?keyspace=b&n=2000 HTTP/1.1\r\nHost: a\r\n";

    ask_and_go(f, "/v1/top?keyspace=b&n=2000", "Accept-Encoding: gzip\r\n");
    ask_and_hear(f, "/v1/now", next, "\"saturated\"");

    assert_int_equal(f->jobs.placed, 0);
    assert_lacks(f->heard, "Content-Encoding");
    assert_has(f->heard, "1999 of so many");
    assert_has(f->heard, "ETag: ");
}

/* A step packs 16 KiB here, however fast the machine is. */
CASE(while_a_large_answer_is_packed_others_are_answered_in_their_turn)
{
    const char *get = "/v1/get?keyspace=a&key=key";
    const int large =
        ask_server(f, "/v1/top?keyspace=b&n=2000", "Accept-Encoding: gzip\r\n");
    unsigned answers = 0;

    f->jobs.step_ns = 0;
    f->peer = ask_server(f, get, "");
    f->last = "\"saturated\"";
    turns_run(f->loop);
    f->size = 0;
    ask_on(f->peer, get, ""); /* its turn also begins the large one */
    turns_run(f->loop);
    for (; !list_alone(&f->jobs.running); answers++) {
        f->size = f->turns = 0;
        ask_on(f->peer, get, "");
        turns_run(f->loop);
        assert_int_equal(f->turns, 1);
    }
    assert_in_range(answers, 3, 100);

    client_close(f->peer);
    hear_answer(f, large, "Content-Encoding: gzip");
    assert_int_equal(f->jobs.placed, 0);
}

CASE(what_takes_longer_than_it_may_is_refused_and_the_next_is_answered)
{
    static const char *const targets[] = {"/v1/keyspaces",
                                          "/render?target=*.*"};

    for (size_t i = 0; i < 4; i++) {
        f->jobs.max_time_ms = i < 2 ? 0 : 10000;
        ask_and_hear(f, targets[i % 2], "", "\r\n\r\n");

        assert_int_equal(strstr(f->heard, " 503 ") != NULL, i < 2);
        assert_int_equal(strstr(f->heard, "read.max_time") != NULL, i < 2);
        assert_int_equal(strstr(f->heard, "Retry-After: ") != NULL, i < 2);
    }
}

/* Both come in one turn, the large one first; `now` is the last one answered.
 */
CASE(a_large_answer_is_made_after_the_small_one_of_another)
{
    const int large = ask_server(f, "/v1/top?keyspace=b&n=2000", "");
    const int small = ask_server(f, "/v1/get?keyspace=a&key=key", "");
    char text[1024];

    f->peer = large;
    f->last = "\"saturated\"";
    turns_run(f->loop);
    assert_int_equal(f->http.now.params.n, 2000);
    assert_true(recv(small, text, sizeof text, MSG_DONTWAIT) > 0);
    client_close(small);

    f->size = f->turns = 0;
    ask_on(large, "/v1/top?keyspace=b&n=2000", "");
    turns_run(f->loop);
    client_close(large);
}

/* A list of two keyspaces, and a node of Graphite's. */
CASE(a_short_question_is_answered_while_a_long_one_is)
{
    static const char *const targets[] = {"/v1/keyspaces",
                                          "/metrics/find?query=b"};
    int large;

    put_rows(f->site->store, "long", 4000, 250, "");
    f->jobs.step_ns = 0;
    large = ask_server(f, "/v1/top?keyspace=long&n=4000",
                       "Accept-Encoding: gzip\r\n");
    for (size_t i = 0; i < 2; i++) {
        ask_and_hear(f, targets[i], "", "\r\n\r\n");

        assert_has(f->heard, "HTTP/1.1 200 OK\r\n");
        assert_int_equal(f->jobs.placed, 1);
    }
    hear_answer(f, large, "Content-Encoding: gzip");
    assert_int_equal(f->jobs.placed, 0);
}

static int
no_next(struct store_listing *l, uint64_t until_ns, struct store_listed *out)
{
    (void)l; /* of any */
    (void)until_ns;
    (void)out;
    return -EIO;
}

/* One that is given up in the middle leaves nothing behind. */
CASE(a_list_is_made_in_steps_and_one_that_cannot_be_made_says_so)
{
    f->jobs.step_ns = 0; /* a keyspace at a step */
    client_close(ask_server(f, "/v1/keyspaces?sort=keys", ""));
    ask_and_hear(f, "/v1/keyspaces", "", "as_of_ms\":");
    assert_in_range(f->turns, 4, 1000);
    assert_has(f->heard, "\"keyspace\": \"a\"");
    assert_has(f->heard, "\"keyspace\": \"b\"");
    assert_int_equal(f->jobs.placed, 0);

    f->engine.listing_next = no_next;
    ask_and_hear(f, "/v1/keyspaces", "", "\"unreadable\"");
    assert_has(f->heard, "HTTP/1.1 500");
}

#define TEXT_OF_METRICS "Accept: application/openmetrics-text\r\n"

CASE(keyspaces_that_cannot_be_listed_are_not_said_to_be_none)
{
    f->engine.listing_next = no_next;
    ask_and_hear(f, "/metrics", TEXT_OF_METRICS, "# EOF");
    assert_lacks(f->heard, "\ncountd_keyspaces ");

    f->engine.listing_next = real_engine->listing_next;
    ask_and_hear(f, "/metrics", TEXT_OF_METRICS, "# EOF");
    assert_has(f->heard, "\ncountd_keyspaces 2\n");
}

/* Every one of them is looked at for that. */
CASE(keyspaces_are_counted_once_a_minute)
{
    fault_stop_clock();
    ask_and_hear(f, "/metrics", TEXT_OF_METRICS, "# EOF");
    f->engine.listing_next = no_next;
    ask_and_hear(f, "/metrics", TEXT_OF_METRICS, "# EOF");
    assert_has(f->heard, "\ncountd_keyspaces 2\n");

    fault_pass_ns(UINT64_C(60000000000));
    ask_and_hear(f, "/metrics", TEXT_OF_METRICS, "# EOF");
    assert_lacks(f->heard, "\ncountd_keyspaces ");
}

CASE(a_page_is_not_the_last_one_because_the_next_cannot_be_read)
{
    f->failing = STORE_KEYS;
    f->passed = 0;
    f->error = -EIO;
    ask_and_hear(f, "/v1/keys?keyspace=b&n=2", "", "\r\n\r\n");
    assert_has(f->heard, "HTTP/1.1 500");
    assert_has(f->heard, "\"unreadable\"");

    f->error = 0;
    ask_and_hear(f, "/v1/keys?keyspace=b&n=2", "", "\r\n\r\n");
    assert_has(f->heard, "\r\nLink: ");
}

/* The version that the last answer has. */
static const char *
heard_version(const struct server *f)
{
    static char version[READ_VERSION_SIZE];
    const char *at = strstr(f->heard, "ETag: W/\"");

    assert_non_null(at);
    at += strlen("ETag: W/\"");
    (void)snprintf(version, sizeof version, "%.*s", (int)strcspn(at, "\""), at);
    return version;
}

/* The first of two reads is before the answer is made, in steps. */
CASE(a_long_answer_is_of_the_version_that_was_asked_for_or_there_is_none)
{
    static const struct {
        int error;
        const char *status, *code;
    } cases[] = {{0, " 200 ", "of so many"},
                 {-ENOENT, " 404 ", "no-such-keyspace"},
                 {-EIO, " 500 ", "unreadable"}};
    char target[256];

    ask_and_hear(f, "/v1/total?keyspace=b", "", "saturated");
    (void)snprintf(target, sizeof target,
                   "/v1/top?keyspace=b&prefix=1&version=%s", heard_version(f));
    f->failing = STORE_TOTAL;
    for (size_t i = 0; i < 3; i++) {
        f->error = cases[i].error;
        f->passed = 1;
        ask_and_hear(f, target, "", "\r\n\r\n");
        assert_has(f->heard, cases[i].status);
        assert_has(f->heard, cases[i].code);
    }
}

/* Time changes the answers about a period alone. */
CASE(an_answer_of_all_time_has_the_version_of_its_keyspace)
{
    char version[READ_VERSION_SIZE];

    ask_and_hear(f, "/v1/total?keyspace=b", "", "saturated");
    strcpy(version, heard_version(f));
    ask_and_hear(f, "/v1/top?keyspace=b&prefix=1", "", "of so many");
    assert_string_equal(heard_version(f), version);
    ask_and_hear(f, "/v1/total?keyspace=b&group=1", "", "groups");
    assert_string_equal(heard_version(f), version);
}

/* 256 MiB of a request are there, if others do not use them. */
CASE(memory_of_requests_to_graphite_is_of_all_of_them)
{
    f->http.graphite.memory.total = GRAPHITE_MEMORY_ALL - 100000;
    for (size_t i = 0; i < 2; i++) {
        ask_and_hear(f, "/render?target=b.*&from=-1h", "", "\r\n\r\n");

        assert_int_equal(strstr(f->heard, "other requests use") != NULL,
                         i == 0);
        assert_int_equal(strstr(f->heard, "HTTP/1.1 503") != NULL, i == 0);
        assert_int_equal(f->http.graphite.memory.total,
                         i == 0 ? GRAPHITE_MEMORY_ALL - 100000 : 0);
        f->http.graphite.memory.total = 0;
    }
}

/* The second time the server knows the head again. */
CASE(what_a_second_line_of_accept_names_is_answered_each_time)
{
    for (int i = 0; i < 3; i++) {
        ask_and_hear(f, "/v1/get?keyspace=a&key=key",
                     "Accept: image/png\r\nX: y\r\nAccept: text/csv\r\n",
                     "\r\n\r\n");
        assert_has(f->heard, "HTTP/1.1 200 OK\r\n");
        assert_has(f->heard, "Content-Type: text/csv");
    }
}
