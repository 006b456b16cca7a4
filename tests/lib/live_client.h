/* tests/lib/live_client.h - a client of the counter and semaphore protocols by
 * hand, so that tests trust neither the library nor the codec they test.
 *
 *     live_client_open(&a, port);
 *     assert_int_equal(live_client_acquire(&a, "lamps", 3, 10),
 * LIVE_CLIENT_OK); assert_int_equal(live_client_get(&a, "lamps"), 3);
 *     live_client_close(&a);
 *
 * Every answer is checked whole: magic, opcode and opaque as asked, the zero
 * byte, the size, and the text of an error byte for byte.  Everything blocks
 * with a deadline and fails the test on what it does not expect.
 *
 * Ownership: struct live_client is the caller's from live_client_open() to one
 * of the three ends.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_LIVE_CLIENT_H
#define COUNTD_TESTS_LIB_LIVE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

/* Opcodes. */
#define LIVE_CLIENT_NOOP    0x00
#define LIVE_CLIENT_GET     0x01
#define LIVE_CLIENT_ACQUIRE 0x02
#define LIVE_CLIENT_RELEASE 0x03
#define LIVE_CLIENT_STATS   0x10
#define LIVE_CLIENT_DUMP    0x11

/* Statuses. */
#define LIVE_CLIENT_OK        0x00
#define LIVE_CLIENT_NOT_FOUND 0x01
#define LIVE_CLIENT_INVALID   0x04
#define LIVE_CLIENT_FULL      0x21
#define LIVE_CLIENT_NOT_HELD  0x22
#define LIVE_CLIENT_UNKNOWN   0x81
#define LIVE_CLIENT_NO_MEMORY 0x82

#define LIVE_CLIENT_HEADER   12
#define LIVE_CLIENT_NAME_MAX 65535
/* Room for a request without its name. */
#define LIVE_CLIENT_FIXED (LIVE_CLIENT_HEADER + 10)

struct live_client {
    int fd;
    uint32_t serial; /* opaque of the last request of a round trip */
    uint8_t *in;
    size_t at, have; /* what is read and not looked at */
    /* Test that is skipped when no answer comes, where the server is not ours
     * and is known to fall silent; NULL: then it fails. */
    const char *skips;
    /* Where the server is a loop in this process, and `fd` does not block: gives
     * it some turns, instead of waiting.  NULL: the server runs by itself. */
    void (*turn)(void *ctx);
    void *turn_ctx;
};

void live_client_open(struct live_client *t, uint16_t port);

/* On a connection that there is, which it closes. */
void live_client_take(struct live_client *t, int fd);

/* Three ways to go.  The first fails when an answer has not been looked at;
 * the second is a reset, the third closes whatever there may be to read. */
void live_client_close(struct live_client *t);
void live_client_reset(struct live_client *t);
void live_client_drop(struct live_client *t);

/* Nothing more will be sent; answers are still read. */
void live_client_half_close(struct live_client *t);

/* The server closes without another byte. */
void live_client_expect_end(struct live_client *t);

/* Nothing is there to be read, now or within wait_ms. */
void live_client_expect_nothing(struct live_client *t, int wait_ms);

/* ---- requests ----------------------------------------------------------- */

/* Each writes one request and returns its size.  Get has neither resources nor
 * a bound, Release no bound. */
size_t live_client_put(uint8_t *at, uint8_t opcode, uint32_t opaque,
                       const void *body, size_t size);
size_t live_client_put_named(uint8_t *at, uint8_t opcode, uint32_t opaque,
                             const void *name, size_t size, uint32_t resources,
                             uint32_t bound);
#define live_client_put_get(at, opaque, name, size)                            \
    live_client_put_named(at, LIVE_CLIENT_GET, opaque, name, size, 0, 0)
#define live_client_put_acquire(at, opaque, name, size, resources, bound)      \
    live_client_put_named(at, LIVE_CLIENT_ACQUIRE, opaque, name, size,         \
                          resources, bound)
#define live_client_put_release(at, opaque, name, size, resources)             \
    live_client_put_named(at, LIVE_CLIENT_RELEASE, opaque, name, size,         \
                          resources, 0)

void live_client_send(const struct live_client *t, const void *bytes,
                      size_t size);

/* ---- answers ------------------------------------------------------------ */

struct live_client_answer {
    uint8_t opcode, status;
    uint32_t opaque;
    uint32_t size;
    const uint8_t *body; /* until the next call */
};

/* The next answer; its magic, its zero byte and, of an error, its text are
 * right. */
void live_client_read(struct live_client *t, struct live_client_answer *out);

/* The next answer is this one.  An error: no body is given, it is the text. */
void live_client_expect(struct live_client *t, uint8_t opcode, uint32_t opaque,
                        uint8_t status, const void *body, size_t size);
void live_client_expect_u32(struct live_client *t, uint8_t opcode,
                            uint32_t opaque, uint32_t value);

/* Bytes from hexadecimal digits, of which `max` have room; blanks are skipped.
 * Their number. */
size_t live_client_from_hex(const char *text, uint8_t *bytes, size_t max);

/* The next bytes are these. */
void live_client_expect_digits(struct live_client *t, const char *answer);

/* ---- round trips -------------------------------------------------------- */

void live_client_noop(struct live_client *t);

/* The status. */
int live_client_acquire(struct live_client *t, const char *name,
                        uint32_t resources, uint32_t bound);
int live_client_release(struct live_client *t, const char *name,
                        uint32_t resources);

/* The value, or minus the status. */
int64_t live_client_get(struct live_client *t, const char *name);

/* The same with any bytes as name. */
int live_client_acquire_bytes(struct live_client *t, const void *name,
                              size_t size, uint32_t resources, uint32_t bound);
int64_t live_client_get_bytes(struct live_client *t, const void *name,
                              size_t size);

/* Asks until live_client_get() gives this, with a deadline. */
void live_client_await(struct live_client *t, const char *name, int64_t value);

/* ---- Stats -------------------------------------------------------------- */

#define LIVE_CLIENT_STATS_MAX 64

struct live_client_stats {
    size_t count;
    char name[LIVE_CLIENT_STATS_MAX][64];
    uint64_t value[LIVE_CLIENT_STATS_MAX];
};

/* Values that are no decimal numbers fail the test. */
void live_client_stats(struct live_client *t, struct live_client_stats *out);

/* The answer to a Stats that was sent. */
void live_client_read_stats(struct live_client *t, uint32_t opaque,
                            struct live_client_stats *out);
uint64_t live_client_stat(const struct live_client_stats *s, const char *name);

/* Asks until one of them is this. */
void live_client_await_stat(struct live_client *t, const char *name,
                            uint64_t value);

/* ---- Dump --------------------------------------------------------------- */

struct live_client_record {
    uint32_t current, maximum;
    uint16_t size;
    uint8_t *name;
};

struct live_client_dump {
    struct live_client_record *record;
    size_t count, capacity;
};

/* All of it; live_client_dump_free() after. */
void live_client_dump(struct live_client *t, struct live_client_dump *out);

/* Answers to a Dump that was sent, up to and with the end record. */
void live_client_read_dump(struct live_client *t, uint32_t opaque,
                           struct live_client_dump *out);

/* The one record of this name; fails the test when there are more.  NULL:
 * none. */
const struct live_client_record *
live_client_dump_find(const struct live_client_dump *d, const char *name);
void live_client_dump_free(struct live_client_dump *d);

#endif
