/* reader/status.c - see status.h. */
#include "reader/status.h"

static void
fill(struct reader_status *s)
{
    int64_t *v = s->row.values;

    v[STATUS_R_REQUESTS] = (int64_t)s->range->requests;
    v[STATUS_R_LISTINGS] = (int64_t)s->range->listings;
    v[STATUS_R_UNREADABLE] = (int64_t)s->range->unreadable;
    v[STATUS_R_AS_OF_MS] = (int64_t)s->fresh->as_of_ms;
    status_fill_listener(&s->listener, conns_listener(s->conns, 0));
}

/* One that serves no port has no figures of it. */
static bool
is_on(const struct reader_status *s)
{
    return conns_listener(s->conns, 0)->row->listen[0] != '\0';
}

void
reader_status_init(struct reader_status *s, const char *data_dir,
                   const struct range *range, const struct as_of *fresh,
                   struct conns *conns)
{
    s->range = range;
    s->fresh = fresh;
    s->conns = conns;
    s->row = (struct status_row){.kind = STATUS_READER};
    s->listener = (struct status_row){.kind = STATUS_LISTENER};
    status_init(&s->status, data_dir);
}

void
reader_status_close(struct reader_status *s)
{
    status_close(&s->status);
}

void
reader_status_put(struct reader_status *s)
{
    fill(s);
    status_put(&s->status, &s->row);
    if (is_on(s))
        status_put(&s->status, &s->listener);
}

void
reader_status_print(struct reader_status *s)
{
    fill(s);
    status_print("", &s->row);
    if (is_on(s))
        status_print("", &s->listener);
}
