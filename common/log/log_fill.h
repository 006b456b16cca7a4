/* common/log/log_fill.h - one fill of a log, by name: what marks of keyspaces,
 * archived logs and fills that wait are known by.
 *
 * The epoch counts the fills of a log; first_ms, the received_ms of the first
 * record, distinguishes two fills of one epoch: a log that was put back to an
 * earlier state begins such a second one. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_LOG_FILL_H
#define COUNTD_COMMON_LOG_LOG_FILL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct log_fill {
    uint8_t uuid[16];
    uint64_t epoch;
    uint64_t first_ms;
};

/* The fill that the header of a log, or of an archived one, is of. */
#define LOG_FILL_OF(h) log_fill_make((h)->uuid, (h)->epoch, (h)->first_ms)

/* The uuid of a log that never was: what a command imports, by a hash of that.
 * A drop forgets the marks of these, and no others. */
#define LOG_FILL_IMPORT "ONCE"

static inline void
log_fill_name_import(uint8_t uuid[16], const uint64_t hash[2])
{
    memcpy(uuid, hash, 16);
    memcpy(uuid, LOG_FILL_IMPORT, 4);
}

static inline bool
log_fill_is_import(const uint8_t uuid[16])
{
    return memcmp(uuid, LOG_FILL_IMPORT, 4) == 0;
}

static inline struct log_fill
log_fill_make(const uint8_t uuid[16], uint64_t epoch, uint64_t first_ms)
{
    struct log_fill f = {.epoch = epoch, .first_ms = first_ms};

    memcpy(f.uuid, uuid, sizeof f.uuid);
    return f;
}

static inline bool
log_fill_is_of_log(const struct log_fill *f, const uint8_t uuid[16])
{
    return memcmp(f->uuid, uuid, sizeof f->uuid) == 0;
}

/* For qsort(): by log, epoch and time. */
static inline int
log_fill_compare(const void *a, const void *b)
{
    const struct log_fill *x = a, *y = b;
    int c = memcmp(x->uuid, y->uuid, sizeof x->uuid);

    if (c == 0)
        c = (x->epoch > y->epoch) - (x->epoch < y->epoch);
    return c != 0 ? c
                  : (x->first_ms > y->first_ms) - (x->first_ms < y->first_ms);
}

#endif
