/* tests/crash/test_sequence_kill.c - countd-write is killed at random moments
 * while clients fetch sequence numbers: none comes twice, and each run's are
 * above all of the runs before, also when an older copy of the mark was put
 * back or the mark was deleted, and when the clock jumps between the runs.
 *
 * A start waits for the next second, so several servers run side by side.
 *
 *     TEST_SEED   repeats the choice of moments and clocks
 *     TEST_KILLS  how many (200)
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/client.h"
#include "tests/lib/numbers.h"
#include "tests/lib/random.h"

#define KILLS       200
#define SHIFTS      60
#define SERVERS     20
#define CLIENTS     4
#define AHEAD       8   /* requests of a client without their answers */
#define ANSWERS_MAX 400 /* before a kill */

struct storm {
    struct fleet *f;
    struct random random;
    struct sequence_parts highest; /* of the runs before */
    struct sequence_parts last[CLIENTS], most;
    int fds[CLIENTS];
    uint64_t numbers;
    uint8_t mark[256]; /* of an earlier moment */
    ssize_t mark_size; /* 0: none */
};

/* A number of one client: above its last and all of the runs before.  Within a
 * run what one client hears may be above what another hears next, but never the
 * same: the serial goes on. */
static void
check_number(struct storm *s, int client, const struct sequence_parts *n,
             uint64_t *serials)
{
    assert_int_equal(n->reserve, 2);
    assert_int_equal(n->server_no, 1);
    assert_true(numbers_order(&s->highest, n) < 0);
    assert_true(numbers_order(&s->last[client], n) < 0);
    assert_true(n->serial < CLIENTS * (ANSWERS_MAX + AHEAD) + 1);
    assert_int_equal(serials[n->serial], 0);
    serials[n->serial] = n->second;
    s->last[client] = *n;
    if (numbers_order(&s->most, n) < 0)
        s->most = *n;
    s->numbers++;
}

/* One run: fetches until a moment, then a kill. */
static void
fetch_until_killed(struct storm *s)
{
    static uint64_t serials[CLIENTS * (ANSWERS_MAX + AHEAD) + 1];
    const uint64_t answers = random_below(&s->random, ANSWERS_MAX);
    char line[NUMBERS_LINE];
    struct sequence_parts n;
    int i;

    memset(serials, 0, sizeof serials);
    for (i = 0; i < CLIENTS; i++) {
        s->fds[i] = fleet_http(s->f);
        for (int k = 0; k < AHEAD; k++)
            numbers_ask(s->fds[i]);
    }
    for (uint64_t k = 0; k < answers; k++) {
        i = (int)(k % CLIENTS);
        assert_true(numbers_take(s->fds[i], line, &n));
        check_number(s, i, &n, serials);
        numbers_ask(s->fds[i]);
    }
    daemon_kill(fleet_daemon(s->f, FLEET_WRITE));
    /* Numbers that had left before. */
    for (i = 0; i < CLIENTS; i++) {
        while (numbers_take(s->fds[i], line, &n))
            check_number(s, i, &n, serials);
        client_close(s->fds[i]);
    }
    s->highest = s->most;
}

#define MARK "live/sequence-2-1"

/* A copy of the mark is made, put back over it or in its place, or the mark is
 * deleted. */
static void
touch_mark(struct storm *s)
{
    const struct tmpdir *d = &s->f->dir;
    const uint64_t dice = random_below(&s->random, 10);
    int fd;

    if (dice < 2 || s->mark_size == 0) {
        fd = openat(d->fd, MARK, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        s->mark_size = read(fd, s->mark, sizeof s->mark);
        assert_true(s->mark_size > 0);
        assert_int_equal(close(fd), 0);
    } else if (dice < 5) {
        if (dice == 2)
            assert_int_equal(unlinkat(d->fd, MARK, 0), 0);
        fd = openat(d->fd, MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, s->mark, (size_t)s->mark_size),
                         s->mark_size);
        assert_int_equal(close(fd), 0);
    } else if (dice == 5) {
        assert_int_equal(unlinkat(d->fd, MARK, 0), 0);
    }
}

static void
init_storms(struct storm *storms, uint64_t seed)
{
    memset(storms, 0, SERVERS * sizeof *storms);
    for (uint64_t i = 0; i < SERVERS; i++) {
        void *f;

        assert_int_equal(numbers_setup(&f), 0);
        storms[i].f = f;
        storms[i].random.state = seed + i;
    }
}

static uint64_t
fini_storms(struct storm *storms)
{
    uint64_t numbers = 0;

    for (size_t i = 0; i < SERVERS; i++) {
        void *f = storms[i].f;

        numbers += storms[i].numbers;
        assert_int_equal(service_teardown(&f), 0);
    }
    return numbers;
}

TEST(kills_repeat_no_number_and_never_step_back)
{
    static struct storm storms[SERVERS];
    const uint64_t kills = random_times("TEST_KILLS", KILLS);
    uint64_t numbers;

    init_storms(storms, random_seed(__func__));
    for (uint64_t done = 0; done < kills; done += SERVERS) {
        for (size_t i = 0; i < SERVERS; i++)
            fleet_start(storms[i].f, FLEET_WRITE);
        for (size_t i = 0; i < SERVERS; i++) {
            fetch_until_killed(&storms[i]);
            touch_mark(&storms[i]);
        }
    }
    numbers = fini_storms(storms);
    printf("%llu kills, %llu numbers\n", (unsigned long long)kills,
           (unsigned long long)numbers);
    assert_true(numbers > kills * CLIENTS);
}

/* The library that shifts a clock, or NULL. */
static const char *
find_faketime(char *text, size_t size)
{
    glob_t found;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return NULL; /* theirs must be the first */
#endif
    if (glob("/usr/lib/*/faketime/libfaketimeMT.so.1", 0, NULL, &found) != 0)
        return NULL;
    (void)snprintf(text, size, "LD_PRELOAD=%s", found.gl_pathv[0]);
    globfree(&found);
    return text;
}

TEST(a_clock_that_jumps_between_kills_steps_nothing_back)
{
    static struct storm storms[SERVERS];
    char preload[512], shift[64];
    const char *env[] = {find_faketime(preload, sizeof preload), shift,
                         "DONT_FAKE_MONOTONIC=1", NULL};

    if (!env[0])
        test_skip("no libfaketime (Debian: faketime), or a sanitizer");
    init_storms(storms, random_seed(__func__));
    for (int done = 0; done < SHIFTS; done += SERVERS) {
        for (size_t i = 0; i < SERVERS; i++) {
            struct storm *s = &storms[i];
            /* A day to and fro, and often by a second or two only. */
            const int64_t most = random_chance(&s->random, 50) ? 3 : 86400;

            (void)snprintf(
                shift, sizeof shift, "FAKETIME=%+lld",
                (long long)random_below(&s->random, 2 * (uint64_t)most) - most);
            s->f->env = env;
            fleet_start(s->f, FLEET_WRITE);
        }
        for (size_t i = 0; i < SERVERS; i++) {
            fetch_until_killed(&storms[i]);
        }
    }
    assert_true(fini_storms(storms) > SHIFTS * CLIENTS);
}
