/* common/net/local.c - see local.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/local.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/net/keeper.h"

#define FOLDER_PATH_SIZE (PATH_MAX + sizeof "/" LOCAL_FOLDER)

void
local_address(int fd, const char *dir, const char *name,
              struct net_address *out)
{
    char *const to = out->local.sun_path;
    const size_t max = sizeof out->local.sun_path;

    *out = (struct net_address){.local = {.sun_family = AF_UNIX},
                                .size = sizeof out->local};
    if ((size_t)snprintf(to, max, "%s/" LOCAL_FOLDER "/%s", dir, name) >= max)
        (void)snprintf(to, max, "/proc/self/fd/%d/%s", fd, name);
}

/* ---- serving ------------------------------------------------------------ */

/* The flock that makes this process the one that serves the socket. */
static int
take_lock(const struct local_folder *f, const char *name)
{
    char lock[LOCAL_NAME_SIZE];
    int fd, rc;

    (void)snprintf(lock, sizeof lock, "%s.lock", name);
    fd = openat(f->fd, lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
    (void)close(fd); /* not locked, nothing written */
    return rc;
}

/* Gives the socket its group and mode.  A group that it has is not set again:
 * a service manager may forbid the call. */
static int
set_access(const struct local_folder *f, const char *name)
{
    struct stat st;

    if (fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode))
        return -ESTALE;
    if (f->gid != LOCAL_ANY_GROUP && st.st_gid != f->gid &&
        fchownat(f->fd, name, (uid_t)-1, f->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return fchmodat(f->fd, name, f->mode, 0) < 0 ? -errno : 0;
}

/* Listens under the new name, and then has the name. */
static int
make_socket(const struct local_folder *f, const char *name, int type, int fd)
{
    char new[LOCAL_NAME_SIZE];
    struct net_address a;
    int rc;

    (void)snprintf(new, sizeof new, "%s.new", name);
    local_address(f->fd, f->path, new, &a);
    if (unlinkat(f->fd, new, 0) < 0 && errno != ENOENT)
        return -errno;
    if (bind(fd, (const struct sockaddr *)&a.sa, a.size) < 0)
        return -errno;
    rc = set_access(f, new);
    if (rc == 0 && type == SOCK_STREAM && listen(fd, NET_BACKLOG) < 0)
        rc = -errno;
    if (rc == 0 && renameat(f->fd, new, f->fd, name) < 0)
        rc = -errno;
    if (rc < 0)
        (void)unlinkat(f->fd, new, 0); /* else the next start removes it */
    return rc;
}

/* What a kept socket is called: a file that another process has put in its place
 * has another number. */
static bool
name_kept(const struct local_folder *f, const char *name,
          char kept[KEEPER_NAME_SIZE])
{
    struct stat st;

    if (fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISSOCK(st.st_mode))
        return false;
    (void)snprintf(kept, KEEPER_NAME_SIZE, "%s@%ju", name,
                   (uintmax_t)st.st_ino);
    return true;
}

/* The socket that is kept under that name, or a new one. */
static int
open_socket(const struct local_folder *f, const char *name, int type,
            struct local *l)
{
    char kept[KEEPER_NAME_SIZE];
    int rc;

    l->fd = name_kept(f, name, kept) ? keeper_take(kept, type, NULL, NULL)
                                     : -ENOENT;
    l->is_kept = l->fd >= 0;
    if (l->is_kept)
        return set_access(f, name);
    l->fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    rc = l->fd < 0 ? -errno : make_socket(f, name, type, l->fd);
    if (rc == 0)
        l->is_kept = name_kept(f, name, kept) && keeper_put(kept, l->fd);
    return rc;
}

int
local_open(const struct local_folder *f, const char *name, int type,
           struct local *out)
{
    struct local l = {.fd = -1, .lock_fd = take_lock(f, name)};
    int rc;

    assert(strlen(name) + sizeof ".lock" <= sizeof l.name);
    if (l.lock_fd < 0)
        return l.lock_fd;
    (void)snprintf(l.name, sizeof l.name, "%s", name);
    rc = open_socket(f, name, type, &l);
    if (rc == 0) {
        *out = l;
        return 0;
    }
    if (l.fd >= 0)
        (void)close(l.fd);  /* no client has connected */
    (void)close(l.lock_fd); /* the lock goes with it */
    return rc;
}

void
local_close(const struct local_folder *f, struct local *l)
{
    if (l->lock_fd < 0)
        return;
    /* A socket that stays refuses connections and is replaced later. */
    if (!l->is_kept)
        (void)unlinkat(f->fd, l->name, 0);
    if (l->fd >= 0)
        (void)close(l->fd);  /* no client was accepted */
    (void)close(l->lock_fd); /* the lock goes with it */
    l->fd = l->lock_fd = -1;
}

/* ---- asking ------------------------------------------------------------- */

int
local_connect(const char *dir, const char *name)
{
    char path[FOLDER_PATH_SIZE];
    struct net_address a;
    int folder, fd, rc = 0;

    if (snprintf(path, sizeof path, "%s/" LOCAL_FOLDER, dir) >=
        (int)sizeof path)
        return -ENAMETOOLONG;
    folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    local_address(folder, dir, name, &a);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&a.sa, a.size) < 0)
        rc = -errno;
    (void)close(folder); /* only led to the socket */
    if (rc == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd); /* not connected */
    return rc;
}
