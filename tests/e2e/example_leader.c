/* tests/e2e/example_leader.c - an example: several processes, one leader for
 * each row of a board.
 *
 *     example_master /run/app/leaders 8 2 1 pid term claimed &
 *     example_leader /run/app/leaders &
 *     example_leader /run/app/leaders &
 *
 * Each prints the rows that it leads, and leads them until its standard input
 * ends.  When one dies, the next that looks takes its rows.
 *
 *     cc example_leader.c -lcountd
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "countd_board.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PID, TERM, SHARED };

/* 1: this process leads the row; 0: another does; or an error. */
static int
lead_row(struct countd_board *b, uint32_t row, int64_t *term)
{
    int64_t shared[SHARED];
    uint64_t generation;
    uint32_t cell;
    int rc;

    /* One of those that claim it gets the cell of the row, until it ends. */
    rc = countd_board_claim(b, row, &cell);
    if (rc < 0)
        return rc == -ENOSPC ? 0 : rc;
    do {
        rc = countd_board_read(b, row, shared, &generation);
        if (rc < 0)
            return rc;
        shared[PID] = getpid();
        *term = ++shared[TERM];
        rc = countd_board_update(b, row, generation, shared, NULL);
    } while (rc == -ESTALE);
    return rc < 0 ? rc : 1;
}

int
main(int argc, char **argv)
{
    char error[COUNTD_BOARD_ERROR_SIZE] = "usage: example_leader FILE", byte;
    struct countd_board_info info;
    struct countd_board *b;

    if (argc != 2 || countd_board_attach(&b, argv[1], NULL, 0, error) < 0) {
        (void)fprintf(stderr, "%s\n", error);
        return 1;
    }
    countd_board_info(b, &info);
    for (uint32_t row = 0; row < info.shape.slots; row++) {
        int64_t term;
        const int rc = lead_row(b, row, &term);

        if (rc < 0) {
            (void)fprintf(stderr, "row %u: %s\n", row, strerror(-rc));
            return 1;
        }
        if (rc == 1)
            (void)printf("row %u term %lld\n", row, (long long)term);
    }
    if (fflush(stdout) != 0)
        return 1;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    countd_board_close(b);
    return 0;
}
