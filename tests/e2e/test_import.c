/* tests/e2e/test_import.c - the recipes of countd-import(7): the transcript
 * import.txt, which has how to connect to PostgreSQL in $PG. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdlib.h>

#include "tests/lib/pg_server.h"
#include "tests/lib/transcript.h"

int
main(int argc, char **argv)
{
    if (pg_server_is_installed() && setenv("PG", pg_server_conninfo(), 1) < 0)
        return 1;
    return transcript_main("tests/e2e/import.txt", argc, argv);
}
