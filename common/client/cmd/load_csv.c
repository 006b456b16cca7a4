/* common/client/cmd/load_csv.c - see load.h: csv_take() joins lines while a
 * quote is open, then read_header() or read_row() cuts them into fields. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum csv_column column;
} names[] = {{"keyspace", CSV_KEYSPACE}, {"key", CSV_KEY}, {"n", CSV_N},
             {"count", CSV_N},           {"at", CSV_AT},   {"time", CSV_AT},
             {"-", CSV_NOTHING}};

/* ---- columns ------------------------------------------------------------- */

/* A text that begins with the name of a column. */
static const char *
refuse_column(struct csv *c, const char *name, size_t size, const char *what)
{
    (void)snprintf(c->why, sizeof c->why, "column %s %s",
                   cmd_text(name, size < CSV_SHOWN ? size : CSV_SHOWN), what);
    return c->why;
}

/* Adds what a column is by its name.  NULL, or what is wrong. */
static const char *
add_column(struct csv *c, const char *name, size_t size)
{
    const size_t count = sizeof names / sizeof names[0];
    size_t i = 0;

    while (i < count && (strlen(names[i].name) != size ||
                         memcmp(names[i].name, name, size) != 0))
        i++;
    if (i == count)
        return refuse_column(c, name, size,
                             "is none of keyspace, key, n, count, at and time; "
                             "give --columns, with - for one to pass over");
    if (c->count == CSV_COLUMNS_MAX)
        return "too many columns";
    for (unsigned j = 0; j < c->count; j++)
        if (names[i].column != CSV_NOTHING && c->columns[j] == names[i].column)
            return refuse_column(c, name, size, "is there twice");
    c->columns[c->count++] = names[i].column;
    return NULL;
}

static bool
has_column(const struct csv *c, enum csv_column column)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->columns[i] == column)
            return true;
    return false;
}

static const char *
check_columns(const struct csv *c)
{
    if (!has_column(c, CSV_KEY))
        return "no column is called key";
    if (c->keyspace.size == 0 && !has_column(c, CSV_KEYSPACE))
        return "no column is called keyspace; or give --keyspace";
    if (c->keyspace.size > 0 && has_column(c, CSV_KEYSPACE))
        return "a column is called keyspace, and --keyspace is given, too";
    return NULL;
}

const char *
csv_columns(struct csv *c, const char *text)
{
    const char *wrong = NULL;

    c->count = 0;
    while (!wrong && *text != '\0') {
        const size_t size = strcspn(text, ",");

        wrong = add_column(c, text, size);
        text += size + (text[size] == ',');
    }
    c->is_given = true;
    return wrong ? wrong : check_columns(c);
}

void
csv_begin(struct csv *c)
{
    c->size = 0;
    if (!c->is_given)
        c->count = 0;
}

/* ---- fields -------------------------------------------------------------- */

/* Cuts the next field off, without its quotes.  Returns 1; 0: there is none;
 * -EINVAL: a quote is where it cannot be; -ENODATA: one is open at the end of
 * what has come. */
static int
next_field(const struct csv *c, size_t *at, char *field, size_t *size)
{
    const bool quoted = *at < c->size && c->text[*at] == '"';
    size_t i = *at + quoted;

    *size = 0;
    if (*at > c->size)
        return 0;
    for (; i < c->size && (quoted || c->text[i] != ','); i++) {
        if (quoted && !c->raw && c->text[i] == '\\' && i + 1 < c->size) {
            if (c->text[i + 1] != '"')
                field[(*size)++] = '\\';
            i++;
        } else if (quoted && c->text[i] == '"') {
            if (i + 1 == c->size || c->text[i + 1] != '"')
                break;
            i++;
        } else if (!quoted && c->text[i] == '"') {
            return -EINVAL;
        }
        field[(*size)++] = c->text[i];
    }
    if (quoted && i++ >= c->size)
        return -ENODATA;
    if (i < c->size && c->text[i] != ',')
        return -EINVAL;
    *at = i + 1; /* behind the comma; beyond the end: it was the last */
    return 1;
}

static bool
is_open(const struct csv *c)
{
    char field[CSV_TEXT_MAX];
    size_t at = 0, size;
    int rc;

    while ((rc = next_field(c, &at, field, &size)) > 0)
        continue;
    return rc == -ENODATA;
}

static const char bad_quote[] = "a quote within a field; write it twice, and "
                                "quote the field";

static const char *
read_header(struct csv *c)
{
    char field[CSV_TEXT_MAX];
    const char *wrong = NULL;
    size_t at = 0, size;
    int rc;

    while (!wrong && (rc = next_field(c, &at, field, &size)) != 0)
        wrong = rc < 0 ? bad_quote : add_column(c, field, size);
    return wrong ? wrong : check_columns(c);
}

static const struct increment_fault *
take_field(enum csv_column column, const struct increment_form *form,
           const char *field, size_t size, struct increment *out)
{
    switch (column) {
    case CSV_KEYSPACE:
        return increment_name_read(form, field, size, form->keyspace_max,
                                   &out->keyspace);
    case CSV_KEY:
        return increment_name_read(form, field, size, form->key_max, &out->key);
    case CSV_N:
        return increment_count_read(field, size, &out->count);
    case CSV_AT:
        return size > 0 ? increment_time_read(form, field, size, &out->at)
                        : NULL;
    case CSV_NOTHING:
        break;
    }
    return NULL;
}

static const char *
read_row(const struct csv *c, const struct increment_form *form,
         struct increment *out)
{
    struct increment_form own = *form;
    char field[CSV_TEXT_MAX];
    size_t at = 0, size;
    unsigned n = 0;
    int rc;

    own.control = true; /* in quotes any byte may be */
    out->keyspace = c->keyspace;
    out->count = 1;
    out->at = form->at;
    while ((rc = next_field(c, &at, field, &size)) > 0) {
        const struct increment_fault *fault;

        if (n == c->count)
            return "more fields than columns";
        fault = take_field(c->columns[n++], &own, field, size, out);
        if (fault)
            return fault->text;
    }
    return rc < 0         ? bad_quote
           : n < c->count ? "fewer fields than columns"
                          : NULL;
}

enum csv_result
csv_take(struct csv *c, const struct increment_form *form, const char *text,
         size_t size, struct increment *out)
{
    const size_t begin = c->size > 0 ? c->size + 1 : 0; /* behind a line */

    c->wrong = NULL;
    if (begin + size > CSV_TEXT_MAX) {
        c->size = 0;
        c->wrong = "the line is too long";
        return CSV_BAD;
    }
    if (begin > 0)
        c->text[begin - 1] = '\n';
    memcpy(c->text + begin, text, size);
    c->size = begin + size;
    if (is_open(c))
        return CSV_MORE;
    if (c->count == 0) {
        c->wrong = read_header(c);
        c->size = 0;
        return c->wrong ? CSV_NO_COLUMNS : CSV_MORE;
    }
    c->wrong = read_row(c, form, out);
    c->size = 0;
    return c->wrong ? CSV_BAD : CSV_ROW;
}
