/* common/client/cmd/main.c - the `countd` command; cmd.h says how it is made.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/sigbus.h"
#include "common/client/cmd/cmd.h"

int
main(int argc, char **argv)
{
    sigbus_init("countd");
    return cmd_main(argc, argv);
}
