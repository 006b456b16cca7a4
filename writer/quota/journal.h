/* writer/quota/journal.h - the file that makes quotas durable; its bytes are in
 * journal_record.h.
 *
 * Records are put into the collecting group; begin, sync and end are those
 * of writer/commit.h: one write and one sync a group.
 *
 *     free -> put ... put -> begin -> sync ~~> end
 *
 * The file is made with zeros for all its records, so that a full disk is met
 * before anything is promised, and a sync writes no metadata.  When they are
 * nearly used up, a checkpoint replaces the file by one that begins with the
 * state of the quotas.
 *
 * After each sync the note of the end is written: a journal that has fewer
 * records is damaged, or an older copy.
 *
 *   at   size  field of live/quota-end; integers are little-endian
 *    0      8  magic "COUNTDE1"
 *    8     16  uuid of the journal
 *   24     16  0
 *   40      8  end: records of the journal that are durable
 *   48     16  0
 *   64      4  generation of the journal
 *   68      4  crc32 of the 68 bytes before
 *   72         end
 *
 * All records before the note's end were durable.  It is not synced: after a
 * loss of power it may be an older one, which is still true, or be missing.  So
 * it is never believed that nothing durable follows its end.
 *
 * After a write or a sync that failed it is unknown what is on disk: the caller
 * ends the process, and the next start decides.
 *
 * Ownership: the caller's, between open and close.  One thread at a time,
 * except that the sync runs in the I/O thread while records are put. Errors: 0
 * or a negative errno; text goes to diag. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_JOURNAL_H
#define COUNTD_WRITER_QUOTA_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/quota/journal_record.h"

#define JOURNAL_NAME      "quota"
#define JOURNAL_NOTE_NAME "quota-end"
#define JOURNAL_NOTE_SIZE 72
#define JOURNAL_GROUP     ((size_t)16384) /* records of a group, at most */
/* Bytes of records that are more than the checkpoint before the next one. */
#define JOURNAL_GROWTH ((uint64_t)8 << 20)
#define JOURNAL_CHANGE 8u /* records of a change, at most */

struct journal_group {
    uint8_t *bytes;
    uint64_t first; /* number of its first record */
    size_t count;   /* with GROUP; 0: nothing */
};

struct journal {
    int dirfd; /* borrowed */
    int fd, note_fd;
    struct journal_header head;
    uint64_t records_at; /* byte of the first record in the file */
    struct journal_group groups[2];
    unsigned collecting;
    bool in_flight;
    uint64_t durable; /* records */
    uint64_t size;    /* bytes that are there */
    bool cut;         /* at the start, the rest of a group was */
};

/* What a journal is read into. */
struct journal_reader {
    /* Once, before the records: a journal of this limit, and its checkpoint,
     * which has its checksum; size 0: it has none. */
    int (*begin)(void *ctx, int64_t limit, const uint8_t *checkpoint,
                 size_t size);
    /* Each record but GROUP, in order; ms is that of its group.  Below 0: it
     * cannot be: the file is damaged, or what else it is. */
    int (*take)(void *ctx, const struct journal_record *r, uint64_t ms);
    void *ctx;
};

/* Whether there is a file of this name: the journal, or its note. */
int journal_file_exists(int dirfd, const char *name, bool *exists);

/* Makes one with this limit. */
int journal_make(int dirfd, int64_t limit);

/* Opens and replays the journal.  The rest of a group that was torn is cut off
 * and reported; all records that were read are durable when this returns.
 *   -EBADMSG  the journal is damaged; the message says where
 *   -EPROTO   it is of a later version */
int journal_open(struct journal *j, int dirfd, const struct journal_reader *r);
void journal_close(struct journal *j);

/* Records that may be put now. */
size_t journal_free(const struct journal *j);
void journal_put(struct journal *j, const struct journal_record *r);

/* All that was put is durable. */
static inline bool
journal_is_durable(const struct journal *j)
{
    return !j->in_flight && j->groups[j->collecting].count == 0;
}

/* Begins the group that collects, which may be empty: its sync then does
 * nothing. */
void journal_begin(struct journal *j, uint64_t now_ms);
int journal_sync(struct journal *j);
void journal_end(struct journal *j, int rc);

/* Whether the zeros are nearly used up. */
bool journal_needs_checkpoint(const struct journal *j);

/* Replaces the file by one that begins with the state after all records up to
 * `end`, which are durable, and has no records. An error that leaves the old
 * file in place is reported and is 0; after another one the journal has to be
 * opened again. */
int journal_checkpoint(struct journal *j, uint64_t end, const uint8_t *state,
                       size_t size);

#endif
