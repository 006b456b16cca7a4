/* common/setup/tiers.h - how fine history is kept and for how long: the
 * settings `history` and `history.NAME`.
 *
 * `1m:2d,1h:90d,1d:10y` is three tiers of step:keep, the finest first.  A
 * period is what a tier is written and removed by: the hours of a day, the
 * minutes of an hour.  A step is minutes that divide an hour, hours that divide
 * a day, or whole days, and the step of the next tier is a multiple of it, so
 * that a period lies in one step of the next tier.  All times are minutes since
 * 1970, of UTC, so weeks begin on a Thursday.
 *
 * Ownership: plain data.  Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_TIERS_H
#define COUNTD_COMMON_SETUP_TIERS_H

#include <stddef.h>
#include <stdint.h>

#include "common/setup/name_pattern.h"

#define TIERS_MAX       4
#define TIERS_CELLS_MAX 64 /* steps in a period */

struct tier {
    uint32_t step, period, keep; /* minutes */
};

/* The finest first; none: no history. */
struct tiers {
    unsigned count;
    struct tier tier[TIERS_MAX];
};

/* Reads "1m:2d,1h:90d", or "off".  -EINVAL with what is wrong in *why. */
int tiers_parse(const char *text, struct tiers *out, const char **why);

struct tiers_rules {
    struct tiers all;
    struct name_patterns names;
    struct tiers tiers[NAME_PATTERNS_MAX]; /* of these */
};

/* Sets what holds for all (`name` NULL), for the keyspace `name`, or with a
 * trailing * for those that begin so.  Names are escaped as everywhere.
 * -EINVAL, -E2BIG with *why. */
int tiers_rules_set(struct tiers_rules *r, const char *name, const char *text,
                    const char **why);

/* What holds for a keyspace: its own, else the longest pattern's, else that of
 * all. */
const struct tiers *tiers_of(const struct tiers_rules *r, const uint8_t *name,
                             size_t size);

#endif
