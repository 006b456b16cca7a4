/* tests/lib/model.c - see model.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define NEW_KEYSPACE 150 /* messages until there is one more */
#define SHARED_KEYS  8   /* of each keyspace */
#define BITS         62  /* increments of a private key: their sum fits */

static uint32_t
add_key(struct model *m, unsigned keyspace, bool private, uint32_t number)
{
    if (m->key_count == m->key_capacity) {
        m->key_capacity = m->key_capacity ? 2 * m->key_capacity : 256;
        m->keys =
            test_memory(realloc(m->keys, m->key_capacity * sizeof *m->keys));
    }
    m->keys[m->key_count] = (struct model_key){
        .keyspace = (uint16_t)keyspace, .private = private, .number = number};
    return m->key_count++;
}

void
model_init(struct model *m, uint64_t seed, unsigned keyspaces)
{
    memset(m, 0, sizeof *m);
    m->random.state = seed;
    m->keyspaces = keyspaces;
    m->current = test_memory(calloc(keyspaces, sizeof *m->current));
    m->bit = test_memory(calloc(keyspaces, sizeof *m->bit));
    for (unsigned k = 0; k < keyspaces; k++)
        for (unsigned i = 0; i < SHARED_KEYS; i++)
            (void)add_key(m, k, false, i); /* found by its place */
    m->shared_count = m->key_count;
    for (unsigned k = 0; k < keyspaces; k++)
        m->current[k] = add_key(m, k, true, m->key_count);
}

void
model_fini(struct model *m)
{
    free(m->keys);
    free(m->messages);
    free(m->current);
    free(m->bit);
    memset(m, 0, sizeof *m);
}

size_t
model_next(struct model *m)
{
    unsigned known = 1 + (unsigned)(m->count / NEW_KEYSPACE), k;
    struct model_message message = {0};

    known = known < m->keyspaces ? known : m->keyspaces;
    k = (unsigned)random_below(&m->random, known);
    if (m->count == m->capacity) {
        m->capacity = m->capacity ? 2 * m->capacity : 4096;
        m->messages = test_memory(
            realloc(m->messages, m->capacity * sizeof *m->messages));
    }
    if (random_chance(&m->random, 50)) {
        if (m->bit[k] == BITS) {
            m->current[k] = add_key(m, k, true, m->key_count);
            m->bit[k] = 0;
        }
        message.key = m->current[k];
        message.increment = (int64_t)1 << m->bit[k]++;
    } else {
        message.key =
            k * SHARED_KEYS + (uint32_t)random_below(&m->random, SHARED_KEYS);
        message.increment = (int64_t)random_below(&m->random, 2001) - 700;
    }
    m->messages[m->count] = message;
    return m->count++;
}

void
model_names(const struct model *m, size_t message,
            char keyspace[MODEL_NAME_SIZE], char key[MODEL_NAME_SIZE])
{
    const struct model_key *k = &m->keys[m->messages[message].key];

    (void)snprintf(keyspace, MODEL_NAME_SIZE, "ks%u", k->keyspace);
    (void)snprintf(key, MODEL_NAME_SIZE, "%c%u", k->private ? 'p' : 's',
                   k->number);
}

void
model_look(struct model *m)
{
    for (uint32_t i = 0; i < m->key_count; i++) {
        m->keys[i].found = false;
        m->keys[i].final = 0;
    }
}

static struct model_key *
find_key(struct model *m, const char *keyspace, const char *key)
{
    unsigned ks, number;
    char kind, rest;
    uint32_t i;

    if (sscanf(keyspace, "ks%u%c", &ks, &rest) != 1 ||
        sscanf(key, "%c%u%c", &kind, &number, &rest) != 2 || ks >= m->keyspaces)
        return NULL;
    if (kind == 's')
        return number < SHARED_KEYS ? &m->keys[ks * SHARED_KEYS + number]
                                    : NULL;
    i = number;
    if (kind != 'p' || i < m->shared_count || i >= m->key_count ||
        m->keys[i].keyspace != ks)
        return NULL;
    return &m->keys[i];
}

void
model_found(struct model *m, const char *keyspace, const char *key,
            int64_t count)
{
    struct model_key *k = find_key(m, keyspace, key);

    if (!k)
        fail_msg("an invented key: %s %s = %lld", keyspace, key,
                 (long long)count);
    if (k->found)
        fail_msg("a key that is there twice: %s %s", keyspace, key);
    k->found = true;
    k->final = count;
}

static void
add_up(struct model *m, uint64_t moment)
{
    for (uint32_t i = 0; i < m->key_count; i++) {
        struct model_key *k = &m->keys[i];

        k->acked = k->doubt_plus = k->doubt_minus = 0;
        k->sent_bits = k->acked_bits = 0;
        k->sent = false;
    }
    for (size_t n = 0; n < m->count; n++) {
        const struct model_message *x = &m->messages[n];
        struct model_key *k = &m->keys[x->key];

        if (x->sent == 0 || x->sent > moment)
            continue;
        k->sent = k->sent || x->increment != 0;
        k->sent_bits |= (uint64_t)x->increment;
        if (x->acked != 0 && x->acked <= moment) {
            k->acked += x->increment;
            k->acked_bits |= (uint64_t)x->increment;
        } else if (x->increment > 0)
            k->doubt_plus += x->increment;
        else
            k->doubt_minus += x->increment;
    }
}

static bool
is_right(const struct model_key *k)
{
    uint64_t bits = (uint64_t)k->final;

    if (k->found && !k->sent)
        return false;
    if (k->final < k->acked + k->doubt_minus ||
        k->final > k->acked + k->doubt_plus)
        return false;
    return !k->private ||
           ((k->acked_bits & ~bits) == 0 && (bits & ~k->sent_bits) == 0);
}

unsigned
model_verdict(struct model *m, uint64_t moment, char *why, size_t size)
{
    unsigned violations = 0;

    add_up(m, moment);
    why[0] = '\0';
    for (uint32_t i = 0; i < m->key_count; i++) {
        const struct model_key *k = &m->keys[i];

        if (is_right(k))
            continue;
        if (violations++ > 0)
            continue;
        (void)snprintf(
            why, size,
            "ks%u %c%u is %lld%s: acknowledged %lld, in doubt %lld to %lld",
            k->keyspace, k->private ? 'p' : 's', k->number, (long long)k->final,
            k->found ? "" : " (absent)", (long long)k->acked,
            (long long)k->doubt_minus,
            (long long)k->doubt_plus); /* may be cut: for people */
    }
    return violations;
}

size_t
model_acked(const struct model *m, uint64_t moment)
{
    size_t count = 0;

    for (size_t n = 0; n < m->count; n++)
        count += m->messages[n].acked != 0 && m->messages[n].acked <= moment;
    return count;
}
