/* common/wire/cell.h - one value of a table: a name, a text, a number, or none.
 *
 * Ownership: a cell points to the bytes of its maker. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_CELL_H
#define COUNTD_COMMON_WIRE_CELL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/name.h"

#define CELL_SUM_SIZE 48 /* digits of 128 bits, a sign, NUL */

enum cell_kind {
    CELL_NONE,
    CELL_ABSENT,
    CELL_NAME,
    CELL_TEXT,
    CELL_NUMBER,
    CELL_SUM,
    CELL_BOOL
};

struct cell {
    enum cell_kind kind;
    const void *bytes; /* CELL_NAME: any bytes; CELL_TEXT: our own words;
                        * CELL_SUM: digits */
    size_t size;
    int64_t number;
};

static inline struct cell
cell_none(void)
{
    return (struct cell){.kind = CELL_NONE};
}

/* The member is left out of JSON.  Not allowed as the first cell. */
static inline struct cell
cell_absent(void)
{
    return (struct cell){.kind = CELL_ABSENT};
}

/* A name; of 0 bytes: the empty text. */
static inline struct cell
cell_name(const void *bytes, size_t size)
{
    assert(size <= NAME_MAX_SIZE);
    return (struct cell){.kind = CELL_NAME, .bytes = bytes, .size = size};
}

/* Printable, valid UTF-8. */
static inline struct cell
cell_text(const char *text)
{
    return (struct cell){
        .kind = CELL_TEXT, .bytes = text, .size = strlen(text)};
}

static inline struct cell
cell_number(int64_t number)
{
    return (struct cell){.kind = CELL_NUMBER, .number = number};
}

static inline struct cell
cell_bool(bool value)
{
    return (struct cell){.kind = CELL_BOOL, .number = value};
}

/* A sum as decimal digits, from somewhere in `text` on; and as a cell, a number
 * also where int64 does not have it, as long as `text` is there. */
const char *cell_sum_text(int128 sum, char text[CELL_SUM_SIZE]);
struct cell cell_sum(int128 sum, char text[CELL_SUM_SIZE]);

/* Reads such digits.  False: they are not, or more than 128 bits hold. */
bool cell_sum_parse(const uint8_t *text, size_t size, int128 *out);

/* A cell as the text that TSV has; of `raw` names the bytes, which have no NUL.
 * Returned is `text`, or a string of the cell's. */
const char *cell_plain(const struct cell *c, bool raw,
                       char text[NAME_TEXT_SIZE]);

#endif
