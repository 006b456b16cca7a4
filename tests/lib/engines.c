/* tests/lib/engines.c - see engines.h. */
#include "tests/lib/engines.h"

#include "common/store/lmdb/engine.h"
#include "tests/lib/memstore.h"
#include "tests/lib/test.h"

const enum engine_kind engine_kinds[2] = {ENGINE_MEMORY, ENGINE_LMDB};

struct store *
engine_open(enum engine_kind kind, int keyspace_fd)
{
    static const uint8_t hash_key[16] = {1, 2, 3};
    const struct lmdb_options options = {.keyspace_fd = keyspace_fd,
                                         .hash_key = hash_key,
                                         .keyspace_size = 256,
                                         .key_size = 256,
                                         .writable = true,
                                         .open_max = 64,
                                         .txn_memory = 4 << 20};
    struct store *s;

    if (kind == ENGINE_MEMORY)
        assert_rc(memstore_open(&s), 0);
    else
        assert_rc(lmdb_store_open(&s, &options), 0);
    return s;
}
