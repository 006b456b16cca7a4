/* tests/unit/test_runs_sources.c - several runs read as one, against a table:
 * keys that begin alike, that differ behind much that they share, and of the
 * bytes that are least and greatest. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/bytes.h"
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/store/history/runs.h"
#include "tests/lib/memkv.h"
#include "tests/lib/random.h"

#define RUNS_MAX 20
#define KEYS     300
#define LONG     240

struct name {
    uint16_t size;
    uint8_t bytes[HISTORY_KEY_MAX];
};

struct fixture {
    struct random random;
    struct memkv kv;
    struct name names[KEYS]; /* sorted; the first is empty */
    size_t count;
    bool has[RUNS_MAX][KEYS];
    struct run_info runs[RUNS_MAX];
    struct source sources[RUNS_MAX];
    uint64_t words[SOURCES_CAPACITY(RUNS_MAX)],
        least[SOURCES_CAPACITY(RUNS_MAX) / 8];
    uint16_t lowest[SOURCES_CAPACITY(RUNS_MAX)];
};

static int
compare(const void *a, const void *b)
{
    const struct name *x = a, *y = b;

    return bytes_compare(x->bytes, x->size, y->bytes, y->size);
}

/* Keys of few different bytes, some behind a long beginning that others have,
 * too. */
static void
make_names(struct fixture *f)
{
    static const uint8_t alphabet[] = {0x01, 'a', 'b', 0xff};
    struct random *r = &f->random;
    const unsigned letters = 1 + (unsigned)random_below(r, sizeof alphabet);
    size_t kept = 1;

    f->names[0].size = 0;
    for (size_t i = 1; i < KEYS; i++) {
        struct name *n = &f->names[i];
        const size_t shared = random_chance(r, 50) ? random_below(r, LONG) : 0;

        memset(n->bytes, random_chance(r, 90) ? 'a' : 0xff, shared);
        n->size = (uint16_t)(shared + 1 + random_below(r, 16));
        for (size_t j = shared; j < n->size; j++)
            n->bytes[j] =
                alphabet[sizeof alphabet - 1 - random_below(r, letters)];
    }
    qsort(f->names, KEYS, sizeof *f->names, compare);
    for (size_t i = 1; i < KEYS; i++)
        if (compare(&f->names[kept - 1], &f->names[i]) != 0)
            f->names[kept++] = f->names[i];
    f->count = kept;
}

/* A sum tells the run and the key that it is of. */
static void
make_run(struct fixture *f, unsigned run)
{
    const unsigned part = 1 + (unsigned)random_below(&f->random, 100);
    struct history_row row = {.cells = 1};
    struct run_writer w;

    f->runs[run] = (struct run_info){.run = run};
    run_begin(&w, &f->kv.kv, 0, 60, &f->runs[run], f->names[0].bytes, 0);
    for (size_t i = 0; i < f->count; i++) {
        f->has[run][i] = i == 0 || random_chance(&f->random, part);
        if (!f->has[run][i])
            continue;
        row.key = f->names[i].bytes;
        row.key_size = f->names[i].size;
        row.sums[0] = (int128)(run * KEYS + i);
        assert_rc(run_add(&w, &row), 0);
    }
    assert_rc(run_end(&w, NULL, 0), 0);
}

/* All runs stand on the i-th key, if they have it, and no others do. */
static void
assert_at(const struct fixture *f, const struct sources *l, unsigned runs,
          size_t i)
{
    bool seen[RUNS_MAX] = {false};

    for (size_t j = 0; j < l->lowest_count; j++) {
        const struct source *s = sources_lowest(l, j);
        const size_t run = (size_t)(s - f->sources);

        assert_int_equal(s->block.key_size, f->names[i].size);
        assert_memory_equal(s->block.key, f->names[i].bytes, f->names[i].size);
        assert_int_equal(rows_sum(&s->block, 1), run * KEYS + i);
        seen[run] = true;
    }
    for (unsigned run = 0; run < runs; run++)
        assert_int_equal(seen[run], f->has[run][i]);
}

static bool
anyone_has(const struct fixture *f, unsigned runs, size_t i)
{
    for (unsigned run = 0; run < runs; run++)
        if (f->has[run][i])
            return true;
    return false;
}

/* From some key on, to the end. */
static void
read_all(struct fixture *f, unsigned runs)
{
    size_t i =
        random_chance(&f->random, 50) ? 0 : random_below(&f->random, f->count);
    struct sources l = {.count = runs,
                        .all = f->sources,
                        .words = f->words,
                        .least = f->least,
                        .lowest = f->lowest};

    memset(f->sources, 0, sizeof f->sources);
    for (unsigned run = 0; run < runs; run++)
        assert_rc(source_open(&f->sources[run], &f->kv.kv, 0, 60, &f->runs[run],
                              f->names[i].bytes, f->names[i].size),
                  0);
    sources_begin(&l);
    for (; i < f->count; i++) {
        if (!anyone_has(f, runs, i))
            continue;
        assert_true(l.left > 0);
        assert_at(f, &l, runs, i);
        assert_rc(sources_next(&l), 0);
    }
    assert_int_equal(l.left, 0);
    assert_int_equal(l.lowest_count, 0);
}

TEST(runs_are_read_in_the_order_of_their_keys)
{
    const uint64_t seed = random_seed("sources");
    static struct fixture f;

    for (unsigned round = 0; round < 400; round++) {
        unsigned runs;

        f.random.state = seed + round;
        runs = 1 + (unsigned)random_below(&f.random, RUNS_MAX);
        memkv_init(&f.kv);
        make_names(&f);
        for (unsigned run = 0; run < runs; run++)
            make_run(&f, run);
        read_all(&f, runs);
        read_all(&f, runs);
        memkv_fini(&f.kv);
    }
}
