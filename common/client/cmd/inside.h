/* common/client/cmd/inside.h - a command inside the data directory: its
 * folders, the store, and what is held for it.
 *
 * Daemons may run beside it.  Who writes must be their user, as must who
 * reads.
 *
 * Ownership: struct inside is the caller's between open and close.
 */
#ifndef COUNTD_INSIDE_H
#define COUNTD_INSIDE_H

#include <stdbool.h>

#include "common/client/cmd/cmd.h"
#include "common/client/cmd/kept.h"
#include "common/setup/datadir.h"
#include "common/store/lmdb/held.h"
#include "common/store/store.h"

struct inside {
    struct datadir dir;
    struct store *store;
    struct held *held;
};

/* Opens all of it by the settings, which must have the message sizes of the
 * directory.  History stays as it is: none begins and none ends.  Says what is
 * wrong and returns an exit status. */
int inside_open(const struct cmd_line *line, bool writable, struct inside *out);

/* The same, writable, of a directory that is made if it is not there.  History
 * is kept as the settings say: as by a worker. */
int inside_make(const struct cmd_line *line, struct inside *out);
void inside_close(struct inside *in);

/* The store of one folder of keyspaces of this directory; a copy has the same
 * names.  0 or -errno. */
int inside_store(const struct cmd_line *line, const struct inside *in,
                 int keyspace_fd, bool writable, struct store **out);

/* Who made the store's last drop or deletion say -EAGAIN; 0: cannot tell. */
long inside_holder(const struct inside *in);

/* What is held in a directory.  0 or -errno. */
int inside_held(int data_fd, bool writable, struct held **out);

#endif
