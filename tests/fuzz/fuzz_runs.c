/* tests/fuzz/fuzz_runs.c - any bytes as a block of a run, as the record of
 * history, as tiers in the settings: the first byte says which.  What passes
 * can be read without leaving it, and says the same when it is written again.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/store/history/runs.h"

static const uint8_t name[RUN_KEY_HEAD] = "0123456789";

/* Makes the checksums right, so that what is behind them gets tested. */
static void
sum_up(uint8_t *block, size_t size)
{
    uint8_t both[RUN_KEY_HEAD + ROWS_HEAD_SIZE];

    put_le16(block + 10, (uint16_t)size);
    put_le32(block + 4, crc_of(block + ROWS_HEAD_SIZE, size - ROWS_HEAD_SIZE));
    memcpy(both, name, RUN_KEY_HEAD);
    memcpy(both + RUN_KEY_HEAD, block + 4, ROWS_HEAD_SIZE - 4);
    put_le32(block, crc_of(both, RUN_KEY_HEAD + ROWS_HEAD_SIZE - 4));
}

/* Reads two blocks, which must say the same. */
static void
compare_blocks(const struct kv_item *a, const struct kv_item *b)
{
    int128 x[HISTORY_CELLS], y[HISTORY_CELLS];
    struct rows_reader r, s;

    assert(rows_open(&r, a) == 0 && rows_open(&s, b) == 0);
    while (rows_next(&r) == 1) {
        assert(rows_next(&s) == 1);
        assert(r.key_size == s.key_size &&
               memcmp(r.key, s.key, r.key_size) == 0 && r.cells == s.cells);
        rows_sums(&r, x);
        rows_sums(&s, y);
        for (uint64_t rest = r.cells; rest != 0; rest &= rest - 1)
            assert(x[__builtin_ctzll(rest)] == y[__builtin_ctzll(rest)]);
    }
    assert(rows_next(&s) == 0);
}

static void
try_block(uint8_t *block, size_t size)
{
    static struct rows_writer w;
    struct kv_item item = {name, block, RUN_KEY_HEAD, size};
    struct history_row row = {.cells = 0};
    uint8_t key[HISTORY_KEY_MAX];
    struct rows_reader r;
    bool good = true;
    int rc;

    if (size < ROWS_HEAD_SIZE || size > ROWS_SIZE_MAX)
        return;
    sum_up(block, size);
    if (rows_open(&r, &item) < 0)
        return;
    rows_begin(&w);
    while ((rc = rows_next(&r)) == 1) {
        good = good && (w.rows == 0 || bytes_compare(w.last, w.last_size, r.key,
                                                     r.key_size) < 0);
        memcpy(key, r.key, r.key_size);
        row.key = key;
        row.key_size = r.key_size;
        row.cells = r.cells;
        rows_sums(&r, row.sums);
        (void)rows_sum(&r, UINT64_MAX); /* any */
        good = good && rows_add(&w, &row);
    }
    if (rc == 0 && good && w.rows > 0) {
        const size_t again = rows_end(&w, name, RUN_KEY_HEAD, NULL, 0);

        compare_blocks(&item,
                       &(struct kv_item){name, w.bytes, RUN_KEY_HEAD, again});
    }
}

static void
try_state(const uint8_t *bytes, size_t size)
{
    uint8_t again[HISTORY_STATE_MAX];
    struct history h;

    if (history_get(&h, bytes, size) < 0)
        return;
    assert(size <= sizeof again && history_put(&h, again) == size);
    assert(history_get(&h, again, size) == 0);
}

static void
try_tiers(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    struct tiers t;
    const char *why;

    assert(text != NULL);
    memcpy(text, bytes, size);
    text[size] = '\0';
    if (tiers_parse(text, &t, &why) == 0)
        for (unsigned i = 0; i < t.count; i++)
            assert(t.tier[i].period % t.tier[i].step == 0 &&
                   t.tier[i].period / t.tier[i].step <= TIERS_CELLS_MAX &&
                   (i + 1 == t.count ||
                    t.tier[i + 1].step % t.tier[i].period == 0));
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *copy;

    if (size < 1)
        return 0;
    copy = fuzz_copy(bytes + 1, size - 1);
    if (bytes[0] == 's')
        try_state(copy, size - 1);
    else if (bytes[0] == 't')
        try_tiers(copy, size - 1);
    else
        try_block(copy, size - 1);
    free(copy);
    return 0;
}
