/* common/store/cluster/cluster_range.c - rows by rank of a keyspace that has
 * several parts, and rows by key; see cluster_store.h.
 *
 * The first `offset` rows of the keyspace are the first cut[p] rows of each
 * part p.  Samples find bounds for the cuts: members of each part at known
 * ranks.  A sampled member T has at least L(T) and at most U(T) rows before it
 * in all parts together, by the ranks of the samples around it.  The last T
 * with U(T) <= offset is at or before the cut, so every cut[p] is at least the
 * rows before it; the first T with L(T) >= offset is at or after it.  Each
 * round samples between the bounds, until few rows are; then these rows and the
 * next `length` of each part are read and merged.  The result is exact whatever
 * was sampled, as long as the rows stay the same between the rounds.
 *
 * Rows by key are found in the same way, in the order of keys.  Each part
 * begins at its first wanted key if that comes after `low`, and says where it
 * began: when the first wanted key of all is after `offset`, so is each part's.
 *
 * Entry point: cluster_range(). */
#include "common/store/cluster/cluster_store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/store/cluster/outbox_record.h"

#define SAMPLES    32 /* of a part and round */
#define ROUNDS     8
#define NEAR_START 64 /* below this offset samples save nothing */
#define SLACK      16 /* rows between the bounds for each row that is asked for */
#define MEMBER_MAX (8 + STORE_NAME_MAX)

/* A limit of keys as Redis' ZLEXCOUNT takes it. */
struct key_limit {
    uint8_t bytes[1 + STORE_NAME_MAX];
    size_t size;
};

struct sample {
    uint64_t rank;
    uint16_t size;
    uint8_t member[MEMBER_MAX];
};

struct part_bounds {
    uint64_t rows, low, high; /* low <= cut <= high */
    struct sample *samples;   /* by rank, so by member */
    size_t count;
    const redisReply *list; /* rows from `low` on, while they are merged */
    size_t at;
};

struct range_search {
    struct cluster_store *s;
    const struct cluster_known *k;
    struct store_query *q;
    uint64_t offset;
    bool is_by_key;
    struct key_limit first, last; /* by key: after all wanted ones */
    struct part_bounds parts[OUTBOX_PARTS_MAX];
};

/* ---- bounds ------------------------------------------------------------- */

/* Rows of a part before member T: at least *low, at most *high. */
static void
bound_rows(const struct part_bounds *p, const struct sample *t, uint64_t *low,
           uint64_t *high)
{
    size_t from = 0, to = p->count;

    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        const struct sample *m = &p->samples[middle];

        if (bytes_compare(m->member, m->size, t->member, t->size) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    *low = from > 0 ? p->samples[from - 1].rank + 1 : 0;
    *high = p->rows;
    if (from == p->count)
        return;
    *high = p->samples[from].rank;
    /* T itself: its rank is exact. */
    if (bytes_compare(p->samples[from].member, p->samples[from].size, t->member,
                      t->size) == 0)
        *low = *high;
}

/* L(T) and U(T). */
static void
sum_bounds(const struct range_search *r, const struct sample *t, uint64_t *low,
           uint64_t *high)
{
    uint64_t part_low, part_high;

    *low = *high = 0;
    for (uint32_t i = 0; i < r->k->parts; i++) {
        bound_rows(&r->parts[i], t, &part_low, &part_high);
        *low += part_low;
        *high += part_high;
    }
}

/* Narrows the bounds of all parts by the samples that there are. */
static void
narrow_bounds(struct range_search *r)
{
    const struct sample *before = NULL, *after = NULL;
    uint64_t low, high;

    for (uint32_t i = 0; i < r->k->parts; i++)
        for (size_t j = 0; j < r->parts[i].count; j++) {
            const struct sample *t = &r->parts[i].samples[j];

            sum_bounds(r, t, &low, &high);
            if (high <= r->offset &&
                (before == NULL ||
                 bytes_compare(t->member, t->size, before->member,
                               before->size) > 0))
                before = t;
            if (low >= r->offset &&
                (after == NULL ||
                 bytes_compare(t->member, t->size, after->member, after->size) <
                     0))
                after = t;
        }
    for (uint32_t i = 0; i < r->k->parts; i++) {
        struct part_bounds *p = &r->parts[i];

        p->low = 0;
        p->high = p->rows < r->offset ? p->rows : r->offset;
        if (before != NULL) {
            bound_rows(p, before, &low, &high);
            p->low = low;
        }
        if (after != NULL) {
            bound_rows(p, after, &low, &high);
            p->high = high < p->high ? high : p->high;
        }
        p->high = p->high < p->low ? p->low : p->high;
    }
}

static uint64_t
count_between(const struct range_search *r)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < r->k->parts; i++)
        count += r->parts[i].high - r->parts[i].low;
    return count;
}

/* Begins a call about a part's order. */
static struct cluster_command *
begin_call(const struct range_search *r, const char *words, uint32_t part)
{
    struct cluster_command *m = cluster_next_call(r->s);
    struct cluster_part_keys keys =
        cluster_part_keys(r->k->name, r->k->size, r->k->generation, part);

    if (r->is_by_key)
        ((char *)memchr(keys.order, '}', keys.size))[1] = 'k';
    cluster_begin_part(m, &keys, words);
    return m;
}

/* ---- samples ------------------------------------------------------------ */

/* Adds a sample in its place; one of a rank that is there is left out. */
static void
add_sample(struct part_bounds *p, uint64_t rank, const redisReply *member)
{
    size_t at = p->count;

    if (member->type != REDIS_REPLY_STRING || member->len > MEMBER_MAX)
        return;
    while (at > 0 && p->samples[at - 1].rank >= rank)
        at--;
    if (at < p->count && p->samples[at].rank == rank)
        return;
    memmove(p->samples + at + 1, p->samples + at,
            (p->count - at) * sizeof *p->samples);
    p->samples[at].rank = rank;
    p->samples[at].size = (uint16_t)member->len;
    memcpy(p->samples[at].member, member->str, (size_t)member->len);
    p->count++;
}

static int
read_samples(struct range_search *r)
{
    struct cluster_store *s = r->s;
    int rc = 0;

    for (uint32_t i = 0; i < r->k->parts; i++) {
        struct cluster_command *m =
            begin_call(r, "FCALL_RO countd1_sample 2", i);

        cluster_add_number(m, (int64_t)r->parts[i].low);
        cluster_add_number(m, (int64_t)r->parts[i].high);
        cluster_add_number(m, SAMPLES);
    }
    cluster_call_run(s);
    for (uint32_t i = 0; rc == 0 && i < r->k->parts; i++) {
        const redisReply *reply =
            cluster_call_reply(s, &s->commands[i], 4, &rc);

        for (size_t j = 0; reply != NULL && j < reply->element[2]->elements &&
                           j < reply->element[3]->elements && j < SAMPLES;
             j++)
            add_sample(&r->parts[i],
                       cluster_reply_number(reply->element[2]->element[j]),
                       reply->element[3]->element[j]);
    }
    cluster_call_end(s);
    return rc;
}

/* ---- rows --------------------------------------------------------------- */

/* The part whose next row stands first; NULL: no part has one. */
static struct part_bounds *
find_next(struct range_search *r)
{
    const size_t head = r->is_by_key ? 8 : 0; /* the count */
    struct part_bounds *best = NULL;

    for (uint32_t i = 0; i < r->k->parts; i++) {
        struct part_bounds *p = &r->parts[i];
        const redisReply *a, *b;

        if (p->list == NULL || p->at == p->list->elements)
            continue;
        a = p->list->element[p->at];
        b = best ? best->list->element[best->at] : NULL;
        if (b == NULL ||
            bytes_compare(a->str + head, (size_t)a->len - head, b->str + head,
                          (size_t)b->len - head) < 0)
            best = p;
    }
    return best;
}

/* Puts the merged rows after the first `skip`. */
static int
merge_rows(struct range_search *r, uint64_t skip, size_t capacity)
{
    struct store_query *q = r->q;
    struct part_bounds *p;
    int rc = 0;

    while (rc == 0 && q->rows < q->length && (p = find_next(r)) != NULL) {
        const redisReply *member = p->list->element[p->at++];

        if (skip > 0)
            skip--;
        else
            rc = cluster_put_member(q, capacity, member);
    }
    return rc;
}

static void
request_rows(const struct range_search *r, uint32_t part)
{
    const struct part_bounds *p = &r->parts[part];
    const uint64_t most = p->high - p->low + r->q->length;
    struct cluster_command *m = begin_call(
        r, r->is_by_key ? "FCALL_RO countd1_keys 2" : "FCALL_RO countd1_rows 2",
        part);

    if (r->is_by_key) {
        cluster_add_word(m, r->first.bytes, r->first.size);
        cluster_add_word(m, r->last.bytes, r->last.size);
    }
    cluster_add_number(m, (int64_t)p->low);
    cluster_add_number(m, (int64_t)(most < INT32_MAX ? most : INT32_MAX));
}

/* Takes the rows of a part; *from is the rank of the first. */
static int
take_rows(struct part_bounds *p, const redisReply *reply, bool is_by_key,
          uint64_t *from)
{
    const redisReply *list = reply->element[is_by_key ? 3 : 2];

    if (list->type != REDIS_REPLY_ARRAY)
        return -EBADMSG;
    for (size_t i = 0; i < list->elements; i++)
        if (list->element[i]->type != REDIS_REPLY_STRING ||
            list->element[i]->len < 9)
            return -EBADMSG;
    if (is_by_key && reply->element[2]->type == REDIS_REPLY_INTEGER &&
        reply->element[2]->integer < 0)
        return -EOPNOTSUPP;
    *from = is_by_key ? cluster_reply_number(reply->element[2]) : p->low;
    p->list = list;
    return 0;
}

static int
read_rows(struct range_search *r, size_t capacity)
{
    uint64_t skip = r->offset, from = 0;
    int rc = 0;

    for (uint32_t i = 0; i < r->k->parts; i++)
        request_rows(r, i);
    cluster_call_run(r->s);
    for (uint32_t i = 0; rc == 0 && i < r->k->parts; i++) {
        const redisReply *reply = cluster_call_reply(r->s, &r->s->commands[i],
                                                     r->is_by_key ? 4 : 3, &rc);

        if (reply != NULL)
            rc = take_rows(&r->parts[i], reply, r->is_by_key, &from);
        if (rc == 0)
            skip -= from < skip ? from : skip;
    }
    if (rc == 0)
        rc = merge_rows(r, skip, capacity);
    cluster_call_end(r->s);
    return rc;
}

static int
search_cut(struct range_search *r)
{
    const uint64_t enough = SLACK * (r->q->length + SAMPLES);
    int rc = 0;

    for (int round = 0; rc == 0 && round < ROUNDS; round++) {
        narrow_bounds(r);
        if (count_between(r) <= enough)
            break;
        rc = read_samples(r);
    }
    if (rc == 0)
        narrow_bounds(r);
    return rc;
}

/* The first key that is not before the wanted ones, as ZLEXCOUNT takes it: the
 * later of `prefix` itself and what comes after `after`. */
static void
set_first(struct key_limit *limit, const struct store_query *q)
{
    const bool is_after =
        q->after_size > 0 &&
        bytes_compare(q->after, q->after_size, q->prefix, q->prefix_size) >= 0;
    const uint8_t *key = is_after ? q->after : q->prefix;
    const size_t size = is_after ? q->after_size : q->prefix_size;

    limit->size = 1;
    limit->bytes[0] = size == 0 ? '-' : is_after ? '[' : '(';
    if (size > 0)
        memcpy(limit->bytes + 1, key, size);
    limit->size += size;
}

/* After all keys that begin with `prefix`: before the next string of its size
 * that is not one of 0xff alone. */
static void
set_last(struct key_limit *limit, const struct store_query *q)
{
    size_t size = q->prefix_size;

    while (size > 0 && q->prefix[size - 1] == 0xff)
        size--;
    limit->bytes[0] = size == 0 ? '+' : '(';
    if (size > 0) {
        memcpy(limit->bytes + 1, q->prefix, size);
        limit->bytes[size]++;
    }
    limit->size = 1 + size;
}

int
cluster_range(struct cluster_store *s, const struct cluster_known *k,
              struct store_query *q, uint64_t offset, size_t capacity)
{
    struct range_search *r = calloc(1, sizeof *r);
    struct sample *samples =
        calloc((size_t)k->parts * SAMPLES * ROUNDS, sizeof *samples);
    uint64_t rows[OUTBOX_PARTS_MAX];
    struct store_totals all = {.keys = 0};
    int rc = r && samples ? 0 : -ENOMEM;

    if (rc == 0) {
        *r = (struct range_search){.s = s,
                                   .k = k,
                                   .q = q,
                                   .offset = offset,
                                   .is_by_key = q->op == STORE_KEYS};
        set_first(&r->first, q);
        set_last(&r->last, q);
        rc = cluster_read_totals(s, k, &all, rows);
    }
    for (uint32_t i = 0; rc == 0 && i < k->parts; i++) {
        r->parts[i].samples = samples + (size_t)i * SAMPLES * ROUNDS;
        r->parts[i].rows = rows[i];
    }
    if (rc == 0 && all.keys == 0)
        rc = -ENOENT;
    if (rc == 0 && offset < all.keys && q->length > 0) {
        if (k->parts == 1)
            r->parts[0].low = r->parts[0].high = offset;
        else if (offset > NEAR_START)
            rc = search_cut(r);
        else
            narrow_bounds(r);
        if (rc == 0)
            rc = read_rows(r, capacity);
    }
    free(samples);
    free(r);
    return rc;
}
