/* tests/unit/test_sequence.c - sequence numbers through HTTP, in one process:
 * what crashes, clocks, disks and damage do to them. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/crc.h"
#include "common/base/diag.h"
#include "tests/lib/capture.h"
#include "tests/lib/echo.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"
#include "writer/sequence.h"

#define NAME     "sequence-2-1"
#define HEAD     "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-length: "
#define HEAD_ONE HEAD "17\r\n\r\n"
#define BUSY                                                                   \
    "HTTP/1.1 503 Service Unavailable\r\nConnection: keep-alive\r\n"           \
    "Content-length: 19\r\n\r\nService Unavailable"
#define COPY_SIZE 64
#define DAY_MS    INT64_C(86400000)

struct rig {
    struct tmpdir dir;
    struct echo *f;
    struct http_site site;
    struct sequence s;
    int fd;
    struct sequence_parts last;
};

static int
try_start(struct rig *r)
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
    http_site_add(&r->site, sequence_routes, sequence_route_count, &r->s);
    r->f->rows[ECHO].protocol = &http_protocol;
    r->f->rows[ECHO].ctx = &r->site;
    echo_start(r->f);
    r->fd = echo_join(r->f, ECHO);
    return 0;
}

static void
start(struct rig *r)
{
    assert_rc(try_start(r), 0);
}

/* Nothing is written at the end: this is a crash, too. */
static void
stop(struct rig *r)
{
    if (!r->f)
        return;
    conns_fini(r->f->conns);
    r->f->conns = NULL;
    sequence_close(&r->s);
    echo_free(r->f);
    r->f = NULL;
}

static int
setup(void **state)
{
    struct rig *r = calloc(1, sizeof *r);

    assert_non_null(r);
    diag_init("test", DIAG_ERROR);
    tmpdir_make(&r->dir);
    *state = r;
    return 0;
}

static int
teardown(void **state)
{
    struct rig *r = *state;

    fault_clear();
    stop(r);
    tmpdir_remove(&r->dir);
    free(r);
    return 0;
}

/* ---- numbers ------------------------------------------------------------ */

static void
ask(struct rig *r, const char *target)
{
    char text[128];

    (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n\r\n", target);
    echo_say(r->fd, text, strlen(text));
}

static int
compare(const struct sequence_parts *a, const struct sequence_parts *b)
{
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return a->serial < b->serial ? -1 : a->serial > b->serial;
}

/* A line of an answer is a number above all before. */
static void
check(struct rig *r, const uint8_t *line)
{
    struct sequence_parts p;

    assert_memory_equal(line, "aR201", 5);
    assert_true(sequence_parse((const char *)line, SEQUENCE_SIZE, &p));
    assert_int_equal(line[SEQUENCE_SIZE], '\n');
    assert_true(p.serial > 0);
    assert_true(compare(&r->last, &p) < 0);
    r->last = p;
}

static void
fetch(struct rig *r)
{
    const size_t head = strlen(HEAD_ONE);

    ask(r, "/fetch");
    echo_hear_size(r->f, r->fd, head + SEQUENCE_LINE_SIZE);
    assert_memory_equal(r->f->heard, HEAD_ONE, head);
    check(r, r->f->heard + head);
}

static uint64_t
now_s(void)
{
    return clock_unix_ms() / 1000;
}

static void
numbers_are_of_the_second_and_the_serial_goes_on(void **state)
{
    struct rig *r = *state;
    const uint64_t before = now_s();

    start(r);
    for (uint64_t serial = 1; serial < 10; serial++) {
        fetch(r);
        assert_int_equal(r->last.serial, serial);
        assert_in_range(r->last.second, before, now_s());
    }
    fault_clock(2000);
    fetch(r);
    assert_int_equal(r->last.serial, 10);
    assert_true(r->last.second >= before + 2);
}

static void
many_are_given_at_once(void **state)
{
    struct rig *r = *state;
    const size_t size = SEQUENCE_COUNT_MAX * SEQUENCE_LINE_SIZE;
    const char *head = HEAD "69632\r\n\r\n";

    start(r);
    ask(r, "/fetch?n=4096");
    echo_hear_size(r->f, r->fd, strlen(head) + size);
    assert_memory_equal(r->f->heard, head, strlen(head));
    for (size_t i = 0; i < SEQUENCE_COUNT_MAX; i++)
        check(r, r->f->heard + strlen(head) + i * SEQUENCE_LINE_SIZE);
    fetch(r);
}

static void
another_number_of_them_is_refused(void **state)
{
    static const char *const bad[] = {
        "/fetch?n=0",  "/fetch?n=4097", "/fetch?n=",
        "/fetch?n=-1", "/fetch?n=1x",   "/fetch?n=99999999999999999999"};
    struct rig *r = *state;

    start(r);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ask(r, bad[i]);
        echo_hear(r->f, r->fd,
                  "HTTP/1.1 400 Bad Request\r\nConnection: keep-alive\r\n"
                  "Content-length: 11\r\n\r\nBad Request");
    }
}

/* ---- crashes and clocks ------------------------------------------------- */

static void
restarts_within_a_second_never_step_back(void **state)
{
    struct rig *r = *state;
    const uint64_t before = now_s();
    const unsigned restarts = 100;

    for (unsigned i = 0; i < restarts; i++) {
        start(r);
        fetch(r);
        fetch(r);
        stop(r);
    }
    /* The first may be 5 seconds ahead, each more within a second one. */
    assert_true(r->last.second <= before + SEQUENCE_AHEAD_S + restarts);
    fault_clock(1000 * 1000);
    start(r);
    fetch(r);
    assert_in_range(r->last.second, before + 1000, now_s());
}

static void
a_crash_before_any_number_leaves_what_was_promised(void **state)
{
    struct rig *r = *state;

    start(r);
    fetch(r);
    stop(r);
    for (int i = 0; i < 3; i++) {
        start(r);
        stop(r);
    }
    start(r);
    fetch(r);
}

static void
a_clock_that_steps_goes_unnoticed(void **state)
{
    static const int64_t steps[] = {0,       -1500,      3000,  -DAY_MS,
                                    DAY_MS,  -3600000,   -2,    2 * DAY_MS,
                                    -DAY_MS, 3 * DAY_MS, 999999};
    struct rig *r = *state;

    for (int restarted = 0; restarted < 2; restarted++) {
        start(r);
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            fault_clock(steps[i] + restarted * 7 * DAY_MS);
            fetch(r);
            if (restarted) {
                stop(r);
                start(r);
                fetch(r);
            }
        }
        stop(r);
    }
}

static void
a_clock_far_behind_is_an_error_that_is_said(void **state)
{
    struct rig *r = *state;
    struct capture said;

    start(r);
    fetch(r);
    stop(r);
    fault_clock(-2 * 3600 * 1000);
    capture_start(&said);
    start(r);
    assert_non_null(strstr(capture_stop(&said), "seconds behind the sequence"));
    fetch(r);
}

static void
when_serials_end_the_second_goes_on(void **state)
{
    struct rig *r = *state;
    const size_t head = strlen(HEAD "170\r\n\r\n");
    uint64_t second;

    start(r);
    fetch(r);
    for (unsigned i = 0; i < 20; i++) {
        r->s.serial = SEQUENCE_SERIAL_MAX - i % 12;
        r->last.serial = r->s.serial;
        second = r->last.second;
        ask(r, "/fetch?n=10");
        echo_hear_size(r->f, r->fd, head + 10 * SEQUENCE_LINE_SIZE);
        for (size_t n = 0; n < 10; n++)
            check(r, r->f->heard + head + n * SEQUENCE_LINE_SIZE);
        if (i % 12 < 10) {
            assert_int_equal(r->last.serial, 10 - i % 12);
            assert_true(r->last.second > second);
        }
        /* No number of a second that is not promised. */
        assert_true(r->last.second < r->s.mark.until);
    }
}

/* ---- the disk ----------------------------------------------------------- */

static void
no_number_leaves_before_both_copies_are_durable(void **state)
{
    static const char *const calls[] = {"pwrite", "fdatasync"};
    struct rig *r = *state;

    start(r);
    fetch(r);
    for (unsigned i = 0; i < 4; i++) {
        /* The clock is past the mark, and the mark cannot be moved. */
        fault_inject_from(calls[i % 2], 1 + i / 2, EIO);
        fault_clock((i + 1) * DAY_MS);
        echo_turns(r->f, 1);
        ask(r, "/fetch");
        echo_hear(r->f, r->fd, BUSY);
        ask(r, "/fetch");
        echo_hear(r->f, r->fd, BUSY);
        assert_true(fault_hit());
        fault_clear();
        fault_clock((i + 1) * DAY_MS);
        fault_pass_ns((i + 1) * UINT64_C(2000000000));
        echo_turns(r->f, 1);
        fetch(r);
    }
}

static void
wait_for_move(struct rig *r)
{
    while (r->s.moving)
        echo_turns(r->f, 1);
}

static void
the_mark_moves_on_while_it_is_of_use_and_only_then(void **state)
{
    struct rig *r = *state;
    const uint64_t steps = SEQUENCE_IDLE_MS / SEQUENCE_RENEW_MS + 4;
    uint64_t moves = 0, waited;

    start(r);
    fetch(r);
    waited = r->s.figures.waited;
    for (unsigned i = 1; i <= 2 * steps; i++) {
        fault_clock(i * SEQUENCE_RENEW_MS);
        fault_pass_ns(SEQUENCE_RENEW_MS * UINT64_C(1000000));
        echo_turns(r->f, 2);
        wait_for_move(r);
        if (i == 3) {
            fetch(r); /* which needed not wait */
            assert_int_equal(r->s.figures.waited, waited);
        }
        if (i == steps)
            moves = r->s.figures.moves;
    }
    assert_true(moves > SEQUENCE_IDLE_MS / SEQUENCE_RENEW_MS / 2);
    assert_true(r->s.figures.moves <= moves + 2);
    fetch(r);
    assert_true(r->s.figures.waited > waited);
}

static void
a_disk_that_fails_at_the_start_is_an_error_that_leaves_nothing_open(
    void **state)
{
    struct rig *r = *state;
    bool hit = true;

    for (unsigned n = 1; hit; n++) {
        struct sequence_mark m;
        const unsigned before = fault_open_fds();
        struct capture said;
        int rc;

        capture_start(&said);
        fault_inject("disk", n, EIO);
        rc = sequence_mark_open(&m, r->dir.fd, 2, 1);
        hit = fault_hit();
        fault_clear();
        assert_int_equal(strlen(capture_stop(&said)) > 0, hit);
        assert_rc(rc, hit ? -EIO : 0);
        if (rc == 0)
            sequence_mark_close(&m);
        assert_int_equal(fault_open_fds(), before);
        if (n % 2 == 0) /* made afresh, or found */
            (void)unlinkat(r->dir.fd, NAME, 0);
    }
}

static void
two_processes_never_have_one_mark(void **state)
{
    struct rig *r = *state;
    struct sequence_mark other;

    start(r);
    assert_rc(sequence_mark_open(&other, r->dir.fd, 2, 1), -EBUSY);
    assert_rc(sequence_mark_open(&other, r->dir.fd, 2, 2), 0);
    sequence_mark_close(&other);
    stop(r);
    assert_rc(sequence_mark_open(&other, r->dir.fd, 2, 1), 0);
    assert_rc(try_start(r), -EBUSY);
    sequence_mark_close(&other);
}

/* ---- damage ------------------------------------------------------------- */

static void
load(const struct rig *r, uint8_t copies[2][COPY_SIZE])
{
    const int fd = openat(r->dir.fd, NAME, O_RDONLY);

    assert_true(fd >= 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pread(fd, copies[i], COPY_SIZE, i * 4096), COPY_SIZE);
    assert_int_equal(close(fd), 0);
}

static void
store(const struct rig *r, uint8_t copies[2][COPY_SIZE])
{
    const int fd = openat(r->dir.fd, NAME, O_WRONLY);

    assert_true(fd >= 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pwrite(fd, copies[i], COPY_SIZE, i * 4096), COPY_SIZE);
    assert_int_equal(close(fd), 0);
}

/* What the mark of the file promises, or an error. */
static int64_t
promised(const struct rig *r, bool *told)
{
    struct sequence_mark m;
    struct capture said;
    int rc;

    diag_init("test", DIAG_WARNING);
    capture_start(&said);
    rc = sequence_mark_open(&m, r->dir.fd, 2, 1);
    *told = strstr(capture_stop(&said), "damaged") != NULL;
    diag_init("test", DIAG_ERROR);
    if (rc < 0)
        return rc;
    sequence_mark_close(&m);
    return (int64_t)m.until;
}

static void
one_flipped_bit_is_told_and_steps_nothing_back(void **state)
{
    struct rig *r = *state;
    uint8_t good[2][COPY_SIZE], bad[2][COPY_SIZE];
    int64_t until;
    bool told;

    start(r);
    fetch(r);
    stop(r);
    until = promised(r, &told);
    assert_false(told);
    assert_true(until > (int64_t)r->last.second);
    load(r, good);
    for (size_t bit = 0; bit < (size_t)2 * COPY_SIZE * 8; bit++) {
        memcpy(bad, good, sizeof bad);
        bad[bit / 8 / COPY_SIZE][bit / 8 % COPY_SIZE] ^=
            (uint8_t)(1 << bit % 8);
        store(r, bad);
        assert_int_equal(promised(r, &told), until);
        assert_true(told);
    }
    start(r);
    fetch(r); /* and it is whole again */
    stop(r);
    assert_true(promised(r, &told) > until);
    assert_false(told);
}

static void
with_both_copies_damaged_no_number_is_given(void **state)
{
    struct rig *r = *state;
    uint8_t copies[2][COPY_SIZE];
    struct capture said;
    bool told;

    start(r);
    fetch(r);
    stop(r);
    load(r, copies);
    copies[0][24] ^= 1;
    copies[1][60] ^= 1;
    store(r, copies);
    assert_rc(promised(r, &told), -EBADMSG);
    assert_true(told);
    capture_start(&said);
    start(r);
    (void)capture_stop(&said); /* other tests look at that */
    ask(r, "/fetch");
    echo_hear(r->f, r->fd, BUSY);
    ask(r, "/explain?sequence=00");
    echo_hear_size(r->f, r->fd, strlen(HEAD_ONE));
    assert_memory_equal(r->f->heard, HEAD, strlen(HEAD));
}

static void
a_move_that_was_cut_short_is_whole_enough(void **state)
{
    struct rig *r = *state;
    uint8_t before[2][COPY_SIZE], after[2][COPY_SIZE], torn[2][COPY_SIZE];
    int64_t until;
    bool told;

    start(r);
    fetch(r);
    load(r, before);
    fault_clock(DAY_MS);
    echo_turns(r->f, 1);
    fetch(r);
    stop(r);
    load(r, after);
    for (size_t cut = 0; cut <= COPY_SIZE; cut++) {
        /* The first is being written, the second is not yet. */
        memcpy(torn, before, sizeof torn);
        memcpy(torn[0], after[0], cut);
        store(r, torn);
        until = promised(r, &told);
        assert_true(until == (int64_t)get_le64(before[0] + 24) ||
                    until == (int64_t)get_le64(after[0] + 24));
        /* The first is durable: its promise may have been kept. */
        memcpy(torn[0], after[0], COPY_SIZE);
        memcpy(torn[1], after[1], cut);
        memcpy(torn[1] + cut, before[1] + cut, COPY_SIZE - cut);
        store(r, torn);
        assert_int_equal(promised(r, &told), get_le64(after[0] + 24));
    }
}

/* ---- an older state ----------------------------------------------------- */

static void
expect_replaced(struct rig *r, bool expected)
{
    struct capture said;
    const char *text;

    diag_init("test", DIAG_WARNING);
    capture_start(&said);
    start(r);
    text = capture_stop(&said);
    diag_init("test", DIAG_ERROR);
    assert_int_equal(strstr(text, "put in place of another") != NULL, expected);
}

static void
an_older_state_in_a_file_of_its_own_is_told(void **state)
{
    struct rig *r = *state;
    uint8_t old[2][COPY_SIZE];
    static uint8_t file[8192];

    start(r);
    fetch(r);
    load(r, old);
    fault_clock(3000);
    echo_turns(r->f, 1);
    fetch(r);
    stop(r);
    expect_replaced(r, false);
    fetch(r);
    stop(r);
    memcpy(file, old[0], COPY_SIZE);
    memcpy(file + 4096, old[1], COPY_SIZE);
    tmpdir_put(&r->dir, "copy", file, sizeof file, 0600);
    assert_int_equal(renameat(r->dir.fd, "copy", r->dir.fd, NAME), 0);
    expect_replaced(r, true);
    fetch(r); /* above all that were given */
    assert_true(r->last.second >= now_s() + SEQUENCE_AHEAD_S - 1);
    stop(r);
}

static void
an_older_state_over_the_same_file_is_told(void **state)
{
    struct rig *r = *state;
    uint8_t old[2][COPY_SIZE];

    fault_clock(-3600 * 1000);
    start(r);
    fetch(r);
    load(r, old);
    fault_clock(-4000);
    echo_turns(r->f, 1);
    fetch(r);
    stop(r);
    fault_clock(0);
    store(r, old);
    expect_replaced(r, true);
    fetch(r);
}

static void
with_an_older_state_and_a_clock_behind_it_no_number_is_given(void **state)
{
    struct rig *r = *state;
    uint8_t old[2][COPY_SIZE];
    static uint8_t file[8192];
    struct capture said;

    start(r);
    fetch(r);
    load(r, old);
    stop(r);
    memcpy(file, old[0], COPY_SIZE);
    memcpy(file + 4096, old[1], COPY_SIZE);
    tmpdir_put(&r->dir, "copy", file, sizeof file, 0600);
    assert_int_equal(renameat(r->dir.fd, "copy", r->dir.fd, NAME), 0);
    fault_clock(-DAY_MS);
    capture_start(&said);
    start(r);
    (void)capture_stop(&said); /* other tests look at that */
    ask(r, "/fetch");
    echo_hear(r->f, r->fd, BUSY);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    T(numbers_are_of_the_second_and_the_serial_goes_on),
    T(many_are_given_at_once),
    T(another_number_of_them_is_refused),
    T(restarts_within_a_second_never_step_back),
    T(a_crash_before_any_number_leaves_what_was_promised),
    T(a_clock_that_steps_goes_unnoticed),
    T(a_clock_far_behind_is_an_error_that_is_said),
    T(when_serials_end_the_second_goes_on),
    T(no_number_leaves_before_both_copies_are_durable),
    T(the_mark_moves_on_while_it_is_of_use_and_only_then),
    T(a_disk_that_fails_at_the_start_is_an_error_that_leaves_nothing_open),
    T(two_processes_never_have_one_mark),
    T(one_flipped_bit_is_told_and_steps_nothing_back),
    T(with_both_copies_damaged_no_number_is_given),
    T(a_move_that_was_cut_short_is_whole_enough),
    T(an_older_state_in_a_file_of_its_own_is_told),
    T(an_older_state_over_the_same_file_is_told),
    T(with_an_older_state_and_a_clock_behind_it_no_number_is_given),
};
TEST_MAIN(tests)
