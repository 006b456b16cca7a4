/* tests/unit/test_damage.c - a damaged keyspace is refused or harmless: never a
 * wrong count, and nobody stops. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/crc.h"
#include "common/store/lmdb/keyspace.h"
#include "tests/lib/counted.h"
#include "tests/lib/fault.h"
#include "tests/lib/stored.h"

struct sums {
    uint64_t rows;
    uint64_t hash;
};


/* Reads everything of the keyspace.  0 and *out, or an error. */
static int
read_everything(struct store *s, struct sums *out)
{
    static uint8_t bytes[200000];
    struct store_totals t;
    struct store_row row;
    uint64_t at = 0;
    int rc;

    *out = (struct sums){.rows = 0};
    rc = stored_totals(s, KS_NAME, &t);
    while (rc == 0 && at < t.keys) {
        const int rows = stored_range(s, KS_NAME, (int64_t)at, 512, bytes,
                                      sizeof bytes);
        const uint8_t *p = bytes;

        if (rows <= 0)
            return rows < 0 ? rows : -EIO;
        for (int i = 0; rc == 0 && i < rows; i++) {
            char key[257] = {0};

            memcpy(key, p + 10, get_le16(p + 8));
            rc = stored_get(s, KS_NAME, key, &row);
            out->rows++;
            out->hash += (crc_of(p, 10u + get_le16(p + 8)) + 1) * ++at +
                         crc_of((uint8_t *)key, get_le16(p + 8)) *
                             (uint64_t)row.count;
            p += 10 + get_le16(p + 8);
        }
    }
    out->hash += t.keys + t.sum_low + (uint64_t)t.sum_high + t.saturated;
    return rc;
}

/* In a child, since LMDB itself may crash: 0 right, 1 refused, 2 wrong. */
static void
read_damaged(const struct tmpdir *d, const struct sums *want)
{
    struct store *s = open_store(d, 0, false);
    struct sums got;
    const int rc = read_everything(s, &got);

    if (rc < 0)
        _exit(1);
    _exit(got.rows == want->rows && got.hash == want->hash ? 0 : 2);
}

static void
damage_is_refused_or_harmless_but_never_a_wrong_count(void **state)
{
    const struct tmpdir *d = *state;
    struct store *s = open_store(d, 1 << 24, true);
    unsigned outcomes[4] = {0};
    struct sums want;
    struct stat st;
    int fd, null;

    rng = 12;
    for (unsigned i = 0; i < 12; i++) {
        struct batch_keys b;
        struct store_applied applied;

        batch_make(&b, i == 0 ? 12000 : 100, 20000, 0, 1000, false);
        assert_rc(apply_deltas(s, KS, NULL, 0, b.deltas, b.count, &applied),
                  0);
        batch_free(&b);
    }
    assert_rc(read_everything(s, &want), 0);
    store_close(s);
    fd = openat(d->fd, "pages.mdb", O_RDWR);
    null = open("/dev/null", O_WRONLY);
    assert_true(fd >= 0 && null >= 0 && fstat(fd, &st) == 0);
    for (unsigned i = 0; i < 400; i++) {
        const off_t at = (off_t)below((uint64_t)st.st_size);
        uint8_t was, now;
        pid_t child;
        int status;

        assert_int_equal(pread(fd, &was, 1, at), 1);
        now = (uint8_t)(was ^ 1 << below(8));
        assert_int_equal(pwrite(fd, &now, 1, at), 1);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)dup2(null, 2); /* the refusals are not news here */
            read_damaged(d, &want);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
        outcomes[WIFEXITED(status) ? WEXITSTATUS(status) & 3 : 3]++;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
            print_error("wrong after byte %lld\n", (long long)at);
    }
    print_message("right %u, refused %u, wrong %u, crashed %u\n", outcomes[0],
                  outcomes[1], outcomes[2], outcomes[3]);
    assert_int_equal(outcomes[2], 0);
    assert_int_equal(outcomes[3], 0);
    assert_true(outcomes[1] > 100);
    assert_true(close(fd) == 0 && close(null) == 0);
}

/* Changes the count before each place where a key stands. */
static void
damage_counts(const struct tmpdir *d, const char *key)
{
    static uint8_t bytes[1 << 20];
    const size_t key_size = strlen(key);
    unsigned found = 0;
    ssize_t size;
    int fd;

    fd = openat(d->fd, "pages.mdb", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    size = pread(fd, bytes, sizeof bytes, 0);
    assert_true(size > 0 && size < (ssize_t)sizeof bytes);
    for (off_t at = 10; at + (off_t)key_size <= size; at++) {
        const uint8_t now = bytes[at - 10] ^ 1;

        if (memcmp(bytes + at, key, key_size) != 0)
            continue;
        assert_int_equal(pwrite(fd, &now, 1, at - 10), 1);
        found++;
    }
    assert_true(found > 0);
    assert_int_equal(close(fd), 0);
}

static void
damage_to_a_value_in_use_is_seen_within_a_minute(void **state)
{
    const struct tmpdir *d = *state;
    struct store *s = open_store(d, 1 << 20, true);
    uint8_t bytes[100];
    struct store_row row;

    assert_rc(apply_one(s, KS_NAME, "lamps", 6), 0);
    assert_rc(stored_get(s, KS_NAME, "lamps", &row), 0);
    assert_rc(stored_range(s, KS_NAME, 0, 10, bytes, sizeof bytes), 1);

    damage_counts(d, "lamps");
    lmdb_of(s)->forgot_ms -= 60000; /* a minute goes by */

    assert_rc(stored_get(s, KS_NAME, "lamps", &row), -EBADMSG);
    assert_rc(stored_range(s, KS_NAME, 0, 10, bytes, sizeof bytes), -EBADMSG);
    store_close(s);
}

/* Sets one bit of both meta pages, or of every leaf page. */
static void
set_bit(const struct tmpdir *d, bool meta, size_t byte, uint8_t bit)
{
    static uint8_t page[4096];
    int fd = openat(d->fd, "pages.mdb", O_RDWR);
    struct stat st;
    off_t at;

    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    for (at = 0; at < st.st_size; at += 4096) {
        assert_int_equal(pread(fd, page, 4096, at), 4096);
        if ((at < 8192) != meta || (!meta && page[10] != 0x02))
            continue;
        page[byte] |= bit;
        assert_int_equal(pwrite(fd, page, 4096, at), 4096);
    }
    assert_true(close(fd) == 0);
}

/* LMDB itself would stop the process for each of these. */
static void
flags_that_would_stop_lmdb_are_refused(void **state)
{
    static const struct {
        bool meta;
        size_t byte;
        uint8_t bit;
    } flips[] = {{true, 44, 0x04}, {true, 92, 0x04}, {false, 10, 0x20}};
    const struct tmpdir *d = *state;
    struct store *s;
    size_t i;

    for (i = 0; i < sizeof flips / sizeof flips[0]; i++) {
        s = open_store(d, 1 << 24, true);
        assert_rc(apply_one(s, "pages", "k", 1), 0);
        store_close(s);
        set_bit(d, flips[i].meta, flips[i].byte, flips[i].bit);

        s = open_store(d, 1 << 24, true);
        assert_rc(apply_one(s, "pages", "k", 1), -EBADMSG);
        assert_rc(apply_one(s, "others", "k", 1), 0);
        store_close(s);
        tmpdir_empty(*state);
    }
}

static void
count_fault(void *ctx, const char *text)
{
    unsigned *count = ctx;

    (void)text; /* any will do */
    ++*count;
}

static void
check_finds_what_contradicts_itself(void **state)
{
    const struct tmpdir *d = *state;
    struct store *s = open_store(d, 1 << 24, true);
    struct keyspace_state st, good;
    struct store_check_result r;
    struct keyspace *k;
    unsigned faults;
    MDB_txn *txn;

    for (char key[2] = "a"; key[0] <= 'z'; key[0]++)
        assert_rc(apply_one(s, "pages", key, key[0]), 0);
    assert_rc(keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &k), 0);
    assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
    assert_rc(keyspace_state_get(txn, k->meta, &good), 0);
    keyspace_abort(k, txn);

    for (unsigned i = 0; i < 7; i++) {
        st = good;
        if (i == 0)
            st.sum++;
        if (i == 1)
            st.saturated++;
        if (i == 2)
            st.roots[0].count = ++st.roots[1].count;
        if (i == 3)
            st.roots[0].level++;
        if (i == 4)
            st.roots[1].id++;
        if (i == 5)
            st.marks++;
        if (i == 6)
            st.marks_hash++;
        assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
        assert_rc(keyspace_state_put(txn, k->meta, &st), 0);
        assert_int_equal(mdb_txn_commit(txn), 0);
        keyspace_unlock(k);
        faults = 0;
        assert_rc(store_check(s, KS, count_fault, &faults, &r), 0);
        assert_true(faults > 0);
        assert_int_equal(r.faults, faults);
    }
    assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
    assert_rc(keyspace_state_put(txn, k->meta, &good), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    keyspace_unlock(k);
    check_clean(s);
    assert_rc(
        store_check(s, (const uint8_t *)"nope", 4, count_fault, &faults, &r),
        -ENOENT);
    store_close(s);
}

#define T(f) cmocka_unit_test_setup_teardown(f, in_memory, remove_dir)

static const struct CMUnitTest tests[] = {
    T(damage_is_refused_or_harmless_but_never_a_wrong_count),
    T(damage_to_a_value_in_use_is_seen_within_a_minute),
    T(flags_that_would_stop_lmdb_are_refused),
    T(check_finds_what_contradicts_itself),
};

TEST_MAIN(tests)
