/* reader/graphite/target.c - see target.h; the entry is target_parse(), at the
 * end. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/target.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct parser {
    struct scratch *scratch;
    const char *begin, *at, *end;
    struct target *target;
    struct target_node *last; /* in the order of evaluation */
    char *why;
    int error;
};

/* ---- tools -------------------------------------------------------------- */

/* Returns NULL, as a parser of a node does that fails. */
static struct target_node *
fail_here(struct parser *p, const char *what)
{
    if (p->error == 0)
        (void)snprintf(p->why, TARGET_WHY_SIZE, "target, byte %zu: %s",
                       (size_t)(p->at - p->begin) + 1, what);
    p->error = -EINVAL;
    return NULL;
}

static void
skip_blanks(struct parser *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || (*p->at >= '\t' && *p->at <= '\r')))
        p->at++;
}

/* Takes the byte `c` if it comes next. */
static bool
take_byte(struct parser *p, char c)
{
    skip_blanks(p);
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

size_t
target_name_size(const char *at, const char *end)
{
    const char *begin = at;

    if (at == end || !is_letter(*at))
        return 0;
    while (at < end && (is_letter(*at) || isdigit((unsigned char)*at)))
        at++;
    return (size_t)(at - begin);
}

static struct target_node *
add_node(struct parser *p, enum target_kind kind)
{
    struct target_node *node = scratch_take(p->scratch, sizeof *node);

    if (!node) {
        p->error = -ENOMEM;
        return NULL;
    }
    node->kind = kind;
    node->height = 1;
    return node;
}

/* The node is complete: it is evaluated after all that were completed before.
 */
static struct target_node *
complete_node(struct parser *p, struct target_node *node, const char *begin)
{
    node->source = (struct target_text){begin, (size_t)(p->at - begin)};
    if (p->last)
        p->last->after = node;
    else
        p->target->first = node;
    p->last = node;
    return node;
}

/* ---- leaves ------------------------------------------------------------- */

static struct target_node *
parse_string(struct parser *p)
{
    const char *const begin = p->at;
    const char quote = *p->at++;
    struct target_node *node;
    char *copy;
    size_t size = 0;

    copy = scratch_take(p->scratch, (size_t)(p->end - p->at) < 256
                                        ? (size_t)(p->end - p->at) + 1
                                        : 256);
    if (!copy) {
        p->error = -ENOMEM;
        return NULL;
    }
    for (; p->at < p->end && *p->at != quote; p->at++) {
        if (*p->at == '\\' && p->at + 1 < p->end && p->at[1] == quote)
            p->at++;
        if (size == 255)
            return fail_here(p, "a string of more than 255 bytes");
        copy[size++] = *p->at;
    }
    if (p->at == p->end)
        return fail_here(p, "a string that does not end");
    p->at++;
    node = add_node(p, TARGET_STRING);
    if (!node)
        return NULL;
    node->text = (struct target_text){copy, size};
    return complete_node(p, node, begin);
}

/* Passes over a path, a name or a number: up to a byte that cannot belong to
 * one.  False: a brace that does not end. */
static bool
pass_word(struct parser *p)
{
    bool in_braces = false;

    for (; p->at < p->end; p->at++) {
        const char c = *p->at;

        if (c == '{')
            in_braces = true;
        else if (c == '}')
            in_braces = false;
        else if (!target_is_word_byte(c) && (c != ',' || !in_braces))
            break;
    }
    return !in_braces;
}

/* Sets the number that the word is: false if it is none, or is too large. */
static bool
read_number(struct parser *p, struct target_node *node)
{
    const char *text;
    char *end;

    for (size_t i = 0; i < node->text.size; i++)
        if (!isdigit((unsigned char)node->text.at[i]) &&
            !strchr("+-.eE", node->text.at[i]))
            return false;
    text = scratch_copy(p->scratch, node->text.at, node->text.size);
    if (!text) {
        p->error = -ENOMEM;
        return false;
    }
    node->number = strtold(text, &end);
    if (end == text || *end != '\0')
        return false;
    errno = 0;
    node->whole = strtoll(text, &end, 10);
    node->is_whole = errno == 0 && *end == '\0';
    return isfinite((double)node->number);
}

static struct target_node *
parse_word(struct parser *p, const char *begin)
{
    const struct target_text word = {begin, (size_t)(p->at - begin)};
    const bool truth = word.size == 4 && strncasecmp(begin, "true", 4) == 0;
    struct target_node *node = add_node(p, TARGET_PATH);

    if (!node)
        return NULL;
    node->text = word;
    node->truth = truth;
    if (truth || (word.size == 5 && strncasecmp(begin, "false", 5) == 0))
        node->kind = TARGET_BOOL;
    if (read_number(p, node))
        node->kind = TARGET_NUMBER;
    if (p->error < 0)
        return NULL;
    return complete_node(p, node, begin);
}

/* ---- words that are paths, too -------------------------------------------- */

bool
target_read_path(struct target_node *node)
{
    const char *const last = node->text.at + node->text.size - 1;
    const char *dot;

    if (node->kind == TARGET_NUMBER) {
        dot = memchr(node->text.at, '.', node->text.size);
        if (dot && dot > node->text.at && dot < last)
            node->kind = TARGET_PATH;
    }
    return node->kind == TARGET_PATH || node->kind == TARGET_CALL;
}

bool
target_read_keyword_path(struct target_node *node)
{
    const char *const value = node->keyword.at + node->keyword.size + 1;

    if (node->kind == TARGET_CALL || node->kind == TARGET_STRING ||
        node->source.at != value || !memchr(value, '.', node->source.size))
        return false;
    node->kind = TARGET_PATH;
    node->source.size += node->keyword.size + 1;
    node->source.at = node->keyword.at;
    node->text = node->source;
    node->keyword.size = 0;
    return true;
}

/* ---- calls -------------------------------------------------------------- */

static struct target_node *parse_expression(struct parser *p, unsigned depth);

/* Passes over `name=` before an argument. */
static struct target_text
take_keyword(struct parser *p)
{
    struct target_text keyword = {p->at, 0};
    const size_t size = target_name_size(p->at, p->end);

    if (size > 0 && p->at + size < p->end && p->at[size] == '=') {
        keyword.size = size;
        p->at += size + 1;
    }
    return keyword;
}

static void
add_argument(struct target_node *call, struct target_node ***end,
             struct target_node *argument)
{
    argument->parent = call;
    **end = argument;
    *end = &argument->next;
    call->arg_count++;
    if (argument->height >= call->height)
        call->height = argument->height + 1;
}

/* Parses arguments and the closing parenthesis; `piped` is the first argument,
 * or NULL. */
static struct target_node *
parse_arguments(struct parser *p, struct target_text name,
                struct target_node *piped, unsigned depth)
{
    const char *const begin = piped ? piped->source.at : name.at;
    struct target_node *call = add_node(p, TARGET_CALL);
    struct target_node **end;

    if (!call)
        return NULL;
    call->text = name;
    end = &call->args;
    if (piped)
        add_argument(call, &end, piped);
    skip_blanks(p);
    while (!take_byte(p, ')')) {
        struct target_text keyword;
        struct target_node *argument;

        if (p->at == p->end)
            return fail_here(p, "a closing parenthesis is missing");
        if (call->arg_count > (piped ? 1 : 0) && !take_byte(p, ','))
            return fail_here(p, "a comma or a closing parenthesis is missing");
        skip_blanks(p);
        keyword = take_keyword(p);
        argument = parse_expression(p, depth + 1);
        if (!argument)
            return NULL;
        argument->keyword = keyword;
        add_argument(call, &end, argument);
    }
    if (call->height > TARGET_DEPTH_MAX)
        return fail_here(p, "more than 32 calls within each other");
    return complete_node(p, call, begin);
}

static struct target_node *
parse_primary(struct parser *p, unsigned depth)
{
    const char *begin;
    size_t size;

    skip_blanks(p);
    begin = p->at;
    if (depth > TARGET_DEPTH_MAX)
        return fail_here(p, "more than 32 calls within each other");
    if (p->at < p->end && (*p->at == '"' || *p->at == '\''))
        return parse_string(p);
    if (!pass_word(p))
        return fail_here(p, "a closing brace is missing");
    size = (size_t)(p->at - begin);
    if (size == 0)
        return fail_here(p, "a path or a function is missing");
    if (p->at < p->end && *p->at == '(' &&
        target_name_size(begin, p->at) == size) {
        p->at++;
        return parse_arguments(p, (struct target_text){begin, size}, NULL,
                               depth);
    }
    return parse_word(p, begin);
}

static struct target_node *
parse_expression(struct parser *p, unsigned depth)
{
    struct target_node *node = parse_primary(p, depth);

    while (node && take_byte(p, '|')) {
        struct target_text name;

        skip_blanks(p);
        name = (struct target_text){p->at, target_name_size(p->at, p->end)};
        p->at += name.size;
        if (name.size == 0 || p->at == p->end || *p->at != '(')
            return fail_here(p, "after | a function is missing");
        p->at++;
        node = parse_arguments(p, name, node, depth);
    }
    return node;
}

int
target_parse(struct scratch *scratch, const char *text, size_t size,
             struct target *out, char why[TARGET_WHY_SIZE])
{
    struct parser p = {.scratch = scratch,
                       .begin = text,
                       .at = text,
                       .end = text + size,
                       .target = out,
                       .why = why};

    *out = (struct target){.root = NULL};
    if (size > TARGET_SIZE_MAX) {
        (void)snprintf(why, TARGET_WHY_SIZE,
                       "target: at most %u bytes, not %zu", TARGET_SIZE_MAX,
                       size);
        return -EINVAL;
    }
    out->root = parse_expression(&p, 1);
    skip_blanks(&p);
    if (out->root && p.at < p.end)
        (void)fail_here(&p, "more after the end of the expression");
    return p.error;
}
