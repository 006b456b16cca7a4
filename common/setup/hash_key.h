/* common/setup/hash_key.h - the key of hashed keyspace file names.
 *
 * Keyspaces with long names are in files called %h and a hash of the name
 * under this key (common/wire/name.h).  With another key none of them is
 * found, so it is made once, checked each time, and never made anew.
 *
 * keyspace/%key, little-endian:
 *
 *   at    size  field
 *      0     8  magic  "COUNTDK1"
 *      8    16  key    random
 *     24     4  zero
 *     28     4  crc32 (zlib's) of bytes 0 to 27
 *     32        end
 */
#ifndef COUNTD_HASH_KEY_H
#define COUNTD_HASH_KEY_H

#include <stdbool.h>

#include "common/wire/name.h"

/* Reads the key; `make`: makes one when there is none.  Says why not through
 * diag.
 *   -EBADMSG  it is damaged, or gone while there are files that need it
 *   -ENOENT   there is none yet */
int hash_key_load(int keyspace_fd, bool make, uint8_t key[NAME_HASH_KEY]);

#endif
