/* common/setup/name_pattern.c - see name_pattern.h. */
#include "common/setup/name_pattern.h"

#include <errno.h>
#include <string.h>

int
name_pattern_parse(const char *text, struct name_pattern *out, const char **why)
{
    size_t text_size = strlen(text);
    int rc;

    *out = (struct name_pattern){.prefix = text_size > 0 &&
                                           text[text_size - 1] == '*'};
    text_size -= out->prefix;
    rc = name_unescape(text, text_size, out->name, sizeof out->name);
    if (rc < 0 || (text_size == 0 && !out->prefix)) {
        *why = "that is not a name of a keyspace";
        return -EINVAL;
    }
    out->size = (uint16_t)rc;
    return 0;
}

bool
name_pattern_equals(const struct name_pattern *a, const struct name_pattern *b)
{
    return a->size == b->size && a->prefix == b->prefix &&
           memcmp(a->name, b->name, a->size) == 0;
}

size_t
name_pattern_fit(const struct name_pattern *p, const uint8_t *name, size_t size)
{
    if (p->size > size || memcmp(p->name, name, p->size) != 0)
        return 0;
    if (p->prefix)
        return 1 + (size_t)p->size;
    return p->size == size ? SIZE_MAX : 0;
}
