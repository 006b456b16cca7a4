/* tests/lib/client.h - the protocols by hand, so that tests do not trust the
 * library they test.
 *
 * Everything blocks with a deadline and fails the test on what it does not
 * expect, unless it says otherwise.  Names are C strings of at most 256
 * bytes; sizes on the wire are the default 256.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_CLIENT_H
#define COUNTD_TESTS_LIB_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/net.h"

#define CLIENT_MESSAGE_SIZE 520
#define CLIENT_NAME_SIZE    256

/* Connects to 127.0.0.1.  A connection to itself (a port of the ephemeral
 * range whose daemon is down) counts as refused. */
int client_connect(uint16_t port);

/* The same, -errno instead of a failed test; for daemons being killed. */
int client_try_connect(uint16_t port);

/* The same to any address, or -errno; the descriptor does not block. */
int client_connect_to(const struct net_address *a);

/* The same from an IPv4 address of this machine; NULL: from any. */
int client_connect_from(const char *host, const struct net_address *a);

/* Lets this process, and the daemons it starts from now on, have `count`
 * descriptors; how many it has: not all may have more than the hard limit. */
uint64_t client_descriptors(uint64_t count);

/* Listens on a free port of 127.0.0.1. */
int client_listen(uint16_t *port);

/* Sends all of it. */
void client_send(int fd, const void *bytes, size_t size);

/* Sends all of it; 0 or -errno. */
int client_try_send(int fd, const void *bytes, size_t size);

/* Reads until `size` bytes have come or the peer closed or reset; returns the
 * number.  The deadline fails the test. */
size_t client_read(int fd, void *bytes, size_t size);

/* Reads what is there, waiting up to wait_ms for the first byte: bytes read,
 * 0 at the end, -EAGAIN when nothing came, -errno when it broke. */
long client_try_read(int fd, void *bytes, size_t size, int wait_ms);

/* Sends a text; hears exactly this one next. */
void client_say(int fd, const char *text);
void client_hear(int fd, const char *text);

/* The peer closes without another byte. */
void client_expect_end(int fd);

void client_close(int fd);

/* Closes with a reset instead of a FIN. */
void client_reset(int fd);

/* ---- increments -------------------------------------------------------- */

/* Writes one message: CLIENT_MESSAGE_SIZE bytes. */
void client_message(uint8_t *bytes, const char *keyspace, const char *key,
                    int64_t increment);

/* One that says of which minute those behind it are. */
void client_time(uint8_t *bytes, uint32_t minute);

/* Sends one message. */
void client_increment(int fd, const char *keyspace, const char *key,
                      int64_t increment);

/* Reads `count` times WIN, and nothing else. */
void client_wins(int fd, size_t count);

/* ---- ranges ------------------------------------------------------------ */

struct client_row {
    int64_t count;
    uint16_t key_size;
    char key[CLIENT_NAME_SIZE + 1]; /* and a NUL */
};

struct client_rows {
    int64_t rows; /* below 0: an error */
    int64_t size;
    int64_t as_of_ms;
    struct client_row *row; /* `rows` of them */
};

/* Writes a range request (272 bytes). */
size_t client_range_request(uint8_t *bytes, const char *keyspace,
                            int64_t offset, int64_t length);

/* Reads one reply; client_rows_free() after. */
void client_reply(int fd, struct client_rows *out);
void client_rows_free(struct client_rows *rows);

/* Request and reply. */
void client_range(int fd, const char *keyspace, int64_t offset, int64_t length,
                  struct client_rows *out);

/* Count of one key, among all rows; false when there is none. */
bool client_get(int fd, const char *keyspace, const char *key, int64_t *count);

/* The sum of all rows. */
int64_t client_total(int fd, const char *keyspace);

/* Asks until everything in the logs at `unix_ms` is merged (as_of_ms above
 * it), at most timeout_ms (as test_patience() says). */
void client_await_merge(int fd, const char *keyspace, int64_t unix_ms,
                        int timeout_ms);

#endif
