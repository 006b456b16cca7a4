/* tests/e2e/test_read.c - countd-read on directories of keyspaces. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/engines.h"
#include "tests/lib/expect.h"
#include "tests/lib/filler.h"
#include "tests/lib/service.h"
#include "tests/lib/stored.h"

#define KEYS     5000 /* of keyspace "many" */
#define ROWS_MAX 4096
#define MEMORY   ((uint64_t)64 << 20)

/* ---- what there is to read --------------------------------------------- */

struct pair {
    const char *key;
    int64_t count;
};

/* The store's order of keys, as the interface wants them. */
static int
by_key(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

static void
put_pairs(struct service_site *x, const char *keyspace, struct pair *pairs,
          size_t count)
{
    struct store_delta *deltas = calloc(count, sizeof *deltas);
    struct store *s;

    assert_non_null(deltas);
    qsort(pairs, count, sizeof *pairs, by_key);
    for (size_t i = 0; i < count; i++)
        deltas[i] =
            stored_delta(pairs[i].key, strlen(pairs[i].key), 0, pairs[i].count);
    s = engine_open(x->dir.keyspace_fd);
    assert_rc(stored_apply(s, keyspace, NULL, deltas, count), 0);
    store_close(s);
    free(deltas);
}

/* Keys 000000 ... counting `keys`, `keys - 1` ... 1. */
static void
put_many(struct service_site *x, const char *keyspace, size_t keys)
{
    struct pair *pairs = calloc(keys, sizeof *pairs);
    char(*names)[8] = calloc(keys, sizeof *names);

    assert_non_null(pairs);
    assert_non_null(names);
    for (size_t i = 0; i < keys; i++) {
        (void)snprintf(names[i], sizeof names[i], "%06u",
                       (unsigned)i % 1000000);
        pairs[i] = (struct pair){names[i], (int64_t)(keys - i)};
    }
    put_pairs(x, keyspace, pairs, keys);
    free(names);
    free(pairs);
}

static void
put_one(struct service_site *x, const char *keyspace, int64_t count)
{
    struct pair pair = {"key", count};

    put_pairs(x, keyspace, &pair, 1);
}

static int
start_and_connect(struct service_site *x)
{
    fleet_start(&x->fleet, FLEET_READ);
    return client_connect(fleet_read_port(&x->fleet));
}

static void
stop_reader(struct service_site *x, int fd)
{
    client_close(fd);
    fleet_stop(&x->fleet, FLEET_READ);
}

/* ---- ranges ------------------------------------------------------------ */

/* The next answer: `rows` rows of a keyspace of put_many(), from `first` on. */
static void
expect_many(int fd, int64_t keys, int64_t first, int64_t rows)
{
    struct client_rows r;
    char name[8];

    client_reply(fd, &r);
    assert_int_equal(r.rows, rows);
    assert_int_equal(r.size, rows * (10 + 6));
    for (int64_t i = 0; i < rows; i++) {
        (void)snprintf(name, sizeof name, "%06u",
                       (unsigned)(first + i) % 1000000);
        assert_int_equal(r.row[i].count, keys - first - i);
        assert_int_equal(r.row[i].key_size, 6);
        assert_string_equal(r.row[i].key, name);
    }
    client_rows_free(&r);
}

static void
ask_range(int fd, const char *keyspace, int64_t offset, int64_t length)
{
    uint8_t bytes[272];

    client_send(fd, bytes,
                client_range_request(bytes, keyspace, offset, length));
}

/* The next answer is an error, behind which the connection ends. */
static void
expect_error(int fd, int error)
{
    struct client_rows r;

    client_reply(fd, &r);
    assert_int_equal(r.rows, error);
    assert_int_equal(r.size, 0);
    client_rows_free(&r);
    client_expect_end(fd);
}

#define CASE(name, x)                                                          \
    TEST_IN(name, struct service_site *x, service_site_setup,                  \
            service_site_teardown)

CASE(ranges_begin_and_end_where_they_should, x)
{
    static const struct {
        int64_t offset, length, first, rows;
    } cases[] = {
        {0, 1, 0, 1},
        {0, 100, 0, 100},
        {0, 0, 0, 0},
        {0, ROWS_MAX, 0, ROWS_MAX},
        {0, ROWS_MAX + 1, 0, ROWS_MAX},
        {0, INT64_MAX, 0, ROWS_MAX},
        {KEYS / 2, 100, KEYS / 2, 100},
        {KEYS - 1, 1, KEYS - 1, 1},
        {KEYS - 1, 100, KEYS - 1, 1},
        {KEYS - 100, 200, KEYS - 100, 100},
        {KEYS, 1, 0, 0},
        {KEYS + 1, 1, 0, 0},
        {INT64_MAX, INT64_MAX, 0, 0},
        {-1, 1, KEYS - 1, 1},
        {-1, 100, KEYS - 1, 1},
        {-100, 10, KEYS - 100, 10},
        {-100, 0, 0, 0},
        {-KEYS, 3, 0, 3},
        {-KEYS - 1, 3, 0, 3},
        {-KEYS + 1, 3, 1, 3},
        {INT64_MIN, 3, 0, 3},
    };
    int fd;

    put_many(x, "many", KEYS);
    fd = start_and_connect(x);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask_range(fd, "many", cases[i].offset, cases[i].length);
        expect_many(fd, KEYS, cases[i].first, cases[i].rows);
    }
    stop_reader(x, fd);
}

/* The largest row of a keyspace. */
static int64_t
read_first(int fd, const char *keyspace, char key[CLIENT_NAME_SIZE + 1])
{
    struct client_rows r;
    int64_t count;

    client_range(fd, keyspace, 0, 1, &r);
    assert_int_equal(r.rows, 1);
    count = r.row[0].count;
    memcpy(key, r.row[0].key, CLIENT_NAME_SIZE + 1);
    client_rows_free(&r);
    return count;
}

CASE(names_of_256_bytes_and_of_any_bytes_are_found, x)
{
    static const char *const odd[] = {
        "..", "/etc/passwd", "a/b", "\xff\xfe\x01", "%x41", "UPPER", " "};
    char longest[257] = "", key[CLIENT_NAME_SIZE + 1];
    struct pair pair = {longest, 9};
    int fd;

    memset(longest, '/', 256);
    put_pairs(x, longest, &pair, 1);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        put_one(x, odd[i], (int64_t)i + 1);
    fd = start_and_connect(x);

    assert_int_equal(read_first(fd, longest, key), 9);
    assert_string_equal(key, longest);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        assert_int_equal(read_first(fd, odd[i], key), i + 1);
    stop_reader(x, fd);
}

CASE(an_unknown_keyspace_and_an_empty_directory_have_no_rows, x)
{
    const int64_t before = (int64_t)clock_unix_ms();
    struct client_rows r;
    int fd = start_and_connect(x);

    client_range(fd, "nothing", 0, 10, &r);
    assert_int_equal(r.rows, 0);
    assert_int_equal(r.size, 0);
    assert_in_range(r.as_of_ms, before - 1, clock_unix_ms() - 1);
    client_rows_free(&r);
    expect_text(FLEET_RUN(&x->fleet, "keyspaces", "--tsv"), 0, "");
    expect(FLEET_RUN(&x->fleet, "get", "nothing", "key"), 1,
           "no such keyspace: nothing");
    stop_reader(x, fd);
}

CASE(more_keyspaces_than_are_kept_open_are_served, x)
{
    char name[16], key[CLIENT_NAME_SIZE + 1];
    size_t lines = 0;
    int fd;

    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "k%03d", i % 1000);
        put_one(x, name, i + 1);
    }
    fd = start_and_connect(x);

    for (int i = 0; i < 900; i++) {
        (void)snprintf(name, sizeof name, "k%03d", i * 7 % 300);
        assert_int_equal(read_first(fd, name, key), i * 7 % 300 + 1);
    }
    expect(FLEET_RUN(&x->fleet, "keyspaces", "--tsv"), 0, "\tk299\t");
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 300);
    stop_reader(x, fd);
}

/* Requests come as they like, in pieces or many at once. */
CASE(pipelined_requests_are_answered_in_order_wherever_they_are_split, x)
{
    enum { COUNT = 5000 };
    static uint8_t bytes[COUNT * 272];
    static const size_t cuts[] = {1, 8, 271, 272, 273, 544, sizeof bytes};
    size_t size = 0, at = 0;
    int fd;

    put_many(x, "many", 10);
    fd = start_and_connect(x);
    for (int i = 0; i < COUNT; i++)
        size += client_range_request(bytes + size, i % 3 ? "many" : "none",
                                     i % 10, 1);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; at = cuts[i++])
        client_send(fd, bytes + at, cuts[i] - at);
    client_send(fd, "fragment", 8);
    assert_rc(shutdown(fd, SHUT_WR), 0);
    for (int i = 0; i < COUNT; i++)
        expect_many(fd, 10, i % 10, i % 3 ? 1 : 0);
    client_expect_end(fd);
    stop_reader(x, fd);
}

/* ---- what cannot be answered ------------------------------------------- */

/* The bytes behind it must not turn the answers into a reset. */
CASE(a_malformed_request_is_answered_as_one_and_is_the_last, x)
{
    static uint8_t rest[1 << 18];
    uint8_t bytes[3 * 272];
    int fd;

    put_many(x, "many", 10);
    fd = start_and_connect(x);
    for (int i = 0; i < 3; i++) {
        uint8_t *bad = bytes + 272;

        (void)client_range_request(bytes, "many", 0, 3);
        (void)client_range_request(bad, i == 0 ? "" : "many", 0,
                                   i == 1 ? -1 : 1);
        if (i == 2)
            bad[16 + 200] = 'x';
        (void)client_range_request(bytes + 544, "many", 0, 3);
        client_send(fd, bytes, sizeof bytes);
        client_send(fd, rest, sizeof rest);

        expect_many(fd, 10, 0, 3);
        expect_error(fd, -EINVAL);
        client_close(fd);
        fd = client_connect(fleet_read_port(&x->fleet));
    }
    assert_has(daemon_text(fleet_daemon(&x->fleet, FLEET_READ)),
               "malformed input from 127.0.0.1");
    stop_reader(x, fd);
}

/* Its answers wait for it alone. */
CASE(a_client_that_takes_nothing_harms_nobody, x)
{
    int fd, slow;

    put_many(x, "many", 4096);
    fd = start_and_connect(x);
    slow = client_connect(fleet_read_port(&x->fleet));
    for (int i = 0; i < 200; i++)
        ask_range(slow, "many", 0, 4096);
    for (int i = 0; i < 100; i++) {
        ask_range(fd, "many", 0, 10);
        expect_many(fd, 4096, 0, 10);
    }
    assert_true(daemon_memory(fleet_daemon(&x->fleet, FLEET_READ)) < MEMORY);
    for (int i = 0; i < 200; i++)
        expect_many(slow, 4096, 0, 4096);
    client_close(slow);
    stop_reader(x, fd);
}

CASE(a_damaged_file_is_an_error_of_its_keyspace_only, x)
{
    static const char damage[8192] = "this is no keyspace";
    uint16_t port;
    int fd, file;

    put_many(x, "whole", 10);
    put_many(x, "broken", 10);
    file = openat(x->dir.keyspace_fd, "broken.mdb", O_WRONLY | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, damage, sizeof damage, 0), sizeof damage);
    assert_rc(close(file), 0);
    fd = start_and_connect(x);
    port = fleet_read_port(&x->fleet);

    for (int i = 0; i < 3; i++) {
        ask_range(fd, "whole", 0, 10);
        expect_many(fd, 10, 0, 10);
        ask_range(fd, "broken", 0, 10);
        expect_error(fd, -EIO);
        client_close(fd);
        fd = client_connect(port);
    }

    daemon_signal(fleet_daemon(&x->fleet, FLEET_READ), SIGUSR1);
    daemon_await_words(fleet_daemon(&x->fleet, FLEET_READ), " unreadable=");
    assert_has(daemon_text(fleet_daemon(&x->fleet, FLEET_READ)),
               " unreadable=3 ");
    expect(FLEET_RUN(&x->fleet, "keyspaces", "--tsv"), 0, "-\t-\t");
    assert_has(text, "10\t55\t");
    assert_has(daemon_text(fleet_daemon(&x->fleet, FLEET_READ)),
               "keyspace=broken");
    stop_reader(x, fd);
}

/* Only the file is known: the page that was needed is gone. */
CASE(a_file_that_is_cut_short_in_use_is_named_at_the_end, x)
{
    struct client_rows r;
    int fd, file;

    put_many(x, "words", 1000);
    fd = start_and_connect(x);
    client_range(fd, "words", 0, 1, &r);
    client_rows_free(&r);
    file = openat(x->dir.keyspace_fd, "words.mdb", O_WRONLY | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, 8192), 0);
    assert_int_equal(close(file), 0);

    ask_range(fd, "words", 0, 1000);
    assert_int_equal(daemon_wait(fleet_daemon(&x->fleet, FLEET_READ)),
                     128 + SIGBUS);
    assert_has(daemon_text(fleet_daemon(&x->fleet, FLEET_READ)),
               "SIGBUS: a page of its file cannot be read");
    assert_has(daemon_text(fleet_daemon(&x->fleet, FLEET_READ)),
               "run countd check keyspace=words");
    client_close(fd);

    /* From then on it is a damaged one. */
    fd = start_and_connect(x);
    client_range(fd, "words", 0, 1, &r);
    assert_int_equal(r.rows, -EIO);
    client_rows_free(&r);
    stop_reader(x, fd);
}

/* ---- the process ------------------------------------------------------- */

CASE(it_writes_nothing_but_lmdbs_locks_and_its_socket, x)
{
    struct client_rows r;
    size_t logs, files;
    struct filler log;
    int fd;

    put_many(x, "many", 10);
    filler_open(&log, x->dir.log_fd, 0, 10);
    filler_add(&log, "words", "the", 1);
    filler_die(&log); /* recovery is not its business */
    logs = tmpdir_count(&x->fleet.dir, "log");
    files = tmpdir_count(&x->fleet.dir, ".");
    fd = start_and_connect(x);

    client_range(fd, "many", 0, 10, &r);
    client_rows_free(&r);
    client_range(fd, "none", 0, 10, &r);
    client_rows_free(&r);
    stop_reader(x, fd);

    assert_int_equal(tmpdir_count(&x->fleet.dir, "log"), logs);
    assert_true(tmpdir_has(&x->fleet.dir, "socket"));
    assert_int_equal(tmpdir_count(&x->fleet.dir, "."), files + 1);
    assert_true(tmpdir_has(&x->fleet.dir, "log/lock-0000000000"));
    assert_false(tmpdir_has(&x->fleet.dir, "keyspace/none.mdb"));
}

CASE(two_thousand_connections_are_served, x)
{
    enum { COUNT = 2000 };
    static int fds[COUNT];
    uint16_t port;

    if (client_descriptors(COUNT + 100) < COUNT + 100)
        test_skip("fewer than 2100 descriptors allowed");
    put_many(x, "many", 100);
    fleet_start(&x->fleet, FLEET_READ);
    port = fleet_read_port(&x->fleet);
    for (int i = 0; i < COUNT; i++)
        fds[i] = client_connect(port);

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            ask_range(fds[i], "many", i % 90, 10);
        for (int i = 0; i < COUNT; i++)
            expect_many(fds[i], 100, i % 90, 10);
    }
    assert_true(daemon_memory(fleet_daemon(&x->fleet, FLEET_READ)) < MEMORY);
    for (int i = 0; i < COUNT; i++)
        client_close(fds[i]);
    fleet_stop(&x->fleet, FLEET_READ);
}
