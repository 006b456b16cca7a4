/* tests/e2e/example_master.c - an example: the master of a board.
 *
 *     example_master FILE SLOTS SHARED PRIVATE [NAME...]
 *
 * Makes the board, prints a line, and stays until a signal ends it.  With
 * private integers each slot has one cell, and the first slot gets a value in
 * each of its parts.
 *
 *     cc example_master.c -lcountd
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "countd_board.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
    char error[COUNTD_BOARD_ERROR_SIZE] =
        "usage: example_master FILE SLOTS SHARED PRIVATE [NAME...]";
    struct countd_board_shape shape = {.size = sizeof shape};
    const int64_t shared[COUNTD_BOARD_VALUES_MAX] = {1};
    const struct countd_board_value value = {.index = 0, .value = 6};
    struct countd_board_change change = {.values = &value, .count = 1};
    struct countd_board *b;
    int rc = 0;

    if (argc >= 5) {
        shape.slots = (uint32_t)strtoul(argv[2], NULL, 10);
        shape.shared_count = (uint32_t)strtoul(argv[3], NULL, 10);
        shape.private_count = (uint32_t)strtoul(argv[4], NULL, 10);
        shape.cells = shape.private_count > 0;
        shape.names = argc > 5 ? (const char *const *)argv + 5 : NULL;
    }
    if (argc < 5 || countd_board_create(&b, argv[1], &shape, error) < 0) {
        (void)fprintf(stderr, "%s\n", error);
        return 1;
    }
    if (shape.cells > 0)
        rc = countd_board_update(b, 0, 0, shared, &change);
    if (rc < 0 || puts("ready") < 0 || fflush(stdout) != 0)
        return 1;
    (void)pause();
    return 0;
}
