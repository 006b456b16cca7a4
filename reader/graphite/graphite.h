/* reader/graphite/graphite.h - what Grafana's data source for Graphite asks, at
 * the HTTP port of countd-read.
 *
 *     /render             points                         render.h
 *     /metrics/find       nodes below a path
 *     /metrics/expand     paths
 *     /functions          the functions there are        functions.h
 *     /version, /events/get_data, /tags, and what is below it
 *
 * Parameters are in the URL or in the form of a POST.  A request that needs the
 * store is a job (reader/jobs.h), which makes the whole answer.  A long one is
 * then sent in pieces, and the job has given its place away.
 *
 * Ownership: the caller's; jobs is borrowed.  A job belongs to its request.  One
 * thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_GRAPHITE_H
#define COUNTD_READER_GRAPHITE_GRAPHITE_H

#include "common/setup/config.h"
#include "reader/graphite/render.h"
#include "reader/jobs.h"

/* Bytes of the longest answer: a million points of ten digits take 24 MB. */
#define GRAPHITE_ANSWER_MAX ((size_t)32 << 20)
#define GRAPHITE_MEMORY_MAX ((size_t)256 << 20) /* of a request, twice */
#define GRAPHITE_MEMORY_ALL ((size_t)512 << 20) /* of all */

/* An answer of more bytes goes in pieces, of as many connections at a time. */
#define GRAPHITE_STREAM_MIN ((size_t)512 << 10)
#define GRAPHITE_STREAMS    8

enum graphite_kind { GRAPHITE_RENDER, GRAPHITE_FIND, GRAPHITE_EXPAND };

struct graphite {
    struct jobs *jobs;
    size_t max_nodes;
    struct render_limits limits;
    struct scratch_share memory;     /* memory of all jobs */
    unsigned streams;                /* answers that are sent in pieces */
    char value[TARGET_SIZE_MAX + 1]; /* value of the parameter that is read */
    char headers[160];               /* header lines of an answer */
};

struct graphite_job {
    struct job job;
    struct graphite *site;

    enum graphite_kind kind; /* from here on zero when it begins, up to
                                render.buckets */
    struct target_text from, until, tz, query; /* as they are given */
    struct zone zone;
    bool is_completer;
    enum path_search_wanted wanted;
    struct pattern pattern; /* pattern of find and expand */
    int64_t as_of_ms;       /* the least of all keyspaces; INT64_MAX: none */
    struct scratch scratch;
    struct scratch answers; /* its part of the memory, for `answer` */
    struct chunks answer;
    bool takes_gzip; /* the client takes gzip */
    struct chunks_packer packer;
    const struct chunk *send_at; /* in pieces; NULL: not so */
    size_t sent;                 /* bytes of it */
    struct path_search search;
    const struct path_found *put_at;   /* of find and expand: the next node */
    const struct path_found *put_last; /* the last one that is shown */
    struct render render;
};

/* Adds the routes to a site. */
void graphite_open(struct graphite *g, struct http_site *site,
                   struct jobs *jobs, const struct config *config);

/* ---- for graphite.c (graphite_params.c) -----------------------------------
 */

/* Reads the parameters of one text into the job.  Below 0: render.status and
 * render.why refuse them. */
int graphite_read_parameters(struct graphite_job *g, struct http_text text);

/* Refuses parameters that do not go together, or lack one. */
int graphite_check_parameters(struct graphite_job *g);

/* ---- for graphite.c (graphite_lookup.c) --------------------------------- */

/* Goes on, as render_step() does, with the search that was begun; writes
 * g->answer when all nodes are found, node by node until its time is up. */
int graphite_lookup_step(struct graphite_job *g, uint64_t until_ns);

#endif
