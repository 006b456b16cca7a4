/* common/base/state_file.h - small files of state: a magic of 8 bytes, what the
 * owner keeps, and the crc32 of both.
 *
 * Such a file lies in one sector, so that a loss of power leaves it as it was
 * or as it is written.  Headers and records that are a part of a file have the
 * same form.  `size` is that of all, and `magic` is NULL where there is none.
 *
 * Errors: 0 or a negative errno; says nothing. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_STATE_FILE_H
#define COUNTD_COMMON_BASE_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a file, once more if it does not check: a file system may give half of
 * what another process is writing just then.
 *   -ENOENT  it is empty   -EBADMSG  it has another size or magic, or damage */
int state_read(int fd, uint8_t *bytes, size_t size, const char *magic);

/* Fills in magic and checksum, and writes them: not durable yet. */
int state_write(int fd, uint8_t *bytes, size_t size, const char *magic);

/* The same in memory. */
bool state_is_good(const uint8_t *bytes, size_t size, const char *magic);
void state_seal(uint8_t *bytes, size_t size, const char *magic);

#endif
