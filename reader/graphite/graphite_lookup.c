/* reader/graphite/graphite_lookup.c - /metrics/find and /metrics/expand: the
 * nodes that match a pattern; see graphite.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "common/base/clock.h"
#include "reader/graphite/graphite.h"

#define NODE_MAX (8 * PATTERN_PATH_MAX + 128) /* in JSON */

/* {"text":"hits","id":"web.hits","allowChildren":1,"expandable":1,"leaf":0}
 * {"path":"web.hits.","name":"hits","is_leaf":"0"} */
static void
put_node(struct json_writer *w, const struct path_found *f, bool completes)
{
    const char *dot = memrchr(f->path.at, '.', f->path.size);
    const char *text = dot ? dot + 1 : f->path.at;
    const size_t size = f->path.size - (size_t)(text - f->path.at);
    char path[PATTERN_PATH_MAX + 1];

    memcpy(path, f->path.at, f->path.size);
    path[f->path.size] = '.';
    json_begin(w, '{');
    if (completes) {
        json_member(w, "path");
        json_string(w, path, f->path.size + (f->is_leaf ? 0 : 1));
        json_member(w, "name");
        json_string(w, text, size);
        json_member(w, "is_leaf");
        json_text(w, f->is_leaf ? "1" : "0");
    } else {
        json_member(w, "text");
        json_string(w, text, size);
        json_member(w, "id");
        json_string(w, path, f->path.size);
        json_member(w, "allowChildren");
        json_integer(w, !f->is_leaf);
        json_member(w, "expandable");
        json_integer(w, !f->is_leaf);
        json_member(w, "leaf");
        json_integer(w, f->is_leaf);
    }
    json_end(w, '}');
}

/* Those of one path and kind come once: several keys may have one path; and in an
 * expansion each path comes once. */
static bool
is_shown(const struct graphite_job *g, const struct path_found *f)
{
    const struct path_found *before = g->put_last;

    return !before || !target_text_equals(before->path, f->path) ||
           (g->kind != GRAPHITE_EXPAND && before->is_leaf != f->is_leaf);
}

/* Puts nodes until the time is up: 0, or 1 when all are put. */
static int
put_nodes(struct graphite_job *g, uint64_t until_ns)
{
    struct json_writer *w = &g->answer.json;
    const bool expands = g->kind == GRAPHITE_EXPAND;
    const bool begins = !g->answer.last;
    int rc = chunks_reserve(&g->answer, NODE_MAX);

    if (rc == 0 && begins) {
        if (expands || g->is_completer) {
            json_begin(w, '{');
            json_member(w, expands ? "results" : "metrics");
        }
        json_begin(w, '[');
        g->put_at = g->search.found;
    }
    for (; rc == 0 && g->put_at; g->put_at = g->put_at->next) {
        if (is_shown(g, g->put_at)) {
            if (expands)
                json_string(w, g->put_at->path.at, g->put_at->path.size);
            else
                put_node(w, g->put_at, g->is_completer);
            g->put_last = g->put_at;
            rc = chunks_reserve(&g->answer, NODE_MAX);
        }
        if (rc == 0 && clock_ns() >= until_ns) {
            g->put_at = g->put_at->next;
            return 0;
        }
    }
    if (rc < 0)
        return -ENOMEM;
    json_end(w, ']');
    if (expands || g->is_completer)
        json_end(w, '}');
    chunks_end(&g->answer);
    return 1;
}

int
graphite_lookup_step(struct graphite_job *g, uint64_t until_ns)
{
    int rc = g->answer.last ? 1 : path_search_step(&g->search, until_ns);

    if (rc == 1)
        rc = put_nodes(g, until_ns);
    if (rc >= 0)
        return rc;
    return render_fail_search(&g->render, rc, "nodes", g->site->max_nodes);
}
