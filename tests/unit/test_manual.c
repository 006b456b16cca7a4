/* tests/unit/test_manual.c - the man pages say what the code does, and nothing
 * else: settings, flags, defaults, limits, ops and exit codes, both ways. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/client/cmd/cmd_terminal.h"
#include "common/net/http.h"
#include "common/setup/config.h"
#include "common/setup/ports.h"
#include "common/wire/frame.h"
#include "common/wire/query.h"
#include "reader/listeners.h"
#include "reader/resp/resp_internal.h"
#include "tests/lib/daemon.h"
#include "tests/lib/file.h"
#include "writer/listeners.h"
#include "writer/live/live_server.h"

#define COUNTD_1 "common/client/cmd/countd.1"
#define COUNTD_5 "common/setup/countd.5"
#define COUNTD_7 "common/setup/countd.7"
#define HTTP_7   "common/net/countd-http.7"
#define LIVE_7   "writer/countd-live.7"
#define RAW_7    "common/wire/countd-raw.7"
#define RESP_7   "reader/countd-resp.7"
#define WRITE_8  "writer/countd-write.8"
#define WORKER_8 "worker/countd-worker.8"
#define READ_8   "reader/countd-read.8"
#define LIVE     "COUNTERS AND SEMAPHORES" /* a section of LIVE_7 */
#define FORMAT   "data/FORMAT.md"
#define HACKING  "common/HACKING.md"

#define MANUAL_SIZE_MAX (128 << 10)
#define COUNT(table)    (sizeof(table) / sizeof(table)[0])

static char page[MANUAL_SIZE_MAX];

/* Tests run in the project's folder. */
static void
read_page(const char *path)
{
    (void)file_read(path, page, sizeof page);
}

/* The next line of the page that starts with `start`, from *at on: copies
 * what follows `start` and moves *at behind the line. */
static bool
next_line(const char **at, const char *start, char rest[256])
{
    while (**at != '\0') {
        const char *line = *at;
        const size_t length = strcspn(line, "\n"), size = strlen(start);

        *at += length + (line[length] == '\n');
        if (strncmp(line, start, size) != 0)
            continue;
        assert_true(length < 256);
        snprintf(rest, 256, "%.*s", (int)(length - size), line + size);
        return true;
    }
    return false;
}

static size_t
count_lines(const char *text, const char *start)
{
    char rest[256];
    size_t count = 0;

    while (next_line(&text, start, rest))
        count++;
    return count;
}

/* A copy of the part of `in` from `start` up to `end` or the end of it; valid
 * until the fourth call after this one. */
static char *
find_part(const char *in, const char *start, const char *end)
{
    static char parts[4][MANUAL_SIZE_MAX];
    static unsigned calls;
    char *part = parts[calls++ % 4];
    const char *from = strstr(in, start), *to;

    if (from == NULL)
        fail_msg("there is no \"%s\"", start);
    to = strstr(from + strlen(start), end);
    snprintf(part, MANUAL_SIZE_MAX, "%.*s",
             (int)(to ? (size_t)(to - from) : strlen(from)), from);
    return part;
}

static char *
find_section(const char *title)
{
    char heading[64];

    snprintf(heading, sizeof heading, "\n.Sh %s\n", title);
    return find_part(page, heading, "\n.Sh ");
}

static void assert_page_has(const char *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
assert_page_has(const char *text, const char *format, ...)
{
    char wanted[256];
    va_list args;

    va_start(args, format);
    vsnprintf(wanted, sizeof wanted, format, args);
    va_end(args);
    if (strstr(text, wanted) == NULL)
        fail_msg("\"%s\" is not in:\n%s", wanted, text);
}

/* ---- limits ------------------------------------------------------------ */

/* What a page says of a number in the code. */
static const struct {
    const char *page, *section; /* NULL: anywhere */
    const char *before;
    unsigned long number;
    const char *after;
} limits[] = {
    {RAW_7, "RANGES", "\n ", QUERY_SIZE, "         end\n"},
    {RAW_7, "RANGES", "\n  ", QUERY_REPLY_SIZE, "   size  rows"},
    {RAW_7, "RANGES", "above ", QUERY_ROWS_MAX, " is cut to "},
    {RAW_7, "RANGES", " is cut to ", QUERY_ROWS_MAX, ";"},
    {RAW_7, "INCREMENTS", "\n ", 520, "         end\n"},
    {LIVE_7, LIVE, "\n  ", FRAME_HEADER, "         body\n"},
    {LIVE_7, LIVE, "1 to ", FRAME_NAME_MAX, " bytes"},
    {LIVE_7, LIVE, "above ", FRAME_BODY_MAX, " bytes closes"},
    {COUNTD_5, NULL, "at most ", LISTENERS_MOST, ";"},
    {WRITE_8, NULL, "at most ", LISTENERS_MOST, " each"},
    {WRITE_8, NULL, "; ", LISTENERS_FILES, " descriptors are for"},
    {WRITE_8, NULL, "has been idle for ", PORTS_YIELD_S, " seconds"},
    {WRITE_8, NULL, "One in ", 2ul * LISTENERS, " of these, at most "},
    {WRITE_8, NULL, "at most ", LISTENERS_RESERVED, ", are kept for each port"},
    {WRITE_8, NULL, "gets ", CONN_TURN_US, " microseconds"},
    {WRITE_8, NULL, "at most ", CONN_SLICE, " bytes of a connection"},
    {WRITE_8, NULL, "no byte for ", CONN_STALL_MS / 1000, " seconds"},
    {WRITE_8, NULL, "has ", LISTENERS_POOL >> 20, " MiB of memory"},
    {WRITE_8, NULL, "at most ", LIVE_SWEEP_STEP, " in a turn"},
    {WRITE_8, "DESCRIPTION", "at most ", CONFIG_SOURCES_MAX, " of"},
    {WORKER_8, "DESCRIPTION", "at most ", CONFIG_SOURCES_MAX, " of"},
    {READ_8, "DESCRIPTION", "at most ", CONFIG_SOURCES_MAX, " of"},
    {READ_8, NULL, "have ", READER_POOL >> 20, " MiB of memory"},
    {FORMAT, NULL, "\n", QUERY_SIZE, " bytes: `offset int64"},
    {FORMAT, NULL, "\n", STATUS_SLOTS + STATUS_LOGS, " slots of "},
    {FORMAT, NULL, " slots of ", STATUS_LOG_VALUES, " shared integers"},
    {FORMAT, NULL, "one cell of ", STATUS_CELL_VALUES, ". Slots 0 to "},
    {HACKING, NULL, "at most ", STATUS_CELL_VALUES - STATUS_CELL_FIGURES,
     " figures"},
    {COUNTD_1, NULL, "1 to ", WORKERS_MAX, "; default 1."},
    {COUNTD_1, NULL, "A line has at most ", LINES_SIZE_MAX, " bytes."},
    {COUNTD_1, NULL, "More than ", QUERY_ROWS_MAX, " rows"},
    {COUNTD_1, NULL, "at most ", CONFIG_SOURCES_MAX, " of"},
};

TEST(limits_are_in_the_pages)
{
    for (size_t i = 0; i < COUNT(limits); i++) {
        read_page(limits[i].page);
        assert_page_has(
            limits[i].section ? find_section(limits[i].section) : page,
            "%s%lu%s", limits[i].before, limits[i].number, limits[i].after);
    }
}

/* ---- countd.5 ---------------------------------------------------------- */

static size_t setting_count;

static void
check_setting(void *ctx, const char *key, const char *type, const char *def,
              const char *help)
{
    char start[128];

    (void)ctx;  /* needs none */
    (void)help; /* the page says it at more length */
    setting_count++;
    snprintf(start, sizeof start, ".It Va %s No =%s%s\n", key,
             def[0] != '\0' ? " " : "", def);
    assert_page_has(find_part(page, start, "\n.It "), "\n%c%s.",
                    type[0] - 'a' + 'A', type + 1);
}

TEST(every_setting_its_default_and_its_limits_are_in_countd_5)
{
    char rest[256];
    const char *at = page;
    size_t items = 0;

    read_page(COUNTD_5);
    setting_count = 0;
    config_each(check_setting, NULL);

    while (next_line(&at, ".It Va ", rest))
        items += strstr(rest, " No =") != NULL;
    assert_int_equal(items, setting_count);
}

static bool
has_word(const char *text, const char *word)
{
    const size_t size = strlen(word);

    while ((text = strstr(text, word)) != NULL) {
        if (isspace((unsigned char)text[-1]) &&
            isspace((unsigned char)text[size]))
            return true;
        text += size;
    }
    return false;
}

/* A daemon's ready lines begin with the names; a socket may have no port. */
TEST(every_port_and_its_socket_are_in_the_pages)
{
    static struct config c;
    char text[PORTS_TEXT_SIZE];
    size_t sockets = 1; /* that of StatsD's datagrams */

    config_defaults(&c);
    for (int i = 0; i < PORTS; i++) {
        const struct listener_config row =
            ports_listener(&c, (enum port)i, text);
        const bool reads = i >= PORT_READ && i <= PORT_READ_HTTP;

        read_page(reads ? READ_8 : WRITE_8);
        if (!has_word(find_part(page, ".It Fl -ready-fd", ".El"), row.name))
            fail_msg("--ready-fd has no %s", row.name);
        read_page(COUNTD_5);
        sockets += row.socket != NULL;
        if (row.socket)
            assert_page_has(page, "\n.It Pa socket/%s Ta Va %s\n", row.socket,
                            row.listen_key);
    }
    assert_int_equal(count_lines(page, ".It Pa socket/"), sockets);
}

TEST(every_redis_command_is_in_the_table_of_countd_resp_7)
{
    char *rows, *at;

    read_page(RESP_7);
    rows = find_part(find_section("COMMANDS"), "\n.Bl -column", "\n.El");
    for (at = rows; *at != '\0'; at++)
        *at = (char)(isupper((unsigned char)*at) ? tolower(*at) : *at);
    for (const struct resp_command *c = resp_commands; c->name; c++) {
        const size_t size = strlen(c->name);

        if (strchr(c->name, '|')) /* a subcommand */
            continue;
        for (at = rows; (at = strstr(at, c->name)); at++)
            if (at[-1] == ' ' && !islower((unsigned char)at[size]))
                break;
        if (!at)
            fail_msg("%s is not in the table", c->name);
    }
}

TEST(every_opcode_and_status_of_live_requests_is_in_countd_live_7)
{
    static const char *const opcodes[] = {
        [FRAME_NOOP] = "Noop",       [FRAME_GET] = "Get",
        [FRAME_ACQUIRE] = "Acquire", [FRAME_RELEASE] = "Release",
        [FRAME_STATS] = "Stats",     [FRAME_DUMP] = "Dump",
        [FRAME_WHO] = "Who",
    };
    const char *text;
    char rest[256];
    size_t count = 0, items = 0;

    read_page(LIVE_7);
    text = find_section(LIVE);
    assert_page_has(text, "magic: %x hex in a request, %x hex in",
                    FRAME_REQUEST, FRAME_ANSWER);
    for (size_t i = 0; i < COUNT(opcodes); i++) {
        if (opcodes[i] == NULL)
            continue;
        assert_page_has(text, "\n.It %02zx Cm %s\n", i, opcodes[i]);
        count++;
    }
    for (unsigned status = 1; status < 256; status++) {
        const char *error = frame_text((enum frame_status)status);

        if (error[0] == '\0')
            continue;
        assert_page_has(text, "\n.It %02x Ql %s\n", status, error);
        count++;
    }
    while (next_line(&text, ".It ", rest))
        items += rest[0] >= '0' && rest[0] <= '9';
    assert_int_equal(items, count);
}

/* The names in an answer to Stats are in the page, in their order, and no
 * others. */
static void
check_stats(const char *text, enum live_kind kind)
{
    struct budget budget = {.max = UINT64_C(64) << 20};
    const struct live_options options = {.kind = kind,
                                         .holders = 1,
                                         .places = 16,
                                         .window_s = 10,
                                         .budget = &budget};
    static uint8_t out[LIVE_PROTOCOL_OUT_SIZE];
    struct loop *loop = loop_new();
    struct live_server c;
    const struct listener listener = {.open = 0};
    size_t at = 0, size, commas = 0, count = 0;

    assert_non_null(loop);
    assert_rc(live_server_init(&c, loop, &options), 0);
    c.listener = &listener;
    size = live_server_put_stats(&c, out);
    text = strstr(text, "The statistics are");
    assert_non_null(text);
    for (const char *p = text; *p != '\0'; p++)
        commas += strncmp(p, " , ", 3) == 0;
    while (at + 4 <= size) {
        const size_t name_size = get_be16(out + at);
        char name[64];

        assert_true(name_size > 0 && name_size < sizeof name);
        snprintf(name, sizeof name, " %.*s", (int)name_size,
                 (const char *)out + at + 4);
        text = strstr(text, name);
        if (text == NULL)
            fail_msg("%s is missing, or not in its place", name);
        at += 4 + name_size + get_be16(out + at + 2);
        count++;
    }
    /* Seven items, each of one more than its commas. */
    if (kind == LIVE_COUNTER)
        assert_int_equal(count, commas + 7);
    live_server_fini(&c);
    loop_free(loop);
}

TEST(every_statistic_is_in_countd_live_7)
{
    read_page(LIVE_7);
    check_stats(find_section(LIVE), LIVE_COUNTER);
    check_stats(find_section(LIVE), LIVE_SEMAPHORE);
}

/* ---- flags ------------------------------------------------------------- */

/* The words of a line of mdoc, `flag` at first: "h , -help" and "f Ar FILE" as
 * "-h, --help" and "-f FILE"; or of a usage line: "[FILE]..." and
 * "Op Ar FILE ..." both as "FILE". */
static void
plain_words(const char *macro, bool flag, char *text, size_t size)
{
    static const char *const macros[] = {"Op", "Oo", "Oc", "Cm", "Ar"};
    char copy[256];
    char *save, *word;
    size_t length = 0, i;

    text[0] = '\0';
    snprintf(copy, sizeof copy, "%s", macro);
    for (word = strtok_r(copy, " []|.", &save); word != NULL;
         word = strtok_r(NULL, " []|.", &save)) {
        for (i = 0; i < COUNT(macros) && strcmp(word, macros[i]) != 0;)
            i++;
        flag = flag && strcmp(word, "Ar") != 0;
        if (i < COUNT(macros))
            continue;
        length += (size_t)snprintf(text + length, size - length, "%s%s%s",
                                   length > 0 && word[0] != ',' ? " " : "",
                                   flag && word[0] != ',' ? "-" : "", word);
    }
}

/* What a daemon prints for -h. */
static void
read_help(const char *daemon, char text[MANUAL_SIZE_MAX])
{
    assert_int_equal(daemon_run(text, MANUAL_SIZE_MAX, daemon, "-h"), 0);
}

TEST(every_flag_of_the_daemons_is_in_their_pages)
{
    static const struct {
        const char *page, *daemon;
    } daemons[] = {{WRITE_8, "countd-write"},
                   {WORKER_8, "countd-worker"},
                   {READ_8, "countd-read"}};
    static char help[MANUAL_SIZE_MAX];
    char rest[256], flag[256];

    for (size_t i = 0; i < COUNT(daemons); i++) {
        const char *text, *at;

        read_help(daemons[i].daemon, help);
        read_page(daemons[i].page);
        text = at = find_section("DESCRIPTION");
        while (next_line(&at, ".It Fl ", rest)) {
            char *value = strstr(rest, " Ns Op = Ns Cm ");

            if (value) /* a value that may follow */
                *value = '\0';
            plain_words(rest, true, flag, sizeof flag);
            if (value)
                assert_page_has(help, "\n  %s[=%s] ", flag, value + 15);
            else
                assert_page_has(help, "\n  %s ", flag);
        }
        assert_int_equal(count_lines(text, ".It Fl "),
                         count_lines(help, "  -"));
    }
}

/* ---- countd.1 ---------------------------------------------------------- */

/* True when the item lists the option, alone or with another. */
static bool
lists_option(const char *text, const struct cmd_option *o)
{
    char wanted[64], rest[256], flags[256];
    const char *at = text;

    snprintf(wanted, sizeof wanted, "%s%s%s%s", o->name[1] ? "--" : "-",
             o->name, o->value ? " " : "", o->value ? o->value : "");
    while (next_line(&at, ".It Fl ", rest)) {
        char *save, *flag;

        plain_words(rest, true, flags, sizeof flags);
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

    while (next_line(&at, ".It Fl ", rest)) {
        count++;
        for (const char *comma = rest; (comma = strchr(comma, ',')); comma++)
            count++;
    }
    return count;
}

static void
check_subcommand(const char *all, const struct cmd *c)
{
    char start[64], usage[256], wanted[256], got[256];
    const char *text, *at;
    size_t options = 0;

    snprintf(start, sizeof start, "\n.It Cm %s", c->name);
    text = at = find_part(all, start, "\n.It Cm ");
    assert_true(next_line(&at, ".It Cm ", usage));
    plain_words(usage + strlen(c->name), false, got, sizeof got);
    plain_words(c->arguments.text, false, wanted, sizeof wanted);
    assert_string_equal(got, wanted);

    for (; options < CMD_OPTIONS_MAX && c->options[options].name; options++) {
        const struct cmd_option *o = &c->options[options];
        const char *def = strstr(o->help, "default ");

        if (!lists_option(text, o))
            fail_msg("%s: option %s is not in the page", c->name, o->name);
        if (def != NULL)
            assert_page_has(text, "%s", def);
    }
    assert_int_equal(count_options(text), options);
}

TEST(every_subcommand_and_its_options_are_in_countd_1)
{
    size_t commands = 0;
    const char *text;

    read_page(COUNTD_1);
    text = find_part(page, "\n.Sh SUBCOMMANDS\n", "\n.Ss Output");
    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        check_subcommand(text, c);
        text = find_part(page, "\n.Sh SUBCOMMANDS\n", "\n.Ss Output");
        commands++;
    }
    assert_int_equal(count_lines(text, ".It Cm "), commands);
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
    static char header[MANUAL_SIZE_MAX];
    char name[64], fn[96], fo[96];
    const char *at = header, *text;
    size_t calls = 0;

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
            fail_msg("%s is not in the page", name);
        calls++;
    }
    text = find_section("SYNOPSIS");
    assert_int_equal(count_lines(text, ".Fn ") + count_lines(text, ".Fo "),
                     calls);
}

/* ---- exit codes -------------------------------------------------------- */

TEST(every_exit_code_is_in_every_page)
{
    static const char *const pages[] = {COUNTD_1, WRITE_8, WORKER_8, READ_8};
    static const int codes[] = {CONFIG_EXIT_OK, CONFIG_EXIT_USAGE,
                                CONFIG_EXIT_SYSTEM, CONFIG_EXIT_NEGATIVE};

    for (size_t i = 0; i < COUNT(pages); i++) {
        const size_t count = i == 0 ? 4 : 3; /* a daemon has no answer */
        const char *text;

        read_page(pages[i]);
        text = find_section("EXIT STATUS");
        for (size_t k = 0; k < count; k++)
            assert_page_has(text, "\n.It %d\n", codes[k]);
        assert_int_equal(count_lines(text, ".It "), count);
    }
}

/* In a line of countd-http(7) or countd(7) that begins an item or a row; what
 * one path of quotas answers is where that path is. */
TEST(every_error_of_http_is_in_a_table)
{
    static char header[MANUAL_SIZE_MAX];
    const char *at = header, *item;
    char name[256], rest[256];
    unsigned errors = 0, number;
    bool found;

    (void)file_read("common/net/http.h", header, sizeof header);
    while (next_line(&at, "    HTTP_", name)) {
        if (sscanf(name, "%*[A-Z_] = %u", &number) != 1 || number < 400 ||
            number == HTTP_CONFLICT || number == HTTP_NO_SPACE)
            continue;
        snprintf(name, sizeof name, "%u", number);
        found = false;
        for (int i = 0; i < 2; i++) {
            read_page(i == 0 ? HTTP_7 : COUNTD_7);
            for (item = page; !found && next_line(&item, ".It ", rest);)
                found = strstr(rest, name) != NULL;
        }
        if (!found)
            fail_msg("%u is in no table", number);
        errors++;
    }
    assert_int_equal(errors, 19);
}

/* What a stranger reads first stays what can be read at once. */
TEST(the_readme_has_150_lines_and_1400_words_at_most)
{
    size_t lines = 0, words = 0;

    read_page("README.md");
    for (const char *at = page; *at != '\0'; at++) {
        lines += *at == '\n';
        words += !isspace((unsigned char)*at) &&
                 (at == page || isspace((unsigned char)at[-1]));
    }
    assert_in_range(lines, 1, 150);
    assert_in_range(words, 1, 1400);
}
