/* common/client/cmd/top_n.c - see top_n.h. */
#include "common/client/cmd/top_n.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
top_n_init(struct top_n *l, size_t max)
{
    assert(max > 0);
    *l = (struct top_n){.max = max};
    l->entries = calloc(max, sizeof *l->entries);
    return l->entries ? 0 : -ENOMEM;
}

void
top_n_fini(struct top_n *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->entries[i].name);
    free(l->entries);
    *l = (struct top_n){0};
}

/* Below 0 when `a` stands before `b` in the result. */
static int
compare(const void *a, const void *b)
{
    const struct top_n_entry *x = a, *y = b;
    const size_t size = x->size < y->size ? x->size : y->size;
    int order;

    if (x->current != y->current)
        return x->current > y->current ? -1 : 1;
    order = memcmp(x->name, y->name, size);
    if (order != 0)
        return order;
    return (x->size > y->size) - (x->size < y->size);
}

static void
swap(struct top_n_entry *a, struct top_n_entry *b)
{
    const struct top_n_entry t = *a;

    *a = *b;
    *b = t;
}

/* The last entry is new: moves it up to its place. */
static void
sift_up(struct top_n *l)
{
    size_t i = l->count - 1;

    while (i > 0 && compare(&l->entries[i], &l->entries[(i - 1) / 2]) > 0) {
        swap(&l->entries[i], &l->entries[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

/* The first entry is new: moves it down to its place. */
static void
sift_down(struct top_n *l)
{
    size_t i = 0;

    for (;;) {
        size_t last = i;

        for (size_t child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < l->count &&
                compare(&l->entries[child], &l->entries[last]) > 0)
                last = child;
        if (last == i)
            return;
        swap(&l->entries[i], &l->entries[last]);
        i = last;
    }
}

int
top_n_offer(struct top_n *l, const void *name, size_t size, uint32_t current,
            uint32_t maximum)
{
    struct top_n_entry e = {.current = current, .maximum = maximum};
    struct top_n_entry *first = &l->entries[0];

    /* Most do not get in: that must be cheap. */
    if (l->count == l->max && current < first->current)
        return 0;
    e.size = size;
    e.name = malloc(size + 1);
    if (!e.name)
        return -ENOMEM;
    memcpy(e.name, name, size);
    if (l->count < l->max) {
        l->entries[l->count++] = e;
        sift_up(l);
        return 0;
    }
    if (compare(&e, first) >= 0) {
        free(e.name);
        return 0;
    }
    free(first->name);
    *first = e;
    sift_down(l);
    return 0;
}

void
top_n_sort(struct top_n *l)
{
    qsort(l->entries, l->count, sizeof *l->entries, compare);
}
