/* common/store/cluster/cluster_store_internal.h - what the files of
 * cluster_store.h share: cluster_store.c (the handle, what changes),
 * cluster_call.c (commands), cluster_read.c (queries), cluster_range.c (rows of
 * several parts), cluster_history.c (history), cluster_verify.c (countd check),
 * cluster_list.c (keyspaces), cluster_check.c (the check of servers). */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_STORE_INTERNAL_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_STORE_INTERNAL_H

#include <hiredis/hiredis.h>

#include "common/store/cluster/cluster.h"
#include "common/store/cluster/cluster_key.h"
#include "common/store/cluster/cluster_store.h"
#include "common/store/cluster/sender.h"

#define CLUSTER_CALLS 256  /* commands of one round, at most */
#define CLUSTER_KNOWN 1024 /* keyspaces whose number of parts is remembered */

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

/* The next command of the round, which is to be begun; asserts that there is
 * space. */
struct cluster_command *cluster_next_call(struct cluster_store *s);

/* Begin commands of the round: a call of a function about a part, and a command
 * about the lists of keyspaces. */
struct cluster_command *cluster_call_part(struct cluster_store *s,
                                          const struct cluster_known *k,
                                          uint32_t part, const char *words);
struct cluster_command *cluster_call_lists(struct cluster_store *s,
                                           const char *words);
void cluster_call_run(struct cluster_store *s);
void cluster_call_end(struct cluster_store *s);

/* Reports an error of a reading command, and returns what it is to a caller of
 * the store: -EHOSTDOWN where a later try may work. */
int cluster_read_error(struct cluster_store *s, int error);

/* The reply of a command as an array of at least `elements`; otherwise NULL,
 * and *error says why. */
const redisReply *cluster_call_reply(struct cluster_store *s,
                                     const struct cluster_command *m,
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

/* Rows of a keyspace from `offset` (not below 0) on, by count or as STORE_KEYS.
 */
int cluster_range(struct cluster_store *s, const struct cluster_known *k,
                  struct store_query *q, uint64_t offset, size_t capacity);

/* Puts a member of the order as the next row.  -EBADMSG: it is none, or has no
 * place */
int cluster_put_member(struct store_query *q, size_t capacity,
                       const redisReply *member);

/* Totals of all parts; also the rows of each, unless `rows` is NULL. */
int cluster_read_totals(struct cluster_store *s, const struct cluster_known *k,
                        struct store_totals *out, uint64_t *rows);

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
