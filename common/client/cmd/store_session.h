/* common/client/cmd/store_session.h - a command inside the data directory: its
 * folders, the store, and what is held for it.
 *
 * Daemons may run at the same time.  The command must run as their user, even
 * if it only reads.
 *
 * Ownership: struct store_session is the caller's between open and close.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_STORE_SESSION_H
#define COUNTD_COMMON_CLIENT_CMD_STORE_SESSION_H

#include <stdbool.h>

#include "common/client/cmd/cmd.h"
#include "common/client/cmd/unmerged.h"
#include "common/setup/datadir.h"
#include "common/store/held.h"
#include "common/store/store.h"

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

#endif
