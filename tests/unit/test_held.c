/* tests/unit/test_held.c - records set aside in files. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/held.h"
#include "common/name.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

static const uint8_t hash_key[NAME_HASH_KEY] = "0123456789abcde";

static const struct store_mark mark7 = {.uuid = "held uuid number", .epoch = 7};

static struct store_delta
delta(const char *key, uint32_t minute, int64_t high, uint64_t low)
{
    return (struct store_delta){.key = (const uint8_t *)key,
                                .key_size = (uint16_t)strlen(key),
                                .minute = minute,
                                .sum_high = high,
                                .sum_low = low};
}

static int
put(int fd, const char *keyspace, const struct store_mark *mark,
    uint64_t first_ms)
{
    const struct store_delta deltas[] = {
        delta("a", 3, -1, UINT64_MAX), /* -1 */
        delta("a", 4, 0, 5),
        delta("ab", 1, INT64_MIN, 0),
        delta("b", 0, INT64_MAX, UINT64_MAX),
    };

    struct store_mark fill = *mark;

    fill.first_ms = first_ms;
    return held_put(fd, hash_key, (const uint8_t *)keyspace, strlen(keyspace),
                    &fill, deltas, 4);
}

struct names {
    char file[8][256];
    struct held head[8];
    size_t count;
};

static int
collect(void *ctx, const char *file, const struct held *h)
{
    struct names *n = ctx;

    assert_true(n->count < 8);
    assert_null(h->deltas);
    (void)snprintf(n->file[n->count], sizeof n->file[0], "%s", file); /* fits */
    n->head[n->count++] = *h;
    return 0;
}

static struct names
all(int fd)
{
    struct names n = {.count = 0};

    assert_rc(held_each(fd, collect, &n), 0);
    return n;
}

static void
what_is_held_reads_back_as_it_was(void **state)
{
    struct tmpdir *d = *state;
    struct names n;
    struct held h;

    assert_rc(put(d->fd, "words", &mark7, 1234567), 0);

    n = all(d->fd);
    assert_int_equal(n.count, 1);
    assert_int_equal(n.head[0].name_size, 5);
    assert_int_equal(n.head[0].mark.epoch, 7);
    assert_rc(held_get(d->fd, n.file[0], &h), 0);
    assert_int_equal(h.name_size, 5);
    assert_memory_equal(h.name, "words", 5);
    assert_memory_equal(h.mark.uuid, mark7.uuid, 16);
    assert_int_equal(h.mark.epoch, 7);
    assert_int_equal(h.mark.first_ms, 1234567);
    assert_int_equal(h.count, 4);
    assert_memory_equal(h.deltas[2].key, "ab", 2);
    assert_int_equal(h.deltas[0].minute, 3);
    assert_true(h.deltas[0].sum_high == -1);
    assert_true(h.deltas[0].sum_low == UINT64_MAX);
    assert_true(h.deltas[2].sum_high == INT64_MIN);
    assert_true(h.deltas[3].sum_high == INT64_MAX);
    held_free(&h);
}

static void
its_name_says_keyspace_log_and_epoch_and_nothing_else_is_taken_for_one(
    void **state)
{
    struct tmpdir *d = *state;
    struct store_mark mark;
    struct names n;

    assert_rc(put(d->fd, "../evil,x", &mark7, 1), 0);
    tmpdir_put(d, "README", "x", 1, 0600);
    tmpdir_put(d, "%twords,00112233445566778899aabbccddeeff,0000000000000001",
               "x", 1, 0600);
    tmpdir_put(d, "bad-00112233445566778899aabbccddeeff-0000000000000001-a",
               "x", 1, 0600);

    n = all(d->fd);

    assert_int_equal(n.count, 1);
    assert_true(held_parse_name(n.file[0], &mark));
    assert_memory_equal(mark.uuid, mark7.uuid, 16);
    assert_int_equal(mark.epoch, 7);
    assert_false(held_parse_name("words", &mark));
    assert_false(held_parse_name("words,0011,1", &mark));
}

static void
holding_the_same_records_again_is_success_and_changes_nothing(void **state)
{
    struct tmpdir *d = *state;

    assert_rc(put(d->fd, "words", &mark7, 1), 0);
    assert_rc(put(d->fd, "words", &mark7, 1), 0);

    assert_int_equal(all(d->fd).count, 1);
    assert_int_equal(tmpdir_count(d, "."), 1);
}

static void
holding_again_replaces_a_damaged_file_while_the_log_still_has_the_records(
    void **state)
{
    struct tmpdir *d = *state;
    struct names n;
    struct held h;
    int fd;

    assert_rc(put(d->fd, "words", &mark7, 1), 0);
    n = all(d->fd);
    fd = openat(d->fd, n.file[0], O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 80), 1);
    assert_int_equal(close(fd), 0);
    assert_rc(held_get(d->fd, n.file[0], &h), -EBADMSG);

    assert_rc(put(d->fd, "words", &mark7, 1), 0);

    assert_rc(held_get(d->fd, n.file[0], &h), 0);
    held_free(&h);
}

static void
every_damaged_byte_and_every_cut_is_noticed(void **state)
{
    struct tmpdir *d = *state;
    struct names n;
    struct stat st;
    struct held h;
    uint8_t byte;
    off_t at;
    int fd;

    assert_rc(put(d->fd, "words", &mark7, 1), 0);
    n = all(d->fd);
    fd = openat(d->fd, n.file[0], O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    for (at = 0; at < st.st_size; at++) {
        const bool version = at >= 8 && at < 12;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_rc(held_get(d->fd, n.file[0], &h),
                  version ? -EPROTONOSUPPORT : -EBADMSG);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    for (at = st.st_size - 1; at >= 0; at--) {
        assert_int_equal(ftruncate(fd, at), 0);
        assert_rc(held_get(d->fd, n.file[0], &h), -EBADMSG);
    }
    assert_int_equal(all(d->fd).head[0].name_size, 0);
    assert_int_equal(close(fd), 0);
}

static void
a_file_set_aside_is_kept_and_never_listed_again(void **state)
{
    struct tmpdir *d = *state;
    struct names n;
    char aside[256];

    assert_rc(put(d->fd, "bad-words", &mark7, 1), 0);
    n = all(d->fd);

    assert_rc(held_set_aside(d->fd, n.file[0], aside, sizeof aside), 0);

    assert_int_equal(all(d->fd).count, 0);
    assert_true(tmpdir_has(d, aside));
    assert_int_equal(strncmp(aside, "bad-", 4), 0);
}

static void
removing_is_durable_and_may_be_done_twice(void **state)
{
    struct tmpdir *d = *state;
    struct names n;

    assert_rc(put(d->fd, "words", &mark7, 1), 0);
    n = all(d->fd);

    fault_clear();
    assert_rc(held_remove(d->fd, n.file[0]), 0);
    assert_int_equal(fault_calls("fsync"), 1);
    assert_rc(held_remove(d->fd, n.file[0]), 0);

    assert_int_equal(tmpdir_count(d, "."), 0);
}

/* A log that was put back to an earlier state fills an epoch twice. */
static void
another_fill_of_an_epoch_waits_for_the_first(void **state)
{
    struct tmpdir *d = *state;
    struct names n;

    assert_rc(put(d->fd, "words", &mark7, 1000), 0);

    assert_rc(put(d->fd, "words", &mark7, 2000), -EEXIST);

    n = all(d->fd);
    assert_int_equal(n.count, 1);
    assert_int_equal(n.head[0].mark.first_ms, 1000);
    assert_rc(held_remove(d->fd, n.file[0]), 0);
    assert_rc(put(d->fd, "words", &mark7, 2000), 0);
}

static void
the_oldest_held_record_of_a_keyspace_is_found(void **state)
{
    const struct store_mark mark8 = {.uuid = "held uuid number", .epoch = 8};
    struct tmpdir *d = *state;
    uint64_t oldest;

    assert_rc(put(d->fd, "words", &mark8, 2000), 0);
    assert_rc(put(d->fd, "words", &mark7, 1000), 0);
    assert_rc(put(d->fd, "other", &mark7, 500), 0);

    assert_rc(held_oldest_ms(d->fd, (const uint8_t *)"words", 5, &oldest), 0);
    assert_int_equal(oldest, 1000);
    assert_rc(held_oldest_ms(d->fd, (const uint8_t *)"none", 4, &oldest), 0);
    assert_true(oldest == UINT64_MAX);
}

/* After each failure: no half file under its name, no descriptor left open,
 * and the next try succeeds. */
static void
holding_survives_any_failing_call(void **state)
{
    static const char *const groups[] = {"disk", "memory"};
    struct tmpdir *d = *state;
    const unsigned fds = fault_open_fds();
    unsigned g, n;
    bool hit = true;

    for (g = 0; g < 2; g++) {
        for (n = 1, hit = true; hit; n++) {
            struct names names;
            struct held h;
            int rc;

            assert_true(n < 100);
            fault_inject(groups[g], n, g == 0 ? ENOSPC : ENOMEM);
            rc = put(d->fd, "words", &mark7, 1);
            hit = fault_hit();
            fault_clear();

            assert_int_equal(fault_open_fds(), fds);
            names = all(d->fd);
            if (rc == 0 || names.count == 1) {
                assert_rc(held_get(d->fd, names.file[0], &h), 0);
                assert_int_equal(h.count, 4);
                held_free(&h);
            }
            assert_rc(put(d->fd, "words", &mark7, 1), 0);
            assert_int_equal(tmpdir_count(d, "."), 1);
            names = all(d->fd);
            assert_rc(held_remove(d->fd, names.file[0]), 0);
        }
        assert_true(n > 2);
    }
}

static void
reading_survives_any_failing_call(void **state)
{
    static const char *const groups[] = {"disk", "memory"};
    struct tmpdir *d = *state;
    unsigned fds, g, n;
    struct names names;
    bool hit;

    assert_rc(put(d->fd, "words", &mark7, 1), 0);
    names = all(d->fd);
    fds = fault_open_fds();
    for (g = 0; g < 2; g++) {
        for (n = 1, hit = true; hit; n++) {
            uint64_t oldest = 0;
            struct held h;
            int rc;

            assert_true(n < 100);
            fault_inject(groups[g], n, g == 0 ? EIO : ENOMEM);
            rc = held_get(d->fd, names.file[0], &h);
            if (rc == 0)
                held_free(&h);
            if (rc == 0)
                rc =
                    held_oldest_ms(d->fd, (const uint8_t *)"words", 5, &oldest);
            hit = fault_hit();
            fault_clear();

            assert_rc(rc < 0, hit);
            assert_int_equal(fault_open_fds(), fds);
        }
        assert_true(n > 2);
    }
}

static void
many_records_with_long_keys_go_through(void **state)
{
    enum { COUNT = 3000 };
    static char keys[COUNT][257];
    static struct store_delta deltas[COUNT];
    struct tmpdir *d = *state;
    struct names n;
    struct held h;
    size_t i;

    for (i = 0; i < COUNT; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%0256zu", i); /* fits */
        deltas[i] = delta(keys[i], 0, 0, i);
    }

    assert_rc(held_put(d->fd, hash_key, (const uint8_t *)"w", 1, &mark7, deltas,
                       COUNT),
              0);

    n = all(d->fd);
    assert_rc(held_get(d->fd, n.file[0], &h), 0);
    assert_int_equal(h.count, COUNT);
    for (i = 0; i < COUNT; i++) {
        assert_int_equal(h.deltas[i].sum_low, i);
        assert_memory_equal(h.deltas[i].key, keys[i], 256);
    }
    held_free(&h);
}

#define IN_TMPDIR(test)                                                        \
    cmocka_unit_test_setup_teardown(test, tmpdir_setup, tmpdir_teardown)

static const struct CMUnitTest tests[] = {
    IN_TMPDIR(what_is_held_reads_back_as_it_was),
    IN_TMPDIR(
        its_name_says_keyspace_log_and_epoch_and_nothing_else_is_taken_for_one),
    IN_TMPDIR(holding_the_same_records_again_is_success_and_changes_nothing),
    IN_TMPDIR(
        holding_again_replaces_a_damaged_file_while_the_log_still_has_the_records),
    IN_TMPDIR(every_damaged_byte_and_every_cut_is_noticed),
    IN_TMPDIR(a_file_set_aside_is_kept_and_never_listed_again),
    IN_TMPDIR(removing_is_durable_and_may_be_done_twice),
    IN_TMPDIR(another_fill_of_an_epoch_waits_for_the_first),
    IN_TMPDIR(the_oldest_held_record_of_a_keyspace_is_found),
    IN_TMPDIR(holding_survives_any_failing_call),
    IN_TMPDIR(reading_survives_any_failing_call),
    IN_TMPDIR(many_records_with_long_keys_go_through),
};
TEST_MAIN(tests)
