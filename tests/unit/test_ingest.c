/* tests/unit/test_ingest.c - bytes of a connection into slots, and replies;
 * over socket pairs, real logs and real I/O threads. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "tests/lib/client.h"
#include "tests/lib/fault.h"
#include "tests/lib/records.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/turns.h"
#include "writer/doors.h"

#define LIMIT_MS 20000
#define SIZE     CLIENT_MESSAGE_SIZE

struct rig {
    struct tmpdir dir;
    struct config config;
    struct datadir data;
    struct loop *loop;
    struct logs logs;
    struct commit commit;
    struct ingest ingest;
    struct door_row rows[DOORS];
    struct conns *conns;
    bool (*until)(struct rig *r);
    size_t want;  /* what `until` compares with */
    bool crowded; /* the loop serves others, too */
    bool finished;
    bool failed;
    uint64_t cut_off, malformed; /* at the end */
    struct records records;
    unsigned fds;
};

/* ---- the rig ----------------------------------------------------------- */

static struct door *
door(const struct rig *r, size_t index)
{
    return conns_door(r->conns, index);
}

static void
on_ready(void *ctx)
{
    struct rig *r = ctx;

    door_wake(door(r, DOOR_ACK));
    door_wake(door(r, DOOR_SILENT));
}

static void
on_finished(void *ctx)
{
    ((struct rig *)ctx)->finished = true;
}

static void
on_failed(void *ctx)
{
    ((struct rig *)ctx)->failed = true;
}

static void
on_stopped(void *ctx)
{
    logs_finish(&((struct rig *)ctx)->logs);
}

static bool
after_turn(void *ctx)
{
    struct rig *r = ctx;

    (void)conn_turn(r->conns); /* asked again below */
    commit_turn(&r->commit, !r->crowded);
    if (r->until(r))
        loop_stop(r->loop);
    return conns_have_work(r->conns);
}

/* Runs the loop until `until` says so. */
static void
run(struct rig *r, bool (*until)(struct rig *r), size_t want)
{
    r->until = until;
    r->want = want;
    turns_run(r->loop);
}

static size_t
received(const struct rig *r)
{
    return (size_t)(door(r, DOOR_ACK)->figures.received +
                    door(r, DOOR_SILENT)->figures.received);
}

static uint64_t
malformed(const struct rig *r)
{
    return door(r, DOOR_ACK)->figures.malformed +
           door(r, DOOR_SILENT)->figures.malformed;
}

static bool
took(struct rig *r)
{
    return r->ingest.messages >= r->want;
}

static bool
took_bytes(struct rig *r)
{
    return received(r) >= r->want;
}

static bool
replied(struct rig *r)
{
    return door(r, DOOR_ACK)->figures.sent / 3 >= r->want;
}

static bool
sent(struct rig *r)
{
    return door(r, DOOR_ACK)->figures.sent >= r->want;
}

static bool
has_ended(struct rig *r)
{
    return door(r, DOOR_ACK)->open + door(r, DOOR_SILENT)->open == 0;
}

static bool
has_finished(struct rig *r)
{
    return r->finished;
}

static bool
has_failed(struct rig *r)
{
    return r->failed;
}

static bool
has_spare(struct rig *r)
{
    return r->logs.spare_count > 0 && !r->logs.making;
}

static bool
has_recovered(struct rig *r)
{
    return !r->logs.recovering;
}

static bool
pushes_back(struct rig *r)
{
    return door(r, DOOR_ACK)->blocked || door(r, DOOR_SILENT)->blocked;
}

static bool
always(struct rig *r)
{
    (void)r;
    return true;
}

static void
start_conns(struct rig *r)
{
    const struct conns_options o = {
        .rows = r->rows, .count = DOORS, .shared = 64, .pool_size = 4 << 20};

    r->ingest = (struct ingest){.logs = &r->logs, .commit = &r->commit};
    for (size_t i = 0; i < DOORS; i++)
        r->rows[i] = (struct door_row){
            .name = i == DOOR_ACK ? "ack" : "silent",
            .max_key = "write.max_connections",
            .protocol = i == DOOR_ACK ? &ingest_ack : &ingest_silent,
            .ctx = &r->ingest,
            .max = 64};
    assert_rc(conns_init(&r->conns, r->loop, &o), 0);
    assert_rc(
        commit_init(&r->commit, &logs_file, &r->logs, &r->logs.sync_io, 64, 0),
        0);
}

/* Logs of `slots` messages, as many as `log_max`. */
static void
start(struct rig *r, unsigned slots, unsigned log_max)
{
    const struct logs_events events = {r, on_ready, on_finished, on_failed};

    r->config.log_size = LOG_SLOTS_AT + (uint64_t)slots * 544;
    r->config.log_max = log_max;
    r->config.log_count = log_max < 3 ? log_max : 3;
    assert_rc(datadir_open(&r->data, r->dir.path, DATADIR_WRITE), 0);
    r->loop = loop_new();
    assert_non_null(r->loop);
    assert_rc(logs_open(&r->logs, r->loop, &r->data, &r->config, &events), 0);
    start_conns(r);
    r->commit.brief_ns = 0; /* no sync is, but where a test says so */
    loop_after_turn(r->loop, after_turn, r);
    run(r, has_spare, 0);
}

static int
set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);

    assert_non_null(r);
    diag_init("test_ingest", DIAG_ERROR);
    r->fds = fault_open_fds();
    tmpdir_make(&r->dir);
    config_defaults(&r->config);
    r->config.log_rotate_after_ms = 60000;
    *state = r;
    return 0;
}

static void
close_all(struct rig *r)
{
    conns_fini(r->conns);
    logs_close(&r->logs);
    commit_fini(&r->commit);
    loop_free(r->loop);
    datadir_close(&r->data);
}

static int
tear_down(void **state)
{
    struct rig *r = *state;

    fault_clear();
    tmpdir_remove(&r->dir);
    assert_int_equal(fault_open_fds(), r->fds);
    records_free(&r->records);
    free(r);
    return 0;
}

/* A clean stop; then what the logs hold is in r->records. */
static void
finish(struct rig *r)
{
    int log_fd;

    conns_stop(r->conns, LIMIT_MS, on_stopped, r);
    run(r, has_finished, 0);
    r->cut_off = door(r, DOOR_ACK)->figures.cut_off +
                 door(r, DOOR_SILENT)->figures.cut_off;
    r->malformed = malformed(r);
    log_fd = dup(r->data.log_fd);
    close_all(r);
    records_read(&r->records, log_fd);
    close(log_fd);
    assert_int_equal(r->records.damaged, 0);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
}

static int
connect_pair(struct rig *r, size_t at)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_rc(conns_take(r->conns, at, ends[1]), 0);
    return ends[0];
}

/* Message number `n`: its own key, and an increment that tells it apart. */
static void
put(uint8_t *at, size_t n)
{
    char key[32];

    snprintf(key, sizeof key, "key%zu", n);
    client_message(at, "space", key, (int64_t)n + 1);
}

/* Connects, and sends messages 0 to count - 1 in one go; the descriptor. */
static int
connect_and_send(struct rig *r, size_t at, size_t count)
{
    uint8_t *bytes = malloc(count * SIZE);
    const int fd = connect_pair(r, at);

    assert_non_null(bytes);
    for (size_t n = 0; n < count; n++)
        put(bytes + n * SIZE, n);
    client_send(fd, bytes, count * SIZE);
    free(bytes);
    return fd;
}

static void
expect_messages(struct rig *r, size_t count)
{
    char key[32];
    size_t n, times;

    assert_int_equal(r->records.count, count);
    for (n = 0; n < count; n++) {
        snprintf(key, sizeof key, "key%zu", n);
        assert_int_equal(records_sum(&r->records, "space", key, &times), n + 1);
        assert_int_equal(times, 1);
    }
}

/* Reads the WINs that are there; a socket pair holds only some hundred. */
static size_t
read_wins(int fd)
{
    char bytes[3 * 64];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    ssize_t i;

    if (n < 0) {
        assert_int_equal(errno, EAGAIN);
        return 0;
    }
    /* Each send is of whole ones until the socket is full. */
    assert_int_equal(n % 3, 0);
    for (i = 0; i < n; i++)
        assert_int_equal(bytes[i], "WIN"[i % 3]);
    return (size_t)n / 3;
}

/* ---- framing ----------------------------------------------------------- */

static void
a_message_may_be_cut_anywhere(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE];
    size_t cut;
    int fd;

    start(r, 600, 8);
    fd = connect_pair(r, DOOR_ACK);
    for (cut = 1; cut < SIZE; cut++) {
        put(message, cut - 1);
        client_send(fd, message, cut);
        run(r, took_bytes, (cut - 1) * SIZE + cut);
        assert_int_equal(r->ingest.messages, cut - 1);
        client_send(fd, message + cut, SIZE - cut);
        run(r, replied, cut);
        client_wins(fd, 1);
    }
    client_close(fd);
    finish(r);

    expect_messages(r, SIZE - 1);
}

static void
a_message_may_come_byte_by_byte(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE];
    size_t i;
    int fd;

    start(r, 10, 4);
    fd = connect_pair(r, DOOR_ACK);
    put(message, 0);
    for (i = 0; i < SIZE; i++) {
        client_send(fd, message + i, 1);
        run(r, took_bytes, i + 1);
    }
    run(r, replied, 1);
    client_wins(fd, 1);
    client_close(fd);
    finish(r);

    expect_messages(r, 1);
}

/* Whatever the sizes of the pieces, the same messages come out. */
static void
glued_messages_are_taken_apart(void **state)
{
    static const size_t pieces[] = {1, 7, 519, 520, 521, 1040, 4097, 65536};
    struct rig *r = *state;
    const size_t count = 400;
    uint8_t *bytes = malloc(count * SIZE);
    size_t i, n, at, size, wins, replies = 0;
    int fd;

    assert_non_null(bytes);
    start(r, 5000, 8);
    for (i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        fd = connect_pair(r, DOOR_ACK);
        for (n = 0; n < count; n++)
            client_message(bytes + n * SIZE, "space", "glued", 1);
        if (pieces[i] == 1)
            at = count * SIZE - 3 * SIZE; /* three messages will do */
        else
            at = 0;
        wins = (count * SIZE - at) / SIZE;
        replies += wins;
        for (; at < count * SIZE; at += size) {
            size = count * SIZE - at;
            if (size > pieces[i])
                size = pieces[i];
            n = received(r);
            client_send(fd, bytes + at, size);
            run(r, took_bytes, n + size);
            wins -= read_wins(fd);
        }
        while (wins > 0) {
            run(r, always, 0);
            wins -= read_wins(fd);
        }
        client_close(fd);
        run(r, has_ended, 0);
    }
    free(bytes);
    finish(r);

    assert_int_equal(r->records.count, replies);
    assert_int_equal(records_sum(&r->records, "space", "glued", NULL), replies);
}

static void
names_at_their_limits_are_kept_whole(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE];
    char longest[CLIENT_NAME_SIZE + 1];
    int fd;

    memset(longest, 0xff, sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    start(r, 10, 4);
    fd = connect_pair(r, DOOR_ACK);
    client_message(message, longest, longest, INT64_MIN);
    client_send(fd, message, SIZE);
    client_message(message, "a", longest, INT64_MAX);
    client_send(fd, message, SIZE);
    client_message(message, longest, "../..", 0);
    client_send(fd, message, SIZE);
    run(r, replied, 3);
    client_wins(fd, 3);
    client_close(fd);
    finish(r);

    assert_int_equal(r->records.count, 3);
    assert_true(records_sum(&r->records, longest, longest, NULL) == INT64_MIN);
    assert_true(records_sum(&r->records, "a", longest, NULL) == INT64_MAX);
    assert_int_equal(records_sum(&r->records, longest, "../..", NULL), 0);
}

static void
messages_are_kept_in_the_order_they_came(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE];
    size_t i;
    int fd;

    start(r, 64, 16);
    fd = connect_pair(r, DOOR_ACK);
    for (i = 0; i < 500; i++) {
        put(message, i);
        client_send(fd, message, SIZE);
        run(r, took, i + 1);
    }
    run(r, replied, 500);
    client_close(fd);
    finish(r);

    expect_messages(r, 500);
    for (i = 1; i < 500; i++) {
        if (r->records.at[i].log != r->records.at[i - 1].log)
            continue;
        assert_int_equal(r->records.at[i].increment,
                         r->records.at[i - 1].increment + 1);
        assert_true(r->records.at[i].stamp.received_ms >=
                    r->records.at[i - 1].stamp.received_ms);
        assert_true(r->records.at[i].stamp.synced >=
                    r->records.at[i - 1].stamp.synced);
    }
}

/* ---- what cannot be a message ------------------------------------------ */

static void
put_bad(uint8_t *at, int how)
{
    put(at, 999);
    switch (how) {
    case 0: /* no keyspace */
        memset(at + 8, 0, 256);
        break;
    case 1: /* no key */
        memset(at + 264, 0, 256);
        break;
    case 2: /* something behind the keyspace's end */
        at[8 + 255] = 'x';
        break;
    case 3: /* behind the key's */
        at[264 + 255] = 1;
        break;
    case 4: /* shifted by one byte */
        memmove(at + 1, at, SIZE - 1);
        at[8] = 0;
        break;
    default: /* nothing at all */
        memset(at, 0, SIZE);
        break;
    }
}

#define BAD_WAYS 6

static void
a_malformed_message_gets_fail_after_the_wins_owed(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[4 * SIZE], reply[64];
    int fd, how;

    start(r, 100, 4);
    for (how = 0; how < BAD_WAYS; how++) {
        fd = connect_pair(r, DOOR_ACK);
        put(bytes, 0);
        put(bytes + SIZE, 1);
        put_bad(bytes + 2 * SIZE, how);
        put(bytes + 3 * SIZE, 2);
        client_send(fd, bytes, sizeof bytes);
        run(r, sent, 10 * (size_t)(how + 1));
        /* It goes on to discard what we send until we close. */
        client_send(fd, bytes, sizeof bytes);
        assert_int_equal(client_read(fd, reply, sizeof reply), 10);
        assert_memory_equal(reply, "WINWINFAIL", 10);
        client_close(fd);
        run(r, has_ended, 0);
        assert_int_equal(malformed(r), how + 1);
    }
    finish(r);

    assert_int_equal(r->records.count, 2 * BAD_WAYS);
    assert_int_equal(records_sum(&r->records, "space", "key2", NULL), 0);
    assert_int_equal(r->cut_off, 0);
}

static void
a_malformed_message_ends_a_silent_connection_without_a_byte(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[3 * SIZE], reply[64];
    int fd, how;

    start(r, 100, 4);
    for (how = 0; how < BAD_WAYS; how++) {
        fd = connect_pair(r, DOOR_SILENT);
        put(bytes, 0);
        put_bad(bytes + SIZE, how);
        put(bytes + 2 * SIZE, 2);
        client_send(fd, bytes, sizeof bytes);
        run(r, has_ended, 0);
        assert_int_equal(client_read(fd, reply, sizeof reply), 0);
        client_close(fd);
    }
    finish(r);

    assert_int_equal(r->malformed, BAD_WAYS);
    assert_int_equal(r->records.count, BAD_WAYS);
}

static void
one_bad_client_does_not_disturb_another(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE];
    int good, bad;

    start(r, 100, 4);
    good = connect_pair(r, DOOR_ACK);
    bad = connect_pair(r, DOOR_ACK);
    put(message, 0);
    client_send(good, message, 100);
    put_bad(message, 2);
    client_send(bad, message, SIZE);
    run(r, took_bytes, SIZE + 100);
    put(message, 0);
    client_send(good, message + 100, SIZE - 100);
    run(r, sent, 4 + 3);
    client_wins(good, 1);
    client_close(bad);
    client_close(good);
    finish(r);

    expect_messages(r, 1);
}

/* ---- ends -------------------------------------------------------------- */

static void
a_half_close_gets_every_win_and_then_the_end(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[3 * SIZE];
    int fd;

    start(r, 100, 4);
    fd = connect_pair(r, DOOR_ACK);
    put(bytes, 0);
    put(bytes + SIZE, 1);
    put(bytes + 2 * SIZE, 2);
    client_send(fd, bytes, 2 * SIZE + 260);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    run(r, has_ended, 0);
    client_wins(fd, 2);
    client_expect_end(fd);
    client_close(fd);
    finish(r);

    expect_messages(r, 2);
    assert_int_equal(r->cut_off, 1);
}

static void
a_client_that_sends_and_closes_loses_nothing(void **state)
{
    struct rig *r = *state;
    const size_t count = 150; /* fits the buffer of a socket */

    start(r, 100, 4);
    client_close(connect_and_send(r, DOOR_SILENT, count));
    run(r, has_ended, 0);
    finish(r);

    expect_messages(r, count);
}

static void
a_fragment_at_the_end_leaves_no_trace(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE];
    int i, fd;

    start(r, 100, 4);
    put(message, 0);
    for (i = DOOR_ACK; i <= DOOR_SILENT; i++) {
        fd = connect_pair(r, (size_t)i);
        client_send(fd, message, SIZE - 1);
        client_close(fd);
        run(r, has_ended, 0);
        /* The next one may get the same place. */
        fd = connect_pair(r, (size_t)i);
        client_send(fd, message, SIZE);
        client_close(fd);
        run(r, has_ended, 0);
    }
    finish(r);

    assert_int_equal(r->cut_off, 2);
    assert_int_equal(r->records.count, 2);
}

/* ---- replies ----------------------------------------------------------- */

static void
a_client_that_never_reads_is_read_from_and_not_dropped(void **state)
{
    struct rig *r = *state;
    const size_t count = 30000; /* 90000 bytes: more than the buffer takes */
    uint8_t *bytes = malloc(100 * SIZE), reply[3];
    int fd, small = 1;
    size_t i;

    assert_non_null(bytes);
    start(r, 40000, 8);
    fd = connect_pair(r, DOOR_ACK);
    /* Before anything is sent: the daemon's side of the pair. */
    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    for (i = 0; i < 100; i++)
        client_message(bytes + i * SIZE, "space", "deaf", 1);
    for (i = 0; i < count; i += 100) {
        client_send(fd, bytes, 100 * SIZE);
        run(r, took, i + 100);
    }
    assert_false(has_ended(r));

    /* It wakes up, and gets every one of them. */
    for (i = 0; i < count; i++) {
        if (client_try_read(fd, reply, 3, 0) == -EAGAIN) {
            run(r, replied, i + 1);
            client_wins(fd, 1);
        } else {
            assert_memory_equal(reply, "WIN", 3);
        }
    }
    free(bytes);
    client_close(fd);
    finish(r);

    assert_int_equal(records_sum(&r->records, "space", "deaf", NULL), count);
}

static void
a_failed_sync_is_not_acknowledged_and_ends_the_writer(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE], reply[3];
    int fd;

    start(r, 100, 4);
    diag_init("test_ingest", DIAG_ERROR);
    fd = connect_pair(r, DOOR_ACK);
    put(message, 0);
    client_send(fd, message, SIZE);
    fault_inject("fdatasync", 1, EIO);
    run(r, has_failed, 0);
    fault_clear();
    assert_rc(client_try_read(fd, reply, 3, 0), -EAGAIN);

    /* It takes nothing more either. */
    client_send(fd, message, SIZE);
    run(r, pushes_back, 0);
    assert_int_equal(r->ingest.messages, 1);
    close_all(r);
    client_close(fd);
}

/* Whatever the disk takes, every sync is quick, and nothing comes between. */
static void
brief_syncs(struct rig *r)
{
    r->commit.brief_ns = UINT64_MAX;
    run(r, has_recovered, 0);
    loop_disarm(r->loop, &r->logs.recover_timer);
}

/* Sends the messages from `from` to `to`, each when the one before has its
 * reply. */
static void
ping_pong(struct rig *r, int fd, size_t from, size_t to)
{
    uint8_t message[SIZE];
    size_t n;

    for (n = from; n < to; n++) {
        put(message, n);
        client_send(fd, message, SIZE);
        run(r, replied, n + 1);
        client_wins(fd, 1);
    }
}

static void
where_syncs_are_quick_the_loop_does_small_ones_itself(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, 100, 4);
    brief_syncs(r);
    fd = connect_pair(r, DOOR_ACK);
    ping_pong(r, fd, 0, 50);
    assert_int_equal(r->commit.syncs, 50);
    /* All but the first few, from which it learns. */
    assert_in_range(r->commit.syncs_here, 40, 49);
    assert_int_equal(r->logs.synced_slots, 50);
    client_close(fd);
    finish(r);

    expect_messages(r, 50);
}

static void
syncs_that_are_not_quick_are_left_to_the_thread(void **state)
{
    struct rig *r = *state;
    uint64_t here;
    int fd;

    start(r, 100, 4);
    brief_syncs(r);
    fd = connect_pair(r, DOOR_ACK);
    ping_pong(r, fd, 0, 20);
    here = r->commit.syncs_here;
    assert_int_not_equal(here, 0);

    /* One more tells that the disk has become slow. */
    r->commit.brief_ns = 0;
    ping_pong(r, fd, 20, 40);
    assert_int_equal(r->commit.syncs_here, here + 1);
    client_close(fd);
    finish(r);

    expect_messages(r, 40);
}

static void
no_sync_is_done_in_a_loop_that_serves_others(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, 100, 4);
    brief_syncs(r);
    r->crowded = true;
    fd = connect_pair(r, DOOR_ACK);
    ping_pong(r, fd, 0, 40);
    assert_int_equal(r->commit.syncs_here, 0);
    client_close(fd);
    finish(r);

    expect_messages(r, 40);
}

static void
a_large_group_is_left_to_the_thread(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[(LOGS_BRIEF + 1) * SIZE];
    uint64_t here;
    size_t i;
    int fd;

    start(r, 100, 4);
    brief_syncs(r);
    fd = connect_pair(r, DOOR_ACK);
    ping_pong(r, fd, 0, 20);
    here = r->commit.syncs_here;
    for (i = 0; i < LOGS_BRIEF + 1; i++)
        put(bytes + i * SIZE, 20 + i);
    client_send(fd, bytes, sizeof bytes);
    run(r, replied, 20 + LOGS_BRIEF + 1);
    assert_int_equal(r->commit.syncs_here, here);
    client_wins(fd, LOGS_BRIEF + 1);
    client_close(fd);
    finish(r);

    expect_messages(r, 20 + LOGS_BRIEF + 1);
}

static void
logs_that_are_rotated_between_syncs_in_the_loop_lose_nothing(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, 20, 40);
    brief_syncs(r);
    fd = connect_pair(r, DOOR_ACK);
    ping_pong(r, fd, 0, 150);
    assert_int_not_equal(r->commit.syncs_here, 0);
    client_close(fd);
    finish(r);

    expect_messages(r, 150);
}

static void
a_sync_that_fails_in_the_loop_is_not_acknowledged_either(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE], reply[3];
    uint64_t here;
    int fd;

    start(r, 100, 4);
    brief_syncs(r);
    fd = connect_pair(r, DOOR_ACK);
    ping_pong(r, fd, 0, 20);
    here = r->commit.syncs_here;
    put(message, 20);
    client_send(fd, message, SIZE);
    fault_inject("fdatasync", 1, EIO);
    run(r, has_failed, 0);
    fault_clear();
    assert_int_equal(r->commit.syncs_here, here + 1);
    assert_rc(client_try_read(fd, reply, 3, 0), -EAGAIN);

    /* The kernel would say that all is well the second time. */
    run(r, always, 0);
    assert_int_equal(r->commit.syncs, 21);
    assert_rc(client_try_read(fd, reply, 3, 0), -EAGAIN);
    close_all(r);
    client_close(fd);
}

static void
a_failed_append_is_not_acknowledged_and_ends_the_writer(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE], reply[3];
    int fd;

    start(r, 100, 4);
    fd = connect_pair(r, DOOR_ACK);
    put(message, 0);
    client_send(fd, message, SIZE);
    fault_inject("disk", 1, EIO);
    run(r, has_failed, 0);
    fault_clear();
    assert_rc(client_try_read(fd, reply, 3, 0), -EAGAIN);
    close_all(r);
    client_close(fd);
}

/* ---- limits ------------------------------------------------------------ */

static bool
one_left(struct rig *r)
{
    return door(r, DOOR_ACK)->open + door(r, DOOR_SILENT)->open == 63;
}

static void
connections_over_the_limit_are_refused(void **state)
{
    struct rig *r = *state;
    int fds[64], ends[2], i;

    start(r, 100, 4);
    for (i = 0; i < 64; i++)
        fds[i] = connect_pair(r, i % 2 ? DOOR_ACK : DOOR_SILENT);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_rc(conns_take(r->conns, DOOR_ACK, ends[1]), -EMFILE);
    close(ends[0]);
    close(ends[1]);

    client_close(fds[0]);
    run(r, one_left, 0);
    fds[0] = connect_pair(r, DOOR_ACK);
    for (i = 0; i < 64; i++)
        client_close(fds[i]);
    finish(r);
    assert_int_equal(r->records.count, 0);
}

/* As a worker does, once the writer has let it go. */
static void
empty_first_log(struct rig *r)
{
    struct log log;

    while (log_claim(&log, r->data.log_fd, 0, LOG_MODE_FULL) < 0)
        run(r, pushes_back, 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
}

static void
without_an_empty_log_it_stops_reading_and_loses_nothing(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, 20, 2);
    fd = connect_and_send(r, DOOR_ACK, 60);
    run(r, pushes_back, 0);
    assert_int_equal(r->ingest.messages, 40);
    run(r, replied, 40);
    client_wins(fd, 40);

    /* A worker empties the first; the rest goes there. */
    empty_first_log(r);
    run(r, replied, 60);
    client_wins(fd, 20);
    client_close(fd);
    finish(r);

    assert_int_equal(r->records.count, 40);
    assert_true(r->logs.figures.pushed_back > 0);
}

/* ---- stopping ---------------------------------------------------------- */

static void
the_time_that_a_stop_waits_for_a_log_is_not_of_its_drain_time(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, 10, 2);
    fd = connect_and_send(r, DOOR_ACK, 30);
    run(r, pushes_back, 0);
    conns_stop(r->conns, 1000, on_stopped, r);
    empty_first_log(r);
    /* Time goes by, and only then the logs are seen to have room. */
    fault_pass_ns(UINT64_C(999) * 1000000);
    run(r, took, 30);
    run(r, has_finished, 0);
    finish(r);

    client_wins(fd, 30);
    client_expect_end(fd);
    client_close(fd);
    assert_int_equal(r->records.count, 20);
}

static void
a_stop_that_never_gets_a_log_ends(void **state)
{
    struct rig *r = *state;
    int fd;

    start(r, 10, 2);
    fd = connect_and_send(r, DOOR_ACK, 30);
    run(r, pushes_back, 0);
    conns_stop(r->conns, 10, on_stopped, r);
    run(r, has_finished, 0);
    client_wins(fd, 20);
    client_close(fd);
    finish(r);

    assert_int_equal(r->records.count, 20);
}

static void
a_web_page_counts_nothing(void **state)
{
    static const char *const starts[] = {"GET /a?", "POST /", "PUT /",
                                         "OPTIONS /", "HEAD /"};
    struct rig *r = *state;
    uint8_t bytes[8 * SIZE], got[8];
    size_t i, at, n;
    int fd;

    start(r, 100, 4);
    for (i = 0; i < sizeof starts / sizeof starts[0]; i++)
        for (at = DOOR_ACK; at <= DOOR_SILENT; at++) {
            /* A header of whole messages' length, then messages. */
            memset(bytes, 'x', sizeof bytes);
            memcpy(bytes, starts[i], strlen(starts[i]));
            memset(bytes + 264 - 20, 0, 20);
            memset(bytes + SIZE - 20, 0, 20);
            for (n = 1; n < 8; n++)
                put(bytes + n * SIZE, n);
            fd = connect_pair(r, at);
            client_send(fd, bytes, sizeof bytes);
            run(r, has_ended, 0);
            assert_true(client_try_read(fd, got, sizeof got, 0) <= 0);
            client_close(fd);
        }
    assert_int_equal(door(r, DOOR_ACK)->figures.http, 5);
    assert_int_equal(door(r, DOOR_SILENT)->figures.http, 5);
    finish(r);

    assert_int_equal(r->records.count, 0);
}

static void
a_number_that_begins_like_http_is_counted(void **state)
{
    struct rig *r = *state;
    uint8_t message[SIZE];
    int fd;

    start(r, 100, 4);
    fd = connect_pair(r, DOOR_ACK);
    client_message(message, "space", "key", 0x20544547); /* "GET " */
    client_send(fd, message, SIZE);
    run(r, replied, 1);
    client_wins(fd, 1);
    client_close(fd);
    finish(r);

    assert_int_equal(records_sum(&r->records, "space", "key", NULL),
                     0x20544547);
}

static void
a_stop_takes_in_what_has_arrived_and_replies(void **state)
{
    struct rig *r = *state;
    const size_t count = 100;
    uint8_t message[SIZE];
    int ack, silent;

    start(r, 30, 20);
    put(message, 0);
    silent = connect_pair(r, DOOR_SILENT);
    client_send(silent, message, SIZE / 2);
    ack = connect_and_send(r, DOOR_ACK, count);
    finish(r);

    client_wins(ack, count);
    client_expect_end(ack);
    client_expect_end(silent);
    client_close(ack);
    client_close(silent);
    expect_messages(r, count);
    assert_int_equal(r->cut_off, 1);
}

#define ON_RIG(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static const struct CMUnitTest tests[] = {
    ON_RIG(a_message_may_be_cut_anywhere),
    ON_RIG(a_message_may_come_byte_by_byte),
    ON_RIG(glued_messages_are_taken_apart),
    ON_RIG(names_at_their_limits_are_kept_whole),
    ON_RIG(messages_are_kept_in_the_order_they_came),
    ON_RIG(a_malformed_message_gets_fail_after_the_wins_owed),
    ON_RIG(a_malformed_message_ends_a_silent_connection_without_a_byte),
    ON_RIG(one_bad_client_does_not_disturb_another),
    ON_RIG(a_half_close_gets_every_win_and_then_the_end),
    ON_RIG(a_client_that_sends_and_closes_loses_nothing),
    ON_RIG(a_fragment_at_the_end_leaves_no_trace),
    ON_RIG(a_client_that_never_reads_is_read_from_and_not_dropped),
    ON_RIG(a_failed_sync_is_not_acknowledged_and_ends_the_writer),
    ON_RIG(where_syncs_are_quick_the_loop_does_small_ones_itself),
    ON_RIG(syncs_that_are_not_quick_are_left_to_the_thread),
    ON_RIG(no_sync_is_done_in_a_loop_that_serves_others),
    ON_RIG(a_large_group_is_left_to_the_thread),
    ON_RIG(logs_that_are_rotated_between_syncs_in_the_loop_lose_nothing),
    ON_RIG(a_sync_that_fails_in_the_loop_is_not_acknowledged_either),
    ON_RIG(a_failed_append_is_not_acknowledged_and_ends_the_writer),
    ON_RIG(connections_over_the_limit_are_refused),
    ON_RIG(without_an_empty_log_it_stops_reading_and_loses_nothing),
    ON_RIG(a_stop_takes_in_what_has_arrived_and_replies),
    ON_RIG(the_time_that_a_stop_waits_for_a_log_is_not_of_its_drain_time),
    ON_RIG(a_stop_that_never_gets_a_log_ends),
    ON_RIG(a_web_page_counts_nothing),
    ON_RIG(a_number_that_begins_like_http_is_counted),
};

TEST_MAIN(tests)
