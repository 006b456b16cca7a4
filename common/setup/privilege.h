/* common/setup/privilege.h - the user and the rights of a daemon.
 *
 * A daemon that is started as root with the setting `user` gives root up in
 * two steps, as only root may listen on a port below 1024:
 *
 *     settings are read                   root
 *     privilege_become()                  user, may still bind such ports
 *     the data directory, the ports       so all files are the user's
 *     privilege_drop()                    user, may do nothing special
 *     threads, the first byte received
 *
 * Every daemon takes both steps, also when an ordinary user starts it: no
 * program that it executes can gain rights (no_new_privs), and inherited
 * capabilities are dropped.  Only root without `user` keeps them.
 *
 * The group of `socket.group` is the one that the user keeps, so that the
 * sockets in the data directory can be given to it.
 *
 * Threads: both are called while there is one; later ones inherit the result.
 */
#ifndef COUNTD_COMMON_SETUP_PRIVILEGE_H
#define COUNTD_COMMON_SETUP_PRIVILEGE_H

#include "common/setup/config.h"
#include "common/setup/datadir.h"

/* What a daemon says that is root and was not told to be. */
#define PRIVILEGE_ROOT_WARNING                                                 \
    "runs as root, which it does not need: set user to an ordinary one (or "   \
    "to root, to hear no more of it)"

/* The group with this name or number.  Reports when there is none: -ENOENT. */
int privilege_find_group(const char *group, gid_t *gid);

/* The first step.  As root with DATADIR_WRITE, first makes the data directory
 * for the user if it is not there.  Says what is wrong and returns the status
 * to exit with, or 0. */
int privilege_become(const struct config *c, enum datadir_need need);

/* The second one: 0, or -errno, which it has said. */
int privilege_drop(void);

#endif
