/* tests/lib/pagekind.h - what a page of LMDB's is for, in the files of a
 * specimen.  Knows what common/store/lmdb/pages_layout.h knows, for tests. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_PAGEKIND_H
#define COUNTD_TESTS_LIB_PAGEKIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGEKIND_SIZE 4096

enum page_kind {
    KIND_NONE,
    KIND_BRANCH,
    KIND_NAMES,  /* leaf of the main database */
    KIND_MARKS,  /* leaf of meta */
    KIND_VALUES, /* leaf of keys or ranks */
    KIND_FREE,   /* leaf of the free list */
    KIND_OTHER,  /* any other leaf */
    KIND_BASE,   /* a page of its own for a value: in the order of BLOCK_... */
    KIND_BUFFER,
    KINDS
};

enum page_kind page_kind(const uint8_t *page);

/* The parts of it that are in use: *start bytes from its start, and those from
 * *end on. */
void page_used(const uint8_t *page, size_t *start, size_t *end);

/* Whether the checksum of the one value or mark that byte `at` belongs to sees
 * these bits flip; false also where there is none. */
bool page_sum_sees(const uint8_t *page, size_t at, uint8_t mask);

#endif
