/* tests/unit/test_local.c - sockets in a directory: made, taken over, reached
 * by paths of any length, and by libcountd. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/client/lib/link.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

struct fixture {
    struct tmpdir dir;
    char path[1200];
    struct local_folder folder;
};

/* Makes DIR/socket below folders whose names have `depth` times 100 bytes. */
static void
make_folder(struct fixture *f, int depth)
{
    char part[110], socket[1300];

    snprintf(f->path, sizeof f->path, "%s", f->dir.path);
    for (int i = 0; i < depth; i++) {
        snprintf(part, sizeof part, "/%0100d", i);
        strcat(f->path, part);
        assert_int_equal(mkdir(f->path, 0700), 0);
    }
    snprintf(socket, sizeof socket, "%s/" LOCAL_FOLDER, f->path);
    assert_int_equal(mkdir(socket, 0700), 0);
    f->folder = (struct local_folder){
        .path = f->path, .mode = 0600, .gid = LOCAL_ANY_GROUP};
    f->folder.fd = open(socket, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->folder.fd >= 0);
}

static void
set_up(struct fixture *f)
{
    tmpdir_make(&f->dir);
    make_folder(f, 0);
}

static void
tear_down(struct fixture *f)
{
    close(f->folder.fd);
    tmpdir_remove(&f->dir);
}

#define CASE(name, f) TEST_WITH(name, struct fixture, f, set_up, tear_down)

static bool
is_there(const struct fixture *f, const char *name)
{
    struct stat st;

    return fstatat(f->folder.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Says one byte through a new connection. */
static void
expect_connection(const struct fixture *f, const struct local *l)
{
    const int fd = local_connect(f->path, l->name);
    char byte = 0;
    int peer;

    assert_true(fd >= 0);
    peer = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(peer >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(peer, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(peer);
    close(fd);
}

/* What SIGKILL leaves: the names, and no flock. */
CASE(what_a_server_that_died_has_left_is_replaced, f)
{
    struct local dead, next;
    int fd;

    assert_rc(local_open(&f->folder, "count", SOCK_STREAM, &dead), 0);
    close(dead.fd);
    close(dead.lock_fd);
    assert_rc(local_connect(f->path, "count"), -ECONNREFUSED);
    fd =
        openat(f->folder.fd, "count.new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);

    assert_rc(local_open(&f->folder, "count", SOCK_STREAM, &next), 0);
    expect_connection(f, &next);
    local_close(&f->folder, &next);
}

CASE(a_path_of_any_length_is_reached, f)
{
    struct sockaddr_un sa;
    struct net_address a;
    struct local l;

    close(f->folder.fd);
    make_folder(f, 10);
    assert_true(strlen(f->path) > 5 * sizeof sa.sun_path);
    local_address(f->folder.fd, f->path, "ack", &a);
    memcpy(&sa, &a.sa, sizeof sa);
    assert_memory_equal(sa.sun_path, "/proc/self/fd/", 14);
    assert_rc(local_open(&f->folder, "ack", SOCK_STREAM, &l), 0);
    expect_connection(f, &l);
    local_close(&f->folder, &l);
}

/* The longest path that fits, and one byte more. */
TEST(the_limit_of_an_address_is_exact)
{
    struct sockaddr_un sa;
    struct net_address a;
    char path[sizeof sa.sun_path];

    memset(path, 'p', sizeof path);
    path[sizeof path - sizeof "/" LOCAL_FOLDER "/ack"] = '\0';
    local_address(7, path, "ack", &a);
    memcpy(&sa, &a.sa, sizeof sa);
    assert_int_equal(sa.sun_path[0], 'p');
    assert_int_equal(strlen(sa.sun_path), sizeof sa.sun_path - 1);
    local_address(7, path, "read", &a);
    memcpy(&sa, &a.sa, sizeof sa);
    assert_string_equal(sa.sun_path, "/proc/self/fd/7/read");
}

CASE(a_call_that_fails_leaves_no_lock_and_no_name, f)
{
    static const char *const calls[] = {"openat", "flock",   "socket",
                                        "bind",   "fstatat", "fchmodat",
                                        "listen", "renameat"};
    struct local l;

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        /* The first look only asks whether there is one that was kept. */
        fault_inject(calls[i], strcmp(calls[i], "fstatat") == 0 ? 2 : 1, EIO);
        assert_rc(local_open(&f->folder, "ack", SOCK_STREAM, &l), -EIO);
        assert_false(is_there(f, "ack"));
        assert_false(is_there(f, "ack.new"));
    }
    assert_rc(local_open(&f->folder, "ack", SOCK_STREAM, &l), 0);
    expect_connection(f, &l);
    local_close(&f->folder, &l);
}

/* ---- libcountd ---------------------------------------------------------- */

CASE(a_relative_directory_is_found_after_the_process_has_moved, f)
{
    const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct local socket;
    struct link l;

    assert_rc(local_open(&f->folder, LOCAL_ACK, SOCK_STREAM, &socket), 0);
    assert_int_equal(fchdir(f->dir.fd), 0);
    assert_rc(link_init(&l, NULL, ".", LOCAL_ACK, 1000), 0);
    assert_int_equal(chdir("/"), 0);
    for (int i = 0; i < 2; i++) {
        assert_rc(link_connect(&l), 0);
        assert_rc(link_connect(&l), 0);
        link_drop(&l);
    }
    local_close(&f->folder, &socket);
    assert_int_equal(fchdir(here), 0);
    close(here);
}

TEST(a_directory_that_cannot_be_is_refused)
{
    static char path[LINK_DIRECTORY_SIZE + 1];
    struct link l;

    assert_rc(link_init(&l, NULL, "", LOCAL_ACK, 1000), -EINVAL);
    memset(path, '/', LINK_DIRECTORY_SIZE);
    assert_rc(link_init(&l, NULL, path, LOCAL_ACK, 1000), -ENAMETOOLONG);
    path[0] = 'x';
    path[LINK_DIRECTORY_SIZE - 2] = '\0';
    assert_rc(link_init(&l, NULL, path, LOCAL_ACK, 1000), -ENAMETOOLONG);
}

/* Codes that mean something else to those who ask for a key or a quota. */
CASE(a_socket_that_cannot_be_had_has_errors_of_its_own, f)
{
    struct local socket;
    struct link l;

    assert_rc(local_open(&f->folder, LOCAL_ACK, SOCK_STREAM, &socket), 0);
    assert_rc(link_init(&l, NULL, f->path, LOCAL_READ, 1000), 0);
    assert_rc(link_connect(&l), -ECONNREFUSED);
    assert_rc(link_init(&l, NULL, "/dev/null", LOCAL_READ, 1000), 0);
    assert_rc(link_connect(&l), -ECONNREFUSED);
    assert_rc(link_init(&l, NULL, f->path, LOCAL_ACK, 1000), 0);
    fault_inject("connect", 1, EACCES);
    assert_rc(link_connect(&l), -EPERM);
    fault_inject("connect", 1, EMFILE);
    assert_rc(link_connect(&l), -EMFILE);
    assert_rc(link_connect(&l), 0);
    link_drop(&l);

    /* A full backlog is tried again for a while. */
    assert_rc(link_init(&l, NULL, f->path, LOCAL_ACK, 1000), 0);
    fault_inject("connect", 1, EAGAIN);
    assert_rc(link_connect(&l), 0);
    link_drop(&l);
    fault_inject_from("connect", 1, EAGAIN);
    assert_rc(link_connect(&l), -ETIMEDOUT);
    fault_clear();
    assert_rc(link_connect(&l), 0);
    link_drop(&l);
    local_close(&f->folder, &socket);
}
