/* common/store/tree/tree_check.c - every value of a tree against every rule.
 *
 * Goes through the directory from left to right with one node open per level,
 * fetches each value without the cache, and compares what is stored twice:
 * counts in parents and in children, separators and rows, buffers and bases,
 * and at the end the number of values visited with the number in the tree.
 * Damage is reported and skipped; the rest is still read.
 *
 * Entry points: tree_check(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/tree/tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/store/tree/node.h"
#include "common/store/tree/scan.h"

#define FAULTS_REPORTED 100 /* one bad node can be thousands of faults */

/* Where rows begin, and end. */
struct span {
    struct row lower, upper;
    bool has_upper;
};

struct check_node {
    struct node node;
    unsigned at;
    struct span span;
};

struct checker {
    struct tree tree; /* without a cache */
    struct tree_check *check;
    struct check_node nodes[TREE_LEVELS + 1];
    uint64_t group; /* the current one */
    struct span span;
    bool has_last;
    struct row last;
    uint8_t last_key[BLOCK_KEY_MAX];
};

static void report_fault(struct checker *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
report_fault(struct checker *c, const char *format, ...)
{
    char text[200];
    size_t size;
    va_list args;

    size =
        (size_t)snprintf(text, sizeof text,
                         "%s: ", c->tree.kind == BLOCK_KEYS ? "keys" : "ranks");
    va_start(args, format);
    /* A cut text is fine. */
    (void)vsnprintf(text + size, sizeof text - size, format, args);
    va_end(args);
    if (++c->check->faults <= FAULTS_REPORTED && c->check->fault)
        c->check->fault(c->check->ctx, text);
}

static bool
is_before(const struct checker *c, const struct row *a, const struct row *b)
{
    return row_compare(c->tree.kind, a, b) < 0;
}

/* Checks each row: it is above the last one, and inside its group. */
static int
check_row(void *ctx, const struct row *r)
{
    struct checker *c = ctx;

    if (c->has_last && !is_before(c, &c->last, r))
        report_fault(c, "group %llu: rows out of order",
                     (unsigned long long)c->group);
    if (is_before(c, r, &c->span.lower) ||
        (c->span.has_upper && !is_before(c, r, &c->span.upper)))
        report_fault(c, "group %llu: row outside",
                     (unsigned long long)c->group);
    memcpy(c->last_key, r->key, r->key_size);
    c->last = *r;
    c->last.key = c->last_key;
    c->has_last = true;
    c->check->rows++;
    c->check->row(c->check->ctx, r);
    return 0;
}

/* Checks the buffer: it is sorted, and each entry belongs to its base block. */
static void
check_buffer(struct checker *c, const struct group *g, const struct buffer *b)
{
    for (unsigned i = 0, block = 0; i < b->entries; i++) {
        const struct row r = buffer_row(b, i);

        while (block + 1 < g->blocks && group_first(g, block + 1) <= i)
            block++;
        if (group_block_of(g, c->tree.kind, &r) != block)
            report_fault(c, "group %llu: buffer entry %u at the wrong block",
                         (unsigned long long)g->id, i);
        if (i > 0) {
            const struct row last = buffer_row(b, i - 1);

            if (!is_before(c, &last, &r))
                report_fault(c, "group %llu: buffer out of order",
                             (unsigned long long)g->id);
        }
    }
}

/* Checks the base: each row is in the block that the separators give. */
static int
check_base(struct checker *c, const struct group *g)
{
    int rc = 0;

    for (unsigned i = 0; i < g->blocks && rc == 0; i++) {
        struct block b;

        rc = group_base(&c->tree, g, i, NULL, &b);
        if (rc < 0)
            break;
        c->check->blocks++;
        for (unsigned at = 0; at < b.count; at++) {
            const struct row r = block_row(&b, at);

            if (group_block_of(g, c->tree.kind, &r) != i)
                report_fault(c,
                             "group %llu: row %u of block %u belongs elsewhere",
                             (unsigned long long)g->id, at, i);
        }
    }
    return rc;
}

static void
check_group(struct checker *c, uint64_t id, uint64_t rows)
{
    struct buffer b;
    struct group g;
    int rc;

    c->group = id;
    rc = group_get(&c->tree, id, rows, NULL, &g);
    if (rc == 0) {
        c->check->blocks += 1u + g.buffers;
        for (unsigned i = 2; i < g.blocks; i++) {
            const struct row low = group_separator(&g, i - 1);
            const struct row high = group_separator(&g, i);

            if (!is_before(c, &low, &high))
                report_fault(c, "group %llu: separators out of order",
                             (unsigned long long)id);
        }
        rc = group_buffer(&c->tree, &g, NULL, &b);
    }
    if (rc == 0) {
        check_buffer(c, &g, &b);
        rc = check_base(c, &g);
    }
    if (rc == 0)
        rc = scan_group(&c->tree, &g, &b, check_row, c);
    if (rc < 0)
        report_fault(c, "group %llu: %s", (unsigned long long)id,
                     rc == -EBADMSG ? "damaged" : strerror(-rc));
}

/* Opens the node of a level. */
static bool
open_node(struct checker *c, unsigned level, uint64_t id, uint64_t rows)
{
    struct check_node *p = &c->nodes[level];
    struct row first;
    int rc;

    p->node.level = (uint16_t)level;
    rc = node_get(&c->tree, id, rows, NULL, &p->node);
    p->at = 0;
    if (rc < 0) {
        report_fault(c, "node %llu: %s", (unsigned long long)id,
                     rc == -EBADMSG ? "damaged" : strerror(-rc));
        return false;
    }
    c->check->blocks++;
    first = node_separator(&p->node, 0);
    if (is_before(c, &first, &p->span.lower))
        report_fault(c, "node %llu: begins before its parent says",
                     (unsigned long long)id);
    for (unsigned i = 1; i < p->node.count; i++) {
        const struct row low = node_separator(&p->node, i - 1);
        const struct row high = node_separator(&p->node, i);

        if (!is_before(c, &low, &high))
            report_fault(c, "node %llu: separators out of order",
                         (unsigned long long)id);
    }
    return true;
}

/* Goes through everything below the root node. */
static void
check_nodes(struct checker *c, unsigned top)
{
    unsigned level = top;

    while (level <= top) {
        struct check_node *p = &c->nodes[level];
        struct span span = p->span;
        uint64_t id, rows;

        if (p->at == p->node.count) {
            level++;
            continue;
        }
        id = node_child(&p->node, p->at);
        rows = node_rows(&p->node, p->at);
        if (p->at > 0)
            span.lower = node_separator(&p->node, p->at);
        p->at++;
        if (p->at < p->node.count) {
            span.upper = node_separator(&p->node, p->at);
            span.has_upper = true;
        }
        if (level == 1) {
            c->span = span;
            check_group(c, id, rows);
            continue;
        }
        c->nodes[level - 1].span = span;
        if (open_node(c, level - 1, id, rows))
            level--;
    }
}

void
tree_check(const struct tree *t, struct tree_check *check)
{
    const struct row lowest = row_lowest(t->kind);
    struct checker c = {.tree = *t, .check = check};
    const unsigned top = t->root.level;

    c.tree.cache = NULL;
    c.span.lower = c.nodes[top].span.lower = lowest;
    if (t->root.id != 0 && top == 0)
        check_group(&c, t->root.id, t->root.count);
    else if (t->root.id != 0 && open_node(&c, top, t->root.id, t->root.count))
        check_nodes(&c, top);
    if (check->rows != t->root.count && check->faults == 0)
        report_fault(&c, "%llu rows, the state says %llu",
                     (unsigned long long)check->rows,
                     (unsigned long long)t->root.count);
    if (check->blocks != check->values && check->faults == 0)
        report_fault(&c, "%llu values in use, %llu are there",
                     (unsigned long long)check->blocks,
                     (unsigned long long)check->values);
}
