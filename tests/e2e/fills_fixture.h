/* tests/e2e/fills_fixture.h - a directory whose logs are filled by hand.  Every
 * fill adds 1 to a key of its own, "f1", "f2", ..., and to "all", of keyspace
 * "words": a count other than 1 names the fill that was lost or doubled. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_E2E_FILLS_FIXTURE_H
#define COUNTD_TESTS_E2E_FILLS_FIXTURE_H

#include "tests/lib/test.h"

#include <stdio.h>

#include "tests/lib/expect.h"
#include "tests/lib/filler.h"
#include "tests/lib/service.h"
#include "tests/lib/stored.h"

#define WAIT_MS 60000
#define FIRST   UINT64_C(1700000000000)
#define SLOTS   8

static unsigned fills; /* made so far */

static inline int
setup(void **state)
{
    const int rc = service_site_setup(state);
    struct service_site *x = *state;

    fleet_option(&x->fleet, "archive.keep=36500d");
    fills = 0;
    return rc;
}

#define CASE(name, x)                                                          \
    TEST_IN(name, struct service_site *x, setup, service_site_teardown)

/* Fills log `index` once more, a minute later than the fill before; `third` is
 * the key of a slot that counts nothing, or NULL.  Returns the epoch. */
static inline uint64_t
fill_log_with(const struct service_site *x, uint64_t index, const char *third)
{
    struct filler f;
    char key[16];

    filler_open(&f, x->dir.log_fd, index, SLOTS);
    f.received_ms = FIRST + fills * UINT64_C(60000);
    snprintf(key, sizeof key, "f%u", ++fills);
    filler_add(&f, "words", key, 1);
    filler_add(&f, "words", "all", 1);
    if (third != NULL)
        filler_add(&f, "words", third, 0);
    filler_seal(&f);
    return f.log.header.epoch;
}

static inline void
fill_log(const struct service_site *x, uint64_t index)
{
    (void)fill_log_with(x, index, NULL);
}

/* Runs a script in a directory; returns its status. */
static inline int
run_shell(const char *path, const char *script)
{
    char line[2048];

    snprintf(line, sizeof line, "cd '%s' && %s", path, script);
    return daemon_run(text, sizeof text, "/bin/sh", "-c", line);
}

static inline void
expect_shell(struct service_site *x, const char *script)
{
    assert_int_equal(run_shell(x->fleet.path, script), 0);
}

/* What a directory counts of a key; 0: it has none. */
static inline int64_t
count_in(const char *path, const char *key)
{
    const int64_t count = stored_count(path, "words", key);

    return count == INT64_MIN ? 0 : count;
}

/* Every fill made so far counts once in this directory. */
static inline void
assert_counts(const char *path)
{
    char key[16];

    for (unsigned i = 1; i <= fills; i++) {
        snprintf(key, sizeof key, "f%u", i);
        if (count_in(path, key) != 1)
            fail_msg("%s/words: %s counts %lld", path, key,
                     (long long)count_in(path, key));
    }
    assert_int_equal(count_in(path, "all"), fills);
}

#endif
