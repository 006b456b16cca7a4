/* tests/lib/tmpdir.c - see tmpdir.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/tmpdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/lib/test.h"

/* A failed test leaves without its clean-up: what it made goes at exit. */
#define KEPT_MAX 64

static char kept[KEPT_MAX][sizeof((struct tmpdir *)0)->path];
static pid_t kept_by;

static void remove_all(const char *path);

static void
remove_kept(void)
{
    for (size_t i = 0; i < KEPT_MAX && getpid() == kept_by; i++)
        if (kept[i][0])
            remove_all(kept[i]);
}

static void
keep_path(const char *path)
{
    if (kept_by == 0 && atexit(remove_kept) != 0)
        fail_msg("atexit failed");
    kept_by = kept_by ? kept_by : getpid();
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (!kept[i][0]) {
            strcpy(kept[i], path);
            return;
        }
}

static void
forget_path(const char *path)
{
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (strcmp(kept[i], path) == 0)
            kept[i][0] = '\0';
}

static void
make_in(struct tmpdir *dir, const char *base)
{
    int size;

    size = snprintf(dir->path, sizeof dir->path, "%s/countd-test-XXXXXX", base);
    if (size < 0 || (size_t)size >= sizeof dir->path)
        fail_msg("TMPDIR is too long");
    if (!mkdtemp(dir->path))
        fail_msg("mkdtemp %s: %s", dir->path, strerror(errno));
    keep_path(dir->path);
    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0)
        fail_msg("open %s: %s", dir->path, strerror(errno));
}

void
tmpdir_make(struct tmpdir *dir)
{
    const char *base = getenv("TMPDIR");

    make_in(dir, base && *base ? base : "/tmp");
}

void
tmpdir_make_in_memory(struct tmpdir *dir)
{
    static const char memory[] = "/dev/shm";
    struct statfs fs;

    if (statfs(memory, &fs) == 0 && fs.f_type == TMPFS_MAGIC &&
        (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize > 64 << 20 &&
        access(memory, W_OK) == 0)
        make_in(dir, memory);
    else
        tmpdir_make(dir);
}

static uid_t new_owner;

static int
chown_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st; /* nftw's signature */
    (void)type;
    (void)ftw;
    return lchown(path, new_owner, (gid_t)new_owner);
}

void
tmpdir_chown(const struct tmpdir *dir, uid_t uid)
{
    new_owner = uid;
    if (nftw(dir->path, chown_one, 16, FTW_PHYS) != 0)
        fail_msg("chown below %s: %s", dir->path, strerror(errno));
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st; /* nftw's signature */
    (void)type;
    (void)ftw;
    /* Files that cannot be removed are left to the machine's own cleaning. */
    (void)remove(path);
    return 0;
}

static int
open_folder(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st; /* nftw's signature */
    (void)ftw;
    /* A folder left without its bits could not be entered; one that is not
     * ours is not ours to remove. */
    if (type == FTW_D || type == FTW_DNR)
        (void)chmod(path, 0700);
    return 0;
}

static void
remove_all(const char *path)
{
    /* As far as it goes: tests are judged by what they assert. */
    (void)nftw(path, open_folder, 16, FTW_PHYS);
    (void)nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

void
tmpdir_remove(struct tmpdir *dir)
{
    if (dir->fd >= 0)
        (void)close(dir->fd); /* read only */
    dir->fd = -1;
    remove_all(dir->path);
    forget_path(dir->path);
}

int
tmpdir_setup(void **state)
{
    struct tmpdir *dir = test_memory(calloc(1, sizeof *dir));

    tmpdir_make(dir);
    *state = dir;
    return 0;
}

int
tmpdir_teardown(void **state)
{
    struct tmpdir *dir = *state;

    tmpdir_remove(dir);
    free(dir);
    return 0;
}

void
tmpdir_put(const struct tmpdir *dir, const char *name, const void *bytes,
           size_t size, mode_t mode)
{
    int fd;

    fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size ||
        fchmod(fd, mode) < 0 || close(fd) < 0)
        fail_msg("put %s: %s", name, strerror(errno));
}

bool
tmpdir_has(const struct tmpdir *dir, const char *name)
{
    struct stat st;

    return fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

mode_t
tmpdir_mode(const struct tmpdir *dir, const char *name)
{
    struct stat st;

    if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        fail_msg("stat %s: %s", name, strerror(errno));
    return st.st_mode & 07777;
}

size_t
tmpdir_count(const struct tmpdir *dir, const char *folder)
{
    int fd = openat(dir->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    size_t count = 0;

    if (!d)
        fail_msg("read folder %s: %s", folder, strerror(errno));
    while (readdir(d))
        count++;
    (void)closedir(d); /* read only */
    return count - 2;
}
