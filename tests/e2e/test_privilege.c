/* tests/e2e/test_privilege.c - daemons that root starts become another user:
 * the transcript privilege.txt, and the end of orphans. */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/transcript.h"

#define NOBODY_TEXT "65534"
#define WAIT_MS     20000

struct fixture {
    struct tmpdir dir; /* may be entered by all, is root's */
    char data[600];    /* below it; not there yet */
};

static int
setup(void **state)
{
    static struct fixture s;

    tmpdir_make(&s.dir);
    assert_int_equal(fchmod(s.dir.fd, 0711), 0);
    snprintf(s.data, sizeof s.data, "%s/data", s.dir.path);
    *state = &s;
    return 0;
}

static int
teardown(void **state)
{
    tmpdir_remove(&((struct fixture *)*state)->dir);
    return 0;
}

#define ON_FIXTURE(name, s) TEST_IN(name, struct fixture *s, setup, teardown)

#define CHILDREN 3

static void
serve(struct daemon *d, const struct fixture *s, const char *option,
      const char *value, pid_t children[CHILDREN])
{
    char path[64], line[256];
    FILE *f;

    daemon_start(d, "countd", "serve", "-d", s->data, "-o",
                 "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o",
                 "read.listen=127.0.0.1:0", option, value, NULL);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)d->pid,
             (int)d->pid);
    f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_int_equal(fclose(f), 0);
    assert_int_equal(
        sscanf(line, "%d %d %d", &children[0], &children[1], &children[2]),
        CHILDREN);
}

/* The kernel forgets that wish when the user changes. */
ON_FIXTURE(daemons_of_a_killed_serve_end_though_they_are_another_user, s)
{
    pid_t children[CHILDREN];
    struct daemon d;

    if (geteuid() != 0)
        test_skip("needs root to become another user");
    serve(&d, s, "-u", NOBODY_TEXT, children);
    /* Orphans become ours, so that their end can be waited for. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    daemon_kill(&d);
    for (size_t i = 0; i < CHILDREN; i++) {
        const int fd = pidfd_open(children[i], 0);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int status;

        assert_true(fd >= 0);
        assert_int_equal(poll(&p, 1, (int)(WAIT_MS * test_slow())), 1);
        assert_int_equal(close(fd), 0);
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    daemon_fini(&d);
}

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/privilege.txt", argc, argv);
}
