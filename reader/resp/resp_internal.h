/* reader/resp/resp_internal.h - what the files of reader/resp share: the state
 * of a connection, the command that is done, and how answers are put.
 *
 * A command's function answers it, or changes nothing:
 *
 *     CONN_ANSWERED  and the next one may be done
 *     CONN_FULL      there is no memory now: the command is done again later
 *     CONN_YIELD     gives way: the command is done again, and goes on where
 *                    state->progress says
 *     CONN_PAUSE     waits in line, or for its job: the command is done again
 *                    later, unless its job answers it
 *     CONN_END       answered, and that was the last answer
 *
 * A command that is done again asks the store the same, since PostgreSQL's answer
 * is found by the question (reader/remote.h): what differs each time, such as a
 * random number, is kept in the state. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_RESP_RESP_INTERNAL_H
#define COUNTD_READER_RESP_RESP_INTERNAL_H

#include "common/base/clock.h"
#include "common/wire/increment_line.h"
#include "reader/history_query.h"
#include "reader/resp/resp_service.h"

#define RESP_CLIENT_NAME_MAX 64

/* Zero at first. */
struct resp_state {
    struct forward_place place; /* first: forward.h */
    struct resp_job *job;       /* NULL: none */
    uint64_t id;
    uint64_t began_ms;               /* monotonic */
    const struct resp_command *last; /* that was done */
    uint32_t progress; /* arguments that the command has done; 0: it begins */
    uint32_t found;    /* of these, for EXISTS */

    struct list_link transaction; /* NULL: never queued */
    uint64_t multi_ms;            /* monotonic: its first request */
    struct chain queued;          /* requests of the transaction */
    uint32_t queued_count;
    uint8_t protocol;  /* 2 or 3 */
    bool is_queueing;  /* between MULTI and EXEC */
    bool is_replaying; /* EXEC is being done */
    bool is_aborted;   /* the transaction has a request that cannot be done */
    bool is_expired;   /* others needed its memory */
    bool reads_all;    /* the transaction has a command with RESP_OWN_WAIT */
    bool has_no_database; /* SELECT of a database other than 0 was refused */
    bool has_token;       /* `token` is one that was known */
    uint8_t rights;       /* enum tokens_right, or-ed */
    struct hash_wide token;
    uint8_t name_size;
    uint8_t name[RESP_CLIENT_NAME_MAX];

    uint64_t scanned; /* names that its last SCAN had listed; 0: all */
    struct increment_name scan_end; /* the last one */
};

static_assert(sizeof(struct resp_state) % 8 == 0, "as protocols want it");

struct resp_call {
    struct resp_service *service;
    struct conn *conn;
    struct resp_state *state;
    const struct resp_arg *args; /* the command's name first */
    size_t count;
    const struct resp_command *command;
    enum conn_next next; /* what the command returns where a check is false */
};

typedef enum conn_next resp_function(struct resp_call *call);

struct resp_command {
    const char *name;   /* of a subcommand COMMAND|NAME, behind its command */
    int arity;          /* arguments with the name; negative: at least -arity */
    resp_function *run; /* NULL: it only has subcommands */
    unsigned flags;     /* enum tokens_right: one of these is needed; 0: no
                           token; and enum resp_flag */
    int key;    /* args[key] is a key: of resp.keyspace if it is 1, else of the
                   keyspace args[1]; negative: args[-key] and all behind it
                   are keys; 0: none */
    int option; /* what distinguishes commands of one function: an enum that is
                   declared beside it */
};

enum resp_flag {
    RESP_KEYSPACE = 16,   /* args[1] is a keyspace */
    RESP_PERIOD = 32,     /* or a period of one */
    RESP_SERVER = 64,     /* reads no database */
    RESP_IMMEDIATE = 128, /* takes effect while a transaction queues */
    RESP_OWN_WAIT = 256   /* answers from more than the counts of keys that it
                             names, which last_answers has: it waits for what
                             its connection has counted */
};

/* All, up to one without a name. */
extern const struct resp_command resp_commands[];

/* The command of call->args, or its subcommand, in any case; NULL: there is no
 * such command. */
const struct resp_command *resp_command_find(const struct resp_call *call);

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

/* A check is false: the command returns `next`. */
static inline bool
resp_stop(struct resp_call *call, enum conn_next next)
{
    call->next = next;
    return false;
}

/* ---- resp_service.c ---- */

/* `size` bytes of conn_space() are the answer, or a part of it. */
static inline void
resp_put(struct resp_call *call, size_t size)
{
    call->state->place.put += (uint32_t)size;
    conn_put(call->conn, size);
}

/* Whole answers: the bytes as they are, a text of them, -ERR, a number, nil, a
 * bulk. */
enum conn_next resp_answer_bytes(struct resp_call *call, const void *bytes,
                                 size_t size);
enum conn_next resp_answer(struct resp_call *call, const char *text);
enum conn_next resp_error(struct resp_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum conn_next resp_answer_number(struct resp_call *call, int64_t value);
enum conn_next resp_answer_bulk(struct resp_call *call, const void *bytes,
                                size_t size);

resp_function resp_answer_nil, resp_not_integer, resp_syntax_error,
    resp_unreadable, resp_wrong_arity, resp_too_many_rows;

/* "*N", or "%N" of N pairs with RESP3 (else twice as many elements). */
size_t resp_put_map(const struct resp_call *call, uint8_t *out, size_t pairs);
size_t resp_put_nil(const struct resp_call *call, uint8_t *out);

/* A score: a double of RESP3, else a bulk. */
size_t resp_put_score(const struct resp_call *call, uint8_t *out,
                      int64_t value);

/* ---- resp_read.c ---- */

/* Whether the arguments that the command's row calls names are some; one of a
 * keyspace that ends in a period only where it says so, or where there is a
 * keyspace of that very name. */
bool resp_check_names(struct resp_call *call);
bool resp_check_no_period(struct resp_call *call);

/* The keyspace of the keys that the command's row calls so. */
static inline const struct resp_arg *
resp_keyspace(const struct resp_call *call)
{
    const int key = call->command->key;

    return key > 1 || key < -1 ? &call->args[1] : &call->service->strings;
}

/* What the snapshot says of a key; negative: it cannot be read. */
int resp_read_key(struct resp_call *call, const struct resp_arg *keyspace,
                  const struct resp_arg *key, struct last_answers_read *out);

/* What a read of a key answers, increments on their way included. */
int resp_read_count(struct resp_call *call, const struct resp_arg *keyspace,
                    const struct resp_arg *key, struct last_answers_read *out);

/* One query to the store, after as_of was read: 1; 0: what it is about is not
 * there; negative: it cannot be read. */
int resp_query(struct resp_call *call, struct store_query *q, uint8_t *rows,
               size_t size);

/* Keys of a keyspace, 0 without one; negative: it cannot be read. */
int64_t resp_count_keys(struct resp_call *call,
                        const struct resp_arg *keyspace);

/* How many of the first `count` rows of the keyspace args[1] are before a bound,
 * in the order of `op`; negative: it cannot be read. */
int64_t resp_count_before(struct resp_call *call, enum store_op op,
                          int64_t count,
                          bool (*is_before)(const struct query_row *row,
                                            const void *bound),
                          const void *bound);

resp_function resp_do_members, resp_do_card, resp_do_rank, resp_do_type,
    resp_do_ttl, resp_do_exists;

enum resp_member { RESP_MEMBER_TEXT, RESP_MEMBER_SCORE, RESP_MEMBER_EXISTS };
enum resp_rank { RESP_SMALLEST_FIRST, RESP_LARGEST_FIRST };

/* ---- resp_range.c ---- */

/* What of a row is answered: of a sorted set, then of a hash. */
enum resp_form {
    RESP_MEMBERS,
    RESP_SCORES, /* members with scores, which RESP3 has in pairs */
    RESP_MAP,
    RESP_VALUES
};

/* Writes the head of `count` rows, and a row. */
size_t resp_put_rows(const struct resp_call *call, uint8_t *out,
                     enum resp_form form, int64_t count);
size_t resp_put_row(const struct resp_call *call, uint8_t *out,
                    enum resp_form form, const struct query_row *row);

/* Ranges of ranks, of scores, or of what the options say. */
enum resp_range {
    RESP_ANY_RANGE,
    RESP_BY_RANK,
    RESP_BY_SCORE,
    RESP_BY_SCORE_REVERSED
};

/* The rows that Redis means by `first` to `last`, of `keys`: *count of them
 * from *from on; 0: none. */
void resp_range_cut(int64_t first, int64_t last, int64_t keys, int64_t *from,
                    int64_t *count);

resp_function resp_do_range, resp_do_getall, resp_do_count;

/* ---- resp_period.c ----
 *
 * The largest sums of a period, as a keyspace whose name ends in it.
 *
 *     NAME@7d            the last 7 days (m, h, d, w)
 *     NAME@2026-11-20    that day, of UTC
 *
 * Only ZREVRANGE, and ZRANGE with REV, reads them: to others they are an error.
 * A keyspace of that very name comes first. */

/* A period of time, in seconds since 1970, and the name before it.  `to` is the
 * first second behind it. */
struct resp_period {
    size_t name_size;
    int64_t from, to;
};

/* False: the name has no period.  `now_s` is the time it is counted back
 * from. */
bool resp_period_parse(const struct resp_arg *name, int64_t now_s,
                       struct resp_period *out);
bool resp_period_is_name(const struct resp_arg *name);

/* Rows `first` to `last` of the period that args[1] names. */
enum conn_next resp_period_range(struct resp_call *call, int64_t first,
                                 int64_t last, enum resp_form form);

/* ---- resp_count.c ---- */
resp_function resp_do_incr, resp_do_zincrby, resp_do_zadd;

/* How a number changes a count, and the form of the new value. */
enum resp_change { RESP_SUBTRACT = 1, RESP_ADD, RESP_ADD_SCORE };

/* ---- resp_connect.c, resp_server.c, resp_auth.c, resp_scan.c ---- */
resp_function resp_do_ping, resp_do_echo, resp_do_hello, resp_do_select,
    resp_do_quit, resp_do_reset, resp_do_client_id, resp_do_client_getname,
    resp_do_client_setname, resp_do_client_setinfo, resp_do_client_info,
    resp_do_client_list, resp_do_config_get, resp_do_command_count,
    resp_do_help, resp_do_fixed, resp_do_info, resp_do_auth, resp_do_scan,
    resp_do_scan_keys, resp_do_keys, resp_do_dbsize;

/* Answers of resp_do_fixed(). */
enum resp_fixed { RESP_NO_DOCS, RESP_NO_CLUSTER };

/* A name and its value, as bulks. */
size_t resp_put_pair(uint8_t *out, const char *name, const char *value);

#define RESP_REDIS_VERSION "7.0.0"

/* ---- resp_auth.c ---- */

/* Determines who a new connection is, and what it may do. */
void resp_auth_begin(const struct resp_service *r, struct conn *c);

/* The rights of its token may have changed. */
void resp_auth_refresh(struct resp_call *call);

/* Whether the connection may give call->command. */
bool resp_auth_allows(struct resp_call *call);

/* Takes a token; name NULL: none was given. */
bool resp_auth_take(struct resp_call *call, const struct resp_arg *name,
                    const struct resp_arg *token);

/* ---- resp_job.c ---- */

/* What a command looks for among names. */
struct resp_wanted {
    enum { RESP_SCAN, RESP_KEYS, RESP_DBSIZE } list;
    uint64_t skip; /* names to be passed first */
    uint64_t left; /* names that may still be looked at */
    bool matches_type, has_pattern;
};

/* The answer of a command that is a job. */
struct resp_job {
    struct job job;
    uint64_t until_ms; /* of one that waits: monotonic; 0: no end */
    /* Set while it runs, and when it is done. */
    enum conn_next (*answer)(struct resp_call *call, struct resp_job *job);

    int error;         /* from here on zero when it begins */
    uint64_t position; /* names, or places of connections, listed */
    struct resp_wanted wanted;
    uint64_t keyspaces;
    bool at_end;   /* of the list */
    size_t count;  /* names found, as bulks in `rows` */
    size_t size;   /* of these, or of lines, in bytes */
    uint8_t *rows; /* and memory of `period` */
    struct store_listing *listing;

    int64_t first, last; /* rows of a period */
    enum resp_form form;
    struct history_query period;
    uint8_t keyspace[STORE_NAME_MAX]; /* its name */
    struct resp_pattern pattern;      /* of names; not zero */
};

/* The job of the connection, or one of which most is not touched yet. */
struct resp_job *resp_job_make(struct resp_call *call);

/* The job of a command, with a place, and memory for `size` bytes of rows.  NULL:
 * the command returns call->next. */
struct resp_job *resp_job_enter(struct resp_call *call, size_t size);

/* There is no more memory for it: the command returns this. */
enum conn_next resp_job_no_memory(struct resp_call *call);

/* It has all that it needs: the command returns this, and when step() says that
 * it is done answer() answers in place of the command. */
enum conn_next resp_job_run(struct resp_job *job,
                            bool (*step)(struct job *job, uint64_t until_ns),
                            enum conn_next (*answer)(struct resp_call *call,
                                                     struct resp_job *job));

/* Answers the command whose job has resp_job.answer, if it is done. */
enum conn_next resp_job_answer(struct resp_call *call);

/* Ends the job of the connection, if it has one. */
void resp_job_free(struct resp_state *s);

/* ---- resp_transaction.c ---- */
resp_function resp_do_multi, resp_do_exec, resp_do_discard, resp_do_wait;

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
