/* worker/fate.h - what an error of the store means for the records.
 *
 *     FATE_HOLD   this keyspace cannot take them, and trying again will not
 *                 help: hold them, free the log
 *     FATE_WAIT   the machine cannot now (full disk, no memory): keep the
 *                 logs full and try again, for as long as it takes
 *     FATE_TRY    may pass, may not: try again a few times, then hold
 */
#ifndef COUNTD_WORKER_FATE_H
#define COUNTD_WORKER_FATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fate { FATE_HOLD, FATE_WAIT, FATE_TRY };

enum fate fate_of(int error);

/* True when key `a` sorts after key `b` (memcmp, shorter first). */
bool fate_key_above(const uint8_t *a, size_t a_size, const uint8_t *b,
                    size_t b_size);

#endif
