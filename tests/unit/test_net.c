/* tests/unit/test_net.c - addresses, listening, networks. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "common/net/networks.h"
#include "tests/lib/client.h"
#include "tests/lib/fault.h"

/* ---- addresses --------------------------------------------------------- */

TEST(addresses_are_read_and_written)
{
    static const struct {
        const char *text, *formatted;
        bool loopback;
    } good[] = {
        {"127.0.0.1:48879", "127.0.0.1:48879", true},
        {"127.8.9.10:0", "127.8.9.10:0", true},
        {"0.0.0.0:65535", "0.0.0.0:65535", false},
        {"192.0.2.1:1", "192.0.2.1:1", false},
        {"localhost:5", "127.0.0.1:5", true},
        {"[::1]:48879", "[::1]:48879", true},
        {"[::]:7", "[::]:7", false},
        {"[::ffff:127.0.0.1]:7", "[::ffff:127.0.0.1]:7", true},
        {"[::ffff:10.0.0.1]:7", "[::ffff:10.0.0.1]:7", false},
    };
    char text[NET_ADDRESS_SIZE];
    struct net_address a;
    size_t i;

    for (i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_rc(net_parse(good[i].text, &a), 0);
        net_format(&a, text);
        assert_string_equal(text, good[i].formatted);
        assert_int_equal(net_is_loopback(&a), good[i].loopback);
    }
}

TEST(what_is_no_address_is_refused)
{
    static const char *const bad[] = {
        "",
        ":",
        ":48879",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:100000",
        "127.0.0.1:99999999999999999999",
        "127.0.0.1:-1",
        "127.0.0.1:1x",
        "127.0.0.1: 1",
        "127.0.0:1",
        "256.0.0.1:1",
        "example.org:1",
        "::1:1",
        "[::1:1",
        "[::1]1",
        "[127.0.0.1]:1",
        "[]:1",
        "[:1",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1",
    };
    struct net_address a;
    size_t i;

    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (net_parse(bad[i], &a) != -EINVAL)
            fail_msg("\"%s\" was taken for an address", bad[i]);
}

/* ---- host names -------------------------------------------------------- */

/* What the C library would answer; it would ask the machine's name service.
 * These stand in for its functions in this program. */
static int lookup_code;
static unsigned lookups;
static char looked_up[NET_HOST_SIZE + 8];
static struct addrinfo answers[4];
static struct sockaddr_storage answer_sa[4];

int
getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
            struct addrinfo **out)
{
    lookups++;
    assert_int_equal(hints->ai_socktype, SOCK_STREAM);
    snprintf(looked_up, sizeof looked_up, "%s %s", host, port);
    if (lookup_code != 0) {
        errno = EMFILE; /* for EAI_SYSTEM */
        return lookup_code;
    }
    *out = answers;
    return 0;
}

void
freeaddrinfo(struct addrinfo *list)
{
    assert_ptr_equal(list, answers);
}

/* The answer has a socket address of an unknown family and those of `text`. */
static void
answer_with(const char *const *text, size_t count)
{
    struct net_address a;

    assert_true(count < 4);
    memset(answers, 0, sizeof answers);
    for (size_t i = 0; i <= count; i++) {
        answers[i].ai_family = AF_UNIX;
        if (i > 0) {
            assert_rc(net_parse(text[i - 1], &a), 0);
            memcpy(&answer_sa[i], &a.sa, sizeof a.sa);
            answers[i].ai_family = a.sa.ss_family;
            answers[i].ai_addrlen = a.size;
        }
        answers[i].ai_addr = (struct sockaddr *)&answer_sa[i];
        answers[i].ai_next = i < count ? &answers[i + 1] : NULL;
    }
}

TEST(a_host_name_is_looked_up_with_its_port)
{
    static const char *const two[] = {"192.0.2.7:48880", "[2001:db8::7]:48880"};
    struct net_address found[4];
    char text[NET_ADDRESS_SIZE];

    lookup_code = 0;
    lookups = 0;
    answer_with(two, 2);
    assert_rc(net_resolve("db1.example.org:48880", found, 4), 2);
    assert_string_equal(looked_up, "db1.example.org 48880");
    for (size_t i = 0; i < 2; i++) {
        net_format(&found[i], text);
        assert_string_equal(text, two[i]);
    }
    assert_rc(net_resolve("db1:48880", found, 1), 1);
    assert_int_equal(lookups, 2);
}

TEST(addresses_and_localhost_ask_no_name_service)
{
    struct net_address found[4];
    char text[NET_ADDRESS_SIZE];

    lookup_code = EAI_AGAIN;
    lookups = 0;
    assert_rc(net_resolve("127.0.0.1:1", found, 4), 1);
    assert_rc(net_resolve("[::1]:1", found, 4), 1);
    assert_rc(net_resolve("localhost:7", found, 1), 1);
    net_format(&found[0], text);
    assert_string_equal(text, "127.0.0.1:7");
    assert_rc(net_resolve("localhost:7", found, 4), 2);
    net_format(&found[1], text);
    assert_string_equal(text, "[::1]:7");
    assert_int_equal(lookups, 0);
}

TEST(a_name_that_is_not_found_says_whether_that_may_pass)
{
    static const struct {
        int code, rc;
    } codes[] = {
        {EAI_NONAME, -EADDRNOTAVAIL}, {EAI_AGAIN, -EAGAIN},
        {EAI_FAIL, -EAGAIN},          {EAI_MEMORY, -ENOMEM},
        {EAI_SYSTEM, -EMFILE},
    };
    struct net_address found[2];

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        lookup_code = codes[i].code;
        assert_rc(net_resolve("db1:1", found, 2), codes[i].rc);
        assert_has(net_resolve_error(codes[i].rc), "host name");
    }
    lookup_code = 0;
    answer_with(NULL, 0);
    assert_rc(net_resolve("db1:1", found, 2), -EADDRNOTAVAIL);
}

TEST(what_is_no_host_name_is_not_looked_up)
{
    static const char *const good[] = {"db1:1", "a.b-c.d_e.:1", "1st:1",
                                       "10.0.0.1.example:1", "x1:65535"};
    static const char *const bad[] = {
        "",
        "db1",
        "db1:",
        "db1:65536",
        ":1",
        ".:1",
        "a..b:1",
        "-a:1",
        "a b:1",
        "a/b:1",
        "127.0.1:1",
        "1:1",
        "0x7f:1",
        "a.0X1f:1",
        "10.0.0.256:1",
        "::1:1",
        "[db1]:1",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1"};
    struct net_address found[2];
    char longest[300];

    lookup_code = EAI_AGAIN;
    lookups = 0;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_rc(net_check(good[i]), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (net_check(bad[i]) != -EINVAL ||
            net_resolve(bad[i], found, 2) != -EINVAL)
            fail_msg("\"%s\" was taken for a host name", bad[i]);
    for (size_t i = 0; i < 256; i++)
        longest[i] = i % 2 ? '.' : 'a';
    snprintf(longest + 256, sizeof longest - 256, ":1");
    assert_rc(net_check(longest), -EINVAL);
    assert_int_equal(lookups, 0);
}

/* ---- sockets ----------------------------------------------------------- */

/* A client whose own port is the one it connects to meets itself. */
TEST(a_connection_to_itself_is_known)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct net_address self;

    assert_true(fd >= 0);
    assert_rc(net_parse("127.0.0.1:0", &self), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&self.sa, self.size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&self.sa, &self.size),
                     0);
    assert_int_equal(connect(fd, (struct sockaddr *)&self.sa, self.size), 0);
    assert_true(net_is_self(fd));
    client_close(fd);
}

TEST(a_connection_to_another_socket_is_not_to_itself)
{
    uint16_t port;
    const int listens = client_listen(&port), fd = client_connect(port);

    assert_false(net_is_self(fd));
    client_close(fd);
    client_close(listens);
}

TEST(every_failing_call_of_listen_is_reported_and_leaks_nothing)
{
    static const char *const calls[] = {"socket", "bind", "listen"};
    const unsigned fds = fault_open_fds();
    struct net_address any, bound;
    size_t i;

    assert_rc(net_parse("127.0.0.1:0", &any), 0);
    for (i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        fault_inject(calls[i], 1, EACCES);
        assert_rc(net_bind(&any, SOCK_STREAM, 0, &bound), -EACCES);
        assert_true(fault_hit());
        fault_clear();
        assert_int_equal(fault_open_fds(), fds);
    }
}

/* ---- networks ----------------------------------------------------------- */

static bool
contains_address(const char *networks, const char *address)
{
    const char *wrong;
    struct net_address a;
    struct networks n;
    char where[NET_ADDRESS_SIZE];
    size_t size;

    assert_rc(networks_parse(networks, &n, &wrong, &size), 0);
    snprintf(where, sizeof where, strchr(address, ':') ? "[%s]:1" : "%s:1",
             address);
    assert_rc(net_parse(where, &a), 0);
    return networks_contain(&n, &a);
}

static uint16_t
client_of(const char *where)
{
    struct net_address a;

    assert_rc(net_parse(where, &a), 0);
    return networks_client(&a);
}

TEST(a_client_is_an_address_or_a_network_of_64_bits)
{
    struct net_address local = {.local = {.sun_family = AF_UNIX}};

    assert_int_equal(client_of("192.0.2.7:1"), client_of("192.0.2.7:65535"));
    assert_int_equal(client_of("192.0.2.7:1"),
                     client_of("[::ffff:c000:207]:1"));
    assert_int_not_equal(client_of("192.0.2.7:1"), client_of("192.0.2.8:1"));
    assert_int_equal(client_of("[2001:db8::1]:1"),
                     client_of("[2001:db8::ffff:0:1]:1"));
    assert_int_not_equal(client_of("[2001:db8::1]:1"),
                         client_of("[2001:db8:0:1::1]:1"));
    assert_int_equal(networks_client(&local), 0);
}

TEST(an_address_is_in_the_networks_whose_prefix_it_has)
{
    static const struct {
        const char *networks, *in, *out;
    } cases[] = {
        {"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
        {"10.0.0.0/8", "10.0.0.0", "9.255.255.255"},
        {"192.0.2.128/25", "192.0.2.128", "192.0.2.127"},
        {"192.0.2.0/31", "192.0.2.1", "192.0.2.2"},
        {"192.0.2.7", "192.0.2.7", "192.0.2.6"},
        {"192.0.2.7/32", "192.0.2.7", "192.0.2.15"},
        {"0.0.0.0/0", "203.0.113.9", "2001:db8::1"},
        {"::/0", "203.0.113.9", NULL},
        {"fd00::/8", "fdff::1", "fe00::1"},
        {"2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"},
        {"::1", "::1", "::2"},
        {"10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"},
        {"::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"},
        {"10.0.0.0/8\t172.16.0.0/12   ", "172.31.9.9", "172.32.0.0"},
        {"", NULL, "127.0.0.1"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].in)
            assert_true(contains_address(cases[i].networks, cases[i].in));
        if (cases[i].out)
            assert_false(contains_address(cases[i].networks, cases[i].out));
    }
}

TEST(what_is_no_network_is_named)
{
    static const struct {
        const char *text, *wrong;
        int rc;
    } cases[] = {
        {"10.0.0.0/33", "10.0.0.0/33", -EINVAL},
        {"::1/129", "::1/129", -EINVAL},
        {"::1/1000", "::1/1000", -EINVAL},
        {"10.0.0.0/", "10.0.0.0/", -EINVAL},
        {"10.0.0.0/8x", "10.0.0.0/8x", -EINVAL},
        {"10.0.0.0/-1", "10.0.0.0/-1", -EINVAL},
        {"10.0.0/8", "10.0.0/8", -EINVAL},
        {"db1", "db1", -EINVAL},
        {"127.0.0.1:80", "127.0.0.1:80", -EINVAL},
        {"10.0.0.0/8,11.0.0.0/8", "10.0.0.0/8,11.0.0.0/8", -EINVAL},
        {" ::1  10.1.2.3/8 x", "10.1.2.3/8", -ERANGE},
        {"192.0.2.1/31", "192.0.2.1/31", -ERANGE},
        {"2001:db8::1/64", "2001:db8::1/64", -ERANGE},
    };
    struct networks n = {.count = 77};
    const char *wrong;
    char many[(NETWORKS_MAX + 1) * 4 + 1] = "";
    size_t size;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_rc(networks_parse(cases[i].text, &n, &wrong, &size),
                  cases[i].rc);
        assert_int_equal(size, strlen(cases[i].wrong));
        assert_memory_equal(wrong, cases[i].wrong, size);
    }
    assert_int_equal(n.count, 77);
    for (int i = 0; i < NETWORKS_MAX; i++)
        strcat(many, "::1 ");
    assert_rc(networks_parse(many, &n, &wrong, &size), 0);
    assert_int_equal(n.count, NETWORKS_MAX);
    strcat(many, "::1");
    assert_rc(networks_parse(many, &n, &wrong, &size), -E2BIG);
}
