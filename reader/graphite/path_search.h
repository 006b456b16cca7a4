/* reader/graphite/path_search.h - which paths there are that match a pattern.
 *
 * A keyspace can match where its nodes match the first nodes of the pattern;
 * only such keyspaces are read, and their names are listed only if the pattern
 * does not give them.  Keys are read in key order, those that begin as the
 * pattern does; all keys below a node that does not match cost one search.
 *
 * A search proceeds in steps, each of its own snapshot.
 *
 * Ownership: the caller's; what is found are pieces of the scratch.  The
 * listing is borrowed, and used by one search at a time.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_PATH_SEARCH_H
#define COUNTD_READER_GRAPHITE_PATH_SEARCH_H

#include "common/store/store.h"
#include "common/wire/query.h"
#include "reader/graphite/pattern.h"

#define PATH_SEARCH_ROWS 32 /* keys read at a time */
#define PATH_SEARCH_ROWS_SIZE                                                  \
    (PATH_SEARCH_ROWS * (STORE_NAME_MAX + QUERY_ROW_SIZE))

/* A node of the last level of the pattern. */
struct path_found {
    struct target_text path;
    bool is_leaf; /* a key; else keys are below it */
    const uint8_t *keyspace, *key;
    uint16_t keyspace_size, key_size;
    struct path_found *next;
    struct path_found *next_run; /* of the first one of a run */
};

/* Returns one as the given one is, with its path; NULL: no memory. */
struct path_found *path_found_new(struct scratch *scratch,
                                  const struct path_found *like);

/* A name and what is known of it. */
struct path_name {
    uint8_t bytes[STORE_NAME_MAX];
    size_t size;
};

enum path_search_phase {
    PATH_SEARCH_GIVEN,
    PATH_SEARCH_LISTED,
    PATH_SEARCH_SORT
};

/* Keys and what has keys below it; keys alone; or, for a pattern that
 * path_search_is_prefix(), for each keyspace with keys that match what these begin
 * with, as if that were a key. */
enum path_search_wanted {
    PATH_SEARCH_NODES,
    PATH_SEARCH_LEAVES,
    PATH_SEARCH_STARTS
};

/* The first members are the caller's. */
struct path_search {
    struct store *store;
    struct store_listing *listing;
    struct scratch *scratch;
    /* Called before anything of a keyspace is read. */
    void (*entered)(void *ctx, const uint8_t *keyspace, size_t size);
    void *ctx;

    const struct pattern *pattern;
    enum path_search_wanted wanted;
    size_t max; /* nodes there may be */
    size_t count;
    struct path_found *found; /* at the end */

    enum path_search_phase phase;
    unsigned given;            /* nodes of the keyspace that is next */
    bool is_in_keyspace;       /* keys of `keyspace` are left to be read */
    struct path_name keyspace; /* also the one that cannot be read; of size 0:
                                  they cannot be listed */
    unsigned keyspace_nodes;
    struct path_name start; /* what names or keys must begin with */
    struct path_name after; /* keys up to this one are done with */

    /* Runs are sorted, and in the order in which they were made. */
    struct path_found *runs, **runs_end;
    struct path_found *newest;       /* the end of the last run */
    struct path_found *left, *right; /* two runs that are merged */
    struct path_found *merged, **merged_end;
    uint8_t rows[PATH_SEARCH_ROWS_SIZE];
};

/* Whether keys match that begin with a name and go on with one node: the last
 * byte is `*`, and there is no other wildcard. */
bool path_search_is_prefix(const struct pattern *p);

void path_search_start(struct path_search *s, const struct pattern *p,
                       enum path_search_wanted wanted, size_t max);

/* Goes on until about until_ns (clock_ns()).  What the store keeps goes with
 * the next store_read_end().
 *   1        it is done: `found` is sorted, a leaf before the node of its name
 *            that has keys below it; what several keyspaces have may be there
 *            several times
 *   0        there is more to do
 *   -E2BIG   more than `max`
 *   -ENOMEM  the scratch is used up
 *   other    the keyspace cannot be read, or keyspaces cannot be listed */
int path_search_step(struct path_search *s, uint64_t until_ns);

#endif
