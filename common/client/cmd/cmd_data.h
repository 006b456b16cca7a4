/* common/client/cmd/cmd_data.h - what the commands share that work in a data
 * directory.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_CMD_DATA_H
#define COUNTD_COMMON_CLIENT_CMD_CMD_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/client/cmd/cmd.h"
#include "common/log/archive.h"
#include "common/log/logdir.h"
#include "common/setup/datadir.h"
#include "common/store/held.h"
#include "common/store/store.h"
#include "common/wire/message.h"
#include "common/wire/name.h"

/* ---- store session ----------------------------------------------------- */

/* A command inside the data directory: its folders, the store, and what is
 * held for it.
 *
 * Daemons may run at the same time.  The command must run as their user, even
 * if it only reads.
 *
 * Ownership: struct store_session is the caller's between open and close. */

struct store_session {
    struct datadir dir;
    struct store *store;
    struct held *held;
};

/* Opens all of it by the settings, which must have the message sizes of the
 * directory.  Says what is wrong and returns an exit status. */
int store_session_open(const struct cmd_line *line, bool writable,
                       struct store_session *out);

/* The same, writable, of a directory that is made if it is not there. */
int store_session_make(const struct cmd_line *line, struct store_session *out);
void store_session_close(struct store_session *in);

/* The store of one folder of keyspaces of this directory; a copy has the same
 * names.  0 or -errno. */
int store_session_store(const struct cmd_line *line, int keyspace_fd,
                        bool writable, struct store **out);

/* Returns the pid of the process for which the last drop or deletion returned
 * -EAGAIN; 0: unknown. */
long store_session_holder(const struct store_session *in);

/* Opens the held records of a data directory. 0 or -errno. */
int store_session_held(int data_fd, bool writable, struct held **out);

/* ---- wait merged ------------------------------------------------------- */

/* "everything until now is merged": rotate and wait; and waiting for another
 * process that is writing.
 *
 * Opens the data directory by the settings, and waits for merges in one of
 * two ways: with a reader that answers (flush) or by the logs alone (backup,
 * drop, del).
 * The command waits for the logs that contained increments at the time of the
 * call, identified by their fills and not by time: the clock may be set back
 * (see pending_set.h). */

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

/* Waits until `is_done` returns 1.  Has the writer of this directory, if there
 * is one, hand its log on meanwhile (`value` 0) or clear its logs as well
 * (SIGNALS_CLEAR), and warns once when the disk is full.
 *   -EAGAIN  not in time   -EPERM  the writer runs as another user
 *   or what `is_done` returned below 0 */
int wait_until(const struct datadir *d, int value, uint64_t timeout_ms,
               int (*is_done)(void *ctx), void *ctx);

/* An opened view of the logs, for wait_logs(). */
int wait_logs_open(const struct cmd_line *line, int log_fd, struct logdir *out);

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

/* Sleeps a little: 1 ms at first, then longer, at most 50; *pause_ms starts
 * at 0. */
void wait_pause(unsigned *pause_ms);

/* ---- unmerged ---------------------------------------------------------- */

/* Records that countd received and no keyspace contains: quarantined because
 * they are damaged (log/bad-*, held/bad-*), or held because their keyspace
 * cannot take them now.
 *
 * Errors: 0 or a negative errno. */

struct unmerged {
    size_t logs;              /* log/bad-N-EPOCH */
    uint64_t held;            /* records, to be applied when they can be */
    size_t damaged;           /* held/bad-N */
    char log[NAME_TEXT_SIZE]; /* one of each, in text form */
    char keyspace[NAME_TEXT_SIZE];
    char file[NAME_TEXT_SIZE]; /* the damaged one */
};

int unmerged_read(const struct datadir *d, struct held *h,
                  struct unmerged *out);

/* Calls held_refresh(), and waits for a process that is writing. */
int unmerged_snapshot_begin(struct held *h);

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
    uint64_t size; /* of the file, in bytes */
    bool missing;  /* a mark for a log that was not archived */
    int error;     /* its header: 0, -EBADMSG, -EPROTONOSUPPORT, -EIO, ... */
    struct archive_header header; /* from the name if the log is missing or
                                     unreadable */
    uint64_t order_ms;
};

struct archived_list {
    struct archived *logs;
    size_t count, capacity;
    uint64_t size; /* of all files */
};

/* Adds the file `path`, or the archived logs in the folder `path`.
 *   -ENOENT, -ENOTDIR, ...; -EINVAL: the name is not that of an archived log */
int archived_add(struct archived_list *list, const char *path);

/* Sorts the list. Removes the mark of a missing log whose file is in the list,
 * and all but one of several copies of a log. */
void archived_sort(struct archived_list *list);
void archived_free(struct archived_list *list);

/* Opens a log and checks all of it; archived_close() closes *fd, too. */
int archived_open(const struct archived *a, struct archive_reader **out,
                  int *fd);
void archived_close(struct archive_reader *r, int fd);

/* ---- log apply --------------------------------------------------------- */

/* The increments of a log, summed by keyspace, key and minute, and put into a
 * store once.
 *
 *     log_apply_begin(&s, &mark);
 *     rc = log_apply_add(&s, &message, received_ms);
 *     ...
 *     rc = log_apply_apply(&s, store, &how);
 *
 * A worker does the same (worker/fold.h) for many logs at once, at fifty times
 * the speed and in bounded memory.
 *
 * Ownership: struct log_apply is the caller's; all zeros is an empty one.
 * Errors: 0 or a negative errno. */

struct log_apply_record {
    size_t keyspace_at; /* in bytes; the key follows the keyspace */
    uint16_t keyspace_size;
    uint16_t key_size;
    uint32_t minute;
    int64_t increment;
};

struct log_apply {
    struct store_fill mark; /* of the log */
    struct log_apply_record *records;
    size_t count, capacity;
    uint8_t *bytes;
    size_t bytes_size, bytes_capacity;
};

void log_apply_fini(struct log_apply *s);

/* No records, and the next ones are of this fill. */
void log_apply_begin(struct log_apply *s, const struct store_fill *mark);

/* Increments of 0 are left out.  -ENOMEM */
int log_apply_add(struct log_apply *s, const struct message *m,
                  uint64_t received_ms);

/* How many records were applied, held or skipped. */
struct log_apply_result {
    uint64_t merged;  /* records merged by this call */
    uint64_t already; /* records whose fill was merged before */
    uint64_t held;    /* that wait behind what was held for their keyspace */
    uint64_t held_before; /* of these, held before this call */
    uint64_t passed;      /* a later fill of their log is in */
    uint64_t failed;      /* keyspaces that refused */
};

struct log_apply_how {
    struct held *held; /* NULL: nothing is held (a dry run against nothing) */
    bool dry_run;      /* only ask the marks */
    bool go_on;        /* continue after a keyspace that refuses */
    bool pass;         /* skip records whose keyspace has a later fill */
    uint64_t wait_ms;  /* at most, for another process that is writing */
    long (*holder)(void *ctx); /* its pid; NULL: unknown */
    void *ctx;

    /* Says that a keyspace refused, and why: -ERANGE it has a later fill of
     * one of the logs, or another one of the same epoch. */
    void (*refused)(void *ctx, const uint8_t *name, size_t name_size, int rc);
};

/* Sees to it that all records are in, under the mark of their log: what is in
 * already is not put in again, also where some of it is.  Where something is
 * held for a keyspace, its records are held behind that, as a worker does it:
 * applied at once they would bring the mark of their log past those of what
 * is held; only a fill before all that is held of its log is applied.  So the
 * caller lists its logs first and calls this then.  `store` NULL: a dry run
 * against nothing.  Adds to *result. what a keyspace said, unless it goes on
 * behind it; -ENOMEM */
int log_apply_apply(struct log_apply *s, struct store *store,
                    const struct log_apply_how *how,
                    struct log_apply_result *result);

/* ---- purge ------------------------------------------------------------- */

/* Removes the bytes of deleted keys from the files of the data directory. */

/* Orders struct store_key, for qsort(3). */
int purge_compare_keys(const void *a, const void *b);

/* Removes these keys of a keyspace, sorted and each once, from the archived
 * logs and from the unused slots of logs, and prints how many files it changed
 * and each file that it left and that may have one of them.  Waits for logs in
 * use until `deadline_ms` (clock_ms()).  May be repeated.  Returns an exit
 * status: 1 when it left one. */
int purge_files(const struct datadir *d, const struct cmd_name *keyspace,
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

/* Copies live/requests, durably, which backup_live() does not.  A record that is
 * being written is cut in the copy, and does not count. */
int backup_requests(int from_fd, int to_fd);

/* Removes that copy again, but for the secret.  1: there was something, 0 */
int backup_requests_remove(int to_fd);

#endif
