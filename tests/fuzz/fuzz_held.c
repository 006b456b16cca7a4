/* tests/fuzz/fuzz_held.c - any bytes as a held record: what passes the checks
 * is read without leaving it, and is written again the same.
 *
 * The input is a record without its checksum; that, magic and size are made. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/store/lmdb/held_record.h"

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
    held_encode(batch, h->id, h->held_ms, h->error, again);
    assert(memcmp(again, value, size) == 0);
    free(again);
}

static void
read_whole(const struct held_head *h, const uint8_t *value, size_t size)
{
    struct store_mark *marks = calloc(h->marks, sizeof *marks);
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

static void
read_value(const uint8_t *value, size_t size)
{
    struct held_head head;

    assert(held_value_size(value, size) == size);
    assert(held_value_size(value, size - 1) == 0);
    if (held_head_parse(value, size, &head)) {
        assert(head.body <= value + size);
        read_whole(&head, value, size);
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
    if (size + 4 >= HELD_HEAD_SIZE) {
        memcpy(value + 4, "HLD2", 4);
        put_le64(value + 8, size + 4);
        put_le32(value, crc_of(value + 4, size));
        read_value(value, size + 4);
    }
    free(value);
    return 0;
}
