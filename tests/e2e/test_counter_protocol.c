/* tests/e2e/test_counter_protocol.c - the counter protocol of countd-write,
 * byte for byte through real sockets.
 *
 * What one after another says and hears is in tests/lib/live_talk.c; here is
 * what has loops, memory, processes or a clock in it. */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/client/lib/countd.h"
#include "tests/lib/client.h"
#include "tests/lib/live_rig.h"
#include "tests/lib/taker.h"

#define MIB       ((size_t)1 << 20)
#define BATCH_MAX 1000
#define LIMIT_MS  20000

static uint8_t batch[BATCH_MAX * 64]; /* requests to send at once */
static uint8_t zeros[64 * 1024];

/* Sends part of a body that is all zeros. */
static void
send_zeros(const struct taker *t, size_t size)
{
    size_t n;

    for (; size > 0; size -= n) {
        n = size < sizeof zeros ? size : sizeof zeros;
        taker_send(t, zeros, n);
    }
}

static void
send_header(const struct taker *t, uint8_t magic, uint8_t opcode,
            uint32_t body_size, uint32_t opaque)
{
    uint8_t h[TAKER_HEADER] = {magic, opcode};

    put_be32(h + 4, body_size);
    put_be32(h + 8, opaque);
    taker_send(t, h, sizeof h);
}

/* ---- names -------------------------------------------------------------- */

static void
a_name_may_have_65535_bytes(void **state)
{
    static char name[TAKER_NAME_MAX];
    struct live_rig *r = *state;
    struct taker_dump dump;
    struct taker a;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    memset(name, 'm', sizeof name);

    assert_int_equal(taker_acquire_bytes(&a, name, sizeof name, 1, 2),
                     TAKER_OK);
    assert_int_equal(taker_acquire_bytes(&a, name, sizeof name - 1, 2, 2),
                     TAKER_OK);
    assert_int_equal(taker_get_bytes(&a, name, sizeof name), 1);
    assert_int_equal(taker_get_bytes(&a, name, sizeof name - 1), 2);
    assert_int_equal(taker_get_bytes(&a, name, sizeof name - 2),
                     -TAKER_NOT_FOUND);
    name[sizeof name - 1] = 'n';
    assert_int_equal(taker_get_bytes(&a, name, sizeof name), -TAKER_NOT_FOUND);
    name[sizeof name - 1] = 'm';
    taker_dump(&a, &dump);
    assert_int_equal(dump.count, 2);
    assert_int_equal(dump.record[0].size + dump.record[1].size,
                     2 * TAKER_NAME_MAX - 1);
    assert_memory_equal(dump.record[0].name, name, dump.record[0].size);
    taker_dump_free(&dump);
    assert_int_equal(taker_release_bytes(&a, name, sizeof name, 1), TAKER_OK);
    taker_close(&a);
}

/* ---- bodies ------------------------------------------------------------- */

static void
bodies_up_to_thirty_mebibytes_are_thrown_away_as_they_come(void **state)
{
    struct live_rig *r = *state;
    struct taker a;
    uint64_t memory;
    uint8_t bytes[64];

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_noop(&a);
    memory = daemon_memory(&r->writer);

    send_header(&a, 0x90, TAKER_NOOP, 1 * MIB, 71);
    send_zeros(&a, 1 * MIB);
    taker_expect(&a, TAKER_NOOP, 71, TAKER_OK, NULL, 0);

    send_header(&a, 0x90, 0x77, 30 * MIB, 72);
    send_zeros(&a, 30 * MIB - 1);
    taker_expect_nothing(&a, 0);
    send_zeros(&a, 1);
    taker_expect(&a, 0x77, 72, TAKER_UNKNOWN, NULL, 0);

    send_header(&a, 0x33, TAKER_NOOP, 30 * MIB, 73);
    send_zeros(&a, 30 * MIB);
    taker_expect(&a, TAKER_NOOP, 73, TAKER_INVALID, NULL, 0);

    /* 3 of 5 of "vat", and almost 30 MiB of surplus. */
    taker_put_acquire(bytes, 74, "vat", 3, 3, 5);
    put_be32(bytes + 4, 30 * MIB);
    taker_send(&a, bytes, TAKER_FIXED + 3);
    send_zeros(&a, 30 * MIB - 13);
    taker_expect_u32(&a, TAKER_ACQUIRE, 74, 3);
    assert_int_equal(taker_get(&a, "vat"), 3);
    if (test_slow() == 1)
        assert_in_range(daemon_memory(&r->writer), 0, memory + MIB);
    taker_close(&a);
}

static void
nothing_is_done_before_the_last_byte_has_come(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;
    uint8_t bytes[64];
    size_t size;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_open(&b, r->counter);

    /* All that an Acquire needs, and one byte of surplus to come. */
    size = taker_put_acquire(bytes, 9, "hat", 3, 1, 1);
    put_be32(bytes + 4, (uint32_t)(size - TAKER_HEADER + 1));
    taker_send(&a, bytes, size);
    taker_expect_nothing(&a, 20);
    assert_int_equal(taker_get(&b, "hat"), -TAKER_NOT_FOUND);
    taker_send(&a, "!", 1);
    taker_expect_u32(&a, TAKER_ACQUIRE, 9, 1);
    assert_int_equal(taker_get(&b, "hat"), 1);

    /* A large surplus, of which the last byte never comes. */
    put_be32(bytes + 4, 1 * MIB);
    taker_put_acquire(bytes, 10, "cap", 3, 1, 1);
    put_be32(bytes + 4, 1 * MIB);
    taker_send(&a, bytes, size);
    send_zeros(&a, 1 * MIB - (size - TAKER_HEADER) - 1);
    taker_expect_nothing(&a, 20);
    taker_drop(&a);
    taker_await(&b, "hat", 0);
    assert_int_equal(taker_get(&b, "cap"), -TAKER_NOT_FOUND);
    taker_close(&b);
}

/* ---- streams ------------------------------------------------------------ */

static void
live_protocol_may_be_cut_anywhere(void **state)
{
    struct live_rig *r = *state;
    struct taker a;
    uint8_t bytes[64];
    size_t size, cut;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);

    for (cut = 1; cut < TAKER_FIXED + 8; cut++) {
        size = taker_put_acquire(bytes, (uint32_t)cut, "umbrella", 8, 1, 1000);
        taker_send(&a, bytes, cut);
        /* The first part is on its own way when nothing has come of it. */
        taker_expect_nothing(&a, 2);
        taker_send(&a, bytes + cut, size - cut);
        taker_expect_u32(&a, TAKER_ACQUIRE, (uint32_t)cut, 1);
    }
    assert_int_equal(taker_get(&a, "umbrella"), TAKER_FIXED + 7);

    for (cut = 0; cut + 1 < size; cut++) {
        taker_send(&a, bytes + cut, 1);
        taker_expect_nothing(&a, 0);
    }
    taker_send(&a, bytes + cut, 1);
    taker_expect_u32(&a, TAKER_ACQUIRE, TAKER_FIXED + 7, 1);
    taker_close(&a);
}

static void
a_thousand_requests_in_one_go_have_a_thousand_answers(void **state)
{
    struct live_rig *r = *state;
    struct taker a;
    size_t size = 0;
    uint32_t i;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);

    for (i = 0; i < BATCH_MAX; i++)
        size += i % 2 ? taker_put_get(batch + size, i, "stairs", 6)
                      : taker_put_acquire(batch + size, i, "stairs", 6, 1, 400);
    taker_send(&a, batch, size);
    for (i = 0; i < BATCH_MAX; i++)
        if (i % 2)
            taker_expect_u32(&a, TAKER_GET, i, i / 2 < 400 ? i / 2 + 1 : 400);
        else if (i / 2 < 400)
            taker_expect_u32(&a, TAKER_ACQUIRE, i, 1);
        else
            taker_expect(&a, TAKER_ACQUIRE, i, TAKER_FULL, NULL, 0);
    taker_close(&a);
}

static void
a_client_that_reads_no_answers_is_not_read_from(void **state)
{
    struct live_rig *r = *state;
    uint64_t sent = 0, memory, quiet_ms;
    struct taker_answer answer;
    struct taker a, b;
    size_t size = 0, at = 0;
    uint32_t i;
    ssize_t n;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_open(&b, r->counter);
    taker_noop(&b);
    memory = daemon_memory(&r->writer);
    for (i = 0; i < BATCH_MAX; i++)
        size += taker_put(batch + size, TAKER_STATS, i, NULL, 0);

    /* Until nothing more goes out for a while. */
    quiet_ms = clock_ms() + 300;
    while (clock_ms() < quiet_ms) {
        n = send(a.fd, batch + at, size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            taker_noop(&b);
            continue;
        }
        sent += (uint64_t)n;
        at = (at + (size_t)n) % size;
        quiet_ms = clock_ms() + 300;
        assert_in_range(sent, 0, 256 * MIB);
    }
    assert_int_equal(taker_acquire(&b, "calm", 1, 1), TAKER_OK);
    if (test_slow() == 1)
        assert_in_range(daemon_memory(&r->writer), 0, memory + MIB);

    /* The rest of the request that was cut; then all the answers. */
    if (sent % TAKER_HEADER) {
        taker_half_close(&a);
        sent -= sent % TAKER_HEADER;
    }
    for (i = 0; i < sent / TAKER_HEADER; i++) {
        taker_read(&a, &answer);
        assert_int_equal(answer.opcode, TAKER_STATS);
        assert_int_equal(answer.opaque, i % BATCH_MAX);
    }
    taker_drop(&a);
    taker_close(&b);
}

/* ---- how connections end ------------------------------------------------ */

static void
a_killed_client_gives_back_what_it_held(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;
    int ready[2], status;
    pid_t child;
    char byte;

    live_rig_start(r, NULL);
    taker_open(&b, r->counter);
    assert_int_equal(pipe(ready), 0);
    (void)fflush(NULL); /* or the child would print it again */
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        taker_open(&a, r->counter);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
            taker_acquire(&a, "bell", 4, 10) != TAKER_OK ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause(); /* until it is killed */
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(taker_get(&b, "bell"), 4);

    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    taker_await(&b, "bell", 0);
    taker_close(&b);
}

static void
after_a_half_close_all_is_answered_and_then_given_back(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;
    size_t size = 0;
    uint32_t i;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_open(&b, r->counter);

    for (i = 0; i < 100; i++)
        size += taker_put_acquire(batch + size, i, "leaf", 4, 1, 50);
    taker_send(&a, batch, size);
    taker_send(&a, batch, TAKER_HEADER + 3); /* and one that is cut */
    taker_half_close(&a);
    for (i = 0; i < 100; i++)
        if (i < 50)
            taker_expect_u32(&a, TAKER_ACQUIRE, i, 1);
        else
            taker_expect(&a, TAKER_ACQUIRE, i, TAKER_FULL, NULL, 0);
    taker_expect_end(&a);
    taker_await(&b, "leaf", 0);
    taker_drop(&a);
    taker_close(&b);
}

static void
a_cut_request_leaves_no_trace(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;
    uint8_t bytes[64];
    size_t size, cut;

    live_rig_start(r, NULL);
    taker_open(&b, r->counter);
    size = taker_put_acquire(bytes, 1, "trace", 5, 1, 1);

    for (cut = 1; cut < size; cut++) {
        taker_open(&a, r->counter);
        taker_send(&a, bytes, cut);
        if (cut % 2)
            taker_close(&a);
        else
            taker_reset(&a);
    }
    taker_await_stat(&b, "curr_connections", 1);
    assert_int_equal(taker_get(&b, "trace"), -TAKER_NOT_FOUND);
    taker_close(&b);
}

/* Takes `count` names, `prefix`0 and so on, one of each of `bound`. */
static void
take_many(struct taker *t, const char *prefix, uint32_t count)
{
    char name[32];
    uint32_t i, done;
    size_t size;

    for (done = 0; done < count; done += BATCH_MAX) {
        size = 0;
        for (i = done; i < done + BATCH_MAX && i < count; i++) {
            const int n = snprintf(name, sizeof name, "%s%u", prefix, i);

            size += taker_put_acquire(batch + size, i, name, (size_t)n, 1, 1);
        }
        taker_send(t, batch, size);
        for (i = done; i < done + BATCH_MAX && i < count; i++)
            taker_expect_u32(t, TAKER_ACQUIRE, i, 1);
    }
}

static void
ten_thousand_counters_come_back_when_their_holder_goes(void **state)
{
    struct live_rig *r = *state;
    struct taker_dump dump;
    struct taker a, b;
    char name[32];
    uint32_t i;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_open(&b, r->counter);
    assert_int_equal(taker_acquire(&b, "pin77", 3, 3), TAKER_OK);
    assert_int_equal(taker_release(&b, "pin77", 3), TAKER_OK);

    take_many(&a, "pin", 10000);
    taker_dump(&b, &dump);
    assert_int_equal(dump.count, 10000);
    assert_int_equal(taker_dump_find(&dump, "pin0")->current, 1);
    assert_int_equal(taker_dump_find(&dump, "pin77")->maximum, 3);
    taker_dump_free(&dump);
    taker_drop(&a);
    for (i = 0; i < 10000; i++) {
        (void)snprintf(name, sizeof name, "pin%u", i); /* fits */
        taker_await(&b, name, 0);
    }
    taker_close(&b);
}

static void
closing_in_the_middle_of_a_dump_harms_nobody(void **state)
{
    struct live_rig *r = *state;
    struct taker_answer answer;
    struct taker a, b, c;
    uint8_t bytes[TAKER_HEADER];
    static char name[4000];
    uint32_t i;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_open(&c, r->counter);
    /* More than the sockets take. */
    memset(name, 'w', sizeof name);
    for (i = 0; i < 3000; i++) {
        (void)snprintf(name, 16, "%015u", i); /* fits */
        assert_int_equal(taker_acquire_bytes(&a, name, sizeof name, 1, 1),
                         TAKER_OK);
    }

    for (i = 0; i < 20; i++) {
        taker_open(&b, r->counter);
        assert_int_equal(taker_acquire(&b, "page", 1, 1), TAKER_OK);
        taker_send(&b, bytes, taker_put(bytes, TAKER_DUMP, i, NULL, 0));
        taker_read(&b, &answer);
        assert_int_equal(answer.opcode, TAKER_DUMP);
        taker_noop(&c);
        if (i % 3 == 0)
            taker_reset(&b);
        else
            taker_drop(&b);
        taker_await(&c, "page", 0);
    }
    taker_await_stat(&c, "curr_connections", 2);
    taker_close(&a);
    taker_close(&c);
}

static int
add_holder(void *ctx, const char *address, uint32_t amount, uint32_t age_s)
{
    unsigned *told = ctx;

    *told += amount;
    return strncmp(address, "127.0.0.1:", 10) == 0 && age_s < 3600 ? 0 : 1;
}

/* More holders than one answer has room for. */
static void
who_goes_on_where_the_answer_before_it_ended(void **state)
{
    static struct taker holders[100];
    struct live_rig *r = *state;
    struct countd_live *l;
    unsigned told = 0;
    char address[64];

    live_rig_start(r, NULL);
    for (uint32_t i = 0; i < 100; i++) {
        taker_open(&holders[i], r->counter);
        assert_int_equal(
            taker_acquire(&holders[i], i % 2 ? "odd" : "even", i + 1, 10000),
            TAKER_OK);
    }
    snprintf(address, sizeof address, "127.0.0.1:%u", r->counter);
    assert_int_equal(
        countd_live_open(&l,
                         &(struct countd_live_options){
                             .size = sizeof(struct countd_live_options),
                             .address = address}),
        0);
    assert_int_equal(countd_live_who(l, "odd", 3, add_holder, &told), 0);
    assert_int_equal(told, 50 * (2 + 100) / 2); /* each once */
    countd_live_close(l);
    for (uint32_t i = 0; i < 100; i++)
        taker_close(&holders[i]);
}

/* ---- several clients ---------------------------------------------------- */

static void
the_last_one_is_taken_by_exactly_one(void **state)
{
    struct live_rig *r = *state;
    struct taker_answer one, other;
    struct taker a, b;
    uint8_t bytes[64];
    size_t size;
    int i;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_open(&b, r->counter);
    size = taker_put_acquire(bytes, 3, "last", 4, 1, 1);

    for (i = 0; i < 500; i++) {
        taker_send(i % 2 ? &a : &b, bytes, size);
        taker_send(i % 2 ? &b : &a, bytes, size);
        taker_read(&a, &one);
        taker_read(&b, &other);
        assert_true((one.status == TAKER_OK && other.status == TAKER_FULL) ||
                    (one.status == TAKER_FULL && other.status == TAKER_OK));
        assert_int_equal(
            taker_release(one.status == TAKER_OK ? &a : &b, "last", 1),
            TAKER_OK);
    }
    taker_close(&a);
    taker_close(&b);
}

static void
a_full_port_leaves_the_other_one_open(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b, semaphore;

    live_rig_start(r, "counter.max_connections=1", NULL);
    taker_open(&a, r->counter);
    taker_noop(&a);
    taker_open(&b, r->counter);
    taker_expect_end(&b);
    taker_drop(&b);

    taker_open(&semaphore, r->semaphore);
    taker_noop(&semaphore);
    taker_close(&a);
    taker_close(&semaphore);
}

/* Centiseconds until the keepalive timer of the server's side of a connection
 * runs out; -1: that timer does not run. */
static long
keepalive_of(int fd, uint16_t server_port)
{
    struct sockaddr_in self = {0};
    socklen_t size = sizeof self;
    unsigned local, remote, kind;
    unsigned long when;
    char line[512];
    long found = -1;
    FILE *f = fopen("/proc/net/tcp", "re");

    assert_non_null(f);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&self, &size), 0);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%*d: %*x:%x %*x:%x %*x %*x:%*x %x:%lx", &local,
                   &remote, &kind, &when) == 4 &&
            local == server_port && remote == ntohs(self.sin_port) && kind == 2)
            found = (long)when;
    (void)fclose(f); /* read only */
    return found;
}

static void
a_silent_client_is_watched_and_told_nothing(void **state)
{
    struct live_rig *r = *state;
    struct taker a;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_noop(&a);

    taker_expect_nothing(&a, 50);
    if (access("/proc/net/tcp", R_OK) == 0) {
        const long when = keepalive_of(a.fd, r->counter);

        assert_in_range(when, 1, 300 * sysconf(_SC_CLK_TCK) + 100);
    }
    taker_close(&a);
}

/* ---- Dump and windows --------------------------------------------------- */

static void
assert_dumped(struct taker *t, const char *name, uint32_t current,
              uint32_t maximum)
{
    const struct taker_record *record;
    struct taker_dump dump;

    taker_dump(t, &dump);
    record = taker_dump_find(&dump, name);
    assert_non_null(record);
    if (record->current != current || record->maximum != maximum)
        fail_msg("%s is %u of %u, not %u of %u", name, record->current,
                 record->maximum, current, maximum);
    taker_dump_free(&dump);
}

/* The window of ten seconds that it is now. */
static uint64_t
window(void)
{
    return clock_unix_ms() / 10000;
}

/* Holds and lets go of "busy" again and again: while it is held, no sweep may
 * take it away. */
static void
take_and_give(struct taker *t)
{
    const int64_t before = taker_get(t, "busy");

    assert_true(before == 0 || before == -TAKER_NOT_FOUND);
    assert_int_equal(taker_acquire(t, "busy", 1, 1), TAKER_OK);
    assert_int_equal(taker_get(t, "busy"), 1);
    assert_int_equal(taker_release(t, "busy", 1), TAKER_OK);
}

static void
at_a_boundary_peaks_begin_anew_and_what_is_idle_goes(void **state)
{
    const uint64_t end_ms = clock_ms() + 40000;
    struct live_rig *r = *state;
    struct taker a, b;
    uint64_t begun;

    live_rig_start(r, "counter.stats_interval=10", NULL);
    taker_open(&a, r->counter);
    taker_open(&b, r->counter);
    /* Five seconds at least for what is to be in one window. */
    while (clock_unix_ms() % 10000 > 5000)
        take_and_give(&b);
    begun = window();
    assert_int_equal(taker_acquire(&a, "held", 5, 10), TAKER_OK);
    assert_int_equal(taker_release(&a, "held", 3), TAKER_OK);
    assert_int_equal(taker_acquire(&a, "more", 6, 10), TAKER_OK);
    assert_int_equal(taker_release(&a, "more", 4), TAKER_OK);
    assert_int_equal(taker_acquire(&a, "left", 4, 10), TAKER_OK);
    assert_int_equal(taker_release(&a, "left", 4), TAKER_OK);
    assert_int_equal(taker_get(&a, "left"), 0);
    assert_dumped(&a, "held", 2, 5);
    assert_dumped(&a, "left", 0, 4);
    assert_int_equal(window(), begun);

    /* It stays until the boundary and goes soon after. */
    while (taker_get(&a, "left") == 0) {
        take_and_give(&b);
        assert_true(clock_ms() < end_ms);
    }
    assert_true(window() > begun);
    assert_int_equal(taker_release(&a, "left", 0), TAKER_NOT_FOUND);
    assert_dumped(&a, "held", 2, 2);
    /* An Acquire: what was before does not count. */
    assert_int_equal(taker_acquire(&a, "more", 1, 10), TAKER_OK);
    assert_dumped(&a, "more", 3, 3);
    /* A release: the peak is what it was when the window began. */
    assert_int_equal(taker_release(&a, "held", 1), TAKER_OK);
    assert_dumped(&a, "held", 1, 2);
    assert_int_equal(taker_acquire(&a, "held", 3, 10), TAKER_OK);
    assert_dumped(&a, "held", 4, 4);
    assert_int_equal(taker_acquire(&a, "left", 1, 1), TAKER_OK);
    assert_dumped(&a, "left", 1, 1);
    taker_close(&a);
    taker_close(&b);
}

/* ---- the two protocols -------------------------------------------------- */

static void
counters_and_semaphores_of_one_name_are_strangers(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_open(&b, r->semaphore);

    assert_int_equal(taker_acquire(&a, "twin", 3, 10), TAKER_OK);
    assert_int_equal(taker_get(&b, "twin"), -TAKER_NOT_FOUND);
    assert_int_equal(taker_release(&b, "twin", 3), TAKER_NOT_FOUND);
    assert_int_equal(taker_acquire(&b, "twin", 1, 5), TAKER_OK);
    assert_int_equal(taker_get(&a, "twin"), 3);
    assert_int_equal(taker_get(&b, "twin"), 4);
    taker_close(&a);
    taker_close(&b);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, live_rig_setup, live_rig_teardown)

static const struct CMUnitTest tests[] = {
    TEST(a_name_may_have_65535_bytes),
    TEST(bodies_up_to_thirty_mebibytes_are_thrown_away_as_they_come),
    TEST(nothing_is_done_before_the_last_byte_has_come),
    TEST(live_protocol_may_be_cut_anywhere),
    TEST(a_thousand_requests_in_one_go_have_a_thousand_answers),
    TEST(a_client_that_reads_no_answers_is_not_read_from),
    TEST(a_killed_client_gives_back_what_it_held),
    TEST(after_a_half_close_all_is_answered_and_then_given_back),
    TEST(a_cut_request_leaves_no_trace),
    TEST(ten_thousand_counters_come_back_when_their_holder_goes),
    TEST(closing_in_the_middle_of_a_dump_harms_nobody),
    TEST(who_goes_on_where_the_answer_before_it_ended),
    TEST(the_last_one_is_taken_by_exactly_one),
    TEST(a_full_port_leaves_the_other_one_open),
    TEST(a_silent_client_is_watched_and_told_nothing),
    TEST(at_a_boundary_peaks_begin_anew_and_what_is_idle_goes),
    TEST(counters_and_semaphores_of_one_name_are_strangers),
};

int
main(int argc, char **argv)
{
    return dialogue_main(__FILE__, tests, sizeof tests / sizeof *tests,
                         COUNTERS, &live_rig_play, argc, argv);
}
