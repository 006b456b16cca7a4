/* tests/e2e/test_neighbours.c - Debian's nginx, haproxy, collectd and
 * carbon-c-relay beside countd, by the recipes of countd(7), which are read from
 * the page. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/service.h"

#define PAGE     "common/setup/countd.7"
#define SOON_MS  20000
#define LITERAL  ".Bd -literal -offset indent\n"
#define CONF_MAX ((size_t)8192)

struct neighbour {
    struct daemon daemon;
    struct tmpdir dir;
    uint16_t port;
    char conf[CONF_MAX];
};

#define CASE(name, f)                                                          \
    TEST_SERVICE(name, f, "counter.enable=off", "http.listen=127.0.0.1:0",     \
                 "graphite.listen=127.0.0.1:0", "statsd.listen=127.0.0.1:0",   \
                 "statsd.keyspace=stats_counts", "graphite.total=collectd.*")

/* ---- recipes ------------------------------------------------------------- */

/* Replaces the first `from`, which must be there; "" is the beginning. */
static void replace_words(char conf[CONF_MAX], const char *from,
                          const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void
replace_words(char conf[CONF_MAX], const char *from, const char *format, ...)
{
    char rest[CONF_MAX], to[2048];
    char *at = strstr(conf, from);
    va_list args;

    if (!at)
        fail_msg("the recipe lacks %s", from);
    va_start(args, format);
    (void)vsnprintf(to, sizeof to, format, args);
    va_end(args);
    (void)snprintf(rest, sizeof rest, "%s", at + strlen(from));
    (void)snprintf(at, CONF_MAX - (size_t)(at - conf), "%s%s", to, rest);
}

/* The literal block of the page in which these words are. */
static void
read_recipe(const char *words, char conf[CONF_MAX])
{
    static char manual[256 << 10];
    char *block, *at, *end, *next;

    (void)file_read(PAGE, manual, sizeof manual);
    at = strstr(manual, words);
    if (!at)
        fail_msg("%s lacks %s", PAGE, words);
    for (block = next = strstr(manual, LITERAL); next && next < at;
         next = strstr(next + 1, LITERAL))
        block = next;
    end = strstr(at, ".Ed\n");
    assert_true(block && end);
    *end = '\0';
    (void)snprintf(conf, CONF_MAX, "%s", block + strlen(LITERAL));
    while ((at = strstr(conf, "\\e")) != NULL)
        replace_words(conf, "\\e", "\\");
}

static void
await_port(const struct neighbour *n, uint16_t port)
{
    const uint64_t until_ms = clock_ms() + SOON_MS * test_slow();
    int fd;

    while ((fd = client_try_connect(port)) < 0) {
        if (clock_ms() > until_ms || !daemon_alive(&n->daemon)) {
            (void)daemon_output(&n->daemon, text, sizeof text);
            fail_msg("%s does not serve: %s", n->daemon.program, text);
        }
        (void)poll(NULL, 0, 10); /* paces the looking */
    }
    client_close(fd);
}

static bool
is_installed(const char *program)
{
    return access(program, X_OK) == 0;
}

/* Starts a program; a NULL ends its words. */
static void
begin_program(struct neighbour *n, const char *program, const char *const *argv)
{
    const struct daemon_how how = {.argv = argv, .not_ready = true};

    (void)daemon_start_how(&n->daemon, program, &how); /* fails itself */
}

#define BEGIN(n, program, ...)                                                 \
    begin_program(n, program, (const char *const[]){__VA_ARGS__, NULL})

static const char *
put_conf(struct neighbour *n, const char *name)
{
    tmpdir_put(&n->dir, name, n->conf, strlen(n->conf), 0644);
    return file_path(n->dir.path, "%s", name);
}

static void
init_neighbour(struct neighbour *n)
{
    *n = (struct neighbour){.port = daemon_free_port()};
    n->daemon.output = -1;
    tmpdir_make(&n->dir);
    assert_int_equal(chmod(n->dir.path, 0755), 0);
}

static void
fini_neighbour(struct neighbour *n)
{
    daemon_fini(&n->daemon);
    tmpdir_remove(&n->dir);
}

/* Runs a shell command in which $P is a port. */
static int
run_shell(uint16_t port, const char *command)
{
    char line[1024];

    (void)snprintf(line, sizeof line, "P=127.0.0.1:%u; %s", port, command);
    return daemon_run(text, sizeof text, "/bin/sh", "-c", line, NULL);
}

/* Until a key has that count, which it does not exceed. */
static void
await_count(struct fleet *f, const char *keyspace, const char *key,
            int64_t count)
{
    const uint64_t until_ms = clock_ms() + SOON_MS * test_slow();
    int64_t got;

    do {
        expect_text(FLEET_RUN(f, "flush"), 0, "");
        got = service_count(f, keyspace, key);
        if (clock_ms() > until_ms || got > count)
            fail_msg("%s %s: %lld, not %lld", keyspace, key, (long long)got,
                     (long long)count);
    } while (got != count);
}

/* ---- nginx --------------------------------------------------------------- */

static uint16_t
http_port(struct fleet *f)
{
    return fleet_writer_port(f, "http");
}

static void
start_nginx(struct fleet *f, struct neighbour *n)
{
    const char *d = n->dir.path;

    init_neighbour(n);
    read_recipe("proxy_method POST", n->conf);
    replace_words(n->conf, "127.0.0.1:9527", "127.0.0.1:%u", http_port(f));
    replace_words(n->conf, "listen 80;", "listen 127.0.0.1:%u;", n->port);
    replace_words(n->conf, "root /var/www/html;", "root %s;", n->dir.path);
    replace_words(n->conf, "",
                  "daemon off; pid %s/pid; error_log stderr;\n"
                  "events {}\nhttp { access_log off;\n"
                  "client_body_temp_path %s; proxy_temp_path %s;\n"
                  "fastcgi_temp_path %s; uwsgi_temp_path %s;\n"
                  "scgi_temp_path %s;\n",
                  d, d, d, d, d, d);
    (void)strcat(n->conf, "}\n");
    tmpdir_put(&n->dir, "page.html", "a page\n", 7, 0644);
    BEGIN(n, "/usr/sbin/nginx", "-c", put_conf(n, "nginx.conf"));
    await_port(n, n->port);
}

CASE(peer_nginx_counts_page_views, f)
{
    struct neighbour n;

    if (!is_installed("/usr/sbin/nginx"))
        test_skip("nginx is not installed");
    service_start(f);
    start_nginx(f, &n);
    /* What a browser says of another site is not passed on. */
    assert_int_equal(
        run_shell(n.port, "curl -sSf -H 'Origin: https://a.b' "
                          "-H 'Sec-Fetch-Site: cross-site' -H 'Cookie: c=1' "
                          "-H 'Referer: https://a.b/' -H 'Expect: x' "
                          "-H 'Idempotency-Key: k' "
                          "$P/page.html $P/page.html $P/page.html?q=1"),
        0);
    assert_string_equal(text, "a page\na page\na page\n");
    /* Neither of these is a view. */
    assert_int_equal(run_shell(n.port, "curl -sSfI $P/page.html && "
                                       "curl -sS -d x=y $P/page.html"),
                     0);
    assert_int_equal(run_shell(n.port, "curl -sS '127.0.0.1/a\"b\\c%20d' "
                                       "--connect-to ::$P"),
                     0);
    await_count(f, "pages", "/page.html", 3);
    await_count(f, "pages", "/a\"b\\c%20d", 1);
    assert_int_equal(service_total(f, "pages"), 4);

    fleet_stop(f, FLEET_WRITE);
    assert_int_equal(run_shell(n.port, "curl -sSf $P/page.html"), 0);
    assert_string_equal(text, "a page\n");
    fini_neighbour(&n);
}

/* ---- haproxy ------------------------------------------------------------- */

/* Until a request through it has this status. */
static void
await_status(const struct neighbour *n, const char *status)
{
    const uint64_t until_ms = clock_ms() + SOON_MS * test_slow();

    do {
        if (clock_ms() > until_ms)
            fail_msg("through haproxy: %s", text);
        (void)run_shell(n->port,
                        "curl -s -o /dev/null -w '%{http_code}' $P/healthz");
    } while (strcmp(text, status) != 0);
}

CASE(peer_haproxy_knows_who_is_ready, f)
{
    struct neighbour n;

    if (!is_installed("/usr/sbin/haproxy"))
        test_skip("haproxy is not installed");
    service_start(f);
    init_neighbour(&n);
    read_recipe("option httpchk", n.conf);
    replace_words(n.conf, "127.0.0.1:9527 check",
                  "127.0.0.1:%u check inter 200ms", http_port(f));
    replace_words(n.conf, "backend countd",
                  "defaults\n    mode http\n    timeout connect 5s\n"
                  "    timeout client 20s\n    timeout server 20s\n"
                  "frontend f\n    bind 127.0.0.1:%u\n"
                  "    default_backend countd\nbackend countd",
                  n.port);
    BEGIN(&n, "/usr/sbin/haproxy", "-db", "-f", put_conf(&n, "haproxy.cfg"));
    await_port(&n, n.port);
    await_status(&n, "200");
    assert_int_equal(
        run_shell(n.port,
                  "curl -sSf --json '{\"keyspace\":\"k\",\"key\":\"a\"}' "
                  "$P/v1/count"),
        0);
    fleet_stop(f, FLEET_WRITE);
    await_status(&n, "503");
    (void)daemon_output(&n.daemon, text, sizeof text);
    assert_has(text, "countd/");
    assert_has(text, " is DOWN");
    fini_neighbour(&n);
}

/* ---- collectd ------------------------------------------------------------ */

static void
start_relay(struct fleet *f, struct neighbour *n)
{
    char port[8];

    init_neighbour(n);
    read_recipe("cluster countd", n->conf);
    replace_words(n->conf, "127.0.0.1:2003", "127.0.0.1:%u",
                  fleet_writer_port(f, "graphite"));
    (void)snprintf(port, sizeof port, "%u", n->port);
    BEGIN(n, "/usr/bin/carbon-c-relay", "-p", port, "-f",
          put_conf(n, "relay.conf"));
    /* Who connects before makes it wait for ever. */
    daemon_await_words(&n->daemon, "startup sequence complete");
}

static int
join_collectd(struct neighbour *n)
{
    const uint64_t until_ms = clock_ms() + SOON_MS * test_slow();
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_in_range(
        snprintf(a.sun_path, sizeof a.sun_path, "%s/socket", n->dir.path), 1,
        sizeof a.sun_path - 1);
    while (connect(fd, (const struct sockaddr *)&a, sizeof a) < 0) {
        if (clock_ms() > until_ms || !daemon_alive(&n->daemon)) {
            (void)daemon_output(&n->daemon, text, sizeof text);
            fail_msg("collectd: %s", text);
        }
        (void)poll(NULL, 0, 10); /* paces the looking */
    }
    return fd;
}

static int
start_collectd(struct neighbour *n, uint16_t relay)
{
    const char *d = n->dir.path;

    init_neighbour(n);
    read_recipe("LoadPlugin write_graphite", n->conf);
    replace_words(n->conf, "Port \"2013\"", "Port \"%u\"", relay);
    replace_words(n->conf, "",
                  "Hostname \"h\"\nFQDNLookup false\nBaseDir \"%s\"\n"
                  "PIDFile \"%s/pid\"\nWriteThreads 1\nLoadPlugin unixsock\n"
                  "<Plugin unixsock>\n  SocketFile \"%s/socket\"\n"
                  "  DeleteSocket true\n</Plugin>\n",
                  d, d, d);
    BEGIN(n, "/usr/sbin/collectd", "-f", "-C", put_conf(n, "collectd.conf"));
    return join_collectd(n);
}

/* One command, and its answer of a line. */
static void
tell_line(int fd, const char *command)
{
    char answer[256] = "";
    size_t size = 0;

    client_send(fd, command, strlen(command));
    while (!memchr(answer, '\n', size)) {
        const long n = client_try_read(fd, answer + size,
                                       sizeof answer - 1 - size, SOON_MS);

        assert_true(n > 0);
        size += (size_t)n;
    }
    if (answer[0] != '0')
        fail_msg("collectd: %s", answer);
}

CASE(peer_collectd_through_carbon_c_relay_counts_what_totals_grow_by, f)
{
    struct neighbour relay, collectd;
    int64_t got = 0;
    uint64_t until_ms;
    char own[64];
    int fd;

    if (!is_installed("/usr/sbin/collectd") ||
        !is_installed("/usr/bin/carbon-c-relay"))
        test_skip("collectd or carbon-c-relay is not installed");
    service_start(f);
    start_relay(f, &relay);
    fd = start_collectd(&collectd, relay.port);
    tell_line(fd, "PUTVAL h/interface-eth0/if_octets interval=1 "
                  "1700000001:1000:7 1700000002:1500:7 1700000003:1700:9\n");
    /* It was started again. */
    tell_line(fd, "PUTVAL h/interface-eth0/if_octets interval=1 "
                  "1700000004:50:1 1700000005:51:1\n");
    tell_line(fd, "PUTVAL h/load/load interval=1 1700000001:3:2:1\n");
    until_ms = clock_ms() + SOON_MS * test_slow();
    /* Its threads write when they come to it. */
    while (got != 751) {
        if (clock_ms() > until_ms || got > 751) {
            (void)FLEET_RUN(f, "export");
            fail_msg("%lld, not 751: %s", (long long)got, text);
        }
        tell_line(fd, "FLUSH\n");
        expect_text(FLEET_RUN(f, "flush"), 0, "");
        got = service_count(f, "stats_counts", "h.interface-eth0.if_octets.rx");
        got = got < 0 ? 0 : got;
    }
    /* Neither a load, which is not a total, nor both directions as one. */
    assert_int_equal(
        service_count(f, "stats_counts", "h.interface-eth0.if_octets.tx"), 3);
    assert_int_equal(service_total(f, "stats_counts"), 754);
    client_close(fd);
    fini_neighbour(&collectd);
    fini_neighbour(&relay);
    (void)snprintf(own, sizeof own, "/tmp/.s.carbon-c-relay.%u", relay.port);
    (void)unlink(own); /* it leaves that */
}

/* ---- dashboards of StatsD ------------------------------------------------ */

CASE(dashboards_find_what_statsd_names_stats_counts, f)
{
    char command[256];

    service_start(f);
    (void)snprintf(command, sizeof command,
                   "bash -c 'printf \"web.hits:5|c\" >/dev/udp/127.0.0.1/%u'",
                   fleet_writer_port(f, "statsd"));
    assert_int_equal(run_shell(0, command), 0);
    await_count(f, "stats_counts", "web.hits", 5);
    answer_shell(f, "curl -sSfg \"$U/metrics/find?query=stats_counts.web.*\"");
    assert_has(text, "hits");
    answer_shell(f, "curl -sSfg \"$U/render?target=stats_counts.web.hits&"
                    "from=-5min&format=json\"");
    assert_has(text, "\"target\":\"stats_counts.web.hits\"");
    assert_has(text, "[5,");
}
