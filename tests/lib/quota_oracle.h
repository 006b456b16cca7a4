/* tests/lib/quota_oracle.h - clients of a quota that note what they were
 * answered, and what a journal must have for it: each answer under its
 * number, nothing that was refused, nothing twice, and remaining what
 * was not applied.
 *
 * Some requests have a key and are sent again until they are answered; others
 * are given up when their connection ends.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_QUOTA_ORACLE_H
#define COUNTD_TESTS_LIB_QUOTA_ORACLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/random.h"

#define TILL_LIMIT  INT64_C(1000000000000)
#define TILL_PEERS  4
#define TILL_WINDOW 8
#define TILL_ASKS   100000u

/* A request.  Each application has an amount of its own, by which it is known
 * again. */
struct quota_oracle_ask {
    bool cancels;
    bool keyed; /* sent again until it is answered */
    bool answered, refused;
    bool taken; /* an application that a request cancels */
    uint64_t target;
    int64_t amount;
    uint64_t number;
    int64_t remaining;
    uint64_t acked; /* the moment */
};

struct quota_oracle_peer {
    int fd;
    uint32_t waiting[TILL_WINDOW]; /* asks on their way, oldest first */
    size_t count;
    uint32_t again[TILL_WINDOW]; /* keyed ones of a broken connection */
    size_t again_count;
    char heard[65536];
    size_t size;
};

struct quota_oracle {
    struct random random;
    _Atomic uint64_t *moments;
    struct quota_oracle_ask *asks;
    uint32_t count;
    uint64_t answered, refused;
    struct quota_oracle_peer peers[TILL_PEERS];
    uint16_t port;
};

/* `moments` is drawn from with each answer. */
void quota_oracle_init(struct quota_oracle *t, uint64_t seed,
                       _Atomic uint64_t *moments);

/* Asks on `port` for a while. */
void quota_oracle_ask_for(struct quota_oracle *t, uint64_t ms);

/* Hears what has come; `asks`: and asks for more. */
void quota_oracle_turn(struct quota_oracle *t, bool asks);

/* Whether an answer is on its way, as far as is known. */
bool quota_oracle_waits(const struct quota_oracle *t);

/* All connections end. */
void quota_oracle_break(struct quota_oracle *t);

/* Asks again what has a key, and hears all answers. */
void quota_oracle_settle(struct quota_oracle *t);

/* Whether a data directory, opened as a start does, has what was answered until
 * the moment `cut`; if not, why. */
bool quota_oracle_is_kept(const struct quota_oracle *t, const char *data,
                          uint64_t cut, char *why, size_t size);

#endif
