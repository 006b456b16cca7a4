/* tests/e2e/test_log_command.c - countd log, check and backup: what is on disk,
 * whole and damaged. */
#include "tests/lib/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/setup/datadir.h"
#include "tests/lib/site.h"

/* ---- logs -------------------------------------------------------------- */

/* A log with five increments that nobody has merged. */
static void
fill_log(struct site *s, uid_t uid)
{
    struct daemon writer;
    const char *const argv[] = {
        "-d", s->data,         "-o", "log.size=64K",
        "-o", "write.listen=", "-o", "write.ack_listen=127.0.0.1:0",
        NULL};
    const struct daemon_how how = {.argv = argv, .uid = uid};

    assert_int_equal(daemon_start_how(&writer, "countd-write", &how), 0);
    snprintf(s->ack, sizeof s->ack, "write.ack_listen=127.0.0.1:%u",
             daemon_port(&writer, "ack"));
    expect(RUN(s, "load",
               site_put(s, "in.tsv",
                        "a\tx\t1\na\tx\t2\na\ty\t4\nb\tx\t8\n"
                        "b\ty\t16\n")),
           0, "5 increments acknowledged");
    assert_int_equal(daemon_stop(&writer), 0);
    daemon_fini(&writer);
}

WITH_EMPTY(flush_says_when_no_reader_answers, s)
{
    fill_log(s, 0);
    expect(RUN(s, "flush"), 111, "countd-read at 127.0.0.1:3 does not");
}

WITH_EMPTY(logs_are_listed_and_dumped, s)
{
    static const char *const slots[] = {"1\ta\tx\n", "2\ta\tx\n", "4\ta\ty\n",
                                        "8\tb\tx\n", "16\tb\ty\n"};

    if (geteuid() != 0)
        test_skip("needs root to read a full log, which may only be written");
    fill_log(s, 0);
    expect(RUN(s, "log"), 0, "log         state  mode  used  slots");
    expect(RUN(s, "log", "list", "--tsv"), 0, "0000000000\tfull\t0200\t5\t");
    expect(0, 0, "0000000001\tempty\t0400\t0\t");
    expect(RUN(s, "log", "dump",
               "1700000000000-0000000000-00000000000000000001.gz"),
           1, ".gz in archive/");
    expect(RUN(s, "log", "list", "--remove"), 100,
           "remove: this option is for: salvage");
    expect(RUN(s, "log", "dump", "0"), 0, "0\t");
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        expect(0, 0, slots[i]);
    expect_text(RUN(s, "log", "dump", "1"), 0, "");
    expect(RUN(s, "log", "dump", "77"), 1, "there is no log 0000000077");
    expect(RUN(s, "log", "dump", "../log/0000000000"), 100, "give the");
    expect(RUN(s, "log", "burn", "1"), 100, "usage: countd log");
    expect(RUN(s, "check"), 0, "full: 5 increments to be merged");
    assert_null(strstr(text, "is not valid"));
    site_damage(s, "log/0000000001", 30);
    expect(RUN(s, "check"), 0, "header block 0 is not valid; the other one");
}

WITH_EMPTY(an_archived_log_is_whole, s)
{
    char name[300], path[1000];
    struct dirent *entry;
    DIR *dir;

    site_serve_with(s, "archive.keep=1h");
    expect_text(RUN(s, "incr", "a", "x", "7"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    assert_int_equal(daemon_stop(&s->serve), 0);
    snprintf(path, sizeof path, "%s/archive", s->data);
    dir = opendir(path);
    assert_non_null(dir);
    do
        entry = readdir(dir);
    while (entry != NULL && entry->d_name[0] == '.');
    assert_non_null(entry);
    snprintf(name, sizeof name, "archive/%s", entry->d_name);
    assert_int_equal(closedir(dir), 0);

    expect(RUN(s, "log", "dump", name), 0, "\t7\ta\tx\n");
    expect(RUN(s, "log", "dump", name + 8), 0, "\t7\ta\tx\n");
    snprintf(path, sizeof path, "%s/%s", s->data, name);
    assert_int_equal(truncate(path, 60), 0);
    expect(RUN(s, "log", "dump", name), 1, "is damaged: nothing of it");
}

WITH_EMPTY(a_full_log_is_looked_at_by_its_own_user_and_left_as_it_was, s)
{
    const uid_t uid = geteuid() == 0 ? 65534 : 0;
    struct stat st;
    char path[700];

    if (uid != 0)
        tmpdir_chown(&s->dir, uid);
    fill_log(s, uid);
    snprintf(path, sizeof path, "%s/log/0000000000", s->data);
    expect(site_run(s, uid, (const char *[]){"log", "dump", "0", NULL}), 0,
           "16\tb\ty\n");
    expect(site_run(s, uid, (const char *[]){"check", NULL}), 0, "0 faults");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0200);
    assert_int_equal(st.st_nlink, 1);
}

WITH_EMPTY(a_damaged_log_is_salvaged_on_request_and_only_once, s)
{
    static const char bad[] = "bad-0000000000-1";
    char path[700];

    fill_log(s, 0);
    site_damage(s, "log/0000000000", 8192 + 544 + 20); /* slot 1: a x 2 */
    snprintf(path, sizeof path, "%s/log/0000000000", s->data);
    assert_int_equal(chmod(path, 0200), 0);
    expect(RUN(s, "check"), 1, "FAULT: slots damaged: 1 of 5");

    site_serve(s);
    for (int i = 0; i < 1000; i++) /* until the worker has met it */
        if (RUN(s, "check") == 1 && strstr(text, "countd log salvage"))
            break;
    expect(1, 1, "countd log salvage bad-0000000000-1");
    expect(RUN(s, "log", "list", "--tsv"), 0, "bad-0000000000-1\tquarantined");
    expect(RUN(s, "log", "dump", bad), 1, "16\tb\ty\n");
    expect(RUN(s, "log", "salvage", bad, "--dry-run"), 0,
           "4 increments would be merged");
    expect_text(RUN(s, "keyspaces", "--tsv"), 0, "");
    expect(RUN(s, "log", "salvage", bad, "--keep"), 0,
           "4 increments merged, 0 merged already, 1 damaged and lost");
    expect(RUN(s, "log", "salvage", bad), 0,
           "0 increments merged, 4 merged already");
    expect(RUN(s, "log", "list", "--tsv"), 0, "salvaged-0000000000-1\t");
    expect(RUN(s, "log", "salvage", bad), 1, "there is no log bad-0000000000");
    expect(RUN(s, "log", "salvage", "salvaged-0000000000-1"), 100,
           "only quarantined logs");
    expect(RUN(s, "log", "salvage", "0"), 100, "only quarantined logs");

    expect_text(RUN(s, "top", "a", "--tsv"), 0, "0\t4\ty\n1\t1\tx\n");
    expect_text(RUN(s, "top", "b", "--tsv"), 0, "0\t16\ty\n1\t8\tx\n");
    expect(RUN(s, "check"), 0, "0 faults");
}

WITH_EMPTY(flush_says_what_was_set_aside_as_damaged, s)
{
    static const char words[] = "not readable: 1 damaged log quarantined "
                                "(log/bad-0000000000-1); countd "
                                "log salvage merges what is valid";
    char path[700];

    fill_log(s, 0);
    site_damage(s, "log/0000000000", 8192 + 544 + 20);
    snprintf(path, sizeof path, "%s/log/0000000000", s->data);
    assert_int_equal(chmod(path, 0200), 0);
    daemon_start(&s->serve, "countd-read", "-d", s->data, "-o",
                 "read.listen=127.0.0.1:0", NULL);
    snprintf(s->read, sizeof s->read, "read.listen=127.0.0.1:%u",
             daemon_port(&s->serve, "read"));
    expect(RUN(s, "flush", "--timeout", "100ms"), 1, "not merged in time");
    assert_null(strstr(text, "not readable"));
    assert_int_equal(daemon_stop(&s->serve), 0);
    daemon_fini(&s->serve);

    site_serve(s);
    for (int i = 0; i < 1000; i++) /* until the worker has met it */
        if (RUN(s, "log", "list") == 0 && strstr(text, "bad-0000000000-1"))
            break;
    expect(RUN(s, "flush"), 0, words); /* no news: it was there before */
    snprintf(path, sizeof path, "%s/copy", s->dir.path);
    expect(RUN(s, "backup", path), 0,
           "not in the copy: 1 damaged log quarantined");
    expect(RUN(s, "log", "salvage", "bad-0000000000-1"), 0, "4 increments");
    expect_text(RUN(s, "flush"), 0, "");
}

/* Until flush tells the writer, which is us, to hand its log on. */
static void
await_rotation(void)
{
    const struct timespec limit = {.tv_sec = 20 * (time_t)test_slow()};
    sigset_t mask;

    assert_int_equal(sigemptyset(&mask), 0);
    assert_int_equal(sigaddset(&mask, SIGUSR2), 0);
    assert_int_equal(sigtimedwait(&mask, NULL, &limit), SIGUSR2);
}

WITH_EMPTY(flush_ends_with_1_when_it_sees_damage_come, s)
{
    const char *const argv[] = {"flush", "-d", s->data, "-o", s->read, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    struct daemon worker, flush;
    struct datadir dir;
    char path[700];
    sigset_t mask;
    int fd, status;
    long pid;

    fill_log(s, 0);
    site_damage(s, "log/0000000000", 8192 + 544 + 20);
    snprintf(path, sizeof path, "%s/log/0000000000", s->data);
    assert_int_equal(chmod(path, 0200), 0);
    daemon_start(&s->serve, "countd-read", "-d", s->data, "-o",
                 "read.listen=127.0.0.1:0", NULL);
    snprintf(s->read, sizeof s->read, "read.listen=127.0.0.1:%u",
             daemon_port(&s->serve, "read"));

    /* The worker comes when flush has looked at what was set aside before. */
    assert_int_equal(sigemptyset(&mask), 0);
    assert_int_equal(sigaddset(&mask, SIGUSR2), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &mask, NULL), 0);
    assert_rc(datadir_open(&dir, s->data, DATADIR_READ), 0);
    assert_rc(datadir_writer_lock(&dir, &fd, &pid), 0);
    assert_int_equal(daemon_start_how(&flush, "countd", &how), 0);
    await_rotation();
    daemon_start(&worker, "countd-worker", "-d", s->data, NULL);
    status = daemon_wait(&flush);
    (void)daemon_output(&flush, text, sizeof text);
    expect(status, 1, "not readable: 1 damaged log quarantined");
    assert_null(strstr(text, "not merged in time"));

    assert_int_equal(daemon_stop(&worker), 0);
    daemon_fini(&worker);
    daemon_fini(&flush);
    assert_int_equal(close(fd), 0);
    datadir_close(&dir);
    (void)signal(SIGUSR2, SIG_IGN); /* drops what is pending */
    assert_int_equal(sigprocmask(SIG_UNBLOCK, &mask, NULL), 0);
    (void)signal(SIGUSR2, SIG_DFL); /* a valid number */
}

/* ---- check ------------------------------------------------------------- */

WITH_SITE(check_finds_a_damaged_keyspace_and_still_looks_at_the_others, s)
{
    struct stat st;
    char path[700];

    site_put_gzip(s, "in.tsv.gz", 10000, 5000);
    snprintf(path, sizeof path, "%s/in.tsv.gz", s->dir.path);
    expect_text(RUN(s, "incr", "other", "x"), 0, "");
    expect(RUN(s, "load", path), 0, "10000 increments");
    assert_int_equal(daemon_stop(&s->serve), 0);
    expect(RUN(s, "check", "--json"), 0, "\"faults\": 0}\n");
    assert_int_equal(mkdirat(s->dir.fd, "data/held", 0700), 0);
    (void)site_put(s, "data/held/bad-1", "junk"); /* not its path */
    expect(RUN(s, "check"), 1,
           "held bad-1  FAULT: a damaged segment of held records");
    assert_int_equal(unlinkat(s->dir.fd, "data/held/bad-1", 0), 0);
    expect(RUN(s, "check", "words", "nope"), 1, "there is no such keyspace");

    /* The middle of every page: blocks fill theirs, other pages are nearly
     * empty there. */
    snprintf(path, sizeof path, "%s/keyspace/words.mdb", s->data);
    assert_int_equal(stat(path, &st), 0);
    for (off_t at = 2 * 4096 + 2048; at < st.st_size; at += 4096)
        site_damage(s, "keyspace/words.mdb", at);
    assert_int_equal(RUN(s, "check"), 1);
    expect(1, 1, "FAULT: ");
    expect(1, 1, "keyspaces=2 ");
    expect(RUN(s, "check", "other"), 0, "0 faults");
}

WITH_SITE(other_message_sizes_are_no_faults_but_misuse, s)
{
    char copy[700];

    snprintf(copy, sizeof copy, "%s/copy", s->dir.path);
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "check", "-o", "message.key_size=64"), 100,
           "message.keyspace_size=256 and message.key_size=256: set these");
    assert_null(strstr(text, "FAULT"));
    expect(RUN(s, "check", "a", "-o", "message.keyspace_size=8"), 100,
           "set these");
    expect(RUN(s, "backup", copy, "-o", "message.key_size=64"), 100,
           "set these");
    assert_false(tmpdir_has(&s->dir, "copy"));
    expect(RUN(s, "log", "salvage", "bad-0000000000-1", "-o",
               "message.key_size=64"),
           100, "set these");
    expect(RUN(s, "log", "list", "-o", "message.key_size=64"), 0, "0000000000");
}

/* Copies each log of the directory into `to`, or back. */
static void
copy_logs(struct site *s, const char *from, const char *to)
{
    char script[2048];

    snprintf(script, sizeof script,
             "mkdir -p '%s/%s' && cp -p '%s/%s'/000* '%s/%s'/", s->data, to,
             s->data, from, s->data, to);
    assert_int_equal(
        daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0);
}

WITH_SITE(check_finds_logs_that_are_older_than_the_keyspaces, s)
{
    if (geteuid() != 0)
        test_skip("needs root to read a full log, which may only be written");
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    assert_int_equal(daemon_stop(&s->serve), 0);
    copy_logs(s, "log", "saved");
    site_serve(s);
    for (int i = 0; i < 12; i++) {
        expect_text(RUN(s, "incr", "a", "b"), 0, "");
        expect_text(RUN(s, "flush"), 0, "");
    }
    assert_int_equal(daemon_stop(&s->serve), 0);
    expect(RUN(s, "check"), 0, "0 faults");

    copy_logs(s, "saved", "log");
    expect(RUN(s, "check"), 1, "was the directory put together from copies");
}

/* ---- backup ------------------------------------------------------------ */

WITH_SITE(a_backup_of_a_running_store_is_complete_and_serves, s)
{
    char copy[700], data[600];

    expect_text(RUN(s, "incr", "a", "b", "7"), 0, "");
    expect_text(RUN(s, "incr",
                    "A/very long name that has to be hashed because "
                    "it is no plain one, and is longer than sixty",
                    "b", "8"),
                0, "");
    snprintf(copy, sizeof copy, "%s/copy", s->dir.path);
    expect(RUN(s, "backup", copy), 0,
           "copied and checked keyspaces=2 keys=2 faults=0");
    expect(RUN(s, "backup", copy), 100, "is not empty");
    expect(RUN(s, "backup", "/no/where"), 100, "parent folder does not exist");
    expect_text(RUN(s, "incr", "a", "b", "100"), 0, "");
    assert_int_equal(daemon_stop(&s->serve), 0);
    daemon_fini(&s->serve);

    memcpy(data, s->data, sizeof data);
    snprintf(s->data, sizeof s->data, "%.*s", (int)sizeof s->data - 1, copy);
    expect(RUN(s, "check"), 0, "keyspaces=2 keys=2 ");
    site_serve(s);
    expect_text(RUN(s, "get", "a", "b"), 0, "7\n");
    expect_text(RUN(s, "incr", "a", "b", "1"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "b"), 0, "8\n");
    memcpy(s->data, data, sizeof data);
}

/* A damaged or exchanged key of file names must not pass unseen. */
WITH_SITE(check_finds_a_file_of_a_long_name_under_another_name, s)
{
    static const char moved[] = "%h0123456789abcdef0123456789abcdef";
    char from[1000], to[700];
    struct dirent *e;
    DIR *dir;

    expect_text(RUN(s, "incr",
                    "A/very long name that has to be hashed because "
                    "it is no plain one, and is longer than sixty",
                    "b", "8"),
                0, "");
    expect_text(RUN(s, "flush"), 0, "");
    assert_int_equal(daemon_stop(&s->serve), 0);
    snprintf(to, sizeof to, "%s/keyspace", s->data);
    dir = opendir(to);
    assert_non_null(dir);
    while ((e = readdir(dir)) && (strncmp(e->d_name, "%h", 2) != 0 ||
                                  strstr(e->d_name, "-lock") != NULL))
        ;
    assert_non_null(e);
    snprintf(from, sizeof from, "%s/keyspace/%s", s->data, e->d_name);
    snprintf(to, sizeof to, "%s/keyspace/%s.mdb", s->data, moved);
    assert_int_equal(closedir(dir), 0);
    assert_int_equal(rename(from, to), 0);

    expect(RUN(s, "check"), 1, moved);
    expect(RUN(s, "check"), 1, "which belongs in keyspace/%h");
}

WITH_SITE(a_backup_waits_for_the_merge_or_says_that_it_does_not, s)
{
    char copy[700];

    snprintf(copy, sizeof copy, "%s/copy", s->dir.path);
    assert_int_equal(kill(s->children[1], SIGSTOP), 0);
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    expect(RUN(s, "backup", copy, "--timeout", "100ms"), 111,
           "logs are not merged in time");
    assert_false(tmpdir_has(&s->dir, "copy"));
    expect(RUN(s, "backup", copy, "--no-flush"), 0, "keyspaces=0");
    assert_int_equal(kill(s->children[1], SIGCONT), 0);
}

static bool
strace_works(void)
{
    return daemon_run(text, sizeof text, "/usr/bin/env", "strace", "-qq", "-o",
                      "/dev/null", "true", NULL) == 0;
}

/* Kills a backup at its call number `n` of `name`.  True when there are fewer
 * calls: it has ended. */
static bool
kill_backup_at(struct site *s, const char *path, const char *copy,
               const char *name, unsigned n)
{
    char inject[64];

    snprintf(inject, sizeof inject, "inject=%s:signal=KILL:when=%u", name, n);
    /* A sanitizer cannot look for leaks while strace traces. */
    return daemon_run(text, sizeof text, "/usr/bin/env",
                      "ASAN_OPTIONS=detect_leaks=0", "strace", "-qq", "-o",
                      "/dev/null", "-e", inject, path, "-d", s->data, "backup",
                      "--no-flush", copy, NULL) == 0;
}

WITH_SITE(a_backup_that_is_killed_is_never_called_whole, s)
{
    static const char *const calls[] = {"mkdirat", "renameat", "unlinkat",
                                        "fsync"};
    char copy[640], path[600];
    unsigned refused = 0;
    bool ended;

    if (!strace_works())
        test_skip("strace cannot trace here");
    daemon_path("countd", path, sizeof path);
    expect_text(RUN(s, "incr", "a", "b", "7"), 0, "");
    expect_text(RUN(s, "incr", "c", "d", "7"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        ended = false;
        for (unsigned n = 1; !ended; n++) {
            struct site at = *s;

            assert_true(n < 100);
            snprintf(copy, sizeof copy, "%s/%s-%u", s->dir.path, calls[i], n);
            ended = kill_backup_at(s, path, copy, calls[i], n);
            snprintf(at.data, sizeof at.data, "%.*s", (int)sizeof at.data - 1,
                     copy);
            if (RUN(&at, "check") == 0)
                expect(0, 0, "keyspaces=2 keys=2 ");
            else if (tmpdir_has(&s->dir, strrchr(copy, '/') + 1))
                refused++;
            assert_true(!ended || strstr(text, "keyspaces=2") != NULL);
        }
    }
    assert_true(refused > 8);
    snprintf(copy, sizeof copy, "%s/fsync-1", s->dir.path);
    expect(RUN(s, "backup", "--no-flush", copy), 100, "was not finished");
}
