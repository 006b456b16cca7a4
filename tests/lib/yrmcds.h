/* tests/lib/yrmcds.h - a yrmcds, where it is installed, to compare with.
 *
 * Its counter protocol listens on a free port of loopback; it is a child that
 * ends with the test.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_YRMCDS_H
#define COUNTD_TESTS_LIB_YRMCDS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

struct yrmcds {
    struct tmpdir dir;
    struct daemon daemon;
    uint16_t port;
};

/* False when there is none on this machine. */
bool yrmcds_installed(void);

/* Fails the test unless it serves within seconds. */
void yrmcds_start(struct yrmcds *y, unsigned buckets);

/* Harmless when it was never started, if *y was zero. */
void yrmcds_end(struct yrmcds *y);

#endif
