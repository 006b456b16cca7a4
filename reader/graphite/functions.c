/* reader/graphite/functions.c - see functions.h: calls and their arguments, and
 * what /functions says.
 *
 * Entry points: functions_bind(), functions_step(), functions_describe(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/name.h"
#include "reader/graphite/moment.h"

/* As /functions has them, and what an argument of another type is not. */
static const struct {
    const char *name, *wanted;
} types[] = {
    [FUNCTION_SERIES] = {"seriesList", "a path or a call of a function"},
    [FUNCTION_DIVISOR] = {"seriesList", "a path or a call of a function"},
    [FUNCTION_TOTAL] = {"any", "a number, a path or a call of a function"},
    [FUNCTION_STRING] = {"string", "a string in quotes"},
    [FUNCTION_NODE] = {"node", "the number of a node"},
    [FUNCTION_COUNT] = {"integer", "an integer of at least 0"},
    [FUNCTION_NUMBER] = {"float", "a number"},
    [FUNCTION_INTERVAL] = {"interval",
                           "an interval such as \"5min\" or \"1h\""},
    [FUNCTION_SHIFT] = {"interval", "an interval such as \"1d\" or \"+1h\""},
    [FUNCTION_WINDOW] = {"intOrInterval",
                         "a number of points, or an interval such as \"5min\""},
    [FUNCTION_AGGREGATE] = {"aggFunc", "a word in quotes, such as \"sum\""},
    [FUNCTION_BOOL] = {"boolean", "true or false"}};

#define NODES_MAX 512 /* a path has fewer nodes */

/* ---- finding ------------------------------------------------------------ */

int
functions_refuse(struct function_call *call, const char *format, ...)
{
    const int size =
        snprintf(call->why, TARGET_WHY_SIZE, "%s: ", call->function->name);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(call->why + size, TARGET_WHY_SIZE - (size_t)size, format,
                    args); /* cut, if ever */
    va_end(args);
    return -EINVAL;
}

static const struct function *
find_function(struct target_text name)
{
    for (size_t i = 0; i < functions_count; i++) {
        const struct function *f = &functions_table[i];

        if (target_text_is(name, f->name) ||
            (f->synonym && target_text_is(name, f->synonym)))
            return f;
    }
    return NULL;
}

bool
functions_is(const struct target_node *node, const char *name)
{
    return node->kind == TARGET_CALL && node->result &&
           strcmp(functions_call(node)->function->name, name) == 0;
}

/* ---- arguments ---------------------------------------------------------- */

static bool
is_option(const struct function_param *p, struct target_text text)
{
    for (const char *const *o = p->options; *o; o++)
        if (target_text_is(text, *o))
            return true;
    return false;
}

/* Reads how long ago: 1d and -1d are one day, +1d is a day ahead. */
static bool
read_shift(struct target_text text, int64_t *out)
{
    const bool is_ahead = text.size > 0 && text.at[0] == '+';

    if (is_ahead || (text.size > 0 && text.at[0] == '-')) {
        text.at++;
        text.size--;
    }
    if (moment_interval(text.at, text.size, out) < 0)
        return false;
    *out = is_ahead ? -*out : *out;
    return true;
}

/* Whether an argument is what a parameter takes. */
static bool
is_taken(const struct function_param *p, struct target_node *v,
         struct function_call *call)
{
    const bool is_integer = v->kind == TARGET_NUMBER && v->is_whole;

    switch (p->type) {
    case FUNCTION_SERIES:
    case FUNCTION_DIVISOR:
        return target_read_path(v);
    case FUNCTION_TOTAL:
        return v->kind == TARGET_NUMBER || target_read_path(v);
    case FUNCTION_STRING:
        return v->kind == TARGET_STRING;
    case FUNCTION_NODE:
        return is_integer && v->whole <= NODES_MAX && v->whole >= -NODES_MAX;
    case FUNCTION_COUNT:
        return is_integer && v->whole >= 0;
    case FUNCTION_NUMBER:
        return v->kind == TARGET_NUMBER;
    case FUNCTION_INTERVAL:
        return v->kind == TARGET_STRING &&
               moment_interval(v->text.at, v->text.size, &call->interval) == 0;
    case FUNCTION_SHIFT:
        return v->kind == TARGET_STRING && read_shift(v->text, &call->interval);
    case FUNCTION_WINDOW:
        return (is_integer && v->whole >= 1 &&
                v->whole <= FUNCTIONS_WINDOW_MAX) ||
               (v->kind == TARGET_STRING &&
                moment_interval(v->text.at, v->text.size, &call->interval) ==
                    0);
    case FUNCTION_AGGREGATE:
        return v->kind == TARGET_STRING && is_option(p, v->text);
    case FUNCTION_BOOL:
        return v->kind == TARGET_BOOL;
    }
    return false;
}

/* The parameter that an argument is for, by its keyword or its place: its
 * number, or -EINVAL. */
static int
find_param(struct function_call *call, struct target_node *v, unsigned place)
{
    const struct function_param *const *params = call->function->params;
    char shown[NAME_SHOWN_SIZE];
    unsigned i;

    for (i = 0; params[i] && !target_text_is(v->keyword, params[i]->name);)
        i++;
    if (params[i])
        return (int)i;
    /* A keyword that there is none of may be the beginning of a path. */
    if (v->keyword.size > 0 && !target_read_keyword_path(v))
        return functions_refuse(
            call, "there is no parameter %s",
            name_show(v->keyword.at, v->keyword.size, shown));
    if (place < i)
        return (int)place;
    return params[i - 1]->is_multiple
               ? (int)i - 1
               : functions_refuse(call, "at most %u arguments", i);
}

static int
bind_argument(struct function_call *call, struct target_node *v, unsigned place)
{
    const int i = find_param(call, v, place);
    const struct function_param *p;

    if (i < 0)
        return i;
    p = call->function->params[i];
    if (!is_taken(p, v, call))
        return functions_refuse(call, "%s is %s", p->name,
                                p->type == FUNCTION_AGGREGATE &&
                                        v->kind == TARGET_STRING
                                    ? "a value that /functions lists"
                                    : types[p->type].wanted);
    if (call->values[i] && !p->is_multiple)
        return functions_refuse(call, "%s is there twice", p->name);
    if (!call->values[i])
        call->values[i] = v;
    return 0;
}

int
functions_bind(struct scratch *scratch, struct target_node *node,
               char why[TARGET_WHY_SIZE])
{
    const struct function *f = find_function(node->text);
    struct function_call *call;
    char shown[NAME_SHOWN_SIZE];
    unsigned place = 0;
    int rc = 0;

    if (!f) {
        (void)snprintf(why, TARGET_WHY_SIZE, "%s%s",
                       target_text_is(node->text, "seriesByTag")
                           ? "countd has no tags: "
                           : "unknown function: ",
                       name_show(node->text.at, node->text.size, shown));
        return -EINVAL;
    }
    call = scratch_take(scratch, sizeof *call);
    if (!call)
        return -ENOMEM;
    call->function = f;
    call->scratch = scratch;
    call->why = why;
    node->result = call;
    for (struct target_node *v = node->args; v && rc == 0; v = v->next)
        rc = bind_argument(call, v, place++);
    for (unsigned i = 0; f->params[i] && rc == 0; i++)
        if (!call->values[i] && !f->params[i]->is_optional)
            rc = functions_refuse(call, "%s is missing", f->params[i]->name);
    return rc == 0 && f->check ? f->check(call) : rc;
}

/* ---- computing ---------------------------------------------------------- */

/* The series of an argument that the function is about; NULL: it has none. */
static const struct series_list *
series_of(const struct function_call *call, const struct target_node *v)
{
    const struct function_param *second = call->function->params[1];

    if (v->kind != TARGET_CALL && v->kind != TARGET_PATH)
        return NULL;
    return v == call->values[1] && (second->type == FUNCTION_DIVISOR ||
                                    second->type == FUNCTION_TOTAL)
               ? NULL
               : v->result;
}

/* Lists the series of all arguments, in their order. */
static int
list_series(struct function_call *call, const struct target_node *args)
{
    struct series_list *list = &call->list;
    size_t count = list->count; /* read for it: of topKeys */
    const struct series_list *from;

    for (const struct target_node *v = args; v; v = v->next)
        if ((from = series_of(call, v)) != NULL)
            count += from->count;
    if (count == list->count)
        return 0;
    list->items = scratch_take(call->scratch, count * sizeof(struct series *));
    if (!list->items)
        return -ENOMEM;
    for (const struct target_node *v = args; v; v = v->next) {
        from = series_of(call, v);
        for (size_t i = 0; from && i < from->count; i++)
            list->items[list->count++] = from->items[i];
    }
    return 0;
}

int
functions_step(struct target_node *node, const struct function_times *times)
{
    struct function_call *call = functions_call(node);
    const struct function *f = call->function;
    function_each *each = call->is_finished ? f->again : f->each;

    if (!call->has_begun) {
        call->has_begun = true;
        call->times = *times;
        return list_series(call, node->args);
    }
    if (each && call->at < call->list.count)
        return each(call, call->list.items[call->at++]);
    if (call->is_finished)
        return 1;
    call->is_finished = true;
    call->at = 0;
    if (call->made.items)
        call->list = call->made;
    return f->finish ? f->finish(call) : 0;
}

/* ---- /functions --------------------------------------------------------- */

/* The value of an argument that is not given. */
static void
describe_default(struct json_writer *w, const struct function_param *p)
{
    if (p->type == FUNCTION_TOTAL)
        return;
    json_member(w, "default");
    if (p->type == FUNCTION_COUNT || p->type == FUNCTION_NUMBER)
        json_integer(w, p->fallback);
    else if (p->type == FUNCTION_BOOL)
        json_literal(w, p->fallback != 0 ? "true" : "false");
    else
        json_text(w, p->options[0]);
}

static void
put_text(struct json_writer *w, const char *name, const char *value)
{
    json_member(w, name);
    json_text(w, value);
}

static void
put_true(struct json_writer *w, const char *name)
{
    json_member(w, name);
    json_literal(w, "true");
}

static void
describe_param(struct json_writer *w, const struct function_param *p)
{
    json_begin(w, '{');
    put_text(w, "name", p->name);
    put_text(w, "type", types[p->type].name);
    if (!p->is_optional)
        put_true(w, "required");
    else
        describe_default(w, p);
    if (p->is_multiple)
        put_true(w, "multiple");
    if (p->options) {
        json_member(w, "options");
        json_begin(w, '[');
        for (const char *const *o = p->options; *o; o++)
            json_text(w, *o);
        json_end(w, ']');
    }
    json_end(w, '}');
}

static void
describe_function(struct json_writer *w, const char *name,
                  const struct function *f)
{
    char text[256];
    size_t size = (size_t)snprintf(text, sizeof text, "%s(", name);

    for (unsigned i = 0; f->params[i]; i++)
        size += (size_t)snprintf(
            text + size, sizeof text - size, "%s%s%s", i > 0 ? ", " : "",
            f->params[i]->is_multiple ? "*" : "", f->params[i]->name);
    (void)snprintf(text + size, sizeof text - size, ")"); /* short names fit */
    json_member(w, name);
    json_begin(w, '{');
    put_text(w, "name", name);
    put_text(w, "function", text);
    put_text(w, "description", f->description);
    put_text(w, "module", "graphite.render.functions");
    put_text(w, "group", f->group);
    json_member(w, "params");
    json_begin(w, '[');
    for (unsigned i = 0; f->params[i]; i++)
        describe_param(w, f->params[i]);
    json_end(w, ']');
    json_end(w, '}');
}

void
functions_describe(struct json_writer *w)
{
    json_begin(w, '{');
    for (size_t i = 0; i < functions_count; i++) {
        const struct function *f = &functions_table[i];

        describe_function(w, f->name, f);
        if (f->synonym)
            describe_function(w, f->synonym, f);
    }
    json_end(w, '}');
}
