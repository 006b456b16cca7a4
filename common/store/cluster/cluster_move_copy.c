/* common/store/cluster/cluster_move_copy.c - move_copy_part(): rows, marks and
 * history of a part of the old generation into those of the new one that it
 * becomes; see cluster_move.h.
 *
 * Hashes are read in slices, which may give a field twice: the functions add
 * only what is missing. */
#include "common/store/cluster/cluster_move_internal.h"

#include <errno.h>

#include "common/store/cluster/cluster_scan.h"
#include "common/store/cluster/outbox_record.h"

#define MOVE_ROWS 1000 /* in one command */

/* The piece of a part that is being copied: counts, or a period of history. */
struct copy {
    struct move *m;
    uint32_t part;
    bool is_counts;
    struct cluster_period period;
    uint64_t expiry_s;
};

/* Fields of countd's own that every new part gets: marks, their list, the
 * record of history.  It has its own totals. */
static bool
is_shared(const redisReply *field)
{
    return field->len >= 2 && field->str[0] == '\0' &&
           (field->str[1] == 'n' || field->str[1] == 'l' ||
            field->str[1] == 'h');
}

static bool
belongs_to(const struct move *m, const redisReply *field, uint32_t part)
{
    if (field->len == 0)
        return false; /* the sums of all keys are made anew */
    if (field->str[0] == '\0')
        return is_shared(field);
    return outbox_part_of((const uint8_t *)field->str, (size_t)field->len,
                          m->place.other_parts) == part;
}

/* Begins a command that adds fields to a new part. */
static void
begin_copy(const struct copy *c, uint32_t part, struct cluster_command *add)
{
    const struct move *m = c->m;
    uint8_t token[CLUSTER_MARK_SIZE];
    char period[CLUSTER_PERIOD_KEY_SIZE];
    struct cluster_part_keys keys;

    if (c->is_counts) {
        move_begin(add, m->k, m->place.other, part, "FCALL countd1_copy 2",
                   m->place.token);
        return;
    }
    /* The second key is the period in place of the order. */
    keys = cluster_part_keys(m->k->name, m->k->name_size, m->place.other, part);
    cluster_begin(add, keys.slot, "FCALL countd1_copy_period 2");
    cluster_add_word(add, keys.counts, keys.size);
    cluster_add_word(add, period,
                     cluster_period_key(period, &keys, &c->period));
    put_be64(token, m->place.token);
    cluster_add_word(add, token, sizeof token);
    cluster_add_number(add, (int64_t)c->expiry_s);
}

/* Adds the fields of a slice that belong to a new part. */
static int
copy_fields(const struct copy *c, const redisReply *list, uint32_t part)
{
    struct cluster_command add;
    size_t count = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < list->elements; i += 2) {
        const redisReply *field = list->element[i],
                         *value = list->element[i + 1];

        if (!belongs_to(c->m, field, part))
            continue;
        if (count++ == 0)
            begin_copy(c, part, &add);
        cluster_add_word(&add, field->str, (size_t)field->len);
        cluster_add_word(&add, value->str, (size_t)value->len);
        c->m->rows += c->is_counts && field->str[0] != '\0';
        if (count == MOVE_ROWS) {
            rc = move_do(c->m->c, &add);
            count = 0;
        }
    }
    return rc == 0 && count > 0 ? move_do(c->m->c, &add) : rc;
}

static int
copy_slice(void *ctx, const redisReply *list)
{
    const struct copy *c = ctx;
    const uint32_t fan = c->m->place.other_parts / c->m->place.parts;
    int rc;

    rc = move_renew(c->m);
    for (uint32_t i = 0; rc == 0 && i < fan; i++)
        rc = copy_fields(c, list, c->part * fan + i);
    return rc == 0 && !move_report(c->m, CLUSTER_MOVE_COPYING) ? -ECANCELED
                                                               : rc;
}

static int
begin_hash(void *ctx, const struct cluster_period *period, uint64_t expiry_s)
{
    struct copy *c = ctx;

    c->is_counts = period == NULL;
    if (period != NULL)
        c->period = *period;
    c->expiry_s = expiry_s;
    return 0;
}

int
move_copy_part(struct move *m, uint32_t part)
{
    struct copy c = {.m = m, .part = part};
    struct cluster_scan scan = {
        .cluster = m->c, .begin = begin_hash, .take = copy_slice, .ctx = &c};

    scan.keys = cluster_part_keys(m->k->name, m->k->name_size,
                                  m->place.generation, part);
    return cluster_scan_part(&scan);
}
