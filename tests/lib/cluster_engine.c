/* tests/lib/cluster_engine.c - see cluster_engine.h. */
#include "tests/lib/cluster_engine.h"

#if !__has_include(<hiredis/hiredis.h>)

struct store *
cluster_engine_open(void)
{
    return NULL;
}

void
cluster_engine_stop(void)
{
}

#else

#include <signal.h>

#include "common/setup/datadir.h"
#include "common/store/cluster/cluster_store.h"
#include "tests/lib/cluster_servers.h"
#include "tests/lib/test.h"

static struct {
    struct cluster_servers servers;
    bool is_started;
    struct tmpdir tmp;
    struct datadir dir;
    struct config config;
    const struct store_engine *real;
    struct store_engine engine; /* the real one, which waits */
} engine;

static int
await_readable(struct store *s, int rc)
{
    cluster_servers_await_sent(s);
    return rc;
}

static int
apply(struct store *s, const struct store_batch *batch,
      struct store_applied *applied)
{
    return await_readable(s, engine.real->apply(s, batch, applied));
}

static int
drop(struct store *s, const uint8_t *name, size_t name_size)
{
    return await_readable(s, engine.real->drop(s, name, name_size));
}

static int
del(struct store *s, const uint8_t *name, size_t name_size,
    const struct store_key *keys, size_t count, uint64_t *deleted)
{
    return await_readable(
        s, engine.real->del(s, name, name_size, keys, count, deleted));
}

static void
close_engine(struct store *s)
{
    engine.real->close(s);
    datadir_close(&engine.dir);
    tmpdir_remove(&engine.tmp);
}

/* Puts the calls that wait in the place of the handle's own. */
static void
wrap_engine(struct store *s)
{
    engine.real = s->engine;
    engine.engine = *s->engine;
    engine.engine.apply = apply;
    engine.engine.drop = drop;
    engine.engine.del = del;
    engine.engine.close = close_engine;
    s->engine = &engine.engine;
}

struct store *
cluster_engine_open(void)
{
    const struct cluster_store_options options = {.config = &engine.config,
                                                  .dir = &engine.dir,
                                                  .writable = true,
                                                  .sends = true};
    struct store *s;

    (void)signal(SIGPIPE, SIG_IGN);
    if (!engine.is_started)
        engine.is_started = cluster_servers_start(&engine.servers);
    if (!engine.is_started)
        return NULL;
    cluster_servers_flush(&engine.servers);
    cluster_servers_config(&engine.servers, &engine.config);
    tmpdir_make_in_memory(&engine.tmp);
    assert_rc(datadir_open(&engine.dir, engine.tmp.path, DATADIR_WRITE), 0);
    assert_rc(cluster_store_open(&s, &options), 0);
    wrap_engine(s);
    return s;
}

void
cluster_engine_stop(void)
{
    if (engine.is_started)
        cluster_servers_stop(&engine.servers);
    engine.is_started = false;
}

#endif
