/* reader/graphite/graphite.h - what Grafana's data source for Graphite asks, at
 * the HTTP port of countd-read.
 *
 *     /render             points                         render.h
 *     /metrics/find       nodes below a path
 *     /metrics/expand     paths
 *     /functions          the functions there are        functions.h
 *     /version, /events/get_data, /tags, and what is below it
 *
 * Parameters are in the URL or in the form of a POST.  One request is answered
 * at a time, in steps between turns of the loop; others wait in line.
 *
 * Ownership: the caller's between graphite_open() and graphite_close(); loop,
 * store and as_of are borrowed.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_GRAPHITE_H
#define COUNTD_READER_GRAPHITE_GRAPHITE_H

#include <zlib.h>

#include "common/base/hash.h"
#include "common/setup/config.h"
#include "reader/as_of.h"
#include "reader/graphite/render.h"

/* Bytes of the longest answer: a million points of ten digits take 24 MB. */
#define GRAPHITE_ANSWER_MAX ((size_t)32 << 20)
#define GRAPHITE_MEMORY_MAX ((size_t)256 << 20) /* of a request */

/* An answer of more bytes goes in pieces, of as many connections at a time. */
#define GRAPHITE_STREAM_MIN ((size_t)512 << 10)
#define GRAPHITE_STREAMS    8

enum graphite_kind { GRAPHITE_RENDER, GRAPHITE_FIND, GRAPHITE_EXPAND };

enum graphite_state {
    GRAPHITE_NONE,
    GRAPHITE_RUNS,
    GRAPHITE_PACKS, /* the answer is there, and packed for who takes that */
    GRAPHITE_DONE
};

/* A long answer that goes in pieces, after its job is over. */
struct graphite_stream {
    const struct conn *conn; /* NULL: free */
    struct scratch scratch;
    const struct chunk *at;
    size_t done; /* bytes of it */
};

struct graphite {
    struct loop *loop;
    struct store *store;
    struct as_of *as_of;
    struct store_listing *listing;
    struct hash_key hash_key;
    size_t max_nodes;
    struct render_limits limits;

    struct http_line line;  /* for the job to be free */
    struct http_line owner; /* who gets the job's answer */
    enum graphite_state state;
    enum graphite_kind kind;
    uint64_t request;     /* request_hash() of the one that the job is for */
    uint64_t max_time_ms; /* read.max_time */
    uint64_t began_ms;    /* monotonic: when the job began */
    uint64_t done_ms;     /* monotonic: when it was done */
    struct target_text from, until, tz, query; /* as they are given */
    struct zone zone;
    bool is_completer, only_leaves;
    struct pattern pattern;  /* of find and expand */
    int64_t as_of_ms;        /* the least of all keyspaces; INT64_MAX: none */
    enum http_status status; /* of the answer */
    const char *why;         /* of one that is not HTTP_OK */
    struct scratch scratch;
    struct scratch answers; /* its part of the memory, for `answer` */
    struct chunks answer;
    bool takes_gzip;       /* of the request */
    bool is_packed;        /* `packed` is the answer */
    struct chunks packed;  /* in `answers`, too */
    struct chunk *pack_at; /* the next one; NULL: all are packed */
    z_stream deflate;
    bool can_deflate;
    struct graphite_stream streams[GRAPHITE_STREAMS];
    struct path_search search;
    struct render render;
    char value[TARGET_SIZE_MAX + 1]; /* of a parameter */
    char more[160];                  /* headers */
};

/* Adds the routes to a site.  -ENOMEM. */
int graphite_open(struct graphite *g, struct http_site *site, struct loop *loop,
                  struct store *store, struct as_of *as_of,
                  const struct config *config);
void graphite_close(struct graphite *g);

/* At the end of each turn of the loop.  True: do not wait before the next. */
bool graphite_end_turn(struct graphite *g);

/* ---- for graphite.c (graphite_params.c) -----------------------------------
 */

/* Reads the parameters of one text into the job.  Below 0: render.status and
 * render.why refuse them. */
int graphite_read_parameters(struct graphite *g, struct http_text text);

/* Refuses parameters that do not go together, or lack one. */
int graphite_check_parameters(struct graphite *g);

/* ---- for graphite.c (graphite_lookup.c) --------------------------------- */

/* Begins to look up g->pattern; goes on, as render_step() does, and writes
 * g->answer at the end. */
void graphite_lookup_start(struct graphite *g);
int graphite_lookup_step(struct graphite *g, uint64_t until_ns);

#endif
