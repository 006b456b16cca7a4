/* tests/unit/test_datadir.c - the data directory: made, checked, refused; its
 * one writer. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/log_fixture.h"

#include "common/setup/datadir.h"
#include "common/setup/disk.h"

#define LENGTH(a)    (sizeof(a) / sizeof((a)[0]))
#define PATH_SIZE    600
#define FOLDER_COUNT 3

static const char *const folders[FOLDER_COUNT] = {"log", "keyspace", "live"};

static const char *
data_path(const struct tmpdir *d)
{
    static char path[PATH_SIZE];

    snprintf(path, sizeof path, "%s/data", d->path);
    return path;
}

static struct datadir
open_data(const struct tmpdir *d)
{
    struct datadir dir;

    assert_rc(datadir_open(&dir, data_path(d), DATADIR_WRITE), 0);
    return dir;
}

static void
make_data(const struct tmpdir *d)
{
    struct datadir dir = open_data(d);

    datadir_close(&dir);
}

static int
open_rc(const struct tmpdir *d, enum datadir_need need)
{
    struct datadir dir;
    int rc = datadir_open(&dir, data_path(d), need);

    if (rc == 0)
        datadir_close(&dir);
    return rc;
}

IN_TMPDIR(a_new_directory_is_made_for_its_user_alone, d)
{
    char name[64];

    make_data(d);
    assert_int_equal(tmpdir_mode(d, "data"), 0700);
    for (size_t i = 0; i < FOLDER_COUNT; i++) {
        snprintf(name, sizeof name, "data/%s", folders[i]);
        assert_int_equal(tmpdir_mode(d, name), 0700);
    }
    assert_int_equal(tmpdir_count(d, "data"), FOLDER_COUNT);
    assert_int_equal(tmpdir_count(d, "data/log"), 0);
    assert_int_equal(tmpdir_count(d, "data/keyspace"), 0);
    make_data(d);
}

/* The error of every call that can fail, leaving nothing open and nothing
 * behind but, after the last, the directory itself, theirs. */
IN_TMPDIR(a_directory_is_made_for_a_user_once, d)
{
    static const char *const calls[] = {"mkdirat", "openat", "fstat", "fsync"};
    const uid_t uid = geteuid() == 0 ? 65534 : geteuid();
    const gid_t gid = geteuid() == 0 ? 65534 : getegid();
    struct stat st;
    unsigned fds;

    fds = fault_open_fds();
    for (size_t i = 0; i < LENGTH(calls); i++) {
        fault_inject(calls[i], 1, EIO);
        assert_rc(datadir_make_for(data_path(d), uid, gid), -EIO);
        fault_clear();
        assert_int_equal(fault_open_fds(), fds);
        assert_int_equal(rmdir(data_path(d)), i == LENGTH(calls) - 1 ? 0 : -1);
        assert_int_equal(tmpdir_count(d, "."), 0);
    }
    assert_rc(datadir_make_for(data_path(d), uid, gid), 0);
    assert_int_equal(lstat(data_path(d), &st), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0700);
    assert_true(st.st_uid == uid && st.st_gid == gid);

    /* A directory that is there is not given away. */
    assert_int_equal(chown(data_path(d), geteuid(), getegid()), 0);
    assert_rc(datadir_make_for(data_path(d), uid, gid), 0);
    assert_int_equal(lstat(data_path(d), &st), 0);
    assert_true(st.st_uid == geteuid());
    assert_rc(datadir_make_for("/does/not/exist", uid, gid), -ENOENT);
}

/* Daemons that start at the same time all find it theirs. */
IN_TMPDIR(a_directory_that_several_make_is_never_seen_as_roots, d)
{
    enum { ROUNDS = 60, DAEMONS = 4 };

    if (geteuid() != 0)
        test_skip("needs root to make a directory for another user");
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pids[DAEMONS];
        int begin[2];
        struct stat st;
        char byte;

        assert_int_equal(pipe(begin), 0);
        for (int i = 0; i < DAEMONS; i++) {
            pids[i] = test_fork();
            if (pids[i] > 0)
                continue;
            (void)close(begin[1]);
            (void)read(begin[0], &byte, 1); /* its end starts all */
            if (datadir_make_for(data_path(d), 65534, 65534) < 0)
                _exit(1);
            _exit(lstat(data_path(d), &st) == 0 && st.st_uid == 65534 ? 0 : 2);
        }
        assert_int_equal(close(begin[0]), 0);
        assert_int_equal(close(begin[1]), 0);
        for (int i = 0; i < DAEMONS; i++)
            assert_int_equal(test_wait(pids[i]), 0);
        assert_int_equal(tmpdir_count(d, "."), 1);
        assert_int_equal(rmdir(data_path(d)), 0);
    }
}

IN_TMPDIR(a_reader_makes_nothing, d)
{
    assert_rc(open_rc(d, DATADIR_READ), -ENOENT);
    assert_false(datadir_is_made(data_path(d)));
    assert_int_equal(tmpdir_count(d, "."), 0);
    assert_int_equal(mkdirat(d->fd, "data", 0700), 0);
    assert_rc(open_rc(d, DATADIR_READ), -ENOENT);
    assert_false(datadir_is_made(data_path(d)));
    assert_int_equal(tmpdir_count(d, "data"), 0);

    make_data(d);
    assert_rc(open_rc(d, DATADIR_READ), 0);
    assert_true(datadir_is_made(data_path(d)));
    assert_int_equal(unlinkat(d->fd, "data/keyspace", AT_REMOVEDIR), 0);
    assert_rc(open_rc(d, DATADIR_READ), -ENOENT);
    assert_false(datadir_is_made(data_path(d)));
}

IN_TMPDIR(other_things_in_it_are_left_alone, d)
{
    assert_int_equal(mkdirat(d->fd, "data", 0755), 0);
    tmpdir_put(d, "data/FORMAT.md", "text", 4, 0644);
    make_data(d);
    assert_int_equal(tmpdir_count(d, "data"), FOLDER_COUNT + 1);
    assert_int_equal(tmpdir_mode(d, "data"), 0755);
}

IN_TMPDIR(folders_others_may_write_to_are_refused, d)
{
    static const mode_t modes[] = {0770, 0702, 0720};
    char name[64] = "data";

    make_data(d);
    for (size_t i = 0; i <= FOLDER_COUNT; i++) {
        for (size_t m = 0; m < LENGTH(modes); m++) {
            assert_int_equal(fchmodat(d->fd, name, modes[m], 0), 0);
            assert_rc(open_rc(d, DATADIR_WRITE), -EPERM);
            assert_int_equal(fchmodat(d->fd, name, 0700, 0), 0);
        }
        assert_rc(open_rc(d, DATADIR_WRITE), 0);
        if (i < FOLDER_COUNT)
            snprintf(name, sizeof name, "data/%s", folders[i]);
    }
}

IN_TMPDIR(folders_of_another_user_are_refused, d)
{
    if (geteuid() != 0)
        return; /* only root can give a folder away; that run tests it */
    make_data(d);
    assert_int_equal(fchownat(d->fd, "data/log", NOBODY, NOBODY, 0), 0);
    assert_rc(open_rc(d, DATADIR_WRITE), -EPERM);
    assert_rc(open_rc(d, DATADIR_READ), -EPERM);
    assert_int_equal(fchownat(d->fd, "data/log", 0, 0, 0), 0);
    assert_int_equal(fchownat(d->fd, "data", NOBODY, NOBODY, 0), 0);
    assert_rc(open_rc(d, DATADIR_WRITE), -EPERM);
}

IN_TMPDIR(links_and_files_in_place_of_folders_are_refused, d)
{
    assert_int_equal(mkdirat(d->fd, "data", 0700), 0);
    assert_int_equal(mkdirat(d->fd, "elsewhere", 0700), 0);
    assert_int_equal(symlinkat("../elsewhere", d->fd, "data/log"), 0);
    assert_true(open_rc(d, DATADIR_WRITE) < 0);
    assert_int_equal(tmpdir_count(d, "elsewhere"), 0);
    assert_int_equal(unlinkat(d->fd, "data/log", 0), 0);
    tmpdir_put(d, "data/log", "", 0, 0600);
    assert_true(open_rc(d, DATADIR_WRITE) < 0);
    assert_int_equal(unlinkat(d->fd, "data/log", 0), 0);

    make_data(d);
    assert_int_equal(symlinkat("../elsewhere", d->fd, "data/archive"), 0);
    assert_true(open_rc(d, DATADIR_WRITE) < 0);
}

/* The operator's own word, unlike what is inside. */
IN_TMPDIR(the_directory_itself_may_be_reached_over_a_link, d)
{
    assert_int_equal(mkdirat(d->fd, "disk", 0700), 0);
    assert_int_equal(symlinkat("disk", d->fd, "data"), 0);
    make_data(d);
    assert_int_equal(tmpdir_count(d, "disk"), FOLDER_COUNT);
}

TEST(network_file_systems_are_refused_and_memory_is_warned_about)
{
    static const uint64_t refused[] = {
        0x6969,     0x517b,     0xff534d42,
        0xfe534d42, 0x01021997, UINT64_C(0xffffffffff534d42)};
    static const uint64_t warned[] = {0x01021994, 0x858458f6, 0x794c7630};
    static const uint64_t good[] = {0xef53, 0x58465342, 0x9123683e};
    const char *why;

    for (size_t i = 0; i < LENGTH(refused); i++)
        assert_rc(disk_check_type(refused[i], &why), -EOPNOTSUPP);
    for (size_t i = 0; i < LENGTH(warned); i++)
        assert_rc(disk_check_type(warned[i], &why), 1);
    for (size_t i = 0; i < LENGTH(good); i++)
        assert_rc(disk_check_type(good[i], &why), 0);
}

IN_TMPDIR(a_file_system_without_hard_links_is_refused, d)
{
    static const int errors[] = {EPERM, EOPNOTSUPP, EMLINK};

    for (size_t i = 0; i < LENGTH(errors); i++) {
        fault_inject("linkat", 1, errors[i]);
        assert_rc(open_rc(d, DATADIR_WRITE), -EOPNOTSUPP);
        fault_clear();
        assert_int_equal(tmpdir_count(d, "data/log"), 0);
    }
    assert_rc(open_rc(d, DATADIR_WRITE), 0);
}

IN_TMPDIR(a_directory_that_cannot_be_synced_is_refused, d)
{
    unsigned nth;
    bool hit;

    make_data(d);
    for (nth = 1, hit = true; hit; nth++) {
        fault_inject("fsync", nth, EINVAL);
        assert_rc(open_rc(d, DATADIR_WRITE), (hit = nth < 5) ? -EINVAL : 0);
        assert_int_equal(fault_hit(), hit);
        fault_clear();
    }
}

/* ---- the one writer ----------------------------------------------------- */

IN_TMPDIR(there_is_one_writer, d)
{
    struct datadir dir = open_data(d);
    int fd, other = -1;
    long pid = 0;

    assert_int_equal(datadir_writer_pid(&dir), 0);
    assert_rc(datadir_writer_lock(&dir, &fd, &pid), 0);
    assert_int_equal(datadir_writer_pid(&dir), getpid());
    assert_rc(datadir_writer_lock(&dir, &other, &pid), -EBUSY);
    assert_int_equal(pid, getpid());
    assert_int_equal(other, -1);

    assert_int_equal(close(fd), 0);
    assert_int_equal(datadir_writer_pid(&dir), 0);
    assert_rc(datadir_writer_lock(&dir, &fd, &pid), 0);
    assert_int_equal(close(fd), 0);
    datadir_close(&dir);
}

/* A pid of another namespace is never signalled. */
IN_TMPDIR(a_writer_in_another_pid_namespace_is_there_and_has_no_pid_here, d)
{
    struct datadir dir = open_data(d);
    int fd, file;
    long pid;

    assert_rc(datadir_writer_lock(&dir, &fd, &pid), 0);
    file = openat(dir.log_fd, "writer", O_WRONLY);
    assert_int_equal(pwrite(file, "7                   4026539999", 30, 0), 30);
    assert_int_equal(datadir_writer_pid(&dir), -7);
    /* What an older version wrote is believed. */
    assert_int_equal(ftruncate(file, 21), 0);
    assert_int_equal(pwrite(file, "\n", 1, 20), 1);
    assert_int_equal(datadir_writer_pid(&dir), 7);
    assert_int_equal(close(file), 0);
    assert_int_equal(close(fd), 0);
    datadir_close(&dir);
}

/* A process that only asks must not make a starting writer believe in
 * another. */
IN_TMPDIR(asking_for_the_writer_takes_no_lock, d)
{
    struct datadir dir = open_data(d);
    int fd;
    long pid;

    assert_rc(datadir_writer_lock(&dir, &fd, &pid), 0);
    fault_clear();
    assert_int_equal(datadir_writer_pid(&dir), getpid());
    assert_int_equal(fault_calls("flock"), 0);
    assert_int_equal(close(fd), 0);
    datadir_close(&dir);
}

TEST(what_a_restart_cannot_mend_is_told_from_what_it_may)
{
    static const int lasting[] = {-EPERM, -EACCES, -EOPNOTSUPP, -ENOTDIR,
                                  -ELOOP};
    static const int passing[] = {-EIO, -ENOSPC, -EMFILE, -EROFS, -EBADMSG};

    for (size_t i = 0; i < LENGTH(lasting); i++) {
        assert_int_equal(datadir_exit_status(lasting[i], DATADIR_WRITE), 100);
        assert_int_equal(datadir_exit_status(lasting[i], DATADIR_READ), 100);
    }
    for (size_t i = 0; i < LENGTH(passing); i++) {
        assert_int_equal(datadir_exit_status(passing[i], DATADIR_WRITE), 111);
        assert_int_equal(datadir_exit_status(passing[i], DATADIR_READ), 111);
    }
    assert_int_equal(datadir_exit_status(-ENOENT, DATADIR_WRITE), 100);
    assert_int_equal(datadir_exit_status(-ENOENT, DATADIR_READ), 111);
}

/* ---- each system call fails ---------------------------------------------- */

IN_TMPDIR(a_full_disk_does_not_refuse_a_directory_that_is_there, d)
{
    static const int errors[] = {ENOSPC, EDQUOT};

    make_data(d);
    for (size_t i = 0; i < LENGTH(errors); i++) {
        fault_inject("linkat", 1, errors[i]);
        assert_rc(open_rc(d, DATADIR_WRITE), 0);
        assert_true(fault_hit());
        fault_clear();
        assert_int_equal(tmpdir_count(d, "data/log"), 0);
    }
}

IN_TMPDIR(any_failing_call_leaks_nothing_and_the_next_start_works, d)
{
    static const int errors[] = {EIO, ENOSPC, EMFILE};
    struct datadir dir;
    unsigned nth, fds = fault_open_fds();
    bool hit;
    int rc;

    for (size_t e = 0; e < LENGTH(errors); e++) {
        for (nth = 1, hit = true; hit; nth++) {
            fault_inject("disk", nth, errors[e]);
            rc = datadir_open(&dir, data_path(d), DATADIR_WRITE);
            hit = fault_hit();
            fault_clear();
            assert_true(rc == 0 || (rc < 0 && hit));
            if (rc == 0)
                datadir_close(&dir);
            assert_int_equal(fault_open_fds(), fds);

            make_data(d);
            /* Probes that it could not unlink may lie about. */
            assert_in_range(tmpdir_count(d, "data/log"), 0, 2);
            tmpdir_remove(d);
            tmpdir_make(d);
            fds = fault_open_fds();
        }
    }
}

IN_TMPDIR(any_failing_call_leaves_no_writer_behind, d)
{
    struct datadir dir = open_data(d);
    unsigned nth, fds = fault_open_fds();
    bool hit = true;
    long pid;
    int fd, rc;

    for (nth = 1; hit; nth++) {
        fault_inject("disk", nth, EIO);
        rc = datadir_writer_lock(&dir, &fd, &pid);
        hit = fault_hit();
        fault_clear();
        assert_int_equal(rc, hit ? -EIO : 0);
        if (rc == 0)
            assert_int_equal(close(fd), 0);
        assert_int_equal(fault_open_fds(), fds);
        assert_int_equal(datadir_writer_pid(&dir), 0);
    }
    datadir_close(&dir);
}

LOG_TEST_MAIN
