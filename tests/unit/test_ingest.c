/* tests/unit/test_ingest.c - bytes of a connection into slots, and replies;
 * over socket pairs, real logs and real I/O threads. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/ingest_fixture.h"

#include <string.h>

/* ---- framing ----------------------------------------------------------- */

ON_FIXTURE(a_message_may_be_cut_anywhere, r)
{
    uint8_t message[SIZE];
    size_t cut;
    int fd;

    start_ingest(r, 600, 8);
    fd = connect_pair(r, LISTENER_ACK);
    for (cut = 1; cut < SIZE; cut++) {
        put_numbered(message, cut - 1);
        client_send(fd, message, cut);
        run_until(r, took_bytes, (cut - 1) * SIZE + cut);
        assert_int_equal(r->ingest.messages, cut - 1);
        client_send(fd, message + cut, SIZE - cut);
        run_until(r, has_replied, cut);
        client_wins(fd, 1);
    }
    client_close(fd);
    finish_ingest(r);

    expect_messages(r, SIZE - 1);
}

ON_FIXTURE(names_at_their_limits_are_kept_whole, r)
{
    uint8_t message[SIZE];
    char longest[CLIENT_NAME_SIZE + 1];
    int fd;

    memset(longest, 0xff, sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    start_ingest(r, 10, 4);
    fd = connect_pair(r, LISTENER_ACK);
    client_message(message, longest, longest, INT64_MIN);
    client_send(fd, message, SIZE);
    client_message(message, "a", longest, INT64_MAX);
    client_send(fd, message, SIZE);
    client_message(message, longest, "../..", 0);
    client_send(fd, message, SIZE);
    run_until(r, has_replied, 3);
    client_wins(fd, 3);
    client_close(fd);
    finish_ingest(r);

    assert_int_equal(r->records.count, 3);
    assert_true(records_sum(&r->records, longest, longest, NULL) == INT64_MIN);
    assert_true(records_sum(&r->records, "a", longest, NULL) == INT64_MAX);
    assert_int_equal(records_sum(&r->records, longest, "../..", NULL), 0);
}

ON_FIXTURE(messages_are_kept_in_the_order_they_came, r)
{
    uint8_t message[SIZE];
    size_t i;
    int fd;

    start_ingest(r, 64, 16);
    fd = connect_pair(r, LISTENER_ACK);
    for (i = 0; i < 500; i++) {
        put_numbered(message, i);
        client_send(fd, message, SIZE);
        run_until(r, has_taken, i + 1);
    }
    run_until(r, has_replied, 500);
    client_close(fd);
    finish_ingest(r);

    expect_messages(r, 500);
    for (i = 1; i < 500; i++) {
        if (r->records.at[i].log != r->records.at[i - 1].log)
            continue;
        assert_int_equal(r->records.at[i].increment,
                         r->records.at[i - 1].increment + 1);
        assert_true(r->records.at[i].stamp.received_ms >=
                    r->records.at[i - 1].stamp.received_ms);
        assert_true(r->records.at[i].stamp.synced >=
                    r->records.at[i - 1].stamp.synced);
    }
}

/* A time is of its connection, and of what comes behind it; it is answered, and
 * is not an increment. */
ON_FIXTURE(a_time_is_that_of_the_messages_behind_it, r)
{
    static const uint32_t minutes[] = {0, 27609690, 27609690, 0, 5};
    uint8_t bytes[9 * SIZE];
    int fd, other;

    start_ingest(r, 100, 4);
    fd = connect_pair(r, LISTENER_ACK);
    other = connect_pair(r, LISTENER_SILENT);
    put_numbered(bytes, 0);
    client_time(bytes + SIZE, 27609690);
    put_numbered(bytes + 2 * SIZE, 1);
    put_numbered(bytes + 3 * SIZE, 2);
    client_time(bytes + 4 * SIZE, 0);
    put_numbered(bytes + 5 * SIZE, 3);
    client_time(bytes + 6 * SIZE, 4);
    client_time(bytes + 7 * SIZE, 5);
    client_send(fd, bytes, 8 * SIZE - 100);
    put_numbered(bytes + 8 * SIZE, 4);
    run_until(r, has_replied, 7);
    client_send(fd, bytes + 8 * SIZE - 100, SIZE + 100);
    run_until(r, has_replied, 9);
    client_wins(fd, 9);
    client_close(fd);
    put_numbered(bytes, 5);
    client_send(other, bytes, SIZE);
    client_close(other);
    run_until(r, has_taken, 6);
    finish_ingest(r);

    assert_int_equal(r->records.count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(r->records.at[i].minute, i < 5 ? minutes[i] : 0);
}

/* ---- what cannot be a message ------------------------------------------ */

static void
put_bad(uint8_t *at, int how)
{
    put_numbered(at, 999);
    switch (how) {
    case 0: /* no keyspace */
        memset(at + 8, 0, 256);
        break;
    case 1: /* no key */
        memset(at + 264, 0, 256);
        break;
    case 2: /* something behind the keyspace's end */
        at[8 + 255] = 'x';
        break;
    case 3: /* behind the key's */
        at[264 + 255] = 1;
        break;
    case 4: /* shifted by one byte */
        memmove(at + 1, at, SIZE - 1);
        at[8] = 0;
        break;
    case 5: /* a time with a key */
        memcpy(at + 4, "TIME", 4);
        memset(at + 8, 0, 256);
        break;
    case 6: /* a time with a byte at its end */
        client_time(at, 5);
        at[SIZE - 1] = 'x';
        break;
    case 7: /* no name, and an increment */
        memset(at + 8, 0, SIZE - 8);
        break;
    default: /* nothing at all */
        memset(at, 0, SIZE);
        break;
    }
}

#define BAD_WAYS 9

/* A malformed message behind two good ones and before another. */
static void
send_malformed(struct fixture *r, size_t at, const char *answer)
{
    const size_t size = strlen(answer);
    uint8_t bytes[4 * SIZE], reply[64];

    start_ingest(r, 100, 4);
    for (int how = 0; how < BAD_WAYS; how++) {
        const int fd = connect_pair(r, at);

        put_numbered(bytes, 0);
        put_numbered(bytes + SIZE, 1);
        put_bad(bytes + 2 * SIZE, how);
        put_numbered(bytes + 3 * SIZE, 2);
        client_send(fd, bytes, sizeof bytes);
        run_until(r, size > 0 ? has_sent : has_ended, size * (size_t)(how + 1));
        /* Behind an answer it discards what is sent until its peer closes. */
        if (size > 0)
            client_send(fd, bytes, sizeof bytes);
        assert_int_equal(client_read(fd, reply, sizeof reply), size);
        assert_memory_equal(reply, answer, size);
        client_close(fd);
        run_until(r, has_ended, 0);
        assert_int_equal(count_malformed(r), how + 1);
    }
    finish_ingest(r);

    assert_int_equal(r->records.count, 2 * BAD_WAYS);
    assert_int_equal(records_sum(&r->records, "space", "key2", NULL), 0);
    assert_int_equal(r->cut_off, 0);
}

ON_FIXTURE(a_malformed_message_gets_fail_after_the_wins_owed, r)
{
    send_malformed(r, LISTENER_ACK, "WINWINFAIL");
}

ON_FIXTURE(a_malformed_message_ends_a_silent_connection_without_a_byte, r)
{
    send_malformed(r, LISTENER_SILENT, "");
}

/* ---- ends -------------------------------------------------------------- */

ON_FIXTURE(a_fragment_at_the_end_leaves_no_trace, r)
{
    uint8_t message[SIZE];
    int i, fd;

    start_ingest(r, 100, 4);
    put_numbered(message, 0);
    for (i = LISTENER_ACK; i <= LISTENER_SILENT; i++) {
        fd = connect_pair(r, (size_t)i);
        client_send(fd, message, SIZE - 1);
        client_close(fd);
        run_until(r, has_ended, 0);
        /* The next one may get the same place. */
        fd = connect_pair(r, (size_t)i);
        client_send(fd, message, SIZE);
        client_close(fd);
        run_until(r, has_ended, 0);
    }
    finish_ingest(r);

    assert_int_equal(r->cut_off, 2);
    assert_int_equal(r->records.count, 2);
}

static bool
two_have_ended(struct fixture *r)
{
    return find_listener(r, LISTENER_ACK)->open +
               find_listener(r, LISTENER_SILENT)->open ==
           1;
}

/* A byte now and then does not keep a connection; whole messages do. */
ON_FIXTURE(a_message_must_be_whole_in_time, r)
{
    uint8_t bytes[2 * SIZE];
    int fds[LISTENERS], idle;

    start_ingest(r, 100, 4);
    put_numbered(bytes, 0);
    put_numbered(bytes + SIZE, 1);
    idle = connect_pair(r, LISTENER_ACK);
    for (size_t at = LISTENER_ACK; at <= LISTENER_SILENT; at++) {
        fds[at] = connect_pair(r, at);
        client_send(fds[at], bytes, SIZE + 1);
    }
    run_until(r, has_taken, 2);
    run_until(r, has_replied, 1);
    for (size_t n = 1; n < 5; n++) {
        fault_pass_ns(REQUEST_S / 5 * UINT64_C(1000000000));
        for (size_t at = LISTENER_ACK; at <= LISTENER_SILENT; at++)
            client_send(fds[at], bytes + SIZE + n, 1);
        run_until(r, took_bytes, 2 * (SIZE + 1 + n));
        assert_int_equal(find_listener(r, LISTENER_ACK)->open, 2);
        assert_int_equal(find_listener(r, LISTENER_SILENT)->open, 1);
    }
    fault_pass_ns(REQUEST_S / 5 * UINT64_C(1000000000));
    run_until(r, two_have_ended, 0);
    client_wins(fds[LISTENER_ACK], 1);
    for (size_t at = LISTENER_ACK; at <= LISTENER_SILENT; at++) {
        assert_int_equal(find_listener(r, at)->stats.late, 1);
        client_expect_end(fds[at]);
        client_close(fds[at]);
    }
    /* One that has begun nothing stays, and one that was late in this process
     * only: its bytes were there. */
    client_send(idle, bytes, SIZE / 2);
    run_until(r, took_bytes, 2 * (SIZE + 5) + SIZE / 2);
    client_send(idle, bytes + SIZE / 2, SIZE - SIZE / 2);
    fault_pass_ns(2 * REQUEST_S * UINT64_C(1000000000));
    run_until(r, has_taken, 3);
    run_until(r, has_replied, 2);
    client_wins(idle, 1);
    client_close(idle);
    finish_ingest(r);

    assert_int_equal(r->records.count, 3);
    assert_int_equal(r->cut_off, 0);
}
