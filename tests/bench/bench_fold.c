/* tests/bench/bench_fold.c - what a worker spends on an increment before the
 * store sees it: reading a slot, checking it, adding it; then putting the sums
 * in order.
 *
 *     bench_fold [--quick]
 *
 * The logs are in memory.  Times are of this process's CPU, so other load
 * disturbs them less. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/log/slot.h"
#include "tests/bench/bench.h"
#include "tests/lib/memory_log.h"
#include "tests/lib/random.h"
#include "worker/fold.c"

#define SLOTS  60000u /* a log of 32 MB */
#define MEMORY ((size_t)192 << 20)

static uint8_t *file;
static struct log sealed;
static struct random numbers = {1};

static void
fill_log(unsigned keys, unsigned keyspaces, uint64_t ms)
{
    const struct layout *l = &sealed.layout;
    const struct slot_stamp stamp = {.received_ms = ms};
    char keyspace[32], key[32];
    struct message m, in;

    for (uint32_t i = 0; i < SLOTS; i++) {
        const unsigned number = (unsigned)random_below(&numbers, keys);
        uint8_t *slot = file + (size_t)i * l->slot_size;

        m.increment = 1;
        m.keyspace = (const uint8_t *)keyspace;
        m.key = (const uint8_t *)key;
        m.keyspace_size = (uint16_t)snprintf(
            keyspace, sizeof keyspace, "keyspace-%010u", number % keyspaces);
        m.key_size = (uint16_t)snprintf(key, sizeof key, "key-%08u-abcd",
                                        number / keyspaces);
        assert_rc(message_put(l, &m, slot), 0);
        assert_rc(message_parse(l, slot, &in), 0);
        slot_put_run(
            &(struct slot_fill){l, sealed.header.uuid, sealed.header.epoch},
            slot, &in, 1, i, &stamp);
    }
}

static void
bench_keys(struct fold *f, unsigned keys, unsigned keyspaces, unsigned logs)
{
    const struct fold_keyspace *k;
    double fold_ns = 0, sort_ns, since;
    size_t entries = 0, count;
    struct store_delta *deltas;

    for (unsigned i = 0; i < logs; i++) {
        fill_log(keys, keyspaces, 1700000000000 + i * 100);
        since = bench_cpu_ns(0);
        assert_rc(fold_add(f, &sealed, i), 0);
        fold_ns += bench_cpu_ns(0) - since;
    }
    since = bench_cpu_ns(0);
    for (k = f->first; k; k = k->next) {
        count = fold_deltas(f, k, NULL, &deltas);
        entries += count;
    }
    sort_ns = bench_cpu_ns(0) - since;
    printf("fold  keys=%u keyspaces=%u logs=%u: %.0f ns a slot, %.2f M/s; "
           "sort %.0f ns a key; %zu MB\n",
           keys, keyspaces, logs, fold_ns / logs / SLOTS,
           1e3 * logs * SLOTS / fold_ns, sort_ns / (double)entries,
           fold_memory(f) >> 20);
    assert_rc(fold_clear(f), 0);
}

int
main(int argc, char **argv)
{
    const unsigned logs = bench_begin(argc, argv) ? 4 : 32;
    struct fold f;

    file = memory_log_open(&sealed, SLOTS, 256);
    sealed.header.count = SLOTS;
    assert_rc(fold_open(&f, MEMORY, 64), 0);
    bench_keys(&f, 1000000, 100, logs);
    bench_keys(&f, 1000000, 1, logs);
    bench_keys(&f, 10000, 10, logs);
    fold_close(&f);
    memory_log_close(&sealed, file);
    return 0;
}
