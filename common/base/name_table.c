/* common/base/name_table.c - see name_table.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/name_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/array.h"
#include "common/base/bytes.h"

int
name_table_init(struct name_table *t)
{
    *t = (struct name_table){.count = 0};
    return getrandom(&t->key, sizeof t->key, 0) == (ssize_t)sizeof t->key
               ? 0
               : -EIO;
}

void
name_table_clear(struct name_table *t)
{
    free(t->entries);
    free(t->cells);
    free(t->bytes);
    *t = (struct name_table){.key = t->key};
}

static uint32_t *
cell_of(const struct name_table *t, const uint8_t *name, size_t size)
{
    size_t at = hash_name(&t->key, 0, name, size) & (t->cell_count - 1);

    for (; t->cells[at] != 0; at = (at + 1) & (t->cell_count - 1)) {
        const struct name_entry *n = &t->entries[t->cells[at] - 1];

        if (bytes_equal(t->bytes + n->at, n->size, name, size))
            break;
    }
    return &t->cells[at];
}

static int
grow_cells(struct name_table *t)
{
    const size_t count = t->cell_count > 0 ? 2 * t->cell_count : 64;
    uint32_t *cells = calloc(count, sizeof *cells);

    if (!cells)
        return -ENOMEM;
    free(t->cells);
    t->cells = cells;
    t->cell_count = count;
    for (uint32_t i = 0; i < t->count; i++)
        *cell_of(t, t->bytes + t->entries[i].at, t->entries[i].size) = i + 1;
    return 0;
}

int
name_table_put(struct name_table *t, const uint8_t *name, uint16_t size,
               uint32_t *number)
{
    uint32_t *cell;
    int rc = 0;

    if (2 * (t->count + 1) > t->cell_count)
        rc = grow_cells(t);
    if (rc == 0)
        rc = array_grow(&t->entries, &t->capacity, t->count + 1,
                        sizeof *t->entries);
    if (rc == 0)
        rc = array_grow(&t->bytes, &t->byte_capacity, t->byte_count + size, 1);
    if (rc < 0)
        return rc;
    cell = cell_of(t, name, size);
    if (*cell == 0) {
        memcpy(t->bytes + t->byte_count, name, size);
        t->entries[t->count] =
            (struct name_entry){.at = t->byte_count, .size = size};
        t->byte_count += size;
        *cell = (uint32_t)++t->count;
    }
    *number = *cell - 1;
    return 0;
}

uint32_t
name_table_find(const struct name_table *t, const uint8_t *name, size_t size)
{
    const uint32_t cell = t->cell_count == 0 ? 0 : *cell_of(t, name, size);

    return cell == 0 ? NAME_TABLE_NONE : cell - 1;
}
