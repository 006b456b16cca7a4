/* writer/quota/quota_service.h - quotas as the writer serves them: the engine,
 * its journal, the commit that answers wait for, and what goes wrong with a
 * disk.
 *
 *     READY    serves
 *     LOADING  a write or sync has failed, or the journal could not be opened:
 *              all requests are answered 503; the I/O thread repairs the
 *              journal and reads it again, each second until that works
 *     DAMAGED  the journal is: 503 until an operator has restored it
 *
 * An answer leaves when the changes it depends on are durable.  If they never
 * will be, and it is certain that they do not count, the answer is 503 instead;
 * when that is not certain the connection ends without one.
 *
 * A full disk: the journal has zeros ahead; when they are used up and no more
 * can be made, changes are answered 503, and nothing else is.
 *
 * Two I/O threads: one syncs, the other makes zeros, exports, and reads again.
 *
 * Ownership: the caller's, between open and close.  The loop's thread.
 * Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_QUOTA_SERVICE_H
#define COUNTD_WRITER_QUOTA_QUOTA_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/http.h"
#include "common/net/io.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "writer/commit.h"
#include "writer/quota/quota_export.h"
#include "writer/quota/quota_store.h"

#define QUOTA_RETRY_MS 1000
#define QUOTA_MARK_MS  200 /* of quiet: the note of the end is synced */
#define QUOTA_KEY_SIZE 255 /* bytes of an Idempotency-Key */

#define QUOTA_UNNAMED_NAME "-" /* in lists */

enum quota_state { QUOTA_READY, QUOTA_LOADING, QUOTA_DAMAGED };

struct quota_extend {
    struct io_job job;
    uint64_t from;
    int rc;
};

struct quota_reload {
    struct io_job job;
    struct quota_store *store; /* new */
    int rc;
};

struct quota_stats {
    uint64_t applied, cancelled, refused, other; /* requests */
    uint64_t repeated;                           /* with a known key */
    uint64_t unavailable;
    uint64_t failures; /* of writes and syncs */
};

struct quota_service {
    struct loop *loop;
    const struct config *config;
    int dirfd; /* data_dir/live, borrowed; -1: off */
    enum quota_state state;
    struct quota_store *store; /* NULL: never opened */
    struct io sync_io, file_io;
    struct commit commit;
    struct http_line line; /* requests that wait for room */
    struct quota_extend extend;
    struct quota_reload reload;
    struct loop_timer retry, mark;
    bool extending, full, retrying, mark_due;
    struct quota_export export;
    bool paused;           /* a checkpoint is being written: requests wait */
    bool wants_export[2];  /* by group of the journal: something ran out */
    uint64_t flight_count; /* numbers of the unnamed quota behind the sync */
    struct diag_repeat full_warning, numbers_warning, max_warning;
    struct quota_stats stats;
};

/* Off, whatever the settings say, until it is opened. */
void quota_init(struct quota_service *s);

/* Opens or creates the journal, for `max` connections that may wait.  A damaged
 * journal or a full disk does not fail.  -EINVAL: quota.limit differs from the
 * journal's. */
int quota_open(struct quota_service *s, struct loop *loop, int live_fd,
               const struct config *config, size_t max);

/* Once all connections have ended. */
void quota_close(struct quota_service *s);

static inline bool
quota_is_on(const struct quota_service *s)
{
    return s->dirfd >= 0;
}

/* The routes, for http_site_add() with the service as ctx. */
extern const struct http_route quota_routes[];
extern const size_t quota_route_count;

/* Bytes of the largest answer. */
size_t quota_answer_max(const struct config *config);

/* At the end of each turn, before that of the logs.  `alone`: a brief sync in
 * the loop delays only connections that use quotas or numbers.  Returns what
 * commit_turn() does. */
bool quota_turn(struct quota_service *s, bool alone);

/* The name of a quota as it was asked for. */
struct quota_name {
    const char *at;
    size_t size;
};

/* ---- for quota_routes.c ------------------------------------------------ */

/* Whether `records` more fit into the journal now. */
bool quota_can_change(const struct quota_service *s);

#define QUOTA_BODY_MAX 64u /* bytes of all bodies but that of /quota */

/* Sends an answer in the body that http_body() returned; quota_send_form() one
 * that depends only on the request. */
enum conn_next quota_send(struct http_call *x, uint8_t *body,
                          const struct key_answer *a);
enum conn_next quota_send_form(struct http_call *x, enum answer_form form);

/* Called before an answer is put: it waits behind the gate if it depends on
 * changes that are not durable yet, as it does if it `changes` something.
 * False: CONN_FULL. */
bool quota_wait_until_durable(struct http_call *x, bool changes);

/* Answers a request to change something.  `name` is as it was asked. */
enum conn_next quota_change_asked(struct http_call *x,
                                  const struct quota_request *r,
                                  const struct quota_name *name);

/* There is none: in a moment (HOLD), or not now (503). */
enum conn_next quota_wait(struct quota_service *s, struct http_call *x);

#endif
