/* common/store/cluster/cluster_history_scan.c - sums of spans: the top keys of
 * a time and a key's rank; see cluster_history.h.
 *
 * Servers sum the periods of each key.  A query goes over the keys of each part
 * in slices, by the cursor of HSCAN.
 *
 * Entry points, at the end: cluster_history_top(), cluster_history_rank(). */
#include "common/store/cluster/cluster_history.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/store/cluster/outbox_record.h"

#define PERIODS_MAX 1024 /* that one call sums */
#define LOOKUPS     8192 /* fields that one call reads, about */
#define SLICE_MAX   1000u

/* ---- sums of spans ------------------------------------------------------ */

/* Begins a call of a function with a part's periods in a span.  NULL: there are
 * too many. */
static struct cluster_command *
begin_span(const struct cluster_history_call *h, const char *words,
           uint32_t part, uint32_t from, uint32_t to)
{
    const struct cluster_tier *t = &h->tier;
    const uint64_t periods = cluster_tier_periods(t, from, to);
    struct cluster_period period = {t->step, t->length,
                                    from - from % t->length};
    uint8_t ranges[2 * PERIODS_MAX]; /* first and last step of each */
    char key[CLUSTER_PERIOD_KEY_SIZE];
    struct cluster_part_keys keys;
    struct cluster_command *m;

    if (periods > PERIODS_MAX)
        return NULL;
    m = cluster_next_call(h->s);
    keys = cluster_part_keys(h->known.name, h->known.size, h->known.generation,
                             part);
    cluster_begin(m, keys.slot, words);
    cluster_add_number(m, (int64_t)periods + 1);
    cluster_add_word(m, keys.counts, keys.size);
    for (uint64_t i = 0; i < periods; i++) {
        const uint32_t begin = period.begin, end = begin + t->length;

        cluster_add_word(m, key, cluster_period_key(key, &keys, &period));
        ranges[2 * i] = (uint8_t)(from > begin ? (from - begin) / t->step : 0);
        ranges[2 * i + 1] =
            (uint8_t)(((to < end ? to : end) - 1 - begin) / t->step);
        period.begin = end;
    }
    cluster_add_word(m, ranges, 2 * periods);
    return m;
}

/* The reply of a call, as an array that begins with `head` elements and goes on
 * with keys and sums; NULL with *error. */
static const redisReply *
get_span_reply(struct cluster_store *s, const struct cluster_command *m,
               size_t head, int *error)
{
    const redisReply *reply = cluster_call_reply(s, m, head, error);

    if (reply != NULL && (reply->elements - head) % 2 != 0)
        *error = -EBADMSG;
    for (size_t i = 0; reply != NULL && *error == 0 && i < reply->elements;
         i++) {
        const redisReply *e = reply->element[i];
        const bool is_sum = i >= head && (i - head) % 2 == 1;

        if (e->type != REDIS_REPLY_STRING || e->len > STORE_NAME_MAX ||
            (is_sum && e->len != CLUSTER_SUM_SIZE))
            *error = -EBADMSG;
    }
    return *error == 0 ? reply : NULL;
}

/* Sums the query's key over the span; without a key, the sums of all keys. */
static int
sum_own_key(struct cluster_history_call *h)
{
    struct store_history_query *q = h->q;
    const bool all = q->key_size == 0;
    const uint32_t first =
        all ? 0 : outbox_part_of(q->key, q->key_size, h->known.parts);
    const uint32_t end = all ? h->known.parts : first + 1;
    struct cluster_store *s = h->s;
    int rc = 0;

    for (uint32_t i = first; rc == 0 && i < end; i++) {
        struct cluster_command *m =
            begin_span(h, "FCALL_RO countd1_sums", i, q->from, q->to);

        if (m != NULL)
            cluster_add_word(m, q->key, q->key_size);
        else
            rc = -E2BIG;
    }
    if (rc == 0)
        cluster_call_run(s);
    for (size_t i = 0; rc == 0 && i < s->count; i++) {
        const redisReply *reply = get_span_reply(s, &s->commands[i], 0, &rc);

        if (reply != NULL && reply->elements == 2)
            add_to_bucket(&q->sum, cluster_get_sum(reply->element[1]->str));
    }
    cluster_call_end(s);
    return rc;
}

/* ---- over all keys ------------------------------------------------------ */

static bool
is_in_top(const struct store_history_query *q, const redisReply *key)
{
    for (uint64_t i = 0; i < q->rows; i++)
        if (bytes_compare(q->top[i].key, q->top[i].key_size, key->str,
                          (size_t)key->len) == 0)
            return true;
    return false;
}

/* A key may come twice while its part grows: the top has it once. */
static void
take_key(struct store_history_query *q, const redisReply *key, int128 sum)
{
    const uint8_t *bytes = (const uint8_t *)key->str;
    const size_t size = (size_t)key->len;

    if (q->op == STORE_HISTORY_RANK)
        history_rank_count(q, bytes, size, sum);
    else if (history_top_wants(q, bytes, size, sum) && !is_in_top(q, key))
        history_top_offer(q, bytes, size, sum);
}

/* Goes over a slice of the keys of part q->minutes; the cursor is in q->at. */
static int
scan_slice(struct cluster_history_call *h)
{
    struct store_history_query *q = h->q;
    const uint64_t periods = cluster_tier_periods(&h->tier, q->from, q->to);
    const uint64_t keys = LOOKUPS / (periods + 1) + 8;
    struct cluster_command *m =
        begin_span(h, "FCALL_RO countd1_scan", q->minutes, q->from, q->to);
    const redisReply *reply;
    int rc;

    if (m == NULL)
        return -E2BIG;
    if (q->at_size == 0)
        cluster_add_text(m, "0");
    else
        cluster_add_word(m, q->at, q->at_size);
    cluster_add_number(m, (int64_t)(keys < SLICE_MAX ? keys : SLICE_MAX));
    cluster_call_run(h->s);
    reply = get_span_reply(h->s, m, 1, &rc);
    for (size_t i = 1; reply != NULL && i < reply->elements; i += 2)
        take_key(q, reply->element[i],
                 cluster_get_sum(reply->element[i + 1]->str));
    if (reply != NULL) {
        q->at_size = (uint16_t)reply->element[0]->len;
        memcpy(q->at, reply->element[0]->str, q->at_size);
        if (q->at_size == 1 && q->at[0] == '0') {
            q->minutes++;
            q->at_size = 0;
        }
    }
    cluster_call_end(h->s);
    return rc;
}

static int
scan_keys(struct cluster_history_call *h)
{
    int rc = 0;

    while (rc == 0 && h->q->minutes < h->known.parts) {
        rc = scan_slice(h);
        if (rc == 0 && h->q->minutes < h->known.parts &&
            cluster_history_is_over(h))
            rc = -EAGAIN;
    }
    return rc;
}

/* ---- the top ------------------------------------------------------------ */

/* Takes the sums before of keys of the top from `from` on: the reply has those
 * that have any, in the same order. */
static void
take_before(struct store_history_query *q, const redisReply *reply,
            uint64_t from)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        for (uint64_t j = from; j < q->rows; j++) {
            struct store_top *t = &q->top[j];

            if (bytes_compare(t->key, t->key_size, reply->element[i]->str,
                              (size_t)reply->element[i]->len) == 0) {
                t->before =
                    history_bucket(cluster_get_sum(reply->element[i + 1]->str));
                break;
            }
        }
}

/* Reads the sums before of `count` keys of the top from q->done on, those of a
 * part in one call. */
static int
read_before(struct cluster_history_call *h, uint64_t count)
{
    struct store_history_query *q = h->q;
    const uint32_t span = q->to - q->from, parts = h->known.parts;
    struct cluster_store *s = h->s;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < parts; i++)
        if (begin_span(h, "FCALL_RO countd1_sums", i, q->from - span,
                       q->from) == NULL)
            rc = -E2BIG;
    for (uint64_t i = q->done; rc == 0 && i < q->done + count; i++) {
        const struct store_top *t = &q->top[i];

        cluster_add_word(
            &s->commands[outbox_part_of(t->key, t->key_size, parts)], t->key,
            t->key_size);
    }
    if (rc == 0)
        cluster_call_run(s);
    for (uint32_t i = 0; rc == 0 && i < parts; i++) {
        const redisReply *reply = get_span_reply(s, &s->commands[i], 0, &rc);

        if (reply != NULL)
            take_before(q, reply, q->done);
    }
    cluster_call_end(s);
    return rc;
}

int
cluster_history_top(struct cluster_history_call *h)
{
    struct store_history_query *q = h->q;
    const uint32_t span = q->to - q->from;
    const uint64_t periods = cluster_tier_periods(&h->tier, q->from, q->to);
    const uint64_t piece = LOOKUPS / (periods + 1) + 8;
    int rc = 0;

    if (q->length == 0)
        return 0;
    if (q->phase == 0) {
        rc = scan_keys(h);
        if (rc < 0)
            return rc;
        history_top_sort(q);
        q->phase = 1;
    }
    q->before_known = q->from >= span && q->from - span >= q->since;
    if (q->from < span)
        return 0;
    while (rc == 0 && q->done < q->rows) {
        const uint64_t left = q->rows - q->done;
        const uint64_t count = left < piece ? left : piece;

        rc = read_before(h, count);
        if (rc == 0)
            q->done += count;
        if (rc == 0 && q->done < q->rows && cluster_history_is_over(h))
            rc = -EAGAIN;
    }
    return rc;
}

int
cluster_history_rank(struct cluster_history_call *h)
{
    int rc = 0;

    if (h->q->phase == 0) {
        rc = sum_own_key(h);
        if (rc < 0)
            return rc;
        h->q->phase = 1;
    }
    return scan_keys(h);
}
