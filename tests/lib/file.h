/* tests/lib/file.h - files by their paths: a failure fails the test. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_FILE_H
#define COUNTD_TESTS_LIB_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* FOLDER/NAME, valid until eight more are asked for. */
const char *file_path(const char *folder, const char *name, ...)
    __attribute__((format(printf, 2, 3)));

/* All of a file, and a NUL behind it, for which there must be room in `size`;
 * its length. */
size_t file_read(const char *path, void *bytes, size_t size);

/* The same whatever its mode, in memory of its own: free() it. */
uint8_t *file_bytes(const char *path, size_t *size);

/* Makes a file of these bytes, or gives one these. */
void file_put(const char *path, const void *bytes, size_t size);

/* Overwrites bytes of a file that is there, whatever its mode. */
void file_write(const char *path, off_t at, const void *bytes, size_t size);

/* Turns bits of one byte round; below 0 `at` counts from the end. */
void file_flip(const char *path, off_t at, uint8_t bits);

#endif
