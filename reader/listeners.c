/* reader/listeners.c - see listeners.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/listeners.h"

#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/net/local.h"

#define FILES_MIN 256 /* fewer are refused */
#define YIELD_S   60  /* idle so long, a connection makes way for another */
#define RESERVED  256 /* connections that each listener is sure of, at most */

/* Connections: as many as the settings allow, or fewer where the limit of
 * descriptors stays too low. */
static int
limit_files(struct reader_listeners *l, const struct config *c)
{
    int rc;

    l->shared = c->read_max_connections;
    rc = files_raise(l->shared, FILES_MIN);
    if (rc < 0 || l->shared <= files_left())
        return rc;
    l->shared = files_left();
    diag(DIAG_WARNING, "connections limited to %zu by descriptors=%llu",
         l->shared, (unsigned long long)files_limit());
    return 0;
}

int
reader_listeners_init(struct reader_listeners *l, const struct config *c,
                      struct range *range, struct resp_service *resp,
                      struct read_http *http)
{
    int rc;

    *l = (struct reader_listeners){
        .rows = {[LISTENER_RANGE] = {.name = "read",
                                     .socket = LOCAL_READ,
                                     .listen = c->read_listen,
                                     .listen_key = "read.listen",
                                     .allow = c->read_allow,
                                     .allow_key = "read.allow",
                                     .protocol = &range_protocol,
                                     .ctx = range},
                 [LISTENER_RESP] = {.name = "resp",
                                    .socket = LOCAL_RESP,
                                    .listen = c->resp_listen,
                                    .listen_key = "resp.listen",
                                    .allow = c->resp_allow,
                                    .allow_key = "resp.allow",
                                    .protocol = &resp_protocol,
                                    .ctx = resp},
                 [LISTENER_READ_HTTP] = {.name = "read-http",
                                         .socket = LOCAL_READ_HTTP,
                                         /* The commands ask at the socket. */
                                         .listen = c->read_http[0] != '\0'
                                                       ? c->read_http
                                                       : LISTENER_NO_PORT,
                                         .listen_key = "read.http",
                                         .allow = c->read_allow,
                                         .allow_key = "read.allow",
                                         .protocol = &http_protocol,
                                         .ctx = &http->site}}};
    rc = limit_files(l, c);
    for (size_t i = 0; i < READER_LISTENERS; i++) {
        struct listener_config *row = &l->rows[i];

        row->enable_key = row->listen_key;
        row->max_key = "read.max_connections";
        row->max = l->shared;
        if (reader_listener_is_on(row)) {
            row->reserved = l->shared / 2 / READER_LISTENERS;
            if (row->reserved > RESERVED)
                row->reserved = RESERVED;
        }
        row->request_s = (uint32_t)c->request_timeout_s;
        row->request_key = "request_timeout";
        row->yield_s = YIELD_S;
    }
    l->rows[LISTENER_READ_HTTP].idle_s = HTTP_IDLE_S;
    l->rows[LISTENER_READ_HTTP].request_s = HTTP_IDLE_S;
    l->rows[LISTENER_READ_HTTP].request_key = NULL;
    l->rows[LISTENER_READ_HTTP].yield_s = HTTP_YIELD_S;
    return rc;
}

bool
reader_listener_is_on(const struct listener_config *row)
{
    return row->listen[0] != '\0';
}

bool
reader_listeners_are_on(const struct reader_listeners *l)
{
    for (size_t i = 0; i < READER_LISTENERS; i++)
        if (reader_listener_is_on(&l->rows[i]))
            return true;
    return false;
}
