/* writer/writer.h - countd-write: its parts, which main.c opens and closes.
 *
 * Ownership: main()'s.  The loop's thread, but for what its parts say. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_WRITER_H
#define COUNTD_WRITER_WRITER_H

#include "common/net/bind.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "writer/commit.h"
#include "writer/http_service.h"
#include "writer/ingest.h"
#include "writer/listeners.h"
#include "writer/live/live_server.h"
#include "writer/logs.h"
#include "writer/quota/quota_service.h"
#include "writer/statsd/statsd.h"
#include "writer/writer_status.h"

struct writer {
    struct config config;
    struct config_command command;
    struct datadir dir;
    int lock_fd;
    struct local_folder sockets;
    struct binding binding;
    struct loop *loop;
    struct logs logs;
    struct commit commit; /* of the logs */
    struct ingest ingest;
    struct live_service lives;
    struct http_service http;
    struct tokens *tokens; /* NULL: no client needs one */
    struct quota_service quota;
    struct statsd statsd;
    struct listeners listeners;
    struct conns *conns;
    struct writer_status status;
    int stop_signal; /* 0: none */
    bool failed;
};

#endif
