/* common/client/wait.h - "everything until now is merged": rotate and wait.
 *
 * Opens the data directory by the settings, and waits for merges in one of
 * two ways: as a reader sees it (flush) or as the logs show it (backup, and a
 * clean stop of serve).
 */
#ifndef COUNTD_WAIT_H
#define COUNTD_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/client/cmd.h"
#include "common/datadir.h"
#include "common/logdir.h"

/* The data directory as readers open it.  Returns an exit status. */
int wait_datadir(const struct cmd_line *line, struct datadir *d);

/* Tells the writer of this directory to hand its log on.  *running says
 * whether there is one.  0 or -errno. */
int wait_rotate(const struct datadir *d, bool *running);

/* An opened view of the logs, for wait_oldest(). */
int wait_logs_open(const struct cmd_line *line, int log_fd, struct logdir *out);

/* Waits until no log holds an increment received at `unix_ms` or before.
 *   -ETIMEDOUT, or an error of the scan */
int wait_logs(struct logdir *logs, uint64_t unix_ms, uint64_t timeout_ms);

/* Sleeps a little: 1 ms at first, then longer, at most 50; *pause_ms starts
 * at 0. */
void wait_pause(unsigned *pause_ms);

#endif
