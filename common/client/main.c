/* common/client/main.c - the `countd` command; cmd.h says how it is made. */
#include "common/client/cmd.h"

int
main(int argc, char **argv)
{
    return cmd_main(argc, argv);
}
