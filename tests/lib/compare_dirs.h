/* tests/lib/compare_dirs.h - whether two data directories hold the same.
 *
 *     compare_dirs_replay(&fleet, target);
 *     compare_dirs(fleet.path, target, true);
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_COMPARE_DIRS_H
#define COUNTD_TESTS_LIB_COMPARE_DIRS_H

#include <stdbool.h>

#include "tests/lib/fleet.h"

/* Replays the archive of a fleet's directory into another one, which may be
 * new; fails the test when a log is missing or damaged there.  False: nothing
 * is archived, and nothing counted. */
bool compare_dirs_replay(struct fleet *f, const char *target);

/* Fails the test unless both have the same keyspaces and keys with the same
 * counts and flags, and the same history by the default tiers, from the same
 * time on: every bucket of each keyspace; and of each key, those of the last
 * hour or, `deep`, all.
 * No process may write to them. */
void compare_dirs(const char *path, const char *other, bool deep);

#endif
