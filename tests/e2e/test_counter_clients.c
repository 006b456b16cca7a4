/* tests/e2e/test_counter_clients.c - how clients of the field speak the counter
 * protocol, byte by byte: the command yc-cnt of libyrmcds as seen on the wire,
 * and an nginx module that holds one of a counter while it serves a request,
 * written from the module's source and its run. */
#include "tests/lib/test.h"

#include "tests/lib/live_client.h"
#include "tests/lib/live_daemon.h"

/* ---- yc-cnt -------------------------------------------------------------- */

/* A run of the command: a connection of its own, one request with the serial
 * number 1 in the order of x86's bytes, and the end of the process. */
static void
run(struct live_daemon *r, const char *request, const char *response)
{
    struct live_client t;

    live_client_open(&t, r->counter);
    live_client_exchange(&t, request, response);
    live_client_close(&t); /* no byte more than it reads */
}

static void
await_given_back(struct live_daemon *r, const char *name)
{
    struct live_client t;

    live_client_open(&t, r->counter);
    live_client_await(&t, name, 0);
    live_client_close(&t);
}

#define CASE(name, r)                                                          \
    TEST_IN(name, struct live_daemon *r, live_daemon_setup,                    \
            live_daemon_teardown)

CASE(each_command_of_yc_cnt_has_its_answer, r)
{
    live_daemon_start(r, NULL);
    /* noop */
    run(r, "90 00 0000 00000000 01000000", "91 00 0000 00000000 01000000");
    /* get yc:a: ERROR: 01 Not found */
    run(r, "90 01 0000 00000006 01000000 0004 79633a61",
        "91 01 0100 00000009 01000000 4e6f7420666f756e64");
    /* dump of nothing */
    run(r, "90 11 0000 00000000 01000000", "91 11 0000 00000000 01000000");
    /* acquire yc:a 3 10: 3, and given back as the process ends */
    run(r, "90 02 0000 0000000e 01000000 00000003 0000000a 0004 79633a61",
        "91 02 0000 00000004 01000000 00000003");
    await_given_back(r, "yc:a");
    /* get yc:a: 0 */
    run(r, "90 01 0000 00000006 01000000 0004 79633a61",
        "91 01 0000 00000004 01000000 00000000");
    /* release yc:a 3: ERROR: 22 Not acquired */
    run(r, "90 03 0000 0000000a 01000000 00000003 0004 79633a61",
        "91 03 2200 0000000c 01000000 4e6f74206163717569726564");
    /* dump: 0 3 yc:a */
    run(r, "90 11 0000 00000000 01000000",
        "91 11 0000 0000000e 01000000 00000000 00000003 0004 79633a61"
        "91 11 0000 00000000 01000000");
}

/* What the command prints line by line must fill the body of Stats exactly. */
CASE(the_stats_of_yc_cnt_fill_their_body, r)
{
    struct live_client_answer answer;
    struct live_client t;
    uint32_t at = 0;

    live_daemon_start(r, NULL);
    live_client_open(&t, r->counter);
    live_client_send(&t, "\x90\x10\0\0\0\0\0\0\1\0\0\0", LIVE_CLIENT_HEADER);
    live_client_read(&t, &answer);
    assert_int_equal(answer.opcode, LIVE_CLIENT_STATS);
    assert_int_equal(answer.status, LIVE_CLIENT_OK);
    assert_int_equal(answer.opaque, 0x01000000);
    while (at < answer.size) {
        assert_true(answer.size - at >= 4);
        at += 4u + (unsigned)(answer.body[at] << 8 | answer.body[at + 1]) +
              (unsigned)(answer.body[at + 2] << 8 | answer.body[at + 3]);
    }
    assert_int_equal(at, answer.size);
    live_client_close(&t);
}

/* ---- the nginx module ---------------------------------------------------- */

#define ONE_OF_TWO                                                             \
    "90 02 0000 00000010 00000000 00000001 00000002 0006 2f736c6f772f"
#define ONE_BACK "90 03 0000 0000000c 00000000 00000001 0006 2f736c6f772f"
#define GOT_ONE  "91 02 0000 00000004 00000000 00000001"
#define GIVEN    "91 03 0000 00000000 00000000"
/* 34 bytes; the module has room for 64. */
#define NONE_LEFT                                                              \
    "91 02 2100 00000016 00000000"                                             \
    "5265736f75726365206e6f7420617661696c61626c65"

/* One connection per request that is being served, kept for later ones; every
 * opaque is 0; a byte or an end that it did not ask for is an error to it. */
CASE(an_nginx_holds_one_per_request_and_keeps_its_connections, r)
{
    struct live_client one, two, three;

    live_daemon_start(r, NULL);
    live_client_open(&one, r->counter);
    live_client_open(&two, r->counter);
    live_client_open(&three, r->counter);
    live_client_exchange(&one, ONE_OF_TWO, GOT_ONE);
    live_client_exchange(&two, ONE_OF_TWO, GOT_ONE);
    /* 429 Too Many Requests, and the connection is kept */
    live_client_exchange(&three, ONE_OF_TWO, NONE_LEFT);
    live_client_exchange(&one, ONE_BACK, GIVEN);
    live_client_exchange(&three, ONE_OF_TWO, GOT_ONE);
    /* as it looks at the ones it keeps */
    live_client_expect_nothing(&one, 0);
    live_client_exchange(&one, ONE_OF_TWO, NONE_LEFT);
    /* a worker process dies with what it holds */
    live_client_reset(&two);
    live_client_await(&one, "/slow/", 1);
    live_client_exchange(&one, ONE_OF_TWO, GOT_ONE);
    live_client_exchange(&one, ONE_BACK, GIVEN);
    live_client_exchange(&three, ONE_BACK, GIVEN);
    assert_int_equal(live_client_get(&three, "/slow/"), 0);
    live_client_close(&one);
    live_client_close(&three);
}
