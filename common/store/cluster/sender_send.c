/* common/store/cluster/sender_send.c - names of keyspaces, the audit, entries
 * and their replies; see sender.h.
 *
 * Entry points: sender_name_keyspaces(), sender_audit(), sender_send(). */
#include "common/store/cluster/sender_internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/store/cluster/cluster_slot.h"
#include "common/wire/name.h"

#define AUDIT_MS    60000
#define BACKOFF_MIN 20
#define BACKOFF_MAX 2000
#define CLOSED_MS   100 /* a closed part is asked again after this */

/* ---- commands
 * -------------------------------------------------------------------- */

const char *
sender_format_part(const struct outbox_part *p, char text[SENDER_PART_TEXT])
{
    char name[NAME_TEXT_SIZE];

    (void)name_escape(p->keyspace->name, p->keyspace->name_size, name);
    (void)snprintf(text, SENDER_PART_TEXT, "keyspace=%s part=%u", name,
                   p->number);
    return text;
}

void
sender_back_off(struct cluster_sender *s, struct outbox_part *p,
                const char *what)
{
    static struct diag_repeat repeat;
    struct sender_part *sp = p->sender;
    char text[SENDER_PART_TEXT];

    sp->backoff_ms = sp->backoff_ms == 0 ? BACKOFF_MIN : 2 * sp->backoff_ms;
    if (sp->backoff_ms > BACKOFF_MAX)
        sp->backoff_ms = BACKOFF_MAX;
    sp->retry_ms = clock_ms() + sp->backoff_ms;
    diag_repeating(&repeat, DIAG_WARNING,
                   "%s: %s: %s; its entries wait in data/" OUTBOX_FOLDER,
                   sender_format_part(p, text), what, cluster_text(s->cluster));
}

/* ---- names
 * ------------------------------------------------------------------------ */

/* Three commands that enter a keyspace into the cluster's lists and ask for its
 * number of parts. */
static bool
begin_name(struct cluster_sender *s, const struct outbox_keyspace *k,
           char *parts, size_t size)
{
    const uint16_t slot = cluster_slot(CLUSTER_NAMES, strlen(CLUSTER_NAMES));
    struct sender_slot *w;

    if (s->count + 3 > SENDER_COMMANDS)
        return false;
    (void)snprintf(parts, size, "%u %u", k->generation, k->part_count);
    w = sender_begin(s, slot);
    cluster_add_text(w->command, "ZADD");
    cluster_add_text(w->command, CLUSTER_NAMES);
    cluster_add_text(w->command, "0");
    cluster_add_word(w->command, k->name, k->name_size);
    w = sender_begin(s, slot);
    cluster_add_text(w->command, "HSETNX");
    cluster_add_text(w->command, CLUSTER_PARTS);
    cluster_add_word(w->command, k->name, k->name_size);
    cluster_add_text(w->command, parts);
    w = sender_begin(s, slot);
    cluster_add_text(w->command, "HGET");
    cluster_add_text(w->command, CLUSTER_PARTS);
    cluster_add_word(w->command, k->name, k->name_size);
    w->part = &k->parts[0];
    return true;
}

/* The lists are audited as the parts are: a failover can lose a name whose
 * counters are there, which nobody could read then. */
static bool
needs_name(const struct cluster_sender *s, const struct outbox_keyspace *k,
           uint64_t now_ms)
{
    const struct sender_part *sp = sender_part_of(&k->parts[0]);

    if (sp == NULL || sp->retry_ms > now_ms || k->state_id == 0)
        return false;
#ifdef COUNTD_MUTANT_NAME_ONCE
    return !sp->is_named;
#endif
    return !sp->is_named || sp->named_changes != cluster_changes(s->cluster) ||
           now_ms - sp->named_ms > AUDIT_MS;
}

/* `changes` is from before the commands. */
static void
take_name(struct cluster_sender *s, size_t at, const char *parts,
          uint64_t changes)
{
    static struct diag_repeat repeat;
    struct outbox_part *p = s->slots[at + 2].part;
    struct sender_part *sp = p->sender;
    const redisReply *reply = s->commands[at + 2].reply;
    char text[SENDER_PART_TEXT];

    for (size_t i = at; i < at + 3; i++)
        if (s->commands[i].error != 0) {
            sender_back_off(s, p, "enter its name");
            return;
        }
    if (reply->type == REDIS_REPLY_STRING && strcmp(reply->str, parts) == 0) {
        sp->is_named = true;
        sp->named_ms = clock_ms();
        sp->named_changes = changes;
        sp->backoff_ms = 0;
        return;
    }
    sp->is_named = false;
    sp->retry_ms = clock_ms() + BACKOFF_MAX;
    diag_repeating(&repeat, DIAG_ERROR,
                   "%s: another sender made it with generation and parts "
                   "\"%.20s\", not \"%s\": its entries wait; set store.parts "
                   "as there before a keyspace is made",
                   sender_format_part(p, text), reply->str ? reply->str : "",
                   parts);
}

bool
sender_name_keyspaces(struct cluster_sender *s)
{
    char parts[SENDER_COMMANDS / 3][CLUSTER_NUMBER];
    const uint64_t now_ms = clock_ms();
    const uint64_t changes = cluster_changes(s->cluster);
    size_t count = 0;

    for (size_t i = 0; i < outbox_keyspace_count(s->outbox); i++) {
        struct outbox_keyspace *k = outbox_keyspace_at(s->outbox, i);

        if (!needs_name(s, k, now_ms))
            continue;
        if (count == SENDER_COMMANDS / 3 ||
            !begin_name(s, k, parts[count], sizeof parts[count]))
            break;
        count++;
    }
    if (count == 0)
        return false;
    cluster_run(s->cluster, s->commands, s->count);
    for (size_t i = 0; i < count; i++)
        take_name(s, 3 * i, parts[i], changes);
    sender_end(s);
    return true;
}

/* ---- what the cluster has
 * ----------------------------------------------------------- */

static void
set_acked(struct outbox_part *p, uint64_t number, uint64_t acked_ms)
{
    struct outbox_entry *e = outbox_find_entry(p, number);

    if (e != NULL)
        e->acked_ms = acked_ms;
}

static void
stop_part(struct outbox_part *p, enum sender_state state, uint64_t have)
{
    struct sender_part *sp = p->sender;
    char text[SENDER_PART_TEXT];

    if (sp->state == state)
        return;
    sp->state = state;
    if (state == SENDER_LOST)
        diag(DIAG_ERROR,
             "%s: the cluster lost entries %" PRIu64 " to %" PRIu64
             ", which are not retained here any more: restore the part from a "
             "backup, or accept the loss with countd store accept; nothing is "
             "sent to it until then",
             sender_format_part(p, text), have + 1, outbox_first(p) - 1);
    else
        diag(DIAG_ERROR,
             "%s: its mark number=%" PRIu64
             " is not of this directory, which ends with number=%" PRIu64
             ": one of both is an older copy; nothing is sent to the part",
             sender_format_part(p, text), have, p->last);
}

/* Takes what the cluster says that it has: up to entry `have`. */
static void
take_have(struct cluster_sender *s, struct outbox_part *p, uint64_t have,
          uint64_t digest)
{
    struct sender_part *sp = p->sender;
    const uint64_t now_ms = clock_ms(), before = sp->acked;
    char text[SENDER_PART_TEXT];

    if (!outbox_is_own(p, have, digest)) {
        stop_part(p, SENDER_FOREIGN, have);
        return;
    }
    if (have + 1 < outbox_first(p)) {
        stop_part(p, SENDER_LOST, have);
        return;
    }
    if (have < before) {
        diag(DIAG_WARNING,
             "%s: the cluster lost %" PRIu64
             " entries that it had acknowledged; they are sent again",
             sender_format_part(p, text), before - have);
        (void)pthread_mutex_lock(&s->mutex);
        s->stats.again += before - have;
        (void)pthread_mutex_unlock(&s->mutex);
    }
    sp->state = SENDER_GOOD;
    sp->acked = have;
    for (uint64_t i = have + 1; i <= before; i++)
        set_acked(p, i, 0);
    for (uint64_t i = before + 1; i <= have; i++)
        set_acked(p, i, now_ms);
}

/* Entries that an earlier master acknowledged may not be with the replicas of
 * this one: they count as acknowledged now. */
static void
heed_master(struct cluster_sender *s, struct outbox_part *p)
{
    struct sender_part *sp = p->sender;
    const int node = cluster_node_of(s->cluster, sp->keys.slot);
    const uint64_t now_ms = clock_ms();

    if (node == sp->node)
        return;
    sp->node = node;
    for (size_t i = 0; i < p->count; i++)
        if (p->entries[p->first + i].acked_ms != 0)
            p->entries[p->first + i].acked_ms = now_ms;
}

/* ---- the audit
 * ---------------------------------------------------------------------- */

static uint64_t
number_of(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        return (uint64_t)reply->integer;
    return reply->type == REDIS_REPLY_STRING ? strtoull(reply->str, NULL, 10)
                                             : 0;
}

static uint64_t
digest_of(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && reply->len == CLUSTER_MARK_SIZE
               ? get_le64(reply->str)
               : 0;
}

static bool
needs_audit(const struct cluster_sender *s, const struct outbox_part *p,
            uint64_t now_ms)
{
    const struct sender_part *sp = p->sender;

#ifdef COUNTD_MUTANT_NO_AUDIT
    if (sp->state == SENDER_GOOD && now_ms - sp->audit_ms <= AUDIT_MS)
        return false;
#endif
    return p->last > 0 && sp->retry_ms <= now_ms &&
           (sp->state == SENDER_UNKNOWN ||
            sp->audit_changes != cluster_changes(s->cluster) ||
            now_ms - sp->audit_ms > AUDIT_MS);
}

/* Ends an audit.  `changes` is from before it: a connection that was made since
 * asks for another one. */
static void
take_audit(struct cluster_sender *s, size_t at, uint64_t changes,
           uint64_t now_ms)
{
    struct outbox_part *p = s->slots[at].part;
    struct sender_part *sp = p->sender;
    const redisReply *reply = s->commands[at].reply;

    if (s->commands[at].error != 0 || reply->type != REDIS_REPLY_ARRAY ||
        reply->elements < 6) {
        sender_back_off(s, p, "read its state");
        return;
    }
    sp->backoff_ms = 0;
    sp->audit_ms = now_ms;
    sp->audit_changes = changes;
    heed_master(s, p);
    take_have(s, p, number_of(reply->element[0]), digest_of(reply->element[1]));
}

bool
sender_audit(struct cluster_sender *s, uint64_t now_ms)
{
    uint8_t sender[CLUSTER_MARK_SIZE];
    uint64_t changes;
    size_t i = 0;

    put_le64(sender, outbox_sender(s->outbox));
    /* The first connections are made before the changes are counted. */
    if (cluster_need_map(s->cluster) < 0)
        return false;
    changes = cluster_changes(s->cluster);
    for (; i < outbox_keyspace_count(s->outbox); i++) {
        struct outbox_keyspace *k = outbox_keyspace_at(s->outbox, i);

        for (uint32_t j = 0; j < k->part_count; j++) {
            struct sender_slot *w;

            if (sender_part_of(&k->parts[j]) == NULL ||
                !needs_audit(s, &k->parts[j], now_ms))
                continue;
            w = sender_begin_call(s, &k->parts[j], "FCALL_RO", "countd1_state",
                                  0);
            if (w == NULL)
                break;
            cluster_add_word(w->command, sender, sizeof sender);
        }
        if (s->count == SENDER_COMMANDS)
            break;
    }
    if (s->count == 0)
        return false;
    cluster_run(s->cluster, s->commands, s->count);
    for (i = 0; i < s->count; i++)
        take_audit(s, i, changes, now_ms);
    sender_end(s);
    return true;
}

/* ---- entries
 * -------------------------------------------------------------------------- */

/* The entry waits, and those after it: they are a chain. */
static void
report_full(struct outbox_part *p)
{
    static struct diag_repeat repeat;
    struct sender_part *sp = p->sender;
    char text[SENDER_PART_TEXT];

    sp->is_full = true;
    sp->retry_ms = clock_ms() + BACKOFF_MAX;
    diag_repeating(&repeat, DIAG_ERROR,
                   "%s: it has its share of keyspace.max_keys; entries wait in "
                   "data/" OUTBOX_FOLDER " until that is raised",
                   sender_format_part(p, text));
}

static void
take_reply(struct cluster_sender *s, size_t at)
{
    struct outbox_part *p = s->slots[at].part;
    struct sender_part *sp = p->sender;
    const redisReply *reply = s->commands[at].reply;
    uint64_t have, digest;
    long long code;

    if (s->commands[at].error != 0 || reply->type != REDIS_REPLY_ARRAY ||
        reply->elements < 1) {
        /* An outcome that is unknown is what the audit finds out. */
        sp->state = sp->state == SENDER_GOOD ? SENDER_UNKNOWN : sp->state;
        sender_back_off(s, p, "send an entry");
        return;
    }
    sp->backoff_ms = 0;
    code = reply->element[0]->integer;
    if (code == 4) {
        sp->retry_ms = clock_ms() + CLOSED_MS;
        return;
    }
    if (reply->elements < 3) {
        sender_back_off(s, p, "read the reply of an entry");
        return;
    }
    if (code == 6) {
        report_full(p);
        return;
    }
    have = number_of(reply->element[1]);
    digest = digest_of(reply->element[2]);
    if (code == 5)
        stop_part(p, SENDER_FOREIGN, have);
    else if (code == 3)
        sp->needs_rebuild = true;
    else if (sp->state == SENDER_GOOD)
        take_have(s, p, have, digest);
    if (code == 0) {
        sp->is_full = false;
        (void)pthread_mutex_lock(&s->mutex);
        s->stats.sent += s->slots[at].entries;
        (void)pthread_mutex_unlock(&s->mutex);
    }
}

/* Makes commands of the next entries of a part. */
static void
begin_part(struct cluster_sender *s, struct outbox_part *p)
{
    static struct diag_repeat repeat;
    const uint64_t acked = ((const struct sender_part *)p->sender)->acked;
    uint64_t last = acked;
    char text[SENDER_PART_TEXT];

    if (outbox_find_entry(p, acked + 1) == NULL)
        diag_repeating(&repeat, DIAG_ERROR,
                       "%s: entry %" PRIu64
                       " is missing from data/" OUTBOX_FOLDER
                       ": nothing is sent to the part",
                       sender_format_part(p, text), acked + 1);
    for (unsigned i = 0; i < SENDER_DEPTH; i++) {
        last = sender_begin_entries(s, p, last + 1);
        if (last == 0)
            return;
    }
}

bool
sender_send(struct cluster_sender *s, uint64_t now_ms)
{
    const size_t keyspaces = outbox_keyspace_count(s->outbox);
    size_t i;

    for (i = 0; i < keyspaces && s->count < SENDER_COMMANDS; i++) {
        struct outbox_keyspace *k =
            outbox_keyspace_at(s->outbox, (s->next + i) % keyspaces);
        const struct sender_part *first = k->parts[0].sender;

        for (uint32_t j = 0; first && first->is_named && j < k->part_count;
             j++) {
            const struct sender_part *sp = k->parts[j].sender;

            if (sp != NULL && sp->state == SENDER_GOOD && !sp->needs_rebuild &&
                sp->retry_ms <= now_ms && sp->acked < k->parts[j].last)
                begin_part(s, &k->parts[j]);
        }
    }
    s->next += i;
    if (s->count == 0)
        return false;
    cluster_run(s->cluster, s->commands, s->count);
    for (i = 0; i < s->count; i++)
        take_reply(s, i);
    sender_end(s);
    return true;
}
