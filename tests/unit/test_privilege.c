/* tests/unit/test_privilege.c - what becomes of capabilities that an ordinary
 * user was given, and of the errors of a change of user.
 *
 * Each case is a child process, as there is no way back. */
#include "tests/lib/test.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/setup/privilege.h"

#define NOBODY 65534
#define BIND   (UINT32_C(1) << CAP_NET_BIND_SERVICE)
#define CHOWN  (UINT32_C(1) << CAP_CHOWN)

/* The exit status of a child that runs `body`. */
static int
status_of(int (*body)(void))
{
    const pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What this thread has, of the first word; everything when it cannot be known
 * or when there is more. */
static uint32_t
capabilities(void)
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

/* Nobody, with these capabilities in all sets, as a service manager would
 * give them. */
static bool
be_nobody_with(uint32_t keep)
{
    struct __user_cap_header_struct header = {.version =
                                                  _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
        {.effective = keep, .permitted = keep, .inheritable = keep}};

    if (prctl(PR_SET_KEEPCAPS, 1UL, 0UL, 0UL, 0UL) < 0 ||
        setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
        syscall(SYS_capset, &header, data) < 0)
        return false;
    for (unsigned long cap = 0; cap < 32; cap++)
        if (keep >> cap & 1 &&
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0UL, 0UL) < 0)
            return false;
    return capabilities() == keep;
}

static int
in_two_steps(void)
{
    struct config c;

    config_defaults(&c);
    if (!be_nobody_with(BIND | CHOWN))
        return 1;
    if (privilege_become(&c, DATADIR_READ) != 0)
        return 2;
    if (capabilities() != BIND)
        return 3;
    if (privilege_drop() < 0 || capabilities() != 0)
        return 4;
    return prctl(PR_GET_NO_NEW_PRIVS, 0UL, 0UL, 0UL, 0UL) == 1 ? 0 : 5;
}

TEST(a_users_capabilities_go_in_two_steps)
{
    if (geteuid() != 0)
        test_skip("needs root to give a user capabilities");
    assert_int_equal(status_of(in_two_steps), 0);
}

/* From now on this system call kills. */
static bool
forbid(unsigned number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof code[0], code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int
without_capset(void)
{
    struct config c;

    config_defaults(&c);
    if ((geteuid() == 0 && !be_nobody_with(0)) || !forbid(SYS_capset))
        return 1;
    if (privilege_become(&c, DATADIR_READ) != 0)
        return 2;
    return privilege_drop() < 0 ? 3 : 0;
}

TEST(who_has_none_asks_for_nothing_that_a_filter_may_forbid)
{
    assert_int_equal(status_of(without_capset), 0);
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
        privilege_become(&c, DATADIR_READ) != 0 || privilege_drop() < 0 ||
        prctl(PR_GET_PDEATHSIG, &death_signal) < 0)
        return 1;
    if (death_signal != SIGTERM || capabilities() != 0)
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
