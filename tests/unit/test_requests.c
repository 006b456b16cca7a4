/* tests/unit/test_requests.c - common/log/requests.h and idempotency.h:
 * which requests are known, for how long, and by whom they were stored; what
 * crashes, failed calls and damage leave of them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/dirstream.h"
#include "common/log/requests.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/tmpdir.h"
#include "writer/idempotency.h"

#define HOUR_MS INT64_C(3600000)
#define FOLDER  REQUESTS_FOLDER "/"

struct seen {
    size_t count;
    uint32_t first, last; /* numbers of requests */
};

static void
take_request(void *ctx, const struct counted_request *q)
{
    struct seen *s = ctx;
    const uint32_t number = get_le32(q->mark.hash);

    if (s->count++ == 0)
        s->first = number;
    s->last = number;
    assert_int_equal(q->mark.count, number % 1000);
    assert_int_equal(q->mark.body, UINT64_C(77) + number);
}

static struct seen
read_all(struct requests *r)
{
    struct seen s = {0};

    assert_rc(requests_each(r, take_request, &s), 0);
    return s;
}

/* How many there are, as another process sees it; *damaged: reports. */
static size_t
count_all(const struct tmpdir *d, uint64_t *damaged)
{
    struct requests r;
    size_t count;

    requests_init(&r, d->fd);
    count = read_all(&r).count;
    if (damaged)
        *damaged = r.damaged;
    return count;
}

/* Stores the requests from `first` on as those of one fill. */
static int
store_fill(struct requests *r, uint32_t first, uint32_t count, uint64_t at_ms)
{
    const struct log_header fill = {.epoch = first, .uuid = {1, 2, 3}};
    struct marked *marks = calloc(count, sizeof *marks);
    int rc;

    assert_non_null(marks);
    for (uint32_t i = 0; i < count; i++) {
        marks[i] = (struct marked){.mark = {.body = UINT64_C(77) + first + i,
                                            .count = (first + i) % 1000},
                                   .received_ms = at_ms};
        put_le32(marks[i].mark.hash, first + i);
    }
    rc = requests_put(r, &fill, marks, count);
    free(marks);
    return rc;
}

static struct requests
make_requests(const struct tmpdir *d)
{
    struct requests r;

    assert_int_equal(mkdirat(d->fd, "live", 0700), 0);
    requests_init(&r, d->fd);
    assert_rc(requests_make(&r), 0);
    return r;
}

static off_t
size_of(const struct tmpdir *d, const char *name)
{
    struct stat st;

    return fstatat(d->fd, name, &st, 0) == 0 ? st.st_size : -1;
}

static void
cut_file(const struct tmpdir *d, const char *name, off_t size)
{
    assert_int_equal(truncate(file_path(d->path, "%s", name), size), 0);
}

/* Writes `size` zeros, or inverts the bits of a byte when it is 0. */
static void
damage_file(const struct tmpdir *d, const char *name, off_t at, size_t size)
{
    static const uint8_t zeros[4096];
    const char *path = file_path(d->path, "%s", name);

    if (size == 0)
        file_flip(path, at, 0xff);
    else
        file_write(path, at, zeros, size);
}

static int
remove_records(void *ctx, int folder_fd, const char *name)
{
    (void)ctx;
    if (strcmp(name, REQUESTS_SECRET) != 0)
        assert_int_equal(unlinkat(folder_fd, name, 0), 0);
    return 0;
}

#define FIRST FOLDER "0000000000"

/* ---- the secret ---------------------------------------------------------- */

IN_TMPDIR(without_a_secret_nothing_is_stored_and_none_is_made, d)
{
    uint8_t secret[REQUESTS_KEY_SIZE], again[REQUESTS_KEY_SIZE];
    struct requests r, other;

    requests_init(&r, d->fd);
    assert_rc(requests_secret(&r, secret), -ENOKEY);
    assert_rc(store_fill(&r, 1, 1, 1000), -ENOKEY);
    assert_false(tmpdir_has(d, "live"));
    assert_int_equal(mkdirat(d->fd, "live", 0700), 0);
    assert_int_equal(mkdirat(d->fd, "live/requests", 0700), 0);
    assert_rc(store_fill(&r, 1, 1, 1000), -ENOKEY);
    assert_int_equal(tmpdir_count(d, "live/requests"), 0);

    assert_rc(requests_make(&r), 0);
    assert_rc(requests_secret(&r, secret), 0);
    assert_int_equal(size_of(d, FOLDER "secret"), 20);
    requests_init(&other, d->fd);
    assert_rc(requests_secret(&other, again), 0);
    assert_memory_equal(secret, again, sizeof secret);
    assert_rc(requests_exist(&r), 0);
    assert_rc(store_fill(&r, 1, 1, 1000), 0);
    assert_rc(requests_exist(&r), 1);
}

IN_TMPDIR(a_damaged_secret_is_a_lost_one, d)
{
    struct requests r = make_requests(d), other;
    uint8_t secret[REQUESTS_KEY_SIZE];

    requests_init(&other, d->fd);
    for (off_t at = 0; at < 20; at++) {
        damage_file(d, FOLDER "secret", at, 0);
        assert_rc(requests_secret(&other, secret), -ENOKEY);
        assert_rc(store_fill(&other, 1, 1, 1000), -ENOKEY);
        damage_file(d, FOLDER "secret", at, 0);
    }
    assert_rc(requests_secret(&other, secret), 0);
    for (off_t size = 0; size < 20; size++) {
        cut_file(d, FOLDER "secret", size);
        assert_rc(requests_secret(&other, secret), -ENOKEY);
    }
    assert_int_equal(count_all(d, NULL), 0);
    (void)r;
}

IN_TMPDIR(the_process_that_hashes_keys_writes_a_lost_secret_again, d)
{
    uint8_t secret[REQUESTS_KEY_SIZE], again[REQUESTS_KEY_SIZE];
    struct requests r = make_requests(d), other;

    assert_rc(requests_secret(&r, secret), 0);
    assert_int_equal(unlinkat(d->fd, FOLDER "secret", 0), 0);
    assert_rc(store_fill(&r, 1, 1, 1000), 0);
    requests_init(&other, d->fd);
    assert_rc(requests_secret(&other, again), 0);
    assert_memory_equal(secret, again, sizeof secret);
    assert_rc(requests_make(&other), 0);
    assert_rc(store_fill(&r, 2, 1, 1000), 0);
    assert_rc(requests_secret(&other, again), 0);
    assert_memory_equal(secret, again, sizeof secret);
}

IN_TMPDIR(a_folder_of_an_earlier_version_is_refused, d)
{
    uint8_t secret[REQUESTS_KEY_SIZE];
    struct requests r;

    assert_int_equal(mkdirat(d->fd, "live", 0700), 0);
    assert_int_equal(mkdirat(d->fd, "live/requests", 0700), 0);
    tmpdir_put(d, FOLDER "1", "COUNTDJ1", 8, 0600);
    tmpdir_put(d, FOLDER "lock", "", 0, 0600);
    requests_init(&r, d->fd);
    assert_rc(requests_secret(&r, secret), -EPROTONOSUPPORT);
    assert_rc(store_fill(&r, 1, 1, 1000), -ENOKEY);
    assert_rc(requests_exist(&r), 0);
}

/* ---- storing ------------------------------------------------------------- */

IN_TMPDIR(what_any_process_stores_all_read, d)
{
    struct requests r = make_requests(d), other;
    struct seen s;

    requests_init(&other, d->fd);
    assert_rc(store_fill(&r, 1, 10, 1000), 0);
    assert_rc(store_fill(&other, 11, 5, 2000), 0);
    assert_rc(store_fill(&r, 16, 30000, 3000), 0);
    assert_rc(store_fill(&other, 30016, 1, 4000), 0);
    s = read_all(&r);
    assert_int_equal(s.count, 30016);
    assert_int_equal(s.first, 1);
    assert_int_equal(s.last, 30016);
    assert_int_equal(read_all(&other).count, 30016);
    assert_int_equal(size_of(d, FIRST), 30016 * REQUEST_SIZE);
    assert_int_equal(r.damaged, 0);
}

IN_TMPDIR(a_file_has_an_hour_and_none_before_the_newest_is_written, d)
{
    struct requests r = make_requests(d);

    assert_rc(store_fill(&r, 1, 1, 5 * HOUR_MS + 1), 0);
    assert_rc(store_fill(&r, 2, 1, 6 * HOUR_MS - 1), 0);
    assert_rc(store_fill(&r, 3, 1, 6 * HOUR_MS), 0);
    assert_rc(store_fill(&r, 4, 1, 2 * HOUR_MS), 0);
    assert_int_equal(size_of(d, FOLDER "0000000005"), 2 * REQUEST_SIZE);
    assert_int_equal(size_of(d, FOLDER "0000000006"), 2 * REQUEST_SIZE);
    tmpdir_put(d, FOLDER "6", "", 0, 0600); /* not countd's names */
    tmpdir_put(d, FOLDER "0000000009.0", "", 0, 0600);
    tmpdir_put(d, FOLDER "0000000009.01", "", 0, 0600);
    tmpdir_put(d, FOLDER "0000000009.x", "", 0, 0600);
    assert_rc(store_fill(&r, 5, 1, 2 * HOUR_MS), 0);
    assert_int_equal(size_of(d, FOLDER "0000000006"), 3 * REQUEST_SIZE);
    assert_int_equal(read_all(&r).last, 5);
}

/* The nth disk call of storing a fill fails.  False: there are fewer. */
static bool
fail_call(const struct tmpdir *d, unsigned nth, bool is_short)
{
    const unsigned fds = fault_open_fds();
    struct requests r;
    bool hit;
    int rc;

    assert_rc(dirstream_each(d->fd, REQUESTS_FOLDER, remove_records, NULL), 0);
    requests_init(&r, d->fd);
    assert_rc(store_fill(&r, 9, 1, 1000), 0);
    if (is_short)
        fault_short("pwrite", nth, 100);
    else
        fault_inject("disk", nth, EIO);
    rc = store_fill(&r, 1, 3, 1000);
    hit = fault_hit();
    fault_clear();
    assert_int_equal(fault_open_fds(), fds);
    if (rc < 0)
        assert_rc(store_fill(&r, 1, 3, 1000), 0); /* goes on elsewhere */
    assert_in_range(count_all(d, NULL), 4, 7);
    return hit;
}

IN_TMPDIR(a_store_whose_call_fails_can_be_tried_again, d)
{
    struct requests r = make_requests(d);
    unsigned n = 1;

    while (fail_call(d, n, false))
        n++;
    assert_in_range(n, 6, 100);
    assert_true(fail_call(d, 1, true));
    (void)count_all(d, &r.damaged);
    assert_int_equal(r.damaged, 0);
}

IN_TMPDIR(a_file_whose_write_or_sync_failed_is_not_written_again, d)
{
    static const char *const calls[] = {"pwrite", "fdatasync"};
    struct requests r = make_requests(d), other;
    char name[40];

    requests_init(&other, d->fd);
    assert_rc(store_fill(&r, 1, 3, 1000), 0);
    for (unsigned i = 0; i < 2; i++) {
        off_t size;

        (void)snprintf(name, sizeof name, i == 0 ? FIRST : FIRST ".%u", i);
        fault_inject(calls[i], 1, EIO);
        assert_rc(store_fill(&r, 4, 2, 2000), -EIO);
        assert_true(fault_hit());
        fault_clear();
        size = size_of(d, name);
        assert_rc(store_fill(&r, 4 + 2 * i, 2, 2000), 0);
        assert_int_equal(size_of(d, name), size);
        (void)snprintf(name, sizeof name, FIRST ".%u", i + 1);
        assert_int_equal(size_of(d, name), 2 * REQUEST_SIZE);
    }
    /* Others go on in the newest file. */
    assert_rc(store_fill(&other, 8, 1, 2000), 0);
    assert_int_equal(size_of(d, name), 3 * REQUEST_SIZE);
    assert_int_equal(read_all(&other).last, 8);
    assert_int_equal(other.damaged, 0);
}

IN_TMPDIR(a_full_disk_leaves_no_files_behind, d)
{
    struct requests r = make_requests(d);

    for (unsigned i = 0; i < 20; i++) {
        fault_inject(i % 2 == 0 ? "pwrite" : "fdatasync", 1, ENOSPC);
        assert_rc(store_fill(&r, 1, 2, 1000), -ENOSPC);
        fault_clear();
    }
    assert_int_equal(tmpdir_count(d, "live/requests"), 1); /* the secret */
    assert_rc(store_fill(&r, 1, 2, 1000), 0);
    assert_int_equal(count_all(d, NULL), 2);
}

IN_TMPDIR(a_file_that_another_process_writes_is_waited_for, d)
{
    struct requests r = make_requests(d);
    int fd;

    r.max = 100; /* as the writer: not for long */
    assert_rc(store_fill(&r, 1, 1, 1000), 0);
    fd = openat(d->fd, FIRST, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_rc(store_fill(&r, 2, 1, 1000), -EAGAIN);
    (void)close(fd);
    assert_rc(store_fill(&r, 2, 1, 1000), 0);
    assert_int_equal(size_of(d, FIRST), 2 * REQUEST_SIZE);
}

/* False: storing came to its end. */
static bool
kill_at(const struct tmpdir *d, unsigned nth)
{
    struct requests r;
    uint64_t damaged;
    int status;
    pid_t pid;

    assert_rc(dirstream_each(d->fd, REQUESTS_FOLDER, remove_records, NULL), 0);
    requests_init(&r, d->fd);
    pid = test_fork();
    if (pid == 0) {
        fault_kill("disk", nth);
        _exit(store_fill(&r, 1, 200, 1000) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    assert_rc(store_fill(&r, 1, 200, 1000), 0); /* recovery */
    assert_in_range(count_all(d, &damaged), 200, 400);
    assert_int_equal(damaged, 0);
    return WIFSIGNALED(status);
}

IN_TMPDIR(a_process_may_be_killed_at_each_call, d)
{
    struct requests r = make_requests(d);
    unsigned n = 1;

    while (kill_at(d, n))
        n++;
    assert_in_range(n, 6, 100);
    (void)r;
}

/* ---- what is cut, and what is damaged ------------------------------------ */

IN_TMPDIR(a_cut_end_is_passed_over_and_is_no_damage, d)
{
    struct requests r = make_requests(d), other;
    uint64_t damaged;

    assert_rc(store_fill(&r, 1, 2, 1000), 0);
    assert_rc(store_fill(&r, 3, 3, 1000), 0);
    for (off_t size = 5 * REQUEST_SIZE - 1; size >= 2 * REQUEST_SIZE; size--) {
        cut_file(d, FIRST, size);
        assert_int_equal(count_all(d, &damaged), size / REQUEST_SIZE);
        assert_int_equal(damaged, 0);
    }
    /* Cut, and others went on: each record begins at a multiple of its size. */
    for (uint32_t size = 2 * REQUEST_SIZE + 1; size < 3 * REQUEST_SIZE;
         size++) {
        cut_file(d, FIRST, 2 * REQUEST_SIZE);
        assert_rc(store_fill(&r, 3, 1, 1000), 0);
        cut_file(d, FIRST, size);
        requests_init(&other, d->fd);
        assert_rc(store_fill(&other, 4, 1, 1000), 0);
        assert_rc(store_fill(&other, 5, 1, 1000), 0);
        assert_int_equal(size_of(d, FIRST), 5 * REQUEST_SIZE);
        assert_int_equal(count_all(d, &damaged), 4);
        assert_int_equal(damaged, 0);
    }
}

IN_TMPDIR(pages_that_a_power_loss_took_are_no_damage, d)
{
    struct requests r = make_requests(d);
    uint64_t damaged;

    assert_rc(store_fill(&r, 1, 10, 1000), 0);
    assert_rc(store_fill(&r, 11, 200, 1000), 0);
    /* The second is not synced: any page of it may be missing. */
    damage_file(d, FIRST, 640, 4096 - 640);
    assert_int_equal(count_all(d, &damaged), 210 - 54);
    assert_int_equal(damaged, 0);
    damage_file(d, FIRST, 8192, 64);
    assert_int_equal(count_all(d, &damaged), 210 - 55);
    assert_int_equal(damaged, 0);
}

/* A process that writes a record while it is read. */
struct race {
    const struct tmpdir *d;
    struct requests *writer;
    size_t count;
};

static void
go_on_writing(void *ctx, const struct counted_request *q)
{
    struct race *s = ctx;

    (void)q;
    if (s->count++ > 0)
        return;
    damage_file(s->d, FIRST, REQUEST_SIZE + 3, 0); /* as it was before */
    assert_rc(store_fill(s->writer, 3, 1, 1000), 0);
}

IN_TMPDIR(a_record_that_is_being_written_is_no_damage, d)
{
    struct requests r = make_requests(d), reader;
    struct race race = {d, &r, 0};

    assert_rc(store_fill(&r, 1, 1, 1000), 0);
    assert_rc(store_fill(&r, 2, 1, 1000), 0);
    damage_file(d, FIRST, REQUEST_SIZE + 3, 0);
    requests_init(&reader, d->fd);

    assert_rc(requests_each(&reader, go_on_writing, &race), 0);

    assert_int_equal(reader.damaged, 0);
    assert_int_equal(race.count, 3);
}

IN_TMPDIR(a_bad_record_is_damage_if_its_process_stored_more, d)
{
    struct requests r = make_requests(d), other;
    uint64_t damaged;

    requests_init(&other, d->fd);
    assert_rc(store_fill(&r, 1, 10, 1000), 0);
    for (off_t at = 0; at < REQUEST_SIZE; at++) {
        damage_file(d, FIRST, 3 * REQUEST_SIZE + at, 0);
        assert_int_equal(count_all(d, &damaged), 9);
        /* It may not have been synced, unless it names another fill. */
        assert_int_equal(damaged, at >= 24 && at < 48);
        damage_file(d, FIRST, 3 * REQUEST_SIZE + at, 0);
    }
    assert_rc(store_fill(&other, 11, 10, 1000), 0);
    damage_file(d, FIRST, 3 * REQUEST_SIZE, 0);
    assert_int_equal(count_all(d, &damaged), 19);
    assert_int_equal(damaged, 0);
    damage_file(d, FIRST, 3 * REQUEST_SIZE, 0);
    assert_rc(store_fill(&r, 21, 1, 1000), 0);
    for (off_t at = 0; at < REQUEST_SIZE; at++) {
        damage_file(d, FIRST, 3 * REQUEST_SIZE + at, 0);
        assert_int_equal(count_all(d, &damaged), 20);
        /* But for the number of the process itself. */
        assert_int_equal(damaged, at < 56 || at >= 60);
        damage_file(d, FIRST, 3 * REQUEST_SIZE + at, 0);
    }
    damage_file(d, FIRST, 3 * REQUEST_SIZE, 2 * REQUEST_SIZE);
    assert_int_equal(count_all(d, &damaged), 19);
    assert_int_equal(damaged, 1);
}

/* ---- the window ---------------------------------------------------------- */

IN_TMPDIR(a_day_is_remembered_whatever_the_clock_does, d)
{
    const uint64_t now_ms = clock_unix_ms();
    struct requests r = make_requests(d);

    for (uint32_t i = 0; i < 30; i++)
        assert_rc(store_fill(&r, 1 + i, 1, now_ms - (29 - i) * HOUR_MS), 0);
    assert_int_equal(read_all(&r).count, 30);
    r.max = 1000;
    assert_rc(store_fill(&r, 31, 1, now_ms), 0);
    assert_int_equal(read_all(&r).first, 1); /* it has just been started */
    for (uint32_t i = 0; i < 10; i++) {
        fault_pass_ns(UINT64_C(3600000000000));
        assert_rc(store_fill(&r, 32 + 2 * i, 1, now_ms), 0);
        assert_rc(store_fill(&r, 33 + 2 * i, 1, now_ms), 0);
        /* The hours 29 to 25 before this one are over. */
        assert_int_equal(read_all(&r).first, i < 5 ? 2 + i : 6);
    }
    /* Two days forth: one more hour, not all. */
    fault_clock(48 * HOUR_MS);
    fault_pass_ns(UINT64_C(3600000000000));
    for (uint32_t i = 0; i < 5; i++)
        assert_rc(store_fill(&r, 60 + i, 1, now_ms), 0);
    assert_int_equal(read_all(&r).first, 7);
    fault_clear();
}

IN_TMPDIR(what_more_follow_than_are_remembered_is_forgotten, d)
{
    const uint64_t now_ms = clock_unix_ms();
    struct requests r = make_requests(d);
    struct seen s;

    r.max = 100;
    assert_rc(store_fill(&r, 1, 40, now_ms - 2 * HOUR_MS), 0);
    assert_rc(store_fill(&r, 41, 40, now_ms - HOUR_MS), 0);
    assert_rc(store_fill(&r, 81, 59, now_ms), 0);
    assert_int_equal(read_all(&r).first, 1);
    assert_rc(store_fill(&r, 140, 1, now_ms), 0);
    s = read_all(&r);
    assert_int_equal(s.first, 41);
    assert_int_equal(s.count, 100);
    assert_int_equal(s.last, 140);
}

IN_TMPDIR(its_size_is_bounded_by_the_window, d)
{
    const uint64_t now_ms = clock_unix_ms();
    struct requests r = make_requests(d);
    struct seen s;

    r.max = 20000; /* 1.3 MB */
    for (uint32_t i = 0; i < 60; i++) {
        assert_rc(store_fill(&r, 1 + i * 5000, 5000, now_ms), 0);
        s = read_all(&r);
        assert_in_range(s.count, i < 4 ? 5000 * (i + 1) : 20000, 45000);
        assert_int_equal(s.last, 5000 * (i + 1));
    }
}

/* ---- the table ----------------------------------------------------------- */

TEST(a_small_table_keeps_the_last_keys)
{
    uint8_t hash[IDEMPOTENCY_HASH] = {0};
    struct idempotency k;

    assert_rc(idempotency_init(&k, 3), 0);
    for (uint32_t i = 0; i < 50; i++) {
        const struct key_answer a = {.number = i};

        put_le32(hash, i);
        idempotency_add(&k, hash, i, &a, 1000);
        for (uint32_t j = 0; j <= i; j++) {
            put_le32(hash, j);
            assert_int_equal(idempotency_find(&k, hash, 1000) != NULL,
                             j + 3 > i);
        }
    }
    idempotency_fini(&k);
}
