/* tests/unit/test_live_server.c - the counter and semaphore protocols over
 * socket pairs and loopback connections, with a real loop and real objects: the
 * stream of requests, and the dialogues. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/live_fixture.h"

/* ---- the stream -------------------------------------------------------- */

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(live_protocol_may_be_cut_anywhere, r)
{
    uint8_t bytes[MIXED_MAX];
    const size_t size = put_mixed(bytes);
    struct live_client *p;

    start_counter(r);
    p = join_pair(r);
    for (size_t cut = 1; cut < size; cut++) {
        say_bytes(r, p, bytes, cut);
        say_bytes(r, p, bytes + cut, size - cut);
        expect_mixed(p);
        live_client_expect_nothing(p, 0);
    }

    assert_int_equal(bytes_kept(r), 0);
}

CASE(names_have_up_to_65535_bytes, r)
{
    static const size_t cuts[] = {11, 12, 21, 22, 23, 47, 48, 49, 60000, 65556};
    static uint8_t name[LONG_NAME], bytes[LONG_NAME + 64];
    struct live_client *p;
    size_t size, i;

    start_counter(r);
    p = join_pair(r);
    for (i = 0; i < sizeof name; i++)
        name[i] = (uint8_t)(i * 7);
    for (i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        size = live_client_put_acquire(bytes, 1, name, sizeof name, 1, 100);
        say_bytes(r, p, bytes, cuts[i]);
        live_client_expect_nothing(p, 0);
        say_bytes(r, p, bytes + cuts[i], size - cuts[i]);
        live_client_expect_u32(p, LIVE_CLIENT_ACQUIRE, 1, 1);
    }
    assert_int_equal(live_client_get_bytes(p, name, sizeof name), i);
    /* The last byte counts. */
    assert_int_equal(live_client_get_bytes(p, name, sizeof name - 1),
                     -LIVE_CLIENT_NOT_FOUND);
    assert_int_equal(bytes_kept(r), 0);
}

/* At any cut an Acquire was not done, which here has more body than it needs. */
CASE(an_unfinished_request_is_dropped_at_the_end, r)
{
    uint8_t bytes[128] = {0};
    struct live_client *p, *q;

    start_counter(r);
    q = join_pair(r);
    live_client_put_acquire(bytes, 1, "n", 1, 1, 1);
    put_be32(bytes + 4, 20);
    for (size_t size = 1; size < FRAME_HEADER + 20; size++) {
        p = join_pair(r);
        say_bytes(r, p, bytes, size);
        assert_int_equal(live_client_get(q, "n"), -LIVE_CLIENT_NOT_FOUND);
        live_client_half_close(p);
        live_client_expect_end(p);
        live_client_drop(p);
        r->peer_count--;
        assert_int_equal(live_client_get(q, "n"), -LIVE_CLIENT_NOT_FOUND);
    }
}

/* ---- surplus ----------------------------------------------------------- */

/* Sends `head`, then `size` bytes of nothing in particular. */
static void
say_with_surplus(struct fixture *r, struct live_client *p, const uint8_t *head,
                 size_t head_size, size_t size)
{
    uint8_t *surplus = test_memory(calloc(1, size));

    say_bytes(r, p, head, head_size);
    say_bytes(r, p, surplus, size - 1);
    run_turns(r, 3);
    /* Never more than the request itself. */
    assert_true(bytes_kept(r) <= head_size);
    live_client_expect_nothing(p, 0);
    say_bytes(r, p, surplus, 1);
    free(surplus);
}

CASE(surplus_is_thrown_away_as_it_comes, r)
{
    static uint8_t name[LONG_NAME], head[LONG_NAME + 64];
    struct live_client_dump dump;
    struct live_client *p;
    size_t size;

    start_counter(r);
    p = join_pair(r);

    live_client_put(head, LIVE_CLIENT_NOOP, 1, NULL, 0);
    put_be32(head + 4, (uint32_t)(29 * MIB));
    say_with_surplus(r, p, head, 12, 29 * MIB);
    live_client_expect(p, LIVE_CLIENT_NOOP, 1, LIVE_CLIENT_OK, NULL, 0);

    size = live_client_put_acquire(head, 2, name, sizeof name, 1, 2);
    put_be32(head + 4, (uint32_t)(29 * MIB));
    say_with_surplus(r, p, head, size, 29 * MIB - (size - 12));
    live_client_expect_u32(p, LIVE_CLIENT_ACQUIRE, 2, 1);

    size = live_client_put_get(head, 3, name, sizeof name);
    put_be32(head + 4, FRAME_BODY_MAX);
    say_with_surplus(r, p, head, size, FRAME_BODY_MAX - (size - 12));
    live_client_expect_u32(p, LIVE_CLIENT_GET, 3, 1);

    live_client_put(head, 0x42, 4, NULL, 0);
    put_be32(head + 4, (uint32_t)MIB);
    say_with_surplus(r, p, head, 12, MIB);
    live_client_expect(p, 0x42, 4, LIVE_CLIENT_UNKNOWN, NULL, 0);

    head[0] = 0x12;
    say_with_surplus(r, p, head, 12, MIB);
    live_client_expect(p, 0x42, 4, LIVE_CLIENT_INVALID, NULL, 0);

    /* A body that is long, with a name of no bytes. */
    live_client_put_acquire(head, 5, "", 0, 1, 2);
    put_be32(head + 4, (uint32_t)MIB);
    say_with_surplus(r, p, head, 22, MIB - 10);
    live_client_expect(p, LIVE_CLIENT_ACQUIRE, 5, LIVE_CLIENT_INVALID, NULL, 0);

    live_client_put(head, LIVE_CLIENT_DUMP, 6, NULL, 0);
    put_be32(head + 4, (uint32_t)MIB);
    say_with_surplus(r, p, head, 12, MIB);
    live_client_read_dump(p, 6, &dump);
    assert_int_equal(dump.count, 1);
    live_client_dump_free(&dump);
    live_client_noop(p);
    assert_int_equal(bytes_kept(r), 0);
}

/* ---- dialogues --------------------------------------------------------- */

static void
open_listener(void *ctx, struct live_client *t)
{
    struct fixture *r = ctx;

    join_on(r, t, client_connect(r->port));
}

static void
play_dialogue(void **state)
{
    struct fixture *r = *state;
    const struct dialogue *d = r->dialogue->dialogue;
    const unsigned kind = r->dialogue->kind;

    r->row.close_over = d->connections > 0;
    start_listening(r, (struct live_options){.kind = kind == COUNTERS
                                                         ? LIVE_COUNTER
                                                         : LIVE_SEMAPHORE,
                                             .holders = d->connections});
    dialogue_run(r->dialogue, open_listener, r);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest one = {NULL, play_dialogue, set_up, tear_down,
                                   NULL};

    return dialogue_main(&one, argc, argv);
}
