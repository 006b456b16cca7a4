/* tests/e2e/test_load_once.c - countd load --once: the transcript
 * load_once.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/load_once.txt", argc, argv);
}
