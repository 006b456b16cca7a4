/* common/client/cmd/cmd_data.h - what the commands share that work in a data
 * directory.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_CMD_DATA_H
#define COUNTD_COMMON_CLIENT_CMD_CMD_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/client/cmd/cmd.h"
#include "common/log/archive.h"
#include "common/log/logdir.h"
#include "common/log/waiting.h"
#include "common/setup/datadir.h"
#include "common/store/store.h"
#include "common/store/waiting_table.h"
#include "common/wire/message.h"
#include "common/wire/name.h"

/* ---- store session ----------------------------------------------------- */

/* A command inside the data directory: its folders, the store, and what waits
 * for it.
 *
 * Daemons may run at the same time.  The command must run as their user, even
 * if it only reads.
 *
 * Ownership: struct store_session is the caller's between open and close. */

struct store_session {
    struct datadir dir;
    struct store *store;
    struct waiting waiting;
};

enum store_session_need {
    SESSION_READ,
    SESSION_WRITE,
    SESSION_MAKE /* to write, and a directory that is not there is made */
};

/* Opens all of it by the settings, which must have the message sizes of the
 * directory.  Says what is wrong and returns an exit status. */
int store_session_open(const struct cmd_line *line,
                       enum store_session_need need, struct store_session *out);
void store_session_close(struct store_session *in);

/* The store of one folder of keyspaces of this directory; a copy has the same
 * names.  0 or -errno. */
int store_session_store(const struct cmd_line *line, int keyspace_fd,
                        bool writable, struct store **out);

/* Whether a listed name is that of a file, for the name in it is damaged, or
 * another file's: no other call finds it. */
bool store_session_is_file(const uint8_t *name, size_t size);

/* Returns the pid of the process for which the last drop or deletion returned
 * -EAGAIN; 0: unknown. */
long store_session_holder(const struct store_session *in);

/* ---- wait merged ------------------------------------------------------- */

/* "everything until now is merged": rotate and wait; and waiting for another
 * process that is writing.
 *
 * Opens the data directory by the settings, and waits for merges in one of
 * two ways: with a reader that answers (flush) or by the logs alone (backup,
 * drop, del).  The command waits for the logs that contained increments at the
 * time of the call, identified by their fills and not by time: the clock may be
 * set back (see pending.h). */

/* The data directory as readers open it; root first becomes the daemons' user,
 * if the settings name one.  Warns when nothing names the directory and no
 * writer runs on what is here.  Returns an exit status. */
int wait_datadir(const struct cmd_line *line, struct datadir *d);

/* For a command that uses the reader: whether this user can also read a data
 * directory that, by the settings, this reader serves. False with -H; with a
 * port, true only for a directory that was named. */
bool wait_has_datadir(const struct cmd_line *line);

/* Waits until `is_done` returns 1.  Has the writer of this directory, if there
 * is one, hand its log on meanwhile (`value` 0) or clear its logs as well
 * (SIGNALS_CLEAR), and warns once when the disk is full.
 *   -EAGAIN  not in time   -EPERM  the writer runs as another user
 *   or what `is_done` returned below 0 */
int wait_until(const struct datadir *d, int value, uint64_t timeout_ms,
               int (*is_done)(void *ctx), void *ctx);

/* An opened view of the logs, for wait_logs(). */
int wait_logs_open(const struct cmd_line *line, int log_fd, struct logdir *out);

/* 1: a log has increments that are not merged; 0, or -errno. */
int wait_is_pending(const struct cmd_line *line, int log_fd);

/* Waits until all that was in a log when it was called is merged, as
 * wait_until(). */
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

/* The same of keyspace/ alone. */
bool wait_report_older(const struct cmd_line *line);

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
    bool reported;
};
bool wait_turn(struct wait_turn *t, int rc, long holder);

/* logfile_open() of a log that may be changing hands: tries again on -EBUSY,
 * for about two seconds. */
int wait_open_log(int log_fd, const char *name);

/* Sleeps so long, or until a signal. */
void wait_ms(unsigned ms);

/* ---- unmerged ---------------------------------------------------------- */

/* Increments that countd received and no keyspace contains: quarantined because
 * they are damaged (log/bad-*, log/waiting/bad-*), or waiting because their
 * keyspace does not take them now.
 *
 * Errors: 0 or a negative errno. */

struct unmerged {
    size_t logs;              /* log/bad-N-EPOCH */
    uint64_t fills;           /* waiting fills, counted for each keyspace */
    size_t damaged;           /* log/waiting/bad-... */
    char log[NAME_TEXT_SIZE]; /* one of each, in text form */
    char keyspace[NAME_TEXT_SIZE];
    char file[NAME_TEXT_SIZE]; /* the damaged one */
};

/* Without a store every fill that waits counts, also where a keyspace has it
 * already. */
int unmerged_read(const struct datadir *d, struct waiting *w, struct store *s,
                  struct unmerged *out);

/* Calls waiting_list(), and waits while files are being replaced. */
int unmerged_list(struct waiting *w);

/* A warning for each kind there is; `what` begins it: "not readable". */
void unmerged_warn(const struct unmerged *k, const char *what);

/* ---- archived ---------------------------------------------------------- */

/* Archived logs, in an order in which they can be applied: by time, and of
 * each log by epoch, whatever the clock did.
 *
 * From files, folders of them, and data directories (then their archive/).
 * Only names and headers are read: damage behind the header shows when the log
 * is read.
 *
 * Ownership: the list belongs to the caller, read to free.  Errors: 0 or a
 * negative errno; reports each through diag. */

struct archived {
    char *path;
    uint64_t size; /* bytes of the file */
    bool missing;  /* a mark for a log that was not archived */
    int error;     /* its header: 0, -EBADMSG, -EPROTONOSUPPORT, -EIO, ... */
    struct archive_header header; /* from the name if the log is missing or
                                     unreadable */
    uint64_t order_ms;
};

struct archived_list {
    struct archived *logs;
    size_t count, capacity;
    uint64_t size; /* bytes of all files */
};

/* Adds the file `path`, or the archived logs in the folder `path`.
 *   -ENOENT, -ENOTDIR, ...; -EINVAL: the name is not that of an archived log */
int archived_add(struct archived_list *list, const char *path);

/* Sorts the list. Removes the mark of a missing log whose file is in the list,
 * and all but one of several copies of a log. */
void archived_sort(struct archived_list *list);

/* Sorts it by fill, and whether it has one of this epoch, by then. */
void archived_sort_fills(struct archived_list *list);
bool archived_has(const struct archived_list *list, const uint8_t *uuid,
                  uint64_t epoch);
void archived_free(struct archived_list *list);

/* Checks all of a log, then visits its records. */
int archived_each(const struct archived *a, slot_visit *visit, void *ctx);

/* Says why a log cannot be read. */
void archived_report(const char *path, int rc);

/* ---- place ------------------------------------------------------------- */

/* Files of log/waiting/ that a command brings, a fill each; a worker merges
 * them.
 *
 * What a keyspace has of a fill, or of a later one of its log, as its marks say,
 * is left out, and so is what waits for it already.
 *
 * Ownership: struct place is the caller's; zeros and its first members make it
 * one.  What waits is listed at its first fill.  Errors: 0 or a negative errno.
 */

struct place {
    struct store_session *in;       /* NULL: a dry run against nothing */
    bool dry_run;                   /* only ask the marks */
    struct increment_name keyspace; /* size 0: all */
    /* Reports a keyspace that has a later or another fill of the log, and gets
     * nothing of this one.  NULL: it does if it has an earlier one. */
    void (*ahead)(const uint8_t *name, size_t name_size);

    /* Increments of all fills. */
    uint64_t wanted;  /* to be merged, by this command or before */
    uint64_t already; /* merged before */
    uint64_t passed;  /* a later fill of their log is in */
    uint64_t waiting; /* of those wanted, after place_merge() */
    uint64_t names_ahead;
    bool has_other; /* of one of them a keyspace has another fill */
    bool is_listed; /* what waits */
    bool unread;    /* the last fill could not be read: nothing came of it */

    struct log_fill fill;
    /* Keyspaces; notes are their increments in the fill that are to be placed. */
    struct name_table names;
    struct log_fill *fills; /* fills that are wanted */
    size_t fill_count, fill_capacity;
};

/* Places a fill: its file is durable, its name included, or there is none. */
int place_fill(struct place *p, const struct archive_header *h,
               const struct waiting_source *from);

/* Places an archived log. */
int place_archived(struct place *p, const struct archived *log);

/* Runs a worker until nothing can be merged, and counts what waits.  Returns an
 * exit status: 1 if something does. */
int place_merge(struct place *p, const struct cmd_line *line);
void place_fini(struct place *p);

/* ---- daemons ----------------------------------------------------------- */

/* Program, -f FILE, -o, -d or -u with its value, an option with one, NULL. */
#define CMD_DAEMON_ARGS (1 + 2 + 2 * CONFIG_SOURCES_MAX + 2 + 1)

/* The path of a daemon: programs that were built or installed together run
 * together.  Falls back to the bare name, which execvp() looks for in $PATH.
 * `path` has PATH_MAX bytes. */
void cmd_daemon_path(const char *program, char *path);

/* Its command line, which has the sources of our own and one more option. */
void cmd_daemon_args(const struct config_sources *s, const char *program,
                     const char *option, const char *value,
                     const char *args[CMD_DAEMON_ARGS]);

/* ---- purge ------------------------------------------------------------- */

/* Removes the bytes of deleted keys from the files of the data directory. */

/* Orders struct store_key, for qsort(3). */
int purge_compare_keys(const void *a, const void *b);

/* Removes these keys of a keyspace, sorted and each once, from the archived
 * logs, from the unused slots of logs, and from fills that wait for other
 * keyspaces alone, and prints how many files it changed and each file that it
 * left and that may have one of them.  Waits for logs in use until `deadline_ms`
 * (clock_ms()).  May be repeated.  Returns an exit status: 1 when it left one. */
int purge_files(struct store_session *in, const struct increment_name *keyspace,
                const struct store_key *keys, size_t count,
                uint64_t deadline_ms);

/* ---- backup live ------------------------------------------------------- */

/* The copy of live/ in a backup: quotas, sequence marks and requests with an
 * Idempotency-Key.
 *
 * The daemons change these files meanwhile.  A sequence mark is valid at any
 * moment.  The quota journal is cut where its note ends that was read before:
 * what the copy has is the state of that moment.
 *
 * Errors: 0 or a negative errno. */

/* Copies live/ of the data directory `from_fd` into that of `to_fd`, durably.
 * There may be none. */
int backup_live(int from_fd, int to_fd);

/* Copies live/requests, durably, which backup_live() does not; or (`fills` not
 * NULL, archived_sort_fills()) adds the records of these fills, some of which may
 * be in the copy already, which does no harm.  A record that is being written is
 * not in the copy. */
int backup_requests(int from_fd, int to_fd, const struct archived_list *fills);

/* Removes that copy again, except the secret.  1: there was one, 0 */
int backup_requests_remove(int to_fd);

/* ---- backup kept ------------------------------------------------------- */

/* Places in log/waiting/ of a copy what its keyspaces lack of the fills that
 * were merged while it was made (common/log/kept.h), and copies the records of
 * their requests.  `copy` is the copy, without live/; `to_fd` its directory.
 *   -EBADMSG, ...: a fill cannot be read */
int backup_kept(int from_fd, const char *kept_path, struct store_session *copy,
                int to_fd);

/* Leaves out of log/waiting/ of a copy what was dropped while it was made: what
 * neither waits here for its keyspace nor is in it. */
int backup_dropped(struct store_session *in, struct waiting *copy);

#endif
