/* reader/query.c - see query.h: answers about the past. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/query.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

#define HISTORY_AT_BEFORE   16
#define HISTORY_AT_FLAGS    32
#define HISTORY_AT_KEY_SIZE 34

void
query_history_get(const uint8_t bytes[QUERY_HISTORY_HEAD],
                  struct query_history_head *out)
{
    *out = (struct query_history_head){.error = get_le64s(bytes),
                                       .since = get_le64s(bytes + 8),
                                       .known = get_le64s(bytes + 16),
                                       .rank = get_le64s(bytes + 24),
                                       .keys = get_le64s(bytes + 32),
                                       .step = get_le64s(bytes + 40)};
}

void
query_history_put(const struct query_history_head *p,
                  uint8_t bytes[QUERY_HISTORY_HEAD])
{
    put_le64s(bytes, p->error);
    put_le64s(bytes + 8, p->since);
    put_le64s(bytes + 16, p->known);
    put_le64s(bytes + 24, p->rank);
    put_le64s(bytes + 32, p->keys);
    put_le64s(bytes + 40, p->step);
}

size_t
query_history_row_put(uint8_t *at, const struct query_history_row *row)
{
    put_le128(at, int128_of(row->sum_high, row->sum_low));
    put_le128(at + HISTORY_AT_BEFORE,
              int128_of(row->before_high, row->before_low));
    put_le16(at + HISTORY_AT_FLAGS, row->flags);
    put_le16(at + HISTORY_AT_KEY_SIZE, row->key_size);
    if (row->key_size > 0)
        memcpy(at + QUERY_HISTORY_ROW_SIZE, row->key, row->key_size);
    return QUERY_HISTORY_ROW_SIZE + (size_t)row->key_size;
}

int
query_history_row_get(const uint8_t *at, size_t left,
                      struct query_history_row *out)
{
    if (left < QUERY_HISTORY_ROW_SIZE)
        return -EPROTO;
    *out = (struct query_history_row){
        .sum_low = get_le64(at),
        .sum_high = get_le64s(at + 8),
        .before_low = get_le64(at + HISTORY_AT_BEFORE),
        .before_high = get_le64s(at + HISTORY_AT_BEFORE + 8),
        .flags = get_le16(at + HISTORY_AT_FLAGS),
        .key_size = get_le16(at + HISTORY_AT_KEY_SIZE),
        .key = at + QUERY_HISTORY_ROW_SIZE};
    if (out->key_size > QUERY_NAME_SIZE ||
        left - QUERY_HISTORY_ROW_SIZE < out->key_size)
        return -EPROTO;
    return QUERY_HISTORY_ROW_SIZE + (int)out->key_size;
}
