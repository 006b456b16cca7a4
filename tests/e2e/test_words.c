/* tests/e2e/test_words.c - each example of README.md, of the man pages and of
 * the help does what it says.
 *
 * An example runs as it is written, but for the addresses and paths of
 * `changed`, against daemons on free ports.  A comment `status 1` behind a
 * command is its exit status, which else is 0; one that is a number is what it
 * prints; and a command `in one terminal` runs while the ones below it do.
 * The examples that cannot run here are in `not_run`, each with its reason.
 * README's find what README has counted before them, and nothing else.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/board/countd_board.h"
#include "tests/lib/expect.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/words.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#define SCRIPT_SIZE (64 << 10)
#define LIMIT_S     50 /* of an example */
#define COMPILE     "cc app.c $(pkg-config --cflags --libs libcountd)"

static const char *const texts[] = {
    "README.md",
    "common/board/countd_board.3",
    "common/client/cmd/countd.1",
    "common/client/lib/libcountd.3",
    "common/net/countd-http.7",
    "common/setup/countd.5",
    "common/setup/countd.7",
    "common/wire/countd-raw.7",
    "reader/countd-read.8",
    "reader/countd-resp.7",
    "worker/countd-worker.8",
    "writer/countd-live.7",
    "writer/countd-write.8",
};

/* What begins a line, or a whole example, that is not run. */
static const struct {
    const char *begin, *why;
    bool whole;
} not_run[] = {
    {"make deb", "installs a package: test_package", true},
    {"cp /usr/lib/systemd", "needs an installed package: test_package", true},
    {"install -d -o countd", "the same", true},
    {"sudo -u postgres", "the same, and a PostgreSQL", true},
    {"systemctl stop countd.target 'countd-*'\ncd ",
     "needs a damaged keyspace: test_older_keyspaces", true},
    {"useradd ", "needs root, and leaves a user", false},
    {"systemctl ", "needs systemd as the first process", false},
    {"sysctl ", "changes a setting of the whole machine", false},
    {"psql counts", "needs this user's PostgreSQL: test_postgresql_store",
     true},
    {"store = postgresql", "settings, not a command", true},
    {"countd store ", "the same", false},
    {"countd watch", "draws until a key in a terminal: test_board_command",
     false},
    {"redis-cli -p 6380", "needs a port that is off: test_resp_service", false},
    {"read.listen = 0.0.0.0", "settings, not a command", true},
    {"  at   size  field", "bytes, not a command", true},
    {"# NAME  RIGHTS", "a file of tokens, not a command", true},
    {"navigator.sendBeacon", "runs in a browser, not a shell", true},
    {"rule_files: ", "a file of Prometheus, not a command", true},
    {"map $request_uri", "nginx's settings: test_neighbours", true},
    {"backend countd", "haproxy's settings: test_neighbours", true},
    {"LoadPlugin ", "collectd's settings: test_neighbours", true},
    {"cluster countd", "carbon-c-relay's settings: test_neighbours", true},
    {"{\"keyspace\": ", "what a command prints", true},
};

/* Words of an example for something of the reader's machine, and their like
 * here.  Behind @ come: DIR, the test's directory; TREE, the project's; the
 * ports ACK, READ, LIVE, HTTP, QUERY (HTTP of the reader). */
static const struct {
    const char *from, *to;
} changed[] = {
    {"/var/tmp/counts", "@DIR/counts"},
    {"/tmp/countd", "@DIR/counts"},
    {"/var/lib/countd", "@DIR/counts"},
    {"/backup/countd-today", "@DIR/backup"},
    {"/tmp/audit", "@DIR/audit"},
    {"/run/app/board", "@DIR/board"},
    {"data/sample.tsv.gz", "@TREE/data/sample.tsv.gz"},
    {"127.0.0.1:5000", "127.0.0.1:0"},
    {"48881", "@ACK"},
    {"48880", "@READ"},
    {"11215", "@LIVE"},
    {"127.0.0.1:9527", "127.0.0.1:@HTTP"},
    {"127.0.0.1:48890", "127.0.0.1:@QUERY"},
    {"-H db1", "-H 127.0.0.1"},
    {"/usr/local/bin/countd", "countd"},
    {"/usr/local/bin/report", "report"},
    {"/opt/report", "report"},
    {"0 3 * * * ", ""},
    {"sudo -u countd ", ""},
    {"chpst -u countd ", ""},
    {"mail -s countd operator", "cat"},
    {"-- sleep 60", "-- cat @DIR/hold"},
    {"KEYSPACE KEY", "pages /basket"},
    {"drop KEYSPACE", "drop stock"},
    {"backup DIR", "backup @DIR/copy"},
    {"distinct visitors", "distinct pages"},
    {"make demo", "sh @TREE/tests/demo.sh $BUILD"},
    {"countd_open(&c, NULL)",
     "countd_open(&c, &(struct countd_options){sizeof(struct countd_options), "
     "\"127.0.0.1:@ACK\", \"127.0.0.1:@QUERY\"})"},
    {"countd_open(ctypes.byref(c), None)",
     "countd_open(ctypes.byref(c), ctypes.byref(type('O', (ctypes.Structure,), "
     "{'_fields_': [('size', ctypes.c_size_t), ('write', ctypes.c_char_p), "
     "('read', ctypes.c_char_p)]})(24, b'127.0.0.1:@ACK', "
     "b'127.0.0.1:@QUERY')))"},
};

/* What an example with these words prints. */
static const struct {
    const char *words, *prints;
} printed[] = {
    {"countd top pages -d", "/about"},
    {"countd top usage --group /", "acme/"},
    {"top sold -n 5", "rank"},
    {"countd_wait_readable(c, pages", "/index "},
    {"/dev/tcp/127.0.0.1/48881", "WIN"},
    {"/dev/tcp/127.0.0.1/11215", "N   o   t"},
    {"make demo", "countd top words"},
};

/* What makes a program of the part of one. */
static const char fragment[] = "uint32_t cell;";
static const char around_fragment[] =
    "#include <countd_board.h>\n"
    "#include <errno.h>\n"
    "static int\nlead(struct countd_board *b, uint32_t row)\n{\n%s}\n"
    "int\nmain(void)\n{\n"
    "    struct countd_board *b;\n\n"
    "    if (countd_board_attach(&b, \"@DIR/board\", NULL, 0, NULL) < 0)\n  "
    "      return 2;\n"
    "    if (lead(b, 1) != 1 || lead(b, 1) != 0)\n        return 3;\n"
    "    countd_board_close(b);\n    return 0;\n}\n";

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* ---- daemons that the examples talk to ----------------------------------- */

static struct fixture {
    struct tmpdir dir;
    struct words words;
    char tree[512], build[512];
    struct daemon serve;
    struct countd_board *board; /* this process is its master */
} fixture;

/* Runs a daemon, as there are others already on free ports and, if it writes,
 * in a directory of its own; it must serve, and end well. */
static const char run_daemon[] =
    "#!/bin/sh\n"
    "mkfifo up\n"
    "case $1 in countd | countd-write) own=\"-d own-$$\" ;; esac\n"
    "\"$@\" -o write.listen=127.0.0.1:0 -o write.ack_listen=127.0.0.1:0 "
    "-o read.listen=127.0.0.1:0 -o http.listen=127.0.0.1:0 "
    "-o read.http=127.0.0.1:0 -o counter.port=0 $own --ready-fd 3 3>up "
    ">said 2>&1 &\n"
    "read line <up; kill $!; wait $!; status=$?\n"
    "[ $status = 0 ] || cat said; rm -rf up own-$$; exit $status\n";

static void
put_program(const char *name, const char *content, mode_t mode)
{
    tmpdir_put(&fixture.dir, name, content, strlen(content), mode);
}

static void
write_settings(void)
{
    char text_of[2048];

    snprintf(text_of, sizeof text_of,
             "data_dir = %s/counts\nwrite.listen = 127.0.0.1:%u\n"
             "write.ack_listen = 127.0.0.1:%u\n"
             "read.listen = 127.0.0.1:%u\nread.http = 127.0.0.1:%u\n"
             "counter.port = %u\n"
             "http.listen = 127.0.0.1:%u\n",
             fixture.dir.path, daemon_port(&fixture.serve, "silent"),
             daemon_port(&fixture.serve, "ack"),
             daemon_port(&fixture.serve, "read"),
             daemon_port(&fixture.serve, "read-http"),
             daemon_port(&fixture.serve, "counter"),
             daemon_port(&fixture.serve, "http"));
    put_program("countd.conf", text_of, 0600);
    snprintf(text_of, sizeof text_of,
             "Name: libcountd\nDescription: built\nVersion: 0\n"
             "Libs: -L%s -lcountd\n"
             "Cflags: -I%s/common/client/lib -I%s/common/board\n",
             fixture.build, fixture.tree, fixture.tree);
    put_program("libcountd.pc", text_of, 0600);
}

/* Runs a line of shell in the directory, with what was built. */
static int
run_shell(const char *line, const char *shell)
{
    char limit[16];

    snprintf(limit, sizeof limit, "%" PRIu64, test_patience(LIMIT_S));
    return daemon_run(text, sizeof text, "/bin/sh", "-c",
                      "cd \"$1\"; export PKG_CONFIG_PATH=$1 "
                      "LD_LIBRARY_PATH=$2 PATH=$2:$1:$PATH BUILD=$2 "
                      "COUNTD_CONF=$1/countd.conf\n"
                      "exec timeout $4 $5 -c \"$3\"",
                      "sh", fixture.dir.path, fixture.build, line, limit,
                      shell);
}

static int
setup(void **state)
{
    const struct countd_board_shape shape = {.size = sizeof shape,
                                             .slots = 4,
                                             .shared_count = 2,
                                             .private_count = 1,
                                             .cells = 1};
    char data[600], board[600];

    (void)state; /* there is one fixture */
    tmpdir_make(&fixture.dir);
    assert_non_null(getcwd(fixture.tree, sizeof fixture.tree));
    daemon_path("countd", fixture.build, sizeof fixture.build);
    *strrchr(fixture.build, '/') = '\0';
    snprintf(data, sizeof data, "%s/counts", fixture.dir.path);
    snprintf(board, sizeof board, "%s/board", fixture.dir.path);
    daemon_start(&fixture.serve, "countd", "serve", "-d", data, "-o",
                 "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o",
                 "read.listen=127.0.0.1:0", "-o", "http.listen=127.0.0.1:0",
                 "-o", "read.http=127.0.0.1:0", "-o", "archive.keep=1d", "-o",
                 "sequence.enable=true", "-o", "quota.enable=true", "-o",
                 "quota.limit=1000000", "-o", "log.rotate_after=50ms");
    assert_rc(countd_board_create(&fixture.board, board, &shape, NULL), 0);
    write_settings();
    put_program("report", "#!/bin/sh\n", 0700);
    put_program("run-daemon", run_daemon, 0700);
    for (size_t i = 0; i < COUNT(texts); i++)
        words_read(&fixture.words, texts[i]);
    words_read_help(&fixture.words);
    expect(run_shell("countd incr pages /index && countd flush", "sh"), 0, "");
    return 0;
}

static int
teardown(void **state)
{
    (void)state; /* there is one fixture */
    countd_board_close(fixture.board);
    daemon_fini(&fixture.serve);
    words_fini(&fixture.words);
    tmpdir_remove(&fixture.dir);
    return 0;
}

#define CASE(name) TEST_IN(name, void *unused, setup, teardown)

/* ---- from an example to a script ---------------------------------------- */

/* The script ends with 99, saying which, when a command does not do what its
 * comment says.  A command that reads the pipe `hold` runs until the script
 * ends, and what comes behind begins when it reads. */
struct script {
    char text[SCRIPT_SIZE];
    size_t size;
    bool holds; /* a command waits for the end */
};

/* Cuts the next command from a text: a line, with those that belong to it by
 * \\ or braces.  *at moves behind it, *line counts its lines. */
static char *
script_next(char **at, unsigned *line)
{
    char *from = *at, *to;
    int open = 0;

    for (to = from; *to != '\0'; to++) {
        open += *to == '{';
        open -= *to == '}';
        if (*to != '\n')
            continue;
        ++*line;
        if (open <= 0 && (to == from || to[-1] != '\\'))
            break;
    }
    if (*to != '\0')
        *to++ = '\0';
    *at = to;
    return from;
}

static void script_add(struct script *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
script_add(struct script *s, const char *format, ...)
{
    va_list list;
    int size;

    va_start(list, format);
    size = vsnprintf(s->text + s->size, sizeof s->text - s->size, format, list);
    va_end(list);
    assert_true(size >= 0 && (size_t)size < sizeof s->text - s->size);
    s->size += (size_t)size;
}

static bool
begins_with(const char *example, const char *with)
{
    return strncmp(example, with, strlen(with)) == 0;
}

static void
script_add_command(struct script *s, const char *command, const char *where)
{
    const char *comment = strstr(command, " # "), *status;
    int wanted = 0;

    comment = comment ? comment + 3 : "";
    status = strstr(comment, "status ");
    if (status != NULL)
        wanted = atoi(status + 7);
    if (strstr(command, "/hold") != NULL) {
        /* The pipe is open when the command behind -- runs. */
        s->holds = true;
        script_add(s, "mkfifo hold\n%.*s & exec 8>hold\n",
                   (int)(strstr(command, "/hold") + 5 - command), command);
    } else if (*comment != '\0' &&
               strspn(comment, "0123456789") == strlen(comment)) {
        script_add(s,
                   "got=$(%s\n)\ncheck $? 0 '%s'\n[ \"$got\" = '%s' ] || "
                   "{ echo \"%s it prints '$got', not '%s'\"; exit 99; }\n",
                   command, where, comment, where, comment);
    } else {
        const char *daemon = command + (begins_with(command, "exec ") ? 5 : 0);
        const bool is_one = begins_with(daemon, "countd serve") ||
                            begins_with(daemon, "countd-");

        script_add(s, "%s%s\ncheck $? %d '%s'\n", is_one ? "run-daemon " : "",
                   is_one ? daemon : command, wanted, where);
    }
}

static void
change_example(char *example, size_t size)
{
    static const struct {
        const char *word, *port;
    } ports[] = {{"@ACK", "ack"},
                 {"@READ", "read"},
                 {"@LIVE", "counter"},
                 {"@HTTP", "http"},
                 {"@QUERY", "read-http"}};
    char number[16];

    for (size_t i = 0; i < COUNT(changed); i++)
        words_replace(example, size, changed[i].from, changed[i].to);
    words_replace(example, size, "@DIR", fixture.dir.path);
    words_replace(example, size, "@TREE", fixture.tree);
    for (size_t i = 0; i < COUNT(ports); i++) {
        snprintf(number, sizeof number, "%u",
                 daemon_port(&fixture.serve, ports[i].port));
        words_replace(example, size, ports[i].word, number);
    }
}

static bool
is_not_run(const char *example, bool whole)
{
    for (size_t i = 0; i < COUNT(not_run); i++)
        if (not_run[i].whole == whole && begins_with(example, not_run[i].begin))
            return true;
    return false;
}

/* Runs the commands of an example; the status, with all that was said in
 * `text`. */
static int
run_commands(const struct words_piece *p)
{
    static struct script s;
    static char example[SCRIPT_SIZE];
    char where[256], *rest = example, *command;
    unsigned line = p->line;

    strcpy(example, p->text);
    s.size = 0;
    s.holds = false;
    script_add(&s, "check() { [ $1 = $2 ] || "
                   "{ echo \"$3 status $1, not $2\"; exit 99; }; }\n");
    if (strcmp(p->kind, "help") == 0)
        script_add(
            &s, "printf 'words\\tthe\\t3\\nwords\\tand\\t2\\n' | countd load "
                ">seed 2>&1 && countd flush >>seed 2>&1\ncheck $? 0 seed\n");
    for (unsigned begun = line; *rest != '\0'; begun = line) {
        static char changed_line[SCRIPT_SIZE];

        command = script_next(&rest, &line);
        if (is_not_run(command, false))
            continue;
        snprintf(where, sizeof where, "%s:%u:", p->file, begun);
        strcpy(changed_line, command);
        change_example(changed_line, sizeof changed_line);
        script_add_command(&s, changed_line, where);
    }
    if (s.holds)
        script_add(&s,
                   "exec 8>&-\nwait $!\ncheck $? 0 '%s:%u: what holds'\n"
                   "rm hold\n",
                   p->file, p->line);
    put_program("script", s.text, 0600);
    return run_shell(". ./script", strstr(p->text, "/dev/tcp/") ||
                                           strstr(p->text, "/dev/udp/") ||
                                           strstr(p->text, "<(")
                                       ? "bash"
                                       : "sh");
}

/* ---- other languages ---------------------------------------------------- */

static bool
has_program(const char *program)
{
    char script[64];

    snprintf(script, sizeof script, "command -v %s", program);
    return run_shell(script, "sh") == 0;
}

/* ---- which is which ----------------------------------------------------- */

enum sort { COMMANDS, HELP, C, PYTHON, SETTINGS, HOW_TO_COMPILE };

static enum sort
sort_of(const struct words_piece *p)
{
    if (strcmp(p->kind, "help") == 0)
        return HELP;
    if (strcmp(p->kind, "c") == 0 || begins_with(p->text, fragment) ||
        begins_with(p->text, "#include <"))
        return C;
    if (strcmp(p->kind, "python") == 0 || begins_with(p->text, "import "))
        return PYTHON;
    if (begins_with(p->text, "data_dir = "))
        return SETTINGS;
    return begins_with(p->text, COMPILE) ? HOW_TO_COMPILE : COMMANDS;
}

/* Runs an example that is a file. */
static int
run_file(const struct words_piece *p, const char *name, const char *script)
{
    static char content[SCRIPT_SIZE];

    if (begins_with(p->text, fragment))
        (void)snprintf(content, sizeof content, around_fragment,
                       p->text); /* fits: an example is shorter */
    else
        strcpy(content, p->text);
    change_example(content, sizeof content);
    put_program(name, content, 0600);
    return run_shell(script, "sh -eu");
}

static int
run_example(const struct words_piece *p)
{
    switch (sort_of(p)) {
    case C:
        return run_file(p, "app.c", COMPILE " -Wall -Werror\nexec ./a.out");
    case PYTHON:
        return run_file(p, "app.py", "exec python3 app.py");
    case SETTINGS:
        return run_file(p, "example.conf",
                        "exec countd serve -t -f example.conf");
    default:
        return run_commands(p);
    }
}

/* Whether an example did what it says; says where and why if it did not. */
static bool
did_well(const struct words_piece *p, int status)
{
    const char *misses = NULL;

    for (size_t i = 0; i < COUNT(printed); i++)
        if (strstr(p->text, printed[i].words) != NULL &&
            strstr(text, printed[i].prints) == NULL)
            misses = printed[i].prints;
    if (status == 0 && misses == NULL)
        return true;
    print_error("%s:%u: the example fails (status %d), or does not print "
                "'%s':\n",
                p->file, p->line, status, misses ? misses : "");
    (void)fprintf(stderr, "%s\n%s\n", p->text, text); /* any length */
    return false;
}

/* Runs all examples of a sort, and shows each that is wrong. */
static void
run_all(enum sort sort)
{
    unsigned wrong = 0, runs = 0;

    for (size_t i = 0; i < fixture.words.count; i++) {
        const struct words_piece *p = &fixture.words.pieces[i];

        if (sort_of(p) != sort || is_not_run(p->text, true))
            continue;
        runs++;
        wrong += !did_well(p, run_example(p));
    }
    assert_true(runs > 0);
    assert_int_equal(wrong, 0);
}

/* ---- tests --------------------------------------------------------------- */

CASE(commands_do_what_the_texts_say)
{
    if (!has_program("bash"))
        test_skip("there is no bash");
    run_all(COMMANDS);
}

CASE(programs_in_c_do_what_the_texts_say)
{
    if (!has_program("cc") || !has_program("pkg-config"))
        test_skip("there is no compiler, or no pkg-config");
    if (SANITIZED)
        test_skip("the library needs the sanitizer's run-time");
    run_all(C);
}

CASE(programs_in_python_do_what_the_texts_say)
{
    if (!has_program("python3"))
        test_skip("there is no python3");
    if (SANITIZED)
        test_skip("a sanitizer wants to be loaded before python is");
    run_all(PYTHON);
}

CASE(settings_in_the_texts_are_good)
{
    run_all(SETTINGS);
}

CASE(examples_of_the_help_run)
{
    expect(run_shell("countd quota create 9 --name tea", "sh"), 0, "9");
    run_all(HELP);
}

static bool
is_in_the_texts(const char *words, bool at_a_line)
{
    for (size_t i = 0; i < fixture.words.count; i++) {
        const char *whole = fixture.words.pieces[i].text, *at = whole;

        while ((at = strstr(at, words)) != NULL) {
            if (!at_a_line || at == whole || at[-1] == '\n')
                return true;
            at++;
        }
    }
    print_error("no example has '%s' any more\n", words);
    return false;
}

/* Each table here speaks of examples that are there. */
CASE(exceptions_are_in_the_texts)
{
    unsigned gone = 0;

    for (size_t i = 0; i < COUNT(not_run); i++)
        gone += !is_in_the_texts(not_run[i].begin, true);
    for (size_t i = 0; i < COUNT(changed); i++)
        gone += !is_in_the_texts(changed[i].from, false);
    for (size_t i = 0; i < COUNT(printed); i++)
        gone += !is_in_the_texts(printed[i].words, false);
    gone += !is_in_the_texts(COMPILE, true);
    assert_int_equal(gone, 0);
}
