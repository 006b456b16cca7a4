/* common/store/cluster/cluster_check.c - cluster_store_check(): what servers
 * say of themselves that would lose counters; see cluster_store.h. */
#include "common/store/cluster/cluster_store_internal.h"

#include <errno.h>
#include <inttypes.h>
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

/* What decides for how long a replica may be cut off and still be promoted: a
 * longest silence, how many of these, and how often a master says something. */
static const char *const promotions[] = {"cluster-node-timeout",
                                         "cluster-replica-validity-factor",
                                         "repl-ping-replica-period"};
#define PROMOTIONS (sizeof promotions / sizeof promotions[0])

/* Entries that such a replica lacks must be retained still. */
static void
check_retain(const struct cluster_store *s, int node)
{
    uint64_t values[PROMOTIONS], needed_ms;

    for (size_t i = 0; i < PROMOTIONS; i++) {
        const struct cluster_command *m = &s->commands[RULES + i];
        const char *value = m->error == 0 ? get_value(m->reply) : NULL;

        if (value == NULL)
            return;
        values[i] = strtoull(value, NULL, 10);
    }
    needed_ms = values[0] * values[1] + values[2] * 1000;
    if (values[1] > 0 && s->options.config->store_retain_ms > needed_ms)
        return;
    if (values[1] == 0)
        diag(DIAG_WARNING,
             "%s: %s is 0: a replica that was cut off for longer than "
             "store.retain can be promoted, and what it lacks is lost",
             cluster_node_name(s->cluster, node), promotions[1]);
    else
        diag(DIAG_WARNING,
             "%s: a replica that was cut off for %" PRIu64
             " s is promoted, and store.retain is shorter: what it lacks is "
             "lost; set store.retain longer, or %s shorter",
             cluster_node_name(s->cluster, node), needed_ms / 1000,
             promotions[0]);
}

static void
check_replicas(const struct cluster_store *s, int node, const char *info)
{
    static const char name[] = "connected_slaves:";
    const char *at = strstr(info, name);
    const uint64_t wanted = s->options.config->store_replicas;
    const uint64_t found = at ? strtoull(at + strlen(name), NULL, 10) : wanted;

    if (found < wanted)
        diag(DIAG_WARNING,
             "%s: replicas=%" PRIu64 ", fewer than store.replicas=%" PRIu64
             ": its entries stay in the outbox, and as_of_ms stands still",
             cluster_node_name(s->cluster, node), found, wanted);
}

static void
begin_at(struct cluster_store *s, int node, const char *words, const char *name)
{
    struct cluster_command *m = cluster_next_call(s);

    cluster_begin(m, 0, words);
    cluster_add_text(m, name);
    m->node = node;
}

static int
check_node(struct cluster_store *s, int node)
{
    const struct cluster_command *info = &s->commands[RULES + PROMOTIONS];
    int rc = 0;

    for (size_t i = 0; i < RULES; i++)
        begin_at(s, node, "CONFIG GET", rules[i].name);
    for (size_t i = 0; i < PROMOTIONS; i++)
        begin_at(s, node, "CONFIG GET", promotions[i]);
    begin_at(s, node, "INFO", "default");
    cluster_call_run(s);
    for (size_t i = 0; i < RULES; i++) {
        /* Some services hide CONFIG from their users. */
        const char *value =
            s->commands[i].error == 0 ? get_value(s->commands[i].reply) : NULL;

        if (value != NULL && judge_value(s, node, i, value) < 0)
            rc = -EPERM;
    }
    check_retain(s, node);
    if (info->error == 0 && info->reply->type == REDIS_REPLY_STRING) {
        check_replicas(s, node, info->reply->str);
        if (check_version(s, node, info->reply->str) < 0)
            rc = -EPERM;
    }
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
