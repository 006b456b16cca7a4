/* tests/lib/twin.h - whether two data directories hold the same.
 *
 *     twin_replay(&fleet, target);
 *     twin_compare(fleet.path, target, true);
 */
#ifndef COUNTD_TESTS_LIB_TWIN_H
#define COUNTD_TESTS_LIB_TWIN_H

#include <stdbool.h>

#include "tests/lib/fleet.h"

/* Replays the archive of a fleet's directory into another one, which may be
 * new; fails the test when a log is missing or damaged there.  False: nothing
 * is archived, and nothing counted. */
bool twin_replay(struct fleet *f, const char *target);

/* Fails the test unless both have the same keyspaces and keys with the same
 * counts and flags, and the same history by the default tiers, from the same
 * time on: every bucket of each keyspace; and of each key, those of the last
 * hour or, `deep`, all.
 * Nobody may write to them. */
void twin_compare(const char *path, const char *other, bool deep);

#endif
