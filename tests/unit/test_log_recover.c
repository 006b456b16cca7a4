/* tests/unit/test_log_recover.c - commit logs whose owner died, lives, or
 * failing and killed system calls; damage.
 *
 * Directories are made in memory where there is one: these tests sync some
 * ten thousand times, and what they look at is not what the disk keeps. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/inspect.h"
#include "common/log/log_recover.h"
#include "tests/unit/log_fixture.h"

#include <signal.h>
#include <sys/file.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define LATER_MS  2000 /* when a creator of now is dead or has its flock */

static bool
has_bad(const struct tmpdir *d, uint64_t index, uint64_t epoch)
{
    char bad[LOG_BAD_SIZE];

    snprintf(bad, sizeof bad, "bad-%010llu-%llu", (unsigned long long)index,
             (unsigned long long)epoch);
    return has_file(d->fd, bad);
}

/* ---- what a crash or a power loss leaves -------------------------------- */

enum fill {
    NEW,       /* never filled */
    MERGED,    /* EMPTY over the slots of the last fill */
    OPEN_NONE, /* OPEN, not one slot */
    OPEN_SOME, /* OPEN, some slots */
    OPEN_TORN, /* OPEN, some slots and the message of one more */
    OPEN_HOLE, /* OPEN in another boot, behind a torn slot one is whole */
    SEALED,    /* SEALED, not handed on */
    FILL_END,
};

/* Puts a log into this state, as at rest or of a dead owner; returns the
 * number of increments that have to come out of it. */
static int
put_fill(int dirfd, uint64_t index, enum fill fill)
{
    const ssize_t torn = fill == OPEN_TORN ? 24 : SLOT_SIZE - 10;
    uint8_t slot[SLOT_SIZE];
    char name[LOG_NAME_SIZE];
    struct log log;
    int count = 0;

    create_log(dirfd, index);
    if (fill == NEW)
        return 0;
    make_merged(dirfd, index,
                7); /* an earlier fill, whose slots must not count */
    if (fill == MERGED)
        return 0;
    log = begin_log(dirfd, index);
    if (fill != OPEN_NONE) {
        count = 3;
        assert_rc(append_messages(&log, 3, 0), 0);
    }
    if (fill == OPEN_TORN || fill == OPEN_HOLE) {
        make_slot(&log, 3, 3, slot);
        assert_int_equal(
            pwrite(log.fd, slot, (size_t)torn, LOG_SLOTS_AT + 3 * SLOT_SIZE),
            torn);
    }
    if (fill == OPEN_HOLE) {
        make_slot(&log, 4, 3, slot);
        assert_int_equal(
            pwrite(log.fd, slot, SLOT_SIZE, LOG_SLOTS_AT + 4 * SLOT_SIZE),
            SLOT_SIZE);
    }
    if (fill == SEALED)
        assert_rc(log_seal(&log), 0);
    log_abandon(&log);
    log_name(index, name);
    if (fill == OPEN_HOLE)
        set_boot(dirfd, name, 7);
    return count;
}

/* At rest, and its mode true. */
static void
assert_recovered(const struct tmpdir *d, uint64_t index, int count)
{
    assert_false(is_locked(d->fd, index));
    if (count > 0) {
        assert_int_equal(mode_of(d->fd, index), LOG_MODE_FULL);
        assert_int_equal(merge_log(d->fd, index), count);
    }
    assert_int_equal(mode_of(d->fd, index), LOG_MODE_EMPTY);
    make_merged(d->fd, index, 2); /* it can be filled again */
}

/* Every row of the crash table: whatever the header, with mode and lock of any
 * age. */
IN_MEMORY(recovery_believes_the_header_whatever_mode_and_lock_say, d)
{
    static const mode_t modes[] = {0400, 0600, 0200};
    static const mode_t truth[FILL_END] = {
        [NEW] = 0400, [MERGED] = 0400, [SEALED] = 0200};
    uint64_t index = 0;
    struct log log;
    enum fill fill;
    int count, rc;
    size_t m;
    int lock;

    for (fill = NEW; fill < FILL_END; fill++) {
        for (m = 0; m < LENGTH(modes); m++) {
            for (lock = 0; lock < 2; lock++, index++) {
                count = put_fill(d->fd, index, fill);
                set_state(d->fd, index, modes[m], lock);

                assert_true(log_recover(d->fd, index, NULL) >= 0);
                assert_rc(log_recover(d->fd, index, NULL), 0);

                /* Without a sign of an owner the claim finds out. */
                if (!lock && modes[m] != 0600) {
                    rc = log_claim(&log, d->fd, index, modes[m]);
                    assert_rc(rc, modes[m] == truth[fill] ? 0 : -ESTALE);
                    if (rc == 0)
                        assert_rc(log_release(&log), 0);
                    assert_true(log_recover(d->fd, index, NULL) >= 0);
                }
                assert_recovered(d, index, count);
            }
        }
    }
    assert_int_equal(tmpdir_count(d, "."), index);
}

/* ---- a lock without its log, or beside it -------------------------------- */

IN_MEMORY(the_lock_of_a_dead_creator_is_removed, d)
{
    static const mode_t modes[] = {0600, 0400, 0200};
    size_t i;

    for (i = 0; i < LENGTH(modes); i++) {
        tmpdir_put(d, "lock-0000000000", "half", 4, modes[i]);
        fault_clock(LATER_MS);
        assert_rc(log_recover(d->fd, 0, NULL), 0);
        assert_int_equal(tmpdir_count(d, "."), 0);
    }
    assert_rc(log_recover(d->fd, 0, NULL), -ENOENT);
}

/* Its creator may not have its flock yet. */
IN_MEMORY(a_lock_just_made_is_left_to_its_creator, d)
{
    tmpdir_put(d, "lock-0000000000", "", 0, 0600);
    fault_clear(); /* counts from here */
    assert_rc(log_recover(d->fd, 0, NULL), -EBUSY);
    assert_true(is_locked(d->fd, 0));
    assert_int_equal(fault_calls("flock"), 0); /* it would be in the way */
    fault_clock(LATER_MS); /* at a later scan it is known to be dead */
    assert_rc(log_recover(d->fd, 0, NULL), 0);
    assert_false(is_locked(d->fd, 0));
}

IN_MEMORY(a_dead_creators_lock_is_removed_also_when_the_clock_was_set_back, d)
{
    tmpdir_put(d, "lock-0000000000", "", 0, 0600);
    fault_clock(-3600000);
    assert_rc(log_recover(d->fd, 0, NULL), 0);
    assert_false(is_locked(d->fd, 0));
}

IN_MEMORY(a_dead_creators_lock_beside_the_log_is_removed, d)
{
    assert_int_equal(put_fill(d->fd, 0, OPEN_SOME), 3);
    set_state(d->fd, 0, 0600, false);
    tmpdir_put(d, "lock-0000000000", "half", 4, 0600);
    fault_clock(LATER_MS);
    assert_rc(log_recover(d->fd, 0, NULL), 0);
    assert_recovered(d, 0, 3);
}

IN_MEMORY(a_living_creators_lock_stays, d)
{
    int creator;

    tmpdir_put(d, "lock-0000000000", "half", 4, 0600);
    creator = openat(d->fd, "lock-0000000000", O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(creator, LOCK_EX), 0);
    fault_clock(LATER_MS);
    assert_rc(log_recover(d->fd, 0, NULL), -EBUSY);
    assert_true(has_file(d->fd, "lock-0000000000"));
    assert_int_equal(close(creator), 0);
    assert_rc(log_recover(d->fd, 0, NULL), 0);
    assert_false(has_file(d->fd, "lock-0000000000"));
}

/* ---- a living owner ------------------------------------------------------ */

/* The planted bug "unlink without flock". */
IN_MEMORY(a_living_owner_keeps_its_log_and_its_lock, d)
{
    struct log log;
    uint64_t generation;

    log = begin_with(d->fd, 0, 2);
    generation = log.header.generation;
    assert_rc(log_recover(d->fd, 0, NULL), -EBUSY);
    assert_true(is_locked(d->fd, 0));
    assert_int_equal(mode_of(d->fd, 0), LOG_MODE_OWNED);
    assert_int_equal(log.header.generation, generation);

    assert_rc(append_messages(&log, 2, 2), 0);
    assert_rc(log_seal(&log), 0);
    assert_rc(log_release(&log), 0);
    assert_int_equal(merge_log(d->fd, 0), 4);
}

/* ---- the order of syncs ------------------------------------------------- */

/* A SEALED header that overtook its slots would promise what is not there. */
IN_MEMORY(a_dead_owners_slots_are_synced_before_its_log_is_sealed, d)
{
    struct inspect r;
    struct log log;

    log = begin_with(d->fd, 0, 3);
    log_abandon(&log);
    fault_inject("fdatasync", 1, EIO);
    assert_rc(log_recover(d->fd, 0, NULL), -EIO);
    assert_true(fault_hit());
    fault_clear();
    assert_rc(inspect_log(d->fd, 0, &r), 0);
    assert_int_equal(r.header.state, LOG_OPEN);

    assert_rc(log_recover(d->fd, 0, NULL), 0);
    assert_int_equal(fault_calls("fdatasync"), 2); /* slots, header */
    assert_int_equal(merge_log(d->fd, 0), 3);
}

/* The owner dies before, or of, the sync of its SEALED header.  A worker that
 * finds the mode of a full log syncs nothing. */
IN_MEMORY(a_dead_owners_sealed_header_is_synced_before_the_mode_shows_it, d)
{
    struct log log;

    log = begin_with(d->fd, 0, 3);
    assert_int_equal(fdatasync(log.fd), 0);
    fault_inject("fdatasync", 1, EIO);
    assert_rc(log_seal(&log), -EIO);
    log_abandon(&log);
    fault_inject("fdatasync", 1, EIO);
    assert_rc(log_recover(d->fd, 0, NULL), -EIO);
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(mode_of(d->fd, 0), LOG_MODE_OWNED);

    assert_rc(log_recover(d->fd, 0, NULL), 0);
    assert_int_equal(mode_of(d->fd, 0), LOG_MODE_FULL);
    fault_clear();
    assert_int_equal(merge_log(d->fd, 0), 3);
    assert_int_equal(fault_calls("fdatasync") + fault_calls("fsync"), 0);
}

/* ---- damage -------------------------------------------------------------- */

static void
break_slot(const struct tmpdir *d, uint64_t index, uint32_t number)
{
    char name[LOG_NAME_SIZE];
    uint8_t byte;

    log_name(index, name);
    read_bytes(d->fd, name, &byte, 1, LOG_SLOTS_AT + number * SLOT_SIZE + 9);
    byte ^= 4;
    write_bytes(d->fd, name, &byte, 1, LOG_SLOTS_AT + number * SLOT_SIZE + 9);
}

/* Eight increments whose owner died in this boot (-1) or another, four of them
 * synced as far as slots show, with one damaged: what recovery says. */
static int
recover_broken(const struct tmpdir *d, uint64_t index, uint32_t number,
               int boot)
{
    char name[LOG_NAME_SIZE];
    struct log log;

    log = begin_log(d->fd, index);
    assert_rc(append_messages(&log, 4, 0), 0);
    assert_rc(append_messages(&log, 4, 4), 0);
    log_abandon(&log);
    break_slot(d, index, number);
    log_name(index, name);
    if (boot >= 0)
        set_boot(d->fd, name, (uint8_t)boot);
    return log_recover(d->fd, index, NULL);
}

/* Records behind a torn one are cut off.  No slot that a later one calls
 * durable is torn, and in this boot none: a process that dies tears nothing that
 * it wrote before something else. */
IN_MEMORY(a_broken_record_is_a_tear_only_where_a_power_loss_can_tear, d)
{
    static const int boots[] = {-1, 7, 0}; /* another one, an unknown one */
    uint64_t index = 0;

    for (size_t i = 0; i < LENGTH(boots); i++) {
        for (uint32_t number = 0; number < 8; number++, index++) {
            const int rc = recover_broken(d, index, number, boots[i]);

            if (boots[i] >= 0 && number >= 4) {
                assert_rc(rc, 8 - number);
                assert_recovered(d, index, (int)number);
                continue;
            }
            assert_rc(rc, -EBADMSG);
            assert_true(has_bad(d, index, 1));
        }
    }
    assert_int_equal(tmpdir_count(d, "."), index);
}

/* A kill ends a pwrite where a page ends: here within the stamp of slot 170,
 * whose epoch is on the page that was written. */
IN_MEMORY(a_record_cut_in_two_by_a_kill_is_cut_off_and_told, d)
{
    static const uint8_t zeros[SLOT_SIZE];
    enum { NUMBER = 170, AT = LOG_SLOTS_AT + NUMBER * SLOT_SIZE, LEFT = 16 };
    struct layout l = small_layout();
    uint8_t slot[SLOT_SIZE];
    struct log log;
    uint32_t i;

    assert_int_equal((AT + SLOT_SIZE - LEFT) % 4096, 0);
    assert_rc(log_create(d->fd, 0, &l, 2 * NUMBER), 0);
    log = begin_log(d->fd, 0);
    for (i = 0; i <= NUMBER; i++) {
        make_slot(&log, i, 0, slot);
        assert_rc(log_append(&log, slot, 1, FIRST_MS, FIRST_MS), 0);
    }
    log_abandon(&log);
    write_bytes(d->fd, "0000000000", zeros, LEFT, AT + SLOT_SIZE - LEFT);

    assert_rc(log_recover(d->fd, 0, NULL), 1);

    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_FULL), 0);
    assert_int_equal(log.header.count, NUMBER);
    log_abandon(&log);
}

IN_MEMORY(a_log_without_a_valid_header_is_set_aside, d)
{
    static const uint8_t zeros[LOG_SLOTS_AT];
    struct log log;

    make_full(d->fd, 0, 3);
    write_bytes(d->fd, "0000000000", zeros, sizeof zeros, 0);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_FULL), -EBADMSG);
    assert_true(has_bad(d, 0, 0));
    assert_int_equal(tmpdir_count(d, "."), 1);

    tmpdir_put(d, "0000000001", "text", 4, 0600);
    assert_rc(log_recover(d->fd, 1, NULL), -EBADMSG);
    assert_true(has_bad(d, 1, 0));
}

/* In any state: to append would grow it, and meet the full disk then. */
IN_MEMORY(a_log_that_was_cut_short_is_set_aside, d)
{
    static const off_t sizes[] = {FILE_SIZE - 1,       FILE_SIZE - SLOT_SIZE,
                                  LOG_SLOTS_AT,        LOG_SLOTS_AT - 1,
                                  LOG_BLOCK_SIZE + 1,  LOG_BLOCK_SIZE,
                                  LOG_HEADER_SIZE - 1, 0};
    uint64_t index = 0;
    char name[LOG_NAME_SIZE];
    enum fill fill;

    for (fill = NEW; fill < FILL_END; fill++) {
        for (size_t i = 0; i < LENGTH(sizes); i++, index++) {
            struct inspect r;
            int fd;

            (void)put_fill(d->fd, index, fill); /* nothing of it comes out */
            set_state(d->fd, index, 0600, true);
            log_name(index, name);
            fd = openat(d->fd, name, O_RDWR | O_CLOEXEC);
            assert_int_equal(ftruncate(fd, sizes[i]), 0);
            assert_rc(log_inspect(fd, index, &r), 0);
            assert_true(r.headers_rc < 0 || r.damaged > 0);
            if (r.headers_rc == 0) /* each once */
                assert_int_equal(r.damaged, r.missing);
            assert_int_equal(close(fd), 0);
            assert_rc(log_recover(d->fd, index, NULL), -EBADMSG);
            assert_false(is_locked(d->fd, index));
        }
    }
    assert_int_equal(tmpdir_count(d, "."), index);
}

IN_MEMORY(a_log_under_another_name_is_set_aside, d)
{
    struct log log;

    create_log(d->fd, 0);
    assert_int_equal(
        renameat2(d->fd, "0000000000", d->fd, "0000000005", RENAME_NOREPLACE),
        0);
    assert_rc(log_claim(&log, d->fd, 5, LOG_MODE_EMPTY), -EBADMSG);
    assert_true(has_bad(d, 5, 0));
}

IN_MEMORY(logs_set_aside_with_one_index_and_epoch_keep_apart, d)
{
    static const char *const names[] = {
        "bad-0000000000-1", "bad-0000000000-1.1", "bad-0000000000-1.2"};
    struct log log;
    size_t i;

    for (i = 0; i < LENGTH(names); i++) {
        make_full(d->fd, 0, 1);
        assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_FULL), 0);
        assert_rc(log_quarantine(&log), 0);
        assert_int_equal(tmpdir_mode(d, names[i]), 0400);
        assert_int_equal(tmpdir_count(d, "."), i + 1);
    }
}

static void
zero_block(const struct tmpdir *d, uint64_t index, int block)
{
    static const uint8_t zeros[LOG_BLOCK_SIZE];
    char name[LOG_NAME_SIZE];

    log_name(index, name);
    write_bytes(d->fd, name, zeros, sizeof zeros,
                (uint64_t)block * LOG_BLOCK_SIZE);
}

/* What the last header written said is lost: it was torn, or rotted later.  A
 * slot of OPEN must not be lost with it, and marks show an EMPTY that is back.
 */
IN_MEMORY(a_lost_header_leaves_the_state_before_it_or_what_slots_tell, d)
{
    static const struct {
        const char *name;
        uint32_t former, count; /* increments of the fill before, of this one */
        enum { OPEN_LOST, SEAL_LOST, EMPTY_LOST } lost;
        int left;
    } cases[] = {{"OPEN with slots", 7, 3, OPEN_LOST, 3},
                 {"OPEN without slots", 7, 0, OPEN_LOST, 0},
                 {"SEALED", 0, 6, SEAL_LOST, 6},
                 {"EMPTY, once more under its mark", 0, 6, EMPTY_LOST, 6}};

    for (uint64_t i = 0; i < LENGTH(cases); i++) {
        struct log log;

        print_message("%s\n", cases[i].name);
        if (cases[i].former > 0)
            make_merged(d->fd, i, cases[i].former);
        log = begin_with(d->fd, i, cases[i].count);
        if (cases[i].lost != OPEN_LOST)
            assert_rc(log_seal(&log), 0);
        if (cases[i].lost == EMPTY_LOST)
            assert_rc(log_empty(&log), 0);
        zero_block(d, i, !log.next_block);
        log_abandon(&log);
        assert_rc(log_recover(d->fd, i, NULL), 0);
        assert_recovered(d, i, cases[i].left);
    }
}

/* Mode and lock are lost, too: the claim of a writer finds out. */
IN_MEMORY(empty_beside_a_lost_open_header_is_not_claimed, d)
{
    struct log log;

    log = begin_with(d->fd, 0, 3);
    zero_block(d, 0, !log.next_block);
    log_abandon(&log);
    set_state(d->fd, 0, 0400, false);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), -ESTALE);
    assert_rc(log_recover(d->fd, 0, NULL), 0);
    assert_int_equal(merge_log(d->fd, 0), 3);
}

/* And has two headers again, or each claim would find it in doubt. */
IN_MEMORY(an_empty_log_with_a_lost_header_can_be_claimed_after_recovery, d)
{
    struct log log;

    make_merged(d->fd, 0, 3);
    zero_block(d, 0, 1);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), -ESTALE);
    assert_rc(log_recover(d->fd, 0, NULL), 0);
    make_merged(d->fd, 0, 2);
}

/* ---- each system call fails ---------------------------------------------- */

enum act {
    CREATE,
    CLAIM_EMPTY,
    CLAIM_FULL,
    RECOVER,
    RELEASE,
    BEGIN,
    FILL,
    MERGE,
    QUARANTINE,
    INSPECT
};

struct step {
    const char *name;
    enum fill fill;
    mode_t mode; /* shown before; 0: at rest as made */
    bool lock;
    mode_t claim; /* claimed before the fault; 0: not */
    enum act act;
    bool still_claimed; /* after a failure */
    int least, most;    /* increments that come out in the end */
    bool bad;           /* it may end quarantined */
};

static int
fill_and_seal(struct log *log)
{
    int rc = log_begin(log);

    if (rc == 0)
        rc = append_messages(log, 3, 0);
    if (rc == 0)
        rc = fdatasync(log->fd) < 0 ? -errno : 0;
    return rc < 0 ? rc : log_seal(log);
}

static int
do_act(enum act act, int dirfd, uint64_t index, struct log *log)
{
    const struct layout l = small_layout();
    struct inspect r;
    int rc;

    switch (act) {
    case CREATE:
        return log_create(dirfd, index, &l, SLOTS);
    case CLAIM_EMPTY:
        return log_claim(log, dirfd, index, LOG_MODE_EMPTY);
    case CLAIM_FULL:
        return log_claim(log, dirfd, index, LOG_MODE_FULL);
    case RECOVER:
        return log_recover(dirfd, index, NULL);
    case RELEASE:
        return log_release(log);
    case BEGIN:
        return log_begin(log);
    case FILL:
        return fill_and_seal(log);
    case MERGE:
        rc = read_count(log);
        return rc < 0 ? rc : log_empty(log);
    case QUARANTINE:
        return log_quarantine(log);
    case INSPECT:
        return log_inspect(log->fd, index, &r);
    }
    return -EINVAL;
}

static const struct step steps[] = {
    {"create", FILL_END, 0, false, 0, CREATE, false, 0, 0, false},
    {"claim empty", MERGED, 0, false, 0, CLAIM_EMPTY, false, 0, 0, false},
    {"claim full", SEALED, 0200, false, 0, CLAIM_FULL, false, 3, 3, false},
    {"claim lying", SEALED, 0400, false, 0, CLAIM_EMPTY, false, 3, 3, false},
    {"claim open", OPEN_TORN, 0400, false, 0, CLAIM_EMPTY, false, 3, 3, false},
    {"recover empty", MERGED, 0600, true, 0, RECOVER, false, 0, 0, false},
    {"recover open", OPEN_TORN, 0600, true, 0, RECOVER, false, 3, 3, false},
    {"recover none", OPEN_NONE, 0600, true, 0, RECOVER, false, 0, 0, false},
    {"recover sealed", SEALED, 0600, true, 0, RECOVER, false, 3, 3, false},
    {"recover full", SEALED, 0200, true, 0, RECOVER, false, 3, 3, false},
    {"release empty", MERGED, 0, false, 0400, RELEASE, false, 0, 0, false},
    {"release full", SEALED, 0200, false, 0200, RELEASE, false, 3, 3, false},
    {"begin", MERGED, 0, false, 0400, BEGIN, true, 0, 0, false},
    {"begin new", NEW, 0, false, 0400, BEGIN, true, 0, 0, false},
    {"fill", MERGED, 0, false, 0400, FILL, true, 0, 3, false},
    {"merge", SEALED, 0200, false, 0200, MERGE, true, 0, 3, false},
    {"quarantine", SEALED, 0200, false, 0200, QUARANTINE, false, 0, 3, true},
    {"inspect", SEALED, 0200, false, 0200, INSPECT, true, 3, 3, false},
};

/* Brings the log to rest as the daemons would, and counts what is in it. */
static int
drain_log(const struct tmpdir *d, uint64_t index, bool bad)
{
    char name[LOG_NAME_SIZE];
    struct log log;
    int rc, count = 0;

    fault_clock(LATER_MS);
    rc = log_recover(d->fd, index, NULL);
    fault_clock(0);
    if (rc != 0)
        assert_rc(rc, -ENOENT);
    log_name(index, name);
    assert_false(is_locked(d->fd, index));
    if (!has_file(d->fd, name)) {
        if (!bad)
            create_log(d->fd, index);
        return 0;
    }
    /* A writer comes by; where the mode lied, it mends it. */
    rc = log_claim(&log, d->fd, index, LOG_MODE_EMPTY);
    if (rc == 0)
        assert_rc(log_release(&log), 0);
    else
        assert_rc(rc, -ESTALE);
    assert_rc(log_recover(d->fd, index, NULL), 0);
    if (mode_of(d->fd, index) == LOG_MODE_FULL)
        count = merge_log(d->fd, index);
    assert_int_equal(mode_of(d->fd, index), LOG_MODE_EMPTY);
    return count;
}

static void
run_step(const struct tmpdir *d, const struct step *s, uint64_t index,
         unsigned nth, int error, bool *hit)
{
    struct log log = {.fd = -1, .lock_fd = -1};
    unsigned fds = fault_open_fds();
    int rc, count;

    if (s->fill != FILL_END) {
        (void)put_fill(d->fd, index, s->fill); /* `least` is what comes out */
        if (s->mode)
            set_state(d->fd, index, s->mode, s->lock);
    }
    if (s->claim)
        assert_rc(log_claim(&log, d->fd, index, s->claim), 0);

    fault_inject("disk", nth, error);
    rc = do_act(s->act, d->fd, index, &log);
    *hit = fault_hit();
    fault_clear();

    if (rc == 0 && !*hit && s->act == CREATE)
        assert_int_equal(mode_of(d->fd, index), LOG_MODE_EMPTY);
    if (rc == 0 || s->still_claimed)
        log_abandon(&log); /* as if we died now */
    if (fault_open_fds() != fds)
        fail_msg("%s leaks a descriptor when call %u fails", s->name, nth);
    count = drain_log(d, index, s->bad);
    if (count < s->least || count > s->most)
        fail_msg("%s: %d increments after call %u failed with %s, rc %d",
                 s->name, count, nth, strerror(error), rc);
}

IN_MEMORY(any_failing_call_leaves_what_recovery_mends, d)
{
    static const int errors[] = {EIO, ENOSPC, EMFILE, EACCES};
    uint64_t index = 0;
    unsigned nth;
    size_t i, e;
    bool hit;

    for (i = 0; i < LENGTH(steps); i++)
        for (e = 0; e < LENGTH(errors); e++)
            for (nth = 1, hit = true; hit; nth++)
                run_step(d, &steps[i], index++, nth, errors[e], &hit);
}

/* ---- killed at each system call ------------------------------------------ */

/* What the outside knows, in memory that survives the process. */
struct known {
    uint32_t acked;        /* increments */
    uint32_t merged;       /* committed by the worker */
    uint64_t merged_epoch; /* its mark */
};

/* The worker's part: reads, commits under the mark, empties. */
static int
merge_marked(int dirfd, struct known *k)
{
    struct log log;
    int rc;

    rc = log_claim(&log, dirfd, 0, LOG_MODE_FULL);
    if (rc < 0)
        return rc;
    if (k->merged_epoch != log.header.epoch) {
        rc = read_count(&log);
        if (rc < 0)
            return rc;
        k->merged = (uint32_t)rc;
        k->merged_epoch = log.header.epoch;
    }
    rc = log_empty(&log);
    return rc < 0 ? rc : log_release(&log);
}

static int
write_and_merge(int dirfd, struct known *k)
{
    struct layout l = small_layout();
    struct log log;
    int rc;

    rc = log_create(dirfd, 0, &l, SLOTS);
    if (rc == 0)
        rc = log_claim(&log, dirfd, 0, LOG_MODE_EMPTY);
    if (rc == 0)
        rc = log_begin(&log);
    if (rc == 0)
        rc = append_messages(&log, 5, 0);
    if (rc == 0)
        rc = fdatasync(log.fd) < 0 ? -errno : 0;
    if (rc < 0)
        return rc;
    k->acked = 5;
    rc = append_messages(&log, 3, 5);
    if (rc == 0)
        rc = fdatasync(log.fd) < 0 ? -errno : 0;
    if (rc == 0)
        rc = log_seal(&log);
    if (rc < 0)
        return rc;
    k->acked = 8;
    rc = log_release(&log);
    return rc < 0 ? rc : merge_marked(dirfd, k);
}

/* Runs `part` in a child that is killed before its nth call.  True when the
 * child came to the end instead. */
static bool
run_killed(int (*part)(int, struct known *), int dirfd, struct known *k,
           unsigned nth)
{
    int status;
    pid_t pid;

    pid = test_fork();
    if (pid == 0) {
        fault_kill("disk", nth);
        _exit(part(dirfd, k) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

static int
recover_and_merge(int dirfd, struct known *k)
{
    int rc;

    fault_clock(LATER_MS);
    rc = log_recover(dirfd, 0, NULL);
    fault_clock(0);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    rc = merge_marked(dirfd, k);
    return rc == -ESTALE || rc == -ENOENT ? 0 : rc;
}

/* All that was acknowledged, once; and the log goes on. */
static void
assert_kept(const struct tmpdir *d, struct known *k)
{
    assert_rc(recover_and_merge(d->fd, k), 0);
    assert_true(k->merged >= k->acked && k->merged <= 8);
    assert_false(is_locked(d->fd, 0));
    if (!has_file(d->fd, "0000000000"))
        create_log(d->fd, 0);
    assert_int_equal(mode_of(d->fd, 0), LOG_MODE_EMPTY);
    make_merged(d->fd, 0, 2);
    assert_int_equal(tmpdir_count(d, "."), 1);
    assert_int_equal(unlinkat(d->fd, "0000000000", 0), 0);
}

IN_MEMORY(killed_at_any_call_and_again_in_recovery_nothing_is_lost, d)
{
    struct known *k = map_shared(sizeof *k);
    bool done = false, recovered;
    unsigned nth, again;

    for (nth = 1; !done; nth++) {
        /* A third of the second kills each time: all of them in three.  The last
         * one comes too late. */
        again = 1 + nth % 3;
        for (recovered = false; !recovered; again += 3) {
            *k = (struct known){0};
            done = run_killed(write_and_merge, d->fd, k, nth);
            recovered = run_killed(recover_and_merge, d->fd, k, again);
            assert_kept(d, k);
        }
    }
    assert_true(nth > 40); /* it was killed at something */
    assert_int_equal(munmap(k, sizeof *k), 0);
}

LOG_TEST_MAIN
