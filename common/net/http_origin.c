/* common/net/http_origin.c - whose requests are served, what their tokens
 * allow, and where a GET may change something; see http.h.
 *
 * http_is_foreign() and http_knows_host() are asked of each head,
 * http_is_authorized() before a route, http_needs_right() and http_may_change()
 * by routes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/http_internal.h"

#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

#include "common/wire/name.h"

#define ORIGIN_MAX 512 /* bytes of an Origin that may be listed */

/* A name of letters, digits, - and _, without a dot: no DNS gives a web page
 * such a name.  Nothing is decoded: a browser asks a%2eb of the host a.b. */
static bool
is_short_name(struct http_text host)
{
    bool is_number = true;

    for (size_t i = 0; i < host.size; i++) {
        const uint8_t c = host.at[i], letter = c | 0x20;

        if (c >= '0' && c <= '9')
            continue;
        if (!(letter >= 'a' && letter <= 'z') && c != '-' && c != '_')
            return false;
        is_number = false;
    }
    return !is_number;
}

/* A number, an address in brackets, a name without a dot: a web page cannot
 * pretend to be of this site. */
static bool
is_nobodys(struct http_text host)
{
    if (host.at[0] == '[')
        return host.at[host.size - 1] == ']';
    for (size_t i = 0; i < host.size; i++)
        if (host.at[i] != '.' && (host.at[i] < '0' || host.at[i] > '9'))
            return is_short_name(host);
    return true;
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

/* The place of a name among others, or -1. */
static int
find_listed(const char *names, struct http_text name)
{
    size_t size;

    names += strspn(names, " ");
    for (int i = 0; *names != '\0'; i++) {
        size = strcspn(names, " ");
        if (size == name.size &&
            strncasecmp(names, (const char *)name.at, size) == 0)
            return i;
        names += size + strspn(names + size, " ");
    }
    return -1;
}

/* Whether the page of an Origin was loaded from this very address. */
static bool
is_own_origin(const struct http_request *r)
{
    static const char scheme[] = "http://";
    const size_t size = sizeof scheme - 1;

    return r->host.at && r->origin.size == size + r->host.size &&
           memcmp(r->origin.at, scheme, size) == 0 &&
           memcmp(r->origin.at + size, r->host.at, r->host.size) == 0;
}

int
http_find_origin(const struct http_site *s, const struct http_request *r)
{
    if (!r->origin.at || r->origin.size > ORIGIN_MAX || !s->origins)
        return -1;
    return strcmp(s->origins, "*") == 0 ? 0
                                        : find_listed(s->origins, r->origin);
}

bool
http_serves_page(const struct http_site *s, const struct http_request *r,
                 unsigned flags)
{
    return (s->only_reads || (flags & HTTP_TAKES_PAGES) != 0) &&
           http_find_origin(s, r) >= 0;
}

/* Whether a browser says that a page of another site asks. */
static bool
is_cross_site(const struct http_request *r)
{
    return r->fetch_site.at && !http_text_is_like(r->fetch_site, "none") &&
           !http_text_is_like(r->fetch_site, "same-origin");
}

/* A site that changes nothing serves its own page at /, and a link to that may
 * be followed from anywhere. */
bool
http_is_foreign(const struct http_site *s, const struct http_request *r,
                unsigned flags)
{
    if (http_serves_page(s, r, flags))
        return false;
    if (!s->only_reads)
        return r->origin.at || r->referer.at || is_cross_site(r);
    return (r->origin.at && !is_own_origin(r)) ||
           (is_cross_site(r) &&
            !(http_text_is_like(r->fetch_mode, "navigate") &&
              http_text_is(r->path, "/")));
}

bool
http_knows_host(const struct http_site *s, const struct http_request *r)
{
    const struct http_text host = host_name(r->host);

    return host.size == 0 || is_nobodys(host) ||
           find_listed(s->hosts, host) >= 0;
}

void
http_describe_host(const struct http_request *r, char text[HTTP_DETAIL_SIZE])
{
    const struct http_text host = host_name(r->host);
    char name[NAME_SHOWN_SIZE];

    (void)snprintf(text, HTTP_DETAIL_SIZE,
                   "the Host %s is not known here; if it is this server's, "
                   "add it to http.hosts",
                   name_show(host.at, host.size, name));
}

/* ---- tokens ------------------------------------------------------------- */

/* The token of `Authorization: Bearer TOKEN`; of another scheme none. */
static struct http_text
find_token(const struct http_request *r)
{
    struct http_text t = r->authorization;

    if (!t.at || !http_text_is_like(http_cut(&t, ' '), "bearer"))
        return (struct http_text){NULL, 0};
    for (; t.size > 0 && *t.at == ' '; t.size--)
        t.at++;
    return t;
}

static enum conn_next
refuse_token(struct http_call *x)
{
    const bool has_none = find_token(x->request).size == 0;
    const struct http_problem problem = {
        has_none ? "no-token" : "bad-token",
        has_none ? "a token is needed: Authorization: Bearer TOKEN"
                 : "this token is not known; http.tokens has those that are",
        0};

    x->headers = "WWW-Authenticate: Bearer realm=\"countd\"\r\n";
    return http_refuse(x, HTTP_UNAUTHORIZED, &problem);
}

static enum conn_next
refuse_right(struct http_call *x, unsigned right)
{
    const char *name = right == TOKENS_READ    ? "read"
                       : right == TOKENS_COUNT ? "count"
                       : right == TOKENS_QUOTA ? "quota"
                                               : "admin";
    char detail[HTTP_DETAIL_SIZE];
    const struct http_problem problem = {"no-right", detail, 0};

    (void)snprintf(detail, sizeof detail, "this token lacks the right %s",
                   name);
    return http_refuse(x, HTTP_FORBIDDEN, &problem);
}

bool
http_needs_right(struct http_call *x, enum tokens_right right,
                 enum conn_next *next)
{
    if ((x->rights & right) != 0)
        return true;
    *next = refuse_right(x, right);
    return false;
}

bool
http_is_authorized(struct http_call *x, unsigned right, enum conn_next *next)
{
    const struct http_site *site = conn_ctx(x->conn);
    struct http_text token;

    x->rights = TOKENS_ALL;
    if (!site->tokens || x->conn->is_local)
        return true;
    token = find_token(x->request);
    x->rights = tokens_check(site->tokens, token.at, token.size);
    if (x->rights != 0)
        return right == 0 || http_needs_right(x, right, next);
    *next = refuse_token(x);
    return false;
}

/* ---- changes ------------------------------------------------------------ */

/* Whether the connection was made to an address of this machine alone. */
static bool
is_own_end(struct conn *c)
{
    struct http_state *s = conn_state(c);
    struct net_address a = {.size = sizeof a.sa};

    if (s->end == HTTP_END_UNKNOWN)
        s->end =
            c->is_local || (getsockname(c->source.fd, (struct sockaddr *)&a.sa,
                                        &a.size) == 0 &&
                            net_is_loopback(&a))
                ? HTTP_END_LOCAL
                : HTTP_END_REMOTE;
    return s->end == HTTP_END_LOCAL;
}

/* Whether a GET with this Host is not one that a page elsewhere made a browser
 * send, unless the browser says so.  It does to the addresses of its own
 * machine; 0.0.0.0 and a name with a dot, which a proxy passes on, lead to
 * loopback, too, and there it says nothing.  A name without a dot is the
 * network's own, and clients of coconut send what they like. */
static bool
is_own_host(struct http_text host)
{
    static const char net[] = "127.";

    host = host_name(host);
    return host.size == 0 || is_short_name(host) ||
           http_text_is_like(host, "[::1]") ||
           (host.size >= sizeof net && is_nobodys(host) &&
            memcmp(host.at, net, sizeof net - 1) == 0);
}

bool
http_may_change(struct http_call *x, enum conn_next *next)
{
    const struct http_site *site = conn_ctx(x->conn);

    if (x->request->method != HTTP_GET || site->get_changes)
        return true;
    if (is_own_host(x->request->host) && is_own_end(x->conn))
        return true;
    *next = http_not_allowed(
        x, HTTP_POST,
        "at an address or Host that is not loopback a GET changes nothing; use "
        "POST, or set http.get_changes = on");
    return false;
}
