/* tests/lib/cluster_servers.h - a Redis Cluster of real servers on loopback:
 * three masters, and a replica of each.
 *
 *     if (!cluster_servers_start(&r))
 *         test_skip("redis-server is not installed");
 *     ... r.nodes is for cluster_options and the setting store.nodes ...
 *     cluster_servers_stop(&r);
 *
 * The servers are in a directory of their own, with appendonly, and are ended
 * by pid.  Anything that fails fails the test. */
#ifndef COUNTD_TESTS_LIB_CLUSTER_SERVERS_H
#define COUNTD_TESTS_LIB_CLUSTER_SERVERS_H

#include <stdbool.h>

#include "common/setup/config.h"
#include "common/store/store.h"
#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

#define CLUSTER_SERVERS_SERVERS 6
#define CLUSTER_SERVERS_MASTERS 3
#define CLUSTER_SERVERS_TEXT    16384

struct cluster_servers {
    struct tmpdir tmp;
    struct daemon servers[CLUSTER_SERVERS_SERVERS]; /* the masters come first */
    int ports[CLUSTER_SERVERS_SERVERS], bus[CLUSTER_SERVERS_SERVERS];
    int port_fds[2 * CLUSTER_SERVERS_SERVERS]; /* bound to all of them */
    char nodes[128];
};

/* Returns once the cluster says that it is whole and each replica follows its
 * master.  False: there is no redis-server here, and nothing was started. */
bool cluster_servers_start(struct cluster_servers *r);
void cluster_servers_stop(struct cluster_servers *r);

/* Starts a server that was ended, with the files that it has. */
void cluster_servers_restart(struct cluster_servers *r, unsigned server);

/* Runs a command on one server and returns the reply as text: strings as they
 * are, numbers in decimal, an array's elements on a line each. */
const char *cluster_servers_run(struct cluster_servers *r, unsigned server,
                                const char *format, ...);

/* Waits until `text` is in the reply of a command. */
void cluster_servers_await(struct cluster_servers *r, unsigned server,
                           const char *command, const char *text);

/* The server that is master of a key's slot, as server `from` says. */
unsigned cluster_servers_master(struct cluster_servers *r, unsigned from,
                                unsigned slot);

/* Settings for a store on the servers, and waiting until all that was applied
 * to it is readable. */
void cluster_servers_config(const struct cluster_servers *r, struct config *c);
void cluster_servers_await_sent(struct store *s);

/* Removes all keys of all masters. */
void cluster_servers_flush(struct cluster_servers *r);

#endif
