/* common/client/cmd/cmd_help.c - see cmd.h: what the table of commands says to
 * people and to shells: cmd_help_overview(), cmd_help_print(), and countd
 * completion. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "common/client/cmd/cmd.h"

/* Whether the command follows this one of the common options; NULL: any may. */
static bool
is_followed(const struct cmd_option *o, const char *letters)
{
    return letters == NULL || o->value == NULL ||
           strchr(letters, o->name[0]) != NULL;
}

static const char *
option_dashes(const struct cmd_option *o)
{
    return o->name[1] == '\0' ? "-" : "--";
}

void
cmd_help_overview(FILE *out)
{
    (void)fprintf(out,
                  "countd %s - a log-structured store of counters\n\n"
                  "usage: countd [-f FILE] [-o KEY=VALUE]... [-d DIR] "
                  "[-H HOST] SUBCOMMAND ...\n\n",
                  COUNTD_VERSION);
    for (const struct cmd *c = cmd_table; c->name != NULL; c++)
        (void)fprintf(out, "  %-10s %s\n", c->name, c->summary);
    (void)fputs("\ncountd SUBCOMMAND -h says more; countd(1) says all.\n", out);
}

static void
print_options(const struct cmd_option *options, const char *letters)
{
    for (size_t i = 0; i < CMD_OPTIONS_MAX && options[i].name != NULL; i++) {
        const struct cmd_option *o = &options[i];
        char text[64];

        if (!is_followed(o, letters))
            continue;
        (void)snprintf(text, sizeof text, "%s%s%s%s", option_dashes(o), o->name,
                       o->value ? " " : "", o->value ? o->value : "");
        (void)printf("  %-19s %s\n", text, o->help);
    }
}

void
cmd_help_print(const struct cmd *c)
{
    (void)printf("countd %s - %s\n\nusage: countd %s [options]%s%s\n\n",
                 c->name, c->summary, c->name, c->arguments.text[0] ? " " : "",
                 c->arguments.text);
    print_options(c->options, NULL);
    print_options(cmd_common_options, c->common);
    (void)printf("\nexample:\n  %s\n", c->example);
}

/* ---- completion --------------------------------------------------------- */

/* A setting, with which its value begins. */
static void
print_key(void *ctx, const char *key, const char *type, const char *def,
          const char *help)
{
    (void)ctx;
    (void)type;
    (void)def;
    (void)help;
    (void)printf(" %s=", key);
}

/* The words of a command are those of its help; words are added with the blank
 * behind them, as a setting has none; compgen -W would execute what a name
 * contains. */
static const char before_settings[] =
    "_countd_words()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} command= list i at=0 "
    "names=0 name\n"
    "    local countd=${COMP_WORDS[0]/#\\~/$HOME}\n"
    "    local -a where\n"
    "    where=()\n"
    "    [[ $countd == */* && -x $countd ]] || countd=countd\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "        -[fodH]) where+=(\"${COMP_WORDS[i]}\" "
    "\"${COMP_WORDS[i + 1]}\"); ((++i)) ;;\n"
    "        =) where[${#where[@]} - 1]+==${COMP_WORDS[i + 1]}; ((++i)) "
    ";;\n"
    "        -*) ;;\n"
    "        *) [[ $command ]] && ((++at)) || command=${COMP_WORDS[i]} ;;\n"
    "        esac\n"
    "    done\n"
    "    list=$(\"$countd\" ${command:+\"$command\"} -h 2>/dev/null |\n"
    "        sed -n '/^example:/q; s/^  \\([-a-z][^ ]*\\) .*/\\1/p; "
    "s/^usage: countd [a-z]* .options. *//p')\n"
    "    [[ $command ]] || list+=' help -f -o -d -H -h'\n"
    "    case $list in\n"
    "    *KEYSPACE...* | *KEYSPACE]...*) names=9999 ;;\n"
    "    KEYSPACE*) names=1 ;;\n"
    "    esac\n"
    "    list=${list//[][|.]/ }\n"
    "    [[ ${COMP_WORDS[COMP_CWORD - 1]} != -o ]] || names=0 list='";
static const char behind_settings[] =
    "'\n"
    "    COMPREPLY=()\n"
    "    for name in $(printf '%s' \"$list\"); do\n"
    "        [[ $name == \"$word\"* && $name == [-a-z]* ]] || continue\n"
    "        [[ $name == *= ]] || name+=' '\n"
    "        COMPREPLY+=(\"$name\")\n"
    "    done\n"
    "    if ((at < names)) && [[ $word != -* ]]; then\n"
    "        while IFS= read -r name; do\n"
    "            [[ $name != \"$word\"* ]] ||\n"
    "                COMPREPLY+=(\"$(printf %q \"$name\") \")\n"
    "        done < <(\"$countd\" ${where[@]+\"${where[@]}\"} "
    "keyspaces --tsv 2>/dev/null | cut -f 4)\n"
    "    fi\n"
    "    ((${#COMPREPLY[@]})) || compopt +o nospace 2>/dev/null || :\n"
    "}\n"
    "complete -o default -o nospace -F _countd_words countd";

/* zsh runs the function of bash.  The file is also loaded at the first
 * completion, which its last line then answers. */
int
cmd_completion(struct cmd_line *line)
{
    const char *shell = line->args[0];
    const bool is_zsh = strcmp(shell, "zsh") == 0;

    if (!is_zsh && strcmp(shell, "bash") != 0)
        return cmd_misuse(line, shell, "give bash or zsh");
    if (is_zsh)
        (void)puts("#compdef countd\n"
                   "autoload -U +X bashcompinit && bashcompinit");
    (void)fputs(before_settings, stdout);
    config_each(print_key, NULL);
    (void)puts(behind_settings);
    if (is_zsh)
        (void)puts("[[ ${funcstack[1]} != _countd ]] || "
                   "_bash_complete -o default -o nospace -F _countd_words");
    return CONFIG_EXIT_OK;
}
