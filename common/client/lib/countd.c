/* common/client/lib/countd.c - libcountd: the handle, from
 * countd_open() to countd_close() and countd_finish().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/countd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/client/lib/handle.h"

#define BUFFER_SIZE        ((size_t)256 * 1024)
#define CONNECT_TIMEOUT_MS 5000
#define READ_TIMEOUT_MS    5000

#define WRITE_ADDRESS  "127.0.0.1:48881"
#define SILENT_ADDRESS "127.0.0.1:48879"
#define READ_ADDRESS   "127.0.0.1:48890"

int
handle_take_options(void *to, size_t size, const void *from)
{
    const uint8_t *bytes = from;
    size_t given;

    memset(to, 0, size);
    memcpy(to, &size, sizeof size);
    if (!from)
        return 0;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given)
        return -EINVAL;
    for (size_t i = size; i < given; i++)
        if (bytes[i])
            return -EINVAL; /* asks for what this version cannot do */
    memcpy(to, from, given < size ? given : size);
    return 0;
}

static int
take_options(const struct countd_options *from, struct countd_options *o)
{
    const int rc = handle_take_options(o, sizeof *o, from);

    if (rc < 0)
        return rc;
    if (!o->write && !o->directory)
        o->write = o->silent ? SILENT_ADDRESS : WRITE_ADDRESS;
    if (!o->read && !o->directory)
        o->read = READ_ADDRESS;
    if (o->buffer_size == 0)
        o->buffer_size = BUFFER_SIZE;
    if (o->keyspace_size == 0)
        o->keyspace_size = MESSAGE_NAME_MAX;
    if (o->key_size == 0)
        o->key_size = MESSAGE_NAME_MAX;
    if (o->connect_timeout_ms == 0)
        o->connect_timeout_ms = CONNECT_TIMEOUT_MS;
    return 0;
}

/* Places for sums: twice as many as messages. */
static int
sums_init(struct handle_writing *w)
{
    size_t count = 16;

    while (count < 2 * w->capacity)
        count *= 2;
    w->sums = calloc(count, sizeof *w->sums);
    w->sums_mask = count - 1;
    return w->sums ? 0 : -ENOMEM;
}

static int
writing_init(struct handle_writing *w, const struct countd_options *o)
{
    int rc;

    w->silent = o->silent != 0;
    w->nonblocking = o->nonblocking != 0;
    w->poll_fd = -1;
    if (layout_init(&w->layout, o->keyspace_size, o->key_size) < 0)
        return -EINVAL;
    w->capacity = o->buffer_size / w->layout.message_size;
    if (w->capacity < 2)
        w->capacity = 2; /* buffer_increment() may need two */
    rc = link_init(&w->link, o->write, o->directory,
                   w->silent ? LOCAL_COUNT : LOCAL_ACK, o->connect_timeout_ms);
    if (rc < 0)
        return rc;
    w->ring = calloc(w->capacity, w->layout.message_size);
    if (!w->ring)
        return -ENOMEM;
    rc = o->sum ? sums_init(w) : 0;
    if (rc == 0)
        rc = -pthread_mutex_init(&w->lock, NULL);
    if (rc == 0)
        return 0;
    free(w->sums);
    free(w->ring);
    return rc;
}

static void
writing_fini(struct handle_writing *w)
{
    link_drop(&w->link);
    free(w->ring);
    free(w->sums);
    free(w->times.minutes);
    if (w->poll_fd >= 0)
        (void)close(w->poll_fd);           /* it holds nothing */
    (void)pthread_mutex_destroy(&w->lock); /* the caller's last use */
}

static int
asking_init(struct handle_asking *a, const struct countd_options *o)
{
    const struct countd_http_options options = {.size = sizeof options,
                                                .address = o->read,
                                                .timeout_ms =
                                                    o->connect_timeout_ms,
                                                .directory = o->directory,
                                                .token = o->token};
    const int rc =
        http_init(&a->http, &options, LOCAL_READ_HTTP, HTTP_ROWS_MAX);

    a->http.timeout_ms = READ_TIMEOUT_MS;
    return rc;
}

PUBLIC int
countd_open(struct countd **out, const struct countd_options *options)
{
    struct countd_options o;
    struct countd *c;
    int rc;

    rc = take_options(options, &o);
    if (rc < 0)
        return rc;
    c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    rc = writing_init(&c->writing, &o);
    if (rc < 0)
        goto free_handle;
    rc = asking_init(&c->asking, &o);
    if (rc < 0)
        goto fini_writing;
    *out = c;
    return 0;

fini_writing:
    writing_fini(&c->writing);
free_handle:
    free(c);
    return rc;
}

PUBLIC int64_t
countd_close(struct countd *c)
{
    uint64_t dropped;

    if (!c)
        return 0;
    dropped = c->writing.buffered + c->writing.flight + c->writing.lost +
              c->writing.refused;
    writing_fini(&c->writing);
    http_fini(&c->asking.http);
    free(c);
    return (int64_t)dropped;
}

PUBLIC int
countd_finish(struct countd *c, int timeout_ms)
{
    int rc = c ? countd_sync(c, timeout_ms) : 0;

    if (c && rc == 0)
        rc = c->writing.refusal;
    (void)countd_close(c); /* `rc` tells whether something was dropped */
    return rc;
}

PUBLIC const char *
countd_version(void)
{
    return COUNTD_VERSION;
}
