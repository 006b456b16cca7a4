/* writer/http_service.c - see http_service.h. */
#include "writer/http_service.h"

#include <string.h>

#include "common/base/diag.h"

static_assert(HTTP_HOSTS_SIZE >= CONFIG_HOSTS_SIZE, "all names fit");

bool
http_is_on(const struct config *c)
{
    return c->sequence_enable || c->quota_enable;
}

static int
open_sequence(struct http *h, struct loop *loop, const struct datadir *dir,
              const struct config *config)
{
    const int rc = sequence_open(&h->sequence, loop, dir->live_fd,
                                 (uint32_t)config->sequence_reserve,
                                 (uint32_t)config->sequence_server_no);

    h->sequence_on = rc == 0;
    if (rc == 0)
        http_site_add(&h->site, sequence_routes, sequence_route_count,
                      &h->sequence);
    return rc;
}

int
http_open(struct http *h, struct loop *loop, struct datadir *dir,
          const struct config *config)
{
    int rc;

    memcpy(h->site.hosts, config->http_hosts, sizeof config->http_hosts);
    h->site.get_changes = config->http_get_changes;
    if (!http_is_on(config))
        return 0;
    rc = datadir_live(dir);
    if (rc == 0 && config->sequence_enable)
        rc = open_sequence(h, loop, dir, config);
    if (rc < 0)
        http_close(h);
    return rc;
}

void
http_close(struct http *h)
{
    if (h->sequence_on)
        sequence_close(&h->sequence);
    h->sequence_on = false;
}

void
http_print(const struct http *h)
{
    const struct sequence_figures *f = &h->sequence.figures;

    if (h->sequence_on)
        diag(DIAG_INFO,
             "sequence: given=%llu waited=%llu moves=%llu requests=%llu "
             "refused=%llu",
             (unsigned long long)f->given, (unsigned long long)f->waited,
             (unsigned long long)f->moves,
             (unsigned long long)h->site.figures.requests,
             (unsigned long long)h->site.figures.refused);
}
