/* common/store/cluster/cluster.h - commands to a Redis Cluster: the map of its
 * slots, redirects, and one pipeline for each master.
 *
 *     cluster_open -> cluster_run ... -> cluster_close
 *
 * cluster_run() sends each command to the master of its slot, all commands of
 * a master in one pipeline and in their order, and waits for all replies.
 *
 *   MOVED    the slot's new master is noted, the map is asked for again, and
 *            the command is sent there
 *   ASK      the command is sent there once, after ASKING
 *   "Function not found"   the library of functions is loaded into that master
 *            and the command is sent again: a new node, or one after FUNCTION
 *            FLUSH, has none, and the cluster spreads none
 *   older library    it is replaced: each connection asks for its revision
 *            before the first function, and nobody replaces a newer one.  Of
 *            two versions of countd that find none at the same moment the
 *            older can win until the newer connects again
 *   broken connection   the map is asked for again and the command is sent
 *            once more.  It may have been done before: every command that is
 *            sent through here may be repeated (functions.h says why).
 *   other errors   end the command; error and text say which
 *
 * A node that does not answer in time gets no command until it has answered a
 * PING on a connection of its own, which is sent a second later and from then
 * on: a dead machine costs a caller one timeout, and then at most 50 ms a
 * second.  Commands for its slots end at once with -EHOSTDOWN meanwhile, or go
 * to the new master when the map has one.
 *
 * Ownership: the handle is the caller's; one thread.  So are commands, which
 * cluster_begin() begins and cluster_end() frees with their replies.
 * Errors: 0 or a negative errno.
 *   -EHOSTDOWN  the slot has no master that can be reached
 *   -ETIMEDOUT  no reply in time: the outcome is unknown
 *   -EIO        the connection broke: the outcome is unknown
 *   -EAGAIN     the cluster cannot now (CLUSTERDOWN, TRYAGAIN, LOADING,
 *               MASTERDOWN, NOREPLICAS, READONLY): nothing was done
 *   -ENOSPC     the server's memory is full (OOM): nothing was done
 *   -EACCES     the user or password is wrong, or may not do this
 *   -ESTALE     the part is of an earlier generation (cluster_move.h)
 *   -EPROTO     any other error; cluster_text() has it
 */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

struct cluster;
struct redisReply;

#define CLUSTER_NODES_MAX 256
#define CLUSTER_TEXT_SIZE 160
#define CLUSTER_SUM_SIZE  12 /* i64 times 2^32 and u32, big-endian */
#define CLUSTER_NO_NODE   (-1)

struct cluster_options {
    const char
        *nodes;       /* "host:port host:port"; the rest of them is asked for */
    const char *user; /* NULL or empty: the default one */
    const char *password; /* NULL or empty: none */
    uint64_t timeout_ms;  /* for a connection, and for each reply */
};

struct cluster_command {
    uint16_t slot;
    int node;       /* CLUSTER_NO_NODE: the slot's master; else this one, as
                       cluster_node_of() says */
    uint8_t *bytes; /* its words, as the protocol has them */
    size_t size, capacity, words;
    bool is_call; /* of a function */

    int error;                /* after cluster_run() */
    struct redisReply *reply; /* NULL with an error */

    int sent_to; /* the rest is cluster_run()'s */
    int ask;
    unsigned tries;
    bool is_waiting;
};

/* Only reads the options, which it borrows.  -EINVAL: nodes are wrong;
 * -ENOMEM */
int cluster_open(struct cluster **out, const struct cluster_options *options);

/* NULL is fine. */
void cluster_close(struct cluster *c);

/* Begins a command with words that blanks separate; the others are added.  They
 * are copied; without memory for them cluster_run() says -ENOMEM. */
void cluster_begin(struct cluster_command *m, uint16_t slot, const char *words);
void cluster_add_word(struct cluster_command *m, const void *bytes,
                      size_t size);
void cluster_add_text(struct cluster_command *m, const char *text);
void cluster_add_number(struct cluster_command *m, int64_t number);

/* Runs all commands; each says how it ended. */
void cluster_run(struct cluster *c, struct cluster_command *commands,
                 size_t count);
void cluster_end(struct cluster_command *commands, size_t count);

/* A number of a reply: an integer, or a text; else 0. */
uint64_t cluster_reply_number(const struct redisReply *reply);

/* A sum as the functions write it: CLUSTER_SUM_SIZE bytes. */
int128 cluster_get_sum(const void *bytes);

/* The slot of a key: CRC16 (XMODEM) of it, or of what stands between the first
 * "{" and the next "}" when that is not empty, modulo 16384. */
#define CLUSTER_SLOTS 16384u
uint16_t cluster_slot(const void *key, size_t size);

/* What a master says of its replicas in the text of INFO replication: how far
 * it has written (0: it does not say), and how many are online and have that.
 */
uint64_t cluster_replicas_offset(const char *text);
uint64_t cluster_replicas_count(const char *text, uint64_t offset);

/* The node of a slot's master, by the map; CLUSTER_NO_NODE when it is not
 * known. */
int cluster_node_of(const struct cluster *c, uint16_t slot);

/* The node "host:port", which need not be in the map; the text may go on behind
 * a blank.  CLUSTER_NO_NODE: it is none, or there are too many. */
int cluster_find_named(struct cluster *c, const char *name);

/* Asks for the map if it is not known.  -EHOSTDOWN: no node can be reached. */
int cluster_need_map(struct cluster *c);

/* The next master after `node` (CLUSTER_NO_NODE: the first), or
 * CLUSTER_NO_NODE. */
int cluster_next_master(const struct cluster *c, int node);

/* "host:port" of a node. */
const char *cluster_node_name(const struct cluster *c, int node);

/* Grows with each connection that was made and each change of the map: what was
 * acknowledged before may have been lost since. */
uint64_t cluster_changes(const struct cluster *c);

/* The text of the last error. */
const char *cluster_text(const struct cluster *c);

#endif
