/* common/wire/cell.c - see cell.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/cell.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *
cell_sum_text(int128 sum, char text[CELL_SUM_SIZE])
{
    uint128 rest = sum < 0 ? -(uint128)sum : (uint128)sum;
    char *at = &text[CELL_SUM_SIZE - 1];

    *at = '\0';
    do
        *--at = (char)('0' + (int)(rest % 10));
    while ((rest /= 10) > 0);
    if (sum < 0)
        *--at = '-';
    return at;
}

struct cell
cell_sum(int128 sum, char text[CELL_SUM_SIZE])
{
    if (sum >= INT64_MIN && sum <= INT64_MAX)
        return cell_number((int64_t)sum);
    return (struct cell){.kind = CELL_SUM, .bytes = cell_sum_text(sum, text)};
}

const char *
cell_plain(const struct cell *c, bool raw, char text[NAME_TEXT_SIZE])
{
    switch (c->kind) {
    case CELL_NONE:
    case CELL_ABSENT:
        return "-";
    case CELL_TEXT:
    case CELL_SUM:
        return c->bytes;
    case CELL_NAME:
        if (raw) {
            memcpy(text, c->bytes, c->size);
            text[c->size] = '\0';
            return text;
        }
        (void)name_escape(c->bytes, c->size, text); /* its end is marked */
        return text;
    case CELL_NUMBER:
        (void)snprintf(text, NAME_TEXT_SIZE, "%" PRId64, c->number);
        return text;
    case CELL_BOOL:
        return c->number ? "yes" : "no";
    }
    return "";
}
