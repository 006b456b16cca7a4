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

/* Refuses other message sizes than the logs were written with, and says which
 * to set.  Returns an exit status. */
int wait_sizes(const struct cmd_line *line, const struct datadir *d);

/* Tells the writer of this directory, if there is one, to hand its log on.
 * 0 or -errno. */
int wait_rotate(const struct datadir *d);

/* The same, but only when WAIT_AGAIN_MS have passed since *last_ms
 * (monotonic; 0: never).  To be called while waiting: an increment of the
 * very millisecond of the first call may have come just behind it, into the
 * next log. */
#define WAIT_AGAIN_MS 200
int wait_rotate_again(const struct datadir *d, uint64_t *last_ms);

/* An opened view of the logs, for wait_logs(). */
int wait_logs_open(const struct cmd_line *line, int log_fd, struct logdir *out);

/* True in *merged when no log holds an increment received at `unix_ms` or
 * before.  0 or an error of the scan. */
int wait_merged(struct logdir *logs, uint64_t unix_ms, bool *merged);

/* Has the logs handed on until wait_merged().  -ETIMEDOUT, or an error. */
int wait_logs(const struct datadir *d, struct logdir *logs, uint64_t unix_ms,
              uint64_t timeout_ms);

/* Sleeps a little: 1 ms at first, then longer, at most 50; *pause_ms starts
 * at 0. */
void wait_pause(unsigned *pause_ms);

#endif
