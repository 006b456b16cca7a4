/* tests/unit/test_message.c - messages and slots. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/slot.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/wire/message.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static const uint8_t uuid[MESSAGE_UUID_SIZE] = "0123456789abcde";

static struct layout
make_layout(unsigned keyspace_size, unsigned key_size)
{
    struct layout l;

    assert_rc(layout_init(&l, keyspace_size, key_size), 0);
    return l;
}

static struct message
make_message(int64_t increment, const char *keyspace, const char *key)
{
    return (struct message){
        .increment = increment,
        .keyspace = (const uint8_t *)keyspace,
        .key = (const uint8_t *)key,
        .keyspace_size = (uint16_t)strlen(keyspace),
        .key_size = (uint16_t)strlen(key),
    };
}

/* The checksum as the format says it, in zlib's words and one piece at a
 * time. */
static uint32_t
expected_crc(const struct layout *l, const uint8_t *slot,
             const struct message *m, uint64_t number)
{
    uint8_t number_bytes[8];
    uLong crc = crc32(0, uuid, sizeof uuid);

    put_le64(number_bytes, number);
    crc = crc32(crc, number_bytes, 8);
    crc = crc32(crc, slot, 8);
    crc = crc32(crc, slot + 8, m->keyspace_size);
    crc = crc32(crc, (const uint8_t *)"", 1);
    crc = crc32(crc, slot + l->key_at, m->key_size);
    crc = crc32(crc, (const uint8_t *)"", 1);
    return (uint32_t)crc32(crc, slot + l->message_size, 20);
}

/* A fill, until the next call. */
static const struct log_header *
fill_of(const struct layout *l, const uint8_t *of, uint64_t epoch)
{
    static struct log_header h;

    h = (struct log_header){.layout = *l, .epoch = epoch};
    memcpy(h.uuid, of, sizeof h.uuid);
    return &h;
}

/* Of the layout `l`, in this epoch. */
#define FILL(number) fill_of(&l, uuid, (number))

/* `count` slots of fill 3. */
#define RUN(number, count) (&(struct slot_run){FILL(3), (number), (count)})

static void
put_slot(const struct layout *l, uint8_t *slot, const struct message *from,
         uint64_t number, uint64_t epoch, const struct slot_stamp *stamp)
{
    struct message m;

    assert_rc(message_put(l, from, slot), 0);
    assert_rc(message_parse(l, slot, &m), 0);
    assert_int_equal(m.minute, 0);
    m.minute = from->minute;
    slot_put_run(&(struct slot_run){fill_of(l, uuid, epoch), number, 1}, slot,
                 &m, stamp);
}

TEST(a_layout_has_names_of_1_to_256_bytes)
{
    const struct layout want = {256, 256, 264, 520, 528, 536, 540, 544};
    struct layout l = make_layout(256, 256);

    assert_memory_equal(&l, &want, sizeof l);
    assert_rc(layout_init(&l, 1, 1), 0);
    assert_int_equal(l.slot_size, 34);
    assert_rc(layout_init(&l, 0, 1), -ERANGE);
    assert_rc(layout_init(&l, 1, 0), -ERANGE);
    assert_rc(layout_init(&l, 257, 1), -ERANGE);
    assert_rc(layout_init(&l, 1, 257), -ERANGE);
    assert_rc(layout_init(&l, UINT32_MAX, 1), -ERANGE);
}

/* The three examples of the protocol's description. */
TEST(the_examples_have_these_bytes)
{
    static const struct {
        int64_t increment;
        const char *keyspace, *key;
        uint8_t bytes[8];
    } examples[] = {
        {47, "OH HAI", "OH NOES", {0x2f}},
        {-9,
         "asdf",
         "qwerty",
         {0xf7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
        {48879, "foo", "bar", {0xef, 0xbe}},
    };
    struct layout l = make_layout(256, 256);
    uint8_t got[520], want[520];
    struct message m;

    for (size_t i = 0; i < LENGTH(examples); i++) {
        memset(want, 0, sizeof want);
        memcpy(want, examples[i].bytes, 8);
        memcpy(want + 8, examples[i].keyspace, strlen(examples[i].keyspace));
        memcpy(want + 264, examples[i].key, strlen(examples[i].key));

        m = make_message(examples[i].increment, examples[i].keyspace,
                         examples[i].key);
        memset(got, 0xaa, sizeof got);
        assert_rc(message_put(&l, &m, got), 0);
        assert_memory_equal(got, want, sizeof want);

        assert_rc(message_parse(&l, want, &m), 0);
        assert_int_equal(m.increment, examples[i].increment);
        assert_ptr_equal(m.keyspace, want + 8);
        assert_ptr_equal(m.key, want + 264);
        assert_int_equal(m.keyspace_size, strlen(examples[i].keyspace));
        assert_int_equal(m.key_size, strlen(examples[i].key));
    }
}

TEST(names_of_every_length_come_back)
{
    static const unsigned sizes[][2] = {{1, 1},   {1, 256},   {256, 1},
                                        {15, 17}, {256, 256}, {100, 33},
                                        {32, 96}, {64, 32}};
    uint8_t name[256], bytes[520];
    struct message m, out;
    struct layout l;
    unsigned b;

    for (unsigned i = 0; i < sizeof name; i++)
        name[i] = (uint8_t)(255 - i % 255);
    for (unsigned i = 0; i < LENGTH(sizes); i++) {
        l = make_layout(sizes[i][0], sizes[i][1]);
        for (unsigned a = 1; a <= sizes[i][0]; a++) {
            b = 1 + a * 7 % sizes[i][1];
            m = (struct message){INT64_MIN,   name,        name + 256 - b,
                                 (uint16_t)a, (uint16_t)b, 0};
            assert_rc(message_put(&l, &m, bytes), 0);
            assert_rc(message_parse(&l, bytes, &out), 0);
            assert_true(out.increment == INT64_MIN);
            assert_int_equal(out.keyspace_size, a);
            assert_int_equal(out.key_size, b);
            assert_memory_equal(out.keyspace, name, a);
            assert_memory_equal(out.key, name + 256 - b, b);
        }
    }
}

TEST(an_empty_name_is_malformed)
{
    struct layout l = make_layout(256, 256);
    struct message m = make_message(1, "a", "b"), out;
    uint8_t bytes[520];

    for (size_t at = 8; at <= 264; at += 256) {
        assert_rc(message_put(&l, &m, bytes), 0);
        assert_rc(message_parse(&l, bytes, &out), 0);
        bytes[at] = 0;
        assert_rc(message_parse(&l, bytes, &out), -EBADMSG);
    }
}

TEST(a_byte_after_the_first_nul_is_malformed)
{
    const struct layout l = make_layout(256, 40);
    const struct message m = make_message(1, "keyspace", "key");
    uint8_t bytes[520];
    struct message out;

    for (size_t at = 8; at < l.message_size; at++) {
        assert_rc(message_put(&l, &m, bytes), 0);
        if (bytes[at] != 0 || at == 8 + 8 || at == l.key_at + 3)
            continue;
        bytes[at] = 'x';
        assert_rc(message_parse(&l, bytes, &out), -EBADMSG);
    }
}

TEST(names_that_do_not_fit_are_refused)
{
    static const struct {
        const char *keyspace, *key;
        int rc;
    } cases[] = {{"abcd", "abcd", 0},
                 {"abcde", "a", -ENAMETOOLONG},
                 {"a", "abcde", -ENAMETOOLONG},
                 {"", "a", -EINVAL},
                 {"a", "", -EINVAL}};
    struct layout l = make_layout(4, 4);
    struct message m;
    uint8_t bytes[16];

    for (size_t i = 0; i < LENGTH(cases); i++) {
        m = make_message(1, cases[i].keyspace, cases[i].key);
        assert_rc(message_put(&l, &m, bytes), cases[i].rc);
    }
    m = make_message(1, "abcd", "abcd");
    m.key = (const uint8_t *)"a\0bc";
    assert_rc(message_put(&l, &m, bytes), -EINVAL);
}

TEST(zero_bytes_are_told_from_others_at_every_length)
{
    static uint8_t bytes[1024];

    for (size_t shift = 0; shift < 3; shift++) {
        for (size_t size = 0; size < 600; size += size < 70 ? 1 : 37) {
            bytes[shift + size] = 1; /* one past the end */
            assert_true(message_is_zero(bytes + shift, size));
            for (size_t at = 0; at < size; at++) {
                bytes[shift + at] = 0x80;
                assert_false(message_is_zero(bytes + shift, size));
                bytes[shift + at] = 0;
            }
            bytes[shift + size] = 0;
        }
    }
}

/* At all lengths, against zlib over the pieces. */
TEST(the_checksum_is_the_one_of_the_format)
{
    static const unsigned sizes[][2] = {{256, 256}, {1, 1}, {13, 200}};
    struct slot_stamp stamp = {.received_ms = 1700000000123,
                               .synced = 0xdeadbeef};
    uint8_t name[256], slot[544];
    struct message m;
    struct layout l;
    uint64_t number;

    for (unsigned i = 0; i < sizeof name; i++)
        name[i] = (uint8_t)(1 + i * 31 % 255);
    for (unsigned i = 0; i < LENGTH(sizes); i++) {
        l = make_layout(sizes[i][0], sizes[i][1]);
        for (unsigned a = 0; a < 1000; a++) {
            m = (struct message){(int64_t)a * -77777777777,
                                 name,
                                 name,
                                 (uint16_t)(1 + a % sizes[i][0]),
                                 (uint16_t)(1 + a * 3 % sizes[i][1]),
                                 a * 0x1234567};
            number = a * 0x100000001u;
            put_slot(&l, slot, &m, number, 0x55667788, &stamp);
            assert_int_equal(get_le32(slot + l.crc_at),
                             expected_crc(&l, slot, &m, number));
        }
    }
}

TEST(a_slot_of_another_epoch_place_or_log_never_counts)
{
    static const uint8_t other[MESSAGE_UUID_SIZE] = "0123456789abcdf";
    struct layout l = make_layout(16, 16);
    struct message m = make_message(1, "a", "b"), out;
    struct slot_stamp stamp = {.synced = 0}, got;
    uint8_t slot[64];

    put_slot(&l, slot, &m, 5, 9, &stamp);
    assert_rc(slot_parse(FILL(8), slot, 5, &out, &got), -ENOENT);
    assert_rc(slot_parse(FILL(10), slot, 5, &out, &got), -ENOENT);
    assert_rc(slot_parse(FILL(9), slot, 4, &out, &got), -EBADMSG);
    assert_rc(slot_parse(FILL(9), slot, 6, &out, &got), -EBADMSG);
    assert_rc(slot_parse(fill_of(&l, other, 9), slot, 5, &out, &got), -EBADMSG);

    /* Nor when its epoch alone was torn into this one. */
    put_le64(slot + l.message_size, 10);
    assert_rc(slot_parse(FILL(10), slot, 5, &out, &got), -EBADMSG);
}

TEST(any_flipped_bit_makes_a_slot_invalid)
{
    struct layout l = make_layout(24, 24);
    struct message m = make_message(-5, "keyspace", "a key, longer"), out;
    struct slot_stamp stamp = {.received_ms = 4, .synced = 5}, got;
    uint8_t slot[80];
    int rc;

    m.minute = 28333333;
    assert_int_equal(l.slot_size, sizeof slot);
    put_slot(&l, slot, &m, 11, 3, &stamp);
    for (unsigned bit = 0; bit < 8 * sizeof slot; bit++) {
        slot[bit / 8] ^= (uint8_t)(1u << bit % 8);
        rc = slot_parse(FILL(3), slot, 11, &out, &got);
        assert_true(rc == -EBADMSG || rc == -ENOENT);
        slot[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_rc(slot_parse(FILL(3), slot, 11, &out, &got), 0);
    assert_int_equal(out.minute, 28333333);
}

TEST(zeros_are_no_slot)
{
    static const uint8_t slot[544];
    struct layout l = make_layout(256, 256);
    struct slot_stamp got;
    struct message out;

    assert_rc(slot_parse(FILL(1), slot, 0, &out, &got), -ENOENT);
    assert_rc(slot_parse(FILL(0), slot, 0, &out, &got), -EBADMSG);
}

/* `count` slots of a log in epoch 3, from number 40 on. */
static void
put_run(const struct layout *l, uint8_t *slots, struct message *m,
        unsigned count)
{
    const struct slot_stamp stamp = {.received_ms = 2, .synced = 1};
    struct message name;
    uint8_t key[256];

    for (unsigned i = 0; i < count; i++) {
        memset(key, 'k', sizeof key);
        name = (struct message){
            i, key, key, (uint16_t)(1 + 15 * i), (uint16_t)(256 - 7 * i), 0};
        assert_rc(message_put(l, &name, slots + (size_t)i * 544), 0);
        assert_rc(message_parse(l, slots + (size_t)i * 544, &m[i]), 0);
        m[i].minute = i * 1000;
    }
    slot_put_run(&(struct slot_run){fill_of(l, uuid, 3), 40, count}, slots, m,
                 &stamp);
}

TEST(a_run_of_slots_is_put_and_checked_as_each_alone)
{
    const struct slot_stamp stamp = {.received_ms = 2, .synced = 1};
    struct layout l = make_layout(256, 256);
    struct message m[SLOT_RUN], out[SLOT_RUN];
    struct slot_stamp got[SLOT_RUN];
    uint8_t slots[SLOT_RUN * 544], alone[544];

    for (unsigned count = 1; count <= SLOT_RUN; count++) {
        put_run(&l, slots, m, count);

        assert_rc(slot_parse_run(RUN(40, count), slots, out, got), 0);
        for (unsigned i = 0; i < count; i++) {
            memcpy(alone, slots + (size_t)i * 544, 520);
            slot_put_run(RUN(40 + i, 1), alone, &m[i], &stamp);
            assert_memory_equal(slots + (size_t)i * 544, alone, 544);
            assert_int_equal(out[i].increment, i);
            assert_int_equal(out[i].minute, i * 1000);
            assert_int_equal(out[i].keyspace_size, m[i].keyspace_size);
            assert_int_equal(out[i].key_size, m[i].key_size);
            assert_int_equal(got[i].received_ms, 2);
            assert_int_equal(got[i].synced, 1);
        }
    }
}

TEST(one_bad_slot_makes_a_run_invalid_wherever_it_is)
{
    struct layout l = make_layout(256, 256);
    struct message m[SLOT_RUN], out[SLOT_RUN];
    struct slot_stamp got[SLOT_RUN];
    uint8_t slots[SLOT_RUN * 544];

    for (unsigned i = 0; i < SLOT_RUN; i++) {
        put_run(&l, slots, m, SLOT_RUN);
        slots[(size_t)i * 544 + 8] ^= 1;
        assert_rc(slot_parse_run(RUN(40, SLOT_RUN), slots, out, got), -EBADMSG);
        slots[(size_t)i * 544 + 8] ^= 1;
        slots[(size_t)i * 544 + 520] ^= 1;
        assert_rc(slot_parse_run(RUN(40, SLOT_RUN), slots, out, got), -ENOENT);
    }
    put_run(&l, slots, m, SLOT_RUN);
    assert_rc(slot_parse_run(RUN(41, SLOT_RUN), slots, out, got), -EBADMSG);
}
