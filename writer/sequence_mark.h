/* writer/sequence_mark.h - the mark of a sequence: before which second numbers
 * may have been given, in a file of two copies.
 *
 * A mark is moved on by writing the first copy and syncing it, then the second.
 * Numbers below it are given only after that; so what is in either copy is at
 * least what was promised, neither a write that a crash cut nor a damaged copy
 * steps back, and one of the two is enough.
 *
 * The file is locked as long as it is open: two processes never give numbers
 * of one server.  It says which inode it is, and when it was written: an older
 * state that somebody put in its place is told by another inode, or by a change
 * (ctime) later than that.  It cannot be told when the same inode was
 * overwritten and the clock set back before.
 *
 *   at   size  field of a copy; the copies are at 0 and 4096
 *    0      8  magic "COUNTDS1"
 *    8      4  reserve, little-endian as all below
 *   12      4  server_no
 *   16      8  generation, +1 each time
 *   24      8  until: Unix time in seconds
 *   32      8  written: Unix time in ms
 *   40      8  inode
 *   48     12  zero
 *   60      4  crc32 of the 60 bytes before
 *   64         end
 *
 * Errors: 0 or a negative errno; text goes to diag.
 */
#ifndef COUNTD_WRITER_SEQUENCE_MARK_H
#define COUNTD_WRITER_SEQUENCE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#define SEQUENCE_MARK_NAME_SIZE 32

struct sequence_mark {
    int fd; /* holds the flock; -1: not open */
    char name[SEQUENCE_MARK_NAME_SIZE];
    uint32_t reserve, server_no;
    uint64_t generation;
    uint64_t until; /* seconds; none at or above it was ever promised */
    uint64_t inode;
    bool replaced; /* somebody may have put an older state in its place */
};

/* Opens or makes the mark in folder `dirfd`.
 *   -EBUSY    another process has it
 *   -EBADMSG  both copies are damaged
 *   -ESTALE   it was replaced, and the clock is behind what is in it
 *   ...       what a call said */
int sequence_mark_open(struct sequence_mark *m, int dirfd, uint32_t reserve,
                       uint32_t server_no);
void sequence_mark_close(struct sequence_mark *m);

/* Both copies say `until` and are durable.  After an error neither may be
 * believed to; the same again writes both again. */
int sequence_mark_move(struct sequence_mark *m, uint64_t until);

#endif
