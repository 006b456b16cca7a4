/* writer/http_service.h - what countd-write serves at its HTTP listener: the
 * modules that the settings turn on, each with a table of routes.
 *
 * Ownership: the caller's, between open and close.  The loop's thread.
 * Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_HTTP_SERVICE_H
#define COUNTD_WRITER_HTTP_SERVICE_H

#include "common/net/http.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "writer/count.h"
#include "writer/sequence.h"

#define HTTP_OUT_SIZE ((size_t)128 * 1024) /* the largest answer */

struct http_service {
    struct http_site site;
    struct count count;
    struct sequence sequence;
    bool sequence_on;
    bool stopping; /* the writer's to set: it stops, and is not ready */
};

/* Opens what is turned on, and adds its routes to the site.  -ENOMEM, or what
 * the disk says. */
int http_service_open(struct http_service *h, struct loop *loop,
                      struct datadir *dir, const struct config *config,
                      struct ingest *ingest);

/* All connections of the listener have ended before. */
void http_service_close(struct http_service *h);

#endif
