/* tests/lib/records.h - what the commit logs of a directory hold.
 *
 * Opens the logs for itself: the caller must be their owner or root, and no
 * daemon may write to them meanwhile.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_RECORDS_H
#define COUNTD_TESTS_LIB_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"
#include "common/log/slot.h"

struct record {
    char keyspace[MESSAGE_NAME_MAX + 1]; /* NUL-terminated */
    char key[MESSAGE_NAME_MAX + 1];
    int64_t increment;
    uint32_t minute;
    uint64_t log; /* its index */
    uint32_t slot;
    struct slot_stamp stamp;
};

struct records {
    struct record *at; /* by log, then slot */
    size_t count, capacity;
    uint64_t log; /* the last one */
    size_t logs;
    size_t states[3]; /* logs per enum log_state */
    size_t damaged;   /* slots */
};

/* Reads the valid slots of every log in data/log.  Fails the test on a file
 * that is not a log. */
void records_read(struct records *r, int log_fd);
void records_free(struct records *r);

/* Sum of one key's increments, and how many there are (may be NULL). */
int64_t records_sum(const struct records *r, const char *keyspace,
                    const char *key, size_t *count);

#endif
