/* common/base/sigbus.h - last words when a page of a mapped file is not there.
 *
 * LMDB reads keyspaces through maps.  A file that is cut short while it is
 * open, a disk that cannot read a block or has none left: the access ends the
 * process with SIGBUS, and nobody would know of which file.
 */
#ifndef COUNTD_COMMON_BASE_SIGBUS_H
#define COUNTD_COMMON_BASE_SIGBUS_H

/* From now on SIGBUS says which file before it ends the process as ever. */
void sigbus_init(const char *program);

#endif
