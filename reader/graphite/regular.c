/* reader/graphite/regular.c - see regular.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "reader/graphite/regular.h"

#include <errno.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#define TRIES_MAX 100000 /* of a search: a few milliseconds */
#define HEAP_KIB  256    /* of the same */
#define WHY_SIZE  160

struct regular {
    pcre2_code *code;
    pcre2_match_context *context;
    pcre2_match_data *data;
    unsigned groups;
};

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

/* Why an expression is none, and behind which byte that shows. */
static int
explain(struct scratch *scratch, int error, PCRE2_SIZE at, const char **why)
{
    char *text = scratch_take(scratch, WHY_SIZE);
    size_t size;

    if (!text)
        return -ENOMEM;
    (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)text, WHY_SIZE - 32);
    size = strlen(text);
    (void)snprintf(text + size, WHY_SIZE - size, ", at byte %zu", (size_t)at);
    *why = text;
    return -EINVAL;
}

int
regular_compile(struct scratch *scratch, struct target_text text,
                struct regular **out, const char **why)
{
    struct regular *r = scratch_take(scratch, sizeof *r);
    pcre2_general_context *memory =
        pcre2_general_context_create(take_piece, leave_piece, scratch);
    pcre2_compile_context *compiling =
        memory ? pcre2_compile_context_create(memory) : NULL;
    uint32_t groups;
    PCRE2_SIZE at;
    int error;

    if (!r || !compiling)
        return -ENOMEM;
    r->code = pcre2_compile((PCRE2_SPTR)text.at, text.size,
                            PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                            compiling);
    if (!r->code)
        return error == PCRE2_ERROR_NOMEMORY ? -ENOMEM
                                             : explain(scratch, error, at, why);
    (void)pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    r->groups = groups < REGULAR_GROUPS ? groups + 1 : REGULAR_GROUPS;
    r->context = pcre2_match_context_create(memory);
    r->data = pcre2_match_data_create(REGULAR_GROUPS, memory);
    if (!r->context || !r->data)
        return -ENOMEM;
    (void)pcre2_set_match_limit(r->context, TRIES_MAX);
    (void)pcre2_set_heap_limit(r->context, HEAP_KIB);
    *out = r;
    return 0;
}

unsigned
regular_groups(const struct regular *r)
{
    return r->groups;
}

int
regular_search(struct regular *r, struct target_text text, size_t from,
               struct regular_found *found)
{
    const int rc = pcre2_match(r->code, (PCRE2_SPTR)text.at, text.size, from, 0,
                               r->data, r->context);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->data);

    switch (rc) {
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
        return -E2BIG;
    case PCRE2_ERROR_NOMEMORY:
        return -ENOMEM;
    default:
        break;
    }
    if (rc < 0)
        return 0;
    for (size_t i = 0; i < r->groups; i++) {
        /* Those behind the last that was found are not set. */
        const bool is_set = rc == 0 || i < (size_t)rc;

        found->begin[i] = is_set ? at[2 * i] : SIZE_MAX;
        found->end[i] = is_set ? at[2 * i + 1] : SIZE_MAX;
    }
    return 1;
}
