/* common/store/cluster/sender_send.c - names of keyspaces, the audit, entries
 * and their replies, orders that are made again; see sender.h.
 *
 * Entry points: sender_name_keyspaces(), sender_audit(), sender_send(),
 * sender_rebuild(). */
#include "common/store/cluster/sender_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/store/cluster/cluster_move.h"
#include "common/wire/name.h"

#define AUDIT_MS     60000
#define BACKOFF_MIN  20
#define BACKOFF_MAX  2000
#define PART_GONE    2   /* by countd1_state */
#define CLOSED_MS    100 /* a closed part is asked again after this */
#define REBUILD_ROWS 500
#define REBUILD_MS   1000 /* another process has closed the part */
#define REFUSED_MS   1000 /* what a mover may have left is looked for */

/* ---- commands ----------------------------------------------------------- */

const char *
sender_format_part(const struct sender_part *p, char text[SENDER_PART_TEXT])
{
    const struct outbox_keyspace *k = p->chain->keyspace;
    char name[NAME_TEXT_SIZE];

    (void)name_escape(k->name, k->name_size, name);
    (void)snprintf(text, SENDER_PART_TEXT, "keyspace=%s part=%u", name,
                   p->number);
    return text;
}

void
sender_back_off(struct cluster_sender *s, struct sender_part *p,
                const char *what)
{
    static struct diag_repeat repeat;
    char text[SENDER_PART_TEXT];

    p->backoff_ms = p->backoff_ms == 0 ? BACKOFF_MIN : 2 * p->backoff_ms;
    if (p->backoff_ms > BACKOFF_MAX)
        p->backoff_ms = BACKOFF_MAX;
    p->retry_ms = clock_ms() + p->backoff_ms;
    diag_repeating(&repeat, DIAG_WARNING,
                   "%s: %s: %s; its entries wait in data/" OUTBOX_FOLDER,
                   sender_format_part(p, text), what, cluster_text(s->cluster));
}

/* ---- replies ------------------------------------------------------------ */

static uint64_t
digest_of(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && reply->len == CLUSTER_MARK_SIZE
               ? get_le64(reply->str)
               : 0;
}

/* ---- names -------------------------------------------------------------- */

/* The answer to begin_name(). */
struct sender_place {
    struct outbox_keyspace *keyspace;
    int error;
    struct cluster_place place;
    uint64_t now_ms; /* of the server */
};

/* Two commands that enter a keyspace into the cluster's lists and ask for its
 * place. */
static void
begin_name(struct cluster_sender *s, const struct outbox_keyspace *k)
{
    const struct cluster_place first = {.generation = k->generation,
                                        .parts = k->part_count};
    struct cluster_command *m = sender_next(s);

    cluster_begin_lists(m, "ZADD " CLUSTER_NAMES " 0");
    cluster_add_word(m, k->name, k->name_size);
    cluster_place_begin(sender_next(s), k->name, k->name_size, NULL, &first);
}

/* The lists are audited as the parts are: a failover can lose a name whose
 * counters are there: no reader would find them. */
static bool
needs_name(const struct cluster_sender *s, struct outbox_keyspace *k,
           uint64_t now_ms)
{
    const struct sender_keyspace *sk = sender_keyspace_of(k);

    if (sk == NULL || sk->parts[0].retry_ms > now_ms || k->state_id == 0)
        return false;
#ifdef COUNTD_MUTANT_NAME_ONCE
    return !sk->is_named;
#endif
    return !sk->is_named || sk->named_changes != cluster_changes(s->cluster) ||
           now_ms > sk->name_due_ms;
}

/* A backup closes a part for a moment, and what a mover left asks for a command
 * about each part. */
static bool
is_refused_long(const struct sender_keyspace *sk)
{
    return sk->refused_ms != 0 && clock_ms() >= sk->refused_ms;
}

/* Goes on with the generation that is in force.  What a mover that died has
 * left is ended first. */
static int
take_place(struct cluster_sender *s, struct outbox_keyspace *k,
           struct cluster_place *place, uint64_t now_ms)
{
    const struct cluster_move_keyspace moved = {k->name, k->name_size,
                                                s->options.replicas};
    const struct sender_keyspace *sk = k->sender;
    int rc = 0;

    if (place->state == CLUSTER_PLACE_MOVING  ? place->until_ms <= now_ms
        : place->state == CLUSTER_PLACE_STILL ? is_refused_long(sk)
                                              : true)
        rc = cluster_move_settle(s->cluster, &moved, place);
    if (rc < 0 || place->parts % k->part_count != 0)
        return rc < 0 ? rc : -EINVAL;
    /* A failover lost what was said of the generation that is in use here. */
    if (place->generation < sk->place.generation)
        return cluster_place_replace(s->cluster, k->name, k->name_size, place,
                                     &sk->place);
    if (place->generation != sk->place.generation ||
        place->parts != sk->place.parts)
        return sender_replace_keyspace(s, k, place);
    return 0;
}

static void
report_place(struct sender_part *p, const struct cluster_place *place)
{
    static struct diag_repeat repeat;
    char text[SENDER_PART_TEXT];

    p->retry_ms = clock_ms() + BACKOFF_MAX;
    diag_repeating(&repeat, DIAG_ERROR,
                   "%s: another sender made it with parts=%" PRIu32
                   ", not a multiple of parts=%" PRIu32
                   " here: its entries wait; set store.parts as there before a "
                   "keyspace is made",
                   sender_format_part(p, text), place->parts,
                   p->chain->keyspace->part_count);
}

/* How long a place is taken for granted: a mover's not beyond its lease. */
static uint64_t
name_pause_ms(const struct cluster_place *place, uint64_t now_ms)
{
    return place->state == CLUSTER_PLACE_MOVING && place->until_ms > now_ms &&
                   place->until_ms - now_ms < AUDIT_MS
               ? place->until_ms - now_ms
               : AUDIT_MS;
}

/* `changes` is from before the commands. */
static void
take_name(struct cluster_sender *s, struct outbox_keyspace *k,
          const struct sender_place *reply, uint64_t changes)
{
    struct cluster_place place = reply->place;
    struct sender_keyspace *sk;
    int rc = reply->error;

    if (rc == 0)
        rc = take_place(s, k, &place, reply->now_ms);
    sk = k->sender;
    sk->is_named = rc == 0;
    if (is_refused_long(sk))
        sk->refused_ms = 0;
    if (rc == -EINVAL)
        report_place(&sk->parts[0], &place);
    else if (rc < 0)
        sender_back_off(s, &sk->parts[0], "enter its name");
    if (rc < 0)
        return;
    sk->name_due_ms = clock_ms() + name_pause_ms(&place, reply->now_ms);
    sk->named_changes = changes;
    sk->parts[0].backoff_ms = 0;
}

bool
sender_name_keyspaces(struct cluster_sender *s)
{
    struct sender_place places[SENDER_COMMANDS / 2];
    const uint64_t now_ms = clock_ms();
    const uint64_t changes = cluster_changes(s->cluster);
    size_t count = 0;

    for (size_t i = 0; i < outbox_keyspace_count(s->outbox); i++) {
        struct outbox_keyspace *k = outbox_keyspace_at(s->outbox, i);

        if (!needs_name(s, k, now_ms))
            continue;
        if (count == SENDER_COMMANDS / 2)
            break;
        begin_name(s, k);
        places[count++].keyspace = k;
    }
    if (count == 0)
        return false;
    cluster_run(s->cluster, s->commands, s->count);
    for (size_t i = 0; i < count; i++) {
        const struct cluster_command *m = &s->commands[2 * i];

        places[i].error = m[0].error;
        if (m[0].error == 0)
            places[i].error =
                cluster_place_take(&m[1], &places[i].place, &places[i].now_ms);
    }
    sender_end(s); /* settling needs further commands */
    for (size_t i = 0; i < count; i++)
        take_name(s, places[i].keyspace, &places[i], changes);
    return true;
}

/* ---- what the cluster has ----------------------------------------------- */

static void
stop_part(struct sender_part *p, enum sender_state state, uint64_t have)
{
    char text[SENDER_PART_TEXT];

    if (p->state == state)
        return;
    p->state = state;
    sender_update_chain(p->chain);
    if (state == SENDER_LOST)
        diag(DIAG_ERROR,
             "%s: the cluster lost entries %" PRIu64 " to %" PRIu64
             ", which are not retained here any more: restore the part from a "
             "backup, or accept the loss with countd store accept; nothing is "
             "sent to it until then",
             sender_format_part(p, text), have + 1, outbox_first(p->chain) - 1);
    else
        diag(DIAG_ERROR,
             "%s: its mark number=%" PRIu64
             " is not of this directory, which ends with number=%" PRIu64
             ": one of both is an older copy; nothing is sent to the part",
             sender_format_part(p, text), have, p->chain->last);
}

/* Takes what the cluster says that it has: up to entry `have`. */
static void
take_have(struct cluster_sender *s, struct sender_part *p, uint64_t have,
          uint64_t digest)
{
    const uint64_t before = p->acked;
    char text[SENDER_PART_TEXT];

    if (!outbox_is_own(p->chain, have, digest)) {
        stop_part(p, SENDER_FOREIGN, have);
        return;
    }
    if (have + 1 < outbox_first(p->chain)) {
        stop_part(p, SENDER_LOST, have);
        return;
    }
    if (have < before) {
        diag(DIAG_WARNING,
             "%s: the cluster lost %" PRIu64
             " entries that it had acknowledged; they are sent again",
             sender_format_part(p, text), before - have);
        s->counted.outbox.sent_again += before - have;
    }
    p->state = SENDER_GOOD;
    p->acked = have;
    sender_update_chain(p->chain);
}

/* Entries that an earlier master acknowledged may not be with the replicas of
 * this one: they count as acknowledged now. */
static void
heed_master(struct cluster_sender *s, struct sender_part *p)
{
    struct outbox_part *chain = p->chain;
    const int node = cluster_node_of(s->cluster, p->keys.slot);
    const uint64_t now_ms = clock_ms();

    if (node == p->node)
        return;
    if (p->node != CLUSTER_NO_NODE)
        s->resumed_ms = 0;
    p->node = node;
    for (size_t i = 0; i < chain->count; i++)
        if (chain->entries[chain->first + i].acked_ms != 0)
            chain->entries[chain->first + i].acked_ms = now_ms;
}

/* A closed part may be one of another generation by now: the place is asked
 * for. */
static void
heed_closed(struct sender_part *p)
{
    struct sender_keyspace *sk = p->chain->keyspace->sender;

    p->retry_ms = clock_ms() + CLOSED_MS;
    sk->is_named = false;
    if (sk->refused_ms == 0)
        sk->refused_ms = clock_ms() + REFUSED_MS;
}

/* ---- the audit ---------------------------------------------------------- */

static bool
needs_audit(const struct cluster_sender *s, const struct sender_part *p)
{
    const uint64_t now_ms = s->turn_ms;

#ifdef COUNTD_MUTANT_NO_AUDIT
    if (p->state == SENDER_GOOD && now_ms - p->audit_ms <= AUDIT_MS)
        return false;
#endif
    return p->chain->last > 0 && p->retry_ms <= now_ms &&
           (p->state == SENDER_UNKNOWN ||
            p->audit_changes != cluster_changes(s->cluster) ||
            now_ms - p->audit_ms > AUDIT_MS);
}

/* Ends an audit.  A connection that was made since it began asks for another
 * one. */
static void
take_audit(struct cluster_sender *s, size_t at)
{
    struct sender_part *p = s->slots[at].part;
    const redisReply *reply = s->commands[at].reply;

    if (s->commands[at].error != 0 || reply->type != REDIS_REPLY_ARRAY ||
        reply->elements < 6) {
        sender_back_off(s, p, "read its state");
        return;
    }
    p->backoff_ms = 0;
    if (cluster_reply_number(reply->element[5]) == PART_GONE) {
        heed_closed(p);
        return;
    }
    p->audit_ms = s->turn_ms;
    p->audit_changes = s->audit_changes;
    heed_master(s, p);
    take_have(s, p, cluster_reply_number(reply->element[0]),
              digest_of(reply->element[1]));
}

static void
begin_audit(struct cluster_sender *s, struct sender_part *p)
{
    if (needs_audit(s, p))
        (void)sender_begin_call(s, p, "FCALL_RO countd1_state 2");
}

bool
sender_audit(struct cluster_sender *s)
{
    /* The first connections are made before the changes are counted. */
    if (cluster_need_map(s->cluster) < 0)
        return false;
    s->audit_changes = cluster_changes(s->cluster);
    return sender_run_round(s, begin_audit, take_audit);
}

/* ---- entries ------------------------------------------------------------ */

/* The entry waits, and those after it: they are a chain. */
static void
report_full(struct sender_part *p)
{
    static struct diag_repeat repeat;
    char text[SENDER_PART_TEXT];

    p->is_full = true;
    p->retry_ms = clock_ms() + BACKOFF_MAX;
    diag_repeating(&repeat, DIAG_ERROR,
                   "%s: it has its share of keyspace.max_keys; entries wait in "
                   "data/" OUTBOX_FOLDER " until that is raised",
                   sender_format_part(p, text));
}

static void
take_reply(struct cluster_sender *s, size_t at)
{
    struct sender_part *p = s->slots[at].part;
    const redisReply *reply = s->commands[at].reply;
    uint64_t have, digest;
    long long code;

    if (s->commands[at].error != 0 || reply->type != REDIS_REPLY_ARRAY ||
        reply->elements < 1) {
        /* An outcome that is unknown is what the audit finds out. */
        p->state = p->state == SENDER_GOOD ? SENDER_UNKNOWN : p->state;
        sender_back_off(s, p, "send an entry");
        return;
    }
    p->backoff_ms = 0;
    code = reply->element[0]->integer;
    if (code == 4) {
        heed_closed(p);
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
    have = cluster_reply_number(reply->element[1]);
    digest = digest_of(reply->element[2]);
    if (code == 5)
        stop_part(p, SENDER_FOREIGN, have);
    else if (code == 3)
        p->needs_rebuild = true;
    else if (p->state == SENDER_GOOD)
        take_have(s, p, have, digest);
    if (code == 0) {
        p->is_full = false;
        s->counted.outbox.sent += s->slots[at].entries;
    }
}

/* Makes commands of the next entries of a part, if it may have any. */
static void
begin_part(struct cluster_sender *s, struct sender_part *p)
{
    static struct diag_repeat repeat;
    uint64_t last = p->acked;
    char text[SENDER_PART_TEXT];

    if (p->state != SENDER_GOOD || p->needs_rebuild ||
        p->retry_ms > s->turn_ms || last >= p->chain->last)
        return;
    if (outbox_find_entry(p->chain, last + 1) == NULL)
        diag_repeating(&repeat, DIAG_ERROR,
                       "%s: entry %" PRIu64
                       " is missing from data/" OUTBOX_FOLDER
                       ": nothing is sent to the part",
                       sender_format_part(p, text), last + 1);
    for (unsigned i = 0; i < SENDER_DEPTH; i++) {
        last = sender_begin_entries(s, p, last + 1);
        if (last == 0)
            return;
    }
}

bool
sender_send(struct cluster_sender *s)
{
    return sender_run_round(s, begin_part, take_reply);
}

/* ---- orders ------------------------------------------------------------- */

/* The order of a part that does not fit its counts is made again from them, a
 * slice a turn, so that neither the server nor entries of other parts wait
 * long. The part is closed meanwhile; if this process dies, the function begins
 * anew for the process that finds it next. */
enum rebuild_reply { REBUILD_MORE, REBUILD_DONE, REBUILD_CLOSED };

static void
take_slice(struct cluster_sender *s, size_t at)
{
    struct sender_part *p = s->slots[at].part;
    const redisReply *reply = s->commands[at].reply;
    char text[SENDER_PART_TEXT];

    if (s->commands[at].error != 0 || reply->type != REDIS_REPLY_ARRAY ||
        reply->elements < 1) {
        sender_back_off(s, p, "make its order again");
        return;
    }
    p->backoff_ms = 0;
    if (reply->element[0]->integer == REBUILD_CLOSED)
        p->retry_ms = clock_ms() + REBUILD_MS;
    if (reply->element[0]->integer != REBUILD_DONE)
        return;
    p->needs_rebuild = false;
    diag(DIAG_WARNING,
         "%s: its order did not fit its counts and was made again from them",
         sender_format_part(p, text));
}

static void
begin_slice(struct cluster_sender *s, struct sender_part *p)
{
    struct cluster_command *m;

    if (!p->needs_rebuild || p->retry_ms > s->turn_ms)
        return;
    m = sender_begin_call(s, p, "FCALL countd1_rebuild 2");
    if (m != NULL)
        cluster_add_number(m, REBUILD_ROWS);
}

bool
sender_rebuild(struct cluster_sender *s)
{
    return sender_run_round(s, begin_slice, take_slice);
}
