/* tests/e2e/test_counter_load.c - live objects in large numbers and under
 * pressure: thousands of connections, floods beside a trickle, memory that runs
 * out. */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/live_client.h"
#include "tests/lib/live_daemon.h"

#define CLIENTS  20000
#define SPARE    400 /* descriptors for everything else */
#define LIMIT_MS 20000
/* An answer that took longer was not only late on a busy machine. */
#define STARVED_MS 10000
#define MIB        ((uint64_t)1 << 20)
#define FLOODERS   50
#define FLOOD_MAX  200000 /* messages, of which a disk is to hold all */
#define TRICKLE    1500   /* ms */

static size_t
name_of(char name[48], const char *prefix, uint32_t number)
{
    return (size_t)snprintf(name, 48, "%s-%08u-of-many", prefix, number);
}

/* ---- connections -------------------------------------------------------- */

/* Takes one of "crowd" and one of its own. */
static void
ask_two(int fd, uint32_t number)
{
    uint8_t bytes[160];
    char name[48];
    size_t size, n;

    n = name_of(name, "seat", number);
    size = live_client_put_acquire(bytes, number, "crowd", 5, 1, CLIENTS);
    size += live_client_put_acquire(bytes + size, number, name, n, 1, 1);
    client_send(fd, bytes, size);
}

static void
expect_two(int fd, uint32_t number)
{
    uint8_t bytes[32], wanted[32];

    put_be32(wanted, UINT32_C(0x91020000));
    put_be32(wanted + 4, 4);
    put_be32(wanted + 8, number);
    put_be32(wanted + 12, 1);
    memcpy(wanted + 16, wanted, 16);
    assert_int_equal(client_read(fd, bytes, sizeof bytes), sizeof bytes);
    assert_memory_equal(bytes, wanted, sizeof bytes);
}

#define CASE(name, r)                                                          \
    TEST_IN(name, struct live_daemon *r, live_daemon_setup,                    \
            live_daemon_teardown)

CASE(twenty_thousand_connections_hold_something_each, r)
{
    const uint64_t got = live_daemon_descriptors(CLIENTS + SPARE);
    const uint32_t count =
        (uint32_t)(got >= CLIENTS + SPARE ? CLIENTS : got - SPARE);
    int *fds = calloc(count, sizeof *fds);
    struct live_client observer;
    uint64_t memory;

    assert_non_null(fds);
    live_daemon_start(r, "counter.max_connections=20001",
                      "write.max_connections=64", "semaphore.max_connections=8",
                      NULL);
    live_client_open(&observer, r->counter);
    live_client_noop(&observer);
    memory = daemon_memory(&r->writer);
    for (uint32_t i = 0; i < count; i++) {
        fds[i] = live_daemon_connect_from(r->counter, i);
        ask_two(fds[i], i);
    }
    for (uint32_t i = 0; i < count; i++)
        expect_two(fds[i], i);

    assert_int_equal(live_client_get(&observer, "crowd"), count);
    live_client_await_stat(&observer, "curr_connections", count + 1);
    memory = daemon_memory(&r->writer) - memory;
    print_message("%u connections, %llu bytes each with two holdings\n", count,
                  (unsigned long long)memory / count);
    if (test_slow() == 1)
        assert_in_range(memory, 0, count * UINT64_C(1024) + MIB);
    for (uint32_t i = 0; i < count; i++)
        if (i % 3)
            client_close(fds[i]);
        else
            client_reset(fds[i]);
    live_client_await(&observer, "crowd", 0);
    live_client_await_stat(&observer, "curr_connections", 1);
    live_client_close(&observer);
    free(fds);
    live_daemon_stop(r);
    if (count < CLIENTS)
        test_skip("fewer than 20,000 connections: the limit of open files "
                  "forbids more");
}

/* The descriptors of a process that are in use, and one more. */
static rlim_t
descriptors_of(pid_t pid)
{
    char path[64];
    rlim_t end = 0;

    for (int i = 0; i < 400; i++) {
        (void)snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid,
                       i); /* fits */
        if (access(path, F_OK) == 0)
            end = (rlim_t)i + 1;
    }
    return end;
}

CASE(out_of_descriptors_newcomers_wait_and_holders_are_served, r)
{
    struct rlimit limit;
    struct live_client a, late[12];
    int i;

    live_daemon_start(r, NULL);
    live_client_open(&a, r->counter);
    assert_int_equal(live_client_acquire(&a, "well", 1, 100), LIVE_CLIENT_OK);
    assert_int_equal(prlimit(r->writer.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = descriptors_of(r->writer.pid) + 4;
    assert_int_equal(prlimit(r->writer.pid, RLIMIT_NOFILE, &limit, NULL), 0);

    for (i = 0; i < 12; i++) {
        uint8_t bytes[64];

        live_client_open(&late[i], r->counter);
        live_client_send(&late[i], bytes,
                         live_client_put_acquire(bytes, 1, "well", 4, 1, 100));
    }
    live_client_expect_u32(&late[0], LIVE_CLIENT_ACQUIRE, 1, 1);
    live_client_expect_nothing(&late[11], 100);
    assert_int_equal(live_client_acquire(&a, "well", 1, 100), LIVE_CLIENT_OK);
    /* One goes, the next is let in; nobody was sent away. */
    for (i = 0; i < 12; i++) {
        if (i > 0)
            live_client_expect_u32(&late[i], LIVE_CLIENT_ACQUIRE, 1, 1);
        live_client_close(&late[i]);
    }
    live_client_await(&a, "well", 2);
    live_client_close(&a);
    live_daemon_stop(r);
}

/* ---- floods ------------------------------------------------------------- */

struct flood {
    pid_t pid;
    int stop_fd;  /* closing it ends the flood */
    int count_fd; /* and then its number of requests comes here */
};

/* True once the other end of `fd` is closed. */
static bool
is_closed(int fd)
{
    char byte;

    return client_try_read(fd, &byte, 1, 0) == 0;
}

/* In a child: increments as fast as they go.  Their number. */
static uint64_t
flood_increments(uint16_t port, int stop_fd)
{
    static uint8_t messages[100 * CLIENT_MESSAGE_SIZE];
    const int fd = client_try_connect(port);
    uint64_t sent = 0;

    for (size_t i = 0; i < 100; i++)
        client_message(messages + i * CLIENT_MESSAGE_SIZE, "flood", "drop", 1);
    while (fd >= 0 && sent < FLOOD_MAX && !is_closed(stop_fd) &&
           client_try_send(fd, messages, sizeof messages) == 0)
        sent += 100;
    return sent;
}

/* In a child: pairs on many connections.  Their number. */
static uint64_t
flood_pairs(uint16_t port, int stop_fd)
{
    uint8_t requests[64 * 80], answers[64 * 28];
    int fds[FLOODERS], i;
    uint64_t done = 0;
    size_t size = 0;

    for (i = 0; i < 64; i++) {
        size += live_client_put_acquire(requests + size, 1, "flood", 5, 1,
                                        UINT32_MAX);
        size += live_client_put_release(requests + size, 1, "flood", 5, 1);
    }
    for (i = 0; i < FLOODERS; i++)
        fds[i] = client_try_connect(port);
    while (!is_closed(stop_fd)) {
        for (i = 0; i < FLOODERS; i++)
            if (client_try_send(fds[i], requests, size) < 0)
                return 0;
        for (i = 0; i < FLOODERS; i++, done += 64)
            if (recv(fds[i], answers, sizeof answers, MSG_WAITALL) !=
                (ssize_t)sizeof answers)
                return 0;
    }
    return done;
}

static void
start_flood(struct flood *f, uint64_t (*run)(uint16_t port, int stop_fd),
            uint16_t port)
{
    int stop[2], count[2];
    uint64_t done;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stop), 0);
    assert_int_equal(pipe(count), 0);
    (void)fflush(NULL); /* or the child would print it again */
    f->pid = fork();
    assert_true(f->pid >= 0);
    if (f->pid == 0) {
        (void)close(stop[1]); /* the parent's */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
            _exit(1);
        done = run(port, stop[0]);
        _exit(write(count[1], &done, sizeof done) == sizeof done ? 0 : 1);
    }
    close(stop[0]);
    close(count[1]);
    f->stop_fd = stop[1];
    f->count_fd = count[0];
}

/* How many there were. */
static uint64_t
end_flood(struct flood *f)
{
    uint64_t done = 0;
    int status;

    close(f->stop_fd);
    assert_int_equal(read(f->count_fd, &done, sizeof done), sizeof done);
    close(f->count_fd);
    assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
    assert_int_equal(status, 0);
    return done;
}

CASE(neither_a_flood_of_increments_nor_one_of_pairs_starves_others, r)
{
    uint64_t worst_get_ms = 0, worst_win_ms = 0, begin_ms, end_ms;
    uint64_t pairs, increments;
    struct flood one, other;
    unsigned turns = 0;
    struct live_client a;
    int ack;

    live_daemon_start(r, "log.size=4M", NULL);
    live_client_open(&a, r->counter);
    ack = client_connect(r->ack);
    start_flood(&one, flood_pairs, r->counter);
    start_flood(&other, flood_increments, r->silent);

    end_ms = clock_ms() + TRICKLE;
    for (; clock_ms() < end_ms || turns < 20; turns++) {
        begin_ms = clock_ms();
        assert_int_equal(live_client_acquire(&a, "trickle", 1, 1),
                         LIVE_CLIENT_OK);
        assert_int_equal(live_client_release(&a, "trickle", 1), LIVE_CLIENT_OK);
        if (clock_ms() - begin_ms > worst_get_ms)
            worst_get_ms = clock_ms() - begin_ms;
        begin_ms = clock_ms();
        client_increment(ack, "trickle", "drop", 1);
        client_wins(ack, 1);
        if (clock_ms() - begin_ms > worst_win_ms)
            worst_win_ms = clock_ms() - begin_ms;
    }
    increments = end_flood(&other);
    pairs = end_flood(&one);
    print_message("%llu pairs and %llu increments beside %u turns, of which "
                  "the longest took %llu ms and %llu ms\n",
                  (unsigned long long)pairs, (unsigned long long)increments,
                  turns, (unsigned long long)worst_get_ms,
                  (unsigned long long)worst_win_ms);
    assert_true(pairs >= 1000 && increments >= 1000);
    assert_in_range(worst_get_ms, 0, STARVED_MS * test_slow());
    assert_in_range(worst_win_ms, 0, STARVED_MS * test_slow());
    live_client_await(&a, "flood", 0);
    live_client_close(&a);
    client_close(ack);
    live_daemon_stop(r);
}

/* ---- memory ------------------------------------------------------------- */

CASE(without_memory_new_names_are_refused_and_nothing_else_changes, r)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)LIMIT_MS * test_slow();
    struct live_client a, b;
    static char name[60000];
    uint32_t taken = 0;
    int status;

    live_daemon_start(r, "counter.max_memory=16M", "counter.buckets=1000",
                      "semaphore.buckets=1000", "semaphore.gc_interval=1",
                      NULL);
    live_client_open(&a, r->semaphore);
    live_client_open(&b, r->semaphore);
    memset(name, 'y', sizeof name);
    for (;;) {
        (void)snprintf(name, 16, "%015u", taken); /* fits */
        status = live_client_acquire_bytes(&a, name, sizeof name, 1, 5);
        if (status != LIVE_CLIENT_OK)
            break;
        taken++;
        assert_true(taken < 16 * MIB / sizeof name);
    }
    assert_int_equal(status, LIVE_CLIENT_NO_MEMORY);
    assert_true(taken > 50);

    /* It was not created; what there is works as before. */
    assert_int_equal(live_client_get_bytes(&a, name, sizeof name),
                     -LIVE_CLIENT_NOT_FOUND);
    (void)snprintf(name, 16, "%015u", taken / 2); /* fits */
    assert_int_equal(live_client_get_bytes(&a, name, sizeof name), 4);
    assert_int_equal(live_client_acquire_bytes(&a, name, sizeof name, 4, 5),
                     LIVE_CLIENT_OK);
    assert_int_equal(live_client_acquire_bytes(&a, name, sizeof name, 1, 5),
                     LIVE_CLIENT_FULL);
    assert_int_equal(live_client_release_bytes(&a, name, sizeof name, 5),
                     LIVE_CLIENT_OK);
    live_client_noop(&b);

    /* Its holder goes, a sweep comes: there is room again. */
    live_client_drop(&a);
    (void)snprintf(name, 16, "%015u", taken); /* fits */
    while ((status = live_client_acquire_bytes(&b, name, sizeof name, 1, 5)) !=
           LIVE_CLIENT_OK) {
        assert_int_equal(status, LIVE_CLIENT_NO_MEMORY);
        assert_true(clock_ms() < end_ms);
    }
    live_client_close(&b);
    live_daemon_stop(r);
    (void)daemon_output(&r->writer, name, sizeof name); /* as much as fits */
    assert_non_null(strstr(name,
                           "counter.max_memory=16777216 is used up: new "
                           "names are refused, 1 so far; of 0 counters "));
}
