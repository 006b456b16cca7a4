/* common/client/cmd/child.h - a daemon of countd serve, and the listening
 * sockets that serve keeps for it.
 *
 * serve is the service manager of its daemons, in the way of common/net/keeper.h: a
 * daemon that is started again gets the sockets that the one before it had kept.
 *
 * Errors: 0 or a negative errno.  The thread of serve. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_CHILD_H
#define COUNTD_COMMON_CLIENT_CMD_CHILD_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "common/client/cmd/cmd.h"
#include "common/net/keeper.h"

#define CHILD_READY_SIZE 512

/* A daemon: a process group of its own, so that a Ctrl-C reaches only serve,
 * which decides the order.  It gets SIGTERM when serve ends, however it ends.
 */
struct child {
    const char *program;
    pid_t pid;     /* 0: does not run, or its end was seen */
    int ready_fd;  /* -1: closed */
    bool is_ready; /* the child has written its empty line */
    int status;    /* as of waitpid(), once the child has ended */
    char lines[CHILD_READY_SIZE]; /* its ready lines; once it is ready, without
                                     the empty one */
    size_t lines_size;

    /* For serve: when to start it, and how often signals ended it. */
    uint64_t start_ms; /* monotonic; 0: not to be started */
    uint64_t deaths_since_ms;
    unsigned deaths; /* since then */

    /* The listening sockets that it has had kept, by name. */
    struct child_socket {
        int fd;
        char name[KEEPER_NAME_SIZE];
    } kept[KEEPER_MAX];
    size_t kept_count;
};

/* Where daemons say which sockets are to be kept. */
struct child_keeper {
    int fd;
    char name[sizeof((struct sockaddr_un *)NULL)->sun_path]; /* @ABSTRACT */
};

int child_keeper_open(struct child_keeper *k);

/* Takes what the daemons have said until now; that of other processes is
 * ignored. */
void child_keeper_take(const struct child_keeper *k, struct child *children,
                       size_t count);

int child_start(struct child *c, const struct config_sources *sources,
                const struct child_keeper *keeper);

/* Reads what the child wrote to its ready descriptor.  1: it is ready now; 0:
 * not yet, or the descriptor was closed; -EMSGSIZE: those are no ready lines;
 * or another negative errno. */
int child_read_lines(struct child *c);

/* True when the child has ended since the last call; c->status says how. */
bool child_has_ended(struct child *c);

/* "exited with status 111", "was killed by signal 9 (Killed)". */
void child_describe(const struct child *c, char *text, size_t size);

/* Closes the sockets that are kept for it. */
void child_drop_sockets(struct child *c);

#endif
