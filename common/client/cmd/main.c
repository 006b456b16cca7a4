/* common/client/cmd/main.c - the `countd` command; cmd.h says how it is made.
 */
#include "common/base/bus.h"
#include "common/client/cmd/cmd.h"

int
main(int argc, char **argv)
{
    bus_init("countd");
    return cmd_main(argc, argv);
}
