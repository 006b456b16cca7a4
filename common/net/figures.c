/* common/net/figures.c - what doors tell about themselves; see conn.h. */
#include "common/net/conn_inside.h"

static void
print_door(const struct door *d)
{
    const struct door_figures *f = &d->figures;

    diag(DIAG_INFO,
         "door=%s open=%zu connections=%llu received=%llu sent=%llu "
         "malformed=%llu http=%llu turned_away=%llu yielded=%llu "
         "evicted=%llu cut_off=%llu",
         d->row->name, d->open, (unsigned long long)f->accepted,
         (unsigned long long)f->received, (unsigned long long)f->sent,
         (unsigned long long)f->malformed, (unsigned long long)f->http,
         (unsigned long long)f->turned_away, (unsigned long long)f->yielded,
         (unsigned long long)f->evicted, (unsigned long long)f->cut_off);
}

void
conns_print(const struct conns *cs)
{
    for (size_t i = 0; i < cs->count; i++)
        if (cs->doors[i].row->listen && cs->doors[i].row->listen[0] != '\0')
            print_door(&cs->doors[i]);
}
