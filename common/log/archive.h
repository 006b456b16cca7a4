/* common/log/archive.h - merged logs kept as gzip, the newest N of them.
 *
 * A file is named FIRSTMS-INDEX-EPOCH.gz (13, 10 and 20 digits), so names
 * sort by age.  Unpacked it is the log as it was merged, its unused end left
 * out: `countd log` reads it.  Written as %t..., synced, renamed.
 *
 * The archive is a convenience: what fails here never stops a merge.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_ARCHIVE_H
#define COUNTD_ARCHIVE_H

#include <stdint.h>

#include "common/log/log.h"

/* Writes a sealed log's copy, then removes all but the newest `keep`. */
int archive_put(int archive_fd, const struct log *log, uint64_t keep);

#endif
