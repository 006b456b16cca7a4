/* tests/e2e/test_service.c - countd under a service manager: the units are
 * valid and let the daemons do little else; who asked is told when they serve.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

#define ANALYZE   "/usr/bin/systemd-analyze"
#define UNIT_SIZE 8192
#define BINDIR    "@BINDIR@"

static const char *const services[] = {"writer/countd-write.service",
                                       "worker/countd-worker.service",
                                       "reader/countd-read.service"};
#define SERVICES (sizeof services / sizeof services[0])

static char output[64 << 10];

static const char *
name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* The unit as `make install` makes it, into `dir`; with what was built. */
static void
put_unit(const struct tmpdir *dir, const char *path)
{
    char raw[UNIT_SIZE], unit[UNIT_SIZE + PATH_MAX], bin[PATH_MAX];
    FILE *f = fopen(path, "re"); /* tests run in the project's folder */
    size_t size;
    char *at;
    int written;

    if (f == NULL)
        print_error("%s cannot be opened\n", path);
    assert_non_null(f);
    size = fread(raw, 1, sizeof raw - 1, f);
    assert_int_equal(fclose(f), 0);
    assert_true(size > 0 && size < sizeof raw - 1);
    raw[size] = '\0';
    at = strstr(raw, BINDIR);
    if (at == NULL) {
        tmpdir_put(dir, name_of(path), raw, size, 0644);
        return;
    }
    *at = '\0';
    daemon_path("countd", bin, sizeof bin);
    *strrchr(bin, '/') = '\0';
    written =
        snprintf(unit, sizeof unit, "%s%s%s", raw, bin, at + strlen(BINDIR));
    assert_true(written > 0 && (size_t)written < sizeof unit);
    tmpdir_put(dir, name_of(path), unit, (size_t)written, 0644);
}

/* Puts all units there, or says why that is for nothing here. */
static void
put_units(const struct tmpdir *dir)
{
    if (access(ANALYZE, X_OK) < 0)
        test_skip("needs systemd-analyze (apt-get install systemd)");
    assert_int_equal(daemon_run(output, sizeof output, ANALYZE, "--help", NULL),
                     0);
    if (strstr(output, "--offline") == NULL)
        test_skip("needs systemd-analyze of systemd 250 or later");
    for (size_t i = 0; i < SERVICES; i++)
        put_unit(dir, services[i]);
    put_unit(dir, "common/setup/countd.target");
}

#define IN_TMPDIR(name, dir)                                                   \
    TEST_IN(name, struct tmpdir *dir, tmpdir_setup, tmpdir_teardown)

IN_TMPDIR(the_units_are_valid, dir)
{
    char path[SERVICES + 1][700];
    int status;

    put_units(dir);
    for (size_t i = 0; i < SERVICES; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", dir->path,
                 name_of(services[i]));
    snprintf(path[SERVICES], sizeof path[0], "%s/countd.target", dir->path);
    status = daemon_run(output, sizeof output, ANALYZE, "verify", "--man=no",
                        "--recursive-errors=no", path[0], path[1], path[2],
                        path[3], NULL);
    if (status != 0 || strstr(output, "countd") != NULL)
        print_error("%s\n", output);
    assert_int_equal(status, 0);
    assert_null(strstr(output, "countd")); /* a warning of ours */
}

/* The scale goes from 0.0 to 10.0; the threshold is in tenths. */
IN_TMPDIR(the_units_score_at_most_1_5, dir)
{
    char path[700];

    put_units(dir);
    for (size_t i = 0; i < SERVICES; i++) {
        int status;

        snprintf(path, sizeof path, "%s/%s", dir->path, name_of(services[i]));
        status =
            daemon_run(output, sizeof output, ANALYZE, "security", "--no-pager",
                       "--offline=true", "--threshold=15", path, NULL);
        if (status != 0)
            print_error("%s\n", output);
        assert_int_equal(status, 0);
    }
}

/* What the daemons share they must agree on. */
TEST(the_units_agree_on_user_directory_and_options)
{
    static const char *const lines[] = {
        "\nType=notify\n",
        "\nUser=countd\n",
        "\nGroup=countd\n",
        "\nStateDirectory=countd\n",
        "\nEnvironmentFile=-/etc/default/countd\n",
        " $COUNTD_OPTIONS\n",
        "\nRestartPreventExitStatus=100\n",
        "\nNoNewPrivileges=yes\n",
        "\nPartOf=countd.target\n"};
    char unit[UNIT_SIZE];

    for (size_t i = 0; i < SERVICES; i++) {
        FILE *f = fopen(services[i], "re");
        size_t size;

        assert_non_null(f);
        size = fread(unit, 1, sizeof unit - 1, f);
        assert_int_equal(fclose(f), 0);
        unit[size] = '\0';
        assert_null(strstr(unit, " -d ")); /* the settings name it */
        for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
            if (strstr(unit, lines[k]) == NULL)
                print_error("%s lacks:%s", services[i], lines[k]);
            assert_non_null(strstr(unit, lines[k]));
        }
    }
}

/* ---- telling ----------------------------------------------------------- */

/* A service manager's socket; its variable is in `env`. */
static int
listen_for_ready(const struct tmpdir *dir, char *env, size_t env_size)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd =
        socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int size =
        snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", dir->path);

    if (size < 0 || (size_t)size >= sizeof at.sun_path)
        test_skip("TMPDIR is too long for a Unix socket");
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    snprintf(env, env_size, "NOTIFY_SOCKET=%s", at.sun_path);
    return fd;
}

/* One datagram is there, and no other. */
static void
expect_ready_once(int fd)
{
    char text[64];

    assert_int_equal(recv(fd, text, sizeof text, 0), 8);
    assert_memory_equal(text, "READY=1\n", 8);
    assert_int_equal(recv(fd, text, sizeof text, 0), -1);
    assert_int_equal(errno, EAGAIN);
}

/* The ready descriptor is written after the datagram was sent. */
/* They read /proc/sys and /proc/locks, and go on worse without. */
TEST(writer_and_worker_see_all_of_proc)
{
    char unit[UNIT_SIZE];

    for (size_t i = 0; i < 2; i++) {
        FILE *f = fopen(services[i], "re");
        size_t size;

        assert_non_null(f);
        size = fread(unit, 1, sizeof unit - 1, f);
        assert_int_equal(fclose(f), 0);
        unit[size] = '\0';
        assert_null(strstr(unit, "\nProcSubset="));
    }
}

IN_TMPDIR(each_program_tells_the_service_manager_once, dir)
{
    static const char *const programs[] = {"countd-worker", "countd-write",
                                           "countd-read", "countd"};
    char variable[700], data[600];
    const char *const env[] = {variable, NULL};
    const char *argv[] = {"serve",
                          "-d",
                          data,
                          "-o",
                          "log.size=64K",
                          "-o",
                          "write.listen=127.0.0.1:0",
                          "-o",
                          "write.ack_listen=127.0.0.1:0",
                          "-o",
                          "read.listen=127.0.0.1:0",
                          NULL};
    const int fd = listen_for_ready(dir, variable, sizeof variable);

    snprintf(data, sizeof data, "%s/data", dir->path);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        const bool serves = strcmp(programs[i], "countd") == 0;
        const struct daemon_how how = {.argv = serves ? argv : argv + 1,
                                       .env = env};
        struct daemon d;

        assert_int_equal(daemon_start_how(&d, programs[i], &how), 0);
        expect_ready_once(fd);
        assert_int_equal(daemon_stop(&d), 0);
        daemon_fini(&d);
        assert_int_equal(recv(fd, data, 0, 0), -1); /* nor at its end */
    }
    assert_int_equal(close(fd), 0);
}
