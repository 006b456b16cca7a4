/* tests/lib/memkv.c - see memkv.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/memkv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "tests/lib/test.h"

static int
compare_key(const struct memkv_entry *e, const uint8_t *key, size_t size)
{
    return bytes_compare(e->key, e->key_size, key, size);
}

/* The first entry that is not below the key. */
static size_t
find_place(const struct memkv *m, const uint8_t *key, size_t size)
{
    size_t low = 0, high = m->count;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (compare_key(&m->entries[mid], key, size) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int
give_item(const struct memkv *m, size_t at, struct kv_item *out)
{
    const struct memkv_entry *e = &m->entries[at];

    *out = (struct kv_item){e->key, e->value, e->key_size, e->size};
    return 1;
}

static int
after(void *ctx, const uint8_t *key, size_t size, struct kv_item *out)
{
    const struct memkv *m = ctx;
    const size_t at = find_place(m, key, size);

    return at < m->count ? give_item(m, at, out) : 0;
}

static int
before(void *ctx, const uint8_t *key, size_t size, struct kv_item *out)
{
    const struct memkv *m = ctx;
    const size_t at = find_place(m, key, size);

    if (at < m->count && compare_key(&m->entries[at], key, size) == 0)
        return give_item(m, at, out);
    return at > 0 ? give_item(m, at - 1, out) : 0;
}

static uint8_t *
copy_bytes(const uint8_t *bytes, size_t size)
{
    uint8_t *to = test_memory(malloc(size + 1));

    memcpy(to, bytes, size);
    return to;
}

static int
put(void *ctx, const uint8_t *key, size_t size, const uint8_t *value,
    size_t value_size)
{
    struct memkv *m = ctx;
    const size_t at = find_place(m, key, size);
    struct memkv_entry *e;

    assert(size <= KV_KEY_MAX && value_size <= KV_VALUE_MAX);
    if (at == m->count || compare_key(&m->entries[at], key, size) != 0) {
        if (m->count == m->room) {
            m->room = 2 * m->room + 64;
            m->entries =
                test_memory(realloc(m->entries, m->room * sizeof *m->entries));
        }
        memmove(&m->entries[at + 1], &m->entries[at],
                (m->count++ - at) * sizeof *m->entries);
        m->entries[at] = (struct memkv_entry){.key = copy_bytes(key, size),
                                              .key_size = size};
        m->bytes += size;
    }
    e = &m->entries[at];
    m->bytes += value_size - e->size;
    free(e->value);
    e->value = copy_bytes(value, value_size);
    e->size = value_size;
    return 0;
}

static int
del(void *ctx, const uint8_t *key, size_t size)
{
    struct memkv *m = ctx;
    const size_t at = find_place(m, key, size);
    struct memkv_entry *e = &m->entries[at];

    if (at == m->count || compare_key(e, key, size) != 0)
        return -EBADMSG;
    m->bytes -= e->key_size + e->size;
    free(e->key);
    free(e->value);
    memmove(e, e + 1, (--m->count - at) * sizeof *m->entries);
    return 0;
}

void
memkv_init(struct memkv *m)
{
    *m = (struct memkv){.kv = {.after = after,
                               .before = before,
                               .put = put,
                               .del = del,
                               .ctx = m}};
}

void
memkv_fini(struct memkv *m)
{
    for (size_t i = 0; i < m->count; i++) {
        free(m->entries[i].key);
        free(m->entries[i].value);
    }
    free(m->entries);
}
