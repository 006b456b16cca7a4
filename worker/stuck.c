/* worker/stuck.c - see stuck.h. */
#include "worker/stuck.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"

#define SIZE_FIRST 64

void
stuck_init(struct stuck *s, const uint8_t key[16])
{
    *s = (struct stuck){.key = {.k0 = get_le64(key), .k1 = get_le64(key + 8)}};
}

void
stuck_free(struct stuck *s)
{
    free(s->cells);
    s->cells = NULL;
    s->size = s->used = 0;
}

void
stuck_clear(struct stuck *s)
{
    stuck_free(s);
    s->all = false;
}

static uint64_t
hash_of(const struct stuck *s, const char *name, size_t size)
{
    const uint64_t hash = hash_name(&s->key, 0, (const uint8_t *)name, size);

    return hash == 0 ? 1 : hash;
}

/* Where it is, or would be; there is a free cell. */
static size_t
place(const uint64_t *cells, size_t size, uint64_t hash)
{
    size_t at = (size_t)hash & (size - 1);

    while (cells[at] != 0 && cells[at] != hash)
        at = (at + 1) & (size - 1);
    return at;
}

static bool
grow(struct stuck *s)
{
    const size_t size = s->size == 0 ? SIZE_FIRST : 2 * s->size;
    uint64_t *cells = calloc(size, sizeof *cells);
    size_t i;

    if (!cells)
        return false;
    for (i = 0; i < s->size; i++)
        if (s->cells[i] != 0)
            cells[place(cells, size, s->cells[i])] = s->cells[i];
    free(s->cells);
    s->cells = cells;
    s->size = size;
    return true;
}

void
stuck_add(struct stuck *s, const char *name, size_t size)
{
    const uint64_t hash = hash_of(s, name, size);
    size_t at;

    if (s->all)
        return;
    if (2 * s->used >= s->size && !grow(s)) {
        s->all = true;
        return;
    }
    at = place(s->cells, s->size, hash);
    s->used += s->cells[at] == 0;
    s->cells[at] = hash;
}

bool
stuck_has(const struct stuck *s, const char *name, size_t size)
{
    uint64_t hash;

    if (s->all || s->used == 0)
        return s->all;
    hash = hash_of(s, name, size);
    return s->cells[place(s->cells, s->size, hash)] == hash;
}
