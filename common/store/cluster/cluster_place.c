/* common/store/cluster/cluster_place.c - see cluster_place.h. */
#include "common/store/cluster/cluster_place.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/store/cluster/outbox_record.h"

static const char states[] = {[CLUSTER_PLACE_STILL] = 's',
                              [CLUSTER_PLACE_MOVING] = 'm',
                              [CLUSTER_PLACE_RETIRING] = 'r'};

bool
cluster_place_parse(const char *text, struct cluster_place *out)
{
    const char *state;
    char *end;

    *out = (struct cluster_place){.state = CLUSTER_PLACE_STILL};
    out->generation = (uint32_t)strtoul(text, &end, 10);
    out->parts = (uint32_t)strtoul(end, &end, 10);
    if (out->parts < 1 || out->parts > OUTBOX_PARTS_MAX)
        return false;
    if (*end == '\0')
        return true;
    state = end[0] == ' ' && end[1] != '\0' ? memchr(states, end[1], 3) : NULL;
    if (state == NULL)
        return false;
    out->state = (enum cluster_place_state)(state - states);
    out->other = (uint32_t)strtoul(end + 2, &end, 10);
    out->other_parts = (uint32_t)strtoul(end, &end, 10);
    out->token = strtoull(end, &end, 16);
    out->until_ms = strtoull(end, &end, 10);
    return *end == '\0' && out->other_parts <= OUTBOX_PARTS_MAX;
}

void
cluster_place_format(const struct cluster_place *p,
                     char text[CLUSTER_PLACE_SIZE])
{
    if (p->state == CLUSTER_PLACE_STILL && p->other == 0)
        (void)snprintf(text, CLUSTER_PLACE_SIZE, "%" PRIu32 " %" PRIu32,
                       p->generation, p->parts);
    else
        (void)snprintf(text, CLUSTER_PLACE_SIZE,
                       "%" PRIu32 " %" PRIu32 " %c %" PRIu32 " %" PRIu32
                       " %016" PRIx64 " %" PRIu64,
                       p->generation, p->parts, states[p->state], p->other,
                       p->other_parts, p->token, p->until_ms);
}

void
cluster_place_begin(struct cluster_command *m, const uint8_t *name,
                    size_t name_size, const struct cluster_place *old,
                    const struct cluster_place *next)
{
    char text[CLUSTER_PLACE_SIZE] = "";

    cluster_begin_lists(m, "FCALL countd1_place 1 " CLUSTER_PARTS);
    cluster_add_word(m, name, name_size);
    if (next == NULL)
        return;
    if (old != NULL)
        cluster_place_format(old, text);
    cluster_add_text(m, text);
    cluster_place_format(next, text);
    cluster_add_text(m, text);
}

int
cluster_place_take(const struct cluster_command *m, struct cluster_place *out,
                   uint64_t *now_ms)
{
    const redisReply *reply = m->reply;

    if (m->error != 0)
        return m->error;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return -EBADMSG;
    if (reply->element[1]->len == 0)
        return -ENOENT;
    *now_ms = cluster_reply_number(reply->element[2]);
    return cluster_place_parse(reply->element[1]->str, out) ? 0 : -EBADMSG;
}

int
cluster_place_read(struct cluster *c, const uint8_t *name, size_t name_size,
                   struct cluster_place *out, uint64_t *now_ms)
{
    struct cluster_command m;
    int rc;

    cluster_place_begin(&m, name, name_size, NULL, NULL);
    cluster_run(c, &m, 1);
    rc = cluster_place_take(&m, out, now_ms);
    cluster_end(&m, 1);
    return rc;
}

int
cluster_place_replace(struct cluster *c, const uint8_t *name, size_t name_size,
                      const struct cluster_place *old,
                      const struct cluster_place *new_place)
{
    char wanted[CLUSTER_PLACE_SIZE], found[CLUSTER_PLACE_SIZE];
    struct cluster_command m;
    struct cluster_place is;
    uint64_t now_ms;
    int rc;

    cluster_place_begin(&m, name, name_size, old, new_place);
    cluster_run(c, &m, 1);
    rc = cluster_place_take(&m, &is, &now_ms);
    cluster_end(&m, 1);
    if (rc < 0)
        return rc == -ENOENT ? -ESTALE : rc;
    /* The command may have been sent twice: what counts is what is said now. */
    cluster_place_format(new_place, wanted);
    cluster_place_format(&is, found);
    return strcmp(found, wanted) != 0 ? -ESTALE : 0;
}
