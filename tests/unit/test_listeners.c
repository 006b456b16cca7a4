/* tests/unit/test_listeners.c - the table of ports of countd-write: settings, times
 * and shares of each row. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "writer/writer.h"

#define TABLE_SIZE 4096

/* A row as the tests have it; times in seconds. */
static size_t
put_row(char *out, size_t size, const struct listener_config *r)
{
    return (size_t)snprintf(
        out, size,
        "%s: %s=%s %s=%s on by %s, socket %s, %s=%zu reserved=%zu idle=%u "
        "request=%u by %s, yield=%u keep_alive=%u%s\n",
        r->name, r->listen_key, r->listen, r->allow_key, r->allow,
        r->enable_key, r->socket ? r->socket : "none", r->max_key, r->max,
        r->reserved, r->idle_s, r->request_s,
        r->request_key ? r->request_key : "none", r->yield_s, r->keep_alive_s,
        r->close_over ? " close_over" : "");
}

static void
expect_table(const struct listener_config *rows, size_t count,
             const char *expected)
{
    char table[TABLE_SIZE];
    size_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += put_row(table + size, sizeof table - size, &rows[i]);
    assert_string_equal(table, expected);
}

static struct writer w;

static void
set_key(const char *key, const char *value)
{
    char why[CONFIG_WHY_SIZE];

    assert_rc(config_set(&w.config, key, value, why), 0);
}

TEST(the_ports_of_countd_write_have_their_settings_and_times)
{
    config_defaults(&w.config);
    set_key("request_timeout", "77");
    set_key("live.address", "[::1]");
    set_key("live.allow", "::1/128");
    set_key("counter.port", "3");
    set_key("counter.max_connections", "30");
    set_key("semaphore.enable", "on");
    set_key("semaphore.port", "4");
    set_key("semaphore.max_connections", "8");
    set_key("quota.enable", "on");
    set_key("http.listen", "127.0.0.1:5");
    set_key("http.allow", "10.0.0.0/8");
    set_key("http.max_connections", "40");
    set_key("write.listen", "127.0.0.1:6");
    set_key("write.ack_listen", "127.0.0.1:7");
    set_key("write.allow", "11.0.0.0/8");
    set_key("write.max_connections", "16");
    set_key("statsd.tcp_listen", "127.0.0.1:8");
    set_key("statsd.allow", "12.0.0.0/8");
    set_key("graphite.listen", "127.0.0.1:9");
    set_key("graphite.allow", "13.0.0.0/8");
    listeners_init(&w);
    for (size_t i = 0; i < LISTENERS; i++) { /* by the limit of open files */
        assert_true(w.listeners.rows[i].reserved > 0);
        assert_true(w.listeners.rows[i].reserved <= w.listeners.rows[i].max);
        w.listeners.rows[i].reserved = 0;
    }

    expect_table(
        w.listeners.rows, LISTENERS,
        "counter: counter.port=[::1]:3 live.allow=::1/128 on by "
        "counter.enable, socket counter, counter.max_connections=30 reserved=0 "
        "idle=0 request=77 by request_timeout, yield=0 keep_alive=345 "
        "close_over\n"
        "semaphore: semaphore.port=[::1]:4 live.allow=::1/128 on by "
        "semaphore.enable, socket semaphore, semaphore.max_connections=8 "
        "reserved=0 idle=0 request=77 by request_timeout, yield=0 "
        "keep_alive=345 close_over\n"
        "http: http.listen=127.0.0.1:5 http.allow=10.0.0.0/8 on by "
        "http.listen, socket http, http.max_connections=40 reserved=0 idle=60 "
        "request=60 by none, yield=10 keep_alive=0\n"
        "ack: write.ack_listen=127.0.0.1:7 write.allow=11.0.0.0/8 on by "
        "write.ack_listen, socket ack, write.max_connections=16 reserved=0 "
        "idle=0 request=77 by request_timeout, yield=60 keep_alive=0\n"
        "silent: write.listen=127.0.0.1:6 write.allow=11.0.0.0/8 on by "
        "write.listen, socket count, write.max_connections=16 reserved=0 "
        "idle=0 request=77 by request_timeout, yield=60 keep_alive=0\n"
        "statsd-tcp: statsd.tcp_listen=127.0.0.1:8 statsd.allow=12.0.0.0/8 on "
        "by statsd.tcp_listen, socket none, write.max_connections=16 "
        "reserved=0 idle=0 request=77 by request_timeout, yield=60 "
        "keep_alive=0\n"
        "graphite: graphite.listen=127.0.0.1:9 graphite.allow=13.0.0.0/8 on "
        "by graphite.listen, socket graphite, write.max_connections=16 "
        "reserved=0 idle=0 request=77 by request_timeout, yield=60 "
        "keep_alive=0\n");
    assert_ptr_equal(w.listeners.rows[LISTENER_COUNTER].ctx,
                     &w.lives.servers[LIVE_COUNTER]);
    assert_ptr_equal(w.listeners.rows[LISTENER_SEMAPHORE].ctx,
                     &w.lives.servers[LIVE_SEMAPHORE]);
    assert_ptr_equal(w.listeners.rows[LISTENER_HTTP].ctx, &w.http.site);
    assert_ptr_equal(w.listeners.rows[LISTENER_ACK].protocol, &ingest_ack);
    assert_ptr_equal(w.listeners.rows[LISTENER_SILENT].protocol,
                     &ingest_silent);
    assert_ptr_equal(w.listeners.rows[LISTENER_STATSD].ctx,
                     &w.statsd.ports[STATSD_LINE_PROTOCOL]);
    assert_ptr_equal(w.listeners.rows[LISTENER_GRAPHITE].ctx,
                     &w.statsd.ports[GRAPHITE_LINE_PROTOCOL]);
}

TEST(live_names_without_a_limit_wait_and_are_not_closed)
{
    config_defaults(&w.config);
    set_key("counter.port", "socket");
    listeners_init(&w);

    assert_string_equal(w.listeners.rows[LISTENER_COUNTER].listen,
                        LISTENER_NO_PORT);
    assert_false(w.listeners.rows[LISTENER_COUNTER].close_over);
    assert_int_equal(w.listeners.rows[LISTENER_COUNTER].max,
                     w.listeners.shared);
    assert_string_equal(w.listeners.rows[LISTENER_SEMAPHORE].listen, "");
    assert_int_equal(w.listeners.rows[LISTENER_SEMAPHORE].reserved, 0);
}
