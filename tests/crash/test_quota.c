/* tests/crash/test_quota.c - quotas while daemons are killed, the power goes,
 * and the disk is full: what was answered is in the journal under the number
 * in the answer, what was refused is not, nothing is there twice, and what
 * remains is the limit less what was applied and not cancelled.
 *
 *     TEST_SEED    repeats the choice of kills, cuts and states
 *     TEST_KILLS   how many kills (60)
 *     TEST_STATES  how many states after a power loss (300)
 *     TEST_KEEP    a folder that gets the state that failed
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "tests/crash/powerloss.h"
#include "tests/crash/small_disk.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"
#include "tests/lib/powercut.h"
#include "tests/lib/quota_oracle.h"
#include "writer/quota/journal.h"

#define KILLS        60
#define STATES       300
#define BATCH        1000 /* requests of fill_journal() under way */
#define ANSWER_LINES 5    /* of each */

static void
check_kept(const struct quota_oracle *t, const char *data)
{
    char why[256];

    if (!quota_oracle_is_kept(t, data, UINT64_MAX, why, sizeof why))
        fail_msg("%s", why);
}

static void
configure_fleet(struct fleet *f)
{
    fleet_options(f, "log.size=24K", "log.count=1", "counter.enable=off",
                  "http.listen=127.0.0.1:0", "quota.enable=on",
                  "quota.limit=1000000000000");
}

static void
start_writer(struct quota_oracle *t, struct fleet *f)
{
    fleet_start(f, FLEET_WRITE);
    t->port = fleet_writer_port(f, "http");
}

/* The body of an answer; -503: that was the answer. */
static int64_t
ask_once(const struct quota_oracle *t, const char *target)
{
    const int fd = client_connect(t->port);
    char text[512];
    size_t size;

    (void)snprintf(text, sizeof text,
                   "POST %s HTTP/1.1\r\nConnection: close\r\n\r\n", target);
    client_send(fd, text, strlen(text));
    size = client_read(fd, text, sizeof text - 1);
    text[size] = '\0';
    client_close(fd);
    assert_has(text, "\r\n\r\n");
    if (strncmp(text, "HTTP/1.1 503", 12) == 0)
        return -503;
    return strtoll(strstr(text, "\r\n\r\n") + 4, NULL, 10);
}

static int64_t
query_remaining(const struct quota_oracle *t)
{
    return ask_once(t, "/query");
}

/* What remains is at least the limit less all that may have been applied. */
static int64_t
least_remaining(const struct quota_oracle *t)
{
    int64_t left = TILL_LIMIT;

    for (uint32_t i = 0; i < t->count; i++)
        if (!t->asks[i].cancels)
            left -= t->asks[i].amount;
    return left;
}

/* Checkpoints made so far. */
static uint32_t
count_checkpoints(const struct fleet *f)
{
    uint8_t bytes[4];
    char path[600];
    int fd;

    (void)snprintf(path, sizeof path, "%s/live/quota", f->path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, bytes, sizeof bytes, 44), sizeof bytes);
    client_close(fd);
    return get_le32(bytes);
}

/* Fills the journal until its next checkpoint is near: changes of nothing. */
static void
fill_journal(const struct quota_oracle *t)
{
    static const char ask[] = "POST /increase?amt=0 HTTP/1.1\r\n\r\n";
    const size_t rounds = JOURNAL_GROWTH / JOURNAL_RECORD_SIZE / BATCH - 10;
    const int fd = client_connect(t->port);
    char asks[BATCH * sizeof ask] = "", text[65536];

    for (size_t i = 0; i < BATCH; i++)
        memcpy(asks + i * (sizeof ask - 1), ask, sizeof ask);
    for (size_t i = 0; i < rounds; i++) {
        size_t lines = 0;

        client_send(fd, asks, BATCH * (sizeof ask - 1));
        while (lines < BATCH * ANSWER_LINES) {
            const ssize_t n = recv(fd, text, sizeof text, 0);

            assert_true(n > 0);
            for (ssize_t k = 0; k < n; k++)
                lines += text[k] == '\n';
        }
    }
    client_close(fd);
}

/* ---- kills ------------------------------------------------------- */

TEST(every_answer_holds_under_kills)
{
    const unsigned kills = random_times("TEST_KILLS", KILLS);
    _Atomic uint64_t moments = 0;
    struct fleet f;
    struct quota_oracle t;

    quota_oracle_init(&t, random_seed("quota kills"), &moments);
    fleet_init(&f);
    configure_fleet(&f);
    start_writer(&t, &f);
    fill_journal(&t);
    fleet_stop(&f, FLEET_WRITE);
    for (unsigned i = 0; i < kills && t.count < TILL_ASKS - 5000; i++) {
        struct daemon *d = fleet_daemon(&f, FLEET_WRITE);

        start_writer(&t, &f);
        quota_oracle_ask_for(&t, 2 + random_below(&t.random, 60));
        assert_true(daemon_alive(d));
        if (random_chance(&t.random, 80))
            daemon_kill(d);
        else
            assert_int_equal(daemon_stop(d), 0);
        while (quota_oracle_waits(&t)) /* what was sent before the end */
            quota_oracle_turn(&t, false);
        quota_oracle_break(&t);
        if (random_chance(&t.random, 30))
            check_kept(&t, f.path);
    }
    start_writer(&t, &f);
    quota_oracle_settle(&t);
    assert_true(query_remaining(&t) <= TILL_LIMIT &&
                query_remaining(&t) >= least_remaining(&t));
    fleet_stop(&f, FLEET_WRITE);
    check_kept(&t, f.path);
    printf("%u kills, %u asked, %" PRIu64 " answered, %" PRIu64 " refused\n",
           kills, t.count, t.answered, t.refused);
    assert_true(t.answered > 10 * (uint64_t)kills);
    if (t.answered > 15000)
        assert_true(count_checkpoints(&f) > 0);
    fleet_fini(&f);
    free(t.asks);
}

/* ---- power loss -------------------------------------------------- */

/* When some request was answered. */
static uint64_t
pick_promise(void *ctx)
{
    struct quota_oracle *t = ctx;

    return t->asks[random_below(&t->random, t->count)].acked;
}

static bool
judge_state(void *ctx, const char *path, uint64_t cut, char *why, size_t size)
{
    return quota_oracle_is_kept(ctx, path, cut, why, size);
}

TEST(every_answer_holds_when_the_power_goes)
{
    const unsigned states = random_times("TEST_STATES", STATES);
    struct quota_oracle t;
    struct powercut cut;
    struct tmpdir data;
    struct fleet f;

    tmpdir_make_in_memory(&data);
    fleet_init_at(&f, data.path);
    configure_fleet(&f);
    powercut_begin(&cut, data.path, random_seed("quota power"));
    powercut_record(&cut, &f, "calls");
    quota_oracle_init(&t, cut.random.state, &cut.shared->seq);
    for (int i = 0; i < 4; i++) {
        start_writer(&t, &f);
        while (t.answered < 40 * ((uint64_t)i + 1))
            quota_oracle_ask_for(&t, 60);
        assert_true(daemon_alive(fleet_daemon(&f, FLEET_WRITE)));
        powercut_kill(&cut, fleet_daemon(&f, FLEET_WRITE));
        while (quota_oracle_waits(&t))
            quota_oracle_turn(&t, false);
        quota_oracle_break(&t);
    }
    start_writer(&t, &f);
    quota_oracle_settle(&t);
    fleet_stop(&f, FLEET_WRITE);
    powercut_load(&cut);
    powercut_try(&cut, states,
                 &(struct powercut_judge){pick_promise, judge_state, &t});
    printf("%zu calls, %" PRIu64 " answered, %u states\n", disk_count(cut.disk),
           t.answered, states);
    fleet_fini(&f);
    powercut_end(&cut);
    tmpdir_remove(&data);
    free(t.asks);
}

/* ---- a full disk ------------------------------------------------- */

TEST(a_full_disk_refuses_and_is_recovered_from)
{
    _Atomic uint64_t moments = 0;
    struct small_disk disk;
    struct fleet f;
    struct quota_oracle t;
    uint64_t answered;

    if (!small_disk_mount(&disk, "size=32m"))
        test_skip("needs root and a tmpfs of its own");
    quota_oracle_init(&t, random_seed("quota full disk"), &moments);
    fleet_init_at(&f, disk.data);
    configure_fleet(&f);
    start_writer(&t, &f);
    quota_oracle_ask_for(&t, 50);
    small_disk_fill(&disk, SIZE_MAX);
    fill_journal(&t); /* the next checkpoint is near */
    while (t.refused == 0 && t.count < TILL_ASKS - 2000)
        quota_oracle_ask_for(&t, 20);
    assert_true(t.refused > 0);
    assert_true(daemon_alive(fleet_daemon(&f, FLEET_WRITE)));
    quota_oracle_settle(&t);
    assert_true(query_remaining(&t) > 0); /* is answered nevertheless */
    assert_int_equal(unlink(disk.ballast), 0);
    while (ask_once(&t, "/increase?amt=0") == -503)
        continue; /* it is tried again each second */
    answered = t.answered;
    while (t.answered < answered + 200 && t.count < TILL_ASKS - 100)
        quota_oracle_ask_for(&t, 20);
    quota_oracle_settle(&t);
    assert_true(t.answered >= answered + 200);
    fleet_stop(&f, FLEET_WRITE);
    check_kept(&t, f.path);
    free(t.asks);
    fleet_fini(&f);
    small_disk_unmount(&disk);
}
