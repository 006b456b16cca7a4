/* common/store/cluster/cluster_move_settle.c - cluster_move_settle(): what a
 * mover that died has left, and the commands of moves; see cluster_move.h. */
#include "common/store/cluster/cluster_move_internal.h"

#include <errno.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/store/cluster/outbox_record.h"

#define REPLICAS_MS 5000 /* they have what is written, or it is tried again */

/* ---- commands ----------------------------------------------------------- */

void
move_begin(struct cluster_command *m, const struct cluster_move_keyspace *k,
           uint32_t generation, uint32_t part, const char *words,
           uint64_t token)
{
    struct cluster_part_keys keys =
        cluster_part_keys(k->name, k->name_size, generation, part);
    uint8_t bytes[CLUSTER_MARK_SIZE];

    cluster_begin_part(m, &keys, words);
    put_be64(bytes, token);
    cluster_add_word(m, bytes, sizeof bytes);
}

int
move_run(struct cluster *c, struct cluster_command *m, size_t elements,
         uint64_t *code)
{
    const redisReply *reply, *first;

    cluster_run(c, m, 1);
    if (m->error != 0)
        return m->error;
    first = reply = m->reply;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)
        first = reply->element[0];
    *code = first->type == REDIS_REPLY_INTEGER ? (uint64_t)first->integer : 0;
    if (*code == 0 && elements > 0 &&
        (reply->type != REDIS_REPLY_ARRAY || reply->elements < elements))
        return -EBADMSG;
    return 0;
}

int
move_do(struct cluster *c, struct cluster_command *m)
{
    uint64_t code = 0;
    int rc;

    rc = move_run(c, m, 0, &code);
    cluster_end(m, 1);
    return rc == 0 && code != 0 ? -ESTALE : rc;
}

int
move_ask(struct cluster *c, int node, struct cluster_command *m, int type)
{
    m->node = node;
    cluster_run(c, m, 1);
    return m->error == 0 && m->reply->type != type ? -EBADMSG : m->error;
}

/* ---- replicas ----------------------------------------------------------- */

int
move_await_replicas(struct cluster *c, uint64_t replicas)
{
    const struct timespec pace = {.tv_nsec = 10000000};
    const uint64_t end_ms = clock_ms() + REPLICAS_MS;
    int node = CLUSTER_NO_NODE;

    while (replicas > 0 &&
           (node = cluster_next_master(c, node)) != CLUSTER_NO_NODE) {
        uint64_t offset = 0;
        bool has_all = false;

        while (!has_all && clock_ms() < end_ms) {
            struct cluster_command m;

            cluster_begin(&m, 0, "INFO replication");
            if (move_ask(c, node, &m, REDIS_REPLY_STRING) == 0) {
                if (offset == 0)
                    offset = cluster_replicas_offset(m.reply->str);
                has_all =
                    cluster_replicas_count(m.reply->str, offset) >= replicas;
            }
            cluster_end(&m, 1);
            if (!has_all)
                (void)nanosleep(&pace, NULL);
        }
        if (!has_all)
            return -EAGAIN;
    }
    return 0;
}

/* ---- what is left ------------------------------------------------------- */

/* Calls a function about each part of a generation. */
static int
call_each(struct cluster *c, const struct cluster_move_keyspace *k,
          uint32_t generation, uint32_t parts, const char *words,
          uint64_t token)
{
    struct cluster_command m;
    uint64_t code;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < parts; i++) {
        move_begin(&m, k, generation, i, words, token);
        rc = move_run(c, &m, 0, &code);
        cluster_end(&m, 1);
    }
    return rc;
}

int
move_set_place(struct cluster *c, const struct cluster_move_keyspace *k,
               struct cluster_place *place, const struct cluster_place *next)
{
    const int rc = cluster_place_replace(c, k->name, k->name_size, place, next);

    if (rc == 0)
        *place = *next;
    return rc;
}

int
move_switch(struct cluster *c, const struct cluster_move_keyspace *k,
            struct cluster_place *place)
{
    const struct cluster_place next = {.generation = place->other,
                                       .parts = place->other_parts,
                                       .state = CLUSTER_PLACE_RETIRING,
                                       .other = place->generation,
                                       .other_parts = place->parts};

    return move_set_place(c, k, place, &next);
}

/* From state 4 to 5. */
static int
finish_retiring(struct cluster *c, const struct cluster_move_keyspace *k,
                struct cluster_place *place)
{
    struct cluster_place next = {.generation = place->generation,
                                 .parts = place->parts,
                                 .other = place->generation};
    int rc;

    rc = move_await_replicas(c, k->replicas);
    if (rc == 0)
        rc = call_each(c, k, place->other, place->other_parts,
                       "FCALL countd1_retire 2",
                       (uint64_t)place->parts << 32 | place->generation);
    return rc == 0 ? move_set_place(c, k, place, &next) : rc;
}

/* The token in what closes a part for good, or closed it long before `now_ms`:
 * masters have clocks of their own.  0: it is open, or closed for a while. */
static uint64_t
token_of_dead(const redisReply *closed, uint64_t now_ms)
{
    uint64_t until_ms;

    if (closed->type != REDIS_REPLY_STRING ||
        closed->len != 2L * CLUSTER_MARK_SIZE)
        return 0;
    until_ms = get_be64(closed->str + CLUSTER_MARK_SIZE);
    return until_ms == UINT64_MAX || until_ms + CLUSTER_MOVE_LEASE_MS < now_ms
               ? get_be64(closed->str)
               : 0;
}

/* What moves have left in the parts of the generation in force: the one that
 * followed and its parts (upper half) where a part is gone, so that the place
 * said so before, and a failover lost that; and the token of the mover that has
 * closed one for good, or whose lease of one ended.  Both 0: none. */
static int
find_traces(struct cluster *c, const struct cluster_move_keyspace *k,
            const struct cluster_place *place, uint64_t now_ms, uint64_t *after,
            uint64_t *token)
{
    const redisReply *next;
    struct cluster_part_keys keys;
    struct cluster_command m;
    int rc = 0;

    *after = 0;
    *token = 0;
    for (uint32_t i = 0; rc == 0 && *after == 0 && i < place->parts; i++) {
        uint64_t code = 0, seal = 0;

        keys = cluster_part_keys(k->name, k->name_size, place->generation, i);
        cluster_begin(&m, keys.slot, "HMGET");
        cluster_add_word(&m, keys.counts, keys.size);
        cluster_add_word(&m, "\0w", 2);
        cluster_add_word(&m, "\0g", 2);
        rc = move_run(c, &m, 2, &code);
        if (rc == 0) {
            seal = token_of_dead(m.reply->element[0], now_ms);
            next = m.reply->element[1];
            if (next->type == REDIS_REPLY_STRING &&
                next->len == CLUSTER_MARK_SIZE)
                *after = get_be64(next->str);
        }
        *token = seal != 0 ? seal : *token;
        cluster_end(&m, 1);
    }
    return rc;
}

/* From state 2 or 3, whose mover has lost, back to 1. */
static int
undo_move(struct cluster *c, const struct cluster_move_keyspace *k,
          struct cluster_place *place)
{
    struct cluster_place next = *place;
    int rc = 0;

    next.until_ms = 0;
    if (place->until_ms != 0)
        rc = move_set_place(c, k, place, &next);
    if (rc == 0)
        rc = call_each(c, k, place->generation, place->parts,
                       "FCALL countd1_open 2", place->token);
    if (rc == 0)
        rc = call_each(c, k, place->other, place->other_parts,
                       "FCALL countd1_discard 2", place->token);
    next = (struct cluster_place){.generation = place->generation,
                                  .parts = place->parts,
                                  .other = place->other};
    return rc == 0 ? move_set_place(c, k, place, &next) : rc;
}

static int
settle_moving(struct cluster *c, const struct cluster_move_keyspace *k,
              struct cluster_place *place, uint64_t now_ms)
{
    uint64_t after, token;
    int rc;

    rc = find_traces(c, k, place, now_ms, &after, &token);
    if (rc < 0)
        return rc;
    if (after == 0)
        return undo_move(c, k, place);
    rc = move_switch(c, k, place);
    return rc == 0 ? finish_retiring(c, k, place) : rc;
}

/* Goes on with the generation that was in force before a failover lost the
 * place; `after` is what a part says that is gone. */
static int
follow_place(struct cluster *c, const struct cluster_move_keyspace *k,
             struct cluster_place *place, uint64_t after)
{
    const struct cluster_place next = {.generation = (uint32_t)after,
                                       .parts = (uint32_t)(after >> 32),
                                       .state = CLUSTER_PLACE_RETIRING,
                                       .other = place->generation,
                                       .other_parts = place->parts};
    int rc;

    if (next.parts == 0)
        return -EBADMSG;
    rc = move_set_place(c, k, place, &next);
    return rc == 0 ? finish_retiring(c, k, place) : rc;
}

/* Ends what a mover did whose place a failover lost.  The place is read after
 * the token: where it does not name the mover then, the mover has lost. */
static int
settle_still(struct cluster *c, const struct cluster_move_keyspace *k,
             struct cluster_place *place, uint64_t now_ms)
{
    struct cluster_place is;
    uint64_t after, token;
    int rc;

    rc = find_traces(c, k, place, now_ms, &after, &token);
    if (rc == 0 && after != 0)
        return follow_place(c, k, place, after);
    if (rc < 0 || token == 0)
        return rc;
    rc = cluster_place_read(c, k->name, k->name_size, &is, &now_ms);
    if (rc < 0 || is.state != CLUSTER_PLACE_STILL ||
        is.generation != place->generation)
        return rc;
    /* The token is the only trace of the new parts: it goes last. */
    rc = call_each(c, k, (uint32_t)token, OUTBOX_PARTS_MAX,
                   "FCALL countd1_discard 2", token);
    return rc == 0 ? call_each(c, k, place->generation, place->parts,
                               "FCALL countd1_open 2", token)
                   : rc;
}

int
cluster_move_settle(struct cluster *c, const struct cluster_move_keyspace *k,
                    struct cluster_place *out)
{
    uint64_t now_ms;
    int rc;

    rc = cluster_place_read(c, k->name, k->name_size, out, &now_ms);
    if (rc < 0)
        return rc;
    if (out->state == CLUSTER_PLACE_STILL)
        return settle_still(c, k, out, now_ms);
    if (out->state == CLUSTER_PLACE_RETIRING)
        return finish_retiring(c, k, out);
    return out->until_ms > now_ms ? -EBUSY : settle_moving(c, k, out, now_ms);
}
