/* common/setup/config_check.c - whether settings fit one another; see
 * config_internal.h.
 *
 * config_check() compares settings; config_test() also resolves addresses and
 * reads the tokens. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/config_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/net/bind.h"
#include "common/net/tokens.h"
#include "common/setup/name_pattern.h"
#include "common/setup/ports.h"
#include "common/setup/privilege.h"
#include "common/wire/message.h"

static bool
may_be_shared(const char *address)
{
    const char *colon = strrchr(address, ':');

    /* An empty address is off.  Port 0 is a free port of the kernel's choice,
     * so any number of settings may have it. */
    return colon == NULL || strspn(colon + 1, "0") == strlen(colon + 1);
}

static int
check_addresses(const struct config *c, char why[CONFIG_WHY_SIZE])
{
    char texts[PORT_DATAGRAMS][PORTS_TEXT_SIZE];
    struct listener_config rows[PORT_DATAGRAMS];

    /* Datagrams have ports of their own. */
    for (int i = 0; i < PORT_DATAGRAMS; i++) {
        rows[i] = ports_listener(c, (enum port)i, texts[i]);
        for (int j = 0; j < i; j++)
            if (!may_be_shared(rows[j].listen) &&
                strcmp(rows[j].listen, rows[i].listen) == 0)
                return config_fail(
                    why, -EINVAL,
                    "%s and %s are both %s; give each its own port",
                    rows[j].listen_key, rows[i].listen_key, rows[i].listen);
    }
    return 0;
}

/* The keyspaces of StatsD and Graphite lines, and the keys of figures about
 * them, must fit into messages. */
static int
check_statsd(const struct config *c, char why[CONFIG_WHY_SIZE])
{
    const size_t keyspace =
        strlen(c->statsd_keyspace) + sizeof ".timer.count" - 1;
    const size_t self = sizeof "countd.graphite" - 1;
    const size_t least = keyspace > self ? keyspace : self;
    const size_t key = sizeof "ignored.gauge" - 1;

    if (c->statsd_listen[0] == '\0' && c->statsd_tcp_listen[0] == '\0' &&
        c->graphite_listen[0] == '\0')
        return 0;
    if (c->keyspace_size < least)
        return config_fail(why, -EINVAL,
                           "message.keyspace_size: %" PRIu64
                           " bytes do not hold %s.timer.count and "
                           "countd.graphite; give at least %zu, or a shorter "
                           "statsd.keyspace",
                           c->keyspace_size, c->statsd_keyspace, least);
    if (c->key_size < key)
        return config_fail(why, -EINVAL,
                           "message.key_size: %" PRIu64
                           " bytes do not hold ignored.gauge; give at least "
                           "%zu, or no statsd.listen and graphite.listen",
                           c->key_size, key);
    return 0;
}

/* All strings of Redis clients are keys of one keyspace, resp.keyspace. */
static int
check_resp(const struct config *c, char why[CONFIG_WHY_SIZE])
{
    const size_t size = strlen(c->resp_keyspace);

    if (c->resp_listen[0] == '\0' || c->keyspace_size >= size)
        return 0;
    return config_fail(why, -EINVAL,
                       "resp.keyspace: %s is longer than "
                       "message.keyspace_size=%" PRIu64 "; give a shorter name",
                       c->resp_keyspace, c->keyspace_size);
}

/* An origin is what browsers send: a scheme, a host, perhaps a port. */
static int
check_origins(const char *key, const char *origins, char why[CONFIG_WHY_SIZE])
{
    const char *at = origins;
    char shown[NAME_SHOWN_SIZE];

    for (at += strspn(at, " "); *at != '\0'; at += strspn(at, " ")) {
        const size_t size = strcspn(at, " ");
        const char *scheme = memmem(at, size, "://", 3);

        if (!(size == 1 && *at == '*' && strlen(origins) == 1) &&
            (!scheme || scheme == at || scheme + 3 == at + size ||
             memchr(scheme + 3, '/', size - (size_t)(scheme + 3 - at))))
            return config_fail(
                why, -EINVAL,
                "%s: \"%s\" is not an origin; give origins without a "
                "path, such as https://example.org, or * alone",
                key, name_show(at, size, shown));
        at += size;
    }
    return 0;
}

/* Pages that may count, and into what. */
static int
check_pages(const struct config *c, char why[CONFIG_WHY_SIZE])
{
    struct name_patterns patterns = {.count = 0};
    const char *wrong;
    int rc = check_origins("count.cors", c->count_cors, why);

    if (rc < 0)
        return rc;
    rc = name_patterns_add_all(&patterns, c->count_cors_keyspaces, &wrong);
    if (rc < 0)
        return config_fail(why, rc, "count.cors_keyspaces: %s", wrong);
    if (c->count_cors[strspn(c->count_cors, " ")] != '\0' &&
        patterns.count == 0)
        return config_fail(why, -EINVAL,
                           "count.cors needs count.cors_keyspaces: the "
                           "keyspaces that these pages may count into");
    return 0;
}

int
config_check(const struct config *c, char why[CONFIG_WHY_SIZE])
{
    /* As layout_init() computes it: message, epoch, time, synced, crc32. */
    const uint64_t slot_size = 8 + c->keyspace_size + c->key_size + 24;

    if (c->log_size < LAYOUT_SLOTS_AT + slot_size)
        return config_fail(why, -EINVAL,
                           "log.size: %" PRIu64
                           " bytes hold no message; give at "
                           "least %" PRIu64,
                           c->log_size, LAYOUT_SLOTS_AT + slot_size);
    if (c->log_count > c->log_max)
        return config_fail(why, -EINVAL,
                           "log.count is %" PRIu64 " and log.max %" PRIu64
                           "; give log.max at least log.count",
                           c->log_count, c->log_max);
    if (check_statsd(c, why) < 0 || check_resp(c, why) < 0 ||
        check_origins("read.cors", c->read_cors, why) < 0 ||
        check_pages(c, why) < 0)
        return -EINVAL;
    return check_addresses(c, why);
}

/* Checks the file of http.tokens.  If this process may become the daemon's user
 * it does so for good, because it only tests and then ends.  Without the
 * setting `user` a supervisor may start the daemons as any user, so the owner
 * of the file is not checked.  Returns an exit status. */
static int
test_tokens(const struct config *c)
{
    const bool is_user_known = c->user[0] != '\0' && geteuid() == 0;
    struct tokens *t;
    int status, rc;

    if (c->http_tokens[0] == '\0')
        return CONFIG_EXIT_OK;
    if (is_user_known) {
        status = privilege_become(c, DATADIR_READ);
        if (status != 0)
            return status;
    }
    rc = tokens_open(&t, c->http_tokens, !is_user_known);
    tokens_close(t);
    if (rc < 0)
        return config_exit_of(rc);
    return CONFIG_EXIT_OK;
}

int
config_test(const struct config *c)
{
    struct net_address address;
    char text[PORTS_TEXT_SIZE];
    int status, rc = 0;

    for (int i = 0; i < PORTS && rc == 0; i++) {
        const struct listener_config row =
            ports_listener(c, (enum port)i, text);

        if (row.listen[0] != '\0' && strcmp(row.listen, LISTENER_NO_PORT) != 0)
            rc = bind_resolve(row.listen, row.listen_key, row.allow,
                              row.allow_key, &address);
    }
    if (rc == 0 && c->resp_listen[0] != '\0' && c->resp_writer[0] != '\0')
        rc = bind_look_up(c->resp_writer, "resp.writer", &address);
    if (rc < 0)
        return config_exit_of(rc);
    status = privilege_check(c);
    if (status == CONFIG_EXIT_OK)
        status = test_tokens(c);
    if (status != CONFIG_EXIT_OK)
        return status;
    (void)puts("settings are good");
    return fflush(stdout) == 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_SYSTEM;
}
