/* common/client/lib/coalesce.c - see coalesce.h. */
#include "common/client/lib/coalesce.h"

#include <errno.h>
#include <stdlib.h>

struct coalesce {
    size_t mask;       /* places - 1, a power of two */
    uint64_t places[]; /* number of a message + 1; 0: none */
};

/* FNV-1a: who floods a place only wastes the sender's own messages. */
static uint64_t
hash_names(uint64_t h, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

static size_t
find_place(const struct coalesce *s, const struct message *m)
{
    uint64_t h =
        hash_names(UINT64_C(0xcbf29ce484222325), m->keyspace, m->keyspace_size);

    h = hash_names(h * 31, m->key, m->key_size);
    return (size_t)(h ^ h >> 32) & s->mask;
}

int
coalesce_init(struct coalesce **out, size_t capacity)
{
    size_t count = 16;

    while (count < 2 * capacity)
        count *= 2;
    *out = calloc(1, sizeof **out + count * sizeof(*out)->places[0]);
    if (*out == NULL)
        return -ENOMEM;
    (*out)->mask = count - 1;
    return 0;
}

void
coalesce_fini(struct coalesce *s)
{
    free(s);
}

bool
coalesce_find(const struct coalesce *s, const struct message *m,
              uint64_t *number)
{
    const uint64_t found = s->places[find_place(s, m)];

    *number = found - 1;
    return found > 0;
}

void
coalesce_put(struct coalesce *s, const struct message *m, uint64_t number)
{
    s->places[find_place(s, m)] = number + 1;
}
