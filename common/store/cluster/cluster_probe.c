/* common/store/cluster/cluster_probe.c - whether a node that was silent answers
 * again; see cluster_probe() in cluster_internal.h.
 *
 * A probe is a connection of its own that does not block, with one PING.  It is
 * open across calls, so a node far away has the whole time-out to answer, while
 * each caller but the one that begins it goes on at once. */
#include "common/store/cluster/cluster_internal.h"

#include <poll.h>

#include "common/base/clock.h"

/* How long a call that begins a probe waits: most nodes answer sooner. */
#define PROBE_WAIT_MS 50

enum probe_result { PROBE_SILENT, PROBE_ANSWERED, PROBE_BROKEN };

void
cluster_end_probe(struct cluster_node *n)
{
    if (n->probe != NULL)
        redisFree(n->probe);
    n->probe = NULL;
}

static bool
begin_probe(struct cluster_node *n)
{
    n->probe = redisConnectNonBlock(n->host, n->port);
    n->probe_ms = clock_ms();
    return n->probe != NULL && n->probe->err == 0 &&
           redisAppendCommand(n->probe, "PING") == REDIS_OK;
}

/* Sends and receives what can be without waiting.  Any reply will do, "NOAUTH",
 * too. */
static enum probe_result
poll_probe(struct cluster_node *n)
{
    void *reply = NULL;
    int is_done = 0;

    if (redisBufferWrite(n->probe, &is_done) != REDIS_OK ||
        redisBufferRead(n->probe) != REDIS_OK ||
        redisGetReplyFromReader(n->probe, &reply) != REDIS_OK)
        return PROBE_BROKEN;
    if (reply == NULL)
        return PROBE_SILENT;
    freeReplyObject(reply);
    return PROBE_ANSWERED;
}

/* Polls a probe that has just begun until it has a result, or time is over. */
static enum probe_result
await_probe(struct cluster_node *n)
{
    const uint64_t end_ms = clock_ms() + PROBE_WAIT_MS;
    enum probe_result result;

    while ((result = poll_probe(n)) == PROBE_SILENT && clock_ms() < end_ms)
        (void)poll(NULL, 0, 1);
    return result;
}

bool
cluster_probe(struct cluster *c, int node)
{
    struct cluster_node *n = &c->nodes[node];
    const uint64_t now = clock_ms();
    const uint64_t most = c->options.timeout_ms > CLUSTER_DOWN_MS
                              ? c->options.timeout_ms
                              : CLUSTER_DOWN_MS;
    enum probe_result result;

    if (n->probe != NULL && now - n->probe_ms >= most)
        cluster_end_probe(n);
    if (n->probe != NULL)
        result = poll_probe(n);
    else if (n->down_until_ms > now)
        return false;
    else
        result = begin_probe(n) ? await_probe(n) : PROBE_BROKEN;
    if (result == PROBE_SILENT)
        return false;
    cluster_end_probe(n);
    if (result == PROBE_BROKEN)
        n->down_until_ms = clock_ms() + CLUSTER_DOWN_MS;
    n->is_silent = result != PROBE_ANSWERED;
    return !n->is_silent;
}
