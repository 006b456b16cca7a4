/* tests/unit/test_listing.c - the list of keyspaces: whole and in order in
 * pieces of any size, and with few looks at the disk. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/store/lmdb/keyspace.h"
#include "common/store/lmdb/keyspace_peek.h"
#include "tests/lib/counted.h"
#include "tests/lib/fault.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"

/* What no file name can hold as it is, nor in hex. */
#define LONG_NAME                                                              \
    "http://Example.com/a/rather/long/path/as/names/of/keyspaces/may/be/"

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, in_memory, remove_dir)

static struct lmdb *
open_lmdb(const struct tmpdir *d, bool writable)
{
    return lmdb_of(open_store(d, 1 << 20, writable));
}

/* Adds a key, and the mark of a log of its own. */
static int
apply_key(struct lmdb *s, const char *name, unsigned key)
{
    struct log_fill mark = {.epoch = 1, .first_ms = 1};
    char text[16];

    (void)snprintf(text, sizeof text, "key-%06u", key);
    memcpy(mark.uuid, text, 10);
    return stored_add(&s->store, name, &mark, text, 1);
}

/* Keyspaces with 1, 2, 3, 1 ... keys. */
static void
make_keyspaces(const struct tmpdir *d, const char *prefix, unsigned count)
{
    struct lmdb *s = open_lmdb(d, true);
    char name[NAME_MAX_SIZE];

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "%s%05u", prefix, i);
        for (unsigned key = 0; key <= i % 3; key++)
            assert_rc(apply_key(s, name, key), 0);
    }
    store_close(&s->store);
}

/* Makes such keyspaces, and a listing of them. */
static struct lmdb *
open_listing(const struct tmpdir *d, const char *prefix, unsigned count,
             struct store_listing **l)
{
    struct lmdb *s;

    make_keyspaces(d, prefix, count);
    s = open_lmdb(d, false);
    assert_rc(store_listing_open(&s->store, l), 0);
    return s;
}

static void
expect_row(const struct store_listed *row, const char *prefix, unsigned i,
           int64_t keys)
{
    char name[NAME_MAX_SIZE];

    (void)snprintf(name, sizeof name, "%s%05u", prefix, i);
    assert_int_equal(row->name_size, strlen(name));
    assert_memory_equal(row->name, name, row->name_size);
    assert_int_equal(row->keys, keys);
}

/* Expects all of them, in steps that end at `until_ns`; says how many. */
static unsigned
expect_all(struct store_listing *l, uint64_t until_ns, const char *prefix,
           unsigned count)
{
    struct store_listed row;
    unsigned steps = 0, i = 0;
    int rc;

    while ((rc = store_listing_next(l, until_ns, &row)) != 0) {
        if (rc == -EAGAIN) {
            steps++;
            continue;
        }
        assert_rc(rc, 1);
        expect_row(&row, prefix, i, i % 3 + 1);
        i++;
    }
    assert_int_equal(i, count);
    return steps;
}

CASE(the_smallest_steps_list_the_same_with_one_look_at_each_file, d)
{
    enum { COUNT = 120 };
    struct store_listing *l;
    struct lmdb *s;

    s = open_listing(d, "k", COUNT, &l);

    store_listing_start(l, NULL, 0);
    fault_clear();
    assert_int_equal(expect_all(l, UINT64_MAX, "k", COUNT), 0);
    assert_int_equal(fault_calls("openat"), 1 + COUNT);

    store_listing_start(l, NULL, 0);
    fault_clear();
    assert_true(expect_all(l, 0, "k", COUNT) >= COUNT);
    assert_int_equal(fault_calls("openat"), 1 + COUNT);

    store_listing_close(l);
    store_close(&s->store);
}

CASE(names_alone_need_no_look_at_a_file, d)
{
    enum { COUNT = 30 };
    struct store_listing *l;
    struct store_listed row;
    struct lmdb *s;

    s = open_listing(d, "k", COUNT, &l);
    l->names_only = true;

    store_listing_start(l, NULL, 0);
    fault_clear();
    for (unsigned i = 0; i < COUNT; i++) {
        assert_rc(store_listing_next(l, UINT64_MAX, &row), 1);
        expect_row(&row, "k", i, 0);
    }
    assert_int_equal(store_listing_next(l, UINT64_MAX, &row), 0);
    assert_int_equal(fault_calls("openat"), 1);

    store_listing_close(l);
    store_close(&s->store);
}

CASE(the_names_of_hashed_files_are_read_without_lmdb, d)
{
    enum { COUNT = 30 };
    struct store_listing *l;
    struct lmdb *s;

    s = open_listing(d, LONG_NAME, COUNT, &l);

    for (int i = 0; i < 2; i++) {
        store_listing_start(l, NULL, 0);
        fault_clear();
        (void)expect_all(l, 0, LONG_NAME, COUNT); /* steps do not matter */
        assert_int_equal(fault_calls("openat"), 1 + 2 * COUNT);
        for (unsigned k = 0; k < 4; k++)
            assert_int_equal(s->slots[k].hash, 0);
    }

    store_listing_close(l);
    store_close(&s->store);
}

/* As when the key of file names is another: the keyspace is there once more, or
 * would be made anew. */
CASE(a_hashed_file_under_another_name_is_listed_by_that, d)
{
    static const char moved[] = "%h0123456789abcdef0123456789abcdef";
    char from[NAME_FILE_SIZE], to[NAME_FILE_SIZE + 8], name[256];
    struct store_listing *l;
    struct store_listed row;
    struct lmdb *s;

    make_keyspaces(d, LONG_NAME, 1);
    (void)snprintf(name, sizeof name, LONG_NAME "%05u", 0u);
    name_to_file((const uint8_t *)name, strlen(name), from);
    strcat(from, ".mdb");
    (void)snprintf(to, sizeof to, "%s.mdb", moved);
    assert_int_equal(renameat(d->fd, from, d->fd, to), 0);
    s = open_lmdb(d, false);
    assert_rc(store_listing_open(&s->store, &l), 0);

    store_listing_start(l, NULL, 0);
    assert_rc(store_listing_next(l, UINT64_MAX, &row), 1);
    assert_int_equal(row.name_size, strlen(moved));
    assert_memory_equal(row.name, moved, strlen(moved));
    assert_int_equal(row.keys, -1);
    assert_int_equal(store_listing_next(l, UINT64_MAX, &row), 0);

    store_listing_close(l);
    store_close(&s->store);
}

CASE(more_names_than_a_batch_take_a_pass_for_each, d)
{
    enum { COUNT = 2 * LISTING_BATCH + 100 };
    struct lmdb *s = open_lmdb(d, false);
    struct store_listing *l;
    struct store_listed row;
    char file[32];

    /* No process can read them; the file of each is tried once. */
    for (unsigned i = 0; i < COUNT; i++) {
        (void)snprintf(file, sizeof file, "n%05u.mdb", i * 3793 % COUNT);
        tmpdir_put(d, file, "", 0, 0600);
    }
    assert_rc(store_listing_open(&s->store, &l), 0);

    store_listing_start(l, NULL, 0);
    fault_clear();
    for (unsigned i = 0; i < COUNT; i++) {
        assert_rc(store_listing_next(l, UINT64_MAX, &row), 1);
        expect_row(&row, "n", i, -1);
    }
    assert_int_equal(store_listing_next(l, UINT64_MAX, &row), 0);
    assert_int_equal(fault_calls("openat"), COUNT + 3);

    /* A page of an answer takes one, wherever it begins. */
    store_listing_start(l, (const uint8_t *)"n00099", 6);
    fault_clear();
    for (unsigned i = 0; i < LISTING_BATCH; i++) {
        assert_rc(store_listing_next(l, UINT64_MAX, &row), 1);
        expect_row(&row, "n", 100 + i, -1);
    }
    assert_int_equal(fault_calls("openat"), LISTING_BATCH + 1);
    store_listing_close(l);
    store_close(&s->store);
}

CASE(a_listing_that_is_given_up_leaves_nothing_open, d)
{
    struct lmdb *s = open_lmdb(d, false);
    const unsigned fds = fault_open_fds();
    struct store_listing *l;
    struct store_listed row;

    tmpdir_put(d, "a.mdb", "", 0, 0600);
    assert_rc(store_listing_open(&s->store, &l), 0);
    for (int i = 0; i < 3; i++) {
        store_listing_start(l, NULL, 0);
        assert_rc(store_listing_next(l, 0, &row), -EAGAIN);
        assert_int_equal(fault_open_fds(), fds + 1);
    }
    store_listing_close(l);
    assert_int_equal(fault_open_fds(), fds);
    store_close(&s->store);
}

CASE(a_directory_that_cannot_be_read_is_an_error_and_the_next_try_is_whole, d)
{
    enum { COUNT = 5 };
    struct store_listing *l;
    struct store_listed row;
    struct lmdb *s;

    s = open_listing(d, "k", COUNT, &l);
    store_listing_start(l, NULL, 0);
    fault_inject("openat", 1, EMFILE);
    assert_rc(store_listing_next(l, UINT64_MAX, &row), -EMFILE);
    fault_clear();
    assert_int_equal(store_listing_next(l, UINT64_MAX, &row), 0);

    store_listing_start(l, NULL, 0);
    assert_int_equal(expect_all(l, UINT64_MAX, "k", COUNT), 0);
    store_listing_close(l);
    store_close(&s->store);
}

/* ---- peeking at what others write -------------------------------------- */

static int
keys_of_the_only_one(void *ctx, const uint8_t *name, size_t size, int64_t keys)
{
    int64_t *out = ctx;

    (void)name; /* there is one */
    (void)size;
    assert_int_equal(*out, INT64_MIN);
    *out = keys;
    return 0;
}

static int64_t
list_one(struct lmdb *s)
{
    int64_t keys = INT64_MIN;

    assert_rc(store_list(&s->store, NULL, 0, keys_of_the_only_one, &keys), 0);
    return keys;
}

/* With as many marks, their database is a tree. */
#define COMMITS 600

CASE(keys_are_of_whole_commits_while_a_worker_writes, d)
{
    struct lmdb *s = open_lmdb(d, true);
    int64_t keys = 0, now;
    int status = 0;
    pid_t pid;

    assert_rc(apply_key(s, "pages", 0), 0);
    store_close(&s->store);
    pid = test_fork();
    if (pid == 0) {
        s = open_lmdb(d, true);
        for (unsigned i = 1; i < COMMITS; i++)
            if (apply_key(s, "pages", i) < 0)
                _exit(1);
        _exit(0);
    }
    s = open_lmdb(d, false);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        now = list_one(s);
        assert_true(now >= keys && now <= COMMITS);
        keys = now;
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(list_one(s), COMMITS);
    store_close(&s->store);
}

CASE(a_damaged_file_never_tells_a_number_that_was_not_committed, d)
{
    struct random r = {.state = 7};
    struct lmdb *s = open_lmdb(d, true);
    uint8_t byte, bad;
    unsigned whole = 0, refused = 0;
    struct keyspace_state found;
    const char *why;
    struct stat st;
    int fd;

    for (unsigned i = 0; i < 200; i++)
        assert_rc(apply_key(s, "pages", i), 0);
    store_close(&s->store);
    s = open_lmdb(d, false);
    fd = openat(d->fd, "pages.mdb", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    for (unsigned i = 0; i < 20000; i++) {
        const off_t at = (off_t)random_below(&r, (uint64_t)st.st_size);
        struct keyspace k = {.file = "pages.mdb"};
        int rc;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        bad = (uint8_t)(byte ^ (1 + random_below(&r, 255)));
        assert_int_equal(pwrite(fd, &bad, 1, at), 1);
        rc = keyspace_peek(&s->options, &k, &found, NULL, &why);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        if (rc < 0) {
            refused++;
            continue;
        }
        whole++;
        /* The older meta page counts when the newer one is hit. */
        assert_in_range(found.roots[TREE_KEYS].count, 199, 200);
    }
    assert_true(whole > 0 && refused > 0);
    assert_rc(close(fd), 0);
    store_close(&s->store);
}
