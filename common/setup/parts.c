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
    struct parts_rule new = {.parts = (uint32_t)parts};
    size_t i = 0;
    int rc;

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || parts < 1 ||
        parts > PARTS_MAX) {
        *why = "give a number from 1 to 256";
        return -EINVAL;
    }
    rc = name_pattern_parse(name, &new.pattern, why);
    if (rc < 0)
        return rc;
    while (i < r->count &&
           !name_pattern_equals(&r->rules[i].pattern, &new.pattern))
        i++;
    if (i == PARTS_RULES_MAX) {
        *why = "these are too many keyspaces and patterns; give at most 64";
        return -E2BIG;
    }
    r->rules[i] = new;
    r->count += i == r->count;
    return 0;
}

uint32_t
parts_of(const struct parts_rules *r, const uint8_t *name, size_t size,
         uint32_t parts)
{
    size_t best = 0;

    for (size_t i = 0; i < r->count; i++) {
        const size_t fit = name_pattern_fit(&r->rules[i].pattern, name, size);

        if (fit > best) {
            parts = r->rules[i].parts;
            best = fit;
        }
    }
    return parts;
}
