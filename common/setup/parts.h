/* common/setup/parts.h - the settings store.parts.NAME: into how many parts a
 * keyspace in a Redis Cluster is divided, when that is not store.parts.
 *
 * Ownership: plain data.  Pure. */
#ifndef COUNTD_COMMON_SETUP_PARTS_H
#define COUNTD_COMMON_SETUP_PARTS_H

#include "common/setup/name_pattern.h"

#define PARTS_MAX 256

struct parts_rules {
    struct name_patterns names;
    uint32_t parts[NAME_PATTERNS_MAX];
};

/* Sets the parts of a keyspace, or with a trailing * of those that begin so.
 * -EINVAL, -E2BIG with *why. */
int parts_rules_set(struct parts_rules *r, const char *name, const char *text,
                    const char **why);

/* What holds for a keyspace: its own, else the longest pattern's, else
 * `parts`. */
uint32_t parts_of(const struct parts_rules *r, const uint8_t *name, size_t size,
                  uint32_t parts);

#endif
