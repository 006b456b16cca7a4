/* tests/bench/await_logs.h - a new daemon serves while it makes its logs. */
#ifndef COUNTD_TESTS_BENCH_AWAIT_LOGS_H
#define COUNTD_TESTS_BENCH_AWAIT_LOGS_H

#include <stddef.h>

/* Waits until `count` logs are in the data directory and all that was written
 * is on disk, so that what is measured next does not share the disk with it. */
void await_logs(const char *data_dir, size_t count);

#endif
