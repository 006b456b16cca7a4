/* tests/e2e/test_privilege.c - daemons that root starts become another user:
 * the transcript privilege.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/privilege.txt", argc, argv);
}
