/* tests/unit/test_pages.c - LMDB's files, looked at without LMDB. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/store/lmdb/pages.h"
#include "tests/lib/capture.h"
#include "tests/lib/counted.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"

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
setup_keyspace(void **state)
{
    static struct fixture f;

    f = (struct fixture){.random = {.state = random_seed("test_pages")}};
    tmpdir_make_in_memory(&f.dir);
    (void)snprintf(f.path, sizeof f.path, "%s/pages.mdb", f.dir.path);
    diag_init("test_pages", DIAG_ERROR);
    *state = &f;
    return 0;
}

static int
setup(void **state)
{
    const int rc = setup_keyspace(state);

    open_env(*state);
    return rc;
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

#define CASE(name, f) TEST_IN(name, struct fixture *f, setup, teardown)

/* A key, or all of a value, made from `id`. */
static void
fill_bytes(uint8_t *bytes, size_t size, uint64_t id)
{
    struct random r = {.state = id + 1};

    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)random_next(&r);
    memcpy(bytes, &id, sizeof id);
}

static void
put_entry(MDB_txn *txn, MDB_dbi dbi, uint64_t id, size_t key_size, size_t size)
{
    static uint8_t key[511], value[1 << 20];
    MDB_val k = {.mv_size = key_size, .mv_data = key};
    MDB_val v = {.mv_size = size, .mv_data = value};

    fill_bytes(key, key_size, id);
    fill_bytes(value, size, id ^ size);
    assert_int_equal(mdb_put(txn, dbi, &k, &v, 0), 0);
}

static void
put_one(struct fixture *f, uint64_t id, size_t key_size, size_t size)
{
    MDB_txn *txn;

    assert_int_equal(mdb_txn_begin(f->env, NULL, 0, &txn), 0);
    put_entry(txn, f->dbi[0], id, key_size, size);
    assert_int_equal(mdb_txn_commit(txn), 0);
}

static int
file_open(struct fixture *f)
{
    const int fd = open(f->path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* ---- the check --------------------------------------------------------- */

static void
assert_good(int fd)
{
    struct pages_check check = {.fault = print_fault};
    const char *why;

    assert_rc(pages_check(fd, &check), 0);
    assert_int_equal(check.faults, 0);
    assert_rc(pages_check_file(fd, PAGES_FOR_WRITING, &why), 0);
}

/* Puts and deletes some, of sizes that go together on pages, fill pages, or
 * have pages of their own. */
static void
change_some(struct fixture *f, MDB_txn *txn, unsigned count)
{
    static const size_t most[] = {40, 300, 2100, 9000, 40000};

    for (unsigned i = 0; i < count; i++) {
        const MDB_dbi dbi = f->dbi[random_below(&f->random, 2)];
        const uint64_t id = random_below(&f->random, 400);
        uint8_t key[511];
        MDB_val k = {.mv_size = 8 + id % 500, .mv_data = key};
        const size_t size =
            1 + random_below(&f->random, most[random_below(&f->random, 5)]);
        int rc;

        if (random_chance(&f->random, 55)) {
            put_entry(txn, dbi, id, k.mv_size, size);
            continue;
        }
        fill_bytes(key, k.mv_size, id);
        rc = mdb_del(txn, dbi, &k, NULL);
        assert_true(rc == 0 || rc == MDB_NOTFOUND);
    }
}

CASE(whatever_lmdb_writes_is_good, f)
{
    const int fd = file_open(f);
    char copy[700];

    (void)snprintf(copy, sizeof copy, "%s/copy.mdb", f->dir.path);
    for (unsigned i = 0; i < 200; i++) {
        const unsigned count = 1u << random_below(&f->random, 9);
        MDB_txn *txn;
        int copied;

        assert_int_equal(mdb_txn_begin(f->env, NULL, 0, &txn), 0);
        change_some(f, txn, count);
        if (random_chance(&f->random, 2))
            assert_int_equal(mdb_drop(txn, f->dbi[0], 0), 0);
        assert_int_equal(mdb_txn_commit(txn), 0);
        assert_good(fd);
        if (i % 20 != 0)
            continue;
        assert_int_equal(
            mdb_env_copy2(f->env, copy, i % 40 == 0 ? MDB_CP_COMPACT : 0), 0);
        copied = open(copy, O_RDONLY | O_CLOEXEC);
        assert_true(copied >= 0);
        assert_good(copied);
        close(copied);
        assert_int_equal(unlink(copy), 0);
    }
    close(fd);
}

/* A file in which values and a part of the free list have pages of their own.
 */
static int
large_file(struct fixture *f)
{
    MDB_txn *txn;

    for (unsigned round = 0; round < 4; round++) {
        assert_int_equal(mdb_txn_begin(f->env, NULL, 0, &txn), 0);
        for (uint64_t id = 0; id < 300; id++)
            put_entry(txn, f->dbi[0], id, 8,
                      5000 + 10000 * (size_t)(round % 2));
        if (round == 3)
            assert_int_equal(mdb_drop(txn, f->dbi[0], 0), 0);
        put_entry(txn, f->dbi[0], 1, 8, 20000);
        assert_int_equal(mdb_txn_commit(txn), 0);
    }
    return file_open(f);
}

/* Where in the file the node at hand says which pages its value has; 0 at the
 * end.  *at: which page and node is next. */
static size_t
next_large_value(const uint8_t *bytes, size_t size, size_t *page, size_t *node)
{
    for (; *page < size; *page += PAGE, *node = 0) {
        uint16_t flags, lower, at, head[4];

        memcpy(&flags, bytes + *page + 10, 2);
        memcpy(&lower, bytes + *page + 12, 2);
        while (flags == 2 && lower <= PAGE && 16 + 2 * *node < lower) {
            memcpy(&at, bytes + *page + 16 + 2 * (*node)++, 2);
            memcpy(head, bytes + *page + at, 8);
            if (head[2] == 1)
                return *page + at + 8 + head[3];
        }
    }
    return 0;
}

/* Fault: such a number passed the range test, as number and count together are
 * small again. */
CASE(no_page_number_is_too_large_for_the_check, f)
{
    static const uint64_t bad[] = {UINT64_MAX,
                                   UINT64_MAX - 1,
                                   UINT64_MAX / 4096,
                                   (uint64_t)1 << 63,
                                   (uint64_t)1 << 52,
                                   0,
                                   1};
    const int fd = large_file(f);
    unsigned found = 0, values = 0;
    size_t page = 0, node = 0, at, size;
    uint8_t *bytes;

    assert_good(fd);
    bytes = file_bytes(f->path, &size);
    while ((at = next_large_value(bytes, size, &page, &node)) > 0) {
        struct pages_check check = {.quick = false};

        values++;
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            assert_int_equal(pwrite(fd, &bad[i], 8, (off_t)at), 8);
            assert_rc(pages_check(fd, &check), 0);
            found += check.faults > 0;
        }
        assert_int_equal(pwrite(fd, bytes + at, 8, (off_t)at), 8);
    }

    /* In use are one value and some of the free list's. */
    assert_true(values > 10);
    assert_true(found >= 2 * sizeof bad / sizeof bad[0]);
    free(bytes);
    close(fd);
}

/* Fault: LMDB took the pages of such a record of the free list twice. */
CASE(pages_that_commit_0_gave_free_are_damage, f)
{
    const int fd = file_open(f);
    struct pages_meta meta;
    uint64_t root, zero = 0;
    uint16_t at;
    const char *why;

    for (uint64_t id = 0; id < 4; id++)
        put_one(f, id, 8, 700);
    assert_rc(pages_check_file(fd, PAGES_FOR_WRITING, &why), 0);
    assert_rc(pages_meta(fd, &meta, &why), 0);
    memcpy(&root, meta.free + PAGES_DB_SIZE - sizeof root, sizeof root);

    /* The first node's key. */
    assert_int_equal(pread(fd, &at, 2, (off_t)(root * PAGE + 16)), 2);
    assert_int_equal(pwrite(fd, &zero, 8, (off_t)(root * PAGE + at + 8)), 8);

    assert_rc(pages_check_file(fd, PAGES_FOR_WRITING, &why), -EBADMSG);
    close(fd);
}

CASE(a_file_that_was_cut_is_damaged, f)
{
    const int fd = large_file(f);
    struct stat st;
    const char *why;

    assert_int_equal(fstat(fd, &st), 0);
    for (off_t size = 1000; size < 100000; size += 3000) {
        assert_int_equal(ftruncate(fd, size), 0);
        assert_rc(pages_check_file(fd, PAGES_FOR_WRITING, &why), -EBADMSG);
        assert_int_equal(ftruncate(fd, st.st_size), 0);
    }
    close(fd);
}

/* ---- before a value is replaced ---------------------------------------- */

static const void *
value_of(struct fixture *f, MDB_txn *txn, uint64_t id, size_t *size)
{
    uint8_t key[8];
    MDB_val k = {.mv_size = sizeof key, .mv_data = key}, v;

    fill_bytes(key, sizeof key, id);
    assert_int_equal(mdb_get(txn, f->dbi[0], &k, &v), 0);
    *size = v.mv_size;
    return v.mv_data;
}

CASE(what_lmdb_would_give_free_with_a_value_is_checked, f)
{
    const int fd = file_open(f);
    struct pages_map map;
    const uint8_t *value;
    uint64_t number;
    MDB_txn *txn;
    size_t size;

    put_one(f, 1, 8, 100);
    put_one(f, 2, 8, 10000);
    put_one(f, 3, 8, 4080);
    assert_int_equal(mdb_txn_begin(f->env, NULL, 0, &txn), 0);
    value = value_of(f, txn, 1, &size);
    pages_map_find(&map, value, PAGE, (size_t)64 << 20);
    assert_true(map.start != 0);
    assert_true(pages_value_ok(&map, value, size));
    value = value_of(f, txn, 3, &size);
    assert_true(pages_value_ok(&map, value, size));
    value = value_of(f, txn, 2, &size);
    assert_true(pages_value_ok(&map, value, size));

    memcpy(&number, value - 16, sizeof number);
    for (unsigned bit = 0; bit < 16 * 8; bit++) {
        const off_t at = (off_t)(number * PAGE + bit / 8);
        const uint8_t was = value[(int)(bit / 8) - 16];
        const uint8_t flipped = (uint8_t)(was ^ 1u << bit % 8);

        assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
        assert_true(pages_value_ok(&map, value, size) ==
                    (bit / 8 == 8 || bit / 8 == 9)); /* nothing is there */
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
    }

    /* One that this transaction has written is in its own memory. */
    put_entry(txn, f->dbi[0], 2, 8, 9999);
    value = value_of(f, txn, 2, &size);
    assert_true(pages_value_ok(&map, value, size));
    mdb_txn_abort(txn);
    close(fd);
}

/* ---- keyspaces: the newest commit, or nothing --------------------------- */

static struct store *
reopen_store(struct fixture *f, bool writable)
{
    return open_store(&f->dir, 1 << 22, writable);
}

#define KEYSPACE(name, f)                                                      \
    TEST_IN(name, struct fixture *f, setup_keyspace, teardown)

/* A keyspace of `commits` commits; its count is their number. */
static void
make_keyspace(struct fixture *f, int commits)
{
    struct store *s = reopen_store(f, true);

    for (int i = 0; i < commits; i++)
        assert_rc(stored_add(s, "pages", NULL, "k", 1), 0);
    store_close(s);
}

/* The count of the only key, or an error. */
static int64_t
count_rows(struct store *s)
{
    struct store_totals totals;
    struct store_row row;
    int rc;

    rc = stored_get(s, "pages", "k", &row);
    if (rc == 0)
        rc = stored_totals(s, "pages", &totals);
    if (rc < 0)
        return rc;
    assert_int_equal(totals.keys, 1);
    return row.count;
}

/* ---- keyspaces: what is refused ---------------------------------------- */

KEYSPACE(a_damaged_file_is_not_read_again_until_it_changes, f)
{
    static const off_t at[] = {44,
                               PAGE + 44}; /* flags of the free list, twice */
    struct store *s;

    make_keyspace(f, 4);
    for (int i = 0; i < 2; i++)
        file_flip(f->path, at[i], 0x77);
    s = reopen_store(f, true);
    assert_rc(stored_add(s, "pages", NULL, "k", 1), -EBADMSG);

    fault_clear();
    for (int i = 0; i < 10; i++)
        assert_rc(stored_add(s, "pages", NULL, "k", 1), -EBADMSG);
    assert_int_equal(fault_calls("pread"), 0);

    for (int i = 0; i < 2; i++)
        file_flip(f->path, at[i], 0x77);
    assert_rc(stored_add(s, "pages", NULL, "k", 1), 0);
    assert_int_equal(count_rows(s), 5);
    store_close(s);
}

KEYSPACE(a_damaged_lock_file_is_told_from_a_damaged_keyspace, f)
{
    static const uint8_t zeros[8];
    static struct capture said;
    struct store *s;
    int ready[2];
    pid_t child;
    char go;

    make_keyspace(f, 2);
    assert_int_equal(pipe(ready), 0);
    child = test_fork();
    if (child == 0) { /* has it open until the pipe closes */
        s = reopen_store(f, true);
        assert_int_equal(count_rows(s), 2);
        close(ready[0]);
        assert_int_equal(write(ready[1], "!", 1), 1);
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &go, 1), 1);
    file_write(file_path(f->dir.path, "pages.mdb-lock"), 0, zeros,
               sizeof zeros);

    capture_start(&said);
    s = reopen_store(f, false);
    assert_true(count_rows(s) == -EBADMSG);
    store_close(s);
    assert_has(capture_stop(&said), "its lock file is damaged");
    assert_has(said.text, "stop all daemons and start them again");

    /* Which is enough. */
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    s = reopen_store(f, true);
    assert_rc(stored_add(s, "pages", NULL, "k", 1), 0);
    assert_int_equal(count_rows(s), 3);
    store_close(s);
    close(ready[0]);
    close(ready[1]);
}
