/* tests/bench/live_load.h - load for servers of the counter protocol.
 *
 * One thread keeps `depth` requests under way on each of `conns` connections
 * and notes how long each answer took.  Names have 20 bytes.  Any trouble
 * ends the program with a message.
 */
#ifndef COUNTD_TESTS_BENCH_LIVE_LOAD_H
#define COUNTD_TESTS_BENCH_LIVE_LOAD_H

#include <stddef.h>
#include <stdint.h>

#define LIVE_NAME_SIZE 20

enum live_work {
    LIVE_PAIRS, /* Acquire of 1, Release of 1, of one of `names` */
    LIVE_GETS
};

struct live_load {
    enum live_work work;
    unsigned conns, depth;
    uint64_t names;
    uint64_t ms;
};

struct live_figures {
    double per_second;             /* requests; of pairs: pairs */
    double p50_us, p99_us, max_us; /* of a request */
};

void live_load_run(const struct live_load *l, uint16_t port,
                   struct live_figures *out);

/* A connection for the next three. */
int live_load_connect(uint16_t port);

/* Takes one of each name from `from` to `to` - 1: seconds. */
double live_load_fill(int fd, uint64_t from, uint64_t to);

/* A Dump: seconds until its end has come.  *records is what came. */
double live_load_dump(int fd, uint64_t *records);

/* Get after Get until `stop_fd` can be read; for a process of its own. */
void live_load_probe(int fd, int stop_fd, struct live_figures *out);

#endif
