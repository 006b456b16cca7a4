/* tests/unit/log_fixture.h - small logs for tests: fill them, put them into
 * any state by hand, take them out again as a worker would.
 *
 * Slots hold increments 1, 2, 3 ... in the order of appending, received at
 * FIRST_MS, FIRST_MS + 1 ..., so that sums show which of them were counted.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_LOG_FIXTURE_H
#define COUNTD_TESTS_UNIT_LOG_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log/inspect.h"
#include "common/log/log.h"
#include "common/log/slot.h"
#include "tests/lib/fault.h"
#include "tests/lib/filler.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

#define FIRST_MS  UINT64_C(1700000000123)
#define SLOTS     16
#define SLOT_SIZE 48 /* 8 + 8 + 8 + 24 */
#define FILE_SIZE (LOG_SLOTS_AT + SLOTS * SLOT_SIZE)
#define NOBODY    65534

static inline struct layout
small_layout(void)
{
    struct layout l;

    assert_rc(layout_init(&l, 8, 8), 0);
    assert_int_equal(l.slot_size, SLOT_SIZE);
    return l;
}

/* Every second increment is of a minute of its own. */
static inline uint32_t
minute_of_slot(uint32_t number)
{
    return number % 2 == 0 ? 0 : 1000 + number;
}

/* The slot that holds increment number + 1. */
static inline void
make_slot(const struct log *log, uint32_t number, uint32_t synced,
          uint8_t *slot)
{
    struct message m = {.increment = number + 1,
                        .keyspace = (const uint8_t *)"space",
                        .key = (const uint8_t *)"key",
                        .keyspace_size = 5,
                        .key_size = 3,
                        .minute = minute_of_slot(number)};
    struct slot_stamp stamp = {.received_ms = FIRST_MS + number,
                               .synced = synced};

    filler_put_slot(log, &m, number, &stamp, slot);
}

/* Appends `count` slots that say that `synced` of this log are durable. */
static inline int
append_messages(struct log *log, uint32_t count, uint32_t synced)
{
    uint8_t slots[SLOTS * SLOT_SIZE];
    uint32_t i;

    for (i = 0; i < count; i++)
        make_slot(log, log->header.count + i, synced, slots + i * SLOT_SIZE);
    log->has_times = log->has_times || log->header.count + count > 1;
    return log_append(log, slots, count, FIRST_MS + log->header.count,
                      FIRST_MS + log->header.count + count - 1);
}

static inline bool
has_file(int dirfd, const char *name)
{
    struct stat st;

    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline void
create_log(int dirfd, uint64_t index)
{
    struct layout l = small_layout();

    assert_rc(log_create(dirfd, index, &l, SLOTS), 0);
}

/* Claims an empty log, which is made if there is none, and begins it. */
static inline struct log
begin_log(int dirfd, uint64_t index)
{
    char name[LOG_NAME_SIZE];
    struct log log;

    log_name(index, name);
    if (!has_file(dirfd, name))
        create_log(dirfd, index);
    assert_rc(log_claim(&log, dirfd, index, LOG_MODE_EMPTY), 0);
    assert_rc(log_begin(&log), 0);
    return log;
}

static inline struct log
begin_with(int dirfd, uint64_t index, uint32_t count)
{
    struct log log = begin_log(dirfd, index);

    if (count > 0)
        assert_rc(append_messages(&log, count, 0), 0);
    return log;
}

/* A full log with `count` increments, at rest. */
static inline void
make_full(int dirfd, uint64_t index, uint32_t count)
{
    struct log log = begin_with(dirfd, index, count);

    assert_rc(log_seal(&log), 0);
    assert_rc(log_release(&log), 0);
}

/* The number of increments of a full log that is ours; each must be the one
 * that was put.  -EBADMSG when one of them does not check. */
static inline int
read_count(const struct log *log)
{
    const bool has_times = (log->header.features & LOG_HAS_TIMES) != 0;
    uint8_t slots[SLOTS * SLOT_SIZE];
    struct slot_stamp stamp;
    struct message m;
    uint32_t i;
    int rc;

    assert_true(log->header.count <= SLOTS);
    rc = inspect_read(log->fd, slots, log->header.count * SLOT_SIZE,
                      LOG_SLOTS_AT);
    if (rc < 0)
        return rc;
    for (i = 0; i < log->header.count; i++) {
        rc = slot_parse(&log->header, slots + i * SLOT_SIZE, i, &m, &stamp);
        if (rc < 0)
            return -EBADMSG;
        assert_int_equal(m.increment, i + 1);
        assert_int_equal(m.minute, has_times ? minute_of_slot(i) : 0);
    }
    return (int)log->header.count;
}

/* Takes a full log as a worker does and gives it back empty.  Returns the
 * number of its increments, or why not. */
static inline int
merge_log(int dirfd, uint64_t index)
{
    struct log log;
    int rc, count;

    rc = log_claim(&log, dirfd, index, LOG_MODE_FULL);
    if (rc < 0)
        return rc;
    assert_int_equal(log.header.features,
                     log.header.count > 1 ? LOG_HAS_TIMES : 0);
    count = read_count(&log);
    if (count < 0) {
        assert_rc(log_quarantine(&log), 0);
        return count;
    }
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
    return count;
}

/* A log that was filled with `count` increments and merged. */
static inline void
make_merged(int dirfd, uint64_t index, uint32_t count)
{
    make_full(dirfd, index, count);
    assert_int_equal(merge_log(dirfd, index), count);
}

static inline mode_t
mode_of(int dirfd, uint64_t index)
{
    return filler_mode(dirfd, index);
}

static inline bool
is_locked(int dirfd, uint64_t index)
{
    char lock[LOG_LOCK_SIZE];

    log_lock_name(index, lock);
    return has_file(dirfd, lock);
}

/* Sets mode and lock as a crash or a power loss may leave them. */
static inline void
set_state(int dirfd, uint64_t index, mode_t mode, bool lock)
{
    char name[LOG_NAME_SIZE], lock_name[LOG_LOCK_SIZE];

    log_name(index, name);
    log_lock_name(index, lock_name);
    (void)unlinkat(dirfd, lock_name, 0); /* it may not be there */
    if (lock)
        assert_int_equal(linkat(dirfd, name, dirfd, lock_name, 0), 0);
    assert_int_equal(fchmodat(dirfd, name, mode, 0), 0);
}

/* Opens a log whatever its mode, behind everybody's back. */
static inline int
open_hidden(int dirfd, const char *name)
{
    struct stat st;
    int fd;

    assert_int_equal(fstatat(dirfd, name, &st, 0), 0);
    assert_int_equal(fchmodat(dirfd, name, 0600, 0), 0);
    fd = openat(dirfd, name, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, st.st_mode & 07777), 0);
    return fd;
}

static inline void
read_bytes(int dirfd, const char *name, void *bytes, size_t size, uint64_t at)
{
    const int fd = open_hidden(dirfd, name);

    assert_int_equal(pread(fd, bytes, size, (off_t)at), size);
    assert_int_equal(close(fd), 0);
}

static inline void
write_bytes(int dirfd, const char *name, const void *bytes, size_t size,
            uint64_t at)
{
    const int fd = open_hidden(dirfd, name);

    assert_int_equal(pwrite(fd, bytes, size, (off_t)at), size);
    assert_int_equal(close(fd), 0);
}

/* Makes both headers say that they were written in the boot `id`; 0: unknown.
 */
static inline void
set_boot(int dirfd, const char *name, uint8_t id)
{
    uint8_t block[LOG_BLOCK_SIZE];
    struct log_header h;
    int i;

    for (i = 0; i < 2; i++) {
        read_bytes(dirfd, name, block, sizeof block,
                   (uint64_t)i * LOG_BLOCK_SIZE);
        assert_rc(log_header_get(block, &h), 0);
        memset(h.boot_id, id, sizeof h.boot_id);
        log_header_put(&h, block);
        write_bytes(dirfd, name, block, sizeof block,
                    (uint64_t)i * LOG_BLOCK_SIZE);
    }
}

/* cmocka's: *state is a directory in memory, where there is one. */
static inline int
in_memory_setup(void **state)
{
    static struct tmpdir dir;

    tmpdir_make_in_memory(&dir);
    *state = &dir;
    return 0;
}

static inline int
in_memory_teardown(void **state)
{
    fault_clear();
    tmpdir_remove(*state);
    return 0;
}

#define IN_MEMORY(name, d)                                                     \
    TEST_IN(name, struct tmpdir *d, in_memory_setup, in_memory_teardown)

/* Memory that children share. */
static inline void *
map_shared(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

/* Runs the tests, and when we are root once more as nobody: the bits of the
 * modes do not stop root. */
static inline int
run_as_root_and_nobody(int argc, char **argv)
{
    struct tmpdir dir;
    int rc, status;
    pid_t pid;

    rc = test_main(argc, argv);
    if (geteuid() != 0)
        return rc;
    tmpdir_make(&dir);
    tmpdir_chown(&dir, NOBODY);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        /* Dumpable again, or the leak checker cannot look at us. */
        if (setenv("TMPDIR", dir.path, 1) < 0 || setgroups(0, NULL) < 0 ||
            setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
            prctl(PR_SET_DUMPABLE, 1) < 0)
            _exit(99);
        print_message("as nobody\n");
        exit(test_main(argc, argv) != 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        rc = 1;
    tmpdir_remove(&dir);
    return rc;
}

/* Puts a golden log there as `name`, full.  COUNTD_GOLDEN=FILE: `make` writes
 * the present format to that file: a new format has a file and a test of its own,
 * and those that there are stay. */
static inline void
put_golden(const struct tmpdir *d, const char *path, const char *name,
           size_t size, void (*make)(const struct tmpdir *d))
{
    const char *anew = getenv("COUNTD_GOLDEN");
    uint8_t *bytes = test_calloc(1, size + 1);
    FILE *f;

    if (anew && geteuid() == getuid() && access(".", W_OK) == 0) {
        make(d);
        read_bytes(d->fd, name, bytes, size, 0);
        f = fopen(anew, "wbe");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, size, 1, f), 1);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(unlinkat(d->fd, name, 0), 0);
    }
    f = fopen(path, "rbe");
    if (!f)
        test_skip("not run from the top of the source");
    assert_int_equal(fread(bytes, 1, size + 1, f), size);
    assert_int_equal(fclose(f), 0);
    tmpdir_put(d, name, bytes, size, 0200);
    test_free(bytes);
}

#define LOG_TEST_MAIN                                                          \
    int main(int argc, char **argv)                                            \
    {                                                                          \
        return run_as_root_and_nobody(argc, argv);                             \
    }

#endif
