/* common/store/cluster/cluster_admin.c - see cluster_admin.h.
 *
 * Entry points: cluster_admin_parts(), cluster_admin_senders(),
 * cluster_admin_accept(), cluster_admin_forget(). */
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

/* ---- parts
 * ------------------------------------------------------------------------ */

static bool
is_full(const struct cluster_store *s, const struct outbox_part *p,
        const struct cluster_part_info *info)
{
    const uint64_t max = s->options.config->keyspace_max_keys;
    const uint32_t parts = p->keyspace->part_count;

    return max > 0 && info->have < p->last &&
           info->rows >= (max + parts - 1) / parts;
}

/* Asks for the state of a part and judges it by the outbox. */
static int
read_part(struct cluster_store *s, const struct outbox_part *p,
          struct cluster_part_info *out)
{
    uint8_t sender[CLUSTER_MARK_SIZE];
    const redisReply *reply;
    size_t call;
    int rc;

    put_le64(sender, outbox_sender(s->outbox));
    call = cluster_call_begin(s, "countd1_state", p->keyspace->name,
                              p->keyspace->name_size, p->keyspace->generation,
                              p->number);
    cluster_call_word(s, call, sender, sizeof sender);
    cluster_call_run(s);
    *out = (struct cluster_part_info){.name = p->keyspace->name,
                                      .name_size = p->keyspace->name_size,
                                      .part = p->number,
                                      .state = CLUSTER_PART_SILENT,
                                      .last = p->last,
                                      .retained = p->count};
    out->node = cluster_node_name(
        s->cluster, cluster_node_of(s->cluster, s->slots[call].keys.slot));
    reply = cluster_call_reply(s, call, 6, &rc);
    if (reply != NULL && reply->element[1]->type == REDIS_REPLY_STRING &&
        reply->element[1]->len == CLUSTER_MARK_SIZE) {
        out->have = cluster_reply_number(reply->element[0]);
        out->rows = cluster_reply_number(reply->element[2]);
        out->state =
            !outbox_is_own(p, out->have, get_le64(reply->element[1]->str))
                ? CLUSTER_PART_FOREIGN
            : out->have + 1 < outbox_first(p) ? CLUSTER_PART_LOST
            : is_full(s, p, out)              ? CLUSTER_PART_FULL
                                              : CLUSTER_PART_GOOD;
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

        for (uint32_t j = 0; rc == 0 && j < k->part_count; j++) {
            /* Its state says so when it does not answer. */
            (void)read_part(s, &k->parts[j], &info);
            rc = each(ctx, &info);
        }
    }
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
    uint8_t sender[CLUSTER_MARK_SIZE], digest[CLUSTER_MARK_SIZE];
    size_t call;
    int rc;

    rc = open_outbox(s);
    if (rc < 0)
        return rc;
    k = outbox_find(s->outbox, name, name_size);
    if (k == NULL || part >= k->part_count)
        return -ENOENT;
    p = &k->parts[part];
    rc = read_part(s, p, &info);
    if (rc < 0 || info.state != CLUSTER_PART_LOST)
        return rc < 0                               ? rc
               : info.state == CLUSTER_PART_FOREIGN ? -EPERM
                                                    : -EALREADY;
    put_le64(sender, outbox_sender(s->outbox));
    put_le64(digest,
             p->count > 0 ? p->entries[p->first].prev_digest : p->last_digest);
    call = cluster_call_begin(s, "countd1_accept", name, name_size,
                              k->generation, part);
    cluster_call_change(s, call);
    cluster_call_word(s, call, sender, sizeof sender);
    cluster_call_number(s, call, 0, (int64_t)outbox_first(p) - 1);
    cluster_call_word(s, call, digest, sizeof digest);
    cluster_call_run(s);
    rc = s->commands[call].error;
    cluster_call_end(s);
    return rc;
}

/* ---- senders
 * ------------------------------------------------------------------------ */

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
    const redisReply *reply;
    size_t call;
    int rc;

    (void)open_outbox(s); /* without it none is this directory */
    call = cluster_call_plain(s, "HGETALL", CLUSTER_SENDERS);
    cluster_call_run(s);
    reply = cluster_call_reply(s, call, 0, &rc);
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
    size_t call;
    int rc;

    if (open_outbox(s) == 0 && id == outbox_sender(s->outbox))
        return -EBUSY;
    (void)snprintf(text, sizeof text, "%016" PRIx64, id);
    call = cluster_call_plain(s, "HDEL", CLUSTER_SENDERS);
    cluster_call_word(s, call, text, strlen(text));
    cluster_call_run(s);
    rc = s->commands[call].error;
    if (rc == 0 && cluster_reply_number(s->commands[call].reply) == 0)
        rc = -ENOENT;
    cluster_call_end(s);
    return rc;
}
