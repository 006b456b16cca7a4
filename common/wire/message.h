/* common/wire/message.h - the increment message and the slot of a commit log.
 *
 * A message, as clients send it, all little-endian (default sizes):
 *
 *   at    size  field
 *      0     8  increment  int64
 *      8   256  keyspace   NUL-padded, not NUL-terminated when it is full
 *    264   256  key        NUL-padded, not NUL-terminated when it is full
 *    520        end
 *
 * A time message, which has no names, says of which minute the messages behind
 * it are on its connection; minute 0: of that in which they come:
 *
 *      0     4  minute     Unix time / 60
 *      4     4  "TIME"
 *      8   512  zero
 *
 * Without the tag a client whose bug is empty names would date what follows.
 *
 * A slot is the message followed by what the writer adds:
 *
 *    520     4  epoch        of the log, so that a stale slot never counts
 *    524     4  minute       Unix minute that the increment is of; 0: that of
 *                            received_ms
 *    528     8  received_ms  Unix time, never goes back within a fill
 *    536     4  synced       slots of this log known durable when written
 *    540     4  crc32        see common/log/slot.h
 *    544        end
 *
 * The two name sizes are settings (1 to 256 bytes), so every offset lives in
 * one struct layout, computed once.  Everything here is pure and allocates
 * nothing; parsed names point into the caller's bytes.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_MESSAGE_H
#define COUNTD_COMMON_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_NAME_MAX  256 /* bytes; the limit of both settings */
#define MESSAGE_SIZE_MAX  (8 + 2 * MESSAGE_NAME_MAX)
#define MESSAGE_UUID_SIZE 16
#define MESSAGE_TIME_TAG  UINT32_C(0x454d4954) /* "TIME" */
/* Minutes that no client sends, of the year 2990 on: a connection that begins
 * with one could be a browser's (first_bytes.h). */
#define MESSAGE_TIME_END UINT32_C(0x20000000)
#define LAYOUT_SLOTS_AT  8192 /* where the slots of a log begin */

struct layout {
    uint16_t keyspace_size; /* bytes of the keyspace field */
    uint16_t key_size;      /* bytes of the key field */
    uint32_t key_at;
    uint32_t message_size; /* also where epoch is, and behind it minute */
    uint32_t received_at;
    uint32_t synced_at;
    uint32_t crc_at;
    uint32_t slot_size;
};

struct message {
    int64_t increment;
    const uint8_t *keyspace;
    const uint8_t *key;
    uint16_t keyspace_size; /* 1 to layout's */
    uint16_t key_size;
    uint32_t minute; /* minute that it is of; 0: that of its receipt */
};

/* -ERANGE unless both sizes are 1 to MESSAGE_NAME_MAX. */
int layout_init(struct layout *l, unsigned keyspace_size, unsigned key_size);

/* Parses and checks one message (layout.message_size bytes).
 *   -EBADMSG  empty keyspace or key, or bytes after a name's first NUL */
int message_parse(const struct layout *l, const uint8_t *bytes,
                  struct message *out);

/* Checks the names of a message that was not parsed: message_parse() and this
 * are the only two checks that a record passes.
 *   -EINVAL        an empty name, or one with a NUL
 *   -ENAMETOOLONG  a name longer than its field */
int message_check(const struct layout *l, const struct message *m);

/* Writes one message, padded, after message_check(). */
int message_put(const struct layout *l, const struct message *m,
                uint8_t *bytes);

/* Whether these bytes are a time message; then *minute. */
bool message_is_time(const struct layout *l, const uint8_t *bytes,
                     uint32_t *minute);

void message_put_time(const struct layout *l, uint32_t minute, uint8_t *bytes);

/* Bytes of the NUL-padded name in a field; 0: it is empty, or something follows
 * its first NUL, as where a peer has lost the beginning of its messages. */
uint16_t message_name_size(const uint8_t *field, uint16_t field_size);

/* True when `size` bytes at `at` are all zero. */
bool message_is_zero(const uint8_t *at, size_t size);

#endif
