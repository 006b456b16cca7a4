/* tests/lib/cluster_engine.h - the engine on a Redis Cluster, for tests of what
 * every engine promises.
 *
 * What changes counters returns once the change is readable: the engine's own
 * calls return when it is durable in the outbox.  The servers start with the
 * first engine of the process and are shared by all of them; each begins with
 * an empty cluster. */
#ifndef COUNTD_TESTS_LIB_CLUSTER_ENGINE_H
#define COUNTD_TESTS_LIB_CLUSTER_ENGINE_H

#include "common/store/store.h"

/* Opens one, whose data directory store_close() removes; one at a time.
 * NULL: redis-server is not installed, or hiredis was not when this was
 * built. */
struct store *cluster_engine_open(void);

/* Ends the servers, if any: at the end of main(). */
void cluster_engine_stop(void);

#endif
