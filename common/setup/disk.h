/* common/setup/disk.h - what a file system must be able to do.
 *
 * Errors: 0 or a negative errno.  Nothing here prints.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_DISK_H
#define COUNTD_COMMON_SETUP_DISK_H

#include <stdint.h>

/* Whether a file system (f_type of statfs) will do: 0 yes, 1 with a warning,
 * -EOPNOTSUPP no.  *why then says what is wrong with it. */
int disk_check_type(uint64_t type, const char **why);

/* Tries in a folder what the commit logs live on: hard links, flock between
 * two opens, syncs.
 *   -EPERM, -EOPNOTSUPP, -EMLINK  there are no hard links
 *   -ENOLCK                       flock does not exclude
 *   -ENOSPC, -EDQUOT              no room to try */
int disk_probe(int dirfd);

#endif
