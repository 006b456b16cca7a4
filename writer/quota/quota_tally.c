/* writer/quota/quota_tally.c - see quota_tally.h. */
#include "writer/quota/quota_tally.h"

#include <assert.h>
#include <string.h>

#include "writer/live/live_tally.h"

static const char *const keyspaces[TOLD_PARTS] = {
    [TOLD_APPLIED] = "quota.applied",
    [TOLD_CANCELLED] = "quota.cancelled",
    [TOLD_REFUSED] = "quota.refused",
};

void
quota_tally_init(struct quota_tally *t, struct logs *logs, uint64_t now_ms)
{
    *t = (struct quota_tally){.logs = logs, .due_ms = now_ms + QUOTA_TALLY_MS};
    if (logs)
        t->layout = logs->layout;
}

/* One increment of at most INT64_MAX. */
static void
put_increment(struct quota_tally *t, const struct quota *quota, unsigned part,
              int64_t amount)
{
    uint8_t key[MESSAGE_NAME_MAX];
    const bool named = quota->name_size > 0;
    const char *name = named ? quota->name : QUOTA_UNNAMED_NAME;
    struct message m = {.increment = amount,
                        .keyspace = (const uint8_t *)keyspaces[part],
                        .keyspace_size = (uint16_t)strlen(keyspaces[part]),
                        .key = key};
    int rc;

    m.key_size = (uint16_t)live_tally_key(
        (const uint8_t *)name, named ? quota->name_size : strlen(name),
        t->layout.key_size, key);
    rc = message_put(&t->layout, &m, t->bytes);
    assert(rc == 0);
    rc = message_parse(&t->layout, t->bytes, &m);
    assert(rc == 0);
    logs_put(t->logs, t->bytes, &m);
    t->increments++;
}

/* False: the logs have no room. */
static bool
put_quota(struct quota_tally *t, struct quota *quota)
{
    for (unsigned part = 0; part < TOLD_PARTS; part++)
        while (quota->told[part] > 0) {
            const uint64_t told = quota->told[part] < INT64_MAX
                                      ? quota->told[part]
                                      : (uint64_t)INT64_MAX;

            if (logs_free_slots(t->logs) == 0)
                return false;
            put_increment(t, quota, part, (int64_t)told);
            quota->told[part] -= told;
        }
    return true;
}

bool
quota_tally_turn(struct quota_tally *t, struct quotas *q, uint64_t now_ms)
{
    if (!t->logs || (!t->in_round && now_ms < t->due_ms))
        return false;
    if (!t->in_round) {
        t->in_round = true;
        t->next = 0;
        t->due_ms = now_ms + QUOTA_TALLY_MS;
        (void)put_quota(t, quotas_unnamed(q)); /* else in the next round */
    }
    for (int i = 0; i < QUOTA_TALLY_PIECE && t->next < q->count; i++)
        if (!put_quota(t, q->names[t->next++]))
            t->next = q->count;
    t->in_round = t->next < q->count;
    return t->in_round;
}

bool
quota_tally_finish(struct quota_tally *t, struct quotas *q)
{
    bool all;

    if (!t->logs)
        return true;
    all = put_quota(t, quotas_unnamed(q));
    for (size_t i = 0; all && i < q->count; i++)
        all = put_quota(t, q->names[i]);
    return all;
}
