/* tests/fuzz/fuzz_statsd_line.c - any bytes as StatsD lines.
 *
 * The first byte chooses: 1 timers are counted, 2 tags are part of the key; the
 * second is the longest key, less one.
 *
 * Whatever the bytes: nothing outside a line is read; a malformed line adds
 * nothing and says why; a line gives the same increments each time; keys are of
 * 1 to key_size bytes without NUL; increments are within 64 bits; what is added
 * for a timer is its number and its sum, which are not below 0. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "writer/statsd/statsd_line.h"

struct seen {
    const struct config *config;
    size_t counts, timers, sums;
    int128 total;
};

static void
see_part(void *ctx, const struct statsd_sum *sum, int128 millionths)
{
    const int128 bound =
        ((int128)INT64_MAX + 1) * DECIMAL_MILLIONTHS + DECIMAL_MILLIONTHS;
    struct seen *s = ctx;

    assert(sum->key_size >= 1 && sum->key_size <= s->config->key_size);
    assert(memchr(sum->key, '\0', sum->key_size) == NULL ||
           s->config->statsd_tags);
    assert(millionths < bound && millionths > -bound);
    assert(sum->part == STATSD_PART_COUNTER ||
           (s->config->statsd_timers && millionths >= 0));
    s->counts += sum->part == STATSD_PART_COUNTER ? 1 : 0;
    s->timers += sum->part == STATSD_PART_TIMER_COUNT ? 1 : 0;
    s->sums += sum->part == STATSD_PART_TIMER_SUM ? 1 : 0;
    s->total += millionths;
    assert(sum->at >= 0);
}

static int
take_line(const struct config *config, const uint8_t *line, size_t size,
          struct seen *s)
{
    const struct statsd_sink sink = {see_part, s};
    const char *why = NULL;
    int kinds;

    *s = (struct seen){.config = config};
    kinds = statsd_line(config, line, size, &sink, &why);
    assert(kinds > 0 || (kinds == -EBADMSG && why != NULL));
    if (kinds < 0)
        assert(s->counts == 0 && s->timers == 0 && s->sums == 0);
    else
        assert(s->timers == s->sums);
    if (kinds > 0 && (kinds & STATSD_COUNTER) == 0)
        assert(s->counts == 0);
    return kinds;
}

static void
check_line(const struct config *config, const uint8_t *bytes, size_t size)
{
    uint8_t *line = fuzz_copy(bytes, size);
    struct seen one, again;
    int kinds;

    kinds = take_line(config, line, size, &one);
    assert(take_line(config, line, size, &again) == kinds);
    assert(one.total == again.total && one.counts == again.counts &&
           one.timers == again.timers);
    free(line);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct config config;
    struct fuzz_line line;

    if (size < 2)
        return 0;
    config.statsd_timers = (bytes[0] & 1) != 0;
    config.statsd_tags = (bytes[0] & 2) != 0;
    config.key_size = bytes[1] + 1u;
    bytes += 2;
    size -= 2;
    while (fuzz_take_line(&bytes, &size, &line))
        check_line(&config, line.at, line.size);
    return 0;
}
