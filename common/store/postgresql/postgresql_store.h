/* common/store/postgresql/postgresql_store.h - the engine of
 * common/store/store.h whose counters are rows of a PostgreSQL database, into
 * which several data directories can count.
 *
 * The changes of a batch, its marks and its history are one transaction, and a
 * batch is applied when COMMIT has returned without a warning: with a
 * synchronous standby the counts then survive the loss of a machine.
 *
 * Every statement, or run of statements that are sent together, is answered
 * within `timeout_ms`, or the connection is given up (-EHOSTDOWN).  A connection
 * is made again when it is needed, at most once a second while that fails; what
 * was being committed when one was lost has an unknown outcome (-EIO), which
 * the marks show.  store_trouble() has the text of the last error.
 *
 * Errors as in store.h, and:
 *   -EHOSTDOWN  also: a standby was reached, or a server that is starting, or a
 *               database that has lost commits of this directory
 *   -EAGAIN     also: a deadlock, or a lock of another session was not given
 *               up in half of `timeout_ms`
 *   -EPERM      tables or privileges are missing, or the server was refused:
 *               it is older than 13, or does not keep what it commits
 *
 * Traits: none. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_POSTGRESQL_POSTGRESQL_STORE_H
#define COUNTD_COMMON_STORE_POSTGRESQL_POSTGRESQL_STORE_H

#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/setup/status.h"
#include "common/store/store.h"

#define POSTGRESQL_LANES_MAX 16

struct postgresql_options {
    const struct config *config; /* store.*, keyspace.*, history; borrowed */
    bool writable;
    const struct datadir *sender; /* whose commits are numbered, or, if not
                                     writable, that of store_as_of();
                                     borrowed; NULL: none */
    bool connects_later;          /* when it is used, not when it is opened */
    bool quiet;     /* errors are not reported, but in store_trouble() */
    bool repairs;   /* a database that is behind is used, without numbers */
    unsigned lanes; /* each with a connection of its own; 0: one */
    bool history_of_new; /* `history` applies only to keyspaces without keys;
                            stored history keeps its tiers */
};

/* Opens the engine, and connects.  What waiting mends (-EHOSTDOWN) is reported
 * and left to later calls; after another error there is no store.
 *   -EPERM   the text was reported
 *   -ENOMEM; -EBADMSG, ...: data/store cannot be read, which is reported */
int postgresql_store_open(struct store **out,
                          const struct postgresql_options *options);

/* Makes the tables of the schema, which must not be there.  -EEXIST: they are.
 * Text for people is in store_trouble(). */
int postgresql_store_init(struct store *s);

/* The statements of postgresql_store_init(), for a schema: NUL-terminated,
 * from malloc(); NULL: no memory. */
char *postgresql_schema_text(const char *schema);

/* Moves a keyspace of another store here (store_move()), in one transaction; what
 * was moved before a process was killed is not moved twice.
 *   -ENOTEMPTY  it has counts or history here */
int postgresql_store_import(struct store *s, struct store *from,
                            const uint8_t *name, size_t name_size,
                            uint64_t *keys);

/* Has the server count what imports have added: until then it may take the table
 * for an empty one, and read all of a keyspace for a few rows. */
int postgresql_store_analyze(struct store *s);

/* With `sender` and `repairs`: goes on with a database that is behind.  Says how
 * many transactions of this directory it has, of how many; 0 of 0: it is not. */
int postgresql_store_accept(struct store *s, uint64_t *has, uint64_t *acked);

/* Forgets a data directory: as_of waits for it no longer, until it says something
 * again.  -ENOENT. */
int postgresql_store_forget(struct store *s, const char *id);

/* Says that the directory `sender` has nothing that is not here, and gets nothing
 * more: as_of of others does not wait for it, until its worker says something
 * again (store_maintain()).  Another engine has nothing to say. */
void postgresql_store_end(struct store *s);

/* Puts the figures from STATUS_M_DB_DOWN on; of another engine nothing. */
void postgresql_store_figures(const struct store *s,
                              int64_t values[STATUS_FIGURES]);

/* What `countd store` prints, a line per fact. */
int postgresql_store_report(struct store *s,
                            void (*line)(void *ctx, const char *name,
                                         const char *value),
                            void *ctx);

#endif
