/* tests/unit/test_link.c - a connection of libcountd to the socket in a
 * directory. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/client/lib/link.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

struct fixture {
    struct tmpdir dir;
    struct local_folder folder;
    struct local socket;
    int here; /* the folder that the test began in */
};

static int
setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    tmpdir_make(&f->dir);
    f->here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->here >= 0);
    assert_int_equal(mkdirat(f->dir.fd, LOCAL_FOLDER, 0700), 0);
    f->folder = (struct local_folder){
        .path = f->dir.path, .mode = 0600, .gid = LOCAL_ANY_GROUP};
    f->folder.fd =
        openat(f->dir.fd, LOCAL_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->folder.fd >= 0);
    assert_rc(local_open(&f->folder, LOCAL_ACK, SOCK_STREAM, &f->socket), 0);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fchdir(f->here), 0);
    close(f->here);
    local_close(&f->folder, &f->socket);
    close(f->folder.fd);
    tmpdir_remove(&f->dir);
    free(f);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fixture *f, setup, teardown)

CASE(a_relative_directory_is_found_after_the_process_has_moved, f)
{
    struct link l;

    assert_int_equal(fchdir(f->dir.fd), 0);
    assert_rc(link_init(&l, NULL, ".", LOCAL_ACK, 1000), 0);
    assert_int_equal(chdir("/"), 0);
    for (int i = 0; i < 2; i++) {
        assert_rc(link_connect(&l), 0);
        assert_rc(link_connect(&l), 0);
        link_drop(&l);
    }
}

CASE(a_directory_that_cannot_be_is_refused, f)
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
    struct link l;

    assert_rc(link_init(&l, NULL, f->dir.path, LOCAL_READ, 1000), 0);
    assert_rc(link_connect(&l), -ECONNREFUSED);
    assert_rc(link_init(&l, NULL, "/dev/null", LOCAL_READ, 1000), 0);
    assert_rc(link_connect(&l), -ECONNREFUSED);
    assert_rc(link_init(&l, NULL, f->dir.path, LOCAL_ACK, 1000), 0);
    fault_inject("connect", 1, EACCES);
    assert_rc(link_connect(&l), -EPERM);
    fault_inject("connect", 1, EMFILE);
    assert_rc(link_connect(&l), -EMFILE);
    assert_rc(link_connect(&l), 0);
    link_drop(&l);
}

CASE(a_full_backlog_is_tried_again_for_a_while, f)
{
    struct link l;

    assert_rc(link_init(&l, NULL, f->dir.path, LOCAL_ACK, 1000), 0);
    fault_inject("connect", 1, EAGAIN);
    assert_rc(link_connect(&l), 0);
    link_drop(&l);
    fault_inject_from("connect", 1, EAGAIN);
    assert_rc(link_connect(&l), -ETIMEDOUT);
    fault_clear();
    assert_rc(link_connect(&l), 0);
    link_drop(&l);
}
