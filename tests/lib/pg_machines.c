/* tests/lib/pg_machines.c - see pg_machines.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/pg_machines.h"

#include <stdio.h>

int
pg_machines_setup(void **state)
{
    static unsigned schemas;
    static struct pg_machines x;

    *state = &x;
    if (!pg_server_is_installed())
        return 0;
    (void)snprintf(x.schema, sizeof x.schema, "site%u", ++schemas);
    pg_server_use(x.schema);
    for (struct fleet *f = x.fleets; f < x.fleets + 2; f++) {
        fleet_init_in_memory(f);
        fleet_put_option(f, "store", "postgresql");
        fleet_put_option(f, "store.conninfo", pg_server_conninfo());
        fleet_put_option(f, "store.schema", x.schema);
    }
    expect(FLEET_RUN(&x.fleets[0], "store", "init"), 0, "made schema=");
    return 0;
}

int
pg_machines_teardown(void **state)
{
    struct pg_machines *x = *state;

    for (int i = 0; i < 2 && pg_server_is_installed(); i++) {
        fleet_stop_all(&x->fleets[i]);
        fleet_fini(&x->fleets[i]);
    }
    return 0;
}

void
pg_machines_add(struct fleet *f, const char *keyspace, const char *key,
                int64_t n)
{
    service_add(f, keyspace, key, n);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
}
