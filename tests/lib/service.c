/* tests/lib/service.c - see service.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/service.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/client.h"
#include "tests/lib/test.h"

static int
set_up(void **state, void (*init)(struct fleet *f))
{
    struct fleet *f = test_memory(calloc(1, sizeof *f));

    init(f);
    *state = f;
    return 0;
}

int
service_setup(void **state)
{
    return set_up(state, fleet_init);
}

int
service_setup_in_memory(void **state)
{
    return set_up(state, fleet_init_in_memory);
}

int
service_setup_options(void **state, const char *const *options)
{
    const int rc = service_setup(state);

    fleet_add_options(*state, options);
    return rc;
}

int
service_setup_live(void **state)
{
    const int rc = service_setup_in_memory(state);

    fleet_options(*state, "log.rotate_after=1h", "log.merge_share=0",
                  "counter.port=0", "counter.stats_interval=1000000000",
                  "semaphore.enable=true", "semaphore.port=0",
                  "semaphore.gc_interval=1000000000");
    return rc;
}

int
service_teardown(void **state)
{
    fleet_fini(*state);
    free(*state);
    return 0;
}

int
service_site_setup(void **state)
{
    struct service_site *s = test_memory(calloc(1, sizeof *s));

    fleet_init(&s->fleet);
    assert_rc(datadir_open(&s->dir, s->fleet.path, DATADIR_WRITE), 0);
    *state = s;
    return 0;
}

int
service_site_teardown(void **state)
{
    struct service_site *s = *state;

    datadir_close(&s->dir);
    fleet_fini(&s->fleet);
    free(s);
    return 0;
}

void
service_set_tokens(struct fleet *f, const char *lines)
{
    char option[FLEET_OPTION_SIZE];

    if (!tmpdir_has(&f->dir, "tokens")) {
        assert_in_range(snprintf(option, sizeof option, "http.tokens=%s/tokens",
                                 f->dir.path),
                        1, sizeof option - 1);
        fleet_option(f, option);
    }
    tmpdir_put(&f->dir, "tokens", lines, strlen(lines), 0600);
}

void
service_start(struct fleet *f)
{
    fleet_start(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    fleet_start(f, FLEET_READ);
}

void
service_add(struct fleet *f, const char *keyspace, const char *key,
            int64_t increment)
{
    const int fd = client_connect(fleet_ack_port(f));

    client_increment(fd, keyspace, key, increment);
    client_wins(fd, 1);
    client_close(fd);
}

int64_t
service_count(struct fleet *f, const char *keyspace, const char *key)
{
    const int fd = client_connect(fleet_read_port(f));
    int64_t count;

    if (!client_get(fd, keyspace, key, &count))
        count = INT64_MIN;
    client_close(fd);
    return count;
}

int64_t
service_total(struct fleet *f, const char *keyspace)
{
    const int fd = client_connect(fleet_read_port(f));
    const int64_t total = client_total(fd, keyspace);

    client_close(fd);
    return total;
}
