/* tests/unit/test_http.c - HTTP at a listener, through the fixture of
 * tests/lib/echo.h: a table of dialogues, each in one piece and split at every
 * byte. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/net/http_internal.h"
#include "common/net/http_query.h"
#include "tests/lib/echo.h"
#include "tests/lib/fault.h"

#define KEPT    "Connection: keep-alive\r\n"
#define KEPT_60 KEPT "Keep-Alive: timeout=60\r\n"
#define OK      "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 3\r\n\r\nok\n"
#define LAST    "HTTP/1.1 200 OK\r\nContent-length: 3\r\n\r\nok\n"
#define OK_10   "HTTP/1.0 200 OK\r\nContent-length: 3\r\n\r\nok\n"
#define NONE                                                                   \
    "HTTP/1.1 404 Not Found\r\n" KEPT "Content-length: 9\r\n\r\nNot Found"
#define BAD    "HTTP/1.1 400 Bad Request\r\nContent-length: 11\r\n\r\nBad Request"
#define NOT_US "HTTP/1.1 403 Forbidden\r\nContent-length: 9\r\n\r\nForbidden"
#define NO_HOST(length, host)                                                  \
    "HTTP/1.1 403 Forbidden\r\nContent-length: " length                        \
    "\r\n\r\nForbidden: the Host " host                                        \
    " is not known here; if it is this server's, add it to http.hosts"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"
#define OPTIONS(length, methods)                                               \
    "HTTP/1.1 200 OK\r\n" KEPT "Allow: " methods "\r\nContent-length: " length \
    "\r\n\r\n"
#define NONE_LAST  "HTTP/1.1 404 Not Found\r\nContent-length: 9\r\n\r\nNot Found"
#define BODY(type) "POST /body HTTP/1.1\r\nContent-Type: " type "\r\n"
#define CHUNKED    "POST /ok HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
#define ONLY                                                                   \
    "HTTP/1.1 405 Method Not Allowed\r\n" KEPT                                 \
    "Allow: GET, POST\r\nContent-length: 18\r\n\r\n"
#define NOT_ALLOWED ONLY "Method Not Allowed"
#define LARGE                                                                  \
    "HTTP/1.1 413 Content Too Large\r\nContent-length: 17\r\n\r\n"             \
    "Content Too Large"
#define EXPECTS                                                                \
    "HTTP/1.1 417 Expectation Failed\r\nContent-length: 18\r\n\r\n"            \
    "Expectation Failed"
#define HEADERS                                                                \
    "HTTP/1.1 431 Request Header Fields Too Large\r\n"                         \
    "Content-length: 31\r\n\r\nRequest Header Fields Too Large"
#define UNKNOWN                                                                \
    "HTTP/1.1 501 Not Implemented\r\nContent-length: 15\r\n\r\n"               \
    "Not Implemented"
#define VERSION                                                                \
    "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-length: 26\r\n\r\n"    \
    "HTTP Version Not Supported"

#define GET(headers) "GET /ok HTTP/1.1\r\n" headers "\r\n"

/* ---- a site ------------------------------------------------------------- */

struct web {
    struct echo *f;
    struct http_site site;
    struct list_link line;
    struct http_held held;
    bool open; /* requests of /hold are answered */
    unsigned calls;
};

static enum conn_next
answer_bytes(struct http_call *x, enum http_status status, const void *text,
             size_t size)
{
    uint8_t *body = http_body(x, size);

    if (!body)
        return CONN_FULL;
    memcpy(body, text, size);
    return http_end(x, status, size);
}

static enum conn_next
answer_ok(struct http_call *x)
{
    ((struct web *)x->ctx)->calls++;
    return answer_bytes(x, HTTP_OK, "ok\n", 3);
}

/* As many bytes as its query says. */
static enum conn_next
answer_large(struct http_call *x)
{
    int64_t size;
    uint8_t *body;

    if (!http_number(x->value, &size) || size > 500000)
        return http_fail(x, HTTP_BAD_REQUEST);
    body = http_body(x, (size_t)size);
    if (!body)
        return CONN_FULL;
    memset(body, 'x', (size_t)size);
    return http_end(x, HTTP_OK, (size_t)size);
}

/* The rest of the path, its query and key; short of what it asked room for. */
static enum conn_next
answer_rest(struct http_call *x)
{
    uint8_t *body = http_body(x, 5000);
    int n;

    if (!body)
        return CONN_FULL;
    n = snprintf((char *)body, 5000, "%.*s|%.*s|%.*s", (int)x->rest.size,
                 x->rest.at, (int)x->request->query.size,
                 x->request->query.at ? (const char *)x->request->query.at : "",
                 (int)x->request->key.size,
                 x->request->key.at ? (const char *)x->request->key.at : "");
    return http_end(x, HTTP_CREATED, (size_t)n);
}

static enum conn_next
answer_held(struct http_call *x)
{
    struct web *w = x->ctx;

    return w->open ? answer_bytes(x, HTTP_OK, "ok\n", 3)
                   : http_hold(x, &w->line);
}

static enum conn_next
answer_when_waited(struct http_call *x)
{
    struct web *w = x->ctx;

    return http_waited_ms(x) >= 60000 ? answer_bytes(x, HTTP_OK, "ok\n", 3)
                                      : http_hold(x, &w->line);
}

/* Others are woken, and answered, when its connection ends. */
static void
open_line(struct http_held *held)
{
    struct web *w = LOOP_OWNER(held, struct web, held);

    w->open = true;
    http_wake(&w->line);
}

static enum conn_next
answer_never(struct http_call *x)
{
    struct web *w = x->ctx;

    w->held.gone = open_line;
    *x->held = &w->held;
    return CONN_PAUSE;
}

static enum conn_next
put_held(struct http_held *held, struct conn *c)
{
    uint8_t *to = conn_space(c, 3);

    (void)held;
    if (!to)
        return CONN_FULL;
    memcpy(to, "ok\n", 3);
    conn_put(c, 3);
    return CONN_ANSWERED;
}

static void
drop_nothing(struct http_held *held)
{
    (void)held;
}

static enum conn_next
answer_in_pieces(struct http_call *x)
{
    struct web *w = x->ctx;

    w->held = (struct http_held){.gone = drop_nothing, .more = put_held};
    *x->held = &w->held;
    return http_begin_long(x, 3);
}

/* The body comes back; refused unless it is of the type a/b. */
static enum conn_next
answer_body(struct http_call *x)
{
    return answer_bytes(x, HTTP_OK, x->body.at, x->body.size);
}

static bool
check_type(struct http_call *x, enum conn_next *next)
{
    const struct http_problem problem = {"media-type", "only \"a/b\"", 7};

    if (http_text_is_like(x->request->type, "a/b"))
        return true;
    *next = http_refuse(x, HTTP_MEDIA_TYPE, &problem);
    return false;
}

static const struct http_route routes[] = {
    {"/body", NULL, HTTP_POST, answer_body, HTTP_READS_BODY, check_type},
    {"/v1/body", NULL, HTTP_POST, answer_body, HTTP_READS_BODY, check_type},
    {"/open", NULL, HTTP_GET, answer_ok, HTTP_IS_OPEN, NULL},
    {"/ok", NULL, HTTP_GET | HTTP_POST, answer_ok, 0, NULL},
    {"/seen", NULL, HTTP_GET | HTTP_HEAD, answer_ok, 0, NULL},
    {"/large", "n", HTTP_GET | HTTP_POST, answer_large, 0, NULL},
    {"/any/", "*", HTTP_GET | HTTP_POST, answer_rest, 0, NULL},
    {"/held", NULL, HTTP_GET, answer_held, 0, NULL},
    {"/wait", NULL, HTTP_GET, answer_when_waited, 0, NULL},
    {"/never", NULL, HTTP_GET, answer_never, 0, NULL},
    {"/long", NULL, HTTP_GET, answer_in_pieces, 0, NULL},
    {"/one", "*", HTTP_DELETE, answer_ok, 0, NULL},
    {"/one", "*", HTTP_POST, answer_ok, 0, NULL},
};

static void
set_up(struct web *w)
{
    diag_init("test", DIAG_ERROR); /* a refusal is a warning */
    w->f = echo_new();
    list_init(&w->line);
    http_site_add(&w->site, routes, sizeof routes / sizeof routes[0], w,
                  TOKENS_READ);
    strcpy(w->site.hosts, "countd.Example.org  other.example.org");
    w->f->rows[ECHO].protocol = &http_protocol;
    w->f->rows[ECHO].ctx = &w->site;
    w->f->rows[ECHO].idle_s = HTTP_IDLE_S;
    w->f->rows[ECHO].request_s = HTTP_IDLE_S;
    echo_start(w->f);
}

static void
tear_down(struct web *w)
{
    fault_clear();
    echo_free(w->f);
}

#define CASE(name, w) TEST_WITH(name, struct web, w, set_up, tear_down)

/* ---- dialogues ---------------------------------------------------------- */

struct dialogue {
    const char *say;
    const char *hear; /* NULL: nothing yet */
    bool ends;        /* and then the connection */
};

static const struct dialogue dialogues[] = {
    {GET(""), OK, false},
    {GET("Host: x\r\n"), OK, false},
    {"POST /ok HTTP/1.1\r\n\r\n", OK, false},
    {"GET /ok HTTP/1.1\nHost: x\n\n", OK, false},
    {"\r\n" GET(""), OK, false},
    {GET("X:\r\nX-Long: a\tb \xc3\xa9 c\r\n"), OK, false},

    /* Which connections are kept. */
    {GET("Connection: close\r\n"), LAST, true},
    {GET("Connection: CLOSE\r\n"), LAST, true},
    {GET("Connection: Upgrade, close\r\n"), LAST, true},
    {GET("Connection: keep-alive\r\n"), OK, false},
    {"GET /ok HTTP/1.0\r\n\r\n", OK_10, true},
    {"GET /ok HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
     "HTTP/1.0 200 OK\r\n" KEPT "Content-length: 3\r\n\r\nok\n", false},
    {"GET /ok HTTP/1.0\r\nConnection: kept-alive\r\n\r\n", OK_10, true},
    {"GET /ok HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n", OK_10, true},
    {GET("Connection: close\r\nConnection: keep-alive\r\n"), LAST, true},

    /* One behind the other. */
    {GET("") GET("") GET(""), OK OK OK, false},
    {GET("") "GET /no HTTP/1.1\r\n\r\n" GET("Connection: close\r\n"),
     OK NONE LAST, true},
    {GET("Connection: close\r\n") GET(""), LAST, true},

    /* Bodies. */
    {"POST /ok HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345" GET(""), OK OK,
     false},
    {"POST /ok HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345"
     "POST /ok HTTP/1.1\r\nContent-Length: 2\r\n\r\n12" GET(""),
     OK OK OK, false},
    {"POST /ok HTTP/1.1\r\ncontent-length: 0\r\n\r\n" GET(""), OK OK, false},
    {"POST /no HTTP/1.1\r\nContent-Length: 18\r\n\r\nGET /ok HTTP/1.1\r\n" GET(
         ""),
     NONE OK, false},
    {"POST /ok HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", LARGE, true},
    {"POST /ok HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", LARGE,
     true},

    /* Another server may take the end of a line otherwise. */
    {"POST /ok HTTP/1.1\nContent-Length: 5\r\n\r\n12345", BAD, true},
    {"POST /ok HTTP/1.1\r\nTransfer-Encoding: chunked\n\r\n0\r\n\r\n", BAD,
     true},
    {"\r\n\n\r\n" GET("") "\r\n\r\n" GET(""), OK OK, false},

    /* A client that waits before it sends its body. */
    {"POST /ok HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
     "12345" GET(""),
     CONTINUE OK OK, false},
    {"POST /ok HTTP/1.1\r\nexpect: 100-Continue\r\n"
     "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n" GET(""),
     CONTINUE OK OK, false},
    {"POST /ok HTTP/1.1\r\nExpect: 100-continue\r\n\r\n" GET(""), OK OK, false},
    {"POST /ok HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n12",
     OK_10, true},
    {"POST /no HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
     NONE_LAST, true},
    {"POST /ok HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 65537\r\n"
     "\r\n",
     LARGE, true},
    {"POST /ok HTTP/1.1\r\nExpect: 200-ok\r\nContent-Length: 5\r\n\r\n",
     EXPECTS, true},

    /* A route that reads bodies, and one that all may ask. */
    {BODY("a/b") "Content-Length: 5\r\n\r\nhello" GET(""),
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 5\r\n\r\nhello" OK, false},
    {BODY("A/B") "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n"
                 "0\r\n\r\n" GET(""),
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 5\r\n\r\nhello" OK, false},
    {BODY("a/b") "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello" GET(
         ""),
     CONTINUE "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 5\r\n\r\nhello" OK,
     false},
    {BODY("c/d") "Content-Length: 5\r\n\r\nhello" GET(""),
     "HTTP/1.1 415 Unsupported Media Type\r\n" KEPT
     "Content-length: 34\r\n\r\nUnsupported Media Type: only \"a/b\"" OK,
     false},
    {BODY("c/d") "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
     "HTTP/1.1 415 Unsupported Media Type\r\n"
     "Content-length: 34\r\n\r\nUnsupported Media Type: only \"a/b\"",
     true},
    {"POST /body HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
     "HTTP/1.1 415 Unsupported Media Type\r\n" KEPT
     "Content-length: 34\r\n\r\nUnsupported Media Type: only \"a/b\"",
     false},
    {"GET /open HTTP/1.1\r\nHost: evil.example.com\r\nOrigin: x\r\n\r\n", OK,
     false},

    /* Bodies in chunks. */
    {CHUNKED "0\r\n\r\n" GET(""), OK OK, false},
    {CHUNKED "5\r\nhello\r\n0\r\n\r\n" GET(""), OK OK, false},
    {CHUNKED "00005\r\nhello\r\nA;x=\"y\"\r\n0123456789\r\n0\r\n"
             "Checksum: 1\r\nOther: 2\r\n\r\n" GET(""),
     OK OK, false},
    {CHUNKED "14\r\nGET /ok HTTP/1.1\r\n\r\n\r\n0\r\n\r\n" GET(""), OK OK,
     false},
    {CHUNKED "10000\r\n", NULL, false}, /* 65536 bytes are to come */
    {CHUNKED "10001\r\n", LARGE, true},
    {CHUNKED "5\r\nhello\r\nfffc\r\n", LARGE, true},
    {CHUNKED "100000005\r\nhello\r\n", BAD, true},
    {CHUNKED "5\nhello\r\n0\r\n\r\n", BAD, true},
    {CHUNKED "5\r\nhello\n0\r\n\r\n", BAD, true},
    {CHUNKED "5\r\nhello0\r\n\r\n", BAD, true},
    {CHUNKED "5\r\nhello\r\n0\r\n\n", BAD, true},
    {CHUNKED "5 \r\nhello\r\n0\r\n\r\n", BAD, true},
    {CHUNKED "-5\r\nhello\r\n0\r\n\r\n", BAD, true},
    {CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", BAD, true},
    {CHUNKED ";x\r\nhello\r\n0\r\n\r\n", BAD, true},
    {CHUNKED "5;a\x01\r\nhello\r\n0\r\n\r\n", BAD, true},
    {CHUNKED "5;a\rb\r\nhello\r\n0\r\n\r\n", BAD, true},
    {CHUNKED "\r\nhello\r\n0\r\n\r\n", BAD, true},

    /* Where another server could see another end of a request. */
    {"POST /ok HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n12345",
     BAD, true},
    {"POST /ok HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
     BAD, true},
    {"POST /ok HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n12345", BAD, true},
    {"POST /ok HTTP/1.1\r\nContent-Length: +5\r\n\r\n12345", BAD, true},
    {"POST /ok HTTP/1.1\r\nContent-Length: 0x5\r\n\r\n12345", BAD, true},
    {"POST /ok HTTP/1.1\r\nContent-Length:\r\n\r\n12345", BAD, true},
    {"POST /ok HTTP/1.1\r\nContent-Length : 5\r\n\r\n12345", BAD, true},
    {"POST /ok HTTP/1.1\r\n Content-Length: 5\r\n\r\n12345", BAD, true},
    {"POST /ok HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: "
     "chunked\r\n\r\n0\r\n\r\n",
     BAD, true},
    {"POST /ok HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: "
     "5\r\n\r\n0\r\n\r\n",
     BAD, true},
    {"POST /ok HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
     "chunked\r\n\r\n0\r\n\r\n",
     BAD, true},
    {"POST /ok HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
     UNKNOWN, true},
    {"POST /ok HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "HTTP/1.0 400 Bad Request\r\nContent-length: 11\r\n\r\nBad Request", true},
    {"POST /ok HTTP/1.1\r\nContent-Length: 5\r\ntransfer-encoding: "
     "identity\r\n\r\n12345",
     UNKNOWN, true},
    {GET("A: b\rContent-Length: 5\r\n"), BAD, true},
    {GET("A: b\r\r\n"), BAD, true},
    {GET("A\x0b: b\r\n"), BAD, true},
    {GET("A: b\x01\r\n"), BAD, true},
    {GET("A\r\n"), BAD, true},
    {GET(": b\r\n"), BAD, true},

    /* Request lines. */
    {"GET /ok\r\n\r\n", BAD, true},
    {"GET  /ok HTTP/1.1\r\n\r\n", BAD, true},
    {"GET /ok  HTTP/1.1\r\n\r\n", BAD, true},
    {"GET /ok HTTP/1.1 \r\n\r\n", BAD, true},
    {" GET /ok HTTP/1.1\r\n\r\n", BAD, true},
    {"GET /o\tk HTTP/1.1\r\n\r\n", BAD, true},
    {"GET /ok http/1.1\r\n\r\n", BAD, true},
    {"GET /ok HTTP/1.11\r\n\r\n", BAD, true},
    {"hello\r\n", BAD, true},
    {"\r\n\r\n", NULL, false},
    {"G(T /ok HTTP/1.1\r\n\r\n", BAD, true},
    {"GET /ok HTTP/2.0\r\n\r\n", VERSION, true},
    {"GET /ok HTTP/1.2\r\n\r\n", VERSION, true},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", VERSION, true},
    {"PATCH /ok HTTP/1.1\r\n\r\n", UNKNOWN, true},
    {"get /ok HTTP/1.1\r\n\r\n", UNKNOWN, true},
    {"CONNECT a:1 HTTP/1.1\r\n\r\n", UNKNOWN, true},

    /* Routes. */
    {"GET / HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /OK HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /okay HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /ok/ HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /%6fk HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /ok? HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /ok?x=1 HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /ok#x HTTP/1.1\r\n\r\n", NONE, false},
    {"GET http://127.0.0.1/ok HTTP/1.1\r\n\r\n", NONE, false},
    {"GET * HTTP/1.1\r\n\r\n",
     "HTTP/1.1 405 Method Not Allowed\r\n" KEPT
     "Allow: GET, HEAD, POST, DELETE\r\nContent-length: 18\r\n\r\n"
     "Method Not Allowed",
     false},
    {"OPTIONS * HTTP/1.1\r\n\r\n",
     OPTIONS("0", "GET, HEAD, POST, DELETE, OPTIONS"), false},
    {"OPTIONS /ok HTTP/1.1\r\n\r\n", OPTIONS("0", "GET, POST, OPTIONS"), false},
    {"OPTIONS /no HTTP/1.1\r\n\r\n", NONE, false},
    {"OPTIONS /ok HTTP/1.1\r\nOrigin: http://a.b\r\n\r\n", NOT_US, true},
    {"HEAD /seen HTTP/1.1\r\n\r\n" GET(""),
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 3\r\n\r\n" OK, false},
    {"GET /large HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /large?n HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /large?N=1 HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /large?x=1&n=1 HTTP/1.1\r\n\r\n", NONE, false},
    {"GET /large?n=1&x=2 HTTP/1.1\r\n\r\n",
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 1\r\n\r\nx", false},
    {"GET /large?n=12#3 HTTP/1.1\r\n\r\n",
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 12\r\n\r\nxxxxxxxxxxxx",
     false},
    {"GET /any/a/b?c=d HTTP/1.1\r\nIDEMPOTENCY-key:  k 1 \r\n\r\n",
     "HTTP/1.1 201 Created\r\n" KEPT "Content-length: 11\r\n\r\na/b|c=d|k 1",
     false},
    {"GET /any/a HTTP/1.1\r\nIdempotency-Key: 1\r\nIdempotency-Key: 1\r\n\r\n",
     BAD, true},
    {GET("Content-Type: a/b\r\nContent-Type: a/b\r\n"), BAD, true},
    {GET("Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"), BAD,
     true},
    {GET("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"), BAD, true},
    {"DELETE /one HTTP/1.1\r\n\r\n", OK, false},
    {"POST /one HTTP/1.1\r\n\r\n", OK, false},
    {"GET /one HTTP/1.1\r\n\r\n",
     "HTTP/1.1 405 Method Not Allowed\r\n" KEPT
     "Allow: POST, DELETE\r\nContent-length: 18\r\n\r\nMethod Not Allowed",
     false},
    {"PUT /ok HTTP/1.1\r\n\r\n", NOT_ALLOWED, false},
    {"DELETE /ok HTTP/1.1\r\n\r\n", NOT_ALLOWED, false},
    {"TRACE /ok HTTP/1.1\r\n\r\n", NOT_ALLOWED, false},
    {"HEAD /ok HTTP/1.1\r\n\r\n" GET(""), ONLY OK, false}, /* no body */

    /* Web pages. */
    {GET("Origin: http://127.0.0.1:9527\r\n"), NOT_US, true},
    {GET("Origin: null\r\n"), NOT_US, true},
    {GET("Referer: http://127.0.0.1:9527/\r\n"), NOT_US, true},
    {GET("Sec-Fetch-Site: cross-site\r\n"), NOT_US, true},
    {GET("Sec-Fetch-Site: same-site\r\n"), NOT_US, true},
    {GET("Sec-Fetch-Site: none\r\n"), OK, false},
    {GET("Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n"), BAD, true},
    {GET("Sec-Fetch-Mode: navigate\r\nSec-Fetch-Mode: cors\r\n"), BAD, true},
    {GET("sec-fetch-site: same-origin\r\n"), OK, false},
    {GET("Host: evil.example.com\r\n"), NO_HOST("100", "evil.example.com"),
     true},
    {GET("Host: evil.example.com:9527\r\n"), NO_HOST("100", "evil.example.com"),
     true},
    {GET("Host: 1.2.3.4.example.com\r\n"),
     NO_HOST("103", "1.2.3.4.example.com"), true},
    {GET("Host: org.\r\n"), NO_HOST("88", "org."), true},
    {GET("Host: evil%2eexample\r\n"), NO_HOST("98", "evil%2eexample"), true},
    {GET("Host: a.\\b\r\n"), NO_HOST("89", "a.\\\\b"), true},
    {GET("Host: 127.0.0.1:9527\r\n"), OK, false},
    {GET("Host: [::1]:9527\r\n"), OK, false},
    {GET("Host: localhost\r\n"), OK, false},
    {GET("Host: Other.Example.ORG:9527\r\n"), OK, false},
    {GET("Host: a\r\nHost: b\r\n"), BAD, true},
};

static void
hear_dialogue(struct echo *f, int fd, const struct dialogue *d)
{
    if (!d->hear)
        echo_hear_nothing(f, fd);
    else if (d->ends)
        echo_hear_end(f, fd, d->hear);
    else
        echo_hear(f, fd, d->hear);
}

/* A place of its own for each connection. */
static int
join_site(struct echo *f)
{
    if (f->peer_count > 0) {
        f->peer_count--;
        assert_int_equal(close(f->peers[f->peer_count]), 0);
        echo_turns(f, 1);
    }
    return echo_join(f, ECHO);
}

CASE(each_dialogue_goes_as_it_should_wherever_it_is_split, w)
{
    for (size_t i = 0; i < sizeof dialogues / sizeof dialogues[0]; i++) {
        const struct dialogue *d = &dialogues[i];
        const size_t size = strlen(d->say);

        for (size_t split = 0; split < size; split++) {
            const int fd = join_site(w->f);

            if (split > 0) {
                echo_say(fd, d->say, split);
                echo_turns(w->f, 1);
            }
            echo_say(fd, d->say + split, size - split);
            hear_dialogue(w->f, fd, d);
        }
    }
}

/* Behind the answer that ends it a connection takes no more. */
CASE(each_dialogue_may_come_byte_by_byte, w)
{
    for (size_t i = 0; i < sizeof dialogues / sizeof dialogues[0]; i++) {
        const int fd = join_site(w->f);

        for (const char *at = dialogues[i].say; *at != '\0'; at++) {
            (void)send(fd, at, 1, MSG_NOSIGNAL);
            echo_turns(w->f, 1);
        }
        hear_dialogue(w->f, fd, &dialogues[i]);
    }
}

/* Below /v1/ the answers have a type, a date, and problems in JSON. */
CASE(newer_paths_answer_problems_in_json, w)
{
    static const struct {
        const char *say, *head, *body;
        bool ends;
    } talks[] = {
        {"POST /v1/body HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 415 Unsupported Media Type\r\n" KEPT_60,
         "{\"title\": \"Unsupported Media Type\", \"status\": 415, \"code\": "
         "\"media-type\", \"detail\": \"only \\\"a/b\\\"\", \"line\": 7}\n",
         false},
        {"GET /v1/no HTTP/1.1\r\nHost: x\r\n\r\n",
         "HTTP/1.1 404 Not Found\r\n" KEPT_60,
         "{\"title\": \"Not Found\", \"status\": 404, \"code\": "
         "\"no-such-path\", \"detail\": \"no such path here; ask "
         "elsewhere\"}\n",
         false},
        {"OPTIONS /v1/body HTTP/1.1\r\nHost: x\r\n\r\n",
         "HTTP/1.1 405 Method Not Allowed\r\n" KEPT_60,
         "{\"title\": \"Method Not Allowed\", \"status\": 405, \"code\": "
         "\"method\", \"detail\": \"this path has only POST\"}\n",
         false},
        {"POST /v1/body HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 400 Bad Request\r\n",
         "{\"title\": \"Bad Request\", \"status\": 400, \"code\": "
         "\"bad-request\", \"detail\": \"malformed HTTP, no Host, or a header "
         "twice that may be there once\"}\n",
         true},
        {"POST /v1/body HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n",
         "HTTP/1.1 413 Content Too Large\r\n",
         "{\"title\": \"Content Too Large\", \"status\": 413, \"code\": "
         "\"too-large\", \"detail\": \"a body of more than 65536 bytes, or of "
         "131072 with the lines of its chunks: send several requests\"}\n",
         true},
        {"POST /v1/body HTTP/1.1\r\nHost: a.b\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 403 Forbidden\r\n",
         "{\"title\": \"Forbidden\", \"status\": 403, \"code\": "
         "\"foreign-host\", \"detail\": \"the Host a.b is not known here; if "
         "it "
         "is this server's, add it to http.hosts\"}\n",
         true},
    };
    const char *date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    char text[2048], length[64];
    size_t size;

    w->site.elsewhere = "ask elsewhere";
    for (size_t i = 0; i < sizeof talks / sizeof talks[0]; i++) {
        const int fd = join_site(w->f);

        echo_say(fd, talks[i].say, strlen(talks[i].say));
        (void)snprintf(length, sizeof length, "Content-length: %zu\r\n\r\n",
                       strlen(talks[i].body));
        size = (size_t)snprintf(
            text, sizeof text,
            "%s%sContent-Type: application/problem+json\r\nCache-Control: "
            "no-store\r\nX-Content-Type-Options: nosniff\r\n%s%s%s",
            talks[i].head, date,
            strstr(talks[i].head, " 405 ") ? "Allow: POST\r\n" : "", length,
            talks[i].body);
        echo_hear_size(w->f, fd, size);
        /* Whatever the time is. */
        memcpy(w->f->heard + strlen(talks[i].head), date, strlen(date));
        if (memcmp(w->f->heard, text, size) != 0)
            fail_msg("%.*s", (int)size, (const char *)w->f->heard);
        if (talks[i].ends)
            echo_hear_end(w->f, fd, "");
    }
}

/* ---- limits ------------------------------------------------------------- */

static void
say_head(struct web *w, int fd, size_t size, size_t lines)
{
    static char head[2 * HTTP_HEAD_MAX];
    size_t at = (size_t)sprintf(head, "GET /ok HTTP/1.1\r\n");

    for (size_t i = 0; i < lines; i++)
        at += (size_t)sprintf(head + at, "a:\r\n");
    at += (size_t)sprintf(head + at, "b:");
    while (at < size - 4)
        head[at++] = 'x';
    memcpy(head + at, "\r\n\r\n", 4);
    echo_say(fd, head, size / 2);
    echo_turns(w->f, 3);
    echo_say(fd, head + size / 2, size - size / 2);
}

CASE(a_head_may_have_64_kib_and_127_headers, w)
{
    int fd = echo_join(w->f, ECHO);

    say_head(w, fd, HTTP_HEAD_MAX, 0);
    echo_hear(w->f, fd, OK);
    say_head(w, fd, 4096, HTTP_LINES_MAX - 3);
    echo_hear(w->f, fd, OK);
    say_head(w, fd, HTTP_HEAD_MAX + 1, 0);
    echo_hear_end(w->f, fd, HEADERS);
    fd = echo_join(w->f, ECHO);
    say_head(w, fd, 4096, HTTP_LINES_MAX - 2);
    echo_hear_end(w->f, fd, HEADERS);
    /* Without any end. */
    fd = echo_join(w->f, ECHO);
    for (size_t i = 0; i <= HTTP_HEAD_MAX; i += 4096) {
        uint8_t some[4096];

        memset(some, 'x', sizeof some);
        echo_say(fd, some, sizeof some);
        echo_turns(w->f, 1);
    }
    echo_hear_end(w->f, fd, HEADERS);
}

CASE(a_body_of_64_kib_is_thrown_away_before_the_answer, w)
{
    const char *head = "POST /ok HTTP/1.1\r\nContent-Length: 65536\r\n\r\n";
    static uint8_t body[HTTP_BODY_MAX];
    const int fd = echo_join(w->f, ECHO);

    memset(body, 'G', sizeof body);
    echo_say(fd, head, strlen(head));
    echo_say(fd, body, sizeof body - 1);
    echo_hear_nothing(w->f, fd);
    assert_int_equal(w->calls, 0);
    echo_say(fd, body, 1);
    echo_hear(w->f, fd, OK);
    assert_int_equal(w->calls, 1);
}

/* With the largest head before it, and in the most chunks. */
CASE(a_body_of_64_kib_may_come_in_chunks, w)
{
    static const struct {
        size_t chunk;
        const char *answer;
    } bodies[] = {{65536, OK}, {9, OK}, {8, LARGE}};
    static char text[HTTP_HEAD_MAX + 2 * HTTP_CHUNKS_MAX];
    const char *head = "POST /ok HTTP/1.1\r\nTransfer-Encoding: chunked\r\nx:";

    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        const int fd = join_site(w->f);
        size_t at = strlen(head), piece;

        memset(text, 'x', HTTP_HEAD_MAX);
        memcpy(text, head, at);
        memcpy(text + HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
        at = HTTP_HEAD_MAX;
        for (size_t left = HTTP_BODY_MAX; left > 0; left -= piece) {
            piece = left < bodies[i].chunk ? left : bodies[i].chunk;
            at += (size_t)sprintf(text + at, "%04zx\r\n", piece);
            memset(text + at, 'y', piece);
            at += piece;
            at += (size_t)sprintf(text + at, "\r\n");
        }
        at += (size_t)sprintf(text + at, "0\r\n\r\n");
        for (size_t from = 0; from < at; from += piece) {
            piece = at - from < 50000 ? at - from : 50000;
            echo_say(fd, text + from, piece);
            echo_turns(w->f, 3);
        }
        echo_hear(w->f, fd, bodies[i].answer);
    }
}

CASE(large_answers_are_whole, w)
{
    static const int sizes[] = {0, 9, 10, 99, 65536, 500000};
    const int fd = echo_join(w->f, ECHO);
    char text[256];
    size_t head;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        (void)snprintf(text, sizeof text, "GET /large?n=%d HTTP/1.1\r\n\r\n",
                       sizes[i]);
        echo_say(fd, text, strlen(text));
        head = (size_t)snprintf(
            text, sizeof text,
            "HTTP/1.1 200 OK\r\n" KEPT "Content-length: %d\r\n\r\n", sizes[i]);
        echo_hear_size(w->f, fd, head + (size_t)sizes[i]);
        assert_memory_equal(w->f->heard, text, head);
        for (int n = 0; n < sizes[i]; n++)
            assert_int_equal(w->f->heard[head + (size_t)n], 'x');
    }
    echo_hear_nothing(w->f, fd);
}

CASE(thousands_may_be_sent_ahead, w)
{
    const char *ask = "GET /any/12345678 HTTP/1.1\r\n\r\n";
    const char *want =
        "HTTP/1.1 201 Created\r\n" KEPT "Content-length: 10\r\n\r\n12345678||";
    const size_t size = strlen(want);
    const int fd = echo_join(w->f, ECHO);

    for (int i = 0; i < 10000; i++)
        echo_say(fd, ask, strlen(ask));
    echo_hear_size(w->f, fd, 10000 * size);
    for (size_t i = 0; i < 10000; i++)
        assert_memory_equal(w->f->heard + i * size, want, size);
}

CASE(each_answer_counts_in_the_class_of_its_status_but_those_of_health, w)
{
    const char *ask = GET("") "GET /long HTTP/1.1\r\n\r\n"
                              "GET /open HTTP/1.1\r\n\r\n"
                              "GET /no HTTP/1.1\r\n\r\n";
    const uint64_t *by_class = w->site.stats.by_class;
    const int fd = echo_join(w->f, ECHO);

    echo_say(fd, ask, strlen(ask));
    echo_hear(w->f, fd, OK OK OK NONE);
    assert_int_equal(by_class[0], 2);
    assert_int_equal(by_class[1], 0);
    assert_int_equal(by_class[2], 1);
    assert_int_equal(by_class[3], 0);
}

/* ---- parameters --------------------------------------------------------- */

TEST(a_parameter_is_found_where_it_stands)
{
    static const struct {
        const char *target, *value; /* of n; NULL: it is not there */
    } queries[] = {
        {"/a?n=1", "1"},       {"/a?x=2&n=1&n=3", "1"}, {"/a?n=", ""},
        {"/a?n=a=b", "a=b"},   {"/a?x&n=1", "1"},       {"/a?&&n=1#n=2", "1"},
        {"/a", NULL},          {"/a?", NULL},           {"/a?n", NULL},
        {"/a?nn=1&N=1", NULL}, {"/a?x=1#n=1", NULL},    {"/a?=n&n&=1", NULL},
        {"/a?n&n=4", "4"},     {"/n=1?x", NULL}};
    struct http_request r;
    struct http_text value;
    uint8_t head[128];

    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        const int size = snprintf((char *)head, 128, "GET %s HTTP/1.1\n\n",
                                  queries[i].target);

        assert_int_equal(http_parse(head, (size_t)size, &r), size);
        assert_int_equal(http_parameter(&r, "n", &value),
                         queries[i].value != NULL);
        if (queries[i].value)
            assert_true(http_text_is(value, queries[i].value));
    }
}

TEST(a_list_in_several_lines_is_one)
{
    static const char head[] = "GET / HTTP/1.1\r\n"
                               "Accept:\r\n"
                               "Accept: text/html, a/b;q=0.2\r\n"
                               "If-None-Match: \"one\"\r\n"
                               "Accept-Encoding: br\r\n"
                               "X-Accept: no/no\r\n"
                               "ACCEPT: text/csv;q=0.5 ,a/b\n"
                               "if-none-match: W/\"two\"\r\n"
                               "accept-encoding: \t gzip;q=0.7\t\r\n"
                               "Accept: last/one \r\n\r\nAccept: be/hind\n";
    static const struct {
        const char *type;
        int weight;
    } types[] = {{"text/html", 1000}, {"a/b", 200},   {"text/csv", 500},
                 {"last/one", 1000},  {"no/no", -1},  {"be/hind", -1},
                 {"gzip", -1},        {"\"two\"", -1}};
    struct http_request r;

    assert_true(http_parse((const uint8_t *)head, sizeof head - 1, &r) > 0);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        assert_int_equal(http_weight(&r, types[i].type), types[i].weight);
    assert_true(http_takes_gzip(&r));
    assert_true(http_has_version(&r, "\"one\""));
    assert_true(http_has_version(&r, "\"two\""));
    assert_false(http_has_version(&r, "\"three\""));
    assert_false(http_has_version(&r, "br"));
}

/* Each as NAME<VALUE>; behind them how it ended. */
TEST(a_query_is_decoded_as_forms_are)
{
    static const struct {
        const char *query, *has;
    } queries[] = {
        {"", "0"},
        {"&&", "0"},
        {"a=b", "a<b>0"},
        {"a=b&&c=d&", "a<b>c<d>0"},
        {"a&b=", "a<>b<>0"},
        {"a=b=c", "a<b=c>0"},
        {"=a", "<a>0"},
        {"key=%2Findex+1%2b&k%65y=%C3%a9", "key</index 1+>key<\xc3\xa9>0"},
        {"a=1#b=2", "a<1#b=2>0"},
        {"a=%", "22"},
        {"a=%4", "22"},
        {"a=%4g", "22"},
        {"%zz=1", "22"},
        {"a%00b=1", "22"},
        {"a=12345678", "a<12345678>0"},
        {"a=1234567890", "36"},
        {"a23456789b123456789c123456789d1=1",
         "a23456789b123456789c123456789d1<1>0"},
        {"a23456789b123456789c123456789d12=1", "36"},
    };
    char name[HTTP_QUERY_NAME_SIZE], text[256];

    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        struct http_text q = {(const uint8_t *)queries[i].query,
                              strlen(queries[i].query)};
        uint8_t value[9];
        size_t size, at = 0;
        int rc;

        while ((rc = http_query_next(&q, name, value, sizeof value, &size)) > 0)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s<%.*s>",
                                   name, (int)size, value);
        (void)snprintf(text + at, sizeof text - at, "%d", -rc);
        assert_string_equal(text, queries[i].has);
    }
}

/* ---- waiting ------------------------------------------------------------ */

CASE(a_request_that_is_held_is_asked_again_with_all_behind_it, w)
{
    const char *ask = GET("") "GET /held HTTP/1.1\r\nContent-Length: "
                              "2\r\n\r\nab" GET("");
    const char *ask_in_chunks =
        GET("") "GET /held HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                "2\r\nab\r\n0\r\n\r\n" GET("");
    const size_t first = strlen(ask), all = first + strlen(ask_in_chunks);
    size_t size = first;

    for (size_t i = 0; i < all; i++) {
        const size_t split = i < first ? i : i - first;
        const int fd = join_site(w->f);

        if (i == first) {
            ask = ask_in_chunks;
            size = strlen(ask);
        }

        w->open = false;
        if (split > 0)
            echo_say(fd, ask, split);
        echo_turns(w->f, 2);
        echo_say(fd, ask + split, size - split);
        echo_hear(w->f, fd, OK);
        echo_hear_nothing(w->f, fd);
        http_wake(&w->line);
        echo_hear_nothing(w->f, fd); /* it was too early */
        assert_false(list_alone(&w->line));
        w->open = true;
        http_wake(&w->line);
        echo_hear(w->f, fd, OK OK);
        assert_true(list_alone(&w->line));
    }
}

CASE(a_connection_that_ends_while_it_is_held_leaves_the_line, w)
{
    const char *ask = "GET /held HTTP/1.1\r\n\r\n";
    const int fd = echo_join(w->f, ECHO);

    echo_say(fd, ask, strlen(ask));
    echo_turns(w->f, 2);
    assert_false(list_alone(&w->line));
    conns_fini(w->f->conns);
    w->f->conns = NULL;
    assert_true(list_alone(&w->line));
}

/* One that only half-closed gets what is due by then. */
CASE(the_end_of_a_peers_input_ends_its_wait, w)
{
    const char *ask = "GET /wait HTTP/1.1\r\n\r\n" GET("");
    const int fd = echo_join(w->f, ECHO);

    echo_say(fd, ask, strlen(ask));
    echo_hear_nothing(w->f, fd);
    assert_false(list_alone(&w->line));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    echo_hear_end(w->f, fd, OK OK);
    assert_true(list_alone(&w->line));
}

/* Those behind it in the list of what pauses. */
CASE(what_ends_because_its_peer_left_may_wake_others, w)
{
    const char *never = "GET /never HTTP/1.1\r\n\r\n";
    const char *held = "GET /held HTTP/1.1\r\n\r\n";
    const int left = echo_join(w->f, ECHO);
    int others[2];

    echo_say(left, never, strlen(never));
    echo_hear_nothing(w->f, left);
    assert_int_equal(shutdown(left, SHUT_WR), 0);
    echo_hear_nothing(w->f, left);
    for (int i = 0; i < 2; i++) {
        others[i] = echo_join(w->f, ECHO);
        echo_say(others[i], held, strlen(held));
        echo_hear_nothing(w->f, others[i]);
    }
    echo_hear(w->f, others[0], OK);
    echo_hear(w->f, others[1], OK);
    echo_hear_end(w->f, left, "");
}

CASE(what_is_not_there_is_waited_for_a_moment_after_its_peer_left, w)
{
    const char *ask = "GET /held HTTP/1.1\r\n\r\n";
    const int half = echo_join(w->f, ECHO), left = echo_join(w->f, ECHO);

    fault_stop_clock();
    echo_say(half, ask, strlen(ask));
    echo_say(left, ask, strlen(ask));
    echo_hear_nothing(w->f, half);
    assert_int_equal(shutdown(half, SHUT_WR), 0);
    echo_hear_nothing(w->f, half);
    w->open = true;
    http_wake(&w->line);
    echo_hear_end(w->f, half, OK);
    echo_hear(w->f, left, OK);
    w->open = false;
    echo_say(left, ask, strlen(ask));
    echo_hear_nothing(w->f, left);
    assert_int_equal(shutdown(left, SHUT_WR), 0);
    echo_hear_nothing(w->f, left);
    assert_false(list_alone(&w->line));
    fault_pass_ns(UINT64_C(1250000000));
    echo_hear_end(w->f, left, "");
    assert_true(list_alone(&w->line));
}

CASE(a_peer_that_has_ended_its_side_gets_its_answers, w)
{
    const char *ask = GET("") GET("") "GET /ok";
    const int fd = echo_join(w->f, ECHO);

    echo_say(fd, ask, strlen(ask));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    echo_hear_end(w->f, fd, OK OK);
}

/* Its next request may be on its way before it knows that this was the last. */
CASE(the_last_answer_at_a_stop_is_not_reset_by_a_peer_that_sends_on, w)
{
    const int fd = echo_join(w->f, ECHO);

    fault_stop_clock();
    echo_say(fd, GET(""), strlen(GET("")));
    echo_hear(w->f, fd, OK);
    echo_stop(w->f, 1000);
    fault_pass_ns(UINT64_C(20000000)); /* a tick */
    echo_turns(w->f, 2);
    echo_say(fd, GET(""), strlen(GET("")));
    echo_turns(w->f, 4);
    assert_int_equal(conns_listener(w->f->conns, ECHO)->open, 1);
    echo_say(fd, GET(""), strlen(GET("")));
    echo_hear_end(w->f, fd,
                  "HTTP/1.1 200 OK\r\nConnection: close\r\n"
                  "Content-length: 3\r\n\r\nok\n");
}

/* ---- time --------------------------------------------------------------- */

static void
pass_s(struct web *w, unsigned s)
{
    fault_pass_ns(s * UINT64_C(1000000000));
    echo_turns(w->f, 2);
}

CASE(who_asks_now_and_then_is_kept_and_who_does_not_is_not, w)
{
    const int fd = echo_join(w->f, ECHO);

    for (int i = 0; i < 5; i++) {
        pass_s(w, HTTP_IDLE_S - 10);
        echo_say(fd, GET(""), strlen(GET("")));
        echo_hear(w->f, fd, OK);
    }
    pass_s(w, HTTP_IDLE_S - 10);
    echo_hear_nothing(w->f, fd);
    assert_int_equal(conns_listener(w->f->conns, ECHO)->open, 1);
    pass_s(w, 10);
    echo_hear_end(w->f, fd, "");
}

/* A connection that is not late stands in front of it. */
static void
send_slowly(struct web *w, int fd, int other)
{
    echo_say(other, GET(""), strlen(GET("")));
    echo_hear(w->f, other, OK);
    echo_say(fd, "a", 1);
    echo_turns(w->f, 2);
}

CASE(a_request_must_be_whole_in_time, w)
{
    static const char *const begins[] = {
        "G", "GET /ok HTTP/1.1\r\nA:",
        "POST /ok HTTP/1.1\r\nContent-Length: 60000\r\n\r\n"};
    const int other = echo_join(w->f, ECHO);

    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        const int fd = echo_join(w->f, ECHO);

        echo_say(fd, begins[i], strlen(begins[i]));
        echo_turns(w->f, 2);
        for (int n = 0; n < 5; n++) {
            pass_s(w, HTTP_IDLE_S / 6);
            send_slowly(w, fd, other);
            assert_int_equal(conns_listener(w->f->conns, ECHO)->open, 2);
        }
        pass_s(w, HTTP_IDLE_S / 6 + 1);
        send_slowly(w, fd, other);
        assert_int_equal(conns_listener(w->f->conns, ECHO)->open, 1);
        echo_hear_end(w->f, fd, "");
    }
}
