/* writer/sequence_mark.h - the mark of a sequence: a second below which numbers
 * may have been given, in a file of its own.
 *
 * The mark is durable before a number below it is given.  Each move overwrites
 * it: it lies in one sector, so that a crash leaves the old mark or the new one.
 *
 *   at   size  field of live/sequence-RESERVE-SERVER_NO
 *    0      8  magic "COUNTDS2"
 *    8      4  reserve, little-endian as all below
 *   12      4  server_no
 *   16      8  until: Unix time in seconds
 *   24     16  0; the identity of the file in earlier versions
 *   40      4  crc32 of the 40 bytes before
 *   44         end
 *
 * Ownership: the caller's, between open and close. One thread at a time. The
 * writer's lock on the data directory makes sure that no other process moves the
 * mark.  Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_SEQUENCE_MARK_H
#define COUNTD_WRITER_SEQUENCE_MARK_H

#include <stdint.h>

#define SEQUENCE_MARK_NAME_SIZE 32

struct sequence_mark {
    int fd; /* -1: not open */
    char name[SEQUENCE_MARK_NAME_SIZE];
    uint32_t reserve, server_no;
    uint64_t until; /* seconds; no number at or above it was ever given */
};

/* Opens or makes the file in folder `dirfd`, and reads the mark, which is 0 in a
 * new one.  sequence_mark_close() in any case.
 *   -EBADMSG  the mark is damaged */
int sequence_mark_open(struct sequence_mark *m, int dirfd, uint32_t reserve,
                       uint32_t server_no);
void sequence_mark_close(struct sequence_mark *m);

/* Makes `until` the mark, durably. After an error either mark may be on disk;
 * m->until is then still the old one. */
int sequence_mark_move(struct sequence_mark *m, uint64_t until);

#endif
