/* tests/lib/http_fixture.h - one countd-write that serves sequence numbers over
 * HTTP, on a data directory of its own, and requests by hand. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_HTTP_FIXTURE_H
#define COUNTD_TESTS_LIB_HTTP_FIXTURE_H

#include <stdint.h>

#include "common/wire/sequence.h"
#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

#define HTTP_FIXTURE_LINE (SEQUENCE_SIZE + 1)

struct http_fixture {
    struct tmpdir dir;
    struct daemon writer;
    uint16_t port; /* of HTTP */
};

/* cmocka's setup and teardown. */
int http_fixture_setup(void **state);
int http_fixture_teardown(void **state);

/* KEY=VALUE more, a later one rules; ends with NULL.  `env`: NAME=VALUE, NULL
 * at its end, or NULL. */
void http_fixture_start(struct http_fixture *r, const char *const *env, ...);

/* SIGTERM; fails the test unless it ends well. */
void http_fixture_stop(struct http_fixture *r);

/* Sends a text; hears exactly this one next; and then the end. */
void http_say(int fd, const char *text);
void http_hear(int fd, const char *text);
void http_hear_end(int fd, const char *text);

/* Sends a request for a number. */
void http_ask_number(int fd);

/* Waits for one of its answers, and takes the number out of it: false when the
 * connection broke. */
bool http_take_number(int fd, char line[HTTP_FIXTURE_LINE],
                      struct sequence_parts *number);

/* Which of two was to be given first: below 0, 0, above. */
int http_order(const struct sequence_parts *a, const struct sequence_parts *b);

#endif
