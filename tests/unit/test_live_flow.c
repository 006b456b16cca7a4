/* tests/unit/test_live_flow.c - counters and semaphores: peers that do not
 * read, and answers of any length (Dump). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/live_fixture.h"

#include <string.h>

/* ---- slow readers ------------------------------------------------------ */

#define SLOW_REQUESTS 200000

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(who_does_not_read_is_not_read_from, r)
{
    uint8_t *bytes = test_memory(malloc(SLOW_REQUESTS * 32)), *at = bytes;
    struct live_client *p, *q;
    size_t sent = 0, size;
    ssize_t n;

    start_counter(r);
    p = join_pair(r);
    q = join_pair(r);
    expect_taken(q, "n", 5, 5);
    for (uint32_t i = 0; i < SLOW_REQUESTS; i++)
        at += live_client_put_get(at, i, i % 5 ? "n" : "m", 1);
    size = (size_t)(at - bytes);
    for (unsigned turn = 0; turn < 2000; turn++, run_turns(r, 1)) {
        n = write(p->fd, bytes + sent, size - sent);
        sent += n > 0 ? (size_t)n : 0;
    }

    /* It is stuck, in bounded memory, and other peers are served. */
    assert_true(sent < size);
    assert_true(bytes_kept(r) <= LIVE_PROTOCOL_OUT_SIZE + 2 * CONN_SLICE);
    live_client_noop(q);
    fault_short("send", 1, 100); /* what was kept goes out in pieces */
    for (uint32_t i = 0; i < SLOW_REQUESTS; i++) {
        n = write(p->fd, bytes + sent, size - sent);
        sent += n > 0 ? (size_t)n : 0;
        if (i % 5)
            live_client_expect_u32(p, LIVE_CLIENT_GET, i, 5);
        else
            live_client_expect(p, LIVE_CLIENT_GET, i, LIVE_CLIENT_NOT_FOUND,
                               NULL, 0);
    }
    assert_true(fault_hit());
    assert_int_equal(bytes_kept(r), 0);
    live_client_noop(p);
    free(bytes);
}

/* ---- Dump -------------------------------------------------------------- */

/* Takes a whole dump of names many:N and others; how many there were, and how
 * many of many:N. */
static size_t
take_dump(struct live_client *p, uint32_t opaque, uint8_t *seen, size_t count)
{
    struct live_client_dump dump;
    size_t records, number;
    char name[32];

    live_client_read_dump(p, opaque, &dump);
    records = dump.count;
    for (size_t i = 0; i < records; i++) {
        const struct live_client_record *record = &dump.record[i];

        (void)snprintf(name, sizeof name, "%.*s", (int)record->size,
                       (const char *)record->name);
        if (sscanf(name, "many:%zu", &number) != 1)
            continue;
        assert_true(number < count);
        assert_int_equal(record->current, 1);
        assert_int_equal(record->maximum, 1);
        seen[number]++;
    }
    live_client_dump_free(&dump);
    return records;
}

CASE(live_protocol_behind_a_dump_wait_for_its_end, r)
{
    uint8_t bytes[256], *at = bytes, seen[10] = {0};
    struct live_client *p;

    start_counter(r);
    p = join_pair(r);
    acquire_many(p, 10);
    at += live_client_put(at, LIVE_CLIENT_NOOP, 1, NULL, 0);
    at += live_client_put(at, LIVE_CLIENT_DUMP, 2, NULL, 0);
    at += live_client_put(at, LIVE_CLIENT_DUMP, 3, NULL, 0);
    at += live_client_put(at, LIVE_CLIENT_NOOP, 4, NULL, 0);
    live_client_send(p, bytes, (size_t)(at - bytes));

    live_client_expect(p, LIVE_CLIENT_NOOP, 1, LIVE_CLIENT_OK, NULL, 0);
    assert_int_equal(take_dump(p, 2, seen, 10), 10);
    assert_int_equal(take_dump(p, 3, seen, 10), 10);
    live_client_expect(p, LIVE_CLIENT_NOOP, 4, LIVE_CLIENT_OK, NULL, 0);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(seen[i], 2);
}

CASE(a_dump_to_a_slow_reader_disturbs_nobody, r)
{
    const size_t count = 100000;
    uint8_t bytes[256], *at = bytes, *seen = test_memory(calloc(count, 1));
    struct live_client *p, *q;
    size_t i;

    start_counter(r);
    p = join_pair(r);
    q = join_pair(r);
    acquire_many(p, (uint32_t)count);
    at += live_client_put(at, LIVE_CLIENT_DUMP, 2, NULL, 0);
    at += live_client_put(at, LIVE_CLIENT_NOOP, 3, NULL, 0);
    say_bytes(r, p, bytes, (size_t)(at - bytes));

    /* Others come and go while it waits. */
    for (i = 0; i < 50; i++) {
        expect_taken(q, "other", 1, 100);
        live_client_noop(q);
    }
    assert_in_range(bytes_kept(r), 1, LIVE_PROTOCOL_OUT_SIZE);
    assert_int_equal(r->server.stats.noop, 50);

    i = take_dump(p, 2, seen, count);
    assert_true(i == count || i == count + 1); /* "other" came meanwhile */
    live_client_expect(p, LIVE_CLIENT_NOOP, 3, LIVE_CLIENT_OK, NULL, 0);
    for (i = 0; i < count; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(bytes_kept(r), 0);
    free(seen);
}

CASE(a_dump_of_long_names_goes_out, r)
{
    static uint8_t name[LONG_NAME], bytes[LIVE_CLIENT_HEADER];
    struct live_client *p;

    start_counter(r);
    p = join_pair(r);
    for (unsigned i = 0; i < 20; i++) {
        name[0] = (uint8_t)i;
        assert_int_equal(live_client_acquire_bytes(p, name, sizeof name, 1, 1),
                         LIVE_CLIENT_OK);
    }
    live_client_send(p, bytes,
                     live_client_put(bytes, LIVE_CLIENT_DUMP, 5, NULL, 0));
    assert_int_equal(take_dump(p, 5, NULL, 0), 20);
    live_client_expect_nothing(p, 0);
}

CASE(who_knows_the_age_of_a_connection_after_a_dump, r)
{
    uint8_t bytes[64];
    struct live_client_dump dump;
    struct live_client_answer a;
    struct live_client *p;

    start_counter(r);
    p = join_pair(r);
    expect_taken(p, "n", 3, 3);
    live_client_dump(p, &dump);
    live_client_dump_free(&dump);
    live_client_put(bytes, FRAME_WHO, 9, "\0\0\0\0\0\1n", 7);
    bytes[2] = FRAME_WHO_FLAGS;
    live_client_send(p, bytes, LIVE_CLIENT_HEADER + 7);
    live_client_read(p, &a);
    assert_int_equal(a.status, LIVE_CLIENT_OK);
    assert_int_equal(get_be32(a.body), 0); /* nothing is left */
    assert_int_equal(get_be32(a.body + 4), 3);
    assert_in_range(get_be32(a.body + 8), 0, 3600);
}
