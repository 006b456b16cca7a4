/* common/client/cmd/log_list.h - countd log list: all commit logs, by what
 * their names, modes, headers and, where one is being filled, slots say.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_LOG_LIST_H
#define COUNTD_COMMON_CLIENT_CMD_LOG_LIST_H

#include "common/client/cmd/cmd.h"
#include "common/setup/datadir.h"

/* Only looks; logs may change hands meanwhile.  Returns an exit status. */
int log_list(struct cmd_line *line, const struct datadir *d);

#endif
