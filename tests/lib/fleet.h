/* tests/lib/fleet.h - a data directory and the daemons on it.
 *
 *     fleet_init(&f);
 *     fleet_option(&f, "log.size=64K");
 *     fleet_start(&f, FLEET_WRITE);
 *     fleet_start(&f, FLEET_WORKER);
 *     fd = client_connect(fleet_ack_port(&f));
 *     ...
 *     fleet_fini(&f);
 *
 * Every daemon gets the same options, listens on port 0 of loopback, and can
 * be killed and started again any number of times.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_FLEET_H
#define COUNTD_TESTS_LIB_FLEET_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/daemon.h"
#include "tests/lib/model.h"
#include "tests/lib/tmpdir.h"

enum fleet_role {
    FLEET_WRITE,
    FLEET_READ,
    FLEET_WORKER, /* and the two behind it */
    FLEET_WORKER2,
    FLEET_WORKER3,
    FLEET_ROLES
};

#define FLEET_OPTIONS_MAX 24
#define FLEET_OPTION_SIZE 320

struct fleet {
    char path[512]; /* the data directory */
    struct tmpdir dir;
    bool owns_dir;
    struct daemon daemons[FLEET_ROLES]; /* pid 0: not running */
    char options[FLEET_OPTIONS_MAX][FLEET_OPTION_SIZE];
    size_t option_count;
    const char *const *env; /* of every daemon; or NULL */
    uid_t uid;              /* not 0: run as this user */
};

/* A fresh directory, small logs handed on early. */
void fleet_init(struct fleet *f);

/* The same in memory, for tests that make many and need no disk. */
void fleet_init_in_memory(struct fleet *f);

/* The same on a directory that is there. */
void fleet_init_at(struct fleet *f, const char *path);

/* Ends what still runs, removes the directory it made. */
void fleet_fini(struct fleet *f);

/* Adds KEY=VALUE; a later one rules. */
void fleet_option(struct fleet *f, const char *option);
void fleet_add_options(struct fleet *f, const char *const *options);
#define fleet_options(f, ...)                                                  \
    fleet_add_options(f, (const char *const[]){__VA_ARGS__, NULL})
void fleet_put_option(struct fleet *f, const char *key, const char *value);

void fleet_start(struct fleet *f, enum fleet_role role);

/* The same with these options more, from now on. */
#define fleet_start_with(f, role, ...)                                         \
    (fleet_options(f, __VA_ARGS__), fleet_start(f, role))
struct daemon *fleet_daemon(struct fleet *f, enum fleet_role role);

/* SIGTERM and 0 expected; fails the test otherwise. */
void fleet_stop(struct fleet *f, enum fleet_role role);
void fleet_stop_all(struct fleet *f); /* the writer first, the reader last */

uint16_t fleet_silent_port(struct fleet *f);
uint16_t fleet_ack_port(struct fleet *f);
uint16_t fleet_ask_port(struct fleet *f); /* read.http */
uint16_t fleet_writer_port(struct fleet *f, const char *name);
uint16_t fleet_read_port(struct fleet *f);

/* A connection to the writer's port for HTTP, or the reader's for Redis. */
int fleet_http(struct fleet *f);
int fleet_resp(struct fleet *f);

/* Runs the countd command on it to its end; what it printed is in `text`
 * (tests/lib/expect.h).  `words` is NULL-terminated.  Returns its status. */
int fleet_run(struct fleet *f, const char *const *words);
#define FLEET_RUN(f, ...) fleet_run(f, (const char *const[]){__VA_ARGS__, NULL})

/* The options that fleet_run() gives to the command, as words of a shell, but
 * for the directory. */
void fleet_put_options(struct fleet *f, char *line, size_t size);

/* Starts it and does not wait. */
void fleet_begin(struct fleet *f, struct daemon *d, const char *const *words);

/* The next five look at the directory themselves, without the daemons, and
 * must run as its owner or root. */

/* True when no log holds an increment that is not merged and nothing is held:
 * headers and slots are read, modes are not believed. */
bool fleet_is_drained(const struct fleet *f);

/* The same of the logs alone. */
bool fleet_logs_are_drained(const struct fleet *f);

/* Waits for it as long as the workers live; fails the test at the deadline,
 * naming what is left. */
void fleet_await_drained(struct fleet *f, int timeout_ms);

/* Fails the test when a log was quarantined or a keyspace file has a fault. */
void fleet_check(const struct fleet *f);

/* Reads every count of every keyspace into the model. */
void fleet_look(const struct fleet *f, struct model *m);

#endif
