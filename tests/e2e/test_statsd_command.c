/* tests/e2e/test_statsd_command.c - countd statsd: the transcript
 * statsd_command.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/statsd_command.txt", argc, argv);
}
