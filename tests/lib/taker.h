/* tests/lib/taker.h - a client of the counter and semaphore protocols by hand,
 * so that tests trust neither the library nor the codec they test.
 *
 *     taker_open(&a, port);
 *     assert_int_equal(taker_acquire(&a, "lamps", 3, 10), TAKER_OK);
 *     assert_int_equal(taker_get(&a, "lamps"), 3);
 *     taker_close(&a);
 *
 * Every answer is checked whole: magic, opcode and opaque as asked, the zero
 * byte, the size, and the text of an error byte for byte.  Everything blocks
 * with a deadline and fails the test on what it does not expect.
 *
 * Ownership: struct taker is the caller's from taker_open() to one of the
 * three ends.
 */
#ifndef COUNTD_TESTS_LIB_TAKER_H
#define COUNTD_TESTS_LIB_TAKER_H

#include <stddef.h>
#include <stdint.h>

/* Opcodes. */
#define TAKER_NOOP    0x00
#define TAKER_GET     0x01
#define TAKER_ACQUIRE 0x02
#define TAKER_RELEASE 0x03
#define TAKER_STATS   0x10
#define TAKER_DUMP    0x11
#define TAKER_WHO     0x57

/* Statuses. */
#define TAKER_OK        0x00
#define TAKER_NOT_FOUND 0x01
#define TAKER_INVALID   0x04
#define TAKER_FULL      0x21
#define TAKER_NOT_HELD  0x22
#define TAKER_UNKNOWN   0x81
#define TAKER_NO_MEMORY 0x82

#define TAKER_HEADER   12
#define TAKER_NAME_MAX 65535
/* Room for a request without its name. */
#define TAKER_FIXED (TAKER_HEADER + 10)

struct taker {
    int fd;
    uint32_t serial; /* opaque of the last request of a round trip */
    uint8_t *in;
    size_t at, have; /* what is read and not looked at */
    /* Test that is skipped when no answer comes, where the server is not ours
     * and is known to fall silent; NULL: then it fails. */
    const char *skips;
    /* Where the server is a loop in this process: gives it some turns, instead
     * of waiting.  NULL: the server runs by itself. */
    void (*turn)(void *ctx);
    void *turn_ctx;
};

void taker_open(struct taker *t, uint16_t port);

/* The same over a socket that is connected already. */
void taker_take(struct taker *t, int fd);

/* Three ways to go.  The first fails when an answer has not been looked at;
 * the second is a reset, the third closes whatever there may be to read. */
void taker_close(struct taker *t);
void taker_reset(struct taker *t);
void taker_drop(struct taker *t);

/* Nothing more will be sent; answers are still read. */
void taker_half_close(struct taker *t);

/* The server closes without another byte. */
void taker_expect_end(struct taker *t);

/* Nothing is there to be read, now or within wait_ms. */
void taker_expect_nothing(struct taker *t, int wait_ms);

/* Gives the server time: some turns of its loop, or up to wait_ms. */
void taker_wait(struct taker *t, int wait_ms);

/* ---- requests ----------------------------------------------------------- */

/* Each writes one request and returns its size. */
size_t taker_put(uint8_t *at, uint8_t opcode, uint32_t opaque, const void *body,
                 size_t size);
size_t taker_put_get(uint8_t *at, uint32_t opaque, const void *name,
                     size_t size);
size_t taker_put_acquire(uint8_t *at, uint32_t opaque, const void *name,
                         size_t size, uint32_t resources, uint32_t bound);
size_t taker_put_release(uint8_t *at, uint32_t opaque, const void *name,
                         size_t size, uint32_t resources);

void taker_send(const struct taker *t, const void *bytes, size_t size);

/* ---- answers ------------------------------------------------------------ */

struct taker_answer {
    uint8_t opcode, status;
    uint32_t opaque;
    uint32_t size;
    const uint8_t *body; /* until the next call */
};

/* The next answer; its magic, its zero byte and, of an error, its text are
 * right. */
void taker_read(struct taker *t, struct taker_answer *out);

/* The next answer is this one.  An error: no body is given, it is the text. */
void taker_expect(struct taker *t, uint8_t opcode, uint32_t opaque,
                  uint8_t status, const void *body, size_t size);
void taker_expect_u32(struct taker *t, uint8_t opcode, uint32_t opaque,
                      uint32_t value);

/* Bytes from hexadecimal digits, of which `max` have room; blanks are skipped.
 * Their number. */
size_t taker_from_hex(const char *text, uint8_t *bytes, size_t max);

/* The next bytes are these. */
void taker_expect_digits(struct taker *t, const char *answer);

/* Sends bytes and expects bytes, both as hexadecimal digits; blanks are
 * skipped. */
void taker_exchange(struct taker *t, const char *request, const char *answer);

/* ---- round trips -------------------------------------------------------- */

void taker_noop(struct taker *t);

/* The status. */
int taker_acquire(struct taker *t, const char *name, uint32_t resources,
                  uint32_t bound);
int taker_release(struct taker *t, const char *name, uint32_t resources);

/* The value, or minus the status. */
int64_t taker_get(struct taker *t, const char *name);

/* The same with any bytes as name. */
int taker_acquire_bytes(struct taker *t, const void *name, size_t size,
                        uint32_t resources, uint32_t bound);
int taker_release_bytes(struct taker *t, const void *name, size_t size,
                        uint32_t resources);
int64_t taker_get_bytes(struct taker *t, const void *name, size_t size);

/* Asks until taker_get() gives this, with a deadline. */
void taker_await(struct taker *t, const char *name, int64_t value);

/* ---- Stats -------------------------------------------------------------- */

#define TAKER_STATS_MAX 64

struct taker_stats {
    size_t count;
    char name[TAKER_STATS_MAX][64];
    uint64_t value[TAKER_STATS_MAX];
};

/* Values that are no decimal numbers fail the test. */
void taker_stats(struct taker *t, struct taker_stats *out);

/* The answer to a Stats that was sent. */
void taker_read_stats(struct taker *t, uint32_t opaque,
                      struct taker_stats *out);
uint64_t taker_stat(const struct taker_stats *s, const char *name);

/* Asks until one of them is this. */
void taker_await_stat(struct taker *t, const char *name, uint64_t value);

/* ---- Dump --------------------------------------------------------------- */

struct taker_record {
    uint32_t current, maximum;
    uint16_t size;
    uint8_t *name;
};

struct taker_dump {
    struct taker_record *record;
    size_t count, capacity;
};

/* All of it; taker_dump_free() after. */
void taker_dump(struct taker *t, struct taker_dump *out);

/* Answers to a Dump that was sent, up to and with the end record. */
void taker_read_dump(struct taker *t, uint32_t opaque, struct taker_dump *out);

/* The one record of this name; fails the test when there are more.  NULL:
 * none. */
const struct taker_record *taker_dump_find(const struct taker_dump *d,
                                           const char *name);
void taker_dump_free(struct taker_dump *d);

#endif
