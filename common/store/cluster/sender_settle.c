/* common/store/cluster/sender_settle.c - which entries replicas have, which
 * leave the outbox, and as_of_ms for readers; see sender.h.
 *
 * Replicas are polled and not waited for with WAIT, which blocks the connection
 * for its whole timeout when a replica is gone.  The offset of a master is
 * noted; once enough replicas say that they have it, every entry that was
 * acknowledged before it was noted is with them.
 *
 * Entry points: sender_settle(), sender_read_logs(), sender_publish(). */
#include "common/store/cluster/sender_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/version.h"
#include "common/log/pending.h"

#define PUBLISH_MS  50
#define PUBLISH_MAX 1000 /* written this often though nothing has changed */
#define REMOVE_MAX  4096 /* entries in one group */

/* ---- replicas ----------------------------------------------------------- */

static void
take_info(struct cluster_sender *s, int node, const char *text,
          uint64_t asked_ms)
{
    struct sender_node *n = &s->nodes[node];
    const uint64_t offset = cluster_replicas_offset(text);
    const char *id = strstr(text, "master_replid:");

    if (strstr(text, "role:master") == NULL || id == NULL)
        return;
    id += sizeof "master_replid:" - 1;
    if (cluster_replicas_count(text, 0) < s->options.replicas)
        s->lacks_replicas = true;
    /* Another history of writes: offsets of the old one say nothing. */
    if (strncmp(n->run_id, id, 40) != 0) {
        memcpy(n->run_id, id, strnlen(id, 40));
        n->base_ms = 0;
    }
    if (n->base_ms != 0 &&
        cluster_replicas_count(text, n->base_offset) >= s->options.replicas) {
        n->replicated_ms = n->base_ms;
        n->base_ms = 0;
    }
    if (n->base_ms == 0) {
        n->base_ms = asked_ms;
        n->base_offset = offset;
    }
}

/* Asks each master for its offset and those of its replicas. */
static void
poll_replicas(struct cluster_sender *s)
{
    int nodes[SENDER_COMMANDS], node = CLUSTER_NO_NODE;
    const uint64_t asked_ms = clock_ms();
    size_t count;

    s->lacks_replicas = false;
    do {
        for (count = 0; count < SENDER_COMMANDS; count++) {
            node = cluster_next_master(s->cluster, node);
            if (node == CLUSTER_NO_NODE)
                break;
            nodes[count] = node;
            cluster_begin(&s->commands[count], 0, "INFO replication");
            s->commands[count].node = node;
        }
        cluster_run(s->cluster, s->commands, count);
        for (size_t i = 0; i < count; i++)
            if (s->commands[i].error == 0 &&
                s->commands[i].reply->type == REDIS_REPLY_STRING)
                take_info(s, nodes[i], s->commands[i].reply->str, asked_ms);
        cluster_end(s->commands, count);
    } while (node != CLUSTER_NO_NODE);
}

/* ---- what is settled ---------------------------------------------------- */

/* Entries at the front of a part that may leave the outbox.  None may until the
 * part was audited after the last change of a connection or of the map. */
static size_t
count_settled(const struct cluster_sender *s, struct outbox_part *p,
              uint64_t now_ms)
{
    uint32_t parts;
    const struct sender_part *sp = sender_parts_of(p, &parts);
    size_t count = 0;

    for (uint32_t i = 0; i < parts; i++)
        if (sp[i].state != SENDER_GOOD ||
            sp[i].audit_changes != cluster_changes(s->cluster))
            return 0;
    for (; count < p->count; count++) {
        struct outbox_entry *e = &p->entries[p->first + count];

        /* The journal was read again: it does not know of acknowledgements. */
        if (e->acked_ms == 0 && e->number <= p->acked)
            e->acked_ms = now_ms;
        if (!sender_is_replicated(s, p, e) ||
            now_ms - e->acked_ms < s->options.retain_ms)
            break;
    }
    return count;
}

/* Removes what is settled.  The journal is acquired for the first of it;
 * -EAGAIN: another process is writing. */
static int
remove_settled(struct cluster_sender *s, uint64_t now_ms)
{
    size_t left = REMOVE_MAX;
    bool is_begun = false;
    int rc = 0;

    for (size_t i = 0; i < outbox_keyspace_count(s->outbox); i++) {
        struct outbox_keyspace *k = outbox_keyspace_at(s->outbox, i);

        for (uint32_t j = 0; j < k->part_count; j++) {
            size_t count = count_settled(s, &k->parts[j], now_ms);

            if (count > 0 && !is_begun) {
                rc = outbox_begin(s->outbox);
                if (rc < 0)
                    return rc;
                is_begun = true;
                count = count_settled(s, &k->parts[j], now_ms);
            }
            count = count < left ? count : left;
            if (outbox_remove(s->outbox, &k->parts[j], count) == 0)
                left -= count;
        }
    }
    return is_begun ? outbox_commit(s->outbox) : 0;
}

void
sender_settle(struct cluster_sender *s, uint64_t now_ms)
{
    static struct diag_repeat repeat;
    int rc;

    if (outbox_sender(s->outbox) == 0)
        return;
    if (s->options.replicas > 0)
        poll_replicas(s);
    rc = remove_settled(s, now_ms);
    if (rc < 0 && rc != -EAGAIN)
        diag_repeating(&repeat, DIAG_ERROR,
                       "remove settled entries from data/" OUTBOX_FOLDER ": %s",
                       diag_text(rc));
}

/* ---- as_of -------------------------------------------------------------- */

/* Records held for a keyspace are yet to be put into the outbox, too. */
static int
find_held(struct cluster_sender *s, uint64_t *oldest_ms)
{
    const struct held_options options = {.data_fd = s->options.outbox.data_fd};
    uint64_t newest_ms;
    int rc = 0;

    if (s->held == NULL)
        rc = held_open(&s->held, &options);
    if (rc == 0)
        rc = held_refresh(s->held);
    if (rc == 0)
        rc = held_span(s->held, NULL, 0, oldest_ms, &newest_ms);
    return rc;
}

void
sender_read_logs(struct cluster_sender *s)
{
    const uint64_t now_ms = clock_unix_ms();
    uint64_t oldest = UINT64_MAX, held = UINT64_MAX;

    if (clock_ms() < s->publish_ms)
        return;
    if (s->logs_are_open &&
        (pending_oldest_ms(&s->logs, &oldest) < 0 || find_held(s, &held) < 0))
        return; /* what was true before still is */
    oldest = held < oldest ? held : oldest;
    s->logs_ms = oldest < now_ms ? oldest : now_ms;
}

/* Whether replicas had an entry before this sender started, and the cluster has
 * it still: what was said of it then is not taken back. */
static bool
was_replicated(const struct cluster_sender *s, const struct outbox_part *p,
               const struct outbox_entry *e)
{
    return e->first_ms <= s->resumed_ms && sender_is_acked(p, e);
}

/* Notes what waits of a chain, and lets *oldest be the time of its first entry
 * that the cluster and replicas may not have. */
static void
look_at_chain(struct cluster_sender *s, const struct outbox_part *p,
              uint64_t *oldest)
{
    struct store_outbox *c = &s->counted.outbox;

    /* Most of what is retained was replicated long ago. */
    for (size_t i = p->count; i > 0; i--) {
        const struct outbox_entry *e = &p->entries[p->first + i - 1];

        if (!sender_is_acked(p, e)) {
            c->waiting++;
            c->waiting_bytes += e->size;
            if (c->oldest_ms == 0 || e->first_ms < c->oldest_ms)
                c->oldest_ms = e->first_ms;
        }
        if (sender_is_replicated(s, p, e))
            return;
        if (!was_replicated(s, p, e) && e->first_ms < *oldest)
            *oldest = e->first_ms;
    }
}

/* Counts what waits; returns the time before which everything is in the
 * cluster.
 */
static uint64_t
find_as_of(struct cluster_sender *s)
{
    struct store_outbox *c = &s->counted.outbox;
    uint64_t oldest = s->logs_ms;

    c->waiting = c->waiting_bytes = c->oldest_ms = c->lost = 0;
    for (size_t i = 0; i < outbox_keyspace_count(s->outbox); i++) {
        const struct outbox_keyspace *k = outbox_keyspace_at(s->outbox, i);
        const struct sender_keyspace *sk = k->sender;

        for (uint32_t j = 0; sk != NULL && j < sk->place.parts; j++)
            c->lost += sk->parts[j].state >= SENDER_LOST;
        for (uint32_t j = 0; j < k->part_count; j++)
            look_at_chain(s, &k->parts[j], &oldest);
    }
    return oldest > 0 ? oldest - 1 : 0;
}

/* Runs HSET of this sender's field with `text`, or HGET with NULL, and asks how
 * many senders there are. */
static void
run_senders(struct cluster_sender *s, const char *words, const char *text)
{
    char id[CLUSTER_NUMBER];
    struct cluster_command *m = sender_next(s);

    (void)snprintf(id, sizeof id, "%016" PRIx64, outbox_sender(s->outbox));
    cluster_begin_lists(m, words);
    cluster_add_text(m, id);
    if (text != NULL)
        cluster_add_text(m, text);
    cluster_begin_lists(sender_next(s), "HLEN " CLUSTER_SENDERS);
    cluster_run(s->cluster, s->commands, s->count);
    if (s->commands[1].error == 0 &&
        s->commands[1].reply->type == REDIS_REPLY_INTEGER)
        s->counted.outbox.senders = (uint64_t)s->commands[1].reply->integer;
}

/* Reads what an earlier sender of the directory wrote. */
static void
read_as_of(struct cluster_sender *s)
{
    run_senders(s, "HGET " CLUSTER_SENDERS, NULL);
    if (s->commands[0].error == 0) {
        s->is_resumed = true;
        s->resumed_ms = cluster_reply_number(s->commands[0].reply);
        s->as_of_ms = s->resumed_ms;
    }
    sender_end(s);
}

/* Writes it for readers. */
static void
write_as_of(struct cluster_sender *s, uint64_t as_of_ms)
{
    char text[96];

    (void)snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %s", as_of_ms,
                   clock_unix_ms(), VERSION);
    run_senders(s, "HSET " CLUSTER_SENDERS, text);
    if (s->commands[0].error == 0) {
        s->as_of_ms = as_of_ms;
        s->published_ms = clock_ms();
    }
    sender_end(s);
}

static void
put_stats(struct cluster_sender *s)
{
    if (s->counted.outbox.waiting == 0)
        s->counted.outbox.error = s->lacks_replicas ? -ENOLINK : 0;
    s->counted.outbox.bytes = outbox_bytes(s->outbox);
    s->counted.last = outbox_last(s->outbox);
    s->counted.is_sender = true;
    (void)pthread_mutex_lock(&s->mutex);
    s->stats = s->counted;
    (void)pthread_mutex_unlock(&s->mutex);
}

/* Whether the cluster has said of each chain with entries what it has. */
static bool
is_audited(struct cluster_sender *s)
{
    for (size_t i = 0; i < outbox_keyspace_count(s->outbox); i++) {
        const struct outbox_keyspace *k = outbox_keyspace_at(s->outbox, i);
        const struct sender_keyspace *sk = k->sender;

        if (sk == NULL)
            return false;
        for (uint32_t j = 0; j < sk->place.parts; j++)
            if (sk->parts[j].chain->count > 0 && sk->parts[j].audit_ms == 0)
                return false;
    }
    return true;
}

void
sender_publish(struct cluster_sender *s, uint64_t now_ms)
{
    uint64_t as_of_ms;

    if (outbox_sender(s->outbox) == 0 || now_ms < s->publish_ms)
        return;
    s->publish_ms = now_ms + PUBLISH_MS;
    if (!s->is_resumed)
        read_as_of(s);
    as_of_ms = find_as_of(s);
    /* An as_of that was written before stays until the first audit is over. */
    if (s->is_resumed &&
        (s->published_ms > 0 || s->resumed_ms == 0 || is_audited(s)) &&
        (as_of_ms != s->as_of_ms || now_ms - s->published_ms > PUBLISH_MAX))
        write_as_of(s, as_of_ms);
    put_stats(s);
}
