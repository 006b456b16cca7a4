/* reader/reader_status.c - see reader_status.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/reader_status.h"

static void
fill_row(struct reader_status *s)
{
    int64_t *v = s->row.values;

    v[STATUS_R_REQUESTS] = (int64_t)s->range->requests;
    v[STATUS_R_UNREADABLE] =
        (int64_t)(s->range->unreadable + s->http->unreadable);
    v[STATUS_R_AS_OF_MS] = (int64_t)s->range->jobs->as_of->as_of_ms;
    if (reader_listeners_is_on(conns_listener(s->conns, LISTENER_RESP)->row))
        resp_service_fill(s->resp, v);
    for (size_t i = 0; i < READER_LISTENERS; i++)
        status_fill_listener(&s->listeners[i], conns_listener(s->conns, i));
}

void
reader_status_init(struct reader_status *s, const char *data_dir)
{
    s->row = (struct status_row){.kind = STATUS_READER};
    for (size_t i = 0; i < READER_LISTENERS; i++)
        s->listeners[i] = (struct status_row){.kind = STATUS_LISTENER};
    status_init(&s->status, data_dir);
}

void
reader_status_put(struct reader_status *s)
{
    fill_row(s);
    status_put(&s->status, &s->row);
    for (size_t i = 0; i < READER_LISTENERS; i++)
        if (reader_listeners_is_on(conns_listener(s->conns, i)->row))
            status_put(&s->status, &s->listeners[i]);
}

void
reader_status_print(struct reader_status *s)
{
    fill_row(s);
    status_print("", &s->row);
    for (size_t i = 0; i < READER_LISTENERS; i++)
        if (reader_listeners_is_on(conns_listener(s->conns, i)->row))
            status_print("", &s->listeners[i]);
}
