/* countd.h - libcountd: count things in countd, and read the counts.
 *
 *     struct countd *c;
 *     if (countd_open(&c, NULL) < 0) ...
 *     countd_incr(c, "pages", 5, "/index", 6, 1);
 *     if (countd_finish(c, 1000) < 0) ...      some may not be counted
 *
 * Increments are buffered: they leave when the buffer fills, with
 * countd_poll(), and with countd_sync().  While the buffer is full
 * countd_incr() waits for the server, unless the handle is `nonblocking`.  A
 * handle is thread-safe (one lock inside).  Names are 1 to 256 bytes (or the
 * sizes the server was set to), any but NUL.
 *
 * Two ways to send, chosen at open:
 *   silent        nothing comes back; counted at most once
 *   acknowledged  countd_sync() returns 0 only when every increment before it
 *                 is on the server's disk.  After a broken connection the
 *                 outcome of those not acknowledged is unknown: sending them
 *                 again may count them twice, so the library does not; it
 *                 reports how many.
 *
 * Three words: buffered is in this process, synced on the server's disk,
 * readable in the answers of the reader.
 *
 * A forked child opens handles of its own; it neither uses nor closes its
 * parent's.
 *
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_LIB_COUNTD_H
#define COUNTD_COMMON_CLIENT_LIB_COUNTD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a server is: the options of each kind of handle have an address, and
 * `directory`, the data directory of a server of this machine.  The directory
 * without the address stands for the socket in it, which no other user of the
 * machine can take.  Connecting then says
 *   -ECONNREFUSED  no server runs on the directory
 *   -EPERM  this user may not use its sockets; see socket.group in countd(5)
 * and opening -EINVAL or -ENAMETOOLONG for the path. */

#define COUNTD_VERSION "0.1.0"

struct countd;

struct countd_options {
    size_t size;            /* sizeof(struct countd_options) */
    const char *write;      /* address of the silent or acknowledging port;
                               NULL: 127.0.0.1:48881, or :48879 when silent,
                               if there is no directory */
    const char *read;       /* of the HTTP port (read.http), for all that reads;
                               NULL: 127.0.0.1:48890 */
    int silent;             /* 1: fire and forget */
    size_t buffer_size;     /* bytes; 0: 256 KiB */
    unsigned keyspace_size; /* message sizes of the server; 0: 256 */
    unsigned key_size;
    unsigned connect_timeout_ms; /* 0: 5000 */
    int sum;                     /* 1: increments of a key that are buffered at
                                    the same time may leave as their sum, as
                                    one increment of all the counts below */
    int nonblocking; /* 1: countd_incr() returns -EAGAIN instead of waiting */
    const char *directory; /* data directory of the server */
    const char *token;     /* a token of the server's http.tokens; NULL: none */
};

/* Looks host names up, but does not connect yet.  `options` may be NULL;
 * nothing of it is kept.
 *   -EINVAL         an option; not an address and a port
 *   -EADDRNOTAVAIL  no address is known for a host name
 *   -EAGAIN         it cannot be looked up now */
int countd_open(struct countd **out, const struct countd_options *options);

/* Frees the handle.  Sends nothing, and returns how many increments went with
 * it: not sent, not acknowledged, or lost or refused and not asked about.  NULL
 * is 0. */
int64_t countd_close(struct countd *c);

/* countd_sync(), whose errors it returns, then countd_close() in any case.
 * Returns 0 only when every increment that countd_incr() was called with is on
 * the server's disk (silent: sent): if countd_sync() succeeds, the error is the
 * first of an increment that was refused and not asked about
 * (countd_refused()). */
int countd_finish(struct countd *c, int timeout_ms);

/* Buffers one increment.  While the buffer is full it waits, for as long as the
 * server takes to make room; connecting is bounded by connect_timeout_ms.  An
 * increment that is answered by an error is refused: nothing was buffered.
 *   -EAGAIN  nonblocking: the buffer is full and the server takes nothing now
 *   -EINVAL, -ENAMETOOLONG  the name
 *   -ENOTCONN  the connection broke; see countd_lost()
 *   -ECONNREFUSED ...  what connecting said; nothing is lost */
int countd_incr(struct countd *c, const void *keyspace, size_t keyspace_size,
                const void *key, size_t key_size, int64_t increment);

/* The same of the minute that `at`, Unix seconds, lies in: history has it there,
 * whenever it comes.  0: of the minute in which the server gets it.  Waits with
 * the others, and leaves in its minute over whichever connection.
 *   -ERANGE  a time before 1970-01-01T00:01 or after the year 2989
 *   -ENOMEM  of the first time that a handle is given
 * A server of a version that takes no times ends the connection;
 * countd_sync() then says
 *   -EPROTONOSUPPORT  and nothing from that increment on was counted */
int countd_incr_at(struct countd *c, const void *keyspace, size_t keyspace_size,
                   const void *key, size_t key_size, int64_t increment,
                   int64_t at);

/* Returns how many increments countd_incr() has refused since the last call.
 * countd_finish() and countd_close() do not report these again: for callers who
 * send a refused increment again, or can do without it. */
uint64_t countd_refused(struct countd *c);

/* Sends what can be sent and takes what answers are there, without
 * blocking.  Returns the number of increments not yet sent or not yet
 * acknowledged, or an error as countd_sync(). */
int64_t countd_poll(struct countd *c);

/* A descriptor for the caller's poll() or event loop: when countd_poll() has
 * returned more than 0, it is readable as soon as calling that again gets
 * further (a connect that takes too long is noticed by a call only).  It stays
 * the same and the handle's own.  -errno. */
int countd_fd(struct countd *c);

/* Where the increments are that are neither acknowledged (silent: sent) nor
 * lost: still here, or sent and not answered yet.  Touches no connection, so
 * it reports the same after an error. */
void countd_pending(struct countd *c, uint64_t *unsent, uint64_t *unanswered);

/* Blocks until everything is sent (silent) or acknowledged: on the server's
 * disk.
 *   -ETIMEDOUT  not within timeout_ms; call again to go on
 *   -ENOTCONN   the connection broke and took increments with it; those that
 *               had not gone out go out with the next call
 *   -EBADMSG    the server refused a message (FAIL): this and all behind it
 *               are dropped
 *   -ECONNREFUSED ...  what connecting said; nothing is lost
 *   -EBUSY      another thread is in this call; one at a time
 * An error that another call met is reported here once more, unless
 * countd_lost() was asked since. */
int countd_sync(struct countd *c, int timeout_ms);

/* countd_sync(), and then blocks until all of it is readable, in this keyspace
 * or, with size 0, in all: some 50 ms while workers keep up, else about a
 * second.  If the handle is silent, it waits for the increments that the server
 * had received by then.  Each answer may take as long as countd_read_timeout()
 * says, beyond the time, too.
 *   -ETIMEDOUT  call again
 *   else as countd_sync() and countd_range() */
int countd_wait_readable(struct countd *c, const void *keyspace,
                         size_t keyspace_size, int timeout_ms);

/* Up to when a keyspace or, with size 0, all of them are readable: Unix time. */
int countd_as_of(struct countd *c, const void *keyspace, size_t keyspace_size,
                 int64_t *as_of_ms);

/* Increments whose outcome is unknown because the connection broke, since the
 * last call.  Silent: those the server's kernel had not confirmed. */
uint64_t countd_lost(struct countd *c);

/* ---- reading ----------------------------------------------------------- */

/* A question.  A call says which of the members it takes; the others are
 * to be 0, as in {.keyspace = "pages", .keyspace_size = 5, .length = 10}.
 *
 * A group is what keys have in common up to and with the first byte `group`
 * behind the prefix, such as a customer in keys acme/api_calls; a key without one
 * is a group of its own. */
struct countd_query {
    const void *keyspace;
    size_t keyspace_size;
    const void *key;
    size_t key_size;
    const void *prefix; /* only keys that begin so; size 0: all */
    size_t prefix_size;
    const void *after; /* only names behind this one; size 0: all */
    size_t after_size;
    unsigned char group;    /* a byte such as '/'; 0: each key by itself */
    int64_t offset, length; /* rows; at most 4096 */
    int64_t from, to;       /* Unix seconds; `to` is not part of the time.  Both
                               0: of all time; not for a history */
    int64_t step;           /* of a history, in seconds */
};

/* A sum is exact, of 128 bits. */
struct countd_sum {
    int64_t value; /* cut to the bounds of int64 */
    int64_t high;  /* high * 2^64 + low */
    uint64_t low;
    int any; /* 0: no increments came; else they did, though it may be 0 */
};

struct countd_row {
    int64_t count;
    const char *key; /* or group: key_size bytes, not NUL-terminated */
    size_t key_size;
    int64_t start; /* Unix seconds, of a step of history */
    struct countd_sum sum;
    struct countd_sum before; /* in the time as long before; any: not 0 */
};

struct countd_rows {
    int64_t as_of_ms; /* every increment in a log at this Unix time is in */
    size_t count;
    struct countd_row *rows;
    int64_t first; /* rank of the first row in the order of counts, from 0 */
    int64_t since; /* increments from before it may be missing; 0: none are */
    int64_t from, to; /* the time that sums are of */
    int before_known; /* 1: nothing is missing from `before`, either */
};

#define COUNTD_ROWS_MAX 4096 /* of an answer */

/* Rows `offset` ... of the count order, largest first; a negative offset counts
 * from the end; `length`, at most 4096.  An unknown keyspace has none.
 * countd_rows_free() after success, here and below.
 *   -EINVAL, -ENAMETOOLONG  no such request
 *   -EIO        the keyspace's file cannot be read
 *   -EHOSTDOWN  the server that holds it does not answer: soon again
 *   -ETIME      it takes the server longer than its read.max_time
 *   -ETIMEDOUT, -ENOTCONN, -EPROTO (no countd there), what connecting said */
int countd_range(struct countd *c, const struct countd_query *q,
                 struct countd_rows **out);

/* Up to `length` (at most 4095) rows in the order of counts, with that of `key` in
 * the middle if enough rows are on both sides.  -ENOENT: no such key or
 * keyspace; else as countd_range(). */
int countd_around(struct countd *c, const struct countd_query *q,
                  struct countd_rows **out);

/* Rows in the order of keys: the first `length` (at most 4096) of those that
 * begin with `prefix` and come after `after`.  An unknown keyspace has none. */
int countd_keys(struct countd *c, const struct countd_query *q,
                struct countd_rows **out);

/* Names of keyspaces after `after` with their number of keys in `count`, -1 for
 * one that cannot be read; at most 4096 at a time. */
int countd_keyspaces(struct countd *c, const struct countd_query *q,
                     struct countd_rows **out);
void countd_rows_free(struct countd_rows *rows);

/* Count of one key; -ENOENT: no such key or keyspace. */
int countd_get(struct countd *c, const void *keyspace, size_t keyspace_size,
               const void *key, size_t key_size, int64_t *count);

/* Counts of many keys, up to 256 neighbours of a keyspace in one request; without
 * a key it is the keyspace's total.  Each gets its own result: 0, -ENOENT,
 * -EINVAL, -ENAMETOOLONG, -EIO, -EHOSTDOWN.  0, or the first error but -ENOENT;
 * what ended it all is the result of the rest. */
struct countd_key {
    const void *keyspace;
    size_t keyspace_size;
    const void *key;
    size_t key_size;
    int64_t count; /* out */
    int result;    /* out */
};
int countd_gets(struct countd *c, struct countd_key *keys, size_t count);

struct countd_facts {
    int64_t count;     /* the keyspace's: its total */
    int64_t rank;      /* rank of a key, from 0; -1: it has none */
    int64_t keys;      /* keys of a keyspace */
    int64_t saturated; /* a key: 1 when a sum once left the range of int64; a
                          keyspace: how many such keys */
    int64_t as_of_ms;  /* as in struct countd_rows */
    /* The state of a keyspace: `change` grows with each merge that changes it,
     * and each file has its own nonce.  Rows that were read between two
     * equal answers are of one state. */
    uint64_t nonce, change;
    /* Of countd_period_rank(): */
    int64_t since, from, to; /* as in struct countd_rows */
    struct countd_sum sum;
};

/* The facts of `key` or, without one, of the keyspace; -ENOENT (as_of_ms is set
 * then, too). */
int countd_about(struct countd *c, const struct countd_query *q,
                 struct countd_facts *out);

/* ---- history ----------------------------------------------------------- */

/* The increments of each time, by the server's setting `history`.
 *
 * The server widens a period to whole minutes, hours or days, UTC: to the
 * finest that nothing is missing from, or least is.  The answer has these
 * times.
 *
 *   -EINVAL   times that the keyspace has no tier for: for a history `from` and
 *             the step must be multiples of the step of one tier, and all of
 *             whole minutes; `to` before `from`; a key with a prefix or group
 *   -E2BIG    more than 4096 steps
 *   -ENOENT   no such keyspace    -ENODATA  it has no history
 *   others as of countd_range() */

/* The increments of `key`, of the keys with `prefix` or of the keyspace: a row with
 * `start` and `sum` for each step, also for a step without increments, as all are
 * of an unknown key. */
int countd_history(struct countd *c, const struct countd_query *q,
                   struct countd_rows **out);

/* The keys or groups with the largest sums in a period, ties by key, with `sum` and
 * `before`; `length`, at most 4096, and none but `since` for 0.  Without a time
 * they are those with the largest counts. */
int countd_period_top(struct countd *c, const struct countd_query *q,
                      struct countd_rows **out);

/* The sum of `key` in a period, and its rank by that; of one without increments
 * in it (sum.any is 0) the rank is -1.  Without a key the sum of all keys, or of
 * those with the prefix, and no rank.  `keys`: the keys, or groups, with increments
 * in the period.  Without a time the sum is of counts, and with a key `keys` is 0;
 * -ENOENT: there is no such key. */
int countd_period_rank(struct countd *c, const struct countd_query *q,
                       struct countd_facts *out);

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
    const char *address;         /* NULL: 127.0.0.1:11215, or :11216, if there
                                    is no directory */
    int semaphore;               /* 1: the default is that of semaphores */
    unsigned connect_timeout_ms; /* 0: 5000 */
    unsigned timeout_ms;         /* for answers; 0: 5000 */
    const char *directory;       /* data directory of the server */
};

/* Connects.  `options` may be NULL; nothing of it is kept.  Errors of host
 * names as of countd_open(). */
int countd_live_open(struct countd_live **out,
                     const struct countd_live_options *options);
/* Releases everything that is held, and frees the handle.  A forked child keeps
 * the connection open, too: when the parent dies before it closed the handle,
 * what it held is released only when the child has called exec or ended. */
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
/* Reads how much is taken of a counter, or available of a semaphore. */
int countd_live_get(struct countd_live *l, const void *name, size_t size,
                    uint32_t *value);

/* Calls `each` for every counter, in no order, while they come; stop early
 * (and lose the connection) by returning a value other than 0, which is then
 * returned.  `each` must not use the handle. */
int countd_live_dump(struct countd_live *l,
                     int (*each)(void *ctx, const void *name, size_t size,
                                 uint32_t current, uint32_t maximum),
                     void *ctx);
/* Calls `each` for every connection that holds of `name`: its address as text,
 * how much it holds, and its age in seconds.  Whatever changes meanwhile is seen
 * or not.  -ENOENT; -EOPNOTSUPP by servers other than countd; stop early by
 * returning a value other than 0, which is then returned. */
int countd_live_who(struct countd_live *l, const void *name, size_t size,
                    int (*each)(void *ctx, const char *address, uint32_t amount,
                                uint32_t age_s),
                    void *ctx);
/* The server's statistics, in its order; texts end with NUL. */
int countd_live_stats(struct countd_live *l,
                      int (*each)(void *ctx, const char *name,
                                  const char *value),
                      void *ctx);

/* ---- sequence numbers --------------------------------------------------- */

/* Unique numbers, which increase, from countd-write's HTTP port.
 *
 *     struct countd_http *h;
 *     struct countd_number n;
 *     if (countd_http_open(&h, NULL) < 0) ...
 *     if (countd_seq(h, &n, 1) == 0)
 *         puts(n.text);
 *     countd_http_close(h);
 *
 * A handle keeps its connection, and makes it again when it has ended.  It is
 * thread-safe (one lock inside; calls wait for each other). */
struct countd_http;

struct countd_http_options {
    size_t size;           /* sizeof(struct countd_http_options) */
    const char *address;   /* NULL: 127.0.0.1:9527, if there is no directory */
    unsigned timeout_ms;   /* to connect, and for each answer; 0: 5000 */
    const char *directory; /* data directory of the server */
    const char *token;     /* a token of the server's http.tokens; NULL: none */
};

/* Does not connect yet.  `options` may be NULL; nothing of it is kept.  Errors
 * as of countd_open(), and
 *   -EILSEQ  what cannot be a token */
int countd_http_open(struct countd_http **out,
                     const struct countd_http_options *options);
void countd_http_close(struct countd_http *h);

struct countd_number {
    char text[17]; /* 16 characters, and NUL */
};

/* The next `count` numbers, in order.  Their order as bytes is another: compare
 * second and serial of countd_seq_explain().
 *   -EAGAIN      the server gives none now: its disk fails, or its mark is
 *                damaged (its messages say which)
 *   -EOPNOTSUPP  it serves no sequences, or is not countd
 *   -EACCES      it does not know the name that it was asked by (http.hosts),
 *                or wants another token or right (http.tokens)
 *   -ETIMEDOUT, -ENOTCONN, -EPROTO, what connecting said */
int countd_seq(struct countd_http *h, struct countd_number *out, size_t count);

struct countd_seq_parts {
    uint64_t reserve;
    uint64_t server_no;
    uint64_t second; /* Unix time */
    uint64_t serial;
};

/* Splits a number into its parts; needs no server.  -EINVAL: it is not one. */
int countd_seq_explain(const char *text, struct countd_seq_parts *out);

/* ---- quotas ------------------------------------------------------------- */

/* An amount that is applied for and given back, durable before the answer; at
 * the same port.  `name` is that of the quota, NULL the one without.
 *
 *     struct countd_quota_answer a;
 *     rc = countd_quota(h, NULL, COUNTD_QUOTA_APPLY, 5, NULL, &a);
 *     ... a.number is what to cancel */
enum countd_quota_op {
    COUNTD_QUOTA_QUERY,
    COUNTD_QUOTA_APPLY,    /* value: amount */
    COUNTD_QUOTA_CANCEL,   /* value: number of an application */
    COUNTD_QUOTA_INCREASE, /* value: amount */
    COUNTD_QUOTA_DECREASE, /* value: amount; not below 0 */
    COUNTD_QUOTA_EMPTY,
    COUNTD_QUOTA_CREATE, /* value: limit */
    COUNTD_QUOTA_REMOVE  /* remaining: what remained */
};

struct countd_quota_answer {
    uint64_t number; /* number that APPLY gave or CANCEL took; else 0 */
    int64_t remaining;
};

/* `key` (1 to 255 printable bytes, no blank) makes the request happen once
 * however often it is made with that key within a day; NULL: once for this
 * call, which tries again when its connection ends.
 *
 *   -EDQUOT      APPLY: less than that remains, or nothing
 *   -ENOENT      CANCEL: no such application, or it is cancelled already
 *   -ERANGE      what remains would not fit; CANCEL of 0
 *   -ENODATA     there is no quota of that name
 *   -EEXIST      CREATE: there is
 *   -ENOSPC      CREATE: quota.max
 *   -EINVAL      a name or value that cannot be
 *   -EKEYREJECTED  the key was used for something else
 *   -EAGAIN      the server cannot make it durable now; it has not happened
 *   -EOPNOTSUPP  it serves no quotas, or is not countd
 *   others as of countd_seq(); after -ETIMEDOUT and -ENOTCONN it may have
 *   happened: only with a key it is safe to ask again */
int countd_quota(struct countd_http *h, const char *name,
                 enum countd_quota_op op, int64_t value, const char *key,
                 struct countd_quota_answer *out);

/* Calls `each` for every quota in the order of names, the one without a name
 * ("-") first; a value other than 0 stops it and is returned.  `each` must not
 * use the handle. */
int countd_quota_list(struct countd_http *h,
                      int (*each)(void *ctx, const char *name, int64_t limit,
                                  int64_t remaining),
                      void *ctx);

const char *countd_version(void);

#ifdef __cplusplus
}
#endif

#endif
