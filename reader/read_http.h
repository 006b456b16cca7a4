/* reader/read_http.h - the HTTP port of countd-read: GET /v1/COMMAND, health.
 *
 * A path is a subcommand, its parameters are the command's arguments, and its
 * answer is byte for byte what `countd COMMAND --json` prints.  The port
 * changes nothing, ever.  With read.page there is a page for browsers at /.
 *
 * What looks at all keyspaces or at history is a job (read_job.h), and so is an
 * answer that is packed, unless the job would have to wait: then it goes
 * as it is.
 *
 * Ownership: the caller's between read_http_open() and read_http_close(); jobs
 * and the rest are borrowed.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_READ_HTTP_H
#define COUNTD_READER_READ_HTTP_H

#include "common/log/log_table.h"
#include "common/net/http.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/setup/overview.h"
#include "common/store/waiting_table.h"
#include "reader/answer.h"
#include "reader/graphite/graphite.h"
#include "reader/http_params.h"
#include "reader/jobs.h"
#include "reader/page.h"
#include "reader/read_link.h"
#include "reader/user_metrics.h"

/* Bytes of the longest answer: rows of the longest names, each byte of which
 * may take five, and their members. */
#define READ_HTTP_TEXT_MAX (QUERY_ROWS_MAX * (size_t)(5 * NAME_MAX_SIZE + 256))
#define READ_HTTP_ANSWER_MAX                                                   \
    (READ_HTTP_TEXT_MAX + HTTP_ANSWER_HEAD + HTTP_HEADERS_MAX)

#define READ_HTTP_WAITERS 1024 /* for a moment, or for a change */
/* Of the longest answer at all. */
#define READ_HTTP_LONGEST                                                      \
    (READ_HTTP_ANSWER_MAX > GRAPHITE_ANSWER_MAX ? READ_HTTP_ANSWER_MAX         \
                                                : GRAPHITE_ANSWER_MAX)

#define READ_COMMANDS     16
#define READ_VERSION_SIZE 96
#define READ_LISTED_MAX   QUERY_ROWS_MAX
#define READ_FILE_SIZE    (NAME_FILE_SIZE + sizeof ".mdb")

struct read_command;
struct read_job;

/* A keyspace of a list. */
struct read_listed {
    struct query_row row; /* its number of keys, below 0: not known */
    int64_t total, size;  /* if it has them */
    bool has_total, has_file;
    int64_t rank; /* what the list is sorted by */
};

/* A request and how far its answer is. */
struct read_request {
    struct read_http *http;
    struct read_job *job; /* of an answer in steps */
    const struct read_command *command;
    struct http_params params;
    int64_t as_of_ms;
    int error; /* of the last query */
    struct table_writer table;
    const char *type;        /* of the answer; NULL: that of its format */
    bool wants_open_metrics; /* of /metrics */
    unsigned phase;          /* of an answer in steps */
    size_t done, count;      /* of a list: rows with totals, and all */
    bool has_state;          /* of the keyspace: */
    struct store_totals state;
    char version[READ_VERSION_SIZE]; /* ETag; "": it has none */
    struct read_page next_page;
};

struct read_http {
    struct http_site site;
    struct http_route commands[READ_COMMANDS];
    struct page page;
    uint64_t unreadable; /* figure: answered with "unreadable" */
    struct jobs *jobs;
    const struct datadir *dir;
    struct read_request now;
    struct waiting_limits held_limits;
    struct graphite graphite;
    struct user_metrics_site users; /* of which counters are in /metrics */
    struct overview overview;       /* read for each status and /metrics */
    uint8_t *binary;                /* answers as the range port gives them */
    uint8_t *text;                  /* answers of HTTP */
    char headers[HTTP_HEADERS_MAX];
    bool is_stopping;
};

/* -ENOMEM */
int read_http_open(struct read_http *h, struct jobs *jobs,
                   const struct datadir *dir, const struct config *config);
void read_http_close(struct read_http *h);

#endif
