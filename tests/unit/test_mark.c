/* tests/unit/test_mark.c - common/log/mark.h: the marks of requests with an
 * Idempotency-Key in a log, and what recovery does with them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/log_fixture.h"

#include "common/log/archive.h"
#include "common/log/inspect.h"
#include "common/log/log_recover.h"
#include "common/log/mark.h"
#include "common/log/requests.h"

#define MARKED_GOLDEN "tests/golden/log-v1-marks"
#define MARKED_SLOTS  12
#define MARKED_SIZE   88 /* 8 + 8 + 48 + 24 */
#define MARKED_FILE   (LOG_SLOTS_AT + MARKED_SLOTS * MARKED_SIZE)

static struct layout
marked_layout(void)
{
    struct layout l;

    assert_rc(layout_init(&l, 8, 48), 0);
    assert_int_equal(l.slot_size, MARKED_SIZE);
    return l;
}

static struct request_mark
mark_of(unsigned number, uint32_t count)
{
    struct request_mark mark = {.body = UINT64_C(0xfedcba9876543210) + number,
                                .count = count};

    for (unsigned i = 0; i < MARK_HASH_SIZE; i++)
        mark.hash[i] = (uint8_t)(number + 17 * i);
    return mark;
}

static void
append_slot(struct log *log, const struct message *m, const uint8_t *message)
{
    const struct slot_stamp stamp = {.received_ms =
                                         FIRST_MS + log->header.count};
    uint8_t slot[SLOT_SIZE_MAX] = {0};

    memcpy(slot, message, log->header.layout.message_size);
    slot_put_run(&(struct slot_run){&log->header, log->header.count, 1}, slot,
                 m, &stamp);
    assert_rc(log_append(log, slot, 1, FIRST_MS + log->header.count,
                         FIRST_MS + log->header.count),
              0);
}

/* The mark of a request of `count` increments, and as many of them as `there`.
 */
static void
append_request(struct log *log, unsigned number, uint32_t count, uint32_t there)
{
    const struct request_mark mark = mark_of(number, count);
    uint8_t bytes[MESSAGE_SIZE_MAX];
    struct message m;

    mark_put(&log->header.layout, &mark, bytes, &m);
    append_slot(log, &m, bytes);
    log->header.marks++;
    for (uint32_t i = 0; i < there; i++) {
        m = (struct message){
            1, (const uint8_t *)"s", (const uint8_t *)"k", 1, 1, 0};
        assert_rc(message_put(&log->header.layout, &m, bytes), 0);
        assert_rc(message_parse(&log->header.layout, bytes, &m), 0);
        append_slot(log, &m, bytes);
    }
}

static struct log
begin_marked(int dirfd, uint64_t index)
{
    const struct layout l = marked_layout();
    struct log log;

    assert_rc(log_create(dirfd, index, &l, MARKED_SLOTS), 0);
    assert_rc(log_claim(&log, dirfd, index, LOG_MODE_EMPTY), 0);
    log.takes_marks = true;
    assert_rc(log_begin(&log), 0);
    return log;
}

/* ---- bytes --------------------------------------------------------------- */

TEST(a_mark_is_what_was_put_and_no_client_can_send_one)
{
    const struct layout l = marked_layout();
    const struct request_mark mark = mark_of(3, 4096);
    uint8_t bytes[MESSAGE_SIZE_MAX];
    struct message m;
    struct request_mark got;

    mark_put(&l, &mark, bytes, &m);
    assert_memory_equal(bytes, "\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    assert_memory_equal(bytes + 16,
                        "031425364758697a8b9cadbecfe0f1021332547698badcfe", 48);
    assert_rc(mark_check(&l, bytes, &m), 0);
    assert_true(mark_is(&m));
    mark_get(&m, &got);
    assert_memory_equal(got.hash, mark.hash, MARK_HASH_SIZE);
    assert_int_equal(got.body, mark.body);
    assert_int_equal(got.count, 4096);
    assert_rc(message_parse(&l, bytes, &m), -EBADMSG);
}

TEST(nothing_else_with_an_empty_keyspace_is_a_mark)
{
    static const struct {
        unsigned at;
        uint8_t byte;
    } changes[] = {{4, 1},    {7, 0x80}, {8, 'k'}, {15, 1},
                   {16, 'g'}, {16, 'A'}, {63, 0},  {40, '/'}};
    const struct layout l = marked_layout();
    const struct request_mark mark = mark_of(1, 1);
    uint8_t bytes[MESSAGE_SIZE_MAX];
    struct layout small, large;
    struct message m;

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        mark_put(&l, &mark, bytes, &m);
        bytes[changes[i].at] = changes[i].byte;
        assert_rc(mark_check(&l, bytes, &m), -EBADMSG);
    }
    assert_rc(layout_init(&small, 8, 47), 0);
    assert_false(mark_fits(&small));
    assert_rc(mark_check(&small, bytes, &m), -EBADMSG);
    assert_rc(layout_init(&large, 8, 49), 0);
    mark_put(&large, &mark, bytes, &m);
    bytes[16 + 48] = 'a';
    assert_rc(mark_check(&large, bytes, &m), -EBADMSG);
}

/* ---- recovery ------------------------------------------------------------ */

/* The process that recovers. */
static struct requests requests;

static void
make_requests(const struct tmpdir *d)
{
    assert_int_equal(mkdirat(d->fd, "live", 0700), 0);
    requests_init(&requests, d->fd);
    assert_rc(requests_make(&requests), 0);
}

struct stored {
    struct counted_request last;
    size_t count;
};

static void
take_request(void *ctx, const struct counted_request *q)
{
    struct stored *s = ctx;

    assert_int_equal(q->epoch, 1);
    assert_int_equal(q->at_s, FIRST_MS / 1000);
    s->last = *q;
    s->count++;
}

static struct stored
read_stored(void)
{
    struct stored s = {.count = 0};

    assert_rc(requests_each(&requests, take_request, &s), 0);
    return s;
}

static struct log
claim_full(int dirfd)
{
    struct log log;

    assert_rc(log_claim(&log, dirfd, 0, LOG_MODE_FULL), 0);
    return log;
}

static void
expect_open(void *ctx)
{
    const struct tmpdir *d = ctx;
    struct inspect look;

    assert_rc(inspect_log(d->fd, 0, &look), 0);
    assert_int_equal(look.header.state, LOG_OPEN);
}

/* The slots are synced first, then what was stored. */
IN_TMPDIR(marks_are_stored_before_a_dead_writers_log_is_sealed, d)
{
    struct log log = begin_marked(d->fd, 0);

    append_request(&log, 1, 2, 2);
    append_request(&log, 2, 0, 0);
    append_request(&log, 3, 3, 3);
    log_abandon(&log);

    assert_rc(log_recover(d->fd, 0, NULL), -ENOKEY);
    assert_int_equal(mode_of(d->fd, 0), LOG_MODE_OWNED);
    make_requests(d);
    fault_inject("fdatasync", 2, ENOSPC);
    assert_rc(log_recover(d->fd, 0, &requests), -ENOSPC);
    fault_clear();
    assert_int_equal(mode_of(d->fd, 0), LOG_MODE_OWNED);
    fault_hook("fdatasync", 2, expect_open, d);
    assert_rc(log_recover(d->fd, 0, &requests), 0);
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(read_stored().count, 3);
    assert_memory_equal(read_stored().last.mark.hash, mark_of(3, 3).hash, 16);
    assert_int_equal(read_stored().last.mark.count, 3);
    log = claim_full(d->fd);
    assert_int_equal(log.header.marks, 3);
    assert_int_equal(log.header.features, LOG_HAS_MARKS);
    assert_int_equal(log.header.count, 8);
    assert_rc(log_empty(&log), 0);
    assert_int_equal(log.header.features, 0);
    assert_rc(log_release(&log), 0);
}

/* A request of `count` increments of which `there` were written, behind a
 * whole one or alone. */
static void
check_cut(struct tmpdir *d, bool behind, uint32_t count, uint32_t there)
{
    const size_t stored = read_stored().count;
    const uint32_t before = behind ? 3 : 0;
    const unsigned marks = (behind ? 1u : 0u) + (there == count ? 1u : 0u);
    struct log log = begin_marked(d->fd, 0);

    if (behind)
        append_request(&log, 1, 2, 2);
    append_request(&log, 2, count, there);
    log_abandon(&log);
    assert_rc(log_recover(d->fd, 0, &requests),
              there < count ? (int)there + 1 : 0);
    assert_int_equal(read_stored().count, stored + marks);
    if (marks > 0) {
        log = claim_full(d->fd);
        assert_int_equal(log.header.count,
                         there < count ? before : before + count + 1);
        assert_int_equal(log.header.last_ms, FIRST_MS + log.header.count - 1);
        assert_int_equal(log.header.marks, marks);
        assert_rc(log_release(&log), 0);
    } else {
        assert_int_equal(mode_of(d->fd, 0), LOG_MODE_EMPTY);
    }
    assert_int_equal(unlinkat(d->fd, "0000000000", 0), 0);
}

IN_TMPDIR(a_request_that_is_not_whole_is_cut_at_its_mark, d)
{
    make_requests(d);
    for (uint32_t there = 0; there <= 4; there++) {
        check_cut(d, false, 4, there);
        check_cut(d, true, 4, there);
    }
    /* A request does not end with its log. */
    check_cut(d, true, MARKED_SLOTS, MARKED_SLOTS - 4);
}

IN_TMPDIR(only_a_header_says_that_a_log_is_sealed, d)
{
    struct log log = begin_marked(d->fd, 0);
    struct log_unsealed u;

    make_requests(d);
    assert_int_equal(log_unsealed(d->fd, 1, &requests, &u), 0);
    append_request(&log, 1, 2, 2);
    assert_int_equal(log_unsealed(d->fd, 0, &requests, &u), 1);
    assert_int_equal(u.epoch, 1);
    assert_true(u.has_marks);
    log_abandon(&log);
    /* As a power loss may leave it: the mode is that of an earlier fill. */
    set_state(d->fd, 0, LOG_MODE_FULL, false);
    assert_int_equal(log_unsealed(d->fd, 0, NULL, &u), 1);
    assert_true(u.has_marks);
    assert_int_equal(read_stored().count, 0);
    set_state(d->fd, 0, LOG_MODE_FULL, false);
    assert_int_equal(log_unsealed(d->fd, 0, &requests, &u), 0);
    assert_int_equal(read_stored().count, 1);
    assert_int_equal(log_unsealed(d->fd, 0, &requests, &u), 0);
    assert_true(u.has_marks);
    log = claim_full(d->fd);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
    assert_int_equal(log_unsealed(d->fd, 0, &requests, &u), 0);
    assert_false(u.has_marks);
}

/* ---- passing over -------------------------------------------------------- */

static int
note_time(void *ctx, uint32_t number, const struct message *m,
          const struct slot_stamp *stamp)
{
    uint64_t *times = ctx;

    assert_false(mark_is(m));
    assert_in_range(number, 0, 2);
    times[number] = stamp->received_ms;
    return 0;
}

IN_TMPDIR(an_archive_has_the_increments_only, d)
{
    uint64_t times[3] = {0};
    struct archive_header h;
    struct archive_writer *w;
    struct log log = begin_marked(d->fd, 0);
    int fd;

    append_request(&log, 1, 2, 2);
    append_request(&log, 2, 1, 1);
    assert_rc(log_seal(&log), 0);
    fd = openat(d->fd, "archived", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_rc(archive_writer_new(&w), 0);
    assert_rc(archive_write_log(w, &log, fd), 0);
    archive_writer_free(w);
    assert_rc(log_release(&log), 0);
    assert_rc(archive_read_names(fd, NULL, &h, NULL, NULL), 0);
    assert_int_equal(h.count, 3);
    assert_rc(archive_each(fd, NULL, note_time, times), 0);
    assert_int_equal(times[0], FIRST_MS + 1);
    assert_int_equal(times[2], FIRST_MS + 4);
    (void)close(fd);
}

static void
make_golden(const struct tmpdir *d)
{
    struct log log = begin_marked(d->fd, 0);

    append_request(&log, 1, 2, 2);
    append_request(&log, 2, 1, 1);
    assert_rc(log_seal(&log), 0);
    assert_rc(log_release(&log), 0);
}

IN_TMPDIR(the_golden_log_with_marks_is_read, d)
{
    uint8_t slot[MARKED_SIZE];
    struct slot_stamp stamp;
    struct message m;
    struct request_mark mark;
    struct log log;

    put_golden(d, MARKED_GOLDEN, "0000000000", MARKED_FILE, make_golden);

    log = claim_full(d->fd);
    assert_int_equal(log.header.count, 5);
    assert_int_equal(log.header.marks, 2);
    assert_rc(inspect_slot(log.fd, &log.header.layout, 3, slot), 0);
    assert_rc(slot_parse(&log.header, slot, 3, &m, &stamp), 0);
    assert_true(mark_is(&m));
    mark_get(&m, &mark);
    assert_memory_equal(mark.hash, mark_of(2, 1).hash, MARK_HASH_SIZE);
    assert_int_equal(mark.body, mark_of(2, 1).body);
    assert_rc(log_release(&log), 0);
}
