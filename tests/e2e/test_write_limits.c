/* tests/e2e/test_write_limits.c - countd-write where connections, descriptors,
 * logs or the disk come to an end. */
#include "tests/e2e/write_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

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

ON_FIXTURE(thousands_of_connections_are_all_served, r)
{
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

ON_FIXTURE(out_of_descriptors_accepting_pauses_and_nobody_is_harmed, r)
{
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

ON_FIXTURE(at_log_max_it_pushes_back_and_goes_on_when_a_log_is_emptied, r)
{
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

ON_FIXTURE(a_full_disk_pushes_back_and_recovers_when_there_is_space, r)
{
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
