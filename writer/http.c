/* writer/http.c - see http.h. */
#include "writer/http.h"

#include <string.h>

#include "common/base/diag.h"

static_assert(HTTP_HOSTS_SIZE >= CONFIG_HOSTS_SIZE, "all names fit");

bool
http_is_on(const struct config *c)
{
    return c->sequence_enable || c->quota_enable;
}

int
http_open(struct http *h, struct loop *loop, struct datadir *dir,
          const struct config *config)
{
    (void)loop;
    (void)dir;
    memcpy(h->site.hosts, config->http_hosts, sizeof config->http_hosts);
    return 0;
}

void
http_close(struct http *h)
{
    (void)h;
}

void
http_print(const struct http *h)
{
    diag(DIAG_INFO, "http requests=%llu refused=%llu",
         (unsigned long long)h->site.figures.requests,
         (unsigned long long)h->site.figures.refused);
}
