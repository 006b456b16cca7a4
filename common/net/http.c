/* common/net/http.c - see http.h. */
#include "common/net/http.h"

#include <assert.h>
#include <string.h>

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
    return CONN_PAUSE;
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
is_path(const struct http_route *route, struct http_asked *a)
{
    const struct http_text path = a->request.path;
    const size_t size = strlen(route->path);

    if (path.size < size || memcmp(path.at, route->path, size) != 0)
        return false;
    a->rest = (struct http_text){path.at + size, path.size - size};
    return a->rest.size == 0 || (size > 1 && route->path[size - 1] == '/');
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
is_query(const struct http_route *route, struct http_asked *a)
{
    const struct http_text query = a->request.query;

    if (!route->query)
        return query.at == NULL;
    if (strcmp(route->query, "*") == 0)
        return true;
    return query.at && begins_with(query, route->query, &a->value);
}

static void
find_route(const struct http_site *s, struct http_asked *a)
{
    a->route = NULL;
    a->allow = 0;
    for (size_t t = 0; t < s->count; t++) {
        const struct http_table *table = &s->tables[t];

        for (size_t i = 0; i < table->count; i++) {
            const struct http_route *route = &table->routes[i];

            if (!is_path(route, a) || !is_query(route, a))
                continue;
            a->ctx = table->ctx;
            a->allow |= route->methods;
            if ((route->methods & a->request.method) != 0) {
                a->route = route;
                return;
            }
        }
    }
}

static enum conn_next
answer(struct conn *c, const struct http_asked *a)
{
    struct http_site *s = conn_ctx(c);
    struct http_call x = {.conn = c,
                          .ctx = a->ctx,
                          .request = &a->request,
                          .rest = a->rest,
                          .value = a->value};
    enum conn_next next;

    if (a->route)
        return a->route->answer(&x);
    next = a->allow != 0 ? http_not_allowed(&x, a->allow)
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

/* ---- what was asked a moment ago ---------------------------------------- */

static const struct http_asked *
recall(const struct http_site *s, const struct input *in)
{
    const struct http_asked *a = &s->last;

    return a->size > 0 && in->size >= a->size &&
                   memcmp(in->at, s->last_head, a->size) == 0
               ? a
               : NULL;
}

static struct http_text
moved(struct http_text t, const uint8_t *from, const uint8_t *to)
{
    if (t.at)
        t.at = to + (t.at - from);
    return t;
}

static void
remember(struct http_site *s, const uint8_t *at, const struct http_asked *a)
{
    const uint8_t *to = s->last_head;
    struct http_request *r = &s->last.request;

    if (a->size > sizeof s->last_head || !a->route)
        return;
    memcpy(s->last_head, at, a->size);
    s->last = *a;
    s->last.rest = moved(a->rest, at, to);
    s->last.value = moved(a->value, at, to);
    r->target = moved(r->target, at, to);
    r->path = moved(r->path, at, to);
    r->query = moved(r->query, at, to);
    r->host = moved(r->host, at, to);
    r->key = moved(r->key, at, to);
}

/* ---- one by one --------------------------------------------------------- */

/* Parses the head that comes next.  As http_parse(), which is spared where
 * nothing has come but a piece of a line. */
static int
parse(struct http_state *s, const struct input *in, struct http_request *r)
{
    size_t line = s->line;
    int rc;

    assert(!s->is_cut || line <= in->size);
    if (s->is_cut && in->size < HTTP_HEAD_MAX &&
        !memchr(in->at + line, '\n', in->size - line))
        return 0;
    rc = http_parse(in->at, in->size, r, &line);
    s->is_cut = rc == 0;
    s->line = (uint32_t)line;
    return rc;
}

/* The next request, as http_parse(): its size, 0, or a status below 0. */
static int
ask(struct conn *c, const struct input *in, struct http_asked *a)
{
    struct http_site *site = conn_ctx(c);
    const int size = parse(conn_state(c), in, &a->request);

    if (size <= 0)
        return size;
    if (!is_ours(site, &a->request))
        return -HTTP_FORBIDDEN;
    a->size = (size_t)size;
    a->ctx = NULL;
    a->rest = a->value = (struct http_text){NULL, 0};
    find_route(site, a);
    remember(site, in->at, a);
    return size;
}

/* Whether the body of a request has come, too; else `in` says what is to come.
 */
static bool
has_body(struct http_state *s, struct input *in, const struct http_asked *a)
{
    s->has_body |= in->skipped;
    in->skipped = false;
    if (s->has_body || a->size + a->request.body <= in->size)
        return true;
    in->need = (uint32_t)a->size;
    in->skip = a->request.body;
    return false;
}

static void
advance(struct http_state *s, struct input *in, const struct http_asked *a)
{
    const size_t size = s->has_body ? a->size : a->size + a->request.body;

    s->has_body = s->is_cut = false;
    in->at += size;
    in->size -= size;
}

static enum conn_next
take(struct conn *c, struct input *in)
{
    struct http_state *s = conn_state(c);
    struct http_site *site = conn_ctx(c);
    const struct http_asked *a;
    struct http_asked fresh;
    enum conn_next next;

    while (in->size > 0) {
        a = recall(site, in);
        if (!a) {
            const int size = ask(c, in, &fresh);

            if (size < 0)
                return refuse(c, &fresh.request, -size);
            if (size == 0)
                return CONN_MORE;
            a = &fresh;
        }
        if (!has_body(s, in, a))
            return CONN_MORE;
        next = answer(c, a);
        if (next != CONN_MORE)
            return next;
        site->figures.requests++;
        advance(s, in, a);
        /* What comes behind the last request must not reset its answer. */
        if (!a->request.keep)
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
