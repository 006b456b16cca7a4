/* reader/graphite/render.h - a request for points: what it needs, step by step.
 *
 *     search    the paths that match           path_search.h
 *     grid      the step of the points         render_grid.c
 *     top       the keys of topKeys
 *     read      the points, at that step
 *     compute   the functions                  functions.h
 *     write     the answer
 *
 * A point is the sum of the increments of its step, read at that step: nothing
 * is consolidated afterwards, so sums are exact.  The step is the finest of
 * the history that reaches back to the first point, or a multiple of it with
 * which there are at most max_data_points.
 *
 * Everything proceeds in steps between turns of the loop, each of its own
 * snapshot.
 *
 * Ownership: the caller's; all memory is of the scratch.  The store is
 * borrowed.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_RENDER_H
#define COUNTD_READER_GRAPHITE_RENDER_H

#include "common/net/http.h"
#include "reader/chunks.h"
#include "reader/graphite/functions.h"
#include "reader/graphite/path_search.h"
#include "reader/graphite/zone.h"

struct render_limits {
    size_t max_series, max_points;
    size_t max_bytes; /* bytes of the answer */
};

/* Points at multiples of a step, from < t <= until; at least one. */
struct render_grid {
    const struct target_node *root; /* of a target */
    int64_t interval; /* seconds that the step must divide; 0: any step */
    int64_t shift;    /* the longest one of its leaves */
    int64_t step, first, last;
    size_t count;
    struct render_grid *next; /* of any target */
};

/* The points of a leaf that are read: those of its grid, moved by whole steps,
 * and some before for what looks back. */
struct render_span {
    int64_t first; /* time of the first one */
    int64_t shift; /* seconds until it is shown */
    size_t count;  /* points */
};

/* A path of a target, or topKeys. */
struct render_leaf {
    struct series_list list;  /* first: what was read */
    struct target_node *node; /* PATH, or CALL of topKeys */
    int64_t shift;            /* how long ago it is read, seconds */
    bool is_sum;              /* its series are read as their sum */
    struct pattern pattern;
    struct path_found *found; /* sorted by path */
    size_t count;             /* paths in it */
    struct render_grid *grid;
    struct render_span span;  /* once the step of the grid is chosen */
    struct render_leaf *next; /* of any target */
};

/* How the step of a grid is found. */
struct render_choice {
    bool is_free;             /* the interval need not be divided any more */
    unsigned candidate;       /* number of the step tried */
    struct render_leaf *leaf; /* leaf whose keyspace is looked at next */
    struct path_found *at;
    bool has_begun, is_bad;
    bool is_asking; /* `at` is looked at again */
    uint32_t since; /* the latest of all keyspaces, minutes */
    int64_t best;   /* minutes; 0: none yet */
    uint32_t best_since;
    bool is_best_enough; /* `best` reaches back far enough */
};

enum render_format { RENDER_JSON, RENDER_RAW, RENDER_CSV };

struct render {
    struct store *store;
    struct scratch *scratch;
    struct path_search *search;
    struct render_limits limits;
    int64_t now;
    struct function_times times;
    int64_t max_data_points; /* 0: any number */
    enum render_format format;
    const struct zone *zone; /* of the times in CSV */
    struct chunks *answer;

    size_t target_count;
    struct render_leaf *leaves, **leaves_end;
    struct render_grid *grids;
    struct target_node *nodes, **nodes_end; /* in the order of evaluation */

    unsigned phase;
    size_t series;            /* found so far */
    struct render_leaf *leaf; /* where the phase is; NULL: at its end */
    struct render_grid *grid;
    struct target_node *node;
    struct render_choice choice;
    bool has_begun; /* the search, or the query */
    bool gives_way; /* the store goes on in the next step */
    struct path_found *found;
    size_t read; /* points of the series that is read */
    struct store_history_query query;
    size_t written; /* series of the target, and points of the series */
    size_t points;
    char *csv_name;  /* of the series that is written */
    size_t csv_size; /* bytes of it as a field, at most; 0 in other formats */

    enum http_status status; /* of a failure, else HTTP_OK */
    char why[TARGET_WHY_SIZE];

    /* Of the query: large, and need not be zero when it begins. */
    struct store_bucket buckets[STORE_BUCKETS_MAX];
    struct store_top top[FUNCTIONS_TOP_MAX];
};

/* Begins a request without targets: the members before target_count are set. */
void render_start(struct render *r);

/* Adds a target of `size` bytes, and checks it.  Below 0: `status` and `why` say
 * what is wrong. */
int render_add_target(struct render *r, const char *text, size_t size);

/* Goes on until about until_ns (clock_ns()).  What the store keeps goes with
 * the next store_read_end().  1: the answer is made; 0: there is more to do;
 * below 0: `status` and `why` say why there is none. */
int render_step(struct render *r, uint64_t until_ns);

/* The media type of the answer. */
const char *render_type(const struct render *r);

/* ---- for the parts of render.c ------------------------------------------ */

/* Returns -1 after setting `status` and `why`. */
int render_fail(struct render *r, enum http_status status, const char *format,
                ...) __attribute__((format(printf, 3, 4)));

/* The same for a keyspace that cannot be read (of size 0: the list of them), for
 * memory, and for a search, of at most `max` series or nodes. */
int render_fail_keyspace(struct render *r, const uint8_t *name, size_t size,
                         int error);
int render_fail_memory(struct render *r);
int render_fail_search(struct render *r, int error, const char *what,
                       size_t max);

/* Chooses the step of r->grid, looking at one keyspace.  1: it is chosen; 0:
 * there is more to do; below 0: as render_step(). */
int render_grid_step(struct render *r, uint64_t until_ns);

/* Reads more of the series of r->leaf; as render_grid_step(). */
int render_read_step(struct render *r, uint64_t until_ns);

/* Sets the span of r->leaf, and finds its keys if it is topKeys; as
 * render_grid_step(). */
int render_top_step(struct render *r, uint64_t until_ns);

/* Writes more of the answer; as render_grid_step(). */
int render_write_step(struct render *r, uint64_t until_ns);

#endif
