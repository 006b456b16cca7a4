/* reader/request_hash.h - a number by which a request is known again, when a
 * job for it is done: requests of the same target, body and `form`, which is
 * what else of the head decides the answer, have the same answer. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_REQUEST_HASH_H
#define COUNTD_READER_REQUEST_HASH_H

#include "common/base/hash.h"
#include "common/net/http.h"

static inline uint64_t
request_hash(const struct hash_key *key, const struct http_call *x,
             unsigned form)
{
    const struct http_text target = x->request->target;
    uint64_t hash = hash_bytes_wide(key, target.at, target.size).low + form;

    if (x->body.size > 0)
        hash = hash * 31 + hash_bytes_wide(key, x->body.at, x->body.size).low;
    return hash;
}

#endif
