/* common/store/postgresql/pg.h - what the files of postgresql_store.h share.
 *
 *     pg_schema.c      the tables, and what is checked of a server
 *     pg_statements.c  the statements
 *     pg_params.c      parameters and results, binary; arrays
 *     pg_connection.c  a connection, its deadlines and errors
 *     pg_keyspace.c    transactions; a keyspace's row; marks
 *     pg_bands.c       where in the order by count a row is
 *     pg_history.c     history: its kv is a table
 *     pg_apply.c       store_apply(), store_del(), store_drop()
 *     pg_import.c      postgresql_store_import()
 *     pg_read.c        store_read()
 *     pg_check.c       store_check()
 *     pg_report.c      figures of the database, and what countd store says
 *     pg_sender.c      what this directory's commits have been, and data/store
 *
 * Locks: a transaction that changes anything has locked the row of its keyspace
 * first, and of its lane last: all that a keyspace has is changed by one
 * transaction at a time, and two of countd's cannot wait for each other. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_POSTGRESQL_PG_H
#define COUNTD_COMMON_STORE_POSTGRESQL_PG_H

#include <libpq-fe.h>
#include <stdarg.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/setup/status.h"
#include "common/store/history/history.h"
#include "common/store/kv.h"
#include "common/store/postgresql/postgresql_store.h"
#include "common/wire/cell.h"

#define PG_CHUNK       20000 /* keys of a statement, at most */
#define PG_CHUNK_LEAST 100
#define PG_BATCH       64 /* statements sent together */

/* ---- statements (pg_statements.c) --------------------------------------- */

enum pg_statement {
    PG_BEGIN,
    PG_BEGIN_READ,
    PG_COMMIT,
    PG_ROLLBACK,
    PG_SERVER,
    PG_FACTS,
    PG_SENDERS,
    PG_BLOCKED,
    PG_CREATE,
    PG_COUNT_KEYSPACES,
    PG_LOCK,
    PG_LOCK_FREE,
    PG_FIND,
    PG_KEYSPACE_PUT,
    PG_MARKS,
    PG_MARK_PUT,
    PG_IMPORT_MARKS_CLEAR,
    PG_EACH_MARK,
    PG_OLD,
    PG_PUT,
    PG_GET,
    PG_TOP,
    PG_FAR,
    PG_RANK,
    PG_KEYS,
    PG_DEL,
    PG_DROP,
    PG_BANDS,
    PG_BAND_PUT,
    PG_BAND_DEL,
    PG_BAND_CLEAR,
    PG_SPLIT,
    PG_BLOCK_AFTER,
    PG_BLOCK_BEFORE,
    PG_BLOCK_PUT,
    PG_BLOCK_DEL,
    PG_BLOCK_CLEAR,
    PG_COUNTS,
    PG_LIST,
    PG_DUE,
    PG_LANES,
    PG_SEND,
    PG_ACCEPT,
    PG_TICK,
    PG_AS_OF,
    PG_END,
    PG_RESUME,
    PG_ALONE,
    PG_FORGET,
    PG_STATEMENTS
};

extern const char *const pg_statements[PG_STATEMENTS];

/* ---- parameters and results (pg_params.c) -------------------------------- */

/* An array parameter.  A lack of memory is remembered: pg_run() says so. */
struct pg_array {
    uint8_t *bytes;
    size_t size, capacity;
    uint32_t count;
    bool failed;
};

/* Begins an array of bytea (b), bigint (q) or boolean (o). */
void pg_array_begin(struct pg_array *a, char type);
void pg_array_add(struct pg_array *a, const void *bytes, size_t size);
void pg_array_add_bigint(struct pg_array *a, int64_t value);

#define PG_PARAMS_MAX 7

/* A call is not moved once it has parameters: they point into it. */
struct pg_call {
    enum pg_statement statement;
    int count;
    const char *values[PG_PARAMS_MAX];
    int sizes[PG_PARAMS_MAX];
    uint8_t numbers[PG_PARAMS_MAX][8];
    bool failed;            /* an array had no memory */
    const PGresult *result; /* after pg_run(), until the next one */
};

/* Makes a call with parameters, a letter each in `types`:
 *
 *     i  int32_t     q  int64_t     t  const char *, text
 *     b  const uint8_t *, size_t    a  struct pg_array * */
void pg_call(struct pg_call *c, enum pg_statement statement, const char *types,
             ...);
void pg_call_list(struct pg_call *c, enum pg_statement statement,
                  const char *types, va_list list);

int64_t pg_bigint(const PGresult *r, int row, int column); /* NULL: 0 */
bool pg_bool(const PGresult *r, int row, int column);
const uint8_t *pg_bytes(const PGresult *r, int row, int column, size_t *size);
void pg_text(const PGresult *r, int row, int column, char *text, size_t size);

/* Takes a key or name.  -EBADMSG: it is too long. */
int pg_key(const PGresult *r, int row, int column, uint8_t key[STORE_NAME_MAX],
           size_t *size);

/* ---- a connection (pg_connection.c) -------------------------------------- */

/* The first row of a band, and how many rows there are from it to the next. */
struct pg_band {
    int64_t count;
    int64_t keys, stored_keys; /* -1: it is not stored */
    size_t size;
    uint8_t key[STORE_NAME_MAX];
};

/* Bands of one keyspace, as of its `change`. */
struct pg_bands {
    struct pg_band *bands;
    size_t count, capacity;
    int32_t keyspace; /* 0: none */
    int64_t change, nonce;
};

#define PG_ARRAYS  5
#define PG_FIGURES (STATUS_M_DB_COMMIT_MS - STATUS_M_DB_DOWN + 1)

struct pg {
    struct store store; /* first: the handle */
    struct postgresql_options options;
    struct pg *lanes[POSTGRESQL_LANES_MAX]; /* behind lane 0, which is this */
    PGconn *connection;                     /* NULL: none */
    unsigned lane;                          /* which this is */
    struct pg_sender *sender; /* sender of all lanes; NULL: none */

    /* Figures of the database from STATUS_M_DB_DOWN on, as all lanes see it, in
     * lane 0: of those before STATUS_M_DB_UNSAFE when they were seen last,
     * clock_ms(). */
    _Atomic int64_t figures[PG_FIGURES];
    _Atomic int64_t *health;
    bool is_repairing; /* the database is behind, and may be */
    int64_t skew; /* ms that this clock is ahead of the server's, at most */
    struct store_as_of as_of; /* of the turn */
    uint64_t sent;            /* the number of the transaction under way */
    bool in_turn;             /* a reading transaction is open */
    bool warned;              /* in this run */
    bool was_told;            /* warnings about the server are printed */
    uint64_t retry_at_ms;     /* no connection is tried before */
    uint64_t retry_wait_ms;
    uint64_t look_at_ms; /* at the server's settings */
    uint64_t tick_at_ms; /* pg_sender_tick() is not called before */

    /* A round of compaction goes over all keyspaces with history. */
    uint64_t round_ms;                /* none begins before */
    uint8_t round_at[STORE_NAME_MAX]; /* the last one of it; size 0: none */
    size_t round_at_size;
    bool round_again; /* one of them has more to do */

    size_t chunk; /* keys of a statement: fewer while the server is slow */
    struct diag_repeat repeat;
    char trouble[512];
    struct history_compact *compact;
    struct pg_bands bands;
    struct pg_array arrays[PG_ARRAYS]; /* of the statement that is made */
    PGresult *results[PG_BATCH];       /* of the last pg_run() */
    struct pg_array blocks[2];         /* keys and values, not sent yet */
};

static inline struct pg *
pg_of(struct store *s)
{
    return (struct pg *)(void *)s;
}

/* Connects, if it is not connected: 0, or why not. */
int pg_connect(struct pg *s);
void pg_disconnect(struct pg *s);

/* Looks at the server and its tables: whether countd can count on them
 * (pg_schema.c). */
int pg_server_check(struct pg *s);

/* Notes that the database has this trouble: STATUS_M_DB_DOWN, ... */
void pg_saw(struct pg *s, enum status_figure figure);

/* Runs calls, sent together: 0 and all results, or an error and none.  After
 * an error within a transaction follows pg_end(). */
int pg_run(struct pg *s, struct pg_call *calls, size_t count);

/* Runs one statement, of parameters as for pg_call(); `out` or NULL. */
int pg_ask(struct pg *s, const PGresult **out, enum pg_statement statement,
           const char *types, ...);

/* The result of pg_ask(), from now on the caller's: PQclear(). */
PGresult *pg_keep(struct pg *s);

/* As pg_run() does first. */
void pg_clear_results(struct pg *s);

/* Begins the arrays of a statement, of a type each: s->arrays. */
void pg_arrays(struct pg *s, const char *types);

/* Runs a text of several statements, on a connection without prepared ones. */
int pg_run_script(struct pg *s, const char *text);

void pg_set_trouble(struct pg *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Says it on stderr, at most once a minute. */
void pg_report_trouble(struct pg *s);

/* ---- transactions, keyspaces and marks (pg_keyspace.c) -------------------- */

struct pg_keyspace {
    int32_t id;
    int64_t keys, saturated, change, nonce;
    int128 sum;
    size_t history_size; /* 0: no history */
    uint8_t history[HISTORY_STATE_MAX];
};

/* Ends a reading turn, if one is open, and begins a transaction that changes
 * something: locks the keyspace's row by PG_LOCK or PG_LOCK_FREE.  -ENOENT:
 * there is none, and the transaction is open. */
int pg_begin(struct pg *s, enum pg_statement lock, const uint8_t *name,
             size_t size, struct pg_keyspace *k);

/* Commits if rc is 0, else rolls back and returns rc.  0: durable, as the
 * database understands it.  -EIO: the outcome is unknown. */
int pg_end(struct pg *s, int rc);

/* Begins a reading turn, if none is open; its statements see one moment. */
int pg_begin_turn(struct pg *s);
void pg_read_end(struct store *store);

/* Deletes all rows of a keyspace by PG_DROP or PG_BLOCK_CLEAR. */
int pg_clear(struct pg *s, enum pg_statement statement, int32_t id);

/* Reads the row of PG_FIND or PG_LOCK.  -ENOENT, -EBADMSG. */
int pg_keyspace_get(const PGresult *r, struct pg_keyspace *k);
int pg_keyspace_find(struct pg *s, const uint8_t *name, size_t size,
                     struct pg_keyspace *k);

/* Makes the row, locked.  -EDQUOT: too many have keys; -EAGAIN: it went. */
int pg_keyspace_create(struct pg *s, const uint8_t *name, size_t size,
                       struct pg_keyspace *k);

/* The statement that stores it; `sum` is for it to point to.  `changed`: answers
 * differ from now on. */
void pg_keyspace_call(struct pg_call *c, const struct pg_keyspace *k,
                      bool changed, char sum[CELL_SUM_SIZE]);
int pg_keyspace_put(struct pg *s, const struct pg_keyspace *k, bool changed);

int pg_marks_read(struct pg *s, int32_t id, const struct log_fill *marks,
                  size_t count, struct store_mark_info *infos);

/* The statement that stores them. */
void pg_marks_call(struct pg *s, struct pg_call *c, int32_t id,
                   const struct log_fill *marks, size_t count);

/* The last statements before COMMIT: marks, the row if it has changed, and the
 * sender's number. */
int pg_put_rest(struct pg *s, const struct pg_keyspace *k,
                const struct log_fill *marks, size_t count, bool changed);

/* The lane of a keyspace. */
struct pg *pg_lane(struct store *store, const uint8_t *name, size_t size);

/* ---- the sender (pg_sender.c) ---------------------------------------------- */

#define PG_SENDER_FILE "store" /* in the data directory */
#define PG_SENDER_SIZE 16

int pg_sender_open(struct pg_sender **out, const struct datadir *d);
void pg_sender_close(struct pg_sender *p); /* NULL is fine */

/* After a connection is made.  -EHOSTDOWN: the database is behind. */
int pg_sender_check(struct pg *s);

/* The statement before COMMIT, false: there is none; its result, -EHOSTDOWN as
 * above; COMMIT was acknowledged. */
bool pg_sender_call(struct pg *s, struct pg_call *c);
int pg_sender_sent(struct pg *s, const PGresult *r);
void pg_sender_acked(struct pg *s);

int pg_settle(struct store *store);

/* Takes the server's time, which was read before now. */
void pg_sender_compare_clocks(struct pg *s, int64_t server_ms);

/* Says that all that was stamped up to then, by this clock, is applied. */
int pg_sender_tick(struct pg *s, uint64_t as_of_ms);

/* Begins a turn and asks what its snapshot has of each directory. */
int pg_sender_begin_turn(struct pg *s);
int pg_as_of(struct store *store, struct store_as_of *out);

/* 1: no other directory counts into this database; 0: one may. */
int pg_sender_is_alone(struct pg *s);

/* ---- bands (pg_bands.c) --------------------------------------------------- */

/* Loads the bands of a locked keyspace, unless they are as it left them. */
int pg_bands_load(struct pg *s, const struct pg_keyspace *k);

/* Counts a row in its band: 1, or -1. */
void pg_bands_count(struct pg *s, int64_t count, const uint8_t *key,
                    size_t size, int more);

/* Counts a row that comes behind all others. */
int pg_bands_append(struct pg *s, int64_t count, const uint8_t *key,
                    size_t size);

/* Stores the bands that have changed.  They are as of the keyspace's next
 * change from then on. */
int pg_bands_put(struct pg *s, const struct pg_keyspace *k);

/* ---- history (pg_history.c) ----------------------------------------------- */

/* What a transaction changes in the history of a keyspace. */
struct pg_history_change {
    struct history_of of; /* before */
    int128 clipped;       /* what the counts could not hold */
    struct history_erasure *erased;
    size_t erased_count;
};

/* The history of a keyspace as it is. */
struct history_of pg_history_of(const struct pg *s, const uint8_t *name,
                                size_t size, const struct pg_keyspace *k);

int pg_history_change(struct pg *s, struct pg_keyspace *k,
                      const struct pg_history_change *change);
int pg_history_check(struct pg *s, const struct pg_keyspace *k,
                     const struct history_whole *whole,
                     struct history_check *check);

/* ---- the engine's functions ---------------------------------------------- */

int pg_apply(struct store *store, const struct store_batch *batch,
             struct store_applied *applied);
int pg_marks(struct store *store, const struct store_batch *b,
             struct store_mark_info *infos);
int pg_each_mark(struct store *store, const uint8_t *name, size_t size,
                 int (*mark)(void *ctx, const struct log_fill *m,
                             const struct store_mark_info *info),
                 void *ctx);
int pg_read(struct store *store, struct store_query *q, size_t size_max);
int pg_history(struct store *store, struct store_history_query *q,
               uint64_t until_ns);
bool pg_maintain(struct store *store, const struct store_maintenance *t);
int pg_check(struct store *store, const uint8_t *name, size_t size,
             struct store_check *asked);
int pg_drop(struct store *store, const uint8_t *name, size_t size);
int pg_del(struct store *store, struct store_deletion *d);

/* The engine that a listing belongs to. */
extern const struct store_engine pg_engine;

#endif
