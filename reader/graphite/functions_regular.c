/* reader/graphite/functions_regular.c - functions with a regular expression; see
 * functions_internal.h.
 *
 * libc's expressions may take seconds and gigabytes for a few bytes; PCRE2 counts
 * what a search does, and gives up at a limit.  Its memory is of the scratch. */
/* SPDX-License-Identifier: BSD-2-Clause */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "reader/graphite/functions_internal.h"

#include <errno.h>
#include <pcre2.h>

#include "common/base/clock.h"

#define GROUPS    10     /* with the whole, group 0 */
#define TRIES_MAX 100000 /* of a search: a few milliseconds */
#define HEAP_KIB  256    /* of the same */
#define WHY_SIZE  128
/* Of computing: all searches in a name begin in it. */
#define NAME_NS_MAX 10000000

struct regular {
    pcre2_code *code;
    pcre2_match_context *context;
    pcre2_match_data *data;
    uint32_t groups; /* without group 0 */
};

/* ---- expressions --------------------------------------------------------- */

static void *
take_piece(PCRE2_SIZE size, void *scratch)
{
    return scratch_take(scratch, size);
}

/* All of it goes with the scratch. */
static void
leave_piece(void *piece, void *scratch)
{
    (void)piece;
    (void)scratch;
}

int
functions_check_regular(struct function_call *call)
{
    const struct target_text text = call->values[1]->text;
    struct regular *r = scratch_take(call->scratch, sizeof *r);
    pcre2_general_context *memory =
        pcre2_general_context_create(take_piece, leave_piece, call->scratch);
    pcre2_compile_context *compiling =
        memory ? pcre2_compile_context_create(memory) : NULL;
    char why[WHY_SIZE];
    PCRE2_SIZE at;
    int error;

    if (!r || !compiling)
        return -ENOMEM;
    r->code = pcre2_compile((PCRE2_SPTR)text.at, text.size,
                            PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                            compiling);
    if (!r->code && error == PCRE2_ERROR_NOMEMORY)
        return -ENOMEM;
    if (!r->code) {
        (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
        return functions_refuse(call, "the regular expression: %s, at byte %zu",
                                why, (size_t)at);
    }
    (void)pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &r->groups);
    r->context = pcre2_match_context_create(memory);
    r->data = pcre2_match_data_create(GROUPS, memory);
    if (!r->context || !r->data)
        return -ENOMEM;
    (void)pcre2_set_match_limit(r->context, TRIES_MAX);
    (void)pcre2_set_heap_limit(r->context, HEAP_KIB);
    call->regular = r;
    return 0;
}

/* Finds the first match in the name of a series that begins at `from` or later:
 * 1, and *found has the begin and the end of each group; 0: there is none, or
 * the name is not UTF-8; or an error. */
static int
search_name(struct function_call *call, const struct series *s, size_t from,
            uint64_t until_ns, const PCRE2_SIZE **found)
{
    const struct regular *r = call->regular;
    int rc = PCRE2_ERROR_MATCHLIMIT;

    if (clock_thread_ns() < until_ns)
        rc = pcre2_match(r->code, (PCRE2_SPTR)s->name.at, s->name.size, from, 0,
                         r->data, r->context);
    *found = pcre2_get_ovector_pointer(r->data);
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT ||
        rc == PCRE2_ERROR_DEPTHLIMIT)
        return functions_refuse(call, "the regular expression takes too long "
                                      "for the name of a series");
    if (rc == PCRE2_ERROR_NOMEMORY)
        return -ENOMEM;
    return rc >= 0;
}

int
functions_grep(struct function_call *call, struct series *s)
{
    const PCRE2_SIZE *found;
    const int rc = search_name(call, s, 0, UINT64_MAX, &found);

    s->key = rc > 0 ? 0 : (long double)-INFINITY;
    return rc < 0 ? rc : 0;
}

int
functions_exclude(struct function_call *call, struct series *s)
{
    const int rc = functions_grep(call, s);

    s->key = s->key == 0 ? (long double)-INFINITY : 0;
    return rc;
}

/* ---- aliasSub ------------------------------------------------------------- */

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
        if (group_at(by, i) > (int)call->regular->groups)
            return functions_refuse(call, "there is no group \\%d",
                                    group_at(by, i));
    return rc;
}

/* Appends the replacement, with \1 as the group of a match. */
static void
append_replacement(struct function_text *t, struct target_text name,
                   const PCRE2_SIZE *found)
{
    const struct target_text by = t->call->values[2]->text;

    for (size_t i = 0; i < by.size; i++) {
        const int group = group_at(by, i);
        const PCRE2_SIZE *at;

        if (group < 0) {
            functions_append(t, by.at + i, 1);
            continue;
        }
        i++;
        at = found + 2 * (size_t)group;
        if (at[0] != PCRE2_UNSET)
            functions_append(t, name.at + at[0], at[1] - at[0]);
    }
}

/* Replaces all matches, also an empty one behind another. */
int
functions_alias_sub(struct function_call *call, struct series *s)
{
    struct function_text t = {.call = call};
    const uint64_t until_ns = clock_thread_ns() + NAME_NS_MAX;
    size_t at = 0, copied = 0;
    const PCRE2_SIZE *found;
    int rc = 1;

    while (at <= s->name.size && t.rc == 0) {
        rc = search_name(call, s, at, until_ns, &found);
        if (rc <= 0)
            break;
        functions_append(&t, s->name.at + copied, found[0] - copied);
        append_replacement(&t, s->name, found);
        copied = at = found[1];
        if (found[1] == found[0]) /* on by a character */
            do
                at++;
            while (at < s->name.size && (s->name.at[at] & 0xc0) == 0x80);
    }
    functions_append(&t, s->name.at + copied, s->name.size - copied);
    if (rc < 0 || t.rc < 0)
        return rc < 0 ? rc : t.rc;
    s->name = (struct target_text){t.at, t.size};
    return 0;
}
