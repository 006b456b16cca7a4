/* common/wire/name.h - names as text, and keyspace names as file names.
 *
 * A name is 1 to 256 bytes, any but NUL.  Two encodings:
 *
 *   text       for people, tables and `countd load`: printable ASCII and valid
 *              UTF-8 that can be seen as they are, else \t \n \r \\ and \xHH;
 *              round-trips
 *   file name  for data/keyspace: the name itself where it is [a-z0-9_.-], at
 *              most 120 bytes and does not start with a dot; else %x and its
 *              bytes in lower-case hex up to 60 bytes; else %h and 32 hex
 *              digits of SipHash-2-4-128, with a key that is public.
 *              '%' never starts a plain name, so the three cannot meet.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_NAME_H
#define COUNTD_COMMON_WIRE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_MAX_SIZE  256
#define NAME_TEXT_SIZE (4 * NAME_MAX_SIZE + 1) /* escaped, with NUL */
#define NAME_FILE_SIZE 132 /* longest file name without suffix, with NUL */

/* How a request and its answer have names: as they are in JSON and in queries,
 * in the text form in lines; or everywhere the one, or the other. */
enum name_form { NAMES_USUAL, NAMES_RAW, NAMES_TEXT };

/* The form that the word "raw" or "text" means.  False: it is neither. */
bool name_form_read(const void *word, size_t size, enum name_form *form);

static inline bool
name_form_is_raw(enum name_form form, bool are_lines)
{
    return form == NAMES_RAW || (form == NAMES_USUAL && !are_lines);
}

/* Writes the text form and a NUL; `text` holds 4 * size + 1 bytes.
 * Returns its length. */
size_t name_escape(const uint8_t *name, size_t size, char *text);

/* The text form of the first NAME_SHOWN_MAX bytes of what came from outside,
 * for a message; "..." when there are more.  Returns text. */
#define NAME_SHOWN_MAX  64
#define NAME_SHOWN_SIZE (4 * NAME_SHOWN_MAX + 4)
const char *name_show(const void *bytes, size_t size,
                      char text[NAME_SHOWN_SIZE]);

/* Reads the text form of `length` bytes into at most `max` bytes.
 * Returns the size, -EINVAL for a bad escape, -ENAMETOOLONG. */
int name_unescape(const char *text, size_t length, uint8_t *name, size_t max);

/* The same for names of live resources, which may have NUL (\x00) too. */
int name_unescape_any(const char *text, size_t length, uint8_t *name,
                      size_t max);

/* Writes the file name and a NUL into `file` (NAME_FILE_SIZE).  Two long names
 * that share one could only be made on purpose, in some 2^64 tries: the second
 * keyspace is then refused, as the full name is inside the file. */
void name_to_file(const uint8_t *name, size_t size, char *file);

/* The name behind a file name (no suffix).  Returns its size,
 * -ENOKEY for %h names (the full name is inside the file),
 * -EINVAL when no keyspace file is called so. */
int name_from_file(const char *file, uint8_t name[NAME_MAX_SIZE]);

/* SipHash-2-4 with 128 bits of output (Aumasson, Bernstein 2012). */
void name_siphash128(const uint8_t key[16], const void *bytes, size_t size,
                     uint8_t out[16]);

#endif
