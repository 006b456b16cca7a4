/* tests/lib/quota_server.h - quotas over HTTP in one process: a loop,
 * connections, the service and peers, so that a test can let the disk fail
 * under them.
 *
 *     fixture_start(r);
 *     fixture_expect(r, "/apply?amt=1", 200, "1 999999\n");
 *     fault_inject("fdatasync", 1, EIO);
 *     ...
 *     fixture_stop(r);
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_QUOTA_SERVER_H
#define COUNTD_TESTS_LIB_QUOTA_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/lib/tmpdir.h"
#include "writer/quota/quota_service.h"

#define FIXTURE_PEERS  8
#define FIXTURE_LIMIT  1000000
#define FIXTURE_HEARD  (1 << 17)
#define FIXTURE_CLOSED (-1) /* as a status */

struct quota_peer {
    int fd;
    char heard[FIXTURE_HEARD];
    size_t size;
    size_t answers; /* whole ones */
    bool ended;
};

struct quota_server {
    struct tmpdir dir;
    struct config config;
    struct loop *loop;
    struct conns *conns;
    struct http_site site;
    struct listener_config row;
    struct quota_service service;
    bool has_failed; /* the service has: the writer would end */
    struct quota_peer peers[FIXTURE_PEERS];
    struct quota_peer *waits;
    size_t want;
    bool (*enough)(struct quota_server *r);
};

/* cmocka's setup and teardown: a directory, settings with FIXTURE_LIMIT. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

void fixture_start(struct quota_server *r);
void fixture_stop(struct quota_server *r);
void fixture_restart(struct quota_server *r);

/* Turns of the loop until `enough`. */
void fixture_run(struct quota_server *r,
                 bool (*enough)(struct quota_server *r));

/* `waits` has `want` answers, or its connection has ended, or all has. */
bool fixture_is_heard(struct quota_server *r);

/* A fresh connection of peer `i`, and a request on it; key may be NULL. */
struct quota_peer *fixture_join(struct quota_server *r, size_t i);
void fixture_ask(struct quota_peer *p, const char *method, const char *target,
                 const char *key);

/* The status and body of the nth answer; FIXTURE_CLOSED: it did not come. */
int fixture_answer(const struct quota_peer *p, size_t nth, char body[64]);

/* One request of a fresh connection: its status. */
int fixture_once_keyed(struct quota_server *r, const char *method,
                       const char *target, const char *key, char body[64]);
int fixture_once(struct quota_server *r, const char *target, char body[64]);

#define fixture_expect(r, target, status, text)                                \
    do {                                                                       \
        char body_[64];                                                        \
        assert_int_equal(fixture_once(r, target, body_), status);              \
        assert_string_equal(body_, text);                                      \
    } while (0)

#define fixture_expect_keyed(r, method, target, key, status, text)             \
    do {                                                                       \
        char body_[64];                                                        \
        assert_int_equal(fixture_once_keyed(r, method, target, key, body_),    \
                         status);                                              \
        assert_string_equal(body_, text);                                      \
    } while (0)

#endif
