/* writer/quota/journal_internal.h - what only journal.c and journal_replay.c
 * share. */
#ifndef COUNTD_WRITER_QUOTA_JOURNAL_INTERNAL_H
#define COUNTD_WRITER_QUOTA_JOURNAL_INTERNAL_H

#include "writer/quota/journal.h"

static inline uint64_t
journal_byte(const struct journal *j, uint64_t record)
{
    return j->records_at + (record - j->first) * JOURNAL_RECORD_SIZE;
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
