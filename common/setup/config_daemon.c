/* common/setup/config_daemon.c - the command line of a daemon, and its
 * ready line: config_daemon(), config_report_serving(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/config_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/base/version.h"
#include "common/net/keeper.h"
#include "common/wire/increment_line.h"
#include "common/wire/likeness.h"

int
config_source_add(struct config_sources *s, int letter, const char *text)
{
    if (letter == 'f') {
        s->file = text;
        return 0;
    }
    assert(letter == 'o' || letter == 'd' || letter == 'u');
    if (s->count == CONFIG_SOURCES_MAX) {
        diag(DIAG_ERROR, "more than %d -o, -d and -u; put them into a file",
             CONFIG_SOURCES_MAX);
        return CONFIG_EXIT_USAGE;
    }
    s->letters[s->count] = (char)letter;
    s->texts[s->count++] = text;
    return 0;
}

static int
set_override(struct config *c, const char *text, char why[CONFIG_WHY_SIZE])
{
    const char *equals = strchr(text, '=');
    char shown[NAME_SHOWN_SIZE];

    if (equals == NULL)
        return config_fail(why, -EINVAL, "-o %s: give -o KEY=VALUE",
                           name_show(text, strlen(text), shown));
    return config_set_named(c, text, (size_t)(equals - text), equals + 1, why);
}

const char *
config_find(const char *fallback)
{
    const char *file = getenv("COUNTD_CONF");

    if (file != NULL)
        return file[0] != '\0' ? file : NULL;
    return access(fallback, R_OK) == 0 ? fallback : NULL;
}

/* Root acts as the owner of a data directory that is there: files that root
 * made in it would be out of reach for its daemons. */
static void
adopt_owner(struct config *c)
{
    struct stat st;

    if (c->user[0] == '\0' && geteuid() == 0 && stat(c->data_dir, &st) == 0 &&
        st.st_uid != 0)
        (void)snprintf(c->user, sizeof c->user, "%lu",
                       (unsigned long)st.st_uid);
}

int
config_load(struct config *c, const struct config_sources *s,
            char why[CONFIG_WHY_SIZE])
{
    const char *file = s->file != NULL ? s->file : config_find(CONFIG_FILE);
    int rc = 0;

    config_defaults(c);
    if (s->state_dir != NULL)
        rc = config_set(c, "data_dir", s->state_dir, why);
    if (rc == 0 && file != NULL)
        rc = config_file(c, file, why);
    for (size_t i = 0; rc == 0 && i < s->count; i++) {
        if (s->letters[i] == 'd')
            rc = config_set(c, "data_dir", s->texts[i], why);
        else if (s->letters[i] == 'u')
            rc = config_set(c, "user", s->texts[i], why);
        else
            rc = set_override(c, s->texts[i], why);
    }
    if (rc == 0)
        adopt_owner(c);
    return rc;
}

static void
print_setting(void *ctx, const char *key, const char *type, const char *def,
              const char *help)
{
    FILE *out = ctx;

    /* Errors of stdout are ignored: only help is lost. */
    (void)fprintf(out, "  %-25s %s\n%28s%s; default %s\n", key, help, "", type,
                  def[0] != '\0' ? def : "empty");
}

/* Whether it has --once. */
static bool
can_end(const char *program)
{
    return strcmp(program, "countd-worker") == 0;
}

static int
print_help(const char *program, const char *summary)
{
    (void)printf("%s - %s\n\n"
                 "usage: %s [-f FILE] [-o KEY=VALUE]... [-d DIR] [-u USER]"
                 " [-t] [--ready-fd N]%s\n\n"
                 "  -f FILE          read settings from FILE, not from "
                 "$COUNTD_CONF\n"
                 "                   or " CONFIG_FILE "\n"
                 "  -o KEY=VALUE     override one setting\n"
                 "  -d DIR           the same as -o data_dir=DIR\n"
                 "  -u, --user USER  the same as -o user=USER\n"
                 "  -t               check the settings and exit\n"
                 "  -h, --help       this text\n"
                 "  -V, --version    the version\n"
                 "  --ready-fd N     write name=address:port lines and an "
                 "empty one to\n"
                 "                   descriptor N when serving\n%s\n"
                 "Settings (key = value lines, # comments):\n",
                 program, summary, program,
                 can_end(program) ? " [--once[=placed]]" : "",
                 can_end(program)
                     ? "  --once[=placed]  merge until nothing can be merged, "
                       "then exit; or\n"
                       "                   only what a command placed\n"
                     : ""); /* as in print_setting */
    config_each(print_setting, stdout);
    return fflush(stdout) == 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_SYSTEM;
}

int
config_ready_fd(const char *text, int *fd)
{
    int64_t value;

    if (increment_number_parse(text, strlen(text), &value) < 0 || value < 0 ||
        value > 1 << 20 || fcntl((int)value, F_SETFD, FD_CLOEXEC) < 0) {
        diag(DIAG_ERROR, "--ready-fd %s: give the number of an open descriptor",
             text);
        return CONFIG_EXIT_USAGE;
    }
    *fd = (int)value;
    return 0;
}

static const struct option long_options[] = {
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {"user", required_argument, NULL, 'u'},
    {"ready-fd", required_argument, NULL, 'r'},
    {"once", optional_argument, NULL, '1'},
    {NULL, 0, NULL, 0},
};

/* Adds the option that a word was meant to be, if it is like one. */
static const char *
hint_option(const char *text, char hint[LIKENESS_HINT_SIZE])
{
    struct likeness meant = likeness_of(text + strlen("--"));
    char dashed[LIKENESS_WORD_MAX];

    for (const struct option *o = long_options; o->name != NULL; o++)
        likeness_try(&meant, o->name);
    if (meant.word) {
        (void)snprintf(dashed, sizeof dashed, "--%s", meant.word);
        meant.word = dashed;
    }
    return likeness_hint(&meant, hint);
}

/* Says what is wrong with the option getopt_long() stopped at. */
static int
bad_option(int option, char **argv)
{
    const char *what = option == ':' ? "needs a value" : "no such option";
    const char *text = argv[optind - 1];
    char hint[LIKENESS_HINT_SIZE];

    /* A letter is in optopt; of a long option only the word is known. */
    if (optopt > 0 && strncmp(text, "--", 2) != 0)
        diag(DIAG_ERROR, "-%c: %s; see -h", optopt, what);
    else if (option == '?' && optopt == 0)
        diag(DIAG_ERROR, "%s: %s%s; see -h", text, what,
             hint_option(text, hint));
    else
        diag(DIAG_ERROR, "%s: %s; see -h", text, what);
    return CONFIG_EXIT_USAGE;
}

/* Takes one option; returns as config_daemon(). */
static int
take_option(int option, struct config_sources *sources,
            struct config_command *command, char **argv)
{
    int status;

    switch (option) {
    case 'f':
    case 'o':
    case 'd':
    case 'u':
        status = config_source_add(sources, option, optarg);
        return status != 0 ? status : CONFIG_EXIT_NONE;
    case 't':
        command->test = true;
        return CONFIG_EXIT_NONE;
    case 'h':
        return print_help(command->program, command->summary);
    case 'V':
        (void)printf("%s %s\n", command->program, VERSION);
        return fflush(stdout) == 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_SYSTEM;
    case 'r':
        status = config_ready_fd(optarg, &command->ready_fd);
        return status != 0 ? status : CONFIG_EXIT_NONE;
    case '1':
        command->once = can_end(command->program);
        command->placed = optarg && strcmp(optarg, "placed") == 0;
        if (optarg && !command->placed)
            return bad_option(option, argv);
        return command->once ? CONFIG_EXIT_NONE : bad_option(option, argv);
    default:
        return bad_option(option, argv);
    }
}

int
config_daemon(struct config *c, struct config_command *command, int argc,
              char **argv)
{
    /* systemd sets it for the units, which have StateDirectory=. */
    struct config_sources sources = {.state_dir = getenv("STATE_DIRECTORY")};
    char why[CONFIG_WHY_SIZE];
    int option;

    diag_init(command->program, DIAG_INFO);
    *command = (struct config_command){.program = command->program,
                                       .summary = command->summary,
                                       .ready_fd = -1};
    optind = 0; /* start over: tests parse more than one line */
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+:f:o:d:u:thV", long_options,
                                 NULL)) != -1) {
        const int status = take_option(option, &sources, command, argv);

        if (status >= 0)
            return status;
    }
    if (optind < argc) {
        diag(DIAG_ERROR, "%s: no argument was expected; see -h", argv[optind]);
        return CONFIG_EXIT_USAGE;
    }
    if (config_load(c, &sources, why) < 0 || config_check(c, why) < 0) {
        diag(DIAG_ERROR, "%s", why);
        return CONFIG_EXIT_USAGE;
    }
    if (!command->test)
        return CONFIG_EXIT_NONE;
    return config_test(c);
}

void
config_ready(int ready_fd, const char *const *lines, size_t count)
{
    keeper_end();
    keeper_ready();
    if (ready_fd < 0)
        return;
    /* If the supervisor has closed the pipe, the daemon serves nevertheless. */
    for (size_t i = 0; i < count; i++)
        (void)dprintf(ready_fd, "%s\n", lines[i]);
    (void)dprintf(ready_fd, "\n");
    (void)close(ready_fd); /* a pipe: nothing is lost */
}

void
config_report_serving(const char *const *lines, size_t count)
{
    char text[1024] = "";

    for (size_t i = 0; i < count; i++) {
        const size_t size = strlen(text);

        (void)snprintf(text + size, sizeof text - size, " %s", lines[i]);
    }
    diag(DIAG_INFO, "serving%s", text);
}
