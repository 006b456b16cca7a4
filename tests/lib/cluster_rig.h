/* tests/lib/cluster_rig.h - a Redis Cluster of real servers on loopback: three
 * masters, and a replica of each.
 *
 *     if (!cluster_rig_start(&r))
 *         test_skip("redis-server is not installed");
 *     ... r.nodes is for cluster_options and the setting store.nodes ...
 *     cluster_rig_stop(&r);
 *
 * The servers are in a directory of their own, with appendonly, and are ended
 * by pid.  Anything that fails fails the test. */
#ifndef COUNTD_TESTS_LIB_CLUSTER_RIG_H
#define COUNTD_TESTS_LIB_CLUSTER_RIG_H

#include <stdbool.h>

#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

#define CLUSTER_RIG_SERVERS 6
#define CLUSTER_RIG_MASTERS 3
#define CLUSTER_RIG_TEXT    16384

struct cluster_rig {
    struct tmpdir tmp;
    struct daemon servers[CLUSTER_RIG_SERVERS]; /* the masters come first */
    int ports[CLUSTER_RIG_SERVERS], bus[CLUSTER_RIG_SERVERS];
    int port_fds[2 * CLUSTER_RIG_SERVERS]; /* bound to all of them */
    char nodes[128];
};

/* Returns once the cluster says that it is whole and each replica follows its
 * master.  False: there is no redis-server here, and nothing was started. */
bool cluster_rig_start(struct cluster_rig *r);
void cluster_rig_stop(struct cluster_rig *r);

/* Starts a server that was ended, with the files that it has. */
void cluster_rig_restart(struct cluster_rig *r, unsigned server);

/* Runs a command on one server and returns the reply as text: strings as they
 * are, numbers in decimal, an array's elements on a line each. */
const char *cluster_rig_run(struct cluster_rig *r, unsigned server,
                            const char *format, ...);

/* Waits until `text` is in the reply of a command. */
void cluster_rig_await(struct cluster_rig *r, unsigned server,
                       const char *command, const char *text);

/* The server that is master of a key's slot, as server `from` says. */
unsigned cluster_rig_master(struct cluster_rig *r, unsigned from,
                            unsigned slot);

/* Removes all keys of all masters. */
void cluster_rig_flush(struct cluster_rig *r);

#endif
