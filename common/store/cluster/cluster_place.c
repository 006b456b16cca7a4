/* common/store/cluster/cluster_place.c - see cluster_place.h. */
#include "common/store/cluster/cluster_place.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/store/cluster/cluster_slot.h"
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

/* Calls countd1_place; `text` gets what is said now. */
static int
call_place(struct cluster *c, const uint8_t *name, size_t name_size,
           const char *old, const char *new_text, char text[CLUSTER_PLACE_SIZE],
           uint64_t *now_ms)
{
    const char *argv[7];
    size_t sizes[7];
    struct cluster_command m = {
        .slot = cluster_slot(CLUSTER_PARTS, strlen(CLUSTER_PARTS)),
        .node = CLUSTER_NO_NODE,
        .argv = argv,
        .sizes = sizes,
        .words = 7};
    const redisReply *reply;
    int rc;

    cluster_add_text(&m, "FCALL");
    cluster_add_text(&m, "countd1_place");
    cluster_add_text(&m, "1");
    cluster_add_text(&m, CLUSTER_PARTS);
    cluster_add_word(&m, name, name_size);
    if (new_text != NULL) {
        cluster_add_text(&m, old);
        cluster_add_text(&m, new_text);
    }
    cluster_run(c, &m, 1);
    rc = m.error;
    reply = m.reply;
    if (rc == 0 && (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
                    reply->element[1]->type != REDIS_REPLY_STRING ||
                    reply->element[1]->len >= CLUSTER_PLACE_SIZE ||
                    reply->element[2]->type != REDIS_REPLY_STRING))
        rc = -EBADMSG;
    if (rc == 0) {
        memcpy(text, reply->element[1]->str,
               (size_t)reply->element[1]->len + 1);
        *now_ms = cluster_reply_number(reply->element[2]);
    }
    cluster_free_replies(&m, 1);
    return rc;
}

int
cluster_place_read(struct cluster *c, const uint8_t *name, size_t name_size,
                   struct cluster_place *out, uint64_t *now_ms)
{
    char text[CLUSTER_PLACE_SIZE];
    int rc;

    rc = call_place(c, name, name_size, NULL, NULL, text, now_ms);
    if (rc == 0 && text[0] == '\0')
        rc = -ENOENT;
    return rc == 0 && !cluster_place_parse(text, out) ? -EBADMSG : rc;
}

int
cluster_place_replace(struct cluster *c, const uint8_t *name, size_t name_size,
                      const struct cluster_place *old,
                      const struct cluster_place *new_place)
{
    char before[CLUSTER_PLACE_SIZE], after[CLUSTER_PLACE_SIZE];
    char text[CLUSTER_PLACE_SIZE];
    uint64_t now_ms;
    int rc;

    cluster_place_format(old, before);
    cluster_place_format(new_place, after);
    rc = call_place(c, name, name_size, before, after, text, &now_ms);
    /* The command may have been sent twice: what counts is what is said now. */
    return rc == 0 && strcmp(text, after) != 0 ? -ESTALE : rc;
}
