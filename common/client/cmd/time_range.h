/* common/client/cmd/time_range.h - the time that a question is about, and what
 * is said when it has no answer.
 *
 * What history keeps is of whole steps, so a span is widened to some: -2h at
 * 10:07:12 by minutes begins at 08:07. */
#ifndef COUNTD_COMMON_CLIENT_CMD_TIME_RANGE_H
#define COUNTD_COMMON_CLIENT_CMD_TIME_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/setup/time_text.h"

/* Of --from (default: a day ago) and --to (now).  Says what is wrong; an exit
 * status. */
int time_range_read(const struct cmd_line *line, struct time_range *out);

/* Unix seconds as a cell: for people a time in `text`, else the number. */
struct cell time_range_cell(const struct output *o, int64_t seconds, bool utc,
                            char *text);

/* For people: what came before `since` may be missing; 0: nothing is said. */
void time_range_report_since(const struct output *o, int64_t since,
                             int64_t from, bool utc);

/* Says what an error of a question about the past means; an exit status. */
int time_range_failed(const struct cmd_line *line, int rc);

#endif
