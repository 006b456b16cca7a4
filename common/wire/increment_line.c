/* common/wire/increment_line.c - see increment_line.h: increment_line_read()
 * reads a line by increment_name_read() and increment_number_parse(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/increment_line.h"

#include <errno.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/wire/event_time.h"

#define SMALL_VALUE (UINT64_MAX / 40) /* times 10, and a digit: below 2^63 */

static const struct increment_fault
    control = {"bad-name", "a control character in a name; write it as \\xHH"},
    empty_name = {"bad-name", "an empty name"},
    zero_byte = {"bad-name", "a zero byte in a name"},
    bad_escape = {"bad-escape",
                  "a bad escape; use \\t \\n \\r \\\\ and \\xHH but \\x00"},
    bad_hex = {"bad-hex", "two hexadecimal digits for each byte"},
    too_long = {"bad-name", "a name is longer than 256 bytes"},
    too_long_here = {"bad-name", "a name is longer than message.keyspace_size "
                                 "or message.key_size"},
    too_large = {"bad-number", "the increment does not fit 64 bits"},
    no_number = {"bad-number", "the increment is not a whole number"},
    empty_line = {"bad-line", "an empty line"},
    no_tab = {"bad-line", "no tab; give KEYSPACE TAB KEY TAB INCREMENT"},
    bad_time = {"bad-time", "not a time: Unix seconds or milliseconds, "
                            "2024-03-01 or 2024-03-01T10:00Z"},
    too_old = {"old", "a time before 1970-01-01T00:01Z"},
    too_new = {"future", "a time more than a day ahead of the clock"},
    too_many = {"bad-line", "more than four columns"};

/* Cuts the field up to the next tab off; false when there is none left, and
 * *text is NULL then. */
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

/* As name_unescape(). */
static int
read_bytes(const struct increment_form *form, const char *field, size_t size,
           uint8_t bytes[NAME_MAX_SIZE])
{
    if (!form->raw)
        return name_unescape(field, size, bytes, NAME_MAX_SIZE);
    if (size > NAME_MAX_SIZE)
        return -ENAMETOOLONG;
    memcpy(bytes, field, size);
    return (int)size;
}

size_t
increment_text_begin(const void *text, size_t size)
{
    return size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

const struct increment_fault *
increment_name_read(const struct increment_form *form, const char *field,
                    size_t size, size_t max, struct increment_name *out)
{
    int rc;

    if (size > 0 && memchr(field, '\0', size))
        return &zero_byte;
    if (!form->raw && !form->control && has_control(field, size))
        return &control;
    rc = read_bytes(form, field, size, out->bytes);
    if (rc == 0)
        return &empty_name;
    if (rc == -ENAMETOOLONG)
        return &too_long;
    if (rc < 0)
        return &bad_escape;
    out->size = (size_t)rc;
    return out->size > max ? &too_long_here : NULL;
}

const struct increment_fault *
increment_name_read_hex(const char *field, size_t size, size_t max,
                        struct increment_name *out)
{
    static const struct increment_form raw = {.raw = true};
    char bytes[NAME_MAX_SIZE];

    if (size > 2 * sizeof bytes)
        return &too_long;
    if (size % 2 != 0 || !hex_get_any(field, bytes, size / 2))
        return &bad_hex;
    return increment_name_read(&raw, bytes, size / 2, max, out);
}

int
increment_number_parse(const char *text, size_t size, int64_t *out)
{
    const bool minus = size > 0 && text[0] == '-';
    const uint64_t limit = minus ? (uint64_t)1 << 63 : INT64_MAX;
    size_t i = size > 0 && (minus || text[0] == '+');
    uint64_t value = 0;

    if (i == size)
        return -EINVAL;
    for (; i < size; i++) {
        const uint64_t digit = (uint64_t)text[i] - '0';

        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        if (value > SMALL_VALUE && value > (limit - digit) / 10)
            return -ERANGE;
        value = value * 10 + digit;
    }
    /* Negating the unsigned value is defined for INT64_MIN too. */
    *out = (int64_t)(minus ? 0 - value : value);
    return 0;
}

const struct increment_fault *
increment_count_read(const char *field, size_t size, int64_t *out)
{
    const int rc = increment_number_parse(field, size, out);

    return rc == 0 ? NULL : rc == -ERANGE ? &too_large : &no_number;
}

const struct increment_fault *
increment_time_read(const struct increment_form *form, const char *field,
                    size_t size, int64_t *at)
{
    if (event_time_parse(field, size, at) < 0)
        return &bad_time;
    if (*at < EVENT_TIME_MIN)
        return &too_old;
    return *at > form->latest ? &too_new : NULL;
}

const struct increment_fault *
increment_line_read(const struct increment_form *form, const char *text,
                    size_t size, struct increment *out)
{
    const struct increment_fault *fault;
    const char *field;
    size_t left = size;

    if (size == 0 || !cut_field(&text, &left, &field, &size))
        return &empty_line;
    fault = increment_name_read(form, field, size, form->keyspace_max,
                                &out->keyspace);
    if (fault)
        return fault;
    if (!cut_field(&text, &left, &field, &size))
        return &no_tab;
    fault = increment_name_read(form, field, size, form->key_max, &out->key);
    if (fault)
        return fault;
    out->count = 1;
    out->at = form->at;
    if (!cut_field(&text, &left, &field, &size))
        return NULL;
    fault = increment_count_read(field, size, &out->count);
    if (fault || !cut_field(&text, &left, &field, &size))
        return fault;
    if (text != NULL)
        return &too_many;
    return size > 0 ? increment_time_read(form, field, size, &out->at) : NULL;
}
