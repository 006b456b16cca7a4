/* tests/bench/bench_board.c - reading a row and updating it, by one process and
 * by two, on many rows and on one; beside the algorithm that such boards had
 * before, written plainly, and beside the least that a board can do.
 *
 *     bench_board [--quick]
 *
 * One of what is counted is a read and an update that was accepted.
 *
 * Before: a spin lock word that is incremented and tested for 1, the integers,
 * a generation behind them, which is read and raised by atomic additions;
 * integers are plain loads and stores.  A process that meets another there
 * gives up after 10000 tries.
 *
 * Least: a word that is odd during an update and one compare-and-swap, in one
 * cache line, inlined.  Nothing is checked, and a process that dies in the
 * middle leaves half an update and blocks its row for ever.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/board/countd_board.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"

#define SHARED  4
#define PRIVATE 2
#define ROWS    1000
#define TRIES   10000
#define RUN     256 /* updates between two looks at the clock */

struct outcome {
    uint64_t accepted, refused;
    double seconds;
};

/* Reads and updates a row; true: accepted. */
typedef bool (*update_row)(void *board, uint32_t row);

/* ---- this board -------------------------------------------------------- */

static bool
update_board(void *board, uint32_t row)
{
    int64_t values[SHARED];
    uint64_t generation;

    if (countd_board_read(board, row, values, &generation) < 0)
        return false;
    values[0]++;
    return countd_board_update(board, row, generation, values, NULL) == 0;
}

/* ---- the one before ---------------------------------------------------- */

struct before_row {
    _Atomic int64_t lock;
    _Atomic int64_t shared[SHARED];
    _Atomic int64_t generation;
    _Atomic int64_t values[PRIVATE];
};

static bool
update_before(void *board, uint32_t row)
{
    struct before_row *r = (struct before_row *)board + row;
    int64_t values[SHARED], generation;
    unsigned tries = 0;
    bool accepted;

    for (int i = 0; i < SHARED; i++)
        values[i] = atomic_load_explicit(&r->shared[i], memory_order_relaxed);
    generation = atomic_load_explicit(&r->generation, memory_order_relaxed);
    values[0]++;
    while (atomic_fetch_add(&r->lock, 1) != 0) {
        atomic_fetch_sub(&r->lock, 1);
        if (++tries > TRIES)
            return false;
    }
    accepted = atomic_fetch_add(&r->generation, 0) == generation;
    if (accepted) {
        for (int i = 0; i < SHARED; i++)
            atomic_store_explicit(&r->shared[i], values[i],
                                  memory_order_relaxed);
        atomic_fetch_add(&r->generation, 1);
    }
    atomic_fetch_sub(&r->lock, 1);
    return accepted;
}

/* ---- the least --------------------------------------------------------- */

struct least_row {
    _Alignas(64) _Atomic uint64_t word;
    _Atomic int64_t shared[SHARED];
};

static bool
update_least(void *board, uint32_t row)
{
    struct least_row *r = (struct least_row *)board + row;
    int64_t values[SHARED];
    uint64_t word;

    do {
        word = atomic_load_explicit(&r->word, memory_order_acquire);
        for (int i = 0; i < SHARED; i++)
            values[i] =
                atomic_load_explicit(&r->shared[i], memory_order_acquire);
    } while (word % 2 == 1 ||
             atomic_load_explicit(&r->word, memory_order_relaxed) != word);
    values[0]++;
    if (!atomic_compare_exchange_strong(&r->word, &word, word + 1))
        return false;
    for (int i = 0; i < SHARED; i++)
        atomic_store_explicit(&r->shared[i], values[i], memory_order_release);
    atomic_store_explicit(&r->word, word + 2, memory_order_release);
    return true;
}

/* ---- running ----------------------------------------------------------- */

static void
run_one(update_row update, void *board, uint32_t rows, uint64_t seed,
        uint64_t ns, struct outcome *out)
{
    const uint64_t since = clock_ns();
    uint64_t accepted = 0, tried = 0, now;

    do {
        for (int i = 0; i < RUN; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            accepted += update(board, (uint32_t)((seed >> 32) * rows >> 32));
        }
        tried += RUN;
        now = clock_ns();
    } while (now < since + ns);
    *out = (struct outcome){accepted, tried - accepted,
                            (double)(now - since) / 1e9};
}

/* Memory that processes share. */
static void *
share_memory(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

/* Accepted per second of all, in millions; *refused is a share. */
static double
run_processes(update_row update, void *board, unsigned processes, uint32_t rows,
              uint64_t ns, double *refused)
{
    struct outcome *all = share_memory(4096);
    uint64_t accepted = 0, tried = 0;
    double rate = 0;

    for (unsigned i = 0; i < processes; i++)
        if (bench_fork() == 0) {
            run_one(update, board, rows, 0x9e3779b97f4a7c15u + i, ns, &all[i]);
            _exit(0);
        }
    for (unsigned i = 0; i < processes; i++)
        (void)wait(NULL); /* its outcome is all zero when it failed */
    for (unsigned i = 0; i < processes; i++) {
        accepted += all[i].accepted;
        tried += all[i].accepted + all[i].refused;
        rate += (double)all[i].accepted / all[i].seconds;
    }
    *refused = tried == 0 ? 0 : (double)(tried - accepted) / (double)tried;
    (void)munmap(all, 4096); /* it is mapped */
    return rate / 1e6;
}

static struct countd_board *
make_board(char path[64])
{
    const struct countd_board_shape s = {.size = sizeof s,
                                         .slots = ROWS,
                                         .shared_count = SHARED,
                                         .private_count = PRIVATE,
                                         .cells = 1};
    char error[COUNTD_BOARD_ERROR_SIZE];
    struct countd_board *b;

    (void)snprintf(path, 64, "/dev/shm/bench-board-%d", (int)getpid());
    if (countd_board_create(&b, path, &s, error) < 0)
        fail_msg("%s", error);
    return b;
}

enum { BOARD, BEFORE, LEAST, WAYS };

static const update_row ways[WAYS] = {
    [BOARD] = update_board, [BEFORE] = update_before, [LEAST] = update_least};

static void
compare_ways(void *boards[WAYS], unsigned processes, uint32_t rows,
             bool is_quick)
{
    static const char *const names[WAYS] = {"board", "a lock and copies",
                                            "least"};
    static const struct table table = {names, WAYS, "M/s", 1};
    struct figures f[WAYS] = {{.value = {.count = 0}}};
    double refused[WAYS] = {0};
    char row[64];

    for (int i = 0; i < (is_quick ? 1 : 7); i++)
        for (int w = 0; w < WAYS; w++)
            figures_add(&f[w],
                        run_processes(ways[w], boards[w], processes, rows,
                                      is_quick ? 50000000 : 400000000,
                                      &refused[w]),
                        NULL);
    (void)snprintf(row, sizeof row, "board, %u process%s, %u row%s", processes,
                   processes == 1 ? "" : "es", rows, rows == 1 ? "" : "s");
    figures_report(row, &table, f);
    printf("  refused:");
    for (int w = 0; w < WAYS; w++)
        printf(" %.1f %%", 100 * refused[w]);
    printf("\n");
}

int
main(int argc, char **argv)
{
    const bool is_quick = bench_begin(argc, argv);
    void *boards[WAYS];
    char path[64];

    boards[BOARD] = make_board(path);
    boards[BEFORE] = share_memory(ROWS * sizeof(struct before_row));
    boards[LEAST] = share_memory(ROWS * sizeof(struct least_row));
    printf("a read and an update of %d integers, millions of both accepted a "
           "second\n",
           SHARED);
    compare_ways(boards, 1, ROWS, is_quick);
    compare_ways(boards, 2, ROWS, is_quick);
    compare_ways(boards, 1, 1, is_quick);
    compare_ways(boards, 2, 1, is_quick);
    countd_board_close(boards[BOARD]);
    (void)unlink(path); /* it was made here */
    return 0;
}
