/* tests/unit/test_logfile.c - looking at commit logs that belong to others. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/log_recover.h"
#include "tests/unit/log_fixture.h"

#include <sys/file.h>

#include "common/log/logfile.h"

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
    };
    static const char *const others[] = {
        "",           "7",         "000000007",      "00000000007",
        "000000000a", "lock-",     "lock-1",         "lock-00000000007",
        "+000000001", " 00000001", "0000000007.gz",  "../0000000007",
        "bad-7-1",    "bad-",      "bad-0000000007", "0000000007-1"};
    char name[LOG_LOCK_SIZE];
    uint64_t index;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(logfile_parse(known[i].name, &index), known[i].kind);
        assert_int_equal(index, known[i].index);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(logfile_parse(others[i], &index), LOGFILE_OTHER);
        assert_int_equal(index, UINT64_MAX);
    }
    log_name(7, name);
    assert_string_equal(name, "0000000007");
    log_lock_name(LOG_INDEX_MAX, name);
    assert_string_equal(name, "lock-9999999999");
}

static int
count_slot(void *ctx, uint32_t number, const struct message *m,
           const struct slot_stamp *stamp)
{
    uint32_t *count = ctx;

    assert_int_equal(number, (*count)++);
    assert_int_equal(m->increment, *count);
    assert_int_equal(stamp->received_ms, FIRST_MS + number);
    return 0;
}

IN_MEMORY(valid_slots_are_given_and_others_counted, dir)
{
    struct inspect look;
    struct logfile_slots slots = {.header = &look.header, .end = 5};
    uint32_t count = 0;

    make_full(dir->fd, 0, 2);
    slots.fd = logfile_open(dir->fd, "0000000000");
    assert_true(slots.fd >= 0);
    assert_rc(inspect_headers(slots.fd, 0, &look), 0);
    assert_int_equal(look.header.count, 2);
    assert_rc(logfile_each(&slots, count_slot, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(slots.skipped, 3);
    assert_int_equal(close(slots.fd), 0);
}

/* Root may read a log of any mode: what follows is tested as nobody. */
IN_MEMORY(a_full_log_is_full_again_whatever_call_fails, dir)
{
    bool hit = true;

    make_full(dir->fd, 0, 2);
    for (unsigned n = 1; hit; n++) {
        int fd;

        fault_inject("disk", n, EIO);
        fd = logfile_open(dir->fd, "0000000000");
        hit = fault_hit();
        fault_clear();
        assert_true(hit ? fd == -EIO : fd >= 0);
        if (fd >= 0)
            assert_int_equal(close(fd), 0);
        /* 0600 without an owner: the next scan mends that. */
        if (hit && mode_of(dir->fd, 0) == LOG_MODE_OWNED)
            assert_rc(log_recover(dir->fd, 0, NULL), 0);
        assert_int_equal(mode_of(dir->fd, 0), LOG_MODE_FULL);
    }
}

IN_MEMORY(a_log_that_is_owned_is_not_opened_up, dir)
{
    int owner;

    if (geteuid() == 0)
        return; /* the same test runs as nobody */
    make_full(dir->fd, 0, 2);
    owner = openat(dir->fd, "0000000000", O_WRONLY | O_CLOEXEC);
    assert_true(owner >= 0);
    assert_int_equal(flock(owner, LOCK_EX), 0);
    assert_rc(logfile_open(dir->fd, "0000000000"), -EBUSY);
    assert_int_equal(mode_of(dir->fd, 0), LOG_MODE_FULL);
    assert_int_equal(close(owner), 0);
}

LOG_TEST_MAIN
