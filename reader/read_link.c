/* reader/read_link.c - see read_link.h. */
#include "reader/read_link.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct link_text {
    char *at, *end;
    char separator; /* before the next parameter */
};

static void
put_text(struct link_text *l, const char *text)
{
    const size_t size = strlen(text);

    assert((size_t)(l->end - l->at) > size);
    memcpy(l->at, text, size + 1);
    l->at += size;
}

static void
begin_parameter(struct link_text *l, const char *name)
{
    const char text[] = {l->separator, '\0'};

    put_text(l, text);
    put_text(l, name);
    put_text(l, "=");
    l->separator = '&';
}

static void
put_word(struct link_text *l, const char *name, const char *value)
{
    begin_parameter(l, name);
    put_text(l, value);
}

static void
put_number(struct link_text *l, const char *name, int64_t number)
{
    char digits[24];

    (void)snprintf(digits, sizeof digits, "%" PRId64, number);
    put_word(l, name, digits);
}

static bool
is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

/* The name as the request gives names, each byte that is not plain as %HH. */
static void
put_name(struct link_text *l, const struct http_params *p, const char *name,
         const struct increment_name *value)
{
    char text[NAME_TEXT_SIZE], encoded[4];
    size_t size = value->size;

    if (p->are_names_raw)
        memcpy(text, value->bytes, size);
    else
        size = name_escape(value->bytes, size, text);
    begin_parameter(l, name);
    for (size_t i = 0; i < size; i++) {
        if (is_unreserved(text[i]))
            (void)snprintf(encoded, sizeof encoded, "%c", text[i]);
        else
            (void)snprintf(encoded, sizeof encoded, "%%%02X",
                           (unsigned)(uint8_t)text[i]);
        put_text(l, encoded);
    }
}

/* What the request said about the form of its answer, and its version. */
static void
put_form(struct link_text *l, const struct http_params *p)
{
    static const char *const formats[] = {
        [TABLE_JSON] = "json", [TABLE_TSV] = "tsv", [TABLE_CSV] = "csv"};
    char version[40];

    if (http_params_has(p, PARAM_FORMAT))
        put_word(l, "format", formats[p->format]);
    if (p->are_numbers_texts)
        put_word(l, "numbers", "string");
    if (p->are_names_raw)
        put_word(l, "names", "raw");
    if (!http_params_has(p, PARAM_VERSION))
        return;
    (void)snprintf(version, sizeof version, "%" PRIx64 "-%" PRIx64, p->nonce,
                   p->change);
    put_word(l, "version", version);
}

void
read_link_put(const char *path, const struct http_params *p,
              const struct read_page *next, char *to)
{
    struct link_text l = {to, to + READ_LINK_MAX, '?'};

    put_text(&l, "Link: <");
    put_text(&l, path);
    if (p->keyspace.size > 0)
        put_name(&l, p, "keyspace", &p->keyspace);
    if (p->prefix.size > 0)
        put_name(&l, p, "prefix", &p->prefix);
    if (next->has_offset) {
        put_number(&l, "offset", next->offset);
        put_number(&l, "length", p->length);
    } else {
        put_name(&l, p, "after", &next->after);
        put_number(&l, "n", p->n);
    }
    put_form(&l, p);
    put_text(&l, ">; rel=\"next\"\r\n");
}
