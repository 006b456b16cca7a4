/* writer/quota/journal_note.h - the note of a quota journal's end: how many of
 * its records are durable, in a file beside it.
 *
 *   at   size  field of live/quota-end; integers are little-endian
 *    0      8  magic "COUNTDE1"
 *    8     16  uuid of the journal
 *   24     16  0; a boot id in earlier versions
 *   40      8  end: records of the journal that are durable
 *   48      8  inode of the journal
 *   56      8  creation time of the journal in ns, 0 if it has none
 *   64      4  generation of the journal
 *   68      4  crc32 of the 68 bytes before
 *   72         end
 *
 * The note is written after each sync of the journal and before any answer that
 * depends on it: all records before its end were durable.  The note itself is
 * synced only when changes pause and at a stop: when the power or the disk was
 * lost it may be an older one, which is still true, or be missing.  So it is
 * never believed that nothing durable follows its end, not in the same boot
 * either, which the page cache need not have survived.
 *
 * live/quota-seen is a second note with the same bytes, written and synced
 * after each sync of the first, at a start and at a stop.  It shows that the
 * journal and its note were both put back, or both removed.
 *
 * Ownership: the caller's, between open and close. Any thread, one at a time.
 * Errors: 0 or a negative errno; text goes to diag. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_JOURNAL_NOTE_H
#define COUNTD_WRITER_QUOTA_JOURNAL_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/files.h"

#define JOURNAL_NOTE_NAME "quota-end"
#define JOURNAL_SEEN_NAME "quota-seen"
#define JOURNAL_NOTE_SIZE 72

struct journal_note {
    int fd;           /* -1: not open */
    const char *name; /* of the file */
    uint8_t uuid[16]; /* of the journal, as the next two */
    uint8_t id[FILE_IDENTITY_SIZE];
    uint32_t generation;
    uint64_t end; /* as it was found; 0: not known */
    bool is_copy; /* the journal was put in place of another */
    bool is_synced;
};

/* Whether there is a file of this name: the journal, or a note. */
int journal_file_exists(int dirfd, const char *name, bool *exists);

/* Opens or makes the note of the journal behind `journal_fd`, and reads it. A
 * note that is damaged, or of another journal, is reported and taken for none.
 */
int journal_note_open(struct journal_note *n, int dirfd, const char *name,
                      int journal_fd, const uint8_t uuid[16],
                      uint32_t generation);
void journal_note_close(struct journal_note *n);

/* The journal is now the file behind `journal_fd`. */
int journal_note_follow(struct journal_note *n, int journal_fd,
                        uint32_t generation);

/* `end` records of the journal are durable. The note is in the page cache when
 * this returns. */
int journal_note_write(struct journal_note *n, uint64_t end);

/* Syncs the note. A failure only means that the note may be lost with the
 * power; it is reported. */
void journal_note_sync(struct journal_note *n);

#endif
