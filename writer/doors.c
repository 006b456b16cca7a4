/* writer/doors.c - see doors.h. */
#include "writer/doors.h"

#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/base/files.h"
#include "writer/http.h"

static size_t
wanted(uint64_t setting)
{
    return setting > 0 && setting < DOORS_MOST ? (size_t)setting : DOORS_MOST;
}

/* Descriptors for connections. */
static size_t
connections_left(uint64_t want, const struct config *c)
{
    const uint64_t kept = DOORS_FILES + (c->quota_enable ? c->quota_max : 0);
    uint64_t limit;

    /* What cannot be raised is told below, and accepting pauses all the same.
     */
    (void)files_raise(want + kept, 0);
    limit = files_limit();
    return (size_t)(limit > 2 * kept ? limit - kept : limit / 2);
}

static void
fill_ingest(struct door_row *row, const char *listen, const struct config *c,
            struct ingest *ingest)
{
    row->listen = listen;
    row->enable_key = row->listen_key;
    row->max_key = "write.max_connections";
    row->ctx = ingest;
    row->max = wanted(c->write_max_connections);
    row->yield_s = DOORS_YIELD_S;
}

static void
fill_live(struct doors *d, const struct config *c, enum live_kind kind,
          struct live_server *server)
{
    struct door_row *row =
        &d->rows[kind == LIVE_COUNTER ? DOOR_COUNTER : DOOR_SEMAPHORE];
    const struct lives_settings s = lives_settings(c, kind);

    (void)snprintf(d->live_listen[kind], sizeof d->live_listen[kind], "%s:%u",
                   c->live_address, (unsigned)s.port); /* fits */
    *row = (struct door_row){.name = s.name,
                             .listen = s.enable ? d->live_listen[kind] : NULL,
                             .listen_key = s.port_key,
                             .enable_key = s.enable_key,
                             .max_key = s.max_key,
                             .protocol = &live_protocol,
                             .ctx = server,
                             .max = wanted(s.max_connections),
                             .keep_alive_s = LIVE_KEEP_ALIVE_S,
                             .close_over = s.max_connections > 0};
}

static void
fill_http(struct door_row *row, const struct config *c, struct http_site *site)
{
    *row = (struct door_row){
        .name = "http",
        .listen = http_is_on(c) ? c->http_listen : NULL,
        .listen_key = "http.listen",
        .enable_key = c->sequence_enable ? "sequence.enable" : "quota.enable",
        .max_key = "http.max_connections",
        .protocol = &http_protocol,
        .ctx = site,
        .max = wanted(c->http_max_connections),
        .idle_s = HTTP_IDLE_S,
        .yield_s = HTTP_YIELD_S};
}

/* The limit of open files allows less than a setting says. */
static void
say_too_few(const struct doors *d)
{
    const char *said = "";

    for (size_t i = 0; i < DOORS; i++) {
        const struct door_row *row = &d->rows[i];

        if (row->max <= d->shared || row->max == DOORS_MOST ||
            strcmp(said, row->max_key) == 0)
            continue;
        said = row->max_key; /* both doors of increments have the same */
        diag(DIAG_WARNING,
             "only %zu connections for %s=%zu: the limit of open files is "
             "%llu; raise it (ulimit -n, LimitNOFILE=)",
             d->shared, row->max_key, row->max,
             (unsigned long long)files_limit());
    }
}

/* No door has more than there are descriptors, and each is sure of a part. */
static void
share(struct doors *d)
{
    for (size_t i = 0; i < DOORS; i++) {
        struct door_row *row = &d->rows[i];
        size_t part = d->shared / 2 / DOORS;

        if (row->max > d->shared)
            row->max = d->shared;
        if (part > DOORS_RESERVED)
            part = DOORS_RESERVED;
        row->reserved = row->listen && row->listen[0] != '\0'
                            ? (part < row->max ? part : row->max)
                            : 0;
    }
}

void
doors_init(struct doors *d, const struct config *c, struct ingest *ingest,
           struct lives *lives, struct http_site *site)
{
    uint64_t want = 0;

    *d = (struct doors){.rows = {[DOOR_ACK] = {.name = "ack",
                                               .listen_key = "write.ack_listen",
                                               .protocol = &ingest_ack},
                                 [DOOR_SILENT] = {.name = "silent",
                                                  .listen_key = "write.listen",
                                                  .protocol = &ingest_silent}}};
    fill_ingest(&d->rows[DOOR_ACK], c->write_ack_listen, c, ingest);
    fill_ingest(&d->rows[DOOR_SILENT], c->write_listen, c, ingest);
    for (int kind = 0; kind < LIVES_KINDS; kind++)
        fill_live(d, c, (enum live_kind)kind, &lives->servers[kind]);
    fill_http(&d->rows[DOOR_HTTP], c, site);
    for (size_t i = 0; i < DOORS; i++)
        if (d->rows[i].listen && d->rows[i].listen[0] != '\0')
            want += d->rows[i].max;
    d->shared = connections_left(want, c);
    say_too_few(d);
    share(d);
}

size_t
doors_live(struct conns *cs)
{
    return conns_door(cs, DOOR_COUNTER)->open +
           conns_door(cs, DOOR_SEMAPHORE)->open;
}

bool
doors_only_http(struct conns *cs)
{
    return doors_live(cs) == 0 && conns_door(cs, DOOR_ACK)->open == 0 &&
           conns_door(cs, DOOR_SILENT)->open == 0;
}
