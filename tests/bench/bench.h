/* tests/bench/bench.h - how a bench begins, and the processes that it starts
 * and looks at.
 *
 * A bench takes --quick, which shortens it, and options of its own that are
 * numbers.  Programs come from $BUILD, or from the build folder of the bench
 * itself.  Directories are made in $TMPDIR, or /var/tmp: syncs count, and /tmp
 * may be memory.  Any trouble ends the bench with a message. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_BENCH_H
#define COUNTD_TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Returns whether --quick was given. */
bool bench_begin(int argc, char **argv);

/* The number after an option of the command line, "--keys"; else `normal`. */
uint64_t bench_number(const char *option, uint64_t normal);

/* The result of a system call, which must not be negative. */
long must(long result, const char *what);

/* Memory that is never freed. */
void *need(size_t count, size_t size);

/* fork() whose child is killed when this process ends. */
pid_t bench_fork(void);
void bench_kill(pid_t pid);

/* Processor time of a process; 0: this one. */
double bench_cpu_ns(pid_t pid);

/* The number that /proc/PID/FILE has behind `field`, "VmRSS:"; 0: this process. */
double bench_proc(pid_t pid, const char *file, const char *field);

/* Waits until `count` logs are in the data directory and all that was written
 * is on disk: a new daemon serves while it makes its logs. */
void await_logs(const char *data_dir, size_t count);

/* Empties full logs as a worker does, but merges nothing, until none came for
 * 100 ms; or for ever. */
void empty_logs(const char *data_dir, bool for_ever);

#endif
