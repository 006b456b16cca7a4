/* tests/unit/test_log.c - one commit log: header bytes, the round from empty to
 * full and back, and the golden file.  What happens when a process dies is in
 * test_log_recover.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/inspect.h"
#include "common/log/log_recover.h"
#include "tests/unit/log_fixture.h"

#include <zlib.h>

#include "common/base/bytes.h"

#define GOLDEN       "tests/golden/log-v1"
#define GOLDEN_INDEX 7
#define GOLDEN_COUNT 5

/* ---- header bytes -------------------------------------------------------- */

static struct log_header
some_header(void)
{
    struct log_header h = {
        .uuid = "0123456789abcde",
        .index = 0x1122,
        .generation = 0x33445566,
        .epoch = 0x778899aa,
        .state = LOG_SEALED,
        .slots = 100,
        .count = 99,
        .first_ms = 0xbbccdd,
        .last_ms = 0xeeff00,
        .boot_id = "fedcba987654321",
        .pid = 4711,
    };

    assert_rc(layout_init(&h.layout, 256, 256), 0);
    return h;
}

TEST(a_header_has_the_bytes_of_the_format)
{
    struct log_header h = some_header(), got;
    const struct {
        size_t at;
        uint64_t value; /* of eight bytes */
    } fields[] = {{8, 1},
                  {32, h.index},
                  {40, h.generation},
                  {48, h.epoch},
                  {56, 2 | UINT64_C(544) << 32},
                  {64, 100 | UINT64_C(256) << 32 | UINT64_C(256) << 48},
                  {72, h.count},
                  {80, h.first_ms},
                  {88, h.last_ms},
                  {112, h.pid}};
    uint8_t bytes[LOG_BLOCK_SIZE];

    log_header_put(&h, bytes);
    assert_memory_equal(bytes, "COUNTDL1", 8);
    assert_memory_equal(bytes + 16, h.uuid, 16);
    assert_memory_equal(bytes + 96, h.boot_id, 16);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        assert_int_equal(get_le64(bytes + fields[i].at), fields[i].value);
    assert_int_equal(get_le32(bytes + 120), 0);
    assert_int_equal(get_le32(bytes + 124), crc32(0, bytes, 124));
    assert_true(message_is_zero(bytes + 128, LOG_BLOCK_SIZE - 128));

    assert_rc(log_header_get(bytes, &got), 0);
    assert_memory_equal(got.uuid, h.uuid, 16);
    assert_int_equal(got.generation, h.generation);
    assert_int_equal(got.state, LOG_SEALED);
    assert_int_equal(got.count, 99);
    assert_int_equal(got.pid, 4711);
}

/* Writes a field of a header with these features and mends its checksum. */
static int
get_changed_of(uint32_t features, size_t at, size_t size, uint64_t value)
{
    struct log_header h = some_header(), got;
    uint8_t bytes[LOG_BLOCK_SIZE], field[8];

    h.features = features;
    log_header_put(&h, bytes);
    put_le64(field, value);
    memcpy(bytes + at, field, size);
    put_le32(bytes + 124, (uint32_t)crc32(0, bytes, 124));
    return log_header_get(bytes, &got);
}

static int
get_changed(size_t at, size_t size, uint64_t value)
{
    return get_changed_of(0, at, size, value);
}

TEST(a_newer_version_or_an_unknown_feature_is_told_from_damage)
{
    assert_rc(get_changed(8, 4, 2), -EPROTONOSUPPORT);
    assert_rc(get_changed(12, 4, 4), -EPROTONOSUPPORT);
    assert_rc(get_changed(12, 4, 0x80000000), -EPROTONOSUPPORT);
}

TEST(a_header_with_impossible_values_is_bad)
{
    assert_rc(get_changed(32, 8, LOG_INDEX_MAX), 0);
    assert_rc(get_changed(32, 8, LOG_INDEX_MAX + 1), -EBADMSG);
    assert_rc(get_changed(0, 1, 0), -EBADMSG);
    assert_rc(get_changed(40, 8, 0), -EBADMSG);
    assert_rc(get_changed(48, 8, LOG_EPOCH_MAX), 0);
    assert_rc(get_changed(48, 8, UINT64_C(1) << 32), -EBADMSG);
    assert_rc(get_changed(56, 4, 3), -EBADMSG);
    assert_rc(get_changed(60, 4, 543), -EBADMSG);
    assert_rc(get_changed(64, 4, 0), -EBADMSG);
    assert_rc(get_changed(68, 2, 0), -EBADMSG);
    assert_rc(get_changed(68, 2, 257), -EBADMSG);
    assert_rc(get_changed(70, 2, 255), -EBADMSG);
    assert_rc(get_changed(72, 8, 0), -EBADMSG);
    assert_rc(get_changed(72, 8, 101), -EBADMSG);
    assert_rc(get_changed(72, 8, 99 | UINT64_C(1) << 32), -EBADMSG);
    assert_rc(get_changed(120, 4, 1), -EBADMSG); /* a mark, and no feature */
    assert_rc(get_changed_of(LOG_HAS_MARKS, 120, 4, 99), 0);
    assert_rc(get_changed_of(LOG_HAS_MARKS, 120, 4, 100), -EBADMSG);
    assert_rc(get_changed(LOG_BLOCK_SIZE - 1, 1, 1), -EBADMSG);
}

TEST(as_many_slots_as_fit_the_size)
{
    struct layout l;

    assert_rc(layout_init(&l, 256, 256), 0);
    assert_int_equal(log_slots(32 << 20, &l), 61665);
    assert_int_equal(log_slots(LOG_SLOTS_AT + 544, &l), 1);
    assert_int_equal(log_slots(LOG_SLOTS_AT + 543, &l), 0);
    assert_int_equal(log_slots(LOG_SLOTS_AT, &l), 0);
    assert_int_equal(log_slots(0, &l), 0);
    assert_int_equal(log_slots(UINT64_MAX, &l), UINT32_MAX);
}

/* ---- create ------------------------------------------------------------- */

IN_TMPDIR(a_new_log_is_empty_and_shows_it, d)
{
    struct inspect r;
    struct stat st;
    int fd;

    create_log(d->fd, 3);
    assert_int_equal(fstatat(d->fd, "0000000003", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0400);
    assert_int_equal(st.st_nlink, 1);
    assert_int_equal(st.st_size, FILE_SIZE);
    assert_true(st.st_blocks * 512 >= FILE_SIZE);
    assert_int_equal(tmpdir_count(d, "."), 1);

    fd = openat(d->fd, "0000000003", O_RDONLY | O_CLOEXEC);
    assert_rc(log_inspect(fd, 3, &r), 0);
    assert_rc(r.headers_rc, 0);
    assert_true(r.header_ok[0] && r.header_ok[1]);
    assert_int_equal(r.header.state, LOG_EMPTY);
    assert_int_equal(r.header.epoch, 0);
    assert_int_equal(r.header.slots, SLOTS);
    assert_int_equal(r.valid, 0);
    assert_int_equal(r.damaged, 0);
    assert_int_equal(close(fd), 0);
}

IN_TMPDIR(a_log_is_created_once, d)
{
    struct layout l = small_layout();

    create_log(d->fd, 0);
    assert_rc(log_create(d->fd, 0, &l, SLOTS), -EEXIST);
    assert_false(is_locked(d->fd, 0));

    tmpdir_put(d, "lock-0000000001", "", 0, 0600);
    assert_rc(log_create(d->fd, 1, &l, SLOTS), -EEXIST);
    assert_true(is_locked(d->fd, 1));
}

/* ---- the round ---------------------------------------------------------- */

static void
assert_shows(const struct tmpdir *d, mode_t mode, nlink_t links)
{
    struct stat st, lock;

    assert_int_equal(fstatat(d->fd, "0000000000", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    assert_int_equal(st.st_nlink, links);
    assert_int_equal(is_locked(d->fd, 0), links == 2);
    if (links == 2) {
        assert_int_equal(fstatat(d->fd, "lock-0000000000", &lock, 0), 0);
        assert_int_equal(st.st_ino, lock.st_ino);
    }
}

IN_TMPDIR(modes_and_links_show_each_step, d)
{
    struct log log;

    create_log(d->fd, 0);
    assert_shows(d, 0400, 1);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), 0);
    assert_shows(d, 0600, 2);
    assert_rc(log_begin(&log), 0);
    assert_rc(append_messages(&log, 5, 0), 0);
    assert_int_equal(fdatasync(log.fd), 0);
    assert_rc(log_seal(&log), 0);
    assert_shows(d, 0600, 2);
    assert_rc(log_release(&log), 0);
    assert_shows(d, 0200, 1);

    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_FULL), 0);
    assert_shows(d, 0600, 2);
    assert_int_equal(read_count(&log), 5);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
    assert_shows(d, 0400, 1);
}

/* The next epoch would be that of a slot with a minute. */
IN_TMPDIR(a_log_that_had_the_last_fill_of_all_makes_room_for_a_new_one, d)
{
    struct log log;

    create_log(d->fd, 0);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), 0);
    log.header.epoch = LOG_EPOCH_MAX - 1;
    assert_rc(log_begin(&log), 0);
    assert_int_equal(log.header.epoch, LOG_EPOCH_MAX);
    assert_rc(append_messages(&log, 3, 0), 0);
    assert_rc(log_seal(&log), 0);
    assert_rc(log_release(&log), 0);
    assert_int_equal(merge_log(d->fd, 0), 3);

    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), -ESTALE);
    assert_int_equal(tmpdir_count(d, "."), 0);
    log = begin_log(d->fd, 0);
    assert_int_equal(log.header.epoch, 1);
    log_abandon(&log);
}

IN_TMPDIR(a_claim_in_the_wrong_state_changes_nothing, d)
{
    struct log log;

    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), -ENOENT);
    create_log(d->fd, 0);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_FULL), -ESTALE);
    assert_shows(d, 0400, 1);
    make_full(d->fd, 0, 1);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), -ESTALE);
    assert_shows(d, 0200, 1);
}

IN_TMPDIR(an_owned_log_cannot_be_claimed, d)
{
    struct log log, other;

    create_log(d->fd, 0);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), 0);
    assert_rc(log_claim(&other, d->fd, 0, LOG_MODE_EMPTY), -ESTALE);

    /* Nor when a power loss gave it back its old mode. */
    set_state(d->fd, 0, 0400, true);
    assert_rc(log_claim(&other, d->fd, 0, LOG_MODE_EMPTY), -EBUSY);
    set_state(d->fd, 0, 0400, false);
    assert_rc(log_claim(&other, d->fd, 0, LOG_MODE_EMPTY), -EBUSY);
    log_abandon(&log);
}

IN_TMPDIR(a_log_is_filled_to_its_last_slot_and_earlier_fills_never_count, d)
{
    struct stat st;

    make_merged(d->fd, 0, SLOTS);
    make_merged(d->fd, 0, 3);
    assert_int_equal(fstatat(d->fd, "0000000000", &st, 0), 0);
    assert_int_equal(st.st_size, FILE_SIZE);
}

/* ---- the order of syncs ------------------------------------------------- */

IN_TMPDIR(a_fill_syncs_its_epoch_and_the_first_one_the_name_of_the_log, d)
{
    struct log log;

    create_log(d->fd, 0);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), 0);
    fault_inject("fsync", 1, EIO);
    assert_rc(log_begin(&log), -EIO);
    fault_clear();
    assert_int_equal(log.header.state, LOG_EMPTY);
    assert_rc(log_begin(&log), 0);
    log_abandon(&log);
    assert_rc(log_recover(d->fd, 0, NULL), 0);

    fault_clear();
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), 0);
    fault_inject("fdatasync", 1, EIO);
    assert_rc(log_begin(&log), -EIO); /* its epoch is not on disk */
    assert_int_equal(fault_calls("fsync"), 0);
    fault_clear();
    log_abandon(&log);
}

IN_TMPDIR(a_new_log_is_on_disk_before_it_has_its_name, d)
{
    struct layout l = small_layout();

    fault_inject("fsync", 1, EIO);
    assert_rc(log_create(d->fd, 0, &l, SLOTS), -EIO);
    fault_clear();
    assert_int_equal(tmpdir_count(d, "."), 0);

    /* And the name itself before anybody may fill it. */
    fault_inject("fsync", 2, EIO);
    assert_rc(log_create(d->fd, 0, &l, SLOTS), -EIO);
    fault_clear();
    assert_int_equal(tmpdir_count(d, "."), 0);
}

/* Its slots were synced before, by the process that appended them. */
IN_TMPDIR(sealing_syncs_the_header_once_and_says_when_that_fails, d)
{
    struct log log;

    log = begin_with(d->fd, 0, 3);
    assert_int_equal(fdatasync(log.fd), 0);
    fault_inject("fdatasync", 1, EIO);
    assert_rc(log_seal(&log), -EIO);
    assert_true(fault_hit());
    fault_clear();
    log_abandon(&log);

    log = begin_with(d->fd, 1, 3);
    assert_int_equal(fdatasync(log.fd), 0);
    fault_clear();
    assert_rc(log_seal(&log), 0);
    assert_int_equal(fault_calls("fdatasync"), 1);
    log_abandon(&log);
}

IN_TMPDIR(a_cleared_log_has_nothing_of_earlier_fills_and_stays_empty, d)
{
    uint8_t slots[SLOTS * SLOT_SIZE], zeros[sizeof slots] = {0};
    struct log log;

    make_full(d->fd, 0, SLOTS);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_FULL), 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(inspect_read(log.fd, slots, sizeof slots, LOG_SLOTS_AT), 0);
    assert_non_null(memmem(slots, sizeof slots, "space", 5));

    fault_clear();
    assert_rc(log_clear(&log), 1);
    assert_int_equal(fault_calls("fdatasync"), 1);
    assert_rc(inspect_read(log.fd, slots, sizeof slots, LOG_SLOTS_AT), 0);
    assert_memory_equal(slots, zeros, sizeof slots);
    assert_rc(log_clear(&log), 0); /* nothing is left to be written */
    assert_int_equal(fault_calls("fdatasync"), 1);
    assert_rc(log_release(&log), 0);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), 0);
    assert_int_equal(log.header.state, LOG_EMPTY);
    assert_rc(log_release(&log), 0);
}

IN_TMPDIR(short_and_interrupted_writes_and_reads_are_finished, d)
{
    struct log log;

    log = begin_log(d->fd, 0);
    fault_short("pwrite", 1, 100);
    assert_rc(append_messages(&log, 4, 0), 0);
    assert_true(fault_hit());
    fault_inject("pwrite", 1, EINTR);
    assert_rc(append_messages(&log, 4, 0), 0);
    assert_true(fault_hit());
    fault_clear();
    assert_rc(log_seal(&log), 0);
    assert_rc(log_release(&log), 0);

    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_FULL), 0);
    fault_short("pread", 1, 100);
    assert_int_equal(read_count(&log), 8);
    assert_true(fault_hit());
    fault_inject("pread", 1, EINTR);
    assert_int_equal(read_count(&log), 8);
    assert_true(fault_hit());
    fault_clear();
    log_abandon(&log);
}

static void
fill_anew(void *ctx)
{
    const struct tmpdir *d = ctx;

    assert_int_equal(merge_log(d->fd, 0), 5);
    make_full(d->fd, 0, 2);
}

/* Between its headers and its slots. */
IN_TMPDIR(a_log_that_is_filled_anew_while_it_is_read_is_not_damaged, d)
{
    struct inspect r;
    int fd;

    make_full(d->fd, 0, 5);
    fd = open_hidden(d->fd, "0000000000");
    fault_hook("pread", 3, fill_anew, d);
    assert_rc(log_inspect(fd, 0, &r), 0);
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(r.damaged, 0);
    assert_int_equal(r.header.epoch, 2);
    assert_int_equal(r.valid, 2);
    assert_int_equal(close(fd), 0);
}

/* ---- things that are no logs of ours ------------------------------------ */

IN_TMPDIR(a_link_is_refused_and_never_followed, d)
{
    struct log log;

    tmpdir_put(d, "target", "precious", 8, 0400);
    assert_int_equal(symlinkat("target", d->fd, "0000000000"), 0);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), -EPERM);
    assert_rc(log_recover(d->fd, 0, NULL), -EPERM);
    assert_int_equal(tmpdir_mode(d, "target"), 0400);
    assert_int_equal(tmpdir_count(d, "."), 2);

    assert_int_equal(symlinkat("target", d->fd, "lock-0000000001"), 0);
    assert_rc(log_recover(d->fd, 1, NULL), -EPERM);
    assert_true(has_file(d->fd, "lock-0000000001"));
}

IN_TMPDIR(folders_and_pipes_are_refused, d)
{
    struct log log;

    assert_int_equal(mkdirat(d->fd, "0000000000", 0400), 0);
    assert_int_equal(mkfifoat(d->fd, "0000000001", 0400), 0);
    assert_int_equal(mkfifoat(d->fd, "lock-0000000002", 0600), 0);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), -EPERM);
    assert_rc(log_recover(d->fd, 0, NULL), -EPERM);
    assert_rc(log_claim(&log, d->fd, 1, LOG_MODE_EMPTY), -EPERM);
    assert_rc(log_recover(d->fd, 1, NULL), -EPERM);
    assert_rc(log_recover(d->fd, 2, NULL), -EPERM);
    assert_int_equal(tmpdir_count(d, "."), 3);
}

IN_TMPDIR(the_file_of_another_user_is_left_alone, d)
{
    struct log log;

    if (geteuid() != 0)
        return; /* only root can give a file away; that run tests it */
    create_log(d->fd, 0);
    assert_int_equal(fchownat(d->fd, "0000000000", NOBODY, NOBODY, 0), 0);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), -EPERM);
    set_state(d->fd, 0, 0600, true);
    assert_rc(log_recover(d->fd, 0, NULL), -EPERM);
    assert_shows(d, 0600, 2);
}

IN_TMPDIR(a_log_that_was_replaced_by_hand_is_not_sealed, d)
{
    struct log log;

    log = begin_with(d->fd, 0, 2);
    assert_int_equal(unlinkat(d->fd, "0000000000", 0), 0);
    assert_rc(log_seal(&log), -ESTALE);
    tmpdir_put(d, "0000000000", "other", 5, 0400);
    assert_rc(log_seal(&log), -ESTALE);
    log_abandon(&log);
}

/* Log 0 is of version 2 from here on. */
static void
make_newer(int dirfd)
{
    uint8_t block[LOG_BLOCK_SIZE];

    read_bytes(dirfd, "0000000000", block, sizeof block, LOG_BLOCK_SIZE);
    put_le32(block + 8, 2);
    put_le32(block + 124, (uint32_t)crc32(0, block, 124));
    write_bytes(dirfd, "0000000000", block, sizeof block, LOG_BLOCK_SIZE);
}

/* Until what changes now has another time than what changed before. */
static void
await_tick(int dirfd)
{
    struct stat before, now;

    assert_int_equal(fstat(dirfd, &before), 0);
    do {
        assert_int_equal(futimens(dirfd, NULL), 0);
        assert_int_equal(fstat(dirfd, &now), 0);
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
}

IN_TMPDIR(a_log_of_a_newer_version_is_left_as_it_was, d)
{
    struct log log;

    create_log(d->fd, 0);
    make_newer(d->fd);

    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_EMPTY), -EPROTONOSUPPORT);
    assert_shows(d, 0400, 1);
    set_state(d->fd, 0, 0200, false);
    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_FULL), -EPROTONOSUPPORT);
    assert_shows(d, 0200, 1);
}

/* As root, who may read a log of any mode, and as another, who has to make a
 * full one readable first. */
static void
recover_newer(const struct tmpdir *d, mode_t mode, bool lock, bool readable)
{
    struct stat before, after;

    set_state(d->fd, 0, mode, lock);
    assert_int_equal(fstatat(d->fd, "0000000000", &before, 0), 0);
    assert_rc(log_recover(d->fd, 0, NULL), -EPROTONOSUPPORT);
    if (!readable)
        assert_int_equal(fstatat(d->fd, "0000000000", &before, 0), 0);
    await_tick(d->fd);
    assert_rc(log_recover(d->fd, 0, NULL), -EPROTONOSUPPORT);
    assert_int_equal(fstatat(d->fd, "0000000000", &after, 0), 0);
    assert_int_equal(before.st_ctim.tv_sec, after.st_ctim.tv_sec);
    assert_int_equal(before.st_ctim.tv_nsec, after.st_ctim.tv_nsec);
    assert_int_equal(before.st_nlink, after.st_nlink);
    assert_true(is_locked(d->fd, 0) == lock);
}

/* A change would wake a watching worker, who would recover it, and so on. */
IN_TMPDIR(recovery_changes_nothing_about_a_log_of_a_newer_version, d)
{
    create_log(d->fd, 0);
    make_newer(d->fd);
    recover_newer(d, 0600, false, true);
    recover_newer(d, 0600, true, true);
    recover_newer(d, 0400, true, true);
    recover_newer(d, 0200, true, geteuid() == 0);
}

/* ---- the golden file ---------------------------------------------------- */

static void
make_golden(const struct tmpdir *d)
{
    make_merged(d->fd, GOLDEN_INDEX, SLOTS);
    make_full(d->fd, GOLDEN_INDEX, GOLDEN_COUNT);
}

IN_TMPDIR(the_golden_log_of_version_1_is_read, d)
{
    struct log log;

    put_golden(d, GOLDEN, "0000000007", FILE_SIZE, make_golden);

    assert_rc(log_claim(&log, d->fd, GOLDEN_INDEX, LOG_MODE_FULL), 0);
    assert_int_equal(log.header.epoch, 2);
    assert_int_equal(log.header.features, 0);
    assert_int_equal(log.header.slots, SLOTS);
    assert_int_equal(log.header.layout.keyspace_size, 8);
    assert_int_equal(log.header.layout.key_size, 8);
    assert_int_equal(log.header.first_ms, FIRST_MS);
    assert_int_equal(log.header.last_ms, FIRST_MS + GOLDEN_COUNT - 1);
    assert_int_equal(read_count(&log), GOLDEN_COUNT);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
    make_merged(d->fd, GOLDEN_INDEX, 1);
}

LOG_TEST_MAIN
