/* tests/unit/test_sequence.c - sequence numbers through HTTP, in one process:
 * what crashes, clocks, disks and damage do to them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "tests/lib/capture.h"
#include "tests/lib/echo.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/tmpdir.h"
#include "writer/sequence.h"

#define NAME     "sequence-2-1"
#define HEAD     "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-length: "
#define HEAD_ONE HEAD "17\r\n\r\n"
#define BUSY                                                                   \
    "HTTP/1.1 503 Service Unavailable\r\nConnection: keep-alive\r\n"           \
    "Content-length: 19\r\n\r\nService Unavailable"
#define MARK_SIZE 44
#define DAY_MS    INT64_C(86400000)

struct fixture {
    struct tmpdir dir;
    struct echo *f;
    struct http_site site;
    struct sequence s;
    int fd;
    struct sequence_parts last;
    int64_t step_ms;   /* of the clock, by the test */
    int64_t passed_ms; /* on the clock, in place of waiting */
};

static uint64_t
now_s(void)
{
    return clock_unix_ms() / 1000;
}

/* Sets the clock this far from the true time, and what has passed since. */
static void
set_clock(struct fixture *r, int64_t step_ms)
{
    r->step_ms = step_ms;
    fault_clock(r->step_ms + r->passed_ms);
    if (r->f)
        echo_turns(r->f, 1);
}

static int
try_start(struct fixture *r)
{
    int rc;

    r->site.count = 0;
    r->f = echo_new();
    rc = sequence_open(&r->s, r->f->loop, r->dir.fd, 2, 1);
    if (rc < 0) {
        echo_free(r->f);
        r->f = NULL;
        return rc;
    }
    http_site_add(&r->site, sequence_routes, sequence_route_count, &r->s,
                  TOKENS_QUOTA);
    r->f->rows[ECHO].protocol = &http_protocol;
    r->f->rows[ECHO].ctx = &r->site;
    echo_start(r->f);
    r->fd = echo_join(r->f, ECHO);
    return 0;
}

/* Starts, and lets the clock reach the second that the first number waits for,
 * and not one more. */
static void
start_numbers(struct fixture *r)
{
    const uint64_t now = now_s();

    assert_rc(try_start(r), 0);
    if (r->s.second > now && r->s.second <= now + SEQUENCE_WAIT_S) {
        r->passed_ms += 1000 * (int64_t)(r->s.second - now);
        set_clock(r, r->step_ms);
    }
}

/* Nothing is written at the end: this is a crash, too. */
static void
stop_numbers(struct fixture *r)
{
    if (!r->f)
        return;
    conns_fini(r->f->conns);
    r->f->conns = NULL;
    sequence_close(&r->s);
    echo_free(r->f);
    r->f = NULL;
}

static void
set_up(struct fixture *r)
{
    diag_init("test", DIAG_ERROR);
    tmpdir_make(&r->dir);
}

static void
tear_down(struct fixture *r)
{
    fault_clear();
    stop_numbers(r);
    tmpdir_remove(&r->dir);
}

#define CASE(name, r) TEST_WITH(name, struct fixture, r, set_up, tear_down)

/* What a start says. */
static const char *
start_and_hear(struct fixture *r)
{
    static struct capture said;

    capture_start(&said);
    start_numbers(r);
    return capture_stop(&said);
}

/* ---- numbers ------------------------------------------------------------ */

static void
ask_for(struct fixture *r, const char *target)
{
    char text[128];

    (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n\r\n", target);
    echo_say(r->fd, text, strlen(text));
}

static int
compare_numbers(const struct sequence_parts *a, const struct sequence_parts *b)
{
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return a->serial < b->serial ? -1 : a->serial > b->serial;
}

/* A line of an answer is a number above all before. */
static void
check_number(struct fixture *r, const uint8_t *line)
{
    struct sequence_parts p;

    assert_memory_equal(line, "aR201", 5);
    assert_true(sequence_parse((const char *)line, SEQUENCE_SIZE, &p));
    assert_int_equal(line[SEQUENCE_SIZE], '\n');
    assert_true(p.serial > 0);
    assert_true(compare_numbers(&r->last, &p) < 0);
    r->last = p;
}

static void
fetch_number(struct fixture *r)
{
    const size_t head = strlen(HEAD_ONE);

    ask_for(r, "/fetch");
    echo_hear_size(r->f, r->fd, head + SEQUENCE_LINE_SIZE);
    assert_memory_equal(r->f->heard, HEAD_ONE, head);
    check_number(r, r->f->heard + head);
}

CASE(numbers_are_of_the_second_and_the_serial_goes_on, r)
{
    const uint64_t before = now_s();

    start_numbers(r);
    for (uint64_t serial = 1; serial < 10; serial++) {
        fetch_number(r);
        assert_int_equal(r->last.serial, serial);
        assert_in_range(r->last.second, before, now_s());
    }
    set_clock(r, 2000);
    fetch_number(r);
    assert_int_equal(r->last.serial, 10);
    assert_true(r->last.second >= before + 2);
}

CASE(many_are_given_at_once, r)
{
    const size_t size = SEQUENCE_COUNT_MAX * SEQUENCE_LINE_SIZE;
    const char *head = HEAD "69632\r\n\r\n";

    start_numbers(r);
    ask_for(r, "/fetch?n=4096");
    echo_hear_size(r->f, r->fd, strlen(head) + size);
    assert_memory_equal(r->f->heard, head, strlen(head));
    for (size_t i = 0; i < SEQUENCE_COUNT_MAX; i++)
        check_number(r, r->f->heard + strlen(head) + i * SEQUENCE_LINE_SIZE);
    fetch_number(r);
}

/* ---- crashes and clocks ------------------------------------------------- */

CASE(restarts_within_a_second_never_step_back, r)
{
    for (unsigned i = 0; i < 100; i++) {
        start_numbers(r);
        fetch_number(r);
        fetch_number(r);
        assert_true(r->last.second <= now_s()); /* never ahead of the clock */
        stop_numbers(r);
    }
}

/* Else they would add up, and a start would wait for them. */
CASE(restarts_without_a_number_leave_the_mark_where_it_is, r)
{
    uint64_t before;

    start_numbers(r);
    fetch_number(r);
    stop_numbers(r);
    before = now_s();
    for (unsigned i = 0; i < 50; i++) {
        assert_rc(try_start(r), 0);
        stop_numbers(r);
    }
    start_numbers(r);
    assert_true(r->s.second <= now_s());
    assert_true(now_s() <= before + SEQUENCE_AHEAD_S + 3);
    fetch_number(r);
}

CASE(a_clock_that_steps_goes_unnoticed, r)
{
    static const int64_t steps[] = {0,       -1500,      3000,  -DAY_MS,
                                    DAY_MS,  -3600000,   -2,    2 * DAY_MS,
                                    -DAY_MS, 3 * DAY_MS, 999999};

    for (int restarted = 0; restarted < 2; restarted++) {
        start_numbers(r);
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            set_clock(r, steps[i] + restarted * 7 * DAY_MS);
            fetch_number(r);
            if (restarted) {
                stop_numbers(r);
                start_numbers(r);
                fetch_number(r);
            }
        }
        stop_numbers(r);
    }
}

CASE(a_clock_far_behind_is_an_error_that_is_said, r)
{
    start_numbers(r);
    fetch_number(r);
    stop_numbers(r);
    set_clock(r, -2 * 3600 * 1000);
    assert_has(start_and_hear(r), "seconds behind the sequence");
    fetch_number(r);
}

CASE(when_serials_end_they_begin_again_in_a_new_second, r)
{
    const size_t head = strlen(HEAD "170\r\n\r\n");
    uint64_t second;

    fault_stop_clock();
    start_numbers(r);
    fetch_number(r);
    for (unsigned i = 0; i < 20; i++) {
        r->s.serial = SEQUENCE_SERIAL_MAX - i % 12;
        r->last.serial = r->s.serial;
        second = r->last.second;
        ask_for(r, "/fetch?n=10");
        /* Time goes on only as far as it must. */
        echo_turns(r->f, 1);
        if (i % 12 < 10) {
            assert_true(second <= now_s());
            if (second == now_s())
                r->passed_ms += 1000;
            fault_pass_ns((i + 1) * UINT64_C(1000000000));
            set_clock(r, 0);
        }
        echo_hear_size(r->f, r->fd, head + 10 * SEQUENCE_LINE_SIZE);
        for (size_t n = 0; n < 10; n++)
            check_number(r, r->f->heard + head + n * SEQUENCE_LINE_SIZE);
        if (i % 12 < 10) {
            assert_int_equal(r->last.serial, 10);
            assert_true(r->last.second > second);
        }
        /* No number of a second that is not promised. */
        assert_true(r->last.second < r->s.until);
        assert_true(r->last.second <= now_s());
    }
}

/* ---- the disk ----------------------------------------------------------- */

CASE(no_number_leaves_before_the_mark_is_durable, r)
{
    static const char *const calls[] = {"pwrite", "fdatasync"};

    fault_stop_clock();
    start_numbers(r);
    fetch_number(r);
    for (unsigned i = 0; i < 2; i++) {
        /* The clock is past the mark, and the mark cannot be moved. */
        fault_inject_from(calls[i], 1, EIO);
        set_clock(r, (i + 1) * DAY_MS);
        ask_for(r, "/fetch");
        echo_hear(r->f, r->fd, BUSY);
        ask_for(r, "/fetch");
        echo_hear(r->f, r->fd, BUSY);
        assert_true(fault_hit());
        fault_clear();
        set_clock(r, (i + 1) * DAY_MS);
        fault_pass_ns((i + 1) * UINT64_C(2000000000));
        echo_turns(r->f, 1);
        fetch_number(r);
    }
}

static void
wait_for_move(struct fixture *r)
{
    while (r->s.moving)
        echo_turns(r->f, 1);
}

CASE(the_mark_moves_on_while_it_is_of_use_and_only_then, r)
{
    const uint64_t idle_s = SEQUENCE_IDLE_MS / 1000;
    uint64_t moves = 0, waited;

    fault_stop_clock();
    start_numbers(r);
    fetch_number(r);
    waited = r->s.stats.waited;
    for (uint64_t i = 1; i <= 2 * idle_s; i++) {
        set_clock(r, (int64_t)i * 1000);
        fault_pass_ns(UINT64_C(1001000000));
        echo_turns(r->f, 2);
        wait_for_move(r);
        if (i == 3) {
            fetch_number(r); /* which needed not wait */
            assert_int_equal(r->s.stats.waited, waited);
        }
        if (i == idle_s + 6)
            moves = r->s.stats.moves;
    }
    assert_true(moves > idle_s / 2);
    assert_int_equal(r->s.stats.moves, moves);
    fetch_number(r);
    assert_true(r->s.stats.waited > waited);
}

CASE(a_disk_that_fails_at_the_start_is_an_error_that_leaves_nothing_open, r)
{
    struct sequence_mark m;
    bool hit = true;

    assert_rc(sequence_mark_open(&m, r->dir.fd, 2, 1), 0);
    assert_rc(sequence_mark_move(&m, 7), 0);
    sequence_mark_close(&m);
    for (unsigned n = 1; hit; n++) {
        const unsigned before = fault_open_fds();
        struct capture said;
        int rc;

        capture_start(&said);
        fault_inject("disk", n, EIO);
        rc = sequence_mark_open(&m, r->dir.fd, 2, 1);
        sequence_mark_close(&m);
        hit = fault_hit();
        fault_clear();
        assert_int_equal(strlen(capture_stop(&said)) > 0, hit && rc < 0);
        if (rc == 0)
            assert_int_equal(m.until, 7);
        else
            assert_rc(rc, -EIO);
        assert_int_equal(fault_open_fds(), before);
    }
}

/* Whatever call of a move fails, the file has the old mark or the new one. */
CASE(a_move_that_fails_leaves_one_mark_or_the_other, r)
{
    struct sequence_mark m, found;
    bool hit = true;

    assert_rc(sequence_mark_open(&m, r->dir.fd, 2, 1), 0);
    assert_rc(sequence_mark_move(&m, 1), 0);
    for (unsigned n = 1; hit; n++) {
        const unsigned before = fault_open_fds();
        const uint64_t until = m.until;
        int rc;

        fault_inject("disk", n, EIO);
        rc = sequence_mark_move(&m, until + 1);
        hit = fault_hit();
        fault_clear();
        assert_int_equal(fault_open_fds(), before);
        assert_rc(sequence_mark_open(&found, r->dir.fd, 2, 1), 0);
        sequence_mark_close(&found);
        assert_int_equal(m.until, rc == 0 ? until + 1 : until);
        assert_in_range(found.until, m.until, until + 1);
    }
    sequence_mark_close(&m);
}

/* ---- damage ------------------------------------------------------------- */

/* The mark of a start that has given a number and stopped. */
static void
load_mark(struct fixture *r, uint8_t mark[MARK_SIZE + 1])
{
    start_numbers(r);
    fetch_number(r);
    stop_numbers(r);
    assert_int_equal(
        file_read(file_path(r->dir.path, NAME), mark, MARK_SIZE + 1),
        MARK_SIZE);
}

static void
store_mark(const struct fixture *r, const uint8_t *mark)
{
    file_write(file_path(r->dir.path, NAME), 0, mark, MARK_SIZE);
}

/* Opens the mark for a moment; what is said of it is in *said. */
static int
try_mark(struct fixture *r, struct sequence_mark *m, const char **said)
{
    static struct capture c;
    int rc;

    capture_start(&c);
    rc = sequence_mark_open(m, r->dir.fd, 2, 1);
    sequence_mark_close(m);
    *said = capture_stop(&c);
    return rc;
}

static void
expect_refused(struct fixture *r)
{
    ask_for(r, "/fetch");
    echo_hear(r->f, r->fd, BUSY);
    ask_for(r, "/explain?sequence=00");
    echo_hear_size(r->f, r->fd, strlen(HEAD_ONE));
    assert_memory_equal(r->f->heard, HEAD, strlen(HEAD));
}

CASE(one_flipped_bit_is_damage_that_is_reported, r)
{
    uint8_t good[MARK_SIZE + 1], bad[MARK_SIZE];
    struct sequence_mark m;
    const char *said;

    load_mark(r, good);
    for (size_t bit = 0; bit < (size_t)MARK_SIZE * 8; bit++) {
        memcpy(bad, good, sizeof bad);
        bad[bit / 8] ^= (uint8_t)(1 << bit % 8);
        store_mark(r, bad);
        assert_rc(try_mark(r, &m, &said), -EBADMSG);
        assert_has(said, "damaged");
    }
    assert_has(start_and_hear(r), "damaged");
    expect_refused(r);
    stop_numbers(r);
    store_mark(r, good);
    start_numbers(r);
    fetch_number(r);
}

CASE(a_mark_that_ends_anywhere_is_damage, r)
{
    uint8_t good[MARK_SIZE + 1];
    struct sequence_mark m;
    const char *said;

    load_mark(r, good);
    for (size_t size = 0; size <= MARK_SIZE; size++) {
        assert_int_equal(unlinkat(r->dir.fd, NAME, 0), 0);
        tmpdir_put(&r->dir, NAME, good, size, 0600);
        assert_rc(try_mark(r, &m, &said),
                  size > 0 && size < MARK_SIZE ? -EBADMSG : 0);
    }
}

/* ---- an older state ----------------------------------------------------- */

/* Put over the file or in its place, or deleted. */
CASE(an_older_mark_or_none_after_many_restarts_repeats_no_number, r)
{
    uint8_t old[MARK_SIZE + 1];

    load_mark(r, old);
    for (unsigned i = 0; i < 60; i++) {
        start_numbers(r);
        fetch_number(r);
        stop_numbers(r);
        if (i % 4 == 1)
            store_mark(r, old);
        if (i % 4 > 1)
            assert_int_equal(unlinkat(r->dir.fd, NAME, 0), 0);
        if (i % 4 == 2)
            tmpdir_put(&r->dir, NAME, old, MARK_SIZE, 0600);
    }
}
