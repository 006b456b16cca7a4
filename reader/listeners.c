/* reader/listeners.c - see listeners.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/listeners.h"

#include "common/base/diag.h"
#include "common/base/files.h"

#define FILES_MIN 256 /* fewer are refused */
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
    const struct {
        const struct protocol *protocol;
        void *ctx;
    } serve[READER_LISTENERS] = {
        [LISTENER_RANGE] = {&range_protocol, range},
        [LISTENER_RESP] = {&resp_protocol, resp},
        [LISTENER_READ_HTTP] = {&http_protocol, &http->site}};
    const int rc = limit_files(l, c);

    for (size_t i = 0; i < READER_LISTENERS; i++) {
        struct listener_config *row = &l->rows[i];

        *row = ports_listener(c, (enum port)(PORT_READ + i), NULL);
        row->protocol = serve[i].protocol;
        row->ctx = serve[i].ctx;
        row->max = l->shared;
        /* The commands ask at the socket. */
        if (i == LISTENER_READ_HTTP && row->listen[0] == '\0')
            row->listen = LISTENER_NO_PORT;
        if (reader_listeners_is_on(row))
            row->reserved = l->shared / 2 / READER_LISTENERS < RESERVED
                                ? l->shared / 2 / READER_LISTENERS
                                : RESERVED;
    }
    return rc;
}

bool
reader_listeners_is_on(const struct listener_config *row)
{
    return row->listen[0] != '\0';
}
