/* tests/unit/test_config.c - settings from files, -o and command lines. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/setup/config.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

static struct config c;           /* what the last call set */
static char why[CONFIG_WHY_SIZE]; /* and what it said */
static struct config_command command = {.program = "countd-test",
                                        .summary = "a test"};

static int
set_text(const char *bytes)
{
    config_defaults(&c);
    return config_text(&c, bytes, strlen(bytes), "t.conf", why);
}

static int
set_key(const char *key, const char *value)
{
    return config_set(&c, key, value, why);
}

static int
set_file(const char *path)
{
    return config_file(&c, path, why);
}

static int
check_config(void)
{
    return config_check(&c, why);
}

static void
assert_why(const char *expected)
{
    if (strcmp(why, expected) != 0)
        print_error("%s\n", why);
    assert_string_equal(why, expected);
}

static void
assert_bad(const char *bytes, int rc, const char *expected)
{
    assert_rc(set_text(bytes), rc);
    assert_why(expected);
}

/* ---- values ------------------------------------------------------------ */

TEST(a_file_sets_keys_with_units_quotes_and_comments)
{
    assert_rc(set_text("\xef\xbb\xbf# a comment\n"
                       "\n"
                       "  log.size = 64M  # behind a value\n"
                       "log.count=8\r\n"
                       "data_dir = \"/srv/a # b\" # c\n"
                       "log.rotate_after = 1m\n"
                       "\tlog.sync = 5ms\n"
                       "write.drain = 0ms\n"
                       "worker.memory = 1T\n"
                       "write.listen =\n"
                       "read.listen = \"\"\n"
                       "archive.keep = 3d"),
              -EINVAL);
    assert_why("t.conf:9: worker.memory: \"1T\" is wrong; give a "
               "size: a number, or one with K, M or G, such as "
               "32M");
    assert_int_equal(c.log_size, 64 << 20);
    assert_int_equal(c.log_count, 8);
    assert_string_equal(c.data_dir, "/srv/a # b");
    assert_int_equal(c.log_rotate_after_ms, 60000);
    assert_int_equal(c.log_sync_ms, 5);
    assert_int_equal(c.write_drain_ms, 0);
    assert_rc(set_text("write.listen =\nread.listen = \"\"\narchive.keep = 3d"),
              0);
    assert_string_equal(c.write_listen, "");
    assert_string_equal(c.read_listen, "");
    assert_int_equal(c.archive_keep_ms, 3 * 86400000);
}

TEST(every_unit_counts)
{
    static const struct {
        const char *text;
        uint64_t value;
        int rc;
    } sizes[] = {{"16384", 16384, 0}, {"16K", 16384, 0}, {"1G", 1 << 30, 0}},
      times[] = {{"7ms", 7, 0},
                 {"7s", 7000, 0},
                 {"7m", 420000, 0},
                 {"7h", 25200000, 0},
                 {"7d", 604800000, 0},
                 {"7", 7000, 0},
                 {"-7s", 0, -EINVAL},
                 {"99999999999999999999s", 0, -ERANGE},
                 {"18446744073709551615d", 0, -ERANGE}};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_rc(set_key("log.size", sizes[i].text), 0);
        assert_int_equal(c.log_size, sizes[i].value);
    }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        uint64_t ms = 0;

        assert_rc(config_duration(times[i].text, &ms), times[i].rc);
        assert_int_equal(ms, times[i].value);
    }
}

TEST(log_sync_takes_words_or_a_duration)
{
    assert_rc(set_text("log.sync=always"), 0);
    assert_true(c.log_sync_ms == CONFIG_SYNC_ALWAYS);
    assert_rc(set_text("log.sync=never"), 0);
    assert_true(c.log_sync_ms == CONFIG_SYNC_NEVER);
}

TEST(switches_take_true_and_false_and_on_and_off)
{
    assert_rc(set_text("quota.enable = on\ncounter.enable = \"off\""), 0);
    assert_true(c.quota_enable);
    assert_false(c.counter_enable);
    assert_rc(set_text("quota.enable = true\ncounter.enable = false"), 0);
    assert_true(c.quota_enable);
    assert_false(c.counter_enable);
}

TEST(seconds_need_no_unit_and_take_one)
{
    assert_rc(set_text("counter.stats_interval = 3600"), 0);
    assert_int_equal(c.counter_stats_interval_s, 3600);
    assert_rc(set_text("counter.stat_interval = 2d"), 0); /* its other name */
    assert_int_equal(c.counter_stats_interval_s, 172800);
}

TEST(the_live_address_has_no_port)
{
    static const char *const good[] = {
        "127.0.0.1", "0.0.0.0", "[::1]", "localhost", "db1", "db1.example.org"};
    static const char *const bad[] = {"127.0.0.1:11215", "::1",     "[::1]:1",
                                      "db1:11215",       "127.0.0", "db 1"};

    config_defaults(&c);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_rc(set_key("live.address", good[i]), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_rc(set_key("live.address", bad[i]), -EINVAL);
    assert_bad("live.address = 127.0.0.1:1", -EINVAL,
               "t.conf:1: live.address: \"127.0.0.1:1\" is wrong; give an "
               "address or host name without a port, such as 127.0.0.1 or "
               "[::1]");
    assert_rc(set_key("live.address", ""), -ERANGE);
}

/* ---- errors ------------------------------------------------------------ */

#define NO_SETTING   "no such setting; countd-write -h lists them all"
#define GIVE_SWITCH  "is wrong; give true or false, or on or off"
#define GIVE_SECONDS "seconds: a number, or one with s, m, h or d, such as 1d"
#define GIVE_ADDRESS                                                           \
    "is wrong; give an address or host name and a port, such as "              \
    "127.0.0.1:48879 or [::1]:0, or socket"

TEST(an_error_names_file_line_key_and_what_would_be_right)
{
    static const struct {
        const char *text;
        int rc;
        const char *why; /* behind the name of the file and the line, 1 */
    } bad[] = {
        {"log.count = many", -EINVAL,
         "log.count: \"many\" is wrong; give a number"},
        {"log.count = 0", -ERANGE,
         "log.count: 0 is out of range; give a number, 1 to 1024"},
        {"log.size = 2G", -ERANGE,
         "log.size: 2G is out of range; give a size, 16K to 1G"},
        {"log.sync=sometimes", -EINVAL,
         "log.sync: \"sometimes\" is wrong; give always, never, or a duration "
         "such as 200ms"},
        {"log.sync=0ms", -ERANGE,
         "log.sync: 0ms is out of range; give always, never or a duration, 1ms "
         "to 1h"},
        {"semaphore.enable = yes", -EINVAL,
         "semaphore.enable: \"yes\" " GIVE_SWITCH},
        {"semaphore.enable =", -EINVAL, "semaphore.enable: \"\" " GIVE_SWITCH},
        {"semaphore.gc_interval = 1000ms", -EINVAL,
         "semaphore.gc_interval: \"1000ms\" is wrong; give " GIVE_SECONDS},
        {"counter.stat_interval = 5", -ERANGE,
         "counter.stats_interval: 5 is out of range; give seconds or a "
         "duration, 10s to 36500d"},
        {"log.count", -EINVAL, "\"log.count\" is no setting; give key = value"},
        {"data_dir = \"a", -EINVAL,
         "a quote is not closed; give \" at both ends"},
        {"data_dir = \"a\" b", -EINVAL,
         "something follows the closing quote; give key = \"value\" only"},
        {"data_dir =", -ERANGE, "data_dir: empty; give a path"},
        {"write.allow = 10.0.0.0/8 db1", -EINVAL,
         "write.allow: \"db1\" is wrong; give networks with blanks between, "
         "such as 10.0.0.0/8 or fd00::/8"},
        {"http.allow = 10.0.0.1/8", -ERANGE,
         "http.allow: 10.0.0.1/8 has bits set behind its prefix; give the "
         "network's own address, such as 10.0.0.0/8"},
        {"write.listen = 48879", -EINVAL,
         "write.listen: \"48879\" " GIVE_ADDRESS},
        {"write.listen = a:65536", -EINVAL,
         "write.listen: \"a:65536\" " GIVE_ADDRESS},
        {"read.listen = ::1:48880", -EINVAL,
         "read.listen: \"::1:48880\" " GIVE_ADDRESS},
        {"log.siz = 1M", -ENOENT,
         "log.siz: no such setting (did you mean log.size?); countd-write -h "
         "lists them all"},
        {"colour = red", -ENOENT, "colour: " NO_SETTING},
        {"= red", -ENOENT, "\"\": " NO_SETTING},
        {"a\033b = 1", -ENOENT, "a\\x1bb: " NO_SETTING},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[CONFIG_WHY_SIZE];

        (void)snprintf(line, sizeof line, "t.conf:1: %s", bad[i].why);
        assert_bad(bad[i].text, bad[i].rc, line);
    }
    assert_bad("\n\nlog.count = many\n", -EINVAL,
               "t.conf:3: log.count: \"many\" is wrong; give a number");
}

TEST(bytes_from_outside_are_shown_cut)
{
    char bytes[256];

    memset(bytes, 'x', sizeof bytes);
    bytes[200] = '\0';
    assert_bad(
        bytes, -EINVAL,
        "t.conf:1: "
        "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "...\" is no setting; give key = value");
}

TEST(a_value_that_does_not_fit_is_refused)
{
    static char bytes[CONFIG_TEXT_SIZE + 64];

    memset(bytes, 'x', sizeof bytes - 1);
    memcpy(bytes, "data_dir=", 9);
    bytes[9 + CONFIG_TEXT_SIZE] = '\0';
    assert_rc(set_text(bytes), -ERANGE);
    bytes[9 + CONFIG_TEXT_SIZE - 1] = '\0';
    assert_rc(set_text(bytes), 0);
    assert_int_equal(strlen(c.data_dir), CONFIG_TEXT_SIZE - 1);
}

TEST(a_zero_byte_is_refused)
{
    config_defaults(&c);
    assert_rc(config_text(&c, "data_dir=a\0b", 12, "t.conf", why), -EINVAL);
    assert_string_equal(c.data_dir, "data");
}

TEST(a_failed_value_changes_nothing)
{
    struct config before;

    config_defaults(&c);
    before = c;
    assert_rc(set_key("log.size", "3G"), -ERANGE);
    assert_rc(set_key("read.listen", "x"), -EINVAL);
    assert_rc(set_key("log.sync", "x"), -EINVAL);
    assert_memory_equal(&c, &before, sizeof c);
}

/* ---- what spans keys --------------------------------------------------- */

TEST(settings_that_contradict_each_other_are_refused)
{
    config_defaults(&c);
    c.log_count = 5;
    c.log_max = 4;
    assert_rc(check_config(), -EINVAL);
    assert_why("log.count is 5 and log.max 4; give log.max at least log.count");

    assert_rc(set_text("read.listen = 127.0.0.1:48881"), 0);
    assert_rc(check_config(), -EINVAL);
    assert_why("write.ack_listen and read.listen are both "
               "127.0.0.1:48881; give each its own port");

    config_defaults(&c);
    c.log_count = c.log_max = 4;
    assert_rc(check_config(), 0);

    config_defaults(&c);
    c.log_size = 8192 + 543;
    assert_rc(check_config(), -EINVAL);
    c.log_size++;
    assert_rc(check_config(), 0);
}

/* The keyspaces and keys that lines and Redis clients need, at both sides of
 * the longest that fits. */
TEST(keyspaces_of_other_protocols_fit_into_messages)
{
    static const char *const ports[] = {"statsd.listen", "statsd.tcp_listen",
                                        "graphite.listen"};

    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        config_defaults(&c);
        assert_rc(set_key("statsd.keyspace", "twenty_bytes_of_name"), 0);
        c.keyspace_size = 20 + sizeof ".timer.count" - 2;
        assert_rc(check_config(), 0); /* no such port */
        assert_rc(set_key(ports[i], "127.0.0.1:0"), 0);
        assert_rc(check_config(), -EINVAL);
        assert_why("message.keyspace_size: 31 bytes do not hold "
                   "twenty_bytes_of_name.timer.count and countd.graphite; give "
                   "at least 32, or a shorter statsd.keyspace");
        c.keyspace_size++;
        assert_rc(check_config(), 0);
        assert_rc(set_key("statsd.keyspace", "s"), 0);
        c.keyspace_size = sizeof "countd.graphite" - 2;
        assert_rc(check_config(), -EINVAL);
        c.keyspace_size++;
        assert_rc(check_config(), 0);
        c.key_size = sizeof "ignored.gauge" - 2;
        assert_rc(check_config(), -EINVAL);
        c.key_size++;
        assert_rc(check_config(), 0);
    }
    config_defaults(&c);
    assert_rc(set_key("resp.keyspace", "twenty_bytes_of_name"), 0);
    c.keyspace_size = 19;
    assert_rc(check_config(), 0);
    assert_rc(set_key("resp.listen", "127.0.0.1:0"), 0);
    assert_rc(check_config(), -EINVAL);
    c.keyspace_size = 20;
    assert_rc(check_config(), 0);
}

TEST(a_site_that_no_browser_names_so_is_refused)
{
    static const char *const bad[] = {"example.org", "https://example.org/",
                                      "https://", "://x", "*"};

    config_defaults(&c);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(c.read_cors, sizeof c.read_cors, "https://a.b %s", bad[i]);
        assert_rc(check_config(), -EINVAL);
    }
    assert_why("read.cors: \"*\" is not an origin; give origins "
               "without a path, such as https://example.org, or "
               "* alone");
    snprintf(c.read_cors, sizeof c.read_cors, " https://a.b  http://[::1]:80 ");
    assert_rc(check_config(), 0);
    snprintf(c.read_cors, sizeof c.read_cors, "*");
    assert_rc(check_config(), 0);
}

TEST(live_ports_that_meet_another_are_refused)
{
    assert_rc(set_text("semaphore.enable=on\nsemaphore.port=11215"), 0);
    assert_rc(check_config(), -EINVAL);
    assert_why("counter.port and semaphore.port are both "
               "127.0.0.1:11215; give each its own port");
    assert_rc(set_key("counter.enable", "false"), 0);
    assert_rc(check_config(), 0);

    assert_rc(set_text("live.address=[::1]\nwrite.listen=[::1]:11215"), 0);
    assert_rc(check_config(), -EINVAL);
    assert_why("counter.port and write.listen are both "
               "[::1]:11215; give each its own port");

    assert_rc(set_text("semaphore.enable=on\nsemaphore.port=0\ncounter.port=0"),
              0);
    assert_rc(check_config(), 0);
}

TEST(a_socket_alone_stands_for_any_address_or_port)
{
    assert_rc(set_text("write.listen=socket\nwrite.ack_listen=socket\n"
                       "read.listen=socket\nhttp.listen=socket\n"
                       "counter.port=socket\nsemaphore.port=socket\n"
                       "semaphore.enable=on\nquota.enable=on"),
              0);
    assert_string_equal(c.read_listen, "socket");
    assert_true(c.counter_port == CONFIG_PORT_SOCKET);
    assert_true(c.semaphore_port == CONFIG_PORT_SOCKET);
    assert_rc(check_config(), 0);
    assert_rc(set_key("counter.port", "sockets"), -EINVAL);
}

/* There is no socket of these. */
TEST(an_address_without_a_socket_in_the_directory_is_no_socket)
{
    static const char *const keys[] = {"statsd.tcp_listen", "resp.writer"};

    config_defaults(&c);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_rc(set_key(keys[i], "localhost:0"), 0);
        assert_rc(set_key(keys[i], ""), 0);
        assert_rc(set_key(keys[i], "socket"), -EINVAL);
        assert_string_equal(config_at(&c, keys[i]), "");
    }
    assert_why("resp.writer: \"socket\" is wrong; give an address or host name "
               "and a port, such as 127.0.0.1:48881 or [::1]:0");
}

/* What describes a number ends in ", MIN to MAX". */
static void
check_limits(void *ctx, const char *key, const char *type, const char *def,
             const char *help)
{
    size_t *limited = ctx;
    const char *comma = strrchr(type, ',');
    char min[32], max[32];

    config_defaults(&c);
    assert_rc(set_key(key, def), 0);
    assert_true(strlen(help) > 8);
    if (!comma || sscanf(comma, ", %31s to %31s", min, max) != 2)
        return;
    ++*limited;
    assert_rc(set_key(key, min), 0);
    assert_rc(set_key(key, max), 0);
    memmove(max + 1, max, strlen(max) + 1);
    max[0] = '9'; /* one digit more */
    assert_rc(set_key(key, max), -ERANGE);
}

TEST(each_limit_in_the_table_holds)
{
    size_t limited = 0;

    config_each(check_limits, &limited);
    assert_in_range(limited, 40, 200); /* it was called for all of them */
}

/* ---- files and command lines ------------------------------------------- */

#define CASE(name, dir)                                                        \
    TEST_IN(name, struct tmpdir *dir, tmpdir_setup, tmpdir_teardown)

CASE(a_file_that_cannot_be_read_is_named, dir)
{
    char path[600];

    config_defaults(&c);
    snprintf(path, sizeof path, "%s/none.conf", dir->path);
    assert_rc(set_file(path), -ENOENT);
    assert_has(why, "No such file or directory");
    assert_rc(set_file(dir->path), -EISDIR);

    tmpdir_put(dir, "a.conf", "log.count = 7\n", 14, 0600);
    snprintf(path, sizeof path, "%s/a.conf", dir->path);
    fault_inject("malloc", 1, ENOMEM);
    assert_rc(set_file(path), -ENOMEM);
    fault_clear();
    assert_rc(set_file(path), 0);
    assert_int_equal(c.log_count, 7);
}

CASE(a_file_of_more_than_a_mebibyte_is_refused, dir)
{
    static char bytes[(1 << 20) + 1];
    char path[600];

    memset(bytes, '\n', sizeof bytes);
    config_defaults(&c);
    snprintf(path, sizeof path, "%s/a.conf", dir->path);
    tmpdir_put(dir, "a.conf", bytes, sizeof bytes, 0600);
    assert_rc(set_file(path), -EFBIG);
    tmpdir_put(dir, "b.conf", bytes, sizeof bytes - 1, 0600);
    snprintf(path, sizeof path, "%s/b.conf", dir->path);
    assert_rc(set_file(path), 0);
}

/* getopt_long() may move the pointers of its copy, and writes no word. */
static int
run_words(const char *const *words)
{
    static char *argv[2 * CONFIG_SOURCES_MAX + 8];
    int argc = 0;

    for (; words[argc] != NULL; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    argv[argc] = NULL;
    return config_daemon(&c, &command, argc, argv);
}

/* As systemd sets it for a unit with StateDirectory=. */
CASE(the_state_directory_is_the_default_of_a_daemon, dir)
{
    char file[600];

    tmpdir_put(dir, "empty", "", 0, 0600);
    tmpdir_put(dir, "sets", "data_dir = /set\n", 16, 0600);
    assert_int_equal(setenv("STATE_DIRECTORY", "/var/lib/here", 1), 0);
    snprintf(file, sizeof file, "%s/empty", dir->path);
    assert_int_equal(run_words((const char *[]){"x", "-f", file, NULL}), -1);
    assert_string_equal(c.data_dir, "/var/lib/here");
    snprintf(file, sizeof file, "%s/sets", dir->path);
    assert_int_equal(run_words((const char *[]){"x", "-f", file, NULL}), -1);
    assert_string_equal(c.data_dir, "/set");
    assert_int_equal(unsetenv("STATE_DIRECTORY"), 0);
    snprintf(file, sizeof file, "%s/empty", dir->path);
    assert_int_equal(run_words((const char *[]){"x", "-f", file, NULL}), -1);
    assert_string_equal(c.data_dir, "data");
}

CASE(the_command_line_overrides_the_file_wherever_it_stands, dir)
{
    char path[600];
    const char *argv[] = {"x",  "-o", "log.count=3", "-f",        path,
                          "-d", "/y", "-o",          "log.max=9", NULL};
    static const char file[] = "log.count = 7\nlog.max = 8\nkeyspace.max = 5";

    tmpdir_put(dir, "a.conf", file, sizeof file - 1, 0600);
    snprintf(path, sizeof path, "%s/a.conf", dir->path);
    assert_int_equal(run_words(argv), -1);
    assert_int_equal(c.log_count, 3);
    assert_int_equal(c.log_max, 9);
    assert_int_equal(c.keyspace_max, 5);
    assert_string_equal(c.data_dir, "/y");
    assert_int_equal(command.ready_fd, -1);
    assert_false(command.test);
}

TEST(the_user_is_a_setting_and_a_flag)
{
    static const char *const lines[][6] = {
        {"x", "-u", "countd", NULL},
        {"x", "--user", "countd", NULL},
        {"x", "-o", "user=nobody", "-ucountd", NULL},
        {"x", "-u", "nobody", "-o", "user=countd", NULL}};
    static const char *const none[] = {"x", "-u", "countd", "-u", "", NULL};
    static char name[CONFIG_USER_SIZE + 1];
    const char *const longest[] = {"x", "-u", name, NULL};

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(run_words(lines[i]), -1);
        assert_string_equal(c.user, "countd");
    }
    assert_int_equal(run_words(none), -1);
    assert_string_equal(c.user, "");
    memset(name, 'n', CONFIG_USER_SIZE - 1);
    assert_int_equal(run_words(longest), -1);
    name[CONFIG_USER_SIZE - 1] = 'n';
    assert_int_equal(run_words(longest), CONFIG_EXIT_USAGE);
}

TEST(bad_command_lines_exit_100)
{
    static const char *const lines[][4] = {
        {"x", "-q", NULL},
        {"x", "-o", NULL},
        {"x", "-o", "log.count", NULL},
        {"x", "-o", "log.cuont=3", NULL},
        {"x", "-o", "log.count=0", NULL},
        {"x", "-o", "=3", NULL},
        {"x", "-f", "/does/not/exist", NULL},
        {"x", "word", NULL},
        {"x", "--ready-fd", "777", NULL},
        {"x", "--ready-fd", "-1", NULL},
        {"x", "--ready-fd", "x", NULL},
        {"x", "--frobnicate", NULL},
        {"x", "-t", "-olog.count=0", NULL},
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_int_equal(run_words(lines[i]), CONFIG_EXIT_USAGE);
}

TEST(too_many_overrides_are_refused)
{
    static const char *argv[2 * CONFIG_SOURCES_MAX + 4];

    argv[0] = "x";
    for (size_t i = 0; i <= CONFIG_SOURCES_MAX; i++) {
        argv[1 + 2 * i] = "-d";
        argv[2 + 2 * i] = "/z";
    }
    assert_int_equal(run_words(argv), CONFIG_EXIT_USAGE);
    argv[1 + 2 * CONFIG_SOURCES_MAX] = NULL;
    assert_int_equal(run_words(argv), -1);
}

/* ---- the file that is found -------------------------------------------- */

/* The user has set nothing, something, or the empty text. */
TEST(the_environment_names_the_settings_file_or_forbids_one)
{
    struct config_sources sources = {0};
    struct tmpdir dir;
    char path[700];

    tmpdir_make(&dir);
    tmpdir_put(&dir, "a.conf", "log.count = 7\n", 14, 0600);
    snprintf(path, sizeof path, "%s/a.conf", dir.path);
    assert_int_equal(unsetenv("COUNTD_CONF"), 0);
    assert_ptr_equal(config_find(path), path);
    assert_null(config_find("/no/where"));

    assert_int_equal(setenv("COUNTD_CONF", path, 1), 0);
    assert_string_equal(config_find("/no/where"), path);
    assert_rc(config_load(&c, &sources, why), 0);
    assert_int_equal(c.log_count, 7);
    sources.file = "/no/where";
    assert_rc(config_load(&c, &sources, why), -ENOENT);
    sources.file = NULL;
    assert_int_equal(setenv("COUNTD_CONF", "/no/where", 1), 0);
    assert_rc(config_load(&c, &sources, why), -ENOENT);

    assert_int_equal(setenv("COUNTD_CONF", "", 1), 0);
    assert_null(config_find(path));
    assert_rc(config_load(&c, &sources, why), 0);
    assert_int_equal(c.log_count, 4);
    tmpdir_remove(&dir);
}
