/* tests/e2e/test_held_command.c - countd held: the transcript
 * held_command.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/held_command.txt", argc, argv);
}
