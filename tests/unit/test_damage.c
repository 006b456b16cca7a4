/* tests/unit/test_damage.c - a damaged keyspace is refused or harmless: never a
 * wrong count, and nobody stops. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/crc.h"
#include "common/store/lmdb/keyspace.h"
#include "tests/lib/counted.h"
#include "tests/lib/stored.h"

struct sums {
    uint64_t rows;
    uint64_t hash;
};

static int
sum_mark(void *ctx, const struct store_fill *m,
         const struct store_mark_info *info)
{
    struct sums *out = ctx;

    out->hash += crc_of(m->uuid, sizeof m->uuid) * (m->epoch + m->first_ms) +
                 (unsigned)info->state;
    return 0;
}

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
        const int rows =
            stored_range(s, KS_NAME, (int64_t)at, 512, bytes, sizeof bytes);
        const uint8_t *p = bytes;

        if (rows <= 0)
            return rows < 0 ? rows : -EIO;
        for (int i = 0; rc == 0 && i < rows; i++) {
            char key[257] = {0};

            memcpy(key, p + 10, get_le16(p + 8));
            rc = stored_get(s, KS_NAME, key, &row);
            out->rows++;
            out->hash +=
                (crc_of(p, 10u + get_le16(p + 8)) + 1) * ++at +
                crc_of((uint8_t *)key, get_le16(p + 8)) * (uint64_t)row.count;
            p += 10 + get_le16(p + 8);
        }
    }
    out->hash += t.keys + t.sum_low + (uint64_t)t.sum_high + t.saturated;
    return rc < 0 ? rc : store_each_mark(s, KS, sum_mark, out);
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

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, in_memory, remove_dir)

CASE(damage_is_refused_or_harmless_but_never_a_wrong_count, d)
{
    struct store *s = open_store(d, 1 << 24, true);
    unsigned outcomes[4] = {0};
    struct store_fill marks[40]; /* of 12 * 40 logs: pages and pages of them */
    struct sums want;
    struct stat st;
    int fd, null;

    rng = 12;
    for (unsigned i = 0; i < 12; i++) {
        struct batch_keys b;
        struct store_applied applied;

        batch_make(&b, i == 0 ? 12000 : 100, 20000, 0, 1000, false);
        for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
            marks[m] = (struct store_fill){.uuid = {(uint8_t)rnd(), (uint8_t)m},
                                           .epoch = i + 1};
        assert_rc(apply_deltas(s, KS, marks, sizeof marks / sizeof *marks,
                               b.deltas, b.count, &applied),
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

/* ---- one flipped bit --------------------------------------------------- */

struct place {
    off_t at;
    size_t size;
};

/* Where LMDB's bytes are in the file: a page begins with its number. */
static off_t
place_of(const void *bytes)
{
    const uintptr_t at = (uintptr_t)bytes;
    uint64_t page;

    memcpy(&page, (const uint8_t *)bytes - at % 4096, sizeof page);
    return (off_t)(page * 4096 + at % 4096);
}

/* Where a record of the meta database lies in the file: LMDB's head of it, its
 * key and its value. */
static struct place
place_of_record(struct store *s, char *key, size_t key_size)
{
    MDB_val k = {.mv_size = key_size, .mv_data = key}, v;
    struct keyspace *ks;
    struct place p;

    assert_rc(keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &ks), 0);
    assert_rc(keyspace_read(ks), 0);
    assert_int_equal(mdb_get(ks->reader, ks->meta, &k, &v), 0);
    p.at = place_of(v.mv_data) - (off_t)key_size - 8;
    p.size = 8 + key_size + v.mv_size;
    keyspace_read_end(ks);
    return p;
}

static void
flip(int fd, off_t at, unsigned bit)
{
    uint8_t byte;

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte = (uint8_t)(byte ^ 1u << bit);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static const struct store_fill counted_log = {.uuid = "one of the logs",
                                              .epoch = 7};
static const struct store_fill other_log = {.uuid = "two of the logs",
                                            .epoch = 3};

/* Totals and marks as they were made; false: something is wrong and silent. */
static bool
says_the_truth(struct store *s, int *error)
{
    const struct store_fill marks[2] = {counted_log, other_log};
    struct store_mark_info infos[2];
    struct store_totals t;
    int rc;

    *error = 0;
    rc = stored_totals(s, KS_NAME, &t);
    if (rc < 0)
        *error = rc;
    else if (t.keys != 2 || t.sum_low != 5 || t.saturated != 0)
        return false;
    rc = store_marks(s, KS, marks, 2, infos);
    if (rc < 0)
        *error = rc;
    else if (infos[0].state != STORE_MARK_DONE ||
             infos[1].state != STORE_MARK_DONE)
        return false;
    return *error != -ENOENT;
}

/* Flips every bit of a place, each time for a process that opens the file then,
 * and for one that has it open. */
static void
flip_each_bit(const struct tmpdir *d, struct place p, size_t head)
{
    const int fd = openat(d->fd, "pages.mdb", O_RDWR | O_CLOEXEC);
    struct store *running = open_store(d, 1 << 20, true), *s;
    struct store_check_result r;
    unsigned faults, refused = 0;
    int error;

    assert_true(fd >= 0);
    assert_true(says_the_truth(running, &error) && error == 0);
    store_close(running);
    for (size_t bit = 0; bit < 8 * p.size; bit++) {
        const off_t at = p.at + (off_t)(bit / 8);

        flip(fd, at, bit % 8);
        s = open_store(d, 1 << 20, true);
        if (!says_the_truth(s, &error))
            fail_msg("bit %zu of byte %zu is silent", bit % 8, bit / 8);
        faults = 0;
        assert_rc(store_check(s, KS, count_fault, &faults, &r), 0);
        if ((error < 0) != (faults > 0))
            fail_msg("bit %zu of byte %zu: access %d, check %u faults", bit % 8,
                     bit / 8, error, faults);
        refused += error < 0 ? 1 : 0;
        store_close(s);
        flip(fd, at, bit % 8);
    }

    /* LMDB's head of a record has bits that mean nothing. */
    assert_true(refused >= 8 * (p.size - head));
    assert_int_equal(close(fd), 0);
}

CASE(no_bit_of_state_name_or_mark_is_wrong_and_silent, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    char name[] = "name", total[] = "state", mark[17] = "m";
    struct place places[3];

    assert_rc(stored_add(s, KS_NAME, &counted_log, "k", 2), 0);
    assert_rc(stored_add(s, KS_NAME, &other_log, "other", 3), 0);
    memcpy(mark + 1, counted_log.uuid, 16);
    places[0] = place_of_record(s, name, 4);
    places[1] = place_of_record(s, total, 5);
    places[2] = place_of_record(s, mark, 17);
    store_close(s);

    for (unsigned i = 0; i < 3; i++)
        flip_each_bit(d, places[i], 8);
}

/* The record is there, whole, but LMDB does not come to it: the log would count
 * a second time. */
CASE(a_hidden_mark_is_no_mark_that_is_not_there, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    char mark[17] = "m";
    struct place p;
    int fd;

    assert_rc(stored_add(s, KS_NAME, &counted_log, "k", 2), 0);
    memcpy(mark + 1, counted_log.uuid, 16);
    p = place_of_record(s, mark, 17);
    fd = openat(d->fd, "pages.mdb", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);

    flip(fd, p.at + 8 + 3, 2); /* in the uuid; this process goes on */

    assert_rc(stored_add(s, KS_NAME, &counted_log, "k", 2), -EBADMSG);
    assert_rc(stored_add(s, KS_NAME, &other_log, "k", 2), -EBADMSG);
    assert_rc(store_marks(s, KS, &counted_log, 1,
                          &(struct store_mark_info){.progress = 0}),
              -EBADMSG);
    flip(fd, p.at + 8 + 3, 2);
    assert_rc(stored_add(s, KS_NAME, &counted_log, "k", 2), 0);
    assert_int_equal(get_one(s, KS_NAME, "k"), 2);
    assert_int_equal(close(fd), 0);
    store_close(s);
}

/* As a branch page that leads elsewhere would have it: marks that are whole,
 * but one is missing, or is of an earlier commit. */
CASE(marks_that_are_not_those_of_the_state_are_damage, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    struct store_fill later = counted_log;
    struct store_check_result r;
    char bytes[17] = "m";
    MDB_val key = {.mv_size = 17, .mv_data = bytes}, v;
    uint8_t earlier[300];

    memcpy(bytes + 1, counted_log.uuid, 16);
    for (unsigned i = 0; i < 2; i++) {
        struct store_mark_info info;
        struct keyspace *k;
        unsigned faults = 0;
        MDB_txn *txn;

        later.epoch += 10;
        assert_rc(stored_add(s, KS_NAME, &later, "k", 2), 0);
        assert_rc(keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &k), 0);
        assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
        assert_int_equal(mdb_get(txn, k->meta, &key, &v), 0);
        memcpy(earlier, v.mv_data, v.mv_size);
        v.mv_data = earlier;
        keyspace_abort(k, txn);
        later.epoch++;
        assert_rc(stored_add(s, KS_NAME, &later, "k", 2), 0);
        assert_rc(keyspace_write(lmdb_of(s), k, &txn), 0);
        assert_int_equal(i == 0 ? mdb_put(txn, k->meta, &key, &v, 0)
                                : mdb_del(txn, k->meta, &key, NULL),
                         0);
        assert_int_equal(mdb_txn_commit(txn), 0);
        keyspace_unlock(k);

        assert_rc(stored_add(s, KS_NAME, &later, "k", 2), -EBADMSG);
        assert_rc(store_marks(s, KS, &other_log, 1, &info), -EBADMSG);
        assert_rc(store_check(s, KS, count_fault, &faults, &r), 0);
        assert_int_equal(faults, 1);

        assert_rc(store_drop(s, KS), 1); /* they are of no use */
        assert_int_equal(mark_state(s, &later), STORE_MARK_NONE);
    }
    store_close(s);
}

/* The value of this type that looking up `key` by its count needs. */
static struct place
place_of_value(struct store *s, int fd, const char *key, enum block_type type)
{
    struct place p = {.size = 0};
    struct keyspace *k;
    MDB_cursor *cursor;
    MDB_val at, v;

    assert_rc(keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &k), 0);
    assert_rc(keyspace_read(k), 0);
    assert_int_equal(
        mdb_cursor_open(k->reader, k->trees[TREE_KEYS].dbi, &cursor), 0);
    while (p.size == 0 && mdb_cursor_get(cursor, &at, &v, MDB_NEXT) == 0) {
        struct store_row row;
        const off_t byte = place_of(v.mv_data);

        if (((uint8_t *)v.mv_data)[4] != type)
            continue;
        flip(fd, byte + 9, 0);
        keyspace_read_end(k);
        tree_cache_forget(&lmdb_of(s)->cache);
        if (stored_get(s, KS_NAME, key, &row) < 0)
            p = (struct place){.at = byte, .size = v.mv_size};
        assert_rc(keyspace_read(k), 0);
        flip(fd, byte + 9, 0);
    }
    mdb_cursor_close(cursor);
    keyspace_read_end(k);
    if (p.size == 0)
        fail_msg("no value of type %d is needed for %s", (int)type, key);
    return p;
}

CASE(no_bit_of_a_value_is_wrong_and_silent, d)
{
    static const enum block_type types[] = {BLOCK_NODE, BLOCK_GROUP, BLOCK_BASE,
                                            BLOCK_BUFFER};
    struct store *s = open_store(d, 1 << 24, true);
    struct store_check_result r;
    struct store_row row;
    char old[32] = {0}; /* is in no buffer, and the other key in no base */
    struct batch_keys b;
    unsigned faults;
    int fd;

    rng = 3;
    for (unsigned i = 0; i < 3; i++) {
        struct store_applied applied;

        batch_make(&b, i == 0 ? 12000 : 100, 20000, 0, 1000, false);
        assert_rc(apply_deltas(s, KS, NULL, 0, b.deltas, b.count, &applied), 0);
        if (i == 0)
            memcpy(old, b.deltas[0].key, b.deltas[0].key_size);
        batch_free(&b);
    }
    assert_rc(apply_one(s, KS_NAME, "key:000000000777", 1000000), 0);
    fd = openat(d->fd, "pages.mdb", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *const key =
            types[i] == BLOCK_BASE ? old : "key:000000000777";
        const struct place p = place_of_value(s, fd, key, types[i]);

        for (size_t bit = 0; bit < 8 * p.size; bit++) {
            flip(fd, p.at + (off_t)(bit / 8), bit % 8);
            tree_cache_forget(&lmdb_of(s)->cache);
            assert_rc(stored_get(s, KS_NAME, key, &row), -EBADMSG);
            faults = 0;
            if (bit % 331 == 0) { /* it takes a hundred times as long */
                assert_rc(store_check(s, KS, count_fault, &faults, &r), 0);
                assert_true(faults > 0);
            }
            flip(fd, p.at + (off_t)(bit / 8), bit % 8);
        }
    }
    check_clean(s);
    assert_int_equal(close(fd), 0);
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
CASE(flags_that_would_stop_lmdb_are_refused, d)
{
    static const struct {
        bool meta;
        size_t byte;
        uint8_t bit;
    } flips[] = {{true, 44, 0x04}, {true, 92, 0x04}, {false, 10, 0x20}};
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
        tmpdir_empty(d);
    }
}

CASE(check_finds_what_contradicts_itself, d)
{
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
