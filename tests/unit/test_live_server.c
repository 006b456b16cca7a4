/* tests/unit/test_live_server.c - the counter and semaphore protocols over
 * socket pairs and loopback connections, with a real loop and real objects: the
 * stream of requests, and the dialogues. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/live_requests.h"

/* ---- the stream -------------------------------------------------------- */

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(live_protocol_may_be_cut_anywhere, r)
{
    uint8_t bytes[1024], answers[1024];
    size_t size, answers_size;
    struct peer *p;

    start_counter(r);
    p = join_pair(r);
    size = mixed_requests(bytes, answers, &answers_size);
    for (size_t cut = 1; cut < size; cut++) {
        say_bytes(r, p, bytes, cut);
        say_bytes(r, p, bytes + cut, size - cut);
        expect_bytes(r, p, answers, answers_size);
        assert_int_equal(p->size, 0);
    }

    assert_int_equal(bytes_kept(r), 0);
}

CASE(names_have_up_to_65535_bytes, r)
{
    static const size_t cuts[] = {11, 12, 21, 22, 23, 47, 48, 49, 60000, 65556};
    static uint8_t name[LONG_NAME], bytes[LONG_NAME + 64];
    struct peer *p;
    size_t size, i;

    start_counter(r);
    p = join_pair(r);
    for (i = 0; i < sizeof name; i++)
        name[i] = (uint8_t)(i * 7);
    for (i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        size = live_client_put_acquire(bytes, 1, name, sizeof name, 1, 100);
        say_bytes(r, p, bytes, cuts[i]);
        assert_int_equal(p->size, 0);
        say_bytes(r, p, bytes + cuts[i], size - cuts[i]);
        expect_number(r, p, LIVE_CLIENT_ACQUIRE, 1, 1);
    }
    say_bytes(r, p, bytes, live_client_put_get(bytes, 2, name, sizeof name));
    expect_number(r, p, LIVE_CLIENT_GET, 2, (uint32_t)i);

    /* The last byte counts. */
    say_bytes(r, p, bytes,
              live_client_put_get(bytes, 3, name, sizeof name - 1));
    expect_failure(r, p, LIVE_CLIENT_GET, LIVE_CLIENT_NOT_FOUND, 3);
    assert_int_equal(bytes_kept(r), 0);
}

/* At any cut an Acquire was not done. */
CASE(an_unfinished_request_is_dropped_at_the_end, r)
{
    uint8_t bytes[128];
    struct peer *p, *q;

    start_counter(r);
    q = join_pair(r);
    live_client_put_acquire(bytes, 1, "n", 1, 1, 1);
    for (size_t size = 1; size < LIVE_CLIENT_FIXED + 1; size++) {
        p = join_pair(r);
        say_bytes(r, p, bytes, size);
        expect_absent(r, q, "n");
        half_close(p);
        expect_end(r, p);
        leave_server(r, p);
        r->peer_count--;
        free(p->in);
        *p = (struct peer){0};
        expect_absent(r, q, "n");
    }
}

/* ---- surplus ----------------------------------------------------------- */

/* Sends `head`, then `size` bytes of nothing in particular. */
static void
say_with_surplus(struct fixture *r, struct peer *p, const uint8_t *head,
                 size_t head_size, size_t size)
{
    uint8_t *surplus = test_memory(calloc(1, size));

    say_bytes(r, p, head, head_size);
    say_bytes(r, p, surplus, size - 1);
    run_turns(r, 3);
    /* Never more than the request itself. */
    assert_true(bytes_kept(r) <= head_size);
    say_bytes(r, p, surplus, 1);
    free(surplus);
}

CASE(surplus_is_thrown_away_as_it_comes, r)
{
    static uint8_t name[LONG_NAME], head[LONG_NAME + 64];
    uint8_t bytes[64];
    struct peer *p;
    size_t size;

    start_counter(r);
    p = join_pair(r);

    live_client_put(head, LIVE_CLIENT_NOOP, 1, NULL, 0);
    put_be32(head + 4, (uint32_t)(29 * MIB));
    say_with_surplus(r, p, head, 12, 29 * MIB);
    expect_done(r, p, LIVE_CLIENT_NOOP, 1);

    size = live_client_put_acquire(head, 2, name, sizeof name, 1, 2);
    put_be32(head + 4, (uint32_t)(29 * MIB));
    say_with_surplus(r, p, head, size, 29 * MIB - (size - 12));
    expect_number(r, p, LIVE_CLIENT_ACQUIRE, 2, 1);

    size = live_client_put_get(head, 3, name, sizeof name);
    put_be32(head + 4, FRAME_BODY_MAX);
    say_with_surplus(r, p, head, size, FRAME_BODY_MAX - (size - 12));
    expect_number(r, p, LIVE_CLIENT_GET, 3, 1);

    live_client_put(head, 0x42, 4, NULL, 0);
    put_be32(head + 4, (uint32_t)MIB);
    say_with_surplus(r, p, head, 12, MIB);
    expect_failure(r, p, 0x42, LIVE_CLIENT_UNKNOWN, 4);

    head[0] = 0x12;
    say_with_surplus(r, p, head, 12, MIB);
    expect_failure(r, p, 0x42, LIVE_CLIENT_INVALID, 4);

    /* A body that is long, with a name of no bytes. */
    live_client_put_acquire(head, 5, "", 0, 1, 2);
    put_be32(head + 4, (uint32_t)MIB);
    say_with_surplus(r, p, head, 22, MIB - 10);
    expect_failure(r, p, LIVE_CLIENT_ACQUIRE, LIVE_CLIENT_INVALID, 5);

    live_client_put(head, LIVE_CLIENT_DUMP, 6, NULL, 0);
    put_be32(head + 4, (uint32_t)MIB);
    say_with_surplus(r, p, head, 12, MIB);
    await_bytes(r, p, 12 + 10 + sizeof name + 12);
    p->size = 0;

    say_bytes(r, p, bytes,
              live_client_put(bytes, LIVE_CLIENT_NOOP, 7, NULL, 0));
    expect_done(r, p, LIVE_CLIENT_NOOP, 7);
    assert_int_equal(bytes_kept(r), 0);
}

/* ---- dialogues --------------------------------------------------------- */

static void
turn_for_client(void *ctx)
{
    run_turns(ctx, 3);
}

static void
open_listener(void *ctx, struct live_client *t)
{
    struct fixture *r = ctx;

    live_client_open(t, r->port);
    t->turn = turn_for_client;
    t->turn_ctx = r;
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
