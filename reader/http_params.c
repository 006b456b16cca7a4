/* reader/http_params.c - see http_params.h: http_params_read() is at the end.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/http_params.h"
#include "common/wire/query.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/http_query.h"
#include "common/setup/config.h"
#include "common/setup/time_text.h"

#define VALUE_MAX (NAME_TEXT_SIZE - 1)
#define WAIT_MAX  60
#define YEAR_MS   ((uint64_t)366 * 86400000)
#define LAST_MS   ((uint64_t)UINT32_MAX * 60000) /* of what a store can keep */

struct value {
    const struct param *param;
    const void *has;  /* its own, or the command's */
    const char *name; /* as the query has it */
    const char *text; /* its bytes, with a NUL behind */
    size_t size;
    enum name_form names; /* of all names, but: */
    bool is_hex;          /* a name is in hexadecimal digits */
    uint64_t now_ms;
};

/* How the value of a parameter is read, and where it goes. */
struct param {
    const char *name;
    bool (*read)(const struct value *v, void *to, struct http_params_fault *f);
    size_t at;       /* offset in struct http_params; 0: nowhere */
    const void *has; /* struct bounds of a number, struct words; else NULL */
};

struct bounds {
    int64_t min, max;
};

/* Words in the order of their enum, up to NULL, and what is said of another
 * one. */
struct words {
    const char *code, *wrong;
    const char *const *words;
};

__attribute__((format(printf, 3, 4))) static bool
set_fault(struct http_params_fault *f, const char *code, const char *format,
          ...)
{
    va_list args;

    f->code = code;
    va_start(args, format);
    (void)vsnprintf(f->detail, sizeof f->detail, format, args); /* cut */
    va_end(args);
    return false;
}

/* ---- values ------------------------------------------------------------- */

static bool
read_name(const struct value *v, void *to, struct http_params_fault *f)
{
    const struct increment_form form = {
        .raw = name_form_is_raw(v->names, false), .control = true};
    const struct increment_fault *fault =
        v->is_hex
            ? increment_name_read_hex(v->text, v->size, NAME_MAX_SIZE, to)
            : increment_name_read(&form, v->text, v->size, NAME_MAX_SIZE, to);

    return !fault || set_fault(f, fault->code, "%s: %s", v->name, fault->text);
}

/* An empty one is none at all. */
static bool
read_part(const struct value *v, void *to, struct http_params_fault *f)
{
    ((struct increment_name *)to)->size = 0;
    return v->size == 0 || read_name(v, to, f);
}

static bool
read_group(const struct value *v, void *to, struct http_params_fault *f)
{
    struct increment_name name;

    if (!read_name(v, &name, f))
        return false;
    *(uint8_t *)to = name.bytes[0];
    return name.size == 1 ||
           set_fault(f, "bad-group", "group: one byte, which ends a group");
}

static bool
read_number(const struct value *v, void *to, struct http_params_fault *f)
{
    const struct bounds *b = v->has;
    int64_t *number = to;

    if (increment_number_parse(v->text, v->size, number) == 0 &&
        *number >= b->min && *number <= b->max)
        return true;
    return set_fault(f, "bad-number", "%s: %" PRId64 " to %" PRId64, v->name,
                     b->min, b->max);
}

static bool
read_time(const struct value *v, void *to, struct http_params_fault *f)
{
    char shown[NAME_SHOWN_SIZE];

    if (strlen(v->text) == v->size &&
        time_text_parse(v->text, v->now_ms, true, to) == 0)
        return true;
    return set_fault(f, "bad-time",
                     "%s: a time is 2026-11-20, 2026-11-20T14:30, -2h, now, or "
                     "Unix seconds, and this is none: %s",
                     v->name, name_show(v->text, v->size, shown));
}

static bool
read_step(const struct value *v, void *to, struct http_params_fault *f)
{
    uint64_t *step = to;

    if (strlen(v->text) == v->size && config_duration(v->text, step) == 0 &&
        *step > 0 && *step % 60000 == 0 && *step <= YEAR_MS)
        return true;
    return set_fault(f, "bad-duration",
                     "step: whole minutes, a year at most: 5m, 1h, 1d");
}

/* The index of the word among those of the parameter, if it goes anywhere. */
static bool
read_word(const struct value *v, void *to, struct http_params_fault *f)
{
    const struct words *w = v->has;

    for (unsigned i = 0; w->words[i]; i++) {
        if (!bytes_equal(v->text, v->size, w->words[i], strlen(w->words[i])))
            continue;
        if (v->param->at != 0)
            *(unsigned *)to = i;
        return true;
    }
    return set_fault(f, w->code, "%s", w->wrong);
}

/* As the ETag has it between its quotes: behind its two numbers it may have the
 * minutes of a period, of which the request has its own. */
static bool
read_version(const struct value *v, void *to, struct http_params_fault *f)
{
    uint64_t *version = to;
    char nonce[17], change[17];
    int size = 0, with_period = 0;

    (void)sscanf(v->text,
                 "%16[0123456789abcdef]-%16[0123456789abcdef]%n"
                 "-%*[0123456789]-%*[0123456789]%n",
                 nonce, change, &size, &with_period);
    if (size == 0 ||
        (v->size != (size_t)size && v->size != (size_t)with_period))
        return set_fault(
            f, "bad-version",
            "version: NONCE-CHANGE, as the ETag of an answer has it");
    version[0] = strtoull(nonce, NULL, 16);
    version[1] = strtoull(change, NULL, 16);
    return true;
}

static const struct bounds any = {-INT64_MAX, INT64_MAX},
                           moment = {0, INT64_MAX}, rows = {0, QUERY_ROWS_MAX},
                           wait = {0, WAIT_MAX};

#define WORDS(...)                                                             \
    (const char *const[])                                                      \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }
static const struct words formats = {"bad-format", "format: json, tsv or csv",
                                     table_format_names},
                          numbers = {"bad-numbers", "numbers: string",
                                     WORDS("string")},
                          forms = {"bad-names", "names: raw or text",
                                   WORDS("raw", "text")},
                          sorts = {"bad-sort",
                                   "sort: name, size, keys or total",
                                   WORDS("name", "size", "keys", "total")};

#define AT(field) offsetof(struct http_params, field)
static const struct param params[HTTP_PARAMS] = {
    [PARAM_KEYSPACE] = {"keyspace", read_name, AT(keyspace), NULL},
    [PARAM_KEY] = {"key", read_name, AT(keys), NULL},
    [PARAM_PREFIX] = {"prefix", read_part, AT(prefix), NULL},
    [PARAM_AFTER] = {"after", read_part, AT(after), NULL},
    [PARAM_N] = {"n", read_number, AT(n), NULL}, /* the command's bounds */
    [PARAM_OFFSET] = {"offset", read_number, AT(offset), &any},
    [PARAM_LENGTH] = {"length", read_number, AT(length), &rows},
    [PARAM_FROM] = {"from", read_time, AT(from_ms), NULL},
    [PARAM_TO] = {"to", read_time, AT(to_ms), NULL},
    [PARAM_STEP] = {"step", read_step, AT(step_ms), NULL},
    [PARAM_AS_OF] = {"as_of", read_number, AT(as_of_ms), &moment},
    [PARAM_WAIT] = {"wait", read_number, AT(wait_s), &wait},
    [PARAM_FORMAT] = {"format", read_word, AT(format), &formats},
    [PARAM_NUMBERS] = {"numbers", read_word, 0, &numbers},
    [PARAM_NAMES] = {"names", read_word, 0, &forms}, /* before all others */
    [PARAM_VERSION] = {"version", read_version, AT(version), NULL},
    [PARAM_SORT] = {"sort", read_word, AT(sort), &sorts},
    [PARAM_GROUP] = {"group", read_group, AT(group), NULL}};

/* ---- queries ------------------------------------------------------------ */

/* Whether this is the parameter's name; with *is_hex the one behind which
 * hexadecimal digits come. */
static bool
has_name(const struct param *param, const char *name, bool *is_hex)
{
    const size_t size = strlen(param->name);

    if (strncmp(name, param->name, size) != 0)
        return false;
    *is_hex = (param->read == read_name || param->read == read_part ||
               param->read == read_group) &&
              strcmp(name + size, "_hex") == 0;
    return *is_hex || name[size] == '\0';
}

/* HTTP_PARAMS: there is none of that name here. */
static enum http_param
find_param(const struct http_params_spec *spec, const char *name, bool *is_hex)
{
    for (unsigned i = 0; i < HTTP_PARAMS; i++)
        if ((spec->allowed & PARAM_BIT(i)) != 0 &&
            has_name(&params[i], name, is_hex))
            return (enum http_param)i;
    return HTTP_PARAMS;
}

/* The form of names that the query gives anywhere: it says how the names before
 * it are to be read, too. */
static enum name_form
find_name_form(struct http_text query)
{
    enum name_form form = NAMES_USUAL;
    char name[HTTP_QUERY_NAME_SIZE];
    uint8_t text[VALUE_MAX];
    size_t size;

    /* Nearly never. */
    if (query.size == 0 || (!memmem(query.at, query.size, "names", 5) &&
                            !memchr(query.at, '%', query.size)))
        return form;
    while (http_query_next(&query, name, text, VALUE_MAX, &size) > 0)
        if (strcmp(name, params[PARAM_NAMES].name) == 0) {
            (void)name_form_read(text, size, &form); /* else it is refused */
            break;
        }
    return form;
}

static bool
fail_name(struct http_params_fault *f, const char *name)
{
    char shown[NAME_SHOWN_SIZE];

    return set_fault(f, "unknown-parameter", "unknown parameter: %s",
                     name_show(name, strlen(name), shown));
}

static bool
check_all(const struct http_params *p, const struct http_params_spec *spec,
          struct http_params_fault *f)
{
    for (unsigned i = 0; i < HTTP_PARAMS; i++)
        if ((spec->required & PARAM_BIT(i) & ~p->given) != 0)
            return set_fault(f, "missing-parameter", "%s is missing",
                             params[i].name);
    if (p->sort != SORT_NAME && p->after.size > 0)
        return set_fault(f, "bad-sort",
                         "after: goes on in the order of names only");
    if (p->key_count > 0 && p->prefix.size > 0)
        return set_fault(f, "bad-prefix", "prefix: not beside a key");
    if ((spec->allowed & PARAM_BIT(PARAM_TO)) == 0)
        return true;
    if (p->to_ms <= p->from_ms)
        return set_fault(f, "bad-time", "the end is not after the start");
    return p->to_ms < LAST_MS ||
           set_fault(f, "bad-time", "to: there is no time so late");
}

bool
http_params_read(struct http_params *p, const struct http_params_spec *spec,
                 struct http_text query, uint64_t now_ms,
                 struct http_params_fault *f)
{
    const struct bounds n = {spec->n_min, spec->n_max};
    char name[HTTP_QUERY_NAME_SIZE], text[VALUE_MAX + 1];
    bool is_hex = false;
    size_t size;
    int rc;

    p->names = find_name_form(query);
    while ((rc = http_query_next(&query, name, (uint8_t *)text, VALUE_MAX,
                                 &size)) > 0) {
        const enum http_param which = find_param(spec, name, &is_hex);
        struct value v = {.name = name,
                          .text = text,
                          .size = size,
                          .names = p->names,
                          .is_hex = is_hex,
                          .now_ms = now_ms};
        uint8_t *to;

        text[size] = '\0';
        if (which == HTTP_PARAMS)
            return fail_name(f, name);
        v.param = &params[which];
        v.has = which == PARAM_N ? &n : v.param->has;
        to = (uint8_t *)p + v.param->at;
        if (which == PARAM_KEY && p->key_count == spec->keys_max)
            return set_fault(f, "too-many", "key: %zu at most in one request",
                             spec->keys_max);
        if (which == PARAM_KEY)
            to = (uint8_t *)&p->keys[p->key_count++];
        else if (http_params_has(p, which))
            return set_fault(f, "twice", "%s is there twice", name);
        p->given |= PARAM_BIT(which);
        if (!v.param->read(&v, to, f))
            return false;
    }
    if (rc == -ENAMETOOLONG && find_param(spec, name, &is_hex) == HTTP_PARAMS)
        return fail_name(f, name);
    if (rc == -ENAMETOOLONG)
        return set_fault(f, "bad-name", "%s: a name is longer than 256 bytes",
                         name);
    if (rc < 0)
        return set_fault(f, "bad-query",
                         "%% without two hexadecimal digits in the query");
    return check_all(p, spec, f);
}

/* ---- Accept ------------------------------------------------------------- */

bool
http_params_choose_format(const struct http_request *r,
                          enum table_format *format)
{
    static const struct {
        const char *names[3]; /* the most exact first */
        enum table_format format;
    } types[] = {
        {{"application/json", "application/*", "*/*"}, TABLE_JSON},
        {{"text/tab-separated-values", "text/*", "*/*"}, TABLE_TSV},
        {{"text/csv", "text/*", "*/*"}, TABLE_CSV},
    };
    int best = 0;

    *format = TABLE_JSON;
    if (r->accept.size == 0)
        return true;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        int weight = -1, exactness = 3;

        while (weight < 0 && exactness > 0)
            weight = http_weight(r, types[i].names[3 - exactness--]);
        if (weight > 0 && weight * 4 + exactness > best) {
            best = weight * 4 + exactness;
            *format = types[i].format;
        }
    }
    return best > 0;
}
