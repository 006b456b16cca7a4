/* common/store/history/sources.c - reading runs in order, one or several as
 * one.
 *
 * Entry points: source_open(), source_next(), source_next_head(),
 * source_land(), sources_begin(), sources_next(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/runs.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

/* Makes s->block read an item whose key is s->key. */
static int
load_item(struct source *s, struct kv_item *item)
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

/* The block that begins at s->key. */
static int
next_item(struct source *s, struct kv_item *item)
{
    const int rc = s->kv->after(s->kv->ctx, s->key.bytes, s->key.size, item);

    if (rc <= 0)
        return rc < 0 ? rc : -EBADMSG;
    return bytes_equal(item->key, item->key_size, s->key.bytes, s->key.size)
               ? 0
               : -EBADMSG;
}

static void
go_to_next(struct source *s)
{
    memcpy(s->key.bytes + RUN_KEY_HEAD, s->block.next, s->block.next_size);
    s->key.size = RUN_KEY_HEAD + s->block.next_size;
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
            rc = load_item(s, &item);
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? rc : 0;
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
    rc = load_item(s, &item);
    if (rc < 0)
        return rc;

    /* One that is missing in between is missed where this one ends. */
    rc = rows_seek(&s->block, key, key_size);
    return rc == 0 ? source_next(s) : rc < 0 ? rc : 0;
}

int
source_open(struct source *s, const struct kv *kv, const struct period *p,
            const struct run_info *run, const uint8_t *key, size_t key_size)
{
    s->kv = kv;
    s->over = false;
    s->head_only = false;
    run_key(&s->key, p, run, key, 0);
    return seek_in_run(s, key, key_size);
}

int
source_next_head(struct source *s)
{
    struct kv_item item;
    int rc;

    go_to_next(s);
    s->head_only = true;
    rc = next_item(s, &item);
    return rc < 0 ? rc : rows_open_head(&s->block, &item);
}

int
source_land(struct source *s, const uint8_t *key, size_t size)
{
    struct kv_item item;
    int rc;

    if (!s->head_only &&
        bytes_compare(s->block.key, s->block.key_size, key, size) >= 0)
        return 0;
    if (s->head_only) {
        s->head_only = false;
        rc = next_item(s, &item);
        if (rc == 0)
            rc = load_item(s, &item);
        if (rc < 0)
            return rc;
    }
    rc = rows_seek(&s->block, key, size);
    return rc == 0 ? source_next(s) : rc < 0 ? rc : 0;
}

/* ---- several ----------------------------------------------------------- */

/* How the keys of two sources, by number, compare. */
static int
compare_keys(const struct sources *l, uint32_t a, uint32_t b)
{
    const struct rows_reader *x = &l->all[a].block, *y = &l->all[b].block;

    return bytes_compare(x->key, x->key_size, y->key, y->key_size);
}

static void
push_source(struct sources *l, uint32_t number)
{
    uint32_t *heap = l->numbers;
    size_t at = l->heap_count++;

    for (; at > 0 && compare_keys(l, number, heap[(at - 1) / 2]) < 0;
         at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = number;
}

/* Puts the last of the heap where it belongs, in place of the first, which is
 * then behind the heap. */
static void
pop_source(struct sources *l)
{
    uint32_t *heap = l->numbers;
    const size_t count = --l->heap_count;
    const uint32_t first = heap[0], last = heap[count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < count) {
        if (child + 1 < count &&
            compare_keys(l, heap[child + 1], heap[child]) < 0)
            child++;
        if (compare_keys(l, last, heap[child]) <= 0)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    heap[count] = first;
}

/* Takes those with the lowest key from the heap. */
static void
find_lowest(struct sources *l)
{
    l->lowest_count = 0;
    while (l->heap_count > 0 &&
           (l->lowest_count == 0 ||
            compare_keys(l, l->numbers[0], l->numbers[l->heap_count]) == 0)) {
        pop_source(l);
        l->lowest_count++;
    }
}

void
sources_begin(struct sources *l)
{
    l->heap_count = 0;
    for (size_t i = 0; i < l->count; i++)
        if (!l->all[i].over)
            push_source(l, (uint32_t)i);
    find_lowest(l);
}

/* A source goes into the heap before the place where its number was read. */
int
sources_next(struct sources *l)
{
    const size_t end = l->heap_count + l->lowest_count;

    for (size_t i = l->heap_count; i < end; i++) {
        const uint32_t number = l->numbers[i];
        const int rc = source_next(&l->all[number]);

        if (rc < 0)
            return rc;
        if (!l->all[number].over)
            push_source(l, number);
    }
    find_lowest(l);
    return 0;
}
