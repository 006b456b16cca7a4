/* reader/graphite/functions_choose.c - functions that choose some of many series,
 * or sort them; see functions_internal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

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

/* Sorts by key descending, equal ones in their order; the first n stay. */
int
functions_choose(struct function_call *call)
{
    const struct target_node *n = call->values[1];
    struct series **items = call->list.items;

    for (size_t i = 1; i < call->list.count; i++) {
        struct series *s = items[i];
        size_t from = 0, to = i;

        while (from < to) {
            const size_t middle = from + (to - from) / 2;

            if (items[middle]->key >= s->key)
                from = middle + 1;
            else
                to = middle;
        }
        memmove(items + from + 1, items + from, (i - from) * sizeof(void *));
        items[from] = s;
    }
    return call->function->params[1] ? keep_first(call, n ? n->whole : 1) : 0;
}

const char *
functions_check_top(const struct function_call *call)
{
    const int64_t n = call->values[1]->whole;

    if (call->values[0]->text.size == 0)
        return "the keyspace is empty";
    return n >= 1 && n <= FUNCTIONS_TOP_MAX ? NULL : "n is 1 to 100";
}
