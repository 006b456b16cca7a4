/* tests/e2e/test_command.c - the countd command with the real daemons under
 * `countd serve`: counting and reading, flush, where settings come from, and
 * the command line.  Others have files of their own (*_command.c). */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/site.h"

/* ---- counting and reading ---------------------------------------------- */

WITH_SITE(what_is_added_can_be_read_after_a_flush, s)
{
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

WITH_SITE(what_is_not_there_is_a_negative_answer, s)
{
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

WITH_SITE(programs_are_told_how_fresh_and_how_exact_an_answer_is, s)
{
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

WITH_SITE(raw_names_are_given_and_printed_as_they_are, s)
{
    expect_text(RUN(s, "incr", "--raw", "a", "C:\\new\tx"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "top", "a", "--tsv"), 0, "0\t1\tC:\\\\new\\tx\n");
    expect_text(RUN(s, "top", "a", "--tsv", "--raw"), 0, "0\t1\tC:\\new\tx\n");
    expect_text(RUN(s, "get", "a", "--raw", "C:\\new\tx"), 0, "1\n");
    expect(RUN(s, "top", "a", "--json", "--raw"), 100, "give one of them");
}

/* Nobody needs the data directory to know that counts can be read. */
WITH_SITE(flush_waits_without_the_data_directory, s)
{
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

/* Runs a line of shell where some other data directory is ./data. */
static int
run_elsewhere(const struct site *s, const char *line)
{
    char script[3000], path[700];

    daemon_path("countd", path, sizeof path);
    snprintf(script, sizeof script,
             "cd '%s/elsewhere' && countd() { COUNTD_CONF= '%s' \"$@\"; } && "
             "ports='-o %s -o %s' && %s",
             s->dir.path, path, s->ack, s->read, line);
    return daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL);
}

static void
write_elsewhere(const struct site *s, struct daemon *writer)
{
    char data[700];

    snprintf(data, sizeof data, "%s/elsewhere/data", s->dir.path);
    daemon_start(writer, "countd-write", "-d", data, "-o",
                 "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o", "counter.enable=false",
                 NULL);
}

/* In ./data a log waits for a worker that never comes. */
WITH_SITE(
    a_data_directory_that_nothing_names_is_not_taken_for_that_of_the_ports, s)
{
    struct daemon writer = {.output = -1};
    char ack[64];

    assert_int_equal(mkdirat(s->dir.fd, "elsewhere", 0700), 0);
    write_elsewhere(s, &writer);
    snprintf(ack, sizeof ack, "write.ack_listen=127.0.0.1:%u",
             daemon_port(&writer, "ack"));
    expect_text(RUN(s, "-o", ack, "incr", "a", "b", "7"), 0, "");
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    assert_int_equal(kill(s->children[0], SIGUSR2), 0);

    expect_text(run_elsewhere(s, "countd $ports flush"), 0, "");
    expect_text(run_elsewhere(s, "countd $ports get a b"), 0, "1\n");
    expect_text(run_elsewhere(s, "countd $ports keyspaces --tsv"), 0,
                "1\t1\t-\ta\t-\n"); /* sizes of other files are no answer */
    expect_text(run_elsewhere(s, "countd log list >list"), 0, "");
    expect(run_elsewhere(s, "countd $ports -d data flush --timeout 100ms"), 1,
           "not merged in time");

    assert_int_equal(daemon_stop(&writer), 0);
    daemon_fini(&writer);
    expect_text(run_elsewhere(s, "countd $ports flush"), 0, "");
    expect(run_elsewhere(s, "countd log list"), 0,
           "no countd-write runs on ./data, which is taken as nothing names");
    expect_text(run_elsewhere(s, "countd -d data log list >list"), 0, "");
}

WITH_EMPTY(without_a_reader_nothing_is_printed_as_an_answer, s)
{
    static const char *const lines[][4] = {{"top", "a", "--json"},
                                           {"get", "a", "b", "--json"},
                                           {"keyspaces", "--json"}};
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

WITH_SITE(people_get_aligned_columns_and_how_fresh_they_are, s)
{
    expect_text(RUN(s, "incr", "w", "\xe6\x97\xa5\xe6\x9c\xac", "1000"), 0, "");
    expect_text(RUN(s, "incr", "w", "b", "-5"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "top", "w"), 0,
           "rank  count  key\n"
           "   0   1000  \xe6\x97\xa5\xe6\x9c\xac\n"
           "   1     -5  b\n"
           "as of ");
}

WITH_SITE(any_name_goes_in_and_comes_out_the_same, s)
{
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

WITH_SITE(keyspaces_are_listed_by_name, s)
{
    expect_text(RUN(s, "incr", "a", "x", "5"), 0, "");
    expect_text(RUN(s, "incr", "b", "x", "1"), 0, "");
    expect_text(RUN(s, "incr", "b", "y", "1"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "keyspaces", "--tsv", "-H", "127.0.0.1"), 0,
                "1\t5\t-\ta\t-\n2\t2\t-\tb\t-\n");
    expect(RUN(s, "keyspaces", "--json"), 0, "\"file\": \"a.mdb\"}");
}

/* ---- flush ------------------------------------------------------------- */

WITH_SITE(flush_gives_up_when_no_worker_merges, s)
{
    assert_int_equal(kill(s->children[1], SIGSTOP), 0);
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    expect(RUN(s, "flush", "--timeout", "100ms"), 1, "not merged in time");
    assert_int_equal(kill(s->children[1], SIGCONT), 0);
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "b"), 0, "1\n");
}

WITH_EMPTY(flush_and_backup_say_what_is_held, s)
{
    char copy[700];

    snprintf(copy, sizeof copy, "%s/copy", s->dir.path);
    site_serve_with(s, "keyspace.max_keys=1");
    expect_text(RUN(s, "incr", "a", "x"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "incr", "a", "y"), 0, "");
    expect_text(RUN(s, "incr", "b", "x"), 0, "");
    expect(RUN(s, "flush"), 1,
           "not readable: 1 record held because their keyspace cannot take "
           "them now (a); see countd held\n");
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

/* ---- settings that are found ------------------------------------------- */

/* The daemons' file serves a client that may not become their user. */
WITH_SITE(a_found_file_says_where_the_daemons_are_to_anyone, s)
{
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

WITH_SITE(one_option_says_the_host_of_all_ports, s)
{
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
    expect(RUN(s, "-H", "localhost", "serve"), 100, "asks no other host");
}

/* ---- the command line -------------------------------------------------- */

WITH_EMPTY(bad_command_lines_exit_100_and_say_why, s)
{
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
    expect(RUN(s, "check"), 111, "data");
}

/* What a shell is given works in that shell. */
TEST(bash_completes_commands_options_and_words)
{
    static const char bash[] =
        "eval \"$(countd completion bash)\"\n"
        "try() { COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)); COMPREPLY=()\n"
        " _countd_words; echo ${COMPREPLY[*]}; }\n"
        "try countd fl\n"
        "try countd -o a=b ra\n"
        "try countd load --str\n"
        "try countd log du\n"
        "try countd -d /tmp incr x\n";
    char script[2000];

    if (daemon_run(text, sizeof text, "/bin/sh", "-c", "command -v bash",
                   NULL) != 0)
        test_skip("there is no bash");
    snprintf(script, sizeof script, "PATH=$BUILD:$PATH; exec bash -uc '%s'",
             bash);
    assert_int_equal(
        daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0);
    assert_string_equal(text, "flush\nrange rank\n--strict\ndump\n\n");
}

TEST(zsh_completes_with_the_words_of_bash)
{
    static const char script[] =
        "PATH=$BUILD:$PATH; exec zsh -fc '"
        "autoload -U compinit; compinit -D -u; "
        "eval \"$(countd completion zsh)\"; "
        "setopt ksharrays; COMP_WORDS=(countd load --str) COMP_CWORD=2; "
        "_countd_words; print -- ${COMPREPLY[*]} ${_comps[countd]}'";

    if (daemon_run(text, sizeof text, "/bin/sh", "-c", "command -v zsh",
                   NULL) != 0)
        test_skip("there is no zsh");
    /* zsh itself drops the words that do not begin as what was typed. */
    expect(daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0,
           " --strict ");
    expect(0, 0, "_bash_complete -o default -F _countd_words\n");
}

WITH_EMPTY(help_and_version_and_test_exit_0, s)
{
    expect(RUN(s, "-h"), 0, "  backup ");
    expect(RUN(s, "top", "-h"), 0, "example:\n  countd top words 10");
    expect(RUN(s, "--help", "load"), 0, "usage: countd load");
    expect(RUN(s, "help", "load"), 0, "usage: countd load");
    expect(RUN(s, "help"), 0, "  backup ");
    expect_text(RUN(s, "serve", "-t"), 0, "settings are good\n");
    assert_int_equal(daemon_run(text, sizeof text, "countd", "-V", NULL), 0);
    expect(0, 0, "countd 0.");
}
