/* tests/fuzz/fuzz_carbon_line.c - any bytes as Graphite lines, and as patterns
 * of graphite.count.
 *
 * The first line is patterns; if the settings would refuse them, the default
 * ones are used.  Whatever the bytes: nothing outside a line is read; the name
 * that is counted is within the line, of one byte or more, without NUL or white
 * space; the increment is within 64 bits; and a line that the pattern * ignores
 * does not exist. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "common/wire/carbon_line.h"

#define PATTERNS_MAX 1024

static void
check_line(const char *patterns, const uint8_t *bytes, size_t size)
{
    const int128 bound = ((int128)INT64_MAX + 2) * DECIMAL_MILLIONTHS;
    uint8_t *line = fuzz_copy(bytes, size);
    struct carbon_sample c;
    const char *why;
    int rc, all;

    rc = carbon_line(patterns, line, size, &c, &why);
    assert(rc == CARBON_IGNORED || rc == CARBON_COUNTED || rc == -EBADMSG);
    if (rc == CARBON_COUNTED) {
        assert(c.name_size >= 1 && c.name >= line &&
               c.name + c.name_size <= line + size);
        assert(memchr(c.name, '\0', c.name_size) == NULL);
        assert(memchr(c.name, ' ', c.name_size) == NULL);
        assert(c.millionths < bound && c.millionths > -bound);
        assert(c.at >= -1);
    }
    all = carbon_line("*", line, size, &c, &why);
    assert(all != CARBON_IGNORED);
    assert(rc != CARBON_COUNTED || all == CARBON_COUNTED);
    free(line);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char patterns[PATTERNS_MAX + 1] = "";
    const uint8_t *lf = memchr(bytes, '\n', size);
    const size_t first = lf ? (size_t)(lf - bytes) : 0;
    struct fuzz_line line;
    const char *wrong;
    size_t wrong_size;

    if (first > 0 && first <= PATTERNS_MAX && !memchr(bytes, '\0', first))
        memcpy(patterns, bytes, first);
    if (carbon_check_patterns(patterns, &wrong, &wrong_size) < 0) {
        assert(wrong >= patterns &&
               wrong + wrong_size <= patterns + strlen(patterns));
        strcpy(patterns, "stats_counts.* stats.counters.*.count");
    }
    bytes += lf ? first + 1 : 0;
    size -= lf ? first + 1 : 0;
    while (fuzz_take_line(&bytes, &size, &line))
        check_line(patterns, line.at, line.size);
    return 0;
}
