/* tests/lib/taker.c - see taker.h. */
#include "tests/lib/taker.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

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
taker_take(struct taker *t, int fd)
{
    *t = (struct taker){.fd = fd, .in = malloc(IN_SIZE)};
    if (!t->in)
        fail_msg("no memory");
}

void
taker_open(struct taker *t, uint16_t port)
{
    taker_take(t, client_connect(port));
}

static void
forget(struct taker *t)
{
    free(t->in);
    *t = (struct taker){.fd = -1};
}

void
taker_close(struct taker *t)
{
    taker_expect_nothing(t, 0);
    taker_drop(t);
}

void
taker_reset(struct taker *t)
{
    client_reset(t->fd);
    forget(t);
}

void
taker_drop(struct taker *t)
{
    client_close(t->fd);
    forget(t);
}

void
taker_half_close(struct taker *t)
{
    if (shutdown(t->fd, SHUT_WR) < 0)
        fail_msg("shutdown: %s", strerror(errno));
}

void
taker_wait(struct taker *t, int wait_ms)
{
    if (t->turn)
        t->turn(t->turn_ctx);
    else
        (void)poll(NULL, 0, wait_ms); /* cut short: an earlier look */
}

/* What has come by now, or within wait_ms: as client_try_read(). */
static long
look(struct taker *t, void *bytes, size_t size, int wait_ms)
{
    if (!t->turn)
        return client_try_read(t->fd, bytes, size, wait_ms);
    t->turn(t->turn_ctx);
    return client_try_read(t->fd, bytes, size, 0);
}

/* Reads until `size` bytes are there, at in + at; false at the end. */
static bool
gather(struct taker *t, size_t size)
{
    const uint64_t deadline = clock_ms() + WAIT_MS * (uint64_t)test_slow();
    long n;

    if (t->at == t->have || t->at + size > IN_SIZE) {
        memmove(t->in, t->in + t->at, t->have - t->at);
        t->have -= t->at;
        t->at = 0;
    }
    while (t->have - t->at < size) {
        n = look(t, t->in + t->have, IN_SIZE - t->have, 1000);
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
taker_expect_end(struct taker *t)
{
    if (gather(t, 1))
        fail_msg("%zu bytes came where the end was expected", t->have - t->at);
}

void
taker_expect_nothing(struct taker *t, int wait_ms)
{
    uint8_t byte;
    long n;

    if (t->have > t->at)
        fail_msg("%zu bytes nobody asked for", t->have - t->at);
    n = look(t, &byte, 1, wait_ms);
    if (n != -EAGAIN)
        fail_msg("%s where silence was expected", n > 0    ? "a byte came"
                                                  : n == 0 ? "the end came"
                                                           : strerror((int)-n));
}

/* ---- requests ----------------------------------------------------------- */

static size_t
put_header(uint8_t *at, uint8_t opcode, uint32_t opaque, size_t size)
{
    at[0] = 0x90;
    at[1] = opcode;
    at[2] = 0;
    at[3] = 0;
    put_be32(at + 4, (uint32_t)size);
    put_be32(at + 8, opaque);
    return TAKER_HEADER;
}

size_t
taker_put(uint8_t *at, uint8_t opcode, uint32_t opaque, const void *body,
          size_t size)
{
    put_header(at, opcode, opaque, size);
    if (size > 0)
        memcpy(at + TAKER_HEADER, body, size);
    return TAKER_HEADER + size;
}

static size_t
put_name(uint8_t *at, const void *name, size_t size)
{
    if (size > TAKER_NAME_MAX)
        fail_msg("a name of %zu bytes", size);
    put_be16(at, (uint16_t)size);
    memcpy(at + 2, name, size);
    return 2 + size;
}

size_t
taker_put_get(uint8_t *at, uint32_t opaque, const void *name, size_t size)
{
    size_t end = put_header(at, TAKER_GET, opaque, 2 + size);

    return end + put_name(at + end, name, size);
}

size_t
taker_put_acquire(uint8_t *at, uint32_t opaque, const void *name, size_t size,
                  uint32_t resources, uint32_t bound)
{
    size_t end = put_header(at, TAKER_ACQUIRE, opaque, 10 + size);

    put_be32(at + end, resources);
    put_be32(at + end + 4, bound);
    return end + 8 + put_name(at + end + 8, name, size);
}

size_t
taker_put_release(uint8_t *at, uint32_t opaque, const void *name, size_t size,
                  uint32_t resources)
{
    size_t end = put_header(at, TAKER_RELEASE, opaque, 6 + size);

    put_be32(at + end, resources);
    return end + 4 + put_name(at + end + 4, name, size);
}

void
taker_send(const struct taker *t, const void *bytes, size_t size)
{
    client_send(t->fd, bytes, size);
}

/* ---- answers ------------------------------------------------------------ */

static const char *
text_of(uint8_t status)
{
    switch (status) {
    case TAKER_NOT_FOUND:
        return "Not found";
    case TAKER_INVALID:
        return "Invalid arguments";
    case TAKER_FULL:
        return "Resource not available";
    case TAKER_NOT_HELD:
        return "Not acquired";
    case TAKER_UNKNOWN:
        return "Unknown command";
    case TAKER_NO_MEMORY:
        return "OutOfMemory";
    default:
        fail_msg("an answer with the status 0x%02x", status);
        return "";
    }
}

void
taker_read(struct taker *t, struct taker_answer *out)
{
    const uint8_t *h;

    if (!gather(t, TAKER_HEADER))
        fail_msg("the server closed where an answer was expected");
    h = t->in + t->at;
    if (h[0] != 0x91 || h[3] != 0)
        fail_msg("an answer's magic is %02x and its reserved byte %02x", h[0],
                 h[3]);
    *out = (struct taker_answer){.opcode = h[1],
                                 .status = h[2],
                                 .size = get_be32(h + 4),
                                 .opaque = get_be32(h + 8)};
    if (out->size > IN_SIZE - TAKER_HEADER)
        fail_msg("an answer of %u bytes", out->size);
    if (!gather(t, TAKER_HEADER + out->size))
        fail_msg("the server closed within an answer");
    out->body = t->in + t->at + TAKER_HEADER;
    t->at += TAKER_HEADER + out->size;
    if (out->status != TAKER_OK &&
        (out->size != strlen(text_of(out->status)) ||
         memcmp(out->body, text_of(out->status), out->size) != 0))
        fail_msg("the text of status 0x%02x is '%.*s'", out->status,
                 (int)out->size, (const char *)out->body);
}

/* The next answer is one to this request. */
static void
read_answer(struct taker *t, uint8_t opcode, uint32_t opaque,
            struct taker_answer *out)
{
    taker_read(t, out);
    if (out->opcode != opcode || out->opaque != opaque)
        fail_msg("an answer with opcode %02x and opaque %08x instead of %02x "
                 "and %08x (status %02x)",
                 out->opcode, out->opaque, opcode, opaque, out->status);
}

void
taker_expect(struct taker *t, uint8_t opcode, uint32_t opaque, uint8_t status,
             const void *body, size_t size)
{
    struct taker_answer a;

    read_answer(t, opcode, opaque, &a);
    if (a.status != status)
        fail_msg("the status to opcode %02x, opaque %08x is %02x, not %02x",
                 opcode, opaque, a.status, status);
    if (status == TAKER_OK &&
        (a.size != size || (size > 0 && memcmp(a.body, body, size) != 0)))
        fail_msg("the answer to opcode %02x, opaque %08x has another body "
                 "(%u bytes)",
                 opcode, opaque, a.size);
}

void
taker_expect_u32(struct taker *t, uint8_t opcode, uint32_t opaque,
                 uint32_t value)
{
    uint8_t body[4];

    put_be32(body, value);
    taker_expect(t, opcode, opaque, TAKER_OK, body, sizeof body);
}

/* ---- hexadecimal digits ------------------------------------------------- */

static int
digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, tolower(c));

    if (!at || c == '\0')
        fail_msg("'%c' is no hexadecimal digit", c);
    return (int)(at - digits);
}

size_t
taker_from_hex(const char *text, uint8_t *bytes, size_t max)
{
    size_t size = 0;

    for (; *text; text += 2) {
        while (*text == ' ')
            text++;
        if (!*text)
            break;
        if (size == max)
            fail_msg("too many digits");
        bytes[size++] = (uint8_t)(digit(text[0]) * 16 + digit(text[1]));
    }
    return size;
}

static void
show(const char *what, const uint8_t *bytes, size_t size)
{
    size_t i;

    print_error("%s", what);
    for (i = 0; i < size; i++)
        print_error(" %02x", bytes[i]);
    print_error("\n");
}

void
taker_expect_digits(struct taker *t, const char *answer)
{
    uint8_t bytes[EXCHANGE_SIZE];
    const size_t size = taker_from_hex(answer, bytes, sizeof bytes);

    if (gather(t, size) && memcmp(t->in + t->at, bytes, size) == 0) {
        t->at += size;
        return;
    }
    show("expected", bytes, size);
    show("got     ", t->in + t->at,
         t->have - t->at < size ? t->have - t->at : size);
    fail_msg("another answer than expected");
}

void
taker_exchange(struct taker *t, const char *request, const char *answer)
{
    uint8_t bytes[EXCHANGE_SIZE];

    taker_send(t, bytes, taker_from_hex(request, bytes, sizeof bytes));
    taker_expect_digits(t, answer);
}

/* ---- round trips -------------------------------------------------------- */

void
taker_noop(struct taker *t)
{
    uint8_t bytes[TAKER_HEADER];

    taker_send(t, bytes, taker_put(bytes, TAKER_NOOP, ++t->serial, NULL, 0));
    taker_expect(t, TAKER_NOOP, t->serial, TAKER_OK, NULL, 0);
}

int
taker_acquire_bytes(struct taker *t, const void *name, size_t size,
                    uint32_t resources, uint32_t bound)
{
    static uint8_t bytes[TAKER_FIXED + TAKER_NAME_MAX];
    struct taker_answer a;

    taker_send(
        t, bytes,
        taker_put_acquire(bytes, ++t->serial, name, size, resources, bound));
    read_answer(t, TAKER_ACQUIRE, t->serial, &a);
    if (a.status == TAKER_OK && (a.size != 4 || get_be32(a.body) != resources))
        fail_msg("Acquire of %u was answered with %u bytes", resources, a.size);
    return a.status;
}

int
taker_release_bytes(struct taker *t, const void *name, size_t size,
                    uint32_t resources)
{
    static uint8_t bytes[TAKER_FIXED + TAKER_NAME_MAX];
    struct taker_answer a;

    taker_send(t, bytes,
               taker_put_release(bytes, ++t->serial, name, size, resources));
    read_answer(t, TAKER_RELEASE, t->serial, &a);
    if (a.status == TAKER_OK && a.size != 0)
        fail_msg("Release was answered with %u bytes", a.size);
    return a.status;
}

int64_t
taker_get_bytes(struct taker *t, const void *name, size_t size)
{
    static uint8_t bytes[TAKER_FIXED + TAKER_NAME_MAX];
    struct taker_answer a;

    taker_send(t, bytes, taker_put_get(bytes, ++t->serial, name, size));
    read_answer(t, TAKER_GET, t->serial, &a);
    if (a.status != TAKER_OK)
        return -(int64_t)a.status;
    if (a.size != 4)
        fail_msg("Get was answered with %u bytes", a.size);
    return get_be32(a.body);
}

int
taker_acquire(struct taker *t, const char *name, uint32_t resources,
              uint32_t bound)
{
    return taker_acquire_bytes(t, name, strlen(name), resources, bound);
}

int
taker_release(struct taker *t, const char *name, uint32_t resources)
{
    return taker_release_bytes(t, name, strlen(name), resources);
}

int64_t
taker_get(struct taker *t, const char *name)
{
    return taker_get_bytes(t, name, strlen(name));
}

void
taker_await(struct taker *t, const char *name, int64_t value)
{
    const uint64_t deadline = clock_ms() + WAIT_MS * (uint64_t)test_slow();
    int64_t got;

    while ((got = taker_get(t, name)) != value) {
        if (clock_ms() > deadline)
            fail_msg("%s stays at %lld and does not become %lld", name,
                     (long long)got, (long long)value);
        taker_wait(t, 1);
    }
}

/* ---- Stats -------------------------------------------------------------- */

static void
take_pair(struct taker_stats *out, const uint8_t *bytes, size_t name_size,
          size_t value_size)
{
    const uint8_t *digits = bytes + name_size;
    uint64_t value = 0;
    size_t i;

    if (out->count == TAKER_STATS_MAX || name_size >= sizeof out->name[0] ||
        value_size == 0 || value_size > 20)
        fail_msg("figure %zu has %zu and %zu bytes", out->count, name_size,
                 value_size);
    memcpy(out->name[out->count], bytes, name_size);
    out->name[out->count][name_size] = '\0';
    for (i = 0; i < value_size; i++) {
        if (digits[i] < '0' || digits[i] > '9' ||
            (digits[i] == '0' && i == 0 && value_size > 1))
            fail_msg("%s is '%.*s'", out->name[out->count], (int)value_size,
                     (const char *)digits);
        value = value * 10 + (uint64_t)(digits[i] - '0');
    }
    out->value[out->count++] = value;
}

void
taker_read_stats(struct taker *t, uint32_t opaque, struct taker_stats *out)
{
    struct taker_answer a;
    size_t at = 0;

    out->count = 0;
    read_answer(t, TAKER_STATS, opaque, &a);
    if (a.status != TAKER_OK)
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
taker_stats(struct taker *t, struct taker_stats *out)
{
    uint8_t bytes[TAKER_HEADER];

    taker_send(t, bytes, taker_put(bytes, TAKER_STATS, ++t->serial, NULL, 0));
    taker_read_stats(t, t->serial, out);
}

uint64_t
taker_stat(const struct taker_stats *s, const char *name)
{
    size_t i;

    for (i = 0; i < s->count; i++)
        if (strcmp(s->name[i], name) == 0)
            return s->value[i];
    fail_msg("Stats has no %s", name);
    return 0;
}

void
taker_await_stat(struct taker *t, const char *name, uint64_t value)
{
    const uint64_t deadline = clock_ms() + WAIT_MS * (uint64_t)test_slow();
    struct taker_stats s;

    for (taker_stats(t, &s); taker_stat(&s, name) != value;
         taker_stats(t, &s)) {
        if (clock_ms() > deadline)
            fail_msg("%s stays at %llu and does not become %llu", name,
                     (unsigned long long)taker_stat(&s, name),
                     (unsigned long long)value);
        taker_wait(t, 1);
    }
}

/* ---- Dump --------------------------------------------------------------- */

static void
take_record(struct taker_dump *d, const struct taker_answer *a)
{
    struct taker_record *r;

    if (a->size < 11 || get_be16(a->body + 8) != a->size - 10)
        fail_msg("a record of %u bytes", a->size);
    if (d->count == d->capacity) {
        d->capacity = d->capacity * 2 + 64;
        d->record = realloc(d->record, d->capacity * sizeof *d->record);
        if (!d->record)
            fail_msg("no memory");
    }
    r = &d->record[d->count++];
    *r = (struct taker_record){.current = get_be32(a->body),
                               .maximum = get_be32(a->body + 4),
                               .size = get_be16(a->body + 8)};
    r->name = malloc(r->size);
    if (!r->name)
        fail_msg("no memory");
    memcpy(r->name, a->body + 10, r->size);
}

void
taker_read_dump(struct taker *t, uint32_t opaque, struct taker_dump *out)
{
    struct taker_answer a;

    *out = (struct taker_dump){.count = 0};
    for (;;) {
        read_answer(t, TAKER_DUMP, opaque, &a);
        if (a.status != TAKER_OK)
            fail_msg("Dump has the status %02x", a.status);
        if (a.size == 0)
            return;
        take_record(out, &a);
    }
}

void
taker_dump(struct taker *t, struct taker_dump *out)
{
    uint8_t bytes[TAKER_HEADER];

    taker_send(t, bytes, taker_put(bytes, TAKER_DUMP, ++t->serial, NULL, 0));
    taker_read_dump(t, t->serial, out);
}

const struct taker_record *
taker_dump_find(const struct taker_dump *d, const char *name)
{
    const struct taker_record *found = NULL;
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
taker_dump_free(struct taker_dump *d)
{
    size_t i;

    for (i = 0; i < d->count; i++)
        free(d->record[i].name);
    free(d->record);
    *d = (struct taker_dump){.count = 0};
}
