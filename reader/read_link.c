/* reader/read_link.c - see read_link.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_link.h"

#include <assert.h>
#include <string.h>

#include "reader/text_put.h"

static bool
is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

/* The name as the request has names, each byte that is not plain as %HH. */
static char *
put_name(char *at, const struct http_params *p, const char *parameter,
         const struct increment_name *value)
{
    static const char digits[] = "0123456789ABCDEF";
    char text[NAME_TEXT_SIZE];
    size_t size = value->size;

    if (name_form_is_raw(p->names, false))
        memcpy(text, value->bytes, size);
    else
        size = name_escape(value->bytes, size, text);
    at = text_put(at, parameter);
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = (uint8_t)text[i];
        const char encoded[] = {'%', digits[byte >> 4], digits[byte & 15], 0};

        if (is_unreserved(text[i]))
            *at++ = text[i];
        else
            at = text_put(at, encoded);
    }
    return at;
}

static char *
put_number(char *at, const char *parameter, int64_t number)
{
    return text_put_number(text_put(at, parameter), (uint64_t)number, 10);
}

/* What the request said about the form of its answer, and its version. */
static char *
put_form(char *at, const struct http_params *p)
{
    if (http_params_has(p, PARAM_FORMAT))
        at = text_put(text_put(at, "&format="), table_format_names[p->format]);
    if (http_params_has(p, PARAM_NUMBERS))
        at = text_put(at, "&numbers=string");
    if (p->names != NAMES_USUAL)
        at = text_put(at, p->names == NAMES_RAW ? "&names=raw" : "&names=text");
    if (!http_params_has(p, PARAM_VERSION))
        return at;
    at = text_put_number(text_put(at, "&version="), p->version[0], 16);
    return text_put_number(text_put(at, "-"), p->version[1], 16);
}

void
read_link_put(const char *path, const struct http_params *p,
              const struct read_page *next, char *to)
{
    char *const query = text_put(text_put(to, "Link: <"), path);
    char *at = query;

    if (p->keyspace.size > 0)
        at = put_name(at, p, "&keyspace=", &p->keyspace);
    if (p->prefix.size > 0)
        at = put_name(at, p, "&prefix=", &p->prefix);
    if (next->has_offset) {
        at = put_number(at, "&offset=", next->offset);
        at = put_number(at, "&length=", p->length);
    } else {
        at = put_name(at, p, "&after=", &next->after);
        at = put_number(at, "&n=", p->n);
    }
    at = text_put(put_form(at, p), ">; rel=\"next\"\r\n");
    *query = '?';
    assert(at < to + READ_LINK_MAX);
}
