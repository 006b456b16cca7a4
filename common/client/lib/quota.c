/* common/client/lib/quota.c - libcountd: countd_quota() and
 * countd_quota_list(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/client/lib/handle.h"
#include "common/client/lib/http_client.h"

#define NAME_MAX_SIZE 64
#define KEY_MAX_SIZE  255
#define REQUEST_SIZE  (NAME_MAX_SIZE + KEY_MAX_SIZE + HTTP_TOKEN_MAX + 288)

static const struct verb {
    const char *word;      /* of the path; "": the quota itself */
    const char *parameter; /* NULL: none */
    bool numbered;
} verbs[] = {
    [COUNTD_QUOTA_QUERY] = {"query", NULL, false},
    [COUNTD_QUOTA_APPLY] = {"apply", "amt", true},
    [COUNTD_QUOTA_CANCEL] = {"cancel", "jnlsno", true},
    [COUNTD_QUOTA_INCREASE] = {"increase", "amt", false},
    [COUNTD_QUOTA_DECREASE] = {"decrease", "amt", false},
    [COUNTD_QUOTA_EMPTY] = {"empty", NULL, false},
    [COUNTD_QUOTA_CREATE] = {"", "limit", false},
    [COUNTD_QUOTA_REMOVE] = {"", NULL, false},
};

/* ---- requests ----------------------------------------------------------- */

/* What may stand in a path or a header; the server looks closer. */
static bool
is_plain(const char *text, size_t max)
{
    const size_t size = strlen(text);

    if (size == 0 || size > max)
        return false;
    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}

static bool
is_name(const char *name)
{
    return is_plain(name, NAME_MAX_SIZE) &&
           name[strcspn(name, "/?#% \"")] == '\0';
}

static int
put_request(const struct countd_http *h, const struct countd_quota_request *r,
            char text[REQUEST_SIZE])
{
    const struct verb *v = &verbs[r->op];
    const char *key = r->key;
    char path[NAME_MAX_SIZE + 64], query[64] = "", own[33];
    uint64_t n[2];

    if (r->name)
        (void)snprintf(path, sizeof path, "/quota/%s%s%s", r->name,
                       v->word[0] != '\0' ? "/" : "", v->word);
    else
        (void)snprintf(path, sizeof path, "/%s", v->word);
    if (v->parameter)
        (void)snprintf(query, sizeof query, "?%s=%" PRId64, v->parameter,
                       r->value);
    if (r->op == COUNTD_QUOTA_QUERY) {
        (void)snprintf(text, REQUEST_SIZE, "GET %s HTTP/1.1\r\n%s\r\n", path,
                       h->authorization);
        return 0;
    }
    if (!key) { /* one for this call alone */
        if (getrandom(n, sizeof n, 0) != (ssize_t)sizeof n)
            return -EIO;
        (void)snprintf(own, sizeof own, "%016" PRIx64 "%016" PRIx64, n[0],
                       n[1]);
        key = own;
    }
    (void)snprintf(text, REQUEST_SIZE,
                   "%s %s%s HTTP/1.1\r\nIdempotency-Key: %s\r\n%s\r\n",
                   r->op == COUNTD_QUOTA_REMOVE ? "DELETE" : "POST", path,
                   query, key, h->authorization);
    return 0;
}

/* ---- answers ------------------------------------------------------------ */

/* A number of digits at *at, which is moved behind it and `behind`. */
static bool
take_number(const char **at, char behind, int64_t *out)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    if (errno != 0 || *end != behind)
        return false;
    *at = end + 1;
    return true;
}

static int
take_answer(enum countd_quota_op op, const struct http_answer *a,
            struct countd_quota_answer *out)
{
    struct countd_quota_answer got = {0};
    const char *at = a->body;
    int64_t number = 0;

    if (strcmp(at, "-1\n") == 0)
        return -ERANGE;
    if (verbs[op].numbered && strcmp(at, "0\n") == 0)
        return op == COUNTD_QUOTA_APPLY ? -EDQUOT : -ENOENT;
    if (verbs[op].numbered && !take_number(&at, ' ', &number))
        return -EPROTO;
    if (!take_number(&at, '\n', &got.remaining) || *at != '\0')
        return -EPROTO;
    got.number = (uint64_t)number;
    *out = got;
    return 0;
}

static int
ask_list(struct countd_http *h, struct http_answer *a)
{
    char request[REQUEST_SIZE];

    (void)snprintf(request, sizeof request, "GET /quota HTTP/1.1\r\n%s\r\n",
                   h->authorization);
    return http_ask(h, request, a);
}

PUBLIC int
countd_quota(struct countd_http *h, const struct countd_quota_request *request,
             struct countd_quota_answer *out)
{
    const struct countd_quota_request *r = request;
    char text[REQUEST_SIZE];
    struct http_answer a;
    int rc;

    if (r->op > COUNTD_QUOTA_REMOVE || r->value < 0 ||
        (r->name && !is_name(r->name)) ||
        (r->key && !is_plain(r->key, KEY_MAX_SIZE)) ||
        (!r->name && r->op >= COUNTD_QUOTA_CREATE))
        return -EINVAL;
    rc = put_request(h, r, text);
    if (rc < 0)
        return rc;
    (void)pthread_mutex_lock(&h->lock);
    rc = http_ask(h, text, &a); /* it has a key, or changes nothing */
    /* A server without quotas does not know the list of them either. */
    if (rc == -EOPNOTSUPP && r->name && ask_list(h, &a) != -EOPNOTSUPP)
        rc = -ENODATA;
    if (rc == 0)
        rc = take_answer(r->op, &a, out);
    (void)pthread_mutex_unlock(&h->lock);
    return rc;
}

static int
take_list(const struct http_answer *a,
          int (*each)(void *ctx, const char *name, int64_t limit,
                      int64_t remaining),
          void *ctx)
{
    char name[NAME_MAX_SIZE + 1];
    int64_t limit, remaining;
    int rc = 0;

    for (const char *at = a->body; rc == 0 && *at != '\0';) {
        const size_t size = strcspn(at, "\t");

        if (size > NAME_MAX_SIZE || at[size] != '\t')
            return -EPROTO;
        memcpy(name, at, size);
        name[size] = '\0';
        if (!is_name(name))
            return -EPROTO;
        at += size + 1;
        if (!take_number(&at, '\t', &limit) ||
            !take_number(&at, '\n', &remaining))
            return -EPROTO;
        rc = each(ctx, name, limit, remaining);
    }
    return rc;
}

PUBLIC int
countd_quota_list(struct countd_http *h,
                  int (*each)(void *ctx, const char *name, int64_t limit,
                              int64_t remaining),
                  void *ctx)
{
    struct http_answer a;
    int rc;

    (void)pthread_mutex_lock(&h->lock);
    rc = ask_list(h, &a);
    if (rc == 0)
        rc = take_list(&a, each, ctx);
    (void)pthread_mutex_unlock(&h->lock);
    return rc;
}
