/* common/net/http_answer.c - answers of HTTP, put where they are sent from; see
 * http.h. */
#include "common/net/http_internal.h"

#include <assert.h>
#include <string.h>

#define VERSION_AT 7 /* of the digit that tells 1.0 from 1.1 */

/* ---- answers ------------------------------------------------------------ */

static const char *
text_of(enum http_status status)
{
    switch (status) {
    case HTTP_OK:
        return "OK";
    case HTTP_CREATED:
        return "Created";
    case HTTP_BAD_REQUEST:
        return "Bad Request";
    case HTTP_FORBIDDEN:
        return "Forbidden";
    case HTTP_NOT_FOUND:
        return "Not Found";
    case HTTP_METHOD_NOT_ALLOWED:
        return "Method Not Allowed";
    case HTTP_CONFLICT:
        return "Conflict";
    case HTTP_TOO_LARGE:
        return "Content Too Large";
    case HTTP_EXPECTATION_FAILED:
        return "Expectation Failed";
    case HTTP_UNPROCESSABLE:
        return "Unprocessable Content";
    case HTTP_HEAD_TOO_LARGE:
        return "Request Header Fields Too Large";
    case HTTP_NOT_IMPLEMENTED:
        return "Not Implemented";
    case HTTP_UNAVAILABLE:
        return "Service Unavailable";
    case HTTP_VERSION:
        return "HTTP Version Not Supported";
    case HTTP_NO_SPACE:
        return "Insufficient Storage";
    case HTTP_INTERNAL_ERROR:
        break;
    }
    return "Internal Server Error";
}

/* memcpy(), and not mempcpy(): a few bytes that are known are then no call. */
static inline uint8_t *
put_bytes(uint8_t *to, const void *bytes, size_t size)
{
    memcpy(to, bytes, size);
    return to + size;
}

static inline uint8_t *
put(uint8_t *to, const char *text)
{
    return put_bytes(to, text, strlen(text));
}

static uint8_t *
put_number(uint8_t *to, size_t n)
{
    uint8_t digits[20], *at = digits + sizeof digits;
    size_t size;

    do {
        *--at = (uint8_t)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    size = (size_t)(digits + sizeof digits - at);
    memcpy(to, at, size);
    return to + size;
}

/* `Allow: GET, POST` */
static uint8_t *
put_allow(uint8_t *to, unsigned methods)
{
    static const struct {
        enum http_method method;
        const char *name;
    } names[] = {{HTTP_GET, "GET"},
                 {HTTP_HEAD, "HEAD"},
                 {HTTP_POST, "POST"},
                 {HTTP_DELETE, "DELETE"},
                 {HTTP_OPTIONS, "OPTIONS"}};
    const char *between = "";

    to = put(to, "Allow: ");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((methods & names[i].method) == 0)
            continue;
        to = put(put(to, between), names[i].name);
        between = ", ";
    }
    return put(to, "\r\n");
}

/* The head of an answer; returns its size.  `allow`: methods, or 0. */
static size_t
put_head(uint8_t *to, const struct http_request *r, enum http_status status,
         unsigned allow, size_t size)
{
    uint8_t *at = to;

    if (status == HTTP_OK) {
        at = put(at, "HTTP/1.1 200 OK\r\n");
    } else {
        at = put_number(put(at, "HTTP/1.1 "), (size_t)status);
        at = put(put(put(at, " "), text_of(status)), "\r\n");
    }
    to[VERSION_AT] = (uint8_t)('0' + r->minor);
    if (r->keep)
        at = put(at, "Connection: keep-alive\r\n");
    if (allow != 0)
        at = put_allow(at, allow);
    at = put_number(put(at, "Content-length: "), size);
    return (size_t)(put(at, "\r\n\r\n") - to);
}

/* Bytes of the head of a usual answer. */
static size_t
usual_head(const struct http_request *r, size_t size)
{
    const size_t fixed = sizeof "HTTP/1.1 200 OK\r\nContent-length: \r\n\r\n";
    size_t digits = 1;

    while (size >= 10) {
        size /= 10;
        digits++;
    }
    return fixed - 1 + digits +
           (r->keep ? sizeof "Connection: keep-alive\r\n" - 1 : 0);
}

uint8_t *
http_body(struct http_call *x, size_t max)
{
    x->out = conn_space(x->conn, HTTP_ANSWER_HEAD + max);
    if (!x->out)
        return NULL;
    x->room = usual_head(x->request, max);
    return x->out + x->room;
}

static enum conn_next
end(struct http_call *x, enum http_status status, unsigned allow, size_t size)
{
    uint8_t head[HTTP_ANSWER_HEAD];
    const size_t head_size = put_head(head, x->request, status, allow, size);

    assert(x->out && head_size <= sizeof head);
    if (x->request->method == HTTP_HEAD)
        size = 0; /* it tells what there would be */
    else if (head_size != x->room)
        memmove(x->out + head_size, x->out + x->room, size);
    memcpy(x->out, head, head_size);
    conn_put(x->conn, head_size + size);
    x->out = NULL;
    return CONN_MORE;
}

enum conn_next
http_end(struct http_call *x, enum http_status status, size_t size)
{
    return end(x, status, 0, size);
}

/* The text of the status, and behind a colon the detail, if there is one. */
static enum conn_next
fail(struct http_call *x, enum http_status status, unsigned allow,
     const char *detail)
{
    const char *text = text_of(status), *between = detail ? ": " : "";
    const size_t size =
        strlen(text) + strlen(between) + (detail ? strlen(detail) : 0);
    uint8_t *body = http_body(x, size);

    if (!body)
        return CONN_FULL;
    body = put(put(body, text), between);
    if (detail)
        (void)put(body, detail); /* nothing comes behind it */
    return end(x, status, allow, size);
}

enum conn_next
http_fail(struct http_call *x, enum http_status status)
{
    return fail(x, status, 0, NULL);
}

enum conn_next
http_fail_with(struct http_call *x, enum http_status status, const char *detail)
{
    return fail(x, status, 0, detail);
}

enum conn_next
http_not_allowed(struct http_call *x, unsigned methods)
{
    return fail(x, HTTP_METHOD_NOT_ALLOWED, methods, NULL);
}

enum conn_next
http_not_allowed_with(struct http_call *x, unsigned methods, const char *detail)
{
    return fail(x, HTTP_METHOD_NOT_ALLOWED, methods, detail);
}

enum conn_next
http_answer_options(struct http_call *x, unsigned methods)
{
    if (!http_body(x, 0))
        return CONN_FULL;
    return end(x, HTTP_OK, methods | HTTP_OPTIONS, 0);
}
