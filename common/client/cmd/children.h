/* common/client/cmd/children.h - the daemons that `countd serve` runs.
 *
 * Each child is a process group of its own, so that a Ctrl-C reaches only us
 * and we decide the order; it gets SIGTERM when we die, however we die.
 *
 * Ownership: one struct children, init to fini; fini kills what still runs.
 * Threads: one; children die with the thread that started them.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_CHILDREN_H
#define COUNTD_COMMON_CLIENT_CMD_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/setup/config.h"

#define CHILDREN_MAX        66 /* a writer, a reader, 64 workers */
#define CHILDREN_READY_SIZE 512

struct child {
    const char *program;
    pid_t pid;    /* 0: not started, or its end was noticed */
    int ready_fd; /* -1: closed */
    bool ready;   /* it has written its empty line */
    bool started;
    int status;                      /* as of waitpid(), once it has ended */
    char lines[CHILDREN_READY_SIZE]; /* what it said, NUL-terminated */
    size_t lines_size;
};

struct children {
    const struct config_sources *sources; /* borrowed */
    struct child child[CHILDREN_MAX];
    size_t count;
};

void children_init(struct children *c, const struct config_sources *sources);

/* Adds one that is to be started later; returns its index. */
size_t children_add(struct children *c, const char *program);

/* Starts it: next to our own binary, else by $PATH. */
int children_start(struct children *c, size_t index);

/* Takes what it wrote to its ready descriptor.  1: it is ready now; 0: not
 * yet, or closed; a negative errno: it wrote what no daemon writes. */
int children_read(struct children *c, size_t index);

/* Takes notice of one child that ended: its index, or -1. */
int children_reap(struct children *c);

bool children_run(const struct children *c); /* any of them */
bool children_program_runs(const struct children *c, const char *program);

/* Sends a signal to those that run; `program` NULL: to all. */
void children_signal(const struct children *c, const char *program, int signo);

/* "exited with status 111", "was killed by signal 9 (Killed)". */
void children_describe(const struct child *child, char *text, size_t size);

void children_fini(struct children *c);

#endif
