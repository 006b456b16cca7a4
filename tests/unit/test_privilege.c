/* tests/unit/test_privilege.c - what a change of user leaves, and its errors.
 *
 * Each case is a child process, as there is no way back. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/setup/privilege.h"

#define NOBODY 65534
#define CHOWN  (UINT32_C(1) << CAP_CHOWN)

/* The exit status of a child that runs `body`. */
static int
status_of(int (*body)(void))
{
    const pid_t pid = test_fork();
    int status = 0;

    if (pid == 0)
        _exit(body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What this thread has, of the first word; everything when it cannot be known
 * or when there is more. */
static uint32_t
read_capabilities(void)
{
    struct __user_cap_header_struct header = {.version =
                                                  _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, data) < 0 || data[1].permitted != 0 ||
        data[1].effective != 0 || data[1].inheritable != 0 ||
        data[0].effective != data[0].permitted)
        return UINT32_MAX;
    return data[0].permitted | data[0].inheritable;
}

/* Root without the right to change groups, as in some containers. */
static int
without_setgid(void)
{
    struct __user_cap_header_struct header = {.version =
                                                  _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
        {.effective = CHOWN, .permitted = CHOWN}};
    struct config c;
    char why[CONFIG_WHY_SIZE];

    config_defaults(&c);
    if (config_set(&c, "user", "65534", why) < 0 ||
        syscall(SYS_capset, &header, data) < 0)
        return 1;
    return privilege_become(&c, DATADIR_READ);
}

TEST(root_who_may_not_become_another_is_told_so_with_100)
{
    if (geteuid() != 0)
        test_skip("needs root to have rights to lose");
    assert_int_equal(status_of(without_setgid), CONFIG_EXIT_USAGE);
}

static int
from_root(void)
{
    const gid_t groups[] = {4, 27};
    int death_signal = 0;
    struct config c;
    char why[CONFIG_WHY_SIZE];

    config_defaults(&c);
    if (setgroups(2, groups) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 ||
        config_set(&c, "user", "65534", why) < 0 ||
        privilege_become(&c, DATADIR_READ) != 0 ||
        prctl(PR_GET_PDEATHSIG, &death_signal) < 0)
        return 1;
    if (death_signal != SIGTERM || read_capabilities() != 0)
        return 2;
    return getuid() == NOBODY && getgid() == NOBODY && getgroups(0, NULL) == 0
               ? 0
               : 3;
}

TEST(from_root_nothing_is_kept_but_whose_death_to_hear_of)
{
    if (geteuid() != 0)
        test_skip("needs root to become another user");
    assert_int_equal(status_of(from_root), 0);
}
