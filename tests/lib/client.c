/* tests/lib/client.c - see client.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/lib/daemon.h"
#include "tests/lib/test.h"

#define DEADLINE_MS 30000 /* of the next bytes, see test_patience() */
#define RANGE_SIZE  272
#define REPLY_SIZE  24
#define PIECE       4096 /* rows asked for at once */

int
client_try_connect(uint16_t port)
{
    const struct net_address a = {.v4 = {.sin_family = AF_INET,
                                         .sin_port = htons(port),
                                         .sin_addr = {htonl(INADDR_LOOPBACK)}},
                                  .size = sizeof a.v4};
    const int fd = client_connect_to(&a), off = 0;

    if (fd >= 0)
        assert_int_equal(ioctl(fd, FIONBIO, &off), 0);
    return fd;
}

int
client_connect(uint16_t port)
{
    int fd = client_try_connect(port);

    if (fd < 0)
        fail_msg("connect to port %u: %s", port, strerror(-fd));
    return fd;
}

int
client_connect_to(const struct net_address *a)
{
    return client_connect_from(NULL, a);
}

int
client_connect_from(const char *host, const struct net_address *a)
{
    const int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in from = {.sin_family = AF_INET};
    const int on = 1;
    int rc = fd < 0 ? -errno : 0;

    if (host && inet_pton(AF_INET, host, &from.sin_addr) != 1)
        fail_msg("%s is no address", host);
    if (rc == 0 && host &&
        bind(fd, (const struct sockaddr *)&from, sizeof from) < 0)
        rc = -errno;
    if (rc == 0 && connect(fd, (const struct sockaddr *)&a->sa, a->size) < 0)
        rc = -errno;
    else if (rc == 0 && net_is_self(fd))
        rc = -ECONNREFUSED;
    if (rc < 0) {
        if (fd >= 0)
            (void)close(fd); /* never used */
        return rc;
    }
    assert_int_equal(ioctl(fd, FIONBIO, &on), 0);
    /* Only a matter of speed. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

uint64_t
client_descriptors(uint64_t count)
{
    const struct rlimit more = {count, count};
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= count)
        return limit.rlim_cur;
    if (limit.rlim_max < count && setrlimit(RLIMIT_NOFILE, &more) == 0)
        return count;
    limit.rlim_cur = limit.rlim_max < count ? limit.rlim_max : count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

int
client_listen(uint16_t *port)
{
    struct net_address any, bound;
    int fd;

    assert_rc(net_parse("127.0.0.1:0", &any), 0);
    fd = net_bind(&any, SOCK_STREAM, 0, &bound);
    assert_true(fd >= 0);
    *port = ntohs(bound.v4.sin_port);
    return fd;
}

int
client_try_send(int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    ssize_t n;

    while (size > 0) {
        n = send(fd, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

void
client_send(int fd, const void *bytes, size_t size)
{
    int rc = client_try_send(fd, bytes, size);

    if (rc < 0)
        fail_msg("send: %s", strerror(-rc));
}

long
client_try_read(int fd, void *bytes, size_t size, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;
    int rc;

    do
        rc = poll(&p, 1, wait_ms);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return -EAGAIN;
    if (rc < 0)
        return -errno;
    n = recv(fd, bytes, size, MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

size_t
client_read(int fd, void *bytes, size_t size)
{
    const uint64_t patience_ms = test_patience(DEADLINE_MS);
    uint64_t deadline = clock_ms() + patience_ms;
    uint8_t *at = bytes;
    size_t have = 0;
    long n;

    while (have < size) {
        uint64_t now = clock_ms();

        n = now < deadline ? client_try_read(fd, at + have, size - have,
                                             (int)(deadline - now))
                           : -ETIMEDOUT;
        if (n == -ETIMEDOUT || (n == -EAGAIN && clock_ms() >= deadline))
            fail_msg("no answer in time: %zu of %zu bytes", have, size);
        if (n == -EAGAIN)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
        deadline = clock_ms() + patience_ms; /* it goes on, if slowly */
    }
    return have;
}

void
client_say(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

void
client_hear(int fd, const char *text)
{
    static char heard[65536];

    assert_in_range(strlen(text), 1, sizeof heard - 1);
    heard[client_read(fd, heard, strlen(text))] = '\0';
    assert_string_equal(heard, text);
}

void
client_expect_end(int fd)
{
    uint8_t byte;

    if (client_read(fd, &byte, 1) != 0)
        fail_msg("a byte %02x came where the end was expected", byte);
}

void
client_close(int fd)
{
    if (close(fd) < 0)
        fail_msg("close: %s", strerror(errno));
}

void
client_reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) < 0)
        fail_msg("linger: %s", strerror(errno));
    client_close(fd);
}

static void
put_name(uint8_t *at, const char *name)
{
    size_t size = strlen(name);

    if (size > CLIENT_NAME_SIZE)
        fail_msg("a name of %zu bytes", size);
    memset(at, 0, CLIENT_NAME_SIZE);
    memcpy(at, name, size);
}

void
client_message(uint8_t *bytes, const char *keyspace, const char *key,
               int64_t increment)
{
    put_le64s(bytes, increment);
    put_name(bytes + 8, keyspace);
    put_name(bytes + 8 + CLIENT_NAME_SIZE, key);
}

void
client_time(uint8_t *bytes, uint32_t minute)
{
    memset(bytes, 0, CLIENT_MESSAGE_SIZE);
    put_le32(bytes, minute);
    memcpy(bytes + 4, "TIME", 4);
}

void
client_increment(int fd, const char *keyspace, const char *key,
                 int64_t increment)
{
    uint8_t bytes[CLIENT_MESSAGE_SIZE];

    client_message(bytes, keyspace, key, increment);
    client_send(fd, bytes, sizeof bytes);
}

void
client_wins(int fd, size_t count)
{
    char text[3 * 64];
    size_t part, got;

    for (; count > 0; count -= part / 3) {
        part = count < 64 ? 3 * count : sizeof text;
        got = client_read(fd, text, part);
        if (got != part)
            fail_msg("the peer closed with %zu WINs owed", count - got / 3);
        for (size_t i = 0; i < part; i += 3)
            if (memcmp(text + i, "WIN", 3) != 0)
                fail_msg("'%.3s' came instead of WIN", text + i);
    }
}

size_t
client_range_request(uint8_t *bytes, const char *keyspace, int64_t offset,
                     int64_t length)
{
    put_le64s(bytes, offset);
    put_le64s(bytes + 8, length);
    put_name(bytes + 16, keyspace);
    return RANGE_SIZE;
}

static void
take_rows(struct client_rows *out, const uint8_t *bytes)
{
    size_t at = 0, size = (size_t)out->size;

    out->row = test_memory(calloc((size_t)out->rows + 1, sizeof *out->row));
    for (int64_t i = 0; i < out->rows; i++) {
        struct client_row *r = &out->row[i];

        if (size - at < 10)
            fail_msg("row %ld is cut", (long)i);
        r->count = get_le64s(bytes + at);
        r->key_size = get_le16(bytes + at + 8);
        at += 10;
        if (r->key_size > CLIENT_NAME_SIZE || size - at < r->key_size)
            fail_msg("row %ld has a key of %u bytes", (long)i, r->key_size);
        memcpy(r->key, bytes + at, r->key_size);
        at += r->key_size;
    }
    if (at != size)
        fail_msg("%zu bytes behind the last row", size - at);
}

void
client_reply(int fd, struct client_rows *out)
{
    uint8_t head[REPLY_SIZE], *bytes;

    if (client_read(fd, head, sizeof head) != sizeof head)
        fail_msg("the reader closed instead of answering");
    out->rows = get_le64s(head);
    out->size = get_le64s(head + 8);
    out->as_of_ms = get_le64s(head + 16);
    out->row = NULL;
    if (out->size < 0 || out->size > 64 << 20)
        fail_msg("a reply of %lld bytes", (long long)out->size);
    bytes = test_memory(malloc((size_t)out->size + 1));
    if (client_read(fd, bytes, (size_t)out->size) != (size_t)out->size)
        fail_msg("the reader closed within its answer");
    if (out->rows >= 0)
        take_rows(out, bytes);
    free(bytes);
}

void
client_rows_free(struct client_rows *rows)
{
    free(rows->row);
    rows->row = NULL;
}

void
client_range(int fd, const char *keyspace, int64_t offset, int64_t length,
             struct client_rows *out)
{
    uint8_t bytes[RANGE_SIZE];

    client_send(fd, bytes,
                client_range_request(bytes, keyspace, offset, length));
    client_reply(fd, out);
}

/* Adds up the counts of a key's rows, of which there is one at most, or (NULL) of
 * all rows; false: there are none. */
static bool
add_rows(int fd, const char *keyspace, const char *key, int64_t *sum)
{
    struct client_rows rows;
    bool found = false;

    for (int64_t offset = 0;; offset += rows.rows) {
        client_range(fd, keyspace, offset, PIECE, &rows);
        if (rows.rows < 0)
            fail_msg("%s: error %lld", keyspace, (long long)rows.rows);
        for (int64_t i = 0; i < rows.rows; i++)
            if (!key || strcmp(rows.row[i].key, key) == 0) {
                *sum += rows.row[i].count;
                found = true;
            }
        client_rows_free(&rows);
        if (rows.rows < PIECE || (found && key))
            return found;
    }
}

bool
client_get(int fd, const char *keyspace, const char *key, int64_t *count)
{
    int64_t sum = 0;

    if (!add_rows(fd, keyspace, key, &sum))
        return false;
    *count = sum;
    return true;
}

int64_t
client_total(int fd, const char *keyspace)
{
    int64_t total = 0;

    (void)add_rows(fd, keyspace, NULL, &total); /* none: 0 */
    return total;
}

void
client_await_merge(int fd, const char *keyspace, int64_t unix_ms,
                   int timeout_ms)
{
    uint64_t deadline = test_deadline((uint64_t)timeout_ms);
    struct client_rows rows;
    int64_t as_of;

    for (;;) {
        client_range(fd, keyspace, 0, 0, &rows);
        as_of = rows.as_of_ms;
        client_rows_free(&rows);
        if (as_of > unix_ms)
            return;
        if (clock_ms() >= deadline)
            fail_msg("not merged in time: as_of %lld, wanted above %lld",
                     (long long)as_of, (long long)unix_ms);
        /* Paces the asking; no test relies on its length. */
        (void)poll(NULL, 0, 2);
    }
}
