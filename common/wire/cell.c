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

bool
cell_sum_parse(const uint8_t *text, size_t size, int128 *out)
{
    const bool is_negative = size > 0 && text[0] == '-';
    int128 sum = 0;

    if (size == is_negative)
        return false;
    for (size_t i = is_negative; i < size; i++) {
        const int digit = text[i] - '0';

        if (digit < 0 || digit > 9 ||
            __builtin_mul_overflow(sum, (int128)10, &sum) ||
            __builtin_sub_overflow(sum, (int128)digit, &sum))
            return false;
    }
    if (!is_negative && __builtin_sub_overflow((int128)0, sum, &sum))
        return false;
    *out = sum;
    return true;
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
