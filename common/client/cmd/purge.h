/* common/client/cmd/purge.h - removes the bytes of deleted keys from the files
 * of the data directory.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_PURGE_H
#define COUNTD_COMMON_CLIENT_CMD_PURGE_H

#include "common/client/cmd/cmd.h"
#include "common/setup/datadir.h"
#include "common/store/store.h"

/* Orders struct store_key, for qsort(3). */
int purge_compare_keys(const void *a, const void *b);

/* Removes these keys of a keyspace, sorted and each once, from the archived
 * logs and from the unused slots of empty logs, and prints how many files it
 * changed and each file that it left and that may have one of them.  May be
 * repeated.  Returns an exit status: 1 when it left one. */
int purge_files(const struct datadir *d, const struct cmd_name *keyspace,
                const struct store_key *keys, size_t count);

#endif
