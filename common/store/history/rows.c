/* common/store/history/rows.c - see rows.h: rows_apart(), rows_begin(),
 * rows_add(), rows_end(), rows_open_head(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/rows.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"

#define SUM_SIZE_MAX 19
#define MORE_255     0xff /* so many more bytes, and as the next byte says */
#define BITMAP       0x80

size_t
rows_apart(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    return bytes_common_size(a, a_size, b, b_size) + 1;
}

/* The checksum of a block's head, with the key it is kept under. */
static uint32_t
head_crc(const uint8_t *key, size_t key_size, const uint8_t *bytes)
{
    uint8_t both[KV_KEY_MAX + ROWS_HEAD_SIZE];

    assert(key_size <= KV_KEY_MAX);
    memcpy(both, key, key_size);
    memcpy(both + key_size, bytes + 4, ROWS_HEAD_SIZE - 4);
    return crc_of(both, key_size + ROWS_HEAD_SIZE - 4);
}

/* ---- writing ----------------------------------------------------------- */

void
rows_begin(struct rows_writer *w)
{
    w->size = ROWS_HEAD_SIZE;
    w->size_max = ROWS_SIZE_MAX;
    w->rows = 0;
    w->last_size = 0;
    w->most = INT128_LEAST;
    w->negative = false;
}

static uint8_t *
put_sum(uint8_t *at, int128 sum)
{
    uint128 u = (uint128)sum << 1 ^ (uint128)(sum < 0 ? -1 : 0);

    for (; u >= 0x80; u >>= 7)
        *at++ = (uint8_t)(u | 0x80);
    *at++ = (uint8_t)u;
    return at;
}

/* The bytes of a row's cells; their sum in *total, and *negative set if one
 * is. */
static uint8_t *
put_cells(uint8_t *at, const struct history_row *r, int128 *total,
          bool *negative)
{
    uint8_t *size_at = NULL;
    uint64_t rest = r->cells;
    uint128 sum = 0;

    if ((rest & (rest - 1)) == 0) {
        *at++ = (uint8_t)__builtin_ctzll(rest);
    } else {
        uint8_t *size = at++;

        for (; rest != 0; rest >>= 8)
            *at++ = (uint8_t)rest;
        *size = (uint8_t)(BITMAP + (at - size - 1));
        size_at = at;
        at += 2;
    }
    for (rest = r->cells; rest != 0; rest &= rest - 1) {
        const int i = __builtin_ctzll(rest);

        sum += (uint128)r->sums[i];
        *negative |= r->sums[i] < 0;
        at = put_sum(at, r->sums[i]);
    }
    if (size_at != NULL)
        put_le16(size_at, (uint16_t)(at - size_at - 2));
    *total = (int128)sum;
    return at;
}

bool
rows_add(struct rows_writer *w, const struct history_row *r)
{
    uint8_t row[6 + HISTORY_KEY_MAX + 8 + HISTORY_CELLS * SUM_SIZE_MAX];
    size_t same = bytes_common_size(w->last, w->last_size, r->key, r->key_size);
    bool negative = w->negative;
    size_t more, size;
    uint8_t *at = row;
    int128 total;

    assert(r->cells != 0);
    if (same > UINT8_MAX)
        same = UINT8_MAX;
    more = r->key_size - same;
    *at++ = (uint8_t)same;
    *at++ = more < MORE_255 ? (uint8_t)more : MORE_255;
    if (more >= MORE_255)
        *at++ = (uint8_t)(more - MORE_255);
    memcpy(at, r->key + same, more);
    at = put_cells(at + more, r, &total, &negative);
    size = (size_t)(at - row);

    /* `next` is at most one longer than what it shares with this key. */
    if (w->size + size + r->key_size + 1 > w->size_max)
        return false;
    memcpy(w->bytes + w->size, row, size);
    w->size += size;
    memcpy(w->last + same, r->key + same, more);
    w->last_size = r->key_size;
    w->rows++;
    w->negative = negative;
    if (r->key_size > 0 && total > w->most)
        w->most = total;
    return true;
}

size_t
rows_end(struct rows_writer *w, const uint8_t *key, size_t key_size,
         const uint8_t *next, size_t next_size)
{
    uint8_t *head = w->bytes;

    if (next != NULL) {
        assert(w->size + next_size <= ROWS_SIZE_MAX);
        memcpy(w->bytes + w->size, next, next_size);
        w->size += next_size;
    }
    put_le16(head + 8, w->rows);
    put_le16(head + 10, (uint16_t)w->size);
    put_le16(head + 12, next != NULL ? (uint16_t)next_size : ROWS_RUN_END);
    put_le16(head + 14, w->negative ? 0 : ROWS_NO_NEGATIVE);
    put_le128(head + 16, w->most);
    put_le32(head + 4, crc_of(head + ROWS_HEAD_SIZE, w->size - ROWS_HEAD_SIZE));
    put_le32(head, head_crc(key, key_size, head));
    return w->size;
}

/* ---- reading ----------------------------------------------------------- */

int
rows_open_head(struct rows_reader *r, const struct kv_item *item)
{
    const uint8_t *head = item->value;
    size_t next;

    if (item->size < ROWS_HEAD_SIZE || item->size > ROWS_SIZE_MAX ||
        item->key_size > KV_KEY_MAX ||
        get_le32(head) != head_crc(item->key, item->key_size, head) ||
        get_le16(head + 10) != item->size)
        return -EBADMSG;
    next = get_le16(head + 12);
    r->next = next == ROWS_RUN_END ? NULL : head + item->size - next;
    r->next_size = next == ROWS_RUN_END ? 0 : next;
    if (r->next_size > HISTORY_KEY_MAX ||
        r->next_size > item->size - ROWS_HEAD_SIZE)
        return -EBADMSG;
    r->at = head + ROWS_HEAD_SIZE;
    r->end = head + item->size - r->next_size;
    r->left = get_le16(head + 8);
    r->most = get_le128(head + 16);
    r->no_negative = (get_le16(head + 14) & ROWS_NO_NEGATIVE) != 0;
    r->key_size = 0;
    r->same = 0;
    r->cells = 0;
    return 0;
}

int
rows_open(struct rows_reader *r, const struct kv_item *item)
{
    const int rc = rows_open_head(r, item);

    if (rc < 0)
        return rc;
    return crc_of(item->value + ROWS_HEAD_SIZE, item->size - ROWS_HEAD_SIZE) ==
                   get_le32(item->value + 4)
               ? 0
               : -EBADMSG;
}

/* Copies of a fixed size are a few instructions, where there is room. */
static void
put_key(struct rows_reader *r, const uint8_t *at, size_t more)
{
    if (more <= ROWS_SLACK && r->end - at >= ROWS_SLACK)
        memcpy(r->key + r->same, at, ROWS_SLACK);
    else
        memcpy(r->key + r->same, at, more);
}

/* Reads the key of the next row. */
static int
next_key(struct rows_reader *r)
{
    const uint8_t *at = r->at;
    size_t same, more;

    if (r->end - at < 4)
        return -EBADMSG;
    same = at[0];
    more = at[1];
    at += 2;
    if (more == MORE_255)
        more += *at++;
    if (same > r->key_size || same + more > HISTORY_KEY_MAX ||
        (size_t)(r->end - at) <= more)
        return -EBADMSG;
    r->same = (uint16_t)same;
    put_key(r, at, more);
    r->key_size = (uint16_t)(same + more);
    r->at = at + more;
    return 0;
}

/* Reads which cells the row has. */
static int
next_cells(struct rows_reader *r)
{
    unsigned size = *r->at++;

    if (size < HISTORY_CELLS) {
        r->cells = (uint64_t)1 << size;
        return 0;
    }
    size -= BITMAP;
    r->cells = 0;
    if (size > 8 || (size_t)(r->end - r->at) < size)
        return -EBADMSG;
    for (unsigned i = 0; i < size; i++)
        r->cells |= (uint64_t)*r->at++ << 8 * i;
    return r->cells != 0 ? 0 : -EBADMSG;
}

/* Passes over the sums of the row, which must lie in the block. */
static int
pass_sums(struct rows_reader *r)
{
    const uint8_t *at = r->at;

    if ((r->cells & (r->cells - 1)) == 0) {
        while (at < r->end && (*at & 0x80) != 0)
            at++;
        r->cells_at = r->at;
        r->at = at + 1;
    } else if (r->end - at > 2) {
        r->cells_at = at + 2;
        r->at = at + 2 + get_le16(at);
    } else {
        return -EBADMSG;
    }
    return r->at <= r->end ? 0 : -EBADMSG;
}

int
rows_next(struct rows_reader *r)
{
    if (r->left == 0)
        return r->at == r->end ? 0 : -EBADMSG;
    r->left--;
    if (next_key(r) < 0 || next_cells(r) < 0 || pass_sums(r) < 0)
        return -EBADMSG;
    return 1;
}

int
rows_seek(struct rows_reader *r, const uint8_t *key, size_t size)
{
    int rc;

    do
        rc = rows_next(r);
    while (rc > 0 && bytes_compare(r->key, r->key_size, key, size) < 0);
    return rc;
}

/* What lies behind the row, where only a bug could have it, is not read. */
static const uint8_t *
get_sum(const uint8_t *at, const uint8_t *end, int128 *out)
{
    uint128 u = 0;

    if (at < end && *at < 0x80) { /* most are small */
        *out = (int128)(*at >> 1) ^ -(int128)(*at & 1);
        return at + 1;
    }
    for (unsigned shift = 0; at < end && shift < 7 * SUM_SIZE_MAX; shift += 7) {
        u |= (uint128)(*at & 0x7f) << shift;
        if (*at++ < 0x80)
            break;
    }
    *out = (int128)(u >> 1) ^ -(int128)(u & 1);
    return at;
}

bool
rows_sums_fit(const struct rows_reader *r)
{
    const uint8_t *at = r->cells_at;
    int128 one;

    for (uint64_t rest = r->cells; rest != 0; rest &= rest - 1) {
        const uint8_t *start = at;

        at = get_sum(at, r->at, &one);
        if (at == start || at[-1] >= 0x80)
            return false;
    }
    return at == r->at;
}

void
rows_sums(const struct rows_reader *r, int128 sums[HISTORY_CELLS])
{
    const uint8_t *at = r->cells_at;

    for (uint64_t rest = r->cells; rest != 0; rest &= rest - 1)
        at = get_sum(at, r->at, &sums[__builtin_ctzll(rest)]);
}

int128
rows_sum(const struct rows_reader *r, uint64_t mask)
{
    const uint8_t *at = r->cells_at;
    uint128 sum = 0;
    int64_t small = 0; /* sums of one byte: most */
    int128 one;

    for (uint64_t rest = r->cells; rest != 0 && at < r->at; rest &= rest - 1) {
        const uint64_t is_wanted = (mask & rest & -rest) != 0;

        if (*at < 0x80) {
            small += ((*at >> 1) ^ -(*at & 1)) & -(int64_t)is_wanted;
            at++;
        } else {
            at = get_sum(at, r->at, &one);
            sum += is_wanted ? (uint128)one : 0;
        }
    }
    one = small;
    return (int128)(sum + (uint128)one);
}
