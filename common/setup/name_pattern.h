/* common/setup/name_pattern.h - the keyspaces that a setting of their own is
 * for: history.NAME.  A name, or what names begin with and *.
 *
 * Ownership: plain data.  Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
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

/* Those of one setting, each once. */
#define NAME_PATTERNS_MAX 64
struct name_patterns {
    size_t count;
    struct name_pattern at[NAME_PATTERNS_MAX];
};

/* Reads a name, escaped as everywhere: the place of its pattern, which is
 * added if it is new.  -EINVAL, -E2BIG with what is wrong in *why. */
int name_patterns_add(struct name_patterns *p, const char *text,
                      const char **why);

/* Reads patterns with blanks between.  0, or as name_patterns_add(). */
int name_patterns_add_all(struct name_patterns *p, const char *texts,
                          const char **why);

/* The place of the pattern that fits a name best, that is, of its own, else of
 * the longest; -1: none fits. */
int name_patterns_find(const struct name_patterns *p, const uint8_t *name,
                       size_t size);

/* The place of the first pattern that fits a name; -1: none does. */
int name_patterns_first(const struct name_patterns *p, const uint8_t *name,
                        size_t size);

#endif
