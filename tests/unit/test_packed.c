/* tests/unit/test_packed.c - a packed log has every increment of the log, in
 * order, and damage to it is told. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/log/log_create.h"
#include "common/log/packed.h"
#include "common/log/slot.h"
#include "tests/lib/fault.h"
#include "tests/lib/random.h"
#include "tests/lib/tmpdir.h"

/* ---- a log that says what it must be ------------------------------------ */

/* The increments of a log follow from its kind and their number. */
enum kind { FEW, EDGES, MANY_NAMES, MANY_KEYSPACES, LONG_NAMES };

struct made {
    struct message m;
    uint8_t names[2 * MESSAGE_NAME_MAX];
    uint64_t received_ms;
};

static void
name_of(uint8_t *at, const char *text, uint16_t size, uint16_t *out)
{
    memset(at, 'x', size);
    memcpy(at, text, strlen(text) < size ? strlen(text) : size);
    *out = size;
}

static void
make(enum kind kind, uint32_t number, struct made *made)
{
    static const int64_t edges[] = {INT64_MAX, INT64_MIN, 0, -1, 1, 64, -65};
    struct random r = {number * 7919 + (unsigned)kind};
    char text[32];
    uint16_t size;

    *made = (struct made){.received_ms = 1700000000123 + number / 3};
    made->m.increment = (int64_t)random_below(&r, 1000) - 500;
    made->m.keyspace = made->names;
    made->m.key = made->names + MESSAGE_NAME_MAX;
    (void)snprintf(text, sizeof text, "k%u", (unsigned)random_below(&r, 3));
    name_of(made->names, text, 2, &made->m.keyspace_size);
    if (kind == MANY_KEYSPACES) {
        (void)snprintf(text, sizeof text, "space-%06u", number / 2);
        name_of(made->names, text, 12, &made->m.keyspace_size);
    }
    (void)snprintf(text, sizeof text, "key-%08" PRIu64,
                   kind == MANY_NAMES ? number : random_below(&r, 40));
    size = kind == LONG_NAMES ? (uint16_t)(12 + random_below(&r, 245)) : 12;
    name_of(made->names + MESSAGE_NAME_MAX, text, size, &made->m.key_size);
    if (kind != EDGES)
        return;
    made->m.increment = edges[number % (sizeof edges / sizeof edges[0])];
    made->received_ms += (uint64_t)number << 40;
    name_of(made->names, "\xff", number % 2 ? 256 : 1, &made->m.keyspace_size);
    name_of(made->names + MESSAGE_NAME_MAX, "\x01", number % 3 ? 1 : 256,
            &made->m.key_size);
}

/* A full log of so many increments, claimed as by a worker. */
static struct log
full_log(const struct tmpdir *d, enum kind kind, uint32_t count)
{
    uint8_t slot[SLOT_SIZE_MAX];
    struct layout layout;
    struct log log;

    assert_rc(layout_init(&layout, 256, 256), 0);
    assert_rc(log_create(d->fd, 7, &layout, count + 3), 0);
    assert_rc(log_claim(&log, d->fd, 7, LOG_MODE_EMPTY), 0);
    assert_rc(log_begin(&log), 0);
    for (uint32_t i = 0; i < count; i++) {
        struct slot_stamp stamp = {.epoch = log.header.epoch};
        struct message parsed;
        struct made made;

        make(kind, i, &made);
        stamp.received_ms = made.received_ms;
        assert_rc(message_put(&layout, &made.m, slot), 0);
        assert_rc(message_parse(&layout, slot, &parsed), 0);
        slot_put(&layout, slot, &parsed, log.header.uuid, i, &stamp);
        assert_rc(
            log_append(&log, slot, 1, stamp.received_ms, stamp.received_ms), 0);
    }
    assert_rc(log_seal(&log), 0);
    assert_rc(log_release(&log), 0);
    assert_rc(log_claim(&log, d->fd, 7, LOG_MODE_FULL), 0);
    return log;
}

static int
new_file(const struct tmpdir *d, const char *name)
{
    const int fd =
        openat(d->fd, name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    return fd;
}

static int
pack(const struct tmpdir *d, const struct log *log)
{
    const int fd = new_file(d, "packed");
    struct packer *p;

    assert_rc(packer_new(&p), 0);
    assert_rc(packer_write(p, log, fd), 0);
    packer_free(p);
    return fd;
}

static void
assert_same(const struct packed_record *r, const struct made *made)
{
    assert_int_equal(r->received_ms, made->received_ms);
    assert_true(r->m.increment == made->m.increment);
    assert_int_equal(r->m.keyspace_size, made->m.keyspace_size);
    assert_memory_equal(r->m.keyspace, made->m.keyspace, made->m.keyspace_size);
    assert_int_equal(r->m.key_size, made->m.key_size);
    assert_memory_equal(r->m.key, made->m.key, made->m.key_size);
}

/* Reads all of a file: the number of increments, or an error.  Each must be the
 * one that was packed, also of a file that turns out to be damaged. */
static int64_t
read_back(int fd, enum kind kind)
{
    const struct packed_record *records;
    struct packed *p;
    uint32_t number = 0;
    int count, rc;

    rc = packed_open(&p, fd);
    if (rc < 0)
        return rc;
    while ((count = packed_next(p, &records)) > 0)
        for (int i = 0; i < count; i++) {
            struct made made;

            make(kind, number++, &made);
            assert_same(&records[i], &made);
        }
    packed_close(p);
    return count < 0 ? count : (int64_t)number;
}

/* ---- what is read is what was packed ------------------------------------ */

static void
round_trip(const struct tmpdir *d, enum kind kind, uint32_t count)
{
    struct log log = full_log(d, kind, count);
    const int fd = pack(d, &log);
    struct packed *p;

    assert_int_equal(read_back(fd, kind), count);
    assert_rc(packed_open(&p, fd), 0);
    assert_memory_equal(packed_header(p)->uuid, log.header.uuid, 16);
    assert_int_equal(packed_header(p)->index, 7);
    assert_int_equal(packed_header(p)->epoch, log.header.epoch);
    assert_int_equal(packed_header(p)->count, count);
    assert_int_equal(packed_header(p)->first_ms, log.header.first_ms);
    assert_int_equal(packed_header(p)->last_ms, log.header.last_ms);
    assert_int_equal(packed_header(p)->slots, count + 3);
    packed_close(p);
    assert_int_equal(close(fd), 0);
    assert_rc(log_release(&log), 0);
}

static void
a_log_of_a_few_names_comes_back(void **state)
{
    round_trip(*state, FEW, 20000);
}

static void
the_largest_and_smallest_of_everything_come_back(void **state)
{
    round_trip(*state, EDGES, 50);
}

/* More than are known at a time: the first ones are forgotten. */
static void
a_log_of_more_names_than_are_known_at_a_time_comes_back(void **state)
{
    round_trip(*state, MANY_NAMES, PACKED_NAMES + 20000);
}

static void
a_log_of_more_keyspaces_than_are_known_at_a_time_comes_back(void **state)
{
    round_trip(*state, MANY_KEYSPACES, 2 * PACKED_KEYSPACES + 3000);
}

/* ---- names that the caller tells apart ---------------------------------- */

#define MARKED (PACKED_NAMES + 20000u)

struct marks {
    uint32_t keyspaces[3];
    uint32_t names[3][MARKED][2]; /* two for each: both are its own */
};

/* Every fifth increment has none. */
static struct packed_name_ids
marks_of(struct marks *all, uint32_t number, const struct made *made)
{
    const unsigned keyspace = made->names[1] - (unsigned)'0';
    const unsigned key = (unsigned)atoi((const char *)made->m.key + 4);

    assert_true(keyspace < 3 && key < MARKED);
    if (number % 5 == 0)
        return (struct packed_name_ids){NULL, NULL};
    return (struct packed_name_ids){&all->keyspaces[keyspace],
                                    &all->names[keyspace][key][number / 7 % 2]};
}

static int
pack_marked(const struct tmpdir *d, struct packer *p, const struct log *log,
            enum kind kind, struct marks *all)
{
    const uint32_t count = (uint32_t)log->header.count;
    const int fd = new_file(d, "marked");
    struct packed_name_ids marks[SLOT_RUN];
    struct slot_stamp stamps[SLOT_RUN];
    struct message messages[SLOT_RUN];
    struct made made[SLOT_RUN];
    unsigned run;

    assert_rc(packer_begin(p, log, fd), 0);
    for (uint32_t at = 0; at < count; at += run) {
        run = count - at < SLOT_RUN ? count - at : SLOT_RUN;
        for (unsigned i = 0; i < run; i++) {
            make(kind, at + i, &made[i]);
            messages[i] = made[i].m;
            stamps[i].received_ms = made[i].received_ms;
            marks[i] = marks_of(all, at + i, &made[i]);
        }
        assert_rc(packer_add(p, messages, stamps, marks, run), 0);
    }
    assert_rc(packer_end(p), 0);
    return fd;
}

/* Marks outlive a log: the next one must not take them for its own. */
static void
marked_names_come_back(const struct tmpdir *d, enum kind kind, uint32_t count)
{
    struct log log = full_log(d, kind, count);
    struct marks *all = calloc(1, sizeof *all);
    struct packer *p;

    assert_non_null(all);
    assert_rc(packer_new(&p), 0);
    for (unsigned turn = 0; turn < 4; turn++) {
        const int fd = pack_marked(d, p, &log, kind, all);

        assert_int_equal(read_back(fd, kind), count);
        assert_int_equal(close(fd), 0);
        if (turn == 1) {
            memset(all, 0, sizeof *all);
            packer_restart(p);
        }
    }
    packer_free(p);
    free(all);
    assert_rc(log_release(&log), 0);
}

static void
names_with_marks_come_back_from_one_log_after_the_other(void **state)
{
    marked_names_come_back(*state, FEW, 20000);
}

static void
names_with_marks_come_back_when_the_first_are_forgotten(void **state)
{
    marked_names_come_back(*state, MANY_NAMES, MARKED);
}

/* ---- sizes -------------------------------------------------------------- */

/* More bytes of names than are known at a time, blocks of fewer increments. */
static void
a_log_of_long_names_comes_back(void **state)
{
    round_trip(*state, LONG_NAMES, 40000);
}

static void
a_log_is_packed_to_less_than_a_twentieth(void **state)
{
    struct log log = full_log(*state, MANY_NAMES, 20000);
    const int fd = pack(*state, &log);
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    assert_true(st.st_size * 20 < (off_t)20000 * log.layout.slot_size);
    assert_int_equal(close(fd), 0);
    assert_rc(log_release(&log), 0);
}

/* ---- damage ------------------------------------------------------------- */

static void
one_flipped_bit_anywhere_is_told(void **state)
{
    const struct tmpdir *d = *state;
    struct log log = full_log(d, FEW, 300);
    const int fd = pack(d, &log);
    struct stat st;
    uint8_t byte;

    assert_int_equal(fstat(fd, &st), 0);
    for (off_t bit = 0; bit < 8 * st.st_size; bit++) {
        int64_t rc;

        assert_int_equal(pread(fd, &byte, 1, bit / 8), 1);
        byte ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(pwrite(fd, &byte, 1, bit / 8), 1);
        rc = read_back(fd, FEW);
        if (rc != -EBADMSG && rc != -EPROTONOSUPPORT)
            print_error("bit %lld is not told\n", (long long)bit);
        assert_true(rc == -EBADMSG || rc == -EPROTONOSUPPORT);
        byte ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(pwrite(fd, &byte, 1, bit / 8), 1);
    }
    assert_int_equal(read_back(fd, FEW), 300);
    assert_int_equal(close(fd), 0);
    assert_rc(log_release(&log), 0);
}

static void
a_file_cut_short_or_grown_is_told(void **state)
{
    const struct tmpdir *d = *state;
    struct log log = full_log(d, FEW, 20000); /* some blocks */
    const int fd = pack(d, &log);
    struct stat st;
    off_t size;

    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pwrite(fd, "", 1, st.st_size), 1);
    assert_rc(read_back(fd, FEW), -EBADMSG);
    for (size = st.st_size - 1; size >= 0; size -= 1 + size / 200) {
        assert_int_equal(ftruncate(fd, size), 0);
        assert_rc(read_back(fd, FEW), -EBADMSG);
    }
    assert_int_equal(close(fd), 0);
    assert_rc(log_release(&log), 0);
}

/* A block that is whole, but of another log. */
static void
a_block_of_another_log_is_told(void **state)
{
    const struct tmpdir *d = *state;
    struct log log = full_log(d, FEW, 100);
    const int fd = pack(d, &log);
    struct packed_header h = {.slots = 200,
                              .count = 100,
                              .keyspace_size = 256,
                              .key_size = 256,
                              .index = 7,
                              .epoch = log.header.epoch + 1,
                              .first_ms = log.header.first_ms,
                              .last_ms = log.header.last_ms};
    uint8_t bytes[PACKED_HEADER_SIZE];

    packed_header_put(&h, bytes);
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_rc(read_back(fd, FEW), -EBADMSG);
    assert_int_equal(close(fd), 0);
    assert_rc(log_release(&log), 0);
}

static void
a_damaged_slot_is_not_packed(void **state)
{
    const struct tmpdir *d = *state;
    struct log log = full_log(d, FEW, 100);
    const int fd = new_file(d, "packed");
    struct packer *p;

    assert_int_equal(pwrite(log.fd, "!", 1, LOG_SLOTS_AT + 50 * 544 + 3), 1);
    assert_rc(packer_new(&p), 0);
    assert_rc(packer_write(p, &log, fd), -EBADMSG);
    packer_free(p);
    assert_int_equal(close(fd), 0);
    assert_rc(log_release(&log), 0);
}

static void
a_newer_version_is_told_from_damage(void **state)
{
    const struct tmpdir *d = *state;
    struct log log = full_log(d, FEW, 1);
    const int fd = pack(d, &log);
    uint8_t bytes[PACKED_HEADER_SIZE];

    assert_int_equal(pread(fd, bytes, sizeof bytes, 0), sizeof bytes);
    bytes[12] = 1; /* a feature of tomorrow */
    bytes[124] = bytes[125] = bytes[126] = bytes[127] = 0;
    put_le32(bytes + 124, crc_of(bytes, 124));
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_rc(read_back(fd, FEW), -EPROTONOSUPPORT);
    assert_int_equal(close(fd), 0);
    assert_rc(log_release(&log), 0);
}

static void
any_failing_call_is_told(void **state)
{
    static const int errors[] = {EIO, ENOSPC};
    const struct tmpdir *d = *state;
    struct log log = full_log(d, FEW, 9000);
    const int fd = pack(d, &log);
    struct packer *p;
    bool hit = true;

    assert_rc(packer_new(&p), 0);
    for (unsigned n = 1; hit; n++) {
        const int to = new_file(d, "again");
        int rc;

        assert_true(n < 1000);
        fault_inject("disk", n, errors[n % 2]);
        rc = packer_write(p, &log, to);
        hit = fault_hit();
        fault_clear();
        assert_rc(rc, hit ? -errors[n % 2] : 0);
        assert_int_equal(close(to), 0);
    }
    packer_free(p);
    assert_int_equal(read_back(fd, FEW), 9000);
    assert_int_equal(close(fd), 0);
    assert_rc(log_release(&log), 0);
}

#define IN_TMPDIR(test)                                                        \
    cmocka_unit_test_setup_teardown(test, tmpdir_setup, tmpdir_teardown)

static const struct CMUnitTest tests[] = {
    IN_TMPDIR(a_log_of_a_few_names_comes_back),
    IN_TMPDIR(the_largest_and_smallest_of_everything_come_back),
    IN_TMPDIR(a_log_of_more_names_than_are_known_at_a_time_comes_back),
    IN_TMPDIR(a_log_of_more_keyspaces_than_are_known_at_a_time_comes_back),
    IN_TMPDIR(a_log_of_long_names_comes_back),
    IN_TMPDIR(names_with_marks_come_back_from_one_log_after_the_other),
    IN_TMPDIR(names_with_marks_come_back_when_the_first_are_forgotten),
    IN_TMPDIR(a_log_is_packed_to_less_than_a_twentieth),
    IN_TMPDIR(one_flipped_bit_anywhere_is_told),
    IN_TMPDIR(a_file_cut_short_or_grown_is_told),
    IN_TMPDIR(a_block_of_another_log_is_told),
    IN_TMPDIR(a_damaged_slot_is_not_packed),
    IN_TMPDIR(a_newer_version_is_told_from_damage),
    IN_TMPDIR(any_failing_call_is_told),
};
TEST_MAIN(tests)
