/* tests/unit/test_live_flow.c - counters and semaphores: peers that do not
 * read, and answers of any length (Dump). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/live_requests.h"

#include <string.h>

/* ---- slow readers ------------------------------------------------------ */

#define SLOW_REQUESTS 200000

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(who_does_not_read_is_not_read_from, r)
{
    uint8_t *bytes = test_memory(malloc(SLOW_REQUESTS * 32)), *at = bytes;
    uint8_t *answers = test_memory(malloc(SLOW_REQUESTS * 64)), *to = answers;
    struct peer *p, *q;

    start_counter(r);
    p = join_pair(r);
    q = join_pair(r);
    ask_acquire(r, q, "n", 5, 5);
    for (uint32_t i = 0; i < SLOW_REQUESTS; i++) {
        at += live_client_put_get(at, i, i % 5 ? "n" : "m", 1);
        to += i % 5
                  ? put_value(to, LIVE_CLIENT_GET, i, 5)
                  : put_failure(to, LIVE_CLIENT_GET, LIVE_CLIENT_NOT_FOUND, i);
    }
    go_deaf(p);
    send_later(p, bytes, (size_t)(at - bytes));
    run_turns(r, 2000);

    /* It is stuck, in bounded memory, and harms nobody. */
    assert_true(p->out_size > 0);
    assert_true(bytes_kept(r) <= LIVE_PROTOCOL_OUT_SIZE + 2 * CONN_SLICE);
    ask_noop(r, q);
    p->deaf = false;
    fault_short("send", 1, 100); /* what was kept goes out in pieces */
    expect_bytes(r, p, answers, (size_t)(to - answers));
    assert_true(fault_hit());
    assert_int_equal(p->size, 0);
    assert_int_equal(bytes_kept(r), 0);
    ask_noop(r, p);
    free(bytes);
    free(answers);
}

/* ---- Dump -------------------------------------------------------------- */

/* Takes a whole dump of names many:N and others; how many there were, and how
 * many of many:N. */
static size_t
take_dump(struct peer *p, uint32_t opaque, uint8_t *seen, size_t count)
{
    size_t at = 0, records = 0, body, number;
    char name[32];

    for (;; at += 12 + body) {
        assert_true(p->size >= at + 12);
        assert_int_equal(get_be32(p->in + at), 0x91110000);
        assert_int_equal(get_be32(p->in + at + 8), opaque);
        body = get_be32(p->in + at + 4);
        if (body == 0)
            break;
        assert_true(p->size >= at + 12 + body);
        assert_int_equal(body, 10 + get_be16(p->in + at + 20));
        records++;
        if (memcmp(p->in + at + 22, "many:", 5) != 0 || body >= sizeof name)
            continue;
        memcpy(name, p->in + at + 22, body - 10);
        name[body - 10] = '\0';
        number = strtoull(name + 5, NULL, 10);
        assert_true(number < count);
        assert_int_equal(get_be32(p->in + at + 12), 1);
        assert_int_equal(get_be32(p->in + at + 16), 1);
        seen[number]++;
    }
    memmove(p->in, p->in + at + 12, p->size - at - 12);
    p->size -= at + 12;
    return records;
}

CASE(live_protocol_behind_a_dump_wait_for_its_end, r)
{
    uint8_t bytes[256], *at = bytes, seen[10] = {0};
    struct peer *p;

    start_counter(r);
    p = join_pair(r);
    acquire_many(r, p, 10);
    at += live_client_put(at, LIVE_CLIENT_NOOP, 1, NULL, 0);
    at += live_client_put(at, LIVE_CLIENT_DUMP, 2, NULL, 0);
    at += live_client_put(at, LIVE_CLIENT_DUMP, 3, NULL, 0);
    at += live_client_put(at, LIVE_CLIENT_NOOP, 4, NULL, 0);
    say_bytes(r, p, bytes, (size_t)(at - bytes));

    expect_done(r, p, LIVE_CLIENT_NOOP, 1);
    assert_int_equal(take_dump(p, 2, seen, 10), 10);
    assert_int_equal(take_dump(p, 3, seen, 10), 10);
    expect_done(r, p, LIVE_CLIENT_NOOP, 4);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(seen[i], 2);
}

CASE(a_dump_to_a_slow_reader_disturbs_nobody, r)
{
    const size_t count = 100000;
    uint8_t bytes[256], *at = bytes, *seen = test_memory(calloc(count, 1));
    struct peer *p, *q;
    size_t i;

    start_counter(r);
    p = join_pair(r);
    q = join_pair(r);
    acquire_many(r, p, count);
    go_deaf(p);
    at += live_client_put(at, LIVE_CLIENT_DUMP, 2, NULL, 0);
    at += live_client_put(at, LIVE_CLIENT_NOOP, 3, NULL, 0);
    say_bytes(r, p, bytes, (size_t)(at - bytes));

    /* Others come and go while it waits. */
    for (i = 0; i < 50; i++) {
        ask_acquire(r, q, "other", 1, 100);
        ask_noop(r, q);
    }
    assert_true(bytes_kept(r) <= LIVE_PROTOCOL_OUT_SIZE);
    assert_int_equal(r->server.stats.noop, 50);
    p->deaf = false;
    await_bytes(r, p, count * 30);
    r->want = 0;
    run_turns(r, 1000);

    i = take_dump(p, 2, seen, count);
    assert_true(i == count || i == count + 1); /* "other" came meanwhile */
    expect_done(r, p, LIVE_CLIENT_NOOP, 3);
    for (i = 0; i < count; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(bytes_kept(r), 0);
    free(seen);
}

CASE(a_dump_of_long_names_goes_out, r)
{
    static uint8_t name[LONG_NAME], bytes[LONG_NAME + 64];
    struct peer *p;

    start_counter(r);
    p = join_pair(r);
    for (uint32_t i = 0; i < 20; i++) {
        name[0] = (uint8_t)i;
        say_bytes(r, p, bytes,
                  live_client_put_acquire(bytes, i, name, sizeof name, 1, 1));
        expect_number(r, p, LIVE_CLIENT_ACQUIRE, i, 1);
    }
    say_bytes(r, p, bytes,
              live_client_put(bytes, LIVE_CLIENT_DUMP, 5, NULL, 0));
    await_bytes(r, p, 20 * (size_t)(22 + LONG_NAME) + 12);

    assert_int_equal(take_dump(p, 5, NULL, 0), 20);
    expect_nothing(r, p);
}

CASE(a_reset_in_the_middle_of_a_dump_is_survived, r)
{
    uint8_t bytes[64];
    struct peer *p, *q;

    start_listening(r, (struct live_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    q = join_tcp(r);
    acquire_many(r, p, 300000); /* more than the sockets hold */
    go_deaf(p);
    say_bytes(r, p, bytes,
              live_client_put(bytes, LIVE_CLIENT_DUMP, 2, NULL, 0));
    run_turns(r, 300);
    assert_true(bytes_kept(r) <= LIVE_PROTOCOL_OUT_SIZE);
    reset_peer(p);
    run_turns(r, 3);

    assert_int_equal(r->listener->open, 1);
    assert_int_equal(bytes_kept(r), 0);
    while (r->listener->used > 1)
        run_turns(r, 1);
    expect_get(r, q, "many:0", 0);
}
