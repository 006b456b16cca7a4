/* reader/graphite/functions_names.c - functions that name their series, and
 * what the others name theirs with; see functions_internal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reader/graphite/pattern.h"

#define NAME_SIZE_MAX 131072

void
functions_append(struct function_text *t, const char *bytes, size_t size)
{
    if (t->rc == 0 && size > NAME_SIZE_MAX - t->size)
        t->rc = functions_refuse(t->call, "a name of more than 131072 bytes");
    if (t->rc == 0 && (!t->at || size > t->capacity - t->size)) {
        const size_t capacity = 2 * (t->size + size) + 64;
        char *larger = scratch_take(t->call->scratch, capacity);

        t->rc = larger ? 0 : -ENOMEM;
        if (larger && t->at)
            memcpy(larger, t->at, t->size);
        t->at = larger;
        t->capacity = capacity;
    }
    if (t->rc < 0)
        return;
    (void)bytes_append((uint8_t *)t->at + t->size, bytes, size);
    t->size += size;
}

int
functions_name_call(struct function_call *call, struct series *s,
                    const char *format, ...)
{
    const char *function = call->function->name;
    struct function_text t = {.call = call};
    va_list args;
    char *more;
    int size;

    va_start(args, format);
    size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    more = scratch_take(call->scratch, (size_t)size + 1);
    if (!more)
        return -ENOMEM;
    va_start(args, format);
    (void)vsnprintf(more, (size_t)size + 1, format, args);
    va_end(args);
    functions_append(&t, function, strlen(function));
    functions_append(&t, "(", 1);
    functions_append(&t, s->name.at, s->name.size);
    functions_append(&t, more, (size_t)size);
    functions_append(&t, ")", 1);
    s->name = (struct target_text){t.at, t.size};
    return t.rc;
}

int
functions_wrap_name(struct function_call *call, struct series *s)
{
    return functions_name_call(call, s, "%s", "");
}

int
functions_name_combined(struct function_call *call, const char *function,
                        bool all, struct target_text *name)
{
    const struct target_node *first = call->values[0];
    struct function_text t = {.call = call};

    functions_append(&t, function, strlen(function));
    for (const struct target_node *v = first; v; v = all ? v->next : NULL) {
        functions_append(&t, v == first ? "(" : ",", 1);
        functions_append(&t, v->source.at, v->source.size);
    }
    functions_append(&t, ")", 1);
    *name = (struct target_text){t.at, t.size};
    return t.rc;
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
    struct function_text t = {.call = call};

    for (const struct target_node *v = first; v && v->kind == TARGET_NUMBER;
         v = v->next) {
        const struct target_text node = functions_node(path, v->whole);

        functions_append(&t, ".", v != first ? 1 : 0);
        functions_append(&t, node.at, node.size);
    }
    *out = (struct target_text){t.at, t.size};
    return t.rc;
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
