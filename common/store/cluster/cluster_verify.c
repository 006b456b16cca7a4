/* common/store/cluster/cluster_verify.c - cluster_verify(): each part's rows,
 * order and totals against each other.
 *
 * Servers compare a slice of rows with the order at a time, while everything
 * runs.  The totals can be compared only if the part did not change while its
 * rows were read: otherwise it is read again, and in the end only what each
 * slice found is reported. */
#include "common/store/cluster/cluster_store_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"

#define SLICE_ROWS 1000
#define TRIES      4

/* What the slices of a part found. */
struct part_sum {
    uint64_t version, rows, flagged, missing;
    int128 sum;
    bool is_changed; /* while it was read */
    char cursor[CLUSTER_NUMBER];
};

static int128
get_sum(const redisReply *sum)
{
    const uint8_t *at = (const uint8_t *)sum->str;

    return (int128)(int64_t)get_be64(at) * ((int128)1 << 32) + get_be32(at + 8);
}

static int
take_slice(struct part_sum *p, const redisReply *reply, bool is_first)
{
    const uint64_t version = cluster_reply_number(reply->element[0]);

    if (reply->element[1]->type != REDIS_REPLY_STRING ||
        reply->element[1]->len >= CLUSTER_NUMBER ||
        reply->element[4]->type != REDIS_REPLY_STRING ||
        reply->element[4]->len != 12)
        return -EBADMSG;
    p->is_changed = p->is_changed || (!is_first && version != p->version);
    p->version = version;
    p->rows += cluster_reply_number(reply->element[2]);
    p->flagged += cluster_reply_number(reply->element[3]);
    p->sum += get_sum(reply->element[4]);
    p->missing += cluster_reply_number(reply->element[5]);
    (void)snprintf(p->cursor, sizeof p->cursor, "%s", reply->element[1]->str);
    return 0;
}

static int
read_rows(struct cluster_store *s, const struct cluster_known *k, uint32_t part,
          struct part_sum *out)
{
    int rc = 0;

    *out = (struct part_sum){.cursor = "0"};
    for (bool is_first = true;
         rc == 0 && (is_first || strcmp(out->cursor, "0") != 0);
         is_first = false) {
        const size_t call = cluster_call_begin(s, "countd1_verify", k->name,
                                               k->size, k->generation, part);
        const redisReply *reply;

        cluster_call_word(s, call, out->cursor, strlen(out->cursor));
        cluster_call_number(s, call, 0, SLICE_ROWS);
        cluster_call_run(s);
        reply = cluster_call_reply(s, call, 6, &rc);
        if (reply != NULL)
            rc = take_slice(out, reply, is_first);
        cluster_call_end(s);
    }
    return rc;
}

struct part_totals {
    uint64_t version, rows, flagged, places;
    int128 sum;
};

static int
read_totals(struct cluster_store *s, const struct cluster_known *k,
            uint32_t part, struct part_totals *out)
{
    static const char no_sender[8];
    const size_t totals = cluster_call_begin(s, "countd1_totals", k->name,
                                             k->size, k->generation, part);
    const size_t state = cluster_call_begin(s, "countd1_state", k->name,
                                            k->size, k->generation, part);
    const redisReply *reply;
    int rc;

    cluster_call_word(s, state, no_sender, sizeof no_sender);
    cluster_call_run(s);
    reply = cluster_call_reply(s, totals, 4, &rc);
    if (reply != NULL && (reply->element[2]->type != REDIS_REPLY_STRING ||
                          reply->element[2]->len != 12))
        rc = -EBADMSG;
    else if (reply != NULL)
        *out = (struct part_totals){
            .version = cluster_reply_number(reply->element[0]),
            .rows = cluster_reply_number(reply->element[1]),
            .sum = get_sum(reply->element[2]),
            .flagged = cluster_reply_number(reply->element[3])};
    reply = rc == 0 ? cluster_call_reply(s, state, 6, &rc) : NULL;
    if (reply != NULL) {
        out->places = cluster_reply_number(reply->element[4]);
        if (cluster_reply_number(reply->element[3]) != out->version)
            out->version = UINT64_MAX; /* not of one moment */
    }
    cluster_call_end(s);
    return rc;
}

struct verify_report {
    void (*fault)(void *ctx, const char *text);
    void *ctx;
    struct store_check_result *out;
};

static void
report_fault(const struct verify_report *r, uint32_t part, const char *what)
{
    char text[160];

    r->out->faults++;
    (void)snprintf(text, sizeof text, "part %" PRIu32 ": %s", part, what);
    r->fault(r->ctx, text);
}

static int
verify_part(struct cluster_store *s, const struct cluster_known *k,
            uint32_t part, const struct verify_report *r)
{
    struct part_totals totals = {.version = UINT64_MAX};
    struct part_sum found;
    bool is_still = false;
    int rc = 0;

    for (int i = 0; rc == 0 && !is_still && i < TRIES; i++) {
        rc = read_totals(s, k, part, &totals);
        if (rc == 0)
            rc = read_rows(s, k, part, &found);
        is_still = rc == 0 && !found.is_changed &&
                   (found.version == totals.version || found.rows == 0);
    }
    if (rc < 0)
        return rc;
    r->out->blocks++;
    r->out->keys += found.rows;
    r->out->saturated += found.flagged;
    if (found.missing > 0)
        report_fault(r, part, "rows are not in the order of counts");
    if (is_still && totals.places != totals.rows)
        report_fault(r, part,
                     "its order does not fit its counts; it is made again with "
                     "the next increment");
    if (is_still && (totals.rows != found.rows || totals.sum != found.sum ||
                     totals.flagged != found.flagged))
        report_fault(r, part, "its totals are not those of its rows");
    return 0;
}

int
cluster_verify(struct store *store, const uint8_t *name, size_t name_size,
               void (*fault)(void *ctx, const char *text), void *ctx,
               struct store_check_result *out)
{
    struct cluster_store *s = cluster_store_of(store);
    const struct verify_report report = {fault, ctx, out};
    struct cluster_known k;
    int rc;

    *out = (struct store_check_result){.blocks = 0};
    rc = cluster_find_parts(s, name, name_size, &k);
    for (uint32_t i = 0; rc == 0 && i < k.parts; i++)
        rc = verify_part(s, &k, i, &report);
    return rc;
}
