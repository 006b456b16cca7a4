/* countd.h - libcountd: count things in countd, and read the counts.
 *
 *     struct countd *c;
 *     if (countd_open(&c, NULL) < 0) ...
 *     countd_incr(c, countd_name("pages"), countd_name("/index"), 1);
 *     if (countd_finish(c, 1000) < 0) ...      some may not be counted
 *
 * Increments are buffered: they are sent when the buffer fills, and by
 * countd_poll() and countd_sync().  While the buffer is full, countd_incr()
 * waits for the server, unless the handle is `nonblocking`.  A handle is
 * thread-safe (one lock inside).  Names are 1 to 256 bytes (or the sizes that
 * the server is set to), any but NUL.
 *
 * Two ways to send, chosen at open:
 *   silent        the server answers nothing; an increment is counted at most
 *                 once
 *   acknowledged  countd_sync() returns 0 only when every increment before it
 *                 is on the server's disk.  If a connection breaks, it is not
 *                 known whether those not acknowledged were counted: sending
 *                 them again may count them twice, so the library does not; it
 *                 reports how many.
 *
 * An increment is buffered while it is in this process, synced when it is on
 * the server's disk, and readable when the reader's answers contain it.
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
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a server is: the options of each kind of handle have an address, and
 * `directory`, the data directory of a server on this machine.  With a
 * directory and no address the handle uses the socket in the directory, in
 * whose place no other user can listen.  Connecting then fails with
 *   -ECONNREFUSED  no server runs on the directory
 *   -EPERM  this user may not use its sockets; see socket.group in countd(5)
 * and opening with -EINVAL or -ENAMETOOLONG for a bad path. */

#define COUNTD_VERSION "0.1.0"

/* A name: `size` bytes, which need not end with NUL.  A call does not use them
 * once it has returned.  (C++: `struct` is part of the type's name.) */
struct countd_name {
    const char *data;
    size_t size;
};

/* The name that is a text; "" is the empty name. */
static inline struct countd_name
countd_name(const char *text)
{
    const struct countd_name name = {text, strlen(text)};

    return name;
}

/* The name of any bytes. */
static inline struct countd_name
countd_bytes(const void *data, size_t size)
{
    const struct countd_name name = {(const char *)data, size};

    return name;
}

struct countd;

struct countd_options {
    size_t size;            /* sizeof(struct countd_options) */
    const char *write;      /* address of the silent or acknowledging port;
                               NULL: 127.0.0.1:48881, or :48879 when silent,
                               if there is no directory */
    const char *read;       /* of the HTTP port (read.http), for all that reads;
                               NULL: 127.0.0.1:48890 */
    int silent;             /* 1: the silent port */
    size_t buffer_size;     /* bytes; 0: 256 KiB */
    unsigned keyspace_size; /* message sizes of the server; 0: 256 */
    unsigned key_size;
    unsigned connect_timeout_ms; /* 0: 5000 */
    int sum;                     /* 1: increments of a key that are buffered at
                                    the same time may be sent as their sum; the
                                    functions below count it as one increment */
    int nonblocking; /* 1: countd_incr() returns -EAGAIN instead of waiting */
    const char *directory; /* data directory of the server */
    const char *token;     /* a token of the server's http.tokens; NULL: none */
};

/* Looks host names up, but does not connect yet.  `options` may be NULL; it is
 * copied.
 *   -EINVAL         a bad option, such as an address without a port
 *   -EADDRNOTAVAIL  a host name has no address
 *   -EAGAIN         a host name cannot be looked up now */
int countd_open(struct countd **out, const struct countd_options *options);

/* Frees the handle.  Sends nothing, and returns how many increments are not
 * known to be counted: not sent, not acknowledged, or lost or refused and not
 * yet reported by countd_lost() or countd_refused().  0 if `c` is NULL. */
int64_t countd_close(struct countd *c);

/* Calls countd_sync() and then, in any case, countd_close().  Returns 0 only
 * when every increment that countd_incr() was called with is on the server's
 * disk (silent: sent); otherwise the error of countd_sync() or, if that
 * succeeded, of the first refused increment that countd_refused() has not
 * reported yet. */
int countd_finish(struct countd *c, int timeout_ms);

/* Buffers one increment.  While the buffer is full, waits without limit until
 * the server has taken some; connecting takes at most connect_timeout_ms.  If
 * an error is returned, the increment is refused: it is not buffered.
 *   -EAGAIN  nonblocking: the buffer is full and the server takes nothing now
 *   -EINVAL, -ENAMETOOLONG  a bad name
 *   -ENOTCONN  the connection broke; see countd_lost()
 *   -ECONNREFUSED ...  connecting failed; no other increment is lost */
int countd_incr(struct countd *c, struct countd_name keyspace,
                struct countd_name key, int64_t increment);

/* The same, for the minute of `at`, in Unix seconds: the history has the
 * increment in that minute, whenever it arrives.  0: the minute in which it
 * arrives.  It keeps its minute if it is sent over a later connection.
 *   -ERANGE  a time before 1970-01-01T00:01 or after the year 2989
 *   -ENOMEM  only the first time that a handle is given a time
 * A server whose version does not support times closes the connection;
 * countd_sync() then returns
 *   -EPROTONOSUPPORT  nothing from that increment on was counted */
int countd_incr_at(struct countd *c, struct countd_name keyspace,
                   struct countd_name key, int64_t increment, int64_t at);

/* Returns how many increments countd_incr() has refused since the last call;
 * countd_finish() and countd_close() do not report these again.  For callers
 * that send a refused increment again, or can do without it. */
uint64_t countd_refused(struct countd *c);

/* Sends and receives as much as possible without blocking.  Returns the number
 * of increments not yet sent or not yet acknowledged, or an error of
 * countd_sync(). */
int64_t countd_poll(struct countd *c);

/* Returns a descriptor for the caller's poll() or event loop, or -errno.  After
 * countd_poll() has returned more than 0, the descriptor becomes readable as
 * soon as another call can make progress; only a call notices that a connect
 * takes too long.  The descriptor belongs to the handle and never changes. */
int countd_fd(struct countd *c);

/* Counts the increments that are neither acknowledged (silent: sent) nor lost:
 * those not sent yet, and those sent and not answered yet.  Touches no
 * connection, so it reports the same after an error. */
void countd_pending(struct countd *c, uint64_t *unsent, uint64_t *unanswered);

/* Blocks until everything is sent (silent) or acknowledged: on the server's
 * disk.
 *   -ETIMEDOUT  not within timeout_ms; call again to go on
 *   -ENOTCONN   the connection broke: the outcome of increments on their way
 *               is unknown; the next call sends those not sent yet
 *   -EBADMSG    the server refused a message (FAIL): this and all after it
 *               are dropped
 *   -ECONNREFUSED ...  connecting failed; nothing is lost
 *   -EBUSY      another thread is in this call
 * An error that another call has returned is returned here once more, unless
 * countd_lost() was called since. */
int countd_sync(struct countd *c, int timeout_ms);

/* Calls countd_sync(), then blocks until everything is readable in this
 * keyspace or, if that is empty, in all: about 50 ms while workers keep up,
 * otherwise about a second.  A silent handle waits for the increments that the
 * server has received by then.  The last request may exceed timeout_ms by the timeout
 * of countd_read_timeout().
 *   -ETIMEDOUT  call again
 *   others as of countd_sync() and countd_range() */
int countd_wait_readable(struct countd *c, struct countd_name keyspace,
                         int timeout_ms);

/* The Unix time up to which everything is readable in a keyspace or, if that is
 * empty, in all. */
int countd_as_of(struct countd *c, struct countd_name keyspace,
                 int64_t *as_of_ms);

/* Returns how many increments since the last call have an unknown outcome
 * because the connection broke.  Silent: those that the server's kernel had not
 * confirmed. */
uint64_t countd_lost(struct countd *c);

/* ---- reading ----------------------------------------------------------- */

/* A query.  Members that a call does not take must be 0, as in
 * {.keyspace = countd_name("pages"), .length = 10}.
 *
 * A group is the keys that are equal up to and including the first byte `group`
 * after the prefix, such as those of a customer in keys like acme/api_calls; a
 * key without that byte is a group of its own. */
struct countd_query {
    struct countd_name keyspace;
    struct countd_name key;
    struct countd_name prefix; /* only keys that begin with it; empty: all */
    struct countd_name after;  /* only names after this one; empty: all */
    unsigned char group;       /* a byte such as '/'; 0: each key by itself */
    int64_t offset, length;    /* rows; at most 4096 */
    int64_t from, to; /* Unix seconds, without `to` itself.  Both 0: all
                                  time, except for a history */
    int64_t step;     /* of a history, in seconds */
};

/* An exact sum of 128 bits. */
struct countd_sum {
    int64_t value; /* the sum, limited to the range of int64 */
    int64_t high;  /* the sum is high * 2^64 + low */
    uint64_t low;
    int any; /* 0: no increments; else there were some, even if the sum is 0 */
};

struct countd_row {
    int64_t count;
    struct countd_name key; /* or group; in the memory of the rows */
    int64_t start;          /* of a step of history, Unix seconds */
    struct countd_sum sum;
    struct countd_sum before; /* of the period before, of the same length; `any`
                                 is 1 if it is not 0 */
};

struct countd_rows {
    int64_t as_of_ms; /* Unix time: rows include all that was in a log then */
    size_t count;
    struct countd_row *rows;
    int64_t first;    /* rank of the first row in the order of counts, from 0 */
    int64_t since;    /* increments before it may be missing; 0: none are */
    int64_t from, to; /* the period of the sums */
    int before_known; /* 1: nothing is missing from `before` */
};

#define COUNTD_ROWS_MAX 4096 /* of an answer */

/* `length` rows, at most 4096, from `offset` on in the order of counts, largest
 * first; a negative offset counts from the end.  An unknown keyspace has none.
 * The caller frees the rows with countd_rows_free(), here and below.
 *   -EINVAL, -ENAMETOOLONG  an invalid query
 *   -EIO        the keyspace's file cannot be read
 *   -EHOSTDOWN  the database that has it does not answer: try again soon
 *   -ETIME      it takes the server longer than its read.max_time
 *   -ETIMEDOUT, -ENOTCONN, -EPROTO (no countd there), errors of connecting */
int countd_range(struct countd *c, const struct countd_query *q,
                 struct countd_rows **out);

/* Up to `length` (at most 4095) rows in the order of counts, with the row of
 * `key` in the middle if there are enough on both sides.  -ENOENT: no such key
 * or keyspace; others as of countd_range(). */
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
int countd_get(struct countd *c, struct countd_name keyspace,
               struct countd_name key, int64_t *count);

/* Counts of many keys; an entry without a key gets the keyspace's total.  Up to
 * 256 entries in a row that are keys of one keyspace are one request.  Each
 * entry has its own result: 0, -ENOENT, -EINVAL, -ENAMETOOLONG, -EIO or
 * -EHOSTDOWN.  Returns 0, or the first error other than -ENOENT; an error that
 * ends the call is the result of all further entries. */
struct countd_key {
    struct countd_name keyspace;
    struct countd_name key;
    int64_t count; /* out */
    int result;    /* out */
};
int countd_gets(struct countd *c, struct countd_key *keys, size_t count);

struct countd_facts {
    int64_t count;     /* the keyspace's: its total */
    int64_t rank;      /* rank of a key, from 0; -1: it has none */
    int64_t keys;      /* keys of a keyspace */
    int64_t saturated; /* of a key: 1 if its sum once left the range of int64;
                          of a keyspace: how many such keys it has */
    int64_t as_of_ms;  /* as in struct countd_rows */
    /* The state of a keyspace: `change` grows with each merge that changes it,
     * and each file has its own nonce.  Rows that were read between two answers
     * with equal states are of one state. */
    uint64_t nonce, change;
    /* Only from countd_period_rank(): */
    int64_t since, from, to; /* as in struct countd_rows */
    struct countd_sum sum;
};

/* The facts about `key` or, without one, about the keyspace.  -ENOENT: there is
 * no such key or keyspace; as_of_ms is set nevertheless. */
int countd_about(struct countd *c, const struct countd_query *q,
                 struct countd_facts *out);

/* ---- history ----------------------------------------------------------- */

/* Increments by time, as the server's setting `history` retains them.
 *
 * The server widens a period to whole minutes, hours or UTC days: to the finest
 * of which nothing, or the least, is missing.  The answer has the widened
 * times.
 *
 *   -EINVAL   times that no step of the setting `history` fits: for
 *             countd_history(), `from` and `step` must be multiples of such a
 *             step, and all times whole minutes; `to` before `from`; a key
 *             together with a prefix or group
 *   -E2BIG    more than 4096 steps
 *   -ENOENT   no such keyspace    -ENODATA  it has no history
 *   others as of countd_range() */

/* The increments of `key`, of the keys with `prefix` or of the keyspace: a row
 * with `start` and `sum` for each step, even one without increments.  A key
 * that does not exist has only such steps. */
int countd_history(struct countd *c, const struct countd_query *q,
                   struct countd_rows **out);

/* The `length` keys or groups, at most 4096, with the largest sums in a period,
 * with `sum` and `before`; equal sums are in order of key.  With `length` 0
 * there are no rows, only `since`.  Without a period, those with the largest
 * counts. */
int countd_period_top(struct countd *c, const struct countd_query *q,
                      struct countd_rows **out);

/* The sum of `key` in a period, and its rank by that sum: -1 if it has no
 * increments there (sum.any is 0).  Without a key: the sum of all keys, or of
 * those with the prefix, and no rank.  `keys` is the number of keys, or groups,
 * with increments in the period.  Without a period the sum is of counts, with a
 * key `keys` is 0, and -ENOENT means that there is no such key. */
int countd_period_rank(struct countd *c, const struct countd_query *q,
                       struct countd_facts *out);

/* Timeout of the reading calls; default 5000. */
void countd_read_timeout(struct countd *c, int timeout_ms);

/* ---- live resources ---------------------------------------------------- */

/* Counters and semaphores in the memory of countd-write: what is acquired
 * belongs to the connection, and is released when it ends, for whatever reason.
 *
 *     struct countd_live *l;
 *     if (countd_live_open(&l, NULL) < 0) ...
 *     if (countd_acquire(l, countd_name("mail"), 1, 10) == 0) {
 *         ...                                  one of at most ten at a time
 *         countd_release(l, countd_name("mail"), 1);
 *     }
 *     countd_live_close(l);
 *
 * One handle is one connection.  When it breaks, everything that it held is
 * released, and every call returns -ENOTCONN: open a new handle.  A handle is
 * thread-safe (one lock inside; calls wait for each other).  Names are 1 to
 * 65535 bytes of any value.
 *
 * Answers of the server:
 *   -ENOENT  no such object        -EBUSY   not available now
 *   -EPERM   this connection does not hold that much
 *   -EINVAL  an invalid request    -ENOMEM  the server's memory is used up
 *   -EOPNOTSUPP  the server does not know the request (Dump of semaphores)
 * And: -ETIMEDOUT (the connection is closed), -ENOTCONN, -EPROTO (the server
 * speaks another protocol). */
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

/* Connects.  `options` may be NULL; it is copied.  Errors of host names as of
 * countd_open(). */
int countd_live_open(struct countd_live **out,
                     const struct countd_live_options *options);
/* Releases everything that is held, and frees the handle.  A forked child keeps
 * the connection open, too: if the parent dies without closing the handle, what
 * it held is released only when the child calls exec or ends. */
void countd_live_close(struct countd_live *l);

/* Returns a descriptor for poll(), which becomes readable when the connection
 * ends and what it held is lost; during a call also for an answer. */
int countd_live_fd(const struct countd_live *l);
/* 0 while the connection stands, -ENOTCONN; does not block. */
int countd_live_alive(struct countd_live *l);

/* `bound`: a counter's maximum, checked at every call; a semaphore's initial
 * value, used when it is created.  -EBUSY: refused, nothing has changed. */
int countd_acquire(struct countd_live *l, struct countd_name name,
                   uint32_t resources, uint32_t bound);
int countd_release(struct countd_live *l, struct countd_name name,
                   uint32_t resources);
/* Reads how much is taken of a counter, or available of a semaphore. */
int countd_live_get(struct countd_live *l, struct countd_name name,
                    uint32_t *value);

/* Calls `each` for every counter as it arrives, in no order.  A value other
 * than 0 of `each` ends the call, which returns it, and the connection.  `each`
 * must not use the handle. */
int countd_live_dump(struct countd_live *l,
                     int (*each)(void *ctx, struct countd_name name,
                                 uint32_t current, uint32_t maximum),
                     void *ctx);
/* Calls `each` for every connection that holds some of `name`, with its address
 * as text, how much it holds, and its age in seconds.  Changes made meanwhile
 * may or may not be seen.  A value other than 0 of `each` ends the call, which
 * returns it.  -ENOENT: no such name; -EOPNOTSUPP: not countd's server. */
int countd_live_who(struct countd_live *l, struct countd_name name,
                    int (*each)(void *ctx, const char *address, uint32_t amount,
                                uint32_t age_s),
                    void *ctx);
/* The server's statistics, in its order; texts end with NUL. */
int countd_live_stats(struct countd_live *l,
                      int (*each)(void *ctx, const char *name,
                                  const char *value),
                      void *ctx);

/* ---- sequence numbers --------------------------------------------------- */

/* Unique, increasing numbers from countd-write's HTTP port.
 *
 *     struct countd_http *h;
 *     struct countd_number n;
 *     if (countd_http_open(&h, NULL) < 0) ...
 *     if (countd_seq(h, &n, 1) == 0)
 *         puts(n.text);
 *     countd_http_close(h);
 *
 * A handle keeps its connection, and connects again after it has ended.  It is
 * thread-safe (one lock inside; calls wait for each other). */
struct countd_http;

struct countd_http_options {
    size_t size;           /* sizeof(struct countd_http_options) */
    const char *address;   /* NULL: 127.0.0.1:9527, if there is no directory */
    unsigned timeout_ms;   /* to connect, and for each answer; 0: 5000 */
    const char *directory; /* data directory of the server */
    const char *token;     /* a token of the server's http.tokens; NULL: none */
};

/* Does not connect yet.  `options` may be NULL; it is copied.  Errors as of
 * countd_open(), and
 *   -EILSEQ  an invalid token */
int countd_http_open(struct countd_http **out,
                     const struct countd_http_options *options);
void countd_http_close(struct countd_http *h);

struct countd_number {
    char text[17]; /* 16 characters, and NUL */
};

/* The next `count` numbers, in order.  They are not ordered as text: to compare
 * two, compare second and serial of countd_seq_explain().
 *   -EAGAIN      the server gives none now: its disk fails, or its mark is
 *                damaged (its messages say which)
 *   -EOPNOTSUPP  the server has sequence numbers off, or is not countd
 *   -EACCES      the server does not know the host name in the address
 *                (http.hosts), or requires another token or right (http.tokens)
 *   -ETIMEDOUT, -ENOTCONN, -EPROTO, errors of connecting */
int countd_seq(struct countd_http *h, struct countd_number *out, size_t count);

struct countd_seq_parts {
    uint64_t reserve;
    uint64_t server_no;
    uint64_t second; /* Unix time */
    uint64_t serial;
};

/* Splits a number into its parts, without a server.  -EINVAL: `text` is not a
 * sequence number. */
int countd_seq_explain(const char *text, struct countd_seq_parts *out);

/* ---- quotas ------------------------------------------------------------- */

/* An amount of which parts are applied for and given back, at the same port.
 * Each change is on disk before it is answered.
 *
 *     struct countd_quota_request r = {.op = COUNTD_QUOTA_APPLY, .value = 5};
 *     struct countd_quota_answer a;
 *     rc = countd_quota(h, &r, &a);
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

/* Its texts end with NUL. */
struct countd_quota_request {
    enum countd_quota_op op;
    int64_t value;    /* as the op says; else 0 */
    const char *name; /* of the quota; NULL: the quota without a name */
    const char *key;  /* 1 to 255 printable bytes, no blank; NULL: none */
};

struct countd_quota_answer {
    uint64_t number; /* given to an APPLY or CANCEL; else 0 */
    int64_t remaining;
};

/* Makes one request.  With a `key` the change is made once, however often it is
 * requested with that key within a day.  Without: once for this call, which
 * tries again if its connection ends.
 *
 *   -EDQUOT      APPLY: less than that remains, or nothing
 *   -ENOENT      CANCEL: no such application, or it is cancelled already
 *   -ERANGE      the remaining amount would be too large; CANCEL of 0
 *   -ENODATA     there is no quota of that name
 *   -EEXIST      CREATE: the quota exists
 *   -ENOSPC      CREATE: there are already quota.max quotas
 *   -EINVAL      an invalid name or value
 *   -EKEYREJECTED  the key was used for another request
 *   -EAGAIN      the server cannot write now; the change was not made
 *   -EOPNOTSUPP  the server has quotas off, or is not countd
 *   others as of countd_seq().  After -ETIMEDOUT and -ENOTCONN the change may
 *   have been made: only with a key is it safe to repeat the call */
int countd_quota(struct countd_http *h,
                 const struct countd_quota_request *request,
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
