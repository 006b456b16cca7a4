/* writer/quota/journal_length.h - how long the journal of quotas was, in a file
 * beside it: so an older copy that was put in place of a newer one is told, and
 * one that was cut between two groups.
 *
 *   at   size  field of live/quota-length; integers are little-endian
 *    0      8  magic "COUNTDL1"
 *    8     16  uuid of the journal
 *   24      8  records that it had at least
 *   32      8  inode of the journal
 *   40      4  crc32 of the 40 bytes before
 *   44         end
 *
 * It is written when the records are durable: at a start, when changes paused
 * (QUOTA_MARK_MS) and at a stop.  It only serves to tell: without it, or when
 * it cannot be written, quotas are served all the same.
 *
 * Any thread, one at a time.  Text goes to diag.
 */
#ifndef COUNTD_WRITER_QUOTA_JOURNAL_LENGTH_H
#define COUNTD_WRITER_QUOTA_JOURNAL_LENGTH_H

#include "writer/quota/journal.h"

#define JOURNAL_LENGTH_NAME JOURNAL_NAME "-length"

/* Says so if the journal, which was just opened, is not the one that it was. */
void journal_length_check(const struct journal *j);

/* `records` of the journal are durable.  A failure is said. */
void journal_length_write(const struct journal *j, uint64_t records);

#endif
