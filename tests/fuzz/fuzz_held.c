/* tests/fuzz/fuzz_held.c - any bytes as a held record: what passes the checks
 * is read without leaving it, and is written again the same. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/store/held_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Encodes a batch again: the record is the same. */
static void
write_again(const struct held_head *h, const struct store_batch *batch,
            const uint8_t *value, size_t size)
{
    uint8_t *again = malloc(size);

    assert(again != NULL);
    assert(held_batch_ok(batch));
    assert(held_batch_size(batch) == size);
    held_encode(batch, h->held_ms, h->error, again);
    assert(memcmp(again, value, size) == 0);
    free(again);
}

static void
read_whole(const struct held_head *h, const uint8_t *value, size_t size)
{
    struct store_fill *marks = calloc(h->marks, sizeof *marks);
    struct store_delta *deltas = calloc(h->deltas + 1u, sizeof *deltas);

    assert(marks != NULL && deltas != NULL);
    held_marks_parse(h, marks);
    if (held_deltas_parse(h, deltas)) {
        const struct store_batch batch = {.name = h->name,
                                          .name_size = h->name_size,
                                          .marks = marks,
                                          .mark_count = h->marks,
                                          .deltas = deltas,
                                          .delta_count = h->deltas};

        write_again(h, &batch, value, size);
    }
    free(deltas);
    free(marks);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *value = malloc(size + 1); /* not one byte more is read */
    struct held_head head;

    assert(value != NULL);
    memcpy(value, bytes, size);
    if (held_head_parse(value, size, &head)) {
        assert(head.body <= value + size);
        read_whole(&head, value, size);
    }
    free(value);
    return 0;
}
