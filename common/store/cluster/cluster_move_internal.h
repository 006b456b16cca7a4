/* common/store/cluster/cluster_move_internal.h - what the files of
 * cluster_move.h share: cluster_move.c (the steps), cluster_move_slots.c (the
 * master that gets the parts), cluster_move_copy.c (rows and history of a
 * part), cluster_move_settle.c (what is left of a mover, and commands). */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_MOVE_INTERNAL_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_MOVE_INTERNAL_H

#include <hiredis/hiredis.h>

#include "common/base/bytes.h"
#include "common/store/cluster/cluster_move.h"

/* What a part has. */
struct move_totals {
    uint64_t version, rows, flagged;
    int128 sum;
    bool has_keys; /* its keys are kept in order, too */
};

struct move {
    struct cluster *c;
    const struct cluster_move_keyspace *k;
    const struct cluster_move_options *options;
    uint32_t parts;             /* of the next generation */
    struct cluster_place place; /* as read in state 2 of cluster_move.h */
    uint64_t renewed_ms;
    uint64_t rows, of_rows;
    struct move_totals *old; /* of the parts of the old generation */
};

/* Begins a call of a function about a part, with the token as first word. */
void move_begin(struct cluster_command *m,
                const struct cluster_move_keyspace *k, uint32_t generation,
                uint32_t part, const char *words, uint64_t token);

/* Runs it; *code is the integer reply, or the first of an array reply, which
 * has at least `elements`. */
int move_run(struct cluster *c, struct cluster_command *m, size_t elements,
             uint64_t *code);

/* Runs and ends a command that answers 0 where it was done.  -ESTALE: it was
 * not. */
int move_do(struct cluster *c, struct cluster_command *m);

/* Runs a command at a node.  -EBADMSG: the reply is not of this type */
int move_ask(struct cluster *c, int node, struct cluster_command *m, int type);

/* The number of the next generation, above `used`: one whose parts are all at
 * options.to, which is given slots where that needs to be.
 * (cluster_move_slots.c) -EALREADY, -ENXIO, -EHOSTUNREACH, -EADDRNOTAVAIL,
 * -ESTALE  as cluster_move() */
int move_choose(struct move *m, const struct cluster_place *from, uint32_t used,
                uint32_t *number);

/* Replaces *place by `next` in the cluster, and then here. */
int move_set_place(struct cluster *c, const struct cluster_move_keyspace *k,
                   struct cluster_place *place,
                   const struct cluster_place *next);

/* From state 3 to 4.  -ESTALE: the place is another one by now. */
int move_switch(struct cluster *c, const struct cluster_move_keyspace *k,
                struct cluster_place *place);

/* Waits until the replicas of each master have what it has now.  -EAGAIN */
int move_await_replicas(struct cluster *c, uint64_t replicas);

/* Renews the lease, if that is due.  -ESTALE */
int move_renew(struct move *m);

/* Copies rows, marks and history of a part of the old generation. */
int move_copy_part(struct move *m, uint32_t part);

/* Calls options.progress().  False: it wants the move to stop. */
bool move_report(const struct move *m, enum cluster_move_step step);

#endif
