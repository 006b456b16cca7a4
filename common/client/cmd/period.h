/* common/client/cmd/period.h - countd top and rank of a period. */
#ifndef COUNTD_COMMON_CLIENT_CMD_PERIOD_H
#define COUNTD_COMMON_CLIENT_CMD_PERIOD_H

#include "common/client/cmd/cmd.h"

/* Whether the line asks about a period. */
bool period_is_asked(const struct cmd_line *line);

/* `length` rows of it, the rank of a key in it; an exit status. */
int period_top(const struct cmd_line *line, int64_t length);
int period_rank(const struct cmd_line *line);

#endif
