/* tests/unit/test_merge.c - real logs merged into a store in memory, which
 * says what it is told to say.
 *
 * The store here keeps its promise exactly: counts and marks change together
 * or not at all.  So whatever fails elsewhere, the counts must come out right.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "tests/lib/fault.h"
#include "tests/lib/filler.h"
#include "tests/lib/random.h"
#include "tests/lib/tmpdir.h"

/* The modules under test, with the store of this file. */
#define lmdb_marks      fake_marks
#define lmdb_apply      fake_apply
#define lmdb_fence      fake_fence
#define lmdb_open       fake_open
#define lmdb_close      fake_close
#define lmdb_txn_memory fake_txn_memory
#define lmdb_look       fake_look
#include "worker/aside.c"
#undef TRIES_MAX
#include "worker/merge.c"
#undef lmdb_marks
#undef lmdb_apply
#undef lmdb_fence
#undef lmdb_open
#undef lmdb_close
#undef lmdb_txn_memory
#undef lmdb_look

/* ---- the store --------------------------------------------------------- */

struct fake_keyspace {
    char name[64];
    struct {
        char key[64];
        int64_t count;
    } keys[64];
    unsigned key_count;
    struct store_mark marks[16];
    struct lmdb_mark_info infos[16];
    unsigned mark_count;
    int fail_apply; /* what apply and marks say instead */
    int fail_marks;
    int fail_fence;
    bool no_room;     /* with -EDQUOT: for the keyspace, not its keys */
    unsigned stale;   /* applies that say so yet */
    size_t overtaken; /* with that, so many marks are done by another */
    unsigned applies, fences;
};

struct fake_store {
    struct fake_keyspace keyspaces[16];
    unsigned count;
    int fail_open;
    unsigned opens, closes;
    size_t lent; /* for the next commit */
};

static struct fake_store fake;

static struct fake_keyspace *
fake_get(const char *name, size_t size)
{
    unsigned i;

    for (i = 0; i < fake.count; i++)
        if (strlen(fake.keyspaces[i].name) == size &&
            memcmp(fake.keyspaces[i].name, name, size) == 0)
            return &fake.keyspaces[i];
    assert_true(fake.count < 16 && size < 64);
    memcpy(fake.keyspaces[fake.count].name, name, size);
    return &fake.keyspaces[fake.count++];
}

static struct fake_keyspace *
of(const char *name)
{
    return fake_get(name, strlen(name));
}

static unsigned
mark_at(struct fake_keyspace *k, const struct store_mark *mark)
{
    unsigned i;

    for (i = 0; i < k->mark_count; i++)
        if (memcmp(k->marks[i].uuid, mark->uuid, 16) == 0)
            return i;
    assert_true(k->mark_count < 16);
    k->marks[i] = *mark;
    k->marks[i].epoch = 0;
    k->infos[i].state = STORE_MARK_DONE;
    k->mark_count++;
    return i;
}

static struct lmdb_mark_info
mark_info(struct fake_keyspace *k, const struct store_mark *mark)
{
    const unsigned i = mark_at(k, mark);
    struct lmdb_mark_info none = {.state = STORE_MARK_NONE};

    if (k->marks[i].epoch == mark->epoch) {
        if (k->marks[i].first_ms == mark->first_ms)
            return k->infos[i];
        none.state = STORE_MARK_OTHER;
    }
    if (k->marks[i].epoch > mark->epoch)
        none.state = STORE_MARK_AHEAD;
    return none;
}

static void
set_mark(const char *name, const struct store_mark *mark,
         enum store_mark_state state, const char *last_key)
{
    struct fake_keyspace *k = of(name);
    const unsigned i = mark_at(k, mark);

    k->marks[i] = *mark;
    k->infos[i] = (struct lmdb_mark_info){
        .state = state, .last_key_size = (uint16_t)strlen(last_key)};
    memcpy(k->infos[i].last_key, last_key, strlen(last_key));
}

int
fake_marks(struct lmdb *s, const uint8_t *name, size_t name_size,
           const struct store_mark *marks, size_t mark_count,
           struct lmdb_mark_info *infos)
{
    struct fake_keyspace *k = fake_get((const char *)name, name_size);
    size_t i;

    assert_ptr_equal(s, &fake);
    assert_true(mark_count > 0);
    if (k->fail_marks)
        return k->fail_marks;
    for (i = 0; i < mark_count; i++)
        infos[i] = mark_info(k, &marks[i]);
    return 0;
}

static void
fake_add(struct fake_keyspace *k, const struct store_delta *d)
{
    unsigned i;

    for (i = 0; i < k->key_count; i++)
        if (strlen(k->keys[i].key) == d->key_size &&
            memcmp(k->keys[i].key, d->key, d->key_size) == 0)
            break;
    if (i == k->key_count) {
        assert_true(k->key_count < 64 && d->key_size < 64);
        k->key_count++;
        memcpy(k->keys[i].key, d->key, d->key_size);
    }
    assert_true(d->sum_high == ((int64_t)d->sum_low < 0 ? -1 : 0));
    k->keys[i].count += (int64_t)d->sum_low;
}

int
fake_apply(struct lmdb *s, const uint8_t *name, size_t name_size,
           const struct store_mark *marks, const struct lmdb_mark_info *seen,
           size_t mark_count, const struct store_delta *deltas,
           size_t delta_count, struct store_applied *applied)
{
    struct fake_keyspace *k = fake_get((const char *)name, name_size);
    size_t i;

    assert_ptr_equal(s, &fake);
    assert_true(mark_count > 0);
    k->applies++;
    if (k->stale > 0) {
        k->stale--;
        for (i = 0; i < mark_count && i < k->overtaken; i++)
            set_mark(k->name, &marks[i], STORE_MARK_DONE, "");
        return -ESTALE;
    }
    applied->no_room = k->no_room;
    if (k->no_room)
        return -EDQUOT;
    if (k->fail_apply)
        return k->fail_apply;
    for (i = 0; i < mark_count; i++) {
        if (mark_info(k, &marks[i]).state != seen[i].state)
            return -ESTALE;
        assert_true(seen[i].state != STORE_MARK_DONE &&
                    seen[i].state != STORE_MARK_AHEAD);
    }
    for (i = 0; i < delta_count; i++)
        fake_add(k, &deltas[i]);
    for (i = 0; i < mark_count; i++)
        set_mark(k->name, &marks[i], STORE_MARK_DONE, "");
    applied->keys += delta_count;
    return 0;
}

int
fake_fence(struct lmdb *s, const uint8_t *name, size_t name_size)
{
    struct fake_keyspace *k = fake_get((const char *)name, name_size);

    assert_ptr_equal(s, &fake);
    k->fences++;
    return k->fail_fence;
}

int
fake_open(struct lmdb **s, const struct lmdb_options *options)
{
    assert_true(options->writable && options->txn_memory > 0);
    if (fake.fail_open)
        return fake.fail_open;
    fake.opens++;
    *s = (struct lmdb *)&fake;
    return 0;
}

void
fake_txn_memory(struct lmdb *s, size_t txn_memory)
{
    assert_ptr_equal(s, &fake);
    fake.lent = txn_memory;
}

void
fake_close(struct lmdb *s)
{
    assert_ptr_equal(s, &fake);
    fake.closes++;
}

void
fake_look(struct lmdb *s)
{
    assert_ptr_equal(s, &fake);
}

/* The count of a key; INT64_MIN when there is none. */
static int64_t
count_of(const char *name, const char *key)
{
    const struct fake_keyspace *k = of(name);
    unsigned i;

    for (i = 0; i < k->key_count; i++)
        if (strcmp(k->keys[i].key, key) == 0)
            return k->keys[i].count;
    return INT64_MIN;
}

/* ---- the fixture ------------------------------------------------------- */

struct fixture {
    struct tmpdir tmp;
    struct datadir dir;
    struct config config;
    struct merge merge;
};

static int
sub_directory(const struct fixture *x, const char *name)
{
    int fd;

    assert_int_equal(mkdirat(x->tmp.fd, name, 0700), 0);
    fd = openat(x->tmp.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void
open_merge(struct fixture *x)
{
    assert_rc(merge_open(&x->merge, &x->config, &x->dir), 0);
    x->merge.batch.later.first_ms = 0; /* tests do not wait */
}

static int
setup(void **state)
{
    static struct fixture x;

    memset(&x, 0, sizeof x);
    memset(&fake, 0, sizeof fake);
    tmpdir_make(&x.tmp);
    x.dir.fd = x.tmp.fd;
    x.dir.log_fd = sub_directory(&x, "log");
    x.dir.held_fd = sub_directory(&x, "held");
    x.dir.archive_fd = sub_directory(&x, "archive");
    x.dir.keyspace_fd = -1;
    x.config.keyspace_size = x.config.key_size = 256;
    x.config.log_size = 64 << 10;
    x.config.worker_batch = 8;
    x.config.worker_memory = 16 << 20;
    diag_init("test_merge", DIAG_ERROR);
    open_merge(&x);
    *state = &x;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *x = *state;

    fault_clear();
    merge_close(&x->merge);
    assert_int_equal(close(x->dir.log_fd), 0);
    assert_int_equal(close(x->dir.held_fd), 0);
    assert_int_equal(close(x->dir.archive_fd), 0);
    tmpdir_remove(&x->tmp);
    return 0;
}

#define SLOTS 20

/* A full log of one record per keyspace "a", "b" and "c", and two keys in
 * "a".  Returns its mark. */
static struct store_mark
full_log(struct fixture *x, uint64_t index)
{
    struct store_mark mark;
    struct filler f;

    filler_open(&f, x->dir.log_fd, index, SLOTS);
    memcpy(mark.uuid, f.log.header.uuid, 16);
    mark.epoch = f.log.header.epoch;
    filler_add(&f, "a", "one", 1);
    filler_add(&f, "a", "two", 2);
    filler_add(&f, "b", "one", -10);
    filler_add(&f, "c", "one", 100);
    mark.first_ms = f.log.first_ms;
    filler_seal(&f);
    return mark;
}

static mode_t
mode_of(const struct fixture *x, uint64_t index)
{
    char name[64];

    (void)snprintf(name, sizeof name, "log/%010u", (unsigned)index); /* fits */
    return tmpdir_mode(&x->tmp, name);
}

static bool
log_exists(const struct fixture *x, uint64_t index)
{
    char name[64];

    (void)snprintf(name, sizeof name, "log/%010u", (unsigned)index); /* fits */
    return tmpdir_has(&x->tmp, name);
}

/* ---- the happy path ---------------------------------------------------- */

static void
full_logs_are_summed_applied_once_and_emptied(void **state)
{
    struct fixture *x = *state;
    unsigned i;

    for (i = 0; i < 5; i++)
        full_log(x, i);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), 5);
    assert_int_equal(count_of("a", "two"), 10);
    assert_int_equal(count_of("b", "one"), -50);
    assert_int_equal(count_of("c", "one"), 500);
    assert_int_equal(of("a")->applies, 1);
    for (i = 0; i < 5; i++)
        assert_int_equal(mode_of(x, i), LOG_MODE_EMPTY);
    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
    assert_int_equal(x->merge.stats.logs, 5);
}

static void
a_log_filled_again_counts_again(void **state)
{
    struct fixture *x = *state;

    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "two"), 4);
}

static void
no_more_logs_are_taken_than_a_batch_may_have(void **state)
{
    struct fixture *x = *state;
    unsigned i;

    for (i = 0; i < 9; i++)
        full_log(x, i);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of("a", "one"), 8);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of("a", "one"), 9);
    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
}

static void
a_log_with_nothing_but_zeros_is_emptied_and_makes_no_keyspace(void **state)
{
    struct fixture *x = *state;
    struct filler f;

    filler_open(&f, x->dir.log_fd, 0, SLOTS);
    filler_add(&f, "z", "one", 0);
    filler_seal(&f);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(fake.count, 0);
    assert_int_equal(x->merge.stats.zeros, 1);
}

static void
the_log_of_a_writer_that_died_is_recovered_and_merged(void **state)
{
    struct fixture *x = *state;
    struct filler f;

    filler_open(&f, x->dir.log_fd, 0, SLOTS);
    filler_add(&f, "a", "one", 7);
    filler_die(&f);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), 7);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
}

/* ---- what is in already ------------------------------------------------ */

static void
what_a_keyspace_has_already_is_left_out_and_fenced(void **state)
{
    struct fixture *x = *state;
    const struct store_mark mark = full_log(x, 0);

    full_log(x, 1);
    set_mark("a", &mark, STORE_MARK_DONE, "");

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("b", "one"), -20);
    assert_int_equal(of("a")->applies, 1); /* which is a fence too */
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(mode_of(x, 1), LOG_MODE_EMPTY);
}

static void
a_log_that_is_in_everywhere_is_fenced_before_it_is_emptied(void **state)
{
    struct fixture *x = *state;
    const struct store_mark mark = full_log(x, 0);

    set_mark("a", &mark, STORE_MARK_DONE, "");
    set_mark("b", &mark, STORE_MARK_DONE, "");
    set_mark("c", &mark, STORE_MARK_DONE, "");
    of("b")->fail_fence = -ENOSPC;

    assert_int_equal(merge_run(&x->merge), MERGE_WAIT);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);

    of("b")->fail_fence = 0;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_true(of("a")->fences > 0 && of("b")->fences == 2);
    assert_int_equal(of("a")->applies, 0);
    assert_int_equal(count_of("a", "one"), INT64_MIN);
}

static void
of_a_log_that_is_in_partly_only_later_keys_are_applied(void **state)
{
    struct fixture *x = *state;
    const struct store_mark mark = full_log(x, 0);

    full_log(x, 1);
    set_mark("a", &mark, STORE_MARK_PARTIAL, "one");

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("a", "two"), 4);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
}

static void
a_log_older_than_its_mark_is_quarantined_and_the_others_merged(void **state)
{
    struct fixture *x = *state;
    struct store_mark mark = full_log(x, 0);

    full_log(x, 1);
    mark.epoch += 5;
    set_mark("b", &mark, STORE_MARK_DONE, "");

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_false(log_exists(x, 0));
    assert_true(tmpdir_has(&x->tmp, "log/bad-0000000000-1"));
    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("b", "one"), -10);
    assert_int_equal(mode_of(x, 1), LOG_MODE_EMPTY);
}

static void
marks_that_change_meanwhile_make_it_sum_again(void **state)
{
    struct fixture *x = *state;

    full_log(x, 0);
    of("a")->stale = 3;

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("a", "two"), 2);
}

static void
records_another_process_put_in_meanwhile_are_not_put_in_twice(void **state)
{
    struct fixture *x = *state;

    full_log(x, 0);
    of("a")->stale = 1;
    of("a")->overtaken = 1;

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), INT64_MIN);
    assert_int_equal(of("a")->fences, 1);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
}

static void
of_two_logs_the_one_another_process_put_in_is_left_out(void **state)
{
    struct fixture *x = *state;

    full_log(x, 0);
    full_log(x, 1);
    of("a")->stale = 1;
    of("a")->overtaken = 1;

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("a", "two"), 2);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(mode_of(x, 1), LOG_MODE_EMPTY);
}

/* ---- keyspaces that cannot --------------------------------------------- */

static void
a_keyspace_that_refuses_stops_nobody_and_gets_its_records_later(void **state)
{
    static const int errors[] = {-EBADMSG, -EDQUOT, -EPROTONOSUPPORT};
    struct fixture *x = *state;
    size_t i;

    for (i = 0; i < 3; i++) {
        memset(&fake, 0, sizeof fake);
        full_log(x, 0);
        full_log(x, 1);
        of("a")->fail_apply = errors[i];

        assert_int_equal(merge_run(&x->merge), MERGE_DONE);

        assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
        assert_int_equal(mode_of(x, 1), LOG_MODE_EMPTY);
        assert_int_equal(count_of("a", "one"), INT64_MIN);
        assert_int_equal(count_of("b", "one"), -20);
        assert_int_equal(tmpdir_count(&x->tmp, "held"), 2);

        of("a")->fail_apply = 0;
        merge_held(&x->merge);

        assert_int_equal(count_of("a", "one"), 2);
        assert_int_equal(count_of("a", "two"), 4);
        assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
    }
}

static void
many_records_held_at_once_are_kept_apart_by_keyspace_and_log(void **state)
{
    struct fixture *x = *state;
    unsigned i;

    for (i = 0; i < 8; i++)
        full_log(x, i);
    of("a")->fail_apply = -EBADMSG;
    of("b")->fail_apply = -EDQUOT;
    of("c")->fail_marks = -EPROTO;

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(tmpdir_count(&x->tmp, "held"), 24);
    for (i = 0; i < 8; i++)
        assert_int_equal(mode_of(x, i), LOG_MODE_EMPTY);
    of("a")->fail_apply = of("b")->fail_apply = of("c")->fail_marks = 0;
    merge_held(&x->merge);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
    assert_int_equal(count_of("a", "one"), 8);
    assert_int_equal(count_of("a", "two"), 16);
    assert_int_equal(count_of("b", "one"), -80);
    assert_int_equal(count_of("c", "one"), 800);
}

static void
nothing_is_held_of_a_log_that_stays_full(void **state)
{
    struct fixture *x = *state;

    full_log(x, 0);
    of("a")->fail_apply = -EBADMSG;
    of("b")->fail_apply = -ENOSPC;

    assert_int_equal(merge_run(&x->merge), MERGE_WAIT);

    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(count_of("c", "one"), 100);
}

static void
held_records_count_once_whatever_their_mark_says_by_then(void **state)
{
    struct fixture *x = *state;
    const struct store_mark mark = full_log(x, 0);
    struct store_mark later;

    of("a")->fail_marks = -EBADMSG;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    of("a")->fail_marks = 0;
    set_mark("a", &mark, STORE_MARK_PARTIAL, "one");

    merge_held(&x->merge);
    assert_int_equal(count_of("a", "one"), INT64_MIN);
    assert_int_equal(count_of("a", "two"), 2);

    later = full_log(x, 0);
    of("a")->fail_marks = -EBADMSG;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    of("a")->fail_marks = 0;
    set_mark("a", &(struct store_mark){.uuid = {0}, .epoch = 1},
             STORE_MARK_DONE, "");
    set_mark("a", &later, STORE_MARK_DONE, "");
    merge_held(&x->merge);
    assert_int_equal(count_of("a", "two"), 2);
    assert_int_equal(of("a")->fences, 1);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
}

static void
a_second_fill_of_an_epoch_counts_beside_the_first(void **state)
{
    struct fixture *x = *state;
    const struct store_mark mark = full_log(x, 0);
    struct store_mark first = mark;

    first.first_ms--;
    set_mark("a", &first, STORE_MARK_DONE, "");
    set_mark("b", &mark, STORE_MARK_DONE, "");

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("b", "one"), INT64_MIN);
    assert_int_equal(count_of("c", "one"), 100);
    assert_int_equal(mode_of(x, 0), 0400);
}

static void
records_of_a_later_fill_wait_behind_what_is_held_of_an_earlier_one(void **state)
{
    struct fixture *x = *state;

    full_log(x, 0);
    of("a")->fail_apply = -EBADMSG;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    /* The keyspace works by the time the later fill is settled, but not
     * while the earlier one is tried. */
    full_log(x, 0);
    of("a")->fail_apply = -EIO;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 2);
    assert_int_equal(of("a")->applies, 2);

    of("a")->fail_apply = 0;
    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), 3);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
}

/* Overwrites one byte of a held file. */
static void
scribble(const struct fixture *x, const char *file, off_t at, char byte)
{
    int fd;

    fd = openat(x->dir.held_fd, file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

static void
a_held_file_older_than_its_mark_is_kept_aside(void **state)
{
    struct fixture *x = *state;
    struct store_mark mark = full_log(x, 0);

    of("a")->fail_apply = -EBADMSG;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    of("a")->fail_apply = 0;
    mark.epoch++;
    set_mark("a", &mark, STORE_MARK_DONE, "");

    merge_held(&x->merge);

    assert_int_equal(count_of("a", "one"), INT64_MIN);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
    assert_int_equal(x->merge.aside.stats.damaged, 1);
    merge_held(&x->merge);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
}

static void
a_damaged_held_file_is_kept_aside_and_the_others_merged(void **state)
{
    struct fixture *x = *state;
    struct dirent **files = NULL;
    int n;

    full_log(x, 0);
    full_log(x, 1);
    of("a")->fail_apply = -EBADMSG;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    of("a")->fail_apply = 0;
    n = scandirat(x->dir.held_fd, ".", &files, is_held, by_name);
    assert_int_equal(n, 2);
    scribble(x, files[0]->d_name, 70, '!');

    merge_held(&x->merge);

    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(x->merge.aside.stats.damaged, 1);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
    free(files[0]);
    free(files[1]);
    free(files);
}

static void
a_held_file_that_cannot_be_read_makes_later_fills_wait(void **state)
{
    struct fixture *x = *state;
    struct dirent **files = NULL;

    full_log(x, 0);
    of("a")->fail_apply = -EBADMSG;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    of("a")->fail_apply = 0;
    assert_int_equal(scandirat(x->dir.held_fd, ".", &files, is_held, by_name),
                     1);
    /* As if of a newer version: left alone. */
    scribble(x, files[0]->d_name, 8, 2);
    full_log(x, 0);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), INT64_MIN);
    assert_int_equal(count_of("b", "one"), -20);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 2);

    scribble(x, files[0]->d_name, 8, 1);
    merge_held(&x->merge);
    assert_int_equal(count_of("a", "one"), 2);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
    free(files[0]);
    free(files);
}

/* ---- keyspaces there is no room for ------------------------------------ */

static void
room_for(bool a, bool b)
{
    of("a")->no_room = !a;
    of("b")->no_room = !b;
}

static void
keyspaces_without_room_share_one_held_file_per_log(void **state)
{
    struct fixture *x = *state;

    full_log(x, 0);
    full_log(x, 1);
    room_for(false, false);
    of("c")->fail_apply = -EBADMSG; /* one of its own */

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(mode_of(x, 1), LOG_MODE_EMPTY);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 4);
    merge_held(&x->merge);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 4);

    room_for(true, true);
    of("c")->fail_apply = 0;
    merge_held(&x->merge);

    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
    assert_int_equal(count_of("a", "one"), 2);
    assert_int_equal(count_of("a", "two"), 4);
    assert_int_equal(count_of("b", "one"), -20);
    assert_int_equal(count_of("c", "one"), 200);
}

/* Of one log again and again: its mark in the keyspace says only the last
 * epoch, so what got room must leave the file before the next one is in. */
static void
a_keyspace_that_gets_room_leaves_the_file_before_its_log_goes_on(void **state)
{
    struct fixture *x = *state;
    unsigned i;

    room_for(false, false);
    for (i = 0; i < 3; i++) {
        full_log(x, 0);
        assert_int_equal(merge_run(&x->merge), MERGE_DONE);
        assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
    }
    room_for(true, false);
    for (i = 0; i < 3; i++) {
        full_log(x, 0);
        assert_int_equal(merge_run(&x->merge), MERGE_DONE);
        assert_int_equal(count_of("a", "one"), 4 + i);
        merge_held(&x->merge);
    }
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);

    room_for(true, true);
    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
    assert_int_equal(count_of("a", "two"), 14);
    assert_int_equal(count_of("b", "one"), -70);
    assert_int_equal(x->merge.aside.stats.damaged, 0);
}

static int
the_file_for_many(const struct dirent *entry)
{
    return heldfile_is_many(entry->d_name);
}

static void
find_many(const struct fixture *x, char file[256])
{
    struct dirent **files = NULL;

    assert_int_equal(
        scandirat(x->dir.held_fd, ".", &files, the_file_for_many, by_name), 1);
    (void)snprintf(file, 256, "%s", files[0]->d_name); /* fits */
    free(files[0]);
    free(files);
}

static void
what_another_worker_has_in_hand_makes_later_fills_wait(void **state)
{
    struct fixture *x = *state;
    struct heldfile_many many;
    char file[256];

    full_log(x, 0);
    room_for(false, false);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    find_many(x, file);
    room_for(true, true);
    assert_rc(heldfile_many_get(x->dir.held_fd, file, true, &many), 0);
    assert_true(many.locked);

    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of("a", "one"), INT64_MIN);
    assert_int_equal(count_of("c", "one"), 200);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 2);

    heldfile_many_free(&many);
    merge_held(&x->merge);
    assert_int_equal(count_of("a", "one"), 2);
    assert_int_equal(count_of("b", "one"), -20);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
}

static void
a_file_for_many_that_cannot_be_read_makes_its_log_wait(void **state)
{
    struct fixture *x = *state;
    char file[256];

    full_log(x, 0);
    room_for(false, false);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    room_for(true, true);
    find_many(x, file);
    scribble(x, file, 8, 2); /* as if of a newer version */
    full_log(x, 0);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of("a", "one"), INT64_MIN);
    assert_int_equal(count_of("c", "one"), 100);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 2);

    scribble(x, file, 8, 1);
    merge_held(&x->merge);
    assert_int_equal(count_of("a", "one"), 2);
    assert_int_equal(count_of("b", "one"), -20);
    assert_int_equal(count_of("c", "one"), 200);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
}

static void
what_is_merged_and_cannot_be_dropped_makes_later_fills_wait(void **state)
{
    static const char *const calls[] = {"renameat", "fsync"};
    struct fixture *x = *state;
    unsigned i;

    for (i = 0; i < 2; i++) {
        memset(&fake, 0, sizeof fake);
        room_for(false, false);
        full_log(x, 0);
        assert_int_equal(merge_run(&x->merge), MERGE_DONE);
        room_for(true, false);

        fault_inject(calls[i], 1, ENOSPC);
        merge_held(&x->merge);
        assert_true(fault_hit());
        fault_clear();
        assert_int_equal(count_of("a", "one"), 1);

        full_log(x, 0);
        assert_int_equal(merge_run(&x->merge), MERGE_DONE);
        room_for(true, true);
        merge_held(&x->merge);
        assert_int_equal(count_of("a", "one"), 2);
        assert_int_equal(count_of("a", "two"), 4);
        assert_int_equal(count_of("b", "one"), -20);
        assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
        assert_int_equal(x->merge.aside.stats.damaged, 0);
    }
}

/* Several epochs of one file were merged, and the file was not written anew. */
static void
earlier_epochs_of_a_file_for_many_are_in_when_a_later_one_is(void **state)
{
    struct fixture *x = *state;
    unsigned i;

    room_for(false, false);
    for (i = 0; i < 3; i++) {
        full_log(x, 0);
        assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    }
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
    room_for(true, true);
    fault_inject("unlinkat", 1, EIO);
    merge_held(&x->merge);
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
    assert_int_equal(count_of("a", "one"), 3);

    merge_held(&x->merge);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
    assert_int_equal(count_of("a", "one"), 3);
    assert_int_equal(count_of("b", "one"), -30);
    assert_int_equal(x->merge.aside.stats.damaged, 0);
}

/* Logs filled again and again, room that comes and goes, a second worker that
 * tries what is held, and a full disk at any call. */
static void
whatever_has_room_when_each_fill_counts_once(void **state)
{
    static const char *const calls[] = {"write",    "fsync",    "openat",
                                        "renameat", "unlinkat", "renameat2"};
    static const char *const names[] = {"a", "b", "c"};
    enum { ROUNDS = 400, LOGS = 3 };
    struct random r = {random_seed("room")};
    struct fixture *x = *state;
    static struct merge second;
    uint64_t damaged;
    int64_t fills = 0;
    unsigned i, k;

    assert_rc(merge_open(&second, &x->config, &x->dir), 0);
    for (i = 0; i < LOGS; i++, fills++)
        full_log(x, i);
    for (i = 0; i < ROUNDS; i++) {
        const unsigned log = (unsigned)random_below(&r, LOGS);
        char lock[64];

        (void)snprintf(lock, sizeof lock, "log/lock-%010u", log); /* fits */
        if (mode_of(x, log) == LOG_MODE_EMPTY && !tmpdir_has(&x->tmp, lock)) {
            full_log(x, log);
            fills++;
        }
        for (k = 0; k < 3; k++) {
            const uint64_t now = random_below(&r, 4);

            of(names[k])->no_room = now < 2;
            of(names[k])->fail_apply = now == 2 ? -EBADMSG : 0;
        }
        if (random_below(&r, 2) > 0)
            fault_inject(calls[random_below(&r, 6)],
                         (unsigned)random_below(&r, 10) + 1, ENOSPC);
        if (random_below(&r, 3) > 0)
            (void)merge_run(&x->merge); /* whatever comes of it */
        else
            merge_held(random_below(&r, 2) > 0 ? &x->merge : &second);
        fault_clear();
    }
    for (k = 0; k < 3; k++) {
        of(names[k])->no_room = false;
        of(names[k])->fail_apply = 0;
    }
    for (i = 0; i < 3; i++) {
        (void)merge_run(&x->merge); /* the last finds nothing */
        merge_held(&second);
    }
    damaged = x->merge.aside.stats.damaged + second.aside.stats.damaged;
    merge_close(&second);

    assert_int_equal(count_of("a", "one"), fills);
    assert_int_equal(count_of("a", "two"), 2 * fills);
    assert_int_equal(count_of("b", "one"), -10 * fills);
    assert_int_equal(count_of("c", "one"), 100 * fills);
    assert_int_equal(damaged, 0);
    for (i = 0; i < LOGS; i++)
        assert_int_equal(mode_of(x, i), LOG_MODE_EMPTY);
    assert_rc(heldfile_tidy(x->dir.held_fd, 0), 0);
}

/* As after a crash between the file's name and the log's end. */
static void
records_held_twice_for_one_fill_count_once(void **state)
{
    struct fixture *x = *state;
    struct store_mark mark = full_log(x, 0);
    struct store_delta d = {
        .key = (const uint8_t *)"one", .key_size = 3, .sum_low = 1};
    struct held_many_base base;
    struct held_out *out;

    assert_rc(heldfile_many_begin(&out, x->dir.held_fd, &mark, 1, &base), 0);
    assert_rc(heldfile_many_add(out, (const uint8_t *)"a", 1, &d, 1), 0);
    assert_rc(heldfile_many_end(out, x->dir.held_fd, &mark, 0, true), 0);
    assert_rc(heldfile_many_publish(x->dir.held_fd, &mark, &base), 0);
    room_for(false, false);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
    room_for(true, true);
    merge_held(&x->merge);

    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("a", "two"), 2);
    assert_int_equal(count_of("b", "one"), -10);
}

static void
of_a_file_for_many_only_what_is_older_than_its_mark_is_kept_aside(void **state)
{
    struct fixture *x = *state;
    struct store_mark mark = full_log(x, 0);

    room_for(false, false);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    room_for(true, true);
    mark.epoch++;
    set_mark("a", &mark, STORE_MARK_DONE, "");

    merge_held(&x->merge);

    assert_int_equal(count_of("a", "one"), INT64_MIN);
    assert_int_equal(count_of("b", "one"), -10);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
    assert_int_equal(x->merge.aside.stats.damaged, 1);
    merge_held(&x->merge);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
}

static void
a_damaged_file_for_many_is_kept_aside(void **state)
{
    struct fixture *x = *state;
    char file[256];

    full_log(x, 0);
    room_for(false, false);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    room_for(true, true);
    find_many(x, file);
    scribble(x, file, 70, '!');

    merge_held(&x->merge);

    assert_false(tmpdir_has(&x->tmp, file));
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
    assert_int_equal(x->merge.aside.stats.damaged, 1);
}

/* Thousands of them are not read each minute for nothing. */
static void
what_waits_for_room_is_tried_again_when_keyspaces_have_changed(void **state)
{
    struct fixture *x = *state;
    unsigned applies;

    x->merge.aside.keyspace_fd = sub_directory(x, "keyspace");
    full_log(x, 0);
    room_for(false, true);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    /* A directory that has just changed may change again unseen. */
    merge_held(&x->merge);
    applies = of("a")->applies;
    merge_held(&x->merge);
    assert_int_equal(of("a")->applies, applies + 1);

    fault_clock(10000);
    merge_held(&x->merge);
    merge_held(&x->merge);
    assert_int_equal(of("a")->applies, applies + 2);
    tmpdir_put(&x->tmp, "keyspace/new.mdb", "x", 1, 0600);
    room_for(true, true);
    merge_held(&x->merge);
    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
    assert_int_equal(close(x->merge.aside.keyspace_fd), 0);
}

static void
what_a_holder_that_died_left_unfinished_is_removed_in_time(void **state)
{
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct fixture *x = *state;

    tmpdir_put(&x->tmp, "held/%twords", "x", 1, 0600);
    tmpdir_put(&x->tmp, "held/%tnew", "x", 1, 0600);
    assert_int_equal(utimensat(x->dir.held_fd, "%twords", old, 0), 0);

    merge_held(&x->merge);

    assert_false(tmpdir_has(&x->tmp, "held/%twords"));
    assert_true(tmpdir_has(&x->tmp, "held/%tnew"));
}

/* ---- the machine cannot now -------------------------------------------- */

static void
on_a_full_disk_the_log_stays_full_and_is_counted_once_later(void **state)
{
    struct fixture *x = *state;
    unsigned i;

    full_log(x, 0);
    of("b")->fail_apply = -ENOSPC;
    for (i = 0; i < 20; i++)
        assert_int_equal(merge_run(&x->merge), MERGE_WAIT);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);

    of("b")->fail_apply = 0;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("b", "one"), -10);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
}

static void
an_error_that_may_pass_is_tried_some_times_then_its_records_are_held(
    void **state)
{
    struct fixture *x = *state;
    unsigned i;

    full_log(x, 0);
    of("b")->fail_apply = -EIO;
    for (i = 1; i < MERGE_TRIES_MAX; i++)
        (void)merge_run(&x->merge); /* nothing is decided yet */
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 1);
    of("b")->fail_apply = 0;
    merge_held(&x->merge);
    assert_int_equal(count_of("b", "one"), -10);
    assert_int_equal(count_of("a", "one"), 1);
}

static void
above_its_share_of_memory_it_opens_the_store_afresh(void **state)
{
    struct fixture *x = *state;

    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(fake.closes, 0);
    assert_true(fake.lent > x->config.worker_memory / 8);
    assert_true(fake.lent < x->config.worker_memory + (32 << 20));

    x->merge.memory_most = 0;
    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(fake.closes, 3);
    assert_int_equal(fake.opens, 4);
    assert_int_equal(fake.lent, x->config.worker_memory / 8);

    full_log(x, 0);
    fake.fail_open = -EMFILE;
    assert_int_equal(merge_run(&x->merge), MERGE_WAIT);
    assert_int_equal(merge_run(&x->merge), MERGE_WAIT);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);

    fake.fail_open = 0;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of("a", "one"), 3);
    assert_int_equal(count_of("c", "one"), 300);
}

static void
a_log_that_fails_waits_and_the_others_are_merged_meanwhile(void **state)
{
    struct fixture *x = *state;
    struct filler f;

    x->merge.batch.later.first_ms = 1000000;
    full_log(x, 0);
    of("b")->fail_apply = -EIO;
    assert_int_equal(merge_run(&x->merge), MERGE_LATER);
    assert_true(merge_retry_ms(&x->merge) > clock_ms());
    assert_int_equal(of("b")->applies, 1);

    filler_open(&f, x->dir.log_fd, 1, SLOTS);
    filler_add(&f, "a", "one", 10);
    filler_seal(&f);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(merge_run(&x->merge), MERGE_LATER);

    assert_int_equal(count_of("a", "one"), 11);
    assert_int_equal(of("b")->applies, 1);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(mode_of(x, 1), LOG_MODE_EMPTY);
}

static void
each_failure_doubles_the_wait_of_a_log_up_to_a_limit(void **state)
{
    struct later l = {.first_ms = 50};
    uint64_t until = UINT64_MAX, wait = 50;
    int i;

    (void)state; /* pure */
    for (i = 0; i < 12; i++) {
        later_note(&l, 7, 99, 1000);
        assert_false(later_waits(&l, 7, 98, 1000, &until));
        assert_false(later_waits(&l, 8, 99, 1000, &until));
        assert_true(later_waits(&l, 7, 99, 1000 + wait - 1, &until));
        assert_false(later_waits(&l, 7, 99, 1000 + wait, &until));
        wait = 2 * wait > LATER_MOST_MS ? LATER_MOST_MS : 2 * wait;
    }
    assert_int_equal(until, 1050);

    later_forget(&l, 7, 99);
    assert_false(later_waits(&l, 7, 99, 1000, &until));
    later_note(&l, 7, 99, 1000);
    assert_false(later_waits(&l, 7, 99, 1050, &until));
}

/* ---- damage, stopping, the archive ------------------------------------- */

static void
a_damaged_log_is_quarantined_and_the_others_merged(void **state)
{
    struct fixture *x = *state;
    int fd;

    full_log(x, 0);
    full_log(x, 1);
    full_log(x, 2);
    fd = openat(x->tmp.fd, "log/0000000001", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "!", 1, LOG_SLOTS_AT + 2 * 544 + 300), 1);
    assert_int_equal(close(fd), 0);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_false(log_exists(x, 1));
    assert_true(tmpdir_has(&x->tmp, "log/bad-0000000001-1"));
    assert_int_equal(count_of("a", "one"), 2);
    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
}

/* Its names were met before the damage was. */
static void
nothing_but_a_damaged_log_behind_a_merge_is_no_trouble(void **state)
{
    struct fixture *x = *state;
    enum merge_outcome outcome = MERGE_DONE;
    int fd, turns;

    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    full_log(x, 1);
    fd = openat(x->tmp.fd, "log/0000000001", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "!", 1, LOG_SLOTS_AT + 2 * 544 + 300), 1);
    assert_int_equal(close(fd), 0);
    for (turns = 0; outcome != MERGE_IDLE; turns++) {
        assert_true(turns < 4);
        outcome = merge_run(&x->merge);
    }

    assert_true(tmpdir_has(&x->tmp, "log/bad-0000000001-1"));
    assert_int_equal(count_of("a", "one"), 1);
}

/* A log of so many minutes that its sums do not fit the least memory. */
static void
a_log_that_does_not_fit_alone_is_merged_all_the_same(void **state)
{
    enum { RECORDS = 40000 };
    struct fixture *x = *state;
    struct filler f;
    int i;

    merge_close(&x->merge);
    x->config.worker_memory = 1 << 20;
    open_merge(x);
    filler_open(&f, x->dir.log_fd, 0, RECORDS);
    for (i = 0; i < RECORDS; i++) {
        filler_add(&f, "a", "a key of some length, to fill the memory", 1);
        f.received_ms += 60000;
    }
    filler_seal(&f);
    full_log(x, 1);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(mode_of(x, 1), LOG_MODE_FULL);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of("a", "a key of some length, to fill the memory"),
                     RECORDS);
    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(tmpdir_count(&x->tmp, "held"), 0);
}

static void
a_log_that_cannot_be_read_is_quarantined_and_the_others_merged(void **state)
{
    struct fixture *x = *state;
    struct filler f;
    unsigned i, before;

    full_log(x, 0);
    filler_open(&f, x->dir.log_fd, 1, 1000);
    f.received_ms++;
    for (i = 0; i < 1000; i++)
        filler_add(&f, "a", "one", 1);
    filler_seal(&f);

    /* From the second part of the second log on nothing can be read, so that
     * the first part cannot even be taken out again. */
    fault_clear();
    x->merge.stop = NULL;
    assert_int_equal(batch_take(&x->merge.batch), 2);
    before = fault_calls("pread");
    batch_give_back(&x->merge.batch, false);
    fault_inject_from("pread", before, EIO);
    (void)merge_run(&x->merge); /* what is left is looked at below */
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_false(log_exists(x, 1));
    assert_true(tmpdir_has(&x->tmp, "log/bad-0000000001-1"));
    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
}

static void
logs_of_other_message_sizes_are_refused_and_given_back(void **state)
{
    struct fixture *x = *state;

    full_log(x, 0);
    merge_close(&x->merge);
    x->config.key_size = 64;
    open_merge(x);

    assert_int_equal(merge_run(&x->merge), MERGE_REFUSED);

    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(count_of("a", "one"), INT64_MIN);
}

static bool
stop_after_one(void *ctx)
{
    unsigned *asked = ctx;

    return ++*asked > 1;
}

static void
told_to_stop_it_finishes_one_keyspace_and_gives_the_logs_back(void **state)
{
    struct fixture *x = *state;
    unsigned asked = 0;

    full_log(x, 0);
    x->merge.stop = stop_after_one;
    x->merge.stop_ctx = &asked;

    assert_int_equal(merge_run(&x->merge), MERGE_STOPPED);

    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_false(tmpdir_has(&x->tmp, "log/lock-0000000000"));
    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("b", "one"), INT64_MIN);

    x->merge.stop = NULL;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(count_of("b", "one"), -10);
}

static void
merged_logs_are_archived_and_only_the_newest_kept(void **state)
{
    struct fixture *x = *state;
    unsigned i;

    x->merge.archive_keep = 2;
    for (i = 0; i < 5; i++)
        full_log(x, i);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(tmpdir_count(&x->tmp, "archive"), 2);
    assert_int_equal(x->merge.stats.archived, 5);
    assert_true(tmpdir_has(
        &x->tmp, "archive/1700000000000-0000000004-00000000000000000001.gz"));
    assert_int_equal(mode_of(x, 4), LOG_MODE_EMPTY);
}

static void
what_cannot_be_archived_is_merged_all_the_same(void **state)
{
    struct fixture *x = *state;

    x->merge.archive_keep = 2;
    full_log(x, 0);
    fault_inject_from("write", 1, ENOSPC);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    fault_clear();

    assert_int_equal(count_of("a", "one"), 1);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(x->merge.stats.archived, 0);
    assert_int_equal(tmpdir_count(&x->tmp, "archive"), 0);
}

/* ---- any failing call -------------------------------------------------- */

/* Runs until nothing is left to merge. */
static void
run_dry(struct fixture *x)
{
    enum merge_outcome outcome;
    unsigned n = 0;

    do {
        assert_true(n++ < 50);
        outcome = merge_run(&x->merge);
        merge_held(&x->merge);
    } while (outcome != MERGE_IDLE || tmpdir_count(&x->tmp, "held") > 0);
}

/* One call fails at a time; afterwards everything is counted exactly once. */
static void
each_failing(struct fixture *x, const char *group, int error, bool hold)
{
    const unsigned fds = fault_open_fds();
    bool hit = true;
    int64_t rounds;

    for (rounds = 1; hit; rounds++) {
        assert_true(rounds < 400);
        full_log(x, 0);
        full_log(x, 1);
        of("b")->fail_apply = hold ? -EBADMSG : 0;

        fault_inject(group, (unsigned)rounds, error);
        (void)merge_run(&x->merge); /* whatever it says */
        hit = fault_hit();
        fault_clear();
        of("b")->fail_apply = 0;
        run_dry(x);

        assert_int_equal(fault_open_fds(), fds);
        assert_int_equal(tmpdir_count(&x->tmp, "log"), 2);
        assert_int_equal(count_of("a", "one"), 2 * rounds);
        assert_int_equal(count_of("a", "two"), 4 * rounds);
        assert_int_equal(count_of("b", "one"), -20 * rounds);
        assert_int_equal(count_of("c", "one"), 200 * rounds);
    }
    assert_true(rounds > 2);
}

static void
any_failing_call_loses_and_doubles_nothing(void **state)
{
    each_failing(*state, "disk", EIO, false);
}

static void
any_failing_allocation_loses_and_doubles_nothing(void **state)
{
    each_failing(*state, "memory", ENOMEM, true);
}

static void
any_failing_call_while_holding_loses_and_doubles_nothing(void **state)
{
    struct fixture *x = *state;

    x->merge.archive_keep = 3;
    each_failing(x, "disk", ENOSPC, true);
}

static void
opening_fails_cleanly_without_memory(void **state)
{
    struct fixture *x = *state;
    unsigned n;
    int rc = -1;

    for (n = 1; rc != 0; n++) {
        struct merge m;
        const unsigned fds = fault_open_fds();

        assert_true(n < 50);
        fault_inject("memory", n, ENOMEM);
        rc = merge_open(&m, &x->config, &x->dir);
        fault_clear();
        if (rc == 0)
            merge_close(&m);
        else
            assert_rc(rc, -ENOMEM);
        assert_int_equal(fault_open_fds(), fds);
    }
    assert_true(n > 4);
}

#define OPEN(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
    OPEN(full_logs_are_summed_applied_once_and_emptied),
    OPEN(a_log_filled_again_counts_again),
    OPEN(no_more_logs_are_taken_than_a_batch_may_have),
    OPEN(a_log_with_nothing_but_zeros_is_emptied_and_makes_no_keyspace),
    OPEN(the_log_of_a_writer_that_died_is_recovered_and_merged),
    OPEN(what_a_keyspace_has_already_is_left_out_and_fenced),
    OPEN(a_log_that_is_in_everywhere_is_fenced_before_it_is_emptied),
    OPEN(of_a_log_that_is_in_partly_only_later_keys_are_applied),
    OPEN(a_log_older_than_its_mark_is_quarantined_and_the_others_merged),
    OPEN(marks_that_change_meanwhile_make_it_sum_again),
    OPEN(records_another_process_put_in_meanwhile_are_not_put_in_twice),
    OPEN(of_two_logs_the_one_another_process_put_in_is_left_out),
    OPEN(a_keyspace_that_refuses_stops_nobody_and_gets_its_records_later),
    OPEN(many_records_held_at_once_are_kept_apart_by_keyspace_and_log),
    OPEN(nothing_is_held_of_a_log_that_stays_full),
    OPEN(held_records_count_once_whatever_their_mark_says_by_then),
    OPEN(a_second_fill_of_an_epoch_counts_beside_the_first),
    OPEN(records_of_a_later_fill_wait_behind_what_is_held_of_an_earlier_one),
    OPEN(a_held_file_older_than_its_mark_is_kept_aside),
    OPEN(a_damaged_held_file_is_kept_aside_and_the_others_merged),
    OPEN(a_held_file_that_cannot_be_read_makes_later_fills_wait),
    OPEN(keyspaces_without_room_share_one_held_file_per_log),
    OPEN(a_keyspace_that_gets_room_leaves_the_file_before_its_log_goes_on),
    OPEN(what_another_worker_has_in_hand_makes_later_fills_wait),
    OPEN(a_file_for_many_that_cannot_be_read_makes_its_log_wait),
    OPEN(what_is_merged_and_cannot_be_dropped_makes_later_fills_wait),
    OPEN(earlier_epochs_of_a_file_for_many_are_in_when_a_later_one_is),
    OPEN(records_held_twice_for_one_fill_count_once),
    OPEN(of_a_file_for_many_only_what_is_older_than_its_mark_is_kept_aside),
    OPEN(a_damaged_file_for_many_is_kept_aside),
    OPEN(what_waits_for_room_is_tried_again_when_keyspaces_have_changed),
    OPEN(what_a_holder_that_died_left_unfinished_is_removed_in_time),
    OPEN(on_a_full_disk_the_log_stays_full_and_is_counted_once_later),
    OPEN(an_error_that_may_pass_is_tried_some_times_then_its_records_are_held),
    OPEN(a_log_that_fails_waits_and_the_others_are_merged_meanwhile),
    cmocka_unit_test(each_failure_doubles_the_wait_of_a_log_up_to_a_limit),
    OPEN(above_its_share_of_memory_it_opens_the_store_afresh),
    OPEN(a_damaged_log_is_quarantined_and_the_others_merged),
    OPEN(nothing_but_a_damaged_log_behind_a_merge_is_no_trouble),
    OPEN(a_log_that_does_not_fit_alone_is_merged_all_the_same),
    OPEN(a_log_that_cannot_be_read_is_quarantined_and_the_others_merged),
    OPEN(logs_of_other_message_sizes_are_refused_and_given_back),
    OPEN(told_to_stop_it_finishes_one_keyspace_and_gives_the_logs_back),
    OPEN(merged_logs_are_archived_and_only_the_newest_kept),
    OPEN(what_cannot_be_archived_is_merged_all_the_same),
    OPEN(any_failing_allocation_loses_and_doubles_nothing),
    OPEN(any_failing_call_loses_and_doubles_nothing),
    OPEN(any_failing_call_while_holding_loses_and_doubles_nothing),
    OPEN(opening_fails_cleanly_without_memory),
    /* The last: what a sanitizer keeps of it counts as memory of the next. */
    OPEN(whatever_has_room_when_each_fill_counts_once),
};
TEST_MAIN(tests)
