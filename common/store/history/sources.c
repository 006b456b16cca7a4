/* common/store/history/sources.c - reading runs in order, one or several as
 * one. */
#include "common/store/history/runs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

/* Has s->block read an item, of which the key is s->key. */
static int
load(struct source *s, struct kv_item *item)
{
    if (item->size > KV_VALUE_MAX)
        return -EBADMSG;
    if (s->loaded != NULL)
        ++*s->loaded;
    if (s->copy != NULL) {
        memcpy(s->copy, item->value, item->size);
        item->value = s->copy;
    }
    return rows_open(&s->block, item);
}

/* The block that begins at the end of this one. */
static int
next_item(struct source *s, struct kv_item *item)
{
    const int rc = s->kv->after(s->kv->ctx, s->key.bytes, s->key.size, item);

    if (rc <= 0)
        return rc < 0 ? rc : -EBADMSG;
    return item->key_size == s->key.size &&
                   memcmp(item->key, s->key.bytes, s->key.size) == 0
               ? 0
               : -EBADMSG;
}

static void
go_to_next(struct source *s)
{
    memcpy(s->key.bytes + RUN_KEY_HEAD, s->block.next, s->block.next_size);
    s->key.size = RUN_KEY_HEAD + s->block.next_size;
}

/* The bytes of a key from `at` on, up to eight, as a number. */
static uint64_t
eight(const struct rows_reader *r, size_t at)
{
    const size_t size = r->key_size;

    if (at >= size)
        return 0;
    return size - at >= 8 ? get_be64(r->key + at)
                          : get_be64(r->key + at) >>
                                8 * (8 - (size - at)) << 8 * (8 - (size - at));
}

static void
note_prefix(struct source *s)
{
    s->prefix[0] = eight(&s->block, 0);
    s->prefix[1] = eight(&s->block, 8);
}

int
source_next(struct source *s)
{
    struct kv_item item;
    int rc;

    while ((rc = rows_next(&s->block)) == 0) {
        if (s->block.next == NULL) {
            s->over = true;
            return 0;
        }
        go_to_next(s);
        rc = next_item(s, &item);
        if (rc == 0)
            rc = load(s, &item);
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return rc;
    note_prefix(s);
    return 0;
}

/* From the row it stands on, or behind the end of a block. */
static int
seek_in_run(struct source *s, const uint8_t *key, size_t key_size)
{
    struct kv_item item;
    struct run_key k = s->key;
    int rc;

    memcpy(k.bytes + RUN_KEY_HEAD, key, key_size);
    k.size = RUN_KEY_HEAD + key_size;
    rc = s->kv->before(s->kv->ctx, k.bytes, k.size, &item);
    if (rc <= 0 || !run_key_same(&k, &item))
        return rc < 0 ? rc : -EBADMSG;
    if (item.key_size > sizeof s->key.bytes)
        return -EBADMSG;
    memcpy(s->key.bytes, item.key, item.key_size);
    s->key.size = item.key_size;
    rc = load(s, &item);
    if (rc < 0)
        return rc;

    /* One that is missing in between is missed where this one ends. */
    rc = rows_seek(&s->block, key, key_size);
    if (rc > 0)
        note_prefix(s);
    return rc == 0 ? source_next(s) : rc < 0 ? rc : 0;
}

int
source_open(struct source *s, const struct kv *kv, unsigned tier,
            uint32_t period, const struct run_info *run, const uint8_t *key,
            size_t key_size)
{
    s->kv = kv;
    s->over = false;
    run_key(&s->key, tier, period, run, key, 0);
    return seek_in_run(s, key, key_size);
}

int
source_skip(struct source *s, const uint8_t *key, size_t size)
{
    int rc;

    if (s->over ||
        history_compare(s->block.key, s->block.key_size, key, size) >= 0)
        return 0;
    if (s->block.next != NULL &&
        history_compare(s->block.next, s->block.next_size, key, size) <= 0)
        return seek_in_run(s, key, size);
    rc = rows_seek(&s->block, key, size);
    if (rc > 0)
        note_prefix(s);
    return rc == 0 ? source_next(s) : rc < 0 ? rc : 0;
}

int
source_skip_below(struct source *s, int128 least)
{
    struct kv_item item;
    int rc;

    do {
        if (s->block.next == NULL) {
            s->over = true;
            return 0;
        }
        go_to_next(s);
        rc = next_item(s, &item);
        if (rc == 0)
            rc = rows_open_head(&s->block, &item);
        if (rc < 0)
            return rc;
    } while (s->block.most < least);
    rc = load(s, &item);
    return rc < 0 ? rc : source_next(s);
}

/* ---- several ----------------------------------------------------------- */

static bool
is_below(const struct source *a, const struct source *b)
{
    if (a->prefix[0] != b->prefix[0])
        return a->prefix[0] < b->prefix[0];
    if (a->prefix[1] != b->prefix[1])
        return a->prefix[1] < b->prefix[1];
    return history_compare(a->block.key, a->block.key_size, b->block.key,
                           b->block.key_size) < 0;
}

static void
sift(struct sources *s, size_t at)
{
    struct source *moved = s->heap[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < s->count &&
            is_below(s->heap[child + 1], s->heap[child]))
            child++;
        if (child >= s->count || !is_below(s->heap[child], moved))
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = moved;
}

void
sources_begin(struct sources *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->count; i++)
        if (!s->heap[i]->over)
            s->heap[kept++] = s->heap[i];
    s->count = kept;
    for (size_t i = kept / 2; i > 0; i--)
        sift(s, i - 1);
}

int
sources_next(struct sources *s)
{
    const int rc = source_next(s->heap[0]);

    if (rc < 0)
        return rc;
    if (s->heap[0]->over)
        s->heap[0] = s->heap[--s->count];
    if (s->count > 0)
        sift(s, 0);
    return 0;
}
