/* tests/unit/test_keyspace.c - common/store/lmdb/lmdb.h on LMDB: what is
 * applied is there exactly once and in order, whatever happens in between. */
#include "tests/lib/test.h"

#include <dirent.h>
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
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

static const uint8_t hash_key[16] = "0123456789abcde";
static const uint8_t *const ks = (const uint8_t *)"pages";
#define KS ks, 5

/* ---- the model: an array sorted by key ---- */

struct counter {
    uint8_t key[256];
    uint16_t size;
    bool saturated;
    int64_t count;
};

struct model {
    struct counter *counters;
    size_t count, room;
    int128 sum;
};

static int
bytes_compare(const uint8_t *a, size_t an, const uint8_t *b, size_t bn)
{
    const int d = memcmp(a, b, an < bn ? an : bn);

    return d != 0 ? d : (an > bn) - (an < bn);
}

static int
by_key(const void *a, const void *b)
{
    const struct counter *x = a, *y = b;

    return bytes_compare(x->key, x->size, y->key, y->size);
}

static int
by_rank(const void *a, const void *b)
{
    const struct counter *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return by_key(a, b);
}

static struct counter *
model_find(struct model *m, const uint8_t *key, uint16_t size)
{
    size_t low = 0, high = m->count;

    while (low < high) {
        const size_t mid = (low + high) / 2;
        const int d = bytes_compare(m->counters[mid].key, m->counters[mid].size,
                                    key, size);

        if (d == 0)
            return &m->counters[mid];
        if (d < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* One summed change, to be found in `m` or appended behind `sorted`. */
static void
model_add(struct model *m, size_t sorted, const uint8_t *key, uint16_t size,
          int128 sum)
{
    struct model front = {.counters = m->counters, .count = sorted};
    struct counter *c = model_find(&front, key, size);
    int128 now;

    if (c == NULL) {
        if (m->count == m->room) {
            m->room = m->room * 2 + 1024;
            m->counters = realloc(m->counters, m->room * sizeof *c);
            assert_non_null(m->counters);
        }
        c = &m->counters[m->count++];
        memset(c, 0, sizeof *c);
        memcpy(c->key, key, size);
        c->size = size;
    }
    now = (int128)c->count + sum;
    if (now > INT64_MAX || now < INT64_MIN) {
        c->saturated = true;
        now = now > 0 ? INT64_MAX : INT64_MIN;
    }
    m->sum += now - c->count;
    c->count = (int64_t)now;
}

/* ---- random numbers and keys ---- */

static uint64_t rng;

static uint64_t
rnd(void)
{
    uint64_t x = (rng += 0x9e3779b97f4a7c15u);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t
below(uint64_t n)
{
    return rnd() % n;
}

/* ---- batches ---- */

struct batch_keys {
    uint8_t *bytes;
    struct store_delta *deltas;
    size_t count;
};

static int
delta_compare(const void *a, const void *b)
{
    const struct store_delta *x = a, *y = b;
    const int d = bytes_compare(x->key, x->key_size, y->key, y->key_size);

    return d != 0 ? d : (x->minute > y->minute) - (x->minute < y->minute);
}

/* Key number `id` of this shape: all sizes from 1 to 256 with common
 * beginnings, or short ones. */
static uint16_t
make_key(uint8_t *key, uint64_t id, int shape)
{
    uint16_t size;

    if (shape == 0)
        return (uint16_t)sprintf((char *)key, "key:%012llu",
                                 (unsigned long long)id);
    if (shape == 1) {
        memset(key, 'x', 256);
        (void)sprintf((char *)key + 240, "%015llu", (unsigned long long)id);
        key[255] = 'y';
        return 256;
    }
    size = (uint16_t)(1 + (id * 2654435761u >> 7) % 256);
    for (uint16_t i = 0; i < size; i++)
        key[i] = (uint8_t)(1 + (id >> (i % 4 * 2) & 3));
    key[size - 1] = (uint8_t)(1 + id % 255);
    return size;
}

static void
batch_make(struct batch_keys *b, size_t n, uint64_t span, int shape,
           int64_t most, bool huge)
{
    size_t kept = 0;

    b->bytes = malloc(n * 256);
    b->deltas = malloc(n * sizeof *b->deltas);
    assert_true(b->bytes != NULL && b->deltas != NULL);
    for (size_t i = 0; i < n; i++) {
        struct store_delta *d = &b->deltas[i];
        int128 sum = (int64_t)below((uint64_t)(2 * most + 1)) - most;

        if (huge && below(4) == 0)
            sum = (below(2) ? 1 : -1) * ((int128)rnd() << below(20));
        d->key = b->bytes + i * 256;
        d->key_size = make_key(b->bytes + i * 256, below(span), shape);
        d->minute = (uint32_t)below(2);
        d->sum_high = (int64_t)(sum >> 64);
        d->sum_low = (uint64_t)sum;
    }
    qsort(b->deltas, n, sizeof *b->deltas, delta_compare);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 ||
            delta_compare(&b->deltas[kept - 1], &b->deltas[i]) != 0)
            b->deltas[kept++] = b->deltas[i];
    b->count = kept;
}

static void
batch_free(struct batch_keys *b)
{
    free(b->bytes);
    free(b->deltas);
}

static void
model_apply(struct model *m, const struct batch_keys *b)
{
    const size_t sorted = m->count;

    for (size_t i = 0; i < b->count;) {
        const struct store_delta *d = &b->deltas[i];
        int128 sum = 0;

        for (; i < b->count && b->deltas[i].key_size == d->key_size &&
               memcmp(b->deltas[i].key, d->key, d->key_size) == 0;
             i++)
            sum += (int128)b->deltas[i].sum_high * ((int128)1 << 64) +
                   (int128)b->deltas[i].sum_low;
        model_add(m, sorted, d->key, d->key_size, sum);
    }
    qsort(m->counters, m->count, sizeof *m->counters, by_key);
}

/* ---- comparing ---- */

struct compare {
    const struct model *m;
    size_t at;
};

static int
compare_row(void *ctx, const uint8_t *key, size_t size,
            const struct store_row *r)
{
    struct compare *c = ctx;
    const struct counter *want;

    assert_true(c->at < c->m->count);
    want = &c->m->counters[c->at++];
    assert_int_equal(size, want->size);
    assert_memory_equal(key, want->key, size);
    assert_true(r->count == want->count);
    assert_int_equal(r->saturated, want->saturated);
    return 0;
}

static void
compare_ranks(struct lmdb_view *v, const struct model *m)
{
    struct counter *sorted = malloc((m->count + 1) * sizeof *sorted);
    static uint8_t bytes[100000];
    size_t at = 0;

    assert_non_null(sorted);
    memcpy(sorted, m->counters, m->count * sizeof *sorted);
    qsort(sorted, m->count, sizeof *sorted, by_rank);
    while (at < m->count) {
        uint64_t rows;
        const uint64_t length = 1 + below(2000);
        const int64_t size =
            lmdb_view_range(v, at, length, bytes, sizeof bytes, &rows);
        const uint8_t *p = bytes;

        assert_true(size > 0);
        assert_true(rows > 0 && rows <= length);
        for (uint64_t i = 0; i < rows; i++, at++) {
            assert_true(at < m->count);
            assert_true(get_le64s(p) == sorted[at].count);
            assert_int_equal(get_le16(p + 8), sorted[at].size);
            assert_memory_equal(p + 10, sorted[at].key, sorted[at].size);
            p += 10 + sorted[at].size;
        }
        assert_true(p == bytes + size);
    }
    for (int i = 0; i < 20 && m->count > 0; i++) {
        const size_t pick = below(m->count);
        uint64_t rank;

        assert_rc(lmdb_view_rank(v, sorted[pick].key, sorted[pick].size, &rank),
                  0);
        assert_int_equal(rank, pick);
    }
    free(sorted);
}

static void
compare_all(struct lmdb *s, struct model *m)
{
    struct compare c = {.m = m};
    struct store_totals t;
    struct lmdb_view *v;
    uint64_t rows, flagged = 0;
    uint8_t bytes[300];

    assert_rc(lmdb_view_open(s, KS, &v), 0);
    assert_rc(lmdb_view_totals(v, &t), 0);
    assert_int_equal(t.keys, m->count);
    assert_true(t.sum_high == (int64_t)(m->sum >> 64));
    assert_true(t.sum_low == (uint64_t)m->sum);
    assert_rc(lmdb_view_scan(v, NULL, 0, compare_row, &c), 0);
    assert_int_equal(c.at, m->count);
    for (size_t i = 0; i < m->count; i++)
        flagged += m->counters[i].saturated ? 1 : 0;
    assert_int_equal(t.saturated, flagged);
    compare_ranks(v, m);
    assert_rc(lmdb_view_range(v, m->count, 5, bytes, sizeof bytes, &rows), 0);
    assert_int_equal(rows, 0);
    for (int i = 0; i < 20; i++) {
        uint8_t key[256];
        const uint16_t size = make_key(key, below(100000), (int)below(3));
        const struct counter *want = model_find(m, key, size);
        struct store_row got;

        assert_rc(lmdb_view_get(v, key, size, &got), want ? 0 : -ENOENT);
        if (want != NULL)
            assert_true(got.count == want->count);
    }
    lmdb_view_close(v);
}

/* ---- the store of a test ---- */

static struct lmdb *
open_store(const struct tmpdir *d, size_t txn_memory, bool writable)
{
    const struct lmdb_options options = {
        .keyspace_fd = d->fd,
        .hash_key = hash_key,
        .keyspace_size = 256,
        .key_size = 256,
        .writable = writable,
        .open_max = 4,
        .txn_memory = txn_memory,
    };
    struct lmdb *s;

    assert_rc(lmdb_store_open((struct store **)(void *)&s, &options), 0);
    return s;
}

static void
print_fault(void *ctx, const char *text)
{
    (void)ctx;
    print_error("fault: %s\n", text);
}

static void
check_clean(struct lmdb *s)
{
    struct store_check_result r;

    assert_rc(lmdb_check(s, KS, print_fault, NULL, &r), 0);
    assert_int_equal(r.faults, 0);
}

struct shape {
    size_t batch;
    uint64_t span;
    int shape;
    int64_t most;
    bool huge;
    size_t txn_memory;
    unsigned rounds;
};

static void
run_model(const struct tmpdir *d, const struct shape *sh)
{
    struct lmdb *s = open_store(d, sh->txn_memory, true);
    struct model m = {.counters = NULL};

    for (unsigned round = 0; round < sh->rounds; round++) {
        struct store_applied applied;
        struct batch_keys b;

        batch_make(&b, 1 + below(sh->batch), sh->span, sh->shape, sh->most,
                   sh->huge);
        assert_rc(lmdb_apply(s, KS, NULL, NULL, 0, b.deltas, b.count, &applied),
                  0);
        model_apply(&m, &b);
        batch_free(&b);
        if (round % 7 == 6 || round + 1 == sh->rounds) {
            compare_all(s, &m);
            check_clean(s);
        }
    }
    lmdb_close(s);
    free(m.counters);
}

static void
counts_and_order_equal_the_model(void **state)
{
    static const struct shape shapes[] = {
        {30, 50, 0, 5, false, 1 << 22, 60},
        {200, 3000, 0, 3, true, 1 << 22, 60},
        {3000, 20000, 0, 1000, false, 1 << 24, 40},
        {5000, 100000, 0, 1, false, 1 << 26, 40},
        {500, 5000, 1, 100, true, 1 << 24, 40},
        {2000, 20000, 2, 10, true, 1 << 24, 40},
        {4000, 30000, 0, 1000000, true, 1, 30},
        {20, 60000, 2, 1000, false, 1 << 20, 200},
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct tmpdir d;

        (void)state;
        rng = i + 1;
        tmpdir_make_in_memory(&d);
        print_message("shape %zu\n", i);
        run_model(&d, &shapes[i]);
        tmpdir_remove(&d);
    }
}

/* ---- logs: batches that must count once ---- */

struct log_batch {
    struct store_mark mark;
    struct batch_keys keys;
};

static void
log_make(struct log_batch *l, uint8_t id, uint64_t epoch, size_t n,
         uint64_t span)
{
    memset(l, 0, sizeof *l);
    memset(l->mark.uuid, id, sizeof l->mark.uuid);
    l->mark.epoch = epoch;
    batch_make(&l->keys, n, span, 0, 1000, false);
}

/* What a worker does: reads the marks, leaves out what they say is in, sums
 * the rest and applies it; again when the marks have changed meanwhile. */
static int
apply_logs_once(struct lmdb *s, const struct log_batch *logs, size_t n)
{
    struct lmdb_mark_info infos[4];
    struct store_mark marks[4] = {{.epoch = 0}};
    struct store_delta *deltas;
    struct store_applied applied;
    size_t count = 0, room = 1;
    int rc;

    for (size_t i = 0; i < n; i++) {
        marks[i] = logs[i].mark;
        room += logs[i].keys.count;
    }
    rc = lmdb_marks(s, KS, marks, n, infos);
    if (rc < 0)
        return rc;
    deltas = malloc(room * sizeof *deltas);
    assert_non_null(deltas);
    for (size_t i = 0; i < n; i++) {
        for (size_t at = 0; at < logs[i].keys.count; at++) {
            const struct store_delta *d = &logs[i].keys.deltas[at];

            if (infos[i].state == STORE_MARK_DONE ||
                (infos[i].state == STORE_MARK_PARTIAL &&
                 bytes_compare(d->key, d->key_size, infos[i].last_key,
                               infos[i].last_key_size) <= 0))
                continue;
            deltas[count] = *d;
            deltas[count++].minute = (uint32_t)(d->minute + 2 * i);
        }
    }
    qsort(deltas, count, sizeof *deltas, delta_compare);
    rc = lmdb_apply(s, KS, marks, infos, n, deltas, count, &applied);
    free(deltas);
    return rc;
}

static int
apply_logs(struct lmdb *s, const struct log_batch *logs, size_t n)
{
    int rc = -ESTALE;

    for (int i = 0; i < 100 && rc == -ESTALE; i++)
        rc = apply_logs_once(s, logs, n);
    return rc;
}

static enum store_mark_state
mark_state(struct lmdb *s, const struct store_mark *mark)
{
    struct lmdb_mark_info info;

    assert_rc(lmdb_marks(s, KS, mark, 1, &info), 0);
    return info.state;
}

static struct store_delta
delta(const char *key, int64_t sum)
{
    return (struct store_delta){
        .key = (const uint8_t *)key,
        .key_size = (uint16_t)strlen(key),
        .sum_high = sum < 0 ? -1 : 0,
        .sum_low = (uint64_t)sum,
    };
}

static int
apply_one(struct lmdb *s, const char *name, const char *key, int64_t sum)
{
    const struct store_delta d = delta(key, sum);
    struct store_applied applied;

    return lmdb_apply(s, (const uint8_t *)name, strlen(name), NULL, NULL, 0, &d,
                      1, &applied);
}

static int64_t
get_one(struct lmdb *s, const char *name, const char *key)
{
    struct store_row row = {.count = -777};
    struct lmdb_view *v;
    int rc;

    rc = lmdb_view_open(s, (const uint8_t *)name, strlen(name), &v);
    if (rc < 0)
        return rc;
    rc = lmdb_view_get(v, (const uint8_t *)key, strlen(key), &row);
    lmdb_view_close(v);
    return rc < 0 ? rc : row.count;
}

/* ---- exactly once ---- */

static void
a_log_counts_once(void **state)
{
    const struct tmpdir *d = *state;
    struct lmdb *s = open_store(d, 1 << 24, true);
    const struct lmdb_mark_info none = {.state = STORE_MARK_NONE};
    struct store_applied applied;
    struct log_batch log, later;
    struct model m = {.counters = NULL};

    rng = 1;
    log_make(&log, 1, 7, 500, 400);
    assert_int_equal(mark_state(s, &log.mark), STORE_MARK_NONE);
    assert_rc(apply_logs(s, &log, 1), 0);
    model_apply(&m, &log.keys);
    assert_int_equal(mark_state(s, &log.mark), STORE_MARK_DONE);

    assert_rc(apply_logs(s, &log, 1), 0); /* all of it is left out */
    compare_all(s, &m);
    assert_rc(lmdb_apply(s, KS, &log.mark, &none, 1, log.keys.deltas,
                         log.keys.count, &applied),
              -ESTALE);
    assert_int_equal(applied.commits, 0);
    compare_all(s, &m);

    later = log;
    later.mark.epoch++;
    assert_int_equal(mark_state(s, &later.mark), STORE_MARK_NONE);
    assert_rc(apply_logs(s, &later, 1), 0);
    model_apply(&m, &later.keys);
    compare_all(s, &m);
    assert_int_equal(mark_state(s, &log.mark), STORE_MARK_AHEAD);
    assert_rc(apply_logs(s, &log, 1), -EINVAL);
    compare_all(s, &m);
    assert_rc(lmdb_fence(s, KS), 0);
    check_clean(s);

    lmdb_close(s);
    batch_free(&log.keys);
    free(m.counters);
}

static void
marks_without_records_are_kept(void **state)
{
    const struct store_mark mark = {.uuid = "abcdefghijklmno", .epoch = 3};
    const struct lmdb_mark_info none = {.state = STORE_MARK_NONE};
    const struct tmpdir *d = *state;
    struct lmdb *s = open_store(d, 1 << 24, true);
    struct store_applied applied;

    /* No keyspace comes of nothing. */
    assert_rc(lmdb_apply(s, KS, &mark, &none, 1, NULL, 0, &applied), 0);
    assert_int_equal(tmpdir_count(d, "."), 0);
    assert_rc(apply_one(s, "pages", "k", 1), 0);

    assert_rc(lmdb_apply(s, KS, &mark, &none, 1, NULL, 0, &applied), 0);

    assert_int_equal(mark_state(s, &mark), STORE_MARK_DONE);
    lmdb_close(s);
}

/* Such a fill comes of a log that was put back to an earlier state. */
static void
another_fill_of_an_epoch_is_not_taken_for_the_one_that_is_in(void **state)
{
    const struct store_mark first = {.uuid = "u", .epoch = 3, .first_ms = 10};
    const struct store_mark second = {.uuid = "u", .epoch = 3, .first_ms = 20};
    const struct lmdb_mark_info none = {.state = STORE_MARK_NONE};
    const struct tmpdir *d = *state;
    struct lmdb *s = open_store(d, 1 << 24, true);
    const struct store_delta k = delta("k", 1);
    struct store_applied applied;
    struct lmdb_mark_info other;

    assert_rc(lmdb_apply(s, KS, &first, &none, 1, &k, 1, &applied), 0);
    assert_int_equal(mark_state(s, &first), STORE_MARK_DONE);

    assert_rc(lmdb_marks(s, KS, &second, 1, &other), 0);
    assert_int_equal(other.state, STORE_MARK_OTHER);
    assert_rc(lmdb_apply(s, KS, &second, &none, 1, &k, 1, &applied), -ESTALE);
    assert_rc(lmdb_apply(s, KS, &second, &other, 1, &k, 1, &applied), 0);

    assert_int_equal(mark_state(s, &second), STORE_MARK_DONE);
    assert_int_equal(mark_state(s, &first), STORE_MARK_OTHER);
    assert_true(get_one(s, "pages", "k") == 2);
    lmdb_close(s);
}

/* In a child: applies logs until the file may not grow any more. */
static void
apply_until_the_file_is_full(const struct tmpdir *d,
                             const struct log_batch *logs, size_t n,
                             rlim_t size)
{
    const struct rlimit limit = {.rlim_cur = size, .rlim_max = size};
    struct lmdb *s;

    (void)signal(SIGXFSZ, SIG_IGN);
    assert_rc(setrlimit(RLIMIT_FSIZE, &limit), 0);
    s = open_store(d, 1, true);
    _exit(apply_logs(s, logs, n) == 0 ? 0 : 1);
}

static void
a_failed_commit_leaves_a_state_to_go_on_from(void **state)
{
    const struct tmpdir *d = *state;
    unsigned partial = 0, failed = 0;

    for (rlim_t size = 100000; size < 900000; size += 50000) {
        struct model m = {.counters = NULL};
        struct log_batch logs[2];
        struct lmdb_mark_info info;
        struct lmdb *s;
        pid_t child;
        int status;

        rng = size;
        log_make(&logs[0], 1, size, 3000, 20000);
        log_make(&logs[1], 2, size, 3000, 20000);
        (void)unlinkat(d->fd, "pages.mdb", 0);      /* of the last round */
        (void)unlinkat(d->fd, "pages.mdb-lock", 0); /* likewise */
        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            apply_until_the_file_is_full(d, logs, 1, size);
        assert_int_equal(waitpid(child, &status, 0), child);
        failed += WEXITSTATUS(status) != 0 ? 1 : 0;

        /* The first log may be in by half; both are applied together now. */
        s = open_store(d, 1 << 24, true);
        assert_rc(lmdb_marks(s, KS, &logs[0].mark, 1, &info), 0);
        partial += info.state == STORE_MARK_PARTIAL ? 1 : 0;
        assert_rc(apply_logs(s, logs, 2), 0);
        model_apply(&m, &logs[0].keys);
        model_apply(&m, &logs[1].keys);
        compare_all(s, &m);
        check_clean(s);
        lmdb_close(s);
        free(m.counters);
        batch_free(&logs[0].keys);
        batch_free(&logs[1].keys);
    }
    assert_true(failed > 0 && partial > 0);
}

/* In a child: applies and says nothing. */
static void
apply_in_child(const struct tmpdir *d, const struct log_batch *logs, size_t n,
               size_t txn_memory)
{
    struct lmdb *s = open_store(d, txn_memory, true);

    for (size_t i = 0; i < n; i++)
        if (apply_logs(s, &logs[i], 1) != 0)
            _exit(1);
    lmdb_close(s);
    _exit(0);
}

static void
a_killed_worker_is_taken_up_where_it_was(void **state)
{
    const struct tmpdir *d = *state;
    struct model m = {.counters = NULL};
    unsigned killed = 0;

    for (unsigned round = 0; round < 40; round++) {
        struct log_batch logs[3];
        struct lmdb *s;
        pid_t child;
        int status;

        rng = round;
        for (uint8_t i = 0; i < 3; i++)
            log_make(&logs[i], i, round, 1500, 9000);
        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            apply_in_child(d, logs, 3, 1 << 16);
        (void)usleep((useconds_t)(1000 + below(20000))); /* any moment */
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        killed += WIFSIGNALED(status) ? 1 : 0;

        s = open_store(d, 1 << 24, true);
        assert_rc(apply_logs(s, logs, 3), 0);
        for (unsigned i = 0; i < 3; i++) {
            model_apply(&m, &logs[i].keys);
            batch_free(&logs[i].keys);
        }
        if (round % 8 == 7) {
            compare_all(s, &m);
            check_clean(s);
        }
        lmdb_close(s);
    }
    assert_true(killed > 0);
    free(m.counters);
}

static void
workers_that_race_count_each_log_once(void **state)
{
    const struct tmpdir *d = *state;
    struct model m = {.counters = NULL};
    struct log_batch logs[6];
    struct lmdb *s;
    pid_t children[3];

    rng = 5;
    for (uint8_t i = 0; i < 6; i++) {
        log_make(&logs[i], i, 1, 4000, 9000);
        model_apply(&m, &logs[i].keys);
    }

    /* All of them apply all logs: a worst case of what may happen. */
    for (size_t i = 0; i < 3; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            apply_in_child(d, logs, 6, 1 << (16 + 4 * i));
    }
    for (size_t i = 0; i < 3; i++) {
        int status;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }

    s = open_store(d, 1 << 24, true);
    compare_all(s, &m);
    check_clean(s);
    lmdb_close(s);
    for (size_t i = 0; i < 6; i++)
        batch_free(&logs[i].keys);
    free(m.counters);
}

/* In a child: keeps one view, tells its sum when asked, then takes another. */
static void
read_in_child(const struct tmpdir *d, int ask, int answer)
{
    struct lmdb *s = open_store(d, 0, false);
    struct lmdb_view *v;
    struct store_totals t[2];
    char c;

    if (lmdb_view_open(s, KS, &v) < 0 || write(answer, "r", 1) != 1 ||
        read(ask, &c, 1) != 1)
        _exit(1);
    if (lmdb_view_totals(v, &t[0]) < 0)
        _exit(1);
    lmdb_view_close(v);
    if (lmdb_view_open(s, KS, &v) < 0 || lmdb_view_totals(v, &t[1]) < 0)
        _exit(1);
    lmdb_view_close(v);
    if (write(answer, t, sizeof t) != (ssize_t)sizeof t)
        _exit(1);
    lmdb_close(s);
    _exit(0);
}

static void
a_view_stays_as_it_was_while_others_merge(void **state)
{
    const struct tmpdir *d = *state;
    struct model before = {.counters = NULL}, after = {.counters = NULL};
    struct store_totals got[2];
    struct log_batch logs[4];
    int ask[2], answer[2], status;
    struct lmdb *s;
    pid_t child;
    char c;

    rng = 6;
    for (uint8_t i = 0; i < 4; i++) {
        log_make(&logs[i], i, 1, 20000, 100000);
        model_apply(&after, &logs[i].keys);
    }
    model_apply(&before, &logs[0].keys);
    s = open_store(d, 1 << 26, true);
    assert_rc(apply_logs(s, &logs[0], 1), 0);
    lmdb_close(s);
    assert_true(pipe(ask) == 0 && pipe(answer) == 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        read_in_child(d, ask[0], answer[1]);
    assert_int_equal(read(answer[0], &c, 1), 1);

    /* This makes the map grow, which the reader must follow. */
    s = open_store(d, 1 << 26, true);
    for (size_t i = 1; i < 4; i++)
        assert_rc(apply_logs(s, &logs[i], 1), 0);
    assert_int_equal(write(ask[1], "?", 1), 1);
    assert_int_equal(read(answer[0], got, sizeof got), sizeof got);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    assert_int_equal(got[0].keys, before.count);
    assert_true(got[0].sum_low == (uint64_t)before.sum);
    assert_int_equal(got[1].keys, after.count);
    assert_true(got[1].sum_low == (uint64_t)after.sum);
    compare_all(s, &after);
    lmdb_close(s);
    for (size_t i = 0; i < 4; i++)
        batch_free(&logs[i].keys);
    for (size_t i = 0; i < 2; i++)
        assert_true(close(ask[i]) == 0 && close(answer[i]) == 0);
    free(before.counters);
    free(after.counters);
}

static int
collect_mark(void *ctx, const struct store_mark *m,
             const struct lmdb_mark_info *info)
{
    unsigned *count = ctx;

    assert_int_equal(info->state, STORE_MARK_DONE);
    assert_int_equal(m->epoch, 100 + m->uuid[0]);
    ++*count;
    return 0;
}

static void
every_mark_can_be_listed(void **state)
{
    struct lmdb *s = open_store(*state, 1 << 24, true);
    struct store_check_result r;
    unsigned count = 0;

    for (uint8_t i = 0; i < 40; i++) {
        struct log_batch log;

        rng = i;
        log_make(&log, i, 100u + i, 5, 100);
        assert_rc(apply_logs(s, &log, 1), 0);
        batch_free(&log.keys);
    }

    assert_rc(lmdb_each_mark(s, KS, collect_mark, &count), 0);
    assert_int_equal(count, 40);
    assert_rc(lmdb_check(s, KS, print_fault, NULL, &r), 0);
    assert_int_equal(r.marks, 40);
    lmdb_close(s);
}

/* ---- counts ---- */

static void
counts_stop_at_the_bounds_and_are_flagged_for_ever(void **state)
{
    struct lmdb *s = open_store(*state, 1 << 24, true);
    struct store_applied applied;
    struct store_totals t;
    struct lmdb_view *v;
    struct store_row row;
    struct store_delta d[2] = {delta("k", INT64_MAX), delta("k", INT64_MAX)};

    d[1].minute = 1; /* 2^64 - 2 in one batch */
    assert_rc(lmdb_apply(s, KS, NULL, NULL, 0, d, 2, &applied), 0);
    assert_int_equal(applied.saturated, 1);
    assert_true(get_one(s, "pages", "k") == INT64_MAX);
    assert_rc(apply_one(s, "pages", "k", 5), 0);
    assert_true(get_one(s, "pages", "k") == INT64_MAX);

    assert_rc(apply_one(s, "pages", "k", -7), 0);
    assert_true(get_one(s, "pages", "k") == INT64_MAX - 7);
    assert_rc(apply_one(s, "pages", "n", INT64_MIN), 0);
    assert_rc(apply_one(s, "pages", "n", -1), 0);
    assert_true(get_one(s, "pages", "n") == INT64_MIN);

    assert_rc(lmdb_view_open(s, KS, &v), 0);
    assert_rc(lmdb_view_get(v, (const uint8_t *)"k", 1, &row), 0);
    assert_true(row.saturated);
    assert_rc(lmdb_view_totals(v, &t), 0);
    assert_int_equal(t.saturated, 2);
    assert_true(t.sum_high == -1 && t.sum_low == (uint64_t)-8);
    lmdb_view_close(v);
    check_clean(s);
    lmdb_close(s);
}

static void
a_sum_of_zero_makes_the_key_and_no_record_makes_nothing(void **state)
{
    const struct tmpdir *d = *state;
    struct lmdb *s = open_store(d, 1 << 24, true);
    struct store_delta both[3] = {delta("a", 4), delta("b", 9), delta("b", -9)};
    struct store_applied applied;

    assert_rc(lmdb_apply(s, KS, NULL, NULL, 0, both, 0, &applied), 0);
    assert_false(tmpdir_has(d, "pages.mdb"));

    both[2].minute = 1;
    assert_rc(lmdb_apply(s, KS, NULL, NULL, 0, both, 3, &applied), 0);
    assert_int_equal(applied.created, 2);
    assert_int_equal(get_one(s, "pages", "b"), 0);

    /* A key that has been counted stays, whatever its count. */
    assert_rc(apply_one(s, "pages", "a", -4), 0);
    assert_int_equal(get_one(s, "pages", "a"), 0);
    lmdb_close(s);
}

/* Two logs whose records cancel out: one is freed, then the worker dies.  The
 * other is merged again, alone. */
static void
a_batch_that_sums_to_zero_is_marked_for_each_of_its_logs(void **state)
{
    const struct tmpdir *d = *state;
    struct lmdb *s = open_store(d, 1 << 24, true);
    const struct store_mark logs[2] = {{.uuid = {1}, .epoch = 1},
                                       {.uuid = {2}, .epoch = 1}};
    struct lmdb_mark_info infos[2];
    struct store_delta sum = delta("k", 0);
    struct store_applied applied;

    assert_rc(lmdb_marks(s, KS, logs, 2, infos), 0);
    assert_rc(lmdb_apply(s, KS, logs, infos, 2, &sum, 1, &applied), 0);

    assert_rc(lmdb_marks(s, KS, logs, 2, infos), 0);
    assert_int_equal(infos[0].state, STORE_MARK_DONE);
    assert_int_equal(infos[1].state, STORE_MARK_DONE);
    lmdb_close(s);
}

static void
limits_refuse_before_anything_is_applied(void **state)
{
    const struct tmpdir *d = *state;
    struct store_delta three[3] = {delta("a", 1), delta("k", 1), delta("z", 1)};
    struct lmdb_options options = {
        .keyspace_fd = d->fd,
        .hash_key = hash_key,
        .keyspace_size = 256,
        .key_size = 256,
        .writable = true,
        .open_max = 3,
        .txn_memory = 1 << 20,
        .keyspace_max = 2,
        .keys_max = 2,
    };
    struct store_applied applied;
    struct lmdb *s;

    assert_rc(lmdb_store_open((struct store **)(void *)&s, &options), 0);
    assert_rc(apply_one(s, "one", "k", 1), 0);
    assert_rc(apply_one(s, "two", "k", 1), 0);
    assert_rc(apply_one(s, "three", "k", 1), -EDQUOT);
    assert_rc(get_one(s, "three", "k"), -ENOENT);
    assert_rc(lmdb_apply(s, (const uint8_t *)"three", 5, NULL, NULL, 0, three,
                         3, &applied),
              -EDQUOT);
    assert_true(applied.no_room);

    assert_rc(lmdb_apply(s, (const uint8_t *)"one", 3, NULL, NULL, 0, three, 3,
                         &applied),
              -EDQUOT);
    assert_false(applied.no_room);
    assert_int_equal(get_one(s, "one", "k"), 1);
    assert_rc(get_one(s, "one", "a"), -ENOENT);
    assert_rc(lmdb_apply(s, (const uint8_t *)"one", 3, NULL, NULL, 0, three, 2,
                         &applied),
              0);
    assert_int_equal(get_one(s, "one", "k"), 2);
    lmdb_close(s);
}

static void
memory_to_spare_saves_commits(void **state)
{
    struct lmdb *s = open_store(*state, 1 << 18, true);
    struct store_applied cut, whole;
    struct batch_keys b;

    rng = 10;
    batch_make(&b, 20000, 100000, 0, 1000, false);
    assert_rc(lmdb_apply(s, KS, NULL, NULL, 0, b.deltas, b.count, &cut), 0);
    lmdb_txn_memory(s, 1 << 26);
    assert_rc(lmdb_apply(s, KS, NULL, NULL, 0, b.deltas, b.count, &whole), 0);

    assert_true(cut.commits > 10);
    assert_int_equal(whole.commits, 1);
    check_clean(s);
    lmdb_close(s);
    batch_free(&b);
}

static void
a_range_ends_before_the_row_that_does_not_fit(void **state)
{
    struct lmdb *s = open_store(*state, 1 << 24, true);
    struct log_batch log;
    struct lmdb_view *v;
    uint8_t bytes[4096];

    rng = 9;
    log_make(&log, 1, 1, 3000, 5000);
    assert_rc(apply_logs(s, &log, 1), 0);
    assert_rc(lmdb_view_open(s, KS, &v), 0);
    for (size_t size = 0; size < 2000; size += 1 + size / 7) {
        uint64_t rows, at = 0;
        const int64_t used = lmdb_view_range(v, 100, 4096, bytes, size, &rows);

        /* Each row is 10 + 16 bytes. */
        assert_int_equal(rows, size / 26);
        assert_int_equal(used, rows * 26);
        assert_int_equal(
            lmdb_view_range(v, 100, rows, bytes, sizeof bytes, &at), used);
        assert_int_equal(at, rows);
    }
    lmdb_view_close(v);
    lmdb_close(s);
    batch_free(&log.keys);
}

/* ---- names and files ---- */

struct names {
    size_t count;
    size_t size[2000];
    uint8_t name[2000][256];
    int64_t keys[2000];
};

static int
collect_name(void *ctx, const uint8_t *name, size_t size, int64_t keys)
{
    struct names *n = ctx;

    assert_true(n->count < 2000);
    memcpy(n->name[n->count], name, size);
    n->size[n->count] = size;
    n->keys[n->count++] = keys;
    return 0;
}

static void
any_name_is_a_keyspace_and_is_listed_in_order(void **state)
{
    static struct names n;
    struct lmdb *s = open_store(*state, 1 << 20, true);
    uint8_t name[256], after[256];
    size_t at = 300, size, next_size;

    /* Plain names, names with any byte, and names too long for both. */
    for (unsigned i = 1; i < 256; i++) {
        const struct store_delta d = delta("key", i);
        struct store_applied applied;

        memset(name, (int)i, sizeof name);
        assert_rc(lmdb_apply(s, name, i, NULL, NULL, 0, &d, 1, &applied), 0);
    }
    for (unsigned i = 0; i < 600; i++) {
        char plain[20];

        (void)snprintf(plain, sizeof plain, "plain-%u", i);
        assert_rc(apply_one(s, plain, "key", i + 1), 0);
    }
    assert_rc(apply_one(s, "../x", "key", 77), 0);
    assert_rc(apply_one(s, ".", "key", 78), 0);

    memset(&n, 0, sizeof n);
    assert_rc(store_list(&s->store, NULL, 0, collect_name, &n), 0);
    assert_int_equal(n.count, 255 + 600 + 2);
    for (size_t i = 0; i < n.count; i++) {
        assert_int_equal(n.keys[i], 1);
        if (i > 0)
            assert_true(bytes_compare(n.name[i - 1], n.size[i - 1], n.name[i],
                                      n.size[i]) < 0);
    }
    size = n.size[at];
    next_size = n.size[at + 1];
    memcpy(after, n.name[at], size);
    memcpy(name, n.name[at + 1], next_size);
    memset(&n, 0, sizeof n);
    assert_rc(store_list(&s->store, after, size, collect_name, &n), 0);
    assert_int_equal(n.count, 255 + 600 + 2 - at - 1);
    assert_int_equal(n.size[0], next_size);
    assert_memory_equal(n.name[0], name, next_size);
    memset(name, 'x', 256);
    assert_rc(lmdb_view_open(s, name, 256, &(struct lmdb_view *){NULL}),
              -ENOENT);
    assert_int_equal(get_one(s, "../x", "key"), 77);
    lmdb_close(s);
}

static void
foreign_files_are_named_and_left_alone(void **state)
{
    const struct tmpdir *d = *state;
    struct lmdb *s = open_store(d, 1 << 20, true);
    static const uint8_t zeros[8192];
    struct store_check_result r;
    uint8_t whole[65536];
    ssize_t size;
    int fd;

    assert_rc(apply_one(s, "good", "k", 1), 0);
    lmdb_close(s);
    fd = openat(d->fd, "good.mdb", O_RDONLY);
    size = read(fd, whole, sizeof whole);
    assert_true(fd >= 0 && size > 8192);
    assert_int_equal(close(fd), 0);
    tmpdir_put(d, "garbage.mdb", "not a database", 14, 0600);
    tmpdir_put(d, "zeros.mdb", zeros, sizeof zeros, 0600);
    tmpdir_put(d, "short.mdb", whole, 4096 * 3, 0600);
    tmpdir_put(d, "renamed.mdb", whole, (size_t)size, 0600);
    assert_int_equal(symlinkat("good.mdb", d->fd, "link.mdb"), 0);
    assert_int_equal(mkdirat(d->fd, "folder.mdb", 0700), 0);
    assert_int_equal(mkfifoat(d->fd, "fifo.mdb", 0600), 0);
    tmpdir_put(d, "locked.mdb", whole, (size_t)size, 0600);
    assert_int_equal(mkfifoat(d->fd, "locked.mdb-lock", 0600), 0);

    s = open_store(d, 1 << 20, true);
    for (int i = 0; i < 2; i++) { /* a second look says the same */
        assert_rc(get_one(s, "garbage", "k"), -EBADMSG);
        assert_rc(get_one(s, "zeros", "k"), -EBADMSG);
        assert_rc(get_one(s, "short", "k"), -EBADMSG);
        assert_rc(get_one(s, "renamed", "k"), -EBADMSG);
        assert_rc(get_one(s, "link", "k"), -EBADMSG);
        assert_rc(get_one(s, "folder", "k"), -EBADMSG);
        assert_rc(get_one(s, "fifo", "k"), -EBADMSG);
        assert_rc(get_one(s, "locked", "k"), -EBADMSG);
        assert_rc(apply_one(s, "fifo", "k", 1), -EBADMSG);
        assert_rc(
            lmdb_check(s, (const uint8_t *)"fifo", 4, print_fault, NULL, &r),
            0);
        assert_true(r.faults > 0);
        assert_rc(apply_one(s, "zeros", "k", 1), -EBADMSG);
        assert_int_equal(get_one(s, "good", "k"), 1 + i);
        assert_rc(apply_one(s, "good", "k", 1), 0);
    }
    lmdb_close(s);
    fd = openat(d->fd, "zeros.mdb", O_RDONLY);
    assert_int_equal(read(fd, whole, sizeof whole), sizeof zeros);
    assert_memory_equal(whole, zeros, sizeof zeros);
    assert_int_equal(close(fd), 0);
}

static void
a_file_of_other_message_sizes_is_refused(void **state)
{
    const struct tmpdir *d = *state;
    struct lmdb_options options = {
        .keyspace_fd = d->fd,
        .hash_key = hash_key,
        .keyspace_size = 256,
        .key_size = 64,
        .writable = true,
        .open_max = 3,
        .txn_memory = 1 << 20,
    };
    struct lmdb *s = open_store(d, 1 << 20, true);

    assert_rc(apply_one(s, "pages", "k", 1), 0);
    lmdb_close(s);

    assert_rc(lmdb_store_open((struct store **)(void *)&s, &options), 0);
    assert_rc(get_one(s, "pages", "k"), -EBADMSG);
    assert_rc(apply_one(s, "pages", "k", 1), -EBADMSG);
    lmdb_close(s);
}

static void
a_copy_is_the_same_keyspace(void **state)
{
    const struct tmpdir *d = *state;
    struct lmdb *s = open_store(d, 1 << 24, true), *copy;
    struct model m = {.counters = NULL};
    struct log_batch log;
    struct tmpdir to;

    tmpdir_make_in_memory(&to);
    rng = 11;
    log_make(&log, 1, 1, 20000, 30000);
    assert_rc(apply_logs(s, &log, 1), 0);
    model_apply(&m, &log.keys);

    assert_rc(lmdb_copy(s, KS, to.fd), 0);
    assert_rc(lmdb_copy(s, KS, to.fd), -EEXIST);

    lmdb_close(s);
    assert_int_equal(tmpdir_count(&to, "."), 1);
    copy = open_store(&to, 1 << 24, true);
    compare_all(copy, &m);
    check_clean(copy);
    assert_rc(apply_logs(copy, &log, 1), 0); /* the marks came along */
    compare_all(copy, &m);
    lmdb_close(copy);
    tmpdir_remove(&to);
    batch_free(&log.keys);
    free(m.counters);
}

static void
what_a_dead_creator_left_is_removed(void **state)
{
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    const struct tmpdir *d = *state;
    struct lmdb *s;
    int held;

    tmpdir_put(d, "%t0000000000000001.mdb", "x", 1, 0600);
    tmpdir_put(d, "%t0000000000000002.mdb", "x", 1, 0600);
    tmpdir_put(d, "%t0000000000000003.mdb", "x", 1, 0600);
    assert_int_equal(utimensat(d->fd, "%t0000000000000001.mdb", old, 0), 0);
    assert_int_equal(utimensat(d->fd, "%t0000000000000002.mdb", old, 0), 0);
    held = openat(d->fd, "%t0000000000000002.mdb", O_RDWR);
    assert_true(held >= 0);
    assert_int_equal(flock(held, LOCK_EX), 0);

    s = open_store(d, 1 << 20, true);

    assert_false(tmpdir_has(d, "%t0000000000000001.mdb"));
    assert_true(tmpdir_has(d, "%t0000000000000002.mdb")); /* alive */
    assert_true(tmpdir_has(d, "%t0000000000000003.mdb")); /* young */
    assert_int_equal(close(held), 0);
    lmdb_close(s);
}

/* ---- faults ---- */

static void
tmpdir_empty(const struct tmpdir *d)
{
    DIR *dir = opendir(d->path);
    struct dirent *e;

    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL)
        if (e->d_name[0] != '.')
            assert_int_equal(unlinkat(d->fd, e->d_name, 0), 0);
    assert_int_equal(closedir(dir), 0);
}

/* Creates, applies, reads, with the nth call of this kind failing. */
static void
fail_every(const struct tmpdir *d, const char *call, int error)
{
    for (unsigned n = 1; n < 1000; n++) {
        const unsigned fds = fault_open_fds();
        struct lmdb_options options = {
            .keyspace_fd = d->fd,
            .hash_key = hash_key,
            .keyspace_size = 256,
            .key_size = 256,
            .writable = true,
            .open_max = 3,
            .txn_memory = 1 << 20,
            .keyspace_max = 5,
        };
        struct lmdb *s = NULL;
        char name[20];
        int rc, got = 0;
        bool hit;

        (void)snprintf(name, sizeof name, "%s-%u", call, n % 3);
        fault_inject(call, n, error);
        rc = lmdb_store_open((struct store **)(void *)&s, &options);
        if (rc == 0)
            rc = apply_one(s, name, "k", 1);
        if (rc == 0)
            rc = get_one(s, name, "k") == 1 ? 0 : -EIO;
        hit = fault_hit();
        fault_clear();

        assert_true(rc == 0 || hit);
        if (s == NULL)
            assert_rc(lmdb_store_open((struct store **)(void *)&s, &options),
                      0);
        if (rc < 0 && (got = (int)get_one(s, name, "k")) < 0)
            assert_rc(apply_one(s, name, "k", 1), 0);
        assert_int_equal(get_one(s, name, "k"), 1);
        lmdb_close(s);
        assert_int_equal(fault_open_fds(), fds);
        tmpdir_empty(d);
        if (!hit)
            return;
    }
    fail_msg("still failing");
}

static void
any_call_may_fail_and_nothing_is_left_open(void **state)
{
    static const char *const calls[] = {"openat", "fstat",     "flock",
                                        "fsync",  "renameat2", "pread",
                                        "malloc", "calloc",    "unlinkat"};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fail_every(*state, calls[i], i == 6 || i == 7 ? ENOMEM : EIO);
        if (i == 4)
            fail_every(*state, calls[i], EINVAL); /* not supported: linkat */
    }
}

/* ---- damage ---- */

struct sums {
    uint64_t rows;
    uint64_t hash;
};

static int
sum_row(void *ctx, const uint8_t *key, size_t size, const struct store_row *r)
{
    struct sums *s = ctx;

    s->rows++;
    s->hash += crc_of(key, size) * (uint64_t)r->count;
    return 0;
}

/* Reads everything of the keyspace.  0 and *out, or an error. */
static int
read_everything(struct lmdb *s, struct sums *out)
{
    static uint8_t bytes[200000];
    struct store_totals t;
    struct lmdb_view *v;
    uint64_t rows, at = 0;
    int rc;

    *out = (struct sums){.rows = 0};
    rc = lmdb_view_open(s, KS, &v);
    if (rc < 0)
        return rc;
    rc = lmdb_view_totals(v, &t);
    if (rc == 0)
        rc = lmdb_view_scan(v, NULL, 0, sum_row, out);
    while (rc == 0 && at < t.keys) {
        const int64_t size =
            lmdb_view_range(v, at, 4096, bytes, sizeof bytes, &rows);

        if (size <= 0) {
            rc = size < 0 ? (int)size : -EIO;
            break;
        }
        for (int64_t p = 0; p < size;
             p += 10 + get_le16(bytes + p + 8)) /* weighed by position */
            out->hash += crc_of(bytes + p, 10) * ++at;
    }
    lmdb_view_close(v);
    return rc;
}

/* In a child, since LMDB itself may crash: 0 right, 1 refused, 2 wrong. */
static void
read_damaged(const struct tmpdir *d, const struct sums *want)
{
    struct lmdb *s = open_store(d, 0, false);
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
    struct lmdb *s = open_store(d, 1 << 24, true);
    unsigned outcomes[4] = {0};
    struct sums want;
    struct stat st;
    int fd, null;

    rng = 12;
    for (unsigned i = 0; i < 12; i++) {
        struct batch_keys b;
        struct store_applied applied;

        batch_make(&b, i == 0 ? 12000 : 100, 20000, 0, 1000, false);
        assert_rc(lmdb_apply(s, KS, NULL, NULL, 0, b.deltas, b.count, &applied),
                  0);
        batch_free(&b);
    }
    assert_rc(read_everything(s, &want), 0);
    lmdb_close(s);
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
    struct lmdb *s = open_store(d, 1 << 20, true);
    uint8_t bytes[100];
    struct store_row row;
    struct lmdb_view *v;
    uint64_t rows;

    assert_rc(apply_one(s, "pages", "lamps", 6), 0);
    for (unsigned i = 0; i < 2; i++) {
        const int rc = i == 0 ? 0 : -EBADMSG;
        int64_t size;

        if (i == 1) {
            damage_counts(d, "lamps");
            s->forgot_ms -= 60000; /* a minute goes by */
        }

        assert_rc(lmdb_view_open(s, KS, &v), 0);
        assert_rc(lmdb_view_get(v, (const uint8_t *)"lamps", 5, &row), rc);
        size = lmdb_view_range(v, 0, 10, bytes, sizeof bytes, &rows);
        assert_rc(size < 0 ? size : 0, rc);
        lmdb_view_close(v);
    }
    lmdb_close(s);
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
    struct lmdb *s;
    size_t i;

    for (i = 0; i < sizeof flips / sizeof flips[0]; i++) {
        s = open_store(d, 1 << 24, true);
        assert_rc(apply_one(s, "pages", "k", 1), 0);
        lmdb_close(s);
        set_bit(d, flips[i].meta, flips[i].byte, flips[i].bit);

        s = open_store(d, 1 << 24, true);
        assert_rc(apply_one(s, "pages", "k", 1), -EBADMSG);
        assert_rc(apply_one(s, "others", "k", 1), 0);
        lmdb_close(s);
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
    struct lmdb *s = open_store(d, 1 << 24, true);
    struct keyspace_state st, good;
    struct store_check_result r;
    struct keyspace *k;
    unsigned faults;
    MDB_txn *txn;

    for (char key[2] = "a"; key[0] <= 'z'; key[0]++)
        assert_rc(apply_one(s, "pages", key, key[0]), 0);
    assert_rc(keyspace_get(s, KS, KEYSPACE_FIND, &k), 0);
    assert_rc(keyspace_write(s, k, &txn), 0);
    assert_rc(keyspace_state_get(txn, k->meta, &good), 0);
    mdb_txn_abort(txn);

    for (unsigned i = 0; i < 5; i++) {
        st = good;
        if (i == 0)
            st.sum++;
        if (i == 1)
            st.saturated++;
        if (i == 2)
            st.keys.count = ++st.ranks.count;
        if (i == 3)
            st.keys.level++;
        if (i == 4)
            st.ranks.id++;
        assert_rc(keyspace_write(s, k, &txn), 0);
        assert_rc(keyspace_state_put(txn, k->meta, &st), 0);
        assert_int_equal(mdb_txn_commit(txn), 0);
        faults = 0;
        assert_rc(lmdb_check(s, KS, count_fault, &faults, &r), 0);
        assert_true(faults > 0);
        assert_int_equal(r.faults, faults);
    }
    assert_rc(keyspace_write(s, k, &txn), 0);
    assert_rc(keyspace_state_put(txn, k->meta, &good), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    check_clean(s);
    assert_rc(
        lmdb_check(s, (const uint8_t *)"nope", 4, count_fault, &faults, &r),
        -ENOENT);
    lmdb_close(s);
}

/* ---- the format, for ever ---- */

#define GOLDEN      "tests/golden/keyspace-v1.mdb"
#define GOLDEN_KEYS 5200

static const uint8_t *const golden = (const uint8_t *)"golden";

/* One of the three logs of the golden file. */
static void
golden_log(struct lmdb *s, unsigned log)
{
    static char keys[GOLDEN_KEYS][8];
    static struct store_delta d[GOLDEN_KEYS];
    const struct lmdb_mark_info none = {.state = STORE_MARK_NONE};
    struct store_mark mark = {.epoch = log + 10, .first_ms = log + 1000};
    struct store_applied applied;
    size_t n = 0;

    memset(mark.uuid, 'a' + (int)log, sizeof mark.uuid);
    for (unsigned i = log; i < GOLDEN_KEYS; i += log == 0 ? 1 : 71) {
        (void)snprintf(keys[n], sizeof keys[n], "k%05u", i % 100000);
        d[n] = delta(keys[n],
                     i == 0 ? INT64_MAX : (int64_t)(i * (log + 1)) - 7001);
        n++;
    }
    assert_rc(lmdb_apply(s, golden, 6, &mark, &none, 1, d, n, &applied), 0);
}

/* Counts of all kinds, one saturated, and edits that are not folded in. */
static void
golden_write(const struct tmpdir *d)
{
    struct lmdb *s = open_store(d, 1 << 24, true);
    const int to = open("tests/golden", O_RDONLY | O_DIRECTORY);

    assert_true(to >= 0);
    for (unsigned log = 0; log < 3; log++)
        golden_log(s, log);
    assert_rc(apply_one(s, "golden", "k00000", 1), 0);
    assert_rc(lmdb_copy(s, golden, 6, to), 0);
    assert_int_equal(renameat(to, "golden.mdb", AT_FDCWD, GOLDEN), 0);
    assert_int_equal(close(to), 0);
    lmdb_close(s);
    tmpdir_empty(d);
}

static int64_t
golden_count(unsigned i)
{
    int64_t count = 0;

    for (unsigned log = 0; log < 3; log++)
        if (log == 0 || (i >= log && (i - log) % 71 == 0))
            count += (int64_t)(i * (log + 1)) - 7001;
    return i == 0 ? INT64_MAX : count;
}

static int
compare_golden(void *ctx, const uint8_t *key, size_t size,
               const struct store_row *r)
{
    unsigned *at = ctx;
    char want[16];

    (void)snprintf(want, sizeof want, "k%05u", *at);
    assert_int_equal(size, 6);
    assert_memory_equal(key, want, 6);
    assert_true(r->count == golden_count(*at));
    assert_int_equal(r->saturated, *at == 0);
    ++*at;
    return 0;
}

/* Puts a copy of the golden file into the test's directory. */
static void
golden_put(const struct tmpdir *d)
{
    const size_t room = 1 << 20;
    uint8_t *bytes = malloc(room);
    const int fd = open(GOLDEN, O_RDONLY);
    ssize_t size;

    assert_true(bytes != NULL && fd >= 0);
    size = read(fd, bytes, room);
    assert_true(size > 0 && (size_t)size < room);
    assert_int_equal(close(fd), 0);
    tmpdir_put(d, "golden.mdb", bytes, (size_t)size, 0600);
    free(bytes);
}

/* TEST_GOLDEN=1 writes the file anew, which only a new format may ask for. */
static void
a_keyspace_of_the_first_version_still_opens(void **state)
{
    const struct tmpdir *d = *state;
    struct store_check_result r;
    struct lmdb_view *v;
    struct lmdb *s;
    unsigned at = 0;

    if (getenv("TEST_GOLDEN") != NULL)
        golden_write(d);
    golden_put(d);

    s = open_store(d, 1 << 24, true);
    assert_rc(lmdb_check(s, golden, 6, print_fault, NULL, &r), 0);
    assert_int_equal(r.faults, 0);
    assert_int_equal(r.marks, 3);
    assert_rc(lmdb_view_open(s, golden, 6, &v), 0);
    assert_rc(lmdb_view_scan(v, NULL, 0, compare_golden, &at), 0);
    assert_int_equal(at, GOLDEN_KEYS);
    lmdb_view_close(v);
    assert_rc(apply_one(s, "golden", "k00001", 1), 0);
    assert_true(get_one(s, "golden", "k00001") == golden_count(1) + 1);
    lmdb_close(s);
}

/* Adds to the byte at `at` of the header record, checksum and all. */
static void
change_header(struct lmdb *s, size_t at)
{
    uint8_t header[300], both[300];
    char name[] = "name";
    MDB_val key = {4, name}, v;
    struct keyspace *k;
    MDB_txn *txn;

    assert_rc(keyspace_get(s, KS, KEYSPACE_FIND, &k), 0);
    assert_rc(keyspace_write(s, k, &txn), 0);
    assert_int_equal(mdb_get(txn, k->meta, &key, &v), 0);
    memcpy(header, v.mv_data, v.mv_size);
    header[at] = (uint8_t)(header[at] + 2);
    memcpy(both, name, 4);
    memcpy(both + 4, header + 4, v.mv_size - 4);
    put_le32(header, crc_of(both, v.mv_size));
    v.mv_data = header;
    assert_int_equal(mdb_put(txn, k->meta, &key, &v, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
}

static void
a_newer_format_is_refused(void **state)
{
    for (size_t at = 4; at <= 8; at += 4) { /* version, features */
        struct lmdb *s = open_store(*state, 1 << 20, true);

        assert_rc(apply_one(s, "pages", "k", 1), 0);
        change_header(s, at);
        lmdb_close(s);

        s = open_store(*state, 1 << 20, true);
        assert_rc(get_one(s, "pages", "k"), -EPROTONOSUPPORT);
        assert_rc(apply_one(s, "pages", "k", 1), -EPROTONOSUPPORT);
        lmdb_close(s);
        tmpdir_empty(*state);
    }
}

/* ---- many keyspaces ---- */

static void
few_environments_serve_many_keyspaces(void **state)
{
    struct lmdb *s = open_store(*state, 1 << 20, true);
    const unsigned fds = fault_open_fds();

    for (int round = 1; round < 6; round++) {
        for (int i = 0; i < 12; i++) {
            char name[12];

            (void)snprintf(name, sizeof name, "ks%d", i * 7 % 12);
            assert_rc(apply_one(s, name, "k", i), 0);
            assert_int_equal(get_one(s, name, "k"), round * i);
        }
    }
    assert_true(fault_open_fds() <= fds + 4 * 3);
    lmdb_close(s);
    assert_int_equal(fault_open_fds(), fds);
}

/* Allows `more` descriptors beside those that are open; returns the limit that
 * was. */
static struct rlimit
allow_files(unsigned more)
{
    struct rlimit was, limit;
    const int next = dup(STDERR_FILENO);

    assert_true(next >= 0);
    assert_int_equal(close(next), 0);
    assert_rc(getrlimit(RLIMIT_NOFILE, &was), 0);
    limit = was;
    limit.rlim_cur = (rlim_t)next + more;
    assert_rc(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return was;
}

static void
keyspaces_are_closed_for_others_when_descriptors_run_out(void **state)
{
    const struct tmpdir *d = *state;
    const struct lmdb_options options = {.keyspace_fd = d->fd,
                                         .hash_key = hash_key,
                                         .keyspace_size = 256,
                                         .key_size = 256,
                                         .writable = true,
                                         .open_max = 100,
                                         .txn_memory = 1 << 20,
                                         .keyspace_max = 100};

    /* Short of one at each place there is. */
    for (unsigned more = 8; more < 16; more++) {
        struct rlimit was;
        struct lmdb *s;

        assert_rc(lmdb_store_open((struct store **)(void *)&s, &options), 0);
        was = allow_files(more);
        for (int i = 0; i < 24; i++) {
            char name[12];

            (void)snprintf(name, sizeof name, "ks%d", i % 12);
            assert_rc(apply_one(s, name, "k", 1), 0);
            assert_int_equal(get_one(s, name, "k"), 1 + i / 12);
        }
        lmdb_close(s);
        assert_rc(setrlimit(RLIMIT_NOFILE, &was), 0);
        tmpdir_empty(d);
    }
}

/* LMDB makes it larger than it fills it: with holes, which need room later. */
static void
a_lock_file_has_room_for_all_that_lmdb_may_write_to_it(void **state)
{
    const struct tmpdir *d = *state;
    struct lmdb *s;
    struct stat st;
    int fd, rc;

    tmpdir_put(d, "probe", "x", 1, 0600);
    fd = openat(d->fd, "probe", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096);
    assert_int_equal(close(fd), 0);
    if (rc < 0)
        test_skip("no fallocate where temporary files are");
    for (int round = 0; round < 2; round++) {
        s = open_store(d, 1 << 20, true);
        assert_rc(apply_one(s, "new", "k", 1), 0);
        assert_int_equal(fstatat(d->fd, "new.mdb-lock", &st, 0), 0);
        assert_true(st.st_blocks * 512 >= st.st_size);
        lmdb_close(s);

        /* As an earlier version or a copy leaves it. */
        fd = openat(d->fd, "new.mdb-lock", O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(ftruncate(fd, st.st_size), 0);
        assert_int_equal(close(fd), 0);
    }
}

/* ---- files that are replaced while they are open ---- */

/* Copies a file, over what is there. */
static void
copy_file(const struct tmpdir *d, const char *from, const char *to)
{
    static uint8_t bytes[1 << 20];
    ssize_t size;
    int fd;

    fd = openat(d->fd, from, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    size = pread(fd, bytes, sizeof bytes, 0);
    assert_true(size > 0 && size < (ssize_t)sizeof bytes);
    assert_int_equal(close(fd), 0);
    fd = openat(d->fd, to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, (size_t)size, 0), size);
    assert_int_equal(close(fd), 0);
}

static void
put_in_place(const struct tmpdir *d, const char *file)
{
    assert_int_equal(renameat(d->fd, file, d->fd, "pages.mdb"), 0);
}

static void
a_replaced_file_is_opened_anew(void **state)
{
    const struct tmpdir *d = *state;
    struct lmdb *s = open_store(d, 1 << 20, true);

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
    lmdb_close(s);
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
    struct lmdb *s = open_store(d, 1 << 20, false);
    int64_t count = get_one(s, "pages", "k");
    char what;

    while (write(out, &count, sizeof count) > 0 && read(in, &what, 1) == 1) {
        if (what == 'l')
            lmdb_look(s);
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
    h->pid = fork();
    assert_true(h->pid >= 0);
    if (h->pid == 0) {
        (void)close(to[1]); /* ends the child with its parent */
        hold_open(d, to[0], from[1]);
    }
    (void)close(to[0]);   /* the child's */
    (void)close(from[1]); /* likewise */
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
    int status;

    (void)close(h->to);   /* ends it */
    (void)close(h->from); /* read only */
    assert_int_equal(waitpid(h->pid, &status, 0), h->pid);
    assert_int_equal(status, 0);
}

/* LMDB's lock file has the old file's number of commits while anybody has it
 * open: with that the newest commit of the new one would be lost. */
static void
a_replaced_file_is_not_touched_while_others_have_the_old_one(void **state)
{
    const struct tmpdir *d = *state;
    struct holder h;
    struct lmdb *s;

    s = open_store(d, 1 << 20, true);
    assert_rc(apply_one(s, "pages", "k", 1), 0);
    lmdb_close(s);
    copy_file(d, "pages.mdb", "copy");
    s = open_store(d, 1 << 20, true);
    for (unsigned i = 0; i < 20; i++)
        assert_rc(apply_one(s, "pages", "k", 1000), 0);
    lmdb_close(s);
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
    lmdb_close(s);
}

static void
a_file_that_was_overwritten_in_place_is_not_written_to(void **state)
{
    const struct tmpdir *d = *state;
    struct holder h;
    struct lmdb *s = open_store(d, 1 << 20, true);

    assert_rc(apply_one(s, "pages", "k", 1), 0);
    copy_file(d, "pages.mdb", "copy");
    for (unsigned i = 0; i < 20; i++)
        assert_rc(apply_one(s, "pages", "k", 1000), 0);
    lmdb_close(s);
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
    lmdb_close(s);
}

static int
in_memory(void **state)
{
    struct tmpdir *d = calloc(1, sizeof *d);

    assert_non_null(d);
    tmpdir_make_in_memory(d);
    *state = d;
    return 0;
}

static int
remove_dir(void **state)
{
    fault_clear();
    tmpdir_remove(*state);
    free(*state);
    return 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, in_memory, remove_dir)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(counts_and_order_equal_the_model),
    T(a_log_counts_once),
    T(marks_without_records_are_kept),
    T(another_fill_of_an_epoch_is_not_taken_for_the_one_that_is_in),
    T(a_failed_commit_leaves_a_state_to_go_on_from),
    T(a_killed_worker_is_taken_up_where_it_was),
    T(workers_that_race_count_each_log_once),
    T(a_view_stays_as_it_was_while_others_merge),
    T(every_mark_can_be_listed),
    T(counts_stop_at_the_bounds_and_are_flagged_for_ever),
    T(a_sum_of_zero_makes_the_key_and_no_record_makes_nothing),
    T(a_batch_that_sums_to_zero_is_marked_for_each_of_its_logs),
    T(limits_refuse_before_anything_is_applied),
    T(memory_to_spare_saves_commits),
    T(a_range_ends_before_the_row_that_does_not_fit),
    T(any_name_is_a_keyspace_and_is_listed_in_order),
    T(foreign_files_are_named_and_left_alone),
    T(a_file_of_other_message_sizes_is_refused),
    T(a_copy_is_the_same_keyspace),
    T(what_a_dead_creator_left_is_removed),
    T(any_call_may_fail_and_nothing_is_left_open),
    T(damage_is_refused_or_harmless_but_never_a_wrong_count),
    T(damage_to_a_value_in_use_is_seen_within_a_minute),
    T(flags_that_would_stop_lmdb_are_refused),
    T(check_finds_what_contradicts_itself),
    T(a_keyspace_of_the_first_version_still_opens),
    T(a_newer_format_is_refused),
    T(a_lock_file_has_room_for_all_that_lmdb_may_write_to_it),
    T(few_environments_serve_many_keyspaces),
    T(keyspaces_are_closed_for_others_when_descriptors_run_out),
    T(a_replaced_file_is_opened_anew),
    T(a_replaced_file_is_not_touched_while_others_have_the_old_one),
    T(a_file_that_was_overwritten_in_place_is_not_written_to),
};

TEST_MAIN(tests)
