/* tests/unit/test_networks.c - prefixes of IPv4 and IPv6. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/net/networks.h"

static bool
contains(const char *networks, const char *address)
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
            assert_true(contains(cases[i].networks, cases[i].in));
        if (cases[i].out)
            assert_false(contains(cases[i].networks, cases[i].out));
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
