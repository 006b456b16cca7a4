/* tests/bench/live_ceiling.h - the least a server of the counter protocol can
 * do: reads what has come, answers every request with a success, and knows no
 * names.  A Dump has `records` records of LIVE_NAME_SIZE bytes.
 */
#ifndef COUNTD_TESTS_BENCH_LIVE_CEILING_H
#define COUNTD_TESTS_BENCH_LIVE_CEILING_H

#include <stdint.h>
#include <sys/types.h>

/* A child that ends with this process; its port. */
pid_t live_ceiling_start(uint16_t *port, uint64_t records);

#endif
