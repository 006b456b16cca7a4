/* common/store/history/sources.c - reading runs in order, one or several as
 * one.
 *
 * Entry points: source_open(), source_next(), source_next_head(),
 * source_land(), sources_begin(), sources_next(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/runs.h"

#include <assert.h>
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

/* The same, to be read. */
static int
load_block(struct source *s)
{
    struct kv_item item;
    const int rc = next_item(s, &item);

    return rc < 0 ? rc : load_item(s, &item);
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
    int rc;

    while ((rc = rows_next(&s->block)) == 0) {
        if (s->block.next == NULL) {
            s->over = true;
            return 0;
        }
        go_to_next(s);
        rc = load_block(s);
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
source_open(struct source *s, const struct period *p,
            const struct run_info *run, const uint8_t *key, size_t key_size)
{
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
    int rc;

    if (!s->head_only &&
        bytes_compare(s->block.key, s->block.key_size, key, size) >= 0)
        return 0;
    if (s->head_only) {
        s->head_only = false;
        rc = load_block(s);
        if (rc < 0)
            return rc;
    }
    rc = rows_seek(&s->block, key, size);
    return rc == 0 ? source_next(s) : rc < 0 ? rc : 0;
}

/* ---- several ----------------------------------------------------------- */

#define BEYOND UINT64_MAX /* the word of what is not inside */
#define WIDER  2          /* bytes of a base less than it could have */

/* The eight bytes of a key from `at` on, zeros behind its end. */
static uint64_t
word_of(const struct rows_reader *r, size_t at)
{
    const size_t size = r->key_size;
    unsigned missing;

    if (at + 8 <= size)
        return get_be64(r->key + at);
    if (at >= size)
        return 0;
    missing = 8 * (unsigned)(at + 8 - size);
    return get_be64(r->key + at) >> missing << missing;
}

static void
set_word(struct sources *l, size_t i)
{
    const struct source *s = &l->all[i];

    l->words[i] =
        s->inside && !s->over ? word_of(&s->block, l->base_size) : BEYOND;
}

static inline uint64_t
lower_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Pair by pair: without branches to mispredict, and with short dependencies. */
static void
set_least(struct sources *l, size_t eight)
{
    const uint64_t *w = &l->words[8 * eight];

    l->least[eight] =
        lower_of(lower_of(lower_of(w[0], w[1]), lower_of(w[2], w[3])),
                 lower_of(lower_of(w[4], w[5]), lower_of(w[6], w[7])));
}

static bool
is_inside(const struct sources *l, const struct source *s)
{
    return s->block.key_size >= l->base_size &&
           memcmp(s->block.key, l->base, l->base_size) == 0;
}

static int
compare_sources(const struct source *a, const struct source *b)
{
    return bytes_compare(a->block.key, a->block.key_size, b->block.key,
                         b->block.key_size);
}

/* As much of the lowest key as its neighbour begins with, and a little less, so
 * that it lasts. */
static void
choose_base(struct sources *l)
{
    const struct source *low = NULL;
    size_t most = 0;

    for (size_t i = 0; i < l->count; i++) {
        const struct source *s = &l->all[i];

        if (!s->over && (low == NULL || compare_sources(s, low) < 0))
            low = s;
    }
    for (size_t i = 0; low != NULL && i < l->count; i++) {
        const struct rows_reader *r = &l->all[i].block;
        size_t same;

        if (l->all[i].over)
            continue;
        same = bytes_common_size(r->key, r->key_size, low->block.key,
                                 low->block.key_size);
        if (same > most && (same < r->key_size || same < low->block.key_size))
            most = same;
    }
    l->base_size = (uint16_t)(most > WIDER ? most - WIDER : 0);
    if (low != NULL)
        memcpy(l->base, low->block.key, l->base_size);
    for (size_t i = 0; i < l->count; i++) {
        l->all[i].inside = is_inside(l, &l->all[i]);
        set_word(l, i);
    }
    for (size_t i = l->count; i < SOURCES_CAPACITY(l->count); i++)
        l->words[i] = BEYOND;
    for (size_t i = 0; i < SOURCES_CAPACITY(l->count) / 8; i++)
        set_least(l, i);
    l->unclear = false;
}

static uint64_t
least_word(const struct sources *l)
{
    uint64_t least = l->least[0];

    for (size_t i = 1; i < SOURCES_CAPACITY(l->count) / 8; i++)
        least = l->least[i] < least ? l->least[i] : least;
    return least;
}

/* The bits of those of eight words that are the lowest. */
static unsigned
lowest_bits(const uint64_t w[8], uint64_t least)
{
    const unsigned low =
        (unsigned)(w[0] == least) | (unsigned)(w[1] == least) << 1 |
        (unsigned)(w[2] == least) << 2 | (unsigned)(w[3] == least) << 3;

    return low | (unsigned)(w[4] == least) << 4 |
           (unsigned)(w[5] == least) << 5 | (unsigned)(w[6] == least) << 6 |
           (unsigned)(w[7] == least) << 7;
}

/* Adds source i, which has the lowest word, if its key is the one of those
 * found; replaces them if it is lower. */
static void
add_lowest(struct sources *l, size_t i)
{
    const struct source *s = &l->all[i];
    int d;

    if (i >= l->count || s->over) /* nothing has a lower word */
        return;
    if (l->lowest_count > 0) {
        d = compare_sources(s, sources_lowest(l, 0));
        if (d != 0)
            l->unclear = true;
        if (d > 0)
            return;
        if (d < 0)
            l->lowest_count = 0;
    }
    l->lowest[l->lowest_count++] = (uint16_t)i;
}

static void
find_lowest(struct sources *l)
{
    uint64_t least;

    l->lowest_count = 0;
    if (l->left == 0)
        return;
    least = least_word(l);
    if (least == BEYOND || l->unclear) {
        choose_base(l);
        least = least_word(l);
    }
    for (size_t e = 0; e < SOURCES_CAPACITY(l->count) / 8; e++) {
        if (l->least[e] != least)
            continue;
        for (unsigned with = lowest_bits(&l->words[8 * e], least); with != 0;
             with &= with - 1)
            add_lowest(l, 8 * e + (unsigned)__builtin_ctz(with));
    }
    assert(l->lowest_count > 0);
}

void
sources_begin(struct sources *l)
{
    l->left = 0;
    for (size_t i = 0; i < l->count; i++)
        l->left += !l->all[i].over;
    if (l->left > 0)
        choose_base(l);
    find_lowest(l);
}

int
sources_next(struct sources *l)
{
    for (size_t i = 0; i < l->lowest_count; i++) {
        const size_t number = l->lowest[i];
        struct source *s = &l->all[number];
        const int rc = source_next(s);

        if (rc < 0)
            return rc;
        l->left -= s->over;
        if (s->block.same < l->base_size)
            s->inside = is_inside(l, s);
        set_word(l, number);
        /* They are in order of their numbers. */
        if (i + 1 == l->lowest_count || l->lowest[i + 1] / 8 != number / 8)
            set_least(l, number / 8);
    }
    find_lowest(l);
    return 0;
}
