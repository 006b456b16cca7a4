/* common/setup/parts.c - see parts.h. */
#include "common/setup/parts.h"

#include <errno.h>
#include <stdlib.h>

int
parts_rules_set(struct parts_rules *r, const char *name, const char *text,
                const char **why)
{
    char *end;
    const unsigned long parts = strtoul(text, &end, 10);
    int place;

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || parts < 1 ||
        parts > PARTS_MAX) {
        *why = "give a number from 1 to 256";
        return -EINVAL;
    }
    place = name_patterns_add(&r->names, name, why);
    if (place < 0)
        return place;
    r->parts[place] = (uint32_t)parts;
    return 0;
}

uint32_t
parts_of(const struct parts_rules *r, const uint8_t *name, size_t size,
         uint32_t parts)
{
    const int place = name_patterns_find(&r->names, name, size);

    return place < 0 ? parts : r->parts[place];
}
