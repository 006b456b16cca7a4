/* tests/lib/memory_log.h - a sealed log in memory, whose slots are mapped. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_MEMORY_LOG_H
#define COUNTD_TESTS_LIB_MEMORY_LOG_H

#include "tests/lib/test.h"

#include <sys/mman.h>
#include <unistd.h>

#include "common/log/log.h"

static inline size_t
memory_log_size(const struct log *log)
{
    return LOG_SLOTS_AT + (size_t)log->header.slots * log->layout.slot_size;
}

/* Makes a log for this many slots with names of this size, all zeros. */
static inline uint8_t *
memory_log_open(struct log *log, uint32_t slots, uint16_t name_max)
{
    uint8_t *at;

    *log = (struct log){.header = {.slots = slots,
                                   .keyspace_size = name_max,
                                   .key_size = name_max,
                                   .state = LOG_SEALED,
                                   .epoch = 5}};
    assert_rc(layout_init(&log->layout, name_max, name_max), 0);
    log->fd = memfd_create("log", MFD_CLOEXEC);
    assert_int_equal(ftruncate(log->fd, (off_t)memory_log_size(log)), 0);
    at = mmap(NULL, memory_log_size(log), PROT_READ | PROT_WRITE, MAP_SHARED,
              log->fd, 0);
    assert_true(at != MAP_FAILED);
    return at + LOG_SLOTS_AT;
}

static inline void
memory_log_close(struct log *log, uint8_t *slots)
{
    assert_int_equal(munmap(slots - LOG_SLOTS_AT, memory_log_size(log)), 0);
    assert_int_equal(close(log->fd), 0);
}

#endif
