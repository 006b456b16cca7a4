/* tests/e2e/test_command.c - the countd command: the transcript command.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/command.txt", argc, argv);
}
