/* writer/quota/journal_internal.h - what journal.c and journal_replay.c share;
 * nobody else includes it. */
#ifndef COUNTD_WRITER_QUOTA_JOURNAL_INTERNAL_H
#define COUNTD_WRITER_QUOTA_JOURNAL_INTERNAL_H

#include "writer/quota/journal.h"

static inline uint64_t
journal_byte(uint64_t record)
{
    return RECORDS_AT + record * JOURNAL_RECORD_SIZE;
}

int journal_write_zeros(int fd, uint64_t at, uint64_t size);

/* -ENOMEM; journal_close() gives back what was taken. */
int journal_groups_init(struct journal *j);

#endif
