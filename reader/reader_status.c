/* reader/reader_status.c - see reader_status.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/reader_status.h"

static void
fill_rows(struct reader_status *s)
{
    int64_t *v = s->rows[0].values;

    v[STATUS_R_REQUESTS] = (int64_t)s->range->requests;
    v[STATUS_R_UNREADABLE] =
        (int64_t)(s->range->unreadable + s->http->unreadable);
    v[STATUS_R_AS_OF_MS] = (int64_t)s->range->jobs->as_of->as_of_ms;
    if (reader_listeners_is_on(conns_listener(s->conns, LISTENER_RESP)->row))
        resp_service_fill(s->resp, v);
    s->count = 1;
    for (size_t i = 0; i < READER_LISTENERS; i++)
        if (reader_listeners_is_on(conns_listener(s->conns, i)->row))
            status_fill_listener(&s->rows[s->count++],
                                 conns_listener(s->conns, i));
}

void
reader_status_init(struct reader_status *s, const char *data_dir)
{
    s->rows[0].kind = STATUS_READER;
    status_init(&s->status, data_dir);
}

void
reader_status_put(struct reader_status *s)
{
    fill_rows(s);
    for (size_t i = 0; i < s->count; i++)
        status_put(&s->status, &s->rows[i]);
}

void
reader_status_print(struct reader_status *s)
{
    fill_rows(s);
    for (size_t i = 0; i < s->count; i++)
        status_print("", &s->rows[i]);
}
