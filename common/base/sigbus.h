/* common/base/sigbus.h - reports why a fault ends the process.
 *
 * LMDB reads keyspaces through maps and trusts what is in them.  A file that is
 * cut short while it is open, a disk that cannot read a block or has none left,
 * a page number that a flipped bit made wrong: the access ends the process by
 * SIGBUS or SIGSEGV, or an assertion of LMDB ends it by SIGABRT.  The report
 * names the keyspace that the thread used last.
 *
 * Threads: each notes its own keyspace.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_SIGBUS_H
#define COUNTD_COMMON_BASE_SIGBUS_H

#include <stddef.h>
#include <stdint.h>

/* From now on these signals are reported before they end the process. */
void sigbus_init(const char *program);

/* Notes the keyspace that this thread uses from now on; size 0: none. */
void sigbus_note(const uint8_t *keyspace, size_t size);

#endif
