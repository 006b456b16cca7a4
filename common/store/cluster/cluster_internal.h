/* common/store/cluster/cluster_internal.h - what cluster.c (commands),
 * cluster_map.c (nodes, connections, the map) and cluster_probe.c (nodes that
 * do not answer) share. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_INTERNAL_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_INTERNAL_H

#include <hiredis/hiredis.h>

#include "common/store/cluster/cluster.h"

#define CLUSTER_HOST_SIZE 256
#define CLUSTER_DOWN_MS   1000 /* a node that did not answer is left alone */

struct cluster_node {
    char host[CLUSTER_HOST_SIZE];
    char name[CLUSTER_HOST_SIZE + 8]; /* host:port */
    int port;
    redisContext *link;     /* NULL: not connected */
    bool is_silent;         /* it did not answer: it is probed before it is
                               used again */
    uint64_t down_until_ms; /* with is_silent: no probe begins before */
    redisContext *probe;    /* NULL: none is under way */
    uint64_t probe_ms;      /* when it began */
    bool is_master;         /* by the map */
    bool wants_functions;   /* it has no library of functions, or an older */
    bool needs_functions;   /* a command of this round calls one */
    bool knows_functions;   /* its revision was asked for on this connection */
    bool is_seed;           /* of the options */
};

struct cluster {
    struct cluster_options options;
    struct cluster_node nodes[CLUSTER_NODES_MAX];
    int node_count;
    int16_t masters[CLUSTER_SLOTS]; /* nodes; CLUSTER_NO_NODE */
    bool map_is_known, wants_map;
    uint64_t map_ms; /* when the map was asked for last */
    uint64_t changes;
    char text[CLUSTER_TEXT_SIZE];
};

/* Notes the text of an error. */
void cluster_note(struct cluster *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Finds a node, or adds it.  CLUSTER_NO_NODE: there are too many. */
int cluster_find_node(struct cluster *c, const char *host, size_t host_size,
                      int port);

/* The port at the start of a text, which ends or goes on with a blank; 0: there
 * is none. */
int cluster_parse_port(const char *text);

/* Connects a node unless it is connected.  -EHOSTDOWN, -EACCES */
int cluster_connect(struct cluster *c, int node);

/* Closes a node's connection; with `is_silent` it is not used until a probe is
 * answered. */
void cluster_disconnect(struct cluster *c, int node, bool is_silent);

/* Whether a silent node answers again; begins a probe when none is under way.
 * Waits at most 50 ms, and that only where it begins one: once in
 * options.timeout_ms, and not more than once a second. */
bool cluster_probe(struct cluster *c, int node);
void cluster_end_probe(struct cluster_node *n);

/* Sends one command to a connected node, by a format of hiredis, and waits for
 * its reply, which is the caller's; NULL: the connection broke. */
redisReply *cluster_call(struct cluster *c, int node, const char *format, ...);

/* Asks for the map when that is wanted and was not just done. */
void cluster_refresh_map(struct cluster *c);

#endif
