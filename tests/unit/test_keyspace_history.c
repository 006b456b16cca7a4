/* tests/unit/test_keyspace_history.c - history in keyspace files, compared with
 * a plain table; what check finds; off and on; del, purge and drop. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/setup/tiers.h"
#include "common/store/history/compact.h"
#include "common/store/lmdb/keyspace_history.h"
#include "tests/lib/counted.h"
#include "tests/lib/engines.h"
#include "tests/lib/file.h"
#include "tests/lib/memhistory.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"

#define DAY  1440u
#define KEYS 84 /* words of one to three of the letters of key_text() */

static uint32_t now;

static uint64_t
now_ms(void)
{
    return (uint64_t)now * 60000;
}

struct fixture {
    struct tmpdir dir;
    struct tiers_rules rules;
    struct store *lmdb;
    struct memhistory *table; /* what came, of keyspace KS_NAME */
    size_t count, capacity;
    struct random random;
    uint64_t epoch;
    size_t txn_memory;
    uint64_t history_max;
    unsigned faults;
    bool deleted; /* some key was */
};

static void
set_rule(struct fixture *x, const char *name, const char *tiers)
{
    const char *why;

    assert_rc(tiers_rules_set(&x->rules, name, tiers, &why), 0);
}

static void
open_lmdb(struct fixture *x)
{
    struct lmdb_options options = engine_lmdb_options(x->dir.fd);

    options.open_max = 8;
    options.txn_memory = x->txn_memory;
    options.history = &x->rules;
    options.history_max = x->history_max;
    options.now_ms = now_ms;
    assert_rc(lmdb_store_open(&x->lmdb, &options), 0);
}

static void
set_up(struct fixture *x)
{
    *x = (struct fixture){.txn_memory = 4 << 20};
    now = 50 * 365 * DAY;
    diag_init("test", DIAG_ERROR);
    tmpdir_make_in_memory(&x->dir);
    set_rule(x, NULL, "1m:2d,1h:90d,1d:10y");
    open_lmdb(x);
}

static void
tear_down(struct fixture *x)
{
    store_close(x->lmdb);
    free(x->table);
    tmpdir_remove(&x->dir);
}

#define CASE(name, x) TEST_WITH(name, struct fixture, x, set_up, tear_down)

/* ---- doing ------------------------------------------------------------- */

/* Words in order: each comes before those that begin with it. */
static const char *
key_text(unsigned i)
{
    static char text[KEYS][4];
    unsigned left = i, words = KEYS / 4; /* that begin with the same letters */

    for (size_t n = 0; words > 0; n++, words = (words - 1) / 4) {
        text[i][n] = "\1/a\xff"[left / words];
        if (left % words == 0)
            break;
        left = left % words - 1;
    }
    return text[i];
}

/* The number of a key. */
static unsigned
number_of(const uint8_t *key, size_t size)
{
    unsigned i = 0;

    while (!bytes_equal(key, size, (const uint8_t *)key_text(i),
                        strlen(key_text(i))))
        assert_true(++i < KEYS);
    return i;
}

/* The same batch for both, as one fill of a log. */
static void
add_deltas(struct fixture *x, const char *name, const struct store_delta *d,
           size_t n)
{
    const struct log_fill mark = {
        .uuid = {9}, .epoch = ++x->epoch, .first_ms = 1};

    assert_rc(stored_apply(x->lmdb, name, &mark, d, n), 0);
    for (size_t i = 0; i < n; i++) {
        if (x->count == x->capacity) {
            x->capacity = 2 * x->capacity + 64;
            x->table =
                test_memory(realloc(x->table, x->capacity * sizeof *x->table));
        }
        x->table[x->count++] = memhistory_of(&d[i], now);
    }
}

static void
add_sum(struct fixture *x, const char *name, const char *key, uint32_t minute,
        int64_t sum)
{
    const struct store_delta d = stored_delta(key, strlen(key), minute, sum);

    add_deltas(x, name, &d, 1);
}

static uint32_t
random_minute(struct random *r)
{
    switch (random_below(r, 16)) {
    case 0:
        return now - (uint32_t)random_below(r, 5 * DAY);
    case 1:
        return now + (uint32_t)random_below(r, 3 * DAY);
    default:
        return now - (uint32_t)random_below(r, 3);
    }
}

static void
random_batch(struct fixture *x)
{
    struct store_delta d[KEYS];
    struct random *r = &x->random;
    const unsigned share = random_chance(r, 20) ? 100 : 10;
    size_t n = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        const int64_t sum = (int64_t)random_below(r, 2000) - 500;

        if (!random_chance(r, share))
            continue;
        d[n++] = stored_delta(key_text(i), strlen(key_text(i)),
                              random_minute(r), sum);
    }
    add_deltas(x, KS_NAME, d, n);
}

static void
note_fault(void *ctx, const char *text)
{
    struct fixture *x = ctx;

    x->faults++;
    print_message("fault: %s\n", text);
}

static unsigned
check_keyspace(struct fixture *x, const char *name)
{
    struct store_check r = {.fault = note_fault, .ctx = x};

    x->faults = 0;
    assert_rc(store_check(x->lmdb, (const uint8_t *)name, strlen(name), &r), 0);
    assert_int_equal(r.faults, x->faults);
    return x->faults;
}

static struct store_history_query
query_of(enum store_history_op op, const char *name, const char *key,
         uint32_t from, uint32_t to)
{
    return (struct store_history_query){.op = op,
                                        .name = (const uint8_t *)name,
                                        .name_size = strlen(name),
                                        .key = (const uint8_t *)key,
                                        .key_size = key ? strlen(key) : 0,
                                        .from = from,
                                        .to = to,
                                        .step = to - from};
}

/* The sum of a key (NULL: of all) in a span. */
static int64_t
sum_of(struct fixture *x, const char *name, const char *key, uint32_t from,
       uint32_t to)
{
    struct store_history_query q = query_of(
        key ? STORE_HISTORY_KEY : STORE_HISTORY_KEYSPACE, name, key, from, to);
    struct store_bucket b;

    q.buckets = &b;
    assert_rc(store_history(x->lmdb, &q, 0), 0);
    store_read_end(x->lmdb);
    return (int64_t)b.sum;
}

/* ---- comparing --------------------------------------------------------- */

/* Asks in pieces as small as may be. */
static void
ask_pieces(struct store *s, struct store_history_query *q)
{
    int rc;

    do
        rc = store_history(s, q, 1);
    while (rc == -EAGAIN);
    store_read_end(s);
    assert_rc(rc, 0);
}

static int
ask_piece(void *ctx, struct store_history_query *q)
{
    const struct fixture *x = ctx;
    const int rc = store_history(x->lmdb, q, 1);

    store_read_end(x->lmdb);
    return rc;
}

static void
compare_answer(struct fixture *x, struct store_history_query q)
{
    memhistory_compare(x->table, x->count, x->deleted, q, ask_piece, x);
}

static bool
is_odd(const struct store_history_query *q, const uint8_t *key, size_t size)
{
    return ((key[size - 1] + q->prefix_size) & 1) != 0;
}

/* Asks about some keys, or groups, instead of all. */
static void
limit_keys(struct random *r, struct store_history_query *q)
{
    static const uint8_t groups[] = {0, 1, '/', 'a', 0xff, '.'};
    const char *prefix = key_text((unsigned)random_below(r, KEYS));

    q->key_size = 0;
    q->prefix = (const uint8_t *)prefix;
    q->prefix_size = (size_t)random_below(r, strlen(prefix) + 1);
    q->group = groups[random_below(r, sizeof groups)];
    if (random_chance(r, 20))
        q->wants = is_odd;
}

static void
compare_random(struct fixture *x)
{
    static const uint32_t units[] = {1, 60, DAY};
    struct random *r = &x->random;
    const uint32_t unit = units[random_below(r, 3)];
    const uint32_t steps = 1 + (uint32_t)random_below(r, 8);
    const uint32_t back = (uint32_t)random_below(r, 60);
    const uint32_t from = (now / unit - back) * unit;
    struct store_history_query q =
        query_of((enum store_history_op)random_below(r, 4), KS_NAME,
                 key_text((unsigned)random_below(r, KEYS)), from,
                 from + unit * steps * (1 + (uint32_t)random_below(r, 7)));

    q.step = unit * steps;
    q.length = random_below(r, KEYS + 1);
    if (q.op != STORE_HISTORY_KEY && random_chance(r, 70))
        limit_keys(r, &q);
    compare_answer(x, q);
}

/* Deletes some keys in both. */
static void
delete_random(struct fixture *x)
{
    struct store_key keys[KEYS];
    bool gone[KEYS];
    uint64_t deleted = 0;
    size_t n = 0, kept = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        gone[i] = random_chance(&x->random, 10);
        if (gone[i])
            keys[n++] = (struct store_key){(const uint8_t *)key_text(i),
                                           strlen(key_text(i))};
    }
    assert_rc(stored_del(x->lmdb, KS_NAME, keys, n, &deleted), 0);
    for (size_t i = 0; i < x->count; i++)
        if (!gone[number_of(x->table[i].key.bytes, x->table[i].key.size)])
            x->table[kept++] = x->table[i];
    x->count = kept;
    x->deleted = true;
}

/* ---- all of it --------------------------------------------------------- */

/* Asks for a page of a step behind `after`, and for the next. */
static void
ask_step(struct fixture *x, uint32_t from, uint32_t to,
         const struct name *after, struct store_history_query *q)
{
    static struct store_top top[3];

    *q = query_of(STORE_HISTORY_STEP, KS_NAME, NULL, from, to);
    q->key = after->bytes;
    q->key_size = after->size;
    q->top = top;
    q->length = 3;
    ask_pieces(x->lmdb, q);
}

/* What keys came to, and whether they came. */
struct sums {
    bool any[KEYS];
    int64_t sum[KEYS];
};

/* Adds up a page; false: it is the last of its step. */
static bool
add_page(const struct store_history_query *q, struct name *after,
         struct sums *to)
{
    for (uint64_t i = 0; i < q->rows; i++) {
        const struct store_top *t = &q->top[i];
        const unsigned key = number_of(t->key, t->key_size);

        assert_true(after->size == 0 || bytes_compare(after->bytes, after->size,
                                                      t->key, t->key_size) < 0);
        to->any[key] = true;
        to->sum[key] += (int64_t)t->sum.sum;
        after->size = t->key_size;
        memcpy(after->bytes, t->key, t->key_size);
    }
    return q->rows == q->length;
}

/* The steps, each once and one behind the other, have each key's sum as history
 * has it for that time, and together what all of it has. */
static void
compare_steps(struct fixture *x)
{
    struct sums steps = {.any = {false}}, all = {.any = {false}};
    struct name after = {.size = 0};
    struct store_history_query q;
    uint32_t at = 0;

    for (;;) {
        ask_step(x, at, 0, &after, &q);
        if (q.to == 0)
            break;
        assert_true(q.from >= at && q.to > q.from);
        for (uint64_t i = 0; i < q.rows; i++)
            assert_true(
                sum_of(x, KS_NAME,
                       key_text(number_of(q.top[i].key, q.top[i].key_size)),
                       q.from, q.to) == (int64_t)q.top[i].sum.sum);
        at = q.from;
        if (!add_page(&q, &after, &steps)) {
            at = q.to;
            after.size = 0;
        }
    }
    do
        ask_step(x, 0, UINT32_MAX, &after, &q);
    while (add_page(&q, &after, &all));
    assert_memory_equal(steps.any, all.any, sizeof all.any);
    assert_memory_equal(steps.sum, all.sum, sizeof all.sum);
}

/* ---- tests ------------------------------------------------------------- */

CASE(random_lives_are_as_the_table_says, x)
{
    x->random.state = random_seed("past");
    for (unsigned step = 0; step < 1200; step++) {
        random_batch(x);
        if (random_chance(&x->random, 5))
            delete_random(x);
        for (unsigned i = 0; i < 3; i++)
            compare_random(x);
        if (step % 100 == 99) {
            check_clean(x->lmdb);
            compare_steps(x);
        }
        if (step % 200 == 199) { /* a kill, as it were */
            store_close(x->lmdb);
            x->txn_memory = step % 400 == 199 ? 1 : 4 << 20; /* cut merges */
            open_lmdb(x);
        }
        now += random_chance(&x->random, 2)
                   ? (uint32_t)random_below(&x->random, 3 * DAY)
                   : (uint32_t)random_below(&x->random, 40);
        if (random_chance(&x->random, 1))
            now -= (uint32_t)random_below(&x->random, 2 * DAY);
    }
}

static void
delete_key(struct fixture *x, const char *key)
{
    const struct store_key k = {(const uint8_t *)key, strlen(key)};
    uint64_t deleted = 0;

    assert_rc(stored_del(x->lmdb, KS_NAME, &k, 1, &deleted), 0);
    assert_int_equal(deleted, 1);
}

CASE(removed_and_saturated_counts_are_explained, x)
{
    add_sum(x, KS_NAME, "key000", now, INT64_MAX);
    add_sum(x, KS_NAME, "key000", now, INT64_MAX);
    add_sum(x, KS_NAME, "key000", now + 60, -5);
    add_sum(x, KS_NAME, "key001", now, 7);
    delete_key(x, "key001");
    add_sum(x, KS_NAME, "key001", now, 2);

    check_clean(x->lmdb);
    assert_int_equal(sum_of(x, KS_NAME, "key001", now, now + 1), 2);
    assert_true(sum_of(x, KS_NAME, "key000", now, now + 1) == -2);
    delete_key(x, "key000");
    check_clean(x->lmdb);
    assert_int_equal(sum_of(x, KS_NAME, NULL, now, now + 1), 2);
    assert_rc(store_drop(x->lmdb, KS), 0);
    check_clean(x->lmdb);
    add_sum(x, KS_NAME, "key001", now, 3);
    assert_int_equal(sum_of(x, KS_NAME, NULL, now, now + 1), 3);
    check_clean(x->lmdb);
}

CASE(history_can_be_off_and_on, x)
{
    struct store_history_query q =
        query_of(STORE_HISTORY_KEYSPACE, "pages.a", NULL, now, now + 1);
    struct store_bucket b;

    q.buckets = &b;
    set_rule(x, "pages.*", "off");
    set_rule(x, "pages.b", "1m:1d");
    add_sum(x, "pages.a", "k", now, 1);
    add_sum(x, "pages.b", "k", now, 2);
    assert_rc(store_history(x->lmdb, &q, 0), -ENODATA);
    store_read_end(x->lmdb);
    assert_int_equal(sum_of(x, "pages.b", "k", now, now + 1), 2);

    set_rule(x, "pages.*", "1m:1d");
    set_rule(x, "pages.b", "off");
    add_sum(x, "pages.a", "k", now, 3);
    add_sum(x, "pages.b", "k", now, 4);
    assert_rc(store_history(x->lmdb, &q, 0), 0);
    assert_true(b.sum == 3);
    assert_int_equal(q.since, now); /* what came before is not known */
    q.name = (const uint8_t *)"pages.b";
    assert_rc(store_history(x->lmdb, &q, 0), -ENODATA);
    store_read_end(x->lmdb);
    assert_int_equal(check_keyspace(x, "pages.a"), 0);
    assert_int_equal(check_keyspace(x, "pages.b"), 0);
}

/* Begins a change of the keyspace, and reads its history's state. */
static MDB_txn *
begin_history(struct fixture *x, struct keyspace **k, struct history *h)
{
    MDB_txn *txn;

    assert_rc(keyspace_get(lmdb_of(x->lmdb), KS, KEYSPACE_FIND, k), 0);
    assert_rc(keyspace_write(lmdb_of(x->lmdb), *k, &txn), 0);
    assert_rc(keyspace_history_get(txn, (*k)->dbis[KEYSPACE_META], h), 0);
    return txn;
}

/* Changes what the file says of itself, checksums and all: history has `more`
 * than it should; is there, or not. */
static void
plant_history(struct fixture *x, int more, bool there)
{
    struct keyspace_state state;
    struct keyspace *k;
    struct history h;
    MDB_txn *txn = begin_history(x, &k, &h);

    assert_rc(keyspace_state_get(txn, k->dbis[KEYSPACE_META], &state), 0);
    state.has_history = there;
    assert_rc(keyspace_state_put(txn, k->dbis[KEYSPACE_META], &state), 0);
    h.added += more;
    h.tier[0].in += more;
    assert_rc(keyspace_history_put(txn, k->dbis[KEYSPACE_META], &h), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    keyspace_unlock(k);
}

CASE(check_finds_what_does_not_agree, x)
{
    add_sum(x, KS_NAME, "key000", now, 5);
    plant_history(x, 1, true);
    assert_int_equal(check_keyspace(x, KS_NAME), 3);
    assert_rc(stored_add(x->lmdb, KS_NAME, NULL, "key000", 1), -EBADMSG);
    plant_history(x, -1, true);
    check_clean(x->lmdb);
    assert_rc(stored_add(x->lmdb, KS_NAME, NULL, "key000", 1), 0);
}

/* Behind the back of history one key gives 3 to another: every sum is right,
 * and neither of the keys. */
CASE(check_finds_counts_that_history_cannot_explain, x)
{
    const struct store_delta d[2] = {stored_delta("key000", 6, 0, 3),
                                     stored_delta("key001", 6, 0, -3)};

    add_sum(x, KS_NAME, "key000", now, 5);
    add_sum(x, KS_NAME, "key001", now, 8);
    check_clean(x->lmdb);

    plant_history(x, 0, false);
    lmdb_of(x->lmdb)->options.history = NULL; /* as it is: none */
    assert_rc(stored_apply(x->lmdb, KS_NAME, NULL, d, 2), 0);
    plant_history(x, 0, true);
    assert_int_equal(check_keyspace(x, KS_NAME), 1);
}

/* How many transactions have changed the keyspace. */
static uint64_t
count_changes(struct fixture *x)
{
    struct store_totals t;

    assert_rc(stored_totals(x->lmdb, KS_NAME, &t), 0);
    store_read_end(x->lmdb);
    return t.change;
}

/* An idle keyspace is seen to by store_maintain(), if it is worth a commit. */
CASE(idle_keyspaces_are_tended, x)
{
    const struct store_maintenance t = {.until_ns = UINT64_MAX};
    uint64_t before;

    add_sum(x, KS_NAME, "key000", now, 5);
    before = count_changes(x);
    for (unsigned hour = 0; hour < 60; hour++) {
        now += 60;
        lmdb_of(x->lmdb)->maintenance.next_ms = 0;
        while (store_maintain(x->lmdb, &t))
            ;
    }
    assert_in_range(count_changes(x) - before, 1, 4);
    check_clean(x->lmdb);
    compare_answer(x, query_of(STORE_HISTORY_TOP, KS_NAME, NULL,
                               now / DAY * DAY - 4 * DAY, now / DAY * DAY));
}

/* As an import in the order of keys does, or a clock that was wrong. */
CASE(any_number_of_merges_may_touch_many_old_periods, x)
{
    enum { HOURS = 47, DAYS = 60, MERGES = 130 };
    static struct store_delta d[HOURS + DAYS];

    for (unsigned i = 0; i < MERGES; i++) {
        const char *key = key_text(i % KEYS);
        size_t n = 0;

        for (unsigned day = DAYS; day > 0; day--)
            d[n++] = (struct store_delta){.minute = now - (day + 2) * DAY + i};
        for (unsigned hour = HOURS; hour > 0; hour--)
            d[n++] = (struct store_delta){.minute = now - hour * 60 + i % 60};
        for (size_t j = 0; j < n; j++)
            d[j] = stored_delta(key, strlen(key), d[j].minute, (int64_t)j + 1);
        add_deltas(x, KS_NAME, d, n);
    }
    check_clean(x->lmdb);
    x->random.state = random_seed("periods");
    for (unsigned i = 0; i < 50; i++)
        compare_random(x);
}

CASE(the_limit_bounds_the_file, x)
{
    struct store_check r = {.fault = note_fault, .ctx = x};

    store_close(x->lmdb);
    x->history_max = 100000;
    open_lmdb(x);
    x->random.state = 5;
    for (unsigned i = 0; i < 3000; i++) {
        random_batch(x);
        now += 2;
    }
    assert_rc(store_check(x->lmdb, KS, &r), 0);
    assert_int_equal(r.faults, 0);
    assert_in_range(r.used_size, 0, 400000);
}

/* ---- purge ------------------------------------------------------------- */

#define SECRET "b-zebra-of-the-secret"

/* One of each key: the secret one, with many long ones around it. */
static void
add_long_keys(struct fixture *x)
{
    enum { BEFORE = 30000, ALL = 40000 };
    struct store_delta *d = test_memory(malloc(ALL * sizeof *d));
    char(*keys)[251] = test_memory(malloc(ALL * sizeof *keys));

    for (unsigned i = 0; i < ALL; i++) {
        if (i == BEFORE)
            (void)snprintf(keys[i], sizeof keys[i], SECRET);
        else
            (void)snprintf(keys[i], sizeof keys[i], "%c%05u%0244u",
                           i < BEFORE ? 'a' : 'c', i, 0u);
        d[i] = stored_delta(keys[i], strlen(keys[i]), now, 1);
    }
    assert_rc(stored_apply(x->lmdb, KS_NAME, NULL, d, ALL), 0);
    free(keys);
    free(d);
}

/* The job of periods that are over. */
static struct history_job
closing_job(struct fixture *x)
{
    struct keyspace *k;
    struct history h;

    keyspace_abort(k, begin_history(x, &k, &h));
    return h.jobs[COMPACT_CLOSING];
}

static bool
file_has_secret(struct fixture *x)
{
    size_t size;
    uint8_t *bytes = file_bytes(file_path(x->dir.path, KS_NAME ".mdb"), &size);
    const bool has = memmem(bytes, size, SECRET, strlen(SECRET)) != NULL;

    free(bytes);
    return has;
}

/* No run refers to it, so a copy of the rows alone would leave it. */
CASE(what_a_cancelled_job_wrote_of_a_key_is_purged, x)
{
    struct lmdb *s;
    struct keyspace *k;
    bool more;

    store_close(x->lmdb);
    x->txn_memory = (size_t)256 << 20;
    open_lmdb(x);
    s = lmdb_of(x->lmdb);
    add_long_keys(x);
    add_long_keys(x);
    now += DAY;
    do {
        assert_rc(keyspace_get(s, KS, KEYSPACE_FIND, &k), 0);
        assert_rc(keyspace_history_compact(s, k, &more), 0);
        assert_true(more);
    } while (closing_job(x).at_size == 0 || closing_job(x).at[0] != 'c');
    assert_int_equal(closing_job(x).kind, HISTORY_COMPACT);

    delete_key(x, SECRET);
    assert_int_equal(closing_job(x).kind, HISTORY_SWEEP);
    assert_true(file_has_secret(x));
    assert_rc(store_purge(x->lmdb, KS), 0);
    assert_false(file_has_secret(x));
    check_clean(x->lmdb);
}
