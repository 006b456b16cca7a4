/* tests/unit/test_conn.c - the connection server, through a small protocol.
 *
 * A request is `size u16 | kind | body`, big-endian, size that of the body:
 *
 *     e  echo: the body comes back
 *     g  the same, when the group commit that collects now is durable
 *     b  a large answer: as many KiB of 'b' as the body says (u16)
 *     l  the same KiB by KiB
 *     h  waits for the test to wake it, then echoes
 *     s  needs one byte of its body, the rest is surplus; that byte comes back
 *     x  is malformed
 *     c  cuts the connection
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/net/conn.h"
#include "tests/lib/fault.h"
#include "tests/lib/turns.h"

#define HEAD      3
#define POOL_SIZE ((size_t)2 << 20)
#define PEERS     64

enum { ECHO, CUT, DOORS };

struct state {
    uint16_t left; /* KiB of a long answer */
    uint16_t ends; /* steps of ended() to come */
    uint32_t zero;
};

struct fixture {
    struct loop *loop;
    struct conns *conns;
    struct gate gate;
    bool gated; /* the test has one */
    struct door_row rows[DOORS];
    size_t room; /* of the echo door; SIZE_MAX: no limit */
    struct conn *held;
    unsigned ends; /* steps that ended() takes */
    unsigned ended;
    bool stopped;
    bool (*enough)(struct fixture *f);
    /* What the test waits for. */
    int fd;
    size_t want;
    uint8_t *heard;
    size_t heard_size, heard_max;
    bool heard_end;
    int peers[PEERS];
};

static struct fixture *
fixture_of(struct conn *c)
{
    return conn_ctx(c);
}

/* ---- the protocol ------------------------------------------------------ */

static size_t
echo_room(struct door *d)
{
    return ((struct fixture *)door_ctx(d))->room;
}

static enum conn_next
put(struct conn *c, const uint8_t *bytes, size_t size)
{
    uint8_t *at = conn_space(c, size);

    if (!at)
        return CONN_FULL;
    memcpy(at, bytes, size);
    conn_put(c, size);
    return CONN_MORE;
}

static enum conn_next
put_large(struct conn *c, size_t size)
{
    uint8_t *at = conn_space(c, size);

    if (!at)
        return CONN_FULL;
    memset(at, 'b', size);
    conn_put(c, size);
    return CONN_MORE;
}

static enum conn_next
echo_more(struct conn *c)
{
    struct state *s = conn_state(c);

    while (s->left > 0) {
        if (put_large(c, 1024) == CONN_FULL)
            return CONN_FULL;
        s->left--;
    }
    return CONN_MORE;
}

static enum conn_next
one(struct conn *c, const uint8_t *at, size_t size, bool skipped)
{
    struct fixture *f = fixture_of(c);
    const uint8_t *body = at + HEAD;

    switch (at[2]) {
    case 'e':
        return put(c, body, size);
    case 'g':
        if (!conn_gate(c, &f->gate))
            return CONN_FULL;
        return put(c, body, size);
    case 'b':
        return put_large(c, (size_t)get_be16(body) * 1024);
    case 'l':
        ((struct state *)conn_state(c))->left = get_be16(body);
        return CONN_LONG;
    case 'h':
        if (f->held == c) {
            f->held = NULL;
            return put(c, body, size);
        }
        f->held = c;
        return CONN_HOLD;
    case 's':
        assert_true(skipped || size == 1);
        return put(c, body, 1);
    case 'c':
        return CONN_CUT;
    default:
        return conn_refuse(c, "no such kind");
    }
}

static enum conn_next
echo_take(struct conn *c, struct input *in)
{
    while (in->size >= HEAD) {
        const size_t size = get_be16(in->at);
        enum conn_next next;
        size_t used = HEAD + size;

        if (in->at[2] == 's' && size > 1 && !in->skipped) {
            in->need = HEAD + 1;
            in->skip = (uint32_t)size - 1;
            if (in->size < used)
                return CONN_MORE;
        }
        if (in->skipped)
            used = in->size;
        else if (in->size < used)
            break;
        next = one(c, in->at, size, in->skipped || in->size >= used);
        if (next == CONN_FULL || next == CONN_HOLD)
            return next;
        in->at += used;
        in->size -= used;
        if (next != CONN_MORE)
            return next;
    }
    in->need = 0;
    in->skip = 0;
    return CONN_MORE;
}

static bool
echo_ended(struct conn *c)
{
    struct fixture *f = fixture_of(c);
    struct state *s = conn_state(c);

    if (s->ends++ < f->ends)
        return false;
    f->ended++;
    return true;
}

static const struct protocol echo = {.state_size = sizeof(struct state),
                                     .flags =
                                         CONN_ANSWERS_EOF | CONN_REFUSES_HTTP,
                                     .stop = STOP_ANSWER,
                                     .refusal = "NO",
                                     .room = echo_room,
                                     .take = echo_take,
                                     .more = echo_more,
                                     .ended = echo_ended};

static const struct protocol cut = {.state_size = sizeof(struct state),
                                    .stop = STOP_CUT,
                                    .room = echo_room,
                                    .take = echo_take,
                                    .more = echo_more,
                                    .ended = echo_ended};

/* ---- the rig ----------------------------------------------------------- */

static void
listen_to(struct fixture *f)
{
    while (f->heard_size < f->heard_max) {
        const ssize_t n = recv(f->fd, f->heard + f->heard_size,
                               f->heard_max - f->heard_size, MSG_DONTWAIT);

        if (n < 0)
            return;
        if (n == 0) {
            f->heard_end = true;
            return;
        }
        f->heard_size += (size_t)n;
    }
}

static bool
after_turn(void *ctx)
{
    struct fixture *f = ctx;
    const bool more = conn_turn(f->conns);

    if (f->enough(f))
        loop_stop(f->loop);
    return more;
}

static void
run(struct fixture *f, bool (*enough)(struct fixture *f))
{
    f->enough = enough;
    turns_run(f->loop);
}

static bool
heard_enough(struct fixture *f)
{
    listen_to(f);
    return f->heard_size >= f->want;
}

static bool
heard_the_end(struct fixture *f)
{
    listen_to(f);
    return f->heard_end;
}

static int
setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->room = SIZE_MAX;
    f->heard_max = (size_t)16 << 20;
    f->heard = malloc(f->heard_max);
    assert_non_null(f->heard);
    f->loop = loop_new();
    assert_non_null(f->loop);
    for (size_t i = 0; i < DOORS; i++)
        f->rows[i] = (struct door_row){.name = i == ECHO ? "echo" : "cut",
                                       .max_key = "max",
                                       .protocol = i == ECHO ? &echo : &cut,
                                       .ctx = f,
                                       .max = PEERS,
                                       .reserved = 4};
    loop_after_turn(f->loop, after_turn, f);
    *state = f;
    return 0;
}

static void
start(struct fixture *f)
{
    const struct conns_options o = {.rows = f->rows,
                                    .count = DOORS,
                                    .shared = PEERS,
                                    .pool_size = POOL_SIZE,
                                    .answer_max = (size_t)1 << 20,
                                    .stall_ms = 50};

    assert_rc(conns_init(&f->conns, f->loop, &o), 0);
    assert_rc(gate_init(&f->gate, PEERS, 0), 0);
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    conns_fini(f->conns);
    gate_fini(&f->gate);
    loop_free(f->loop);
    for (size_t i = 0; i < PEERS; i++)
        if (f->peers[i] > 0)
            (void)close(f->peers[i]); /* of a test that is over */
    free(f->heard);
    free(f);
    return 0;
}

/* A connected peer of a door: a TCP connection, as its ends behave. */
static int
join(struct fixture *f, size_t door)
{
    struct net_address a, bound;
    int l, client, server, i;

    assert_rc(net_parse("127.0.0.1:0", &a), 0);
    l = net_listen(&a, 0, &bound);
    assert_true(l >= 0);
    client = net_connect(&bound, 5000);
    assert_true(client >= 0);
    server = accept4(l, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(server >= 0);
    assert_int_equal(close(l), 0);
    assert_rc(conns_take(f->conns, door, server), 0);
    for (i = 0; f->peers[i] != 0; i++)
        ;
    f->peers[i] = client;
    return client;
}

static void
say(int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    while (size > 0) {
        const ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        if (n < 0 && errno == EAGAIN) {
            assert_true(poll(&p, 1, 10000) > 0);
            continue;
        }
        assert_true(n > 0);
        at += n;
        size -= (size_t)n;
    }
}

static size_t
request(uint8_t *at, char kind, const char *body)
{
    const size_t size = strlen(body);

    put_be16(at, (uint16_t)size);
    at[2] = (uint8_t)kind;
    memcpy(at + HEAD, body, size);
    return HEAD + size;
}

static void
ask(int fd, char kind, const char *body)
{
    uint8_t bytes[600];

    say(fd, bytes, request(bytes, kind, body));
}

static void
ask_kib(int fd, char kind, uint16_t kib)
{
    uint8_t bytes[HEAD + 2] = {0, 2, (uint8_t)kind};

    put_be16(bytes + HEAD, kib);
    say(fd, bytes, sizeof bytes);
}

/* Hears exactly this next. */
static void
hear(struct fixture *f, int fd, const char *text)
{
    f->fd = fd;
    f->heard_size = 0;
    f->want = strlen(text);
    run(f, heard_enough);
    assert_int_equal(f->heard_size, strlen(text));
    assert_memory_equal(f->heard, text, strlen(text));
}

static void
hear_end(struct fixture *f, int fd, const char *text)
{
    f->fd = fd;
    f->heard_size = 0;
    f->heard_end = false;
    run(f, heard_the_end);
    assert_int_equal(f->heard_size, strlen(text));
    assert_memory_equal(f->heard, text, strlen(text));
}

static bool
two_turns(struct fixture *f)
{
    return f->want-- == 0;
}

/* Nothing is said, though there were turns for it. */
static void
hear_nothing(struct fixture *f, int fd)
{
    int waiting = 0;

    f->want = 4;
    run(f, two_turns);
    assert_int_equal(ioctl(fd, FIONREAD, &waiting), 0);
    assert_int_equal(waiting, 0);
}

/* ---- tests ------------------------------------------------------------- */

static void
answers_come_in_order_wherever_requests_are_split(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[64];
    size_t size, split;
    int a;

    start(f);
    a = join(f, ECHO);
    size = request(bytes, 'e', "one,");
    size += request(bytes + size, 'e', "a longer body than is kept small,");
    for (split = 1; split < size; split++) {
        say(a, bytes, split);
        f->want = 2;
        run(f, two_turns);
        say(a, bytes + split, size - split);
        hear(f, a, "one,a longer body than is kept small,");
    }
}

static void
many_requests_at_once_are_all_answered(void **state)
{
    struct fixture *f = *state;
    const size_t count = 20000;
    uint8_t bytes[64], *all;
    size_t size;
    int a;

    start(f);
    a = join(f, ECHO);
    size = request(bytes, 'e', "0123456789");
    all = malloc(count * size);
    assert_non_null(all);
    for (size_t i = 0; i < count; i++)
        memcpy(all + i * size, bytes, size);
    f->fd = a;
    for (size_t i = 0; i < count; i += 1000) {
        say(a, all + i * size, 1000 * size);
        f->want = (i + 1000) * 10;
        run(f, heard_enough);
    }
    assert_int_equal(f->heard_size, count * 10);
    free(all);
}

static void
gated_answers_wait_for_the_commit_and_so_does_what_is_behind(void **state)
{
    struct fixture *f = *state;
    int a, b;

    start(f);
    a = join(f, ECHO);
    b = join(f, ECHO);
    ask(a, 'e', "free,");
    ask(a, 'g', "first,");
    ask(a, 'e', "behind,");
    hear(f, a, "free,");
    ask(b, 'e', "b");
    hear(f, b, "b");
    assert_true(gate_waits(&f->gate));
    gate_depart(&f->gate);
    assert_false(gate_waits(&f->gate));
    ask(a, 'g', "second,");
    hear_nothing(f, a);
    gate_open(&f->gate);
    hear(f, a, "first,behind,");
    hear_nothing(f, a);
    gate_depart(&f->gate);
    gate_open(&f->gate);
    hear(f, a, "second,");
}

static void
a_gated_connection_that_ends_frees_its_number_when_the_gate_opens(void **state)
{
    struct fixture *f = *state;
    struct door *d;
    int a;

    start(f);
    a = join(f, ECHO);
    d = conns_door(f->conns, ECHO);
    ask(a, 'g', "never heard");
    ask(a, 'c', "");
    hear_end(f, a, "");
    assert_int_equal(d->open, 0);
    assert_int_equal(d->used, 1);
    gate_depart(&f->gate);
    gate_open(&f->gate);
    assert_int_equal(d->used, 0);
}

static void
surplus_is_thrown_away_without_memory(void **state)
{
    struct fixture *f = *state;
    uint8_t head[HEAD + 1] = {0xff, 0xff, 's', '!'};
    static uint8_t rest[65534];
    int a;

    start(f);
    a = join(f, ECHO);
    say(a, head, sizeof head);
    f->want = 2;
    run(f, two_turns);
    for (size_t i = 0; i < sizeof rest; i += 8191)
        say(a, rest, sizeof rest - i < 8191 ? sizeof rest - i : 8191);
    ask(a, 'e', "next");
    hear(f, a, "!next");
}

static void
a_half_closed_peer_gets_its_answers(void **state)
{
    struct fixture *f = *state;
    int a;

    start(f);
    a = join(f, ECHO);
    ask(a, 'e', "one,");
    ask(a, 'g', "two");
    assert_int_equal(shutdown(a, SHUT_WR), 0);
    hear(f, a, "one,");
    gate_depart(&f->gate);
    gate_open(&f->gate);
    hear_end(f, a, "two");
}

static void
malformed_input_gets_the_last_word_though_more_is_sent(void **state)
{
    struct fixture *f = *state;
    static uint8_t more[1 << 20];
    int a;

    start(f);
    a = join(f, ECHO);
    ask(a, 'e', "well, ");
    ask(a, 'x', "");
    (void)send(a, more, sizeof more,
               MSG_DONTWAIT); /* as much as there is room */
    f->fd = a;
    f->want = 8;
    run(f, heard_enough);
    assert_memory_equal(f->heard, "well, NO", 8);
    assert_int_equal(shutdown(a, SHUT_WR), 0);
    hear_end(f, a, "");
    assert_int_equal(conns_door(f->conns, ECHO)->figures.malformed, 1);
}

static void
http_is_refused_however_it_comes(void **state)
{
    static const char *const lines[] = {"GET / HTTP/1.1\r\n", "POST /x HTTP/1",
                                        "OPTIONS * HTTP/1.1", "DELETE /x HTT"};
    struct fixture *f = *state;
    size_t i, at;
    int a;

    start(f);
    for (i = 0; i < 4; i++) {
        a = join(f, ECHO);
        for (at = 0; at < 9; at++) {
            (void)send(a, lines[i] + at, 1, MSG_NOSIGNAL); /* may be closed */
            f->want = 1;
            run(f, two_turns);
        }
        f->fd = a;
        f->heard_size = 0;
        f->heard_end = false;
        while (!f->heard_end && recv(a, f->heard, 1, MSG_DONTWAIT) < 0)
            if (errno != EAGAIN)
                break; /* reset */
    }
    assert_int_equal(conns_door(f->conns, ECHO)->figures.http, 4);
}

static void
large_and_long_answers_arrive_whole(void **state)
{
    struct fixture *f = *state;
    int a;

    start(f);
    a = join(f, ECHO);
    ask_kib(a, 'b', 1000);
    ask_kib(a, 'l', 3000);
    ask(a, 'e', "end");
    f->fd = a;
    f->want = 4000 * 1024 + 3;
    run(f, heard_enough);
    assert_memory_equal(f->heard + 4000 * 1024, "end", 3);
    for (size_t i = 0; i < 4000 * 1024; i++)
        assert_int_equal(f->heard[i], 'b');
}

static void
a_peer_that_does_not_read_is_not_read_from_and_others_are_served(void **state)
{
    struct fixture *f = *state;
    size_t i;
    int a, b;

    start(f);
    a = join(f, ECHO);
    b = join(f, ECHO);
    for (i = 0; i < 40; i++)
        ask_kib(a, 'b', 500);
    for (i = 0; i < 100; i++) {
        ask(b, 'e', "b");
        hear(f, b, "b");
    }
    f->fd = a;
    f->heard_size = 0;
    for (i = 0; i < 40; i++) {
        f->heard_size = 0;
        f->heard_max = 500 * 1024;
        f->want = f->heard_max;
        run(f, heard_enough);
    }
    f->heard_max = (size_t)16 << 20;
}

static void
who_keeps_most_ends_when_memory_is_used_up(void **state)
{
    struct fixture *f = *state;
    uint8_t head[HEAD] = {0xff, 0xff, 'e'};
    static uint8_t body[60000];
    int large, small;

    start(f);
    small = join(f, ECHO);
    say(small, head, sizeof head);
    say(small, body, 2000);
    for (size_t i = 0; i < PEERS - 4; i++) {
        large = join(f, CUT);
        say(large, head, sizeof head);
        say(large, body, sizeof body);
        f->want = 4;
        run(f, two_turns);
    }
    /* 35 times 60 KB fit. */
    assert_in_range(conns_door(f->conns, CUT)->figures.evicted, 20, 30);
    assert_int_equal(conns_door(f->conns, ECHO)->figures.evicted, 0);
    memset(body, 'z', sizeof body);
    say(small, body, sizeof body);
    say(small, body, 65535 - 2000 - 10 - sizeof body);
    say(small, "0123456789", 10);
    f->fd = small;
    f->heard_size = 0;
    f->want = 65535;
    run(f, heard_enough);
    assert_memory_equal(f->heard + 65525, "0123456789", 10);
}

static void
a_held_request_goes_on_when_it_is_woken(void **state)
{
    struct fixture *f = *state;
    int a;

    start(f);
    a = join(f, ECHO);
    ask(a, 'h', "held,");
    ask(a, 'e', "behind");
    hear_nothing(f, a);
    assert_non_null(f->held);
    conn_wake(f->held);
    hear(f, a, "held,behind");
}

static void
without_room_no_byte_leaves_the_kernel(void **state)
{
    struct fixture *f = *state;
    int a;

    start(f);
    f->room = 0;
    a = join(f, ECHO);
    ask(a, 'e', "later");
    hear_nothing(f, a);
    assert_int_equal(conns_door(f->conns, ECHO)->figures.received, 0);
    f->room = SIZE_MAX;
    door_wake(conns_door(f->conns, ECHO));
    hear(f, a, "later");
}

static bool
all_gone(struct fixture *f)
{
    return conns_door(f->conns, CUT)->used == 0;
}

static void
what_a_connection_leaves_is_done_in_steps_before_its_number_is_free(
    void **state)
{
    struct fixture *f = *state;
    struct door *d;
    int a;

    start(f);
    f->ends = 5;
    a = join(f, CUT);
    d = conns_door(f->conns, CUT);
    assert_int_equal(shutdown(a, SHUT_RDWR), 0);
    run(f, all_gone);
    assert_int_equal(f->ended, 1);
    assert_int_equal(d->open, 0);
}

static void
places_are_kept_for_each_door(void **state)
{
    struct fixture *f = *state;
    size_t i;
    int fds[2];

    start(f);
    for (i = 0; i < PEERS - 4; i++)
        (void)join(f, ECHO);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds),
                     0);
    assert_rc(conns_take(f->conns, ECHO, fds[0]), -EMFILE);
    assert_rc(conns_take(f->conns, CUT, fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
}

static void
note_stopped(void *ctx)
{
    ((struct fixture *)ctx)->stopped = true;
}

static bool
has_stopped(struct fixture *f)
{
    listen_to(f);
    return f->stopped;
}

static void
a_stop_answers_what_has_arrived_and_waits_for_the_commit(void **state)
{
    struct fixture *f = *state;
    int a, b;

    start(f);
    a = join(f, ECHO);
    b = join(f, CUT);
    ask(a, 'e', "one,");
    ask(a, 'g', "two");
    ask(b, 'h', "cut");
    conns_stop(f->conns, 1000, note_stopped, f);
    f->fd = a;
    f->want = 4;
    run(f, heard_enough);
    assert_false(f->stopped);
    gate_depart(&f->gate);
    gate_open(&f->gate);
    run(f, has_stopped);
    assert_int_equal(f->heard_size, 7);
    assert_memory_equal(f->heard, "one,two", 7);
}

static void
a_start_without_memory_leaks_nothing(void **state)
{
    struct fixture *f = *state;
    const struct conns_options o = {
        .rows = f->rows, .count = DOORS, .shared = 8, .pool_size = 1 << 16};
    int rc = -ENOMEM;

    for (unsigned n = 1; rc < 0; n++) {
        const char *call = n % 2 ? "malloc" : "calloc";

        fault_inject(call, (n + 1) / 2, ENOMEM);
        rc = conns_init(&f->conns, f->loop, &o);
        fault_clear();
        if (rc < 0)
            assert_rc(rc, -ENOMEM);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(answers_come_in_order_wherever_requests_are_split),
    TEST(many_requests_at_once_are_all_answered),
    TEST(gated_answers_wait_for_the_commit_and_so_does_what_is_behind),
    TEST(a_gated_connection_that_ends_frees_its_number_when_the_gate_opens),
    TEST(surplus_is_thrown_away_without_memory),
    TEST(a_half_closed_peer_gets_its_answers),
    TEST(malformed_input_gets_the_last_word_though_more_is_sent),
    TEST(http_is_refused_however_it_comes),
    TEST(large_and_long_answers_arrive_whole),
    TEST(a_peer_that_does_not_read_is_not_read_from_and_others_are_served),
    TEST(who_keeps_most_ends_when_memory_is_used_up),
    TEST(a_held_request_goes_on_when_it_is_woken),
    TEST(without_room_no_byte_leaves_the_kernel),
    TEST(what_a_connection_leaves_is_done_in_steps_before_its_number_is_free),
    TEST(places_are_kept_for_each_door),
    TEST(a_stop_answers_what_has_arrived_and_waits_for_the_commit),
    TEST(a_start_without_memory_leaks_nothing),
};
TEST_MAIN(tests)
