/* tests/unit/test_logfile.c - looking at commit logs that belong to others. */
#include "common/log/log_create.h"
#include "common/log/log_recover.h"
#include "common/log/slot.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log/logfile.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

#define NOBODY 65534

static struct layout layout;

/* Log 0, sealed with two increments, mode 0200. */
static void
make_full_log(struct tmpdir *dir)
{
    static const uint8_t keyspace[] = "a", key[] = "b";
    struct message m = {7, keyspace, key, 1, 1};
    struct slot_stamp stamp = {.received_ms = 1000};
    uint8_t slots[2 * 544];
    struct log log;

    assert_rc(layout_init(&layout, 256, 256), 0);
    assert_rc(log_create(dir->fd, 0, &layout, 16), 0);
    assert_rc(log_claim(&log, dir->fd, 0, LOG_MODE_EMPTY), 0);
    assert_rc(log_begin(&log), 0);
    stamp.epoch = log.header.epoch;
    for (uint32_t i = 0; i < 2; i++) {
        uint8_t *slot = slots + i * layout.slot_size;
        struct message parsed;

        assert_rc(message_put(&layout, &m, slot), 0);
        assert_rc(message_parse(&layout, slot, &parsed), 0);
        slot_put(&layout, slot, &parsed, log.header.uuid, i, &stamp);
    }
    assert_rc(log_append(&log, slots, 2, 1000, 1000), 0);
    assert_rc(log_seal(&log), 0);
    assert_rc(log_release(&log), 0);
    assert_int_equal(tmpdir_mode(dir, "0000000000"), LOG_MODE_FULL);
}

TEST(file_names_tell_their_kind_and_index)
{
    static const struct {
        const char *name;
        enum logfile_kind kind;
        uint64_t index;
    } known[] = {
        {"0000000007", LOGFILE_LOG, 7},
        {"9999999999", LOGFILE_LOG, 9999999999},
        {"lock-0000000007", LOGFILE_LOCK, 7},
        {"bad-0000000007-12", LOGFILE_BAD, 7},
        {"salvaged-0000000007-0", LOGFILE_SALVAGED, 7},
        {"7", LOGFILE_OTHER, UINT64_MAX},
        {"bad-7-1", LOGFILE_OTHER, UINT64_MAX},
        {"bad-0000000007", LOGFILE_OTHER, UINT64_MAX},
        {"../0000000007", LOGFILE_OTHER, UINT64_MAX},
        {"", LOGFILE_OTHER, UINT64_MAX},
    };
    uint64_t index;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(logfile_parse(known[i].name, &index), known[i].kind);
        assert_int_equal(index, known[i].index);
    }
}

#define WITH_DIR(name, dir)                                                    \
    TEST_IN(name, struct tmpdir *dir, tmpdir_setup, tmpdir_teardown)

WITH_DIR(the_list_joins_locks_to_their_logs, dir)
{
    static const char *const names[] = {
        "0000000003",      "lock-0000000003", "0000000001",
        "lock-0000000009", "notes.txt",       "bad-0000000002-5",
        "writer",          "0000000009",      "lock-0000000011"};
    struct logfile_list list;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        tmpdir_put(dir, names[i], "", 0, 0600);
    assert_rc(logfile_list_read(&list, dir->fd), 0);
    assert_int_equal(list.count, 6);
    assert_string_equal(list.files[0].name, "0000000001");
    assert_false(list.files[0].locked);
    assert_string_equal(list.files[1].name, "0000000003");
    assert_true(list.files[1].locked);
    assert_string_equal(list.files[2].name, "0000000009");
    assert_true(list.files[2].locked);
    assert_string_equal(list.files[3].name, "lock-0000000011");
    assert_string_equal(list.files[4].name, "bad-0000000002-5");
    assert_string_equal(list.files[5].name, "notes.txt");
    logfile_list_free(&list);
}

static int
count_slot(void *ctx, uint32_t number, const struct message *m,
           const struct slot_stamp *stamp)
{
    int *sum = ctx;

    assert_int_equal(number, *sum / 7);
    assert_int_equal(stamp->received_ms, 1000);
    *sum += (int)m->increment;
    return 0;
}

WITH_DIR(valid_slots_are_given_and_others_counted, dir)
{
    struct log_header header;
    uint32_t skipped;
    int sum = 0;
    int fd;

    make_full_log(dir);
    fd = logfile_open(dir->fd, "0000000000");
    assert_true(fd >= 0);
    assert_rc(logfile_header(fd, &header), 0);
    assert_int_equal(header.count, 2);
    assert_rc(logfile_each(fd, &header, 5, count_slot, &sum, &skipped), 0);
    assert_int_equal(sum, 14);
    assert_int_equal(skipped, 3);
    assert_int_equal(close(fd), 0);
}

/* As an unprivileged user: what happens at each call that opens a full log up
 * when it fails.  Exits 0 when all was well. */
static void
open_as_nobody(struct tmpdir *dir)
{
    bool hit = true;

    assert_int_equal(setgid(NOBODY), 0);
    assert_int_equal(setuid(NOBODY), 0);
    for (unsigned n = 1; hit; n++) {
        struct stat st;
        int fd;

        fault_inject("disk", n, EIO);
        fd = logfile_open(dir->fd, "0000000000");
        hit = fault_hit();
        fault_clear();
        assert_true(hit ? fd == -EIO : fd >= 0);
        if (fd >= 0)
            assert_int_equal(close(fd), 0);
        assert_int_equal(fstatat(dir->fd, "0000000000", &st, 0), 0);
        /* 0600 without an owner: the next scan mends that. */
        if ((st.st_mode & 07777) == LOG_MODE_OWNED)
            assert_rc(log_recover(dir->fd, 0, NULL), 0);
        assert_int_equal(tmpdir_mode(dir, "0000000000"), LOG_MODE_FULL);
    }
}

WITH_DIR(a_full_log_is_full_again_whatever_call_fails, dir)
{
    int status;
    pid_t pid;

    if (geteuid() != 0)
        test_skip("needs root, to become somebody else");
    make_full_log(dir);
    tmpdir_chown(dir, NOBODY);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        open_as_nobody(dir);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

WITH_DIR(a_log_that_is_owned_is_not_opened_up, dir)
{
    int status, owner;
    pid_t pid;

    if (geteuid() != 0)
        test_skip("needs root, to become somebody else");
    make_full_log(dir);
    tmpdir_chown(dir, NOBODY);
    owner = openat(dir->fd, "0000000000", O_RDONLY | O_CLOEXEC);
    assert_true(owner >= 0);
    assert_int_equal(flock(owner, LOCK_EX), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
            _exit(1);
        _exit(logfile_open(dir->fd, "0000000000") == -EBUSY ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(tmpdir_mode(dir, "0000000000"), LOG_MODE_FULL);
    assert_int_equal(close(owner), 0);
}
