/* reader/resp/resp_internal.h - what the files of reader/resp share: the state
 * of a connection, the command that is done, and how answers are put.
 *
 * A command's function answers it, or changes nothing:
 *
 *     CONN_ANSWERED   and the next one may be done
 *     CONN_FULL   there is no memory now: the command is done again later
 *     CONN_YIELD  gives way: the command is done again, and goes on where
 *                 state->progress says
 *     CONN_PAUSE  waits in line: the command is done again later
 *     CONN_LONG   its job makes the answer from now on
 *     CONN_END    answered, and that was the last answer */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_RESP_RESP_INTERNAL_H
#define COUNTD_READER_RESP_RESP_INTERNAL_H

#include "common/base/clock.h"
#include "reader/history_query.h"
#include "reader/resp/resp_service.h"

#define RESP_CLIENT_NAME_MAX 64

/* Zero at first. */
struct resp_state {
    struct forward_place place; /* first: forward.h */
    struct resp_job *job;       /* NULL: none */
    uint64_t id;                /* 0: not given yet */
    uint64_t client;   /* its address: an IPv6 one is that of its net */
    uint64_t began_ms; /* monotonic: its first request */
    const struct resp_command *last; /* that was done */
    uint32_t progress; /* arguments that the command has done; 0: it begins */
    uint32_t found;    /* of these, for EXISTS */

    struct list_link transaction; /* NULL: never queued */
    uint64_t multi_ms;            /* monotonic: its first request */
    struct chain queued;          /* requests of the transaction */
    uint32_t queued_count;
    uint8_t protocol;  /* 3, or 2 */
    bool is_queueing;  /* between MULTI and EXEC */
    bool is_replaying; /* EXEC is being done */
    bool is_aborted;   /* the transaction has a request that cannot be done */
    bool is_expired;   /* others needed its memory */
    bool reads_all;    /* the transaction has a command with RESP_OWN_WAIT */
    bool has_no_database; /* SELECT of a database other than 0 was refused */
    bool is_trusted;      /* needs no token */
    bool has_token;       /* `token` is one that was known */
    uint8_t rights;       /* enum tokens_right, or-ed */
    struct hash_wide token;
    uint8_t name_size;
    uint8_t name[RESP_CLIENT_NAME_MAX];
};

static_assert(sizeof(struct resp_state) % 8 == 0, "as protocols want it");

struct resp_call {
    struct resp_service *service;
    struct conn *conn;
    struct resp_state *state;
    const struct resp_arg *args; /* the command's name first */
    size_t count;
    const struct resp_command *command;
};

struct resp_command {
    const char *name;
    int arity; /* arguments with the name; negative: at least -arity */
    enum conn_next (*run)(struct resp_call *call);
    int64_t option; /* what distinguishes commands of one function */
    uint8_t rights; /* enum tokens_right: one of these is needed; 0: no token;
                       and RESP_OWN_WAIT */
};

/* Answers from more than the counts of keys that it names, which last_answers
 * has: it waits for what its connection has counted. */
#define RESP_OWN_WAIT 128

/* Commands that take effect while a transaction queues, and commands that read
 * no database. */
#define RESP_IMMEDIATE INT64_C(64)
#define RESP_SERVER    INT64_C(128)

/* ---- resp_commands.c ---- */

/* Makes the table by which commands are found. */
void resp_commands_index(struct resp_command_place places[RESP_COMMAND_PLACES]);

/* The command of that name, in any case; NULL: there is none. */
const struct resp_command *
resp_command_by_name(const struct resp_command_place *places,
                     const struct resp_arg *name);

size_t resp_command_count(void);

/* Whether the connection has to give way. */
static inline bool
resp_is_late(const struct resp_call *call)
{
    return clock_ns() >= call->service->until_ns;
}

static inline bool
resp_is_3(const struct resp_call *call)
{
    return call->state->protocol == 3;
}

/* ---- resp_service.c ---- */

/* Memory for `size` bytes; NULL: return CONN_FULL. */
static inline uint8_t *
resp_space(struct resp_call *call, size_t size)
{
    return conn_space(call->conn, size);
}

/* `size` bytes of that are the answer, or a part of it. */
static inline void
resp_put(struct resp_call *call, size_t size)
{
    call->state->place.put += (uint32_t)size;
    conn_put(call->conn, size);
}

/* Whole answers: the bytes as they are, -ERR, a number, nil, a bulk. */
enum conn_next resp_answer(struct resp_call *call, const char *bytes);
enum conn_next resp_error(struct resp_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum conn_next resp_answer_number(struct resp_call *call, int64_t value);
enum conn_next resp_answer_nil(struct resp_call *call);
enum conn_next resp_answer_bulk(struct resp_call *call, const void *bytes,
                                size_t size);

/* A text of lines: verbatim with RESP3, else a bulk. */
enum conn_next resp_answer_text(struct resp_call *call, const void *text,
                                size_t size);

/* "*N", or "%N" of N pairs with RESP3 (else twice as many elements). */
size_t resp_put_map(const struct resp_call *call, uint8_t *out, size_t pairs);
size_t resp_put_nil(const struct resp_call *call, uint8_t *out);

/* A score: a double of RESP3, else a bulk. */
size_t resp_put_score(const struct resp_call *call, uint8_t *out,
                      int64_t value);

enum conn_next resp_not_integer(struct resp_call *call);
enum conn_next resp_syntax_error(struct resp_call *call);
enum conn_next resp_wrong_arity(struct resp_call *call, const char *name);
enum conn_next resp_unreadable(struct resp_call *call);

/* ---- resp_read.c ---- */

/* Whether args[1] may name a keyspace; one that ends in a period may only where
 * the command reads periods, or where there is a keyspace of that very name.
 * False: *answer has the error. */
bool resp_check_keyspace(struct resp_call *call, bool takes_period,
                         enum conn_next *answer);

/* The same for keys, from args[first] up to args[end]. */
bool resp_check_keys(struct resp_call *call, size_t first, size_t end,
                     enum conn_next *answer);

/* The keyspace of strings. */
struct resp_arg resp_strings(const struct resp_call *call);

/* What the snapshot says of a key; negative: it cannot be read. */
int resp_read_key(struct resp_call *call, const struct resp_arg *keyspace,
                  const struct resp_arg *key, struct last_answers_read *out);

/* What a read of a key answers, increments on their way included. */
int resp_read_count(struct resp_call *call, const struct resp_arg *keyspace,
                    const struct resp_arg *key, struct last_answers_read *out);

/* One query to the store, after as_of was read; negative: not -ENOENT. */
int resp_query(struct resp_call *call, struct store_query *q, uint8_t *rows,
               size_t size);

/* Keys of a keyspace, 0 without one; negative: it cannot be read. */
int64_t resp_count_keys(struct resp_call *call,
                        const struct resp_arg *keyspace);

/* How many of the first `count` rows of a keyspace are before a bound, in the
 * order of `op`; negative: it cannot be read. */
int64_t resp_count_before(struct resp_call *call, enum store_op op,
                          const struct resp_arg *keyspace, int64_t count,
                          bool (*is_before)(const uint8_t *row,
                                            const void *bound),
                          const void *bound);

enum conn_next resp_do_get(struct resp_call *call);
enum conn_next resp_do_mget(struct resp_call *call);
enum conn_next resp_do_member(struct resp_call *call);
enum conn_next resp_do_members(struct resp_call *call);
enum conn_next resp_do_card(struct resp_call *call);
enum conn_next resp_do_rank(struct resp_call *call);
enum conn_next resp_do_type(struct resp_call *call);
enum conn_next resp_do_ttl(struct resp_call *call);
enum conn_next resp_do_exists(struct resp_call *call);

enum resp_member { RESP_MEMBER_TEXT, RESP_MEMBER_SCORE, RESP_MEMBER_EXISTS };

/* ---- resp_range.c ---- */

/* Writes the head of `count` rows, and a row, which RESP3 has in pairs. */
size_t resp_put_rows(const struct resp_call *call, uint8_t *out,
                     bool with_scores, int64_t count);
size_t resp_put_row(const struct resp_call *call, uint8_t *out,
                    bool with_scores, const uint8_t *key, size_t key_size,
                    int64_t count);
enum conn_next resp_too_many_rows(struct resp_call *call);
enum conn_next resp_do_range(struct resp_call *call);

/* What of a hash is answered. */
enum resp_map { RESP_MAP_NONE, RESP_MAP_BOTH, RESP_MAP_KEYS, RESP_MAP_VALUES };

enum conn_next resp_do_getall(struct resp_call *call);
enum conn_next resp_do_count(struct resp_call *call);
enum conn_next resp_do_score_range(struct resp_call *call);

/* ---- resp_count.c ---- */
enum conn_next resp_do_incr(struct resp_call *call);
enum conn_next resp_do_hincrby(struct resp_call *call);
enum conn_next resp_do_zincrby(struct resp_call *call);
enum conn_next resp_do_zadd(struct resp_call *call);

/* ---- resp_connect.c ---- */
enum conn_next resp_do_ping(struct resp_call *call);
enum conn_next resp_do_echo(struct resp_call *call);
enum conn_next resp_do_hello(struct resp_call *call);
enum conn_next resp_do_select(struct resp_call *call);
enum conn_next resp_do_client(struct resp_call *call);
enum conn_next resp_do_quit(struct resp_call *call);
enum conn_next resp_do_reset(struct resp_call *call);

/* A name and its value, as bulks. */
size_t resp_put_pair(uint8_t *out, const char *name, const char *value);

#define RESP_REDIS_VERSION "7.0.0"

/* ---- resp_server.c ---- */
enum conn_next resp_unknown_subcommand(struct resp_call *call,
                                       const char *command);
enum conn_next resp_client_help(struct resp_call *call);
enum conn_next resp_client_info(struct resp_call *call);
enum conn_next resp_client_list(struct resp_call *call);

enum conn_next resp_do_config(struct resp_call *call);
enum conn_next resp_do_command(struct resp_call *call);
enum conn_next resp_do_cluster(struct resp_call *call);
enum conn_next resp_do_info(struct resp_call *call);

/* ---- resp_auth.c ---- */

/* Determines who a new connection is, and what it may do. */
void resp_auth_begin(struct resp_call *call);

/* The rights of its token may have changed. */
void resp_auth_refresh(struct resp_call *call);

/* Whether the connection may give the command; false: *answer. */
bool resp_auth_allows(struct resp_call *call,
                      const struct resp_command *command,
                      enum conn_next *answer);

/* Takes a token; name NULL: none was given.  False: *answer has the error. */
bool resp_auth_take(struct resp_call *call, const struct resp_arg *name,
                    const struct resp_arg *token, enum conn_next *answer);
enum conn_next resp_do_auth(struct resp_call *call);

/* ---- resp_scan.c ---- */
enum conn_next resp_do_scan(struct resp_call *call);
enum conn_next resp_do_scan_keys(struct resp_call *call);
enum conn_next resp_do_keys(struct resp_call *call);
enum conn_next resp_do_dbsize(struct resp_call *call);

/* ---- resp_job.c ---- */

/* What a command looks for among names. */
struct resp_wanted {
    uint64_t skip; /* names to be passed first */
    uint64_t left; /* names that may still be looked at */
    bool matches_type, has_pattern;
};

/* The answer of a command that is a job. */
struct resp_job {
    struct job job;
    enum conn_next (*answer)(struct resp_call *call, struct resp_job *job);
    uint64_t until_ms; /* of one that waits: monotonic; 0: no end */

    int error;         /* from here on zero when it begins */
    uint64_t position; /* names, or places of connections, listed */
    struct resp_wanted wanted;
    uint64_t keyspaces;
    bool at_end;  /* of the list */
    size_t count; /* names found, as bulks in `rows` */
    size_t size;  /* of these, or of lines, in bytes */
    uint8_t *rows;
    struct store_listing *listing;

    int64_t first, last; /* rows of a period */
    bool with_scores;
    struct history_query period;
    struct resp_pattern pattern; /* of names; not zero */
};

/* The job of the connection, or one of which most is not touched yet. */
struct resp_job *resp_job_make(struct resp_call *call);

/* The job of a command, with a place, and memory for `size` bytes of rows.  NULL:
 * *next is what the command returns. */
struct resp_job *resp_job_enter(struct resp_call *call, size_t size,
                                enum conn_next *next);

/* There is no more memory for it: the command returns this. */
enum conn_next resp_job_no_memory(struct resp_call *call);

/* It has all that it needs: the command returns this, and when step() says that
 * it is done answer() answers. */
enum conn_next resp_job_run(struct resp_job *job,
                            bool (*step)(struct job *job, uint64_t until_ns),
                            enum conn_next (*answer)(struct resp_call *call,
                                                     struct resp_job *job));

/* The same without a place: it waits until step() is true. */
enum conn_next resp_job_wait(struct resp_call *call, uint64_t until_ms,
                             bool (*step)(struct job *job, uint64_t until_ns),
                             enum conn_next (*answer)(struct resp_call *call,
                                                      struct resp_job *job));

/* Answers, if it is done. */
enum conn_next resp_job_answer(struct resp_call *call);

/* Ends the job of the connection, if it has one. */
void resp_job_free(struct resp_state *s);

/* ---- resp_transaction.c ---- */
enum conn_next resp_do_multi(struct resp_call *call);
enum conn_next resp_do_exec(struct resp_call *call);
enum conn_next resp_do_discard(struct resp_call *call);
enum conn_next resp_do_wait(struct resp_call *call);

/* Whether a command that reads must wait for what its connection has counted:
 * return CONN_PAUSE. */
bool resp_is_behind(struct resp_call *call);

/* Queues the request whose bytes are given. */
enum conn_next resp_queue(struct resp_call *call, const uint8_t *bytes,
                          size_t size);
void resp_drop_transaction(struct resp_service *r, struct resp_state *s);

/* One of its requests cannot be done: it queues no more, and EXEC says so. */
void resp_abort_transaction(struct resp_service *r, struct resp_state *s);

/* Does what is queued; CONN_ANSWERED: all of it, or as much as fits the turn. */
enum conn_next resp_replay(struct resp_call *call);

/* ---- resp_service.c ---- */

/* Does the command of call->args. */
enum conn_next resp_run(struct resp_call *call);

#endif
