/* tests/e2e/test_event_time.c - increments with the time of their event: the
 * transcript event_time.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/event_time.txt", argc, argv);
}
