/* common/client/cmd/completion.c - countd completion: what a shell must know
 * to complete command lines of countd, printed from the table of commands. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/help.h"

/* What stdout does not take is noticed at the end, by help_printed(). */

/* ---- words of a row ---------------------------------------------------- */

/* Calls `each` for the words that a command takes literally as its first
 * argument: of "[list | dump N]" list and dump. */
static void
each_word(const struct cmd *c, void (*each)(const char *word, int size))
{
    const char *at = c->arguments;

    while (*at != '\0') {
        const int size = (int)strcspn(at, " []|.");

        if (size > 0 && islower((unsigned char)at[0]))
            each(at, size);
        at += size > 0 ? size : 1;
    }
}

static void
print_word(const char *word, int size)
{
    (void)printf(" %.*s", size, word);
}

static const char *
option_dashes(const struct cmd_option *o)
{
    return o->name[1] == '\0' ? "-" : "--";
}

/* ---- the function ------------------------------------------------------- */

/* Whether the command follows this one of the common options; NULL: any may. */
static bool
is_followed(const struct cmd_option *o, const char *letters)
{
    return letters == NULL || o->value == NULL ||
           strchr(letters, o->name[0]) != NULL;
}

static void
print_options(const struct cmd_option *options, const char *letters)
{
    for (int i = 0; i < CMD_OPTIONS_MAX && options[i].name != NULL; i++)
        if (is_followed(&options[i], letters))
            (void)printf(" %s%s", option_dashes(&options[i]), options[i].name);
}

static void
print_function(void)
{
    (void)puts("_countd_words()\n"
               "{\n"
               "    local word=${COMP_WORDS[COMP_CWORD]} command= list= i\n"
               "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
               "        case ${COMP_WORDS[i]} in\n"
               "        -[fodH]) ((i++)) ;;\n"
               "        -*) ;;\n"
               "        *) command=${COMP_WORDS[i]}; break ;;\n"
               "        esac\n"
               "    done\n"
               "    case $command in");
    (void)fputs("    '') list='", stdout);
    print_options(cmd_common_options, NULL);
    for (const struct cmd *c = cmd_table; c->name != NULL; c++)
        (void)printf(" %s", c->name);
    (void)puts("' ;;");
    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        (void)printf("    %s) list='", c->name);
        print_options(c->options, NULL);
        print_options(cmd_common_options, c->common);
        each_word(c, print_word);
        (void)puts("' ;;");
    }
    (void)puts("    esac\n"
               "    COMPREPLY=($(compgen -W \"$list\" -- \"$word\"))\n"
               "}\n"
               "complete -o default -F _countd_words countd");
}

/* zsh runs the function of bash.  The file is also loaded at the first
 * completion, which its last line then answers. */
static void
print_zsh(void)
{
    (void)puts("#compdef countd\n"
               "autoload -U +X bashcompinit && bashcompinit");
    print_function();
    (void)puts("[[ ${funcstack[1]} != _countd ]] || "
               "_bash_complete -o default -F _countd_words");
}

int
cmd_completion(struct cmd_line *line)
{
    const char *shell = line->args[0];

    if (strcmp(shell, "bash") == 0)
        print_function();
    else if (strcmp(shell, "zsh") == 0)
        print_zsh();
    else
        return cmd_misuse(line, shell, "give bash or zsh");
    return help_printed();
}
