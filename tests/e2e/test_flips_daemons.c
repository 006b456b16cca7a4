/* tests/e2e/test_flips_daemons.c - a bit flips in a data directory, and the
 * daemons run on it: they go on, and every count is right, or they say that
 * they are not and `countd check` finds a fault (tests/unit/test_flips.c has
 * the same for many more bits, without daemons).  TEST_SEED repeats a run. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/lib/countd.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"
#include "tests/lib/specimen.h"

#define FLIPS   50
#define WAIT_MS 30000

struct flip {
    int file;
    size_t at;
    uint8_t mask;
};

static struct specimen specimen;
static int64_t want[SPECIMEN_NAMES][SPECIMEN_KEYS];
static char said[1 << 16];

static struct flip
random_flip(struct random *r)
{
    struct flip f;

    do
        f.file = (int)random_below(r, (uint64_t)specimen.file_count);
    while (specimen.files[f.file].link_of >= 0);
    f.at = random_below(r, specimen.files[f.file].size);
    f.mask = (uint8_t)(1u << random_below(r, 8));
    return f;
}

/* Whether the reader says of each key what it should say, and has them in
 * order.  Asks on when an answer is wrong: each shows what the reader knows. */
static bool
is_keyspace_right(struct countd *c, enum specimen_keyspace k)
{
    const char *name = specimen_name(k);
    const size_t size = strlen(name), keys = specimen_keys(k);
    int64_t count, last = INT64_MAX;
    struct countd_rows *rows;
    bool right = true;
    char key[257];

    for (size_t i = 0; i < keys; i++) {
        specimen_key(k, i, key);
        if (countd_get(c, name, size, key, strlen(key), &count) < 0 ||
            count != want[k][i])
            right = false;
    }
    if (countd_range(c,
                     &(struct countd_query){.keyspace = name,
                                            .keyspace_size = size,
                                            .length = SPECIMEN_KEYS + 1},
                     &rows) < 0)
        return false;
    for (size_t i = 0; i < rows->count; i++) {
        const size_t n = strtoul(rows->rows[i].key, NULL, 10);

        right = right && n < keys && rows->rows[i].count == want[k][n] &&
                want[k][n] <= last;
        last = rows->rows[i].count;
    }
    right = right && rows->count == keys;
    countd_rows_free(rows);
    return right;
}

static bool
is_right(struct fleet *f)
{
    struct countd_options options = {.size = sizeof options};
    struct countd *c;
    char address[40];
    bool right = true;

    (void)snprintf(address, sizeof address, "127.0.0.1:%u",
                   fleet_ask_port(f)); /* fits */
    options.read = address;
    assert_rc(countd_open(&c, &options), 0);
    for (int k = 0; k < SPECIMEN_NAMES; k++)
        if (!is_keyspace_right(c, (enum specimen_keyspace)k))
            right = false;
    countd_close(c);
    return right;
}

/* Whether a daemon has reported something. */
static bool
has_said(struct fleet *f)
{
    static const enum fleet_role roles[] = {FLEET_WRITE, FLEET_WORKER,
                                            FLEET_READ};

    for (size_t i = 0; i < 3; i++) {
        (void)daemon_output(fleet_daemon(f, roles[i]), said, sizeof said);
        if (strstr(said, "error: ") != NULL)
            return true;
    }
    return false;
}

static void
one_flip(struct fleet *f, const struct flip *flip)
{
    const uint64_t until = test_deadline(WAIT_MS);
    bool right;

    specimen_restore(&specimen);
    specimen_flip(&specimen, flip->file, flip->at, 1, flip->mask);
    fleet_start(f, FLEET_WORKER);
    fleet_start(f, FLEET_WRITE);
    fleet_start(f, FLEET_READ);
    do
        right = is_right(f);
    while (!right && !(has_said(f) && FLEET_RUN(f, "check") == 1) &&
           clock_ms() < until);
    if (!right && clock_ms() >= until)
        fail_msg("%s byte %zu mask %02x: wrong, and %s; check exits %d:\n%s",
                 specimen.files[flip->file].path, flip->at, flip->mask,
                 has_said(f) ? "said" : "silent", FLEET_RUN(f, "check"), text);
    fleet_stop_all(f);
}

TEST(no_random_bit_makes_running_daemons_wrong_and_silent)
{
    struct random r = {.state = random_seed("test_flips_daemons")};
    struct fleet f;

    diag_init("test", DIAG_ERROR);
    specimen_make(&specimen, SPECIMEN_ALL);
    for (int k = 0; k < SPECIMEN_NAMES; k++)
        for (size_t i = 0; i < SPECIMEN_KEYS; i++)
            want[k][i] = specimen.base[k][i] + specimen.rest[k][i];
    fleet_init_at(&f, specimen.dir.path);
    for (int i = 0; i < FLIPS; i++) {
        const struct flip flip = random_flip(&r);

        one_flip(&f, &flip);
    }
    fleet_fini(&f);
    specimen_fini(&specimen);
}
