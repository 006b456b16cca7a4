/* tests/unit/live_requests.h - requests of the peers of live_fixture.h, and the
 * answers that they wait for, byte for byte.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_LIVE_REQUESTS_H
#define COUNTD_TESTS_UNIT_LIVE_REQUESTS_H

#include "tests/unit/live_fixture.h"

#include <stdio.h>
#include <string.h>

/* ---- answers ----------------------------------------------------------- */

static inline size_t
put_answer(uint8_t *at, uint8_t opcode, uint8_t status, uint32_t opaque,
           const void *body, size_t size)
{
    at[0] = 0x91;
    at[1] = opcode;
    at[2] = status;
    at[3] = 0;
    put_be32(at + 4, (uint32_t)size);
    put_be32(at + 8, opaque);
    if (size > 0)
        memcpy(at + 12, body, size);
    return 12 + size;
}

static inline size_t
put_failure(uint8_t *at, uint8_t opcode, uint8_t status, uint32_t opaque)
{
    const char *text = status == LIVE_CLIENT_NOT_FOUND ? "Not found"
                       : status == LIVE_CLIENT_INVALID ? "Invalid arguments"
                       : status == LIVE_CLIENT_FULL ? "Resource not available"
                       : status == LIVE_CLIENT_NOT_HELD  ? "Not acquired"
                       : status == LIVE_CLIENT_NO_MEMORY ? "OutOfMemory"
                                                         : "Unknown command";

    return put_answer(at, opcode, status, opaque, text, strlen(text));
}

static inline size_t
put_value(uint8_t *at, uint8_t opcode, uint32_t opaque, uint32_t v)
{
    uint8_t body[4];

    put_be32(body, v);
    return put_answer(at, opcode, LIVE_CLIENT_OK, opaque, body, sizeof body);
}

static inline void
expect_failure(struct fixture *r, struct peer *p, uint8_t opcode,
               uint8_t status, uint32_t opaque)
{
    uint8_t bytes[64];

    expect_bytes(r, p, bytes, put_failure(bytes, opcode, status, opaque));
}

static inline void
expect_number(struct fixture *r, struct peer *p, uint8_t opcode,
              uint32_t opaque, uint32_t v)
{
    uint8_t bytes[64];

    expect_bytes(r, p, bytes, put_value(bytes, opcode, opaque, v));
}

static inline void
expect_done(struct fixture *r, struct peer *p, uint8_t opcode, uint32_t opaque)
{
    uint8_t bytes[64];

    expect_bytes(r, p, bytes,
                 put_answer(bytes, opcode, LIVE_CLIENT_OK, opaque, NULL, 0));
}

/* ---- round trips ------------------------------------------------------- */

static inline void
ask_noop(struct fixture *r, struct peer *p)
{
    uint8_t bytes[LIVE_CLIENT_HEADER];

    say_bytes(r, p, bytes,
              live_client_put(bytes, LIVE_CLIENT_NOOP, 0x6e6f6f70, NULL, 0));
    expect_done(r, p, LIVE_CLIENT_NOOP, 0x6e6f6f70);
}

static inline void
ask_acquire(struct fixture *r, struct peer *p, const char *name,
            uint32_t resources, uint32_t bound)
{
    uint8_t bytes[256];

    say_bytes(r, p, bytes,
              live_client_put_acquire(bytes, 7, name, strlen(name), resources,
                                      bound));
    expect_number(r, p, LIVE_CLIENT_ACQUIRE, 7, resources);
}

static inline void
expect_get(struct fixture *r, struct peer *p, const char *name, uint32_t v)
{
    uint8_t bytes[256];

    say_bytes(r, p, bytes, live_client_put_get(bytes, 8, name, strlen(name)));
    expect_number(r, p, LIVE_CLIENT_GET, 8, v);
}

static inline void
expect_absent(struct fixture *r, struct peer *p, const char *name)
{
    uint8_t bytes[256];

    say_bytes(r, p, bytes, live_client_put_get(bytes, 8, name, strlen(name)));
    expect_failure(r, p, LIVE_CLIENT_GET, LIVE_CLIENT_NOT_FOUND, 8);
}

/* Acquires 1 of each of `count` names, pipelined. */
static inline void
acquire_many(struct fixture *r, struct peer *p, size_t count)
{
    uint8_t *bytes = test_memory(malloc(count * 64)), *at = bytes;
    char name[32];
    size_t i, size;

    for (i = 0; i < count; i++) {
        size = (size_t)snprintf(name, sizeof name, "many:%zu", i);
        at += live_client_put_acquire(at, (uint32_t)i, name, size, 1, 10);
    }
    send_later(p, bytes, (size_t)(at - bytes));
    await_bytes(r, p, 16 * count);
    assert_int_equal(p->size, 16 * count);
    for (i = 0; i < count; i++) {
        assert_int_equal(p->in[16 * i + 2], LIVE_CLIENT_OK);
        assert_int_equal(get_be32(p->in + 16 * i + 8), i);
    }
    p->size = 0;
    free(bytes);
}

/* One of each kind; leaves nothing behind that the next time would see. */
static inline size_t
mixed_requests(uint8_t *bytes, uint8_t *answers, size_t *answers_size)
{
    static const char name[] = "a name above what is kept in the struct: "
                               "sixty four bytes and some more";
    const size_t size = sizeof name - 1;
    uint8_t *at = bytes, *to = answers;

    at += live_client_put(at, LIVE_CLIENT_NOOP, 1, NULL, 0);
    to += put_answer(to, LIVE_CLIENT_NOOP, LIVE_CLIENT_OK, 1, NULL, 0);
    at += live_client_put_acquire(at, 2, "short", 5, 2, 3);
    to += put_value(to, LIVE_CLIENT_ACQUIRE, 2, 2);
    at += live_client_put(at, LIVE_CLIENT_GET, 3, "\0\5short and surplus",
                          2 + 17);
    to += put_value(to, LIVE_CLIENT_GET, 3, 2);
    at += live_client_put_acquire(at, 4, name, size, 1, 3);
    to += put_value(to, LIVE_CLIENT_ACQUIRE, 4, 1);
    at += live_client_put_release(at, 5, name, size, 1);
    to += put_answer(to, LIVE_CLIENT_RELEASE, LIVE_CLIENT_OK, 5, NULL, 0);
    at += live_client_put(at, LIVE_CLIENT_GET, 6, "\0\0", 2);
    to += put_failure(to, LIVE_CLIENT_GET, LIVE_CLIENT_INVALID, 6);
    at += live_client_put(at, LIVE_CLIENT_ACQUIRE, 6, "short", 5);
    to += put_failure(to, LIVE_CLIENT_ACQUIRE, LIVE_CLIENT_INVALID, 6);
    at +=
        live_client_put(at, LIVE_CLIENT_RELEASE, 6, "\0\0\0\1\0\7runs on", 12);
    to += put_failure(to, LIVE_CLIENT_RELEASE, LIVE_CLIENT_INVALID, 6);
    at += live_client_put(at, 0x33, 7, "body of nothing", 15);
    to += put_failure(to, 0x33, LIVE_CLIENT_UNKNOWN, 7);
    at += live_client_put(at, LIVE_CLIENT_NOOP, 8,
                          "0123456789012345678901234567890", 31);
    to += put_answer(to, LIVE_CLIENT_NOOP, LIVE_CLIENT_OK, 8, NULL, 0);
    at += live_client_put_release(at, 9, "short", 5, 2);
    to += put_answer(to, LIVE_CLIENT_RELEASE, LIVE_CLIENT_OK, 9, NULL, 0);
    *answers_size = (size_t)(to - answers);
    return (size_t)(at - bytes);
}

#endif
