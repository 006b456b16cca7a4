/* common/store/cluster/cluster_move.h - a keyspace gets more parts, or goes to
 * another master, while it is counted and read: its next generation.
 *
 * Generation g has P parts, the next one n has Q, a multiple of P or as many.
 * Parts are cut from the upper bits of a hash, so each part of g becomes Q/P
 * parts of n, and no part of n has rows of two.  A part's hash has rows and
 * marks, and both are copied: a part of n is, for every sender, the part of g
 * that it comes from.  So chains go on with the same numbers, a sender needs
 * not be there when its keyspace moves, and what a part of n lacks for any
 * reason is sent to it from the outbox, or reported as lost, as for every other
 * part (sender.h).
 *
 *   state          place of the keyspace  parts of g        parts of n
 *   1 still        g P                    open              none
 *   2 moving       g P m n Q token until  closed, a lease   made, not whole
 *   3 sealed       as before              closed for good   whole, on replicas
 *   4 retiring     n Q r g P              closed for good   open
 *   5 still        n Q s                  gone              open
 *
 *   owner    The place (cluster_place.h) says which generation is in force, and
 *            changes by comparing: from 3 to 4 in one step, if the token is
 *            still there.  A mover that does not find its token has lost.
 *   writers  An entry for a closed part is refused, waits in the outbox, and
 *            the sender reads the place again.  It sends to n from state 5 on.
 *   readers  Readers read g until a part says that it is gone, and then n:
 *            nothing is in n that was not in g before state 5, so no answer is
 *            older than as_of_ms says, which rests meanwhile.
 *
 * A mover that dies: the lease of the place ends.  Any process that meets the
 * place then calls cluster_move_settle(): the next mover, countd store, a
 * purge, a sender whose entry is refused or that saw the lease, and each sender
 * within a minute.  In 2 and 3 it takes the token away, opens g, removes n, and
 * the place is as in 1; in 4 it goes on to 5.  Each step may be repeated.
 *
 * A second mover is refused while the lease of the first is good.
 *
 * A master that dies and loses what its replicas did not have: before 3, a part
 * of g is not closed with the token, or has another version, or one of n has
 * not its rows: the move is undone.  Where the place of 2 or 3 is lost, the
 * token in the parts of g, closed for good or long ago, says so to
 * cluster_move_settle(): it removes n and opens g.  Where it is lost after 4,
 * parts that are gone say what followed.  State 4 begins once replicas have all
 * of n, and 5 once they have the place.  Numbers of generations are
 * never used twice, and parts of n are made with the token: a command of a
 * mover that was given up changes nothing, however late it comes.
 *
 * To a master: n is a number whose parts have slots of that master, or slots
 * without keys, which it is given before state 2 (cluster_move_slots.c).  No
 * slot with a part is moved: Redis deletes a key at its source before the
 * target's replica has it.
 *
 * Only more parts: where two became one, an entry that empties one of them
 * would empty both. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_MOVE_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_MOVE_H

#include "common/store/cluster/cluster.h"
#include "common/store/cluster/cluster_place.h"
#include "common/store/store.h"

#define CLUSTER_MOVE_LEASE_MS 10000

struct cluster_move_keyspace {
    const uint8_t *name;
    size_t name_size;
    uint64_t replicas; /* that must have what a state stands on */
};

enum cluster_move_step {
    CLUSTER_MOVE_GIVING, /* a slot to the master: often */
    CLUSTER_MOVE_BEGUN,  /* the place says so */
    CLUSTER_MOVE_CLOSED,
    CLUSTER_MOVE_MADE,
    CLUSTER_MOVE_COPYING, /* often */
    CLUSTER_MOVE_COPIED,
    CLUSTER_MOVE_SEALED,
    CLUSTER_MOVE_WHOLE,
    CLUSTER_MOVE_REPLICATED,
    CLUSTER_MOVE_SWITCHED
};

struct cluster_move_options {
    uint32_t parts;    /* 0: as many as there are */
    const char *to;    /* "host:port" of the master that gets them all; NULL: as
                          their slots fall */
    uint64_t lease_ms; /* of the place: a mover that is silent for longer has
                          lost; at most CLUSTER_MOVE_LEASE_MS */
    /* Called after each step.  False: the mover ends at once, as if it had been
     * killed: -ECANCELED. */
    bool (*progress)(void *ctx, enum cluster_move_step step, uint64_t rows,
                     uint64_t of_rows);
    void *ctx;
};

struct cluster_move_result {
    struct cluster_place from, to;
    uint64_t rows;
};

/* Gives a keyspace more parts, or has all of them at one master, or both.
 *   -ENOENT   there is no such keyspace
 *   -EALREADY it has as many parts, and they are there
 *   -EINVAL   it has more, or `parts` is not a multiple of them
 *   -EBUSY    another mover is changing it
 *   -ENXIO    `to` is not a master of the cluster
 *   -EHOSTUNREACH  it does not answer: nothing was changed
 *   -EADDRNOTAVAIL  its slots do not fit, and too many of the others have keys
 *   -ESTALE   a part was opened meanwhile, a slot got a key, or a master lost
 *             something: all is as before, and it may be tried again
 *   -EAGAIN   replicas do not follow: the same */
int cluster_move(struct cluster *c, const struct cluster_move_keyspace *k,
                 const struct cluster_move_options *options,
                 struct cluster_move_result *out);

/* Ends what a mover that died has left; *out is how it is then.
 *   -EBUSY    a mover is at work
 *   -EAGAIN   replicas do not follow: to be called again
 *   -ENOENT, and as cluster.h */
int cluster_move_settle(struct cluster *c,
                        const struct cluster_move_keyspace *k,
                        struct cluster_place *out);

#endif
