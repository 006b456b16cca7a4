/* tests/unit/test_replaced.c - files that are replaced while they are open. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/store/lmdb/keyspace.h"
#include "tests/lib/counted.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/stored.h"

/* Copies a file, over what is there. */
static void
copy_file(const struct tmpdir *d, const char *from, const char *to)
{
    static uint8_t bytes[1 << 20];
    const char *path = file_path(d->path, "%s", to);
    const size_t size =
        file_read(file_path(d->path, "%s", from), bytes, sizeof bytes);

    if (tmpdir_has(d, to))
        file_write(path, 0, bytes, size);
    else
        file_put(path, bytes, size);
}

static void
put_in_place(const struct tmpdir *d, const char *file)
{
    assert_int_equal(renameat(d->fd, file, d->fd, "pages.mdb"), 0);
}

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, in_memory, remove_dir)

CASE(a_replaced_file_is_opened_anew, d)
{
    struct store *s = open_store(d, 1 << 20, true);

    assert_rc(apply_one(s, "pages", "k", 1), 0);
    copy_file(d, "pages.mdb", "copy");
    copy_file(d, "pages.mdb", "again");
    for (unsigned i = 0; i < 20; i++)
        assert_rc(apply_one(s, "pages", "k", 1000), 0);

    put_in_place(d, "copy");
    assert_rc(apply_one(s, "pages", "k", 10), 0);
    assert_int_equal(get_one(s, "pages", "k"), 11);
    put_in_place(d, "again");
    assert_int_equal(get_one(s, "pages", "k"), 1);

    assert_int_equal(unlinkat(d->fd, "pages.mdb", 0), 0);
    assert_rc(get_one(s, "pages", "k"), -ENOENT);
    assert_rc(apply_one(s, "pages", "k", 5), 0);
    assert_int_equal(get_one(s, "pages", "k"), 5);
    assert_int_equal(unlinkat(d->fd, "pages.mdb-lock", 0), 0);
    assert_rc(apply_one(s, "pages", "k", 5), 0);
    assert_int_equal(get_one(s, "pages", "k"), 10);
    assert_true(tmpdir_has(d, "pages.mdb-lock"));
    check_clean(s);
    store_close(s);
}

/* A process that has the keyspace open, and answers 'g' with its count and 'l'
 * after a look. */
struct holder {
    pid_t pid;
    int to, from;
};

static void
hold_open(const struct tmpdir *d, int in, int out)
{
    struct store *s = open_store(d, 1 << 20, false);
    int64_t count = get_one(s, "pages", "k");
    char what;

    while (write(out, &count, sizeof count) > 0 && read(in, &what, 1) == 1) {
        if (what == 'l')
            (void)store_maintain(s, &(struct store_maintenance){.until_ns = 0});
        else
            count = get_one(s, "pages", "k");
    }
    _exit(0);
}

static void
holder_start(struct holder *h, const struct tmpdir *d)
{
    int to[2], from[2];
    int64_t count;

    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    h->pid = test_fork();
    if (h->pid == 0) {
        (void)close(to[1]); /* ends the child with its parent */
        hold_open(d, to[0], from[1]);
    }
    (void)close(to[0]); /* the child's */
    (void)close(from[1]);
    h->to = to[1];
    h->from = from[0];
    assert_int_equal(read(h->from, &count, sizeof count), sizeof count);
}

static int64_t
holder_ask(const struct holder *h, char what)
{
    int64_t count;

    assert_int_equal(write(h->to, &what, 1), 1);
    assert_int_equal(read(h->from, &count, sizeof count), sizeof count);
    return count;
}

static void
holder_end(const struct holder *h)
{
    (void)close(h->to);   /* ends it */
    (void)close(h->from); /* read only */
    assert_int_equal(test_wait(h->pid), 0);
}

/* LMDB's lock file has the old file's number of commits while anybody has it
 * open: with that the newest commit of the new one would be lost. */
CASE(a_replaced_file_is_not_touched_while_others_have_the_old_one, d)
{
    struct holder h;
    struct store *s;

    s = open_store(d, 1 << 20, true);
    assert_rc(apply_one(s, "pages", "k", 1), 0);
    store_close(s);
    copy_file(d, "pages.mdb", "copy");
    s = open_store(d, 1 << 20, true);
    for (unsigned i = 0; i < 20; i++)
        assert_rc(apply_one(s, "pages", "k", 1000), 0);
    store_close(s);
    holder_start(&h, d);
    put_in_place(d, "copy");
    s = open_store(d, 1 << 20, true);

    assert_rc(apply_one(s, "pages", "k", 10), -EBUSY);
    assert_rc(get_one(s, "pages", "k"), -EBUSY);

    (void)holder_ask(&h, 'l'); /* its count was asked for before */
    assert_rc(apply_one(s, "pages", "k", 10), 0);
    assert_int_equal(get_one(s, "pages", "k"), 11);
    assert_int_equal(holder_ask(&h, 'g'), 11);
    holder_end(&h);
    check_clean(s);
    store_close(s);
}

CASE(a_file_that_was_overwritten_in_place_is_not_written_to, d)
{
    struct holder h;
    struct store *s = open_store(d, 1 << 20, true);

    assert_rc(apply_one(s, "pages", "k", 1), 0);
    copy_file(d, "pages.mdb", "copy");
    for (unsigned i = 0; i < 20; i++)
        assert_rc(apply_one(s, "pages", "k", 1000), 0);
    store_close(s);
    holder_start(&h, d);
    s = open_store(d, 1 << 20, true);
    assert_int_equal(get_one(s, "pages", "k"), 20001);

    copy_file(d, "copy", "pages.mdb");

    assert_rc(apply_one(s, "pages", "k", 10), -ESTALE);
    assert_rc(apply_one(s, "pages", "k", 10), -EBUSY);
    holder_end(&h);
    assert_rc(apply_one(s, "pages", "k", 10), 0);
    assert_int_equal(get_one(s, "pages", "k"), 11);
    check_clean(s);
    store_close(s);
}

/* ---- between two transactions -------------------------------------------- */

#define KEYS 3000u

static void
replace_by_copy(void *ctx)
{
    put_in_place(ctx, "copy");
}

/* Each transaction deletes some hundred keys and calls flock twice. */
CASE(what_takes_the_place_of_a_file_loses_the_keys_deleted_before_too, d)
{
    static struct store_key keys[KEYS];
    static char names[KEYS][16];

    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(names[i], sizeof names[i], "key-%04u", i);
        keys[i] = (struct store_key){(const uint8_t *)names[i], 8};
    }
    for (unsigned n = 1; n < 8; n++) {
        struct store *s = open_store(d, 1, true);
        struct store_applied applied;
        struct store_totals totals;
        uint64_t deleted = 0;

        assert_rc(apply_keys(s, 0, KEYS, 8, &applied), 0);
        copy_file(d, "pages.mdb", "copy");
        fault_hook("flock", n, replace_by_copy, d);
        assert_rc(stored_del(s, KS_NAME, keys, KEYS, &deleted), 0);
        assert_true(fault_hit());
        fault_clear();
        assert_int_equal(deleted, KEYS);

        assert_rc(stored_totals(s, KS_NAME, &totals), 0);
        assert_int_equal(totals.keys, 0);
        check_clean(s);
        store_close(s);
        tmpdir_empty(d);
    }
}

/* ---- after a commit that failed ------------------------------------------- */

CASE(nothing_is_read_before_an_unknown_outcome_is_made_durable, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    struct keyspace *k;
    int fd;

    assert_rc(apply_one(s, "pages", "k", 1), 0);
    assert_rc(keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &k), 0);
    lmdb_of(s)->failed = k->hash;
    keyspace_close(k); /* as a commit does that fails */
    fd = openat(d->fd, "pages.mdb", O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    for (int i = 0; i < 2; i++) /* another process is writing */
        assert_rc(get_one(s, "pages", "k"), -EAGAIN);
    assert_int_equal(close(fd), 0);

    assert_int_equal(get_one(s, "pages", "k"), 1);
    assert_int_equal(lmdb_of(s)->failed, 0);
    store_close(s);
}
