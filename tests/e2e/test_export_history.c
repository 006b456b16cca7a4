/* tests/e2e/test_export_history.c - countd export --history: the transcript
 * export_history.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/export_history.txt", argc, argv);
}
