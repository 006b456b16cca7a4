/* common/net/networks.h - a list of networks, and whether an address is in one.
 *
 *     10.0.0.0/8 192.0.2.7 fd00::/8
 *
 * An IPv4 address and the same one mapped into IPv6, as a socket that listens
 * for both shows it, are one address.
 *
 * Ownership: struct networks is plain data. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_NETWORKS_H
#define COUNTD_COMMON_NET_NETWORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/net.h"

#define NETWORKS_MAX 32

struct network {
    uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint8_t bits;      /* bits of the prefix, 0 to 128 */
};

struct networks {
    size_t count;
    struct network list[NETWORKS_MAX];
};

/* Reads networks with blanks between; an address alone is a network of one.
 * On failure *wrong is the first that cannot be read, *size its bytes.
 *   -EINVAL  it is not a network
 *   -ERANGE  it has bits set behind its prefix
 *   -E2BIG   it is one too many */
int networks_parse(const char *text, struct networks *out, const char **wrong,
                   size_t *size);

bool networks_contain(const struct networks *n, const struct net_address *a);

/* A number of the client that has the address, below NETWORKS_CLIENTS: all of
 * an IPv4 address, and the first 64 bits of an IPv6 one, since one client
 * chooses the others; 0 for a unix socket, whose clients are one.  Few clients
 * have the same number, which makes their bounds one. */
#define NETWORKS_CLIENTS 1024
uint16_t networks_client(const struct net_address *a);

#endif
