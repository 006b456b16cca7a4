/* tests/e2e/test_package.c - the Debian packages: the transcript package.txt.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/package.txt", argc, argv);
}
