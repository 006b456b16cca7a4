/* tests/lib/simdisk.c - see simdisk.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/simdisk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#define FILE_MAX  ((size_t)1 << 18)
#define SECTOR    512u
#define LINE      64u
#define NOTE      64u
#define ENTRIES   512
#define FILES     4096
#define FIRST_FD  10
#define NAME_SIZE 24

jmp_buf simdisk_killed;
long simdisk_kill_in = -1, simdisk_fail_in = -1;
int simdisk_process;

struct entry {
    char name[NAME_SIZE];
    struct simdisk_file *file;
};

struct folder {
    struct entry at[ENTRIES];
    size_t count;
};

/* A change of the folder that is not synced. */
struct change {
    enum change_kind { ADD, REMOVE, RENAME } kind;
    char name[NAME_SIZE], to[NAME_SIZE];
    struct simdisk_file *file;
};

static struct simdisk_file *files[FILES];
static size_t file_count;
static struct folder cached, stored;
static struct change changes[ENTRIES];
static size_t change_count;
static struct {
    struct simdisk_file *file;
    int process;
} fds[FILES];
static uint64_t random_state;
static int boot;

/* ---- chance ------------------------------------------------------------- */

uint64_t
simdisk_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state * UINT64_C(0x2545F4914F6CDD1D) >> 20) % below;
}

static int
is_killed(void)
{
    return simdisk_kill_in >= 0 && simdisk_kill_in-- == 0;
}

static void
die(void)
{
    longjmp(simdisk_killed, 1);
}

/* At a call that changes something: a process that is killed may die before it.
 * 1: it dies after it. */
static int
begin_change(void)
{
    const int killed = is_killed();

    if (killed && simdisk_random(2) > 0)
        die();
    return killed;
}

static int
is_failing(void)
{
    if (simdisk_fail_in < 0 || simdisk_fail_in-- > 0)
        return 0;
    if (simdisk_random(3) == 0)
        simdisk_fail_in = (long)simdisk_random(3);
    return 1;
}

/* ---- the folder ---------------------------------------------------------- */

static struct simdisk_file *
find_entry(const struct folder *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->at[i].name, name) == 0)
            return f->at[i].file;
    return NULL;
}

static void
remove_entry(struct folder *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->at[i].name, name) == 0) {
            f->at[i] = f->at[--f->count];
            return;
        }
}

static void
set_entry(struct folder *f, const char *name, struct simdisk_file *file)
{
    remove_entry(f, name);
    (void)snprintf(f->at[f->count].name, NAME_SIZE, "%s", name);
    f->at[f->count++].file = file;
}

static void
apply_change(struct folder *f, const struct change *c)
{
    if (c->kind == ADD) {
        set_entry(f, c->name, c->file);
    } else if (c->kind == REMOVE) {
        remove_entry(f, c->name);
    } else {
        if (find_entry(f, c->name) == c->file)
            remove_entry(f, c->name);
        set_entry(f, c->to, c->file);
    }
}

static void
change_folder(enum change_kind kind, const char *name, const char *to,
              struct simdisk_file *file)
{
    struct change *c = &changes[change_count++];

    c->kind = kind;
    c->file = file;
    (void)snprintf(c->name, NAME_SIZE, "%s", name);
    (void)snprintf(c->to, NAME_SIZE, "%s", to);
    apply_change(&cached, c);
}

struct simdisk_file *
simdisk_file(size_t number)
{
    return number < cached.count ? cached.at[number].file : NULL;
}

struct simdisk_file *
simdisk_find(const char *name)
{
    return find_entry(&cached, name);
}

/* ---- its life ------------------------------------------------------------ */

void
simdisk_reset(uint64_t seed)
{
    for (size_t i = 0; i < file_count; i++) {
        free(files[i]->cached);
        free(files[i]->stored);
        free(files[i]);
    }
    file_count = cached.count = stored.count = change_count = 0;
    memset(fds, 0, sizeof fds);
    simdisk_kill_in = simdisk_fail_in = -1;
    simdisk_process = 0;
    boot = 1;
    random_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 88172645463325252u;
    for (int i = 0; i < 8; i++)
        (void)simdisk_random(2);
}

void
simdisk_end(int process)
{
    for (int i = FIRST_FD; i < FILES; i++)
        if (fds[i].file != NULL && fds[i].process == process)
            (void)simdisk_close(i);
}

/* Which of the dirty sectors reach the disk. */
static void
store_sectors(struct simdisk_file *f, int mode, int tears)
{
    const size_t top =
        f->cached_size > f->stored_size ? f->cached_size : f->stored_size;

    for (size_t s = 0; s * SECTOR < top; s++) {
        const int takes = mode == 1 || (mode == 2 && simdisk_random(2) > 0) ||
                          (mode == 3 && simdisk_random(8) > 0);
        size_t size = SECTOR;

        if (!f->dirty[s] || !takes)
            continue;
        if (tears && simdisk_random(4) == 0)
            size = simdisk_random(SECTOR);
        memcpy(f->stored + s * SECTOR, f->cached + s * SECTOR, size);
    }
}

static void
lose_power(struct simdisk_file *f, int mode, int tears)
{
    size_t size = f->stored_size;

    f->owner = 0;
    if (f->cached_size != f->stored_size && mode > 0 && simdisk_random(2) > 0)
        size = f->cached_size;
    else if (f->cached_size > f->stored_size && simdisk_random(2) > 0)
        size = f->stored_size +
               simdisk_random((f->cached_size - f->stored_size) / SECTOR + 1) *
                   SECTOR;
    store_sectors(f, mode, tears);
    if (f->note_count > 0) {
        const int v = (int)simdisk_random((uint64_t)f->note_count + 1);

        memcpy(f->stored, v < f->note_count ? f->notes[v] : f->cached, NOTE);
        if (size < NOTE && v > 0)
            size = NOTE;
    }
    memset(f->stored + size, 0, FILE_MAX - size);
    memcpy(f->cached, f->stored, FILE_MAX);
    f->cached_size = f->stored_size = size;
    memset(f->dirty, 0, sizeof f->dirty);
    f->note_count = 0;
}

void
simdisk_power_cut(int tears)
{
    const int mode = (int)simdisk_random(4); /* none, all, half, most */

    memset(fds, 0, sizeof fds);
    boot++;
    for (size_t i = 0; i < change_count; i++)
        if (mode == 1 || simdisk_random(2) > 0)
            apply_change(&stored, &changes[i]);
    change_count = 0;
    cached = stored;
    for (size_t i = 0; i < file_count; i++)
        lose_power(files[i], mode, tears);
}

/* ---- calls --------------------------------------------------------------- */

static int
new_fd(struct simdisk_file *f)
{
    for (int i = FIRST_FD; i < FILES; i++)
        if (fds[i].file == NULL) {
            fds[i].file = f;
            fds[i].process = simdisk_process;
            return i;
        }
    abort();
}

const uint8_t *
simdisk_boot_id(void)
{
    static uint8_t id[16];

    id[0] = (uint8_t)boot;
    return id;
}

bool
simdisk_boot_id_is_this(const uint8_t id[16])
{
    return memcmp(id, simdisk_boot_id(), 16) == 0;
}

int
simdisk_openat(int dir_fd, const char *name, int flags, ...)
{
    struct simdisk_file *f = find_entry(&cached, name);

    (void)dir_fd;
    if (is_killed())
        die();
    if (is_failing()) {
        errno = EMFILE;
        return -1;
    }
    if (f == NULL && (flags & O_CREAT) == 0) {
        errno = ENOENT;
        return -1;
    }
    if (f == NULL) {
        f = calloc(1, sizeof *f);
        f->cached = calloc(1, FILE_MAX);
        f->stored = calloc(1, FILE_MAX);
        files[file_count++] = f;
        change_folder(ADD, name, "", f);
    }
    if ((flags & O_TRUNC) != 0) {
        memset(f->cached, 0, f->cached_size);
        f->cached_size = 0;
        memset(f->dirty, 1, sizeof f->dirty);
    }
    return new_fd(f);
}

int
simdisk_close(int fd)
{
    struct simdisk_file *f = fds[fd].file;

    if (f != NULL && f->owner == fd)
        f->owner = 0;
    fds[fd].file = NULL;
    return 0;
}

int
simdisk_fstat(int fd, struct stat *st)
{
    memset(st, 0, sizeof *st);
    st->st_size = (off_t)fds[fd].file->cached_size;
    return 0;
}

static int
sync_folder(int killed)
{
    if (is_failing()) {
        errno = EIO;
        return -1;
    }
    for (size_t i = 0; i < change_count; i++)
        apply_change(&stored, &changes[i]);
    change_count = 0;
    if (killed)
        die();
    return 0;
}

int
simdisk_fsync(int fd)
{
    const int killed = begin_change();
    struct simdisk_file *f = fds[fd].file;
    size_t top;
    int fails;

    if (fd == SIMDISK_FOLDER)
        return sync_folder(killed);
    fails = is_failing();
    top = f->cached_size > f->stored_size ? f->cached_size : f->stored_size;
    for (size_t s = 0; s * SECTOR < top; s++) {
        if (f->dirty[s] && (!fails || simdisk_random(2) > 0))
            memcpy(f->stored + s * SECTOR, f->cached + s * SECTOR, SECTOR);
        f->dirty[s] = 0; /* also after a failure: as Linux does */
    }
    if (!fails || simdisk_random(2) > 0)
        f->stored_size = f->cached_size;
    f->note_count = 0;
    if (fails) {
        errno = EIO;
        return -1;
    }
    if (killed)
        die();
    return 0;
}

int
simdisk_ftruncate(int fd, off_t size)
{
    const int killed = begin_change();
    struct simdisk_file *f = fds[fd].file;

    if (is_failing()) {
        errno = EIO;
        return -1;
    }
    if ((size_t)size < f->cached_size) {
        memset(f->cached + size, 0, f->cached_size - (size_t)size);
        for (size_t s = (size_t)size / SECTOR; s * SECTOR < f->cached_size; s++)
            f->dirty[s] = 1;
    }
    f->cached_size = (size_t)size;
    if (killed)
        die();
    return 0;
}

int
simdisk_unlinkat(int dir_fd, const char *name, int flags)
{
    const int killed = begin_change();

    (void)dir_fd;
    (void)flags;
    if (find_entry(&cached, name) == NULL) {
        errno = ENOENT;
        return -1;
    }
    change_folder(REMOVE, name, "", NULL);
    if (killed)
        die();
    return 0;
}

int
simdisk_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    const int killed = begin_change();
    struct simdisk_file *f = find_entry(&cached, from);

    (void)from_fd;
    (void)to_fd;
    if (is_failing() || f == NULL) {
        errno = f == NULL ? ENOENT : EIO;
        return -1;
    }
    change_folder(RENAME, from, to, f);
    if (killed)
        die();
    return 0;
}

int
simdisk_flock(int fd, int operation)
{
    struct simdisk_file *f = fds[fd].file;

    if (is_killed())
        die();
    if ((operation & LOCK_UN) != 0) {
        if (f->owner == fd)
            f->owner = 0;
        return 0;
    }
    if (f->owner != 0 && f->owner != fd) {
        errno = EWOULDBLOCK;
        return -1;
    }
    f->owner = fd;
    return 0;
}

int
simdisk_lock_take(int fd, long *holder)
{
    *holder = 0;
    return simdisk_flock(fd, LOCK_EX) == 0 ? 0 : -errno;
}

ssize_t
simdisk_read_at(int fd, void *bytes, size_t size, uint64_t at)
{
    const struct simdisk_file *f = fds[fd].file;

    if (is_killed())
        die();
    if (at >= f->cached_size)
        return 0;
    if (size > f->cached_size - at)
        size = f->cached_size - at;
    memcpy(bytes, f->cached + at, size);
    return (ssize_t)size;
}

/* How much of a write is made by a process that is killed in it, or fails. */
static size_t
cut_write(size_t size, uint64_t at)
{
    size_t part = simdisk_random(size + 1);

    if (simdisk_random(2) > 0)
        part = part / 4096 * 4096;
    if (size == NOTE && at == 0)
        part = simdisk_random(2) * NOTE;
    if (part > LINE)
        return (at + part) / LINE * LINE - at;
    return part == size ? part : 0;
}

int
simdisk_write_at(int fd, const void *bytes, size_t size, uint64_t at)
{
    struct simdisk_file *f = fds[fd].file;
    const int killed = is_killed(), fails = is_failing();

    if (size == NOTE && at == 0 && f->note_count < 64)
        memcpy(f->notes[f->note_count++], f->cached, NOTE);
    if (killed || fails)
        size = cut_write(size, at);
    if (at + size > FILE_MAX)
        abort();
    memcpy(f->cached + at, bytes, size);
    if (size > 0 && at + size > f->cached_size)
        f->cached_size = at + size;
    for (size_t s = at / SECTOR; size > 0 && s <= (at + size - 1) / SECTOR; s++)
        f->dirty[s] = 1;
    if (killed)
        die();
    return fails ? (simdisk_random(2) > 0 ? -ENOSPC : -EIO) : 0;
}

int
simdisk_write_zeros(int fd, uint64_t size, uint64_t at)
{
    static const uint8_t zeros[65536];
    int rc = 0;

    for (uint64_t done = 0; rc == 0 && done < size; done += sizeof zeros)
        rc = simdisk_write_at(
            fd, zeros, size - done < sizeof zeros ? size - done : sizeof zeros,
            at + done);
    return rc;
}

int
simdisk_dirstream_each(int dir_fd, const char *folder,
                       int (*each)(void *ctx, int fd, const char *name),
                       void *ctx)
{
    int rc = 0;

    (void)folder;
    if (is_killed())
        die();
    for (size_t i = 0; rc == 0 && i < cached.count; i++)
        rc = each(ctx, dir_fd, cached.at[i].name);
    return rc;
}

ssize_t
simdisk_getrandom(void *bytes, size_t size, unsigned flags)
{
    uint8_t *at = bytes;

    (void)flags;
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)simdisk_random(256);
    return (ssize_t)size;
}
