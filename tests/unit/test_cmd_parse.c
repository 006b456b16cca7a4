/* tests/unit/test_cmd_parse.c - options of every command of countd: one that a
 * command cannot follow is refused before anything is done. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/client/cmd/cmd.h"
#include "tests/lib/capture.h"

#define ARGS_MAX 24

/* Commands that ask the daemons, and so can follow -H. */
static const char *const asking[] = {
    "incr",    "load",  "export",    "top",     "range", "around",
    "history", "get",   "rank",      "total",   "flush", "live",
    "seq",     "quota", "keyspaces", "acquire", "keys",  "distinct"};
/* Commands that read no settings. */
static const char *const without_settings[] = {"board", "completion"};

#define HAS(list, word) list_has(list, sizeof list / sizeof list[0], word)

static bool
list_has(const char *const *list, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], word) == 0)
            return true;
    return false;
}

/* Runs a command with `words` behind its name, as many arguments as it needs,
 * and, where it can take it, a setting that does not exist: so that it never
 * gets to work.  Its status; its messages are in `said`. */
static int
run_command(const struct cmd *c, const char *const *words, const char *first,
            struct capture *said)
{
    char *args[ARGS_MAX] = {(char *)(uintptr_t) "countd",
                            (char *)(uintptr_t)c->name};
    int count = 2, status;

    for (; *words != NULL; words++)
        args[count++] = (char *)(uintptr_t)*words;
    for (int i = 0;
         i < (c->arguments.min > 0 ? c->arguments.min
                                   : c->arguments.max != 0 && *first);
         i++)
        args[count++] = (char *)(uintptr_t)(i == 0 && *first ? first : "1");
    if (c->common[0] != '\0') {
        args[count++] = (char *)(uintptr_t) "-o";
        args[count++] = (char *)(uintptr_t) "no.such=1";
    }
    args[count] = NULL;
    capture_start(said);
    status = cmd_main(count, args);
    (void)capture_stop(said);
    return status;
}

static bool
is_refused(const char *text)
{
    return strstr(text, "asks no other host") != NULL ||
           strstr(text, "has no use for this option") != NULL ||
           strstr(text, "this option is for: ") != NULL;
}

static void
expect_refusal(const struct cmd *c, const struct capture *said, int status,
               const char *option, bool refused)
{
    if (is_refused(said->text) != refused ||
        (refused && status != CONFIG_EXIT_USAGE))
        fail_msg("countd %s -%s: status %d: %s", c->name, option, status,
                 said->text);
}

TEST(a_common_option_is_refused_by_commands_that_cannot_follow_it)
{
    static const struct {
        const char *letter, *value;
    } common[] = {{"f", "/dev/null"},
                  {"o", "log.count=4"},
                  {"d", "/nowhere"},
                  {"H", "otherhost"}};
    struct capture said;
    char option[4];

    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) {
            const char *words[] = {option, common[i].value, NULL};
            const bool refused = common[i].letter[0] == 'H'
                                     ? !HAS(asking, c->name)
                                     : HAS(without_settings, c->name);
            int status;

            snprintf(option, sizeof option, "-%s", common[i].letter);
            if (!refused && c->common[0] == '\0')
                continue;
            status = run_command(c, words, "", &said);
            expect_refusal(c, &said, status, common[i].letter, refused);
        }
    }
}

/* The words that stand before the colon of an option's help. */
static size_t
get_words(const struct cmd_option *o, char words[][32])
{
    const size_t size = strcspn(o->help, ":");
    size_t count = 0;

    if (o->help[size] == '\0' ||
        strspn(o->help, "abcdefghijklmnopqrstuvwxyz, ") < size)
        return 0;
    for (const char *at = o->help; at < o->help + size; at += 2) {
        const size_t length = strcspn(at, ",:");

        snprintf(words[count++], 32, "%.*s", (int)length, at);
        at += length;
    }
    return count;
}

static void
check_option(const struct cmd *c, const struct cmd_option *o)
{
    const char *given[] = {NULL, o->value ? "1" : NULL, NULL};
    char words[16][32], option[40];
    const size_t count = get_words(o, words);
    struct capture said;
    int status;

    snprintf(option, sizeof option, "%s%s", o->name[1] ? "--" : "-", o->name);
    given[0] = option;
    if (c->common[0] != '\0') {
        status = run_command(c, given, count > 0 ? words[0] : "", &said);
        expect_refusal(c, &said, status, o->name, false);
    }
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        assert_has(c->arguments.text, words[i]);
    status = run_command(c, given, "other", &said);
    expect_refusal(c, &said, status, o->name, true);
}

TEST(an_option_for_some_arguments_is_refused_with_others)
{
    for (const struct cmd *c = cmd_table; c->name != NULL; c++)
        for (int i = 0; i < CMD_OPTIONS_MAX && c->options[i].name; i++)
            check_option(c, &c->options[i]);
}

TEST(a_directory_and_a_host_are_two_places)
{
    static const char *const both[] = {"-d", "/nowhere", "-H", "otherhost",
                                       NULL};
    struct capture said;

    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        if (!HAS(asking, c->name))
            continue;
        assert_int_equal(run_command(c, both, "", &said), CONFIG_EXIT_USAGE);
        assert_has(said.text, "-d -H: each names a place to ask");
    }
}
