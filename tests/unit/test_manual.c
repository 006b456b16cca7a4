/* tests/unit/test_manual.c - the man pages say what the code does, and nothing
 * else: settings, flags, defaults, limits, ops and exit codes, both ways. */
#include "tests/lib/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/client/cmd/cmd_terminal.h"
#include "common/setup/config.h"
#include "common/wire/frame.h"
#include "common/wire/query.h"
#include "writer/listeners.h"
#include "writer/live/live_protocol.h"
#include "writer/live/live_server.h"
#include "writer/tally.h"

#define PAGE_SIZE_MAX (64 << 10)

static char page[PAGE_SIZE_MAX];

/* Tests run in the project's folder. */
static void
read_page(const char *path)
{
    FILE *f = fopen(path, "re");
    size_t size;

    if (f == NULL)
        print_error("%s cannot be opened\n", path);
    assert_non_null(f);
    size = fread(page, 1, sizeof page - 1, f);
    assert_int_equal(fclose(f), 0);
    assert_true(size > 0 && size < sizeof page - 1);
    page[size] = '\0';
}

/* The next line of the page that starts with `start`, from *at on: copies
 * what follows `start` and moves *at behind the line. */
static bool
next_line(const char **at, const char *start, char *rest, size_t size)
{
    while (**at != '\0') {
        const char *line = *at;
        const size_t length = strcspn(line, "\n");

        *at += length + (line[length] == '\n');
        if (strncmp(line, start, strlen(start)) != 0)
            continue;
        assert_true(length < size);
        snprintf(rest, size, "%.*s", (int)(length - strlen(start)),
                 line + strlen(start));
        return true;
    }
    return false;
}

/* A section of the page, into `text`. */
static void
section(const char *title, char *text, size_t size)
{
    char heading[64];
    const char *from, *to;

    snprintf(heading, sizeof heading, "\n.Sh %s\n", title);
    from = strstr(page, heading);
    if (from == NULL)
        print_error("there is no section %s\n", title);
    assert_non_null(from);
    from += strlen(heading);
    to = strstr(from, "\n.Sh ");
    snprintf(text, size, "%.*s", (int)(to ? (size_t)(to - from) : strlen(from)),
             from);
}

/* From "start" up to the next "\n.It " of this level, ".El" or the end; lists
 * inside are not looked for. */
static void
item(const char *in, const char *start, const char *next, char *text,
     size_t size)
{
    const char *from = strstr(in, start);
    const char *to;

    if (from == NULL)
        print_error("there is no item \"%s\"\n", start);
    assert_non_null(from);
    to = strstr(from + strlen(start), next);
    snprintf(text, size, "%.*s", (int)(to ? (size_t)(to - from) : strlen(from)),
             from);
}

static void
assert_has(const char *text, const char *wanted)
{
    if (strstr(text, wanted) == NULL)
        print_error("\"%s\" is not in:\n%s\n", wanted, text);
    assert_non_null(strstr(text, wanted));
}

/* ---- countd.5 ---------------------------------------------------------- */

static size_t setting_count;

static void
check_setting(void *ctx, const char *key, const char *type, const char *def,
              const char *help)
{
    char start[128], text[2048], sentence[128];

    (void)ctx;  /* needs none */
    (void)help; /* the page says it at more length */
    setting_count++;
    snprintf(start, sizeof start, ".It Va %s No =%s%s\n", key,
             def[0] != '\0' ? " " : "", def);
    item(page, start, "\n.It ", text, sizeof text);
    snprintf(sentence, sizeof sentence, "\n%c%s.", type[0] - 'a' + 'A',
             type + 1);
    assert_has(text, sentence);
}

TEST(every_setting_its_default_and_its_limits_are_in_countd_5)
{
    char rest[128];
    const char *at = page;
    size_t items = 0;

    read_page("common/setup/countd.5");
    setting_count = 0;
    config_each(check_setting, NULL);

    while (next_line(&at, ".It Va ", rest, sizeof rest))
        items += strstr(rest, " No =") != NULL;
    assert_int_equal(items, setting_count);
}

TEST(every_op_and_size_of_the_protocols_is_in_countd_5)
{
    static const struct {
        enum query_op op;
        const char *word;
    } ops[] = {
        {QUERY_GET, "get"},
        {QUERY_RANK, "rank"},
        {QUERY_KEYSPACES, "keyspaces"},
        {QUERY_TOTAL, "total"},
        {QUERY_NOW, "now"},
        {QUERY_ABOUT, "about"},
        {QUERY_HISTORY, "history"},
        {QUERY_PERIOD_TOP, "period-top"},
        {QUERY_PERIOD_RANK, "period-rank"},
        {QUERY_AROUND, "around"},
        {QUERY_KEYS, "keys"},
        {QUERY_VERSION, "version"},
    };
    static char text[PAGE_SIZE_MAX];
    char line[64], rest[128];
    const char *at = text;
    size_t items = 0;

    read_page("common/setup/countd.5");
    section("RANGES", text, sizeof text);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        snprintf(line, sizeof line, "\n.It %d Cm %s\n", (int)ops[i].op,
                 ops[i].word);
        assert_has(text, line);
    }
    while (next_line(&at, ".It ", rest, sizeof rest))
        items++;
    assert_int_equal(items, sizeof ops / sizeof ops[0]);

    snprintf(line, sizeof line, "\n%4d         end\n", QUERY_SIZE);
    assert_has(text, line);
    snprintf(line, sizeof line, "\n%4d         end\n", QUERY_EXTENDED_SIZE);
    assert_has(text, line);
    snprintf(line, sizeof line, "\n%4d         end\n", QUERY_HISTORY_SIZE);
    assert_has(text, line);
    snprintf(line, sizeof line, "\n%4d         end\n", QUERY_KEYS_SIZE);
    assert_has(text, line);
    snprintf(line, sizeof line, "\n%4d   size  rows", QUERY_REPLY_SIZE);
    assert_has(text, line);
    snprintf(line, sizeof line, "above %d is cut to %d;", QUERY_ROWS_MAX,
             QUERY_ROWS_MAX);
    assert_has(text, line);
    section("INCREMENTS", text, sizeof text);
    assert_has(text, "\n 520         end\n");
}

/* ---- the live protocols ------------------------------------------------ */

static size_t
count_items(const char *text, const char *start)
{
    char rest[256];
    size_t items = 0;

    while (next_line(&text, start, rest, sizeof rest))
        items++;
    return items;
}

TEST(every_opcode_and_status_of_live_requests_is_in_countd_5)
{
    static const struct {
        enum frame_opcode opcode;
        const char *word;
    } opcodes[] = {{FRAME_NOOP, "Noop"},       {FRAME_GET, "Get"},
                   {FRAME_ACQUIRE, "Acquire"}, {FRAME_RELEASE, "Release"},
                   {FRAME_STATS, "Stats"},     {FRAME_DUMP, "Dump"},
                   {FRAME_WHO, "Who"}};
    static char text[PAGE_SIZE_MAX];
    char line[128];
    size_t statuses = 0;

    read_page("common/setup/countd.5");
    section("COUNTERS AND SEMAPHORES", text, sizeof text);
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        snprintf(line, sizeof line, "\n.It %02x Cm %s\n",
                 (unsigned)opcodes[i].opcode, opcodes[i].word);
        assert_has(text, line);
    }
    for (unsigned status = 1; status < 256; status++) {
        const char *error = frame_text((enum frame_status)status);

        if (error[0] == '\0')
            continue;
        snprintf(line, sizeof line, "\n.It %02x Ql %s\n", status, error);
        assert_has(text, line);
        statuses++;
    }
    assert_int_equal(statuses, 6);
    assert_int_equal(count_items(text, ".It 0") + count_items(text, ".It 1") +
                         count_items(text, ".It 2") +
                         count_items(text, ".It 5") +
                         count_items(text, ".It 8"),
                     sizeof opcodes / sizeof opcodes[0] + statuses);

    snprintf(line, sizeof line, "magic: %x hex in a request, %x hex in",
             FRAME_REQUEST, FRAME_ANSWER);
    assert_has(text, line);
    snprintf(line, sizeof line, "\n%4d         body\n", FRAME_HEADER);
    assert_has(text, line);
    snprintf(line, sizeof line, "1 to %d bytes", FRAME_NAME_MAX);
    assert_has(text, line);
    snprintf(line, sizeof line, "above %u bytes closes", FRAME_BODY_MAX);
    assert_has(text, line);
}

/* The names in an answer to Stats are in the page, in their order, and no
 * others. */
static void
check_stats(const char *text, enum live_kind kind)
{
    const uint8_t request[FRAME_HEADER] = {FRAME_REQUEST, FRAME_STATS};
    struct budget budget = {.max = UINT64_C(64) << 20};
    const struct live_server_options options = {.kind = kind,
                                                .connections = 1,
                                                .slots = 16,
                                                .interval_s = 10,
                                                .budget = &budget};
    static uint8_t out[LIVE_PROTOCOL_OUT_SIZE];
    struct live_protocol r = {
        .in = request, .in_size = sizeof request, .out = out};
    struct loop *loop = loop_new();
    struct live_server c;
    const struct listener listener = {.open = 0};
    size_t at = FRAME_HEADER, commas = 0, count = 0;

    assert_non_null(loop);
    assert_rc(live_server_init(&c, loop, &options), 0);
    c.listener = &listener;
    assert_int_equal(live_protocol_do(&c, 0, &r), LIVE_PROTOCOL_MORE);
    text = strstr(text, "The statistics are");
    assert_non_null(text);
    for (const char *p = text; *p != '\0'; p++)
        commas += strncmp(p, " , ", 3) == 0;
    while (at + 4 <= r.out_size) {
        const size_t size = get_be16(out + at);
        char name[64];

        assert_true(size > 0 && size < sizeof name);
        snprintf(name, sizeof name, " %.*s", (int)size,
                 (const char *)out + at + 4);
        text = strstr(text, name);
        if (text == NULL)
            print_error("%s is missing, or not in its place\n", name);
        assert_non_null(text);
        at += 4 + size + get_be16(out + at + 2);
        count++;
    }
    /* Seven items, each of one more than its commas. */
    if (kind == LIVE_COUNTER)
        assert_int_equal(count, commas + 7);
    live_server_fini(&c);
    loop_free(loop);
}

TEST(every_statistic_is_in_countd_5)
{
    static char text[PAGE_SIZE_MAX];

    read_page("common/setup/countd.5");
    section("COUNTERS AND SEMAPHORES", text, sizeof text);
    check_stats(text, LIVE_COUNTER);
    check_stats(text, LIVE_SEMAPHORE);
}

TEST(limits_of_the_live_protocols_are_in_their_pages)
{
    static char text[PAGE_SIZE_MAX];
    char line[128];

    read_page("common/setup/countd.5");
    snprintf(line, sizeof line, "at most %d;", LISTENERS_MOST);
    assert_has(page, line);
    section("LIVE HISTORY", text, sizeof text);
    snprintf(line, sizeof line, "once in %d seconds", TALLY_INTERVAL_MS / 1000);
    assert_has(text, line);
    snprintf(line, sizeof line, "cut to %d bytes less", TALLY_HASH_SIZE);
    assert_has(text, line);
    snprintf(line, sizeof line, "at least %d and\n",
             CONFIG_HISTORY_KEYSPACE_MIN);
    assert_has(text, line);
    snprintf(line, sizeof line, "\nat least %d.", CONFIG_HISTORY_KEY_MIN);
    assert_has(text, line);

    read_page("writer/countd-write.8");
    snprintf(line, sizeof line, "at most %d each", LISTENERS_MOST);
    assert_has(page, line);
    snprintf(line, sizeof line, "; %d descriptors are for", LISTENERS_FILES);
    assert_has(page, line);
    snprintf(line, sizeof line, "when that was for %d seconds",
             LISTENERS_YIELD_S);
    assert_has(page, line);
    snprintf(line, sizeof line, "at most %d, are kept for each port",
             LISTENERS_RESERVED);
    assert_has(page, line);
    snprintf(line, sizeof line, "gets %d microseconds", CONN_TURN_US);
    assert_has(page, line);
    snprintf(line, sizeof line, "at most %u bytes of a connection", CONN_SLICE);
    assert_has(page, line);
    snprintf(line, sizeof line, "no byte for %d seconds", CONN_STALL_MS / 1000);
    assert_has(page, line);
    snprintf(line, sizeof line, "has %zu MiB of memory", LISTENERS_POOL >> 20);
    assert_has(page, line);
    snprintf(line, sizeof line, "at most %d in a turn", LIVE_SWEEP_STEP);
    assert_has(page, line);
    snprintf(line, sizeof line, "clean stop, %d names at a time", TALLY_PIECE);
    assert_has(page, line);
}

/* ---- flags ------------------------------------------------------------- */

/* ".It Fl h , -help" and ".It Fl f Ar FILE" as "-h, --help", "-f FILE". */
static void
flag_text(const char *macro, char *text, size_t size)
{
    char copy[256];
    char *save, *word;
    bool flag = true;
    size_t length = 0;

    text[0] = '\0';
    snprintf(copy, sizeof copy, "%s", macro);
    for (word = strtok_r(copy, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        const char *space = length > 0 && word[0] != ',' ? " " : "";

        if (strcmp(word, "Ar") == 0) {
            flag = false;
            continue;
        }
        length +=
            (size_t)snprintf(text + length, size - length, "%s%s%s", space,
                             flag && word[0] != ',' ? "-" : "", word);
    }
}

/* What config_daemon() prints for -h. */
static void
daemon_help(char *text, size_t size)
{
    static char name[] = "x", help[] = "-h";
    char *argv[] = {name, help, NULL};
    struct config_command command;
    struct config c;
    const int saved = dup(STDOUT_FILENO);
    const int fd = memfd_create("help", MFD_CLOEXEC);
    ssize_t n;

    assert_true(saved >= 0 && fd >= 0);
    assert_int_equal(fflush(stdout), 0);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);
    assert_int_equal(config_daemon(&c, &command, 2, argv, "x", "y"), 0);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    n = pread(fd, text, size - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(saved), 0);
}

static void
check_daemon_page(const char *path)
{
    static char text[PAGE_SIZE_MAX], help[PAGE_SIZE_MAX];
    char rest[256], flag[256], line[300];
    size_t in_page = 0, in_help = 0;
    const char *at = text;

    read_page(path);
    daemon_help(help, sizeof help);
    section("DESCRIPTION", text, sizeof text);
    while (next_line(&at, ".It Fl ", rest, sizeof rest)) {
        flag_text(rest, flag, sizeof flag);
        snprintf(line, sizeof line, "\n  %s ", flag);
        assert_has(help, line);
        in_page++;
    }
    at = help;
    while (next_line(&at, "  -", rest, sizeof rest))
        in_help++;
    assert_int_equal(in_page, in_help);
    snprintf(line, sizeof line, "at most %d of", CONFIG_SOURCES_MAX);
    assert_has(text, line);
}

TEST(every_flag_of_the_daemons_is_in_their_pages)
{
    check_daemon_page("writer/countd-write.8");
    check_daemon_page("worker/countd-worker.8");
    check_daemon_page("reader/countd-read.8");
}

/* ---- countd.1 ---------------------------------------------------------- */

/* The words of a usage line alone: "[FILE]..." and "Op Ar FILE ..." both are
 * "FILE ". */
static void
usage_words(const char *usage, char *text, size_t size)
{
    char copy[256];
    char *save, *word;
    size_t length = 0;

    text[0] = '\0';
    snprintf(copy, sizeof copy, "%s", usage);
    for (word = strtok_r(copy, " []|.", &save); word != NULL;
         word = strtok_r(NULL, " []|.", &save)) {
        if (strcmp(word, "Ar") == 0 || strcmp(word, "Op") == 0 ||
            strcmp(word, "Oo") == 0 || strcmp(word, "Oc") == 0 ||
            strcmp(word, "Cm") == 0)
            continue;
        length += (size_t)snprintf(text + length, size - length, "%s ", word);
    }
}

/* True when the item lists the option, alone or with another. */
static bool
lists_option(const char *text, const struct cmd_option *o)
{
    char wanted[64], rest[256], flags[256];
    const char *at = text;

    snprintf(wanted, sizeof wanted, "%s%s%s%s", o->name[1] ? "--" : "-",
             o->name, o->value ? " " : "", o->value ? o->value : "");
    while (next_line(&at, ".It Fl ", rest, sizeof rest)) {
        char *save, *flag;

        flag_text(rest, flags, sizeof flags);
        for (flag = strtok_r(flags, ",", &save); flag != NULL;
             flag = strtok_r(NULL, ",", &save))
            if (strcmp(flag + strspn(flag, " "), wanted) == 0)
                return true;
    }
    return false;
}

static size_t
count_options(const char *text)
{
    char rest[256];
    const char *at = text;
    size_t count = 0;

    while (next_line(&at, ".It Fl ", rest, sizeof rest))
        count += strchr(rest, ',') ? 2 : 1;
    return count;
}

static void
check_subcommand(const char *all, const struct cmd *c)
{
    char start[64], text[8192], usage[256], wanted[256], got[256];
    const char *at = text;
    size_t options = 0;

    snprintf(start, sizeof start, "\n.It Cm %s", c->name);
    item(all, start, "\n.It Cm ", text, sizeof text);
    assert_true(next_line(&at, ".It Cm ", usage, sizeof usage));
    usage_words(usage + strlen(c->name), got, sizeof got);
    usage_words(c->arguments.text, wanted, sizeof wanted);
    assert_string_equal(got, wanted);

    for (; options < CMD_OPTIONS_MAX && c->options[options].name; options++) {
        const struct cmd_option *o = &c->options[options];
        const char *def = strstr(o->help, "default ");

        if (!lists_option(text, o))
            print_error("%s: option %s is not in the page\n", c->name, o->name);
        assert_true(lists_option(text, o));
        if (def != NULL)
            assert_has(text, def);
    }
    assert_int_equal(count_options(text), options);
}

TEST(every_subcommand_and_its_options_are_in_countd_1)
{
    static char text[PAGE_SIZE_MAX];
    char rest[256];
    const char *at = text;
    size_t commands = 0, items = 0;

    read_page("common/client/cmd/countd.1");
    section("SUBCOMMANDS", text, sizeof text);
    *strstr(text, "\n.Ss Output") = '\0';
    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        check_subcommand(text, c);
        commands++;
    }
    while (next_line(&at, ".It Cm ", rest, sizeof rest))
        items++;
    assert_int_equal(items, commands);
}

TEST(limits_of_the_command_are_in_countd_1)
{
    char text[128];

    read_page("common/client/cmd/countd.1");
    snprintf(text, sizeof text, "1 to %d; default 1.", WORKERS_MAX);
    assert_has(page, text);
    snprintf(text, sizeof text, "A line has at most %d bytes.", LINES_SIZE_MAX);
    assert_has(page, text);
    snprintf(text, sizeof text, "More than %d rows", QUERY_ROWS_MAX);
    assert_has(page, text);
    snprintf(text, sizeof text, "at most %d of", CONFIG_SOURCES_MAX);
    assert_has(page, text);
}

/* ---- libcountd.3 ------------------------------------------------------- */

/* The next name that begins with countd_ and ends before `end`, from *at on. */
static bool
next_call(const char **at, char end, char *name, size_t size)
{
    while ((*at = strstr(*at, "countd_")) != NULL) {
        const size_t length = strspn(*at, "abcdefghijklmnopqrstuvwxyz_");

        *at += length;
        if (**at != end)
            continue;
        snprintf(name, size, "%.*s", (int)length, *at - length);
        return true;
    }
    return false;
}

TEST(every_call_of_the_library_is_in_libcountd_3)
{
    static char header[PAGE_SIZE_MAX];
    char name[64], fn[96], fo[96];
    size_t calls = 0, in_page = 0;
    const char *at = header;

    read_page("common/client/lib/countd.h");
    memcpy(header, page, sizeof header);
    read_page("common/client/lib/libcountd.3");
    /* A prototype begins at a line's start or behind its type. */
    while (next_call(&at, '(', name, sizeof name)) {
        const char *line = at;

        while (line > header && line[-1] != '\n')
            line--;
        if (*line == ' ' || *line == '/')
            continue; /* a comment */
        snprintf(fn, sizeof fn, "\n.Fn %s ", name);
        snprintf(fo, sizeof fo, "\n.Fo %s\n", name);
        if (!strstr(page, fn) && !strstr(page, fo))
            print_error("%s is not in the page\n", name);
        assert_true(strstr(page, fn) || strstr(page, fo));
        calls++;
    }
    section("SYNOPSIS", header, sizeof header);
    in_page = count_items(header, ".Fn ") + count_items(header, ".Fo ");
    assert_int_equal(in_page, calls);
}

/* ---- exit codes -------------------------------------------------------- */

static void
check_exit_codes(const char *path, bool negative)
{
    const int codes[] = {CONFIG_EXIT_OK, CONFIG_EXIT_USAGE, CONFIG_EXIT_SYSTEM,
                         CONFIG_EXIT_NEGATIVE};
    const size_t count = negative ? 4 : 3;
    char text[2048], line[32], rest[128];
    const char *at = text;
    size_t items = 0;

    read_page(path);
    section("EXIT STATUS", text, sizeof text);
    for (size_t i = 0; i < count; i++) {
        snprintf(line, sizeof line, "\n.It %d\n", codes[i]);
        assert_has(text, line);
    }
    while (next_line(&at, ".It ", rest, sizeof rest))
        items++;
    assert_int_equal(items, count);
}

TEST(every_exit_code_is_in_every_page)
{
    check_exit_codes("common/client/cmd/countd.1", true);
    check_exit_codes("writer/countd-write.8", false);
    check_exit_codes("worker/countd-worker.8", false);
    check_exit_codes("reader/countd-read.8", false);
}
