/* tests/unit/test_pages.c - LMDB's files, looked at without LMDB. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/store/lmdb/pages.h"
#include "tests/lib/random.h"
#include "tests/lib/tmpdir.h"

#define PAGE 4096

struct fixture {
    struct tmpdir dir;
    struct random random;
    char path[600];
    MDB_env *env;
    MDB_dbi dbi[2]; /* "one", "two" */
};

static void
open_env(struct fixture *f)
{
    MDB_txn *txn;

    assert_int_equal(mdb_env_create(&f->env), 0);
    assert_int_equal(mdb_env_set_maxdbs(f->env, 4), 0);
    assert_int_equal(mdb_env_set_mapsize(f->env, (size_t)64 << 20), 0);
    assert_int_equal(mdb_env_open(f->env, f->path,
                                  MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600),
                     0);
    assert_int_equal(mdb_txn_begin(f->env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "one", MDB_CREATE, &f->dbi[0]), 0);
    assert_int_equal(mdb_dbi_open(txn, "two", MDB_CREATE, &f->dbi[1]), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
}

static int
setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){.random = {.state = random_seed("test_pages")}};
    tmpdir_make(&f.dir);
    (void)snprintf(f.path, sizeof f.path, "%s/file.mdb", f.dir.path);
    open_env(&f);
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    if (f->env != NULL)
        mdb_env_close(f->env);
    tmpdir_remove(&f->dir);
    return 0;
}

/* A key, or all of a value, told by `id`. */
static void
fill(uint8_t *bytes, size_t size, uint64_t id)
{
    struct random r = {.state = id + 1};

    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)random_next(&r);
    memcpy(bytes, &id, sizeof id);
}

static void
put(MDB_txn *txn, MDB_dbi dbi, uint64_t id, size_t key_size, size_t size)
{
    static uint8_t key[511], value[1 << 20];
    MDB_val k = {.mv_size = key_size, .mv_data = key};
    MDB_val v = {.mv_size = size, .mv_data = value};

    fill(key, key_size, id);
    fill(value, size, id ^ size);
    assert_int_equal(mdb_put(txn, dbi, &k, &v, 0), 0);
}

static void
put_one(struct fixture *f, uint64_t id, size_t key_size, size_t size)
{
    MDB_txn *txn;

    assert_int_equal(mdb_txn_begin(f->env, NULL, 0, &txn), 0);
    put(txn, f->dbi[0], id, key_size, size);
    assert_int_equal(mdb_txn_commit(txn), 0);
}

static int
file_open(struct fixture *f)
{
    const int fd = open(f->path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* ---- salvage ----------------------------------------------------------- */

/* Values of put(), found again. */
struct found {
    uint64_t ids[8];
    size_t sizes[8];
    unsigned seen[8];
    unsigned count;
    unsigned calls;
};

static int64_t
note_found(void *ctx, const uint8_t *value, size_t size)
{
    static uint8_t want[1 << 20];
    struct found *found = ctx;

    found->calls++;
    for (unsigned i = 0; i < found->count; i++) {
        if (found->sizes[i] > size)
            continue;
        fill(want, found->sizes[i], found->ids[i] ^ found->sizes[i]);
        if (memcmp(value, want, found->sizes[i]) == 0) {
            found->seen[i]++;
            return (int64_t)found->sizes[i];
        }
    }
    return 0;
}

static struct found
small_and_large(struct fixture *f)
{
    struct found found = {
        .ids = {1, 2, 3, 4}, .sizes = {20, 2000, 5000, 300000}, .count = 4};

    for (unsigned i = 0; i < found.count; i++)
        put_one(f, found.ids[i], 16, found.sizes[i]);
    return found;
}

static void
every_value_is_found_whatever_its_size(void **state)
{
    struct fixture *f = *state;
    struct found found = small_and_large(f);
    const int fd = file_open(f);

    assert_rc(pages_each_value(fd, note_found, &found), 0);

    for (unsigned i = 0; i < found.count; i++)
        assert_true(found.seen[i] > 0);
    close(fd);
}

static void
values_are_found_without_meta_pages(void **state)
{
    static const uint8_t zeros[2 * PAGE];
    struct fixture *f = *state;
    struct found found = small_and_large(f);
    const int fd = file_open(f);

    assert_int_equal(pwrite(fd, zeros, sizeof zeros, 0), sizeof zeros);
    assert_rc(pages_each_value(fd, note_found, &found), 0);

    for (unsigned i = 0; i < found.count; i++)
        assert_true(found.seen[i] > 0);
    close(fd);
}

static int64_t
stop(void *ctx, const uint8_t *value, size_t size)
{
    unsigned *calls = ctx;

    (void)value;
    (void)size;
    ++*calls;
    return -ECANCELED;
}

static void
the_scan_ends_when_it_is_told_to(void **state)
{
    struct fixture *f = *state;
    const int fd = file_open(f);
    unsigned calls = 0;

    assert_rc(pages_each_value(fd, stop, &calls), -ECANCELED);

    assert_int_equal(calls, 1);
    close(fd);
}

/* Sees that a value is readable to its end. */
static int64_t
add_up(void *ctx, const uint8_t *value, size_t size)
{
    uint64_t *sum = ctx;

    for (size_t i = 0; i < size; i++)
        *sum += value[i];
    return 0;
}

static void
any_bytes_are_scanned(void **state)
{
    static uint8_t bytes[10 * PAGE + 777];
    struct fixture *f = *state;
    const int fd = file_open(f);
    uint64_t sum = 0;

    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)random_next(&f->random);
        for (uint64_t i = 0; i < 10; i++) {
            memcpy(bytes + i * PAGE, &i, sizeof i);
            bytes[i * PAGE + 10] = (uint8_t)(1u << random_below(&f->random, 4));
            bytes[i * PAGE + 11] = 0;
        }
        assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
        assert_int_equal(ftruncate(fd, (off_t)sizeof bytes), 0);
        assert_rc(pages_each_value(fd, add_up, &sum), 0);
    }
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(every_value_is_found_whatever_its_size),
    TEST(values_are_found_without_meta_pages),
    TEST(the_scan_ends_when_it_is_told_to),
    TEST(any_bytes_are_scanned),
};

TEST_MAIN(tests)
