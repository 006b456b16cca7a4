/* reader/graphite/functions_choose.c - functions that choose some of many series,
 * or sort them; see functions_internal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <stdlib.h>
#include <string.h>

static int
keep_first(struct function_call *call, int64_t count)
{
    if (call->list.count > (size_t)count)
        call->list.count = (size_t)count;
    return 0;
}

int
functions_limit(struct function_call *call)
{
    return keep_first(call, call->values[1]->whole);
}

int
functions_rate(struct function_call *call, struct series *s)
{
    s->key = series_total(s, call->function->how);
    return 0;
}

/* Equal ones stay in their order. */
static int
compare_order(const struct series *a, const struct series *b)
{
    return a->order < b->order ? -1 : 1;
}

static int
compare_keys(const void *x, const void *y)
{
    const struct series *a = *(struct series *const *)x;
    const struct series *b = *(struct series *const *)y;

    return a->key == b->key ? compare_order(a, b) : a->key > b->key ? -1 : 1;
}

static void
sort_series(struct series_list *list,
            int (*compare)(const void *a, const void *b))
{
    for (size_t i = 0; i < list->count; i++)
        list->items[i]->order = i;
    if (list->count > 0)
        qsort(list->items, list->count, sizeof(struct series *), compare);
}

int
functions_choose(struct function_call *call)
{
    const struct target_node *n = call->values[1];

    sort_series(&call->list, compare_keys);
    return call->function->params[1] ? keep_first(call, n ? n->whole : 1) : 0;
}

static int
compare_names(const void *x, const void *y)
{
    const struct series *a = *(struct series *const *)x;
    const struct series *b = *(struct series *const *)y;
    const int order =
        bytes_compare(a->name.at, a->name.size, b->name.at, b->name.size);

    return order != 0 ? order : compare_order(a, b);
}

/* Bytes of the digits at `at`. */
static size_t
count_digits(const struct target_text *t, size_t at)
{
    size_t n = 0;

    while (at + n < t->size && t->at[at + n] >= '0' && t->at[at + n] <= '9')
        n++;
    return n;
}

/* Compares numbers in names by their values: x9 is before x10. */
static int
compare_naturally(const void *x, const void *y)
{
    const struct series *a = *(struct series *const *)x;
    const struct series *b = *(struct series *const *)y;
    size_t i = 0, k = 0;

    while (i < a->name.size && k < b->name.size) {
        const size_t n = count_digits(&a->name, i);
        const size_t m = count_digits(&b->name, k);
        int order;

        if (n > 0 && n != m && m > 0)
            return n < m ? -1 : 1;
        order = memcmp(a->name.at + i, b->name.at + k, n > 0 && m > 0 ? n : 1);
        if (order != 0)
            return order;
        i += n > 0 && m > 0 ? n : 1;
        k += n > 0 && m > 0 ? n : 1;
    }
    return compare_names(x, y);
}

int
functions_sort_names(struct function_call *call)
{
    const struct target_node *natural = call->values[1];
    const struct target_node *reverse = call->values[2];
    struct series **items = call->list.items;
    const size_t count = call->list.count;

    sort_series(&call->list,
                natural && natural->truth ? compare_naturally : compare_names);
    for (size_t i = 0; reverse && reverse->truth && i < count / 2; i++) {
        struct series *s = items[i];

        items[i] = items[count - 1 - i];
        items[count - 1 - i] = s;
    }
    return 0;
}

int
functions_keep_rated(struct function_call *call)
{
    size_t kept = 0;

    for (size_t i = 0; i < call->list.count; i++)
        if (call->list.items[i]->key > (long double)-INFINITY)
            call->list.items[kept++] = call->list.items[i];
    call->list.count = kept;
    return 0;
}

int
functions_check_top(struct function_call *call)
{
    const int64_t n = call->values[1]->whole;

    if (call->values[0]->text.size == 0)
        return functions_refuse(call, "the keyspace is empty");
    return n >= 1 && n <= FUNCTIONS_TOP_MAX
               ? 0
               : functions_refuse(call, "n is 1 to 100");
}
