/* common/setup/datadir.h - the data directory: makes and checks it.
 *
 * Creates what is missing (folders 0700), refuses what cannot work: another
 * owner, group- or other-writable folders, network file systems, no hard
 * links, no flock between two opens.  It warns of a file
 * system on which sync has no effect (tmpfs).  Each refusal is a message with
 * its remedy.  An existing directory on a full disk is not refused: checks that
 * need free space are skipped.  An unfinished backup is refused.
 *
 * Ownership: struct datadir is the caller's between open and close.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_DATADIR_H
#define COUNTD_COMMON_SETUP_DATADIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/net/local.h"

/* A folder of this name is in the directory while countd backup fills it, and
 * stays when that is killed: such a directory is refused. */
#define DATADIR_PARTIAL "backup.partial"

struct datadir {
    const char *path; /* borrowed: outlives it */
    int fd;           /* the directory itself */
    int log_fd;       /* log/ */
    int keyspace_fd;  /* keyspace/ */
    int archive_fd;   /* archive/, -1 unless it is there or asked for */
    int live_fd;      /* live/, -1 with DATADIR_READ */
};

enum datadir_need { DATADIR_WRITE, DATADIR_READ };

/* Opens (DATADIR_WRITE: makes) the directory at `path`.  Says why not through
 * diag and returns -errno: -EPERM wrong owner or mode, -ENOTSUP records of an
 * earlier version that this one does not read, -EOPNOTSUPP file
 * system, -ENOENT (READ: not made yet; WRITE: nowhere to make it), or what a
 * call said. */
int datadir_open(struct datadir *d, const char *path, enum datadir_need need);
void datadir_close(struct datadir *d);

/* Warns of a file system that may lose the directory.  For countd-write alone:
 * once is enough. */
void datadir_warn(const struct datadir *d);

/* Whether the directory is complete, for a process that only reads and waits
 * for another to make it. Also true if waiting is useless: datadir_open() then
 * reports why. */
bool datadir_is_made(const char *path);

/* For root, before it becomes that user: makes the directory itself, theirs,
 * if there is nothing at `path`.  Errors as above; datadir_open() looks at
 * what is there. */
int datadir_make_for(const char *path, uid_t uid, gid_t gid);

/* The status to exit with when datadir_open() refused: 100 when the settings
 * or the directory must be changed first (a missing parent, another owner, a
 * mode, no directory, the wrong file system), 111 when the same may work later.
 * A directory that is not there yet may come for those who only read. */
int datadir_exit_status(int rc, enum datadir_need need);

/* The name of a user as sudo -u takes it.  Returns text. */
#define DATADIR_USER_SIZE 64
const char *datadir_format_user(uid_t uid, char text[DATADIR_USER_SIZE]);

/* Makes archive/ if need be and sets archive_fd; says why not. */
int datadir_archive(struct datadir *d);

/* Makes socket/ if need be, for sockets that the group of `socket.group` may
 * use, or the owner alone when `group` is empty, and opens it: *out is the
 * caller's to close, and borrows the path.  On a full disk there are none:
 * out->fd is -1.  Reports why not. */
int datadir_sockets(const struct datadir *d, const char *group,
                    struct local_folder *out);

/* Takes data/log/writer: flock held as long as *fd is open, our pid inside.
 * -EBUSY when another countd-write has it (its pid in *pid). */
int datadir_writer_lock(const struct datadir *d, int *fd, long *pid);

/* The pid of the living countd-write of this directory, or 0.  Negative: the pid
 * is one of another namespace, where another process has this number. */
long datadir_writer_pid(const struct datadir *d);

#endif
