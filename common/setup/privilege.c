/* common/setup/privilege.c - see privilege.h: privilege_become(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/privilege.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/diag.h"

#define ID_NONE 4294967295UL /* (uid_t)-1: "leave it" to setresuid(2) */

struct account {
    uid_t uid;
    gid_t gid;
    gid_t groups[1]; /* further ones */
    int group_count;
};

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

/* Reports when there is none.  Called before there are threads, as getpwnam(3)
 * wants it. */
static int
find_user(const char *user, struct account *a)
{
    const struct passwd *entry = getpwnam(user);
    const bool is_number = entry == NULL && parse_number(user, a) == 0;

    if (is_number)
        entry = getpwuid(a->uid);
    if (entry != NULL)
        *a = (struct account){.uid = entry->pw_uid, .gid = entry->pw_gid};
    if (entry != NULL || is_number)
        return 0;
    diag(DIAG_ERROR,
         "user=%s: there is no such user; make one (useradd --system "
         "--user-group %s), or set user to one that exists",
         user, user);
    return CONFIG_EXIT_USAGE;
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

int
privilege_check(const struct config *c)
{
    struct account a;
    gid_t group;

    if (c->user[0] != '\0' && find_user(c->user, &a) != 0)
        return CONFIG_EXIT_USAGE;
    return c->socket_group[0] != '\0' &&
                   privilege_find_group(c->socket_group, &group) < 0
               ? CONFIG_EXIT_USAGE
               : 0;
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
        setresgid(a->gid, a->gid, a->gid) < 0 ||
        setresuid(a->uid, a->uid, a->uid) < 0)
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
        return 0;
    }
    if (find_user(c->user, &a) != 0)
        return CONFIG_EXIT_USAGE;
    if (a.uid == geteuid())
        return 0;
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
    if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) < 0) {
        diag_errno(DIAG_ERROR, errno, "give up privileges");
        return CONFIG_EXIT_SYSTEM;
    }
    return become_user(c, need);
}
