/* reader/graphite/functions_names.c - functions that name their series, and
 * what the others name theirs with; see functions_internal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reader/graphite/pattern.h"

int
functions_set_name(struct function_call *call, struct target_text *name,
                   const char *format, ...)
{
    va_list args;
    char *text;
    int size;

    va_start(args, format);
    size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    text = scratch_take(call->scratch, (size_t)size + 1);
    if (!text)
        return -ENOMEM;
    va_start(args, format);
    (void)vsnprintf(text, (size_t)size + 1, format, args);
    va_end(args);
    *name = (struct target_text){text, (size_t)size};
    return 0;
}

int
functions_wrap_name(struct function_call *call, struct series *s)
{
    return functions_set_name(call, &s->name, "%s(%.*s)", call->function->name,
                              (int)s->name.size, s->name.at);
}

int
functions_name_combined(struct function_call *call, const char *function,
                        bool all, struct target_text *name)
{
    const struct target_node *first = call->values[0];
    char *text;
    size_t size = strlen(function) + 2;

    for (const struct target_node *v = first; v; v = all ? v->next : NULL)
        size += v->source.size + 1;
    text = scratch_take(call->scratch, size + 1);
    if (!text)
        return -ENOMEM;
    name->at = text;
    text = stpcpy(stpcpy(text, function), "(");
    for (const struct target_node *v = first; v; v = all ? v->next : NULL) {
        if (v != first)
            *text++ = ',';
        memcpy(text, v->source.at, v->source.size);
        text += v->source.size;
    }
    *text++ = ')';
    name->size = (size_t)(text - name->at);
    return 0;
}

struct target_text
functions_path(const struct series *s)
{
    struct target_text path = s->path;
    size_t n = 0;

    while (n < path.size && path.at[n] != ',' && path.at[n] != ')') {
        if (path.at[n] == '(') {
            path.at += n + 1;
            path.size -= n + 1;
            n = 0;
        } else
            n++;
    }
    path.size = n;
    return path;
}

struct target_text
functions_node(struct target_text path, int64_t number)
{
    int64_t count = 1;
    const char *end = path.at + path.size, *dot;

    for (size_t i = 0; i < path.size; i++)
        count += path.at[i] == '.' ? 1 : 0;
    if (number < 0)
        number += count;
    if (number < 0 || number >= count)
        return (struct target_text){path.at, 0};
    for (; number > 0; number--)
        path.at =
            (const char *)memchr(path.at, '.', (size_t)(end - path.at)) + 1;
    dot = memchr(path.at, '.', (size_t)(end - path.at));
    path.size = (size_t)((dot ? dot : end) - path.at);
    return path;
}

int
functions_show_name(struct function_call *call, struct series *s,
                    struct target_text path)
{
    s->name = pattern_show(call->scratch, path);
    return s->name.at ? 0 : -ENOMEM;
}

int
functions_alias(struct function_call *call, struct series *s)
{
    s->name = call->values[1]->text;
    return 0;
}

int
functions_join_nodes(struct function_call *call, struct target_text path,
                     const struct target_node *first, struct target_text *out)
{
    char *text;
    size_t size = 0;

    for (const struct target_node *v = first; v; v = v->next)
        size += functions_node(path, v->whole).size + 1;
    text = scratch_take(call->scratch, size + 1);
    if (!text)
        return -ENOMEM;
    out->at = text;
    for (const struct target_node *v = first; v; v = v->next) {
        const struct target_text node = functions_node(path, v->whole);

        if (v != first)
            *text++ = '.';
        memcpy(text, node.at, node.size);
        text += node.size;
    }
    out->size = (size_t)(text - out->at);
    return 0;
}

int
functions_alias_by_node(struct function_call *call, struct series *s)
{
    struct target_text name;
    const int rc =
        functions_join_nodes(call, functions_path(s), call->values[1], &name);

    return rc < 0 ? rc : functions_show_name(call, s, name);
}

int
functions_alias_by_metric(struct function_call *call, struct series *s)
{
    return functions_show_name(call, s, functions_node(functions_path(s), -1));
}
