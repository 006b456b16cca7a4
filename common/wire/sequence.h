/* common/wire/sequence.h - sequence numbers as text: 16 characters of 6 bits.
 *
 *   at   size  field
 *    0      2  index: how many characters the four fields have, 3 bits each;
 *              "aR" for 1, 2, 6, 5
 *    2      1  reserve, 0 to 63
 *    3      2  server_no, 0 to 4095
 *    5      6  second, Unix time, until the year 4147
 *   11      5  serial, 1 to 2^30 - 1
 *
 * The characters are 0-9, a-z, A-Z, '-' and '_' for 0 to 63, the most
 * significant first.  Their order as bytes is not that of the numbers.
 *
 * Pure; no threads.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_SEQUENCE_H
#define COUNTD_COMMON_WIRE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEQUENCE_SIZE       16
#define SEQUENCE_SECOND_MAX ((UINT64_C(1) << 36) - 1)
#define SEQUENCE_SERIAL_MAX ((UINT32_C(1) << 30) - 1)

#define SEQUENCE_TEXT_SIZE 256 /* an explanation, with its end */

/* Fields of up to 7 characters, as others may have made them. */
struct sequence_parts {
    uint64_t reserve, server_no, second, serial;
};

/* The beginning that all numbers of a server have. */
#define SEQUENCE_PREFIX 5

void sequence_prefix(char to[SEQUENCE_PREFIX], unsigned reserve,
                     unsigned server_no);

static const char sequence_alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz"
                                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/* `count` characters of a number. */
static inline void
sequence_digits(char *to, uint64_t value, int count)
{
    while (count-- > 0) {
        to[count] = sequence_alphabet[value & 63];
        value >>= 6;
    }
}

/* Reads what a text begins with; the rest is ignored.  False: it is too short,
 * or has another character. */
bool sequence_parse(const char *text, size_t size, struct sequence_parts *out);

/* The explanation as a line, in local time (call tzset() once before):
 *
 *   reserve: 2  server_no: 1  secondstamp: 1492962986 (2017-04-23 23:56:26)
 *   serial_no: 2
 *
 * but in one line, and two blanks between.  Returns its size, or 0 when there
 * is no such date. */
size_t sequence_explain(const struct sequence_parts *p,
                        char to[SEQUENCE_TEXT_SIZE]);

#endif
