/* tests/lib/engines.c - see engines.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/engines.h"

#include <stdio.h>
#include <string.h>

#include "common/setup/tiers.h"
#include "tests/lib/daemon.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/test.h"

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
open_with(int keyspace_fd, const struct tiers_rules *history,
          uint64_t (*now_ms)(void))
{
    struct lmdb_options options = engine_lmdb_options(keyspace_fd);
    struct store *s;

    options.open_max = 64;
    options.txn_memory = 4 << 20;
    options.history = history;
    options.now_ms = now_ms;
    assert_rc(lmdb_store_open(&s, &options), 0);
    return s;
}

struct store *
engine_open(int keyspace_fd)
{
    return open_with(keyspace_fd, NULL, NULL);
}

const struct tiers_rules *
engine_rules(const char *tiers)
{
    static struct tiers_rules rules;
    const char *why;

    rules = (struct tiers_rules){.all = {.count = 0}};
    assert_rc(tiers_rules_set(&rules, NULL, tiers, &why), 0);
    return &rules;
}

struct store *
engine_open_history(int keyspace_fd, const char *tiers,
                    uint64_t (*now_ms)(void))
{
    return open_with(keyspace_fd, engine_rules(tiers), now_ms);
}

struct postgresql_options
engine_postgresql_options(struct config *settings)
{
    static unsigned schemas;
    const struct postgresql_options options = {
        .config = settings, .writable = true, .connects_later = true};
    struct store *s;

    memset(settings, 0, sizeof *settings);
    strcpy(settings->store_conninfo, pg_server_conninfo());
    (void)snprintf(settings->store_schema, sizeof settings->store_schema,
                   "countd%u", ++schemas);
    settings->store_timeout_ms = 5000 * test_slow();
    pg_server_use(settings->store_schema);
    assert_rc(postgresql_store_open(&s, &options), 0);
    assert_rc(postgresql_store_init(s), 0);
    store_close(s);
    return options;
}

struct store *
engine_open_postgresql(const char *tiers)
{
    static struct config settings;
    struct postgresql_options options = engine_postgresql_options(&settings);
    struct store *s;

    settings.history = *engine_rules(tiers);
    assert_rc(postgresql_store_open(&s, &options), 0);
    return s;
}
