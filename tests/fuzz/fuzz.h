/* tests/fuzz/fuzz.h - what fuzz targets share: assert() and what they check
 * with, exact copies, lines. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_FUZZ_FUZZ_H
#define COUNTD_TESTS_FUZZ_FUZZ_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The target: libFuzzer and replay.c call it. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* A copy in memory of exactly this size, where a sanitizer sees one byte too
 * far; free() it. */
static inline void *
fuzz_copy(const void *bytes, size_t size)
{
    void *copy = malloc(size > 0 ? size : 1);

    assert(copy != NULL);
    if (size > 0)
        memcpy(copy, bytes, size);
    return copy;
}

struct fuzz_line {
    const uint8_t *at;
    size_t size; /* without LF */
};

/* Takes the first line off the bytes; false: none is left. */
static inline bool
fuzz_take_line(const uint8_t **bytes, size_t *size, struct fuzz_line *line)
{
    const uint8_t *lf;

    if (*size == 0)
        return false;
    lf = memchr(*bytes, '\n', *size);
    *line = (struct fuzz_line){*bytes, lf ? (size_t)(lf - *bytes) : *size};
    *bytes += line->size + (lf != NULL);
    *size -= line->size + (lf != NULL);
    return true;
}

#endif
