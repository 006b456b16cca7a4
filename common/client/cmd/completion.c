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
dashes(const struct cmd_option *o)
{
    return o->name[1] == '\0' ? "-" : "--";
}

/* ---- bash -------------------------------------------------------------- */

/* Whether the command follows this one of the common options; NULL: any may. */
static bool
is_followed(const struct cmd_option *o, const char *letters)
{
    return letters == NULL || o->value == NULL ||
           strchr(letters, o->name[0]) != NULL;
}

static void
bash_options(const struct cmd_option *options, const char *letters)
{
    for (int i = 0; i < CMD_OPTIONS_MAX && options[i].name != NULL; i++)
        if (is_followed(&options[i], letters))
            (void)printf(" %s%s", dashes(&options[i]), options[i].name);
}

static void
print_bash(void)
{
    (void)puts("# Completion of countd(1) for bash; printed by\n"
               "# `countd completion bash`.\n"
               "_countd()\n"
               "{\n"
               "    local word=${COMP_WORDS[COMP_CWORD]} command= words= i\n"
               "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
               "        case ${COMP_WORDS[i]} in\n"
               "        -[fodH]) ((i++)) ;;\n"
               "        -*) ;;\n"
               "        *) command=${COMP_WORDS[i]}; break ;;\n"
               "        esac\n"
               "    done\n"
               "    case $command in");
    (void)fputs("    '') words='", stdout);
    bash_options(cmd_common_options, NULL);
    for (const struct cmd *c = cmd_table; c->name != NULL; c++)
        (void)printf(" %s", c->name);
    (void)puts("' ;;");
    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        (void)printf("    %s) words='", c->name);
        bash_options(c->options, NULL);
        bash_options(cmd_common_options, c->common);
        each_word(c, print_word);
        (void)puts("' ;;");
    }
    (void)puts("    esac\n"
               "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
               "}\n"
               "complete -o default -F _countd countd");
}

/* ---- zsh --------------------------------------------------------------- */

/* Between single quotes, and for _arguments without its own signs. */
static void
zsh_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("[]:\\", *text) != NULL)
            (void)putchar('\\');
        if (*text == '\'')
            (void)fputs("'\\'", stdout);
        (void)putchar(*text);
    }
}

static void
zsh_options(const struct cmd_option *options, const char *letters)
{
    for (int i = 0; i < CMD_OPTIONS_MAX && options[i].name != NULL; i++) {
        const struct cmd_option *o = &options[i];

        if (!is_followed(o, letters))
            continue;

        (void)printf(" '%s%s[", dashes(o), o->name);
        zsh_text(o->help);
        (void)putchar(']');
        if (o->value != NULL)
            (void)printf(":%s:%s", o->value,
                         strcmp(o->value, "DIR") == 0    ? "_files -/"
                         : strcmp(o->value, "FILE") == 0 ? "_files"
                                                         : " ");
        (void)putchar('\'');
    }
}

static void
print_zsh(void)
{
    (void)puts("#compdef countd\n"
               "# Completion of countd(1) for zsh; printed by\n"
               "# `countd completion zsh`.\n"
               "_countd()\n"
               "{\n"
               "    local state line\n"
               "    local -a commands\n"
               "    commands=(");
    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        (void)printf("        '%s:", c->name);
        zsh_text(c->summary);
        (void)puts("'");
    }
    (void)fputs("    )\n    _arguments -C", stdout);
    zsh_options(cmd_common_options, NULL);
    (void)puts(" '1: :->command' '*:: :->rest'\n"
               "    if [[ $state == command ]]; then\n"
               "        _describe command commands\n"
               "        return\n"
               "    fi\n"
               "    case $words[1] in");
    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        (void)printf("    %s) _arguments", c->name);
        zsh_options(c->options, NULL);
        zsh_options(cmd_common_options, c->common);
        (void)fputs(" '*:argument:_alternative \"words:word:(", stdout);
        each_word(c, print_word);
        (void)puts(")\" \"files:file:_files\"' ;;");
    }
    (void)puts("    esac\n"
               "}\n"
               "if [[ $funcstack[1] == _countd ]]; then\n"
               "    _countd \"$@\"\n"
               "else\n"
               "    compdef _countd countd\n"
               "fi");
}

int
cmd_completion(struct cmd_line *line)
{
    if (strcmp(line->args[0], "bash") == 0) {
        print_bash();
        return help_printed();
    }
    if (strcmp(line->args[0], "zsh") == 0) {
        print_zsh();
        return help_printed();
    }
    return cmd_misuse(line, line->args[0], "give bash or zsh");
}
