/* common/base/bus.h - last words when a page of a mapped file is not there.
 *
 * LMDB reads keyspaces through maps.  A file that is cut short while it is
 * open, a disk that cannot read a block or has none left: the access ends the
 * process with SIGBUS, and nobody would know of which file.
 */
#ifndef COUNTD_BUS_H
#define COUNTD_BUS_H

/* From now on SIGBUS says which file before it ends the process as ever. */
void bus_init(const char *program);

#endif
