/* tests/unit/test_merge_note.c - an older keyspace/ is seen, and a sound
 * directory is never taken for one, whatever call fails or is the last. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/setup/merge_note.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/tmpdir.h"

#define NOW UINT64_C(1700000000000) /* 2023-11-14T22:13:20Z */

struct fixture {
    struct tmpdir tmp;
    struct datadir dir;
};

static void
set_up(struct fixture *s)
{
    tmpdir_make(&s->tmp);
    assert_rc(datadir_open(&s->dir, s->tmp.path, DATADIR_WRITE), 0);
}

static void
tear_down(struct fixture *s)
{
    fault_clear();
    datadir_close(&s->dir);
    tmpdir_remove(&s->tmp);
}

#define CASE(name, s) TEST_WITH(name, struct fixture, s, set_up, tear_down)

static bool
is_older(const struct fixture *s)
{
    struct merge_note n;

    assert_rc(merge_note_read(&s->dir, &n), 0);
    return merge_note_is_older(&n);
}

/* The bytes of a note, as `cp` saves and restores them. */
struct saved {
    uint8_t bytes[64];
    size_t size;
    bool is_there;
};

static struct saved
save_note(const struct fixture *s, const char *folder)
{
    const char *path = file_path(s->tmp.path, "%s/" MERGE_NOTE_FILE, folder);
    struct saved n = {.is_there = access(path, F_OK) == 0};

    if (n.is_there)
        n.size = file_read(path, n.bytes, sizeof n.bytes);
    return n;
}

static void
restore_note(const struct fixture *s, const char *folder, const struct saved *n)
{
    const char *path = file_path(s->tmp.path, "%s/" MERGE_NOTE_FILE, folder);

    (void)unlink(path); /* it may be missing */
    if (n->is_there)
        file_put(path, n->bytes, n->size);
}

CASE(a_directory_without_notes_is_sound, s)
{
    assert_false(is_older(s));
}

CASE(an_older_copy_is_seen_until_it_is_accepted, s)
{
    char text[MERGE_NOTE_TEXT];
    struct merge_note n;
    struct saved copy;

    assert_rc(merge_note_write(&s->dir, NOW, false), 0);
    copy = save_note(s, "keyspace");
    assert_rc(merge_note_write(&s->dir, NOW + 60000, false), 0);
    assert_false(is_older(s));
    restore_note(s, "keyspace", &copy);
    assert_true(is_older(s));

    assert_rc(merge_note_write(&s->dir, NOW + 120000, false), -ESTALE);
    assert_true(is_older(s));
    assert_rc(merge_note_read(&s->dir, &n), 0);
    merge_note_lacks(&n, text);
    assert_has(text, "2023-11-14T22:13:20Z");
    assert_has(text, "2023-11-14T22:14:20Z");

    assert_rc(merge_note_write(&s->dir, NOW + 120000, true), 0);
    assert_false(is_older(s));
    assert_rc(merge_note_write(&s->dir, NOW + 180000, false), 0);
}

CASE(a_folder_without_a_note_beside_merged_logs_is_older, s)
{
    const struct saved none = {0}, empty = {.is_there = true};
    struct saved flipped;

    assert_rc(merge_note_write(&s->dir, NOW, false), 0);
    flipped = save_note(s, "keyspace");
    flipped.bytes[9] ^= 1;
    restore_note(s, "keyspace", &none);
    assert_true(is_older(s));
    restore_note(s, "keyspace", &empty);
    assert_true(is_older(s));
    restore_note(s, "keyspace", &flipped);
    assert_true(is_older(s));
}

CASE(logs_without_a_note_or_with_an_older_one_are_no_older_copy, s)
{
    const struct saved none = {0};
    struct saved copy;

    assert_rc(merge_note_write(&s->dir, NOW, false), 0);
    copy = save_note(s, "log");
    assert_rc(merge_note_write(&s->dir, NOW + 1, false), 0);
    restore_note(s, "log", &copy);
    assert_false(is_older(s));
    restore_note(s, "log", &none);
    assert_false(is_older(s));
}

CASE(a_number_rises_also_when_the_clock_is_set_back, s)
{
    struct merge_note n;
    struct saved copy;

    assert_rc(merge_note_write(&s->dir, NOW, false), 0);
    copy = save_note(s, "keyspace");
    assert_rc(merge_note_write(&s->dir, NOW - 86400000, false), 0);
    assert_rc(merge_note_read(&s->dir, &n), 0);
    assert_int_equal(n.log_ms, NOW + 1);
    restore_note(s, "keyspace", &copy);
    assert_true(is_older(s));
}

CASE(a_note_that_another_process_writes_is_left_to_it, s)
{
    int fd;

    assert_rc(merge_note_write(&s->dir, NOW, false), 0);
    fd = openat(s->dir.log_fd, MERGE_NOTE_FILE, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);

    assert_rc(merge_note_write(&s->dir, NOW + 1, false), -EAGAIN);

    (void)close(fd);
    assert_rc(merge_note_write(&s->dir, NOW + 1, false), 0);
}

CASE(a_copy_has_the_number_that_it_was_given, s)
{
    struct merge_note n;

    assert_rc(merge_note_put(s->dir.keyspace_fd, 0), 0);
    assert_false(save_note(s, "keyspace").is_there);
    assert_rc(merge_note_put(s->dir.keyspace_fd, NOW), 0);
    assert_rc(merge_note_read(&s->dir, &n), 0);
    assert_int_equal(n.keyspace_ms, NOW);
    assert_int_equal(n.log_ms, 0);
}

/* From any call on all fail, as after a kill: log/ is never ahead, and the next
 * number is written. */
CASE(a_writer_that_ends_anywhere_raises_no_alarm, s)
{
    bool hit = true;

    for (unsigned n = 1; hit; n++) {
        fault_inject_from("disk", n, EIO);
        (void)merge_note_write(&s->dir, NOW + n, false);
        hit = fault_hit();
        fault_clear();
        assert_false(is_older(s));
        assert_rc(merge_note_write(&s->dir, NOW + n, false), 0);
        assert_false(is_older(s));
    }
}

/* What a loss of power leaves: log/ has the new number only if that of
 * keyspace/ and its name were synced before. */
CASE(log_gets_no_number_that_keyspace_can_lose, s)
{
    for (unsigned n = 1; n <= 2; n++) {
        struct merge_note before, after;

        assert_rc(merge_note_read(&s->dir, &before), 0);
        fault_inject("fsync", n, EIO);
        assert_rc(merge_note_write(&s->dir, NOW + n, false), -EIO);
        fault_clear();
        assert_rc(merge_note_read(&s->dir, &after), 0);
        assert_int_equal(after.log_ms, before.log_ms);
    }
    assert_rc(merge_note_write(&s->dir, NOW + 9, false), 0);
    assert_int_equal(fault_calls("fsync"), 2);
}
