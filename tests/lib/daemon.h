/* tests/lib/daemon.h - the built programs as children of a test.
 *
 *     struct daemon d;
 *     daemon_start(&d, "countd-write", "-d", dir->path,
 *                  "-o", "write.ack_listen=127.0.0.1:0", NULL);
 *     fd = client_connect(daemon_port(&d, "write.ack_listen"));
 *     ...
 *     assert_int_equal(daemon_stop(&d), 0);
 *
 * Programs come from $BUILD, or from the build folder the test itself was
 * built in.  daemon_start returns when the daemon serves: it has written its
 * `name=address:port` lines and the empty one to --ready-fd.
 *
 * What a child prints goes to a file of its own that is shown when something
 * fails.  Every child is ended by pid, gets SIGKILL when the test dies, and
 * every wait has a deadline: a hanging daemon is a failed test, with its
 * messages.  The deadlines are those of test_deadline().
 *
 * Threads: start daemons from the test's main thread; they die with the
 * thread that started them.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_DAEMON_H
#define COUNTD_TESTS_LIB_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DAEMON_PORTS_MAX 8
#define DAEMON_ARGS_MAX  300

struct daemon_port {
    char name[32];
    char address[64];
    uint16_t port;
};

struct daemon {
    pid_t pid; /* 0: not running, or waited for */
    char program[32];
    int output; /* unlinked file with its stdout and stderr; -1 */
    struct daemon_port ports[DAEMON_PORTS_MAX];
    size_t port_count;
};

/* How to start it, where the plain way is not enough.  Zero is the default
 * of all but argv. */
struct daemon_how {
    const char *const *argv; /* without the program; NULL-terminated */
    const char *const *env;  /* NAME=VALUE added; NULL-terminated, or NULL */
    uid_t uid;               /* not 0: run as this user (root only) */
    bool not_ready;          /* do not pass --ready-fd, do not wait */
    bool may_fail;           /* exit before ready is an answer: see below */
};

/* Fails the test, showing the daemon's messages, unless it gets ready; returns 0,
 * or, with may_fail, the exit status (128 + signal) when it ended before it was
 * ready. */
int daemon_start_how(struct daemon *d, const char *program,
                     const struct daemon_how *how);

/* The same with these arguments. */
#define daemon_start(d, program, ...)                                          \
    (void)daemon_start_how(d, program, DAEMON_HOW(__VA_ARGS__))
#define DAEMON_HOW(...)                                                        \
    &(const struct daemon_how)                                                 \
    {                                                                          \
        .argv = (const char *const[])                                          \
        {                                                                      \
            __VA_ARGS__, NULL                                                  \
        }                                                                      \
    }

/* Port of a listening address by the name in its ready line; fails the test
 * when there is none. */
uint16_t daemon_port(const struct daemon *d, const char *name);
bool daemon_has_port(const struct daemon *d, const char *name);

void daemon_signal(const struct daemon *d, int signo);

/* Waits for its end: the exit status, or 128 + signal. */
int daemon_wait(struct daemon *d);

/* SIGTERM, then daemon_wait. */
int daemon_stop(struct daemon *d);

/* SIGKILL, then daemon_wait.  Harmless when it has ended already. */
void daemon_kill(struct daemon *d);

/* True while it runs; reaps nothing. */
bool daemon_alive(const struct daemon *d);

/* Bytes of peak anonymous memory (VmHWM less files is not kept by Linux:
 * RssAnon as of now); 0 when it has ended. */
uint64_t daemon_memory(const struct daemon *d);

/* The text that it has printed so far, NUL-terminated, cut to size - 1. */
size_t daemon_output(const struct daemon *d, char *text, size_t size);

/* The same, valid until the next call. */
const char *daemon_text(const struct daemon *d);

/* Waits until it has printed these words; the test fails when it ends before
 * that, or after half a minute times TEST_SLOW. */
void daemon_await_words(const struct daemon *d, const char *words);

/* Closes what is left of it (kills it when it runs). */
void daemon_fini(struct daemon *d);

/* Runs a program to its end and returns its exit status; `text` (may be NULL)
 * gets what it printed to stdout and stderr. */
int daemon_run_how(char *text, size_t size, const char *program,
                   const struct daemon_how *how);
#define daemon_run(text, size, program, ...)                                   \
    daemon_run_how(text, size, program, DAEMON_HOW(__VA_ARGS__))

/* The path of a built file, e.g. "countd-write"; an absolute one stays. */
void daemon_path(const char *program, char *path, size_t size);

/* A port that was free a moment ago, for servers that take no port 0: that
 * another takes it meanwhile is unlikely, as the kernel gives others first. */
uint16_t daemon_free_port(void);

/* How much slower than usual this build is: $TEST_SLOW, or 1. */
unsigned test_slow(void);

/* How long to wait, in ms, for what takes less than `ms` on a quiet machine:
 * eight times as long, and $TEST_SLOW times that.  A limit is for what hangs,
 * never for what is slow beside busy neighbours. */
uint64_t test_patience(uint64_t ms);

/* When such a wait ends, by clock_ms(). */
uint64_t test_deadline(uint64_t ms);

#endif
