/* worker/fold.c - see fold.h: fold_clear(), fold_trim(), fold_widen(),
 * fold_add(), fold_add_waiting().
 *
 * The hot loop (add_slot()) processes messages in groups of GROUP: hash each
 * and prefetch its cell, then prefetch the entry of each cell, then add.
 * The memory waits of a group overlap, which is most of the speed.  Memory for
 * a whole group is reserved before it starts, so adding it cannot fail.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/fold.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/log/logfile.h"
#include "common/log/mark.h"
#include "common/wire/message.h"
#include "worker/fold_memory.h"

#define GROUP      FOLD_GROUP
#define ARENA_KEEP ((size_t)8 << 20)

/* One checked record of a group; its increment is not 0. */
struct record {
    struct message m;
    struct fold_keyspace *keyspace;
    uint32_t minute;
    uint32_t tag;
};

/* Increments of a log or member that are processed together. */
struct fold_group {
    struct fold *fold;
    unsigned number;            /* of the log */
    uint32_t next, end;         /* next slot; number of slots */
    struct fold_keyspace *last; /* of the record before: the likeliest */
    unsigned count;
    struct record records[GROUP];
};

/* ---- opening, clearing ------------------------------------------------- */

static int
open_regions(struct fold *f)
{
    int rc;

    f->arena_used = FOLD_ARENA_START;
    rc = fold_table_open(&f->names, FOLD_CELLS_MIN);
    if (rc == 0)
        rc = fold_table_open(&f->entries, FOLD_CELLS_MIN);
    if (rc == 0)
        rc = fold_region_open(&f->arena, f->memory);
    if (rc == 0)
        rc = fold_region_open(&f->scratch, f->memory);
    return rc;
}

void
fold_close(struct fold *f)
{
    fold_region_close(&f->names.cells);
    fold_region_close(&f->entries.cells);
    fold_region_close(&f->arena);
    fold_region_close(&f->scratch);
}

int
fold_open(struct fold *f, size_t memory, unsigned logs_max)
{
    int rc;

    assert(logs_max > 0 && logs_max <= FOLD_LOGS_MAX);
    if (memory < FOLD_MEMORY_MIN)
        return -ERANGE;
    *f = (struct fold){.memory = memory, .logs_max = logs_max};
    if (getrandom(&f->hash_key, sizeof f->hash_key, 0) !=
        (ssize_t)sizeof f->hash_key)
        return -EIO;
    rc = open_regions(f);
    if (rc < 0)
        fold_close(f);
    return rc;
}

int
fold_clear(struct fold *f)
{
    int rc = 0;

    f->first = f->last = NULL;
    f->keyspaces = 0;
    f->entries_most = 0;
    f->records = f->zeros = 0;
    if (f->wide || !f->arena.at) {
        f->wide = false;
        fold_close(f);
        return open_regions(f);
    }
    f->arena_used = FOLD_ARENA_START;
    rc = fold_table_clear(&f->names);
    if (rc == 0)
        rc = fold_table_clear(&f->entries);
    if (rc < 0)
        fold_close(f);
    return rc;
}

void
fold_trim(struct fold *f)
{
    assert(f->keyspaces == 0);
    fold_region_trim(&f->arena, ARENA_KEEP);
    fold_region_trim(&f->scratch, ARENA_KEEP);
}

int
fold_widen(struct fold *f, uint32_t records)
{
    const size_t arena =
        FOLD_ARENA_START + (records + (size_t)GROUP) * record_size_max(f);
    int rc;

    assert(f->keyspaces == 0);
    if (arena / 8 > UINT32_MAX || records > UINT32_MAX / 8)
        return -EFBIG;
    fold_region_close(&f->arena);
    fold_region_close(&f->scratch);
    f->wide = true;
    rc = fold_region_open(&f->arena, arena);
    if (rc == 0)
        rc = fold_region_open(&f->scratch, records * FOLD_SCRATCH_SIZE);
    return rc;
}

/* ---- keyspaces and entries --------------------------------------------- */

static uint32_t
reference_to(const struct fold *f, const void *at)
{
    return (uint32_t)((size_t)((const uint8_t *)at - f->arena.at) / 8);
}

static void *
take_bytes(struct fold *f, size_t size)
{
    uint8_t *at = f->arena.at + f->arena_used;

    assert(size % 8 == 0);
    assert(f->arena_used + size <= f->arena.size);
    f->arena_used += size;
    return at;
}

static bool
is_name(const struct fold_keyspace *k, const uint8_t *name, size_t size)
{
    return k->name_size == size && memcmp(k->name, name, size) == 0;
}

static struct fold_keyspace *
find_keyspace(const struct fold *f, uint32_t tag, const uint8_t *name,
              size_t size)
{
    const struct fold_cell *c = cells_of(&f->names);
    uint32_t at;

    for (at = tag & f->names.mask; c[at].reference != 0;
         at = (at + 1) & f->names.mask) {
        struct fold_keyspace *k;

        if (c[at].tag != tag)
            continue;
        k = fold_at(f, c[at].reference);
        if (is_name(k, name, size))
            return k;
    }
    return NULL;
}

static struct fold_keyspace *
new_keyspace(struct fold *f, uint32_t tag, const uint8_t *name, uint16_t size)
{
    struct fold_keyspace *k = take_bytes(f, keyspace_size(f, size));
    uint8_t *bits =
        (uint8_t *)k + round_up(offsetof(struct fold_keyspace, name) + size);

    *k = (struct fold_keyspace){.tag = tag, .name_size = size};
    memcpy(k->name, name, size);
    memset(bits, 0, bit_words(f) * sizeof(uint64_t));
    k->touched = (uint64_t *)(void *)bits;
    if (f->last)
        f->last->next = k;
    else
        f->first = k;
    f->last = k;
    f->keyspaces++;
    table_put(&f->names, tag, reference_to(f, k));
    return k;
}

static uint32_t
name_tag(const struct fold *f, const uint8_t *name, size_t size)
{
    return (uint32_t)hash_name(&f->hash_key, 0, name, size);
}

static uint32_t
entry_tag(const struct fold *f, const struct message *m,
          const struct fold_keyspace *k, uint32_t minute)
{
    return (uint32_t)hash_name(&f->hash_key, (uint64_t)k->tag << 32 | minute,
                               m->key, m->key_size);
}

static bool
is_entry(const struct fold_entry *e, uint32_t keyspace, uint32_t minute,
         const struct message *m)
{
    return e->keyspace == keyspace && e->minute == minute &&
           e->key_size == m->key_size &&
           memcmp(e->key, m->key, m->key_size) == 0;
}

static struct fold_entry *
find_entry(const struct fold *f, uint32_t tag, uint32_t keyspace,
           uint32_t minute, const struct message *m)
{
    const struct fold_cell *c = cells_of(&f->entries);
    uint32_t at;

    for (at = tag & f->entries.mask; c[at].reference != 0;
         at = (at + 1) & f->entries.mask) {
        struct fold_entry *e;

        if (c[at].tag != tag)
            continue;
        e = fold_at(f, c[at].reference);
        if (is_entry(e, keyspace, minute, m))
            return e;
    }
    return NULL;
}

static struct fold_entry *
new_entry(struct fold *f, const struct record *r, uint32_t keyspace)
{
    struct fold_entry *e = take_bytes(f, entry_size(r->m.key_size));
    const uint32_t reference = reference_to(f, e);
    struct fold_keyspace *k = r->keyspace;

    e->keyspace = keyspace;
    e->minute = r->minute;
    e->sum_low = 0;
    e->sum_high = 0;
    e->older = k->newest;
    e->key_size = r->m.key_size;
    memcpy(e->key, r->m.key, r->m.key_size);
    k->newest = reference;
    if (++k->entry_count > f->entries_most)
        f->entries_most = k->entry_count;
    table_put(&f->entries, r->tag, reference);
    return e;
}

/* 128-bit, in halves: negative increments are all ones above. */
static void
entry_add(struct fold_entry *e, int64_t increment)
{
    const bool carry =
        __builtin_add_overflow(e->sum_low, (uint64_t)increment, &e->sum_low);

    e->sum_high += (increment < 0 ? -1 : 0) + (carry ? 1 : 0);
}

/* ---- adding logs ------------------------------------------------------- */

static uint32_t
minute_of(uint64_t received_ms)
{
    const uint64_t minute = received_ms / 60000;

    return minute > UINT32_MAX ? UINT32_MAX : (uint32_t)minute;
}

/* The keyspace of a message; the last one found is the likeliest. */
static struct fold_keyspace *
keyspace_of(struct fold *f, struct fold_keyspace *last, const struct message *m)
{
    struct fold_keyspace *k;
    uint32_t tag;

    if (last && is_name(last, m->keyspace, m->keyspace_size))
        return last;
    tag = name_tag(f, m->keyspace, m->keyspace_size);
    k = find_keyspace(f, tag, m->keyspace, m->keyspace_size);
    return k ? k : new_keyspace(f, tag, m->keyspace, m->keyspace_size);
}

/* Adds a message to a group, unless it changes nothing. */
static inline void
take_message(struct fold_group *g, const struct message *m,
             uint64_t received_ms)
{
    struct record *r = &g->records[g->count];
    struct fold *f = g->fold;

    if (m->increment == 0) {
        f->zeros++;
        return;
    }
    g->last = keyspace_of(f, g->last, m);
    fold_set_bit(g->last->touched, g->number);
    g->last->records++;
    r->m = *m;
    r->keyspace = g->last;
    r->minute = m->minute != 0 ? m->minute : minute_of(received_ms);
    r->tag = entry_tag(f, &r->m, r->keyspace, r->minute);
    __builtin_prefetch(&cells_of(&f->entries)[r->tag & f->entries.mask]);
    g->count++;
}

static void
add_group(struct fold_group *g)
{
    struct fold *f = g->fold;
    unsigned i;

    for (i = 0; i < g->count; i++) {
        const uint32_t cell = g->records[i].tag & f->entries.mask;
        const uint8_t *e = fold_at(f, cells_of(&f->entries)[cell].reference);

        __builtin_prefetch(e, 1);
        __builtin_prefetch(e + 56, 1); /* the rest of its key */
    }
    for (i = 0; i < g->count; i++) {
        const struct record *r = &g->records[i];
        const uint32_t keyspace = reference_to(f, r->keyspace);
        struct fold_entry *e;

        e = find_entry(f, r->tag, keyspace, r->minute, &r->m);
        if (!e)
            e = new_entry(f, r, keyspace);
        entry_add(e, r->m.increment);
    }
    f->records += g->count;
    g->count = 0;
}

/* Adds the next message.  Every GROUP messages a new group begins, for which
 * memory is then reserved; what its messages point to lives until it ends.  A
 * slot that is missing in a sealed log is damage like any other. */
static int
add_slot(void *ctx, uint32_t number, const struct message *m,
         const struct slot_stamp *stamp)
{
    struct fold_group *g = ctx;
    const int rc = g->next % GROUP == 0 ? fold_reserve(g->fold) : 0;

    if (rc < 0 || number != g->next)
        return rc < 0 ? rc : -EBADMSG;
    if (!mark_is(m))
        take_message(g, m, stamp->received_ms);
    if (++g->next % GROUP == 0 || g->next == g->end)
        add_group(g);
    return 0;
}

int
fold_add(struct fold *f, const struct log *log, unsigned number)
{
    struct fold_group g = {
        .fold = f, .number = number, .end = log->header.count, .last = f->last};

    assert(number < f->logs_max);
    assert(log->header.state == LOG_SEALED);
    if (f->records + g.end > UINT32_MAX)
        return -ENOBUFS;
    return logfile_each_sealed(log, add_slot, &g);
}

int
fold_add_waiting(struct fold *f, const struct waiting_fill *fill,
                 unsigned number)
{
    struct fold_group g = {
        .fold = f, .number = number, .end = fill->count, .last = f->last};
    int rc;

    assert(number < f->logs_max);
    if (f->records + g.end > UINT32_MAX)
        return -ENOBUFS;
    rc = archive_each(fill->file->lock_fd, &fill->member, add_slot, &g);
    /* It was listed with another count: the last group may not be in. */
    return rc == 0 && g.next != g.end ? -EBADMSG : rc;
}

struct fold_keyspace *
fold_find(const struct fold *f, const uint8_t *name, size_t size)
{
    return find_keyspace(f, name_tag(f, name, size), name, size);
}

/* Orders by records, most first, then by the order in which they came. */
static int
compare_keyspaces(const void *a, const void *b)
{
    const struct fold_keyspace *x = *(struct fold_keyspace *const *)a,
                               *y = *(struct fold_keyspace *const *)b;

    if (x->records != y->records)
        return x->records > y->records ? -1 : 1;
    return (x > y) - (x < y); /* the arena only grows */
}

void
fold_sort_keyspaces(struct fold *f)
{
    struct fold_keyspace **list = (void *)f->scratch.at, *k;
    const size_t size = f->keyspaces * sizeof(struct fold_keyspace *);
    size_t count = 0;

    assert(size <= f->scratch.size);
    for (k = f->first; k; k = k->next)
        list[count++] = k;
    qsort(list, count, sizeof(struct fold_keyspace *), compare_keyspaces);
    for (size_t i = 0; i < count; i++)
        list[i]->next = i + 1 < count ? list[i + 1] : NULL;
    if (count > 0) {
        f->first = list[0];
        f->last = list[count - 1];
    }
}
