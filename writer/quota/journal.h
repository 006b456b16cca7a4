/* writer/quota/journal.h - the file that makes quotas durable; its bytes are in
 * journal_record.h.
 *
 * Records are put into the collecting group; begin, sync and end are those
 * of writer/commit.h: one write and one sync a group.
 *
 *     free -> put ... put -> begin -> sync ~~> end
 *
 * The file is zero ahead of what is written (journal_extend), so that a full
 * disk is met before anything is promised, and a sync writes no metadata.
 *
 * After each sync the note of the end (journal_note.h) is written: a journal
 * that has fewer records is damaged, or an older copy.
 *
 * When a write or sync fails, what is on disk is unknown. The group is then
 * overwritten with zeros and synced: if that works, it is certain that none of
 * it counts (`erased`), and its requests may be refused; otherwise they get no
 * answer. Either way the memory is ahead of the file: the caller opens a new
 * journal, which reads the file again and makes what it has durable.
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

#include "writer/quota/journal_note.h"
#include "writer/quota/journal_record.h"

#define JOURNAL_NAME  "quota"
#define JOURNAL_GROUP ((size_t)16384)    /* records of a group, at most */
#define JOURNAL_FIRST ((size_t)1 << 18)  /* bytes of a new file */
#define JOURNAL_AHEAD (2 * JOURNAL_STEP) /* zeros after a checkpoint */
/* Zeros made at once, and bytes of records before a checkpoint.  A request that
 * waits for a sync may wait for either, too: with 800 requests in flight one in
 * 400 does with these sizes, and one in 50 with an eighth of them. */
#define JOURNAL_STEP   ((size_t)349525 * JOURNAL_RECORD_SIZE)
#define JOURNAL_GROWTH ((uint64_t)8 << 20)
#define JOURNAL_CHANGE 8u /* records of a change, at most */

struct journal_group {
    uint8_t *bytes;
    uint64_t first; /* number of its first record */
    size_t count;   /* with GROUP; 0: nothing */
};

struct journal {
    int dirfd; /* borrowed */
    int fd;
    struct journal_header head;
    uint64_t records_at; /* byte of the first record in the file */
    struct journal_note note;
    struct journal_group groups[2];
    unsigned collecting;
    bool in_flight;
    bool erased;
    uint64_t durable; /* records */
    uint64_t size;    /* bytes that are there */
    uint64_t cut;     /* figure; 1: cut at the start */
};

/* Each record but GROUP, in order; ms is that of its group.  Below 0: it cannot
 * be: the file is damaged, or what else it is. */
typedef int journal_take(void *ctx, const struct journal_record *r,
                         uint64_t ms);

/* Makes one with this limit. */
int journal_make(int dirfd, int64_t limit);

/* Opens and replays the journal.  The rest of a group that was torn is cut off
 * and reported; all records that were read are
 * durable when this returns.  `begin` is called once, before the records, with
 * uuid and limit.
 *   -EBADMSG  the journal is damaged; the message says where */
int journal_open(struct journal *j, int dirfd,
                 int (*begin)(void *ctx, const struct journal *j),
                 journal_take *take, void *ctx);
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
 * nothing, and the caller syncs the note, so that an older copy of the journal
 * is detected after a loss of power, too. */
void journal_begin(struct journal *j, uint64_t now_ms);
int journal_sync(struct journal *j);
void journal_end(struct journal *j, int rc);

/* Writes the state into a file from byte `at` on. */
typedef int journal_save(void *ctx, int fd, uint64_t at, uint64_t *size,
                         uint32_t *crc);

/* Whether the records have outgrown the checkpoint. */
bool journal_needs_checkpoint(const struct journal *j);

/* Replaces the file by one that begins with the state after all records up to
 * `end`, which are durable, and has no records. An error that leaves the old
 * file in place is reported and is 0; after another one the journal has to be
 * opened again. */
int journal_checkpoint(struct journal *j, uint64_t end, journal_save *save,
                       void *ctx);

/* Whether journal_extend() should be called. */
bool journal_is_short(const struct journal *j);

/* Writes zeros from byte `from` on, JOURNAL_STEP of them.  For any thread; then
 * `size` is from + JOURNAL_STEP.  -ENOSPC without a byte written if the disk
 * has less than that. */
int journal_extend(int dirfd, uint64_t from);

/* ---- journal internal -------------------------------------------------- */

/* What only journal.c and journal_replay.c share. */

static inline uint64_t
journal_byte(const struct journal *j, uint64_t record)
{
    return j->records_at + (record - j->head.first) * JOURNAL_RECORD_SIZE;
}

/* The byte where records begin after a checkpoint of this size. */
static inline uint64_t
journal_records_at(uint64_t checkpoint_size)
{
    return RECORDS_AT + (checkpoint_size + 4095) / 4096 * 4096;
}

/* -ENOMEM; journal_close() frees what was allocated. */
int journal_groups_init(struct journal *j);

#endif
