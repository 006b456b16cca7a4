/* tests/lib/counted.c - see counted.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/counted.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/store/lmdb/lmdb_store.h"
#include "tests/lib/engines.h"
#include "tests/lib/fault.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"
#include "tests/lib/test.h"

uint64_t rng;

/* ---- the model ---- */

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

struct counter *
model_find(struct model *m, const uint8_t *key, uint16_t size)
{
    struct counter wanted = {.size = size};

    memcpy(wanted.key, key, size);
    return m->count == 0
               ? NULL
               : bsearch(&wanted, m->counters, m->count, sizeof wanted, by_key);
}

/* One summed change, to be found in `m` or appended behind `sorted`. */
static void
model_add(struct model *m, size_t sorted, const uint8_t *key, uint16_t size,
          sum128 sum)
{
    struct model front = {.counters = m->counters, .count = sorted};
    struct counter *c = model_find(&front, key, size);
    sum128 now;

    if (c == NULL) {
        if (m->count == m->room) {
            m->room = m->room * 2 + 1024;
            m->counters =
                test_memory(realloc(m->counters, m->room * sizeof *c));
        }
        c = &m->counters[m->count++];
        memset(c, 0, sizeof *c);
        memcpy(c->key, key, size);
        c->size = size;
    }
    now = (sum128)c->count + sum;
    if (now > INT64_MAX || now < INT64_MIN) {
        c->saturated = true;
        now = now > 0 ? INT64_MAX : INT64_MIN;
    }
    m->sum += now - c->count;
    c->count = (int64_t)now;
}

/* ---- random numbers and keys ---- */

static uint64_t
draw_number(void)
{
    struct random r = {rng};
    const uint64_t next = random_next(&r);

    rng = r.state;
    return next;
}

uint64_t
below(uint64_t n)
{
    return draw_number() % n;
}

/* ---- batches ---- */

static int
delta_compare(const void *a, const void *b)
{
    const struct store_delta *x = a, *y = b;
    const int d = bytes_compare(x->key, x->key_size, y->key, y->key_size);

    return d != 0 ? d : (x->minute > y->minute) - (x->minute < y->minute);
}

/* Key number `id` of a shape. */
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

void
batch_make(struct batch_keys *b, size_t n, uint64_t span, int shape,
           int64_t most, bool huge)
{
    size_t kept = 0;

    b->bytes = test_memory(malloc(n * 256));
    b->deltas = test_memory(malloc(n * sizeof *b->deltas));
    for (size_t i = 0; i < n; i++) {
        struct store_delta *d = &b->deltas[i];
        sum128 sum = (int64_t)below((uint64_t)(2 * most + 1)) - most;

        if (huge && below(4) == 0)
            sum = (below(2) ? 1 : -1) * ((sum128)draw_number() << below(20));
        d->key = b->bytes + i * 256;
        d->key_size = make_key(b->bytes + i * 256, below(span), shape);
        d->minute = (uint32_t)below(2);
        d->sum = sum;
    }
    qsort(b->deltas, n, sizeof *b->deltas, delta_compare);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 ||
            delta_compare(&b->deltas[kept - 1], &b->deltas[i]) != 0)
            b->deltas[kept++] = b->deltas[i];
    b->count = kept;
}

void
batch_free(struct batch_keys *b)
{
    free(b->bytes);
    free(b->deltas);
}

void
model_apply(struct model *m, const struct batch_keys *b)
{
    const size_t sorted = m->count;

    for (size_t i = 0; i < b->count;) {
        const struct store_delta *d = &b->deltas[i];
        sum128 sum = 0;

        for (; i < b->count && b->deltas[i].key_size == d->key_size &&
               memcmp(b->deltas[i].key, d->key, d->key_size) == 0;
             i++)
            sum += b->deltas[i].sum;
        model_add(m, sorted, d->key, d->key_size, sum);
    }
    qsort(m->counters, m->count, sizeof *m->counters, by_key);
}

void
log_make(struct log_batch *l, uint8_t id, uint64_t epoch, size_t n,
         uint64_t span)
{
    memset(l, 0, sizeof *l);
    memset(l->mark.uuid, id, sizeof l->mark.uuid);
    l->mark.epoch = epoch;
    batch_make(&l->keys, n, span, 0, 1000, false);
}

/* Applies the logs whose marks agree with the first of `infos` that is not
 * done with; those get the state AHEAD, which no log here has. */
static int
apply_agreeing(struct store *s, const struct log_batch *logs, size_t n,
               struct store_mark_info *infos)
{
    struct store_mark_info first = {.state = STORE_MARK_AHEAD};
    struct log_fill marks[4] = {{.epoch = 0}};
    struct store_applied applied;
    struct store_delta *deltas;
    size_t count = 0, room = 1, chosen = 0;
    int rc;

    for (size_t i = 0; i < n; i++)
        room += logs[i].keys.count;
    deltas = test_memory(malloc(room * sizeof *deltas));
    for (size_t i = 0; i < n; i++) {
        if (infos[i].state == STORE_MARK_AHEAD ||
            (chosen > 0 && !store_marks_agree(&first, &infos[i])))
            continue;
        first = infos[i];
        infos[i].state = STORE_MARK_AHEAD;
        marks[chosen++] = logs[i].mark;
        for (size_t at = 0; at < logs[i].keys.count; at++) {
            deltas[count] = logs[i].keys.deltas[at];
            deltas[count].minute = (uint32_t)(deltas[count].minute + 2 * i);
            count++;
        }
    }
    qsort(deltas, count, sizeof *deltas, delta_compare);
    rc = chosen > 0
             ? apply_deltas(s, KS, marks, chosen, deltas, count, &applied)
             : 1;
    free(deltas);
    return rc;
}

int
apply_logs(struct store *s, const struct log_batch *logs, size_t n)
{
    struct store_mark_info infos[4];
    struct log_fill marks[4] = {{.epoch = 0}};
    int rc = -ESTALE;

    for (size_t i = 0; i < n; i++)
        marks[i] = logs[i].mark;
    for (int i = 0; i < 100000 && (rc == -ESTALE || rc == -EAGAIN); i++) {
        rc = stored_marks(s, KS_NAME, marks, n, infos);
        for (size_t m = 0; rc == 0 && m < n; m++)
            if (infos[m].state == STORE_MARK_AHEAD)
                return -EOVERFLOW;
        while (rc == 0)
            rc = apply_agreeing(s, logs, n, infos);
        if (rc == -EAGAIN)
            (void)usleep(100); /* as soon as may be */
    }
    return rc == 1 ? 0 : rc;
}

/* ---- stores ---- */

struct store *
open_store(const struct tmpdir *d, size_t txn_memory, bool writable)
{
    struct lmdb_options options = engine_lmdb_options(d->fd);
    struct store *s;

    options.writable = writable;
    options.txn_memory = txn_memory;
    assert_rc(lmdb_store_open(&s, &options), 0);
    return s;
}

struct store_delta
delta(const char *key, int64_t sum)
{
    return stored_delta(key, strlen(key), 0, sum);
}

int
apply_deltas(struct store *s, const uint8_t *name, size_t name_size,
             const struct log_fill *marks, size_t mark_count,
             const struct store_delta *deltas, size_t count,
             struct store_applied *applied)
{
    const struct store_batch batch = {
        .name = name,
        .name_size = name_size,
        .marks = marks,
        .mark_count = mark_count,
        .deltas = deltas,
        .delta_count = count,
    };

    return store_apply(s, &batch, applied);
}

int
apply_keys(struct store *s, uint64_t epoch, unsigned count, size_t size,
           struct store_applied *applied)
{
    const struct log_fill mark = {.uuid = "a log", .epoch = epoch};
    struct store_delta *deltas = test_memory(calloc(count, sizeof *deltas));
    char *keys = test_memory(calloc(count, size + 1));
    int rc;

    for (unsigned i = 0; i < count; i++) {
        char *key = keys + i * (size + 1);

        (void)snprintf(key, size + 1, "key-%0*u", (int)size - 4, i);
        deltas[i] = delta(key, 1);
    }
    rc = apply_deltas(s, KS, &mark, epoch > 0, deltas, count, applied);
    free(keys);
    free(deltas);
    return rc;
}

int
apply_one(struct store *s, const char *name, const char *key, int64_t sum)
{
    return stored_add(s, name, NULL, key, sum);
}

int64_t
get_one(struct store *s, const char *name, const char *key)
{
    struct store_row row = {.count = -777};
    const int rc = stored_get(s, name, key, &row);

    return rc < 0 ? rc : row.count;
}

enum store_mark_state
mark_state(struct store *s, const struct log_fill *mark)
{
    struct store_mark_info info;

    assert_rc(stored_marks(s, KS_NAME, mark, 1, &info), 0);
    return info.state;
}

/* ---- comparing ---- */

/* Looks at all keys, and at their ranks when `sorted` is the model by rank: 512 in
 * each snapshot. */
static void
compare_keys(struct store *s, const struct counter *sorted, size_t count,
             bool ranks)
{
    for (size_t i = 0; i < count; i++) {
        struct store_query q = {.op = ranks && i % 16 == 0 ? STORE_RANK
                                                           : STORE_GET,
                                .name = (const uint8_t *)KS_NAME,
                                .name_size = strlen(KS_NAME),
                                .key = sorted[i].key,
                                .key_size = sorted[i].size};

        assert_rc(store_read(s, &q, NULL, 0), 0);
        assert_true(q.row.count == sorted[i].count);
        assert_int_equal(q.row.saturated, sorted[i].saturated);
        if (q.op == STORE_RANK)
            assert_int_equal(q.rank, i);
        if (i % 512 == 511)
            store_read_end(s);
    }
    store_read_end(s);
}

static void
compare_rows(struct store *s, const struct counter *sorted, size_t count)
{
    static uint8_t bytes[600000];
    size_t at = 0;

    while (at < count) {
        const uint64_t length = 1 + below(2000);
        const int rows =
            stored_range(s, KS_NAME, (int64_t)at, length, bytes, sizeof bytes);
        const uint8_t *p = bytes;

        assert_true(rows > 0 && (uint64_t)rows <= length);
        for (int i = 0; i < rows; i++, at++) {
            assert_true(at < count);
            assert_true(get_le64s(p) == sorted[at].count);
            assert_int_equal(get_le16(p + 8), sorted[at].size);
            assert_memory_equal(p + 10, sorted[at].key, sorted[at].size);
            p += 10 + sorted[at].size;
        }
    }
    assert_int_equal(
        stored_range(s, KS_NAME, (int64_t)count, 5, bytes, sizeof bytes), 0);
}

void
compare_all(struct store *s, struct model *m)
{
    struct counter *sorted =
        test_memory(malloc((m->count + 1) * sizeof *sorted));
    struct store_totals t;
    uint64_t flagged = 0;

    memcpy(sorted, m->counters, m->count * sizeof *sorted);
    qsort(sorted, m->count, sizeof *sorted, by_rank);
    assert_rc(stored_totals(s, KS_NAME, &t), 0);
    assert_int_equal(t.keys, m->count);
    assert_true(t.sum == m->sum);
    for (size_t i = 0; i < m->count; i++)
        flagged += m->counters[i].saturated ? 1 : 0;
    assert_int_equal(t.saturated, flagged);
    compare_keys(s, m->counters, m->count, false);
    compare_keys(s, sorted, m->count, true);
    compare_rows(s, sorted, m->count);
    for (int i = 0; i < 20; i++) {
        char key[257] = {0};
        const uint16_t size =
            make_key((uint8_t *)key, below(100000), (int)below(3));
        const struct counter *want = model_find(m, (uint8_t *)key, size);
        struct store_row got;

        assert_rc(stored_get(s, KS_NAME, key, &got), want ? 0 : -ENOENT);
    }
    free(sorted);
}

void
check_clean(struct store *s)
{
    struct store_check r = {.fault = print_fault};

    assert_rc(store_check(s, KS, &r), 0);
    assert_int_equal(r.faults, 0);
}

/* ---- directories ---- */

void
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

int
in_memory(void **state)
{
    struct tmpdir *d = test_memory(calloc(1, sizeof *d));

    tmpdir_make_in_memory(d);
    *state = d;
    return 0;
}

int
remove_dir(void **state)
{
    fault_clear();
    tmpdir_remove(*state);
    free(*state);
    return 0;
}
