/* tests/bench/bench_board.c - reading a row and updating it, by one process and
 * by two, on many rows and on one; beside the algorithm that such boards had
 * before, written plainly.
 *
 *     bench_board [--quick]
 *
 * Before: a spin lock word that is incremented and tested for 1, the values, a
 * generation behind them; reads are plain loads.  A process that meets another
 * there gives up after 10000 tries.
 *
 * Prints, judges nothing. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/board/countd_board.h"
#include "tests/bench/series.h"

#define SHARED  4
#define PRIVATE 2
#define ROWS    1000
#define TRIES   10000
#define RUN     256 /* updates between two looks at the clock */

struct outcome {
    uint64_t accepted, refused;
    double seconds;
};

/* One of the two ways: reads and updates a row; true: accepted. */
struct way {
    const char *name;
    bool (*update)(void *board, uint32_t row);
};

/* ---- this board -------------------------------------------------------- */

static bool
update_board(void *board, uint32_t row)
{
    int64_t values[SHARED];
    uint64_t generation;

    if (countd_board_read(board, row, values, &generation) < 0)
        return false;
    values[0]++;
    return countd_board_update(board, row, generation, values, 0, NULL, 0,
                               NULL) == 0;
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
            atomic_store(&r->shared[i], values[i]);
        atomic_fetch_add(&r->generation, 1);
    }
    atomic_fetch_sub(&r->lock, 1);
    return accepted;
}

/* ---- running ----------------------------------------------------------- */

static void
run_one(const struct way *way, void *board, uint32_t rows, uint64_t seed,
        uint64_t ns, struct outcome *out)
{
    const uint64_t since = clock_ns();
    uint64_t accepted = 0, tried = 0, now;

    do {
        for (int i = 0; i < RUN; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            accepted +=
                way->update(board, (uint32_t)((seed >> 32) * rows >> 32));
        }
        tried += RUN;
        now = clock_ns();
    } while (now < since + ns);
    *out = (struct outcome){accepted, tried - accepted,
                            (double)(now - since) / 1e9};
}

/* Accepted per second of all, in millions; *refused is a share. */
static double
run(const struct way *way, void *board, unsigned processes, uint32_t rows,
    uint64_t ns, double *refused)
{
    struct outcome *all = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t accepted = 0, tried = 0;
    double rate = 0;

    if (all == MAP_FAILED)
        exit(1);
    for (unsigned i = 0; i < processes; i++)
        if (fork() == 0) {
            run_one(way, board, rows, 0x9e3779b97f4a7c15u + i, ns, &all[i]);
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
    if (countd_board_create(&b, path, &s, error, sizeof error) < 0) {
        (void)fprintf(stderr, "%s\n", error);
        exit(1);
    }
    return b;
}

int
main(int argc, char **argv)
{
    static const struct {
        unsigned processes;
        uint32_t rows;
    } cases[] = {{1, ROWS}, {2, ROWS}, {1, 1}, {2, 1}};
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    const uint64_t ns = quick ? 50000000 : 400000000;
    const int rounds = quick ? 1 : 7;
    const struct way ways[2] = {{"board", update_board},
                                {"before", update_before}};
    void *boards[2];
    char path[64];

    boards[0] = make_board(path);
    boards[1] = mmap(NULL, ROWS * sizeof(struct before_row),
                     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (boards[1] == MAP_FAILED)
        return 1;
    (void)printf("read + update of %d integers, millions accepted a second: "
                 "median (min..max)\n",
                 SHARED);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct series s[2] = {{.count = 0}, {.count = 0}};
        double refused[2] = {0, 0};

        for (int i = 0; i < rounds; i++)
            for (int w = 0; w < 2; w++)
                series_add(&s[w], run(&ways[w], boards[w], cases[c].processes,
                                      cases[c].rows, ns, &refused[w]));
        (void)printf("%u process%s, %4u row%s", cases[c].processes,
                     cases[c].processes == 1 ? "  " : "es", cases[c].rows,
                     cases[c].rows == 1 ? " " : "s");
        for (int w = 0; w < 2; w++)
            (void)printf("  %s %.1f (%.1f..%.1f), %.1f%% refused", ways[w].name,
                         series_median(&s[w]), series_min(&s[w]),
                         series_max(&s[w]), 100 * refused[w]);
        (void)printf("  ratio %.1f\n", series_ratio(&s[0], &s[1]));
    }
    countd_board_close(boards[0]);
    (void)unlink(path); /* it was made here */
    return 0;
}
