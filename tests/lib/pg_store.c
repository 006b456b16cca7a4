/* tests/lib/pg_store.c - see pg_store.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/pg_store.h"

#include <string.h>

#include "common/store/postgresql/pg.h"

struct pg_store *
pg_store_setup(void **state)
{
    static struct pg_store x;

    memset(&x, 0, sizeof x);
    *state = &x;
    if (!pg_server_is_installed())
        return NULL;
    x.options = engine_postgresql_options(&x.settings);
    tmpdir_make_in_memory(&x.tmp);
    x.dir.fd = x.tmp.fd;
    return &x;
}

int
pg_store_teardown(void **state)
{
    struct pg_store *x = *state;

    store_close(x->s);
    store_close(x->other);
    if (x->proxy.look)
        pg_proxy_stop(&x->proxy);
    if (pg_server_is_installed())
        tmpdir_remove(&x->tmp);
    return 0;
}

int
pg_store_connect(struct store *s)
{
    return pg_connect(pg_of(s));
}

static struct store *
open_again(const struct pg_store *x, struct store **s, struct config *settings)
{
    struct postgresql_options options = x->options;

    store_close(*s);
    *s = NULL;
    *settings = x->settings;
    options.config = settings;
    assert_rc(postgresql_store_open(s, &options), 0);
    return *s;
}

void
pg_store_open(struct pg_store *x)
{
    (void)open_again(x, &x->s, &x->settings_of_s);
}

struct store *
pg_store_open_other(struct pg_store *x)
{
    return open_again(x, &x->other, &x->settings_of_other);
}

void
pg_store_look(struct pg_store *x,
              bool (*look)(bool from_server, char *bytes, size_t size))
{
    if (x->proxy.look)
        pg_proxy_stop(&x->proxy);
    x->proxy = (struct pg_proxy){.look = look};
    pg_proxy_start(&x->proxy);
    strcpy(x->settings.store_conninfo, x->proxy.conninfo);
}

struct log_fill
pg_store_fill(uint64_t epoch)
{
    return (struct log_fill){.uuid = {9}, .epoch = epoch, .first_ms = epoch};
}
