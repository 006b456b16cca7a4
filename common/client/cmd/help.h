/* common/client/cmd/help.h - what the table of commands says to people and to
 * shells: the overview, a command's help, completions.
 *
 * All of it goes to stdout unless told otherwise; the functions that return
 * an exit status have looked whether stdout took it.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_HELP_H
#define COUNTD_COMMON_CLIENT_CMD_HELP_H

#include <stdio.h>

#include "common/client/cmd/cmd.h"

/* The list of all commands; `out` is stderr where it answers a mistake. */
void help_overview(FILE *out);

/* One command: arguments, options, example. */
int help_print(const struct cmd *c);

/* The status for what has been printed until now. */
int help_printed(void);

#endif
