/* tests/e2e/test_sequence_http.c - the built countd-write answers sequence
 * requests as its ancestor did, byte for byte. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/lib/client.h"
#include "tests/lib/numbers.h"

#define KEPT "Connection: keep-alive\r\n"
#define NONE                                                                   \
    "HTTP/1.1 404 Not Found\r\n" KEPT "Content-length: 9\r\n\r\nNot Found"
#define BAD                                                                    \
    "HTTP/1.1 400 Bad Request\r\n" KEPT "Content-length: 11\r\n\r\nBad "       \
    "Request"
#define EXAMPLE                                                                \
    "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 86\r\n\r\n"                    \
    "reserve: 2  server_no: 1  secondstamp: 1492962986 "                       \
    "(2017-04-23 23:56:26)  serial_no: 2\n"

#define NOT_KNOWN                                                              \
    "the Host example.com is not known here; if it is this server's, add it "  \
    "to http.hosts"

/* Local time is eight hours east. */
static const char *const env[] = {"TZ=CST-8", NULL};

/* Recorded exchanges, but those of /fetch?n=; the answers' surplus bytes are left
 * out. */
static const struct {
    const char *line, *answer;
} exchanges[] = {
    {"GET /explain?sequence=aR2011o_cWG00002", EXAMPLE},
    {"GET /explain?sequence=aR2011o_cWG00002XYZ", EXAMPLE},
    {"GET /explain?sequence=aR2011o_cWG00002&x=1", EXAMPLE},
    {"GET /explain?sequence=aR2011o_cWG00002#frag", EXAMPLE},
    {"GET /explain?sequence=aR2001pe_LT00004",
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 86\r\n\r\n"
     "reserve: 2  server_no: 0  secondstamp: 1497103351 "
     "(2017-06-10 22:02:31)  serial_no: 4\n"},
    {"GET /explain?sequence=aR______________",
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 100\r\n\r\n"
     "reserve: 63  server_no: 4095  secondstamp: 68719476735 "
     "(4147-08-20 15:32:15)  serial_no: 1073741823\n"},
    {"GET /explain?sequence=aR00000000000000",
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 77\r\n\r\n"
     "reserve: 0  server_no: 0  secondstamp: 0 (1970-01-01 08:00:00)  "
     "serial_no: 0\n"},
    {"GET /explain?sequence=00",
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 77\r\n\r\n"
     "reserve: 0  server_no: 0  secondstamp: 0 (1970-01-01 08:00:00)  "
     "serial_no: 0\n"},
    {"GET /explain?sequence=9b______",
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 85\r\n\r\n"
     "reserve: 63  server_no: 63  secondstamp: 63 (1970-01-01 08:01:03)  "
     "serial_no: 262143\n"},
    {"GET /explain?sequence=aR_____________", BAD},
    {"GET /explain?sequence=aR2011o_cWG0000+", BAD},
    {"GET /explain?sequence=!R2011o_cWG00002", BAD},
    {"GET /explain?sequence=aR2011o%5FcWG00002", BAD},
    {"GET /explain?sequence=aR2011o.cWG00002", BAD},
    {"GET /explain?sequence=", BAD},
    {"GET /fetch?n=0", BAD},
    {"GET /fetch?n=4097", BAD},
    {"GET /fetch?n=", BAD},
    {"GET /fetch?n=-1", BAD},
    {"GET /fetch?n=1x", BAD},
    {"GET /fetch?n=99999999999999999999", BAD},
    {"GET /", NONE},
    {"GET /fetch/", NONE},
    {"GET /fetchx", NONE},
    {"GET /Fetch", NONE},
    {"GET /fetch?x=1", NONE},
    {"GET /explain", NONE},
    {"GET /explain?", NONE},
    {"GET /explain?seq=aR2011o_cWG00002", NONE},
    {"GET /explain?x=1&sequence=aR2011o_cWG00002", NONE},
    {"GET /query", NONE},
    {"GET http://127.0.0.1/fetch", NONE},
    {"HEAD /fetch", "HTTP/1.1 405 Method Not Allowed\r\n" KEPT
                    "Allow: GET, POST\r\nContent-length: 18\r\n\r\n"},
    {"OPTIONS /fetch",
     "HTTP/1.1 200 OK\r\n" KEPT
     "Allow: GET, POST, OPTIONS\r\nContent-length: 0\r\n\r\n"},
    {"HEAD /explain?sequence=aR2011o_cWG00002",
     "HTTP/1.1 200 OK\r\n" KEPT "Content-length: 86\r\n\r\n"},
};

#define CASE(name, f)                                                          \
    TEST_IN(name, struct fleet *f, numbers_setup, service_teardown)

/* The serial of the number that is answered next. */
static uint64_t
take_serial(int fd)
{
    struct sequence_parts n;
    char line[NUMBERS_LINE];

    assert_true(numbers_take(fd, line, &n));
    return n.serial;
}

/* On a connection of its own, which ends then. */
static void
expect_last(struct fleet *f, const char *request, const char *answer)
{
    const int fd = fleet_http(f);

    client_say(fd, request);
    client_hear(fd, answer);
    client_expect_end(fd);
    client_close(fd);
}

CASE(answers_are_those_that_were_recorded, f)
{
    char text[256];
    int fd;

    f->env = env;
    fleet_start(f, FLEET_WRITE);
    fd = fleet_http(f);
    for (size_t i = 0; i < sizeof exchanges / sizeof exchanges[0]; i++) {
        (void)snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: x\r\n\r\n",
                       exchanges[i].line);
        client_say(fd, text);
        client_hear(fd, exchanges[i].answer);
    }
    client_close(fd);
    fleet_stop(f, FLEET_WRITE);
}

/* All other ports are off. */
CASE(the_first_number_has_serial_1_and_the_next_goes_on, f)
{
    struct sequence_parts n;
    char line[NUMBERS_LINE];
    int fd;

    fleet_start_with(f, FLEET_WRITE, "sequence.reserve=63",
                     "sequence.server_no=4095", "write.ack_listen=");
    fd = fleet_http(f);
    for (uint64_t serial = 1; serial <= 3; serial++) {
        numbers_ask(fd);
        assert_true(numbers_take(fd, line, &n));
        assert_memory_equal(line, "aR___", 5);
        assert_int_equal(n.serial, serial);
    }
    client_close(fd);
    fleet_stop(f, FLEET_WRITE);
}

CASE(a_web_page_takes_no_number, f)
{
    int fd;

    fleet_start_with(f, FLEET_WRITE, "http.hosts=seq.example.org");
    expect_last(f, "GET /fetch HTTP/1.1\r\nHost: example.com:9527\r\n\r\n",
                "HTTP/1.1 403 Forbidden\r\nContent-length: 95\r\n\r\n"
                "Forbidden: " NOT_KNOWN);
    assert_has(daemon_text(fleet_daemon(f, FLEET_WRITE)), NOT_KNOWN);
    expect_last(f,
                "POST /fetch HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                "Origin: http://example.com\r\n\r\n",
                "HTTP/1.1 403 Forbidden\r\nContent-length: 9\r\n\r\n"
                "Forbidden");
    fd = fleet_http(f);
    client_say(fd, "POST /fetch HTTP/1.1\r\nHost: seq.example.org\r\n\r\n");
    assert_int_equal(take_serial(fd), 1);
    client_close(fd);
    fleet_stop(f, FLEET_WRITE);
}

/* ---- methods ------------------------------------------------------------ */

/* An address of this machine that is not loopback.  False: it has none. */
static bool
find_own_address(struct sockaddr_in *found)
{
    struct ifaddrs *all;
    bool is_found = false;

    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *i = all; i && !is_found; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
            (i->ifa_flags & IFF_LOOPBACK) != 0 || (i->ifa_flags & IFF_UP) == 0)
            continue;
        memcpy(found, i->ifa_addr, sizeof *found);
        is_found = true;
    }
    freeifaddrs(all);
    return is_found;
}

static int
connect_to(const struct sockaddr_in *address, uint16_t port)
{
    struct sockaddr_in a = *address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_port = htons(port);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

#define NOT_BY_GET                                                             \
    "HTTP/1.1 405 Method Not Allowed\r\n" KEPT                                 \
    "Allow: POST\r\nContent-length: 124\r\n\r\n"                               \
    "Method Not Allowed: at an address or Host that is not loopback a GET "    \
    "changes nothing; use POST, or set http.get_changes = on"

/* A browser says to loopback addresses alone that a page made a GET. */
CASE(at_other_addresses_than_loopback_only_a_post_takes_a_number, f)
{
    struct sockaddr_in address;
    int fd;

    if (!find_own_address(&address))
        test_skip("no address but loopback");
    f->env = env;
    fleet_start_with(f, FLEET_WRITE, "http.listen=0.0.0.0:0",
                     "http.allow=0.0.0.0/0");
    fd = connect_to(&address, fleet_writer_port(f, "http"));
    numbers_ask(fd);
    client_hear(fd, NOT_BY_GET);
    client_say(fd, "GET /explain?sequence=aR2011o_cWG00002 HTTP/1.1\r\n\r\n");
    client_hear(fd, EXAMPLE);
    client_say(fd, "POST /fetch HTTP/1.1\r\n\r\n");
    assert_int_equal(take_serial(fd), 1);
    client_close(fd);
    fd = fleet_http(f);
    numbers_ask(fd);
    assert_int_equal(take_serial(fd), 2);
    client_close(fd);
    fleet_stop(f, FLEET_WRITE);

    fleet_start_with(f, FLEET_WRITE, "http.get_changes=on");
    fd = connect_to(&address, fleet_writer_port(f, "http"));
    numbers_ask(fd);
    assert_int_equal(take_serial(fd), 1);
    client_close(fd);
    fleet_stop(f, FLEET_WRITE);
}

/* 0.0.0.0 and a name that a proxy passes on lead to a loopback address, too,
 * but a browser that goes there says nothing of the page.  The recordings of
 * coconut say `Host: x`. */
CASE(at_a_loopback_address_a_get_needs_a_loopback_host, f)
{
    static const struct {
        const char *host;
        bool taken;
    } cases[] = {{"127.0.0.1", true},
                 {"127.1.2.3:9527", true},
                 {"LocalHost:9527", true},
                 {"[::1]:9527", true},
                 {"0.0.0.0:9527", false},
                 {"0:9527", false},
                 {"10.0.0.1", false},
                 {"[::]:9527", false},
                 {"x", true},
                 {"db1:9527", true},
                 {"127.:9527", false},
                 {"127.evil", false},
                 {"seq.example.org", false},
                 {"2130706433", false},
                 {"localhost.evil", false}};
    char request[256];
    unsigned taken = 0;
    int fd;

    f->env = env;
    fleet_start_with(f, FLEET_WRITE,
                     "http.hosts=seq.example.org 127.evil localhost.evil");
    fd = fleet_http(f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(request, sizeof request,
                       "GET /fetch HTTP/1.1\r\nHost: %s\r\n\r\n",
                       cases[i].host);
        client_say(fd, request);
        if (cases[i].taken)
            assert_int_equal(take_serial(fd), ++taken);
        else
            client_hear(fd, NOT_BY_GET);
    }
    client_close(fd);
    fleet_stop(f, FLEET_WRITE);
}

/* ---- starting ----------------------------------------------------------- */

CASE(without_a_setting_there_is_no_http_port, f)
{
    struct daemon *writer = fleet_daemon(f, FLEET_WRITE);

    daemon_start(writer, "countd-write", "-d", f->path, "-o", "log.size=64K",
                 "-o", "write.listen=", "-o", "write.ack_listen=127.0.0.1:0",
                 "-o", "counter.enable=false");
    for (size_t i = 0; i < writer->port_count; i++)
        assert_string_not_equal(writer->ports[i].name, "http");
    fleet_stop(f, FLEET_WRITE);
}
