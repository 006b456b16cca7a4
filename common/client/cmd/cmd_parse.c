/* common/client/cmd/cmd_parse.c - see cmd.h: cmd_main() parses argv and
 * runs the command; names, numbers and durations of a command line. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/event_time.h"
#include "common/wire/increment_line.h"
#include "common/wire/likeness.h"

#define SHOWN_SIZE 64 /* bytes of a bad argument that an error shows */
#define YEAR_MOST  9999
#define DAY_MS     ((uint64_t)24 * 3600 * 1000)

/* ---- parsing ----------------------------------------------------------- */

/* An option as it stands on the command line. */
struct given {
    const char *text; /* the whole argument */
    char name[32];
    const char *value; /* behind = or the letter; NULL: perhaps the next */
    bool is_long;
};

/* False for arguments, negative numbers among them. */
static bool
is_option(const char *text)
{
    return text[0] == '-' && text[1] != '\0' &&
           !(text[1] >= '0' && text[1] <= '9');
}

static void
split_option(const char *text, struct given *g)
{
    const char *equals = strchr(text, '=');

    *g = (struct given){.text = text, .is_long = text[1] == '-'};
    if (g->is_long) {
        (void)snprintf(g->name, sizeof g->name, "%.*s",
                       (int)strcspn(text + 2, "="), text + 2);
        g->value = equals ? equals + 1 : NULL;
    } else {
        g->name[0] = text[1];
        g->value = text[2] != '\0' ? text + 2 : NULL;
    }
}

/* The option in a list, or NULL. */
static const struct cmd_option *
find_option(const struct cmd_option *options, const struct given *g)
{
    for (int i = 0; i < CMD_OPTIONS_MAX && options[i].name != NULL; i++)
        if (g->is_long == (options[i].name[1] != '\0') &&
            strcmp(options[i].name, g->name) == 0)
            return &options[i];
    return NULL;
}

int
cmd_misuse(const struct cmd_line *line, const char *text, const char *what)
{
    const char *shown = cmd_text(text, strnlen(text, SHOWN_SIZE));

    return cmd_fail(CONFIG_EXIT_USAGE, "%s: %s; see countd%s%s -h",
                    text[0] != '\0' ? shown : "\"\"", what,
                    line->cmd ? " " : "", line->cmd ? line->cmd->name : "");
}

int
cmd_usage(const struct cmd_line *line)
{
    const struct cmd *c = line->cmd;

    return cmd_fail(
        CONFIG_EXIT_USAGE, "usage: countd %s [options]%s%s; see countd %s -h",
        c->name, c->arguments.text[0] ? " " : "", c->arguments.text, c->name);
}

/* The same with what was meant. */
static int
misuse_like(const struct cmd_line *line, const char *text, const char *what,
            const struct likeness *meant)
{
    char hint[LIKENESS_HINT_SIZE], why[192];

    (void)snprintf(why, sizeof why, "%s%s", what, likeness_hint(meant, hint));
    return cmd_misuse(line, text, why);
}

static int
unknown_option(const struct cmd_line *line, const struct given *g)
{
    struct likeness meant = likeness_of(g->name);
    char dashed[LIKENESS_WORD_MAX];

    if (!line->cmd)
        return cmd_misuse(line, g->text,
                          "no such option before a subcommand; its own "
                          "options stand behind it");
    for (int i = 0; i < CMD_OPTIONS_MAX && line->cmd->options[i].name; i++)
        likeness_try(&meant, line->cmd->options[i].name);
    if (meant.word) {
        (void)snprintf(dashed, sizeof dashed, "--%s", meant.word);
        meant.word = dashed;
    }
    return misuse_like(line, g->text, "no such option", &meant);
}

/* Takes an option; argv[*at] is the next argument, and passed if it is the
 * value.  Returns 0 or an exit status. */
static int
take_option(struct cmd_line *line, const char *text, int argc, char **argv,
            int *at)
{
    const struct cmd_option *own, *option;
    struct given g;

    split_option(text, &g);
    own = line->cmd ? find_option(line->cmd->options, &g) : NULL;
    option = own ? own : find_option(cmd_common_options, &g);
    if (option == NULL)
        return unknown_option(line, &g);

    if (option->value == NULL && g.value != NULL)
        return cmd_misuse(line, g.text, "this option takes no value");
    if (option->value != NULL && g.value == NULL) {
        if (*at == argc)
            return cmd_misuse(line, g.text, "this option needs a value");
        g.value = argv[(*at)++];
    }
    if (own)
        line->values[own - line->cmd->options] = g.value ? g.value : "";
    else if (g.name[0] == 'H')
        line->host = g.value;
    else
        return config_source_add(&line->sources, g.name[0], g.value);
    return 0;
}

static int
find_command(struct cmd_line *line, const char *text)
{
    struct likeness meant = likeness_of(text);

    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        if (strcmp(c->name, text) == 0) {
            line->cmd = c;
            return 0;
        }
        likeness_try(&meant, c->name);
    }
    return misuse_like(line, text, "no such subcommand", &meant);
}

/* -h and --help, and help in the place of a subcommand. */
static bool
is_help(const struct cmd_line *line, const char *text, bool options)
{
    return (options && strcmp(text, "-h") == 0) ||
           (options && strcmp(text, "--help") == 0) ||
           (line->cmd == NULL && strcmp(text, "help") == 0);
}

/* Reads argv into `line`; arguments are moved to the front of argv.  Returns
 * 0 or an exit status. */
static int
parse_line(struct cmd_line *line, int argc, char **argv)
{
    bool options = true;
    int at = 1, status = 0;

    line->args = argv;
    while (at < argc && status == 0 && !line->wants_help) {
        char *text = argv[at++];

        if (options && strcmp(text, "--") == 0)
            options = false;
        else if (is_help(line, text, options))
            line->wants_help = true;
        else if (options && is_option(text))
            status = take_option(line, text, argc, argv, &at);
        else if (line->cmd != NULL)
            line->args[line->arg_count++] = text;
        else
            status = find_command(line, text);
    }
    /* It may stand before what it is about. */
    if (line->wants_help && line->cmd == NULL && at < argc &&
        !is_option(argv[at]))
        status = find_command(line, argv[at]);
    return status;
}

/* Bytes of the words that begin the help of an option, and that it is for; 0:
 * it is for all. */
static size_t
words_size(const struct cmd_option *o)
{
    const size_t size = strspn(o->help, "abcdefghijklmnopqrstuvwxyz, ");

    return o->help[size] == ':' ? size : 0;
}

static bool
is_for(const struct cmd_option *o, const char *word)
{
    const char *const end = o->help + words_size(o);

    for (const char *at = o->help; at < end;) {
        const size_t size = strcspn(at, ",:");

        if (size == strlen(word) && memcmp(at, word, size) == 0)
            return true;
        at += size + 2;
    }
    return end == o->help;
}

static bool
is_given(const struct cmd_line *line, char letter)
{
    const struct config_sources *s = &line->sources;

    return letter == 'f'   ? s->file != NULL
           : letter == 'H' ? line->host != NULL
                           : memchr(s->letters, letter, s->count) != NULL;
}

static int
refuse_common(const struct cmd_line *line, char letter)
{
    const char name[] = {'-', letter, '\0'};

    if (strchr(line->cmd->common, letter) != NULL)
        return 0;
    return cmd_misuse(line, name,
                      letter == 'H' && line->cmd->common[0] != '\0'
                          ? "this command works in the data directory of this "
                            "machine, and asks no other host"
                          : "this command has no use for this option");
}

/* Refuses what the command cannot follow. */
static int
check_options(const struct cmd_line *line)
{
    const struct cmd_option *o = line->cmd->options;
    const char *word = line->arg_count > 0 ? line->args[0] : "";
    char what[160];
    int rc = 0;

    for (const char *letter = "fodH"; rc == 0 && *letter != '\0'; letter++)
        if (is_given(line, *letter))
            rc = refuse_common(line, *letter);
    if (rc == 0 && is_given(line, 'd') && is_given(line, 'H'))
        rc = cmd_misuse(line, "-d -H",
                        "each names a place to ask, give one of them");
    if (rc == 0 && cmd_value(line, "json") && cmd_value(line, "tsv"))
        rc = cmd_misuse(line, "--json --tsv", "give one of them");
    for (int i = 0; rc == 0 && i < CMD_OPTIONS_MAX && o[i].name; i++) {
        if (!line->values[i] || is_for(&o[i], word))
            continue;
        (void)snprintf(what, sizeof what, "this option is for: %.*s",
                       (int)words_size(&o[i]), o[i].help);
        rc = cmd_misuse(line, o[i].name, what);
    }
    return rc;
}

/* Whether there are `min` to `max` arguments; max -1: any number. */
static bool
has_count(const struct cmd_line *line, int min, int max)
{
    return line->arg_count >= min && (max < 0 || line->arg_count <= max);
}

/* Does what the line asks for; an exit status. */
static int
run_line(int argc, char **argv)
{
    int run_status = 0, status;
    struct cmd_line line = {.status = &run_status};
    char why[CONFIG_WHY_SIZE];

    if (argc == 2 &&
        (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0)) {
        (void)printf("countd %s\n", COUNTD_VERSION);
        return CONFIG_EXIT_OK;
    }
    status = parse_line(&line, argc, argv);
    if (status != 0)
        return status;
    if (line.wants_help) {
        if (line.cmd != NULL)
            cmd_help_print(line.cmd);
        else
            cmd_help_overview(stdout);
        return CONFIG_EXIT_OK;
    }
    if (line.cmd == NULL) {
        cmd_help_overview(stderr);
        return CONFIG_EXIT_USAGE;
    }
    status = check_options(&line);
    if (status != 0)
        return status;
    if (!has_count(&line, line.cmd->arguments.min, line.cmd->arguments.max))
        return cmd_usage(&line);
    line.raw = cmd_value(&line, "raw") != NULL;
    if (config_load(&line.config, &line.sources, why) < 0)
        return cmd_fail(CONFIG_EXIT_USAGE, "%s", why);
    status = line.host ? cmd_set_host(&line.config, line.host) : 0;
    return status != 0 ? status : line.cmd->run(&line);
}

int
cmd_main(int argc, char **argv)
{
    int status;

    diag_init("countd", DIAG_INFO);
    status = run_line(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    return cmd_worse(status,
                     cmd_fail(CONFIG_EXIT_SYSTEM, "stdout cannot be written"));
}

const char *
cmd_value(const struct cmd_line *line, const char *option)
{
    const struct cmd_option *options = line->cmd->options;

    for (int i = 0; i < CMD_OPTIONS_MAX && options[i].name; i++)
        if (strcmp(options[i].name, option) == 0)
            return line->values[i];
    return NULL;
}

/* ---- values ------------------------------------------------------------ */

struct increment_name
cmd_name(const struct cmd_line *line, const char *text, const char *what)
{
    const struct increment_form form = {.raw = line->raw, .control = true};
    struct increment_name name = {.size = 0};
    const struct increment_fault *fault = NULL;

    if (*line->status == 0)
        fault = increment_name_read(&form, text, strlen(text), NAME_MAX_SIZE,
                                    &name);
    if (fault)
        *line->status =
            cmd_fail(CONFIG_EXIT_USAGE, "%s: %s", what, fault->text);
    return name;
}

struct cmd_live_name
cmd_live_name(const struct cmd_line *line, const char *text)
{
    struct cmd_live_name name = {.size = 0};
    int size;

    if (*line->status != 0)
        return name;
    size = name_unescape_any(text, strlen(text), name.bytes, LIVE_NAME_MAX);
    if (size > 0)
        name.size = (size_t)size;
    else
        *line->status =
            cmd_fail(CONFIG_EXIT_USAGE, "name: %s",
                     size == -EINVAL ? "a bad escape; write a backslash as "
                                       "\\\\, a byte as \\xHH"
                                     : "empty, or longer than 65535 bytes");
    return name;
}

int
cmd_run_verb(struct cmd_line *line, const struct cmd_verb *verbs, size_t count)
{
    const char *word = line->arg_count > 0 ? line->args[0] : "";
    struct likeness meant = likeness_of(word);
    char what[128];

    for (line->verb = verbs; line->verb < verbs + count; line->verb++) {
        if (strcmp(word, line->verb->word) == 0)
            return has_count(line, line->verb->min, line->verb->max)
                       ? line->verb->run(line)
                       : cmd_usage(line);
        likeness_try(&meant, line->verb->word);
    }
    (void)snprintf(what, sizeof what, "give %s", line->cmd->arguments.text);
    return word[0] == '\0' ? cmd_usage(line)
                           : misuse_like(line, word, what, &meant);
}

int64_t
cmd_number(const struct cmd_line *line, const char *text, const char *what,
           int64_t min, int64_t max)
{
    int64_t number = min;

    if (*line->status != 0 ||
        (increment_number_parse(text, strlen(text), &number) == 0 &&
         number >= min && number <= max))
        return number;
    *line->status =
        cmd_fail(CONFIG_EXIT_USAGE,
                 "%s: \"%s\" is wrong; give a number, %" PRId64 " to %" PRId64,
                 what, cmd_text(text, strnlen(text, SHOWN_SIZE)), min, max);
    return min;
}

int64_t
cmd_option_number(const struct cmd_line *line, const char *option, int64_t min,
                  int64_t max, int64_t def)
{
    const char *text = cmd_value(line, option);
    char what[32];

    (void)snprintf(what, sizeof what, "%s%s", option[1] == '\0' ? "-" : "--",
                   option);
    return text ? cmd_number(line, text, what, min, max) : def;
}

uint64_t
cmd_option_ms(const struct cmd_line *line, const char *option, uint64_t def)
{
    const char *text = cmd_value(line, option);
    uint64_t ms = def;

    if (text != NULL && *line->status == 0 &&
        (config_duration(text, &ms) < 0 || ms > DAY_MS))
        *line->status = cmd_misuse(line, text,
                                   "give a duration of at most 1d, such as 10 "
                                   "(seconds), 500ms or 2m");
    return ms;
}

uint64_t
cmd_time_option(const struct cmd_line *line, const char *option,
                uint64_t now_ms, uint64_t def)
{
    const char *text = cmd_value(line, option);
    uint64_t ms = def;

    if (text != NULL && *line->status == 0 &&
        time_text_parse(text, now_ms, cmd_value(line, "utc") != NULL, &ms) < 0)
        *line->status = cmd_misuse(
            line, text,
            "give a time: 2026-11-20, 2026-11-20T14:30, -2h, now, or Unix "
            "seconds");
    return ms;
}

int64_t
cmd_event_time(const struct cmd_line *line, const char *option)
{
    const uint64_t now_ms = clock_unix_ms();
    const int64_t at =
        (int64_t)(cmd_time_option(line, option, now_ms, 0) / 1000);

    if (cmd_value(line, option) == NULL || *line->status != 0)
        return 0;
    if (at < EVENT_TIME_MIN || at > (int64_t)(now_ms / 1000) + EVENT_TIME_AHEAD)
        *line->status =
            cmd_misuse(line, cmd_value(line, option),
                       "a time from 1970-01-01T00:01 to a day ahead "
                       "of now");
    return at;
}

void
cmd_time_format(uint64_t ms, bool utc, char text[TIME_TEXT_SIZE])
{
    const time_t t = (time_t)(ms / 1000);
    struct tm day;

    if ((utc ? gmtime_r(&t, &day) : localtime_r(&t, &day)) == NULL ||
        day.tm_year + 1900 > YEAR_MOST) {
        (void)snprintf(text, TIME_TEXT_SIZE, "%llu ms", (unsigned long long)ms);
        return;
    }
    /* Fits: the year has four digits. */
    (void)strftime(text, TIME_TEXT_SIZE,
                   utc ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%dT%H:%M:%S", &day);
}
