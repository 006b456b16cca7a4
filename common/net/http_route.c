/* common/net/http_route.c - which route a request has: http_find_route(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/http_internal.h"

#include <assert.h>
#include <string.h>

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
    a->rest = (struct http_text){path.at + size, path.size - size};
    return a->rest.size == 0 || (size > 1 && route->path[size - 1] == '/');
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
    return query.at && begins_with(query, route->query, &a->value);
}

void
http_find_route(const struct http_site *s, struct http_asked *a)
{
    const bool of_all = http_text_is(a->request.target, "*");

    a->route = NULL;
    a->ctx = NULL;
    a->rest = a->value = (struct http_text){NULL, 0};
    a->allow = a->right = a->flags = 0;
    /* The paths of coconut are not asked for in absolute form. */
    if (a->request.authority.at && !http_is_versioned(&a->request))
        return;
    for (size_t t = 0; t < s->count; t++) {
        const struct http_table *table = &s->tables[t];

        for (size_t i = 0; i < table->count; i++) {
            const struct http_route *route = &table->routes[i];

            if (!of_all && (!is_path(route, a) || !is_query(route, a)))
                continue;
            a->ctx = table->ctx;
            a->right = table->right;
            a->allow |= route->methods;
            if (of_all)
                continue;
            a->flags |= route->flags;
            if ((route->methods & a->request.method) != 0) {
                a->route = route;
                return;
            }
        }
    }
}
