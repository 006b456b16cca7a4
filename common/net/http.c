/* common/net/http.c - see http.h.
 *
 * http_protocol's take() is the entry: it parses a head (next_request), and
 * serve_request() waits for the body and calls the route. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/http_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"

static_assert(sizeof(struct http_state) % 8 == 0, "as protocols want it");
static_assert(HTTP_HEAD_MAX + HTTP_CHUNKS_MAX < CONN_NEED_MAX,
              "a request can be kept");

/* A request and where it goes. */
struct http_asked {
    size_t size; /* bytes of its head */
    struct http_request request;
    const struct http_route *route; /* NULL: there is none for its method */
    unsigned allow;                 /* enum http_method, or-ed: with a route */
    unsigned right;                 /* enum tokens_right that `route` needs */
    struct http_call call; /* with the flags of all routes of its path */
};

/* ---- routes -------------------------------------------------------------- */

void
http_site_add(struct http_site *s, const struct http_route *routes,
              size_t count, void *ctx, enum tokens_right right)
{
    assert(s->count < HTTP_TABLES_MAX);
    s->tables[s->count++] = (struct http_table){routes, count, ctx, right};
}

static bool
is_path(const struct http_route *route, struct http_asked *a)
{
    const struct http_text path = a->request.path;
    const size_t size = strlen(route->path);

    if (path.size < size || memcmp(path.at, route->path, size) != 0)
        return false;
    a->call.rest = (struct http_text){path.at + size, path.size - size};
    return path.size == size || (size > 1 && route->path[size - 1] == '/') ||
           ((route->flags & HTTP_TAKES_SLASH) != 0 &&
            http_text_is(a->call.rest, "/"));
}

/* What the query begins with: `name=`, then the value. */
static bool
begins_with(struct http_text query, const char *name, struct http_text *value)
{
    const size_t size = strlen(name);

    if (query.size <= size || memcmp(query.at, name, size) != 0 ||
        query.at[size] != '=')
        return false;
    *value = (struct http_text){query.at + size + 1, query.size - size - 1};
    *value = http_cut(value, '&');
    return true;
}

static bool
is_query(const struct http_route *route, struct http_asked *a)
{
    const struct http_text query = a->request.query;

    if (!route->query)
        return query.at == NULL;
    if (strcmp(route->query, "*") == 0)
        return true;
    return query.at && begins_with(query, route->query, &a->call.value);
}

/* Finds the route of a request, also of one that is refused, for the form of
 * the answer.  `OPTIONS *` is about all routes, and every other method has none
 * there. */
static void
find_route(struct conn *c, struct http_asked *a)
{
    const struct http_site *s = conn_ctx(c);
    const bool of_all = http_text_is(a->request.target, "*");

    a->route = NULL;
    a->allow = a->right = 0;
    a->call =
        (struct http_call){.conn = c,
                           .held = &((struct http_state *)conn_state(c))->held,
                           .request = &a->request};
    /* The paths of coconut are not asked for in absolute form. */
    if (a->request.authority.at && !http_is_versioned(&a->request))
        return;
    for (size_t t = 0; t < s->count; t++) {
        const struct http_table *table = &s->tables[t];

        for (size_t i = 0; i < table->count; i++) {
            const struct http_route *route = &table->routes[i];

            if (!of_all && (!is_path(route, a) || !is_query(route, a)))
                continue;
            a->call.ctx = table->ctx;
            a->right = table->right;
            a->allow |= route->methods;
            if (of_all)
                continue;
            a->call.flags |= route->flags;
            if ((route->methods & a->request.method) != 0) {
                a->route = route;
                return;
            }
        }
    }
}

/* ---- calls --------------------------------------------------------------- */

/* Whether the request has a route with one of these flags. */
static bool
has_flag(const struct http_asked *a, unsigned flags)
{
    return a->route && (a->route->flags & flags) != 0;
}

/* The answer to a request without a route. */
static enum conn_next
answer_no_route(struct http_call *x, unsigned allow)
{
    struct http_site *s = conn_ctx(x->conn);
    const bool versioned = http_is_versioned(x->request);
    /* What only POST may do must not be opened by the preflight of a page. */
    const bool closed = versioned && (allow & HTTP_GET) == 0 &&
                        !http_serves_page(s, x->request, x->flags);
    char detail[HTTP_DETAIL_SIZE];
    enum conn_next next;

    if (allow != 0 && x->request->method == HTTP_OPTIONS && !closed)
        return http_answer_options(x, allow);
    if (allow != 0) {
        next = http_not_allowed(x, allow, NULL);
    } else if (versioned && s->elsewhere) {
        const struct http_problem p = {.detail = detail};

        (void)snprintf(detail, sizeof detail, "no such path here; %s",
                       s->elsewhere); /* a short sentence */
        next = http_refuse(x, HTTP_NOT_FOUND, &p);
    } else
        next = http_fail(x, HTTP_NOT_FOUND);
    s->stats.refused += next == CONN_ANSWERED;
    return next;
}

/* Whether a request may come to its route, by what is in its head; else *next
 * is the answer.  A client without a token does not learn which paths there
 * are. */
static bool
is_admitted(struct http_asked *a, enum conn_next *next)
{
    struct http_call *x = &a->call;
    const struct http_site *site = conn_ctx(x->conn);
    const bool is_page = http_serves_page(site, x->request, x->flags);

    /* A browser sends no token with the preflight of a page. */
    if (!a->route && x->request->method == HTTP_OPTIONS && is_page) {
        *next = answer_no_route(x, a->allow);
        return false;
    }
    if (!has_flag(a, HTTP_IS_OPEN | HTTP_IS_PUBLIC) &&
        !(is_page && has_flag(a, HTTP_TAKES_PAGES)) &&
        !http_is_authorized(x, a->route ? a->right : 0, next))
        return false;
    if (!a->route) {
        *next = answer_no_route(x, a->allow);
        return false;
    }
    return !a->route->check || a->route->check(x, next);
}

/* ---- waiting: see http_hold() ---------------------------------------------- */

/* The place of a connection in a line. */
static struct list_link *
waits_of(struct conn *c)
{
    struct list_link *link = &((struct http_state *)conn_state(c))->waits;

    if (!link->next)
        list_init(link);
    return link;
}

enum conn_next
http_hold(struct http_call *x, struct list_link *line)
{
    struct list_link *own = waits_of(x->conn);
    struct http_state *s = conn_state(x->conn);

    assert(list_alone(own));
    if (s->held_ms == 0)
        s->held_ms = (uint32_t)clock_ms() | 1; /* 0 is "it has not" */
    list_add(line, own);
    return CONN_PAUSE;
}

/* Since a time that is kept in 32 bits; a wait is shorter than 49 days. */
static uint64_t
elapsed_ms(uint32_t since_ms)
{
    const uint32_t now = (uint32_t)clock_ms() | 1;

    return now - since_ms;
}

uint64_t
http_waited_ms(struct http_call *x)
{
    const struct http_state *s = conn_state(x->conn);

    if (conn_has_left(x->conn))
        return UINT64_MAX;
    return s->held_ms == 0 ? 0 : elapsed_ms(s->held_ms);
}

uint64_t
http_wake_late(struct list_link *line, uint64_t waited_ms)
{
    while (!list_alone(line)) {
        struct list_link *link = line->next;
        struct http_state *s = LOOP_OWNER(link, struct http_state, waits);
        const uint64_t waited = elapsed_ms(s->held_ms);

        if (waited < waited_ms)
            return waited_ms - waited;
        list_remove(link);
        conn_wake(conn_of_state(s));
    }
    return 0;
}

void
http_wake(struct list_link *line)
{
    (void)http_wake_late(line, 0);
}

/* ---- requests ----------------------------------------------------------- */

/* The last answer on this connection.  A Host that is not known is named, since
 * it may well be this server's, whose operator then has a setting to change. */
static enum conn_next
refuse_request(struct conn *c, struct http_asked *a, int status)
{
    static const struct http_problem not_listed = {
        "foreign-page",
        "a web page of another site asked for this; read.cors has the origins "
        "whose pages may",
        0};
    static const struct http_problem may_not_count = {
        "foreign-page",
        "a web page of another site asked for this; count.cors has the origins "
        "whose pages may count",
        0};
    const struct http_site *site = conn_ctx(c);
    struct http_call *x = &a->call;
    char detail[HTTP_DETAIL_SIZE];
    const struct http_problem not_known = {"foreign-host", detail, 0};
    const struct http_problem *p = NULL;
    enum conn_next next;

    a->request.keep = false;
    if (status == HTTP_FORBIDDEN &&
        !http_is_foreign(site, x->request, x->flags)) {
        http_describe_host(x->request, detail);
        p = &not_known;
    } else if (status == HTTP_FORBIDDEN && site->only_reads) {
        p = &not_listed;
    } else if (status == HTTP_FORBIDDEN && site->origins &&
               (x->flags & HTTP_TAKES_PAGES) != 0) {
        p = &may_not_count;
    }
    next = p ? http_refuse(x, (enum http_status)status, p)
             : http_fail(x, (enum http_status)status);
    if (next != CONN_ANSWERED)
        return CONN_FULL;
    if (!p)
        p = http_usual_problem(x, (enum http_status)status);
    (void)conn_refuse(c, p->detail); /* it has said its last word just now */
    return conn_last(c);
}

/* ---- one by one --------------------------------------------------------- */

static uint32_t
body_max(const struct http_asked *a)
{
    return has_flag(a, HTTP_LONG_BODY) ? HTTP_LONG_BODY_MAX : HTTP_BODY_MAX;
}

/* The next request, as http_parse(): its size, 0, or a status below 0. */
static int
next_request(struct conn *c, const struct input *in, struct http_asked *a)
{
    const struct http_site *site = conn_ctx(c);
    const int size = http_parse(in->at, in->size, &a->request);

    if (size == 0)
        return 0;
    find_route(c, a);
    if (size < 0)
        return size;
    a->size = (size_t)size;
    if (!has_flag(a, HTTP_IS_OPEN) &&
        (http_is_foreign(site, &a->request, a->call.flags) ||
         (!c->is_local && !http_knows_host(site, &a->request))))
        return -HTTP_FORBIDDEN;
    if (http_is_versioned(&a->request) && a->request.minor == 1 &&
        !a->request.host.at)
        return -HTTP_BAD_REQUEST;
    if (a->request.body > body_max(a))
        return -HTTP_TOO_LARGE;
    return size;
}

/* Whether the body of a request has come, too; else `in` says what is to come,
 * or *status why it is refused. */
static bool
has_body(struct http_state *s, struct input *in, const struct http_asked *a,
         int *status)
{
    *status = 0;
    if (a->request.is_chunked) {
        if (http_chunks_read(&s->chunks, in->at + a->size, in->size - a->size,
                             &in->need, status))
            return true;
        in->need += (uint32_t)a->size;
        return false;
    }
    if (a->size + a->request.body <= in->size)
        return true;
    in->need = (uint32_t)a->size + a->request.body;
    return false;
}

/* The body of a request that is whole, for a route that reads it. */
static struct http_text
body_of(struct conn *c, const struct input *in, const struct http_asked *a)
{
    const struct http_state *s = conn_state(c);
    struct http_site *site = conn_ctx(c);

    if (!has_flag(a, HTTP_READS_BODY))
        return (struct http_text){NULL, 0};
    if (!a->request.is_chunked)
        return (struct http_text){in->at + a->size, a->request.body};
    http_chunks_join(&s->chunks, in->at + a->size, site->joined);
    return (struct http_text){site->joined, s->chunks.size};
}

/* Bytes of a whole request that are in its input. */
static size_t
request_size(const struct http_state *s, const struct http_asked *a)
{
    return a->size + (a->request.is_chunked ? s->chunks.at : a->request.body);
}

/* Its route keeps nothing any longer. */
static void
drop_held(struct http_state *s)
{
    struct http_held *held = s->held;

    s->held = NULL;
    if (held)
        held->gone(held);
}

static void
pass_request(struct http_state *s, struct input *in, const struct http_asked *a)
{
    const size_t size = request_size(s, a);

    s->has_continued = false;
    s->chunks = (struct http_chunks){0};
    s->held_ms = 0;
    in->at += size;
    in->size -= size;
}

/* Whether a request will be refused by what is in its head; *next is then the
 * answer, the last on its connection. */
static bool
is_refused(struct conn *c, struct http_asked *a, enum conn_next *next)
{
    const bool keep = a->request.keep;

    a->request.keep = false;
    if (!is_admitted(a, next)) {
        if (*next == CONN_ANSWERED)
            *next = conn_last(c);
        return true;
    }
    a->request.keep = keep;
    return false;
}

/* A client that waits before it sends its body: 100 Continue where a
 * route takes it.  Else it gets its answer and the end, as it may
 * or may not send the body then.  ANSWERED: go on. */
static enum conn_next
answer_expectation(struct conn *c, struct http_asked *a)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_state *s = conn_state(c);
    enum conn_next next;
    uint8_t *to;

    if (!a->request.has_expected || s->has_continued ||
        (a->request.body == 0 && !a->request.is_chunked))
        return CONN_ANSWERED;
    if (is_refused(c, a, &next))
        return next;
    to = conn_space(c, sizeof text - 1);
    if (!to)
        return CONN_FULL;
    memcpy(to, text, sizeof text - 1);
    conn_put(c, sizeof text - 1);
    s->has_continued = true;
    return CONN_ANSWERED;
}

/* Serves the request that is next.  ANSWERED if *answered, else NEED_INPUT. */
static enum conn_next
serve_request(struct conn *c, struct input *in, struct http_asked *a,
              bool *answered)
{
    struct http_state *s = conn_state(c);
    struct http_site *site = conn_ctx(c);
    enum conn_next next = answer_expectation(c, a);
    int status;

    if (next != CONN_ANSWERED)
        return next;
    if (!has_body(s, in, a, &status))
        return status != 0 ? refuse_request(c, a, status) : CONN_NEED_INPUT;
    /* At a stop the answer says that it is the last, unless more has come. */
    if (c->listener->stopping && in->size <= request_size(s, a))
        a->request.keep = false;
    a->call.body = body_of(c, in, a);
    if (is_admitted(a, &next))
        next = a->route->answer(&a->call);
    if (next == CONN_LONG)
        s->ends = !a->request.keep;
    else if (next != CONN_ANSWERED)
        return next;
    site->stats.requests++;
    pass_request(s, in, a);
    if (next == CONN_LONG)
        return next;
    drop_held(s);
    *answered = true;
    /* Bytes behind the last request must not reset its answer.  At a stop they
     * may be on their way. */
    if (!a->request.keep)
        return in->size > 0 || c->listener->stopping ? conn_last(c) : CONN_END;
    return CONN_ANSWERED;
}

static enum conn_next
take(struct conn *c, struct input *in)
{
    bool answered = true;

    list_remove(waits_of(c)); /* the end of its input may have woken it */
    while (in->size > 0 && answered) {
        struct http_asked a;
        const int size = next_request(c, in, &a);
        enum conn_next next;

        if (size < 0)
            return refuse_request(c, &a, -size);
        if (size == 0)
            return CONN_NEED_INPUT;
        answered = false;
        next = serve_request(c, in, &a, &answered);
        if (next != CONN_ANSWERED)
            return next;
    }
    return CONN_NEED_INPUT;
}

/* Goes on with an answer in pieces. */
static enum conn_next
more(struct conn *c)
{
    struct http_state *s = conn_state(c);
    const enum conn_next next = s->held->more(s->held, c);

    if (next != CONN_ANSWERED)
        return next;
    drop_held(s);
    return s->ends ? conn_last(c) : CONN_ANSWERED;
}

static bool
ended(struct conn *c)
{
    struct http_state *s = conn_state(c);

    drop_held(s);
    list_remove(waits_of(c));
    return true;
}

const struct protocol http_protocol = {.state_size = sizeof(struct http_state),
                                       .flags =
                                           CONN_EOF_WAKES | CONN_SAYS_CLOSE,
                                       .stop = STOP_ANSWER,
                                       .take = take,
                                       .more = more,
                                       .ended = ended};
