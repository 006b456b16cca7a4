/* common/store/cluster/cluster_verify.c - cluster_verify(): each part's rows,
 * order and totals against each other.
 *
 * Servers compare a slice of rows with the orders, and with history if all of
 * it is kept, at a time, while everything runs.  The totals can be compared
 * only if the part did not change while its rows were read: otherwise it is
 * read again, and in the end only what each slice found is reported. */
#include "common/store/cluster/cluster_store_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/name.h"

#define SLICE_ROWS 100 /* each with all of its history */
#define TRIES      4

/* What the slices of a part found. */
struct part_sum {
    uint64_t version, rows, flagged, missing, differing;
    int128 sum;
    size_t which_size; /* 0: none is missing or differs */
    uint8_t which[STORE_NAME_MAX];
    bool is_changed; /* while it was read */
    char cursor[CLUSTER_NUMBER];
};

static int
take_slice(struct part_sum *p, const redisReply *reply, bool is_first)
{
    const uint64_t version = cluster_reply_number(reply->element[0]);

    if (reply->element[1]->type != REDIS_REPLY_STRING ||
        reply->element[1]->len >= CLUSTER_NUMBER ||
        reply->element[4]->type != REDIS_REPLY_STRING ||
        reply->element[4]->len != CLUSTER_SUM_SIZE ||
        reply->element[7]->type != REDIS_REPLY_STRING ||
        (size_t)reply->element[7]->len > STORE_NAME_MAX)
        return -EBADMSG;
    p->is_changed = p->is_changed || (!is_first && version != p->version);
    p->version = version;
    p->rows += cluster_reply_number(reply->element[2]);
    p->flagged += cluster_reply_number(reply->element[3]);
    p->sum += cluster_get_sum(reply->element[4]->str);
    p->missing += cluster_reply_number(reply->element[5]);
    p->differing += cluster_reply_number(reply->element[6]);
    if (p->which_size == 0) {
        p->which_size = (size_t)reply->element[7]->len;
        memcpy(p->which, reply->element[7]->str, p->which_size);
    }
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
        struct cluster_command *m =
            cluster_call_part(s, k, part, "FCALL_RO countd1_verify 2");
        const redisReply *reply;

        cluster_add_text(m, out->cursor);
        cluster_add_number(m, SLICE_ROWS);
        cluster_call_run(s);
        reply = cluster_call_reply(s, m, 8, &rc);
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
    const struct cluster_command *totals =
        cluster_call_part(s, k, part, "FCALL_RO countd1_totals 2");
    struct cluster_command *state =
        cluster_call_part(s, k, part, "FCALL_RO countd1_state 2");
    const redisReply *reply;
    int rc;

    cluster_add_word(state, no_sender, sizeof no_sender);
    cluster_call_run(s);
    reply = cluster_call_reply(s, totals, 4, &rc);
    if (reply != NULL && (reply->element[2]->type != REDIS_REPLY_STRING ||
                          reply->element[2]->len != CLUSTER_SUM_SIZE))
        rc = -EBADMSG;
    else if (reply != NULL)
        *out = (struct part_totals){
            .version = cluster_reply_number(reply->element[0]),
            .rows = cluster_reply_number(reply->element[1]),
            .sum = cluster_get_sum(reply->element[2]->str),
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
    char text[NAME_TEXT_SIZE + 192];

    r->out->faults++;
    (void)snprintf(text, sizeof text, "part %" PRIu32 ": %s", part, what);
    r->fault(r->ctx, text);
}

/* Reports rows that are wrong, with the name of one. */
static void
report_rows(const struct verify_report *r, uint32_t part,
            const struct part_sum *found, uint64_t count, const char *what)
{
    char name[NAME_TEXT_SIZE], text[NAME_TEXT_SIZE + 160];

    name_escape(found->which, found->which_size, name);
    (void)snprintf(text, sizeof text, "rows %s: %" PRIu64 ", such as key %s",
                   what, count, name);
    report_fault(r, part, text);
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
        report_rows(r, part, &found, found.missing,
                    "not in the orders of counts and keys");
    if (found.differing > 0)
        report_rows(r, part, &found, found.differing,
                    "with another count than the sum of their history");
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

    rc = -ESTALE;
    for (int i = 0; rc == -ESTALE && i < 2; i++) {
        if (i > 0) /* it got more parts meanwhile */
            cluster_forget_parts(s, name, name_size);
        *out = (struct store_check_result){.blocks = 0};
        rc = cluster_find_parts(s, name, name_size, &k);
        for (uint32_t j = 0; rc == 0 && j < k.parts; j++)
            rc = verify_part(s, &k, j, &report);
    }
    return rc;
}
