/* tests/lib/cluster_faults.h - what goes wrong with the servers of a cluster
 * servers, and its repair.
 *
 *     cluster_faults_init(&f, &servers);
 *     cluster_fault_kill(&f, server);
 *     ...
 *     cluster_faults_heal(&f);
 *
 * A fault may be done to any server in any state: one that does not run is left
 * alone, and false is returned.  Only cluster_fault_move_slot() needs a whole
 * cluster.
 *
 * Every fault but cluster_fault_cut() and cluster_fault_flush() leaves on some
 * server all that was acknowledged and replicated. */
#ifndef COUNTD_TESTS_LIB_CLUSTER_FAULTS_H
#define COUNTD_TESTS_LIB_CLUSTER_FAULTS_H

#include "tests/lib/cluster_servers.h"
#include "tests/lib/random.h"

struct cluster_faults {
    struct cluster_servers *servers;
    bool is_dead[CLUSTER_SERVERS_SERVERS], is_stopped[CLUSTER_SERVERS_SERVERS];
};

void cluster_faults_init(struct cluster_faults *f,
                         struct cluster_servers *servers);

/* A master, or the replica of one, that runs; CLUSTER_SERVERS_SERVERS: none. */
unsigned cluster_fault_master(struct cluster_faults *f, struct random *random);
unsigned cluster_fault_replica_of(struct cluster_faults *f, unsigned master);

/* SIGKILL, until cluster_faults_heal() or cluster_fault_restart(). */
bool cluster_fault_kill(struct cluster_faults *f, unsigned server);
bool cluster_fault_restart(struct cluster_faults *f, unsigned server);

/* SIGSTOP and SIGCONT. */
bool cluster_fault_stop(struct cluster_faults *f, unsigned server);
bool cluster_fault_continue(struct cluster_faults *f, unsigned server);

/* Stops the replica of a master and makes it miss what comes from now on; the
 * second call stops the master and promotes the replica, which is behind. */
bool cluster_fault_leave_behind(struct cluster_faults *f, unsigned master,
                                unsigned replica);
bool cluster_fault_promote(struct cluster_faults *f, unsigned master,
                           unsigned replica);

/* Kills a server and cuts off the last `percent` of what it appended to its
 * file since that was begun, and what is not a whole transaction then. */
bool cluster_fault_cut(struct cluster_faults *f, unsigned server,
                       unsigned percent);

/* Removes all keys of a server, whose connections break: without that, only
 * the next entry or the audit of each minute finds the loss. */
bool cluster_fault_flush(struct cluster_faults *f, unsigned server);

/* Runs a command on a server: breaks its connections; lets its memory be full,
 * or want more replicas than there are, both until cluster_faults_heal(). */
bool cluster_fault_run(struct cluster_faults *f, unsigned server,
                       const char *command);
#define CLUSTER_FAULT_BREAK "CLIENT KILL TYPE normal"
#define CLUSTER_FAULT_FILL  "CONFIG SET maxmemory 1"
#define CLUSTER_FAULT_ALONE "CONFIG SET min-replicas-to-write 2"

/* Moves a slot with all its keys to another master, key by key as Redis' own
 * tools do; each(ctx) is called between two of them. */
void cluster_fault_move_slot(struct cluster_faults *f, unsigned slot,
                             void (*each)(void *ctx), void *ctx);

/* Ends all faults; waits until each slot has a master and each master its
 * replica; each(ctx) is called meanwhile. */
void cluster_faults_heal(struct cluster_faults *f, void (*each)(void *ctx),
                         void *ctx);

#endif
