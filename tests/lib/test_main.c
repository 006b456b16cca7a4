/* tests/lib/test_main.c - main() of the files of tests that have none. */
#include "tests/lib/test.h"

int
main(int argc, char **argv)
{
    return test_main(argc, argv);
}
