/* common/store/cluster/cluster_store_internal.h - what the files of
 * cluster_store.h share: cluster_store.c (the handle, what changes),
 * cluster_call.c (commands), cluster_read.c (queries), cluster_range.c (rows of
 * several parts), cluster_history.c (history), cluster_verify.c (countd check),
 * cluster_list.c (keyspaces, the check of servers). */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_STORE_INTERNAL_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_STORE_INTERNAL_H

#include <hiredis/hiredis.h>

#include "common/store/cluster/cluster.h"
#include "common/store/cluster/cluster_key.h"
#include "common/store/cluster/cluster_store.h"
#include "common/store/cluster/sender.h"

#define CLUSTER_CALLS 256 /* commands of one round, at most */
#define CLUSTER_WORDS 10
#define CLUSTER_KNOWN 1024 /* keyspaces whose number of parts is remembered */

/* A command of a read, with its memory. */
struct cluster_call_slot {
    struct cluster_part_keys keys;
    char period[CLUSTER_PERIOD_KEY_SIZE];
    const char *argv[CLUSTER_WORDS];
    size_t sizes[CLUSTER_WORDS];
    char numbers[3][CLUSTER_NUMBER];
};

/* Generation and parts of a keyspace: a part that is gone says -ESTALE, and
 * they are to be asked for again. */
struct cluster_known {
    uint8_t name[STORE_NAME_MAX];
    uint16_t size; /* 0: none */
    uint32_t generation, parts;
};

struct cluster_store {
    struct store store;
    struct cluster_store_options options;
    char password[256];
    struct outbox *outbox;         /* NULL: none, or only read */
    struct cluster_sender *sender; /* NULL: not in this process */
    struct cluster *cluster;
    struct cluster_call_slot slots[CLUSTER_CALLS];
    struct cluster_command commands[CLUSTER_CALLS];
    size_t count; /* of commands that are being made */
    struct cluster_known *known;
};

static inline struct cluster_store *
cluster_store_of(struct store *s)
{
    return (struct cluster_store *)(void *)s;
}

/* Opens the outbox, unless it is open.  -ENOENT: only read, and there is none
 */
int cluster_need_outbox(struct cluster_store *s);

/* ---- commands ----------------------------------------------------------- */

/* Begins a call of a reading function about a part; asserts that there is
 * space.  Returns its index. */
size_t cluster_call_begin(struct cluster_store *s, const char *function,
                          const uint8_t *name, size_t name_size,
                          uint32_t generation, uint32_t part);

/* Puts the part's order of keys in the place of its order of counts. */
void cluster_call_order_keys(struct cluster_store *s, size_t call);

/* Makes a call one of a function that changes something. */
void cluster_call_change(struct cluster_store *s, size_t call);

/* Begins another command whose key is the counts of a part, or the period of
 * its history. */
size_t cluster_call_counts(struct cluster_store *s, const char *verb,
                           const uint8_t *name, size_t name_size,
                           uint32_t generation, uint32_t part);
size_t cluster_call_period(struct cluster_store *s, const char *verb,
                           const uint8_t *name, size_t name_size,
                           uint32_t generation, uint32_t part,
                           const struct cluster_period *period);

/* Begins any other command with the slot of `key`. */
size_t cluster_call_plain(struct cluster_store *s, const char *verb,
                          const char *key);
void cluster_call_word(struct cluster_store *s, size_t call, const void *bytes,
                       size_t size);
void cluster_call_number(struct cluster_store *s, size_t call, unsigned at,
                         int64_t number);
void cluster_call_run(struct cluster_store *s);
void cluster_call_end(struct cluster_store *s);

/* What a reading command's error is to a caller of the store: -EHOSTDOWN where
 * a later try may work. */
int cluster_read_error(int error);

/* The reply of a call as an array of at least `elements`; otherwise NULL, and
 * *error says why. */
const redisReply *cluster_call_reply(struct cluster_store *s, size_t call,
                                     size_t elements, int *error);

/* ---- keyspaces ---------------------------------------------------------- */

/* Finds generation and parts; runs a command when they are not known.
 *   -ENOENT  there is no such keyspace */
int cluster_find_parts(struct cluster_store *s, const uint8_t *name,
                       size_t name_size, struct cluster_known *out);
void cluster_forget_parts(struct cluster_store *s, const uint8_t *name,
                          size_t name_size);

/* ---- reading ------------------------------------------------------------ */

size_t cluster_read(struct store *store, struct store_reads *reads);
void cluster_read_end(struct store *store);

/* A limit of keys as Redis' ZLEXCOUNT takes it. */
struct cluster_key_limit {
    uint8_t bytes[1 + STORE_NAME_MAX];
    size_t size;
};

/* Rows of a keyspace from `offset` (not below 0) on, by count or as STORE_KEYS.
 */
int cluster_range(struct cluster_store *s, const struct cluster_known *k,
                  struct store_query *q, uint64_t offset, size_t capacity);

/* Writes a member of the order as a row; returns its bytes, 0 when it is not
 * one, or has no place. */
size_t cluster_put_member(uint8_t *at, size_t capacity,
                          const redisReply *member);

/* Totals of all parts. */
int cluster_read_totals(struct cluster_store *s, const struct cluster_known *k,
                        const struct store_query *q, struct store_totals *out);

int cluster_history(struct store *store, struct store_history_query *q,
                    uint64_t until_ns);

/* Compares every row with the order and the totals: store_check(). */
int cluster_verify(struct store *store, const uint8_t *name, size_t name_size,
                   void (*fault)(void *ctx, const char *text), void *ctx,
                   struct store_check_result *out);

/* ---- listing ------------------------------------------------------------ */

int cluster_listing_open(struct store *s, struct store_listing **out);
void cluster_listing_close(struct store_listing *l);
void cluster_listing_start(struct store_listing *l, const uint8_t *after,
                           size_t after_size);
void cluster_listing_stop(struct store_listing *l);
int cluster_listing_next(struct store_listing *l, uint64_t until_ns,
                         struct store_listed *out);
uint64_t cluster_as_of(struct store *store);

#endif
