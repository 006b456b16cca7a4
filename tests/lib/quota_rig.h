/* tests/lib/quota_rig.h - quotas over HTTP in one process: a loop, connections,
 * the service and peers, so that a test can let the disk fail under them.
 *
 *     rig_start(r);
 *     rig_expect(r, "/apply?amt=1", 200, "1 999999\n");
 *     fault_inject("fdatasync", 1, EIO);
 *     ...
 *     rig_stop(r);
 */
#ifndef COUNTD_TESTS_LIB_QUOTA_RIG_H
#define COUNTD_TESTS_LIB_QUOTA_RIG_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/lib/tmpdir.h"
#include "writer/quota/quota_service.h"

#define RIG_PEERS  8
#define RIG_LIMIT  1000000
#define RIG_HEARD  (1 << 17)
#define RIG_CLOSED (-1) /* as a status */

struct quota_peer {
    int fd;
    char heard[RIG_HEARD];
    size_t size;
    size_t answers; /* whole ones */
    bool ended;
};

struct quota_rig {
    struct tmpdir dir;
    struct config config;
    struct loop *loop;
    struct conns *conns;
    struct http_site site;
    struct listener_config row;
    struct quota_service service;
    bool alone; /* set before the start: the loop syncs what is small */
    struct quota_peer peers[RIG_PEERS];
    struct quota_peer *waits;
    size_t want;
    bool (*enough)(struct quota_rig *r);
};

/* cmocka's setup and teardown: a directory, settings with RIG_LIMIT. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* What quota_open() says; rig_stop() in any case. */
int rig_try_start(struct quota_rig *r);
void rig_start(struct quota_rig *r);
void rig_stop(struct quota_rig *r);
void rig_restart(struct quota_rig *r);

/* Turns of the loop until `enough`. */
void rig_run(struct quota_rig *r, bool (*enough)(struct quota_rig *r));

/* `waits` has `want` answers, or its connection has ended. */
bool rig_is_heard(struct quota_rig *r);

/* A fresh connection of peer `i`, and a request on it; key may be NULL. */
struct quota_peer *rig_join(struct quota_rig *r, size_t i);
void rig_ask(struct quota_peer *p, const char *method, const char *target,
             const char *key);

/* The status and body of the nth answer; RIG_CLOSED: it did not come. */
int rig_answer(const struct quota_peer *p, size_t nth, char body[64]);

/* One request of a fresh connection: its status. */
int rig_once_keyed(struct quota_rig *r, const char *method, const char *target,
                   const char *key, char body[64]);
int rig_once(struct quota_rig *r, const char *target, char body[64]);

#define rig_expect(r, target, status, text)                                    \
    do {                                                                       \
        char body_[64];                                                        \
        assert_int_equal(rig_once(r, target, body_), status);                  \
        assert_string_equal(body_, text);                                      \
    } while (0)

#define rig_expect_keyed(r, method, target, key, status, text)                 \
    do {                                                                       \
        char body_[64];                                                        \
        assert_int_equal(rig_once_keyed(r, method, target, key, body_),        \
                         status);                                              \
        assert_string_equal(body_, text);                                      \
    } while (0)

#endif
