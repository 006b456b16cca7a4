/* writer/listeners.c - see listeners.h: listeners_live(),
 * listeners_only_http(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/listeners.h"

#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/base/files.h"
#include "writer/http_service.h"

static size_t
connections_wanted(uint64_t setting)
{
    return setting > 0 && setting < LISTENERS_MOST ? (size_t)setting
                                                   : LISTENERS_MOST;
}

/* Descriptors for connections. */
static size_t
connections_left(uint64_t want, const struct config *c)
{
    const uint64_t kept =
        LISTENERS_FILES + (c->quota_enable ? c->quota_max : 0);
    uint64_t limit;

    /* A limit that cannot be raised is reported below, and accepting pauses. */
    (void)files_raise(want + kept, 0);
    limit = files_limit();
    return (size_t)(limit > 2 * kept ? limit - kept : limit / 2);
}

/* Where a port of the live names is to listen. */
static const char *
format_port(char text[LISTEN_TEXT_SIZE], const struct config *c, uint64_t port)
{
    if (port == CONFIG_PORT_SOCKET)
        return LISTENER_NO_PORT;
    (void)snprintf(text, LISTEN_TEXT_SIZE, "%s:%u", c->live_address,
                   (unsigned)port);
    return text;
}

/* What no setting changes. */
static const struct listener_config fixed[LISTENERS] = {
    [LISTENER_COUNTER] = {.name = "counter",
                          .socket = LOCAL_COUNTER,
                          .listen_key = "counter.port",
                          .allow_key = "live.allow",
                          .enable_key = "counter.enable",
                          .max_key = "counter.max_connections",
                          .request_key = "request_timeout",
                          .protocol = &live_protocol,
                          .keep_alive_s = LIVE_KEEP_ALIVE_S},
    [LISTENER_SEMAPHORE] = {.name = "semaphore",
                            .socket = LOCAL_SEMAPHORE,
                            .listen_key = "semaphore.port",
                            .allow_key = "live.allow",
                            .enable_key = "semaphore.enable",
                            .max_key = "semaphore.max_connections",
                            .request_key = "request_timeout",
                            .protocol = &live_protocol,
                            .keep_alive_s = LIVE_KEEP_ALIVE_S},
    [LISTENER_HTTP] = {.name = "http",
                       .socket = LOCAL_HTTP,
                       .listen_key = "http.listen",
                       .allow_key = "http.allow",
                       .enable_key = "http.listen",
                       .max_key = "http.max_connections",
                       .protocol = &http_protocol,
                       .idle_s = HTTP_IDLE_S,
                       .request_s = HTTP_IDLE_S,
                       .yield_s = HTTP_YIELD_S},
    [LISTENER_ACK] = {.name = "ack",
                      .socket = LOCAL_ACK,
                      .listen_key = "write.ack_listen",
                      .allow_key = "write.allow",
                      .enable_key = "write.ack_listen",
                      .max_key = "write.max_connections",
                      .request_key = "request_timeout",
                      .protocol = &ingest_ack,
                      .yield_s = LISTENERS_YIELD_S},
    [LISTENER_SILENT] = {.name = "silent",
                         .socket = LOCAL_COUNT,
                         .listen_key = "write.listen",
                         .allow_key = "write.allow",
                         .enable_key = "write.listen",
                         .max_key = "write.max_connections",
                         .request_key = "request_timeout",
                         .protocol = &ingest_silent,
                         .yield_s = LISTENERS_YIELD_S},
    [LISTENER_STATSD] = {.name = "statsd-tcp",
                         .listen_key = "statsd.tcp_listen",
                         .allow_key = "statsd.allow",
                         .enable_key = "statsd.tcp_listen",
                         .max_key = "write.max_connections",
                         .request_key = "request_timeout",
                         .protocol = &statsd_lines,
                         .yield_s = LISTENERS_YIELD_S},
    [LISTENER_GRAPHITE] = {.name = "graphite",
                           .socket = LOCAL_GRAPHITE,
                           .listen_key = "graphite.listen",
                           .allow_key = "graphite.allow",
                           .enable_key = "graphite.listen",
                           .max_key = "write.max_connections",
                           .request_key = "request_timeout",
                           .protocol = &statsd_lines,
                           .yield_s = LISTENERS_YIELD_S}};

/* The limit of open files allows less than a setting says. */
static void
report_too_few(const struct listeners *d)
{
    const char *reported_key = "";

    for (size_t i = 0; i < LISTENERS; i++) {
        const struct listener_config *row = &d->rows[i];

        if (row->max <= d->shared || row->max == LISTENERS_MOST ||
            strcmp(reported_key, row->max_key) == 0)
            continue;
        reported_key =
            row->max_key; /* both listeners of increments have the same */
        diag(DIAG_WARNING,
             "only %zu connections for %s=%zu: the limit of open files is "
             "%llu; raise it (ulimit -n, LimitNOFILE=)",
             d->shared, row->max_key, row->max,
             (unsigned long long)files_limit());
    }
}

/* No listener has more than there are descriptors, and each is sure of a part.
 */
static void
share_descriptors(struct listeners *d)
{
    for (size_t i = 0; i < LISTENERS; i++) {
        struct listener_config *row = &d->rows[i];
        size_t part = d->shared / 2 / LISTENERS;

        if (row->max > d->shared)
            row->max = d->shared;
        if (part > LISTENERS_RESERVED)
            part = LISTENERS_RESERVED;
        row->reserved = row->listen && row->listen[0] != '\0'
                            ? (part < row->max ? part : row->max)
                            : 0;
    }
}

void
listeners_init(struct listeners *d, const struct config *c,
               struct ingest *ingest, struct live_service *lives,
               struct http_site *site, struct statsd *statsd)
{
    const struct {
        const char *listen, *allow;
        void *ctx;
        uint64_t max;
    } set[LISTENERS] = {
        [LISTENER_COUNTER] = {c->counter_enable
                                  ? format_port(d->counter_listen, c,
                                                c->counter_port)
                                  : NULL,
                              c->live_allow, &lives->servers[LIVE_COUNTER],
                              c->counter_max_connections},
        [LISTENER_SEMAPHORE] = {c->semaphore_enable
                                    ? format_port(d->semaphore_listen, c,
                                                  c->semaphore_port)
                                    : NULL,
                                c->live_allow, &lives->servers[LIVE_SEMAPHORE],
                                c->semaphore_max_connections},
        [LISTENER_HTTP] = {http_service_is_on(c) ? c->http_listen : NULL, c->http_allow,
                           site, c->http_max_connections},
        [LISTENER_ACK] = {c->write_ack_listen, c->write_allow, ingest,
                          c->write_max_connections},
        [LISTENER_SILENT] = {c->write_listen, c->write_allow, ingest,
                             c->write_max_connections},
        [LISTENER_STATSD] = {c->statsd_tcp_listen, c->statsd_allow,
                             &statsd->ports[STATSD_LINE_PROTOCOL],
                             c->write_max_connections},
        [LISTENER_GRAPHITE] = {c->graphite_listen, c->graphite_allow,
                               &statsd->ports[GRAPHITE_LINE_PROTOCOL],
                               c->write_max_connections}};
    uint64_t want = 0;

    for (size_t i = 0; i < LISTENERS; i++) {
        struct listener_config *row = &d->rows[i];

        *row = fixed[i];
        row->listen = set[i].listen;
        row->allow = set[i].allow;
        row->ctx = set[i].ctx;
        row->max = connections_wanted(set[i].max);
        row->close_over = row->protocol == &live_protocol && set[i].max > 0;
        if (row->request_key)
            row->request_s = (uint32_t)c->request_timeout_s;
        if (row->listen && row->listen[0] != '\0')
            want += row->max;
    }
    d->shared = connections_left(want, c);
    report_too_few(d);
    share_descriptors(d);
}

size_t
listeners_live(struct conns *cs)
{
    return conns_listener(cs, LISTENER_COUNTER)->open +
           conns_listener(cs, LISTENER_SEMAPHORE)->open;
}

bool
listeners_only_http(struct conns *cs)
{
    for (size_t i = 0; i < LISTENERS; i++)
        if (i != LISTENER_HTTP && conns_listener(cs, i)->open > 0)
            return false;
    return true;
}
