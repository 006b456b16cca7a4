/* tests/lib/engines.c - see engines.h. */
#include "tests/lib/engines.h"

#include "common/setup/tiers.h"
#include "tests/lib/cluster_engine.h"
#include "tests/lib/memstore.h"
#include "tests/lib/test.h"

const enum engine_kind engine_kinds[3] = {ENGINE_MEMORY, ENGINE_LMDB,
                                          ENGINE_CLUSTER};

struct lmdb_options
engine_lmdb_options(int keyspace_fd)
{
    return (struct lmdb_options){.keyspace_fd = keyspace_fd,
                                 .keyspace_size = 256,
                                 .key_size = 256,
                                 .writable = true,
                                 .open_max = 4,
                                 .txn_memory = 1 << 20};
}

static struct store *
open_with(enum engine_kind kind, int keyspace_fd,
          const struct tiers_rules *history, uint64_t (*now_ms)(void))
{
    struct lmdb_options options = engine_lmdb_options(keyspace_fd);
    struct store *s;

    options.open_max = 64;
    options.txn_memory = 4 << 20;
    options.history = history;
    options.now_ms = now_ms;
    if (kind == ENGINE_LMDB) {
        assert_rc(lmdb_store_open(&s, &options), 0);
        return s;
    }
    if (kind == ENGINE_CLUSTER) {
        assert_null(now_ms);
        return cluster_engine_open();
    }
    assert_rc(memstore_open(&s), 0);
    if (now_ms != NULL)
        memstore_now(s, now_ms);
    return s;
}

struct store *
engine_open(enum engine_kind kind, int keyspace_fd)
{
    return open_with(kind, keyspace_fd, NULL, NULL);
}

struct store *
engine_open_history(enum engine_kind kind, int keyspace_fd,
                    uint64_t (*now_ms)(void))
{
    static struct tiers_rules rules;
    const char *why;

    rules = (struct tiers_rules){.count = 0};
    assert_rc(tiers_rules_set(&rules, NULL, "1m:2d,1h:90d,1d:10y", &why), 0);
    return open_with(kind, keyspace_fd, &rules, now_ms);
}
