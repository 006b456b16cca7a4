/* writer/listeners.c - see listeners.h: listeners_live(),
 * listeners_only_http(). */
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

static void
fill_ingest(struct listener_config *row, const char *listen,
            const struct config *c, struct ingest *ingest)
{
    row->listen = listen;
    row->enable_key = row->listen_key;
    row->allow = c->write_allow;
    row->allow_key = "write.allow";
    row->max_key = "write.max_connections";
    row->ctx = ingest;
    row->max = connections_wanted(c->write_max_connections);
    row->yield_s = LISTENERS_YIELD_S;
    row->request_s = (uint32_t)c->request_timeout_s;
    row->request_key = "request_timeout";
}

static void
fill_live(struct listeners *d, const struct config *c, enum live_kind kind,
          struct live_server *server)
{
    struct listener_config *row =
        &d->rows[kind == LIVE_COUNTER ? LISTENER_COUNTER : LISTENER_SEMAPHORE];
    const struct live_service_settings s = live_service_settings(c, kind);

    if (s.port == CONFIG_PORT_SOCKET)
        (void)snprintf(d->live_listen[kind], sizeof d->live_listen[kind],
                       LISTENER_NO_PORT);
    else
        (void)snprintf(d->live_listen[kind], sizeof d->live_listen[kind],
                       "%s:%u", c->live_address, (unsigned)s.port);
    *row = (struct listener_config){
        .name = s.name,
        .socket = kind == LIVE_COUNTER ? LOCAL_COUNTER : LOCAL_SEMAPHORE,
        .listen = s.enable ? d->live_listen[kind] : NULL,
        .listen_key = s.port_key,
        .allow = c->live_allow,
        .allow_key = "live.allow",
        .enable_key = s.enable_key,
        .max_key = s.max_key,
        .protocol = &live_protocol,
        .ctx = server,
        .max = connections_wanted(s.max_connections),
        .keep_alive_s = LIVE_KEEP_ALIVE_S,
        .request_s = (uint32_t)c->request_timeout_s,
        .request_key = "request_timeout",
        .close_over = s.max_connections > 0};
}

static void
fill_http(struct listener_config *row, const struct config *c,
          struct http_site *site)
{
    *row = (struct listener_config){
        .name = "http",
        .socket = LOCAL_HTTP,
        .listen = http_is_on(c) ? c->http_listen : NULL,
        .listen_key = "http.listen",
        .allow = c->http_allow,
        .allow_key = "http.allow",
        .enable_key = "http.listen",
        .max_key = "http.max_connections",
        .protocol = &http_protocol,
        .ctx = site,
        .max = connections_wanted(c->http_max_connections),
        .idle_s = HTTP_IDLE_S,
        .request_s = HTTP_IDLE_S,
        .yield_s = HTTP_YIELD_S};
}

static void
fill_lines(struct listeners *d, const struct config *c, struct statsd *statsd)
{
    d->rows[LISTENER_STATSD] =
        (struct listener_config){.name = "statsd-tcp",
                                 .listen = c->statsd_tcp_listen,
                                 .listen_key = "statsd.tcp_listen",
                                 .allow = c->statsd_allow,
                                 .allow_key = "statsd.allow",
                                 .ctx = &statsd->ports[STATSD_LINE_PROTOCOL]};
    d->rows[LISTENER_GRAPHITE] =
        (struct listener_config){.name = "graphite",
                                 .socket = LOCAL_GRAPHITE,
                                 .listen = c->graphite_listen,
                                 .listen_key = "graphite.listen",
                                 .allow = c->graphite_allow,
                                 .allow_key = "graphite.allow",
                                 .ctx = &statsd->ports[GRAPHITE_LINE_PROTOCOL]};
    for (size_t i = LISTENER_STATSD; i <= LISTENER_GRAPHITE; i++) {
        d->rows[i].enable_key = d->rows[i].listen_key;
        d->rows[i].max_key = "write.max_connections";
        d->rows[i].protocol = &statsd_lines;
        d->rows[i].max = connections_wanted(c->write_max_connections);
        d->rows[i].yield_s = LISTENERS_YIELD_S;
        d->rows[i].request_s = (uint32_t)c->request_timeout_s;
        d->rows[i].request_key = "request_timeout";
    }
}

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
    uint64_t want = 0;

    *d = (struct listeners){
        .rows = {[LISTENER_ACK] = {.name = "ack",
                                   .socket = LOCAL_ACK,
                                   .listen_key = "write.ack_listen",
                                   .protocol = &ingest_ack},
                 [LISTENER_SILENT] = {.name = "silent",
                                      .socket = LOCAL_COUNT,
                                      .listen_key = "write.listen",
                                      .protocol = &ingest_silent}}};
    fill_ingest(&d->rows[LISTENER_ACK], c->write_ack_listen, c, ingest);
    fill_ingest(&d->rows[LISTENER_SILENT], c->write_listen, c, ingest);
    for (int kind = 0; kind < LIVE_SERVICE_KINDS; kind++)
        fill_live(d, c, (enum live_kind)kind, &lives->servers[kind]);
    fill_http(&d->rows[LISTENER_HTTP], c, site);
    fill_lines(d, c, statsd);
    for (size_t i = 0; i < LISTENERS; i++)
        if (d->rows[i].listen && d->rows[i].listen[0] != '\0')
            want += d->rows[i].max;
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
