/* common/store/cluster/cluster_call.c - the commands of a round, and their
 * replies; see cluster_store_internal.h. */
#include "common/store/cluster/cluster_store_internal.h"

#include <assert.h>
#include <errno.h>

#include "common/base/diag.h"

struct cluster_command *
cluster_next_call(struct cluster_store *s)
{
    assert(s->count < CLUSTER_CALLS);
    return &s->commands[s->count++];
}

struct cluster_command *
cluster_call_part(struct cluster_store *s, const struct cluster_known *k,
                  uint32_t part, const char *words)
{
    struct cluster_command *m = cluster_next_call(s);
    struct cluster_part_keys keys =
        cluster_part_keys(k->name, k->size, k->generation, part);

    cluster_begin_part(m, &keys, words);
    return m;
}

struct cluster_command *
cluster_call_lists(struct cluster_store *s, const char *words)
{
    struct cluster_command *m = cluster_next_call(s);

    cluster_begin_lists(m, words);
    return m;
}

void
cluster_call_run(struct cluster_store *s)
{
    cluster_run(s->cluster, s->commands, s->count);
}

void
cluster_call_end(struct cluster_store *s)
{
    cluster_end(s->commands, s->count);
    s->count = 0;
}

int
cluster_read_error(struct cluster_store *s, int error)
{
    static struct diag_repeat repeat;

    if (error == -ESTALE)
        return error;
    diag_repeating(&repeat, DIAG_ERROR, "read from the cluster: %s",
                   error == -EBADMSG ? "unexpected reply"
                                     : cluster_text(s->cluster));
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
cluster_call_reply(struct cluster_store *s, const struct cluster_command *m,
                   size_t elements, int *error)
{
    *error = m->error;
    if (*error == 0 &&
        (m->reply->type != REDIS_REPLY_ARRAY || m->reply->elements < elements))
        *error = -EBADMSG;
    if (*error == 0)
        return m->reply;
    *error = cluster_read_error(s, *error);
    return NULL;
}
