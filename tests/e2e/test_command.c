/* tests/e2e/test_command.c - the countd command with the real daemons under
 * `countd serve`. */
#include "tests/lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "common/net/net.h"
#include "common/setup/datadir.h"
#include "tests/lib/daemon.h"
#include "tests/lib/expect.h"
#include "tests/lib/tmpdir.h"

#define WORDS_MAX   24
#define CHILD_COUNT 3

/* A data directory, what serves it, and the options that find it. */
struct site {
    struct tmpdir dir;
    struct daemon serve;
    char data[600];
    char silent[64], ack[64], read[64]; /* -o values */
    pid_t children[CHILD_COUNT];        /* writer, worker, reader */
};

/* ---- the site ---------------------------------------------------------- */

/* The children in the order they were started. */
static void
find_children(struct site *s)
{
    char path[64], line[256];
    FILE *f;
    int n;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", s->serve.pid,
             s->serve.pid);
    f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    n = sscanf(line, "%d %d %d", &s->children[0], &s->children[1],
               &s->children[2]);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(n, CHILD_COUNT);
}

static void
site_serve_with(struct site *s, const char *setting)
{
    daemon_start(&s->serve, "countd", "serve", "-d", s->data, "-o",
                 "log.size=64K", "-o", "log.rotate_after=1h", "-o", setting,
                 "-o", "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o",
                 "read.listen=127.0.0.1:0", NULL);
    snprintf(s->silent, sizeof s->silent, "write.listen=127.0.0.1:%u",
             daemon_port(&s->serve, "silent"));
    snprintf(s->ack, sizeof s->ack, "write.ack_listen=127.0.0.1:%u",
             daemon_port(&s->serve, "ack"));
    snprintf(s->read, sizeof s->read, "read.listen=127.0.0.1:%u",
             daemon_port(&s->serve, "read"));
    find_children(s);
}

static void
site_serve(struct site *s)
{
    site_serve_with(s, "log.count=4"); /* the default */
}

/* A directory without daemons. */
static int
setup_empty(void **state)
{
    static struct site site;

    memset(&site, 0, sizeof site);
    site.serve.output = -1;
    tmpdir_make(&site.dir);
    snprintf(site.data, sizeof site.data, "%s/data", site.dir.path);
    snprintf(site.silent, sizeof site.silent, "write.listen=127.0.0.1:1");
    snprintf(site.ack, sizeof site.ack, "write.ack_listen=127.0.0.1:2");
    snprintf(site.read, sizeof site.read, "read.listen=127.0.0.1:3");
    *state = &site;
    return 0;
}

static int
setup(void **state)
{
    (void)setup_empty(state); /* fails the test by itself */
    site_serve(*state);
    return 0;
}

static int
teardown(void **state)
{
    struct site *s = *state;

    daemon_fini(&s->serve);
    tmpdir_remove(&s->dir);
    return 0;
}

/* Waits for the end of a process that need not be our child. */
static void
await_end(pid_t pid)
{
    const int fd = pidfd_open(pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (fd < 0) {
        assert_int_equal(errno, ESRCH); /* it has ended and was waited for */
        return;
    }
    assert_int_equal(poll(&p, 1, (int)(20000 * test_slow())), 1);
    assert_int_equal(close(fd), 0);
}

/* Runs countd on the site; its words are left in `text`. */
static int
run_words(const struct site *s, uid_t uid, const char *const *words)
{
    const char *argv[WORDS_MAX + 12];
    const struct daemon_how how = {.argv = argv, .uid = uid};
    size_t n = 0;

    argv[n++] = "-d";
    argv[n++] = s->data;
    argv[n++] = "-o";
    argv[n++] = s->silent;
    argv[n++] = "-o";
    argv[n++] = s->ack;
    argv[n++] = "-o";
    argv[n++] = s->read;
    for (size_t i = 0; words[i] != NULL; i++) {
        assert_true(i < WORDS_MAX);
        argv[n++] = words[i];
    }
    argv[n] = NULL;
    return expect_run("countd", &how);
}

#define RUN(s, ...) run_words(s, 0, (const char *const[]){__VA_ARGS__, NULL})

/* A file of the site's directory by path, and what to put there. */
static const char *
put_file(struct site *s, const char *name, const char *bytes)
{
    static char path[700];

    tmpdir_put(&s->dir, name, bytes, strlen(bytes), 0600);
    snprintf(path, sizeof path, "%s/%s", s->dir.path, name);
    return path;
}

/* ---- counting and reading ---------------------------------------------- */

static void
what_is_added_can_be_read_after_a_flush(void **state)
{
    struct site *s = *state;

    expect_text(RUN(s, "incr", "pages", "/a"), 0, "");
    expect_text(RUN(s, "incr", "pages", "/b", "41"), 0, "");
    expect_text(RUN(s, "incr", "pages", "/b", "1"), 0, "");
    expect_text(RUN(s, "incr", "pages", "/c", "-9223372036854775808"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");

    expect_text(RUN(s, "get", "pages", "/b"), 0, "42\n");
    expect_text(RUN(s, "get", "pages", "/c"), 0, "-9223372036854775808\n");
    expect_text(RUN(s, "rank", "pages", "/b"), 0, "0\n");
    expect_text(RUN(s, "rank", "pages", "/a"), 0, "1\n");
    expect_text(RUN(s, "total", "pages"), 0, "-9223372036854775765\n");
    expect_text(RUN(s, "top", "pages", "-n", "2", "--tsv"), 0,
                "0\t42\t/b\n1\t1\t/a\n");
    expect_text(RUN(s, "range", "pages", "1", "1", "--tsv"), 0, "1\t1\t/a\n");
    expect_text(RUN(s, "range", "pages", "-2", "2", "--tsv"), 0,
                "1\t1\t/a\n2\t-9223372036854775808\t/c\n");
    expect_text(RUN(s, "range", "pages", "3", "2", "--tsv"), 0, "");
    expect(RUN(s, "keyspaces", "--tsv"), 0, "3\t-9223372036854775765\t");
    expect(RUN(s, "keyspaces", "--tsv"), 0, "\tpages\tpages.mdb\n");
}

static void
what_is_not_there_is_a_negative_answer(void **state)
{
    struct site *s = *state;

    expect(RUN(s, "get", "pages", "/a"), 1, "no such keyspace");
    expect(RUN(s, "rank", "pages", "/a"), 1, "no such keyspace");
    expect(RUN(s, "get", "pages", "/a", "--json"), 1,
           "{\"keyspace\": \"pages\", \"key\": \"/a\", \"count\": null, "
           "\"as_of_ms\": 1");
    expect(RUN(s, "total", "pages"), 1, "no such keyspace");
    expect_text(RUN(s, "top", "pages"), 1, "countd: info: no such keyspace\n");
    expect(RUN(s, "range", "pages", "-1", "0"), 1, "no such keyspace");
    expect(RUN(s, "top", "pages", "--json"), 1,
           "{\"keyspace\": \"pages\", \"rows\": [], \"as_of_ms\": ");
    expect_text(RUN(s, "keyspaces", "--tsv"), 0, "");

    expect_text(RUN(s, "incr", "pages", "/b"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "get", "pages", "/a"), 1, "no such key\n");
    expect(RUN(s, "range", "pages", "1", "1", "--json"), 0, "\"rows\": [], ");
}

static void
programs_are_told_how_fresh_and_how_exact_an_answer_is(void **state)
{
    struct site *s = *state;

    expect_text(RUN(s, "incr", "a", "big", "9223372036854775807"), 0, "");
    expect_text(RUN(s, "incr", "a", "big", "1"), 0, "");
    expect_text(RUN(s, "incr", "a", "one"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "get", "a", "big", "--json"), 0,
           "\"count\": 9223372036854775807, \"saturated\": true, "
           "\"as_of_ms\": 1");
    expect(RUN(s, "rank", "a", "one", "--json"), 0,
           "\"rank\": 1, \"count\": 1, \"saturated\": false, "
           "\"as_of_ms\": 1");
    expect(RUN(s, "total", "a", "--json"), 0,
           "\"keys\": 2, \"saturated\": 1, \"as_of_ms\": 1");
    expect(RUN(s, "get", "a", "big"), 0, "saturated: a sum once left");
    expect(RUN(s, "top", "a"), 0, "saturated=1 of the keyspace's counters");
    expect(RUN(s, "top", "a", "--json"), 0, "], \"saturated\": 1, ");
    expect(RUN(s, "range", "a", "0", "2", "--json"), 0,
           "\"key\": \"big\", \"at_limit\": true},\n"
           " {\"rank\": 1, \"count\": 1, \"key\": \"one\"}]");
    expect(RUN(s, "check"), 0, ": 0 faults\nsaturated=1: keys whose sum");
    expect(RUN(s, "check", "--json"), 0, "\"saturated\": 1, ");
    expect_text(RUN(s, "top", "a", "1", "--tsv"), 0,
                "0\t9223372036854775807\tbig\n");
    expect(RUN(s, "top", "a", "1", "-n", "1"), 100, "give the rows once");
}

static void
raw_names_are_given_and_printed_as_they_are(void **state)
{
    struct site *s = *state;

    expect_text(RUN(s, "incr", "--raw", "a", "C:\\new\tx"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "top", "a", "--tsv"), 0, "0\t1\tC:\\\\new\\tx\n");
    expect_text(RUN(s, "top", "a", "--tsv", "--raw"), 0, "0\t1\tC:\\new\tx\n");
    expect_text(RUN(s, "get", "a", "--raw", "C:\\new\tx"), 0, "1\n");
    expect(RUN(s, "top", "a", "--json", "--raw"), 100, "give one of them");
}

/* Nobody needs the data directory to know that counts can be read. */
static void
flush_waits_without_the_data_directory(void **state)
{
    struct site *s = *state;

    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    assert_int_equal(kill(s->children[0], SIGUSR2), 0);
    expect_text(RUN(s, "flush", "-H", "127.0.0.1"), 0, "");
    expect_text(RUN(s, "get", "a", "b"), 0, "1\n");
    assert_int_equal(kill(s->children[1], SIGSTOP), 0);
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    expect(RUN(s, "flush", "-d", "/no/where", "--timeout", "100ms"), 1,
           "not readable in time");
    assert_int_equal(kill(s->children[1], SIGCONT), 0);
}

static void
without_a_reader_nothing_is_printed_as_an_answer(void **state)
{
    static const char *const lines[][4] = {{"top", "a", "--json"},
                                           {"get", "a", "b", "--json"},
                                           {"keyspaces", "--json"}};
    struct site *s = *state;
    char ack[64];

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        expect(RUN(s, lines[i][0], lines[i][1], lines[i][2], lines[i][3]), 111,
               "countd-read at 127.0.0.1:3 does not answer");
        assert_null(strchr(text, '{'));
    }

    /* A port, but not the reader's. */
    site_serve(s);
    snprintf(ack, sizeof ack, "read.listen=127.0.0.1:%u",
             daemon_port(&s->serve, "ack"));
    snprintf(s->ack, sizeof s->ack, "write.ack_listen=127.0.0.1:2");
    expect(RUN(s, "-o", ack, "total", "a"), 111, "is read.listen not its port");
}

static void
people_get_aligned_columns_and_how_fresh_they_are(void **state)
{
    struct site *s = *state;

    expect_text(RUN(s, "incr", "w", "\xe6\x97\xa5\xe6\x9c\xac", "1000"), 0, "");
    expect_text(RUN(s, "incr", "w", "b", "-5"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "top", "w"), 0,
           "rank  count  key\n"
           "   0   1000  \xe6\x97\xa5\xe6\x9c\xac\n"
           "   1     -5  b\n"
           "as of ");
}

static void
any_name_goes_in_and_comes_out_the_same(void **state)
{
    struct site *s = *state;
    static const char *const names[] = {"../../etc/passwd", "\\xff\\x01",
                                        "a\\tb", "%x61", "quote\\\\\"'"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        expect_text(RUN(s, "incr", names[i], names[i], "3"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char row[64];

        expect_text(RUN(s, "get", names[i], names[i]), 0, "3\n");
        snprintf(row, sizeof row, "0\t3\t%s\n", names[i]);
        expect_text(RUN(s, "top", names[i], "--tsv"), 0, row);
    }
    expect(RUN(s, "get", names[1], names[1], "--json"), 0,
           "{\"keyspace\": \"\\\\xff\\\\x01\", \"key\": \"\\\\xff\\\\x01\", "
           "\"count\": 3, ");
    expect(RUN(s, "top", names[4], "--json"), 0,
           "{\"rank\": 0, \"count\": 3, \"key\": \"quote\\\\\\\\\\\"'\"}]");
    assert_false(tmpdir_has(&s->dir, "etc"));
}

/* ---- load -------------------------------------------------------------- */

static void
load_reports_bad_lines_and_counts_the_rest(void **state)
{
    struct site *s = *state;
    const char *path = put_file(s, "in.tsv",
                                "a\tx\t5\n"
                                "a\tx\n"
                                "\n"
                                "no tab\n"
                                "a\ty\tmany\n"
                                "a\ty\t9223372036854775808\n"
                                "\tx\t1\n"
                                "a\t\t1\n"
                                "a\tb\\q\t1\n"
                                "a\tx\t1\t2\n"
                                "a\tz\t-7\r\n"
                                "a\t\\x00\t1\n"
                                "a\ttab\\there\t2");

    expect(RUN(s, "load", path), 1, "4 increments acknowledged");
    expect(1, 1, "in.tsv:4: no tab");
    expect(1, 1, "in.tsv:5: the increment is not a whole number");
    expect(1, 1, "in.tsv:6: the increment does not fit 64 bits");
    expect(1, 1, "in.tsv:7: an empty name");
    expect(1, 1, "in.tsv:8: an empty name");
    expect(1, 1, "in.tsv:9: a bad escape");
    expect(1, 1, "in.tsv:10: more than three columns");
    expect(1, 1, "in.tsv:12: a bad escape");
    expect(1, 1, "8 bad lines");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "top", "a", "--tsv"), 0,
                "0\t6\tx\n1\t2\ttab\\there\n2\t-7\tz\n");
}

static void
load_stops_at_the_first_bad_line_when_strict(void **state)
{
    struct site *s = *state;
    const char *path = put_file(s, "in.tsv", "a\tx\t5\nbad\na\tx\t5\n");

    expect(RUN(s, "load", "--strict", path), 1, "1 increment acknowledged");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "x"), 0, "5\n");
}

static void
load_reports_twenty_bad_lines_and_counts_further_ones(void **state)
{
    struct site *s = *state;
    char bytes[256] = "";

    for (int i = 0; i < 25; i++)
        strcat(bytes, "bad\n");
    expect(RUN(s, "load", put_file(s, "in.tsv", bytes)), 1,
           "in.tsv:20: no tab");
    expect(1, 1, "further bad lines are only counted");
    expect(1, 1, "25 bad lines");
    assert_null(strstr(text, "in.tsv:21:"));
}

static void
load_reads_long_lines_only_as_far_as_they_can_be_right(void **state)
{
    static char bytes[300000];
    struct site *s = *state;

    memset(bytes, 'k', sizeof bytes - 1);
    memcpy(bytes, "a\tx\t1\n", 6);
    memcpy(bytes + 290000, "\na\tx\t1\n", 7);
    bytes[290007] = '\0';
    expect(RUN(s, "load", put_file(s, "in.tsv", bytes)), 1,
           "in.tsv:2: the line is too long");
    expect(1, 1, "2 increments acknowledged");
    expect(1, 1, "1 bad line");
}

/* `lines` lines that add up to `lines`, gzip in two members. */
static void
put_gzip(struct site *s, const char *name, int lines, int keys)
{
    char path[700];

    snprintf(path, sizeof path, "%s/%s", s->dir.path, name);
    for (int member = 0; member < 2; member++) {
        gzFile f = gzopen(path, member ? "ab" : "wb");

        assert_non_null(f);
        for (int i = 0; i < lines / 2; i++)
            assert_true(gzprintf(f, "words\tkey %d\t1\n", i % keys) > 0);
        assert_int_equal(gzclose(f), Z_OK);
    }
}

static void
load_reads_gzip_and_either_port_counts_each_line_once(void **state)
{
    struct site *s = *state;
    char path[700];

    put_gzip(s, "in.tsv.gz", 20000, 100);
    snprintf(path, sizeof path, "%s/in.tsv.gz", s->dir.path);
    expect(RUN(s, "load", path), 0, "20000 increments acknowledged");
    expect(RUN(s, "load", path, "--silent", "--json"), 0,
           "{\"increments\": 20000, \"bad_lines\": 0, \"ms\": ");
    expect(1, 1, "\"acknowledged\": false}");

    /* What was sent without answers is on its way: the flush that finds all
     * of it there comes soon. */
    for (int i = 0; i < 1000; i++) {
        expect_text(RUN(s, "flush"), 0, "");
        if (RUN(s, "total", "words") == 0 && strcmp(text, "40000\n") == 0)
            break;
    }
    expect_text(RUN(s, "total", "words"), 0, "40000\n");
    expect_text(RUN(s, "get", "words", "key 7"), 0, "400\n");
}

/* Overwrites some bytes of a file. */
static void
damage_file(const char *path, off_t at)
{
    static const char junk[16] = "damaged damaged";
    const int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, junk, sizeof junk, at), sizeof junk);
    assert_int_equal(close(fd), 0);
}

static void
load_names_a_broken_gzip_file_and_one_that_is_missing(void **state)
{
    struct site *s = *state;
    struct stat st;
    char path[700];

    put_gzip(s, "in.tsv.gz", 20000, 100);
    snprintf(path, sizeof path, "%s/in.tsv.gz", s->dir.path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 20), 0);
    expect(RUN(s, "load", path), 111,
           "in.tsv.gz: the gzip file ends too early; the lines up to ");
    expect(111, 111, " increments acknowledged");
    put_gzip(s, "in.tsv.gz", 20000, 100);
    damage_file(path, st.st_size / 4);
    expect(RUN(s, "load", path), 111, "in.tsv.gz: the gzip file is damaged; ");
    expect(RUN(s, "load", "/nowhere/x.tsv"), 100, "open /nowhere/x.tsv");
    expect(RUN(s, "load", s->dir.path), 100, ": Is a directory");
    expect(RUN(s, "load", "/nowhere/x.tsv", path), 111, "is damaged");
}

static void
load_reads_a_pipe_and_makes_durable_what_came_before_it_waits(void **state)
{
    struct site *s = *state;
    char program[700], script[2048];

    /* The second line comes when the first can be read: load must not keep it
     * until its input ends. */
    daemon_path("countd", program, sizeof program);
    snprintf(script, sizeof script,
             "C='%s -d %s -o %s -o %s'\n"
             "{ printf 'p\\tk\\t1\\n'\n"
             "  i=0; until $C get p k 2>/dev/null | grep -q 1; do\n"
             "    i=$((i + 1)); [ $i -lt 2000 ] || exit; $C flush; done\n"
             "  printf 'p\\tk\\t1\\n'; } | $C load -\n",
             program, s->data, s->ack, s->read);
    assert_int_equal(
        daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0);
    expect(0, 0, "2 increments acknowledged");
}

static void
load_shows_a_bar_on_a_terminal_and_takes_it_away(void **state)
{
    struct site *s = *state;
    const char *path = put_file(s, "lines", "k\ta\t1\nk\ta\nk\n");
    const char *const argv[] = {"load", "-o", s->ack, path, NULL};
    const struct daemon_how how = {.argv = argv};
    const char *last;

    expect(expect_terminal("countd", &how, 0), 1, "\r\033[Kloading [");
    expect(1, 1, "] 100% 2 increments, ");
    last = strstr(text, "2 increments acknowledged in ");
    assert_non_null(last);
    assert_null(strstr(last, "\033"));
    assert_memory_equal(last - 4, "\r\033[K", 4);
}

static void
load_stops_in_good_order_when_it_is_told_to(void **state)
{
    struct site *s = *state;
    char path[700];
    const char *const argv[] = {"load", path, "-o", s->ack, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    struct daemon load;
    int fd;

    snprintf(path, sizeof path, "%s/pipe", s->dir.path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(daemon_start_how(&load, "countd", &how), 0);
    fd = open(path, O_WRONLY | O_CLOEXEC); /* waits for load */
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "p\tk\t1\np\tk\t2\n", 12), 12);
    for (int i = 0; i < 2000; i++) { /* until both have been taken */
        assert_int_equal(RUN(s, "flush"), 0);
        if (RUN(s, "get", "p", "k") == 0 && strcmp(text, "3\n") == 0)
            break;
    }
    daemon_signal(&load, SIGTERM);
    assert_int_equal(daemon_wait(&load), 128 + SIGTERM);
    (void)daemon_output(&load, text, sizeof text);
    expect(0, 0, "2 increments acknowledged");
    expect(0, 0, "stopped by a signal: ");
    expect(0, 0, "/pipe:2 is the last line taken");
    assert_int_equal(close(fd), 0);
    daemon_fini(&load);
}

static void
load_says_what_is_known_when_the_connection_breaks(void **state)
{
    struct site *s = *state;

    assert_int_equal(daemon_stop(&s->serve), 0);
    expect(RUN(s, "load", put_file(s, "in.tsv", "a\tb\t1\na\tb\t1\n")), 111,
           "does not answer");
    expect(1, 1,
           "increments=2: the first 0 are acknowledged, the next 0 may or may "
           "not be counted, the last 2 were not sent");
}

/* ---- flush ------------------------------------------------------------- */

static void
flush_gives_up_when_no_worker_merges(void **state)
{
    struct site *s = *state;

    assert_int_equal(kill(s->children[1], SIGSTOP), 0);
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    expect(RUN(s, "flush", "--timeout", "100ms"), 1, "not merged in time");
    assert_int_equal(kill(s->children[1], SIGCONT), 0);
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "b"), 0, "1\n");
}

static void
flush_and_backup_say_what_is_held(void **state)
{
    struct site *s = *state;
    char copy[700];

    snprintf(copy, sizeof copy, "%s/copy", s->dir.path);
    site_serve_with(s, "keyspace.max_keys=1");
    expect_text(RUN(s, "incr", "a", "x"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "incr", "a", "y"), 0, "");
    expect_text(RUN(s, "incr", "b", "x"), 0, "");
    expect(RUN(s, "flush"), 1,
           "not readable: 1 record that their keyspace cannot take now (a), "
           "held; countd held says more\n");
    assert_null(strstr(text, "not merged in time"));
    expect_text(RUN(s, "get", "b", "x"), 0, "1\n");
    expect(RUN(s, "backup", copy), 0, "keyspaces=2 keys=2 faults=0");
    assert_null(strstr(text, "not in the copy"));

    /* Room again: a restart merges what is held. */
    assert_int_equal(daemon_stop(&s->serve), 0);
    daemon_fini(&s->serve);
    site_serve(s);
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "y"), 0, "1\n");
}

/* ---- serve ------------------------------------------------------------- */

static void
serve_says_which_daemon_died_and_stops_the_others(void **state)
{
    struct site *s = *state;

    for (int victim = 0; victim < CHILD_COUNT; victim++) {
        static const char *const words[] = {
            "countd-write was killed by signal 9 (Killed); stopping",
            "countd-worker was killed by signal 9 (Killed); stopping",
            "countd-read was killed by signal 9 (Killed); stopping",
        };

        expect_text(RUN(s, "incr", "a", "b"), 0, "");
        assert_int_equal(kill(s->children[victim], SIGKILL), 0);
        assert_int_equal(daemon_wait(&s->serve), 111);
        (void)daemon_output(&s->serve, text, sizeof text);
        expect(0, 0, words[victim]);
        for (int i = 0; i < CHILD_COUNT; i++)
            assert_int_equal(kill(s->children[i], 0), -1);
        daemon_fini(&s->serve);
        site_serve(s);
    }
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "b"), 0, "3\n");
}

static void
no_daemon_outlives_a_killed_serve(void **state)
{
    struct site *s = *state;

    /* Orphans become ours, so that their end can be waited for. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    daemon_kill(&s->serve);
    for (int i = 0; i < CHILD_COUNT; i++) {
        int status;

        await_end(s->children[i]);
        assert_int_equal(waitpid(s->children[i], &status, 0), s->children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void
a_clean_stop_merges_what_was_received(void **state)
{
    struct site *s = *state;

    for (int i = 0; i < 20; i++)
        expect_text(RUN(s, "incr", "a", "b"), 0, "");
    /* The worker sleeps until the writer is gone: serve must give it the time
     * to merge the last log. */
    assert_int_equal(kill(s->children[1], SIGSTOP), 0);
    daemon_signal(&s->serve, SIGTERM);
    await_end(s->children[0]);
    assert_int_equal(kill(s->children[1], SIGCONT), 0);
    assert_int_equal(daemon_wait(&s->serve), 0);
    expect(RUN(s, "check"), 0, "keyspaces=1 keys=1 ");
    expect(0, 0, " waiting=0 held=0: 0 faults\n");

    site_serve(s);
    expect_text(RUN(s, "get", "a", "b"), 0, "20\n");
}

static void
sigusr2_to_serve_hands_the_log_on(void **state)
{
    struct site *s = *state;

    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    daemon_signal(&s->serve, SIGUSR2);
    daemon_signal(&s->serve, SIGUSR1);
    for (int i = 0; i < 1000; i++) /* it would stay for an hour */
        if (RUN(s, "get", "a", "b") == 0)
            break;
    expect_text(RUN(s, "get", "a", "b"), 0, "1\n");
    assert_int_equal(daemon_stop(&s->serve), 0);
    (void)daemon_output(&s->serve, text, sizeof text);
    expect(0, 0, "countd-write: info: messages=");
}

static void
a_second_serve_on_the_same_directory_is_refused(void **state)
{
    struct site *s = *state;
    const char *const argv[] = {"serve",
                                "-d",
                                s->data,
                                "-o",
                                "write.listen=127.0.0.1:0",
                                "-o",
                                "write.ack_listen=127.0.0.1:0",
                                "-o",
                                "read.listen=127.0.0.1:0",
                                NULL};
    const struct daemon_how how = {.argv = argv};

    assert_int_equal(daemon_run_how(text, sizeof text, "countd", &how), 111);
    expect(0, 0, "another countd-write has data_dir=");
    expect(0, 0, "countd-write exited with status 111; stopping the others");
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
}

static void
other_message_sizes_are_refused_with_100(void **state)
{
    struct site *s = *state;

    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    assert_int_equal(daemon_stop(&s->serve), 0);
    expect(RUN(s, "serve", "-o", "message.key_size=64", "-o",
               "write.listen=127.0.0.1:0", "-o", "write.ack_listen=127.0.0.1:0",
               "-o", "read.listen=127.0.0.1:0"),
           100, "message.key_size=256");
}

/* By serve and by the first `daemons` of the three, with 100 and a reason. */
static void
expect_refused(const char *data, size_t daemons, const char *words)
{
    static const char *const programs[] = {"countd-write", "countd-worker",
                                           "countd-read"};
    const char *const argv[] = {"-d",    data,
                                "-o",    "write.listen=127.0.0.1:0",
                                "-o",    "write.ack_listen=127.0.0.1:0",
                                "-o",    "read.listen=127.0.0.1:0",
                                "serve", NULL};
    const char *const daemon_argv[] = {"-d", data, NULL};
    const struct daemon_how serve = {.argv = argv};
    const struct daemon_how how = {.argv = daemon_argv};

    expect(daemon_run_how(text, sizeof text, "countd", &serve), 100, words);
    for (size_t i = 0; i < daemons; i++)
        expect(daemon_run_how(text, sizeof text, programs[i], &how), 100,
               words);
}

static void
a_data_directory_that_cannot_be_is_refused_with_100(void **state)
{
    struct site *s = *state;
    char path[700];

    snprintf(path, sizeof path, "%s/no/parent", s->dir.path);
    expect_refused(path, 2, "its parent folder does not exist");

    expect_refused(put_file(s, "file", "text"), 3, "is no directory");

    snprintf(path, sizeof path, "%s/open", s->dir.path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    expect_refused(path, 3, "may be written by others");

    snprintf(path, sizeof path, "%s/dangling", s->dir.path);
    assert_int_equal(symlink("nowhere", path), 0);
    expect(RUN(s, "-d", path, "serve"), 100, "a link to what does not exist");

    expect(RUN(s, "-d", "/proc/countd/", "serve"), 100, "/proc/countd/");
    assert_null(strstr(text, "does not exist"));
}

/* A writer makes it: then the same works. */
static void
a_data_directory_that_is_not_there_yet_may_come(void **state)
{
    static const char *const commands[][3] = {
        {"check"},
        {"log"},
        {"log", "salvage", "bad-0000000001-1"},
        {"backup", "/tmp/none"}};
    struct site *s = *state;
    char path[700];

    snprintf(path, sizeof path, "data_dir=%s/later", s->dir.path);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        expect(
            RUN(s, "-o", path, commands[i][0], commands[i][1], commands[i][2]),
            111, "does not exist; start countd-write");
}

static void
a_port_in_use_is_told_before_anything_is_made(void **state)
{
    struct site *s = *state;
    struct net_address address, bound;
    char where[NET_ADDRESS_SIZE], setting[NET_ADDRESS_SIZE + 16];
    int fd;

    assert_rc(net_parse("127.0.0.1:0", &address), 0);
    fd = net_listen(&address, 0, &bound);
    assert_true(fd >= 0);
    net_format(&bound, where);
    snprintf(setting, sizeof setting, "read.listen=%s", where);
    expect(RUN(s, "serve", "-o", "write.listen=127.0.0.1:0", "-o",
               "write.ack_listen=127.0.0.1:0", "-o", setting),
           111, "is in use by another process: stop it, or set read.listen");
    assert_false(tmpdir_has(&s->dir, "data"));
    assert_int_equal(close(fd), 0);
}

static void
a_client_minds_only_the_ports_it_uses(void **state)
{
    struct site *s = *state;
    char same[sizeof s->read + 16];

    /* As behind a tunnel whose other ports go elsewhere. */
    snprintf(same, sizeof same, "write.ack_listen=%s",
             strchr(s->read, '=') + 1);

    expect(RUN(s, "keyspaces", "-o", same), 0, "");
    expect(RUN(s, "keyspaces", "-o", "write.listen=nobody.invalid:1", "-o",
               "live.address=nobody.invalid"),
           0, "");
    expect(RUN(s, "serve", "-t", "-o", same), 100,
           "write.ack_listen and read.listen are both");
}

/* No name service has this; one that does not answer may have it later. */
#define NO_HOST "not.a.host.invalid"

static void
expect_no_host(int got)
{
    if (got == 111)
        expect(got, 111, NO_HOST ":0 is a host name that cannot be looked up");
    else
        expect(got, 100, NO_HOST ":0 is a host name that no address is known");
}

static void
a_host_that_is_none_is_refused_with_100(void **state)
{
    struct site *s = *state;

    expect_no_host(RUN(s, "serve", "-o", "write.listen=127.0.0.1:0", "-o",
                       "write.ack_listen=127.0.0.1:0", "-o",
                       "read.listen=" NO_HOST ":0"));
    expect_no_host(RUN(s, "serve", "-o", "write.listen=" NO_HOST ":0", "-o",
                       "write.ack_listen=127.0.0.1:0", "-o", "read.listen="));
    expect(RUN(s, "get", "k", "a", "-o", "read.listen=a b:1"), 100,
           "give an address or host name and a port");
}

static void
a_host_name_is_one_of_an_address_for_daemons_and_clients(void **state)
{
    struct site *s = *state;
    char host[256], ack[300], read[300], live[300], port[32];
    struct net_address address, bound;
    int fd;

    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(ack, sizeof ack, "%s:0", host);
    fd = net_resolve(ack, &address, 1) == 1 ? net_listen(&address, 0, &bound)
                                            : -1;
    if (fd < 0)
        test_skip("the name of this machine is not one of its addresses");
    assert_int_equal(close(fd), 0);

    snprintf(ack, sizeof ack, "write.ack_listen=%s:0", host);
    snprintf(read, sizeof read, "read.listen=%s:0", host);
    snprintf(live, sizeof live, "live.address=%s", host);
    daemon_start(&s->serve, "countd", "serve", "-d", s->data, "-o",
                 "log.size=64K", "-o", "write.listen=", "-o", ack, "-o", read,
                 "-o", live, "-o", "counter.port=0", NULL);
    snprintf(ack, sizeof ack, "write.ack_listen=%s:%u", host,
             daemon_port(&s->serve, "ack"));
    snprintf(read, sizeof read, "read.listen=%s:%u", host,
             daemon_port(&s->serve, "read"));
    snprintf(port, sizeof port, "counter.port=%u",
             daemon_port(&s->serve, "counter"));

    expect(RUN(s, "incr", "k", "a", "3", "-o", ack), 0, "");
    expect(RUN(s, "flush", "-o", read), 0, "");
    expect_text(RUN(s, "get", "k", "a", "--tsv", "-o", read), 0, "3\n");
    expect(RUN(s, "acquire", "-o", live, "-o", port, "x", "1", "1", "--",
               "echo", "held"),
           0, "held");
}

/* The lowest port that anybody may listen on. */
static int
first_free_port(void)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    int port = 1024;

    if (f == NULL)
        return port;
    if (fscanf(f, "%d", &port) != 1)
        port = 1024;
    assert_int_equal(fclose(f), 0);
    return port;
}

static void
a_port_that_this_user_may_not_have_is_refused_with_100(void **state)
{
    static const char *const ports[][3] = {
        {"write.listen=127.0.0.1:1", "write.ack_listen=127.0.0.1:0",
         "read.listen=127.0.0.1:0"},
        {"write.listen=127.0.0.1:0", "write.ack_listen=127.0.0.1:0",
         "read.listen=127.0.0.1:1"}};
    struct site *s = *state;
    const uid_t uid = geteuid() == 0 ? 65534 : 0;

    if (first_free_port() <= 1)
        test_skip("here anybody may listen on any port");
    if (uid != 0)
        tmpdir_chown(&s->dir, uid);
    for (size_t i = 0; i < 2; i++)
        expect(
            run_words(s, uid,
                      (const char *[]){"serve", "-o", ports[i][0], "-o",
                                       ports[i][1], "-o", ports[i][2], NULL}),
            100, "Permission denied");
}

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
               put_file(s, "in.tsv",
                        "a\tx\t1\na\tx\t2\na\ty\t4\nb\tx\t8\n"
                        "b\ty\t16\n")),
           0, "5 increments acknowledged");
    assert_int_equal(daemon_stop(&writer), 0);
    daemon_fini(&writer);
}

static void
flush_says_when_no_reader_answers(void **state)
{
    fill_log(*state, 0);
    expect(RUN(*state, "flush"), 111, "countd-read at 127.0.0.1:3 does not");
}

static void
logs_are_listed_dumped_and_verified(void **state)
{
    struct site *s = *state;
    static const char *const slots[] = {"1\ta\tx\n", "2\ta\tx\n", "4\ta\ty\n",
                                        "8\tb\tx\n", "16\tb\ty\n"};

    if (geteuid() != 0)
        test_skip("needs root to read a full log, which may only be written");
    fill_log(s, 0);
    expect(RUN(s, "log"), 0, "log         state  mode  used  slots");
    expect(RUN(s, "log", "list", "--tsv"), 0, "0000000000\tfull\t0200\t5\t");
    expect(0, 0, "0000000001\tempty\t0400\t0\t");
    expect(RUN(s, "log", "verify", "0"), 0,
           "log 0000000000: full, epoch 1, 5 valid slots of ");
    expect(RUN(s, "log", "verify", "0000000001"), 0, "empty, epoch ");
    assert_null(strstr(text, "valid"));
    expect(RUN(s, "log", "dump",
               "1700000000000-0000000000-00000000000000000001.packed"),
           1, ".packed in archive/");
    expect(RUN(s, "log", "list", "--remove"), 100, "are for salvage");
    expect(RUN(s, "log", "dump", "0"), 0, "0\t");
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        expect(0, 0, slots[i]);
    expect_text(RUN(s, "log", "dump", "1"), 0, "");
    expect(RUN(s, "log", "dump", "77"), 1, "there is no log 0000000077");
    expect(RUN(s, "log", "verify", "../log/0000000000"), 100, "give the");
    expect(RUN(s, "log", "burn", "1"), 100, "usage: countd log");
    expect(RUN(s, "check"), 0, "full: 5 increments to be merged");
}

static void
an_archived_log_is_whole(void **state)
{
    struct site *s = *state;
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

    expect(RUN(s, "log", "verify", name), 0, "1 valid slot of ");
    expect(0, 0, ", 0 damaged\n");
    expect(RUN(s, "log", "verify", name + 8), 0, ", 0 damaged\n");
    expect(RUN(s, "log", "dump", name), 0, "\t7\ta\tx\n");
    snprintf(path, sizeof path, "%s/%s", s->data, name);
    assert_int_equal(truncate(path, 150), 0);
    expect(RUN(s, "log", "verify", name), 1, "is damaged: nothing of it");
}

static void
a_full_log_is_looked_at_by_its_own_user_and_left_as_it_was(void **state)
{
    struct site *s = *state;
    const uid_t uid = geteuid() == 0 ? 65534 : 0;
    struct stat st;
    char path[700];

    if (uid != 0)
        tmpdir_chown(&s->dir, uid);
    fill_log(s, uid);
    snprintf(path, sizeof path, "%s/log/0000000000", s->data);
    expect(run_words(s, uid, (const char *[]){"log", "verify", "0", NULL}), 0,
           "5 valid slots");
    expect(run_words(s, uid, (const char *[]){"log", "dump", "0", NULL}), 0,
           "16\tb\ty\n");
    expect(run_words(s, uid, (const char *[]){"check", NULL}), 0, "0 faults");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0200);
    assert_int_equal(st.st_nlink, 1);
}

/* The same of a file below the data directory. */
static void
damage(struct site *s, const char *name, off_t at)
{
    char path[700];

    snprintf(path, sizeof path, "%s/%s", s->data, name);
    assert_int_equal(chmod(path, 0600), 0);
    damage_file(path, at);
}

static void
a_damaged_log_is_salvaged_on_request_and_only_once(void **state)
{
    static const char bad[] = "bad-0000000000-1";
    struct site *s = *state;
    char path[700];

    fill_log(s, 0);
    damage(s, "log/0000000000", 8192 + 544 + 20); /* slot 1: a x 2 */
    snprintf(path, sizeof path, "%s/log/0000000000", s->data);
    assert_int_equal(chmod(path, 0200), 0);
    expect(RUN(s, "log", "verify", "0"), 1, "1 damaged");

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

static void
flush_says_what_was_set_aside_as_damaged(void **state)
{
    static const char words[] =
        "not readable: 1 damaged log set aside (log/bad-0000000000-1); countd "
        "log salvage merges what is valid";
    struct site *s = *state;
    char path[700];

    fill_log(s, 0);
    damage(s, "log/0000000000", 8192 + 544 + 20);
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
           "not in the copy: 1 damaged log set aside");
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

static void
flush_ends_with_1_when_it_sees_damage_come(void **state)
{
    struct site *s = *state;
    const char *const argv[] = {"flush", "-d", s->data, "-o", s->read, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    struct daemon worker, flush;
    struct datadir dir;
    char path[700];
    sigset_t mask;
    int fd, status;
    long pid;

    fill_log(s, 0);
    damage(s, "log/0000000000", 8192 + 544 + 20);
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
    expect(status, 1, "not readable: 1 damaged log set aside");
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

static void
check_finds_a_damaged_keyspace_and_still_looks_at_the_others(void **state)
{
    struct site *s = *state;
    struct stat st;
    char path[700];

    put_gzip(s, "in.tsv.gz", 10000, 5000);
    snprintf(path, sizeof path, "%s/in.tsv.gz", s->dir.path);
    expect_text(RUN(s, "incr", "other", "x"), 0, "");
    expect(RUN(s, "load", path), 0, "10000 increments");
    assert_int_equal(daemon_stop(&s->serve), 0);
    expect(RUN(s, "check", "--json"), 0, "\"faults\": 0}\n");
    (void)put_file(s, "data/bad-held-1.mdb", "junk"); /* not its path */
    expect(RUN(s, "check"), 1,
           "held bad-held-1.mdb  FAULT: a damaged file of records");
    assert_int_equal(unlinkat(s->dir.fd, "data/bad-held-1.mdb", 0), 0);
    expect(RUN(s, "check", "words", "nope"), 1, "there is no such keyspace");

    /* The middle of every page: blocks fill theirs, other pages are nearly
     * empty there. */
    snprintf(path, sizeof path, "%s/keyspace/words.mdb", s->data);
    assert_int_equal(stat(path, &st), 0);
    for (off_t at = 2 * 4096 + 2048; at < st.st_size; at += 4096)
        damage(s, "keyspace/words.mdb", at);
    assert_int_equal(RUN(s, "check"), 1);
    expect(1, 1, "FAULT: ");
    expect(1, 1, "keyspaces=2 ");
    expect(RUN(s, "check", "other"), 0, "0 faults");
}

static void
other_message_sizes_are_no_faults_but_misuse(void **state)
{
    struct site *s = *state;
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

static void
check_finds_logs_that_are_older_than_the_keyspaces(void **state)
{
    struct site *s = *state;

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

static void
a_backup_of_a_running_store_is_complete_and_serves(void **state)
{
    struct site *s = *state;
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
static void
check_finds_a_file_of_a_long_name_under_another_name(void **state)
{
    static const char moved[] = "%h0123456789abcdef0123456789abcdef";
    struct site *s = *state;
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
    expect(RUN(s, "check"), 1, "which belongs into keyspace/%h");
}

static void
a_backup_waits_for_the_merge_or_says_that_it_does_not(void **state)
{
    struct site *s = *state;
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

/* ---- out of it and into it --------------------------------------------- */

/* Runs countd with its output in a file of the site. */
static int
run_into(const struct site *s, const char *file, const char *words)
{
    char script[4096];

    snprintf(script, sizeof script,
             "exec \"$BUILD\"/countd -d '%s' -o %s -o %s %s > '%s/%s'", s->data,
             s->ack, s->read, words, s->dir.path, file);
    return daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL);
}

static void
what_is_exported_can_be_loaded_elsewhere(void **state)
{
    struct site *s = *state;
    char path[700], script[2000];

    /* More rows than one request gives, and names that need escapes. */
    snprintf(
        script, sizeof script,
        "i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); echo \"many\tk$i\t$i\"; "
        "done > '%s/in'; printf 'a b\\tx\\\\ty\\t-7\\n' >> '%s/in'",
        s->dir.path, s->dir.path);
    assert_int_equal(
        daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0);
    snprintf(path, sizeof path, "%s/in", s->dir.path);
    expect(RUN(s, "load", path), 0, "5001 increments acknowledged");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(run_into(s, "out", "export"), 0, "");
    snprintf(script, sizeof script,
             "cd '%s' && sort in > a && sort out > b && cmp a b && wc -l < b",
             s->dir.path);
    expect_text(daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0,
                "5001\n");
    expect_text(RUN(s, "export", "a b"), 0, "a b\tx\\ty\t-7\n");
    expect(RUN(s, "export", "a b", "none"), 1, "no such keyspace");
}

static void
what_range_prints_can_be_loaded_into_a_keyspace(void **state)
{
    struct site *s = *state;
    char path[700];

    expect_text(RUN(s, "incr", "w", "x\\ty", "3"), 0, "");
    expect_text(RUN(s, "incr", "w", "z", "2"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(run_into(s, "rows", "top w --tsv"), 0, "");
    snprintf(path, sizeof path, "%s/rows", s->dir.path);
    expect(RUN(s, "load", "-k", "copy", path), 0, "2 increments acknowledged");
    expect(RUN(s, "load", "-k", "copy", put_file(s, "bad", "a\tb\n")), 1,
           "with -k give RANK TAB COUNT TAB KEY");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "top", "copy", "--tsv"), 0, "0\t3\tx\\ty\n1\t2\tz\n");
}

static void
load_can_try_begin_later_and_cut_names(void **state)
{
    struct site *s = *state;
    char line[700], name[300];

    memset(name, 'n', 257);
    name[257] = '\0';
    snprintf(line, sizeof line, "a\tb\t1\na\t%s\t2\na\tc\t4\n", name);
    expect(RUN(s, "load", "--dry-run", put_file(s, "f", line)), 1,
           "2 increments read, none sent, in");
    expect(RUN(s, "load", "--dry-run", "-o", "write.ack_listen=127.0.0.1:1",
               put_file(s, "g", "a\tb\n")),
           0, "1 increment read");
    expect(RUN(s, "load", "--from", "2", put_file(s, "f", line)), 1,
           "f:2: a name of more than 256 bytes");
    expect(RUN(s, "load", "--from", "2", "--cut-names", put_file(s, "f", line)),
           0, "2 increments acknowledged");
    expect(RUN(s, "load", "--from", "2", "a", "b"), 100, "give one file");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "c"), 0, "8\n");
    expect_text(RUN(s, "total", "a"), 0, "10\n");
    expect(RUN(s, "get", "a", "b"), 1, "no such key");
}

static void
load_refuses_what_is_no_text_and_drops_a_byte_order_mark(void **state)
{
    struct site *s = *state;

    expect(RUN(s, "load", put_file(s, "x", "\xfd\x37\x7aXZ")), 111,
           "not text but xz");
    expect(RUN(s, "load", put_file(s, "z", "\x28\xb5\x2f\xfd")), 111,
           "not text but zstd");
    expect(RUN(s, "load",
               put_file(s, "u",
                        "\xff\xfe"
                        "a")),
           111, "not text but UTF-16");
    tmpdir_put(&s->dir, "n", "a\tb\n\0\n", 6, 0600);
    expect(RUN(s, "load", put_file(s, "c", "a\x01\tb\n")), 1,
           "a control character in a name");
    expect(RUN(s, "load", put_file(s, "b", "\xef\xbb\xbfw\tx\n")), 0,
           "1 increment acknowledged");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "export"), 0, "w\tx\t1\n");
}

static void
keyspaces_are_sorted_by_what_they_take(void **state)
{
    struct site *s = *state;

    expect_text(RUN(s, "incr", "a", "x", "5"), 0, "");
    expect_text(RUN(s, "incr", "b", "x", "1"), 0, "");
    expect_text(RUN(s, "incr", "b", "y", "1"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "keyspaces", "--tsv", "-H", "127.0.0.1"), 0,
                "1\t5\t-\ta\t-\n2\t2\t-\tb\t-\n");
    expect_text(
        RUN(s, "keyspaces", "--tsv", "-H", "127.0.0.1", "--sort", "keys"), 0,
        "2\t2\t-\tb\t-\n1\t5\t-\ta\t-\n");
    expect_text(
        RUN(s, "keyspaces", "--tsv", "-H", "127.0.0.1", "--sort", "total"), 0,
        "1\t5\t-\ta\t-\n2\t2\t-\tb\t-\n");
    expect(RUN(s, "keyspaces", "--json"), 0, "\"file\": \"a.mdb\"}");
    expect(RUN(s, "keyspaces", "--sort", "age"), 100, "sort by size, keys");
}

/* ---- settings that are found ------------------------------------------- */

/* The daemons' file serves a client that may not become their user. */
static void
a_found_file_says_where_the_daemons_are_to_anyone(void **state)
{
    struct site *s = *state;
    char file[1024], env[800];
    const char *const envs[] = {env, NULL};
    const char *const argv[] = {"get", "a", "b", NULL};
    struct daemon_how how = {.argv = argv, .env = envs};

    expect_text(RUN(s, "incr", "a", "b", "3"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    snprintf(file, sizeof file,
             "user = daemon\ndata_dir = %s\nread.listen = %s\n", s->data,
             strchr(s->read, '=') + 1);
    tmpdir_put(&s->dir, "c.conf", file, strlen(file), 0644);
    assert_int_equal(fchmod(s->dir.fd, 0711), 0);
    snprintf(env, sizeof env, "COUNTD_CONF=%s/c.conf", s->dir.path);
    if (geteuid() == 0)
        how.uid = 65534;
    expect_text(expect_run("countd", &how), 0, "3\n");
}

static void
one_option_says_the_host_of_all_ports(void **state)
{
    struct site *s = *state;
    char ack[64], read[64];

    snprintf(ack, sizeof ack, "write.ack_listen=db.invalid%s",
             strrchr(s->ack, ':'));
    snprintf(read, sizeof read, "read.listen=[::2]%s", strrchr(s->read, ':'));
    expect_text(RUN(s, "-o", ack, "-H", "localhost", "incr", "a", "b"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "-o", read, "get", "a", "b", "-H", "127.0.0.1"), 0,
                "1\n");
    expect(RUN(s, "-H", "db1:1", "get", "a", "b"), 100,
           "-H: give an address or host name without a port");
    expect(RUN(s, "-H", "localhost", "serve"), 100, "-H is for clients");
}

/* ---- the command line -------------------------------------------------- */

static void
bad_command_lines_exit_100_and_say_why(void **state)
{
    struct site *s = *state;

    expect(RUN(s, "sevre"), 100, "sevre: no such subcommand; see countd -h");
    expect(RUN(s, "top", "a", "--jsno"), 100,
           "--jsno: no such option; see countd top -h");
    expect(RUN(s, "top"), 100, "usage: countd top");
    expect(RUN(s, "top", "a", "-n", "0"), 100,
           "-n: \"0\" is wrong; give a number, 1 to ");
    expect(RUN(s, "top", "a", "--json", "--tsv"), 100, "give one of them");
    expect(RUN(s, "--json", "top", "a"), 100, "options stand behind it");
    expect(RUN(s, "flush", "--timeout="), 100, "\"\": give a duration");
    expect(RUN(s, "help", "tpo"), 100, "tpo: no such subcommand");
    expect(RUN(s, "top", "a", "-n"), 100, "needs a value");
    expect(RUN(s, "top", "a", "--json=yes"), 100, "takes no value");
    expect(RUN(s, "range", "a", "0", "-1"), 100, "length: \"-1\" is wrong");
    expect(RUN(s, "range", "a", "-9223372036854775808", "1"), 100, "offset");
    expect(RUN(s, "incr", "a", "b", "c"), 100, "increment: \"c\" is wrong");
    expect(RUN(s, "incr", "", "b"), 100, "the keyspace is empty");
    expect(RUN(s, "incr", "a", "\\q"), 100, "the key has a bad escape");
    expect(RUN(s, "flush", "--timeout", "soon"), 100, "give a duration");
    expect(RUN(s, "flush", "--timeout", "2d"), 100, "of at most 1d");
    assert_int_equal(daemon_run(text, sizeof text, "countd", NULL), 100);
    expect(100, 100, "usage: countd");
    expect(RUN(s, "serve", "--workers", "65"), 100, "1 to 64");
    expect(RUN(s, "serve", "--ready-fd", "900"), 100, "open descriptor");
    expect(RUN(s, "top", "-o", "log.siz=1"), 100, "usage");
    expect(RUN(s, "top", "a", "-o", "log.siz=1"), 100,
           "log.siz: no such setting");
    expect(RUN(s, "serve", "-o", "nosuch=1"), 100,
           "nosuch: no such setting; countd-write -h lists them all");
    expect(RUN(s, "log", "salvage", "bad-0000000001-1", "--keep", "--remove"),
           100, "not both");
    expect(RUN(s, "keyspaces", "-o", "read.listen="), 100, "no port");
    expect(RUN(s, "completion", "fish"), 100, "give bash or zsh");
    expect(RUN(s, "check"), 111, "data");
}

/* What a shell is given works in that shell. */
static void
shells_complete_commands_options_and_words(void **state)
{
    static const char bash[] =
        "eval \"$(countd completion bash)\"\n"
        "try() { COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)); COMPREPLY=()\n"
        " _countd; echo ${COMPREPLY[*]}; }\n"
        "try countd fl\n"
        "try countd -o a=b ra\n"
        "try countd load --str\n"
        "try countd log ver\n"
        "try countd -d /tmp incr x\n";
    char script[2000];

    (void)state; /* needs none */
    if (daemon_run(text, sizeof text, "/bin/sh", "-c", "command -v bash",
                   NULL) != 0)
        test_skip("there is no bash");
    snprintf(script, sizeof script, "PATH=$BUILD:$PATH; exec bash -uc '%s'",
             bash);
    assert_int_equal(
        daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0);
    assert_string_equal(text, "flush\nrange rank\n--strict\nverify\n\n");
    if (daemon_run(text, sizeof text, "/bin/sh", "-c", "command -v zsh",
                   NULL) == 0)
        assert_int_equal(daemon_run(text, sizeof text, "/bin/sh", "-c",
                                    "$BUILD/countd completion zsh | zsh -n",
                                    NULL),
                         0);
}

static void
help_and_version_and_test_exit_0(void **state)
{
    struct site *s = *state;

    expect(RUN(s, "-h"), 0, "  backup ");
    expect(RUN(s, "top", "-h"), 0, "example:\n  countd top words 10");
    expect(RUN(s, "--help", "load"), 0, "usage: countd load");
    expect(RUN(s, "help", "load"), 0, "usage: countd load");
    expect(RUN(s, "help"), 0, "  backup ");
    expect_text(RUN(s, "serve", "-t"), 0, "settings are good\n");
    assert_int_equal(daemon_run(text, sizeof text, "countd", "-V", NULL), 0);
    expect(0, 0, "countd 0.");
}

#define WITH_SITE(f)  cmocka_unit_test_setup_teardown(f, setup, teardown)
#define WITH_EMPTY(f) cmocka_unit_test_setup_teardown(f, setup_empty, teardown)

static const struct CMUnitTest tests[] = {
    WITH_SITE(what_is_added_can_be_read_after_a_flush),
    WITH_SITE(what_is_not_there_is_a_negative_answer),
    WITH_SITE(programs_are_told_how_fresh_and_how_exact_an_answer_is),
    WITH_SITE(raw_names_are_given_and_printed_as_they_are),
    WITH_SITE(flush_waits_without_the_data_directory),
    WITH_EMPTY(without_a_reader_nothing_is_printed_as_an_answer),
    WITH_SITE(people_get_aligned_columns_and_how_fresh_they_are),
    WITH_SITE(any_name_goes_in_and_comes_out_the_same),
    WITH_SITE(load_reports_bad_lines_and_counts_the_rest),
    WITH_SITE(load_stops_at_the_first_bad_line_when_strict),
    WITH_SITE(load_reports_twenty_bad_lines_and_counts_further_ones),
    WITH_SITE(load_reads_long_lines_only_as_far_as_they_can_be_right),
    WITH_SITE(load_reads_gzip_and_either_port_counts_each_line_once),
    WITH_SITE(load_names_a_broken_gzip_file_and_one_that_is_missing),
    WITH_SITE(load_reads_a_pipe_and_makes_durable_what_came_before_it_waits),
    WITH_SITE(load_shows_a_bar_on_a_terminal_and_takes_it_away),
    WITH_SITE(load_stops_in_good_order_when_it_is_told_to),
    WITH_SITE(load_says_what_is_known_when_the_connection_breaks),
    WITH_SITE(flush_gives_up_when_no_worker_merges),
    WITH_EMPTY(flush_says_when_no_reader_answers),
    WITH_EMPTY(flush_and_backup_say_what_is_held),
    WITH_EMPTY(flush_says_what_was_set_aside_as_damaged),
    WITH_EMPTY(flush_ends_with_1_when_it_sees_damage_come),
    WITH_SITE(serve_says_which_daemon_died_and_stops_the_others),
    WITH_SITE(no_daemon_outlives_a_killed_serve),
    WITH_SITE(a_clean_stop_merges_what_was_received),
    WITH_SITE(sigusr2_to_serve_hands_the_log_on),
    WITH_SITE(a_second_serve_on_the_same_directory_is_refused),
    WITH_SITE(other_message_sizes_are_refused_with_100),
    WITH_EMPTY(a_data_directory_that_cannot_be_is_refused_with_100),
    WITH_EMPTY(a_data_directory_that_is_not_there_yet_may_come),
    WITH_EMPTY(a_port_in_use_is_told_before_anything_is_made),
    WITH_SITE(a_client_minds_only_the_ports_it_uses),
    WITH_EMPTY(a_host_that_is_none_is_refused_with_100),
    WITH_EMPTY(a_host_name_is_one_of_an_address_for_daemons_and_clients),
    WITH_EMPTY(a_port_that_this_user_may_not_have_is_refused_with_100),
    WITH_EMPTY(logs_are_listed_dumped_and_verified),
    WITH_EMPTY(an_archived_log_is_whole),
    WITH_EMPTY(a_full_log_is_looked_at_by_its_own_user_and_left_as_it_was),
    WITH_EMPTY(a_damaged_log_is_salvaged_on_request_and_only_once),
    WITH_SITE(check_finds_a_damaged_keyspace_and_still_looks_at_the_others),
    WITH_SITE(other_message_sizes_are_no_faults_but_misuse),
    WITH_SITE(check_finds_logs_that_are_older_than_the_keyspaces),
    WITH_SITE(a_backup_of_a_running_store_is_complete_and_serves),
    WITH_SITE(a_backup_waits_for_the_merge_or_says_that_it_does_not),
    WITH_SITE(check_finds_a_file_of_a_long_name_under_another_name),
    WITH_EMPTY(bad_command_lines_exit_100_and_say_why),
    WITH_EMPTY(help_and_version_and_test_exit_0),
    WITH_SITE(what_is_exported_can_be_loaded_elsewhere),
    WITH_SITE(what_range_prints_can_be_loaded_into_a_keyspace),
    WITH_SITE(load_can_try_begin_later_and_cut_names),
    WITH_SITE(load_refuses_what_is_no_text_and_drops_a_byte_order_mark),
    WITH_SITE(keyspaces_are_sorted_by_what_they_take),
    WITH_SITE(a_found_file_says_where_the_daemons_are_to_anyone),
    WITH_SITE(one_option_says_the_host_of_all_ports),
    cmocka_unit_test(shells_complete_commands_options_and_words),
};
TEST_MAIN(tests)
