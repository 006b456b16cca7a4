/* common/net/networks.c - see networks.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/networks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "common/base/hash.h"

#define BLANKS    " \t"
#define MAPPED_AT 12 /* bytes of ::ffff:0:0 in front of an IPv4 address */

static void
map_v4(const struct in_addr *v4, uint8_t bytes[16])
{
    memset(bytes, 0, 16);
    memset(bytes + MAPPED_AT - 2, 0xff, 2);
    memcpy(bytes + MAPPED_AT, v4, sizeof *v4);
}

/* Whether the first `bits` bits are equal. */
static bool
is_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    const unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 &&
           (rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0);
}

static int
parse_network(char *text, struct network *out)
{
    char *slash = strchr(text, '/');
    struct in_addr v4;
    bool is_v4;
    int bits;

    if (slash)
        *slash = '\0';
    is_v4 = inet_pton(AF_INET, text, &v4) == 1;
    bits = is_v4 ? 32 : 128;
    if (is_v4)
        map_v4(&v4, out->bytes);
    else if (inet_pton(AF_INET6, text, out->bytes) != 1)
        return -EINVAL;
    bits = slash ? net_parse_number(slash + 1, bits) : bits;
    if (bits < 0)
        return bits;
    out->bits = (uint8_t)(bits + (is_v4 ? 8 * MAPPED_AT : 0));
    /* The address of a machine in place of its network is a slip: refuse it
     * rather than guess how wide it was meant. */
    for (size_t bit = out->bits; bit < 8 * sizeof out->bytes; bit++)
        if ((out->bytes[bit / 8] >> (7 - bit % 8) & 1) != 0)
            return -ERANGE;
    return 0;
}

int
networks_parse(const char *text, struct networks *out, const char **wrong,
               size_t *size)
{
    char one[INET6_ADDRSTRLEN + 8];
    struct networks n = {.count = 0};
    int rc;

    for (;;) {
        text += strspn(text, BLANKS);
        *wrong = text;
        *size = strcspn(text, BLANKS);
        if (*size == 0)
            break;
        if (n.count == NETWORKS_MAX)
            return -E2BIG;
        if (*size >= sizeof one)
            return -EINVAL;
        memcpy(one, text, *size);
        one[*size] = '\0';
        rc = parse_network(one, &n.list[n.count++]);
        if (rc < 0)
            return rc;
        text += *size;
    }
    *out = n;
    return 0;
}

/* False: it is of no network. */
static bool
read_address(const struct net_address *a, uint8_t bytes[16])
{
    if (a->sa.ss_family == AF_INET6)
        memcpy(bytes, &a->v6.sin6_addr, 16);
    else if (a->sa.ss_family == AF_INET)
        map_v4(&a->v4.sin_addr, bytes);
    else
        return false;
    return true;
}

bool
networks_contain(const struct networks *n, const struct net_address *a)
{
    uint8_t bytes[16];

    if (!read_address(a, bytes))
        return false;
    for (size_t i = 0; i < n->count; i++)
        if (is_prefix(n->list[i].bytes, bytes, n->list[i].bits))
            return true;
    return false;
}

uint16_t
networks_client(const struct net_address *a)
{
    static const uint8_t mapped[MAPPED_AT] = {[10] = 0xff, 0xff};
    static const struct hash_key any_key = {.k0 = 0};
    uint8_t bytes[16];
    size_t size = sizeof bytes;

    if (!read_address(a, bytes))
        return 0;
    if (memcmp(bytes, mapped, sizeof mapped) != 0)
        size /= 2;
    return (uint16_t)(hash_name(&any_key, 0, bytes, size) % NETWORKS_CLIENTS);
}
