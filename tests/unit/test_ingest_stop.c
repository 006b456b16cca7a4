/* tests/unit/test_ingest_stop.c - increments at the limits (connections, empty
 * logs), and a stop that loses none. */
#include "common/base/bytes.h"
#include "tests/unit/ingest_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- limits ------------------------------------------------------------ */

static bool
one_left(struct fixture *r)
{
    return listener(r, LISTENER_ACK)->open +
               listener(r, LISTENER_SILENT)->open ==
           63;
}

ON_FIXTURE(connections_over_the_limit_are_refused, r)
{
    int fds[64], ends[2], i;

    start(r, 100, 4);
    for (i = 0; i < 64; i++)
        fds[i] = connect_pair(r, i % 2 ? LISTENER_ACK : LISTENER_SILENT);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_rc(conns_take(r->conns, LISTENER_ACK, ends[1]), -EMFILE);
    close(ends[0]);
    close(ends[1]);

    client_close(fds[0]);
    run(r, one_left, 0);
    fds[0] = connect_pair(r, LISTENER_ACK);
    for (i = 0; i < 64; i++)
        client_close(fds[i]);
    finish(r);
    assert_int_equal(r->records.count, 0);
}

/* As a worker does, once the writer has let it go. */
static void
empty_first_log(struct fixture *r)
{
    struct log log;

    while (log_claim(&log, r->data.log_fd, 0, LOG_MODE_FULL) < 0)
        run(r, pushes_back, 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
}

ON_FIXTURE(without_an_empty_log_it_stops_reading_and_loses_nothing, r)
{
    int fd;

    start(r, 20, 2);
    fd = connect_and_send(r, LISTENER_ACK, 60);
    run(r, pushes_back, 0);
    assert_int_equal(r->ingest.messages, 40);
    run(r, replied, 40);
    client_wins(fd, 40);

    /* A worker empties the first; the rest goes there. */
    empty_first_log(r);
    run(r, replied, 60);
    client_wins(fd, 20);
    client_close(fd);
    finish(r);

    assert_int_equal(r->records.count, 40);
    assert_true(r->logs.stats.pushed_back > 0);
}

/* ---- stopping ---------------------------------------------------------- */

ON_FIXTURE(the_time_that_a_stop_waits_for_a_log_is_not_of_its_drain_time, r)
{
    int fd;

    start(r, 10, 2);
    fd = connect_and_send(r, LISTENER_ACK, 30);
    run(r, pushes_back, 0);
    conns_stop(r->conns, 1000, on_stopped, r);
    empty_first_log(r);
    /* Time goes by, and only then the logs are seen to have room. */
    fault_pass_ns(UINT64_C(999) * 1000000);
    run(r, took, 30);
    run(r, has_finished, 0);
    finish(r);

    client_wins(fd, 30);
    client_expect_end(fd);
    client_close(fd);
    assert_int_equal(r->records.count, 20);
}

/* As long as it waits for one the time to drain stands still, but it goes on
 * for no more than four times that time. */
ON_FIXTURE(a_stop_that_never_gets_a_log_ends, r)
{
    uint64_t began_ms;
    int fd;

    start(r, 10, 2);
    fd = connect_and_send(r, LISTENER_ACK, 30);
    run(r, pushes_back, 0);
    began_ms = loop_now_ms(r->loop);
    conns_stop(r->conns, 100, on_stopped, r);
    run(r, has_finished, 0);
    assert_true(loop_now_ms(r->loop) >= began_ms + 400);
    client_wins(fd, 20);
    client_close(fd);
    finish(r);

    assert_int_equal(r->records.count, 20);
}

/* A request with a head of `head` bytes.  The page lets its body begin so that
 * the whole is made of messages: those of the head are well formed, too, as
 * their names are full.  Returns its size. */
static size_t
put_forged_request(uint8_t *bytes, const char *method, size_t head)
{
    size_t size = (head + SIZE - 1) / SIZE * SIZE;

    memset(bytes, 'x', size);
    (void)snprintf((char *)bytes, size, "%s / HTTP/1.1", method);
    bytes[strlen((char *)bytes)] = ' ';
    for (size_t n = 0; n < 3; n++, size += SIZE)
        put(bytes + size, n);
    return size;
}

/* The pieces that the request comes in: `first` bytes one by one, each in a
 * turn of the loop, then the rest. */
static void
send_in_pieces(struct fixture *r, int fd, const uint8_t *bytes, size_t size,
               size_t first)
{
    size_t at = 0;

    for (; at < first && at < size; at++) {
        (void)send(fd, bytes + at, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        run(r, always, 0);
    }
    /* The server may have closed. */
    (void)send(fd, bytes + at, size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ON_FIXTURE(no_byte_of_a_web_page_is_counted, r)
{
    static const char *const methods[] = {
        "GET", "POST",     "OPTIONS",  "COUNT",   "A",
        "get", "M-SEARCH", "PROPFIND", "!#$%&'*", "longer-than-eight-bytes"};
    static const size_t heads[] = {10,   519,  520,   521,   1040,
                                   1041, 4096, 16384, 65000, 65536};
    static const size_t firsts[] = {0, 1, 7, 8, 9, 600};
    static uint8_t bytes[65536 + 4 * SIZE];
    uint64_t count = 0;
    uint8_t got[8];
    int fd;

    start(r, 4000, 4);
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++)
        for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++)
            for (size_t f = 0; f < sizeof firsts / sizeof firsts[0]; f++)
                for (size_t at = LISTENER_ACK; at <= LISTENER_SILENT; at++) {
                    const size_t size =
                        put_forged_request(bytes, methods[m], heads[h]);

                    fd = connect_pair(r, at);
                    send_in_pieces(r, fd, bytes, size, firsts[f]);
                    run(r, has_ended, 0);
                    assert_true(client_try_read(fd, got, sizeof got, 0) <= 0);
                    client_close(fd);
                    count++;
                }
    assert_int_equal(listener(r, LISTENER_ACK)->stats.browsers +
                         listener(r, LISTENER_SILENT)->stats.browsers,
                     count);
    finish(r);

    assert_int_equal(r->records.count, 0);
    assert_int_equal(r->malformed, 0);
}

ON_FIXTURE(less_than_a_decision_leaves_no_trace, r)
{
    int fd;

    start(r, 100, 4);
    fd = connect_pair(r, LISTENER_ACK);
    client_send(fd, "GET / H", 7);
    run(r, took_bytes, 7);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    run(r, has_ended, 0);
    client_expect_end(fd);
    client_close(fd);
    assert_int_equal(listener(r, LISTENER_ACK)->stats.browsers, 0);
    finish(r);

    assert_int_equal(r->records.count, 0);
}

/* Only the beginning of a connection is refused. */
ON_FIXTURE(a_later_number_of_printable_bytes_is_counted, r)
{
    static const char bytes[] = "GET / HT";
    const int64_t number = get_le64s((const uint8_t *)bytes);
    uint8_t messages[2 * SIZE];
    int fd;

    start(r, 100, 4);
    fd = connect_pair(r, LISTENER_ACK);
    client_message(messages, "space", "first", 1);
    client_message(messages + SIZE, "space", "second", number);
    client_send(fd, messages, sizeof messages);
    run(r, replied, 2);
    client_wins(fd, 2);
    client_close(fd);
    finish(r);

    assert_int_equal(records_sum(&r->records, "space", "second", NULL), number);
}

ON_FIXTURE(a_number_that_begins_like_http_is_counted, r)
{
    uint8_t message[SIZE];
    int fd;

    start(r, 100, 4);
    fd = connect_pair(r, LISTENER_ACK);
    client_message(message, "space", "key", 0x20544547); /* "GET " */
    client_send(fd, message, SIZE);
    run(r, replied, 1);
    client_wins(fd, 1);
    client_close(fd);
    finish(r);

    assert_int_equal(records_sum(&r->records, "space", "key", NULL),
                     0x20544547);
}

ON_FIXTURE(a_stop_takes_in_what_has_arrived_and_replies, r)
{
    const size_t count = 100;
    uint8_t message[SIZE];
    int ack, silent;

    start(r, 30, 20);
    put(message, 0);
    silent = connect_pair(r, LISTENER_SILENT);
    client_send(silent, message, SIZE / 2);
    ack = connect_and_send(r, LISTENER_ACK, count);
    finish(r);

    client_wins(ack, count);
    client_expect_end(ack);
    client_expect_end(silent);
    client_close(ack);
    client_close(silent);
    expect_messages(r, count);
    assert_int_equal(r->cut_off, 1);
}
