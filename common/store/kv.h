/* common/store/kv.h - where a tree and history are kept: keys in byte order
 * (the shorter first), each with a value.
 *
 * An engine gives it for one transaction or snapshot.  What an item points to
 * stays as it is until the next put or del, which must not be given it.
 * Errors: 0 or a negative errno; -EBADMSG is damage; -EXFULL: make room, and
 * start again. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_KV_H
#define COUNTD_COMMON_STORE_KV_H

#include <stddef.h>
#include <stdint.h>

#define KV_KEY_MAX   280
#define KV_VALUE_MAX 4080 /* a page of LMDB's, with its head */

struct kv_item {
    const uint8_t *key, *value;
    size_t key_size, size;
};

struct kv {
    /* The first entry with this key or a later one, the last one with this key
     * or an earlier one: 1, or 0 when there is none. */
    int (*after)(void *ctx, const uint8_t *key, size_t size,
                 struct kv_item *out);
    int (*before)(void *ctx, const uint8_t *key, size_t size,
                  struct kv_item *out);

    /* Puts a value of at most KV_VALUE_MAX bytes, in place of the one there. */
    int (*put)(void *ctx, const uint8_t *key, size_t size, const uint8_t *value,
               size_t value_size);

    /* Removes one that must be there. */
    int (*del)(void *ctx, const uint8_t *key, size_t size);
    void *ctx;
    size_t value_size; /* best size of a long value, at most; 0: the largest */
};

#endif
