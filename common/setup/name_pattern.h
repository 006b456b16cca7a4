/* common/setup/name_pattern.h - the keyspaces that a setting of their own is
 * for: history.NAME, store.parts.NAME.  A name, or what names begin with and *.
 *
 * Ownership: plain data.  Pure. */
#ifndef COUNTD_COMMON_SETUP_NAME_PATTERN_H
#define COUNTD_COMMON_SETUP_NAME_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/name.h"

struct name_pattern {
    uint8_t name[NAME_MAX_SIZE];
    uint16_t size;
    bool prefix;
};

/* Reads a name, escaped as everywhere.  -EINVAL with what is wrong in *why. */
int name_pattern_parse(const char *text, struct name_pattern *out,
                       const char **why);

bool name_pattern_equals(const struct name_pattern *a,
                         const struct name_pattern *b);

/* How well a pattern fits a name: 0, not at all; the more, the better. */
size_t name_pattern_fit(const struct name_pattern *p, const uint8_t *name,
                        size_t size);

#endif
