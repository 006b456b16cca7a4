/* tests/fuzz/fuzz_message.c - any bytes as messages and as a slot.
 *
 * The first two bytes choose the sizes of the names; the rest is a stream of
 * messages.  A message that is taken must come back byte by byte when it is
 * written again, and a slot must check in its place and in no other. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "common/log/slot.h"
#include "common/wire/message.h"

static void
check_slot(const struct layout *l, const struct message *m)
{
    struct log_header fill = {
        .uuid = "0123456789abcde", .layout = *l, .epoch = 7};
    const struct slot_stamp stamp = {.received_ms = (uint64_t)m->increment,
                                     .synced = 3};
    uint8_t slot[MESSAGE_SIZE_MAX + 24];
    struct slot_stamp got;
    struct message out;

    assert(l->slot_size <= sizeof slot);
    assert(message_put(l, m, slot) == 0);
    assert(message_parse(l, slot, &out) == 0);
    slot_put_run(&(struct slot_run){&fill, 9, 1}, slot, &out, &stamp);
    assert(slot_parse(&fill, slot, 9, &out, &got) == 0);
    assert(out.increment == m->increment);
    assert(out.keyspace_size == m->keyspace_size);
    assert(memcmp(out.keyspace, m->keyspace, m->keyspace_size) == 0);
    assert(out.key_size == m->key_size);
    assert(memcmp(out.key, m->key, m->key_size) == 0);
    assert(got.received_ms == stamp.received_ms && got.synced == 3);
    assert(slot_parse(&fill, slot, 8, &out, &got) == -EBADMSG);
    fill.epoch = 6;
    assert(slot_parse(&fill, slot, 9, &out, &got) == -ENOENT);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t again[MESSAGE_SIZE_MAX];
    struct slot_stamp stamp;
    struct message m;
    struct layout l;

    if (size < 2)
        return 0;
    assert(layout_init(&l, bytes[0] + 1u, bytes[1] + 1u) == 0);
    bytes += 2;
    size -= 2;
    for (size_t at = 0; at + l.message_size <= size; at += l.message_size) {
        if (message_parse(&l, bytes + at, &m) < 0)
            break;
        assert(m.keyspace_size > 0 && m.keyspace_size <= l.keyspace_size);
        assert(m.key_size > 0 && m.key_size <= l.key_size);
        assert(message_put(&l, &m, again) == 0);
        assert(memcmp(again, bytes + at, l.message_size) == 0);
        check_slot(&l, &m);
    }
    /* No sum of arbitrary bytes is right but by a chance of 2^-32. */
    if (size >= l.slot_size)
        (void)slot_parse(&(struct log_header){.layout = l}, bytes, 0, &m,
                         &stamp);
    return 0;
}
