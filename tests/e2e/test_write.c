/* tests/e2e/test_write.c - countd-write, the built program, alone: what its
 * clients get, what its logs hold, what it refuses, how it stops. */
#include "common/log/recover.h"
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/records.h"
#include "tests/lib/taker.h"
#include "tests/lib/tmpdir.h"

#define SIZE     CLIENT_MESSAGE_SIZE
#define LIMIT_MS 20000
#define CLIENTS  20000 /* as many as the machine lets us have */

struct rig {
    struct tmpdir dir;
    struct daemon writer;
    struct records records;
    char data[600];
};

static int
set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);

    assert_non_null(r);
    tmpdir_make(&r->dir);
    (void)snprintf(r->data, sizeof r->data, "%s", r->dir.path); /* fits */
    *state = r;
    return 0;
}

static int
tear_down(void **state)
{
    struct rig *r = *state;

    daemon_fini(&r->writer);
    records_free(&r->records);
    tmpdir_remove(&r->dir);
    free(r);
    return 0;
}

/* Starts the writer with up to three settings more (NULL: none). */
static void
start(struct rig *r, const char *log_size, const char *one, const char *two)
{
    char size[64];

    (void)snprintf(size, sizeof size, "log.size=%s", log_size); /* fits */
    daemon_start(&r->writer, "countd-write", "-d", r->data, "-o", size, "-o",
                 "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o",
                 one ? one : "log.rotate_after=1h", "-o",
                 two ? two : "log.count=2", NULL);
}

static int
ack(const struct rig *r)
{
    return client_connect(daemon_port(&r->writer, "ack"));
}

static int
silent(const struct rig *r)
{
    return client_connect(daemon_port(&r->writer, "silent"));
}

static int
open_logs(const struct rig *r)
{
    char path[700];
    int fd;

    (void)snprintf(path, sizeof path, "%s/log", r->data); /* fits */
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void
read_logs(struct rig *r)
{
    int fd = open_logs(r);

    records_read(&r->records, fd);
    close(fd);
    assert_int_equal(r->records.damaged, 0);
}

/* A clean stop, and then what the logs hold. */
static void
stop(struct rig *r)
{
    assert_int_equal(daemon_stop(&r->writer), 0);
    read_logs(r);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
}

/* Logs with these permission bits. */
static size_t
logs_in_mode(const struct rig *r, mode_t mode)
{
    char name[LOG_NAME_SIZE];
    int fd = open_logs(r);
    size_t count = 0;
    struct stat st;
    uint64_t i;

    for (i = 0; i < 64; i++) {
        log_name(i, name);
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            (st.st_mode & 0777) == mode)
            count++;
    }
    close(fd);
    return count;
}

/* Waits for something that comes by itself. */
static void
await_logs(const struct rig *r, mode_t mode, size_t count)
{
    const uint64_t end_ms = clock_ms() + LIMIT_MS * test_slow();

    while (logs_in_mode(r, mode) != count) {
        if (clock_ms() > end_ms)
            fail_msg("%zu logs of mode %04o, not %zu", logs_in_mode(r, mode),
                     (unsigned)mode, count);
        poll(NULL, 0, 2);
    }
}

static void
await_output(const struct rig *r, const char *text)
{
    const uint64_t end_ms = clock_ms() + LIMIT_MS * test_slow();
    char output[8192];

    for (;;) {
        daemon_output(&r->writer, output, sizeof output);
        if (strstr(output, text))
            return;
        if (clock_ms() > end_ms)
            fail_msg("nothing about \"%s\" in:\n%s", text, output);
        poll(NULL, 0, 2);
    }
}

/* ---- the protocol ------------------------------------------------------ */

/* The recorded exchanges, as a table: name and increment, each in its own
 * send, each answered before the next. */
static void
single_messages_are_each_answered_with_win(void **state)
{
    static const struct {
        const char *keyspace, *key;
        int64_t increment;
    } sent[] = {
        {"OH HAI", "OH NOES", 47}, {"asdf", "qwerty", -9},
        {"foo", "bar", 48879},     {"lim", "max", INT64_MAX},
        {"lim", "min", INT64_MIN}, {"lim", "zero", 0},
        {"lim", "neg", -1},
    };
    const size_t count = sizeof sent / sizeof sent[0];
    struct rig *r = *state;
    size_t i, times;
    int fd;

    start(r, "64K", NULL, NULL);
    fd = ack(r);
    for (i = 0; i < count; i++) {
        client_increment(fd, sent[i].keyspace, sent[i].key, sent[i].increment);
        client_wins(fd, 1);
    }
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.count, count);
    for (i = 0; i < count; i++) {
        assert_true(records_sum(&r->records, sent[i].keyspace, sent[i].key,
                                &times) == sent[i].increment);
        assert_int_equal(times, 1);
    }
}

static void
glued_messages_get_a_win_each(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[5 * SIZE];
    char key[8];
    int fd, i;

    start(r, "64K", NULL, NULL);
    fd = ack(r);
    for (i = 1; i <= 5; i++) {
        (void)snprintf(key, sizeof key, "k%d", i); /* fits */
        client_message(bytes + (i - 1) * SIZE, "glue", key, i);
    }
    client_send(fd, bytes, sizeof bytes);
    client_wins(fd, 5);
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.count, 5);
    assert_int_equal(records_sum(&r->records, "glue", "k5", NULL), 5);
}

static void
half_a_message_of_one_does_not_disturb_another(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE];
    int a, b;

    start(r, "64K", NULL, NULL);
    a = ack(r);
    b = ack(r);
    client_message(message, "two", "a", 1);
    client_send(a, message, 300);
    client_increment(b, "two", "b", 2);
    client_wins(b, 1);
    client_send(a, message + 300, SIZE - 300);
    client_wins(a, 1);
    client_close(a);
    client_close(b);
    stop(r);

    assert_int_equal(r->records.count, 2);
    assert_int_equal(records_sum(&r->records, "two", "a", NULL), 1);
    assert_int_equal(records_sum(&r->records, "two", "b", NULL), 2);
}

static void
a_half_close_gets_the_wins_owed_and_the_end(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[3 * SIZE];
    int fd, i;

    start(r, "64K", NULL, NULL);
    fd = ack(r);
    for (i = 0; i < 3; i++)
        client_message(bytes + i * SIZE, "half", "abc", 1);
    client_send(fd, bytes, 2 * SIZE + 260);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    client_wins(fd, 2);
    client_expect_end(fd);
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.count, 2);
    await_output(r, "partial_disconnects=1");
}

static void
empty_names_get_fail(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE], reply[8];
    int fd, i;

    start(r, "64K", NULL, NULL);
    for (i = 0; i < 2; i++) {
        fd = ack(r);
        client_message(message, "ks", "k", 1);
        memset(message + (i ? 264 : 8), 0, 256);
        client_send(fd, message, SIZE);
        assert_int_equal(client_read(fd, reply, sizeof reply), 4);
        assert_memory_equal(reply, "FAIL", 4);
        client_close(fd);
    }
    stop(r);

    assert_int_equal(r->records.count, 0);
    await_output(r, "malformed=2");
}

/* One more than a log of 4032 takes, all answered though nobody reads until
 * the end. */
static void
a_full_log_is_followed_by_the_next(void **state)
{
    struct rig *r = *state;
    const size_t count = 4033;
    uint8_t *bytes = malloc(count * SIZE);
    char size[32];
    size_t i;
    int fd;

    assert_non_null(bytes);
    (void)snprintf(size, sizeof size, "%d", 8192 + 4032 * 544); /* fits */
    start(r, size, NULL, NULL);
    fd = ack(r);
    for (i = 0; i < count; i++)
        client_message(bytes + i * SIZE, "fill", "k", 1);
    client_send(fd, bytes, count * SIZE);
    client_wins(fd, count);
    await_logs(r, LOG_MODE_FULL, 1);
    client_close(fd);
    free(bytes);
    stop(r);

    assert_int_equal(r->records.count, count);
    assert_int_equal(records_sum(&r->records, "fill", "k", NULL), count);
    assert_int_equal(r->records.states[LOG_SEALED], 2);
}

static void
many_small_logs_keep_every_message_once(void **state)
{
    struct rig *r = *state;
    const size_t count = 3000;
    uint8_t *bytes = malloc(count * SIZE);
    char key[16];
    size_t i, times;
    int fds[4], c;

    assert_non_null(bytes);
    start(r, "16K", NULL, "log.max=2000");
    for (c = 0; c < 4; c++)
        fds[c] = ack(r);
    for (i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "%zu", i); /* fits */
        client_message(bytes + i * SIZE, "small", key, (int64_t)i);
    }
    for (i = 0; i < count; i += 100)
        client_send(fds[i / 100 % 4], bytes + i * SIZE, 100 * SIZE);
    for (i = 0; i < count; i += 100)
        client_wins(fds[i / 100 % 4], 100);
    for (c = 0; c < 4; c++)
        client_close(fds[c]);
    free(bytes);
    stop(r);

    assert_int_equal(r->records.count, count);
    for (i = 0; i < count; i += 97) {
        (void)snprintf(key, sizeof key, "%zu", i); /* fits */
        assert_int_equal(records_sum(&r->records, "small", key, &times), i);
        assert_int_equal(times, 1);
    }
    /* (16384 - 8192) / 544 = 15 slots. */
    assert_int_equal(r->records.states[LOG_SEALED], 3000 / 15);
}

static void
the_silent_port_never_sends_a_byte(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[100 * SIZE], byte;
    int fd, i;

    start(r, "1M", NULL, "log.sync=always");
    fd = silent(r);
    for (i = 0; i < 100; i++)
        client_message(bytes + i * SIZE, "quiet", "k", 1);
    client_send(fd, bytes, sizeof bytes);
    assert_rc(client_try_read(fd, &byte, 1, 50), -EAGAIN);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    client_expect_end(fd);
    client_close(fd);
    stop(r);

    assert_int_equal(records_sum(&r->records, "quiet", "k", NULL), 100);
}

/* Each client sends and closes at once, without looking. */
static void
senders_that_close_at_once_lose_nothing(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[50 * SIZE];
    int fd, i;

    start(r, "8M", NULL, "log.sync=never");
    for (i = 0; i < 50; i++)
        client_message(bytes + i * SIZE, "dash", "k", 1);
    for (i = 0; i < 200; i++) {
        fd = silent(r);
        client_send(fd, bytes, sizeof bytes);
        client_close(fd);
    }
    stop(r);

    assert_int_equal(records_sum(&r->records, "dash", "k", NULL), 10000);
    await_output(r, "partial_disconnects=0");
}

/* ---- bad clients ------------------------------------------------------- */

/* The client has megabytes in flight behind the malformed message and reads
 * only when all is sent: a reset would eat the answer. */
static void
no_reset_overtakes_fail(void **state)
{
    struct rig *r = *state;
    const size_t count = 10000;
    uint8_t *bytes = malloc(count * SIZE), reply[64];
    size_t i;
    int fd;

    assert_non_null(bytes);
    start(r, "1M", NULL, NULL);
    for (i = 0; i < count; i++)
        client_message(bytes + i * SIZE, "ks", "k", 1);
    bytes[3 * SIZE + 8] = 0;
    fd = ack(r);
    client_send(fd, bytes, count * SIZE);
    free(bytes);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(client_read(fd, reply, sizeof reply), 13);
    assert_memory_equal(reply, "WINWINWINFAIL", 13);
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.count, 3);
}

static void
a_reset_in_the_middle_of_a_message_takes_nothing_down(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE];
    int fd, i;

    start(r, "64K", NULL, NULL);
    client_message(message, "rst", "k", 1);
    for (i = 0; i < 20; i++) {
        fd = i % 2 ? ack(r) : silent(r);
        client_send(fd, message, 1 + (size_t)i * 20);
        client_reset(fd);
    }
    fd = ack(r);
    client_send(fd, message, SIZE);
    client_wins(fd, 1);
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.count, 1);
}

static void
a_client_that_never_reads_costs_no_memory(void **state)
{
    struct rig *r = *state;
    const size_t chunk = 4000, chunks = 250; /* a million messages */
    uint8_t *bytes = malloc(chunk * SIZE);
    uint64_t before, after;
    size_t i;
    int deaf, fd;

    assert_non_null(bytes);
    start(r, "32M", NULL, "log.max=64");
    deaf = ack(r);
    fd = ack(r);
    for (i = 0; i < chunk; i++)
        client_message(bytes + i * SIZE, "deaf", "k", 1);
    client_send(deaf, bytes, chunk * SIZE);
    client_increment(fd, "other", "k", 1);
    client_wins(fd, 1);
    before = daemon_memory(&r->writer);
    for (i = 1; i < chunks / (test_slow() > 1 ? 10 : 1); i++) {
        client_send(deaf, bytes, chunk * SIZE);
        client_increment(fd, "other", "k", 1);
        client_wins(fd, 1);
    }
    after = daemon_memory(&r->writer);
    if (test_slow() == 1)
        assert_in_range(after, 0, before + (UINT64_C(1) << 20));

    /* It still gets all of them. */
    client_wins(deaf, i * chunk);
    client_close(deaf);
    client_close(fd);
    free(bytes);
    assert_int_equal(daemon_stop(&r->writer), 0);
}

/* ---- limits ------------------------------------------------------------ */

/* Descriptors for `count` clients in this process: how many there may be. */
static size_t
allow_clients(size_t count)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count + 100;
    if (limit.rlim_max < limit.rlim_cur)
        limit.rlim_max = limit.rlim_cur;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    return (size_t)limit.rlim_cur - 100 < count ? (size_t)limit.rlim_cur - 100
                                                : count;
}

/* How many connections may wait to be accepted. */
static size_t
queue_room(void)
{
    FILE *f = fopen("/proc/sys/net/core/somaxconn", "re");
    unsigned room = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%u", &room), 1);
    assert_int_equal(fclose(f), 0);
    return room < 4096 ? room : 4096; /* what net_listen() asks for */
}

/* The kernel's search for a free port gets slow when thousands of one address
 * are taken: every few thousand clients have another one. */
static int
connect_from(uint16_t port, size_t client)
{
    struct sockaddr_in from = {.sin_family = AF_INET},
                       to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    from.sin_addr.s_addr =
        htonl(INADDR_LOOPBACK + 1 + (uint32_t)(client / 2000));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void
thousands_of_connections_are_all_served(void **state)
{
    struct rig *r = *state;
    size_t count = allow_clients(CLIENTS);
    int *fds = calloc(count, sizeof *fds);
    uint8_t reply[3];
    const size_t part = queue_room() / 2 + 1;
    size_t i, served = 0, max;
    struct rlimit limit;

    assert_non_null(fds);
    /* Counters would have their share of the descriptors. */
    start(r, "32M", NULL, "counter.enable=false");
    assert_int_equal(prlimit(r->writer.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    max = limit.rlim_cur < 16384 + 128 ? limit.rlim_cur - 128 : 16384;
    if (count > max + queue_room())
        count = max + queue_room();

    /* The first ones are served, the rest waits for a place.  Who comes to a
     * full queue might be taken out of order, so they come in parts. */
    for (i = 0; i < count; i++) {
        fds[i] = connect_from(daemon_port(&r->writer, "ack"), i);
        client_increment(fds[i], "many", "k", 1);
        if (i < max && ((i + 1) % part == 0 || i + 1 == max || i + 1 == count))
            for (; served <= i; served++)
                client_wins(fds[served], 1);
    }
    if (count > max)
        assert_rc(client_try_read(fds[max], reply, 3, 50), -EAGAIN);
    if (test_slow() == 1)
        assert_in_range(daemon_memory(&r->writer), 0, UINT64_C(64) << 20);
    for (i = 0; i < count; i++) {
        if (i >= max)
            client_wins(fds[i], 1);
        client_close(fds[i]);
    }
    free(fds);
    stop(r);

    assert_int_equal(r->records.count, count);
    print_message("%zu connections\n", count);
}

static void
out_of_descriptors_accepting_pauses_and_nobody_is_harmed(void **state)
{
    struct rig *r = *state;
    struct rlimit limit = {0};
    uint8_t reply[3];
    int fds[16], i, open_fds;

    start(r, "64K", NULL, NULL);
    fds[0] = ack(r);
    client_increment(fds[0], "few", "k", 1);
    client_wins(fds[0], 1);
    /* All it has, and four more. */
    open_fds = fds[0];
    for (i = 0; i < 200; i++) {
        char path[64];

        (void)snprintf(path, sizeof path, "/proc/%ld/fd/%d",
                       (long)r->writer.pid, i); /* fits */
        if (access(path, F_OK) == 0)
            open_fds = i + 1;
    }
    assert_int_equal(prlimit(r->writer.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = (rlim_t)open_fds + 4;
    assert_int_equal(prlimit(r->writer.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    for (i = 1; i < 16; i++) {
        fds[i] = ack(r);
        client_increment(fds[i], "few", "k", 1);
    }
    client_wins(fds[1], 1);
    assert_rc(client_try_read(fds[15], reply, 3, 150), -EAGAIN);
    client_increment(fds[0], "few", "k", 1);
    client_wins(fds[0], 1);

    for (i = 0; i < 16; i++) {
        if (i > 1)
            client_wins(fds[i], 1);
        client_close(fds[i]);
    }
    stop(r);
    assert_int_equal(r->records.count, 17);
}

static void
at_log_max_it_pushes_back_and_goes_on_when_a_log_is_emptied(void **state)
{
    struct rig *r = *state;
    uint8_t *bytes = malloc(60 * SIZE), reply[3];
    struct log log;
    int fd, log_fd, i;

    assert_non_null(bytes);
    start(r, "16K", "log.max=2", NULL);
    log_fd = open_logs(r);
    for (i = 0; i < 60; i++)
        client_message(bytes + i * SIZE, "cap", "k", 1);
    fd = ack(r);
    client_send(fd, bytes, 40 * SIZE);
    client_wins(fd, 30);
    assert_rc(client_try_read(fd, reply, 3, 50), -EAGAIN);
    await_output(r, "log.max=2");

    await_logs(r, LOG_MODE_FULL, 2);
    assert_rc(log_claim(&log, log_fd, 1, LOG_MODE_FULL), 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
    client_wins(fd, 10);
    client_close(fd);
    close(log_fd);
    free(bytes);
    stop(r);

    assert_int_equal(r->records.count, 15 + 10);
}

/* On a file system of its own, in a mount namespace of its own. */
static bool
mount_small(struct rig *r)
{
    char path[600];

    (void)snprintf(path, sizeof path, "%s/disk", r->dir.path); /* fits */
    (void)snprintf(r->data, sizeof r->data, "%s/disk/data",
                   r->dir.path); /* fits */
    return geteuid() == 0 && mkdir(path, 0700) == 0 &&
           unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("countd", path, "tmpfs", 0, "size=1m") == 0 &&
           mkdir(r->data, 0700) == 0;
}

static void
a_full_disk_pushes_back_and_recovers_when_there_is_space(void **state)
{
    struct rig *r = *state;
    uint8_t *bytes = malloc(2000 * SIZE), reply[3];
    size_t i, before = 0;
    char path[600];
    int fd;

    assert_non_null(bytes);
    if (!mount_small(r)) {
        free(bytes);
        test_skip("needs root and the right to mount");
    }
    start(r, "256K", NULL, NULL);
    for (i = 0; i < 2000; i++)
        client_message(bytes + i * SIZE, "disk", "k", 1);
    fd = ack(r);
    client_send(fd, bytes, 2000 * SIZE);
    await_output(r, "cannot get an empty log");
    client_wins(fd, 1);
    before = 1;
    while (client_try_read(fd, reply, 1, 300) == 1) {
        assert_int_equal(client_read(fd, reply + 1, 2), 2);
        before++;
    }
    assert_in_range(before, 1, 1999);

    (void)snprintf(path, sizeof path, "%s/disk", r->dir.path); /* fits */
    assert_int_equal(mount("countd", path, "tmpfs", MS_REMOUNT, "size=8m"), 0);
    client_wins(fd, 2000 - before);
    await_output(r, "there is an empty log again");
    client_close(fd);
    free(bytes);
    stop(r);

    assert_int_equal(r->records.count, 2000);
    assert_int_equal(umount(path), 0);
}

/* ---- rotation, signals, stop ------------------------------------------- */

static void
a_log_is_handed_on_some_time_after_its_first_message(void **state)
{
    struct rig *r = *state;
    uint64_t begin_ms;
    int fd;

    start(r, "64K", "log.rotate_after=50ms", NULL);
    fd = silent(r);
    begin_ms = clock_ms();
    client_increment(fd, "age", "k", 1);
    await_logs(r, LOG_MODE_FULL, 1);
    assert_in_range(clock_ms() - begin_ms, 40, LIMIT_MS);
    client_increment(fd, "age", "k", 1);
    await_logs(r, LOG_MODE_FULL, 2);
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.states[LOG_SEALED], 2);
}

static void
sigusr2_hands_the_log_on_and_an_empty_one_stays(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, "64K", NULL, NULL);
    daemon_signal(&r->writer, SIGUSR2);
    fd = ack(r);
    client_increment(fd, "usr2", "k", 1);
    client_wins(fd, 1);
    assert_int_equal(logs_in_mode(r, LOG_MODE_FULL), 0);
    daemon_signal(&r->writer, SIGUSR2);
    await_logs(r, LOG_MODE_FULL, 1);
    daemon_signal(&r->writer, SIGUSR2);
    client_increment(fd, "usr2", "k", 1);
    client_wins(fd, 1);
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.states[LOG_SEALED], 2);
}

static void
sigusr1_prints_the_figures(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, "64K", NULL, NULL);
    fd = ack(r);
    client_increment(fd, "usr1", "k", 1);
    client_wins(fd, 1);
    daemon_signal(&r->writer, SIGUSR1);
    await_output(r, "messages=1 bytes=520");
    client_close(fd);
    stop(r);
}

/* Every NAME= of a line of figures is in FIGURES of countd-write.8. */
static void
every_figure_is_in_the_manual(void **state)
{
    struct rig *r = *state;
    char output[8192], name[64];
    static char page[65536];
    const char *figures, *first, *at;
    size_t size, names = 0;
    FILE *f = fopen("writer/countd-write.8", "re");

    assert_non_null(f);
    size = fread(page, 1, sizeof page - 1, f);
    page[size] = '\0';
    assert_int_equal(fclose(f), 0);
    figures = strstr(page, ".Sh FIGURES");
    assert_non_null(figures);
    *strstr(figures, ".Sh FILES") = '\0';

    start(r, "64K", "live.history=on", "semaphore.enable=on");
    daemon_signal(&r->writer, SIGUSR1);
    await_output(r, "history: rounds=");
    daemon_output(&r->writer, output, sizeof output);
    /* Before them there may be warnings. */
    first = strstr(output, "messages=");
    assert_non_null(first);
    for (at = strchr(first, '='); at; at = strchr(at + 1, '=')) {
        const char *from = at;

        while (from > output && from[-1] != ' ')
            from--;
        (void)snprintf(name, sizeof name, " %.*s", (int)(at - from), from);
        if (!strstr(figures, name))
            fail_msg("%s is not in FIGURES of countd-write.8", name);
        names++;
    }
    assert_true(names >= 10 + 2 * 13 + 3);
    stop(r);
}

static void
a_stop_drains_what_has_arrived(void **state)
{
    struct rig *r = *state;
    const size_t count = 400; /* within the buffers of a socket */
    uint8_t *bytes = malloc(count * SIZE);
    int a, s, late;
    size_t i;

    assert_non_null(bytes);
    /* Each full log waits for the disk, which may be slow. */
    start(r, "64K", "write.drain=1m", NULL);
    a = ack(r);
    s = silent(r);
    for (i = 0; i < count; i++)
        client_message(bytes + i * SIZE, "stop", "k", 1);
    /* It cannot take anything in until it also knows that it is to stop. */
    daemon_signal(&r->writer, SIGSTOP);
    client_send(a, bytes, count * SIZE);
    client_send(s, bytes, count * SIZE);
    late = ack(r); /* not even accepted yet */
    client_send(late, bytes, 10 * SIZE);
    daemon_signal(&r->writer, SIGTERM);
    daemon_signal(&r->writer, SIGCONT);

    client_wins(a, count);
    client_expect_end(a);
    client_wins(late, 10);
    client_expect_end(late);
    client_expect_end(s);
    assert_int_equal(daemon_wait(&r->writer), 0);
    read_logs(r);
    assert_int_equal(r->records.count, 2 * count + 10);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
    client_close(a);
    client_close(s);
    client_close(late);
    free(bytes);
}

static void
a_stop_does_not_wait_for_ever_for_a_client_that_goes_on(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[20 * SIZE];
    uint64_t begin_ms;
    int fd, i;

    start(r, "32M", "write.drain=100ms", NULL);
    fd = silent(r);
    for (i = 0; i < 20; i++)
        client_message(bytes + i * SIZE, "flood", "k", 1);
    begin_ms = clock_ms();
    daemon_signal(&r->writer, SIGTERM);
    while (client_try_send(fd, bytes, sizeof bytes) == 0)
        assert_in_range(clock_ms() - begin_ms, 0, LIMIT_MS);
    assert_int_equal(daemon_wait(&r->writer), 0);
    client_close(fd);
    read_logs(r);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
}

static void
a_stopped_process_keeps_its_logs(void **state)
{
    struct rig *r = *state;
    int fd, log_fd;
    uint8_t reply[3];

    start(r, "64K", NULL, NULL);
    fd = ack(r);
    client_increment(fd, "cont", "k", 1);
    client_wins(fd, 1);
    daemon_signal(&r->writer, SIGSTOP);
    client_increment(fd, "cont", "k", 1);
    assert_rc(client_try_read(fd, reply, 3, 50), -EAGAIN);
    log_fd = open_logs(r);
    assert_rc(log_recover(log_fd, 0), -EBUSY);
    assert_rc(log_recover(log_fd, 1), -EBUSY);
    close(log_fd);
    daemon_signal(&r->writer, SIGCONT);
    client_wins(fd, 1);
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.count, 2);
}

static void
after_a_kill_what_was_acknowledged_is_there(void **state)
{
    struct rig *r = *state;
    int fd, i;

    for (i = 0; i < 5; i++) {
        start(r, "64K", NULL, NULL);
        fd = ack(r);
        client_increment(fd, "kill", "k", 1);
        client_wins(fd, 1);
        daemon_kill(&r->writer);
        client_close(fd);
        daemon_fini(&r->writer);
    }
    start(r, "64K", NULL, NULL);
    stop(r);

    assert_int_equal(records_sum(&r->records, "kill", "k", NULL), 5);
    assert_int_equal(r->records.states[LOG_SEALED], 5);
}

/* Asks for the figures until they have this one. */
static void
await_figure(const struct rig *r, const char *figure)
{
    const uint64_t end_ms = clock_ms() + LIMIT_MS * test_slow();
    const size_t size = (size_t)1 << 20;
    char *output = malloc(size);
    size_t before, after;

    assert_non_null(output);
    before = daemon_output(&r->writer, output, size);
    for (;;) {
        daemon_signal(&r->writer, SIGUSR1);
        /* One answer a question, so that the output stays small. */
        do {
            poll(NULL, 0, 2);
            after = daemon_output(&r->writer, output, size);
        } while (after == before && clock_ms() <= end_ms);
        if (strstr(output + before, figure))
            break;
        if (clock_ms() > end_ms)
            fail_msg("no %s in:\n%s", figure, output + before);
        before = after;
    }
    free(output);
}

static void
every_interval_syncs_without_anybody_waiting(void **state)
{
    static const struct {
        const char *sync, *figure;
    } ways[] = {{"log.sync=always", "syncs=1 "}, {"log.sync=1ms", "syncs=1 "}};
    struct rig *r = *state;
    int fd;
    size_t i;

    for (i = 0; i < 2; i++) {
        start(r, "64K", NULL, ways[i].sync);
        fd = silent(r);
        client_increment(fd, "sync", "k", 1);
        await_figure(r, ways[i].figure);
        client_close(fd);
        assert_int_equal(daemon_stop(&r->writer), 0);
        daemon_fini(&r->writer);
    }
}

/* ---- counters and semaphores ------------------------------------------- */

static void
a_stop_ends_live_connections_at_once(void **state)
{
    struct rig *r = *state;
    struct taker taker;

    start(r, "64K", "counter.port=0", "write.drain=0ms");
    taker_open(&taker, daemon_port(&r->writer, "counter"));
    assert_int_equal(taker_acquire(&taker, "a", 1, 1), TAKER_OK);
    daemon_signal(&r->writer, SIGTERM);
    taker_expect_end(&taker);
    taker_drop(&taker);
    assert_int_equal(daemon_wait(&r->writer), 0);
    await_output(r, "counter: objects=1 created=1 ");
    await_output(r, " open=0 connections=1 noop=0 get=0 acquire=1 ");
}

static void
live_history_is_in_the_logs_after_a_stop(void **state)
{
    struct rig *r = *state;
    struct taker taker;

    start(r, "64K", "live.history=on", NULL);
    taker_open(&taker, daemon_port(&r->writer, "counter"));
    assert_int_equal(taker_acquire(&taker, "a", 3, 4), TAKER_OK);
    assert_int_equal(taker_acquire(&taker, "a", 2, 4), TAKER_FULL);
    assert_int_equal(taker_release(&taker, "a", 1), TAKER_OK);
    assert_int_equal(taker_acquire_bytes(&taker, "b\0c", 3, 5, 5), TAKER_OK);
    daemon_signal(&r->writer, SIGTERM);
    taker_expect_end(&taker);
    taker_drop(&taker);
    assert_int_equal(daemon_wait(&r->writer), 0);
    read_logs(r);

    assert_int_equal(r->records.states[LOG_OPEN], 0);
    assert_int_equal(r->records.count, 5);
    assert_int_equal(records_sum(&r->records, "live.acquired", "a", NULL), 3);
    /* One by request, two as the connection ended. */
    assert_int_equal(records_sum(&r->records, "live.released", "a", NULL), 3);
    assert_int_equal(records_sum(&r->records, "live.refused", "a", NULL), 2);
    await_output(r, "history: rounds=1 increments=5 waits=0");
}

static void
without_a_log_live_requests_go_on(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[40 * SIZE], reply[3];
    struct taker taker;
    int fd, i;

    daemon_start(&r->writer, "countd-write", "-d", r->data, "-o",
                 "log.size=16K", "-o", "log.count=2", "-o", "log.max=2", "-o",
                 "write.listen=", "-o", "write.ack_listen=127.0.0.1:0", "-o",
                 "live.history=on", "-o", "write.drain=0ms", NULL);
    for (i = 0; i < 40; i++)
        client_message(bytes + i * SIZE, "cap", "k", 1);
    fd = ack(r);
    client_send(fd, bytes, sizeof bytes);
    client_wins(fd, 30);
    assert_rc(client_try_read(fd, reply, 3, 50), -EAGAIN);

    taker_open(&taker, daemon_port(&r->writer, "counter"));
    for (i = 0; i < 1000; i++) {
        assert_int_equal(taker_acquire(&taker, "a", 1, 1), TAKER_OK);
        assert_int_equal(taker_acquire(&taker, "a", 1, 1), TAKER_FULL);
        assert_int_equal(taker_release(&taker, "a", 1), TAKER_OK);
    }
    taker_close(&taker);
    client_close(fd);

    /* And a stop does not wait for ever for a log that does not come. */
    assert_int_equal(daemon_stop(&r->writer), 0);
    await_output(r, "live.history: there is no log to write to");
}

/* ---- what it refuses --------------------------------------------------- */

static const char *
writer_path(void)
{
    static char path[600];

    daemon_path("countd-write", path, sizeof path);
    return path;
}

static void
expect_refusal(const struct rig *r, int status, const char *listen,
               const char *more, const char *text)
{
    char output[4096];

    assert_int_equal(daemon_run(output, sizeof output, "countd-write", "-d",
                                r->data, "-o", listen, "-o",
                                "write.ack_listen=127.0.0.1:0", "-o", more,
                                NULL),
                     status);
    if (!strstr(output, text))
        fail_msg("nothing about \"%s\" in:\n%s", text, output);
}

static void
a_second_writer_is_refused(void **state)
{
    struct rig *r = *state;
    char text[64];
    int fd;

    start(r, "64K", NULL, NULL);
    (void)snprintf(text, sizeof text, "pid=%ld", (long)r->writer.pid);
    expect_refusal(r, 111, "write.listen=127.0.0.1:0", "log.size=64K", text);

    /* And does no harm to the first. */
    fd = ack(r);
    client_increment(fd, "first", "k", 1);
    client_wins(fd, 1);
    client_close(fd);
    stop(r);
    assert_int_equal(r->records.count, 1);
}

/* `calls` all fail from the `nth` on; nobody sees why but by what it says. */
static void
a_call_that_fails_at_the_start_is_named(void **state)
{
    static const struct {
        const char *calls, *nth, *text;
    } rows[] = {
        {"?eventfd,?eventfd2", "1", "make an eventfd"},
        {"?clone,?clone3", "1", "create a thread"},
        {"fcntl", "2", "open the logs in data_dir="},
        {"epoll_create1", "1", "event loop"},
        {"epoll_ctl", "2", "watch an eventfd"},
    };
    struct rig *r = *state;
    char output[4096], inject[96];
    size_t i;

    if (daemon_run(NULL, 0, "/usr/bin/env", "strace", "-qq", "-o", "/dev/null",
                   "true", NULL) != 0)
        test_skip("strace cannot trace here");
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(inject, sizeof inject, "inject=%s:error=EMFILE:when=%s+",
                       rows[i].calls, rows[i].nth); /* fits */
        assert_int_equal(daemon_run(output, sizeof output, "/usr/bin/env",
                                    "ASAN_OPTIONS=detect_leaks=0", "strace",
                                    "-qq", "-f", "-o", "/dev/null", "-e",
                                    inject, writer_path(), "-d", r->data, "-o",
                                    "write.listen=127.0.0.1:0", "-o",
                                    "write.ack_listen=", NULL),
                         111);
        if (!strstr(output, rows[i].text) ||
            !strstr(output, "Too many open files"))
            fail_msg("nothing about \"%s\" in:\n%s", rows[i].text, output);
    }
}

/* It waits for the second port while the first is bound. */
static void
signals_at_the_start_wait_until_it_serves(void **state)
{
    struct rig *r = *state;
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof here;
    char listen_at[64];
    const char *argv[] = {"-d", r->data,   "-o", "write.listen=localhost:0",
                          "-o", listen_at, "-o", "log.size=64K",
                          NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &size), 0);
    assert_int_equal(listen(fd, 1), 0);
    (void)snprintf(listen_at, sizeof listen_at, "write.ack_listen=localhost:%u",
                   ntohs(here.sin_port)); /* fits */
    assert_int_equal(daemon_start_how(&r->writer, "countd-write", &how), 0);
    await_output(r, "write.ack_listen=localhost:"); /* is that port */
    daemon_signal(&r->writer, SIGUSR2);
    daemon_signal(&r->writer, SIGTERM);
    assert_int_equal(close(fd), 0);
    assert_int_equal(daemon_wait(&r->writer), 0);
}

static void
a_port_in_use_is_refused_with_what_to_do(void **state)
{
    struct rig *r = *state;
    struct tmpdir other;
    char listen[64];

    start(r, "64K", NULL, NULL);
    (void)snprintf(listen, sizeof listen, "write.listen=127.0.0.1:%u",
                   daemon_port(&r->writer, "silent")); /* fits */
    tmpdir_make(&other);
    (void)snprintf(r->data, sizeof r->data, "%s", other.path); /* fits */
    expect_refusal(r, 111, listen, "log.size=64K", "is in use");
    /* What it had claimed is free again. */
    assert_int_equal(logs_in_mode(r, LOG_MODE_OWNED), 0);
    tmpdir_remove(&other);
    (void)snprintf(r->data, sizeof r->data, "%s", r->dir.path); /* fits */
    stop(r);
}

static void
a_live_port_in_use_is_refused_with_what_to_do(void **state)
{
    struct rig *r = *state;
    struct tmpdir other;
    char port[64];

    start(r, "64K", "counter.port=0", NULL);
    tmpdir_make(&other);
    (void)snprintf(r->data, sizeof r->data, "%s", other.path); /* fits */
    (void)snprintf(port, sizeof port, "counter.port=%u",
                   daemon_port(&r->writer, "counter")); /* fits */
    expect_refusal(r, 111, "write.listen=127.0.0.1:0", port,
                   "set counter.port to a free port, or counter.enable to "
                   "false");
    assert_int_equal(logs_in_mode(r, LOG_MODE_OWNED), 0);
    tmpdir_remove(&other);
    (void)snprintf(r->data, sizeof r->data, "%s", r->dir.path); /* fits */
    stop(r);
}

static void
live_ports_alone_are_something_to_do(void **state)
{
    struct rig *r = *state;
    struct taker taker;

    daemon_start(&r->writer, "countd-write", "-d", r->data, "-o",
                 "write.listen=", "-o", "write.ack_listen=", "-o",
                 "counter.enable=off", "-o", "semaphore.enable=on", "-o",
                 "semaphore.port=0", "-o", "log.size=64K", NULL);
    assert_int_equal(r->writer.port_count, 1);
    taker_open(&taker, daemon_port(&r->writer, "semaphore"));
    assert_int_equal(taker_acquire(&taker, "s", 2, 5), TAKER_OK);
    assert_int_equal(taker_get(&taker, "s"), 3);
    taker_close(&taker);
    stop(r);
    await_output(r, "semaphore: objects=1 created=1 ");
}

static void
an_address_others_can_reach_is_warned_about(void **state)
{
    struct rig *r = *state;

    start(r, "64K", "live.address=0.0.0.0", "counter.port=0");
    await_output(r, "counter.port=0.0.0.0:0 can be reached from other "
                    "machines");
    stop(r);
}

static void
other_message_sizes_are_refused_with_what_to_do(void **state)
{
    struct rig *r = *state;

    start(r, "64K", NULL, NULL);
    stop(r);
    expect_refusal(r, 100, "write.listen=127.0.0.1:0", "message.key_size=100",
                   "message.key_size=256");
}

static void
with_all_ports_off_there_is_nothing_to_do(void **state)
{
    struct rig *r = *state;
    char output[4096];

    assert_int_equal(daemon_run(output, sizeof output, "countd-write", "-d",
                                r->data, "-o", "write.listen=", "-o",
                                "write.ack_listen=", "-o",
                                "counter.enable=false", NULL),
                     100);
    assert_non_null(strstr(output, "write.listen"));
    assert_non_null(strstr(output, "counter.enable"));
}

static void
a_port_can_be_turned_off(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, "64K", "write.listen=", "counter.enable=false");
    assert_int_equal(r->writer.port_count, 1);
    fd = ack(r);
    client_increment(fd, "one", "k", 1);
    client_wins(fd, 1);
    client_close(fd);
    stop(r);
}

/* ---- web pages ----------------------------------------------------------- */

/* As a form of a page of another site sends it: the body is whatever the page
 * likes. */
static size_t
put_forged_post(uint8_t *bytes, uint16_t port)
{
    const int size = snprintf((char *)bytes, 1040,
                              "POST / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                              "Content-Type: text/plain\r\n"
                              "Content-Length: 2080\r\n\r\n",
                              (unsigned)port);

    assert_in_range(size, 1, 1039);
    /* The body's first bytes make the head a whole number of messages. */
    memset(bytes + size, 'x', 1040 - (size_t)size);
    client_message(bytes + 1040, "forged", "by a page", 1);
    client_message(bytes + 1560, "forged", "by a page", 1);
    return 2080;
}

static void
a_web_page_can_forge_nothing_on_any_port(void **state)
{
    static const char *const doors[] = {"counter", "semaphore", "ack",
                                        "silent"};
    struct rig *r = *state;
    uint8_t bytes[2080];
    char said[128];
    size_t i;

    start(r, "64K", "semaphore.enable=on", NULL);
    for (i = 0; i < 4; i++) {
        const uint16_t port = daemon_port(&r->writer, doors[i]);
        const int fd = client_connect(port);

        client_send(fd, bytes, put_forged_post(bytes, port));
        assert_int_equal(client_read(fd, bytes, sizeof bytes), 0);
        client_close(fd);
        (void)snprintf(said, sizeof said,
                       "%s: a connection from 127.0.0.1:", doors[i]);
        await_output(r, said);
    }
    stop(r);

    assert_int_equal(r->records.count, 0);
}

static void
who_sends_what_is_malformed_is_named(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[CLIENT_MESSAGE_SIZE] = {1};
    int fd;

    start(r, "64K", NULL, NULL);
    fd = silent(r);
    client_send(fd, bytes, sizeof bytes);
    client_expect_end(fd);
    client_close(fd);
    await_output(r, "silent: malformed input from 127.0.0.1:");
    daemon_signal(&r->writer, SIGUSR1);
    await_output(r, "door=silent open=0 connections=1 received=520 sent=0 "
                    "malformed=1 http=0");
    stop(r);
}

/* ---- hanging up ---------------------------------------------------------- */

static void
a_hangup_stops_it_cleanly_to_be_started_again(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, "64K", NULL, NULL);
    fd = ack(r);
    client_increment(fd, "space", "key", 1);
    daemon_signal(&r->writer, SIGHUP);
    client_wins(fd, 1);
    assert_int_equal(daemon_wait(&r->writer), 111);
    client_close(fd);
    read_logs(r);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
    assert_int_equal(r->records.count, 1);
}

static void
what_nohup_has_started_goes_on_after_a_hangup(void **state)
{
    struct rig *r = *state;
    int fd;

    assert_true(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    start(r, "64K", NULL, NULL);
    assert_true(signal(SIGHUP, SIG_DFL) != SIG_ERR);
    daemon_signal(&r->writer, SIGHUP);
    /* Signals come in this order. */
    daemon_signal(&r->writer, SIGUSR1);
    await_output(r, "messages=0");
    fd = ack(r);
    client_increment(fd, "space", "key", 1);
    client_wins(fd, 1);
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.count, 1);
}

#define ON_RIG(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static const struct CMUnitTest tests[] = {
    ON_RIG(single_messages_are_each_answered_with_win),
    ON_RIG(glued_messages_get_a_win_each),
    ON_RIG(half_a_message_of_one_does_not_disturb_another),
    ON_RIG(a_half_close_gets_the_wins_owed_and_the_end),
    ON_RIG(empty_names_get_fail),
    ON_RIG(a_full_log_is_followed_by_the_next),
    ON_RIG(many_small_logs_keep_every_message_once),
    ON_RIG(the_silent_port_never_sends_a_byte),
    ON_RIG(senders_that_close_at_once_lose_nothing),
    ON_RIG(no_reset_overtakes_fail),
    ON_RIG(a_reset_in_the_middle_of_a_message_takes_nothing_down),
    ON_RIG(a_client_that_never_reads_costs_no_memory),
    ON_RIG(thousands_of_connections_are_all_served),
    ON_RIG(out_of_descriptors_accepting_pauses_and_nobody_is_harmed),
    ON_RIG(at_log_max_it_pushes_back_and_goes_on_when_a_log_is_emptied),
    ON_RIG(a_full_disk_pushes_back_and_recovers_when_there_is_space),
    ON_RIG(a_log_is_handed_on_some_time_after_its_first_message),
    ON_RIG(sigusr2_hands_the_log_on_and_an_empty_one_stays),
    ON_RIG(sigusr1_prints_the_figures),
    ON_RIG(every_figure_is_in_the_manual),
    ON_RIG(a_stop_drains_what_has_arrived),
    ON_RIG(a_stop_does_not_wait_for_ever_for_a_client_that_goes_on),
    ON_RIG(a_stopped_process_keeps_its_logs),
    ON_RIG(after_a_kill_what_was_acknowledged_is_there),
    ON_RIG(every_interval_syncs_without_anybody_waiting),
    ON_RIG(a_second_writer_is_refused),
    ON_RIG(a_call_that_fails_at_the_start_is_named),
    ON_RIG(signals_at_the_start_wait_until_it_serves),
    ON_RIG(a_port_in_use_is_refused_with_what_to_do),
    ON_RIG(a_live_port_in_use_is_refused_with_what_to_do),
    ON_RIG(live_ports_alone_are_something_to_do),
    ON_RIG(an_address_others_can_reach_is_warned_about),
    ON_RIG(a_stop_ends_live_connections_at_once),
    ON_RIG(without_a_log_live_requests_go_on),
    ON_RIG(live_history_is_in_the_logs_after_a_stop),
    ON_RIG(other_message_sizes_are_refused_with_what_to_do),
    ON_RIG(with_all_ports_off_there_is_nothing_to_do),
    ON_RIG(a_port_can_be_turned_off),
    ON_RIG(a_web_page_can_forge_nothing_on_any_port),
    ON_RIG(who_sends_what_is_malformed_is_named),
    ON_RIG(a_hangup_stops_it_cleanly_to_be_started_again),
    ON_RIG(what_nohup_has_started_goes_on_after_a_hangup),
};

TEST_MAIN(tests)
