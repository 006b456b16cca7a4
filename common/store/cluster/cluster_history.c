/* common/store/cluster/cluster_history.c - cluster_history(): questions about
 * history; see cluster_store.h.
 *
 * Each part says in its record which tiers it has and since when.  Every tier
 * has all sums, so a query reads the periods of one: the coarsest whose step
 * divides the span and its steps.  A key's buckets are one field of each
 * period.
 *
 * Read from the end. */
#include "common/store/cluster/cluster_history.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/store/cluster/outbox_record.h"

#define RECORD_HEAD 4
#define RECORD_TIER 16

/* ---- tiers -------------------------------------------------------------- */

static bool
get_tier(const redisReply *record, size_t index, struct cluster_tier *out)
{
    const size_t at = RECORD_HEAD + index * RECORD_TIER;

    if (record->type != REDIS_REPLY_STRING ||
        (size_t)record->len < at + RECORD_TIER)
        return false;
    out->step = get_be32(record->str + at);
    out->length = get_be32(record->str + at + 4);
    out->keep = get_be32(record->str + at + 8);
    out->since = get_be32(record->str + at + 12);
    return out->step > 0 && out->length > 0 && out->length % out->step == 0;
}

/* Chooses the coarsest tier of a record that can answer. */
static int
choose_tier(struct cluster_history_call *h, const redisReply *record,
            uint32_t step)
{
    struct cluster_tier t;
    int rc = -EINVAL;

    for (size_t i = 0; get_tier(record, i, &t); i++) {
        if (h->q->from % t.step != 0 || step % t.step != 0)
            continue;
        h->tier = t;
        h->tier.since = 0;
        rc = 0;
    }
    return rc;
}

static uint32_t
round_up(uint32_t minute, uint32_t step)
{
    return (minute + step - 1) / step * step;
}

/* From when on a part has all of the tier; what it removed since counts only
 * if it had something then. */
static uint32_t
find_since(const struct cluster_tier *tier, const redisReply *record,
           uint32_t now)
{
    const uint32_t kept = now > tier->keep ? now - tier->keep : 0;
    const uint32_t floor = kept - kept % tier->length;
    struct cluster_tier t;

    for (size_t i = 0; get_tier(record, i, &t); i++) {
        const uint32_t began = round_up(t.since, t.step);

        if (t.step == tier->step && t.length == tier->length)
            return get_be32(record->str) < floor && floor > began ? floor
                                                                  : began;
    }
    return round_up(now, tier->step);
}

/* Finds the tier from what the parts say. */
static int
take_records(struct cluster_history_call *h, uint32_t step)
{
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    struct cluster_store *s = h->s;
    int rc = -ENODATA;

    for (size_t i = 0; rc == -ENODATA && i < s->count; i++) {
        const redisReply *reply = s->commands[i].reply;

        if (reply->element[1]->type == REDIS_REPLY_STRING)
            rc = choose_tier(h, reply->element[1], step);
    }
    for (size_t i = 0; rc == 0 && i < s->count; i++) {
        const redisReply *reply = s->commands[i].reply;
        uint32_t since;

        /* A part that is empty, or was emptied, misses nothing. */
        if (reply->element[1]->type == REDIS_REPLY_NIL &&
            cluster_reply_number(reply->element[2]) == 0)
            continue;
        since = find_since(&h->tier, reply->element[1], now);
        h->tier.since = since > h->tier.since ? since : h->tier.since;
    }
    return rc;
}

static int
read_tier(struct cluster_history_call *h, uint32_t step)
{
    const struct store_history_query *q = h->q;
    struct cluster_store *s = h->s;
    bool exists = false;
    int rc = 0;

    if (step == 0 || q->from > q->to || (q->to - q->from) % step != 0)
        return -EINVAL;
    for (uint32_t i = 0; i < h->known.parts; i++) {
        struct cluster_command *m = cluster_next_call(s);
        struct cluster_part_keys keys =
            cluster_part_keys(q->name, q->name_size, h->known.generation, i);

        cluster_begin(m, keys.slot, "HMGET");
        cluster_add_word(m, keys.counts, keys.size);
        cluster_add_word(m, "\0v", 2);
        cluster_add_word(m, "\0h", 2);
        cluster_add_word(m, "\0k", 2);
        cluster_add_word(m, "\0g", 2);
    }
    cluster_call_run(s);
    for (size_t i = 0; rc == 0 && i < s->count; i++) {
        const redisReply *reply =
            cluster_call_reply(s, &s->commands[i], 4, &rc);

        if (reply != NULL && reply->element[3]->type != REDIS_REPLY_NIL)
            rc = -ESTALE;
        exists =
            exists || (reply && reply->element[0]->type == REDIS_REPLY_STRING);
    }
    if (rc == 0)
        rc = exists ? take_records(h, step) : -ENOENT;
    cluster_call_end(s);
    return rc;
}

/* ---- fields ------------------------------------------------------------- */

/* The record of a field that ends at byte *end, which moves to its beginning.
 * False: there is none, or these bytes are none. */
static bool
get_cell(const redisReply *field, size_t *end, uint32_t *cell, int128 *sum)
{
    static const size_t sizes[4] = {1, 2, 4, 12};
    const uint8_t *text = (const uint8_t *)field->str;
    size_t size;

    if (*end < 2)
        return false;
    size = sizes[text[*end - 1] >> 6];
    *cell = text[*end - 1] & 63;
    if (*end < size + 1)
        return false;
    *end -= size + 1;
    switch (size) {
    case 1:
        *sum = text[*end];
        break;
    case 2:
        *sum = get_be16(text + *end);
        break;
    case 4:
        *sum = get_be32(text + *end);
        break;
    default:
        *sum = cluster_get_sum(text + *end);
    }
    return true;
}

/* Adds the sums of a field of the period that begins at `begin`. */
static int
add_field(struct cluster_history_call *h, const redisReply *field,
          uint32_t begin)
{
    const struct store_history_query *q = h->q;
    size_t end = field->type == REDIS_REPLY_STRING ? (size_t)field->len : 0;
    uint32_t cell;
    int128 sum;

    while (get_cell(field, &end, &cell, &sum)) {
        const uint64_t minute = begin + (uint64_t)cell * h->tier.step;

        if (minute >= q->from && minute < q->to)
            add_to_bucket(&q->buckets[(minute - q->from) / q->step], sum);
    }
    return end == 0 ? 0 : -EBADMSG;
}

bool
cluster_history_is_over(const struct cluster_history_call *h)
{
    return h->until_ns != 0 && clock_ns() >= h->until_ns;
}

/* Reads fields `done` to `done + count` of all: those of each part, by period.
 */
static int
read_fields(struct cluster_history_call *h, uint64_t count, uint32_t first_part)
{
    struct cluster_store *s = h->s;
    const struct store_history_query *q = h->q;
    const bool all = q->op == STORE_HISTORY_KEYSPACE;
    const uint64_t periods = cluster_tier_periods(&h->tier, q->from, q->to);
    const uint32_t first = q->from - q->from % h->tier.length;
    int rc = 0;

    for (uint64_t i = q->done; i < q->done + count; i++) {
        const struct cluster_period period = {h->tier.step, h->tier.length,
                                              first + (uint32_t)(i % periods) *
                                                          h->tier.length};
        struct cluster_command *m = cluster_next_call(s);
        char key[CLUSTER_PERIOD_KEY_SIZE];
        struct cluster_part_keys keys =
            cluster_part_keys(q->name, q->name_size, h->known.generation,
                              first_part + (uint32_t)(i / periods));

        cluster_begin(m, keys.slot, "HGET");
        cluster_add_word(m, key, cluster_period_key(key, &keys, &period));
        cluster_add_word(m, q->key, all ? 0 : q->key_size);
    }
    cluster_call_run(s);
    for (uint64_t i = 0; rc == 0 && i < count; i++) {
        const uint64_t period = (q->done + i) % periods;

        if (s->commands[i].error != 0)
            rc = cluster_read_error(s, s->commands[i].error);
        else
            rc = add_field(h, s->commands[i].reply,
                           first + (uint32_t)period * h->tier.length);
    }
    cluster_call_end(s);
    return rc;
}

/* Answers with buckets of a key, or of all keys. */
static int
answer_buckets(struct cluster_history_call *h)
{
    struct store_history_query *q = h->q;
    const bool all = q->op == STORE_HISTORY_KEYSPACE;
    const uint32_t count = (q->to - q->from) / q->step;
    const uint64_t fields = cluster_tier_periods(&h->tier, q->from, q->to) *
                            (all ? h->known.parts : 1);
    const uint32_t part =
        all ? 0 : outbox_part_of(q->key, q->key_size, h->known.parts);
    int rc = 0;

    if (count > STORE_BUCKETS_MAX)
        return -E2BIG;
    if (q->done == 0)
        memset(q->buckets, 0, count * sizeof *q->buckets);
    while (rc == 0 && q->done < fields) {
        const uint64_t left = fields - q->done;
        const uint64_t some = left < CLUSTER_CALLS ? left : CLUSTER_CALLS;

        rc = read_fields(h, some, part);
        if (rc == 0)
            q->done += some;
        if (rc == 0 && q->done < fields && cluster_history_is_over(h))
            rc = -EAGAIN;
    }
    return rc;
}

/* ---- the query ---------------------------------------------------------- */

/* Answers with the parts that are known.  -ESTALE: they are of an earlier
 * generation */
static int
read_history(struct store *store, struct store_history_query *q,
             uint64_t until_ns)
{
    struct cluster_history_call h = {
        .s = cluster_store_of(store), .q = q, .until_ns = until_ns};
    const bool has_steps =
        q->op == STORE_HISTORY_KEY || q->op == STORE_HISTORY_KEYSPACE;
    int rc;

    if (q->key_size > STORE_NAME_MAX ||
        (q->op == STORE_HISTORY_KEY && q->key_size < 1))
        return -EINVAL;
    rc = cluster_find_parts(h.s, q->name, q->name_size, &h.known);
    if (rc < 0)
        return rc;
    /* Parts that were gone over are not those of another generation. */
    if (q->generation != 0 && q->generation != 1 + (uint64_t)h.known.generation)
        return -EIO;
    q->generation = 1 + (uint64_t)h.known.generation;
    if (q->to < q->from)
        return -EINVAL;
    if (!has_steps && q->to == q->from)
        return 0; /* no time, nothing in it */
    rc = read_tier(&h, has_steps ? q->step : q->to - q->from);
    if (rc < 0)
        return rc;
    q->since = h.tier.since;
    if (q->op == STORE_HISTORY_TOP)
        return cluster_history_top(&h);
    return has_steps ? answer_buckets(&h) : cluster_history_rank(&h);
}

int
cluster_history(struct store *store, struct store_history_query *q,
                uint64_t until_ns)
{
    const struct store_history_query start = *q;
    int rc;

    rc = read_history(store, q, until_ns);
    if (rc != -ESTALE)
        return rc;
    cluster_forget_parts(cluster_store_of(store), q->name, q->name_size);
    *q = start;
    rc = read_history(store, q, until_ns);
    return rc == -ESTALE ? -EIO : rc;
}
