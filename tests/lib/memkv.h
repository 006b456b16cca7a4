/* tests/lib/memkv.h - common/store/kv.h in memory: a sorted array. What
 * a put or del replaces is freed at once, so that who still reads it is caught
 * by the sanitizers. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_MEMKV_H
#define COUNTD_TESTS_LIB_MEMKV_H

#include "common/store/kv.h"

struct memkv_entry {
    uint8_t *key, *value;
    size_t key_size, size;
};

struct memkv {
    struct kv kv;
    struct memkv_entry *entries;
    size_t count, room;
    size_t bytes; /* of keys and values */
};

void memkv_init(struct memkv *m);
void memkv_fini(struct memkv *m);

#endif
