/* common/net/net_address.c - addresses as text, and host names; see net.h.
 *
 * net_parse() and net_check() look nothing up; net_resolve() does;
 * net_format() is the reverse; net_parse_number() is for networks, too. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/net/net.h"
#include "common/wire/increment_line.h"

#define LABEL_MAX 63 /* between dots */

int
net_parse_number(const char *text, int max)
{
    int64_t value;

    if (*text < '0' || *text > '9' ||
        increment_number_parse(text, strlen(text), &value) < 0 || value > max)
        return -EINVAL;
    return (int)value;
}

static int
parse_host(sa_family_t family, const char *host, in_port_t port,
           struct net_address *out)
{
    const bool is_v6 = family == AF_INET6;
    struct net_address a = {.sa = {.ss_family = family},
                            .size = is_v6 ? sizeof a.v6 : sizeof a.v4};

    a.v4.sin_port = port; /* at the same place in both */
    if (inet_pton(family, host,
                  is_v6 ? (void *)&a.v6.sin6_addr : &a.v4.sin_addr) != 1)
        return -EINVAL;
    *out = a;
    return 0;
}

/* Cuts "host:port" at the last colon. */
static int
split_port(const char *text, char host[NET_HOST_SIZE], in_port_t *port)
{
    const char *colon = strrchr(text, ':');
    const int number = colon ? net_parse_number(colon + 1, 65535) : -EINVAL;
    size_t size;

    if (number < 0)
        return number;
    *port = htons((uint16_t)number);
    size = (size_t)(colon - text);
    if (size == 0 || size >= NET_HOST_SIZE)
        return -EINVAL;
    memcpy(host, text, size);
    host[size] = '\0';
    return 0;
}

int
net_parse(const char *text, struct net_address *out)
{
    char host[NET_HOST_SIZE];
    in_port_t port;
    size_t size;

    if (split_port(text, host, &port) < 0)
        return -EINVAL;
    if (strcmp(host, "localhost") == 0)
        return parse_host(AF_INET, "127.0.0.1", port, out);
    if (host[0] != '[')
        return parse_host(AF_INET, host, port, out);
    size = strlen(host);
    if (host[size - 1] != ']')
        return -EINVAL;
    host[size - 1] = '\0';
    return parse_host(AF_INET6, host + 1, port, out);
}

/* Letters, digits, - and _ between dots.  The last label must not be a
 * number: getaddrinfo() reads 127.0.1 as 127.0.0.1, and 1 as 0.0.0.1. */
static bool
is_name(const char *host)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const char *last = host;
    size_t size;

    for (;;) {
        size = strspn(last, letters);
        if (size == 0 || size > LABEL_MAX || last[0] == '-')
            return false;
        /* A dot at the end says that the name is whole. */
        if (last[size] == '\0' || strcmp(last + size, ".") == 0)
            break;
        if (last[size] != '.')
            return false;
        last += size + 1;
    }
    return strspn(last, "0123456789") != size &&
           strncasecmp(last, "0x", 2) != 0;
}

int
net_check(const char *text)
{
    struct net_address address;
    char host[NET_HOST_SIZE];
    in_port_t port;

    if (net_parse(text, &address) == 0)
        return 0;
    return split_port(text, host, &port) == 0 && is_name(host) ? 0 : -EINVAL;
}

/* What getaddrinfo() says, as an errno. */
static int
lookup_failed(int code)
{
    switch (code) {
    case EAI_AGAIN:
    case EAI_FAIL:
        return -EAGAIN;
    case EAI_MEMORY:
        return -ENOMEM;
    default:
        return -EADDRNOTAVAIL;
    }
}

static int
look_up_host(const char *host, in_port_t port, struct net_address *out,
             size_t max)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char digits[8];
    size_t count = 0;
    int rc;

    (void)snprintf(digits, sizeof digits, "%u", (unsigned)ntohs(port));
    rc = getaddrinfo(host, digits, &hints, &found);
    if (rc == EAI_SYSTEM)
        return -errno;
    if (rc != 0)
        return lookup_failed(rc);
    for (struct addrinfo *a = found; a && count < max; a = a->ai_next) {
        if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
            continue;
        memset(&out[count], 0, sizeof out[count]);
        memcpy(&out[count].sa, a->ai_addr, a->ai_addrlen);
        out[count++].size = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return count > 0 ? (int)count : -EADDRNOTAVAIL;
}

int
net_resolve(const char *text, struct net_address *out, size_t max)
{
    char host[NET_HOST_SIZE];
    in_port_t port;

    assert(max > 0);
    if (split_port(text, host, &port) < 0)
        return -EINVAL;
    /* Has to work where no name service does. */
    if (strcmp(host, "localhost") == 0 && max > 1 &&
        parse_host(AF_INET, "127.0.0.1", port, &out[0]) == 0 &&
        parse_host(AF_INET6, "::1", port, &out[1]) == 0)
        return 2;
    if (net_parse(text, out) == 0)
        return 1;
    if (!is_name(host))
        return -EINVAL;
    return look_up_host(host, port, out, max);
}

const char *
net_resolve_error(int rc)
{
    switch (rc) {
    case -EINVAL:
        return "is not an address, or a host name, and a port";
    case -EADDRNOTAVAIL:
        return "is a host name that no address is known for";
    case -EAGAIN:
        return "is a host name that cannot be looked up now";
    default:
        return "is a host name that could not be looked up";
    }
}

void
net_format(const struct net_address *a, char text[NET_ADDRESS_SIZE])
{
    const bool is_v6 = a->sa.ss_family == AF_INET6;
    char host[INET6_ADDRSTRLEN] = "?";

    /* inet_ntop cannot fail: the family is known and the buffer fits. */
    if (is_v6)
        (void)inet_ntop(AF_INET6, &a->v6.sin6_addr, host, sizeof host);
    else
        (void)inet_ntop(AF_INET, &a->v4.sin_addr, host, sizeof host);
    snprintf(text, NET_ADDRESS_SIZE, is_v6 ? "[%s]:%u" : "%s:%u", host,
             (unsigned)ntohs(is_v6 ? a->v6.sin6_port : a->v4.sin_port));
}

bool
net_is_loopback(const struct net_address *a)
{
    const struct in6_addr *v6 = &a->v6.sin6_addr;

    if (a->sa.ss_family != AF_INET6)
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_V4MAPPED(v6) ? v6->s6_addr[12] == 127
                                    : IN6_IS_ADDR_LOOPBACK(v6);
}
