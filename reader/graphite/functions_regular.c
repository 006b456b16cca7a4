/* reader/graphite/functions_regular.c - functions with a regular expression; see
 * functions_internal.h and regular.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/clock.h"
#include "reader/graphite/regular.h"

#define NAME_SIZE_MAX 65536
#define NAME_NS_MAX                                                            \
    10000000 /* of computing: all searches in a name begin in it */

int
functions_check_regular(struct function_call *call)
{
    const char *why;
    const int rc = regular_compile(call->scratch, call->values[1]->text,
                                   &call->regular, &why);

    return rc == -EINVAL
               ? functions_refuse(call, "the regular expression: %s", why)
               : rc;
}

/* Searches in the name of a series from `at` on; as regular_search(). */
static int
search_name(struct function_call *call, const struct series *s, size_t at,
            uint64_t until_ns, struct regular_found *found)
{
    const int rc = clock_thread_ns() < until_ns
                       ? regular_search(call->regular, s->name, at, found)
                       : -E2BIG;

    return rc == -E2BIG
               ? functions_refuse(call, "the regular expression takes too long "
                                        "for the name of a series")
               : rc;
}

int
functions_grep(struct function_call *call, struct series *s)
{
    struct regular_found found;
    const int rc = search_name(call, s, 0, UINT64_MAX, &found);

    s->key = rc;
    return rc < 0 ? rc : 0;
}

int
functions_exclude(struct function_call *call, struct series *s)
{
    const int rc = functions_grep(call, s);

    s->key = 1 - s->key;
    return rc;
}

/* ---- aliasSub ------------------------------------------------------------- */

/* A name that grows; its older pieces stay in the scratch. */
struct growing {
    struct function_call *call;
    char *text;
    size_t size, capacity;
};

static int
append_text(struct growing *g, const char *text, size_t size)
{
    if (size > NAME_SIZE_MAX - g->size)
        return functions_refuse(g->call, "a name of more than 65536 bytes");
    if (size > g->capacity - g->size) {
        char *larger;

        g->capacity = 2 * (g->size + size) + 64;
        larger = scratch_take(g->call->scratch, g->capacity);
        if (!larger)
            return -ENOMEM;
        if (g->size > 0)
            memcpy(larger, g->text, g->size);
        g->text = larger;
    }
    if (size > 0) {
        assert(g->text);
        memcpy(g->text + g->size, text, size);
    }
    g->size += size;
    return 0;
}

/* The number of the group at `at` of a replacement, \1; -1: there is none. */
static int
group_at(struct target_text by, size_t at)
{
    return by.at[at] == '\\' && at + 1 < by.size && by.at[at + 1] >= '0' &&
                   by.at[at + 1] <= '9'
               ? by.at[at + 1] - '0'
               : -1;
}

int
functions_check_alias_sub(struct function_call *call)
{
    const struct target_text by = call->values[2]->text;
    const int rc = functions_check_regular(call);

    for (size_t i = 0; i < by.size && rc == 0; i++)
        if (group_at(by, i) >= (int)regular_groups(call->regular))
            return functions_refuse(call, "there is no group \\%d",
                                    group_at(by, i));
    return rc;
}

/* Appends the replacement, with \1 as the group of a match. */
static int
append_replacement(struct growing *g, struct target_text name,
                   const struct regular_found *found)
{
    const struct target_text by = g->call->values[2]->text;
    int rc = 0;

    for (size_t i = 0; i < by.size && rc == 0; i++) {
        const int group = group_at(by, i);

        if (group < 0) {
            rc = append_text(g, by.at + i, 1);
            continue;
        }
        i++;
        if (found->begin[group] != SIZE_MAX)
            rc = append_text(g, name.at + found->begin[group],
                             found->end[group] - found->begin[group]);
    }
    return rc;
}

/* Replaces all matches, also an empty one behind another. */
int
functions_alias_sub(struct function_call *call, struct series *s)
{
    struct growing g = {.call = call};
    const uint64_t until_ns = clock_thread_ns() + NAME_NS_MAX;
    size_t at = 0, copied = 0;
    struct regular_found found;
    int rc = 0;

    while (at <= s->name.size) {
        rc = search_name(call, s, at, until_ns, &found);
        if (rc <= 0)
            break;
        rc = append_text(&g, s->name.at + copied, found.begin[0] - copied);
        if (rc == 0)
            rc = append_replacement(&g, s->name, &found);
        if (rc < 0)
            break;
        copied = at = found.end[0];
        if (found.end[0] == found.begin[0]) /* on by a character */
            do
                at++;
            while (at < s->name.size && (s->name.at[at] & 0xc0) == 0x80);
    }
    if (rc == 0)
        rc = append_text(&g, s->name.at + copied, s->name.size - copied);
    if (rc == 0)
        s->name = (struct target_text){g.text, g.size};
    return rc;
}
