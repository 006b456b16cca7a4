/* common/log/pending_set.c - see pending_set.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/pending_set.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/array.h"
#include "common/log/pending.h"

static int
add_fill(void *ctx, const struct pending_log *p)
{
    struct pending_set *f = ctx;

    if (array_grow(&f->fill, &f->capacity, f->count + 1, sizeof *f->fill) < 0)
        return -ENOMEM;
    f->fill[f->count++] = (struct pending_fill){
        .index = p->index, .first_ms = p->first_ms, .certain = p->certain};
    return 0;
}

int
pending_set_note(struct pending_set *f, struct logdir *logs)
{
    f->count = 0;
    return pending_each(logs, add_fill, f);
}

/* Some file systems store an mtime, which identifies a full log, in seconds. */
static bool
is_same(const struct pending_fill *fill, const struct pending_log *p)
{
    return !p->certain || !fill->certain || p->first_ms == fill->first_ms ||
           p->first_ms == fill->first_ms / 1000 * 1000 ||
           p->mtime_ms == fill->first_ms;
}

static int
mark_seen(void *ctx, const struct pending_log *p)
{
    struct pending_set *f = ctx;

    for (size_t i = 0; i < f->count; i++) {
        struct pending_fill *fill = &f->fill[i];

        if (fill->index != p->index || !is_same(fill, p))
            continue;
        fill->seen = true;
        if (!fill->certain && p->certain) { /* first_ms is now known */
            fill->first_ms = p->first_ms;
            fill->certain = true;
        }
    }
    return 0;
}

int
pending_set_drop_merged(struct pending_set *f, struct logdir *logs)
{
    size_t left = 0;
    int rc;

    for (size_t i = 0; i < f->count; i++)
        f->fill[i].seen = false;
    rc = pending_each(logs, mark_seen, f);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < f->count; i++)
        if (f->fill[i].seen)
            f->fill[left++] = f->fill[i];
    f->count = left;
    return 0;
}

void
pending_set_fini(struct pending_set *f)
{
    free(f->fill);
    *f = (struct pending_set){.count = 0};
}
