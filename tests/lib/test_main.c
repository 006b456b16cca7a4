/* tests/lib/test_main.c - main() of the files of tests that have none. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

int
main(int argc, char **argv)
{
    return test_main(argc, argv);
}
