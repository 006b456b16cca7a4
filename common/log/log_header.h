/* common/log/log_header.h - the names of a commit log and the bytes of its
 * headers.
 *
 * File: header A at 0, header B at 4096, slots from 8192 (LOG_SLOTS_AT).  The
 * header blocks are written alternately, with generation + 1; the valid one
 * with the highest generation rules.  Header bytes, little-endian:
 *
 *   at    size  field
 *      0     8  magic          "COUNTDL1"
 *      8     4  version        1
 *     12     4  features       1: slots may be marks (mark.h); 2: slots may have
 *                              a minute; an unknown bit: refuse
 *     16    16  uuid           random, of the file
 *     32     8  index          the ten digits
 *     40     8  generation     +1 per header write
 *     48     8  epoch          +1 per fill; below 2^32
 *     56     4  state          enum log_state
 *     60     4  slot_size
 *     64     4  slots
 *     68     2  keyspace_size
 *     70     2  key_size
 *     72     8  count          slots, when SEALED
 *     80     8  first_ms       received_ms of slot 0, when SEALED
 *     88     8  last_ms        of the last slot, when SEALED
 *     96    16  boot_id        of the machine when written
 *    112     8  pid
 *    120     4  marks          of the slots, when SEALED; 0 without feature 1
 *    124     4  crc32 of bytes 0 to 123; the rest of the block is zero, and a
 *               header with anything else there is not valid
 *
 * No function here has effects.  Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_LOG_HEADER_H
#define COUNTD_COMMON_LOG_LOG_HEADER_H

#include <stdint.h>

#include "common/wire/message.h"

#define LOG_HEADER_SIZE 128  /* bytes used of each header block */
#define LOG_BLOCK_SIZE  4096 /* a header block */
#define LOG_SLOTS_AT    LAYOUT_SLOTS_AT
#define LOG_NAME_SIZE   11 /* ten digits and NUL */
#define LOG_LOCK_SIZE   16 /* "lock-" and the name */
#define LOG_BAD_SIZE    40 /* "bad-NNNNNNNNNN-EPOCH", ".1" if that is taken */
#define LOG_INDEX_MAX   9999999999

/* A feature: a program that does not know it refuses the log. */
#define LOG_HAS_MARKS 1u
#define LOG_HAS_TIMES 2u
#define LOG_FEATURES  (LOG_HAS_MARKS | LOG_HAS_TIMES) /* that are known here */

#define LOG_EPOCH_MAX                                                          \
    UINT32_MAX /* a log that had this many fills is replaced */

enum log_state { LOG_EMPTY = 0, LOG_OPEN = 1, LOG_SEALED = 2 };

#define LOG_MODE_EMPTY 0400
#define LOG_MODE_FULL  0200
#define LOG_MODE_OWNED 0600

struct log_header {
    uint8_t uuid[MESSAGE_UUID_SIZE];
    uint64_t index;
    uint32_t features; /* LOG_HAS_... */
    uint64_t generation;
    uint64_t epoch;
    enum log_state state;
    struct layout layout; /* of the slots */
    uint32_t slots;

    /* On disk only if it is SEALED; in a struct log also of what was appended.
     */
    uint32_t count;    /* slots */
    uint32_t marks;    /* marks among them */
    uint64_t first_ms; /* received_ms of slot 0 */
    uint64_t last_ms;
    uint8_t boot_id[16];
    uint64_t pid;
};

void log_name(uint64_t index, char name[LOG_NAME_SIZE]);
void log_lock_name(uint64_t index, char name[LOG_LOCK_SIZE]);

void log_header_put(const struct log_header *h, uint8_t bytes[LOG_BLOCK_SIZE]);

/* Parses a header.
 *   -EBADMSG          magic, checksum, sizes or padding are wrong
 *   -EPROTONOSUPPORT  valid, but of a newer version or with unknown features */
int log_header_get(const uint8_t bytes[LOG_BLOCK_SIZE], struct log_header *out);

/* Slots that fit into a log of `log_size` bytes. */
uint32_t log_slots(uint64_t log_size, const struct layout *l);

#endif
