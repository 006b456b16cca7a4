/* common/store/cluster/cluster_call.c - the commands of reads and of countd's
 * own care of parts: made in the handle's slots, run together, and their
 * replies; see cluster_store_internal.h. */
#include "common/store/cluster/cluster_store_internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/store/cluster/cluster_slot.h"

static size_t
begin_call(struct cluster_store *s, uint16_t slot)
{
    assert(s->count < CLUSTER_CALLS);
    s->commands[s->count] =
        (struct cluster_command){.slot = slot,
                                 .node = CLUSTER_NO_NODE,
                                 .argv = s->slots[s->count].argv,
                                 .sizes = s->slots[s->count].sizes,
                                 .words = CLUSTER_WORDS};
    return s->count++;
}

void
cluster_call_word(struct cluster_store *s, size_t call, const void *bytes,
                  size_t size)
{
    cluster_add_word(&s->commands[call], bytes, size);
}

void
cluster_call_number(struct cluster_store *s, size_t call, unsigned at,
                    int64_t number)
{
    char *text = s->slots[call].numbers[at];

    (void)snprintf(text, CLUSTER_NUMBER, "%" PRId64, number);
    cluster_call_word(s, call, text, strlen(text));
}

/* Begins a command about a part, with its keys. */
static size_t
begin_part(struct cluster_store *s, const uint8_t *name, size_t name_size,
           uint32_t generation, uint32_t part)
{
    const size_t call = begin_call(s, 0);
    struct cluster_part_keys *keys = &s->slots[call].keys;

    cluster_part_keys(keys, name, name_size, generation, part);
    s->commands[call].slot = keys->slot;
    return call;
}

size_t
cluster_call_begin(struct cluster_store *s, const char *function,
                   const uint8_t *name, size_t name_size, uint32_t generation,
                   uint32_t part)
{
    const size_t call = begin_part(s, name, name_size, generation, part);
    const struct cluster_part_keys *keys = &s->slots[call].keys;

    cluster_call_word(s, call, "FCALL_RO", 8);
    cluster_call_word(s, call, function, strlen(function));
    cluster_call_word(s, call, "2", 1);
    cluster_call_word(s, call, keys->counts, keys->size);
    cluster_call_word(s, call, keys->order, keys->size);
    return call;
}

void
cluster_call_order_keys(struct cluster_store *s, size_t call)
{
    struct cluster_part_keys *keys = &s->slots[call].keys;

    ((char *)memchr(keys->order, '}', keys->size))[1] = 'k';
}

void
cluster_call_change(struct cluster_store *s, size_t call)
{
    s->slots[call].argv[0] = "FCALL";
    s->slots[call].sizes[0] = 5;
}

size_t
cluster_call_counts(struct cluster_store *s, const char *verb,
                    const uint8_t *name, size_t name_size, uint32_t generation,
                    uint32_t part)
{
    const size_t call = begin_part(s, name, name_size, generation, part);
    const struct cluster_part_keys *keys = &s->slots[call].keys;

    cluster_call_word(s, call, verb, strlen(verb));
    cluster_call_word(s, call, keys->counts, keys->size);
    return call;
}

size_t
cluster_call_period(struct cluster_store *s, const char *verb,
                    const uint8_t *name, size_t name_size, uint32_t generation,
                    uint32_t part, const struct cluster_period *period)
{
    const size_t call =
        cluster_call_counts(s, verb, name, name_size, generation, part);
    struct cluster_call_slot *slot = &s->slots[call];

    slot->argv[1] = slot->period;
    slot->sizes[1] = cluster_period_key(slot->period, &slot->keys, period);
    return call;
}

size_t
cluster_call_plain(struct cluster_store *s, const char *verb, const char *key)
{
    const size_t call = begin_call(s, cluster_slot(key, strlen(key)));

    cluster_call_word(s, call, verb, strlen(verb));
    cluster_call_word(s, call, key, strlen(key));
    return call;
}

void
cluster_call_run(struct cluster_store *s)
{
    cluster_run(s->cluster, s->commands, s->count);
}

void
cluster_call_end(struct cluster_store *s)
{
    cluster_free_replies(s->commands, s->count);
    s->count = 0;
}

int
cluster_read_error(int error)
{
    switch (error) {
    case -EBADMSG:
        return -EBADMSG;
    case -EHOSTDOWN:
    case -ETIMEDOUT:
    case -EIO: /* the connection broke */
    case -EAGAIN:
        return -EHOSTDOWN;
    default:
        return -EIO;
    }
}

const redisReply *
cluster_call_reply(struct cluster_store *s, size_t call, size_t elements,
                   int *error)
{
    static struct diag_repeat repeat;
    const redisReply *reply = s->commands[call].reply;

    *error = s->commands[call].error;
    if (*error == 0 &&
        (reply->type != REDIS_REPLY_ARRAY || reply->elements < elements))
        *error = -EBADMSG;
    if (*error == 0)
        return reply;
    if (*error == -ESTALE)
        return NULL;
    diag_repeating(&repeat, DIAG_ERROR, "read from the cluster: %s",
                   *error == -EBADMSG ? "unexpected reply"
                                      : cluster_text(s->cluster));
    *error = cluster_read_error(*error);
    return NULL;
}
