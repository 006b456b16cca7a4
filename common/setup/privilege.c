/* common/setup/privilege.c - see privilege.h: privilege_become(), then
 * privilege_drop(). */
#include "common/setup/privilege.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/diag.h"

#define ID_NONE 4294967295UL /* (uid_t)-1: "leave it" to setresuid(2) */

struct account {
    uid_t uid;
    gid_t gid;
    gid_t groups[1]; /* further ones */
    int group_count;
};

/* ---- capabilities -------------------------------------------------------- */

#define BIND_BIT (UINT32_C(1) << CAP_NET_BIND_SERVICE)
static_assert(CAP_NET_BIND_SERVICE < 32, "it is in the first word");

/* Drops all capabilities of this thread but those in `keep`. */
static int
keep_capabilities(uint32_t keep)
{
    struct __user_cap_header_struct header = {.version =
                                                  _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    uint32_t had = 0;

    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        had |= data[i].permitted | data[i].effective | data[i].inheritable;
    /* The usual case; a filter of system calls may forbid capset(2). */
    if (had == 0)
        return 0;
    keep &= data[0].permitted;
    memset(data, 0, sizeof data);
    data[0].permitted = keep;
    data[0].effective = keep;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* ---- accounts ------------------------------------------------------------ */

/* A number that has no account stands for a group, too. */
static int
parse_number(const char *text, struct account *a)
{
    unsigned long number;
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return -ENOENT;
    errno = 0;
    number = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || number >= ID_NONE)
        return -ENOENT;
    *a = (struct account){.uid = (uid_t)number, .gid = (gid_t)number};
    return 0;
}

/* Called before there are threads, as getpwnam(3) wants it. */
static int
find_account(const char *user, struct account *a)
{
    const struct passwd *entry = getpwnam(user);
    int rc = 0;

    if (entry == NULL) {
        rc = parse_number(user, a);
        if (rc < 0)
            return rc;
        entry = getpwuid(a->uid);
    }
    if (entry != NULL)
        *a = (struct account){.uid = entry->pw_uid, .gid = entry->pw_gid};
    return rc;
}

int
privilege_find_group(const char *group, gid_t *gid)
{
    const struct group *entry = getgrnam(group);
    struct account a;

    if (entry != NULL) {
        *gid = entry->gr_gid;
        return 0;
    }
    if (parse_number(group, &a) < 0) {
        diag(DIAG_ERROR,
             "socket.group=%s: there is no such group; make one (groupadd "
             "--system %s), or set socket.group to one that exists",
             group, group);
        return -ENOENT;
    }
    *gid = a.gid;
    return 0;
}

/* ---- becoming another ---------------------------------------------------- */

/* The kernel forgets whose death we wanted to hear of when the user changes:
 * asks again, and hears it now if that came meanwhile. */
static int
set_ids(const struct account *a)
{
    const pid_t parent = getppid();
    int death_signal = 0;

    if (prctl(PR_GET_PDEATHSIG, &death_signal) < 0)
        return -errno;
    if (setgroups((size_t)a->group_count, a->groups) < 0 ||
        setresgid(a->gid, a->gid, a->gid) < 0)
        return -errno;
    if (prctl(PR_SET_KEEPCAPS, 1UL, 0UL, 0UL, 0UL) < 0 ||
        setresuid(a->uid, a->uid, a->uid) < 0 ||
        prctl(PR_SET_KEEPCAPS, 0UL, 0UL, 0UL, 0UL) < 0)
        return -errno;
    if (death_signal == 0)
        return 0;
    if (prctl(PR_SET_PDEATHSIG, death_signal) < 0)
        return -errno;
    if (getppid() != parent && raise(death_signal) != 0)
        return -ESRCH;
    return 0;
}

/* What the calls said is looked at once more: this must not half work. */
static bool
is_become(const struct account *a)
{
    uid_t uid, effective, saved;
    gid_t gid, group, saved_group;

    return getresuid(&uid, &effective, &saved) == 0 &&
           getresgid(&gid, &group, &saved_group) == 0 && uid == a->uid &&
           effective == a->uid && saved == a->uid && gid == a->gid &&
           group == a->gid && saved_group == a->gid &&
           getgroups(0, NULL) == a->group_count && setresuid(-1U, 0, -1U) < 0;
}

static int
switch_to(const char *user, const struct account *a)
{
    int rc;

    rc = set_ids(a);
    if (rc == 0)
        rc = keep_capabilities(BIND_BIT);
    if (rc == 0 && !is_become(a))
        rc = -EPERM;
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc,
                   "become user=%s (root in a container may lack the right: "
                   "start countd as that user there)",
                   user);
        return CONFIG_EXIT_USAGE;
    }
    return 0;
}

/* Becomes `user`, or checks that none is needed; reports a refusal. */
static int
become_user(const struct config *c, enum datadir_need need)
{
    const bool is_root = geteuid() == 0;
    struct account a;
    int rc;

    if (c->user[0] == '\0') {
        if (is_root)
            diag(DIAG_WARNING, PRIVILEGE_ROOT_WARNING);
        return is_root ? 0 : keep_capabilities(BIND_BIT);
    }
    if (find_account(c->user, &a) < 0) {
        diag(DIAG_ERROR,
             "user=%s: there is no such user; make one (useradd --system "
             "--user-group %s), or set user to one that exists",
             c->user, c->user);
        return CONFIG_EXIT_USAGE;
    }
    if (a.uid == geteuid())
        return is_root ? 0 : keep_capabilities(BIND_BIT);
    if (!is_root) {
        diag(DIAG_ERROR,
             "user=%s, and this is user id %ld: only root can become another; "
             "start it as %s%s, or leave user empty",
             c->user, (long)geteuid(), a.uid == 0 ? "" : "root or as ",
             c->user);
        return CONFIG_EXIT_USAGE;
    }
    if (c->socket_group[0] != '\0') {
        if (privilege_find_group(c->socket_group, &a.groups[0]) < 0)
            return CONFIG_EXIT_USAGE;
        a.group_count = 1;
    }
    if (need == DATADIR_WRITE) {
        rc = datadir_make_for(c->data_dir, a.uid, a.gid);
        if (rc < 0)
            return datadir_exit_status(rc, need);
    }
    return switch_to(c->user, &a);
}

int
privilege_become(const struct config *c, enum datadir_need need)
{
    int rc;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) < 0)
        rc = -errno;
    else
        rc = become_user(c, need);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "give up privileges");
        return CONFIG_EXIT_SYSTEM;
    }
    return rc;
}

int
privilege_drop(void)
{
    int rc = 0;

    if (geteuid() != 0)
        rc = keep_capabilities(0);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "give up capabilities");
    return rc;
}
