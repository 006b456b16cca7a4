/* common/client/lib/sums.h - where the latest message of a name is buffered.
 *
 * A table from keyspace and key to the number of a message, counted from the
 * first that the handle took.  It forgets: each name has one place, which the
 * next name of that place takes.  So summing equal keys never fails; it only
 * saves fewer messages.
 *
 * Ownership: the caller's between init and fini.  The handle's lock protects
 * it.
 */
#ifndef COUNTD_CLIENT_SUMS_H
#define COUNTD_CLIENT_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/message.h"

struct sums;

/* For a buffer of so many messages.  -ENOMEM. */
int sums_init(struct sums **out, size_t capacity);
void sums_fini(struct sums *s);

/* The message that may have the names of `m`; false: there is none. */
bool sums_find(const struct sums *s, const struct message *m, uint64_t *number);
void sums_put(struct sums *s, const struct message *m, uint64_t number);

#endif
