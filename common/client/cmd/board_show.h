/* common/client/cmd/board_show.h - what countd board prints.
 *
 * All of these return an exit status.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_BOARD_SHOW_H
#define COUNTD_COMMON_CLIENT_CMD_BOARD_SHOW_H

#include <stdint.h>

#include "common/board/countd_board.h"
#include "common/client/cmd/cmd.h"

/* Its shape and master, and of all words how many are in an update, left by a
 * process that died, or damaged. */
int board_show_info(const struct cmd_line *line, struct countd_board *b);
int board_show_sum(const struct cmd_line *line, int64_t sum);

/* A row for each integer of the slots from `first` up to `end`. */
int board_show_slots(const struct cmd_line *line, struct countd_board *b,
                     uint32_t first, uint32_t end);

/* The slots that are not zero, again and again, until a key or a signal. */
int board_show_live(struct countd_board *b,
                    const struct countd_board_shape *shape);

#endif
