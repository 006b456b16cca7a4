/* common/store/cluster/cluster_read.c - queries: cluster_read() sends those of
 * a turn together where one command answers each, and the others one by one;
 * see cluster_store.h. */
#include "common/store/cluster/cluster_store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/hash.h"
#include "common/store/cluster/outbox_record.h"
#include "common/wire/query.h"

/* ---- parts -------------------------------------------------------------- */

static struct cluster_known *
place_of(struct cluster_store *s, const uint8_t *name, size_t name_size)
{
    static const struct hash_key key = {.k0 = 2};

    return &s->known[hash_name(&key, 0, name, name_size) % CLUSTER_KNOWN];
}

static bool
is_known(const struct cluster_known *k, const uint8_t *name, size_t name_size)
{
    return k->size > 0 && bytes_compare(k->name, k->size, name, name_size) == 0;
}

/* Remembers what {countd}p says of a keyspace.  -ENOENT, -EBADMSG */
static int
take_parts(struct cluster_store *s, const uint8_t *name, size_t name_size,
           const struct cluster_command *m)
{
    struct cluster_known *k = place_of(s, name, name_size);
    const redisReply *reply = m->reply;
    unsigned long generation, parts;
    char *end;

    if (m->error != 0)
        return cluster_read_error(s, m->error);
    if (reply->type == REDIS_REPLY_NIL)
        return -ENOENT;
    if (reply->type != REDIS_REPLY_STRING)
        return -EBADMSG;
    generation = strtoul(reply->str, &end, 10);
    parts = strtoul(end, NULL, 10);
    if (parts < 1 || parts > OUTBOX_PARTS_MAX || generation > UINT32_MAX)
        return -EBADMSG;
    memcpy(k->name, name, name_size);
    k->size = (uint16_t)name_size;
    k->generation = (uint32_t)generation;
    k->parts = (uint32_t)parts;
    return 0;
}

int
cluster_find_parts(struct cluster_store *s, const uint8_t *name,
                   size_t name_size, struct cluster_known *out)
{
    const struct cluster_known *k = place_of(s, name, name_size);
    int rc = 0;

    if (name_size < 1 || name_size > STORE_NAME_MAX)
        return -ENOENT;
    if (!is_known(k, name, name_size)) {
        struct cluster_command *m =
            cluster_call_lists(s, "HGET " CLUSTER_PARTS);

        cluster_add_word(m, name, name_size);
        cluster_call_run(s);
        rc = take_parts(s, name, name_size, m);
        cluster_call_end(s);
    }
    if (rc == 0)
        *out = *k;
    return rc;
}

void
cluster_forget_parts(struct cluster_store *s, const uint8_t *name,
                     size_t name_size)
{
    struct cluster_known *k = place_of(s, name, name_size);

    if (is_known(k, name, name_size))
        k->size = 0;
}

/* ---- answers ------------------------------------------------------------ */

int
cluster_put_member(struct store_query *q, size_t capacity,
                   const redisReply *member)
{
    const size_t size = (size_t)member->len;

    if (member->type != REDIS_REPLY_STRING || size < 9 ||
        size - 8 > STORE_NAME_MAX ||
        capacity - q->size < QUERY_ROW_SIZE + size - 8)
        return -EBADMSG;
    q->size +=
        query_row_put(q->bytes + q->size,
                      (int64_t)(~get_be64(member->str) ^ (uint64_t)1 << 63),
                      (const uint8_t *)member->str + 8, (uint16_t)(size - 8));
    q->rows++;
    return 0;
}

static void
begin_rows(struct cluster_store *s, const struct cluster_known *k,
           const struct store_query *q)
{
    struct cluster_command *m =
        cluster_call_part(s, k, 0, "FCALL_RO countd1_rows 2");

    cluster_add_number(m, q->offset);
    cluster_add_number(
        m, (int64_t)(q->length < INT32_MAX ? q->length : INT32_MAX));
}

static int
take_rows(struct cluster_store *s, const struct cluster_command *m,
          struct store_query *q, size_t capacity)
{
    const redisReply *reply, *list;
    int rc;

    reply = cluster_call_reply(s, m, 3, &rc);
    if (reply == NULL)
        return rc;
    list = reply->element[2];
    if (cluster_reply_number(reply->element[1]) == 0)
        return -ENOENT;
    if (list->type != REDIS_REPLY_ARRAY)
        return -EBADMSG;
    for (size_t i = 0; rc == 0 && i < list->elements && q->rows < q->length;
         i++)
        rc = cluster_put_member(q, capacity, list->element[i]);
    return rc;
}

static void
begin_key(struct cluster_store *s, const struct cluster_known *k,
          const struct store_query *q)
{
    const uint32_t part = outbox_part_of(q->key, q->key_size, k->parts);

    cluster_add_word(cluster_call_part(s, k, part, "FCALL_RO countd1_get 2"),
                     q->key, q->key_size);
}

/* Takes count, flag and rank of a key. */
static int
take_key(struct cluster_store *s, const struct cluster_command *m,
         struct store_query *q)
{
    const redisReply *reply;
    int rc;

    reply = cluster_call_reply(s, m, 2, &rc);
    if (reply == NULL)
        return rc;
    if (reply->elements < 5)
        return -ENOENT;
    if (reply->element[2]->type != REDIS_REPLY_STRING ||
        reply->element[2]->len != 8 ||
        reply->element[4]->type != REDIS_REPLY_INTEGER ||
        reply->element[4]->integer < 0)
        return -EBADMSG;
    q->row.count = (int64_t)get_be64(reply->element[2]->str);
    q->row.saturated = cluster_reply_number(reply->element[3]) != 0;
    q->rank = cluster_reply_number(reply->element[4]);
    return 0;
}

/* Puts one row: the count of the query's key, or its rank. */
static void
put_key_row(struct store_query *q)
{
    q->size = query_row_put(
        q->bytes, q->op == STORE_GET ? q->row.count : (int64_t)q->rank, q->key,
        (uint16_t)q->key_size);
    q->rows = 1;
}

static void
add_totals(struct store_totals *t, const redisReply *reply)
{
    const int128 all = int128_of(t->sum_high, t->sum_low) +
                       cluster_get_sum(reply->element[2]->str);

    t->sum_high = (int64_t)(all >> 64);
    t->sum_low = (uint64_t)all;
    t->change += cluster_reply_number(reply->element[0]);
    t->keys += cluster_reply_number(reply->element[1]);
    t->saturated += cluster_reply_number(reply->element[3]);
}

int
cluster_read_totals(struct cluster_store *s, const struct cluster_known *k,
                    struct store_totals *out, uint64_t *rows)
{
    int rc = 0;

    *out = (struct store_totals){.keys = 0};
    for (uint32_t i = 0; i < k->parts; i++)
        (void)cluster_call_part(s, k, i, "FCALL_RO countd1_totals 2");
    cluster_call_run(s);
    for (uint32_t i = 0; rc == 0 && i < k->parts; i++) {
        const redisReply *reply =
            cluster_call_reply(s, &s->commands[i], 4, &rc);

        if (reply != NULL && (reply->element[2]->type != REDIS_REPLY_STRING ||
                              reply->element[2]->len != CLUSTER_SUM_SIZE))
            rc = -EBADMSG;
        else if (reply != NULL)
            add_totals(out, reply);
        if (reply != NULL && rows != NULL)
            rows[i] = cluster_reply_number(reply->element[1]);
    }
    cluster_call_end(s);
    return rc == 0 && out->change == 0 ? -ENOENT : rc;
}

/* ---- a query at a time -------------------------------------------------- */

/* Reads count and rank of the query's key.  Other parts say how many of their
 * rows stand before it. */
static int
read_key(struct cluster_store *s, const struct cluster_known *k,
         struct store_query *q, bool wants_rank)
{
    const uint32_t own = outbox_part_of(q->key, q->key_size, k->parts);
    uint8_t member[8 + STORE_NAME_MAX];
    int rc;

    if (q->key_size < 1 || q->key_size > STORE_NAME_MAX)
        return -ENOENT;
    begin_key(s, k, q);
    cluster_call_run(s);
    rc = take_key(s, &s->commands[0], q);
    cluster_call_end(s);
    if (rc < 0 || !wants_rank || k->parts == 1)
        return rc;
    put_be64(member, ~(uint64_t)q->row.count ^ (uint64_t)1 << 63);
    memcpy(member + 8, q->key, q->key_size);
    for (uint32_t i = 0; i < k->parts; i++)
        if (i != own)
            cluster_add_word(
                cluster_call_part(s, k, i, "FCALL_RO countd1_before 2"), member,
                8 + q->key_size);
    cluster_call_run(s);
    for (size_t i = 0; rc == 0 && i < s->count; i++) {
        const redisReply *reply =
            cluster_call_reply(s, &s->commands[i], 3, &rc);

        if (reply != NULL)
            q->rank += cluster_reply_number(reply->element[2]);
    }
    cluster_call_end(s);
    return rc;
}

/* Reads rows by count from q->offset on. */
static int
read_rows(struct cluster_store *s, const struct cluster_known *k,
          struct store_query *q, size_t capacity)
{
    struct store_totals totals = {.keys = 0};
    uint64_t offset = (uint64_t)q->offset;
    int rc = 0;

    if (k->parts > 1) {
        if (q->offset < 0) {
            rc = cluster_read_totals(s, k, &totals, NULL);
            offset = totals.keys > 0 - offset ? totals.keys + offset : 0;
        }
        return rc < 0 ? rc : cluster_range(s, k, q, offset, capacity);
    }
    begin_rows(s, k, q);
    cluster_call_run(s);
    rc = take_rows(s, &s->commands[0], q, capacity);
    cluster_call_end(s);
    return rc;
}

/* Answers a query with the parts that are known.  -ESTALE: they are of an
 * earlier generation */
static int
read_known(struct cluster_store *s, struct store_query *q, size_t capacity)
{
    struct cluster_known k;
    int rc;

    rc = cluster_find_parts(s, q->name, q->name_size, &k);
    if (rc < 0)
        return rc;
    switch (q->op) {
    case STORE_GET:
    case STORE_RANK:
        rc = read_key(s, &k, q, q->op == STORE_RANK);
        if (rc == 0)
            put_key_row(q);
        return rc;
    case STORE_TOTAL:
        rc = cluster_read_totals(s, &k, &q->totals, NULL);
        if (rc == 0) {
            q->size = query_row_put(q->bytes, store_total(&q->totals), NULL, 0);
            q->rows = 1;
        }
        return rc;
    case STORE_AROUND:
        rc = read_key(s, &k, q, true);
        if (rc < 0)
            return rc;
        q->offset =
            q->rank > q->length / 2 ? (int64_t)(q->rank - q->length / 2) : 0;
        return read_rows(s, &k, q, capacity);
    case STORE_RANGE:
        return read_rows(s, &k, q, capacity);
    case STORE_KEYS:
        return cluster_range(s, &k, q, (uint64_t)q->offset, capacity);
    default:
        return -EOPNOTSUPP;
    }
}

static int
read_query(struct cluster_store *s, struct store_query *q, size_t capacity)
{
    const struct store_query start = *q;
    int rc;

    rc = read_known(s, q, capacity);
    if (rc != -ESTALE)
        return rc;
    cluster_forget_parts(s, q->name, q->name_size);
    *q = start;
    rc = read_known(s, q, capacity);
    return rc == -ESTALE ? -EIO : rc;
}

/* ---- the queries of a turn ---------------------------------------------- */

/* Whether one command answers a query: it then goes out with the others. */
static bool
is_single(struct cluster_store *s, const struct store_query *q)
{
    const struct cluster_known *k = place_of(s, q->name, q->name_size);

    if (!is_known(k, q->name, q->name_size))
        return false;
    if (q->op == STORE_GET)
        return q->key_size >= 1 && q->key_size <= STORE_NAME_MAX;
    return k->parts == 1 &&
           (q->op == STORE_RANGE || (q->op == STORE_RANK && q->key_size >= 1 &&
                                     q->key_size <= STORE_NAME_MAX));
}

/* Asks for the parts of keyspaces that are not known, in one round. */
static void
find_all_parts(struct cluster_store *s, const struct store_reads *reads)
{
    size_t asked[CLUSTER_CALLS] = {0}; /* queries, by call */

    for (size_t i = 0; i < reads->count && s->count < CLUSTER_CALLS; i++) {
        const struct store_query *q = &reads->queries[i];

        if (q->name_size < 1 || q->name_size > STORE_NAME_MAX ||
            is_known(place_of(s, q->name, q->name_size), q->name, q->name_size))
            continue;
        asked[s->count] = i;
        cluster_add_word(cluster_call_lists(s, "HGET " CLUSTER_PARTS), q->name,
                         q->name_size);
    }
    if (s->count == 0)
        return;
    cluster_call_run(s);
    /* A keyspace that is not there is asked for again, on its own. */
    for (size_t i = 0; i < s->count; i++) {
        const struct store_query *q = &reads->queries[asked[i]];

        (void)take_parts(s, q->name, q->name_size, &s->commands[i]);
    }
    cluster_call_end(s);
}

/* How many of the first queries one command answers each, and there is space
 * for. */
static size_t
count_singles(struct cluster_store *s, const struct store_reads *reads)
{
    size_t used = 0, i;

    for (i = 0; i < reads->count && i < CLUSTER_CALLS; i++) {
        const struct store_query *q = &reads->queries[i];

        used += reads->head + store_query_size_max(q);
        if (!is_single(s, q) || (i > 0 && used > reads->capacity))
            break;
    }
    return i;
}

struct single_ctx {
    struct cluster_store *s;
    size_t next;
};

static int
answer_single(void *ctx, struct store_query *q, size_t capacity)
{
    struct single_ctx *x = ctx;
    const struct cluster_command *m = &x->s->commands[x->next++];
    int rc;

    if (q->op == STORE_RANGE)
        return take_rows(x->s, m, q, capacity);
    rc = take_key(x->s, m, q);
    if (rc == 0)
        put_key_row(q);
    return rc;
}

static int
answer_query(void *ctx, struct store_query *q, size_t capacity)
{
    return read_query(ctx, q, capacity);
}

/* Forgets keyspaces whose part was gone; false: there is none. */
static bool
forget_gone(struct cluster_store *s, const struct store_reads *reads)
{
    bool is_any = false;

    for (size_t i = 0; i < reads->count; i++)
        if (s->commands[i].error == -ESTALE) {
            cluster_forget_parts(s, reads->queries[i].name,
                                 reads->queries[i].name_size);
            is_any = true;
        }
    return is_any;
}

size_t
cluster_read(struct store *store, struct store_reads *reads)
{
    struct cluster_store *s = cluster_store_of(store);
    struct single_ctx x = {.s = s};
    struct store_reads some = *reads;
    size_t done;

    find_all_parts(s, reads);
    some.count = count_singles(s, reads);
    if (some.count == 0) {
        some.count = 1;
        return store_read_each(&some, answer_query, s);
    }
    for (size_t i = 0; i < some.count; i++) {
        const struct store_query *q = &reads->queries[i];
        const struct cluster_known *k = place_of(s, q->name, q->name_size);

        if (q->op == STORE_RANGE)
            begin_rows(s, k, q);
        else
            begin_key(s, k, q);
    }
    cluster_call_run(s);
    if (forget_gone(s, &some)) {
        /* None is known now to be answered by one command: it ends. */
        cluster_call_end(s);
        some.count = 1;
        return store_read_each(&some, answer_query, s);
    }
    done = store_read_each(&some, answer_single, &x);
    cluster_call_end(s);
    return done;
}
