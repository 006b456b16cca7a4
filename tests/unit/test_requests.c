/* tests/unit/test_requests.c - common/journal/requests.h and idempotency.h:
 * which requests are known, for how long, and by whom they were stored. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/journal/idempotency.h"
#include "common/journal/requests.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

#define DAY_MS UINT64_C(86400000)

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
    rc = requests_store(r)->store(requests_store(r), &fill, marks, count);
    free(marks);
    return rc;
}

static struct requests *
make_requests(const struct tmpdir *d)
{
    struct requests *r;

    assert_int_equal(mkdirat(d->fd, "live", 0700), 0);
    assert_rc(requests_open(&r, d->fd), 0);
    assert_rc(requests_make(r), 0);
    return r;
}

#define IN_TMPDIR(name, d)                                                     \
    TEST_IN(name, struct tmpdir *d, tmpdir_setup, tmpdir_teardown)

IN_TMPDIR(without_a_secret_nothing_is_stored_and_none_is_made, d)
{
    uint8_t secret[REQUESTS_KEY_SIZE], again[REQUESTS_KEY_SIZE];
    struct requests *r, *other;

    assert_rc(requests_open(&r, d->fd), 0);
    assert_rc(requests_secret(r, secret), -ENOKEY);
    assert_rc(store_fill(r, 1, 1, 1000), -ENOKEY);
    assert_false(tmpdir_has(d, "live"));
    assert_int_equal(mkdirat(d->fd, "live", 0700), 0);
    assert_int_equal(mkdirat(d->fd, "live/requests", 0700), 0);
    assert_rc(store_fill(r, 1, 1, 1000), -ENOKEY);
    requests_close(r);

    assert_int_equal(unlinkat(d->fd, "live/requests/lock", 0), 0);
    assert_int_equal(unlinkat(d->fd, "live/requests", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(d->fd, "live", AT_REMOVEDIR), 0);
    r = make_requests(d);
    assert_rc(requests_secret(r, secret), 0);
    assert_rc(requests_open(&other, d->fd), 0);
    assert_rc(requests_secret(other, again), 0);
    assert_memory_equal(secret, again, sizeof secret);
    requests_close(other);
    requests_close(r);
}

IN_TMPDIR(what_any_process_stores_all_read, d)
{
    struct requests *r = make_requests(d), *other;
    struct seen s;

    assert_rc(requests_open(&other, d->fd), 0);
    assert_rc(store_fill(r, 1, 10, 1000), 0);
    assert_rc(store_fill(other, 11, 5, 2000), 0);
    assert_rc(store_fill(r, 16, 30000, 3000), 0); /* more than a segment */
    assert_rc(store_fill(other, 30016, 1, 4000), 0);
    s = read_all(r);
    assert_int_equal(s.count, 30016);
    assert_int_equal(s.first, 1);
    assert_int_equal(s.last, 30016);
    assert_int_equal(read_all(other).count, 30016);
    requests_close(other);
    requests_close(r);
    assert_rc(requests_open(&r, d->fd), 0);
    assert_int_equal(read_all(r).count, 30016);
    requests_close(r);
}

IN_TMPDIR(a_store_that_fails_is_not_there_and_can_be_tried_again, d)
{
    static const char *const calls[] = {"pwrite", "fdatasync"};
    struct requests *r = make_requests(d);

    assert_rc(store_fill(r, 1, 3, 1000), 0);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        fault_inject(calls[i], 1, ENOSPC);
        assert_rc(store_fill(r, 4, 2, 2000), -ENOSPC);
        assert_true(fault_hit());
        fault_clear();
        assert_int_equal(read_all(r).count, 3);
    }
    assert_rc(store_fill(r, 4, 2, 2000), 0);
    assert_int_equal(read_all(r).count, 5);
    requests_close(r);
}

IN_TMPDIR(the_window_is_a_day_and_the_last_so_many, d)
{
    const uint64_t now_ms = clock_unix_ms();
    struct requests *r = make_requests(d);
    struct seen s;

    requests_limit(r, 100);
    assert_rc(store_fill(r, 1, 40, now_ms - DAY_MS - 5000), 0);
    assert_rc(store_fill(r, 41, 40, now_ms - DAY_MS / 2), 0);
    s = read_all(r); /* the first are older than a day */
    assert_int_equal(s.first, 41);
    assert_rc(store_fill(r, 81, 40, now_ms), 0);
    assert_int_equal(read_all(r).first, 41); /* 80 */
    assert_rc(store_fill(r, 121, 60, now_ms), 0);
    s = read_all(r); /* 140, and 100 without the first 40 */
    assert_int_equal(s.first, 81);
    assert_int_equal(s.count, 100);
    requests_close(r);
    assert_rc(requests_open(&r, d->fd), 0);
    s = read_all(r);
    assert_int_equal(s.first, 81);
    assert_int_equal(s.count, 100);
    requests_close(r);
}

IN_TMPDIR(its_size_is_bounded_by_the_window, d)
{
    const uint64_t now_ms = clock_unix_ms();
    struct requests *r = make_requests(d);
    uint64_t most = 0;
    struct seen s;

    requests_limit(r, 20000); /* 1.1 MB */
    for (uint32_t i = 0; i < 60; i++) {
        uint64_t size = 0;
        struct stat st;
        char name[40];

        assert_rc(store_fill(r, 1 + i * 5000, 5000, now_ms), 0);
        for (unsigned n = 1; n < 40; n++) {
            (void)snprintf(name, sizeof name, "live/requests/%u", n);
            if (fstatat(d->fd, name, &st, 0) == 0)
                size += (uint64_t)st.st_size;
        }
        most = size > most ? size : most;
    }
    s = read_all(r);
    assert_in_range(s.count, 20000, 25000);
    assert_int_equal(s.last, 300000);
    assert_in_range(most, 1, 2 * 25000 * 56 + (3 << 20));
    requests_close(r);
}

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
