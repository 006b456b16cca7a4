/* tests/unit/test_damage.c - damage that is more than a flipped bit
 * (tests/unit/test_flips.c) is refused, and no process stops. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "common/store/lmdb/keyspace.h"
#include "common/store/lmdb/keyspace_peek.h"
#include "tests/lib/counted.h"
#include "tests/lib/file.h"
#include "tests/lib/stored.h"

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, in_memory, remove_dir)

/* Changes the count before each place where a key stands. */
static void
damage_counts(const struct tmpdir *d, const char *key)
{
    static uint8_t bytes[1 << 20];
    const char *path = file_path(d->path, "pages.mdb");
    const size_t size = file_read(path, bytes, sizeof bytes);
    unsigned found = 0;

    for (size_t at = 10; at + strlen(key) <= size; at++)
        if (memcmp(bytes + at, key, strlen(key)) == 0) {
            file_flip(path, (off_t)at - 10, 1);
            found++;
        }
    assert_true(found > 0);
}

CASE(damage_to_a_value_in_use_is_seen_within_a_minute, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    uint8_t bytes[100];
    struct store_row row;

    assert_rc(apply_one(s, KS_NAME, "lamps", 6), 0);
    assert_rc(stored_get(s, KS_NAME, "lamps", &row), 0);
    assert_rc(stored_range(s, KS_NAME, 0, 10, bytes, sizeof bytes), 1);

    damage_counts(d, "lamps");
    lmdb_of(s)->forgot_ms -= 60000; /* a minute goes by */
    (void)store_maintain(s, &(struct store_maintenance){0});

    assert_rc(stored_get(s, KS_NAME, "lamps", &row), -EBADMSG);
    assert_rc(stored_range(s, KS_NAME, 0, 10, bytes, sizeof bytes), -EBADMSG);
    store_close(s);
}

static void
count_fault(void *ctx, const char *text)
{
    unsigned *count = ctx;

    (void)text; /* any will do */
    ++*count;
}

/* ---- marks -------------------------------------------------------------- */

static const struct log_fill counted_log = {.uuid = "one of the logs",
                                            .epoch = 7};
static const struct log_fill other_log = {.uuid = "two of the logs",
                                          .epoch = 3};

/* As a branch page that leads elsewhere would have it: marks that are whole,
 * but one is missing, or is of an earlier commit. */
CASE(marks_that_are_not_those_of_the_state_are_damage, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    struct log_fill later = counted_log;
    char bytes[17] = "m";
    MDB_val key = {.mv_size = 17, .mv_data = bytes}, v;
    uint8_t earlier[300];

    memcpy(bytes + 1, counted_log.uuid, 16);
    for (unsigned i = 0; i < 2; i++) {
        unsigned faults = 0;
        struct store_check r = {.fault = count_fault, .ctx = &faults};
        struct store_mark_info info;
        struct keyspace *k;
        MDB_txn *txn;

        later.epoch += 10;
        assert_rc(stored_add(s, KS_NAME, &later, "k", 2), 0);
        assert_rc(keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &k), 0);
        assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
        assert_int_equal(mdb_get(txn, k->dbis[KEYSPACE_META], &key, &v), 0);
        memcpy(earlier, v.mv_data, v.mv_size);
        v.mv_data = earlier;
        keyspace_abort(k, txn);
        later.epoch++;
        assert_rc(stored_add(s, KS_NAME, &later, "k", 2), 0);
        assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
        assert_int_equal(i == 0
                             ? mdb_put(txn, k->dbis[KEYSPACE_META], &key, &v, 0)
                             : mdb_del(txn, k->dbis[KEYSPACE_META], &key, NULL),
                         0);
        assert_int_equal(mdb_txn_commit(txn), 0);
        keyspace_unlock(k);

        assert_rc(stored_add(s, KS_NAME, &later, "k", 2), -EBADMSG);
        assert_rc(stored_marks(s, KS_NAME, &other_log, 1, &info), -EBADMSG);
        assert_rc(store_check(s, KS, &r), 0);
        assert_int_equal(faults, 1);

        assert_rc(store_drop(s, KS), 1); /* they are of no use */
        assert_int_equal(mark_state(s, &later), STORE_MARK_NONE);
    }
    store_close(s);
}

static void
put_state(struct store *s, struct keyspace *k, const struct keyspace_state *st)
{
    MDB_txn *txn;

    assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
    assert_rc(keyspace_state_put(txn, k->dbis[KEYSPACE_META], st), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    keyspace_unlock(k);
}

CASE(check_finds_what_contradicts_itself, d)
{
    struct store *s = open_store(d, 1 << 24, true);
    struct keyspace_state st, good;
    unsigned faults;
    struct store_check r = {.fault = count_fault, .ctx = &faults};
    struct keyspace *k;
    MDB_txn *txn;

    for (char key[2] = "a"; key[0] <= 'z'; key[0]++)
        assert_rc(apply_one(s, "pages", key, key[0]), 0);
    assert_rc(keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &k), 0);
    assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
    assert_rc(keyspace_state_get(txn, k->dbis[KEYSPACE_META], &good), 0);
    keyspace_abort(k, txn);

    for (unsigned i = 0; i < 7; i++) {
        st = good;
        st.sum += i == 0;
        st.saturated += i == 1;
        st.roots[0].count = st.roots[1].count += i == 2;
        st.roots[0].level = (uint16_t)(st.roots[0].level + (i == 3));
        st.roots[1].id += i == 4;
        st.marks += i == 5;
        st.marks_hash += i == 6;
        put_state(s, k, &st);
        faults = 0;
        assert_rc(store_check(s, KS, &r), 0);
        assert_true(faults > 0);
        assert_int_equal(r.faults, faults);
    }
    put_state(s, k, &good);
    check_clean(s);
    assert_rc(store_check(s, (const uint8_t *)"nope", 4, &r), -ENOENT);
    store_close(s);
}
