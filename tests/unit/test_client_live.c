/* tests/unit/test_client_live.c - libcountd's live resources against a server
 * that misbehaves on command.
 *
 * The server is a thread of this test: `serve` is called for the one
 * connection and does by hand what the case is about. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/client/lib/countd.h"
#include "common/wire/frame.h"
#include "tests/lib/fault.h"
#include "tests/lib/hand.h"
#include "tests/lib/random.h"

#define MANY        100000
#define MANY_SIZE   ((size_t)1 << 20)
#define ANSWER_SIZE (FRAME_HEADER + 64)

struct wrong;

struct server {
    struct hand hand;
    size_t requests;           /* that came whole */
    bool saw_end;              /* of the connection (serve_to_the_end) */
    const struct wrong *wrong; /* answer to give */
    struct random random;
    struct countd_live *l;
};

/* ---- the server -------------------------------------------------------- */

/* Takes a whole request; its body is in `body` (FRAME_NEED_MAX). */
static bool
take_request(struct server *s, int fd, struct frame_header *h, uint8_t *body)
{
    uint8_t bytes[FRAME_HEADER];

    if (hand_get(fd, bytes, sizeof bytes) < sizeof bytes)
        return false;
    frame_get_header(bytes, h);
    if (h->magic != FRAME_REQUEST || h->body_size > FRAME_NEED_MAX)
        abort();
    if (hand_get(fd, body, h->body_size) < h->body_size)
        return false;
    s->requests++;
    return true;
}

/* Puts an answer to `h` at `at`; returns its size. */
static size_t
put_answer(const struct frame_header *h, uint8_t status, const void *body,
           size_t size, uint8_t *at)
{
    struct frame_header answer = *h;

    answer.magic = FRAME_ANSWER;
    answer.status = status;
    answer.body_size = (uint32_t)size;
    frame_put_header(at, &answer);
    memcpy(at + FRAME_HEADER, body, size);
    return FRAME_HEADER + size;
}

/* What this server says to a request: Get gives the sum of the name's bytes,
 * and a name's first byte may ask for an error. */
static size_t
put_reply(const struct frame_header *h, const uint8_t *body, uint8_t *at)
{
    static const struct {
        char name;
        uint8_t status;
    } errors[] = {
        {'?', FRAME_NOT_FOUND},     {'!', FRAME_INVALID},
        {'#', FRAME_NOT_AVAILABLE}, {'-', FRAME_NOT_ACQUIRED},
        {'%', FRAME_UNKNOWN},       {'$', FRAME_NO_MEMORY},
    };
    struct frame_ask a;
    uint8_t number[4];
    uint32_t sum = 0;

    if (!frame_get_ask(h->opcode, body, h->body_size, &a))
        return put_answer(h, FRAME_INVALID, "Invalid arguments", 17, at);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (a.name[0] == (uint8_t)errors[i].name)
            return put_answer(h, errors[i].status, "some text", 9, at);
    for (size_t i = 0; i < a.name_size; i++)
        sum += a.name[i];
    put_be32(number, h->opcode == FRAME_GET ? sum : a.resources);
    return put_answer(h, FRAME_OK, number, h->opcode == FRAME_RELEASE ? 0 : 4,
                      at);
}

/* Answers each request before it takes the next. */
static void
serve_all(struct server *s, int fd)
{
    static uint8_t body[FRAME_NEED_MAX];
    uint8_t bytes[ANSWER_SIZE];
    struct frame_header h;

    while (take_request(s, fd, &h, body)) {
        if (!hand_put(fd, bytes, put_reply(&h, body, bytes)))
            return;
    }
}

/* ---- fixture ----------------------------------------------------------- */

static int
try_open(struct server *s, unsigned timeout_ms)
{
    const struct countd_live_options o = {
        .size = sizeof o, .address = s->hand.address, .timeout_ms = timeout_ms};

    return countd_live_open(&s->l, &o);
}

static void
begin_client(struct server *s, void (*serve)(struct server *, int))
{
    hand_start(&s->hand, 1, serve);
    assert_rc(try_open(s, 20000), 0);
}

/* Closes the client and waits until the server has seen it. */
static void
end_client(struct server *s)
{
    countd_live_close(s->l);
    s->l = NULL;
    hand_join(&s->hand);
}

static void
set_up(struct server *s)
{
    *s = (struct server){.l = NULL};
    hand_init(&s->hand);
}

static void
tear_down(struct server *s)
{
    fault_clear();
    countd_live_close(s->l);
    hand_fini(&s->hand);
}

#define CASE(name, s) TEST_WITH(name, struct server, s, set_up, tear_down)

/* ---- one at a time ----------------------------------------------------- */

/* "mail" with 2 of 10, then a release of 1, then a get. */
static const uint8_t golden[] =
    "\x90\x02\0\0\0\0\0\x0e\0\0\0\0\0\0\0\x02\0\0\0\x0a\0\x04mail"
    "\x90\x03\0\0\0\0\0\x0a\0\0\0\x01\0\0\0\x01\0\x04mail"
    "\x90\x01\0\0\0\0\0\x06\0\0\0\x02\0\x04mail";

static void
compare_and_answer(struct server *s, int fd)
{
    static const uint8_t answers[3][16] = {
        "\x91\x02\0\0\0\0\0\x04\0\0\0\0\0\0\0\x02",
        "\x91\x03\0\0\0\0\0\0\0\0\0\x01",
        "\x91\x01\0\0\0\0\0\x04\0\0\0\x02\x01\x02\x03\x04",
    };
    static const size_t asked[] = {26, 22, 18}, answered[] = {16, 12, 16};
    uint8_t bytes[32];
    size_t at = 0;

    for (int i = 0; i < 3; i++) {
        if (hand_get(fd, bytes, asked[i]) < asked[i] ||
            memcmp(bytes, golden + at, asked[i]) != 0)
            return;
        s->requests++;
        at += asked[i];
        (void)hand_put(fd, answers[i], answered[i]); /* the test notices */
    }
}

CASE(requests_are_the_bytes_of_the_protocol, s)
{
    uint32_t value = 0;

    begin_client(s, compare_and_answer);
    assert_rc(countd_acquire(s->l, countd_name("mail"), 2, 10), 0);
    assert_rc(countd_release(s->l, countd_name("mail"), 1), 0);
    assert_rc(countd_live_get(s->l, countd_name("mail"), &value), 0);

    assert_int_equal(value, 0x01020304);
    end_client(s);
    assert_int_equal(s->requests, 3);
}

CASE(every_status_is_an_error_and_the_connection_goes_on, s)
{
    uint32_t value = 77;

    begin_client(s, serve_all);
    assert_rc(countd_live_get(s->l, countd_name("?"), &value), -ENOENT);
    assert_rc(countd_release(s->l, countd_name("!"), 1), -EINVAL);
    assert_rc(countd_acquire(s->l, countd_name("#"), 1, 1), -EBUSY);
    assert_rc(countd_release(s->l, countd_name("-"), 1), -EPERM);
    assert_rc(countd_acquire(s->l, countd_name("%"), 1, 1), -EOPNOTSUPP);
    assert_rc(countd_acquire(s->l, countd_name("$"), 1, 1), -ENOMEM);
    assert_int_equal(value, 77);
    assert_rc(countd_live_get(s->l, countd_name("a"), &value), 0);
    assert_int_equal(value, 'a');
}

CASE(what_is_no_proper_request_is_not_sent, s)
{
    static char name[FRAME_NAME_MAX + 1];
    uint32_t value;

    begin_client(s, serve_all);
    assert_rc(countd_live_get(s->l, countd_name(""), &value), -EINVAL);
    assert_rc(countd_live_get(s->l, countd_bytes(NULL, 0), &value), -EINVAL);
    assert_rc(countd_live_get(s->l, countd_bytes(name, sizeof name), &value),
              -EINVAL);
    assert_rc(countd_acquire(s->l, countd_name("a"), 0, 1), -EINVAL);
    assert_rc(countd_acquire(s->l, countd_name("a"), 2, 1), -EINVAL);

    end_client(s);
    assert_int_equal(s->requests, 0);
}

/* ---- pieces ------------------------------------------------------------ */

CASE(requests_and_answers_may_be_split_anywhere_or_interrupted, s)
{
    static const struct {
        const char *call;
        size_t size; /* of what it moves */
    } pieces[] = {{"recv", FRAME_HEADER + 4}, {"send", FRAME_HEADER + 2 + 3}};
    uint32_t value;

    begin_client(s, serve_all);
    for (size_t i = 0; i < 2; i++)
        for (size_t cut = 0; cut < pieces[i].size; cut++) {
            if (cut > 0)
                fault_short(pieces[i].call, 1, cut);
            else
                fault_inject(pieces[i].call, 1, EINTR);
            value = 0;
            assert_rc(countd_live_get(s->l, countd_name("abc"), &value), 0);
            assert_true(fault_hit());
            fault_clear();
            assert_int_equal(value, 'a' + 'b' + 'c');
        }
}

/* ---- the end of a connection ------------------------------------------- */

static void
close_when_told(struct server *s, int fd)
{
    hand_await(&s->hand);
    (void)shutdown(fd, SHUT_WR); /* the close follows */
}

CASE(the_descriptor_tells_that_the_server_has_gone, s)
{
    struct pollfd p = {.events = POLLIN};

    begin_client(s, close_when_told);
    p.fd = countd_live_fd(s->l);
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_rc(countd_live_alive(s->l), 0);

    hand_let_go(&s->hand);

    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_rc(countd_live_alive(s->l), -ENOTCONN);
    assert_int_equal(countd_live_fd(s->l), p.fd);
    assert_rc(countd_acquire(s->l, countd_name("a"), 1, 1), -ENOTCONN);
}

static void
say_nothing(struct server *s, int fd)
{
    char byte;

    (void)s; /* not needed */
    while (hand_get(fd, &byte, 1) == 1)
        continue;
}

CASE(no_answer_in_time_gives_the_connection_up, s)
{
    hand_start(&s->hand, 1, say_nothing);
    assert_rc(try_open(s, 50), 0);

    assert_rc(countd_acquire(s->l, countd_name("a"), 1, 1), -ETIMEDOUT);

    assert_rc(countd_acquire(s->l, countd_name("a"), 1, 1), -ENOTCONN);
    /* The server has seen the end, though the handle is still there. */
    hand_join(&s->hand);
}

/* ---- Dump and Stats ---------------------------------------------------- */

struct seen {
    size_t count;
    size_t stop_at; /* 0: never */
    bool wrong;
};

static int
note_record(void *ctx, struct countd_name name, uint32_t current,
            uint32_t maximum)
{
    struct seen *seen = ctx;
    char want[32];

    snprintf(want, sizeof want, "name-%zu", seen->count);
    seen->wrong |= name.size != strlen(want) ||
                   memcmp(name.data, want, name.size) != 0 ||
                   current != seen->count || maximum != UINT32_MAX - current;
    return ++seen->count == seen->stop_at ? 4711 : 0;
}

/* Adds record `i` of a dump to `at`. */
static size_t
put_record(const struct frame_header *h, size_t i, uint8_t *at)
{
    uint8_t body[64];
    const int size = snprintf((char *)body + 10, 32, "name-%zu", i);

    put_be32(body, (uint32_t)i);
    put_be32(body + 4, UINT32_MAX - (uint32_t)i);
    put_be16(body + 8, (uint16_t)size);
    return put_answer(h, FRAME_OK, body, 10 + (size_t)size, at);
}

static void
dump_many(struct server *s, int fd)
{
    uint8_t body[64], *bytes = malloc(MANY_SIZE);
    struct frame_header h;
    size_t size = 0;

    while (bytes && take_request(s, fd, &h, body) && h.opcode == FRAME_DUMP) {
        for (size_t i = 0; i < MANY; i++) {
            size += put_record(&h, i, bytes + size);
            if (size + 2 * ANSWER_SIZE < MANY_SIZE)
                continue;
            if (!hand_put(fd, bytes, size))
                break;
            size = 0;
        }
        size += put_answer(&h, FRAME_OK, "", 0, bytes + size);
        (void)hand_put(fd, bytes, size); /* the test notices */
        size = 0;
    }
    free(bytes);
}

CASE(a_dump_comes_one_by_one_in_bounded_memory_until_it_is_stopped, s)
{
    struct seen seen = {0};

    begin_client(s, dump_many);
    fault_clear(); /* counts from here */
    assert_rc(countd_live_dump(s->l, note_record, &seen), 0);

    assert_true(fault_calls("memory") <= 1); /* the server's */
    assert_false(seen.wrong);
    assert_int_equal(seen.count, MANY);
    seen = (struct seen){.stop_at = MANY / 2};
    assert_rc(countd_live_dump(s->l, note_record, &seen), 4711);
    assert_int_equal(seen.count, MANY / 2);
    assert_false(seen.wrong);
    assert_rc(countd_live_dump(s->l, note_record, &seen), -ENOTCONN);
    assert_int_equal(seen.count, MANY / 2);
}

static void
refuse_dump(struct server *s, int fd)
{
    uint8_t body[64], bytes[ANSWER_SIZE];
    struct frame_header h;

    while (take_request(s, fd, &h, body)) {
        if (h.opcode == FRAME_DUMP) {
            h.opcode = 0x12; /* as yrmcds does */
            (void)hand_put(
                fd, bytes,
                put_answer(&h, FRAME_UNKNOWN, "Unknown command", 15, bytes));
            continue;
        }
        (void)hand_put(fd, bytes, put_reply(&h, body, bytes));
    }
}

CASE(a_dump_that_the_server_does_not_know_is_not_supported, s)
{
    struct seen seen = {0};
    uint32_t value;

    begin_client(s, refuse_dump);
    assert_rc(countd_live_dump(s->l, note_record, &seen), -EOPNOTSUPP);
    assert_int_equal(seen.count, 0);
    assert_rc(countd_live_get(s->l, countd_name("a"), &value), 0);
}

struct texts {
    char all[256];
    int stop;
};

static int
join_texts(void *ctx, const char *name, const char *value)
{
    struct texts *t = ctx;
    const size_t size = strlen(t->all);

    snprintf(t->all + size, sizeof t->all - size, "%s=%s;", name, value);
    return t->stop;
}

/* 28 bytes, each with sizes before it. */
static const char stats_body[] = "\0\7\0\3objects123"
                                 "\0\1\0\0x"
                                 "\0\0\0\1"
                                 "4";

static void
give_stats(struct server *s, int fd)
{
    uint8_t body[64], bytes[ANSWER_SIZE];
    struct frame_header h;

    while (take_request(s, fd, &h, body))
        (void)hand_put(
            fd, bytes,
            put_answer(&h, FRAME_OK, stats_body, sizeof stats_body - 1, bytes));
}

CASE(statistics_come_as_texts_in_their_order_until_they_are_stopped, s)
{
    struct texts t = {.all = ""};

    begin_client(s, give_stats);
    assert_rc(countd_live_stats(s->l, join_texts, &t), 0);
    assert_string_equal(t.all, "objects=123;x=;=4;");
    t = (struct texts){.stop = -7};
    assert_rc(countd_live_stats(s->l, join_texts, &t), -7);
    assert_string_equal(t.all, "objects=123;");
}

/* ---- wrong answers ----------------------------------------------------- */

enum call { GET, DUMP, STATS };

/* *gave: it has given a value or a record. */
static int
call_once(struct server *s, enum call what, bool *gave)
{
    struct seen seen = {0};
    struct texts t = {.all = ""};
    uint32_t value = 77;
    const int rc = what == DUMP ? countd_live_dump(s->l, note_record, &seen)
                   : what == STATS
                       ? countd_live_stats(s->l, join_texts, &t)
                       : countd_live_get(s->l, countd_name("a"), &value);

    *gave = seen.count > 0 || value != 77;
    return rc;
}

static const struct wrong {
    const char *body;
    size_t size;
    enum call call;
    uint8_t status;
    uint8_t at, with; /* a byte that is another */
    int times;        /* that the answer comes; 0: without its last byte */
    int rc;
} wrongs[] = {
    {"abcd", 4, GET, FRAME_OK, 0, 0x01, 1, -EPROTO},  /* the magic */
    {"abcd", 4, GET, FRAME_OK, 1, 0x02, 1, -EPROTO},  /* the opcode */
    {"abcd", 4, GET, FRAME_OK, 4, 0xff, 1, -EPROTO},  /* the size */
    {"abcd", 4, GET, FRAME_OK, 8, 0x80, 1, -EPROTO},  /* another request */
    {"abcd", 4, GET, FRAME_OK, 11, 0x80, 1, -EPROTO}, /* its last byte */
    {"abcd", 4, GET, 0x55, 0, 0, 1, -EPROTO},         /* no such status */
    {"abc", 3, GET, FRAME_OK, 0, 0, 1, -EPROTO},
    {"abcd", 4, GET, FRAME_NOT_FOUND, 0, 0, 2, -EPROTO},
    {"abcd", 4, GET, FRAME_OK, 0, 0, 0, -ENOTCONN},
    {"\0\0\0\1\0\0\0\1\0", 9, DUMP, FRAME_OK, 0, 0, 1, -EPROTO},
    {"\0\0\0\1\0\0\0\1\0\2a", 11, DUMP, FRAME_OK, 0, 0, 1, -EPROTO},
    {"\0\0\0\1\0\0\0\1\0\0", 10, DUMP, FRAME_OK, 0, 0, 1, -EPROTO},
    {stats_body, sizeof stats_body - 2, STATS, FRAME_OK, 0, 0, 1, -EPROTO},
    {stats_body, sizeof stats_body - 4, STATS, FRAME_OK, 0, 0, 1, -EPROTO},
};

static void
answer_wrongly(struct server *s, int fd)
{
    const struct wrong *w = s->wrong;
    uint8_t body[64], bytes[2 * ANSWER_SIZE];
    struct frame_header h;
    size_t size;

    if (!take_request(s, fd, &h, body))
        return;
    size = put_answer(&h, w->status, w->body, w->size, bytes);
    bytes[w->at] ^= w->with;
    memcpy(bytes + size, bytes, size);
    (void)hand_put(fd, bytes,
                   w->times > 0 ? (size_t)w->times * size : size - 1);
    if (w->times > 0)
        say_nothing(s, fd);
}

CASE(an_answer_that_is_none_ends_the_connection, s)
{
    uint32_t value;
    bool gave;

    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        s->wrong = &wrongs[i];
        begin_client(s, answer_wrongly);
        if (call_once(s, wrongs[i].call, &gave) != wrongs[i].rc || gave)
            fail_msg("row %zu", i);
        assert_rc(countd_live_get(s->l, countd_name("a"), &value), -ENOTCONN);
        assert_rc(countd_live_alive(s->l), -ENOTCONN);
        end_client(s);
    }
}

/* ---- nonsense ---------------------------------------------------------- */

/* Answers of all kinds one behind the other, some of their bytes wrong. */
static void
answer_wildly(struct server *s, int fd)
{
    uint8_t body[64], bytes[8 * ANSWER_SIZE];
    struct frame_header h;
    size_t size = 0;

    if (!take_request(s, fd, &h, body))
        return;
    size += put_record(&h, 0, bytes + size);
    size += put_record(&h, 1, bytes + size);
    size += put_answer(&h, FRAME_OK, stats_body, sizeof stats_body - 1,
                       bytes + size);
    size += put_answer(&h, FRAME_NOT_FOUND, "Not found", 9, bytes + size);
    size += put_answer(&h, FRAME_OK, "", 0, bytes + size);
    for (uint64_t n = random_below(&s->random, 8); n > 0; n--)
        bytes[random_below(&s->random, size)] =
            (uint8_t)(random_chance(&s->random, 50)
                          ? random_below(&s->random, 4)
                          : random_next(&s->random));
    (void)hand_put(fd, bytes, random_below(&s->random, size + 1));
}

CASE(nonsense_is_an_error_whatever_was_asked, s)
{
    bool gave;

    s->random.state = random_seed("test_client_live");
    for (int i = 0; i < 1500; i++) {
        begin_client(s, answer_wildly);
        (void)call_once(s, (enum call)(i % 3), &gave);
        /* There was one answer or none. */
        (void)call_once(s, GET, &gave);
        assert_rc(countd_live_alive(s->l), -ENOTCONN);
        end_client(s);
    }
}

/* ---- threads ----------------------------------------------------------- */

struct worker {
    struct countd_live *l;
    char name[8];
    size_t wrong;
};

static void *
ask_often(void *ctx)
{
    struct worker *w = ctx;
    uint32_t want = 0;

    for (size_t i = 0; w->name[i]; i++)
        want += (uint8_t)w->name[i];
    for (int i = 0; i < 2000; i++) {
        uint32_t value = 0;

        w->wrong += countd_live_get(w->l, countd_name(w->name), &value) ||
                    value != want;
        w->wrong += countd_live_alive(w->l) != 0;
    }
    return NULL;
}

CASE(threads_that_share_a_handle_each_get_their_answers, s)
{
    struct worker workers[4];
    pthread_t threads[4];

    begin_client(s, serve_all);
    for (int i = 0; i < 4; i++) {
        workers[i] = (struct worker){.l = s->l};
        snprintf(workers[i].name, sizeof workers[i].name, "w%.*s", i + 1,
                 "abcd");
        assert_rc(pthread_create(&threads[i], NULL, ask_often, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_rc(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
    }
    end_client(s);
    assert_int_equal(s->requests, 8000);
}

/* ---- open -------------------------------------------------------------- */

CASE(opening_says_why_it_cannot, s)
{
    struct countd_live_options o = {.size = sizeof o, .address = "nonsense"};

    assert_rc(countd_live_open(&s->l, &o), -EINVAL);
    o.address = s->hand.address;
    o.size = 0;
    assert_rc(countd_live_open(&s->l, &o), -EINVAL);
    o.size = sizeof o;
    o.timeout_ms = UINT32_MAX;
    assert_rc(countd_live_open(&s->l, &o), -EINVAL);
    o.timeout_ms = 0;
    hand_close(&s->hand);
    assert_rc(countd_live_open(&s->l, &o), -ECONNREFUSED);
    assert_null(s->l);
}

CASE(an_open_that_fails_leaks_nothing, s)
{
    static const char *const calls[] = {"memory", "net"};
    const unsigned before = fault_open_fds();

    for (int i = 0; i < 2; i++) {
        bool hit = true;

        for (unsigned n = 1; hit; n++) {
            int rc;

            fault_inject(calls[i], n, ENOMEM);
            rc = try_open(s, 0);
            hit = fault_hit();
            fault_clear();
            assert_rc(rc, hit ? -ENOMEM : 0);
            countd_live_close(s->l);
            s->l = NULL;
            assert_int_equal(fault_open_fds(), before);
        }
    }
}

/* ---- forked children --------------------------------------------------- */

static void
serve_to_the_end(struct server *s, int fd)
{
    char byte;

    serve_all(s, fd);
    s->saw_end = recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

CASE(closing_ends_the_connection_though_a_child_has_a_copy, s)
{
    uint32_t value;
    pid_t pid;

    begin_client(s, serve_to_the_end);
    assert_rc(countd_live_get(s->l, countd_name("a"), &value), 0);
    pid = fork();
    if (pid == 0) {
        (void)alarm(60); /* has no errors */
        hand_await(&s->hand);
        _exit(0);
    }

    end_client(s);

    hand_let_go(&s->hand);
    assert_int_equal(test_wait(pid), 0);
    assert_true(s->saw_end);
    assert_int_equal(s->requests, 1);
}
