/* common/client/cmd/time_text.h - times as people type them.
 *
 *     now   -2h   2026-11-20   2026-11-20T14:30   2026-11-20T14:30:05   Unix
 *     seconds
 *
 * A date is its first moment; local time, or UTC. */
#ifndef COUNTD_COMMON_CLIENT_CMD_TIME_TEXT_H
#define COUNTD_COMMON_CLIENT_CMD_TIME_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/client/cmd/cmd.h"
#include "common/setup/time_text.h"

/* The time that an option of the line gives, `def` when it is not there; dates
 * are UTC with --utc.  Says what is wrong; an exit status. */
int time_text_option(const struct cmd_line *line, const char *option,
                     uint64_t now_ms, uint64_t def, uint64_t *ms);

/* "2026-11-20T14:30:05", with a Z behind it in UTC. */
#define TIME_TEXT_SIZE 40
void time_text_format(uint64_t ms, bool utc, char text[TIME_TEXT_SIZE]);

#endif
