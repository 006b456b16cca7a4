/* common/client/lib/coalesce.h - where the latest message of a name is
 * buffered.
 *
 * A table from keyspace and key to the number of a message, counted from the
 * first that the handle took.  It forgets: each name has one place, which the
 * next name of that place takes.  So summing equal keys never fails; it only
 * saves fewer messages.
 *
 * Ownership: the caller's between init and fini.  The handle's lock protects
 * it.
 */
#ifndef COUNTD_COMMON_CLIENT_LIB_COALESCE_H
#define COUNTD_COMMON_CLIENT_LIB_COALESCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/message.h"

struct coalesce;

/* For a buffer of `count` messages.  -ENOMEM. */
int coalesce_init(struct coalesce **out, size_t capacity);
void coalesce_fini(struct coalesce *s);

/* The message that may have the names of `m`; false: there is none. */
bool coalesce_find(const struct coalesce *s, const struct message *m,
                   uint64_t *number);
void coalesce_put(struct coalesce *s, const struct message *m, uint64_t number);

#endif
