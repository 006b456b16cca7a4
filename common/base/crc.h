/* common/base/crc.h - crc32 as zlib computes it, in a quarter of the time.
 *
 * Every slot and every block carries one, so it is the greatest part of the
 * work on a slot and a good part of that on a block.  Pure; no threads. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_CRC_H
#define COUNTD_COMMON_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The crc32 of `size` bytes: equal to zlib's crc32(0, bytes, size). */
uint32_t crc_of(const uint8_t *bytes, size_t size);

#endif
