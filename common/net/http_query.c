/* common/net/http_query.c - see http_query.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/http_query.h"

#include <errno.h>

#include "common/base/hex.h"
#include "common/wire/name.h"

/* Up to `max` bytes.  0, -EINVAL, or -ENAMETOOLONG with *size being `max`. */
static int
decode_part(struct http_text text, uint8_t *to, size_t max, size_t *size)
{
    size_t i = 0;

    for (*size = 0; i < text.size; (*size)++) {
        uint8_t c = text.at[i++];

        if (c == '%') {
            if (text.size - i < 2 || !hex_get_any(text.at + i, &c, 1))
                return -EINVAL;
            i += 2;
        } else if (c == '+')
            c = ' ';
        if (*size == max)
            return -ENAMETOOLONG;
        to[*size] = c;
    }
    return 0;
}

int
http_query_next(struct http_text *query, char name[HTTP_QUERY_NAME_SIZE],
                uint8_t *value, size_t max, size_t *size)
{
    struct http_text part = {NULL, 0};
    size_t name_size;
    int rc;

    while (part.size == 0) {
        if (query->size == 0)
            return 0;
        part = http_cut(query, '&');
    }
    rc = decode_part(http_cut(&part, '='), (uint8_t *)name,
                     HTTP_QUERY_NAME_SIZE - 1, &name_size);
    name[name_size] = '\0';
    if (rc == 0 && strlen(name) < name_size)
        rc = -EINVAL;
    if (rc == 0)
        rc = decode_part(part, value, max, size);
    return rc < 0 ? rc : 1;
}

bool
http_query_shows(struct http_text query, char shown[HTTP_QUERY_SHOWN])
{
    char name[HTTP_QUERY_NAME_SIZE];
    uint8_t none;
    size_t size;

    if (http_query_next(&query, name, &none, 0, &size) == 0)
        return false;
    (void)name_escape((const uint8_t *)name, strlen(name), shown);
    return true;
}
