/* tests/fuzz/fuzz_http.c - any bytes as HTTP requests, in one piece, byte by
 * byte, and in pieces: the answers are the same.
 *
 * Whatever the bytes: what a request points to lies within its head; a head
 * that is parsed again is the same; a beginning of it is not whole, or is
 * refused as all of it is; and what is answered are answers and nothing else.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/net/http.h"
#include "common/net/http_query.h"
#include "tests/fuzz/fuzz_turn.h"

#define INPUT_MAX  8192
#define HEARD_MAX  (1024 * 1024)
#define PREFIX_MAX 512 /* beginnings that are tried */
#define TURNS_MAX  100000

static struct conns *conns;
static struct loop *loop;
static struct http_site site;

/* ---- the server --------------------------------------------------------- */

static enum conn_next
echo_target(struct http_call *x)
{
    const struct http_text t = x->request->target;
    uint8_t *body = http_body(x, t.size + x->rest.size + x->value.size);
    size_t size = 0;

    if (!body)
        return CONN_FULL;
    memcpy(body, t.at, t.size);
    size += t.size;
    memcpy(body + size, x->rest.at, x->rest.size);
    size += x->rest.size;
    if (x->value.size > 0)
        memcpy(body + size, x->value.at, x->value.size);
    return http_end(x, HTTP_OK, size + x->value.size);
}

static enum conn_next
fail_call(struct http_call *x)
{
    return http_fail(x, HTTP_UNPROCESSABLE);
}

/* The body comes back, with the headers of the newer paths. */
static enum conn_next
echo_body(struct http_call *x)
{
    uint8_t *body;

    x->type = "a/b";
    body = http_body(x, x->body.size);
    if (!body)
        return CONN_FULL;
    if (x->body.size > 0)
        memcpy(body, x->body.at, x->body.size);
    return http_end(x, HTTP_OK, x->body.size);
}

static bool
check_type(struct http_call *x, enum conn_next *next)
{
    const struct http_problem problem = {"media-type", "only a/b", 7};

    if (http_text_is_like(x->request->type, "a/b"))
        return true;
    *next = http_refuse(x, HTTP_MEDIA_TYPE, &problem);
    return false;
}

static const struct http_route routes[] = {
    {"/v1/e", "*", HTTP_POST, echo_body, HTTP_READS_BODY, check_type},
    {"/open", NULL, HTTP_GET, echo_target, HTTP_IS_OPEN, NULL},
    {"/a", NULL, HTTP_GET, echo_target, 0, NULL},
    {"/a", "n", HTTP_GET | HTTP_POST, echo_target, 0, NULL},
    {"/b/", "*", HTTP_POST | HTTP_DELETE, echo_target, 0, NULL},
    {"/c", "*", HTTP_GET, fail_call, 0, NULL},
};

static bool
one_turn(void *ctx)
{
    (void)ctx;
    (void)conn_turn(conns); /* there are turns enough */
    loop_stop(loop);
    return true;
}

static void
start_server(void)
{
    static const struct listener_config row = {.name = "http",
                                               .max_key = "max",
                                               .protocol = &http_protocol,
                                               .ctx = &site,
                                               .max = 64};
    const struct conns_options places = {.rows = &row,
                                         .count = 1,
                                         .shared = 64,
                                         .pool_size = 8 << 20,
                                         .answer_max = 65536};

    diag_init("fuzz", DIAG_ERROR);
    loop = loop_new();
    assert(loop);
    loop_after_turn(loop, one_turn, NULL);
    http_site_add(&site, routes, sizeof routes / sizeof routes[0], NULL,
                  TOKENS_READ);
    (void)snprintf(site.hosts, sizeof site.hosts, "a.b");
    assert(conns_init(&conns, loop, &places) == 0);
}

/* ---- a peer ------------------------------------------------------------- */

struct heard {
    uint8_t *bytes;
    size_t size;
    bool end;
};

static void
hear_answers(int fd, struct heard *h)
{
    ssize_t n;

    assert(h->size < HEARD_MAX);
    n = recv(fd, h->bytes + h->size, HEARD_MAX - h->size, MSG_DONTWAIT);
    if (n > 0)
        h->size += (size_t)n;
    else
        h->end |= n == 0 || errno != EAGAIN;
}

/* Sends the bytes in pieces of so many, and hears all that is answered. */
static void
talk_once(const uint8_t *bytes, size_t size, size_t piece, struct heard *h)
{
    size_t at = 0;
    int fds[2];

    h->size = 0;
    h->end = false;
    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                      fds) == 0);
    assert(conns_take(conns, 0, fds[0]) == 0);
    for (int turns = 0; !h->end; turns++) {
        const size_t n = size - at < piece ? size - at : piece;
        const ssize_t sent = send(fds[1], bytes + at, n, MSG_NOSIGNAL);

        assert(turns < TURNS_MAX);
        if (sent > 0)
            at += (size_t)sent;
        if (at == size)
            (void)shutdown(fds[1], SHUT_WR); /* it may have gone */
        fuzz_turn(loop);
        hear_answers(fds[1], h);
    }
    (void)close(fds[1]); /* nothing more is sent */
    while (conns_listener(conns, 0)->open > 0)
        fuzz_turn(loop);
}

/* ---- what holds --------------------------------------------------------- */

static void
lies_within(struct http_text t, const uint8_t *at, size_t size)
{
    assert(!t.at || (t.at >= at && t.at + t.size <= at + size));
}

static bool
is_same(const uint8_t *a, struct http_text x, const uint8_t *b,
        struct http_text y)
{
    return x.size == y.size && (!x.at == !y.at) &&
           (!x.at || x.at - a == y.at - b);
}

static int
parse_copy(const uint8_t *bytes, size_t size, struct http_request *r,
           uint8_t **copy)
{
    *copy = fuzz_copy(bytes, size);
    return http_parse(*copy, size, r);
}

/* Where the texts of a request are in its struct. */
static const size_t texts[] = {offsetof(struct http_request, target),
                               offsetof(struct http_request, path),
                               offsetof(struct http_request, query),
                               offsetof(struct http_request, authority),
                               offsetof(struct http_request, host),
                               offsetof(struct http_request, key),
                               offsetof(struct http_request, type),
                               offsetof(struct http_request, encoding),
                               offsetof(struct http_request, origin),
                               offsetof(struct http_request, referer),
                               offsetof(struct http_request, fetch_site),
                               offsetof(struct http_request, fetch_mode),
                               offsetof(struct http_request, authorization),
                               offsetof(struct http_request, head),
                               offsetof(struct http_request, accept),
                               offsetof(struct http_request, codings),
                               offsetof(struct http_request, versions)};

#define TEXTS (sizeof texts / sizeof texts[0])

static struct http_text
text_of(const struct http_request *r, size_t i)
{
    struct http_text t;

    memcpy(&t, (const uint8_t *)r + texts[i], sizeof t);
    return t;
}

static void
check_parser(const uint8_t *bytes, size_t size)
{
    struct http_request r, again;
    uint8_t *copy, *part;
    const int rc = parse_copy(bytes, size, &r, &copy);
    const size_t head = rc > 0 ? (size_t)rc : size;
    int of_part;

    assert(rc <= (int)size);
    if (rc > 0) {
        for (size_t i = 0; i < TEXTS; i++)
            lies_within(text_of(&r, i), copy, head);
        (void)http_weight(&r, "a/b"); /* they look at the head again */
        (void)http_takes_gzip(&r);
        (void)http_has_version(&r, "\"a\"");
        assert(parse_copy(bytes, head, &again, &part) == rc);
        assert(r.method == again.method && r.body == again.body &&
               r.keep == again.keep && r.is_chunked == again.is_chunked &&
               r.has_expected == again.has_expected);
        for (size_t i = 0; i < TEXTS; i++)
            assert(is_same(copy, text_of(&r, i), part, text_of(&again, i)));
        free(part);
    }
    for (size_t n = 0; n < head && n < PREFIX_MAX; n++) {
        of_part = parse_copy(bytes, n, &again, &part);
        assert(of_part == 0 || (rc < 0 && of_part == rc));
        free(part);
    }
    free(copy);
}

/* Only answers, of the length in their heads. */
static void
check_answers(const struct heard *h, bool knows_lengths)
{
    static const char name[] = "Content-length: ";
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    size_t at = 0;

    while (knows_lengths && at < h->size) {
        const uint8_t *length, *end;

        if (h->size - at >= sizeof go_on - 1 &&
            memcmp(h->bytes + at, go_on, sizeof go_on - 1) == 0) {
            at += sizeof go_on - 1;
            continue;
        }
        assert(h->size - at > 12 && memcmp(h->bytes + at, "HTTP/1.", 7) == 0);
        length = memmem(h->bytes + at, h->size - at, name, sizeof name - 1);
        end = memmem(h->bytes + at, h->size - at, "\r\n\r\n", 4);
        assert(length && end && length < end);
        at = (size_t)(end + 4 - h->bytes) +
             strtoul((const char *)length + sizeof name - 1, NULL, 10);
        assert(at <= h->size);
    }
}

/* As a query: each parameter lies in what it may have. */
static void
check_query(const uint8_t *bytes, size_t size)
{
    char name[HTTP_QUERY_NAME_SIZE];
    struct http_text query = {bytes, size};
    uint8_t value[16];
    size_t n;

    while (query.size > 0) {
        const size_t before = query.size;
        const int rc = http_query_next(&query, name, value, sizeof value, &n);

        if (rc == 0)
            break;
        assert(query.size < before);
        assert(rc < 0 || (n <= sizeof value && memchr(name, 0, sizeof name)));
    }
}

static struct heard one, other;

/* In one piece and in such pieces the answers are the same, but for the second
 * of a Date, which is another one at most once in three talks. */
static void
talk_in_pieces(const uint8_t *bytes, size_t size, size_t piece)
{
    bool is_same_talk = false;

    for (int i = 0; i < 3 && !is_same_talk; i++) {
        talk_once(bytes, size, size + 1, &one);
        talk_once(bytes, size, piece, &other);
        is_same_talk = one.size == other.size &&
                       memcmp(one.bytes, other.bytes, one.size) == 0;
    }
    assert(is_same_talk);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (!conns) {
        start_server();
        one.bytes = malloc(HEARD_MAX);
        other.bytes = malloc(HEARD_MAX);
        assert(one.bytes && other.bytes);
    }
    if (size < 1 || size > INPUT_MAX)
        return 0;
    check_parser(bytes + 1, size - 1);
    check_query(bytes + 1, size - 1);
    talk_in_pieces(bytes + 1, size - 1, 1);
    check_answers(&one, !memmem(bytes, size, "HEAD", 4));
    talk_in_pieces(bytes + 1, size - 1, 2 + bytes[0]);
    return 0;
}
