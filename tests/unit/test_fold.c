/* tests/unit/test_fold.c - logs in memory folded, against a plain model. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/fault.h"
#include "tests/lib/filler.h"
#include "tests/lib/random.h"

/* The module under test. */
#include "worker/fold.c"

#define MEMORY ((size_t)32 << 20)

/* One log in memory. */
struct fake {
    struct log log;
    uint8_t *slots;
};

static struct fake
    made[64]; /* by log index; closed when there is another one */

static size_t
size_of(const struct log *log)
{
    return LOG_SLOTS_AT +
           (size_t)log->header.slots * log->header.layout.slot_size;
}

/* A sealed log for this many slots with names of this size, all zeros. */
static void
fake_init(struct fake *f, unsigned index, uint32_t slots, uint16_t name_max)
{
    struct fake *before = &made[index];
    struct log *log = &f->log;
    uint8_t *at;

    if (before->slots) {
        assert_int_equal(
            munmap(before->slots - LOG_SLOTS_AT, size_of(&before->log)), 0);
        assert_int_equal(close(before->log.fd), 0);
    }
    *log = (struct log){.header = {.index = index,
                                   .uuid = {(uint8_t)(index + 1)},
                                   .slots = slots,
                                   .state = LOG_SEALED,
                                   .epoch = 5}};
    assert_rc(layout_init(&log->header.layout, name_max, name_max), 0);
    log->fd = memfd_create("log", MFD_CLOEXEC);
    assert_int_equal(ftruncate(log->fd, (off_t)size_of(log)), 0);
    at = mmap(NULL, size_of(log), PROT_READ | PROT_WRITE, MAP_SHARED, log->fd,
              0);
    assert_true(at != MAP_FAILED);
    f->slots = at + LOG_SLOTS_AT;
    *before = *f;
}

static uint8_t *
slot_at(const struct fake *f, uint64_t number)
{
    return f->slots + number * f->log.header.layout.slot_size;
}

static uint32_t minute_put; /* of the increments that are appended */

static void
append_bytes(struct fake *f, const uint8_t *keyspace, size_t keyspace_size,
             const uint8_t *key, size_t key_size, int64_t increment,
             uint64_t ms)
{
    const struct slot_stamp stamp = {.received_ms = ms};
    const uint64_t number = f->log.header.count++;
    const struct message m = {.increment = increment,
                              .keyspace = keyspace,
                              .keyspace_size = (uint16_t)keyspace_size,
                              .key = key,
                              .key_size = (uint16_t)key_size,
                              .minute = minute_put};

    assert_true(number < f->log.header.slots);
    filler_put_slot(&f->log, &m, (uint32_t)number, &stamp, slot_at(f, number));
}

static void
append_slot(struct fake *f, const char *keyspace, const char *key,
            int64_t increment, uint64_t ms)
{
    append_bytes(f, (const uint8_t *)keyspace, strlen(keyspace),
                 (const uint8_t *)key, strlen(key), increment, ms);
}

static struct fold_keyspace *
keyspace(const struct fold *f, const char *name)
{
    return fold_find(f, (const uint8_t *)name, strlen(name));
}

/* The sum of one key and minute, which fits int64 here; fails when there is
 * none. */
static int64_t
sum_of(struct fold *f, const char *name, const char *key, uint32_t minute)
{
    struct store_delta *d;
    size_t count, i;

    assert_non_null(keyspace(f, name));
    count = fold_deltas(f, keyspace(f, name), NULL, &d);
    for (i = 0; i < count; i++) {
        if (d[i].key_size != strlen(key) || d[i].minute != minute ||
            memcmp(d[i].key, key, d[i].key_size) != 0)
            continue;
        assert_true(d[i].sum == (int64_t)d[i].sum);
        return (int64_t)d[i].sum;
    }
    fail_msg("no delta of %s %s at minute %u", name, key, minute);
    return 0;
}

static size_t
delta_count(struct fold *f, const char *name)
{
    struct store_delta *d;

    return keyspace(f, name) ? fold_deltas(f, keyspace(f, name), NULL, &d) : 0;
}

static void
set_up(struct fold *f)
{
    assert_rc(fold_open(f, MEMORY, 64), 0);
}

#define CASE(name, f) TEST_WITH(name, struct fold, f, set_up, fold_close)

/* ---- one log ----------------------------------------------------------- */

CASE(an_increment_with_a_minute_is_of_that_one, f)
{
    struct fake a;

    fake_init(&a, 0, 10, 256);
    append_slot(&a, "k", "key", 1, 60000 * UINT64_C(29000000));
    minute_put = 25000000;
    append_slot(&a, "k", "key", 2, 60000 * UINT64_C(29000000));
    minute_put = 29000000;
    append_slot(&a, "k", "key", 4, 60000 * UINT64_C(29000001));
    minute_put = UINT32_MAX;
    append_slot(&a, "k", "key", 8, 60000 * UINT64_C(29000001));
    minute_put = 0;

    assert_rc(fold_add(f, &a.log, 0), 0);

    assert_int_equal(delta_count(f, "k"), 3);
    assert_int_equal(sum_of(f, "k", "key", 25000000), 2);
    assert_int_equal(sum_of(f, "k", "key", 29000000), 5);
    assert_int_equal(sum_of(f, "k", "key", UINT32_MAX), 8);
}

CASE(sums_beyond_int64_are_exact, f)
{
    struct store_delta *d;
    struct fake a;
    size_t count;
    int i;

    fake_init(&a, 0, 10, 256);
    for (i = 0; i < 4; i++) {
        append_slot(&a, "k", "high", INT64_MAX, 0);
        append_slot(&a, "k", "low", INT64_MIN, 0);
    }

    assert_rc(fold_add(f, &a.log, 0), 0);

    count = fold_deltas(f, keyspace(f, "k"), NULL, &d);
    assert_int_equal(count, 2);
    assert_true(d[0].sum == int128_of(1, UINT64_MAX - 3));
    assert_true(d[1].sum == int128_of(-2, 0));
}

CASE(deltas_come_sorted_by_key_then_minute, f)
{
    static const char *const sorted[] = {"prefix-12345678",
                                         "prefix-12345678a",
                                         "prefix-12345678aaaaaaaaaaaa",
                                         "prefix-12345678aaaaaaaaaaab",
                                         "prefix-2",
                                         "prefix-\xff"};
    struct store_delta *d;
    struct fake a;
    size_t count, i;

    fake_init(&a, 0, 20, 256);
    for (i = 0; i < 6; i++) {
        append_slot(&a, "k", sorted[5 - i], 1, 180000);
        append_slot(&a, "k", sorted[5 - i], 1, 60000);
    }

    assert_rc(fold_add(f, &a.log, 0), 0);

    count = fold_deltas(f, keyspace(f, "k"), NULL, &d);
    assert_int_equal(count, 12);
    for (i = 0; i < 12; i++) {
        assert_int_equal(d[i].key_size, strlen(sorted[i / 2]));
        assert_memory_equal(d[i].key, sorted[i / 2], d[i].key_size);
        assert_int_equal(d[i].minute, i % 2 ? 3 : 1);
    }
}

CASE(names_of_256_bytes_keep_all_of_them, f)
{
    uint8_t name[256], key[256];
    struct store_delta *d;
    struct fake a;
    size_t count;

    memset(name, 'n', sizeof name);
    memset(key, 0xff, sizeof key);
    fake_init(&a, 0, 4, 256);
    append_bytes(&a, name, 256, key, 256, 1, 0);
    key[255] = 'x';
    append_bytes(&a, name, 256, key, 256, 2, 0);

    assert_rc(fold_add(f, &a.log, 0), 0);

    assert_int_equal(f->keyspaces, 1);
    count = fold_deltas(f, f->first, NULL, &d);
    assert_int_equal(count, 2);
    assert_int_equal(d[0].key_size, 256);
    assert_true(d[0].sum == 2);
}

/* ---- damage ------------------------------------------------------------ */

/* Fills a log with keys that other logs have too, and new ones. */
static void
fill_log(struct fake *f, unsigned index, uint32_t count)
{
    char name[32], key[32];
    uint32_t i;

    fake_init(f, index, count, 64);
    for (i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "k%u", i % 7);
        (void)snprintf(key, sizeof key, "%u", i * (index % 3 + 1));
        append_slot(f, name, key, (int64_t)i - 100, 60000 * (i % 3));
    }
}

CASE(damage_anywhere_is_found_and_clearing_forgets_the_log, f)
{
    static const uint32_t places[] = {0, 1, 15, 16, 17, 1023, 1999};
    struct fake good, bad;
    size_t i;

    fill_log(&good, 0, 2000);
    for (i = 0; i < sizeof places / sizeof places[0]; i++) {
        fill_log(&bad, 1, 2000);
        slot_at(&bad, places[i])[0] ^= 1;
        assert_rc(fold_add(f, &good.log, 0), 0);

        assert_rc(fold_add(f, &bad.log, 1), -EBADMSG);

        assert_rc(fold_clear(f), 0);
        assert_null(f->first);
        assert_rc(fold_add(f, &good.log, 0), 0);
        assert_int_equal(f->records, 1999); /* one increment is 0 */
        assert_int_equal(sum_of(f, "k3", "10", 1), -90);
        assert_false(fold_bit(keyspace(f, "k3")->touched, 1));
        assert_rc(fold_clear(f), 0);
    }
}

CASE(a_slot_of_another_epoch_below_the_count_is_damage, f)
{
    struct fake a;

    fill_log(&a, 0, 100);
    a.log.header.slots = 200;
    a.log.header.count = 101;
    assert_int_equal(ftruncate(a.log.fd, (off_t)size_of(&a.log)), 0);

    assert_rc(fold_add(f, &a.log, 0), -EBADMSG);
}

CASE(a_count_above_the_slots_is_damage, f)
{
    struct fake a;

    fill_log(&a, 0, 100);
    a.log.header.count = 101;

    assert_rc(fold_add(f, &a.log, 0), -EBADMSG);
}

CASE(a_read_that_fails_is_tried_again_and_fails_the_log_the_second_time, f)
{
    struct fake a;

    fill_log(&a, 0, 2000);
    fault_inject_from("pread", 2, EIO);
    assert_rc(fold_add(f, &a.log, 0), -EIO);

    assert_rc(fold_clear(f), 0);
    fault_inject("pread", 2, EIO);
    assert_rc(fold_add(f, &a.log, 0), 0);
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(sum_of(f, "k3", "10", 1), -90);
}

/* A file of log/waiting/ with one fill, the sum of which is its count. */
static struct waiting_file
make_file(uint32_t count)
{
    const struct archive_header h = {.epoch = 1,
                                     .count = count,
                                     .slots = count,
                                     .keyspace_size = 256,
                                     .key_size = 256};
    const struct message m = {
        1, (const uint8_t *)"s", (const uint8_t *)"k", 1, 1, 0};
    const int fd = memfd_create("held", MFD_CLOEXEC);
    struct archive_writer *w;
    uint64_t end;

    assert_true(fd >= 0);
    assert_rc(archive_writer_new(&w), 0);
    assert_rc(archive_writer_begin(w, &h, NULL, fd, 0), 0);
    for (uint32_t i = 0; i < count; i++)
        assert_rc(archive_writer_add(w, &m, 60000), 0);
    assert_rc(archive_writer_end(w, &end), 0);
    archive_writer_free(w);
    return (struct waiting_file){.lock_fd = fd, .size = end};
}

CASE(a_fill_that_waits_is_added_as_a_whole_or_is_damaged, f)
{
    for (uint32_t count = 1; count <= 3 * GROUP; count++) {
        struct waiting_file file = make_file(count);
        struct waiting_fill fill = {
            .file = &file, .member.size = file.size, .count = count};

        assert_rc(fold_clear(f), 0);
        assert_rc(fold_add_waiting(f, &fill, 0), 0);
        assert_int_equal(sum_of(f, "s", "k", 1), count);
        assert_int_equal(f->records, count);

        /* Listed with more or fewer records than it has. */
        for (fill.count = 0; fill.count <= 4 * GROUP; fill.count++) {
            assert_rc(fold_clear(f), 0);
            assert_rc(fold_add_waiting(f, &fill, 0),
                      fill.count == count ? 0 : -EBADMSG);
        }
        assert_int_equal(close(file.lock_fd), 0);
    }
}

CASE(each_keyspace_knows_the_logs_with_records_for_it, f)
{
    struct fake a, b;

    fake_init(&a, 0, 10, 256);
    fake_init(&b, 1, 10, 256);
    append_slot(&a, "x", "k", 1, 0);
    append_slot(&a, "y", "k", 1, 0);
    append_slot(&b, "y", "k", 2, 0);
    append_slot(&b, "z", "k", 0, 0);
    assert_rc(fold_add(f, &a.log, 0), 0);
    assert_rc(fold_add(f, &b.log, 63), 0);

    assert_true(fold_bit(keyspace(f, "x")->touched, 0));
    assert_false(fold_bit(keyspace(f, "x")->touched, 63));
    assert_true(fold_bit(keyspace(f, "y")->touched, 0));
    assert_true(fold_bit(keyspace(f, "y")->touched, 63));
    assert_null(keyspace(f, "z"));
}

/* ---- memory ------------------------------------------------------------ */

/* A log of distinct names as long as they get, one per slot. */
static void
fill_worst(struct fake *f, unsigned index, uint32_t count, bool keyspaces)
{
    uint8_t name[256], key[256];
    uint32_t i;

    memset(name, 'n', sizeof name);
    memset(key, 'k', sizeof key);
    fake_init(f, index, count, 256);
    for (i = 0; i < count; i++) {
        char number[9];

        (void)snprintf(number, sizeof number, "%08x", index * count + i);
        memcpy(key + 248, number, 8);
        if (keyspaces)
            memcpy(name, number, 8);
        append_bytes(f, name, 256, key, 256, 1, 0);
    }
}

TEST(it_takes_no_more_logs_than_its_memory_holds)
{
    enum { LOGS = 16, SLOTS = 1000 };
    struct fake logs[LOGS];
    struct fold f;
    unsigned i, k, in;

    for (k = 0; k < 2; k++) {
        assert_rc(fold_open(&f, FOLD_MEMORY_MIN, LOGS), 0);
        for (in = 0; in < LOGS; in++) {
            fill_worst(&logs[in], in, SLOTS, k == 1);
            if (fold_add(&f, &logs[in].log, in) < 0)
                break;
            assert_true(fold_memory(&f) <= FOLD_MEMORY_MIN);
        }
        assert_true(in >= 2 && in < LOGS);
        assert_rc(fold_clear(&f), 0);
        for (i = 0; i < in; i++)
            assert_rc(fold_add(&f, &logs[i].log, i), 0);
        assert_true(fold_memory(&f) <= FOLD_MEMORY_MIN);
        assert_int_equal(f.records, in * SLOTS);
        fold_close(&f);
    }
}

TEST(a_log_that_does_not_fit_takes_what_it_needs_once)
{
    enum { SLOTS = 20000 };
    struct store_delta *d;
    struct fake a;
    struct fold f;
    size_t count;

    assert_rc(fold_open(&f, FOLD_MEMORY_MIN, 64), 0);
    for (int keyspaces = 0; keyspaces < 2; keyspaces++) {
        fill_worst(&a, 0, SLOTS, keyspaces != 0);
        assert_rc(fold_add(&f, &a.log, 0), -ENOBUFS);

        assert_rc(fold_clear(&f), 0);
        assert_rc(fold_widen(&f, SLOTS), 0);
        assert_rc(fold_add(&f, &a.log, 0), 0);

        count = fold_deltas(&f, f.first, NULL, &d);
        assert_int_equal(count, keyspaces ? 1 : SLOTS);
        assert_rc(fold_clear(&f), 0);
        assert_rc(fold_add(&f, &a.log, 0), -ENOBUFS);
        assert_rc(fold_clear(&f), 0);
    }
    fold_close(&f);
}

/* Logs that bring new names each: the batch ends before one is folded
 * that does not fit, and not long before. */
TEST(it_expects_no_room_before_a_log_does_not_fit)
{
    enum { LOGS = 64, SLOTS = 500 };
    struct fake a;
    struct fold f;
    unsigned in = 0;

    assert_rc(fold_open(&f, FOLD_MEMORY_MIN, LOGS), 0);
    do {
        assert_true(in < LOGS);
        fill_worst(&a, in, SLOTS, false);
        assert_rc(fold_add(&f, &a.log, in++), 0);
    } while (fold_expects_fit(&f));
    assert_true(fold_memory(&f) > FOLD_MEMORY_MIN / 2);
    fold_close(&f);
}

TEST(opening_fails_cleanly_without_memory)
{
    struct fold f;
    unsigned n;
    int rc = -1;

    assert_rc(fold_open(&f, FOLD_MEMORY_MIN - 1, 1), -ERANGE);
    for (n = 1; rc != 0; n++) {
        assert_true(n < 10);
        fault_inject("memory", n, ENOMEM);
        rc = fold_open(&f, FOLD_MEMORY_MIN, 1);
        fault_clear();
        if (rc != 0)
            assert_rc(rc, -ENOMEM);
    }
    fold_close(&f);
}

/* ---- against a model --------------------------------------------------- */

/* Every record, and which log it came from. */
struct item {
    unsigned log, keyspace, key;
    uint32_t minute;
    int64_t increment;
};

struct model {
    struct item items[20000];
    size_t count;
};

#define KEYSPACES 9u
#define KEYS      40u

static void
model_names(const struct item *i, char name[300], char key[300])
{
    /* Some names share long beginnings, some are one byte. */
    (void)snprintf(name, 300, "%.*s%u", (int)(i->keyspace % 3 * 60),
                   "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
                   i->keyspace);
    (void)snprintf(key, 300, "%.*s%u", (int)(i->key % 4 * 13),
                   "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk", i->key);
}

/* Compares one keyspace with the sums of its items. */
static void
compare_deltas(struct fold *f, const struct model *m, unsigned number)
{
    static int64_t sums[KEYS][4];
    static unsigned counts[KEYS][4];
    struct item probe = {.keyspace = number};
    char name[300], key[300];
    size_t i, want = 0;
    unsigned k, minute;

    memset(sums, 0, sizeof sums);
    memset(counts, 0, sizeof counts);
    for (i = 0; i < m->count; i++) {
        const struct item *it = &m->items[i];

        if (it->keyspace != number || it->increment == 0)
            continue;
        sums[it->key][it->minute] += it->increment;
        counts[it->key][it->minute]++;
    }
    for (k = 0; k < KEYS; k++) {
        for (minute = 0; minute < 4; minute++) {
            if (counts[k][minute] == 0)
                continue;
            probe.key = k;
            model_names(&probe, name, key);
            assert_int_equal(sum_of(f, name, key, minute), sums[k][minute]);
            want++;
        }
    }
    model_names(&probe, name, key);
    assert_int_equal(delta_count(f, name), want);
}

static void
model_fill(struct model *m, struct random *r, struct fake *logs,
           unsigned log_count)
{
    char name[300], key[300];
    unsigned l;
    uint32_t i, n;

    m->count = 0;
    for (l = 0; l < log_count; l++) {
        n = (uint32_t)random_below(r, 1500);
        fake_init(&logs[l], l, n, 256);
        for (i = 0; i < n; i++) {
            struct item *it = &m->items[m->count++];

            *it =
                (struct item){.log = l,
                              .keyspace = (unsigned)random_below(r, KEYSPACES),
                              .key = (unsigned)random_below(r, KEYS),
                              .minute = (uint32_t)random_below(r, 4),
                              .increment = (int64_t)random_below(r, 11) - 5};
            model_names(it, name, key);
            append_slot(&logs[l], name, key, it->increment,
                        (uint64_t)it->minute * 60000 + random_below(r, 60000));
        }
    }
}

CASE(random_logs_fold_as_a_plain_model_says, f)
{
    static struct model m;
    struct fake logs[12];
    struct random r = {random_seed("test_fold")};
    unsigned round, l, k;

    for (round = 0; round < 20; round++) {
        const unsigned count = 1 + (unsigned)random_below(&r, 12);

        model_fill(&m, &r, logs, count);
        for (l = 0; l < count; l++)
            assert_rc(fold_add(f, &logs[l].log, l), 0);
        for (k = 0; k < KEYSPACES; k++)
            compare_deltas(f, &m, k);
        assert_rc(fold_clear(f), 0);
    }
}
