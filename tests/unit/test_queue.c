/* tests/unit/test_queue.c - a durable queue on a real disk: what its calls say,
 * and four processes that put and remove until they are killed. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/journal/queue.h"
#include "tests/lib/random.h"
#include "tests/lib/tmpdir.h"

#define SEGMENT 65536

static struct tmpdir tmp;
static unsigned reports;

static int
setup(void **state)
{
    (void)state;
    tmpdir_make(&tmp);
    reports = 0;
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    tmpdir_remove(&tmp);
    return 0;
}

#define CASE(name) TEST_IN(name, void *unused, setup, teardown)

static void
note_report(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
    reports++;
}

static int
open_with(struct queue **out, bool writable, uint64_t max)
{
    const struct queue_options options = {.dir_fd = tmp.fd,
                                          .writable = writable,
                                          .segment_size = SEGMENT,
                                          .max = max,
                                          .report = note_report};

    return queue_open(out, &options);
}

static struct queue *
open_queue(void)
{
    struct queue *q;

    assert_rc(open_with(&q, true, 0), 0);
    return q;
}

static uint64_t
put_text(struct queue *q, const char *text)
{
    uint64_t id;

    assert_rc(queue_put(q, text, strlen(text)), 0);
    assert_rc(queue_commit(q, &id), 0);
    return id;
}

static void
assert_text(struct queue *q, uint64_t id, const char *text)
{
    const uint8_t *bytes;
    size_t size;

    assert_rc(queue_read(q, id, &bytes, &size), 0);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
}

/* ---- one process --------------------------------------------------------- */

CASE(records_come_in_order_until_they_are_removed)
{
    struct queue *q = open_queue();
    uint64_t a, b, c;

    a = put_text(q, "a");
    b = put_text(q, "b");
    c = put_text(q, "c");

    assert_true(a < b && b < c);
    assert_true(queue_next(q, 0) == a && queue_next(q, a) == b);
    assert_true(queue_next(q, b) == c && queue_next(q, c) == 0);
    assert_text(q, c, "c");
    assert_rc(queue_remove(q, b), 0);
    assert_rc(queue_commit(q, NULL), 0);
    assert_true(queue_next(q, 0) == a && queue_next(q, a) == c);
    assert_rc(queue_remove(q, a), 0);
    assert_rc(queue_commit(q, NULL), 0);
    assert_true(queue_next(q, 0) == c && queue_next(q, a) == c);
    queue_close(q);
    q = open_queue();
    assert_true(queue_next(q, 0) == c && queue_next(q, c) == 0);
    assert_text(q, c, "c");
    queue_close(q);
    assert_int_equal(reports, 0);
}

CASE(those_that_wait_are_found_when_many_before_them_were_removed)
{
    struct queue *q = open_queue();
    enum { N = 400 };
    uint64_t ids[N];

    for (size_t i = 0; i < N; i++)
        ids[i] = put_text(q, "a");
    for (size_t i = 0; i + 1 < N; i++) {
        assert_rc(queue_remove(q, ids[i]), 0);
        assert_rc(queue_commit(q, NULL), 0);
        assert_true(queue_next(q, 0) == ids[i + 1]);
    }
    queue_close(q);
}

CASE(another_handle_sees_what_was_committed_and_no_more)
{
    struct queue *q = open_queue(), *other = open_queue();
    const uint64_t id = put_text(q, "a");

    assert_rc(queue_put(q, "b", 1), 0);
    assert_rc(queue_refresh(other), 0);
    assert_true(queue_next(other, 0) == id && queue_next(other, id) == 0);
    assert_rc(queue_acquire(q), 0);
    assert_rc(queue_acquire(other), -EAGAIN);
    queue_release(q);
    assert_text(other, id, "a");
    queue_close(q);
    queue_close(other);
}

CASE(a_queue_that_is_not_there_is_told_to_readers)
{
    struct queue *q;

    assert_rc(open_with(&q, false, 0), -ENOENT);
    assert_false(tmpdir_has(&tmp, "lock"));
}

CASE(no_more_waits_than_is_allowed)
{
    static const uint8_t bytes[1000];
    struct queue *q;

    assert_rc(open_with(&q, true, 3000), 0);
    assert_rc(queue_put(q, bytes, sizeof bytes), 0);
    assert_rc(queue_put(q, bytes, sizeof bytes), 0);
    assert_rc(queue_put(q, bytes, sizeof bytes), -EDQUOT);
    assert_rc(queue_commit(q, NULL), 0);
    assert_rc(queue_put(q, bytes, sizeof bytes), -EDQUOT);
    assert_rc(queue_remove(q, queue_next(q, 0)), 0);
    assert_rc(queue_commit(q, NULL), 0);
    assert_rc(queue_put(q, bytes, 500), 0);
    queue_close(q);
}

CASE(space_of_what_was_removed_is_given_back)
{
    static const uint8_t bytes[4000];
    struct queue *q = open_queue();
    struct queue_stats stats;
    uint64_t id, kept;

    kept = put_text(q, "kept");
    for (int i = 0; i < 500; i++) {
        assert_rc(queue_put(q, bytes, sizeof bytes), 0);
        assert_rc(queue_commit(q, &id), 0);
        assert_rc(queue_remove(q, id), 0);
        assert_rc(queue_commit(q, NULL), 0);
        assert_rc(queue_compact(q, SEGMENT), 0);
    }
    queue_stats(q, &stats);
    assert_true(stats.file_bytes <= 2 * stats.bytes + 3 * SEGMENT);
    assert_text(q, kept, "kept");
    assert_true(tmpdir_count(&tmp, ".") < 6);
    queue_close(q);
}

CASE(a_part_is_locked_by_one_and_all_parts_with_it)
{
    struct queue *q = open_queue(), *other = open_queue();

    assert_rc(queue_lock(q, 1), 0);
    assert_rc(queue_lock(other, 1), -EAGAIN);
    assert_rc(queue_lock_all(other), -EAGAIN);
    assert_rc(queue_lock(other, 2), 0);
    queue_unlock(q);
    queue_unlock(other);
    assert_rc(queue_lock_all(other), 0);
    assert_rc(queue_lock(q, 7), -EAGAIN);
    queue_close(q);
    queue_close(other);
}

/* ---- processes that are killed ------------------------------------------- */

enum { PROCESSES = 4, ROUNDS = 12, RECORD = 2008 };

/* Of each process: numbers from 1 that it began to put, that were committed,
 * and that were removed again, by anyone. */
struct shared {
    volatile uint64_t begun[PROCESSES], acked[PROCESSES], removed[PROCESSES];
};

static void
make_record(uint64_t key, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(key * 31 + i * 7);
    memcpy(bytes, &key, sizeof key);
}

static void
put_some(struct queue *q, uint64_t me, struct shared *s, struct random *r)
{
    const uint64_t from = s->begun[me], count = 1 + random_below(r, 4);
    uint8_t bytes[RECORD];
    int rc;

    for (uint64_t i = 1; i <= count; i++) {
        const size_t size = 8 + (size_t)random_below(r, 2000);

        make_record(me << 32 | (from + i), bytes, size);
        if (queue_put(q, bytes, size) < 0)
            _exit(2);
    }
    s->begun[me] = from + count;
    rc = queue_commit(q, NULL);
    if (rc == 0)
        s->acked[me] = from + count;
    else if (rc == -EAGAIN)
        s->begun[me] = from;
    else
        _exit(3);
}

/* Reads a record; false when another process has removed it. */
static bool
read_record(struct queue *q, uint64_t id, const uint8_t **bytes, size_t *size)
{
    int rc;

    while ((rc = queue_read(q, id, bytes, size)) == -ENOENT) {
        if (queue_refresh(q) < 0)
            _exit(4);
        if (queue_next(q, id - 1) != id)
            return false;
    }
    if (rc < 0)
        _exit(5);
    return true;
}

/* Reads and removes the oldest records of a process: they follow each other. */
static void
remove_some(struct queue *q, struct shared *s, struct random *r)
{
    const uint64_t of = random_below(r, PROCESSES);
    uint64_t n = 1 + random_below(r, 8), id = 0, last = 0, key;
    uint8_t want[RECORD];
    const uint8_t *bytes;
    size_t size;

    if (queue_lock(q, of) < 0)
        return;
    while (n > 0 && (id = queue_next(q, id)) != 0) {
        if (!read_record(q, id, &bytes, &size))
            continue;
        memcpy(&key, bytes, sizeof key);
        if (key >> 32 != of)
            continue;
        n--;
        make_record(key, want, size);
        key &= UINT32_MAX;
        if (memcmp(bytes, want, size) != 0 || (last > 0 && key != last + 1))
            _exit(6);
        last = key;
        if (queue_remove(q, id) < 0)
            _exit(7);
    }
    if (last > 0 && queue_commit(q, NULL) == 0)
        s->removed[of] = last;
    queue_unlock(q);
}

static void
work(uint64_t me, struct shared *s, uint64_t seed)
{
    struct random r = {.state = seed};
    struct queue *q;

    if (open_with(&q, true, 0) < 0)
        _exit(8);
    for (;;) {
        const uint64_t what = random_below(&r, 10);

        if (what < 6)
            put_some(q, me, s, &r);
        else if (what < 9)
            remove_some(q, s, &r);
        else if (queue_refresh(q) < 0 || queue_compact(q, SEGMENT) == -EIO)
            _exit(9);
        if (reports > 0)
            _exit(10);
    }
}

/* The records of each process are there without a gap, up to the last
 * acknowledged. */
static void
check_records(struct shared *s)
{
    struct queue *q = open_queue();
    uint64_t last[PROCESSES] = {0}, key;
    const uint8_t *bytes;
    size_t size;

    assert_rc(queue_remove_unfinished(q), 0);
    for (uint64_t id = 0; (id = queue_next(q, id)) != 0;) {
        uint64_t p;

        assert_rc(queue_read(q, id, &bytes, &size), 0);
        memcpy(&key, bytes, sizeof key);
        p = key >> 32;
        key &= UINT32_MAX;
        assert_true(last[p] > 0 ? key == last[p] + 1 : key > s->removed[p]);
        last[p] = key;
    }
    for (uint64_t p = 0; p < PROCESSES; p++) {
        assert_true(last[p] == 0 || last[p] >= s->acked[p]);
        s->acked[p] = s->begun[p] = last[p] > 0 ? last[p] : s->begun[p];
    }
    queue_close(q);
    assert_int_equal(reports, 0);
}

CASE(processes_that_are_killed_lose_and_double_nothing)
{
    struct random r = {random_seed(__func__)};
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[PROCESSES];
    int status;

    assert_ptr_not_equal(s, MAP_FAILED);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t p = 0; p < PROCESSES; p++) {
            const uint64_t seed = random_next(&r) | 1;

            (void)fflush(stdout);
            pids[p] = fork();
            assert_true(pids[p] >= 0);
            if (pids[p] == 0)
                work(p, s, seed);
        }
        for (int p = 0; p < PROCESSES; p++) {
            (void)poll(NULL, 0, (int)random_below(&r, 30)); /* when to kill */
            assert_int_equal(kill(pids[p], SIGKILL), 0);
            assert_int_equal(waitpid(pids[p], &status, 0), pids[p]);
            if (!WIFSIGNALED(status))
                fail_msg("a process ended with %d", WEXITSTATUS(status));
        }
        check_records(s);
    }
    assert_true(s->acked[0] + s->acked[1] > 0);
    assert_int_equal(munmap(s, sizeof *s), 0);
}
