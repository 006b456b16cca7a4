/* common/net/http.h - HTTP/1.1 as a protocol at a listener: requests are parsed
 * where they were received, routed by a table, answered in place.
 *
 * A site is what a listener serves: tables of routes, each with the context of
 * the module that answers.  A route gets only requests that are whole, well
 * formed, of a method that is known, and not sent by a web page of another
 * site.  A body, also one in chunks, is given to a route with HTTP_READS_BODY,
 * and read and thrown away for others.  Refused are, with these statuses:
 *
 *   400  malformed; two Hosts, lengths, types or encodings of a body, tokens,
 *        Idempotency-Keys, Sec-Fetch-Sites or -Modes; below /v1/ without Host
 *        in HTTP/1.1
 *   401  http_site.tokens, and the request has no token that is known; never
 *        on a unix socket, whose mode says who may connect
 *   403  Origin or Referer is there, Sec-Fetch-Site names another site, or
 *        Host is a name that another site's DNS may give (http_site.hosts),
 *        which is not asked on a unix socket; the answer and the log name it;
 *        the token has no right to it
 *   404  no route; a path that is there with another query
 *   405  a route, but not for this method; Allow lists which.  OPTIONS is
 *        answered with 200 and Allow, except at a path below /v1/ without GET
 *   413  a body of more than HTTP_BODY_MAX; for a route with HTTP_LONG_BODY, of
 *        more than HTTP_LONG_BODY_MAX, unless it comes in chunks
 *   417  Expect with anything but 100-continue
 *   429  a page of http_site.origins asked too often (a route's own)
 *   431  a head of more than HTTP_HEAD_MAX
 *   501  a method that is not known; Transfer-Encoding other than chunked
 *   505  a version other than 1.0 or 1.1
 *
 * A client that expects it gets 100 Continue before it sends a body.  The
 * connection is kept after 404, 405, and 401 or 403 because of a token, unless
 * such a client waits, and ends after the others.  Answers are as follows, byte
 * for byte, `Connection` only when the connection is kept:
 *
 *   HTTP/1.1 200 OK CRLF
 *   Connection: keep-alive CRLF
 *   Content-length: 17 CRLF
 *   CRLF
 *   17 bytes
 *
 * Answers to a page of http_site.origins have what lets the browser show them
 * to it, errors included; its preflight, OPTIONS, is answered with 204.
 *
 * A route answers so:
 *
 *     uint8_t *body = http_body(x, MOST);
 *     if (!body || !conn_gate(x->conn, gate)) // a gate, if the answer is to
 *         return CONN_FULL;                   // wait for a commit
 *     ... change what is to be changed, write the body ...
 *     return http_end(x, HTTP_OK, size);
 *
 * or, for an answer that is too long for one turn, with http_begin_long().
 *
 * After CONN_FULL and CONN_PAUSE the route is called again with the same request,
 * from the beginning: nothing may have been changed before.  Answers leave in the order
 * of the requests, whatever some of them wait for.
 *
 * Ownership: a site is the caller's and outlives its listener.  What a request
 * points to is valid in the call only.  Nothing allocates.
 * Source: RFC 9110 and 9112.  The paths of countd-write outside of /v1/ are those
 * of coconut, a server of sequence numbers and quotas: its clients work here, so
 * answers are as it sends them.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_HTTP_H
#define COUNTD_COMMON_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/net/conn.h"
#include "common/net/http_parse.h"
#include "common/net/tokens.h"

#define HTTP_ANSWER_HEAD 2048  /* bytes of a head, at most */
#define HTTP_HEADERS_MAX 10240 /* bytes of http_call.headers */
#define HTTP_DETAIL_SIZE 512   /* text of why a request is refused, with NUL */
#define HTTP_IDLE_S      60    /* idle_s and request_s of its listener */
#define HTTP_YIELD_S     10    /* yield_s of a listener */
#define HTTP_TABLES_MAX  4
#define HTTP_INPUT_MAX   (HTTP_HEAD_MAX + HTTP_LONG_BODY_MAX) /* of a request */
#define HTTP_CLASSES     4    /* of statuses: 2.. to 5.. */
#define HTTP_HOSTS_SIZE  1024 /* text of http_site.hosts, with its end */

enum http_status {
    HTTP_OK = 200,
    HTTP_CREATED = 201,
    HTTP_NO_CONTENT = 204,
    HTTP_NOT_MODIFIED = 304, /* without a body */
    HTTP_BAD_REQUEST = 400,
    HTTP_UNAUTHORIZED = 401,
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_METHOD_NOT_ALLOWED = 405,
    HTTP_NOT_ACCEPTABLE = 406,
    HTTP_CONFLICT = 409,
    HTTP_LENGTH_REQUIRED = 411,
    HTTP_PRECONDITION_FAILED = 412,
    HTTP_TOO_LARGE = 413,
    HTTP_MEDIA_TYPE = 415,
    HTTP_EXPECTATION_FAILED = 417,
    HTTP_UNPROCESSABLE = 422,
    HTTP_TOO_MANY = 429,
    HTTP_HEAD_TOO_LARGE = 431,
    HTTP_INTERNAL_ERROR = 500,
    HTTP_NOT_IMPLEMENTED = 501,
    HTTP_UNAVAILABLE = 503,
    HTTP_GATEWAY_TIMEOUT = 504,
    HTTP_VERSION = 505,
    HTTP_NO_SPACE = 507
};

/* What a route keeps with a request from one call to the next. */
struct http_held {
    /* The request is answered, or its connection has ended. */
    void (*gone)(struct http_held *held);
    /* After http_begin_long(): puts the next piece of the answer with
     * conn_space() and conn_put(), of about CONN_SLICE bytes: CONN_LONG when
     * there is more, CONN_FULL, CONN_ANSWERED after the last. */
    enum conn_next (*more)(struct http_held *held, struct conn *c);
};

/* A request at its route. */
struct http_call {
    struct conn *conn;
    void *ctx; /* ctx of the table */
    const struct http_request *request;
    unsigned flags;          /* enum http_route_flags, or-ed, of the route */
    unsigned rights;         /* enum tokens_right, or-ed, of the client */
    struct http_text rest;   /* the path behind the route's */
    struct http_text value;  /* value of the parameter that the route names */
    struct http_text body;   /* with HTTP_READS_BODY */
    struct http_held **held; /* NULL at first; the route's */
    /* Of the answer, before http_body(): its Content-Type, and with that Date,
     * nosniff and Cache-Control, which is no-store if `cache` is NULL; further
     * header lines, each with CR LF.  NULL: none of them.  304 has no type, but
     * Cache-Control; a site that only reads adds Date and
     * Cross-Origin-Resource-Policy to each answer. */
    const char *type, *cache, *headers;
    int64_t as_of_ms; /* of a problem: the moment of which it is true; 0: none
                       */
    /* http_answer.c's: where the answer begins, and its body behind the room for
     * the head. */
    uint8_t *out;
    size_t body_at;
};

enum http_route_flags {
    HTTP_READS_BODY = 1, /* http_call.body; other routes' are thrown away */
    HTTP_IS_OPEN = 2,    /* for all clients, by any Host: health */
    HTTP_IS_PUBLIC = 4,  /* without a token */
    HTTP_LONG_BODY = 8, /* of HTTP_LONG_BODY_MAX: input_max is HTTP_INPUT_MAX */
    HTTP_TAKES_PAGES = 32, /* pages of http_site.origins may POST there, without
                              a token, where the site does not only read */
    HTTP_MESSAGES = 16,    /* errors but 404 and 405 are {"message":"..."}, as
                              Grafana shows them */
    HTTP_TAKES_SLASH = 64  /* the path may have a slash at its end */
};

struct http_route {
    const char *path;  /* "/fetch"; "/quota/": all that begins so and goes on */
    const char *query; /* what must follow: NULL: nothing, not even "?"; "amt":
                          "?amt=", then its value, whose end is "&" or "#" or
                          that of the target (what follows is ignored); "*":
                          anything, or nothing */
    unsigned methods;  /* enum http_method, or-ed */
    /* CONN_ANSWERED when it is answered, CONN_FULL, CONN_PAUSE (http_hold()). */
    enum conn_next (*answer)(struct http_call *x);
    unsigned flags; /* enum http_route_flags, or-ed */
    /* Checks the head, before the client is asked to send its body and before
     * `answer`.  False: the request is refused, with *next.  NULL: every head
     * is accepted. */
    bool (*check)(struct http_call *x, enum conn_next *next);
};

struct http_table {
    const struct http_route *routes;
    size_t count;
    void *ctx;
    enum tokens_right right; /* what a client needs */
};

struct http_stats {
    uint64_t requests; /* answered by a route, or with 404 or 405 */
    uint64_t refused;  /* of the requests: 404 or 405 */
    uint64_t by_class[HTTP_CLASSES]; /* answers with a status of 2.. to 5..,
                                        those to health checks left out */
};

struct http_site {
    struct http_table tables[HTTP_TABLES_MAX]; /* looked at in this order */
    size_t count;
    char hosts[HTTP_HOSTS_SIZE]; /* names, beside addresses and names without a
                                    dot, that are ours, separated by blanks */
    bool get_changes;            /* http_may_change() allows GET everywhere */
    bool only_reads; /* nothing is changed here: a page that was loaded from
                        here, or of `origins`, may ask, and a link be followed
                      */
    struct tokens *tokens; /* NULL: no token is asked for */
    const char *origins;   /* of such pages, and of those that a route with
                              HTTP_TAKES_PAGES serves, separated by blanks; "*":
                              of all */
    const char *elsewhere; /* behind "no such path here" for paths of /v1/ that
                              there are at another port; NULL: nothing */
    struct http_stats stats;
    uint8_t joined[HTTP_BODY_MAX]; /* a body that came in chunks */
    uint64_t date_s; /* Unix time of `date`; 0: there is none yet */
    char date[40];
};

/* The protocol of a listener whose ctx is a struct http_site.  Its row has
 * HTTP_IDLE_S as idle_s and request_s, and HTTP_YIELD_S as yield_s. */
extern const struct protocol http_protocol;

/* Adds a table, for clients with this right; routes of the same path and query
 * may stand in it for different methods. */
void http_site_add(struct http_site *s, const struct http_route *routes,
                   size_t count, void *ctx, enum tokens_right right);

/* ---- for routes --------------------------------------------------------- */

/* Where a body of at most `max` bytes goes; NULL: return CONN_FULL.  `max` is
 * at most answer_max of the listeners less HTTP_ANSWER_HEAD. */
uint8_t *http_body(struct http_call *x, size_t max);

/* The answer, with the `size` bytes that were written where http_body() said.
 * Returns what the route is to return. */
enum conn_next http_end(struct http_call *x, enum http_status status,
                        size_t size);

/* The answer of a few words in plain text. */
enum conn_next http_answer_text(struct http_call *x, enum http_status status,
                                const char *text);

/* The route of /healthz: 200 while the loop turns. */
enum conn_next http_answer_health(struct http_call *x);

/* The head of an answer of `size` bytes, which what is held puts.  Returns what
 * the route is to return. */
enum conn_next http_begin_long(struct http_call *x, size_t size);

/* ---- errors
 *
 * What is refused for a route with HTTP_MESSAGES is an object with a message.
 *
 * Below /v1/ and of /metrics an error is application/problem+json (RFC 9457):
 * title, status, code (a word for programs, which stays as it is), detail (a
 * line for people) and, if it is not 0, the line of the body where it is.
 * Elsewhere it is the text of the status ("Not Found"), behind a colon the
 * detail. */
struct http_problem {
    const char *code;   /* NULL: the usual one of the status */
    const char *detail; /* NULL: none */
    uint32_t line;      /* 0: none */
};

enum conn_next http_refuse(struct http_call *x, enum http_status status,
                           const struct http_problem *problem);
enum conn_next http_fail(struct http_call *x, enum http_status status);

/* Which of http_site.origins the page that made a request is of; -1: of none, or
 * no page made it. */
int http_find_origin(const struct http_site *s, const struct http_request *r);

/* Whether such a page is served by a route with these flags. */
bool http_serves_page(const struct http_site *s, const struct http_request *r,
                      unsigned flags);

/* 405 for a route that looks at the rest of a path itself; `detail` may be
 * NULL. */
enum conn_next http_not_allowed(struct http_call *x, unsigned methods,
                                const char *detail);

/* Whether the client has a right beyond that of the table.  False: *next is the
 * answer, 403. */
bool http_needs_right(struct http_call *x, enum tokens_right right,
                      enum conn_next *next);

/* For a route that changes something: whether a request with this method may.
 * A browser sends no header with which a GET that a page of another site makes
 * could be recognised, but to loopback addresses; so at any other address
 * only a POST changes something, unless get_changes.  False: *next is the
 * answer, 405. */
bool http_may_change(struct http_call *x, enum conn_next *next);

/* The request waits in the line, a list of connections in the order they came.
 * Returns CONN_PAUSE. */
enum conn_next http_hold(struct http_call *x, struct list_link *line);

/* Milliseconds since it first did; 0: it has not; UINT64_MAX: its client has
 * closed, or half-closed, and is answered what is due now. */
uint64_t http_waited_ms(struct http_call *x);

/* All that wait in the line are called again; those that have waited for
 * waited_ms.  The latter returns when it is to be called again, 0 for an empty
 * line, else milliseconds, at least 1. */
void http_wake(struct list_link *line);
uint64_t http_wake_late(struct list_link *line, uint64_t waited_ms);

#endif
