/* tests/unit/test_keyspace.c - keyspaces in LMDB files: counts in order, names,
 * limits, copies, and files that are not ours. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/crc.h"
#include "common/store/lmdb/keyspace.h"
#include "tests/lib/counted.h"
#include "tests/lib/engines.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/stored.h"

struct shape {
    size_t batch;
    uint64_t span;
    int shape;
    int64_t most;
    bool huge;
    size_t txn_memory;
    unsigned rounds;
};

static void
run_model(const struct tmpdir *d, const struct shape *sh)
{
    struct store *s = open_store(d, sh->txn_memory, true);
    struct model m = {.counters = NULL};
    uint64_t created = 0, saturated = 0;
    struct store_totals t;

    for (unsigned round = 0; round < sh->rounds; round++) {
        struct store_applied applied;
        struct batch_keys b;

        batch_make(&b, 1 + below(sh->batch), sh->span, sh->shape, sh->most,
                   sh->huge);
        assert_rc(apply_deltas(s, KS, NULL, 0, b.deltas, b.count, &applied), 0);
        model_apply(&m, &b);
        batch_free(&b);
        created += applied.created;
        saturated += applied.saturated;
        if (round % 7 == 6 || round + 1 == sh->rounds) {
            compare_all(s, &m);
            check_clean(s);
        }
    }
    assert_rc(stored_totals(s, KS_NAME, &t), 0);
    assert_int_equal(created, t.keys);
    assert_int_equal(saturated, t.saturated);
    store_close(s);
    free(m.counters);
}

TEST(counts_and_order_equal_the_model)
{
    static const struct shape shapes[] = {
        {30, 50, 0, 5, false, 1 << 22, 60},
        {200, 3000, 0, 3, true, 1 << 22, 60},
        {3000, 20000, 0, 1000, false, 1 << 24, 40},
        {5000, 100000, 0, 1, false, 1 << 26, 40},
        {500, 5000, 1, 100, true, 1 << 24, 40},
        {2000, 20000, 2, 10, true, 1 << 24, 40},
        {4000, 30000, 0, 1000000, true, 1, 30},
        {20, 60000, 2, 1000, false, 1 << 20, 200},
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct tmpdir d;

        rng = i + 1;
        tmpdir_make_in_memory(&d);
        print_message("shape %zu\n", i);
        run_model(&d, &shapes[i]);
        tmpdir_remove(&d);
    }
}

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, in_memory, remove_dir)

CASE(a_sum_of_zero_makes_the_key_and_no_record_makes_nothing, d)
{
    struct store *s = open_store(d, 1 << 24, true);
    struct store_delta both[3] = {delta("a", 4), delta("b", 9), delta("b", -9)};
    struct store_applied applied;

    assert_rc(apply_deltas(s, KS, NULL, 0, both, 0, &applied), 0);
    assert_false(tmpdir_has(d, "pages.mdb"));

    both[2].minute = 1;
    assert_rc(apply_deltas(s, KS, NULL, 0, both, 3, &applied), 0);
    assert_int_equal(applied.created, 2);
    assert_int_equal(get_one(s, "pages", "b"), 0);

    /* A key that has been counted stays, whatever its count. */
    assert_rc(apply_one(s, "pages", "a", -4), 0);
    assert_int_equal(get_one(s, "pages", "a"), 0);
    store_close(s);
}

CASE(limits_refuse_before_anything_is_applied, d)
{
    struct store_delta three[3] = {delta("a", 1), delta("k", 1), delta("z", 1)};
    struct lmdb_options options = engine_lmdb_options(d->fd);
    struct store_applied applied;
    struct store *s;

    options.keyspace_max = 2;
    options.keys_max = 2;
    assert_rc(lmdb_store_open(&s, &options), 0);
    assert_rc(apply_one(s, "one", "k", 1), 0);
    assert_rc(apply_one(s, "two", "k", 1), 0);
    assert_rc(apply_one(s, "three", "k", 1), -EDQUOT);
    assert_rc(get_one(s, "three", "k"), -ENOENT);
    assert_rc(apply_deltas(s, (const uint8_t *)"three", 5, NULL, 0, three, 3,
                           &applied),
              -EDQUOT);
    assert_true(applied.at_keyspace_max);

    assert_rc(
        apply_deltas(s, (const uint8_t *)"one", 3, NULL, 0, three, 3, &applied),
        -EDQUOT);
    assert_false(applied.at_keyspace_max);
    assert_int_equal(get_one(s, "one", "k"), 1);
    assert_rc(get_one(s, "one", "a"), -ENOENT);
    assert_rc(
        apply_deltas(s, (const uint8_t *)"one", 3, NULL, 0, three, 2, &applied),
        0);
    assert_int_equal(get_one(s, "one", "k"), 2);
    store_close(s);
}

CASE(a_range_ends_before_the_row_that_does_not_fit, d)
{
    struct store *s = open_store(d, 1 << 24, true);
    struct log_batch log;
    uint8_t bytes[4096];

    rng = 9;
    log_make(&log, 1, 1, 3000, 5000);
    assert_rc(apply_logs(s, &log, 1), 0);
    for (size_t size = 0; size < 2000; size += 1 + size / 7) {
        /* Each row is 10 + 16 bytes. */
        const int rows = stored_range(s, KS_NAME, 100, 4096, bytes, size);

        assert_int_equal(rows, size / 26);
    }
    store_close(s);
    batch_free(&log.keys);
}

/* The names that a list has shown, each above the one before. */
struct names {
    size_t count, last_size;
    uint8_t last[256];
};

static int
take_name(void *ctx, const uint8_t *name, size_t size, int64_t keys)
{
    struct names *n = ctx;

    assert_int_equal(keys, 1);
    assert_true(bytes_compare(n->last, n->last_size, name, size) < 0);
    memcpy(n->last, name, size);
    n->last_size = size;
    n->count++;
    return 0;
}

CASE(any_name_is_a_keyspace_and_is_listed_in_order, tmp)
{
    struct store *s = open_store(tmp, 1 << 20, true);
    struct names n = {.count = 0};
    uint8_t name[256];

    /* Plain names, names with any byte, and names too long for both. */
    for (unsigned i = 1; i < 256; i++) {
        const struct store_delta d = delta("key", i);
        struct store_applied applied;

        memset(name, (int)i, sizeof name);
        assert_rc(apply_deltas(s, name, i, NULL, 0, &d, 1, &applied), 0);
    }
    for (unsigned i = 0; i < 600; i++) {
        char plain[20];

        (void)snprintf(plain, sizeof plain, "plain-%u", i);
        assert_rc(apply_one(s, plain, "key", i + 1), 0);
    }
    assert_rc(apply_one(s, "../x", "key", 77), 0);
    assert_rc(apply_one(s, ".", "key", 78), 0);

    assert_rc(store_list(s, NULL, 0, take_name, &n), 0);
    assert_int_equal(n.count, 255 + 600 + 2);
    assert_int_equal(get_one(s, "../x", "key"), 77);
    store_close(s);
}

CASE(foreign_files_are_named_and_left_alone, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    static const uint8_t zeros[8192];
    static const char *const bad[] = {"garbage", "zeros",  "short", "renamed",
                                      "link",    "folder", "fifo",  "locked"};
    uint8_t whole[65536];
    size_t size;

    assert_rc(apply_one(s, "good", "k", 1), 0);
    store_close(s);
    size = file_read(file_path(d->path, "good.mdb"), whole, sizeof whole);
    assert_true(size > 8192);
    tmpdir_put(d, "garbage.mdb", "not a database", 14, 0600);
    tmpdir_put(d, "zeros.mdb", zeros, sizeof zeros, 0600);
    tmpdir_put(d, "short.mdb", whole, 4096 * 3, 0600);
    tmpdir_put(d, "renamed.mdb", whole, size, 0600);
    assert_int_equal(symlinkat("good.mdb", d->fd, "link.mdb"), 0);
    assert_int_equal(mkdirat(d->fd, "folder.mdb", 0700), 0);
    assert_int_equal(mkfifoat(d->fd, "fifo.mdb", 0600), 0);
    tmpdir_put(d, "locked.mdb", whole, size, 0600);
    assert_int_equal(mkfifoat(d->fd, "locked.mdb-lock", 0600), 0);

    s = open_store(d, 1 << 20, true);
    for (int i = 0; i < 2; i++) { /* a second look says the same */
        struct store_check r = {.fault = print_fault};

        for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++)
            if (get_one(s, bad[n], "k") != -EBADMSG)
                fail_msg("%s", bad[n]);
        assert_rc(apply_one(s, "fifo", "k", 1), -EBADMSG);
        assert_rc(store_check(s, (const uint8_t *)"fifo", 4, &r), 0);
        assert_true(r.faults > 0);
        assert_rc(apply_one(s, "zeros", "k", 1), -EBADMSG);
        assert_int_equal(get_one(s, "good", "k"), 1 + i);
        assert_rc(apply_one(s, "good", "k", 1), 0);
    }
    store_close(s);
    size = file_read(file_path(d->path, "zeros.mdb"), whole, sizeof whole);
    assert_int_equal(size, sizeof zeros);
    assert_memory_equal(whole, zeros, sizeof zeros);
}

CASE(a_file_of_other_message_sizes_is_refused, d)
{
    struct lmdb_options options = engine_lmdb_options(d->fd);
    struct store *s = open_store(d, 1 << 20, true);

    options.key_size = 64;
    assert_rc(apply_one(s, "pages", "k", 1), 0);
    store_close(s);

    assert_rc(lmdb_store_open(&s, &options), 0);
    assert_rc(get_one(s, "pages", "k"), -EBADMSG);
    assert_rc(apply_one(s, "pages", "k", 1), -EBADMSG);
    store_close(s);
}

CASE(a_copy_is_the_same_keyspace, d)
{
    struct store *s = open_store(d, 1 << 24, true), *copy;
    struct model m = {.counters = NULL};
    struct log_batch log;
    struct tmpdir to;

    tmpdir_make_in_memory(&to);
    rng = 11;
    log_make(&log, 1, 1, 20000, 30000);
    assert_rc(apply_logs(s, &log, 1), 0);
    model_apply(&m, &log.keys);

    assert_rc(store_copy(s, KS, to.fd), 0);
    assert_rc(store_copy(s, KS, to.fd), -EEXIST);

    store_close(s);
    assert_int_equal(tmpdir_count(&to, "."), 1);
    copy = open_store(&to, 1 << 24, true);
    compare_all(copy, &m);
    check_clean(copy);
    assert_rc(apply_logs(copy, &log, 1), 0); /* the marks came along */
    compare_all(copy, &m);
    store_close(copy);
    tmpdir_remove(&to);
    batch_free(&log.keys);
    free(m.counters);
}

CASE(what_a_dead_creator_left_is_removed, d)
{
    static const char *const files[] = {"%tdead.mdb", "%talive.mdb",
                                        "%tyoung.mdb"};
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    int held;

    for (int i = 0; i < 3; i++) {
        tmpdir_put(d, files[i], "x", 1, 0600);
        if (i < 2)
            assert_int_equal(utimensat(d->fd, files[i], old, 0), 0);
    }
    held = openat(d->fd, files[1], O_RDWR);
    assert_int_equal(flock(held, LOCK_EX), 0);

    store_close(open_store(d, 1 << 20, true));

    for (int i = 0; i < 3; i++)
        assert_int_equal(tmpdir_has(d, files[i]), i > 0);
    assert_int_equal(close(held), 0);
}

/* Creates, applies, reads, with the nth call of this kind failing. */
static void
fail_every(const struct tmpdir *d, const char *call, int error)
{
    for (unsigned n = 1; n < 1000; n++) {
        const unsigned fds = fault_open_fds();
        struct lmdb_options options = engine_lmdb_options(d->fd);
        struct store *s = NULL;
        char name[20];
        int rc, got = 0;
        bool hit;

        options.open_max = 3;
        options.keyspace_max = 5;
        (void)snprintf(name, sizeof name, "%s-%u", call, n % 3);
        fault_inject(call, n, error);
        rc = lmdb_store_open(&s, &options);
        if (rc == 0)
            rc = apply_one(s, name, "k", 1);
        if (rc == 0)
            rc = get_one(s, name, "k") == 1 ? 0 : -EIO;
        hit = fault_hit();
        fault_clear();

        assert_true(rc == 0 || hit);
        if (s == NULL)
            assert_rc(lmdb_store_open(&s, &options), 0);
        if (rc < 0 && (got = (int)get_one(s, name, "k")) < 0)
            assert_rc(apply_one(s, name, "k", 1), 0);
        assert_int_equal(get_one(s, name, "k"), 1);
        store_close(s);
        assert_int_equal(fault_open_fds(), fds);
        tmpdir_empty(d);
        if (!hit)
            return;
    }
    fail_msg("still failing");
}

CASE(any_call_may_fail_and_nothing_is_left_open, d)
{
    static const char *const calls[] = {"openat", "fstat",     "flock",
                                        "fsync",  "renameat2", "pread",
                                        "malloc", "calloc",    "unlinkat"};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fail_every(d, calls[i], i == 6 || i == 7 ? ENOMEM : EIO);
        if (i == 4)
            fail_every(d, calls[i], EINVAL); /* not supported: linkat */
    }
}

/* ---- the format, for ever ---- */

#define GOLDEN      "tests/golden/keyspace-v4.mdb.gz"
#define GOLDEN_KEYS 5200
#define GOLDEN_MIN  29000000 /* minute of its first log */

static const uint8_t *const golden = (const uint8_t *)"golden";

/* What three logs counted, the first each key and each other one key of 71:
 * counts of all kinds, one saturated, and edits that are not folded in; history
 * with hours that are rolled up, and one that is not. */
static int64_t
golden_count(unsigned i)
{
    int64_t count = 0;

    for (unsigned log = 0; log < 3; log++)
        if (log == 0 || (i >= log && (i - log) % 71 == 0))
            count += (int64_t)(i * (log + 1)) - 7001;
    return i == 0 ? INT64_MAX : count;
}

static void
compare_golden(struct store *s, unsigned i)
{
    struct store_row r;
    char key[16];

    (void)snprintf(key, sizeof key, "k%05u", i);
    assert_rc(stored_get(s, "golden", key, &r), 0);
    assert_true(r.count == golden_count(i));
    assert_int_equal(r.saturated, i == 0);
}

/* The sums over all keys are those of the logs, in each of the first hours. */
static void
compare_golden_history(struct store *s)
{
    struct store_bucket b[4];
    struct store_history_query q = {.op = STORE_HISTORY_KEYSPACE,
                                    .name = golden,
                                    .name_size = 6,
                                    .from = GOLDEN_MIN / 60 * 60,
                                    .to = GOLDEN_MIN / 60 * 60 + 240,
                                    .step = 60,
                                    .buckets = b};
    int64_t want[4] = {INT64_MAX, 0, 0, 0};

    for (unsigned log = 0; log < 3; log++)
        for (unsigned i = log == 0 ? 1 : log; i < GOLDEN_KEYS;
             i += log == 0 ? 1 : 71)
            want[(GOLDEN_MIN % 60 + 70 * log) / 60] =
                (int64_t)((uint64_t)want[(GOLDEN_MIN % 60 + 70 * log) / 60] +
                          (uint64_t)((int64_t)(i * (log + 1)) - 7001));
    assert_rc(store_history(s, &q, 0), 0);
    store_read_end(s);
    for (unsigned i = 0; i < 4; i++)
        assert_true(b[i].sum == want[i]);
}

/* Unpacks the golden file into the test's directory. */
static void
golden_put(const struct tmpdir *d)
{
    static uint8_t bytes[1 << 20];
    const gzFile file = gzopen(GOLDEN, "rb");
    int size;

    assert_non_null(file);
    size = gzread(file, bytes, sizeof bytes);
    assert_in_range(size, 1, sizeof bytes - 1);
    assert_int_equal(gzclose(file), Z_OK);
    tmpdir_put(d, "golden.mdb", bytes, (size_t)size, 0600);
}

CASE(a_keyspace_of_the_first_version_still_opens, d)
{
    struct store_check r = {.fault = print_fault};
    struct store *s;

    golden_put(d);

    s = open_store(d, 1 << 24, true);
    assert_rc(store_check(s, golden, 6, &r), 0);
    assert_int_equal(r.faults, 0);
    assert_int_equal(r.marks, 3);
    for (unsigned i = 0; i < GOLDEN_KEYS; i++)
        compare_golden(s, i);
    compare_golden_history(s);
    assert_rc(apply_one(s, "golden", "k00001", 1), 0);
    assert_rc(store_check(s, golden, 6, &r), 0);
    assert_int_equal(r.faults, 0);
    assert_true(get_one(s, "golden", "k00001") == golden_count(1) + 1);
    store_close(s);
}

/* Adds to the byte at `at` of the header record, checksum and all. */
static void
change_header(struct store *s, size_t at)
{
    uint8_t header[300], both[300];
    char name[] = "name";
    MDB_val key = {4, name}, v;
    struct keyspace *k;
    MDB_txn *txn;

    assert_rc(keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &k), 0);
    assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
    assert_int_equal(mdb_get(txn, k->dbis[KEYSPACE_META], &key, &v), 0);
    memcpy(header, v.mv_data, v.mv_size);
    header[at] = (uint8_t)(header[at] + 2);
    memcpy(both, name, 4);
    memcpy(both + 4, header + 4, v.mv_size - 4);
    put_le32(header, crc_of(both, v.mv_size));
    v.mv_data = header;
    assert_int_equal(mdb_put(txn, k->dbis[KEYSPACE_META], &key, &v, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    keyspace_unlock(k);
}

CASE(a_newer_format_is_refused, d)
{
    for (size_t at = 4; at <= 8; at += 4) { /* version, features */
        struct store *s = open_store(d, 1 << 20, true);

        assert_rc(apply_one(s, "pages", "k", 1), 0);
        change_header(s, at);
        store_close(s);

        s = open_store(d, 1 << 20, true);
        assert_rc(get_one(s, "pages", "k"), -EPROTONOSUPPORT);
        assert_rc(apply_one(s, "pages", "k", 1), -EPROTONOSUPPORT);
        store_close(s);
        tmpdir_empty(d);
    }
}

/* A worker reads the marks of a file that is not open without LMDB. */
CASE(marks_are_the_same_with_and_without_lmdb, tmp)
{
    enum { MOST = 400 }; /* several leaves, below a branch */
    static const size_t counts[] = {0, 1, 2, 30, 90, MOST};
    static struct log_fill asked[MOST + 1];
    static struct store_mark_info peeked[MOST + 1], read[MOST + 1];

    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t count = counts[c];
        struct store_totals totals;
        struct log_fill fill;
        struct tmpdir d;
        struct store *s;

        tmpdir_make_in_memory(&d);
        s = open_store(&d, 1 << 22, true);
        assert_rc(stored_add(s, KS_NAME, NULL, "key", 1), 0);
        for (size_t i = 0; i <= count; i++) {
            fill = (struct log_fill){
                .uuid = {(uint8_t)(i * 37), 7, (uint8_t)(i / 256)},
                .epoch = 5,
                .first_ms = 1000 + i};
            asked[i] = fill;
            asked[i].epoch = i % 5 == 1 ? 6 : i % 5 == 2 ? 4 : 5;
            asked[i].first_ms += i % 5 == 3;
            if (i < count)
                assert_rc(stored_add(s, KS_NAME, &fill, "key", 1), 0);
        }
        store_close(s);

        s = open_store(&d, 1 << 22, true);
        assert_rc(stored_marks(s, KS_NAME, asked, count + 1, peeked), 0);
        assert_int_equal(lmdb_of(s)->touched, 0); /* it was not opened */
        assert_rc(stored_totals(s, KS_NAME, &totals), 0);
        store_read_end(s);
        assert_int_equal(lmdb_of(s)->touched, 1);
        assert_rc(stored_marks(s, KS_NAME, asked, count + 1, read), 0);
        for (size_t i = 0; i <= count; i++) {
            static const enum store_mark_state want[] = {
                STORE_MARK_DONE, STORE_MARK_NONE, STORE_MARK_AHEAD,
                STORE_MARK_OTHER, STORE_MARK_DONE};

            assert_int_equal(peeked[i].state,
                             i < count ? want[i % 5] : STORE_MARK_NONE);
            assert_int_equal(read[i].state, peeked[i].state);
        }
        store_close(s);
        tmpdir_remove(&d);
    }
}

CASE(few_environments_serve_many_keyspaces, d)
{
    const unsigned fds = fault_open_fds();
    struct store *s = open_store(d, 1 << 20, true);

    for (int round = 1; round < 6; round++) {
        for (int i = 0; i < 12; i++) {
            char name[12];

            (void)snprintf(name, sizeof name, "ks%d", i * 7 % 12);
            assert_rc(apply_one(s, name, "k", i), 0);
            assert_int_equal(get_one(s, name, "k"), round * i);
        }
    }
    assert_true(fault_open_fds() <= fds + 1 + 4 * 3);
    store_close(s);
    assert_int_equal(fault_open_fds(), fds);
}

/* LMDB makes it larger than it fills it: with holes, which need room later. */
CASE(a_lock_file_has_room_for_all_that_lmdb_may_write_to_it, d)
{
    struct store *s;
    struct stat st;
    int fd, rc;

    tmpdir_put(d, "probe", "x", 1, 0600);
    fd = openat(d->fd, "probe", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096);
    assert_int_equal(close(fd), 0);
    if (rc < 0)
        test_skip("no fallocate where temporary files are");
    for (int round = 0; round < 2; round++) {
        s = open_store(d, 1 << 20, true);
        assert_rc(apply_one(s, "new", "k", 1), 0);
        assert_int_equal(fstatat(d->fd, "new.mdb-lock", &st, 0), 0);
        assert_true(st.st_blocks * 512 >= st.st_size);
        store_close(s);

        /* As an earlier version or a copy leaves it. */
        fd = openat(d->fd, "new.mdb-lock", O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(ftruncate(fd, st.st_size), 0);
        assert_int_equal(close(fd), 0);
    }
}
