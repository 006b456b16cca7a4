/* common/base/name_table.h - names, each once, numbered as they come.
 *
 * Ownership: the caller's between init and fini; what points to a name is valid
 * until another is put.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_NAME_TABLE_H
#define COUNTD_COMMON_BASE_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"

#define NAME_TABLE_NONE UINT32_MAX

struct name_entry {
    size_t at; /* in `bytes` */
    uint16_t size;
    uint32_t note; /* the caller's; 0 at first */
};

struct name_table {
    struct hash_key key;
    struct name_entry *entries;
    size_t count, capacity;
    uint32_t *cells; /* a number + 1, or 0 */
    size_t cell_count;
    uint8_t *bytes;
    size_t byte_count, byte_capacity;
};

int name_table_init(struct name_table *t);

/* Without names, as after init.  The key stays. */
void name_table_clear(struct name_table *t);

/* The number of a name, a new one if need be.  -ENOMEM */
int name_table_put(struct name_table *t, const uint8_t *name, uint16_t size,
                   uint32_t *number);

/* NAME_TABLE_NONE: it is not there. */
uint32_t name_table_find(const struct name_table *t, const uint8_t *name,
                         size_t size);

static inline const uint8_t *
name_table_name(const struct name_table *t, uint32_t number, size_t *size)
{
    *size = t->entries[number].size;
    return t->bytes + t->entries[number].at;
}

#endif
