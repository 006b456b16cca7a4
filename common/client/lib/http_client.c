/* common/client/lib/http_client.c - libcountd: HTTP; see http_client.h:
 * http_ask(), countd_http_open(), countd_http_close(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/http_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "common/client/lib/handle.h"

#define ADDRESS    "127.0.0.1:9527"
#define TIMEOUT_MS 5000
#define LENGTH     "Content-length:"

struct http_exchange {
    struct link_exchange exchange;
    struct http_answer *out;
    int status;
    bool begun; /* bytes of an answer have come */
    bool kept;  /* the connection stays open */
};

const char *
http_header(const struct http_answer *a, const char *name)
{
    const char *line = a->head;

    while ((line = strchr(line, '\n')) != NULL && ++line < a->body)
        if (strncasecmp(line, name, strlen(name)) == 0)
            return line + strlen(name);
    return NULL;
}

/* Takes the answer when it is whole. */
static ssize_t
take_answer(void *ctx, uint8_t *bytes, size_t have)
{
    struct http_exchange *x = ctx;
    char *const head = (char *)bytes;
    const char *length;
    unsigned long size;
    size_t head_size;
    char *end;

    x->begun = true;
    head[have] = '\0';
    if (strncmp(head, "HTTP/1.", have < 7 ? have : 7) != 0)
        return -EPROTO;
    end = strstr(head, "\r\n\r\n");
    if (!end)
        return 0;
    head_size = (size_t)(end + 4 - head);
    *x->out = (struct http_answer){.head = head, .body = end + 4};
    length = http_header(x->out, LENGTH);
    size = length ? strtoul(length, NULL, 10) : 0;
    x->out->size = size;
    x->status = (int)strtoul(head + strcspn(head, " "), NULL, 10);
    x->kept = http_header(x->out, "Connection: keep-alive") != NULL;
    if (!length || size > x->exchange.receive_size - head_size)
        return -EPROTO;
    if (have < head_size + size)
        return 0;
    x->exchange.done = true;
    return (ssize_t)(head_size + size);
}

static int
status_error(int status)
{
    static const struct {
        int status, error;
    } errors[] = {{200, 0},       {201, 0},
                  {400, -EINVAL}, {401, -EACCES},
                  {403, -EACCES}, {404, -EOPNOTSUPP},
                  {409, -EEXIST}, {422, -EKEYREJECTED},
                  {503, -EAGAIN}, {507, -ENOSPC}};

    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].status == status)
            return errors[i].error;
    return -EPROTO;
}

int
http_ask(struct countd_http *h, const char *request, struct http_answer *out)
{
    bool was_kept, again;
    int rc;

    do {
        struct http_exchange x = {
            .exchange = {.link = &h->link,
                         .deadline_ms = link_deadline(h->timeout_ms),
                         .ctx = &x,
                         .take = take_answer,
                         .send = (const uint8_t *)request,
                         .send_size = strlen(request),
                         .receive = (uint8_t *)h->answer,
                         .receive_size = h->answer_max},
            .out = out};

        was_kept = h->link.fd >= 0;
        *out = (struct http_answer){.body = NULL};
        rc = link_run(&x.exchange);
        if (rc < 0)
            out->body = NULL;
        if (rc < 0 || !x.kept)
            link_drop(&h->link);
        again = rc == -ENOTCONN && was_kept && !x.begun;
        if (rc == 0)
            rc = status_error(x.status);
    } while (again);
    return rc;
}

/* ---- open and close ----------------------------------------------------- */

/* A character that ends a line would let a token be a header of its own. */
static int
set_token(struct countd_http *h, const char *token)
{
    size_t size = 0;

    if (!token)
        return 0;
    while (token[size] > ' ' && token[size] <= '~')
        size++;
    if (size == 0 || size > HTTP_TOKEN_MAX || token[size] != '\0')
        return -EILSEQ;
    (void)snprintf(h->authorization, sizeof h->authorization,
                   "Authorization: Bearer %s\r\n", token);
    return 0;
}

int
http_init(struct countd_http *h, const struct countd_http_options *o,
          const char *socket, size_t answer_max)
{
    int rc;

    h->timeout_ms = o->timeout_ms > 0 ? (int)o->timeout_ms : TIMEOUT_MS;
    h->answer_max = answer_max;
    h->answer = malloc(answer_max + 1);
    rc = h->answer ? set_token(h, o->token) : -ENOMEM;
    if (rc == 0)
        rc = link_init(&h->link, o->address, o->directory, socket,
                       (unsigned)h->timeout_ms);
    if (rc == 0)
        rc = -pthread_mutex_init(&h->lock, NULL);
    if (rc < 0)
        free(h->answer);
    return rc;
}

void
http_fini(struct countd_http *h)
{
    link_drop(&h->link);
    (void)pthread_mutex_destroy(&h->lock); /* the caller's last use */
    free(h->answer);
}

PUBLIC int
countd_http_open(struct countd_http **out,
                 const struct countd_http_options *options)
{
    struct countd_http_options o;
    struct countd_http *h;
    int rc;

    rc = handle_take_options(&o, sizeof o, options);
    if (rc < 0)
        return rc;
    if (!o.address && !o.directory)
        o.address = ADDRESS;
    h = calloc(1, sizeof *h);
    if (!h)
        return -ENOMEM;
    rc = http_init(h, &o, LOCAL_HTTP, HTTP_ANSWER_MAX);
    if (rc < 0)
        free(h);
    else
        *out = h;
    return rc;
}

PUBLIC void
countd_http_close(struct countd_http *h)
{
    if (!h)
        return;
    http_fini(h);
    free(h);
}
