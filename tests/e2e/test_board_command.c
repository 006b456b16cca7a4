/* tests/e2e/test_board_command.c - countd board, and the example: the
 * transcript board_command.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/board_command.txt", argc, argv);
}
