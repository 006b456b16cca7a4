/* tests/fuzz/fuzz_statsd.c - any bytes as datagrams and lines, with the settings
 * that change what they become.
 *
 * The first bytes choose: 1 timers are counted, 2 tags are part of the key, 4
 * Graphite's lines, 8 late lines have their minute; the sizes of names, less one; statsd.split and the length of
 * statsd.keyspace; the memory of the sums, from next to nothing to 8 MB.  What
 * follows is one datagram, or lines.
 *
 * Whatever the bytes: nothing ends the process; each name that is flushed makes
 * a record; lines are counted, malformed, ignored or lost, and no more lines
 * than there are; none is lost where statsd_has_memory() has found room for all,
 * and after an age it says yes again. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include "common/base/diag.h"
#include "writer/statsd/statsd.h"

#define CHOICES 6

static struct config
choose_config(const uint8_t *choice)
{
    struct config c = {.statsd_timers = (choice[0] & 1) != 0,
                       .statsd_tags = (choice[0] & 2) != 0,
                       .statsd_late_ms = (choice[0] & 8) != 0 ? 1000 : 0,
                       .graphite_late_ms = (choice[0] & 8) != 0 ? 1000 : 0,
                       .statsd_split = choice[3] & 3u,
                       .key_size = choice[1] + 1u};
    const size_t suffix = sizeof ".timer.count" - 1;
    size_t keyspace = (choice[3] >> 2) + 1u;

    /* As config_check() has it. */
    c.keyspace_size = choice[2] + 1u;
    if (c.keyspace_size < suffix + keyspace)
        c.keyspace_size = suffix + keyspace;
    memset(c.statsd_keyspace, 'k', keyspace);
    c.statsd_keyspace[keyspace] = '\0';
    (void)strcpy(c.graphite_count, "stats.*.count *");
    return c;
}

/* Flushes all names: each makes a record. */
static void
flush_names(struct statsd *s, const struct layout *l)
{
    uint8_t bytes[MESSAGE_SIZE_MAX];
    struct message m, parsed;

    while (aggregate_take(&s->sums, &m)) {
        assert(m.minute == 0 || s->config->statsd_late_ms > 0);
        assert(message_put(l, &m, bytes) == 0);
        assert(message_parse(l, bytes, &parsed) == 0);
    }
}

static void
take_bytes(struct statsd *s, bool graphite, const uint8_t *bytes, size_t size)
{
    struct fuzz_line line;

    while (graphite && fuzz_take_line(&bytes, &size, &line))
        statsd_take_line(s, GRAPHITE_LINE_PROTOCOL, line.at, line.size);
    if (size > 0)
        statsd_take_datagram(s, bytes, size);
}

/* Takes the bytes, and counts lines that are lost without need: as much as 6
 * bytes may need was free for each 6. */
static uint64_t
take_round(struct statsd *s, const uint8_t *bytes, size_t size)
{
    const bool graphite = (bytes[0] & 4) != 0;
    const size_t one = aggregate_name_size(MESSAGE_NAME_MAX, MESSAGE_NAME_MAX);
    const bool has_all =
        aggregate_free(&s->sums) >= (size / 6 + 1) * 2 * one + 2 * size;

    assert(statsd_has_memory(s, size - CHOICES));
    s->counts[STATSD_LINE_PROTOCOL][STATSD_NO_MEMORY] = 0;
    s->counts[GRAPHITE_LINE_PROTOCOL][STATSD_NO_MEMORY] = 0;
    take_bytes(s, graphite, bytes + CHOICES, size - CHOICES);
    return has_all ? s->counts[STATSD_LINE_PROTOCOL][STATSD_NO_MEMORY] +
                         s->counts[GRAPHITE_LINE_PROTOCOL][STATSD_NO_MEMORY]
                   : 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct loop *loop;
    static struct statsd s;
    struct config config;
    struct layout layout;

    if (size < CHOICES)
        return 0;
    if (!loop)
        loop = loop_new();
    assert(loop);
    diag_init("fuzz", DIAG_ERROR);
    config = choose_config(bytes);
    assert(layout_init(&layout, (unsigned)config.keyspace_size,
                       (unsigned)config.key_size) == 0);
    s = (struct statsd){.config = &config, .loop = loop};
    datagram_init(&s.datagrams);
    assert(aggregate_init(&s.sums, (((size_t)bytes[4] << 8 | bytes[5]) + 4096)
                                       << (bytes[0] >> 5)) == 0);
    for (int round = 0; round < 3; round++) {
        assert(take_round(&s, bytes, size) == 0);
        flush_names(&s, &layout);
        assert(aggregate_age(&s.sums) == 0);
    }
    for (int p = 0; p < STATSD_PROTOCOLS; p++)
        assert(s.counts[p][STATSD_BAD] + s.counts[p][STATSD_NO_MEMORY] <=
               s.counts[p][STATSD_LINES]);
    aggregate_fini(&s.sums);
    return 0;
}
