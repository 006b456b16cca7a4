/* common/store/cluster/cluster_admin.c - see cluster_admin.h.
 *
 * Entry points: cluster_admin_parts(), cluster_admin_senders(),
 * cluster_admin_accept(), cluster_admin_move(), cluster_admin_forget(). */
#include "common/store/cluster/cluster_admin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/store/cluster/cluster_store_internal.h"

/* The outbox of the store, with what other processes did. */
static int
open_outbox(struct cluster_store *s)
{
    int rc;

    rc = cluster_need_outbox(s);
    return rc < 0 ? rc : outbox_refresh(s->outbox);
}

/* ---- parts -------------------------------------------------------------- */

static bool
is_full(const struct cluster_store *s, uint32_t parts,
        const struct cluster_part_info *info)
{
    const uint64_t max = s->options.config->keyspace_max_keys;

    return max > 0 && info->have < info->last &&
           info->rows >= (max + parts - 1) / parts;
}

/* What the cluster says of a keyspace, once what a mover that died has left is
 * ended; where it does not answer, what the outbox does. */
static struct cluster_place
find_place(struct cluster_store *s, const struct outbox_keyspace *k)
{
    const struct cluster_move_keyspace moved = {
        k->name, k->name_size, s->options.config->store_replicas};
    struct cluster_place place = {.parts = 0};
    const int rc = cluster_move_settle(s->cluster, &moved, &place);

    /* After another error the keyspace is moving. */
    if (rc == -EBADMSG || place.parts == 0 || place.parts % k->part_count != 0)
        place = (struct cluster_place){.generation = k->generation,
                                       .parts = k->part_count};
    return place;
}

/* The chain that feeds a part. */
static const struct outbox_part *
find_chain(const struct outbox_keyspace *k, const struct cluster_place *place,
           uint32_t part)
{
    return &k->parts[part / (place->parts / k->part_count)];
}

static enum cluster_part_state
judge_part(const struct cluster_store *s, const struct outbox_part *p,
           const struct cluster_place *place,
           const struct cluster_part_info *info)
{
    if (!outbox_is_own(p, info->have, info->digest))
        return CLUSTER_PART_FOREIGN;
    if (info->have + 1 < outbox_first(p))
        return CLUSTER_PART_LOST;
    if (is_full(s, place->parts, info))
        return CLUSTER_PART_FULL;
    return place->state == CLUSTER_PLACE_STILL ? CLUSTER_PART_GOOD
                                               : CLUSTER_PART_MOVING;
}

/* Begins a call about a part, with this sender as first word. */
static struct cluster_command *
begin_part(struct cluster_store *s, const struct outbox_keyspace *k,
           uint32_t generation, uint32_t part, const char *words)
{
    struct cluster_command *m = cluster_next_call(s);
    struct cluster_part_keys keys =
        cluster_part_keys(k->name, k->name_size, generation, part);

    cluster_begin_part(m, &keys, words);
    cluster_add_mark(m, outbox_sender(s->outbox));
    return m;
}

/* Asks for the state of a part and judges it by the outbox. */
static int
read_part(struct cluster_store *s, const struct outbox_keyspace *k,
          const struct cluster_place *place, uint32_t part,
          struct cluster_part_info *out)
{
    const struct outbox_part *p = find_chain(k, place, part);
    struct cluster_command *m =
        begin_part(s, k, place->generation, part, "FCALL_RO countd1_state 2");
    const redisReply *reply;
    int rc;

    cluster_call_run(s);
    *out = (struct cluster_part_info){.name = k->name,
                                      .name_size = k->name_size,
                                      .generation = place->generation,
                                      .part = part,
                                      .state = CLUSTER_PART_SILENT,
                                      .last = p->last,
                                      .retained = p->count};
    out->node =
        cluster_node_name(s->cluster, cluster_node_of(s->cluster, m->slot));
    reply = cluster_call_reply(s, m, 6, &rc);
    if (reply != NULL && reply->element[1]->type == REDIS_REPLY_STRING &&
        reply->element[1]->len == CLUSTER_MARK_SIZE) {
        out->have = cluster_reply_number(reply->element[0]);
        out->digest = get_le64(reply->element[1]->str);
        out->rows = cluster_reply_number(reply->element[2]);
        /* Entries may have been made, and sent, since the outbox was read. */
        if (out->have > p->last)
            (void)outbox_refresh(s->outbox);
        out->last = p->last;
        out->retained = p->count;
        out->state = judge_part(s, p, place, out);
    }
    cluster_call_end(s);
    return rc;
}

int
cluster_admin_parts(struct store *store,
                    int (*each)(void *ctx, const struct cluster_part_info *p),
                    void *ctx)
{
    struct cluster_store *s = cluster_store_of(store);
    struct cluster_part_info info;
    int rc;

    rc = open_outbox(s);
    for (size_t i = 0; rc == 0 && i < outbox_keyspace_count(s->outbox); i++) {
        const struct outbox_keyspace *k = outbox_keyspace_at(s->outbox, i);
        const struct cluster_place place = find_place(s, k);

        for (uint32_t j = 0; rc == 0 && j < place.parts; j++) {
            /* Its state says so when it does not answer. */
            (void)read_part(s, k, &place, j, &info);
            rc = each(ctx, &info);
        }
    }
    return rc;
}

/* Gives a part the mark of the entry before the first that is retained, if it
 * still has the mark that was read. */
static int
change_mark(struct cluster_store *s, const struct outbox_part *p,
            const struct cluster_part_info *info)
{
    struct cluster_command *m = begin_part(
        s, p->keyspace, info->generation, info->part, "FCALL countd1_accept 2");
    const redisReply *reply;
    int rc;

    cluster_add_number(m, (int64_t)info->have);
    cluster_add_mark(m, info->digest);
    cluster_add_number(m, (int64_t)outbox_first(p) - 1);
    cluster_add_mark(m, p->count > 0 ? p->entries[p->first].prev_digest
                                     : p->last_digest);
    cluster_call_run(s);
    reply = cluster_call_reply(s, m, 1, &rc);
    /* 0 and 1: it has that mark. */
    if (reply != NULL && cluster_reply_number(reply->element[0]) > 1)
        rc = -EAGAIN;
    cluster_call_end(s);
    return rc;
}

int
cluster_admin_accept(struct store *store, const uint8_t *name, size_t name_size,
                     uint32_t part)
{
    struct cluster_store *s = cluster_store_of(store);
    const struct outbox_keyspace *k;
    const struct outbox_part *p;
    struct cluster_part_info info;
    struct cluster_place place;
    int rc;

    rc = open_outbox(s);
    if (rc < 0)
        return rc;
    k = outbox_find(s->outbox, name, name_size);
    if (k == NULL)
        return -ENOENT;
    place = find_place(s, k);
    if (part >= place.parts)
        return -ENOENT;
    p = find_chain(k, &place, part);
    rc = read_part(s, k, &place, part, &info);
    if (rc < 0 || info.state != CLUSTER_PART_LOST)
        return rc < 0                               ? rc
               : info.state == CLUSTER_PART_FOREIGN ? -EPERM
                                                    : -EALREADY;
    return change_mark(s, p, &info);
}

int
cluster_admin_move(struct store *store, const uint8_t *name, size_t name_size,
                   const struct cluster_move_options *options,
                   struct cluster_move_result *out)
{
    const struct cluster_store *s = cluster_store_of(store);
    const struct cluster_move_keyspace k = {name, name_size,
                                            s->options.config->store_replicas};

    return cluster_move(s->cluster, &k, options, out);
}

/* ---- senders ------------------------------------------------------------ */

static int
give_sender(struct cluster_store *s, const redisReply *id,
            const redisReply *value,
            int (*each)(void *ctx, const struct cluster_sender_info *i),
            void *ctx)
{
    struct cluster_sender_info info = {.id = 0};
    char *end;

    if (id->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING)
        return 0;
    info.as_of_ms = strtoull(value->str, &end, 10);
    info.written_ms = strtoull(end, &end, 10);
    info.id = strtoull(id->str, NULL, 16);
    info.version = end + strspn(end, " ");
    info.is_own = s->outbox && info.id == outbox_sender(s->outbox);
    return each(ctx, &info);
}

int
cluster_admin_senders(struct store *store,
                      int (*each)(void *ctx,
                                  const struct cluster_sender_info *i),
                      void *ctx)
{
    struct cluster_store *s = cluster_store_of(store);
    const struct cluster_command *m;
    const redisReply *reply;
    int rc;

    (void)open_outbox(s); /* without it none is this directory */
    m = cluster_call_lists(s, "HGETALL " CLUSTER_SENDERS);
    cluster_call_run(s);
    reply = cluster_call_reply(s, m, 0, &rc);
    for (size_t i = 0; rc == 0 && reply != NULL && i + 1 < reply->elements;
         i += 2)
        rc =
            give_sender(s, reply->element[i], reply->element[i + 1], each, ctx);
    cluster_call_end(s);
    return rc;
}

int
cluster_admin_forget(struct store *store, uint64_t id)
{
    struct cluster_store *s = cluster_store_of(store);
    char text[CLUSTER_NUMBER];
    struct cluster_command *m;
    int rc;

    if (open_outbox(s) == 0 && id == outbox_sender(s->outbox))
        return -EBUSY;
    (void)snprintf(text, sizeof text, "%016" PRIx64, id);
    m = cluster_call_lists(s, "HDEL " CLUSTER_SENDERS);
    cluster_add_text(m, text);
    cluster_call_run(s);
    rc = m->error;
    if (rc == 0 && cluster_reply_number(m->reply) == 0)
        rc = -ENOENT;
    cluster_call_end(s);
    return rc;
}
