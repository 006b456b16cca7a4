/* tests/unit/test_held.c - records set aside in files. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/store/lmdb/held_files.h"
#include "common/wire/name.h"
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
    return heldfile_put(fd, hash_key, (const uint8_t *)keyspace,
                        strlen(keyspace), &fill, deltas, 4);
}

struct names {
    char file[8][256];
    struct heldfile head[8];
    size_t count;
};

static int
collect(void *ctx, const char *file, const struct heldfile *h)
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

    assert_rc(heldfile_each(fd, collect, &n), 0);
    return n;
}

static void
what_is_held_reads_back_as_it_was(void **state)
{
    struct tmpdir *d = *state;
    struct names n;
    struct heldfile h;

    assert_rc(put(d->fd, "words", &mark7, 1234567), 0);

    n = all(d->fd);
    assert_int_equal(n.count, 1);
    assert_int_equal(n.head[0].name_size, 5);
    assert_int_equal(n.head[0].mark.epoch, 7);
    assert_rc(heldfile_get(d->fd, n.file[0], &h), 0);
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
    heldfile_free(&h);
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
    assert_true(heldfile_parse_name(n.file[0], &mark));
    assert_memory_equal(mark.uuid, mark7.uuid, 16);
    assert_int_equal(mark.epoch, 7);
    assert_false(heldfile_parse_name("words", &mark));
    assert_false(heldfile_parse_name("words,0011,1", &mark));
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
    struct heldfile h;
    int fd;

    assert_rc(put(d->fd, "words", &mark7, 1), 0);
    n = all(d->fd);
    fd = openat(d->fd, n.file[0], O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 80), 1);
    assert_int_equal(close(fd), 0);
    assert_rc(heldfile_get(d->fd, n.file[0], &h), -EBADMSG);

    assert_rc(put(d->fd, "words", &mark7, 1), 0);

    assert_rc(heldfile_get(d->fd, n.file[0], &h), 0);
    heldfile_free(&h);
}

static void
every_damaged_byte_and_every_cut_is_noticed(void **state)
{
    struct tmpdir *d = *state;
    struct names n;
    struct stat st;
    struct heldfile h;
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
        assert_rc(heldfile_get(d->fd, n.file[0], &h),
                  version ? -EPROTONOSUPPORT : -EBADMSG);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    for (at = st.st_size - 1; at >= 0; at--) {
        assert_int_equal(ftruncate(fd, at), 0);
        assert_rc(heldfile_get(d->fd, n.file[0], &h), -EBADMSG);
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

    assert_rc(heldfile_set_aside(d->fd, n.file[0], aside, sizeof aside), 0);

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
    assert_rc(heldfile_remove(d->fd, n.file[0]), 0);
    assert_int_equal(fault_calls("fsync"), 1);
    assert_rc(heldfile_remove(d->fd, n.file[0]), 0);

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
    assert_rc(heldfile_remove(d->fd, n.file[0]), 0);
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

    assert_rc(heldfile_oldest_ms(d->fd, (const uint8_t *)"words", 5, &oldest),
              0);
    assert_int_equal(oldest, 1000);
    assert_rc(heldfile_oldest_ms(d->fd, (const uint8_t *)"none", 4, &oldest),
              0);
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
            struct heldfile h;
            int rc;

            assert_true(n < 100);
            fault_inject(groups[g], n, g == 0 ? ENOSPC : ENOMEM);
            rc = put(d->fd, "words", &mark7, 1);
            hit = fault_hit();
            fault_clear();

            assert_int_equal(fault_open_fds(), fds);
            names = all(d->fd);
            if (rc == 0 || names.count == 1) {
                assert_rc(heldfile_get(d->fd, names.file[0], &h), 0);
                assert_int_equal(h.count, 4);
                heldfile_free(&h);
            }
            assert_rc(put(d->fd, "words", &mark7, 1), 0);
            assert_int_equal(tmpdir_count(d, "."), 1);
            names = all(d->fd);
            assert_rc(heldfile_remove(d->fd, names.file[0]), 0);
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
            struct heldfile h;
            int rc;

            assert_true(n < 100);
            fault_inject(groups[g], n, g == 0 ? EIO : ENOMEM);
            rc = heldfile_get(d->fd, names.file[0], &h);
            if (rc == 0)
                heldfile_free(&h);
            if (rc == 0)
                rc = heldfile_oldest_ms(d->fd, (const uint8_t *)"words", 5,
                                        &oldest);
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
    struct heldfile h;
    size_t i;

    for (i = 0; i < COUNT; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%0256zu", i); /* fits */
        deltas[i] = delta(keys[i], 0, 0, i);
    }

    assert_rc(heldfile_put(d->fd, hash_key, (const uint8_t *)"w", 1, &mark7,
                           deltas, COUNT),
              0);

    n = all(d->fd);
    assert_rc(heldfile_get(d->fd, n.file[0], &h), 0);
    assert_int_equal(h.count, COUNT);
    for (i = 0; i < COUNT; i++) {
        assert_int_equal(h.deltas[i].sum_low, i);
        assert_memory_equal(h.deltas[i].key, keys[i], 256);
    }
    heldfile_free(&h);
}

/* ---- files for many keyspaces ------------------------------------------ */

static const struct store_delta some[] = {
    {.key = (const uint8_t *)"a", .key_size = 1, .minute = 3, .sum_low = 1},
    {.key = (const uint8_t *)"b", .key_size = 1, .sum_high = -1},
};

/* Keyspaces "k0", "k1" and so on, each with one record more than the last. */
static int
put_many(int fd, const struct store_mark *mark, unsigned keyspaces)
{
    struct held_many_base base;
    struct held_out *out;
    unsigned i;
    int rc;

    rc = heldfile_many_begin(&out, fd, mark, keyspaces, &base);
    if (rc < 0)
        return rc;
    for (i = 0; i < keyspaces && rc == 0; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "k%u", i); /* fits */
        rc = heldfile_many_add(out, (const uint8_t *)name, strlen(name), some,
                               i % 2 + 1);
    }
    rc = heldfile_many_end(out, fd, mark, rc, true);
    if (rc == 0)
        rc = heldfile_many_publish(fd, mark, &base);
    if (rc == 0)
        rc = heldfile_settle(fd);
    if (rc < 0)
        heldfile_many_discard(fd, mark);
    return rc;
}

/* The names in the only file, in order: "k0 k1 ". */
static const char *
names_in(int fd)
{
    static char text[256];
    const struct names n = all(fd);
    struct heldfile_many many;
    struct heldfile h;

    text[0] = 0;
    if (n.count == 0)
        return text;
    assert_int_equal(n.count, 1);
    assert_rc(heldfile_many_get(fd, n.file[0], false, &many), 0);
    assert_int_equal(n.head[0].keyspaces, many.keyspaces);
    while (heldfile_many_next(&many, &h)) {
        assert_rc(heldfile_many_records(&many, &h), 0);
        assert_int_equal(h.count, (h.name[1] - '0') % 2 + 1);
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s ",
                       (int)h.name_size, h.name); /* fits */
    }
    heldfile_many_free(&many);
    return text;
}

static void
many_keyspaces_in_one_file_read_back_as_they_were(void **state)
{
    struct store_mark mark = mark7;
    struct tmpdir *d = *state;
    struct heldfile_many many;
    struct names n;
    struct heldfile h;
    uint64_t oldest;

    mark.first_ms = 1234;
    assert_rc(put_many(d->fd, &mark, 3), 0);

    assert_string_equal(names_in(d->fd), "k0 k1 k2 ");
    n = all(d->fd);
    assert_true(heldfile_is_many(n.file[0]));
    assert_int_equal(n.head[0].name_size, 0);
    assert_int_equal(n.head[0].mark.first_ms, 1234);
    assert_true(heldfile_parse_name(n.file[0], &mark));
    assert_memory_equal(mark.uuid, mark7.uuid, 16);
    assert_int_equal(mark.epoch, 7);
    assert_rc(heldfile_many_get(d->fd, n.file[0], false, &many), 0);
    assert_true(heldfile_many_next(&many, &h));
    assert_null(h.deltas);
    assert_true(heldfile_many_next(&many, &h));
    assert_rc(heldfile_many_records(&many, &h), 0);
    assert_int_equal(h.mark.epoch, 7);
    assert_int_equal(h.mark.first_ms, 1234);
    assert_int_equal(h.deltas[0].minute, 3);
    assert_int_equal(h.deltas[0].sum_low, 1);
    assert_memory_equal(h.deltas[1].key, "b", 1);
    assert_true(h.deltas[1].sum_high == -1);
    heldfile_many_free(&many);
    assert_rc(heldfile_oldest_ms(d->fd, (const uint8_t *)"k1", 2, &oldest), 0);
    assert_int_equal(oldest, 1234);
    assert_rc(heldfile_oldest_ms(d->fd, (const uint8_t *)"k", 1, &oldest), 0);
    assert_true(oldest == UINT64_MAX);
}

static void
damage_to_a_file_for_many_is_noticed_and_it_is_set_aside(void **state)
{
    struct tmpdir *d = *state;
    struct heldfile_many many;
    char aside[256];
    struct names n;
    struct stat st;
    uint8_t byte;
    off_t at;
    int fd;

    assert_rc(put_many(d->fd, &mark7, 3), 0);
    n = all(d->fd);
    assert_rc(heldfile_many_set_aside(d->fd, n.file[0], aside, sizeof aside),
              -EBUSY);
    fd = openat(d->fd, n.file[0], O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    for (at = 0; at < st.st_size; at++) {
        const bool version = at >= 8 && at < 12;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_rc(heldfile_many_get(d->fd, n.file[0], false, &many),
                  version ? -EPROTONOSUPPORT : -EBADMSG);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    for (at = st.st_size - 1; at >= 0; at--) {
        assert_int_equal(ftruncate(fd, at), 0);
        assert_rc(heldfile_many_get(d->fd, n.file[0], false, &many), -EBADMSG);
    }
    assert_int_equal(close(fd), 0);

    assert_rc(put_many(d->fd, &mark7, 3), -EEXIST);
    assert_rc(heldfile_many_set_aside(d->fd, n.file[0], aside, sizeof aside),
              0);
    assert_true(tmpdir_has(d, aside));
    assert_rc(put_many(d->fd, &mark7, 3), 0);
}

/* It must not be waited for, as opening a FIFO does, nor stay in the way. */
static void
what_is_no_regular_file_is_damaged_and_is_set_aside(void **state)
{
    struct tmpdir *d = *state;
    struct heldfile_many many;
    char aside[256];
    struct names n;
    struct heldfile h;

    for (unsigned link = 0; link < 2; link++) {
        assert_rc(put(d->fd, "words", &mark7, 1), 0);
        assert_rc(put_many(d->fd, &mark7, 3), 0);
        n = all(d->fd);
        assert_int_equal(n.count, 2);
        for (unsigned i = 0; i < 2; i++) {
            const char *file = n.file[i];

            assert_int_equal(unlinkat(d->fd, file, 0), 0);
            assert_int_equal(link ? symlinkat("/dev/zero", d->fd, file)
                                  : mkfifoat(d->fd, file, 0600),
                             0);
            if (heldfile_is_many(file)) {
                assert_rc(heldfile_many_get(d->fd, file, true, &many),
                          -EBADMSG);
                assert_rc(
                    heldfile_many_set_aside(d->fd, file, aside, sizeof aside),
                    0);
            } else {
                assert_rc(heldfile_get(d->fd, file, &h), -EBADMSG);
                assert_rc(heldfile_set_aside(d->fd, file, aside, sizeof aside),
                          0);
            }
            assert_int_equal(unlinkat(d->fd, aside, 0), 0);
        }
        assert_int_equal(all(d->fd).count, 0);
    }
}

static void
what_is_merged_of_many_is_dropped_and_the_last_takes_the_file_along(
    void **state)
{
    static const char *const left[] = {"k0 k2 ", "k2 ", ""};
    static const unsigned drops[] = {1, 0, 0};
    struct tmpdir *d = *state;
    struct heldfile_many many;
    unsigned i;

    assert_rc(put_many(d->fd, &mark7, 3), 0);
    for (i = 0; i < 3; i++) {
        const struct names n = all(d->fd);

        assert_rc(heldfile_many_get(d->fd, n.file[0], true, &many), 0);
        assert_true(many.locked);
        assert_rc(heldfile_many_drop(&many, d->fd, n.file[0]), 0);
        many.drop[drops[i]] = true;
        assert_rc(heldfile_many_drop(&many, d->fd, n.file[0]), 0);
        heldfile_many_free(&many);
        assert_string_equal(names_in(d->fd), left[i]);
    }
    assert_int_equal(tmpdir_count(d, "."), 0);
}

/* What a log still has is written again whole. */
static void
holding_many_again_replaces_the_file_unless_it_is_of_another_fill_or_in_use(
    void **state)
{
    struct store_mark other = mark7;
    struct tmpdir *d = *state;
    struct heldfile_many many;
    struct names n;

    other.first_ms = 5;
    assert_rc(put_many(d->fd, &mark7, 2), 0);
    assert_rc(put_many(d->fd, &mark7, 3), 0);
    assert_string_equal(names_in(d->fd), "k0 k1 k2 ");
    assert_rc(put_many(d->fd, &other, 4), -EEXIST);

    n = all(d->fd);
    assert_rc(heldfile_many_get(d->fd, n.file[0], true, &many), 0);
    assert_rc(put_many(d->fd, &mark7, 4), -EEXIST);
    heldfile_many_free(&many);
    assert_string_equal(names_in(d->fd), "k0 k1 k2 ");
    assert_rc(put_many(d->fd, &mark7, 4), 0);
    assert_int_equal(tmpdir_count(d, "."), 1);
}

/* A new name in every log must not be a new file with every log. */
static void
later_epochs_go_behind_the_earlier_ones_while_the_file_is_small(void **state)
{
    struct store_mark mark = mark7;
    struct tmpdir *d = *state;
    struct heldfile_many many;
    struct names n;
    struct heldfile h;

    mark.first_ms = 2000;
    assert_rc(put_many(d->fd, &mark, 2), 0);
    mark.epoch = 9;
    mark.first_ms = 1000;
    assert_rc(put_many(d->fd, &mark, 3), 0);
    assert_rc(put_many(d->fd, &mark, 1), 0);
    mark.epoch = 12;
    mark.first_ms = 3000;
    assert_rc(put_many(d->fd, &mark, 2), 0);
    assert_string_equal(names_in(d->fd), "k0 k1 k0 k0 k1 ");

    n = all(d->fd);
    assert_true(heldfile_parse_name(n.file[0], &mark));
    assert_int_equal(mark.epoch, 7);
    assert_int_equal(n.head[0].mark.first_ms, 1000);
    assert_int_equal(n.head[0].newest_ms, 3000);
    assert_rc(heldfile_many_get(d->fd, n.file[0], true, &many), 0);
    assert_int_equal(many.last, 12);
    assert_true(heldfile_many_next(&many, &h));
    assert_int_equal(h.mark.epoch, 7);
    assert_int_equal(h.mark.first_ms, 2000);
    assert_true(heldfile_many_next(&many, &h));
    assert_true(heldfile_many_next(&many, &h));
    assert_int_equal(h.mark.epoch, 9);
    many.drop[2] = true;
    assert_rc(heldfile_many_drop(&many, d->fd, n.file[0]), 0);
    heldfile_many_free(&many);
    assert_string_equal(names_in(d->fd), "k0 k1 k0 k1 ");
    assert_int_equal(all(d->fd).head[0].mark.first_ms, 2000);

    /* Another log's is another file. */
    mark.uuid[0]++;
    assert_rc(put_many(d->fd, &mark, 1), 0);
    assert_int_equal(all(d->fd).count, 2);
}

static void
a_large_file_for_many_is_left_as_it_is(void **state)
{
    enum { COUNT = 5000 };
    static struct store_delta deltas[COUNT];
    static char keys[COUNT][257];
    struct store_mark mark = mark7;
    struct held_many_base base;
    struct tmpdir *d = *state;
    struct held_out *out;

    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%0256d", i); /* fits */
        deltas[i] = delta(keys[i], 0, 0, 1);
    }
    assert_rc(heldfile_many_begin(&out, d->fd, &mark, 1, &base), 0);
    assert_rc(heldfile_many_add(out, (const uint8_t *)"k", 1, deltas, COUNT),
              0);
    assert_rc(heldfile_many_end(out, d->fd, &mark, 0, true), 0);
    assert_rc(heldfile_many_publish(d->fd, &mark, &base), 0);

    mark.epoch++;
    assert_rc(put_many(d->fd, &mark, 2), 0);
    assert_int_equal(all(d->fd).count, 2);
    mark.epoch++;
    assert_rc(put_many(d->fd, &mark, 2), 0);
    assert_int_equal(all(d->fd).count, 2);

    /* The same again is known, in whichever file it is. */
    mark.epoch = 7;
    mark.first_ms = 5;
    assert_rc(put_many(d->fd, &mark, 2), -EEXIST);
    assert_rc(put_many(d->fd, &mark7, 2), 0);
    assert_int_equal(all(d->fd).count, 2);
}

static void
what_another_has_changed_meanwhile_is_not_replaced(void **state)
{
    struct store_mark mark = mark7;
    struct held_many_base base;
    struct tmpdir *d = *state;
    struct heldfile_many many;
    struct held_out *out;
    struct names n;

    assert_rc(put_many(d->fd, &mark, 3), 0);
    n = all(d->fd);
    mark.epoch++;
    for (unsigned i = 0; i < 2; i++) {
        assert_rc(heldfile_many_begin(&out, d->fd, &mark, 1, &base), 0);
        assert_rc(heldfile_many_add(out, (const uint8_t *)"k0", 2, some, 1), 0);
        assert_rc(heldfile_many_end(out, d->fd, &mark, 0, true), 0);
        assert_rc(heldfile_many_get(d->fd, n.file[0], true, &many), 0);
        if (i == 1)
            memset(many.drop, 1, many.keyspaces);
        many.drop[0] = true;
        assert_rc(heldfile_many_drop(&many, d->fd, n.file[0]), 0);
        heldfile_many_free(&many);

        assert_rc(heldfile_many_publish(d->fd, &mark, &base), -EEXIST);
        heldfile_many_discard(d->fd, &mark);
        assert_string_equal(names_in(d->fd), i == 0 ? "k1 k2 " : "");
    }
    assert_rc(put_many(d->fd, &mark, 1), 0);
    assert_string_equal(names_in(d->fd), "k0 ");
}

static void
only_one_at_a_time_may_change_a_file_for_many(void **state)
{
    struct tmpdir *d = *state;
    struct heldfile_many first, second;
    struct names n;

    assert_rc(put_many(d->fd, &mark7, 2), 0);
    n = all(d->fd);
    assert_rc(heldfile_many_get(d->fd, n.file[0], true, &first), 0);
    assert_rc(heldfile_many_get(d->fd, n.file[0], true, &second), 0);
    assert_true(first.locked);
    assert_false(second.locked);
    heldfile_many_free(&second);
    first.drop[0] = true;
    assert_rc(heldfile_many_drop(&first, d->fd, n.file[0]), 0);

    /* It is another file now, though the first still holds its lock. */
    assert_rc(heldfile_many_get(d->fd, n.file[0], true, &second), 0);
    assert_true(second.locked);
    assert_int_equal(second.keyspaces, 1);
    heldfile_many_free(&second);
    heldfile_many_free(&first);
}

static void
holding_and_dropping_many_survives_any_failing_call(void **state)
{
    static const char *const groups[] = {"disk", "memory"};
    struct tmpdir *d = *state;
    const unsigned fds = fault_open_fds();
    unsigned g, n;
    bool hit = true;

    for (g = 0; g < 2; g++) {
        for (n = 1, hit = true; hit; n++) {
            const struct names none = {.count = 0};
            struct names names = none;
            struct heldfile_many many;
            int rc;

            assert_true(n < 100);
            fault_inject(groups[g], n, g == 0 ? EIO : ENOMEM);
            rc = put_many(d->fd, &mark7, 3);
            if (rc == 0)
                rc = heldfile_each(d->fd, collect, &names);
            if (rc == 0)
                rc = heldfile_many_get(d->fd, names.file[0], true, &many);
            if (rc == 0) {
                many.drop[0] = true;
                rc = heldfile_many_drop(&many, d->fd, names.file[0]);
                heldfile_many_free(&many);
            }
            hit = fault_hit();
            fault_clear();

            assert_int_equal(fault_open_fds(), fds);
            if (all(d->fd).count > 0 && names_in(d->fd)[1] != '1')
                assert_string_equal(names_in(d->fd), "k0 k1 k2 ");
            if (rc == 0)
                assert_string_equal(names_in(d->fd), "k1 k2 ");
            assert_rc(put_many(d->fd, &mark7, 3), 0);
            assert_string_equal(names_in(d->fd), "k0 k1 k2 ");
            names = all(d->fd);
            assert_rc(heldfile_remove(d->fd, names.file[0]), 0);
            (void)heldfile_tidy(d->fd, 0); /* what could not be removed */
        }
        assert_true(n > 4);
    }
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
    IN_TMPDIR(many_keyspaces_in_one_file_read_back_as_they_were),
    IN_TMPDIR(damage_to_a_file_for_many_is_noticed_and_it_is_set_aside),
    IN_TMPDIR(what_is_no_regular_file_is_damaged_and_is_set_aside),
    IN_TMPDIR(
        what_is_merged_of_many_is_dropped_and_the_last_takes_the_file_along),
    IN_TMPDIR(
        holding_many_again_replaces_the_file_unless_it_is_of_another_fill_or_in_use),
    IN_TMPDIR(later_epochs_go_behind_the_earlier_ones_while_the_file_is_small),
    IN_TMPDIR(a_large_file_for_many_is_left_as_it_is),
    IN_TMPDIR(what_another_has_changed_meanwhile_is_not_replaced),
    IN_TMPDIR(only_one_at_a_time_may_change_a_file_for_many),
    IN_TMPDIR(holding_and_dropping_many_survives_any_failing_call),
};
TEST_MAIN(tests)
