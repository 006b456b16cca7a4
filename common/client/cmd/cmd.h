/* common/client/cmd/cmd.h - the `countd` command: its table of subcommands,
 * their options, and what they share.
 *
 * Each subcommand is one row: name, arguments, options, example.  The row
 * drives parsing, -h, completion in shells, and a test that holds countd.1 to
 * it.  The function
 * behind it gets a parsed line with checked settings and returns the exit
 * status; it has said on stderr what went wrong.
 *
 *     0    done                100  misuse or bad settings
 *     1    a negative answer   111  the system failed
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_CMD_H
#define COUNTD_COMMON_CLIENT_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/client/lib/countd.h"
#include "common/setup/config.h"
#include "common/wire/name.h"

#define CMD_OPTIONS_MAX 12

struct cmd_line;

struct cmd_option {
    const char *name;  /* one letter: -n; else --name */
    const char *value; /* what the help calls it; NULL: a flag */
    const char *help;  /* "drop, salvage: ...": it is for these first arguments
                          only, and refused with others */
};

struct cmd_arguments {
    const char *text; /* as in the usage line */
    int min, max;     /* how many there may be; max -1: any number */
};

struct cmd {
    const char *name;
    struct cmd_arguments arguments;
    const char *common; /* letters of the common options that it follows;
                           the others are refused, as one that is ignored
                           has a command do its work somewhere else */
    const char *summary;
    const char *example;
    struct cmd_option options[CMD_OPTIONS_MAX]; /* beside the common ones */
    int (*run)(struct cmd_line *line);
};

struct cmd_line {
    const struct cmd *cmd;
    struct config config;
    struct config_sources sources; /* as given, for daemons to be started */
    const char *host;              /* of -H; NULL */
    const char *values[CMD_OPTIONS_MAX]; /* of cmd->options; "" for a flag */
    bool raw; /* --raw: names are given and printed as they are */
    char **args;
    int arg_count;
};

/* The subcommands, ended by one without a name; and the options that stand
 * before or behind the names of those that follow them. */
extern const struct cmd cmd_table[];
extern const struct cmd_option cmd_common_options[];

/* The whole program: parses, runs, returns the exit status. */
int cmd_main(int argc, char **argv);

/* What the table says: the list of all commands, where `out` is stderr after a
 * mistake; one command.  cmd_printed() is the exit status for what has been
 * printed until now. */
void cmd_help_overview(FILE *out);
int cmd_help_print(const struct cmd *c);
int cmd_printed(void);

/* Value of an option of this subcommand, "" for a flag, NULL when it was not
 * given. */
const char *cmd_value(const struct cmd_line *line, const char *option);

/* ---- arguments --------------------------------------------------------- */

/* These say what is wrong and return CONFIG_EXIT_USAGE, or 0. */

/* Always says that `text` of the line is wrong: "TEXT: WHAT; see countd X -h".
 */
int cmd_misuse(const struct cmd_line *line, const char *text, const char *what);

/* Always says how the subcommand is used. */
int cmd_usage(const struct cmd_line *line);

struct cmd_name {
    size_t size;
    uint8_t bytes[NAME_MAX_SIZE];
};

/* A name, in its text form unless the line says --raw; `what` is "keyspace" or
 * "key". */
int cmd_name(const struct cmd_line *line, const char *text, const char *what,
             struct cmd_name *out);
int cmd_number(const char *text, const char *what, int64_t min, int64_t max,
               int64_t *out);

/* The number or duration of an option; `def` when it was not given. */
int cmd_option_number(const struct cmd_line *line, const char *option,
                      int64_t min, int64_t max, int64_t def, int64_t *out);
int cmd_option_ms(const struct cmd_line *line, const char *option, uint64_t def,
                  uint64_t *out);

/* Strictly an int64 with optional sign: 0, -EINVAL, -ERANGE. */
int cmd_parse_number(const char *text, size_t size, int64_t *out);

/* ---- the servers ------------------------------------------------------- */

/* Has all ports asked on `host`: -H.  Says what is wrong; an exit status. */
int cmd_set_host(struct config *c, const char *host);

enum cmd_peer {
    CMD_READER,
    CMD_HISTORY, /* the reader, asked about history */
    CMD_WRITER,
    CMD_WRITER_SILENT,
    CMD_COUNTER,
    CMD_SEMAPHORE,
    CMD_SEQUENCE,
    CMD_QUOTA
};

/* Where one of the daemons is asked: its socket in the data directory, but
 * where -H, or -o with the setting of the port, names another place, or where
 * no data directory is named and there is none here with sockets of this user
 * or of root. */
struct cmd_place {
    const char *directory; /* NULL: the address */
    const char *setting;   /* that says so, for messages */
    const char *word;      /* what is served there: "quota" */
    const char *daemon;
    char address[CONFIG_TEXT_SIZE + 24];
    char text[CONFIG_TEXT_SIZE + 32]; /* the address, or DIR/socket/NAME */
};

void cmd_find_place(const struct cmd_line *line, enum cmd_peer peer,
                    struct cmd_place *out);

/* Whether -d, -o or a file names the data directory. Otherwise it is the
 * default, and a directory there may belong to another server than the one that
 * answers. */
bool cmd_names_directory(const struct cmd_line *line);

/* A handle for one of the daemons, by the settings; connects at first use.
 * `buffer_size` 0: the library's.  Returns an exit status. */
int cmd_connect(const struct cmd_line *line, enum cmd_peer peer,
                size_t buffer_size, struct countd **out);

/* A handle for CMD_SEQUENCE or CMD_QUOTA. */
int cmd_http_open(const struct cmd_line *line, enum cmd_peer peer,
                  struct countd_http **out);

/* Says what an error of libcountd means here and returns the status. */
int cmd_peer_failed(const struct cmd_line *line, enum cmd_peer peer, int rc);

/* ---- subcommands ------------------------------------------------------- */

int cmd_serve(struct cmd_line *line);
int cmd_incr(struct cmd_line *line);
int cmd_load(struct cmd_line *line);
int cmd_export(struct cmd_line *line);
int cmd_top(struct cmd_line *line);
int cmd_range(struct cmd_line *line);
int cmd_around(struct cmd_line *line);
int cmd_history(struct cmd_line *line);
int cmd_get(struct cmd_line *line);
int cmd_rank(struct cmd_line *line);
int cmd_total(struct cmd_line *line);
int cmd_keyspaces(struct cmd_line *line);
int cmd_statsd(struct cmd_line *line);
int cmd_flush(struct cmd_line *line);
int cmd_held(struct cmd_line *line);
int cmd_store(struct cmd_line *line);
int cmd_drop(struct cmd_line *line);
int cmd_del(struct cmd_line *line);
int cmd_log(struct cmd_line *line);
int cmd_check(struct cmd_line *line);
int cmd_backup(struct cmd_line *line);
int cmd_replay(struct cmd_line *line);
int cmd_explain(struct cmd_line *line);
int cmd_acquire(struct cmd_line *line);
int cmd_live(struct cmd_line *line);
int cmd_seq(struct cmd_line *line);
int cmd_quota(struct cmd_line *line);
int cmd_keys(struct cmd_line *line);
int cmd_distinct(struct cmd_line *line);
int cmd_status(struct cmd_line *line);
int cmd_watch(struct cmd_line *line);
int cmd_board(struct cmd_line *line);
int cmd_completion(struct cmd_line *line);

/* `countd log salvage`, the one that changes something. */
int cmd_salvage(struct cmd_line *line, const char *file);

#endif
