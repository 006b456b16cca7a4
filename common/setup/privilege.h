/* common/setup/privilege.h - the user and the rights of a daemon.
 *
 * A daemon that is started as root with the setting `user` gives root up for
 * good, once it has bound what only root may:
 *
 *     settings are read                   root
 *     ports below 1024 (bind.h)           root
 *     privilege_become()
 *     the data directory, other ports     user, so all files are the user's
 *     threads, the first byte received
 *
 * No program that a daemon executes can gain rights (no_new_privs), also when
 * an ordinary user started it.
 *
 * The group of `socket.group` is the one that the user keeps, so that the
 * sockets in the data directory can be given to it.
 *
 * Threads: called while there is one; later ones inherit the result.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_PRIVILEGE_H
#define COUNTD_COMMON_SETUP_PRIVILEGE_H

#include "common/setup/config.h"
#include "common/setup/datadir.h"

/* For a daemon that is root although no setting asks for it. */
#define PRIVILEGE_ROOT_WARNING                                                 \
    "running as root is not needed: set user=NAME (user=root silences this)"

/* The group with this name or number.  Reports when there is none: -ENOENT. */
int privilege_find_group(const char *group, gid_t *gid);

/* Whether there are a user and a group of these names; reports when not, and
 * returns the status to exit with, or 0. */
int privilege_check(const struct config *c);

/* Becomes the user.  As root with DATADIR_WRITE, first makes the data directory
 * for the user if it is not there.  Says what is wrong and returns the status
 * to exit with, or 0. */
int privilege_become(const struct config *c, enum datadir_need need);

#endif
