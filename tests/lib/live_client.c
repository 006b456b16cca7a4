/* tests/lib/live_client.c - see live_client.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/live_client.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/test.h"

#define IN_SIZE       ((size_t)128 << 10) /* above the longest answer */
#define WAIT_MS       20000               /* for what comes by itself */
#define EXCHANGE_SIZE 4096

/* ---- connections -------------------------------------------------------- */

void
live_client_take(struct live_client *t, int fd)
{
    *t = (struct live_client){.fd = fd, .in = test_memory(malloc(IN_SIZE))};
}

void
live_client_open(struct live_client *t, uint16_t port)
{
    live_client_take(t, client_connect(port));
}

static void
forget_input(struct live_client *t)
{
    free(t->in);
    *t = (struct live_client){.fd = -1};
}

void
live_client_close(struct live_client *t)
{
    live_client_expect_nothing(t, 0);
    live_client_drop(t);
}

void
live_client_reset(struct live_client *t)
{
    client_reset(t->fd);
    forget_input(t);
}

void
live_client_drop(struct live_client *t)
{
    client_close(t->fd);
    forget_input(t);
}

void
live_client_half_close(struct live_client *t)
{
    if (shutdown(t->fd, SHUT_WR) < 0)
        fail_msg("shutdown: %s", strerror(errno));
}

/* Reads bytes that have come by now, or within wait_ms: as client_try_read().
 * The calls of a server in this process, of which some may fail, are recv() and
 * send(). */
static long
look_for(struct live_client *t, void *bytes, size_t size, int wait_ms)
{
    ssize_t n;

    if (!t->turn)
        return client_try_read(t->fd, bytes, size, wait_ms);
    t->turn(t->turn_ctx);
    n = read(t->fd, bytes, size);
    return n < 0 ? -errno : n;
}

/* Reads until `size` bytes are there, at in + at; false at the end. */
static bool
gather_bytes(struct live_client *t, size_t size)
{
    const uint64_t deadline = test_deadline(WAIT_MS);
    long n;

    if (t->at == t->have || t->at + size > IN_SIZE) {
        memmove(t->in, t->in + t->at, t->have - t->at);
        t->have -= t->at;
        t->at = 0;
    }
    while (t->have - t->at < size) {
        n = look_for(t, t->in + t->have, IN_SIZE - t->have, 1000);
        if (n == -EAGAIN && clock_ms() < deadline)
            continue;
        if (n == -EAGAIN && t->skips) {
            test_say_skip(t->skips, "the other server fell silent");
            skip();
        }
        if (n == -EAGAIN)
            fail_msg("no answer in time: %zu of %zu bytes", t->have - t->at,
                     size);
        if (n <= 0)
            return false;
        t->have += (size_t)n;
    }
    return true;
}

void
live_client_expect_end(struct live_client *t)
{
    if (gather_bytes(t, 1))
        fail_msg("%zu bytes came where the end was expected", t->have - t->at);
}

void
live_client_expect_nothing(struct live_client *t, int wait_ms)
{
    uint8_t byte;
    long n;

    if (t->have > t->at)
        fail_msg("%zu bytes nobody asked for", t->have - t->at);
    n = look_for(t, &byte, 1, wait_ms);
    if (n != -EAGAIN)
        fail_msg("%s where silence was expected", n > 0    ? "a byte came"
                                                  : n == 0 ? "the end came"
                                                           : strerror((int)-n));
}

/* ---- requests ----------------------------------------------------------- */

static void
put_header(uint8_t *at, uint8_t opcode, uint32_t opaque, size_t size)
{
    at[0] = 0x90;
    at[1] = opcode;
    at[2] = 0;
    at[3] = 0;
    put_be32(at + 4, (uint32_t)size);
    put_be32(at + 8, opaque);
}

size_t
live_client_put(uint8_t *at, uint8_t opcode, uint32_t opaque, const void *body,
                size_t size)
{
    put_header(at, opcode, opaque, size);
    if (size > 0)
        memcpy(at + LIVE_CLIENT_HEADER, body, size);
    return LIVE_CLIENT_HEADER + size;
}

size_t
live_client_put_named(uint8_t *at, uint8_t opcode, uint32_t opaque,
                      const void *name, size_t size, uint32_t resources,
                      uint32_t bound)
{
    uint8_t *end = at + LIVE_CLIENT_HEADER;

    if (size > LIVE_CLIENT_NAME_MAX)
        fail_msg("a name of %zu bytes", size);
    if (opcode != LIVE_CLIENT_GET) {
        put_be32(end, resources);
        end += 4;
    }
    if (opcode == LIVE_CLIENT_ACQUIRE) {
        put_be32(end, bound);
        end += 4;
    }
    put_be16(end, (uint16_t)size);
    memcpy(end + 2, name, size);
    end += 2 + size;
    put_header(at, opcode, opaque, (size_t)(end - at) - LIVE_CLIENT_HEADER);
    return (size_t)(end - at);
}

void
live_client_send(const struct live_client *t, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    ssize_t n;

    if (!t->turn) {
        client_send(t->fd, bytes, size);
        return;
    }
    for (; size > 0; at += n, size -= (size_t)n) {
        n = write(t->fd, at, size);
        if (n < 0 && errno != EAGAIN)
            fail_msg("write: %s", strerror(errno));
        if (n < 0) {
            t->turn(t->turn_ctx);
            n = 0;
        }
    }
}

/* ---- answers ------------------------------------------------------------ */

static const char *
text_of(uint8_t status)
{
    static const char *const texts[256] = {
        [LIVE_CLIENT_NOT_FOUND] = "Not found",
        [LIVE_CLIENT_INVALID] = "Invalid arguments",
        [LIVE_CLIENT_FULL] = "Resource not available",
        [LIVE_CLIENT_NOT_HELD] = "Not acquired",
        [LIVE_CLIENT_UNKNOWN] = "Unknown command",
        [LIVE_CLIENT_NO_MEMORY] = "OutOfMemory"};

    if (!texts[status])
        fail_msg("an answer with the status 0x%02x", status);
    return texts[status];
}

void
live_client_read(struct live_client *t, struct live_client_answer *out)
{
    const uint8_t *h;

    if (!gather_bytes(t, LIVE_CLIENT_HEADER))
        fail_msg("the server closed where an answer was expected");
    h = t->in + t->at;
    if (h[0] != 0x91 || h[3] != 0)
        fail_msg("an answer's magic is %02x and its reserved byte %02x", h[0],
                 h[3]);
    *out = (struct live_client_answer){.opcode = h[1],
                                       .status = h[2],
                                       .size = get_be32(h + 4),
                                       .opaque = get_be32(h + 8)};
    if (out->size > IN_SIZE - LIVE_CLIENT_HEADER)
        fail_msg("an answer of %u bytes", out->size);
    if (!gather_bytes(t, LIVE_CLIENT_HEADER + out->size))
        fail_msg("the server closed within an answer");
    out->body = t->in + t->at + LIVE_CLIENT_HEADER;
    t->at += LIVE_CLIENT_HEADER + out->size;
    if (out->status != LIVE_CLIENT_OK &&
        (out->size != strlen(text_of(out->status)) ||
         memcmp(out->body, text_of(out->status), out->size) != 0))
        fail_msg("the text of status 0x%02x is '%.*s'", out->status,
                 (int)out->size, (const char *)out->body);
}

/* The next answer is one to this request. */
static void
read_answer(struct live_client *t, uint8_t opcode, uint32_t opaque,
            struct live_client_answer *out)
{
    live_client_read(t, out);
    if (out->opcode != opcode || out->opaque != opaque)
        fail_msg("an answer with opcode %02x and opaque %08x instead of %02x "
                 "and %08x (status %02x)",
                 out->opcode, out->opaque, opcode, opaque, out->status);
}

void
live_client_expect(struct live_client *t, uint8_t opcode, uint32_t opaque,
                   uint8_t status, const void *body, size_t size)
{
    struct live_client_answer a;

    read_answer(t, opcode, opaque, &a);
    if (a.status != status)
        fail_msg("the status to opcode %02x, opaque %08x is %02x, not %02x",
                 opcode, opaque, a.status, status);
    if (status == LIVE_CLIENT_OK &&
        (a.size != size || (size > 0 && memcmp(a.body, body, size) != 0)))
        fail_msg("the answer to opcode %02x, opaque %08x has another body "
                 "(%u bytes)",
                 opcode, opaque, a.size);
}

void
live_client_expect_u32(struct live_client *t, uint8_t opcode, uint32_t opaque,
                       uint32_t value)
{
    uint8_t body[4];

    put_be32(body, value);
    live_client_expect(t, opcode, opaque, LIVE_CLIENT_OK, body, sizeof body);
}

/* ---- hexadecimal digits ------------------------------------------------- */

static int
hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, tolower(c));

    if (!at || c == '\0')
        fail_msg("'%c' is no hexadecimal digit", c);
    return (int)(at - digits);
}

size_t
live_client_from_hex(const char *text, uint8_t *bytes, size_t max)
{
    size_t size = 0;

    for (; *text; text += 2) {
        while (*text == ' ')
            text++;
        if (!*text)
            break;
        if (size == max)
            fail_msg("too many digits");
        bytes[size++] = (uint8_t)(hex_digit(text[0]) * 16 + hex_digit(text[1]));
    }
    return size;
}

static void
show_bytes(const char *what, const uint8_t *bytes, size_t size)
{
    print_error("%s", what);
    for (size_t i = 0; i < size; i++)
        print_error(" %02x", bytes[i]);
    print_error("\n");
}

void
live_client_expect_digits(struct live_client *t, const char *answer)
{
    uint8_t bytes[EXCHANGE_SIZE];
    const size_t size = live_client_from_hex(answer, bytes, sizeof bytes);

    if (gather_bytes(t, size) && memcmp(t->in + t->at, bytes, size) == 0) {
        t->at += size;
        return;
    }
    show_bytes("expected", bytes, size);
    show_bytes("got     ", t->in + t->at,
               t->have - t->at < size ? t->have - t->at : size);
    fail_msg("another answer than expected");
}

/* ---- round trips -------------------------------------------------------- */

/* Sends a request without a body. */
static void
send_plain(struct live_client *t, uint8_t opcode)
{
    uint8_t bytes[LIVE_CLIENT_HEADER];

    live_client_send(t, bytes,
                     live_client_put(bytes, opcode, ++t->serial, NULL, 0));
}

void
live_client_noop(struct live_client *t)
{
    send_plain(t, LIVE_CLIENT_NOOP);
    live_client_expect(t, LIVE_CLIENT_NOOP, t->serial, LIVE_CLIENT_OK, NULL, 0);
}

/* Sends a request with a name, and reads its answer. */
static struct live_client_answer
ask_named(struct live_client *t, uint8_t opcode, const void *name, size_t size,
          uint32_t resources, uint32_t bound)
{
    static uint8_t bytes[LIVE_CLIENT_FIXED + LIVE_CLIENT_NAME_MAX];
    struct live_client_answer a;

    live_client_send(t, bytes,
                     live_client_put_named(bytes, opcode, ++t->serial, name,
                                           size, resources, bound));
    read_answer(t, opcode, t->serial, &a);
    return a;
}

int
live_client_acquire_bytes(struct live_client *t, const void *name, size_t size,
                          uint32_t resources, uint32_t bound)
{
    const struct live_client_answer a =
        ask_named(t, LIVE_CLIENT_ACQUIRE, name, size, resources, bound);

    if (a.status == LIVE_CLIENT_OK &&
        (a.size != 4 || get_be32(a.body) != resources))
        fail_msg("Acquire of %u was answered with %u bytes", resources, a.size);
    return a.status;
}

int
live_client_release(struct live_client *t, const char *name, uint32_t resources)
{
    const struct live_client_answer a =
        ask_named(t, LIVE_CLIENT_RELEASE, name, strlen(name), resources, 0);

    if (a.status == LIVE_CLIENT_OK && a.size != 0)
        fail_msg("Release was answered with %u bytes", a.size);
    return a.status;
}

int64_t
live_client_get_bytes(struct live_client *t, const void *name, size_t size)
{
    const struct live_client_answer a =
        ask_named(t, LIVE_CLIENT_GET, name, size, 0, 0);

    if (a.status != LIVE_CLIENT_OK)
        return -(int64_t)a.status;
    if (a.size != 4)
        fail_msg("Get was answered with %u bytes", a.size);
    return get_be32(a.body);
}

int
live_client_acquire(struct live_client *t, const char *name, uint32_t resources,
                    uint32_t bound)
{
    return live_client_acquire_bytes(t, name, strlen(name), resources, bound);
}

int64_t
live_client_get(struct live_client *t, const char *name)
{
    return live_client_get_bytes(t, name, strlen(name));
}

/* What Get or, `figure`, Stats says of a name. */
static int64_t
ask_value(struct live_client *t, const char *name, bool figure)
{
    struct live_client_stats s;

    if (!figure)
        return live_client_get(t, name);
    live_client_stats(t, &s);
    return (int64_t)live_client_stat(&s, name);
}

static void
await_value(struct live_client *t, const char *name, bool figure, int64_t value)
{
    const uint64_t deadline = test_deadline(WAIT_MS);
    int64_t got;

    while ((got = ask_value(t, name, figure)) != value) {
        if (clock_ms() > deadline)
            fail_msg("%s stays at %lld and does not become %lld", name,
                     (long long)got, (long long)value);
        if (t->turn)
            t->turn(t->turn_ctx);
        else
            (void)poll(NULL, 0, 1); /* cut short: an earlier look */
    }
}

void
live_client_await(struct live_client *t, const char *name, int64_t value)
{
    await_value(t, name, false, value);
}

void
live_client_await_stat(struct live_client *t, const char *name, uint64_t value)
{
    await_value(t, name, true, (int64_t)value);
}

/* ---- Stats -------------------------------------------------------------- */

static void
take_pair(struct live_client_stats *out, const uint8_t *bytes, size_t name_size,
          size_t value_size)
{
    const uint8_t *digits = bytes + name_size;
    uint64_t value = 0;

    if (out->count == LIVE_CLIENT_STATS_MAX ||
        name_size >= sizeof out->name[0] || value_size == 0 || value_size > 20)
        fail_msg("figure %zu has %zu and %zu bytes", out->count, name_size,
                 value_size);
    memcpy(out->name[out->count], bytes, name_size);
    out->name[out->count][name_size] = '\0';
    for (size_t i = 0; i < value_size; i++) {
        if (digits[i] < '0' || digits[i] > '9' ||
            (digits[i] == '0' && i == 0 && value_size > 1))
            fail_msg("%s is '%.*s'", out->name[out->count], (int)value_size,
                     (const char *)digits);
        value = value * 10 + (uint64_t)(digits[i] - '0');
    }
    out->value[out->count++] = value;
}

void
live_client_read_stats(struct live_client *t, uint32_t opaque,
                       struct live_client_stats *out)
{
    struct live_client_answer a;
    size_t at = 0;

    out->count = 0;
    read_answer(t, LIVE_CLIENT_STATS, opaque, &a);
    if (a.status != LIVE_CLIENT_OK)
        fail_msg("Stats has the status %02x", a.status);
    while (at + 4 <= a.size) {
        const size_t name = get_be16(a.body + at);
        const size_t value = get_be16(a.body + at + 2);

        at += 4;
        if (name + value > a.size - at)
            fail_msg("figure %zu is cut", out->count);
        take_pair(out, a.body + at, name, value);
        at += name + value;
    }
    if (at != a.size)
        fail_msg("%zu bytes after the last figure", a.size - at);
}

void
live_client_stats(struct live_client *t, struct live_client_stats *out)
{
    send_plain(t, LIVE_CLIENT_STATS);
    live_client_read_stats(t, t->serial, out);
}

uint64_t
live_client_stat(const struct live_client_stats *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->name[i], name) == 0)
            return s->value[i];
    fail_msg("Stats has no %s", name);
    return 0;
}

/* ---- Dump --------------------------------------------------------------- */

static void
take_record(struct live_client_dump *d, const struct live_client_answer *a)
{
    struct live_client_record *r;

    if (a->size < 11 || get_be16(a->body + 8) != a->size - 10)
        fail_msg("a record of %u bytes", a->size);
    if (d->count == d->capacity) {
        d->capacity = d->capacity * 2 + 64;
        d->record =
            test_memory(realloc(d->record, d->capacity * sizeof *d->record));
    }
    r = &d->record[d->count++];
    *r = (struct live_client_record){.current = get_be32(a->body),
                                     .maximum = get_be32(a->body + 4),
                                     .size = get_be16(a->body + 8)};
    r->name = test_memory(malloc(r->size));
    memcpy(r->name, a->body + 10, r->size);
}

void
live_client_read_dump(struct live_client *t, uint32_t opaque,
                      struct live_client_dump *out)
{
    struct live_client_answer a;

    *out = (struct live_client_dump){.count = 0};
    for (;;) {
        read_answer(t, LIVE_CLIENT_DUMP, opaque, &a);
        if (a.status != LIVE_CLIENT_OK)
            fail_msg("Dump has the status %02x", a.status);
        if (a.size == 0)
            return;
        take_record(out, &a);
    }
}

void
live_client_dump(struct live_client *t, struct live_client_dump *out)
{
    send_plain(t, LIVE_CLIENT_DUMP);
    live_client_read_dump(t, t->serial, out);
}

const struct live_client_record *
live_client_dump_find(const struct live_client_dump *d, const char *name)
{
    const struct live_client_record *found = NULL;
    size_t i, size = strlen(name);

    for (i = 0; i < d->count; i++) {
        if (d->record[i].size != size ||
            memcmp(d->record[i].name, name, size) != 0)
            continue;
        if (found)
            fail_msg("%s is dumped twice", name);
        found = &d->record[i];
    }
    return found;
}

void
live_client_dump_free(struct live_client_dump *d)
{
    for (size_t i = 0; i < d->count; i++)
        free(d->record[i].name);
    free(d->record);
    *d = (struct live_client_dump){.count = 0};
}
