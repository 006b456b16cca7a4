/* tests/e2e/test_postgresql_as_of.c - what an answer claims when several machines
 * count into one database, or a standby answers; and what countd status says of
 * the database. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/pg_machines.h"

#define AWAIT_MS 30000

struct answer {
    int64_t count, as_of_ms;
};

static int64_t
number_behind(const char *word)
{
    const char *at = strstr(text, word);

    if (!at)
        fail_msg("no %s in %s", word, text);
    return strtoll(at + strlen(word), NULL, 10);
}

/* A key that a standby has not got yet is 0. */
static struct answer
ask_count(struct fleet *f)
{
    assert_in_range(FLEET_RUN(f, "get", "words", "the", "--json"), 0,
                    CONFIG_EXIT_NEGATIVE);
    return (struct answer){number_behind("\"count\": "),
                           number_behind("\"as_of_ms\": ")};
}

static void
await_claim(struct fleet *f, uint64_t as_of_ms)
{
    const uint64_t deadline = clock_ms() + AWAIT_MS * (uint64_t)test_slow();
    const struct timespec pause = {.tv_nsec = 20000000};

    while (ask_count(f).as_of_ms < (int64_t)as_of_ms) {
        if (clock_ms() >= deadline)
            fail_msg("as_of_ms does not reach %" PRIu64, as_of_ms);
        (void)nanosleep(&pause, NULL);
    }
}

/* Runs a command until what it says has, or has not, these words. */
static void
await_words(struct fleet *f, const char *command, int status, bool has,
            const char *words)
{
    const uint64_t deadline = clock_ms() + AWAIT_MS * (uint64_t)test_slow();
    int got;

    do {
        got = FLEET_RUN(f, command);
        if (clock_ms() >= deadline)
            fail_msg("countd %s still has, or has not: %s", command, words);
    } while ((strstr(text, words) != NULL) != has);
    assert_int_equal(got, status);
}

/* What data/store has of it. */
static void
take_id(struct fleet *f, char id[33])
{
    uint8_t bytes[24];
    char path[sizeof f->path + 8];
    FILE *file;

    (void)snprintf(path, sizeof path, "%.500s/store", f->path);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), sizeof bytes);
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < 16; i++)
        (void)snprintf(id + 2 * i, 3, "%02x", bytes[8 + i]);
}

PG_MACHINES(a_machine_that_is_away_holds_claims_back_until_it_is_forgotten, x)
{
    struct fleet *a = &x->fleets[0], *b = &x->fleets[1];
    char id[33];
    uint64_t away_ms, added_ms;

    service_start(a);
    service_start(b);
    service_add(a, "words", "the", 1);
    service_add(b, "words", "the", 2);
    expect_text(FLEET_RUN(a, "flush"), 0, "");
    expect_text(FLEET_RUN(b, "flush"), 0, "");
    added_ms = clock_unix_ms();
    await_claim(a, added_ms);
    fleet_stop(b, FLEET_WORKER);
    away_ms = clock_unix_ms();
    service_add(b, "words", "the", 4); /* waits in its log */
    service_add(a, "words", "the", 8);
    added_ms = clock_unix_ms();
    expect_text(FLEET_RUN(a, "flush"), 0, "");
    assert_int_equal(ask_count(a).count, 11);
    assert_in_range(ask_count(a).as_of_ms, 1, away_ms);
    expect(FLEET_RUN(a, "store"), 0, "directory");

    take_id(b, id);
    (void)pg_server_run("UPDATE @.sender SET seen = seen - 20000 WHERE "
                        "encode(id, 'hex') = '%s'",
                        id);
    await_words(a, "status", CONFIG_EXIT_NEGATIVE, true,
                "say nothing: 1; as_of_ms rests");
    expect_text(FLEET_RUN(a, "store", "forget", id), 0, "");
    expect(FLEET_RUN(a, "store", "forget", id), CONFIG_EXIT_NEGATIVE,
           "no directory");
    await_claim(a, added_ms);

    fleet_start(b, FLEET_WORKER); /* comes back, and counts once */
    expect_text(FLEET_RUN(b, "flush"), 0, "");
    assert_int_equal(ask_count(a).count, 15);
}

PG_MACHINES(a_machine_that_is_stopped_holds_claims_back_if_its_logs_are_full, x)
{
    struct fleet *a = &x->fleets[0], *b = &x->fleets[1];
    uint64_t added_ms;
    pid_t worker;

    service_start(a);
    service_start(b);
    pg_machines_add(b, "words", "the", 1);
    fleet_stop_all(b);
    await_claim(a, clock_unix_ms());
    await_words(a, "store", 0, true, " ended ");

    service_start(b);
    await_words(a, "store", 0, false, " ended ");
    worker = fleet_daemon(b, FLEET_WORKER)->pid;
    assert_int_equal(kill(worker, SIGSTOP), 0);
    service_add(b, "words", "the", 2);
    added_ms = clock_unix_ms();
    fleet_stop(b, FLEET_WRITE);
    assert_int_equal(kill(worker, SIGTERM), 0);
    assert_int_equal(kill(worker, SIGCONT), 0);
    fleet_stop_all(b);
    assert_false(fleet_logs_are_drained(b));
    pg_machines_add(a, "words", "the", 4);
    assert_int_equal(ask_count(a).count, 5);
    assert_in_range(ask_count(a).as_of_ms, 1, added_ms - 1);

    fleet_start(b, FLEET_WORKER);
    fleet_await_drained(b, AWAIT_MS);
    fleet_stop(b, FLEET_WORKER);
    await_claim(a, added_ms);
    assert_int_equal(ask_count(a).count, 7);
}

/* The increment is stamped before `added_ms`: as long as it is not in the answer,
 * the answer must not claim that time. */
PG_MACHINES(a_standby_answers_what_it_has_and_says_so, x)
{
    struct fleet *f = &x->fleets[0];
    const char *standby;
    char conninfo[600];
    uint64_t added_ms;

    pg_server_standby_start(false);
    standby = strchr(pg_server_standby_conninfo(), '=') + 1;
    fleet_put_option(f, "store.read_conninfo", pg_server_standby_conninfo());
    service_start(f);
    pg_machines_add(f, "words", "the", 10);
    await_claim(f, clock_unix_ms());
    assert_int_equal(ask_count(f).count, 10);

    /* What writes goes on to the other host by itself. */
    (void)snprintf(conninfo, sizeof conninfo,
                   "store.conninfo=host=%.*s,%s user=postgres dbname=postgres",
                   (int)strcspn(standby, " "), standby, pg_server_path());
    expect(FLEET_RUN(f, "store", "-o", conninfo), 0, pg_server_path());

    (void)pg_server_standby_run("SELECT pg_wal_replay_pause()");
    service_add(f, "words", "the", 5);
    added_ms = clock_unix_ms();
    expect(FLEET_RUN(f, "flush", "--timeout", "3s"), CONFIG_EXIT_NEGATIVE,
           "not readable in time");
    for (int i = 0; i < 3; i++) {
        const struct answer old = ask_count(f);

        assert_int_equal(old.count, 10);
        assert_in_range(old.as_of_ms, 1, added_ms - 1);
    }
    (void)pg_server_standby_run("SELECT pg_wal_replay_resume()");
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(ask_count(f).count, 15);
    pg_server_standby_stop();
}

static void
send_commands(int fd, const char *commands)
{
    client_send(fd, commands, strlen(commands));
}

static void
await_answer(int fd, const char *answer)
{
    char got[64];

    got[client_read(fd, got, strlen(answer))] = '\0';
    assert_string_equal(got, answer);
}

/* A Redis client of a machine that reads from a standby. */
static int
connect_to_standby(struct fleet *f)
{
    pg_server_standby_start(false);
    fleet_put_option(f, "store.read_conninfo", pg_server_standby_conninfo());
    fleet_put_option(f, "resp.listen", "127.0.0.1:0");
    service_start(f);
    return client_connect(daemon_port(fleet_daemon(f, FLEET_READ), "resp"));
}

/* Counts what is merged, and does not reach the standby from now on. */
static void
count_unseen(struct fleet *f, int fd)
{
    (void)pg_server_standby_run("SELECT pg_wal_replay_pause()");
    send_commands(fd, "ZINCRBY b 1 c\r\n");
    await_answer(fd, "$1\r\n1\r\n");
    fleet_await_drained(f, AWAIT_MS);
}

PG_MACHINES(a_redis_client_waits_for_what_a_standby_has_not_got_yet, x)
{
    struct fleet *f = &x->fleets[0];
    uint64_t since_ms;
    int fd;

    fleet_put_option(f, "resp.own_wait", "1m");
    fd = connect_to_standby(f);
    send_commands(fd, "ZINCRBY b 1 a\r\nZCARD b\r\n");
    await_answer(fd, "$1\r\n1\r\n:1\r\n");
    send_commands(fd, "WAIT 1 60000\r\n");
    await_answer(fd, ":1\r\n");

    count_unseen(f, fd);
    since_ms = clock_ms();
    send_commands(fd, "WAIT 1 200\r\n");
    await_answer(fd, ":0\r\n");
    assert_true(clock_ms() - since_ms >= 200);
    send_commands(fd, "WAIT 0 0\r\nZCARD b\r\n");
    await_answer(fd, ":0\r\n");
    (void)pg_server_standby_run("SELECT pg_wal_replay_resume()");
    await_answer(fd, ":2\r\n");
    send_commands(fd, "WAIT 1 60000\r\n");
    await_answer(fd, ":1\r\n");
    client_close(fd);
    pg_server_standby_stop();
}

/* Of one keyspace, of all, and of none. */
PG_MACHINES(a_request_for_a_time_waits_for_a_standby, x)
{
    static const char *const paths[] = {"total?keyspace=words&", "keyspaces?",
                                        "now?"};
    struct fleet *f = &x->fleets[0];
    char request[128];
    int64_t added_ms;
    int fd;

    pg_server_standby_start(false);
    fleet_put_option(f, "store.read_conninfo", pg_server_standby_conninfo());
    fleet_put_option(f, "read.http", "127.0.0.1:0");
    service_start(f);
    pg_machines_add(f, "words", "the", 1);
    await_claim(f, clock_unix_ms());
    (void)pg_server_standby_run("SELECT pg_wal_replay_pause()");
    service_add(f, "words", "the", 2);
    added_ms = (int64_t)clock_unix_ms();
    fleet_await_drained(f, AWAIT_MS);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        fd = client_connect(
            daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));
        (void)snprintf(request, sizeof request,
                       "GET /v1/%sas_of=%" PRId64
                       "&wait=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                       paths[i], added_ms);
        send_commands(fd, request);
        await_answer(fd, "HTTP/1.1 504 ");
        client_close(fd);
    }
    (void)pg_server_standby_run("SELECT pg_wal_replay_resume()");
    await_claim(f, (uint64_t)added_ms);
    pg_server_standby_stop();
}

PG_MACHINES(a_redis_client_does_not_wait_again_while_a_standby_stands_still, x)
{
    struct fleet *f = &x->fleets[0];
    uint64_t since_ms;
    int fd;

    fd = connect_to_standby(f);
    send_commands(fd, "ZINCRBY b 1 a\r\nWAIT 1 60000\r\n");
    await_answer(fd, "$1\r\n1\r\n:1\r\n");

    count_unseen(f, fd);
    since_ms = clock_ms();
    send_commands(fd, "ZCARD b\r\n");
    await_answer(fd, ":1\r\n");
    assert_true(clock_ms() - since_ms >= 1000);
    since_ms = clock_ms();
    for (unsigned i = 0; i < 20; i++) {
        send_commands(fd, "ZCARD b\r\n");
        await_answer(fd, ":1\r\n");
    }
    assert_true(clock_ms() - since_ms < 20 * 1000);
    (void)pg_server_standby_run("SELECT pg_wal_replay_resume()");
    client_close(fd);
    pg_server_standby_stop();
}

/* ---- what needs an operator ------------------------------------------------ */

PG_MACHINES(status_names_a_clock_and_a_standby_that_is_away, x)
{
    struct fleet *f = &x->fleets[0];

    service_start(f);
    (void)pg_server_run("INSERT INTO @.sender VALUES ('other', 'slowhost', 1, "
                        "-5000, 9000000000000)");
    await_words(f, "status", CONFIG_EXIT_NEGATIVE, true,
                "! a clock is 5 s off the database's");
    expect(FLEET_RUN(f, "store"), CONFIG_EXIT_NEGATIVE,
           "host=slowhost as_of_ms=1 clock_ahead_ms=-5000");
    pg_server_set("synchronous_standby_names", "nobody");
    await_words(f, "status", CONFIG_EXIT_NEGATIVE, true,
                "! commits of the database wait for a synchronous "
                "standby, and none is there");
    pg_server_set("synchronous_standby_names", "");
}

static void
name_lock(struct fleet *f, PGconn *session, bool names_process)
{
    char named[64];

    service_add(f, "words", "the", 1);
    await_words(f, "status", CONFIG_EXIT_NEGATIVE, true,
                "! merges wait for a lock of another session");
    (void)snprintf(named, sizeof named, "process %d (user ",
                   PQbackendPID(session));
    if (names_process)
        await_words(f, "store", CONFIG_EXIT_NEGATIVE, true, named);
    pg_server_session_end(session);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
}

PG_MACHINES(a_lock_on_one_keyspace_stops_no_other, x)
{
    const uint64_t deadline = clock_ms() + AWAIT_MS * (uint64_t)test_slow();
    struct fleet *f = &x->fleets[0];
    PGconn *session;

    service_start(f);
    pg_machines_add(f, "words", "the", 1);
    session = pg_server_session("BEGIN; SELECT FROM @.keyspace FOR UPDATE");
    service_add(f, "words", "the", 1);
    await_words(f, "status", CONFIG_EXIT_NEGATIVE, true,
                "! merges wait for a lock of another session");
    service_add(f, "more", "x", 7);
    do {
        assert_true(clock_ms() < deadline);
        (void)FLEET_RUN(f, "get", "more", "x", "--json");
    } while (!strstr(text, "\"count\": 7"));
    assert_int_equal(ask_count(f).count, 1);
    PQfinish(session);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(ask_count(f).count, 2);
}

PG_MACHINES(status_names_a_lock_of_another_session, x)
{
    struct fleet *f = &x->fleets[0];

    service_start(f);
    pg_machines_add(f, "words", "the", 1);
    name_lock(f, pg_server_session("BEGIN; SELECT FROM @.keyspace FOR UPDATE"),
              true);
    /* No other connection gets as far as a table that is locked. */
    name_lock(f, pg_server_session("BEGIN; LOCK TABLE @.mark"), false);
}
