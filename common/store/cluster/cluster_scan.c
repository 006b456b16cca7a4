/* common/store/cluster/cluster_scan.c - see cluster_scan.h. */
#include "common/store/cluster/cluster_scan.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#define SLICE_FIELDS 500 /* about */

/* Whether a reply is a cursor and a list of texts. */
static bool
is_slice(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[0]->len >= CLUSTER_NUMBER ||
        reply->element[1]->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->element[1]->elements; i++)
        if (reply->element[1]->element[i]->type != REDIS_REPLY_STRING)
            return false;
    return reply->element[1]->elements % 2 == 0;
}

static int
scan_hash(const struct cluster_scan *s, const char *key, size_t key_size)
{
    char cursor[CLUSTER_NUMBER] = "0";
    int rc;

    do {
        struct cluster_command m;

        cluster_begin(&m, s->keys.slot, "HSCAN");
        cluster_add_word(&m, key, key_size);
        cluster_add_text(&m, cursor);
        cluster_add_text(&m, "COUNT");
        cluster_add_number(&m, SLICE_FIELDS);
        cluster_run(s->cluster, &m, 1);
        rc = m.error;
        if (rc == 0 && !is_slice(m.reply))
            rc = -EBADMSG;
        if (rc == 0) {
            (void)snprintf(cursor, sizeof cursor, "%s",
                           m.reply->element[0]->str);
            rc = s->take(s->ctx, m.reply->element[1]);
        }
        cluster_end(&m, 1);
    } while (rc == 0 && strcmp(cursor, "0") != 0);
    return rc;
}

static int
scan_period(const struct cluster_scan *s, const redisReply *key,
            const redisReply *expiry)
{
    struct cluster_period period;
    int rc;

    if (key->type != REDIS_REPLY_STRING ||
        !cluster_period_parse(key->str, &period))
        return -EBADMSG;
    rc = s->begin(s->ctx, &period, cluster_reply_number(expiry));
    return rc == 0 ? scan_hash(s, key->str, (size_t)key->len) : rc;
}

int
cluster_scan_part(const struct cluster_scan *s)
{
    struct cluster_command m;
    int rc;

    rc = s->begin(s->ctx, NULL, 0);
    if (rc == 0)
        rc = scan_hash(s, s->keys.counts, s->keys.size);
    if (rc < 0)
        return rc;
    cluster_begin_part(&m, &s->keys, "FCALL_RO countd1_periods 2");
    cluster_run(s->cluster, &m, 1);
    rc = m.error;
    if (rc == 0 && m.reply->type != REDIS_REPLY_ARRAY)
        rc = -EBADMSG;
    for (size_t i = 0; rc == 0 && i + 1 < m.reply->elements; i += 2)
        rc = scan_period(s, m.reply->element[i], m.reply->element[i + 1]);
    cluster_end(&m, 1);
    return rc;
}
