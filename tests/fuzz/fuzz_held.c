/* tests/fuzz/fuzz_held.c - any bytes as a value of a held record: what passes
 * the checks is read without leaving it, and is written again the same.
 *
 * The input is a value without its checksum; that, magic and size are made. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/store/lmdb/held_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Encodes a batch again: the value is the same. */
static void
write_again(const struct held_head *h, const struct store_batch *batch,
            const uint8_t *value, size_t size)
{
    struct held_encoder e;
    uint8_t again[HELD_VALUE_MAX];

    assert(held_batch_ok(batch));
    held_encode(&e, batch, h->id, h->nonce, h->held_ms, h->error);
    assert(held_record_size(&e.head) == size);
    assert(held_encode_next(&e, again) == size);
    assert(memcmp(again, value, size) == 0);
    assert(held_encode_next(&e, again) == 0);
}

/* A head whose whole body is in it. */
static void
read_whole(const struct held_head *h, const uint8_t *value, size_t size)
{
    struct store_mark *marks = calloc(h->marks, sizeof *marks);
    struct store_delta *deltas = calloc(h->deltas + 1u, sizeof *deltas);

    assert(marks != NULL && deltas != NULL);
    held_marks_parse(h->body, h->marks, marks);
    if (held_deltas_parse(h, h->body, deltas)) {
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

static void
read_value(const uint8_t *value, size_t size)
{
    struct held_head head;
    size_t body;

    assert(held_value_size(value, size) == size);
    assert(held_value_size(value, size - 1) == 0);
    if (held_head_parse(value, size, &head)) {
        assert(head.name + head.name_size <= value + size);
        assert(head.body + head.body_here <= value + size);
        if (head.parts == 0)
            read_whole(&head, value, size);
        else
            assert(held_part_parse(value, size, &head, 1, &body) == NULL);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *value = malloc(size + 8);

    assert(value != NULL);
    memcpy(value + 4, bytes, size);
    assert(held_value_scan(value, size + 4) <= size + 4);
    (void)held_value_size(value, size + 4); /* whatever it says */
    if (size + 4 >= HELD_PART_HEAD && size + 4 <= HELD_VALUE_MAX) {
        memcpy(value + 4, "HLD1", 4);
        put_le32(value + 8, (uint32_t)(size + 4));
        put_le32(value, crc_of(value + 4, size));
        read_value(value, size + 4);
    }
    free(value);
    return 0;
}
