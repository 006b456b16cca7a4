/* common/store/cluster/cluster_move_copy.c - move_copy_part(): rows, marks and
 * history of a part of the old generation into those of the new one that it
 * becomes; see cluster_move.h.
 *
 * Hashes are read in slices, which may give a field twice: the functions add
 * only what is missing. */
#include "common/store/cluster/cluster_move_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/store/cluster/outbox_record.h"

#define SLICE_FIELDS "500"

/* A hash that is being read: the part's counts, or a period of its history. */
struct move_hash {
    uint32_t part;
    struct cluster_period period;
    const char *expiry; /* NULL: counts */
    const char *key;
    size_t key_size;
    char cursor[CLUSTER_NUMBER];
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
begin_copy(struct move *m, const struct move_hash *h, uint32_t part,
           char period[CLUSTER_PERIOD_KEY_SIZE])
{
    struct move_call *w = &m->call;

    move_begin(w, m->k, m->place.other, part,
               h->expiry ? "countd1_copy_period" : "countd1_copy",
               m->place.token);
    if (h->expiry == NULL)
        return;
    /* The second key is the period in place of the order. */
    w->argv[4] = period;
    w->sizes[4] = cluster_period_key(period, &w->keys, &h->period);
    cluster_add_text(&w->command, h->expiry);
}

/* Adds the fields of a slice that belong to a new part. */
static int
copy_slice(struct move *m, const struct move_hash *h, const redisReply *list,
           uint32_t part)
{
    char period[CLUSTER_PERIOD_KEY_SIZE];
    size_t count = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i + 1 < list->elements; i += 2) {
        const redisReply *field = list->element[i],
                         *value = list->element[i + 1];

        if (!belongs_to(m, field, part))
            continue;
        if (count++ == 0)
            begin_copy(m, h, part, period);
        cluster_add_word(&m->call.command, field->str, (size_t)field->len);
        cluster_add_word(&m->call.command, value->str, (size_t)value->len);
        if (h->expiry == NULL && field->str[0] != '\0')
            m->rows++;
        if (count == MOVE_ROWS) {
            rc = move_do(m->c, &m->call);
            count = 0;
        }
    }
    return rc == 0 && count > 0 ? move_do(m->c, &m->call) : rc;
}

static bool
is_slice(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[0]->len >= CLUSTER_NUMBER ||
        reply->element[1]->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->element[1]->elements; i++)
        if (reply->element[1]->element[i]->type != REDIS_REPLY_STRING)
            return false;
    return true;
}

/* Reads a slice; the caller frees it.  NULL with *error. */
static redisReply *
read_slice(struct move *m, struct move_hash *h, int *error)
{
    struct move_call *w = &m->call;
    redisReply *reply;
    uint64_t code;

    move_begin_plain(w, m->k, m->place.generation, h->part, "HSCAN");
    cluster_add_word(&w->command, h->key ? h->key : w->keys.counts,
                     h->key ? h->key_size : w->keys.size);
    cluster_add_text(&w->command, h->cursor);
    cluster_add_text(&w->command, "COUNT");
    cluster_add_text(&w->command, SLICE_FIELDS);
    *error = move_run(m->c, w, 0, &code);
    if (*error != 0)
        return NULL;
    if (!is_slice(w->command.reply)) {
        move_end(w);
        *error = -EBADMSG;
        return NULL;
    }
    reply = w->command.reply; /* further commands follow */
    (void)snprintf(h->cursor, sizeof h->cursor, "%s", reply->element[0]->str);
    return reply;
}

static int
copy_hash(struct move *m, struct move_hash *h)
{
    const uint32_t fan = m->place.other_parts / m->place.parts;
    int rc;

    (void)snprintf(h->cursor, sizeof h->cursor, "0");
    do {
        redisReply *slice;

        rc = move_renew(m);
        slice = rc == 0 ? read_slice(m, h, &rc) : NULL;
        for (uint32_t i = 0; rc == 0 && i < fan; i++)
            rc = copy_slice(m, h, slice->element[1], h->part * fan + i);
        if (slice != NULL)
            freeReplyObject(slice);
        if (rc == 0 && !move_report(m, CLUSTER_MOVE_COPYING))
            rc = -ECANCELED;
    } while (rc == 0 && strcmp(h->cursor, "0") != 0);
    return rc;
}

static int
copy_history(struct move *m, uint32_t part)
{
    struct move_hash h = {.part = part};
    struct move_call *w = &m->call;
    redisReply *list;
    uint64_t code;
    int rc;

    move_begin(w, m->k, m->place.generation, part, "countd1_periods",
               m->place.token);
    rc = move_run(m->c, w, 0, &code);
    if (rc < 0)
        return rc;
    list = w->command.reply;
    for (size_t i = 0; rc == 0 && i + 1 < list->elements; i += 2) {
        const redisReply *key = list->element[i];

        h.key = key->str;
        h.key_size = (size_t)key->len;
        h.expiry = list->element[i + 1]->str;
        rc = key->type == REDIS_REPLY_STRING &&
                     cluster_period_parse(key->str, &h.period)
                 ? copy_hash(m, &h)
                 : -EBADMSG;
    }
    freeReplyObject(list);
    return rc;
}

int
move_copy_part(struct move *m, uint32_t part)
{
    struct move_hash h = {.part = part};
    int rc;

    rc = copy_hash(m, &h);
    return rc == 0 ? copy_history(m, part) : rc;
}
