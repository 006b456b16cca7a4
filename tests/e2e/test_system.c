/* tests/e2e/test_system.c - the whole system: increments in, ranges out.
 *
 * The original's correctness scenario: in each keyspace the keys 0, 1, ... get
 * increments that sum up to the key's own name, in random parts, all shuffled.
 * In the end every key counts its name, in order, and key 0 is not there.
 *
 *     TEST_SEED
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"

#define NOBODY 65534

struct part {
    uint16_t keyspace;
    uint16_t key;
    int32_t increment;
};

struct scenario {
    unsigned keyspaces, keys;
    bool negative; /* some parts take away what others give */
    struct part *parts;
    size_t count, capacity;
    struct random random;
    struct fleet fleet;
};

/* ---- the parts ----------------------------------------------------------- */

static void
add_part(struct scenario *s, unsigned keyspace, unsigned key, int32_t increment)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 1024;
        s->parts =
            test_memory(realloc(s->parts, s->capacity * sizeof *s->parts));
    }
    s->parts[s->count++] =
        (struct part){(uint16_t)keyspace, (uint16_t)key, increment};
}

static void
split_key(struct scenario *s, unsigned keyspace, unsigned key)
{
    int32_t rest = (int32_t)key, part;

    while (rest > 0) {
        part = 1 + (int32_t)random_below(&s->random, (uint64_t)rest);
        if (s->negative && random_chance(&s->random, 30)) {
            add_part(s, keyspace, key, -part);
            rest += part;
        } else {
            add_part(s, keyspace, key, part);
            rest -= part;
        }
    }
}

static void
make_parts(struct scenario *s)
{
    size_t k;

    for (unsigned keyspace = 0; keyspace < s->keyspaces; keyspace++)
        for (unsigned key = 0; key < s->keys; key++)
            split_key(s, keyspace, key);
    for (size_t i = s->count; i > 1; i--) {
        struct part swapped;

        k = random_below(&s->random, i);
        swapped = s->parts[i - 1];
        s->parts[i - 1] = s->parts[k];
        s->parts[k] = swapped;
    }
}

static void
part_message(const struct part *p, uint8_t *bytes)
{
    char keyspace[32], key[16];

    (void)snprintf(keyspace, sizeof keyspace, "keyspace-%010u", p->keyspace);
    (void)snprintf(key, sizeof key, "%u", (unsigned)p->key);
    client_message(bytes, keyspace, key, p->increment);
}

static void
begin_scenario(struct scenario *s, const char *test, unsigned keyspaces,
               unsigned keys)
{
    s->random.state = random_seed(test);
    s->keyspaces = keyspaces;
    s->keys = keys;
    make_parts(s);
    fleet_init(&s->fleet);
    fleet_option(&s->fleet, "log.size=1M");
    fleet_option(&s->fleet, "write.drain=1m"); /* whatever the disk takes */
}

static void
finish_scenario(struct scenario *s)
{
    fleet_fini(&s->fleet);
    free(s->parts);
}

static void
start_all(struct scenario *s, unsigned workers)
{
    fleet_start(&s->fleet, FLEET_WRITE);
    fleet_start(&s->fleet, FLEET_READ);
    for (unsigned i = 0; i < workers; i++)
        fleet_start(&s->fleet, (enum fleet_role)(FLEET_WORKER + i));
}

/* ---- sending ------------------------------------------------------------- */

#define BATCH 200

/* Sends parts [from, to) over one connection, a batch of messages ahead of
 * its answers. */
static void
send_batches(struct scenario *s, int fd, size_t from, size_t to)
{
    uint8_t bytes[BATCH * CLIENT_MESSAGE_SIZE];
    size_t n;

    for (; from < to; from += n) {
        n = to - from < BATCH ? to - from : BATCH;
        for (size_t i = 0; i < n; i++)
            part_message(&s->parts[from + i], bytes + i * CLIENT_MESSAGE_SIZE);
        client_send(fd, bytes, n * CLIENT_MESSAGE_SIZE);
        client_wins(fd, n);
    }
}

/* All parts as one stream, cut anywhere. */
static void
send_cut(struct scenario *s, int fd)
{
    size_t size = s->count * CLIENT_MESSAGE_SIZE, n, owed, done = 0;
    uint8_t *bytes = test_memory(malloc(size));

    for (size_t i = 0; i < s->count; i++)
        part_message(&s->parts[i], bytes + i * CLIENT_MESSAGE_SIZE);
    for (size_t at = 0; at < size; at += n) {
        n = 1 + random_below(&s->random,
                             random_chance(&s->random, 50) ? 700 : 100000);
        n = n < size - at ? n : size - at;
        client_send(fd, bytes + at, n);
        owed = (at + n) / CLIENT_MESSAGE_SIZE - done;
        /* Answers are taken now and then, so that they glue as well. */
        if (random_chance(&s->random, 50) || at + n == size) {
            client_wins(fd, owed);
            done += owed;
        }
    }
    free(bytes);
}

static void
send_silently(struct scenario *s, int fd)
{
    uint8_t bytes[CLIENT_MESSAGE_SIZE];

    for (size_t i = 0; i < s->count; i++) {
        part_message(&s->parts[i], bytes);
        client_send(fd, bytes, sizeof bytes);
    }
}

/* ---- verifying ----------------------------------------------------------- */

static void
expect_keyspace(struct scenario *s, unsigned number)
{
    static char want[TEXT_SIZE];
    char keyspace[32];
    size_t size = 0;

    (void)snprintf(keyspace, sizeof keyspace, "keyspace-%010u", number);
    for (unsigned i = s->keys - 1; i > 0; i--)
        size += (size_t)snprintf(want + size, sizeof want - size,
                                 "%s\t%u\t%u\n", keyspace, i, i);
    assert_true(size < sizeof want);
    expect_text(FLEET_RUN(&s->fleet, "export", keyspace), 0, want);
}

/* Stops the writer, so that what the silent port has still to take in reaches
 * a log, waits until everything is merged, and reads all of it. */
static void
read_names_and_counts(struct scenario *s)
{
    fleet_stop(&s->fleet, FLEET_WRITE);
    expect_text(FLEET_RUN(&s->fleet, "flush"), 0, "");
    for (unsigned i = 0; i < s->keyspaces; i++)
        expect_keyspace(s, i);
}

/* ---- the variants -------------------------------------------------------- */

/* A way for the increments to come. */
struct variant {
    const char *name;
    unsigned keyspaces, keys, workers, connections;
    size_t share; /* that a connection sends in its turn; 0: cut anywhere */
    bool is_negative, is_nobody, is_silent;
};

static void
run_variant(const struct variant *v)
{
    struct scenario s = {.negative = v->is_negative};
    int fds[8];

    print_message("%s\n", v->name);
    begin_scenario(&s, v->name, v->keyspaces, v->keys);
    if (v->is_nobody) {
        tmpdir_chown(&s.fleet.dir, NOBODY);
        s.fleet.uid = NOBODY;
    }
    start_all(&s, v->workers);
    for (unsigned i = 0; i < v->connections; i++)
        fds[i] = client_connect(v->is_silent ? fleet_silent_port(&s.fleet)
                                             : fleet_ack_port(&s.fleet));
    if (v->is_silent)
        send_silently(&s, fds[0]);
    else if (v->share == 0)
        send_cut(&s, fds[0]);
    for (size_t i = 0; i * v->share < s.count && v->share > 0; i++)
        send_batches(&s, fds[i % v->connections], i * v->share,
                     (i + 1) * v->share < s.count ? (i + 1) * v->share
                                                  : s.count);
    for (unsigned i = 0; i < v->connections; i++)
        client_close(fds[i]);
    read_names_and_counts(&s);
    fleet_stop_all(&s.fleet);
    if (!v->is_nobody)
        fleet_check(&s.fleet);
    finish_scenario(&s);
}

TEST(names_are_counts_however_they_come)
{
    static const struct variant variants[] = {
        {"one at a time", 3, 60, 1, 1, .share = 1},
        {"several connections", 10, 1000, 3, 8, .share = 1000},
        {"glued and cut at any byte", 10, 1000, 2, 1, .share = 0},
        {"negative parts", 4, 300, 3, 1, 1000000, .is_negative = true},
        /* The writer is stopped while the last of it is still on its way. */
        {"without answers", 10, 1000, 2, 1, .is_silent = true},
    };

    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        run_variant(&variants[i]);
}

TEST(as_a_user_without_privileges)
{
    static const struct variant v = {"a user without privileges",
                                     10,
                                     1000,
                                     3,
                                     1,
                                     1000000,
                                     .is_nobody = true};

    if (getuid() != 0)
        test_skip("needs root to become another user");
    run_variant(&v);
}

/* ---- what an answer promises --------------------------------------------- */

/* Whatever as_of an answer shows, it holds what was acknowledged before. */
TEST(an_answer_holds_all_it_says_it_holds)
{
    enum { ASKED = 500, ASKED_MAX = 100000 };
    static int64_t acked_ms[ASKED_MAX];
    int64_t count, i, last = 0;
    struct client_rows rows;
    unsigned answers = 0;
    struct fleet f;
    int in, out;

    fleet_init(&f);
    fleet_start_with(&f, FLEET_WRITE, "log.rotate_after=20ms");
    fleet_start(&f, FLEET_WORKER);
    fleet_start(&f, FLEET_WORKER2);
    fleet_start(&f, FLEET_READ);
    in = client_connect(fleet_ack_port(&f));
    out = client_connect(fleet_read_port(&f));
    /* More than ASKED when no merge came in between: nothing was shown yet. */
    for (i = 0; i < ASKED || answers < 2; i++) {
        assert_true(i < ASKED_MAX);
        client_increment(in, "fresh", "key", 1);
        client_wins(in, 1);
        acked_ms[i] = (int64_t)clock_unix_ms();
        client_range(out, "fresh", 0, 1, &rows);
        assert_true(rows.rows >= 0);
        count = rows.rows == 1 ? rows.row[0].count : 0;
        /* Everything acknowledged before as_of is in. */
        if (count <= i && acked_ms[count] < rows.as_of_ms)
            fail_msg("as_of %lld, but the increment acknowledged at %lld "
                     "(number %lld) is not in",
                     (long long)rows.as_of_ms, (long long)acked_ms[count],
                     (long long)count);
        assert_true(count >= last && count <= i + 1);
        answers += count > last;
        last = count;
        client_rows_free(&rows);
    }
    client_await_merge(out, "fresh", acked_ms[i - 1], 30000);
    assert_true(client_get(out, "fresh", "key", &count));
    assert_int_equal(count, i);
    client_close(in);
    client_close(out);
    fleet_stop_all(&f);
    fleet_fini(&f);
}

/* A supervisor may send any of them; 111 lets it start that daemon again. */
TEST(each_daemon_stops_cleanly_on_term_int_and_hup)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    static const enum fleet_role roles[] = {FLEET_WORKER, FLEET_READ,
                                            FLEET_WRITE};
    struct fleet f;

    fleet_init(&f);
    for (size_t i = 0; i < 3; i++) {
        fleet_start(&f, FLEET_WRITE);
        fleet_start(&f, FLEET_WORKER);
        fleet_start(&f, FLEET_READ);
        for (size_t k = 0; k < 3; k++) {
            daemon_signal(fleet_daemon(&f, roles[k]), signals[i]);
            assert_int_equal(daemon_wait(fleet_daemon(&f, roles[k])),
                             signals[i] == SIGHUP ? 111 : 0);
        }
    }
    fleet_fini(&f);
}
