/* common/store/cluster/cluster_check.c - cluster_store_check(): what servers
 * say of themselves that would lose counters; see cluster_store.h. */
#include "common/store/cluster/cluster_store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"

/* Settings of a server, and what they must be, or should. */
static const struct {
    const char *name, *value;
    bool is_needed;
    const char *why;
} rules[] = {
    {"maxmemory-policy", "noeviction", true,
     "a server that evicts keys loses counters"},
    {"appendonly", "yes", true,
     "a server without a file of its writes loses counters when it restarts"},
    /* Redis 7.0 goes on behind the MULTI at the end of such a file, and the
     * next start takes both transactions for one. */
    {"aof-load-truncated", "no", true,
     "after a second restart a file that ended within a transaction can lose "
     "acknowledged entries unseen"},
    {"appendfsync", "always", false,
     "power loss of all copies at once can lose the last second, which is sent "
     "again as far as store.retain reaches"},
    {"min-replicas-to-write", NULL, false,
     "a master that is cut off from its replicas takes entries that a failover "
     "loses; they are sent again"},
};
#define RULES (sizeof rules / sizeof rules[0])

/* The reply of one CONFIG GET, as text; NULL without one. */
static const char *
get_value(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                   reply->element[1]->type == REDIS_REPLY_STRING
               ? reply->element[1]->str
               : NULL;
}

/* Judges one setting: -EPERM when it is refused. */
static int
judge_value(const struct cluster_store *s, int node, size_t rule,
            const char *value)
{
    const bool is_good = rules[rule].value
                             ? strcmp(value, rules[rule].value) == 0
                             : strcmp(value, "0") != 0;

    if (is_good)
        return 0;
    diag(rules[rule].is_needed ? DIAG_ERROR : DIAG_WARNING,
         "%s: %s is %s: %s%s%s", cluster_node_name(s->cluster, node),
         rules[rule].name, value, rules[rule].why,
         rules[rule].value ? "; set it to " : "",
         rules[rule].value ? rules[rule].value : "");
    return rules[rule].is_needed ? -EPERM : 0;
}

static int
check_version(const struct cluster_store *s, int node, const char *info)
{
    const char *at = strstr(info, "redis_version:");
    const long major = at ? strtol(at + strlen("redis_version:"), NULL, 10) : 0;

    if (major >= 7)
        return 0;
    diag(DIAG_ERROR, "%s: version %ld has no functions: 7.0 is needed",
         cluster_node_name(s->cluster, node), major);
    return -EPERM;
}

static int
check_node(struct cluster_store *s, int node)
{
    int rc = 0;

    for (size_t i = 0; i < RULES; i++) {
        const size_t call = cluster_call_plain(s, "CONFIG", "GET");

        s->commands[call].node = node;
        cluster_call_word(s, call, rules[i].name, strlen(rules[i].name));
    }
    s->commands[cluster_call_plain(s, "INFO", "server")].node = node;
    cluster_call_run(s);
    for (size_t i = 0; i < RULES; i++) {
        /* Some services hide CONFIG from their users. */
        const char *value =
            s->commands[i].error == 0 ? get_value(s->commands[i].reply) : NULL;

        if (value != NULL && judge_value(s, node, i, value) < 0)
            rc = -EPERM;
    }
    if (s->commands[RULES].error == 0 &&
        s->commands[RULES].reply->type == REDIS_REPLY_STRING &&
        check_version(s, node, s->commands[RULES].reply->str) < 0)
        rc = -EPERM;
    cluster_call_end(s);
    return rc;
}

int
cluster_store_check(struct store *store)
{
    struct cluster_store *s = cluster_store_of(store);
    int node = CLUSTER_NO_NODE, rc = 0;

    if (cluster_need_map(s->cluster) < 0) {
        diag(DIAG_WARNING,
             "store.nodes=%s: no node of the cluster answers: %s; batches wait "
             "in data/" OUTBOX_FOLDER,
             s->options.config->store_nodes, cluster_text(s->cluster));
        return -EHOSTDOWN;
    }
    while ((node = cluster_next_master(s->cluster, node)) != CLUSTER_NO_NODE)
        if (check_node(s, node) < 0)
            rc = -EPERM;
    return rc;
}
