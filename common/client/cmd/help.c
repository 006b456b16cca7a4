/* common/client/cmd/help.c - see help.h. */
#include "common/client/cmd/help.h"

#include <stdio.h>
#include <string.h>

/* ---- help -------------------------------------------------------------- */

/* What stdout does not take is noticed here, once. */
int
help_printed(void)
{
    return fflush(stdout) == 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_SYSTEM;
}

/* Prints the list of commands; `out` is stderr after a usage error. */
void
help_overview(FILE *out)
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

/* The options that `letters` names; NULL: all. */
static void
print_options(const struct cmd_option *options, const char *letters)
{
    for (size_t i = 0; i < CMD_OPTIONS_MAX && options[i].name != NULL; i++) {
        const struct cmd_option *o = &options[i];
        char text[64];

        if (letters != NULL && o->value != NULL &&
            strchr(letters, o->name[0]) == NULL)
            continue;

        (void)snprintf(text, sizeof text, "%s%s%s%s",
                       o->name[1] == '\0' ? "-" : "--", o->name,
                       o->value ? " " : "", o->value ? o->value : "");
        (void)printf("  %-19s %s\n", text, o->help);
    }
}

int
help_print(const struct cmd *c)
{
    (void)printf("countd %s - %s\n\nusage: countd %s [options]%s%s\n\n",
                 c->name, c->summary, c->name, c->arguments[0] ? " " : "",
                 c->arguments);
    print_options(c->options, NULL);
    print_options(cmd_common_options, c->common);
    (void)printf("\nexample:\n  %s\n", c->example);
    return help_printed();
}
