/* reader/graphite/regular_internal.h - a compiled regular expression, for
 * regular.c and regular_search.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_REGULAR_INTERNAL_H
#define COUNTD_READER_GRAPHITE_REGULAR_INTERNAL_H

#include "common/wire/utf8.h"
#include "reader/graphite/regular.h"

enum step_kind {
    STEP_CHARACTER,
    STEP_ANY,
    STEP_CLASS,
    STEP_SPLIT, /* to x, or to y if that leads nowhere */
    STEP_JUMP,  /* to x */
    STEP_SAVE,  /* x: the number of a place */
    STEP_BEGIN,
    STEP_END,
    STEP_EDGE, /* of a word */
    STEP_MATCH
};

struct regular_step {
    uint8_t kind;
    int16_t x, y;
    uint32_t character; /* or the number of a class */
};

#define CLASS_RANGES  24
#define CLASSES_MAX   32
#define PLACES        ((size_t)2 * REGULAR_GROUPS)
#define CHARACTER_MAX 0x10ffff

struct regular_class {
    bool is_negated;
    unsigned count;
    struct {
        uint32_t low, high;
    } ranges[CLASS_RANGES];
};

struct regular_thread {
    uint16_t step;
    uint32_t places[PLACES];
};

struct regular_threads {
    unsigned count;
    uint32_t seen[REGULAR_STEPS_MAX]; /* by step: the mark when one was put */
    struct regular_thread list[REGULAR_STEPS_MAX];
};

struct regular {
    bool ignores_case;
    unsigned step_count, class_count, group_count;
    struct regular_step steps[REGULAR_STEPS_MAX];
    struct regular_class classes[CLASSES_MAX];
    uint32_t mark; /* of the place that threads are put for */
    struct regular_threads lists[2];
};

/* The character at `at`; returns its bytes. */
static inline size_t
regular_read(const char *at, const char *end, uint32_t *out)
{
    const uint8_t *bytes = (const uint8_t *)at;
    const size_t size =
        *bytes < 0x80 ? 1 : utf8_size(bytes, (const uint8_t *)end);

    *out = *bytes;
    if (size < 2)
        return 1;
    *out &= 0x7fu >> size;
    for (size_t i = 1; i < size; i++)
        *out = *out << 6 | (bytes[i] & 0x3f);
    return size;
}

static inline uint32_t
regular_lower(uint32_t c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static inline bool
regular_is_word(uint32_t c)
{
    c = regular_lower(c);
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c >= 0x80;
}

#endif
