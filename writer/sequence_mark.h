/* writer/sequence_mark.h - the mark of a sequence: a second below which numbers
 * may have been given, in a file of its own.
 *
 * The mark is durable before a number below it is given. Each move writes a new
 * file, syncs it and renames it over the old one, so that a crash leaves the
 * old mark or the new one, and never a torn one.
 *
 *   at   size  field of live/sequence-RESERVE-SERVER_NO
 *    0      8  magic "COUNTDS2"
 *    8      4  reserve, little-endian as all below
 *   12      4  server_no
 *   16      8  until: Unix time in seconds
 *   24      8  inode of this file
 *   32      8  creation time of this file in ns, 0 if it has none
 *   40      4  crc32 of the 40 bytes before
 *   44         end
 *
 * A copy of the file has another inode or creation time than it says.
 *
 * Ownership: the caller's. One thread at a time. The writer's lock on the data
 * directory makes sure that no other process moves the mark.
 * Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_SEQUENCE_MARK_H
#define COUNTD_WRITER_SEQUENCE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#define SEQUENCE_MARK_NAME_SIZE 32

struct sequence_mark {
    int dirfd; /* borrowed */
    char name[SEQUENCE_MARK_NAME_SIZE];
    uint32_t reserve, server_no;
    uint64_t until; /* seconds; no number at or above it was ever given */
    bool is_copy;   /* the file was put in place of the one that was written */
};

/* Reads the mark in folder `dirfd`. A mark that does not exist is 0, which is
 * reported when the data directory is in use already.
 *   -EBADMSG  the mark is damaged */
int sequence_mark_read(struct sequence_mark *m, int dirfd, uint32_t reserve,
                       uint32_t server_no);

/* Makes `until` the mark, durably. After an error either mark may be on disk;
 * m->until is then still the old one. */
int sequence_mark_move(struct sequence_mark *m, uint64_t until);

#endif
