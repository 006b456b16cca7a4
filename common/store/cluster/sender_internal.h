/* common/store/cluster/sender_internal.h - what the files of sender.h share:
 * sender.c (the thread), sender_command.c (commands), sender_send.c (names,
 * audit, replies, orders), sender_settle.c (replicas, what leaves the outbox,
 * as_of). */
#ifndef COUNTD_COMMON_STORE_CLUSTER_SENDER_INTERNAL_H
#define COUNTD_COMMON_STORE_CLUSTER_SENDER_INTERNAL_H

#include <hiredis/hiredis.h>
#include <pthread.h>

#include "common/store/cluster/cluster_place.h"
#include "common/store/cluster/sender.h"
#include "common/store/cluster/sender_batch.h"
#include "common/store/held.h"
#include "common/wire/name.h"

#define SENDER_COMMANDS 32 /* in one cluster_run() */
#define SENDER_DEPTH    2  /* commands of a part in one cluster_run() */
#define SENDER_ENTRIES  64 /* that are summed into one command, at most */

enum sender_state {
    SENDER_UNKNOWN, /* to be audited */
    SENDER_GOOD,
    SENDER_LOST,   /* the cluster is behind what is retained */
    SENDER_FOREIGN /* the mark is of another timeline */
};

/* What the sender knows of a part of the cluster.  Its entries are those of a
 * chain of the outbox, with the rows whose keys are the part's. */
struct sender_part {
    struct outbox_part *chain;
    uint32_t number;
    enum sender_state state;
    int node; /* the master when entries were acknowledged */
    uint64_t acked;
    uint64_t audit_ms, audit_changes;
    uint64_t retry_ms; /* not before this; backs off */
    uint64_t backoff_ms;
    bool is_full;       /* it would have more keys than it may have */
    bool needs_rebuild; /* its order does not fit its counts */
    struct cluster_part_keys keys;
};

/* A keyspace in the cluster; in outbox_keyspace.sender.  Each chain feeds `fan`
 * parts that follow each other. */
struct sender_keyspace {
    bool is_named;       /* it is in the lists of the cluster, as here */
    uint64_t refused_ms; /* a part is closed: then what a mover may have left
                            is looked for; 0: none is */
    uint64_t name_due_ms, named_changes;
    struct cluster_place place;
    uint32_t fan;
    struct sender_part parts[]; /* place.parts of them */
};

/* A master: what its replicas have. */
struct sender_node {
    uint64_t base_offset, base_ms; /* of the master, to be reached; 0: none */
    uint64_t replicated_ms; /* what was acknowledged until then is there */
    char run_id[48];
};

/* A command about a part. */
struct sender_slot {
    struct sender_part *part;
    uint64_t entries; /* of how many it is the sum */
    struct sender_batch batch;
};

struct cluster_sender {
    struct sender_options options;
    struct outbox *outbox; /* the thread's own */
    struct cluster *cluster;
    struct sender_slot slots[SENDER_COMMANDS];
    struct cluster_command commands[SENDER_COMMANDS];
    size_t count; /* of commands that are being made */
    size_t next;  /* keyspace at which the next turn begins */
    struct sender_node nodes[CLUSTER_NODES_MAX];
    struct held *held; /* records that are yet to come; NULL: not open */
    struct logdir logs;
    bool logs_are_open;
    uint64_t turn_ms;       /* when this turn began */
    uint64_t audit_changes; /* cluster_changes() before the audit's commands */
    uint64_t poll_ms, publish_ms;
    uint64_t logs_ms; /* all that came before was in the outbox */
    uint64_t as_of_ms, published_ms;
    bool is_resumed;     /* what was written before the start was read */
    uint64_t resumed_ms; /* that; replicas had all before it.  0: nothing was,
                            or a master has changed since */
    bool lacks_replicas; /* a master has fewer than options.replicas */
    struct sender_stats counted; /* what sender_stats() is to report next; its
                                    error is the last command's that failed */

    pthread_t thread;
    int wake_fd;
    pthread_mutex_t mutex; /* of the rest */
    bool stops;
    struct sender_stats stats;
};

/* The sender's keyspace, made when needed as the outbox has it; NULL: no
 * memory. */
struct sender_keyspace *sender_keyspace_of(struct outbox_keyspace *k);

/* Makes it that of another generation, with more parts, which have what those
 * of the old one had.  -ENOMEM */
int sender_replace_keyspace(struct cluster_sender *s, struct outbox_keyspace *k,
                            const struct cluster_place *place);

/* The parts that a chain feeds. */
struct sender_part *sender_parts_of(const struct outbox_part *chain,
                                    uint32_t *count);

/* Takes over into the chain what its parts have now. */
void sender_update_chain(struct outbox_part *chain);

/* Whether an entry is in the cluster, and whether enough replicas have it. */
bool sender_is_acked(const struct outbox_part *p, const struct outbox_entry *e);
bool sender_is_replicated(const struct cluster_sender *s,
                          const struct outbox_part *p,
                          const struct outbox_entry *e);

/* ---- sender_command.c --------------------------------------------------- */

/* The next command of the round, which is to be begun; NULL: there are
 * SENDER_COMMANDS. */
struct cluster_command *sender_next(struct cluster_sender *s);

/* Ends the commands. */
void sender_end(struct cluster_sender *s);

/* Begins a call about a part, with this sender as first word.  NULL: there are
 * SENDER_COMMANDS. */
struct cluster_command *sender_begin_call(struct cluster_sender *s,
                                          struct sender_part *p,
                                          const char *words);

/* A round of commands about parts, from keyspace s->next on: begin() makes
 * those that a part needs, and take() takes the reply of each.  Returns whether
 * there was any. */
bool sender_run_round(struct cluster_sender *s,
                      void (*begin)(struct cluster_sender *s,
                                    struct sender_part *p),
                      void (*take)(struct cluster_sender *s, size_t at));

/* Makes the command of entry `number` of a part, and of those after it that can
 * be summed with it.  Returns the number of the last one; 0: there is none, it
 * cannot be read, or there are SENDER_COMMANDS. */
uint64_t sender_begin_entries(struct cluster_sender *s, struct sender_part *p,
                              uint64_t number);

/* ---- sender_send.c ------------------------------------------------------ */

/* Sends nothing more to a part for a while. */
void sender_back_off(struct cluster_sender *s, struct sender_part *p,
                     const char *what);

/* Each returns true when it did something. */
bool sender_name_keyspaces(struct cluster_sender *s);
bool sender_audit(struct cluster_sender *s);
bool sender_send(struct cluster_sender *s);

/* Makes the order of parts again whose order does not fit their counts: a slice
 * of each. */
bool sender_rebuild(struct cluster_sender *s);

/* "keyspace=NAME part=N" for messages. */
#define SENDER_PART_TEXT (NAME_TEXT_SIZE + 40)
const char *sender_format_part(const struct sender_part *p,
                               char text[SENDER_PART_TEXT]);

/* ---- sender_settle.c ---------------------------------------------------- */

void sender_settle(struct cluster_sender *s, uint64_t now_ms);

/* Notes the time before which every increment has been put into the outbox;
 * call it before the outbox is refreshed. */
void sender_read_logs(struct cluster_sender *s);

/* Writes as_of_ms for readers, and counts what waits. */
void sender_publish(struct cluster_sender *s, uint64_t now_ms);

#endif
