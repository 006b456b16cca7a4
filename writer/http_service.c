/* writer/http_service.c - see http_service.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/http_service.h"

#include <string.h>

#define STUCK_MS 1000 /* without a log so long it is not ready */

static_assert(HTTP_HOSTS_SIZE >= CONFIG_NAMES_SIZE, "all names fit");

/* ---- health ------------------------------------------------------------- */

/* Ready means that this process accepts increments.  Troubles of another
 * process, and a full disk while the logs have free slots, do not count:
 * sending clients elsewhere would repair neither. */
static enum conn_next
answer_ready(struct http_call *x)
{
    struct http_service *h = x->ctx;

    if (h->stopping)
        return http_answer_text(x, HTTP_UNAVAILABLE, "stopping\n");
    if (count_is_on(&h->count) &&
        logs_are_stuck(h->count.ingest->logs, STUCK_MS))
        return http_answer_text(x, HTTP_UNAVAILABLE,
                                "no log to write to: the disk is full, or the "
                                "worker is behind and log.max is reached\n");
    return http_answer_text(x, HTTP_OK, "ok\n");
}

static const struct http_route health_routes[] = {
    {"/healthz", NULL, HTTP_GET | HTTP_HEAD, http_answer_health, HTTP_IS_OPEN,
     NULL},
    {"/readyz", NULL, HTTP_GET | HTTP_HEAD, answer_ready, HTTP_IS_OPEN, NULL},
};

/* ---- open and close ----------------------------------------------------- */

int
http_service_open(struct http_service *h, struct loop *loop,
                  struct datadir *dir, const struct config *config,
                  struct ingest *ingest)
{
    int rc = 0;

    memcpy(h->site.hosts, config->http_hosts, sizeof config->http_hosts);
    h->site.get_changes = config->http_get_changes;
    h->site.origins = config->count_cors[0] != '\0' ? config->count_cors : NULL;
    h->site.elsewhere =
        config->count_http
            ? "counting is POST /v1/count, and countd-read answers at read.http"
            : "countd-read answers questions, at read.http";
    if (config->count_http) {
        rc = count_open(&h->count, loop, ingest, config);
        http_site_add(&h->site, count_routes, count_route_count, &h->count,
                      TOKENS_COUNT);
    }
    if (rc == 0 && config->sequence_enable) {
        rc = sequence_open(&h->sequence, loop, dir->live_fd,
                           (uint32_t)config->sequence_reserve,
                           (uint32_t)config->sequence_server_no);
        h->sequence_on = rc == 0;
        http_site_add(&h->site, sequence_routes, sequence_route_count,
                      &h->sequence, TOKENS_QUOTA);
    }
    http_site_add(&h->site, health_routes,
                  sizeof health_routes / sizeof health_routes[0], h,
                  TOKENS_READ);
    if (rc < 0)
        http_service_close(h);
    return rc;
}

void
http_service_close(struct http_service *h)
{
    if (h->sequence_on)
        sequence_close(&h->sequence);
    h->sequence_on = false;
    count_close(&h->count);
}
