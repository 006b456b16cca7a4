/* common/net/http.c - see http.h. */
#include "common/net/http.h"

#include <assert.h>
#include <string.h>

#define VERSION_AT 7 /* of the digit that tells 1.0 from 1.1 */

struct http_state {
    struct list_link waits; /* in a struct http_line, or in none; NULL: never
                               was */
    uint32_t line;          /* of a head that is not whole: its last line */
    bool is_cut;            /* such a head is kept */
    bool has_body;          /* the body of what is kept has passed */
};

static_assert(sizeof(struct http_state) % 8 == 0, "as protocols want it");
static_assert(HTTP_PAD <= CONN_PAD, "may be read behind the input");
static_assert(HTTP_HEAD_MAX < CONN_NEED_MAX, "a head can be kept");

static struct list_link *
waits_of(struct conn *c)
{
    struct list_link *link = &((struct http_state *)conn_state(c))->waits;

    if (!link->next)
        list_init(link);
    return link;
}

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

static uint8_t *
put(uint8_t *to, const char *text)
{
    const size_t size = strlen(text);

    memcpy(to, text, size);
    return to + size;
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
    const char *between = "";

    to = put(to, "Allow: ");
    if ((methods & HTTP_GET) != 0) {
        to = put(to, "GET");
        between = ", ";
    }
    if ((methods & HTTP_POST) != 0) {
        to = put(put(to, between), "POST");
        between = ", ";
    }
    if ((methods & HTTP_DELETE) != 0)
        to = put(put(to, between), "DELETE");
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

static enum conn_next
fail(struct http_call *x, enum http_status status, unsigned allow)
{
    const char *text = text_of(status);
    const size_t size = strlen(text);
    uint8_t *body = http_body(x, size);

    if (!body)
        return CONN_FULL;
    memcpy(body, text, size);
    return end(x, status, allow, size);
}

enum conn_next
http_fail(struct http_call *x, enum http_status status)
{
    return fail(x, status, 0);
}

enum conn_next
http_not_allowed(struct http_call *x, unsigned methods)
{
    return fail(x, HTTP_METHOD_NOT_ALLOWED, methods);
}

/* ---- waiting ------------------------------------------------------------ */

void
http_line_init(struct http_line *line)
{
    list_init(&line->link);
}

enum conn_next
http_hold(struct http_call *x, struct http_line *line)
{
    struct list_link *own = waits_of(x->conn);

    assert(list_alone(own));
    list_add(&line->link, own);
    return CONN_HOLD;
}

void
http_wake(struct http_line *line)
{
    while (!list_alone(&line->link)) {
        struct list_link *link = line->link.next;

        list_remove(link);
        conn_wake(conn_of_state(LOOP_OWNER(link, struct http_state, waits)));
    }
}

/* ---- routes ------------------------------------------------------------- */

void
http_site_add(struct http_site *s, const struct http_route *routes,
              size_t count, void *ctx)
{
    assert(s->count < HTTP_TABLES_MAX);
    s->tables[s->count++] = (struct http_table){routes, count, ctx};
}

static bool
is_path(const struct http_route *route, struct http_call *x)
{
    const struct http_text path = x->request->path;
    const size_t size = strlen(route->path);

    if (path.size < size || memcmp(path.at, route->path, size) != 0)
        return false;
    x->rest = (struct http_text){path.at + size, path.size - size};
    return x->rest.size == 0 || (size > 1 && route->path[size - 1] == '/');
}

/* What the query begins with: `name=`, then the value. */
static bool
begins_with(struct http_text query, const char *name, struct http_text *value)
{
    const size_t size = strlen(name);
    size_t i = size + 1;

    if (query.size <= size || memcmp(query.at, name, size) != 0 ||
        query.at[size] != '=')
        return false;
    while (i < query.size && query.at[i] != '&' && query.at[i] != '#')
        i++;
    *value = (struct http_text){query.at + size + 1, i - size - 1};
    return true;
}

static bool
is_query(const struct http_route *route, struct http_call *x)
{
    const struct http_text query = x->request->query;

    if (!route->query)
        return query.at == NULL;
    if (strcmp(route->query, "*") == 0)
        return true;
    return query.at && begins_with(query, route->query, &x->value);
}

/* NULL: there is none, *allow tells for which methods there would be. */
static const struct http_route *
find_route(const struct http_site *s, struct http_call *x, unsigned *allow)
{
    for (size_t t = 0; t < s->count; t++) {
        const struct http_table *table = &s->tables[t];

        for (size_t i = 0; i < table->count; i++) {
            const struct http_route *route = &table->routes[i];

            if (!is_path(route, x) || !is_query(route, x))
                continue;
            x->ctx = table->ctx;
            if ((route->methods & x->request->method) != 0)
                return route;
            *allow |= route->methods;
        }
    }
    return NULL;
}

static enum conn_next
answer(struct conn *c, const struct http_request *r)
{
    struct http_site *s = conn_ctx(c);
    struct http_call x = {.conn = c, .request = r};
    unsigned allow = 0;
    const struct http_route *route = find_route(s, &x, &allow);
    enum conn_next next;

    if (route)
        return route->answer(&x);
    next = allow != 0 ? http_not_allowed(&x, allow)
                      : http_fail(&x, HTTP_NOT_FOUND);
    s->figures.refused += next == CONN_MORE;
    return next;
}

/* ---- whose requests ----------------------------------------------------- */

/* A number, an address in brackets, a name without a dot: nobody's DNS gives a
 * web page such a name, so that it cannot pretend to be of this site. */
static bool
is_nobodys(struct http_text host)
{
    bool digits = true, dot = false;

    if (host.at[0] == '[')
        return host.at[host.size - 1] == ']';
    for (size_t i = 0; i < host.size; i++) {
        dot |= host.at[i] == '.';
        digits &= host.at[i] == '.' || (host.at[i] >= '0' && host.at[i] <= '9');
    }
    return digits || !dot;
}

/* The name without its port. */
static struct http_text
host_name(struct http_text host)
{
    size_t i = host.size;

    while (i > 0 && host.at[i - 1] >= '0' && host.at[i - 1] <= '9')
        i--;
    if (i > 0 && host.at[i - 1] == ':')
        host.size = i - 1;
    return host;
}

static bool
is_listed(const char *names, struct http_text host)
{
    char name[HTTP_HOSTS_SIZE];
    size_t size;

    for (names += strspn(names, " "); *names != '\0';
         names += size + strspn(names + size, " ")) {
        size = strcspn(names, " ");
        if (size >= sizeof name)
            return false;
        memcpy(name, names, size);
        name[size] = '\0';
        if (http_text_is_like(host, name))
            return true;
    }
    return false;
}

static bool
is_ours(const struct http_site *s, const struct http_request *r)
{
    const struct http_text host = host_name(r->host);

    if (r->foreign)
        return false;
    return host.size == 0 || is_nobodys(host) || is_listed(s->hosts, host);
}

/* ---- requests ----------------------------------------------------------- */

static const char *
why(int status)
{
    switch (status) {
    case HTTP_FORBIDDEN:
        return "a web page of another site, or a name that http.hosts has not";
    case HTTP_TOO_LARGE:
        return "a body that is too large";
    case HTTP_EXPECTATION_FAILED:
        return "it expects to be told to go on";
    case HTTP_HEAD_TOO_LARGE:
        return "headers that are too large";
    case HTTP_NOT_IMPLEMENTED:
        return "a method or an encoding that is not known";
    case HTTP_VERSION:
        return "another version of HTTP";
    default:
        return "no request of HTTP";
    }
}

/* The last answer on this connection. */
static enum conn_next
refuse(struct conn *c, struct http_request *r, int status)
{
    struct http_call x = {.conn = c, .request = r};

    r->keep = false;
    if (http_fail(&x, (enum http_status)status) != CONN_MORE)
        return CONN_FULL;
    (void)conn_refuse(c, why(status)); /* it has said its last word just now */
    return conn_last(c);
}

/* Parses the head that comes next.  As http_parse(), which is spared where
 * nothing has come but a piece of a line. */
static int
parse(struct http_state *s, const struct input *in, struct http_request *r)
{
    size_t line = s->line;
    int rc;

    if (s->is_cut && in->size < HTTP_HEAD_MAX &&
        !memchr(in->at + line, '\n', in->size - line))
        return 0;
    rc = http_parse(in->at, in->size, r, &line);
    s->is_cut = rc == 0;
    s->line = (uint32_t)line;
    return rc;
}

/* Whether the body of a request, whose head has `size` bytes, has come, too;
 * else `in` says what is to come. */
static bool
has_body(struct http_state *s, struct input *in, const struct http_request *r,
         size_t size)
{
    s->has_body |= in->skipped;
    in->skipped = false;
    if (s->has_body || size + r->body <= in->size)
        return true;
    in->need = (uint32_t)size;
    in->skip = r->body;
    return false;
}

static void
advance(struct http_state *s, struct input *in, size_t head, size_t body)
{
    const size_t size = s->has_body ? head : head + body;

    s->has_body = false;
    in->at += size;
    in->size -= size;
}

static enum conn_next
take(struct conn *c, struct input *in)
{
    struct http_state *s = conn_state(c);
    struct http_site *site = conn_ctx(c);
    struct http_request r;
    enum conn_next next;
    int size;

    while (in->size > 0) {
        size = parse(s, in, &r);
        if (size > 0 && !is_ours(site, &r))
            size = -HTTP_FORBIDDEN;
        if (size < 0)
            return refuse(c, &r, -size);
        if (size == 0 || !has_body(s, in, &r, (size_t)size))
            return CONN_MORE;
        next = answer(c, &r);
        if (next != CONN_MORE)
            return next;
        site->figures.requests++;
        advance(s, in, (size_t)size, r.body);
        /* What comes behind the last request must not reset its answer. */
        if (!r.keep)
            return in->size > 0 ? conn_last(c) : CONN_END;
    }
    return CONN_MORE;
}

static bool
ended(struct conn *c)
{
    list_remove(waits_of(c));
    return true;
}

const struct protocol http_protocol = {.state_size = sizeof(struct http_state),
                                       .flags = CONN_ANSWERS_EOF |
                                                CONN_TIMES_REQUESTS,
                                       .stop = STOP_ANSWER,
                                       .take = take,
                                       .ended = ended};
