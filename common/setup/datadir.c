/* common/setup/datadir.c - see datadir.h: datadir_open() makes and checks,
 * datadir_make_for() does it for another user while still root, and
 * datadir_sockets() opens the folder of the sockets. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/datadir.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/base/folder.h"
#include "common/setup/config.h"
#include "common/setup/disk.h"
#include "common/setup/privilege.h"

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define FOLDER_MODE  0700
#define PATH_SIZE    (CONFIG_TEXT_SIZE + 32)

/* Reports why a function refuses, and returns `rc`. */
static int
report_refusal(int rc, const char *text, const char *path)
{
    diag_errno(DIAG_ERROR, rc, "%s %s", text, path);
    return rc;
}

/* ---- file systems ------------------------------------------------------- */

static int
check_fs(int fd, const char *path)
{
    const char *why = "";
    struct statfs fs;
    int rc;

    if (fstatfs(fd, &fs) < 0)
        return report_refusal(-errno, "statfs", path);
    rc = disk_check_type((uint64_t)fs.f_type, &why);
    if (rc < 0)
        diag(DIAG_ERROR,
             "data directory %s is on a network file system (%s), where locks "
             "and syncs do not hold; set data_dir to a local disk",
             path, why);
    return rc < 0 ? rc : 0;
}

/* ---- folders ------------------------------------------------------------ */

const char *
datadir_format_user(uid_t uid, char text[DATADIR_USER_SIZE])
{
    const struct passwd *entry = getpwuid(uid);

    if (entry != NULL)
        snprintf(text, DATADIR_USER_SIZE, "%s", entry->pw_name);
    else
        snprintf(text, DATADIR_USER_SIZE, "#%lu", (unsigned long)uid);
    return text;
}

/* The remedy does not suggest chown: changing the owner of a directory in use
 * would stop its daemons. */
static int
refuse_owner(uid_t owner, const char *path)
{
    char user[DATADIR_USER_SIZE], us[DATADIR_USER_SIZE];

    datadir_format_user(owner, user);
    diag(DIAG_ERROR,
         "%s belongs to user %s and this process runs as %s; run it as that "
         "user: sudo -u '%s' %s ... (daemons: set user)",
         path, user, datadir_format_user(geteuid(), us), user,
         program_invocation_short_name);
    return -EPERM;
}

static int
check_owner(int fd, const char *path)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return report_refusal(-errno, "look at", path);
    if (st.st_uid != geteuid())
        return refuse_owner(st.st_uid, path);
    if (st.st_mode & 0022) {
        diag(DIAG_ERROR,
             "%s may be written by others (mode %04o); chmod go-w %s", path,
             (unsigned)st.st_mode & 07777, path);
        return -EPERM;
    }
    return 0;
}

/* Why it cannot be opened. */
static int
refuse_folder(int rc, const char *path)
{
    if (rc == -ENOENT)
        diag(DIAG_ERROR,
             "%s does not exist yet; start countd-write or countd-worker on "
             "this data directory first",
             path);
    else if (rc == -ELOOP || rc == -ENOTDIR)
        diag(DIAG_ERROR,
             "%s is not a folder; move it away (links are not followed)", path);
    else
        (void)report_refusal(rc, "open folder", path);
    return rc;
}

/* Opens a folder inside the data directory, which is made when it is missing
 * and `make` says so.  Returns the descriptor. */
static int
open_folder(const struct datadir *d, const char *name, bool make)
{
    char path[PATH_SIZE];
    int fd, rc;

    (void)snprintf(path, sizeof path, "%s/%s", d->path, name);
    if (make) {
        if (mkdirat(d->fd, name, FOLDER_MODE) < 0 && errno != EEXIST)
            return report_refusal(-errno, "make folder", path);
        /* Sync even if the folder existed: the process that created it may have
         * died before its own fsync. */
        if (fsync(d->fd) < 0)
            return report_refusal(-errno,
                                  "sync the data directory after making", path);
    }
    fd = openat(d->fd, name, FOLDER_FLAGS | O_NOFOLLOW);
    if (fd < 0)
        return refuse_folder(-errno, path);
    rc = check_owner(fd, path);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    return fd;
}

/* Makes the data directory under the name `as`: 1 made, 0 it was there. */
static int
make_top(const char *path, const char *as)
{
    int rc;

    if (mkdirat(AT_FDCWD, as, FOLDER_MODE) == 0)
        return 1;
    rc = -errno;
    if (rc == -EEXIST)
        return 0;
    if (rc == -ENOENT)
        diag(DIAG_ERROR,
             "data directory %s: its parent folder does not exist, or is not "
             "on a disk; make it, or set data_dir",
             path);
    else if (rc == -EACCES)
        diag(DIAG_ERROR,
             "data directory %s: user id %ld may not make it or not get "
             "there; make it as root (chown %ld), let that user through each "
             "folder above (chmod o+x), or set data_dir",
             path, (long)geteuid(), (long)geteuid());
    else
        (void)report_refusal(rc, "make data directory", path);
    return rc;
}

/* Why it cannot be opened. */
static int
refuse_top(int rc, const char *path, bool make)
{
    struct stat st;
    const bool seen = fstatat(AT_FDCWD, path, &st, 0) == 0;

    if (rc == -EACCES && seen && st.st_uid != geteuid())
        return refuse_owner(st.st_uid, path);
    if (rc == -EACCES && !seen)
        diag(DIAG_ERROR,
             "data directory %s cannot be reached: each folder above it must "
             "let user id %ld through (chmod o+x), or set data_dir",
             path, (long)geteuid());
    else if (rc == -ENOENT && make)
        diag(DIAG_ERROR,
             "data directory %s is a link to what does not exist; make that, "
             "or set data_dir",
             path);
    else if (rc == -ENOENT)
        diag(DIAG_ERROR,
             "data directory %s does not exist; start countd-write or "
             "countd-worker on it first, or name another with -d or data_dir",
             path);
    else if (rc == -ENOTDIR)
        diag(DIAG_ERROR,
             "data directory %s is not a directory; set data_dir to one", path);
    else
        (void)report_refusal(rc, "open data directory", path);
    return rc;
}

/* The data directory itself.  Its own path may lead over links: that is the
 * operator's word, what is inside is not. */
static int
open_top(const char *path, bool make)
{
    int made = 0, fd, rc;

    if (make)
        made = make_top(path, path);
    if (made < 0)
        return made;
    fd = openat(AT_FDCWD, path, FOLDER_FLAGS);
    if (fd < 0)
        return refuse_top(-errno, path, make);
    rc = made > 0 ? folder_sync_parent(fd) : 0;
    if (rc < 0)
        (void)report_refusal(rc, "sync the parent of", path);
    if (rc == 0)
        rc = check_owner(fd, path);
    if (rc == 0)
        rc = check_fs(fd, path);
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

/* Gives the directory that was made as `temp` its owner and its name.  Another
 * daemon may have been faster: then that one's stays. */
static int
publish_top(const char *temp, const char *path, uid_t uid, gid_t gid)
{
    struct stat st;
    int fd, rc;

    fd = openat(AT_FDCWD, temp, FOLDER_FLAGS | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    /* A process with write access to the parent could have replaced it. */
    rc = fstat(fd, &st) < 0 ? -errno : 0;
    if (rc == 0 && st.st_uid != geteuid())
        rc = -EPERM;
    if (rc == 0 &&
        (fchown(fd, uid, gid) < 0 ||
         renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) < 0))
        rc = -errno;
    if (rc == 0)
        rc = folder_sync_parent(fd);
    (void)close(fd);
    return rc;
}

int
datadir_make_for(const char *path, uid_t uid, gid_t gid)
{
    char temp[CONFIG_TEXT_SIZE + 32];
    size_t size = strlen(path);
    struct stat st;
    int rc;

    if (fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    /* Under its own name it would be root's for a moment, which a second
     * daemon that starts just then would refuse. */
    while (size > 1 && path[size - 1] == '/')
        size--;
    (void)snprintf(temp, sizeof temp, "%.*s.new-%ld", (int)size, path,
                   (long)getpid());
    rc = make_top(path, temp);
    if (rc < 0)
        return rc;
    rc = publish_top(temp, path, uid, gid);
    if (rc < 0)
        /* A folder that stays is empty, and no program reads it. */
        (void)unlinkat(AT_FDCWD, temp, AT_REMOVEDIR);
    if (rc == -EEXIST)
        return 0;
    return rc < 0 ? report_refusal(rc, "make data directory", path) : 0;
}

/* ---- probes ------------------------------------------------------------- */

static int
check_probe(int dirfd, const char *path)
{
    const int rc = disk_probe(dirfd);

    if (rc == 0)
        return 0;
    if (rc == -ENOSPC || rc == -EDQUOT) {
        /* No more than a running daemon would say: what is there can be read
         * and merged, and the writer pushes back until there is room. */
        diag_errno(DIAG_WARNING, rc,
                   "data directory %s: links, locks and syncs are not tried",
                   path);
        return 0;
    }
    if (rc != -ENOLCK && rc != -EPERM && rc != -EOPNOTSUPP && rc != -EMLINK)
        return report_refusal(rc, "try links, locks and syncs in", path);
    diag(DIAG_ERROR,
         "data directory %s: its file system has no %s; set data_dir to "
         "another",
         path,
         rc == -ENOLCK ? "flock that excludes"
                       : "hard links, which the commit logs need");
    return -EOPNOTSUPP;
}

/* ---- open and close ----------------------------------------------------- */

int
datadir_archive(struct datadir *d)
{
    if (d->archive_fd < 0)
        d->archive_fd = open_folder(d, "archive", true);
    return d->archive_fd < 0 ? d->archive_fd : 0;
}

/* ---- sockets ------------------------------------------------------------ */

/* Gives a folder to the group, with this mode. Skips what is set already,
 * because a service manager may forbid the calls. */
static int
share_folder(int fd, const char *name, gid_t gid, mode_t mode)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return report_refusal(-errno, "look at", name);
    if (gid != LOCAL_ANY_GROUP && st.st_gid != gid &&
        fchown(fd, (uid_t)-1, gid) < 0) {
        diag_errno(DIAG_ERROR, -errno,
                   "socket.group: give %s to group id %ld: user id %ld must be "
                   "a member of it, or the daemons be started as root",
                   name, (long)gid, (long)geteuid());
        return -EINVAL;
    }
    if ((st.st_mode & 07777) != mode && fchmod(fd, mode) < 0)
        return report_refusal(-errno, "set the mode of", name);
    return 0;
}

int
datadir_sockets(const struct datadir *d, const char *group,
                struct local_folder *out)
{
    struct local_folder f = {
        .path = d->path, .mode = 0600, .gid = LOCAL_ANY_GROUP};
    int rc = 0;

    if (group[0] != '\0' && privilege_find_group(group, &f.gid) < 0)
        return -EINVAL;
    f.fd = open_folder(d, LOCAL_FOLDER, true);
    if (f.fd == -ENOSPC || f.fd == -EDQUOT || f.fd == -EROFS) {
        f.fd = -1;
        *out = f;
        return 0;
    }
    if (f.fd < 0)
        return f.fd;
    if (group[0] != '\0') {
        f.mode = 0660;
        rc = share_folder(d->fd, d->path, f.gid, 0710);
    }
    if (rc == 0)
        rc = share_folder(f.fd, LOCAL_FOLDER, f.gid,
                          group[0] != '\0' ? 0750 : FOLDER_MODE);
    if (rc == 0)
        *out = f;
    else
        (void)close(f.fd);
    return rc;
}

static int
open_folders(struct datadir *d, bool make)
{
    struct stat st;

    d->log_fd = open_folder(d, "log", make);
    if (d->log_fd < 0)
        return d->log_fd;
    d->keyspace_fd = open_folder(d, "keyspace", make);
    if (d->keyspace_fd < 0)
        return d->keyspace_fd;
    if (make) {
        d->live_fd = open_folder(d, "live", true);
        if (d->live_fd < 0)
            return d->live_fd;
    }
    if (fstatat(d->fd, "archive", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0
                               : report_refusal(-errno, "look at", "archive");
    d->archive_fd = open_folder(d, "archive", false);
    return d->archive_fd < 0 ? d->archive_fd : 0;
}

static int
refuse_partial(int fd, const char *path)
{
    struct stat st;

    if (fstatat(fd, DATADIR_PARTIAL, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : report_refusal(-errno, "look at", path);
    diag(DIAG_ERROR,
         "%s is a backup that was not finished; remove it, and run countd "
         "backup again",
         path);
    return -EPERM;
}

/* Segments have numbers for names. */
static int
see_segment(void *ctx, int folder_fd, const char *name)
{
    (void)ctx;
    (void)folder_fd;
    return name[0] >= '0' && name[0] <= '9';
}

/* Records that an earlier version held are not read any more. */
static int
refuse_held(int fd)
{
    struct stat st;
    const int rc = fstatat(fd, "held.mdb", &st, AT_SYMLINK_NOFOLLOW) == 0
                       ? 1
                       : dirstream_each(fd, "held", see_segment, NULL);

    if (rc <= 0)
        return rc;
    diag(DIAG_ERROR,
         "held/ is of an earlier version: let that version merge it (its "
         "countd held lists nothing then), or remove it");
    return -ENOTSUP;
}

int
datadir_open(struct datadir *d, const char *path, enum datadir_need need)
{
    const bool make = need == DATADIR_WRITE;
    struct datadir new = {.path = path,
                          .fd = -1,
                          .log_fd = -1,
                          .keyspace_fd = -1,
                          .archive_fd = -1,
                          .live_fd = -1};
    int rc;

    new.fd = open_top(path, make);
    if (new.fd < 0)
        return new.fd;
    rc = refuse_partial(new.fd, path);
    if (rc == 0)
        rc = refuse_held(new.fd);
    if (rc == 0)
        rc = open_folders(&new, make);
    if (rc == 0 && make)
        rc = check_probe(new.log_fd, path);
    if (rc < 0) {
        datadir_close(&new);
        return rc;
    }
    *d = new;
    return 0;
}

void
datadir_warn(const struct datadir *d)
{
    const char *why;
    struct statfs fs;

    if (fstatfs(d->fd, &fs) == 0 &&
        disk_check_type((uint64_t)fs.f_type, &why) == 1)
        diag(DIAG_WARNING, "data directory %s is on %s", d->path, why);
}

bool
datadir_is_made(const char *path)
{
    char last[CONFIG_TEXT_SIZE + 32];
    struct stat st;

    if (stat(path, &st) == 0 &&
        (st.st_uid != geteuid() || (st.st_mode & 0022) != 0))
        return true; /* the error is permanent */
    /* keyspace/ is the last folder to be made of those that readers need. */
    (void)snprintf(last, sizeof last, "%s/keyspace", path);
    return faccessat(AT_FDCWD, last, F_OK, AT_EACCESS) == 0 || errno != ENOENT;
}

int
datadir_exit_status(int rc, enum datadir_need need)
{
    switch (rc) {
    case -ENOENT:
        return need == DATADIR_WRITE ? CONFIG_EXIT_USAGE : CONFIG_EXIT_SYSTEM;
    case -EPERM:
    case -EACCES:
    case -EOPNOTSUPP:
    case -ENOTDIR:
    case -ELOOP:
    case -ENAMETOOLONG:
        return CONFIG_EXIT_USAGE;
    default:
        return CONFIG_EXIT_SYSTEM;
    }
}

void
datadir_close(struct datadir *d)
{
    int *const fds[] = {&d->live_fd, &d->archive_fd, &d->keyspace_fd,
                        &d->log_fd, &d->fd};
    size_t i;

    for (i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0)
            (void)close(*fds[i]); /* a folder: nothing is lost */
        *fds[i] = -1;
    }
}
