/* tests/e2e/test_live_command.c - countd acquire and countd live: the
 * transcript live_command.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/live_command.txt", argc, argv);
}
