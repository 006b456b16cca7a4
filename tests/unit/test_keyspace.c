/* tests/unit/test_keyspace.c - common/store.h on LMDB: what is applied is
 * there exactly once and in order, whatever happens in between. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/keyspace.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

static const uint8_t hash_key[16] = "0123456789abcde";
static const uint8_t *const ks = (const uint8_t *)"pages";
#define KS ks, 5

/* ---- the model: an array sorted by key --------------------------------------
 */

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

    if (sum == 0)
        return;
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

/* ---- random numbers and keys
 * -------------------------------------------------- */

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

/* ---- batches
 * -------------------------------------------------------------------- */

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

/* ---- comparing
 * ------------------------------------------------------------------- */

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
compare_ranks(struct store_view *v, const struct model *m)
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
            store_view_range(v, at, length, bytes, sizeof bytes, &rows);
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

        assert_rc(
            store_view_rank(v, sorted[pick].key, sorted[pick].size, &rank), 0);
        assert_int_equal(rank, pick);
    }
    free(sorted);
}

static void
compare_all(struct store *s, struct model *m)
{
    struct compare c = {.m = m};
    struct store_totals t;
    struct store_view *v;
    uint64_t rows, flagged = 0;
    uint8_t bytes[300];

    assert_rc(store_view_open(s, KS, &v), 0);
    assert_rc(store_view_totals(v, &t), 0);
    assert_int_equal(t.keys, m->count);
    assert_true(t.sum_high == (int64_t)(m->sum >> 64));
    assert_true(t.sum_low == (uint64_t)m->sum);
    assert_rc(store_view_scan(v, NULL, 0, compare_row, &c), 0);
    assert_int_equal(c.at, m->count);
    for (size_t i = 0; i < m->count; i++)
        flagged += m->counters[i].saturated ? 1 : 0;
    assert_int_equal(t.saturated, flagged);
    compare_ranks(v, m);
    assert_rc(store_view_range(v, m->count, 5, bytes, sizeof bytes, &rows), 0);
    assert_int_equal(rows, 0);
    for (int i = 0; i < 20; i++) {
        uint8_t key[256];
        const uint16_t size = make_key(key, below(100000), (int)below(3));
        const struct counter *want = model_find(m, key, size);
        struct store_row got;

        assert_rc(store_view_get(v, key, size, &got), want ? 0 : -ENOENT);
        if (want != NULL)
            assert_true(got.count == want->count);
    }
    store_view_close(v);
}

/* ---- the store of a test
 * -------------------------------------------------------- */

static struct store *
open_store(const struct tmpdir *d, size_t txn_memory, bool writable)
{
    const struct store_options options = {
        .keyspace_fd = d->fd,
        .hash_key = hash_key,
        .keyspace_size = 256,
        .key_size = 256,
        .writable = writable,
        .open_max = 4,
        .txn_memory = txn_memory,
    };
    struct store *s;

    assert_rc(store_open(&s, &options), 0);
    return s;
}

static void
print_fault(void *ctx, const char *text)
{
    (void)ctx;
    print_error("fault: %s\n", text);
}

static void
check_clean(struct store *s)
{
    struct store_check_result r;

    assert_rc(store_check(s, KS, print_fault, NULL, &r), 0);
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
    struct store *s = open_store(d, sh->txn_memory, true);
    struct model m = {.counters = NULL};

    for (unsigned round = 0; round < sh->rounds; round++) {
        struct store_applied applied;
        struct batch_keys b;

        batch_make(&b, 1 + below(sh->batch), sh->span, sh->shape, sh->most,
                   sh->huge);
        assert_rc(
            store_apply(s, KS, NULL, NULL, 0, b.deltas, b.count, &applied), 0);
        model_apply(&m, &b);
        batch_free(&b);
        if (round % 7 == 6 || round + 1 == sh->rounds) {
            compare_all(s, &m);
            check_clean(s);
        }
    }
    store_close(s);
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(counts_and_order_equal_the_model),
};

TEST_MAIN(tests)
