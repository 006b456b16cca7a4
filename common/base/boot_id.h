/* common/base/boot_id.h - which boot of the machine this is.
 *
 * What a process wrote survives its death without a sync, but not the end of
 * the boot (loss of power, a crash of the kernel).  So the recovery of a log or
 * journal asks whether it was written in this boot.  Thread-safe.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_BOOT_ID_H
#define COUNTD_COMMON_BASE_BOOT_ID_H

#include <stdbool.h>
#include <stdint.h>

#define BOOT_ID_SIZE 16

/* The id of this boot; all zero if /proc is not available. */
const uint8_t *boot_id_get(void);

/* Whether `id` is that of this boot; false if either is all zero. */
bool boot_id_is_this(const uint8_t id[BOOT_ID_SIZE]);

#endif
