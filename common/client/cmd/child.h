/* common/client/cmd/child.h - a daemon that `countd serve` runs.
 *
 * Each child is a process group of its own: a Ctrl-C reaches only serve, which
 * decides the order.  A child gets SIGTERM when serve ends, however it ends.
 *
 * Threads: one; children die with the thread that started them.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_CHILD_H
#define COUNTD_COMMON_CLIENT_CMD_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/setup/config.h"

#define WORKERS_MAX      64
#define CHILD_READY_SIZE 512

struct child {
    const char *program;
    pid_t pid;     /* 0: does not run, or its end was seen */
    int ready_fd;  /* -1: closed */
    bool is_ready; /* the child has written its empty line */
    int status;    /* as of waitpid(), once the child has ended */
    char lines[CHILD_READY_SIZE]; /* its ready lines, NUL-terminated */
    size_t lines_size;

    /* For serve: when to start it, and how often signals ended it. */
    uint64_t start_ms; /* monotonic; 0: not to be started */
    uint64_t deaths_since_ms;
    unsigned deaths; /* since then */
};

/* Starts the program that stands beside our own, else the one in $PATH. */
int child_start(struct child *c, const struct config_sources *sources);

/* Reads what the child wrote to its ready descriptor.  1: it is ready now; 0:
 * not yet, or the descriptor was closed; -EMSGSIZE: those are no ready lines;
 * or another negative errno. */
int child_read_lines(struct child *c);

/* Returns true when the child has ended since the last call; c->status says
 * how. */
bool child_has_ended(struct child *c);

/* "exited with status 111", "was killed by signal 9 (Killed)". */
void child_describe(const struct child *c, char *text, size_t size);

#endif
