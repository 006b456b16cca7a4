/* common/store/cluster/cluster_key.c - see cluster_key.h. */
#include "common/store/cluster/cluster_key.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/hash.h"

struct cluster_part_keys
cluster_part_keys(const uint8_t *name, size_t name_size, uint32_t generation,
                  uint32_t part)
{
    /* The bytes of "countd keyspace.": the same for all senders and readers. */
    static const struct hash_key key = {0x6b2064746e756f63, 0x2e65636170737965};
    struct cluster_part_keys keys = {.slot = 0};
    int head;

    assert(name_size <= STORE_NAME_MAX);
    head =
        snprintf(keys.counts, sizeof keys.counts, "{%016" PRIx64 ".%x.%x}c:",
                 hash_bytes_wide(&key, name, name_size).low, generation, part);
    memcpy(keys.counts + head, name, name_size);
    keys.size = (size_t)head + name_size;
    memcpy(keys.order, keys.counts, keys.size);
    keys.order[head - 2] = 'z';
    keys.slot = cluster_slot(keys.counts, keys.size);
    return keys;
}

size_t
cluster_period_key(char out[CLUSTER_PERIOD_KEY_SIZE],
                   const struct cluster_part_keys *keys,
                   const struct cluster_period *period)
{
    const char *close = memchr(keys->counts, '}', keys->size);
    const size_t tag = (size_t)(close + 1 - keys->counts);
    const size_t name_size = keys->size - tag - 2;
    size_t size;

    memcpy(out, keys->counts, tag);
    size = tag + (size_t)snprintf(out + tag, CLUSTER_PERIOD_KEY_SIZE - tag,
                                  "h:%" PRIu32 ":%" PRIu32 ":%" PRIu32 ":",
                                  period->step, period->length, period->begin);
    memcpy(out + size, keys->counts + tag + 2, name_size);
    return size + name_size;
}

void
cluster_begin_lists(struct cluster_command *m, const char *words)
{
    cluster_begin(m, cluster_slot(CLUSTER_PARTS, strlen(CLUSTER_PARTS)), words);
}

void
cluster_begin_part(struct cluster_command *m,
                   const struct cluster_part_keys *keys, const char *words)
{
    cluster_begin(m, keys->slot, words);
    cluster_add_word(m, keys->counts, keys->size);
    cluster_add_word(m, keys->order, keys->size);
}

void
cluster_add_mark(struct cluster_command *m, uint64_t mark)
{
    uint8_t bytes[CLUSTER_MARK_SIZE];

    put_le64(bytes, mark);
    cluster_add_word(m, bytes, sizeof bytes);
}

bool
cluster_period_parse(const char *key, struct cluster_period *out)
{
    uint32_t numbers[3];
    const char *at = strstr(key, "}h:");

    if (at == NULL)
        return false;
    at += 3;
    for (unsigned i = 0; i < 3; i++) {
        char *end;

        numbers[i] = (uint32_t)strtoul(at, &end, 10);
        if (*end != ':')
            return false;
        at = end + 1;
    }
    *out = (struct cluster_period){numbers[0], numbers[1], numbers[2]};
    return true;
}
