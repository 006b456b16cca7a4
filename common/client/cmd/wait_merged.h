/* common/client/cmd/wait_merged.h - "everything until now is merged": rotate
 * and wait; and waiting for another process that is writing.
 *
 * Opens the data directory by the settings, and waits for merges in one of
 * two ways: with a reader that answers (flush) or by the logs alone (backup,
 * drop, del).
 * The command waits for the logs that contained increments at the time of the
 * call, identified by their fills and not by time: the clock may be set back
 * (see pending_set.h).
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_WAIT_MERGED_H
#define COUNTD_COMMON_CLIENT_CMD_WAIT_MERGED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/client/cmd/cmd.h"
#include "common/log/logdir.h"
#include "common/setup/datadir.h"

/* The data directory as readers open it; root first becomes the daemons' user,
 * if the settings name one.  Warns when nothing names the directory and no
 * writer runs on what is here.  Returns an exit status. */
int wait_datadir(const struct cmd_line *line, struct datadir *d);

/* For a command that uses the reader: whether this user can also read a data
 * directory that, by the settings, this reader serves. False with -H; with a
 * port, true only for a directory that was named. */
bool wait_has_datadir(const struct cmd_line *line);

/* Refuses other message sizes than the logs were written with, and says which
 * to set.  Returns an exit status. */
int wait_sizes(const struct cmd_line *line, const struct datadir *d);

/* Has the writer of this directory, if there is one, hand its log on, but only
 * when WAIT_AGAIN_MS have passed since *last_ms (monotonic; 0: never).  To be
 * called while waiting: a writer that has just been started may not have heard
 * of the first.  0 or -errno. */
#define WAIT_AGAIN_MS 200
int wait_rotate_again(const struct datadir *d, uint64_t *last_ms);

/* An opened view of the logs, for wait_logs(). */
int wait_logs_open(const struct cmd_line *line, int log_fd, struct logdir *out);

/* Has the logs handed on until all that was in one when it was called is
 * merged.  -ETIMEDOUT, or an error. */
int wait_logs(const struct datadir *d, struct logdir *logs,
              uint64_t timeout_ms);

/* The same with a view of its own. */
int wait_merged(const struct cmd_line *line, const struct datadir *d,
                uint64_t timeout_ms);

/* Whether the disk of the data directory that the settings name is full, so
 * that no worker can merge. */
bool wait_is_disk_full(const struct cmd_line *line);

/* Reports why no worker merges, and what to do: the disk is full, or keyspace/
 * is older than log/.  False: neither, nothing is reported. */
bool wait_report_cause(const struct cmd_line *line);

/* To be called while waiting since `since_ms` (clock_ms()): a merge that is
 * late because the disk is full is explained once, and not only at the end. */
void wait_warn_full_disk(const struct datadir *d, uint64_t since_ms,
                         bool *warned);

/* Waiting until another process has written: {.deadline_ms = clock_ms() + ...}
 *
 *     do
 *         rc = store_del(...);
 *     while (wait_turn(&turn, rc, 0));
 *
 * wait_turn() returns true, after some ms, when `rc` says -EAGAIN or -EBUSY and
 * there is time left.  After a second it says for whom it waits (pid; 0: not
 * known). */
struct wait_turn {
    uint64_t deadline_ms; /* clock_ms() */
    uint64_t since_ms;    /* 0: not waiting */
    bool said;
};
bool wait_turn(struct wait_turn *t, int rc, long holder);

/* logfile_open() of a log that may be changing hands: tries again on -EBUSY,
 * for about two seconds. */
int wait_open_log(int log_fd, const char *name);

/* Sleeps so long, or until a signal. */
void wait_ms(unsigned ms);

/* Sleeps a little: 1 ms at first, then longer, at most 50; *pause_ms starts
 * at 0. */
void wait_pause(unsigned *pause_ms);

#endif
