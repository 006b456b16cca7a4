/* tests/lib/aside.h - fills in log/waiting/, as a worker sets them aside or a
 * command places them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_ASIDE_H
#define COUNTD_TESTS_LIB_ASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"

struct aside_record {
    const char *keyspace;
    const char *key;
    int64_t increment;
};

/* Writes a file with one fill, whose records come by keyspace and were received
 * at `received_ms`, and returns its name, valid until the next call. */
const char *aside_put(int log_fd, bool placed, const struct log_fill *mark,
                      const struct aside_record *records, size_t count,
                      uint64_t received_ms);

/* How often all fills name a keyspace, merged or not. */
uint64_t aside_count(int log_fd);

/* Leaves a keyspace out of all files. */
void aside_drop(int log_fd, const char *keyspace);

#endif
