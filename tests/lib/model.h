/* tests/lib/model.h - what was sent, what was acknowledged, and whether what
 * was counted can be right.
 *
 * The claim: every acknowledged increment is counted exactly once.  Per key
 *
 *     acked + doubt- <= final <= acked + doubt+
 *
 * where doubt is what was sent and not acknowledged, and each key that is
 * there was sent.  Half of the keys are private: each of their increments is its
 * own power of two, so the bits of the final value say which increments are
 * in it, and a value in range but made of the wrong ones is found too.
 *
 * Moments are numbers that only grow (one counter for senders and faults);
 * a verdict can be asked for as of any moment.
 *
 * Ownership: struct model is the caller's between init and fini.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_MODEL_H
#define COUNTD_TESTS_LIB_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/random.h"

#define MODEL_NAME_SIZE 32

struct model_key {
    uint16_t keyspace;
    bool private;
    uint32_t number;
    /* Filled by the verdict. */
    int64_t acked, doubt_plus, doubt_minus;
    uint64_t sent_bits, acked_bits;
    bool sent, found;
    int64_t final;
};

struct model_message {
    uint32_t key;
    int64_t increment;
    uint64_t sent;  /* moment; 0: not */
    uint64_t acked; /* moment; 0: not */
};

struct model {
    struct random random;
    unsigned keyspaces;
    struct model_key *keys;
    uint32_t key_count, key_capacity;
    uint32_t shared_count;
    struct model_message *messages;
    size_t count, capacity;
    uint32_t *current; /* private key of each keyspace, and its next bit */
    unsigned *bit;
};

void model_init(struct model *m, uint64_t seed, unsigned keyspaces);
void model_fini(struct model *m);

/* Makes up the next increment to send; its number.  Keyspaces come one after
 * the other, so that files are created all along. */
size_t model_next(struct model *m);

/* Its names, NUL-terminated. */
void model_names(const struct model *m, size_t message,
                 char keyspace[MODEL_NAME_SIZE], char key[MODEL_NAME_SIZE]);

/* Forgets what was found; then model_found() for each key there is, then
 * model_verdict(): 0, or the number of violations, the first of which is in
 * `why`. */
void model_look(struct model *m);
void model_found(struct model *m, const char *keyspace, const char *key,
                 int64_t count);
unsigned model_verdict(struct model *m, uint64_t moment, char *why,
                       size_t size);

/* Messages acknowledged at a moment; all of them for UINT64_MAX. */
size_t model_acked(const struct model *m, uint64_t moment);

#endif
