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

static const char *const names[HTTP_PARAMS] = {
    "keyspace", "key",     "prefix", "after",   "n",     "offset",
    "length",   "from",    "to",     "step",    "as_of", "wait",
    "format",   "numbers", "names",  "version", "sort",  "group"};

struct value {
    const char *name; /* of the parameter */
    const char *text; /* its bytes, with a NUL behind */
    size_t size;
    enum name_form names; /* of all names, but: */
    bool is_hex;          /* a name is in hexadecimal digits */
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
read_name(const struct value *v, struct increment_name *out,
          struct http_params_fault *f)
{
    const struct increment_form form = {.raw =
                                            name_form_is_raw(v->names, false),
                                        .control = true,
                                        .keyspace_max = NAME_MAX_SIZE,
                                        .key_max = NAME_MAX_SIZE};
    const struct increment_fault *fault =
        v->is_hex
            ? increment_name_read_hex(v->text, v->size, NAME_MAX_SIZE, out)
            : increment_name_read(&form, v->text, v->size, NAME_MAX_SIZE, out);

    return !fault || set_fault(f, fault->code, "%s: %s", v->name, fault->text);
}

/* An empty one is none at all. */
static bool
read_part(const struct value *v, struct increment_name *out,
          struct http_params_fault *f)
{
    out->size = 0;
    return v->size == 0 || read_name(v, out, f);
}

static bool
read_number(const struct value *v, int64_t min, int64_t max, int64_t *out,
            struct http_params_fault *f)
{
    if (increment_number_parse(v->text, v->size, out) == 0 && *out >= min &&
        *out <= max)
        return true;
    return set_fault(f, "bad-number", "%s: %" PRId64 " to %" PRId64, v->name,
                     min, max);
}

static bool
read_time(const struct value *v, uint64_t now_ms, uint64_t *out,
          struct http_params_fault *f)
{
    char shown[NAME_SHOWN_SIZE];

    if (strlen(v->text) == v->size &&
        time_text_parse(v->text, now_ms, true, out) == 0)
        return true;
    return set_fault(f, "bad-time",
                     "%s: a time is 2026-11-20, 2026-11-20T14:30, -2h, now, or "
                     "Unix seconds, and this is none: %s",
                     v->name, name_show(v->text, v->size, shown));
}

static bool
read_step(const struct value *v, uint64_t *out, struct http_params_fault *f)
{
    if (strlen(v->text) == v->size && config_duration(v->text, out) == 0 &&
        *out > 0 && *out % 60000 == 0 && *out <= YEAR_MS)
        return true;
    return set_fault(f, "bad-duration",
                     "step: whole minutes, a year at most: 5m, 1h, 1d");
}

/* The index of the word that the value is; -1: none of the `count`. */
static int
find_word(const struct value *v, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(v->text, words[i]) == 0)
            return i;
    return -1;
}

static bool
read_format(const struct value *v, enum table_format *out,
            struct http_params_fault *f)
{
    static const char *const formats[] = {"json", "tsv", "csv"};
    const int i = find_word(v, formats, 3);

    *out = i < 0 ? *out : (enum table_format)i;
    return i >= 0 || set_fault(f, "bad-format", "format: json, tsv or csv");
}

static bool
read_numbers(const struct value *v, bool *out, struct http_params_fault *f)
{
    *out = strcmp(v->text, "string") == 0;
    return *out || set_fault(f, "bad-numbers", "numbers: string");
}

/* What of an ETag follows its two numbers: the minutes of a period, of which
 * the request has its own. */
static size_t
span_minutes(const char *text)
{
    static const char digits[] = "0123456789";
    const size_t from = text[0] == '-' ? strspn(text + 1, digits) : 0;
    const size_t to =
        from > 0 && text[1 + from] == '-' ? strspn(text + 2 + from, digits) : 0;

    return to > 0 ? from + to + 2 : 0;
}

/* As the ETag has it between its quotes. */
static bool
read_version(const struct value *v, struct http_params *p,
             struct http_params_fault *f)
{
    static const char digits[] = "0123456789abcdef";
    const size_t nonce = strspn(v->text, digits);
    const size_t change =
        v->text[nonce] == '-' ? strspn(v->text + nonce + 1, digits) : 0;

    if (nonce == 0 || nonce > 16 || change == 0 || change > 16 ||
        nonce + 1 + change + span_minutes(v->text + nonce + 1 + change) !=
            v->size)
        return set_fault(
            f, "bad-version",
            "version: NONCE-CHANGE, as the ETag of an answer has it");
    p->nonce = strtoull(v->text, NULL, 16);
    p->change = strtoull(v->text + nonce + 1, NULL, 16);
    return true;
}

static bool
read_sort(const struct value *v, enum http_params_sort *out,
          struct http_params_fault *f)
{
    static const char *const words[] = {[SORT_NAME] = "name",
                                        [SORT_SIZE] = "size",
                                        [SORT_KEYS] = "keys",
                                        [SORT_TOTAL] = "total"};
    const int i = find_word(v, words, SORT_TOTAL + 1);

    *out = i < 0 ? *out : (enum http_params_sort)i;
    return i >= 0 ||
           set_fault(f, "bad-sort", "sort: name, size, keys or total");
}

static bool
read_group(const struct value *v, uint8_t *out, struct http_params_fault *f)
{
    struct increment_name name;

    if (!read_name(v, &name, f))
        return false;
    *out = name.bytes[0];
    return name.size == 1 ||
           set_fault(f, "bad-group", "group: one byte, which ends a group");
}

static bool
read_key(struct http_params *p, const struct http_params_spec *spec,
         const struct value *v, struct http_params_fault *f)
{
    if (p->key_count == spec->keys_max)
        return set_fault(f, "too-many", "key: %zu at most in one request",
                         spec->keys_max);
    return read_name(v, &p->keys[p->key_count++], f);
}

static bool
read_value(struct http_params *p, const struct http_params_spec *spec,
           enum http_param which, const struct value *v, uint64_t now_ms,
           struct http_params_fault *f)
{
    switch (which) {
    case PARAM_KEYSPACE:
        return read_name(v, &p->keyspace, f);
    case PARAM_KEY:
        return read_key(p, spec, v, f);
    case PARAM_PREFIX:
        return read_part(v, &p->prefix, f);
    case PARAM_AFTER:
        return read_part(v, &p->after, f);
    case PARAM_N:
        return read_number(v, spec->n_min, spec->n_max, &p->n, f);
    case PARAM_OFFSET:
        return read_number(v, -INT64_MAX, INT64_MAX, &p->offset, f);
    case PARAM_LENGTH:
        return read_number(v, 0, QUERY_ROWS_MAX, &p->length, f);
    case PARAM_FROM:
        return read_time(v, now_ms, &p->from_ms, f);
    case PARAM_TO:
        return read_time(v, now_ms, &p->to_ms, f);
    case PARAM_STEP:
        return read_step(v, &p->step_ms, f);
    case PARAM_AS_OF:
        return read_number(v, 0, INT64_MAX, &p->as_of_ms, f);
    case PARAM_WAIT:
        return read_number(v, 0, WAIT_MAX, &p->wait_s, f);
    case PARAM_FORMAT:
        return read_format(v, &p->format, f);
    case PARAM_NUMBERS:
        return read_numbers(v, &p->are_numbers_texts, f);
    case PARAM_NAMES: /* read before all others */
        return p->names != NAMES_USUAL ||
               set_fault(f, "bad-names", "names: raw or text");
    case PARAM_VERSION:
        return read_version(v, p, f);
    case PARAM_SORT:
        return read_sort(v, &p->sort, f);
    case PARAM_GROUP:
        return read_group(v, &p->group, f);
    case HTTP_PARAMS:
        break;
    }
    return false;
}

/* ---- queries ------------------------------------------------------------ */

static bool
is_name(enum http_param which)
{
    return which == PARAM_KEYSPACE || which == PARAM_KEY ||
           which == PARAM_PREFIX || which == PARAM_AFTER ||
           which == PARAM_GROUP;
}

/* Whether this is the parameter's name; with *is_hex the one behind which
 * hexadecimal digits come. */
static bool
has_name(enum http_param which, const char *name, bool *is_hex)
{
    const size_t size = strlen(names[which]);

    if (strncmp(name, names[which], size) != 0)
        return false;
    *is_hex = is_name(which) && strcmp(name + size, "_hex") == 0;
    return *is_hex || name[size] == '\0';
}

/* HTTP_PARAMS: there is none of that name here. */
static enum http_param
find_param(const struct http_params_spec *spec, const char *name, bool *is_hex)
{
    for (unsigned i = 0; i < HTTP_PARAMS; i++)
        if (((spec->allowed | PARAMS_COMMON) & PARAM_BIT(i)) != 0 &&
            has_name((enum http_param)i, name, is_hex))
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
        if (strcmp(name, names[PARAM_NAMES]) == 0) {
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
            return set_fault(f, "missing-parameter", "%s is missing", names[i]);
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
    char name[HTTP_QUERY_NAME_SIZE], text[VALUE_MAX + 1];
    bool is_hex = false;
    size_t size;
    int rc;

    p->names = find_name_form(query);
    while ((rc = http_query_next(&query, name, (uint8_t *)text, VALUE_MAX,
                                 &size)) > 0) {
        const enum http_param which = find_param(spec, name, &is_hex);
        const struct value v = {name, text, size, p->names, is_hex};

        text[size] = '\0';
        if (which == HTTP_PARAMS)
            return fail_name(f, name);
        if (http_params_has(p, which) && which != PARAM_KEY)
            return set_fault(f, "twice", "%s is there twice", name);
        p->given |= PARAM_BIT(which);
        if (!read_value(p, spec, which, &v, now_ms, f))
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
