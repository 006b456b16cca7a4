/* common/setup/ports.c - see ports.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/ports.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/net/http.h"
#include "common/net/local.h"

/* A name, a socket, and keys of settings. */
static const struct {
    const char *name, *socket, *listen, *allow, *max;
} rows[PORTS] = {
    [PORT_COUNTER] = {"counter", LOCAL_COUNTER, "counter.port", "live.allow",
                      "counter.max_connections"},
    [PORT_SEMAPHORE] = {"semaphore", LOCAL_SEMAPHORE, "semaphore.port",
                        "live.allow", "semaphore.max_connections"},
    [PORT_HTTP] = {"http", LOCAL_HTTP, "http.listen", "http.allow",
                   "http.max_connections"},
    [PORT_ACK] = {"ack", LOCAL_ACK, "write.ack_listen", "write.allow",
                  "write.max_connections"},
    [PORT_SILENT] = {"silent", LOCAL_COUNT, "write.listen", "write.allow",
                     "write.max_connections"},
    [PORT_STATSD] = {"statsd-tcp", NULL, "statsd.tcp_listen", "statsd.allow",
                     "write.max_connections"},
    [PORT_GRAPHITE] = {"graphite", LOCAL_GRAPHITE, "graphite.listen",
                       "graphite.allow", "write.max_connections"},
    [PORT_READ] = {"read", LOCAL_READ, "read.listen", "read.allow",
                   "read.max_connections"},
    [PORT_RESP] = {"resp", LOCAL_RESP, "resp.listen", "resp.allow",
                   "read.max_connections"},
    [PORT_READ_HTTP] = {"read-http", LOCAL_READ_HTTP, "read.http", "read.allow",
                        "read.max_connections"},
    [PORT_DATAGRAMS] = {"statsd", NULL, "statsd.listen", "statsd.allow",
                        "write.max_connections"}};

/* Where a port of the live names listens. */
static const char *
live_address(const struct config *c, bool enable, uint64_t port,
             char text[PORTS_TEXT_SIZE])
{
    if (!enable)
        return "";
    if (port == CONFIG_PORT_SOCKET)
        return LISTENER_NO_PORT;
    (void)snprintf(text, PORTS_TEXT_SIZE, "%s:%" PRIu64, c->live_address, port);
    return text;
}

struct listener_config
ports_listener(const struct config *c, enum port port,
               char text[PORTS_TEXT_SIZE])
{
    const bool is_http = port == PORT_HTTP || port == PORT_READ_HTTP;
    const bool is_live = port == PORT_COUNTER || port == PORT_SEMAPHORE;
    const uint64_t *max = config_at(c, rows[port].max);
    struct listener_config out = {
        .name = rows[port].name,
        .socket = rows[port].socket,
        .listen_key = rows[port].listen,
        .allow = config_at(c, rows[port].allow),
        .allow_key = rows[port].allow,
        .enable_key = rows[port].listen,
        .max_key = rows[port].max,
        .max = *max,
        .idle_s = is_http ? HTTP_IDLE_S : 0,
        .request_s = is_http ? HTTP_IDLE_S : (uint32_t)c->request_timeout_s,
        .request_key = is_http ? NULL : "request_timeout",
        .yield_s = is_http   ? HTTP_YIELD_S
                   : is_live ? 0
                             : PORTS_YIELD_S};

    if (port == PORT_COUNTER) {
        out.enable_key = "counter.enable";
        out.listen = live_address(c, c->counter_enable, c->counter_port, text);
    } else if (port == PORT_SEMAPHORE) {
        out.enable_key = "semaphore.enable";
        out.listen =
            live_address(c, c->semaphore_enable, c->semaphore_port, text);
    } else if (port == PORT_HTTP && !config_has_http(c)) {
        out.listen = "";
    } else {
        out.listen = config_at(c, rows[port].listen);
    }
    return out;
}
