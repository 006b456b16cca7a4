/* common/store/cluster/cluster_history_scan.c - sums of spans: the top keys of
 * a time and a key's rank; see cluster_history.h.
 *
 * Servers sum the periods of each key.  A query goes over the keys of each part
 * in slices, by the cursor of HSCAN.
 *
 * Entry points, at the end: cluster_history_top(), cluster_history_rank(). */
#include "common/store/cluster/cluster_history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/store/cluster/outbox_record.h"
#include "common/store/history/history_top.h"

#define PERIODS_MAX 1024 /* that one call sums */
#define LOOKUPS     8192 /* fields that one call reads, about */
#define SLICE_MAX   1000u
#define WORDS_MORE  8 /* of a call besides periods and keys */

static void
add_to_bucket(struct store_bucket *b, int128 sum)
{
    *b = history_bucket(store_bucket_sum(b) + sum);
}

/* ---- sums of spans ------------------------------------------------------ */

/* A call of a function with a part's periods in a span. */
struct span_call {
    struct cluster_command command;
    struct cluster_part_keys keys;
    const char **argv;
    size_t *sizes;
    char (*periods)[CLUSTER_PERIOD_KEY_SIZE];
    size_t count;
    uint8_t ranges[2 * PERIODS_MAX]; /* first and last step of each */
    char number[2][CLUSTER_NUMBER];
};

static void
end_span(struct span_call *c)
{
    cluster_free_replies(&c->command, 1);
    free(c->periods);
    free(c->argv);
    free(c->sizes);
}

static void
put_period(const struct cluster_tier *t, struct span_call *c, uint32_t begin,
           uint32_t from, uint32_t to)
{
    const uint32_t end = begin + t->length;
    const struct cluster_period period = {t->step, t->length, begin};
    const size_t i = c->count++;
    const size_t size = cluster_period_key(c->periods[i], &c->keys, &period);

    c->ranges[2 * i] = (uint8_t)(from > begin ? (from - begin) / t->step : 0);
    c->ranges[2 * i + 1] =
        (uint8_t)(((to < end ? to : end) - 1 - begin) / t->step);
    cluster_add_word(&c->command, c->periods[i], size);
}

/* Begins a call about a span of a part, with space for `words` more; end_span()
 * also after an error.  -E2BIG, -ENOMEM */
static int
begin_span(const struct cluster_history_call *h, struct span_call *c,
           const char *function, uint32_t part, uint32_t from, uint32_t to,
           size_t words)
{
    const uint64_t periods = cluster_tier_periods(&h->tier, from, to);
    struct cluster_command *m = &c->command;
    uint32_t begin = from - from % h->tier.length;

    *c = (struct span_call){.count = 0};
    if (periods > PERIODS_MAX)
        return -E2BIG;
    cluster_part_keys(&c->keys, h->q->name, h->q->name_size,
                      h->known.generation, part);
    m->slot = c->keys.slot;
    m->node = CLUSTER_NO_NODE;
    m->words = periods + words + WORDS_MORE;
    m->argv = c->argv = calloc(m->words, sizeof *c->argv);
    m->sizes = c->sizes = calloc(m->words, sizeof *c->sizes);
    c->periods = calloc(periods + 1, sizeof *c->periods);
    if (c->argv == NULL || c->sizes == NULL || c->periods == NULL)
        return -ENOMEM;
    cluster_add_text(m, "FCALL_RO");
    cluster_add_text(m, function);
    (void)snprintf(c->number[0], CLUSTER_NUMBER, "%llu",
                   (unsigned long long)periods + 1);
    cluster_add_text(m, c->number[0]);
    cluster_add_word(m, c->keys.counts, c->keys.size);
    for (uint64_t i = 0; i < periods; i++, begin += h->tier.length)
        put_period(&h->tier, c, begin, from, to);
    cluster_add_word(m, c->ranges, 2 * c->count);
    return 0;
}

/* The reply of a call, as an array that begins with `head` elements and goes on
 * with keys and sums; NULL with *error. */
static const redisReply *
get_span_reply(const struct span_call *c, size_t head, int *error)
{
    const redisReply *reply = c->command.reply;

    *error = c->command.error == 0         ? 0
             : c->command.error == -ESTALE ? -ESTALE
                                           : -EIO;
    if (*error == 0 &&
        (reply->type != REDIS_REPLY_ARRAY || reply->elements < head ||
         (reply->elements - head) % 2 != 0))
        *error = -EBADMSG;
    for (size_t i = 0; *error == 0 && i < reply->elements; i++) {
        const redisReply *e = reply->element[i];
        const bool is_sum = i >= head && (i - head) % 2 == 1;

        if (e->type != REDIS_REPLY_STRING || e->len > STORE_NAME_MAX ||
            (is_sum && e->len != CLUSTER_SUM_SIZE))
            *error = -EBADMSG;
    }
    return *error == 0 ? reply : NULL;
}

/* A round of calls, one for each part. */
static void
run_spans(struct cluster_history_call *h, struct span_call *calls, size_t count)
{
    struct cluster_command *m = calloc(count, sizeof *m);

    for (size_t i = 0; i < count; i++) {
        if (m == NULL)
            calls[i].command.error = -ENOMEM;
        else
            m[i] = calls[i].command;
    }
    if (m == NULL)
        return;
    cluster_run(h->s->cluster, m, count);
    for (size_t i = 0; i < count; i++)
        calls[i].command = m[i];
    free(m);
}

/* Sums the query's key over the span; without a key, the sums of all keys. */
static int
sum_own_key(struct cluster_history_call *h)
{
    struct store_history_query *q = h->q;
    const bool all = q->key_size == 0;
    const uint32_t first =
        all ? 0 : outbox_part_of(q->key, q->key_size, h->known.parts);
    struct span_call c;
    int rc = 0;

    for (uint32_t i = first; rc == 0 && i < (all ? h->known.parts : first + 1);
         i++) {
        const redisReply *reply;

        rc = begin_span(h, &c, "countd1_sums", i, q->from, q->to, 1);
        if (rc == 0) {
            cluster_add_word(&c.command, all ? (const uint8_t *)"" : q->key,
                             q->key_size);
            run_spans(h, &c, 1);
            reply = get_span_reply(&c, 0, &rc);
            if (reply != NULL && reply->elements == 2)
                add_to_bucket(&q->sum, cluster_get_sum(reply->element[1]->str));
        }
        end_span(&c);
    }
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
    const redisReply *reply;
    struct span_call c;
    int rc;

    rc = begin_span(h, &c, "countd1_scan", q->minutes, q->from, q->to, 2);
    if (rc == 0) {
        if (q->at_size == 0)
            cluster_add_text(&c.command, "0");
        else
            cluster_add_word(&c.command, q->at, q->at_size);
        (void)snprintf(c.number[1], CLUSTER_NUMBER, "%u",
                       keys < SLICE_MAX ? (unsigned)keys : SLICE_MAX);
        cluster_add_text(&c.command, c.number[1]);
        run_spans(h, &c, 1);
        reply = get_span_reply(&c, 1, &rc);
        for (size_t i = 1; reply != NULL && i < reply->elements; i += 2)
            take_key(q, reply->element[i],
                     cluster_get_sum(reply->element[i + 1]->str));
        if (reply != NULL) {
            q->at_size = (uint16_t)reply->element[0]->len;
            memcpy(q->at, reply->element[0]->str, q->at_size);
        }
        if (reply != NULL && q->at_size == 1 && q->at[0] == '0') {
            q->minutes++;
            q->at_size = 0;
        }
    }
    end_span(&c);
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
    struct span_call *calls = calloc(parts, sizeof *calls);
    int rc = calls ? 0 : -ENOMEM;

    for (uint32_t i = 0; rc == 0 && i < parts; i++)
        rc = begin_span(h, &calls[i], "countd1_sums", i, q->from - span,
                        q->from, count);
    for (uint64_t i = q->done; rc == 0 && i < q->done + count; i++) {
        const struct store_top *t = &q->top[i];

        cluster_add_word(
            &calls[outbox_part_of(t->key, t->key_size, parts)].command, t->key,
            t->key_size);
    }
    if (rc == 0)
        run_spans(h, calls, parts);
    for (uint32_t i = 0; rc == 0 && i < parts; i++) {
        const redisReply *reply = get_span_reply(&calls[i], 0, &rc);

        if (reply != NULL)
            take_before(q, reply, q->done);
    }
    for (uint32_t i = 0; calls != NULL && i < parts; i++)
        end_span(&calls[i]);
    free(calls);
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
