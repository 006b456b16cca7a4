/* tests/unit/test_drop.c - what is taken away: dropped keyspaces, deleted keys,
 * the files of empty keyspaces.  Logs that were in stay in. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/setup/reserve.h"
#include "common/store/lmdb/keyspace.h"
#include "tests/lib/counted.h"
#include "tests/lib/engines.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/stored.h"

static const struct log_fill log_a = {
    .uuid = "a log of records", .epoch = 4, .first_ms = 1000};
static const struct log_fill log_b = {
    .uuid = "b log of records", .epoch = 9, .first_ms = 2000};

static const struct store_key key_k = {.key = (const uint8_t *)"k",
                                       .key_size = 1};

static int
add_count(struct store *s, const struct log_fill *mark, const char *key,
          int64_t count)
{
    return stored_add(s, KS_NAME, mark, key, count);
}

static void
expect_totals(struct store *s, uint64_t keys, uint64_t sum)
{
    struct store_totals t;

    assert_rc(stored_totals(s, KS_NAME, &t), 0);
    assert_int_equal(t.keys, keys);
    assert_true(t.sum == sum);
}

/* ---- drop -------------------------------------------------------------- */

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, in_memory, remove_dir)

/* Keys 0 to n - 1, one each. */
static void
add_many(struct store *s, unsigned n)
{
    enum { BATCH = 100000 };
    char(*keys)[16] = malloc(BATCH * sizeof *keys);
    struct store_delta *deltas = malloc(BATCH * sizeof *deltas);
    struct store_applied applied;

    assert_true(keys != NULL && deltas != NULL);
    for (unsigned at = 0; at < n; at += BATCH) {
        for (unsigned i = 0; i < BATCH; i++) {
            (void)snprintf(keys[i], sizeof keys[i], "%010u", at + i);
            deltas[i] = delta(keys[i], 1);
        }
        assert_rc(apply_deltas(s, KS, NULL, 0, deltas, BATCH, &applied), 0);
    }
    free(keys);
    free(deltas);
}

static off_t
file_size(const struct tmpdir *d)
{
    struct stat st;

    assert_int_equal(fstatat(d->fd, "pages.mdb", &st, 0), 0);
    return st.st_size;
}

/* In a child: as another worker. */
static void
in_another_process(const struct tmpdir *d, void (*work)(struct store *s))
{
    const pid_t child = test_fork();

    if (child == 0) {
        struct store *s = open_store(d, 1 << 20, true);

        work(s);
        store_close(s);
        _exit(0);
    }
    assert_int_equal(test_wait(child), 0);
}

#define FILL_KEYS 400000u

/* Deletes keys of add_many(), counting on in *deleted. */
static int
delete_many(struct store *s, unsigned n, uint64_t *deleted)
{
    char(*names)[16] = malloc(n * sizeof *names);
    struct store_key *keys = malloc(n * sizeof *keys);
    int rc;

    assert_true(names != NULL && keys != NULL);
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof names[i], "%010u", i);
        keys[i] = (struct store_key){.key = (const uint8_t *)names[i],
                                     .key_size = 10};
    }
    rc = stored_del(s, KS_NAME, keys, n, deleted);
    free(names);
    free(keys);
    return rc;
}

/* On a disk that is nearly full there is no room for another merge beside what
 * was taken away. */
CASE(what_is_taken_away_is_room_for_the_very_next_merge, d)
{
    for (unsigned how = 0; how < 2; how++) {
        struct store *s = open_store(d, 1 << 26, true);
        uint64_t deleted = 0;
        off_t size;

        add_many(s, FILL_KEYS);
        if (how == 0) {
            assert_rc(store_drop(s, KS), 0);
        } else {
            assert_rc(delete_many(s, FILL_KEYS, &deleted), 0);
            assert_int_equal(deleted, FILL_KEYS);
        }
        size = file_size(d);
        assert_true(size > 8 << 20);

        add_many(s, FILL_KEYS);

        print_message("%lld then %lld bytes\n", (long long)size,
                      (long long)file_size(d));
        assert_true(file_size(d) < size + size / 64);
        expect_totals(s, FILL_KEYS, FILL_KEYS);
        check_clean(s);
        store_close(s);
        tmpdir_empty(d);
    }
}

/* A file that is none; pages that LMDB cannot follow; a state that is not whole;
 * values of a page that seem to have the next one, too. */
static void
damage_file(const struct tmpdir *d, unsigned how)
{
    const char *path = file_path(d->path, "pages.mdb");
    size_t size;
    uint8_t *bytes = file_bytes(path, &size);

    assert_true(size > 8192);
    for (size_t at = how == 0 ? 0 : 8192; at + 16 < size; at++) {
        if (how < 2)
            bytes[at] = 'x';
        else if (how == 2 && memcmp(bytes + at, "state", 5) == 0)
            bytes[at + 15] ^= 1;
        else if (how == 3 && at % 4096 == 0 && bytes[at + 10] == 4)
            bytes[at + 12]++;
    }
    file_write(path, 0, bytes, size);
    free(bytes);
}

CASE(a_damaged_keyspace_is_dropped_for_a_fresh_one, d)
{
    for (unsigned i = 0; i < 4; i++) {
        struct store *s = open_store(d, 1 << 20, true);

        assert_rc(add_count(s, &log_a, "k", 1), 0);
        if (i < 3) /* 3: while this process has it open */
            store_close(s);
        damage_file(d, i < 3 ? i : 2);
        if (i < 3)
            s = open_store(d, 1 << 20, true);
        assert_rc(add_count(s, &log_b, "k", 1), -EBADMSG);

        assert_rc(store_drop(s, KS), 1); /* there is a new file */

        expect_totals(s, 0, 0);
        assert_int_equal(mark_state(s, &log_a), STORE_MARK_NONE);
        assert_rc(add_count(s, NULL, "k", 3), 0);
        expect_totals(s, 1, 3);
        check_clean(s);
        store_close(s);
        assert_int_equal(tmpdir_count(d, "."), 2); /* and its lock file */
        tmpdir_empty(d);
    }
}

/* LMDB would give free what is not the value's. */
CASE(pages_are_not_given_free_by_damaged_ones, d)
{
    struct store *s = open_store(d, 1 << 26, true);

    add_many(s, 1);
    store_close(s);
    damage_file(d, 3);
    s = open_store(d, 1 << 26, true);
    assert_rc(store_drop(s, KS), 1); /* there is a new file */
    expect_totals(s, 0, 0);
    store_close(s);
}

CASE(a_file_of_another_keyspace_is_not_dropped, d)
{
    struct store *s = open_store(d, 1 << 20, true);

    assert_rc(apply_one(s, "other", "k", 1), 0);
    store_close(s);
    assert_int_equal(renameat(d->fd, "other.mdb", d->fd, "pages.mdb"), 0);

    s = open_store(d, 1 << 20, true);
    assert_rc(store_drop(s, KS), -EBADMSG);

    store_close(s);
    assert_int_equal(renameat(d->fd, "pages.mdb", d->fd, "other.mdb"), 0);
    s = open_store(d, 1 << 20, true);
    assert_int_equal(get_one(s, "other", "k"), 1);
    store_close(s);
}

/* As a process that writes has it. */
static int
hold_file(const struct tmpdir *d, const char *file)
{
    const int fd = openat(d->fd, file, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

CASE(nothing_is_taken_away_while_another_process_writes, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    uint64_t deleted = 0;
    int held;

    assert_rc(add_count(s, &log_a, "k", 1), 0);
    held = hold_file(d, "pages.mdb");
    assert_rc(store_drop(s, KS), -EAGAIN);
    assert_rc(stored_del(s, KS_NAME, &key_k, 1, &deleted), -EAGAIN);
    assert_int_equal(lmdb_of(s)->holder, getpid());
    expect_totals(s, 1, 1);
    assert_int_equal(close(held), 0);

    tmpdir_put(d, "bad.mdb", "no database", 11, 0600);
    held = hold_file(d, "bad.mdb");
    assert_rc(store_drop(s, (const uint8_t *)"bad", 3), -EAGAIN);
    assert_int_equal(close(held), 0);
    assert_rc(store_drop(s, (const uint8_t *)"bad", 3), 1);
    assert_rc(store_drop(s, KS), 0);
    store_close(s);
}

static int held_by_hook;

static void
hold_now(void *ctx)
{
    held_by_hook = hold_file(ctx, "pages.mdb");
}

/* Each transaction calls flock twice; the first ones may prove too large. */
CASE(a_deletion_that_goes_on_behind_another_process_counts_all_keys, d)
{
    struct store *s = open_store(d, 1, true);
    uint64_t deleted = 0;

    add_many(s, 20000);
    for (unsigned n = 3; deleted == 0; n += 2) {
        fault_hook("flock", n, hold_now, d);
        assert_rc(delete_many(s, 20000, &deleted), -EAGAIN);
        assert_true(fault_hit());
        fault_clear();
        assert_int_equal(close(held_by_hook), 0);
    }
    assert_true(deleted < 20000);
    assert_rc(delete_many(s, 20000, &deleted), 0);
    assert_int_equal(deleted, 20000);
    store_close(s);
}

/* ---- vacate ------------------------------------------------------------ */

CASE(a_vacated_keyspace_is_a_small_empty_file_that_knows_the_logs, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    struct stat before, after;
    char key[16];

    for (unsigned i = 0; i < 2000; i++) {
        (void)snprintf(key, sizeof key, "key%u", i);
        assert_rc(add_count(s, i == 0 ? &log_a : NULL, key, 1), 0);
    }
    assert_rc(add_count(s, &log_b, "k", 1), 0);
    assert_int_equal(fstatat(d->fd, "pages.mdb", &before, 0), 0);
    assert_rc(store_vacate(s, KS, d->fd), -ENOSPC); /* no reserve */
    expect_totals(s, 2001, 2001);
    assert_rc(reserve_make(d->fd), 0);

    assert_rc(store_vacate(s, KS, d->fd), 0);

    assert_false(tmpdir_has(d, RESERVE_FILE));
    assert_int_equal(fstatat(d->fd, "pages.mdb", &after, 0), 0);
    assert_true(after.st_size < before.st_size);
    assert_true(after.st_blocks * 512 <= after.st_size + 4096);
    assert_int_equal(mark_state(s, &log_a), STORE_MARK_DONE);
    assert_int_equal(mark_state(s, &log_b), STORE_MARK_DONE);
    assert_rc(add_count(s, &log_a, "k", 5), 0); /* is in */
    expect_totals(s, 0, 0);
    assert_rc(add_count(s, NULL, "k", 5), 0);
    expect_totals(s, 1, 5);
    check_clean(s);
    store_close(s);
}

CASE(a_keyspace_whose_marks_cannot_be_read_is_not_vacated, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    struct stat before, after;

    assert_rc(add_count(s, &log_a, "k", 1), 0);
    store_close(s);
    damage_file(d, 2);
    assert_int_equal(fstatat(d->fd, "pages.mdb", &before, 0), 0);
    assert_rc(reserve_make(d->fd), 0);
    s = open_store(d, 1 << 20, true);

    assert_rc(store_vacate(s, KS, d->fd), -EBADMSG);

    assert_true(tmpdir_has(d, RESERVE_FILE));
    assert_int_equal(fstatat(d->fd, "pages.mdb", &after, 0), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    store_close(s);
}

/* ---- del --------------------------------------------------------------- */

/* Removes every third key of the model, and names others that are not there.
 * Returns how many there were. */
static uint64_t
delete_thirds(struct store *s, struct model *m)
{
    struct store_key *keys = malloc((m->count + 1) * sizeof *keys);
    uint8_t(*others)[257] = malloc((m->count + 1) * sizeof *others);
    size_t n = 0, kept = 0;
    uint64_t deleted = 0, want = 0;

    assert_true(keys != NULL && others != NULL);
    for (size_t i = 0; i < m->count; i++) {
        const struct counter *c = &m->counters[i];

        memcpy(others[n], c->key, c->size);
        if (i % 3 == 0) {
            keys[n] = (struct store_key){.key = others[n], .key_size = c->size};
            want++;
            n++;
        } else if (i % 3 == 1 && c->size < 256) {
            others[n][c->size] = '!'; /* follows it, and is not there */
            keys[n] =
                (struct store_key){.key = others[n], .key_size = c->size + 1u};
            n++;
        }
    }
    assert_rc(stored_del(s, KS_NAME, keys, n, &deleted), 0);
    assert_int_equal(deleted, want);
    for (size_t i = 0; i < m->count; i++) {
        if (i % 3 == 0)
            m->sum -= m->counters[i].count;
        else
            m->counters[kept++] = m->counters[i];
    }
    m->count = kept;
    free(keys);
    free(others);
    return want;
}

CASE(deleted_keys_are_gone_and_all_else_is_as_it_was, d)
{
    static const struct {
        size_t batch;
        uint64_t span;
        bool huge;
        size_t txn_memory;
    } shapes[] = {{40, 50, true, 1 << 22},
                  {3000, 9000, true, 1 << 24},
                  {12000, 30000, false, 1},
                  {12000, 30000, true, 1 << 18}};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct store *s = open_store(d, shapes[i].txn_memory, true);
        struct model m = {.counters = NULL};

        rng = 20 + i;
        for (unsigned round = 0; round < 12; round++) {
            struct store_applied applied;
            struct batch_keys b;

            batch_make(&b, shapes[i].batch, shapes[i].span, 0, 1000,
                       shapes[i].huge);
            assert_rc(apply_deltas(s, KS, NULL, 0, b.deltas, b.count, &applied),
                      0);
            model_apply(&m, &b);
            batch_free(&b);
            if (round % 2 == 1)
                (void)delete_thirds(s, &m); /* how many does not matter */
            if (round % 4 == 3) {
                compare_all(s, &m);
                check_clean(s);
            }
        }
        while (delete_thirds(s, &m) > 0)
            ;
        expect_totals(s, 0, 0);
        check_clean(s);
        store_close(s);
        free(m.counters);
        tmpdir_empty(d);
    }
}

CASE(marks_stay_when_keys_are_deleted, d)
{
    const struct store_key bad = {.key = (const uint8_t *)"", .key_size = 0};
    struct store *s = open_store(d, 1 << 20, true);
    uint64_t deleted = 0;

    assert_rc(add_count(s, &log_a, "k", 3), 0);
    assert_rc(stored_del(s, KS_NAME, &bad, 1, &deleted), -EINVAL);
    assert_rc(stored_del(s, KS_NAME, &key_k, 1, &deleted), 0);
    assert_int_equal(deleted, 1);
    assert_rc(stored_del(s, KS_NAME, &key_k, 1, &deleted), 0);
    assert_int_equal(deleted, 1);
    assert_rc(stored_del(s, KS_NAME, NULL, 0, &deleted), 0);

    assert_rc(add_count(s, &log_a, "k", 3), 0);
    expect_totals(s, 0, 0);
    assert_rc(add_count(s, &log_b, "k", 4), 0);
    expect_totals(s, 1, 4);
    check_clean(s);
    store_close(s);
}

/* ---- the files of empty keyspaces --------------------------------------- */

/* Which logs are spent, by the first letter. */
static bool
is_dead_fill(void *ctx, const struct log_fill *mark)
{
    const char *spent = ctx;

    return strchr(spent, mark->uuid[0]) != NULL;
}

static unsigned
tend_store(struct store *s, const char *spent)
{
    char letters[8];
    const struct store_maintenance t = {.is_dead_fill = is_dead_fill,
                                        .ctx = letters};
    unsigned steps = 1;

    (void)snprintf(letters, sizeof letters, "%s", spent); /* short */
    lmdb_of(s)->maintenance.next_ms = 0;                  /* a minute later */
    while (store_maintain(s, &t))
        steps++;
    return steps;
}

CASE(an_empty_keyspace_goes_once_its_logs_are_spent, d)
{
    struct store *s = open_store(d, 1 << 20, true);

    assert_rc(add_count(s, &log_a, "k", 3), 0);
    assert_rc(add_count(s, &log_b, "k", 3), 0);
    (void)tend_store(s, "ab"); /* it is not empty */
    expect_totals(s, 1, 6);
    assert_rc(store_drop(s, KS), 0);
    (void)tend_store(s, "a"); /* the other may bring something yet */
    assert_true(tmpdir_has(d, "pages.mdb"));
    assert_rc(add_count(s, &log_b, "k", 3), 0);
    expect_totals(s, 0, 0);

    (void)tend_store(s, "ab");

    assert_int_equal(tmpdir_count(d, "."), 0); /* no lock file either */
    assert_rc(get_one(s, KS_NAME, "k"), -ENOENT);
    assert_rc(add_count(s, &log_b, "k", 2), 0);
    expect_totals(s, 1, 2);
    check_clean(s);
    store_close(s);
}

CASE(a_removed_keyspace_makes_room_under_the_limit, d)
{
    struct lmdb_options options = engine_lmdb_options(d->fd);
    struct store *s;

    options.keyspace_max = 2;
    assert_rc(lmdb_store_open(&s, &options), 0);
    assert_rc(add_count(s, &log_a, "k", 1), 0);
    assert_rc(apply_one(s, "two", "k", 1), 0);
    assert_rc(apply_one(s, "three", "k", 1), -EDQUOT);
    assert_rc(store_drop(s, KS), 0);
    (void)tend_store(s, "a");

    assert_rc(apply_one(s, "three", "k", 1), 0);
    store_close(s);
}

/* A process is between opening the lock file and opening the data file, which
 * LMDB would make; a process is writing. */
CASE(a_file_that_is_being_opened_or_written_is_not_removed, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    int held;

    assert_rc(add_count(s, &log_a, "k", 1), 0);
    assert_rc(store_drop(s, KS), 0);
    held = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(held >= 0);
    assert_int_equal(flock(held, LOCK_SH), 0);
    (void)tend_store(s, "a");
    assert_true(tmpdir_has(d, "pages.mdb"));

    /* And the other way round: no process opens what is being removed. */
    assert_int_equal(flock(held, LOCK_EX), 0);
    assert_rc(apply_one(s, "pages2", "k", 1), -EAGAIN);
    assert_int_equal(close(held), 0);

    held = hold_file(d, "pages.mdb");
    (void)tend_store(s, "a");
    assert_true(tmpdir_has(d, "pages.mdb"));
    assert_int_equal(close(held), 0);
    (void)tend_store(s, "a");
    assert_false(tmpdir_has(d, "pages.mdb"));
    store_close(s);
}

static void
tend_all(struct store *s)
{
    (void)tend_store(s, "ab"); /* its steps do not matter */
}

static void
drop_it(struct store *s)
{
    assert_rc(store_drop(s, KS), 0);
}

CASE(who_has_a_removed_keyspace_open_makes_it_anew, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    struct keyspace *k;
    MDB_txn *txn;

    assert_rc(add_count(s, &log_a, "k", 1), 0);
    in_another_process(d, drop_it);
    expect_totals(s, 0, 0); /* seen at once */
    assert_rc(keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &k), 0);

    in_another_process(d, tend_all);

    assert_int_equal(tmpdir_count(d, "."), 0);
    assert_rc(keyspace_write(lmdb_of(s), k, &txn), -ESTALE);
    assert_rc(add_count(s, &log_b, "k", 7), 0);
    expect_totals(s, 1, 7);
    in_another_process(d, check_clean);
    in_another_process(d, drop_it);
    expect_totals(s, 0, 0);
    store_close(s);
}

/* ---- calls that fail, processes that die -------------------------------- */

static void
make_empty(struct store *s)
{
    assert_rc(add_count(s, &log_a, "k", 1), 0);
    assert_rc(store_drop(s, KS), 0);
}

static void
make_rows(struct store *s)
{
    assert_rc(add_count(s, &log_a, "k", 1), 0);
    assert_rc(add_count(s, &log_b, "l", 1), 0);
}

static void
make_damage(struct store *s)
{
    const int fd = openat(lmdb_of(s)->options.keyspace_fd, "pages.mdb",
                          O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "no database", 11), 11);
    assert_int_equal(close(fd), 0);
}

static int
take_drop(struct store *s)
{
    const int rc = store_drop(s, KS);

    return rc > 0 ? 0 : rc;
}

/* The data directory is the keyspaces' here. */
static int
take_vacate(struct store *s)
{
    const int fd = lmdb_of(s)->options.keyspace_fd;
    const int rc = reserve_make(fd);

    return rc < 0 ? rc : store_vacate(s, KS, fd);
}

static int
take_key(struct store *s)
{
    uint64_t deleted = 0;

    return stored_del(s, KS_NAME, &key_k, 1, &deleted);
}

static int
take_file(struct store *s)
{
    tend_all(s);
    return faccessat(lmdb_of(s)->options.keyspace_fd, "pages.mdb", F_OK, 0) == 0
               ? -EIO
               : 0;
}

/* The store, a step that takes something away, and the keys that are left. */
static const struct taking {
    void (*make)(struct store *s);
    int (*take)(struct store *s);
    uint64_t keys; /* -1: no keyspace */
} takings[] = {
    {make_rows, take_drop, 0},           {make_damage, take_drop, 1},
    {make_rows, take_vacate, 0},         {make_rows, take_key, 1},
    {make_empty, take_file, UINT64_MAX},
};

/* It is done, and what was in is still in, but in a damaged file. */
static void
expect_taken(struct store *s, const struct taking *t)
{
    struct store_totals totals;

    if (t->keys == UINT64_MAX) {
        assert_rc(stored_totals(s, KS_NAME, &totals), -ENOENT);
        return;
    }
    assert_rc(add_count(s, &log_a, "k", 1), 0);
    expect_totals(s, t->keys, t->keys);
    check_clean(s);
}

CASE(any_call_may_fail_and_it_can_be_repeated, d)
{
    for (size_t i = 0; i < sizeof takings / sizeof *takings; i++) {
        const struct taking *t = &takings[i];
        bool hit = true;

        for (unsigned n = 1; hit; n++) {
            const unsigned fds = fault_open_fds();
            struct store *s = open_store(d, 1 << 20, true);
            int rc;

            t->make(s);
            fault_inject(n % 2 == 0 ? "memory" : "disk", (n + 1) / 2,
                         n % 2 == 0 ? ENOMEM : EIO);
            rc = t->take(s);
            hit = fault_hit() || n % 2 == 1;
            fault_clear();
            if (rc < 0)
                assert_rc(t->take(s), 0);
            expect_taken(s, t);
            store_close(s);
            assert_int_equal(fault_open_fds(), fds);
            tmpdir_empty(d);
            assert_true(n < 1000);
        }
    }
}

CASE(a_process_that_dies_leaves_all_or_nothing_taken, d)
{
    for (size_t i = 0; i < sizeof takings / sizeof *takings; i++) {
        const struct taking *t = &takings[i];
        int status = SIGKILL;

        for (unsigned n = 1; WIFSIGNALED(status); n++) {
            struct store *s = open_store(d, 1 << 20, true);
            struct store_totals totals;
            pid_t child;
            int rc;

            t->make(s);
            store_close(s);
            child = test_fork();
            if (child == 0) {
                s = open_store(d, 1 << 20, true);
                fault_kill("disk", n);
                _exit(t->take(s) == 0 ? 0 : 1);
            }
            assert_int_equal(waitpid(child, &status, 0), child);

            s = open_store(d, 1 << 20, true);
            rc = stored_totals(s, KS_NAME, &totals);
            assert_true(rc == 0 || (rc == -ENOENT && t->keys == UINT64_MAX) ||
                        (rc == -EBADMSG && t->make == make_damage));
            if (rc == 0 && t->make == make_rows)
                assert_true(totals.keys == 2 || totals.keys == t->keys);
            if (rc == 0 && t->keys != UINT64_MAX && t->make != make_damage)
                assert_rc(add_count(s, &log_a, "k", 1), 0); /* is in */
            if (rc != -ENOENT)
                assert_rc(t->take(s), 0);
            expect_taken(s, t);
            store_close(s);
            tmpdir_empty(d);
            assert_true(n < 1000);
        }
        assert_int_equal(status, 0);
    }
}
