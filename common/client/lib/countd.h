/* countd.h - libcountd: count things in countd, and read the counts.
 *
 *     struct countd *c;
 *     if (countd_open(&c, NULL) < 0) ...
 *     countd_incr(c, "pages", 5, "/index", 6, 1);
 *     countd_flush(c, 1000);
 *     countd_close(c);
 *
 * Increments are buffered and never block: they leave when the buffer fills,
 * with countd_poll(), and with countd_flush().  A handle is thread-safe (one
 * lock inside).  Names are 1 to 256 bytes (or the sizes the server was set
 * to), any but NUL.
 *
 * Two ways to send, chosen at open:
 *   silent        nothing comes back; counted at most once
 *   acknowledged  countd_flush() returns 0 only when every increment before it
 *                 is on the server's disk.  After a broken connection the
 *                 outcome of those not acknowledged is unknown: sending them
 *                 again may count them twice, so the library does not; it
 *                 reports how many.
 *
 * A handle belongs to the process that opened it.  In a child of fork() every
 * call on a copy of it does nothing and returns -ECHILD (0 where it has no
 * errors); only closing it is allowed, and closes the child's descriptors: the
 * parent's handle is not touched, and what it has buffered is its to send.  A
 * child opens handles of its own.  (The C library's fork() is meant: one made
 * by a bare system call is not noticed.)
 *
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_CLIENT_H
#define COUNTD_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COUNTD_VERSION "0.1.0"

struct countd;

struct countd_options {
    size_t size;            /* sizeof(struct countd_options) */
    const char *write;      /* address of the silent or acknowledging port;
                               NULL: 127.0.0.1:48881, or :48879 when silent */
    const char *read;       /* NULL: 127.0.0.1:48880 */
    int silent;             /* 1: fire and forget */
    size_t buffer_size;     /* bytes; 0: 256 KiB */
    unsigned keyspace_size; /* message sizes of the server; 0: 256 */
    unsigned key_size;
    unsigned connect_timeout_ms; /* 0: 5000 */
};

/* Looks host names up, but does not connect yet.  `options` may be NULL;
 * nothing of it is kept.
 *   -EINVAL         an option; not an address and a port
 *   -EADDRNOTAVAIL  no address is known for a host name
 *   -EAGAIN         it cannot be looked up now */
int countd_open(struct countd **out, const struct countd_options *options);

/* Sends nothing: flush first.  Frees the handle. */
void countd_close(struct countd *c);

/* Buffers one increment.
 *   -EAGAIN  buffer full and the server takes nothing now: nothing buffered
 *   -EINVAL, -ENAMETOOLONG  the name; nothing buffered
 *   -ENOTCONN  the connection broke; see countd_lost()
 *   -ECONNREFUSED ...  what connecting said; nothing is lost */
int countd_incr(struct countd *c, const void *keyspace, size_t keyspace_size,
                const void *key, size_t key_size, int64_t increment);

/* Sends what can be sent and takes what answers are there, without
 * blocking.  Returns the number of increments not yet sent or not yet
 * acknowledged, or an error as countd_flush(). */
int64_t countd_poll(struct countd *c);

/* Where the increments are that are neither acknowledged (silent: sent) nor
 * lost: still here, or sent and not answered yet.  Touches no connection, so
 * it tells the same after an error. */
void countd_pending(struct countd *c, uint64_t *unsent, uint64_t *unanswered);

/* Blocks until everything is sent (silent) or acknowledged.
 *   -ETIMEDOUT  not within timeout_ms; call again to go on
 *   -ENOTCONN   the connection broke and took increments with it; those that
 *               had not gone out go out with the next call
 *   -EBADMSG    the server refused a message (FAIL): this and all behind it
 *               are dropped
 *   -ECONNREFUSED ...  what connecting said; nothing is lost
 * An error that another call met is told here once more, unless countd_lost()
 * was asked since. */
int countd_flush(struct countd *c, int timeout_ms);

/* Increments whose outcome is unknown because the connection broke, since the
 * last call.  Silent: those the server's kernel had not confirmed. */
uint64_t countd_lost(struct countd *c);

/* ---- reading ----------------------------------------------------------- */

struct countd_row {
    int64_t count;
    const char *key; /* key_size bytes, not NUL-terminated */
    size_t key_size;
};

struct countd_rows {
    int64_t as_of_ms; /* every increment in a log at this Unix time is in */
    size_t count;
    struct countd_row *rows;
};

/* Rows offset ... of the count order, largest first; a negative offset counts
 * from the end; at most 4096.  An unknown keyspace has none.
 * countd_rows_free() after success.
 *   -EINVAL, -ENAMETOOLONG  no such request
 *   -EIO        the keyspace's file cannot be read
 *   -ETIMEDOUT, -ENOTCONN, -EPROTO (no countd there), what connecting said */
int countd_range(struct countd *c, const void *keyspace, size_t keyspace_size,
                 int64_t offset, int64_t length, struct countd_rows **out);

/* Many ranges, pipelined.  out[i] answers asks[i]; it is NULL where that one
 * failed, and the first such error is returned.  Free the others whatever is
 * returned. */
struct countd_ask {
    const void *keyspace;
    size_t keyspace_size;
    int64_t offset;
    int64_t length;
};
int countd_ranges(struct countd *c, const struct countd_ask *asks, size_t count,
                  struct countd_rows **out);

/* Count of one key; -ENOENT: no such key or keyspace. */
int countd_get(struct countd *c, const void *keyspace, size_t keyspace_size,
               const void *key, size_t key_size, int64_t *count);
/* Position of one key in the count order, from 0; -ENOENT. */
int countd_rank(struct countd *c, const void *keyspace, size_t keyspace_size,
                const void *key, size_t key_size, int64_t *rank);
/* Sum of a keyspace, saturated; -ENOENT. */
int countd_total(struct countd *c, const void *keyspace, size_t keyspace_size,
                 int64_t *total);
/* Names of keyspaces after `after` ("" for the first) with their number of
 * keys in `count`; at most 4096 at a time. */
int countd_keyspaces(struct countd *c, const void *after, size_t after_size,
                     struct countd_rows **out);
void countd_rows_free(struct countd_rows *rows);

/* Timeout of the reading calls; default 5000. */
void countd_read_timeout(struct countd *c, int timeout_ms);

/* ---- live resources ---------------------------------------------------- */

/* Counters and semaphores in the memory of countd-write: what is acquired
 * belongs to the connection and is released when that ends, however it ends.
 *
 *     struct countd_live *l;
 *     if (countd_live_open(&l, NULL) < 0) ...
 *     if (countd_acquire(l, "mail", 4, 1, 10) == 0) {
 *         ...                                  one of at most ten at a time
 *         countd_release(l, "mail", 4, 1);
 *     }
 *     countd_live_close(l);
 *
 * One handle is one connection.  It is made once: when it breaks, all that was
 * held is gone, every call says -ENOTCONN from then on, and a new handle must
 * be opened.  A handle is thread-safe (one lock inside; calls wait for each
 * other).  Names are 1 to 65535 bytes, any.
 *
 * Answers of the server:
 *   -ENOENT  no such object        -EBUSY   not available now
 *   -EPERM   this connection does not hold as much
 *   -EINVAL  not a proper request  -ENOMEM  the server's memory is used up
 *   -EOPNOTSUPP  it does not know the request (Dump of semaphores)
 * And: -ETIMEDOUT (the connection is given up), -ENOTCONN, -EPROTO (not this
 * protocol there). */
struct countd_live;

struct countd_live_options {
    size_t size;                 /* sizeof(struct countd_live_options) */
    const char *address;         /* NULL: 127.0.0.1:11215, or :11216 */
    int semaphore;               /* 1: the default is that of semaphores */
    unsigned connect_timeout_ms; /* 0: 5000 */
    unsigned timeout_ms;         /* for answers; 0: 5000 */
};

/* Connects.  `options` may be NULL; nothing of it is kept.  Errors of host
 * names as of countd_open(). */
int countd_live_open(struct countd_live **out,
                     const struct countd_live_options *options);
/* Releases everything that is held, and frees the handle.  In a forked child
 * it releases nothing.  But a child keeps the connection open, too: when the
 * parent dies before it closed the handle, what it held is released only when
 * the child has closed its copy, called exec, or ended. */
void countd_live_close(struct countd_live *l);

/* Readable when the connection has ended (or is about to be read): for poll()
 * by those who must know that they lost what they hold. */
int countd_live_fd(const struct countd_live *l);
/* 0 while the connection stands, -ENOTCONN; does not block. */
int countd_live_alive(struct countd_live *l);

/* `bound`: a counter's maximum, checked at every call; a semaphore's initial
 * value, used when it is created.  -EBUSY: refused, nothing has changed. */
int countd_acquire(struct countd_live *l, const void *name, size_t size,
                   uint32_t resources, uint32_t bound);
int countd_release(struct countd_live *l, const void *name, size_t size,
                   uint32_t resources);
/* What is taken of a counter, or available of a semaphore. */
int countd_live_get(struct countd_live *l, const void *name, size_t size,
                    uint32_t *value);

/* Many requests in one go, done in this order; each gets its own result. */
enum countd_live_what { COUNTD_GET, COUNTD_ACQUIRE, COUNTD_RELEASE };
struct countd_live_op {
    enum countd_live_what what;
    const void *name;
    size_t size;
    uint32_t resources; /* acquire, release */
    uint32_t bound;     /* acquire */
    int result;         /* out: 0 or an answer of the server */
    uint32_t value;     /* out, get and acquire */
};
/* 0 when all have been answered, whatever the answers; else the connection
 * has ended, and `result` of those not answered is that error. */
int countd_live_batch(struct countd_live *l, struct countd_live_op *ops,
                      size_t count);

/* Calls `each` for every counter, in no order, while they come; stop early
 * (and lose the connection) by returning another value than 0, which is then
 * returned.  `each` must not use the handle. */
int countd_live_dump(struct countd_live *l,
                     int (*each)(void *ctx, const void *name, size_t size,
                                 uint32_t current, uint32_t maximum),
                     void *ctx);
/* The server's statistics, in its order; texts end with NUL. */
int countd_live_stats(struct countd_live *l,
                      int (*each)(void *ctx, const char *name,
                                  const char *value),
                      void *ctx);

const char *countd_version(void);

#ifdef __cplusplus
}
#endif

#endif
