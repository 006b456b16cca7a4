/* writer/listeners.c - see listeners.h: listeners_init(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/listeners.h"

#include <string.h>

#include "common/base/diag.h"
#include "common/base/files.h"
#include "writer/writer.h"

/* Descriptors for connections. */
static size_t
connections_left(uint64_t want)
{
    const uint64_t kept = LISTENERS_FILES;
    uint64_t limit;

    /* A limit that cannot be raised is reported below, and accepting pauses. */
    (void)files_raise(want + kept, 0);
    limit = files_limit();
    return (size_t)(limit > 2 * kept ? limit - kept : limit / 2);
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
        /* Both listeners of increments have the same. */
        reported_key = row->max_key;
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
        if (row->listen[0] != '\0')
            row->reserved = part < row->max ? part : row->max;
    }
}

void
listeners_init(struct writer *w)
{
    struct listeners *d = &w->listeners;
    const struct {
        const struct protocol *protocol;
        void *ctx;
    } serve[LISTENERS] = {
        [LISTENER_COUNTER] = {&live_protocol, &w->lives.servers[LIVE_COUNTER]},
        [LISTENER_SEMAPHORE] = {&live_protocol,
                                &w->lives.servers[LIVE_SEMAPHORE]},
        [LISTENER_HTTP] = {&http_protocol, &w->http.site},
        [LISTENER_ACK] = {&ingest_ack, &w->ingest},
        [LISTENER_SILENT] = {&ingest_silent, &w->ingest},
        [LISTENER_STATSD] = {&statsd_lines,
                             &w->statsd.ports[STATSD_LINE_PROTOCOL]},
        [LISTENER_GRAPHITE] = {&statsd_lines,
                               &w->statsd.ports[GRAPHITE_LINE_PROTOCOL]}};
    uint64_t want = 0;

    for (size_t i = 0; i < LISTENERS; i++) {
        struct listener_config *row = &d->rows[i];

        *row = ports_listener(&w->config, (enum port)i, d->texts[i]);
        row->protocol = serve[i].protocol;
        row->ctx = serve[i].ctx;
        if (row->protocol == &live_protocol) {
            row->close_over = row->max > 0;
            row->keep_alive_s = LIVE_KEEP_ALIVE_S;
        }
        if (row->max == 0 || row->max > LISTENERS_MOST)
            row->max = LISTENERS_MOST;
        want += row->listen[0] != '\0' ? row->max : 0;
    }
    d->shared = connections_left(want);
    report_too_few(d);
    share_descriptors(d);
}
