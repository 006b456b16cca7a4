/* reader/graphite/path_search.c - see path_search.h.
 *
 * path_search_step() goes over keyspaces: first those that the nodes without
 * wildcards name, then those listed; search_keys() over the keys of one. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/path_search.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "reader/answer.h"

/* ---- names -------------------------------------------------------------- */

/* Appends; what does not fit is left out, as no name can be that long. */
static bool
append_bytes(struct path_name *n, const void *bytes, size_t size)
{
    if (size > STORE_NAME_MAX - n->size)
        return false;
    if (size > 0)
        memcpy(n->bytes + n->size, bytes, size);
    n->size += size;
    return true;
}

/* Appends the nodes from `from` up to `to`, as they are in a name. */
static bool
append_nodes(struct path_name *n, const struct pattern *p, unsigned from,
             unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        if (i > from && !append_bytes(n, ".", 1))
            return false;
        if (!append_bytes(n, p->nodes[i].prefix, p->nodes[i].prefix_size))
            return false;
    }
    return true;
}

/* Stores what all names that match the pattern from node `from` on begin
 * with. */
static bool
set_start(struct path_search *s, unsigned from)
{
    const struct pattern *p = s->pattern;
    unsigned literals = from;

    while (literals < p->count && p->nodes[literals].is_literal)
        literals++;
    s->start.size = 0;
    return append_nodes(&s->start, p, from,
                        literals < p->count ? literals + 1 : literals);
}

/* Sets `after` to the last name that begins with the `size` bytes. */
static void
jump_over(struct path_search *s, const uint8_t *bytes, size_t size)
{
    memmove(s->after.bytes, bytes, size);
    memset(s->after.bytes + size, 0xff, STORE_NAME_MAX - size);
    s->after.size = STORE_NAME_MAX;
}

/* Sets `after` to the last name before all that begin with the bytes. */
static void
jump_before(struct path_search *s, const uint8_t *bytes, size_t size)
{
    s->after.size = 0;
    if (size == 0)
        return;
    jump_over(s, bytes, size);
    s->after.bytes[size - 1]--;
}

/* ---- what is found ------------------------------------------------------ */

struct path_found *
path_found_new(struct scratch *scratch, const struct path_found *like)
{
    char path[PATTERN_PATH_MAX];
    struct path_found *f = scratch_take(scratch, sizeof *f);
    const size_t size = pattern_path(like->keyspace, like->keyspace_size,
                                     like->key, like->key_size, path);

    if (!f)
        return NULL;
    *f = *like;
    f->path.at = scratch_copy(scratch, path, size);
    f->path.size = size;
    f->keyspace =
        (const uint8_t *)scratch_copy(scratch, f->keyspace, f->keyspace_size);
    f->key = (const uint8_t *)scratch_copy(scratch, f->key, f->key_size);
    return f->path.at && f->keyspace && f->key ? f : NULL;
}

static int
compare_found(const struct path_found *a, const struct path_found *b)
{
    const int order =
        bytes_compare(a->path.at, a->path.size, b->path.at, b->path.size);

    return order != 0 ? order : (int)b->is_leaf - (int)a->is_leaf;
}

static void
push_run(struct path_search *s, struct path_found *run)
{
    run->next_run = NULL;
    *s->runs_end = run;
    s->runs_end = &run->next_run;
}

static struct path_found *
pop_run(struct path_search *s)
{
    struct path_found *run = s->runs;

    if (run)
        s->runs = run->next_run;
    if (!s->runs)
        s->runs_end = &s->runs;
    return run;
}

/* Adds the node KEYSPACE.KEY, or with key_size 0 KEYSPACE, to the last run, or
 * to a new one. */
static int
add_found(struct path_search *s, size_t keyspace_size, const uint8_t *key,
          size_t key_size, bool is_leaf)
{
    const struct path_found node = {.is_leaf = is_leaf,
                                    .keyspace = s->keyspace.bytes,
                                    .keyspace_size = (uint16_t)keyspace_size,
                                    .key = key,
                                    .key_size = (uint16_t)key_size};
    struct path_found *f = path_found_new(s->scratch, &node);
    const int order = f && s->newest ? compare_found(s->newest, f) : 1;

    if (!f)
        return -ENOMEM;
    if (order == 0 && !is_leaf)
        return 0;
    if (s->count == s->max)
        return -E2BIG;
    if (order > 0)
        push_run(s, f);
    else
        s->newest->next = f;
    s->newest = f;
    s->count++;
    return 0;
}

/* Merges two runs by one path, or begins to merge two others.  True: only one
 * run is left, `found`. */
static bool
merge_runs(struct path_search *s)
{
    struct path_found **from = &s->left;

    if (s->right && (!s->left || compare_found(s->left, s->right) > 0))
        from = &s->right;
    if (*from) {
        *s->merged_end = *from;
        s->merged_end = &(*from)->next;
        *from = (*from)->next;
        return false;
    }
    if (s->merged)
        push_run(s, s->merged);
    s->merged = NULL;
    s->merged_end = &s->merged;
    s->found = s->left = pop_run(s);
    s->right = pop_run(s);
    return !s->right;
}

/* ---- keys --------------------------------------------------------------- */

bool
path_search_is_prefix(const struct pattern *p)
{
    const struct pattern_node *last = &p->nodes[p->count - 1];

    return p->count > 1 && p->literals + 1 == p->count &&
           last->prefix_size + 1 == last->count &&
           last->elements[last->count - 1].kind == PATTERN_ANY;
}

/* Looks at a key; `after` is at least that key.  1: go on; 0: no later key
 * matches. */
static int
take_key(struct path_search *s, const uint8_t *key, size_t size)
{
    const struct pattern *p = s->pattern;
    const bool starts = s->wanted == PATH_SEARCH_STARTS;
    size_t at = 0, end = 0;
    int rc;

    for (unsigned i = s->keyspace_nodes; i < p->count; i++) {
        if (end == size)
            return 1; /* it has too few nodes; names below it come later */
        at = end > 0 ? end + 1 : 0;
        end = at + pattern_node_size(key + at, size - at);
        if (pattern_matches(&p->nodes[i], key + at, end - at))
            continue;
        if (end < size) /* no name below this node matches, either */
            jump_over(s, key, end + 1);
        return 1;
    }
    if (end == size) {
        rc = starts ? add_found(s, s->keyspace.size, s->start.bytes,
                                s->start.size, true)
                    : add_found(s, s->keyspace.size, key, size, true);
        return rc < 0 ? rc : !starts;
    }
    rc = s->wanted == PATH_SEARCH_NODES
             ? add_found(s, s->keyspace.size, key, end, false)
             : 0;
    jump_over(s, key, end + 1);
    return rc < 0 ? rc : 1;
}

/* Takes the rows that were read, until the time is up; *all is then false, and
 * the other rows are read again.  Returns what take_key() does. */
static int
take_rows(struct path_search *s, const struct store_query *q, uint64_t until_ns,
          bool *all)
{
    const uint8_t *at = q->bytes;
    struct query_row row;
    int rc = 1;

    *all = true;
    for (uint64_t i = 0; i < q->rows && rc > 0; i++) {
        if (i > 0 && clock_ns() >= until_ns) {
            *all = false;
            return 1;
        }
        at = query_row_get(at, &row);
        if (bytes_compare(row.key, row.key_size, s->after.bytes,
                          s->after.size) <= 0)
            continue;
        memcpy(s->after.bytes, row.key, row.key_size);
        s->after.size = row.key_size;
        rc = take_key(s, row.key, row.key_size);
    }
    return rc;
}

/* Reads some keys of the keyspace.  0, or an error. */
static int
search_keys(struct path_search *s, uint64_t until_ns)
{
    struct store_query q = {.op = STORE_KEYS,
                            .name = s->keyspace.bytes,
                            .name_size = s->keyspace.size,
                            .prefix = s->start.bytes,
                            .prefix_size = s->start.size,
                            .after = s->after.bytes,
                            .after_size = s->after.size,
                            .length = PATH_SEARCH_ROWS};
    int rc = answer_query(s->store, &q, s->rows, sizeof s->rows);
    bool all;

    if (rc == -ENOENT) /* -EAGAIN: it is being read */
        q.rows = 0;
    else if (rc < 0)
        return rc;
    rc = take_rows(s, &q, until_ns, &all);
    s->is_in_keyspace = rc > 0 && (!all || q.rows == PATH_SEARCH_ROWS);
    return rc < 0 ? rc : 0;
}

/* ---- keyspaces ---------------------------------------------------------- */

/* Has the keys of the keyspace, which has `nodes` nodes, searched next. */
static void
enter_keyspace(struct path_search *s, unsigned nodes)
{
    s->keyspace_nodes = nodes;
    s->after.size = 0;
    s->is_in_keyspace = set_start(s, nodes);
    if (s->is_in_keyspace)
        s->entered(s->ctx, s->keyspace.bytes, s->keyspace.size);
}

/* Returns how many nodes a name has; 0 if they do not all match the pattern. */
static unsigned
match_keyspace(const struct pattern *p, const uint8_t *name, size_t size)
{
    unsigned nodes = 0;

    for (size_t at = 0; at < size; nodes++) {
        const size_t n = pattern_node_size(name + at, size - at);

        if (nodes < p->count &&
            !pattern_matches(&p->nodes[nodes], name + at, n))
            return 0;
        at += n + 1;
    }
    return nodes;
}

/* Begins to list keyspaces, if others than those named can match. */
static void
begin_listing(struct path_search *s)
{
    const struct pattern *p = s->pattern;

    s->phase = PATH_SEARCH_SORT;
    if ((s->wanted != PATH_SEARCH_NODES && p->literals + 1 >= p->count) ||
        !set_start(s, 0)) /* no name is as long */
        return;
    jump_before(s, s->start.bytes, s->start.size);
    store_listing_start(s->listing, s->after.bytes, s->after.size);
    s->phase = PATH_SEARCH_LISTED;
}

/* Takes the next keyspace that nodes without wildcards name. */
static void
next_given(struct path_search *s)
{
    const struct pattern *p = s->pattern;
    const unsigned nodes = ++s->given;

    if (nodes > p->literals || nodes >= p->count) {
        begin_listing(s);
        return;
    }
    s->keyspace.size = 0;
    if (append_nodes(&s->keyspace, p, 0, nodes) &&
        match_keyspace(p, s->keyspace.bytes, s->keyspace.size) == nodes)
        enter_keyspace(s, nodes);
}

/* Looks at a listed keyspace. */
static int
take_keyspace(struct path_search *s, const struct store_listed *listed)
{
    const struct pattern *p = s->pattern;
    const unsigned nodes = match_keyspace(p, listed->name, listed->name_size);
    size_t size = 0;

    if (nodes == 0 || listed->keys == 0)
        return 0;
    memcpy(s->keyspace.bytes, listed->name, listed->name_size);
    s->keyspace.size = listed->name_size;
    if (nodes < p->count) {
        if (nodes > p->literals) /* else it was given */
            enter_keyspace(s, nodes);
        return 0;
    }
    if (s->wanted != PATH_SEARCH_NODES)
        return 0;
    for (unsigned i = 0; i < p->count; i++) {
        size += i > 0 ? 1 : 0;
        size += pattern_node_size(s->keyspace.bytes + size,
                                  s->keyspace.size - size);
    }
    return add_found(s, size, NULL, 0, false);
}

static int
next_listed(struct path_search *s, uint64_t until_ns)
{
    struct store_listed listed;
    int rc;

    s->keyspace.size = 0;
    rc = store_listing_next(s->listing, until_ns, &listed);
    if (rc < 0)
        return rc;
    if (rc == 1 && set_start(s, 0) &&
        bytes_begin(listed.name, listed.name_size, s->start.bytes,
                    s->start.size))
        return take_keyspace(s, &listed);
    s->phase = PATH_SEARCH_SORT;
    return 0;
}

/* ---- steps -------------------------------------------------------------- */

void
path_search_start(struct path_search *s, const struct pattern *p,
                  enum path_search_wanted wanted, size_t max)
{
    s->pattern = p;
    s->wanted = wanted;
    s->max = max;
    s->count = 0;
    s->runs = s->newest = s->left = s->right = s->merged = NULL;
    s->runs_end = &s->runs;
    s->merged_end = &s->merged;
    s->phase = PATH_SEARCH_GIVEN;
    s->given = 0;
    s->is_in_keyspace = false;
    s->keyspace.size = 0;
}

int
path_search_step(struct path_search *s, uint64_t until_ns)
{
    do {
        int rc = 0;

        if (s->is_in_keyspace)
            rc = search_keys(s, until_ns);
        else if (s->phase == PATH_SEARCH_GIVEN)
            next_given(s);
        else if (s->phase == PATH_SEARCH_LISTED)
            rc = next_listed(s, until_ns);
        else if (merge_runs(s))
            return 1;
        if (rc == -EAGAIN)
            return 0;
        if (rc < 0)
            return rc;
    } while (clock_ns() < until_ns);
    return 0;
}
