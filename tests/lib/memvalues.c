/* tests/lib/memvalues.c - the values of a tree in memory. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include "tests/lib/memvalues.h"

#include <errno.h>
#include <string.h>

static uint8_t *
copy_of(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = test_memory(malloc(size));

    memcpy(copy, bytes, size);
    return copy;
}

void
memvalues_init(struct memvalues *m)
{
    *m = (struct memvalues){
        .slots = test_memory(
            calloc(MEMVALUES_SLOTS, sizeof(struct memvalues_value)))};
}

void
memvalues_fini(struct memvalues *m)
{
    for (size_t i = 0; i < MEMVALUES_SLOTS; i++)
        free(m->slots[i].bytes);
    free(m->slots);
    free(m->old);
    free(m->lent);
}

/* Where a value is, or would be. */
static struct memvalues_value *
slot_of(const struct memvalues *m, uint64_t key)
{
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 40) % MEMVALUES_SLOTS;

    assert_true(key != 0);
    while (m->slots[at].key != 0 && m->slots[at].key != key)
        at = (at + 1) % MEMVALUES_SLOTS;
    return &m->slots[at];
}

struct memvalues_value *
memvalues_find(struct memvalues *m, uint64_t key)
{
    struct memvalues_value *v = slot_of(m, key);

    return v->bytes == NULL ? NULL : v;
}

struct memvalues_value *
memvalues_nth(struct memvalues *m, size_t n)
{
    size_t at = 0;

    assert_true(n < m->count);
    for (;; at++)
        if (m->slots[at].bytes != NULL && n-- == 0)
            return &m->slots[at];
}

/* ---- transactions ---- */

/* Bytes that were handed out are gone. */
static void
move_lent(struct memvalues *m)
{
    for (size_t i = 0; i < m->lent_count; i++) {
        struct memvalues_value *v = &m->slots[m->lent[i]];
        uint8_t *was = v->bytes;

        v->lent = false;
        if (was == NULL)
            continue;
        v->bytes = copy_of(was, v->size);
        memset(was, 0xa5, v->size);
        free(was);
    }
    m->lent_count = 0;
}

static void
lend_value(struct memvalues *m, struct memvalues_value *v)
{
    if (v->lent)
        return;
    if (m->lent_count == m->lent_room) {
        m->lent_room = 2 * m->lent_room + 16;
        m->lent = test_memory(realloc(m->lent, m->lent_room * sizeof *m->lent));
    }
    m->lent[m->lent_count++] = (size_t)(v - m->slots);
    v->lent = true;
}

/* Gives a value these bytes (NULL: none), which are its own from then on; what
 * was there is kept until the end of the transaction. */
static void
replace_value(struct memvalues *m, struct memvalues_value *v, uint64_t key,
              uint8_t *bytes, size_t size)
{
    move_lent(m);
    if (m->old_count == m->old_room) {
        m->old_room = 2 * m->old_room + 16;
        m->old = test_memory(realloc(m->old, m->old_room * sizeof *m->old));
    }
    m->old[m->old_count++] = (struct memvalues_value){
        .key = key, .bytes = v->bytes, .size = v->size};
    m->used += v->key == 0 ? 1u : 0u;
    assert_true(m->used < MEMVALUES_SLOTS);
    m->count += bytes != NULL ? 1u : 0u;
    m->count -= v->bytes != NULL ? 1u : 0u;
    *v = (struct memvalues_value){.key = key, .bytes = bytes, .size = size};
}

void
memvalues_begin(struct memvalues *m)
{
    assert_int_equal(m->old_count, 0);
    m->calls = 0;
}

void
memvalues_end(struct memvalues *m, bool commit)
{
    if (m->old_count > 0)
        move_lent(m);
    while (m->old_count > 0) {
        const struct memvalues_value *old = &m->old[--m->old_count];

        if (commit) {
            free(old->bytes);
        } else {
            struct memvalues_value *v = slot_of(m, old->key);

            m->count += old->bytes != NULL ? 1u : 0u;
            m->count -= v->bytes != NULL ? 1u : 0u;
            free(v->bytes);
            v->bytes = old->bytes;
            v->size = old->size;
        }
    }
}

/* ---- the kv ---- */

static int
count_call(struct memvalues *m)
{
    return ++m->calls == m->fail_at ? m->error : 0;
}

/* Finds only the key itself. */
static int
after(void *ctx, const uint8_t *key, size_t size, struct kv_item *out)
{
    struct memvalues *m = ctx;
    struct memvalues_value *v = memvalues_find(m, get_be64(key));
    const int rc = count_call(m);

    assert_int_equal(size, 8);
    if (rc < 0 || v == NULL)
        return rc;
    lend_value(m, v);
    *out = (struct kv_item){key, v->bytes, size, v->size};
    return 1;
}

int
memvalues_put(struct memvalues *m, uint64_t key, const uint8_t *bytes,
              size_t size)
{
    const int rc = count_call(m);

    if (rc == 0)
        replace_value(m, slot_of(m, key), key, copy_of(bytes, size), size);
    return rc;
}

static int
put(void *ctx, const uint8_t *key, size_t size, const uint8_t *value,
    size_t value_size)
{
    assert_int_equal(size, 8);
    return memvalues_put(ctx, get_be64(key), value, value_size);
}

int
memvalues_del(struct memvalues *m, uint64_t key)
{
    struct memvalues_value *v = memvalues_find(m, key);
    const int rc = count_call(m);

    if (rc < 0)
        return rc;
    if (v == NULL)
        return -EBADMSG;
    replace_value(m, v, key, NULL, 0);
    return 0;
}

static int
del(void *ctx, const uint8_t *key, size_t size)
{
    assert_int_equal(size, 8);
    return memvalues_del(ctx, get_be64(key));
}

struct kv
memvalues_kv(struct memvalues *m)
{
    return (struct kv){.after = after, .put = put, .del = del, .ctx = m};
}
