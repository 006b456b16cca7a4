/* common/client/cmd/load_line.c - see load_line.h. */
#include "common/client/cmd/load_line.h"

#include <errno.h>
#include <string.h>

#include "common/client/cmd/lines.h"

/* Cuts the field up to the next tab off; false when there is none left. */
static bool
cut_field(const char **text, size_t *left, const char **field, size_t *size)
{
    const char *tab;

    if (*text == NULL)
        return false;
    tab = memchr(*text, '\t', *left);
    *field = *text;
    *size = tab ? (size_t)(tab - *text) : *left;
    *left -= tab ? *size + 1 : *size;
    *text = tab ? tab + 1 : NULL;
    return true;
}

/* Programs' output and compressed files are no text. */
static bool
has_control(const char *field, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)field[i] < 0x20 || field[i] == 0x7f)
            return true;
    return false;
}

/* The largest size up to `max` that cuts no character of UTF-8 in two. */
static size_t
cut_size(const uint8_t *bytes, size_t max)
{
    size_t size = max;

    while (size > 0 && max - size < 3 && (bytes[size] & 0xc0) == 0x80)
        size--;
    return (bytes[size] & 0xc0) == 0x80 ? max : size;
}

/* Into at most LINES_SIZE_MAX bytes; as name_unescape(). */
static int
take_bytes(const struct load_line_form *form, const char *field, size_t size,
           uint8_t *bytes)
{
    if (!form->raw)
        return name_unescape(field, size, bytes, LINES_SIZE_MAX);
    memcpy(bytes, field, size);
    return memchr(field, '\0', size) ? -EINVAL : (int)size;
}

static const char *
read_name(const struct load_line_form *form, const char *field, size_t size,
          size_t max, struct cmd_name *out)
{
    uint8_t bytes[LINES_SIZE_MAX];
    int rc;

    if (!form->raw && has_control(field, size))
        return "a control character in a name; write it as \\xHH";
    rc = take_bytes(form, field, size, bytes);
    if (rc == 0)
        return "an empty name";
    if (rc < 0)
        return form->raw ? "a zero byte in a name"
                         : "a bad escape; use \\t \\n \\r \\\\ and \\xHH";
    out->size = (size_t)rc;
    if (out->size > max && !form->cut)
        return max < NAME_MAX_SIZE ? "a name longer than the server's message "
                                     "has room for"
                                   : "a name of more than 256 bytes";
    if (out->size > max)
        out->size = cut_size(bytes, max);
    memcpy(out->bytes, bytes, out->size);
    return NULL;
}

static const char *
read_number(const char *field, size_t size, int64_t *out)
{
    switch (cmd_parse_number(field, size, out)) {
    case 0:
        return NULL;
    case -ERANGE:
        return "the increment does not fit 64 bits";
    default:
        return "the increment is not a whole number";
    }
}

/* RANK TAB COUNT TAB KEY. */
static const char *
read_row(const struct load_line_form *form, const char *text, size_t left,
         struct load_line *out)
{
    static const char form_is[] = "with -k give RANK TAB COUNT TAB KEY, as "
                                  "countd range --tsv prints them";
    const char *field, *why;
    int64_t rank;
    size_t size;

    if (!cut_field(&text, &left, &field, &size) ||
        cmd_parse_number(field, size, &rank) < 0 ||
        !cut_field(&text, &left, &field, &size))
        return form_is;
    why = read_number(field, size, &out->increment);
    if (why != NULL)
        return why;
    if (!cut_field(&text, &left, &field, &size) || text != NULL)
        return form_is;
    out->keyspace = *form->keyspace;
    return read_name(form, field, size, form->key_max, &out->key);
}

const char *
load_line_read(const struct load_line_form *form, const char *text, size_t size,
               struct load_line *out)
{
    const char *field, *why;
    size_t left = size;

    if (form->keyspace != NULL)
        return read_row(form, text, left, out);
    if (!cut_field(&text, &left, &field, &size))
        return "an empty line";
    why = read_name(form, field, size, form->keyspace_max, &out->keyspace);
    if (why != NULL)
        return why;
    if (!cut_field(&text, &left, &field, &size))
        return "no tab; give KEYSPACE TAB KEY TAB INCREMENT";
    why = read_name(form, field, size, form->key_max, &out->key);
    if (why != NULL)
        return why;
    out->increment = 1;
    if (!cut_field(&text, &left, &field, &size))
        return NULL;
    why = read_number(field, size, &out->increment);
    if (why != NULL)
        return why;
    return text == NULL ? NULL : "more than three columns";
}
