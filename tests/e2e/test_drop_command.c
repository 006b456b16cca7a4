/* tests/e2e/test_drop_command.c - countd drop and countd del: the transcript
 * drop_command.txt, and what it promises whatever is going on meanwhile.
 *
 *     TEST_SEED   repeats the choice of kills */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"
#include "tests/lib/service.h"

/* ---- the directory ----------------------------------------------------- */

static void
add_acked(int fd, const char *keyspace, const char *key, int64_t increment)
{
    client_increment(fd, keyspace, key, increment);
    client_wins(fd, 1);
}

/* Everything acknowledged until now can be read after it. */
static void
flush_all(struct fleet *f)
{
    expect_text(FLEET_RUN(f, "flush"), 0, "");
}

/* Breaks the magic of a file and nothing else: a process that has it open goes
 * on with it, and none can open it any more. */
static void
break_magic(struct fleet *f, const char *name)
{
    enum { MAGIC_AT = 16, PAGE = 4096 };
    const char *path = file_path(f->path, "keyspace/%s.mdb", name);

    for (off_t page = 0; page < 2; page++)
        file_write(path, page * PAGE + MAGIC_AT, "junk", 4);
}

/* ---- drop -------------------------------------------------------------- */

#define CASE(name, f)                                                          \
    TEST_IN(name, struct fleet *f, service_setup_in_memory, service_teardown)

/* ---- drop under load --------------------------------------------------- */

#define WINDOW 16

/* One who sends as fast as it is acknowledged, to "words" and "other". */
struct sender {
    int fd;
    unsigned out; /* not acknowledged yet */
    int64_t other;
};

static void
send_some(struct sender *s, const char *key, int64_t *sent)
{
    client_increment(s->fd, "words", key, 1);
    client_increment(s->fd, "other", "all", 1);
    s->out += 2;
    s->other++;
    *sent += 1;
    if (s->out >= WINDOW) {
        client_wins(s->fd, WINDOW / 2);
        s->out -= WINDOW / 2;
    }
}

static void
await_wins(struct sender *s)
{
    client_wins(s->fd, s->out);
    s->out = 0;
}

CASE(a_sender_that_never_stops_loses_only_what_came_before, f)
{
    enum { ROUNDS = 12, EACH = 200 };
    static const char *const words[] = {"drop", "words", NULL};
    struct sender s = {0};

    service_start(f);
    fleet_start(f, FLEET_WORKER2);
    s.fd = client_connect(fleet_ack_port(f));
    for (int round = 0; round < ROUNDS; round++) {
        struct daemon drop = {.output = -1};
        char before[32], during[32], after[32];
        int64_t sent[3] = {0}, in_between;

        snprintf(before, sizeof before, "before%d", round);
        snprintf(during, sizeof during, "during%d", round);
        snprintf(after, sizeof after, "after%d", round);
        for (int i = 0; i < EACH; i++)
            send_some(&s, before, &sent[0]);
        await_wins(&s);
        fleet_begin(f, &drop, words);
        while (daemon_alive(&drop))
            send_some(&s, during, &sent[1]);
        assert_int_equal(daemon_wait(&drop), 0);
        daemon_fini(&drop);
        for (int i = 0; i < EACH; i++)
            send_some(&s, after, &sent[2]);
        await_wins(&s);
        flush_all(f);

        assert_int_equal(service_count(f, "words", before), INT64_MIN);
        assert_int_equal(service_count(f, "words", after), sent[2]);
        in_between = service_count(f, "words", during);
        if (in_between == INT64_MIN)
            in_between = 0;
        assert_true(in_between >= 0 && in_between <= sent[1]);
        assert_int_equal(service_total(f, "words"), sent[2] + in_between);
        assert_int_equal(service_count(f, "other", "all"), s.other);
    }
    client_close(s.fd);
    fleet_stop_all(f);
    fleet_check(f);
}

/* ---- drop killed ------------------------------------------------------- */

/* At calls whose effect others see: between two of them nothing differs.  A drop
 * has one to four of each. */
CASE(drop_killed_at_any_system_call_is_repeated, f)
{
    enum { KILLS = 60 };
    static const char *const calls[] = {"fsync", "fdatasync", "pwrite64",
                                        "flock", "rt_sigqueueinfo"};
    struct random random = {random_seed(__func__)};
    unsigned killed = 0;
    char options[160];
    int fd;

    service_start(f);
    fd = client_connect(fleet_ack_port(f));
    for (int i = 0; i < KILLS; i++) {
        int status;

        add_acked(fd, "words", "before", 1);
        add_acked(fd, "other", "all", 1);
        if (i % 6 == 5) {
            flush_all(f);
            assert_true(service_count(f, "words", "before") > 0);
            break_magic(f, "words");
            add_acked(fd, "words", "before", 1);
        }
        snprintf(options, sizeof options,
                 "-o /dev/null --inject=%s:signal=KILL:when=%u",
                 i % 6 == 5 ? "unlinkat" /* behind the rename of a new file */
                            : calls[random_below(&random, 5)],
                 i % 6 == 5 ? 1 : 1 + (unsigned)random_below(&random, 4));
        status = expect_traced(f->path, options, "-d '%s' drop words", f->path);
        killed += status == 128 + SIGKILL;
        if (status != 0)
            assert_int_equal(status, 128 + SIGKILL);
        add_acked(fd, "words", "between", 1);
        expect(FLEET_RUN(f, "drop", "words"), 0, "dropped keyspace=words ");
        assert_int_equal(service_count(f, "words", "before"), INT64_MIN);
        add_acked(fd, "words", "after", i + 1);
        flush_all(f);

        assert_int_equal(service_count(f, "words", "before"), INT64_MIN);
        assert_int_equal(service_count(f, "words", "between"), INT64_MIN);
        assert_int_equal(service_count(f, "words", "after"), i + 1);
        assert_int_equal(service_total(f, "words"), i + 1);
        assert_int_equal(service_count(f, "other", "all"), i + 1);
    }
    printf("%u of %d drops were killed\n", killed, (int)KILLS);
    assert_true(killed > KILLS / 4);
    client_close(fd);
    fleet_stop_all(f);
    fleet_check(f);
}
