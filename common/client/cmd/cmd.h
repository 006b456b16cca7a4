/* common/client/cmd/cmd.h - the `countd` command: its table of subcommands,
 * their options, and what they share.
 *
 * Each subcommand is one row: name, arguments, options, example.  The row
 * drives parsing, -h, completion in shells, and a test that holds countd.1 to
 * it.  The row's function gets a parsed line with checked settings, reports on
 * stderr what went wrong, and returns the exit status.
 *
 *     0    done                100  misuse or bad settings
 *     1    a negative answer   111  the system failed
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_CMD_H
#define COUNTD_COMMON_CLIENT_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/client/lib/countd.h"
#include "common/setup/config.h"
#include "common/setup/time_text.h"
#include "common/wire/frame.h"
#include "common/wire/increment_line.h"
#include "common/wire/name.h"
#include "common/wire/table_write.h"

#define CMD_OPTIONS_MAX 12
#define WORKERS_MAX     64 /* of countd serve */

struct cmd_line;

struct cmd_option {
    const char *name;  /* one letter: -n; else --name */
    const char *value; /* what the help calls it; NULL: a flag */
    const char *help;  /* "drop, salvage: ...": it is for these first arguments
                          only, and refused with others */
};

struct cmd_arguments {
    const char *text; /* arguments as in the usage line */
    int min, max;     /* how many there may be; max -1: any number */
};

struct cmd {
    const char *name;
    struct cmd_arguments arguments;
    const char *common; /* the common options that it takes, such as "fodH"
                           (CMD_ASKS of cmd_table.c); others are refused: an
                           ignored one has a command work somewhere else */
    const char *summary;
    const char *example;
    struct cmd_option options[CMD_OPTIONS_MAX]; /* beside the common ones */
    int (*run)(struct cmd_line *line);
};

struct cmd_line {
    const struct cmd *cmd;
    struct config config;
    struct config_sources sources; /* as given, for daemons to be started */
    const char *host;              /* host given by -H; or NULL */
    const char *values[CMD_OPTIONS_MAX]; /* of cmd->options; "" for a flag */
    bool raw; /* --raw: names are given and printed as they are */
    bool wants_help;
    const struct cmd_verb *verb; /* the one that cmd_run_verb() runs */
    char **args;
    int arg_count;
    int *status; /* of the arguments that were looked at; 0: they are good */
};

/* The subcommands, ended by one without a name; and the options that stand
 * before or behind the names of those that follow them. */
extern const struct cmd cmd_table[];
extern const struct cmd_option cmd_common_options[];

/* The whole program: parses, runs, returns the exit status. */
int cmd_main(int argc, char **argv);

/* What the table says: the list of all commands, where `out` is stderr after a
 * mistake; and one command. */
void cmd_help_overview(FILE *out);
void cmd_help_print(const struct cmd *c);

/* Value of an option of this subcommand, "" for a flag, NULL when it was not
 * given, or the subcommand has none of that name. */
const char *cmd_value(const struct cmd_line *line, const char *option);

/* What a command does by its first argument. */
struct cmd_verb {
    const char *word; /* "": there is none */
    int min, max;     /* arguments with the word; max -1: any number */
    int (*run)(struct cmd_line *line);
};

/* Runs the verb that the line has, or says which there are. */
int cmd_run_verb(struct cmd_line *line, const struct cmd_verb *verbs,
                 size_t count);

/* The text form of a name, a path or other bytes from outside, CMD_TEXT_MAX of
 * them at most, for a message; valid until the next call. */
#define CMD_TEXT_MAX 1024
const char *cmd_text(const void *bytes, size_t size);

/* Reports an error.  Returns `status`. */
int cmd_fail(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reports an error with what the errno means.  Returns CONFIG_EXIT_SYSTEM. */
int cmd_failed(int rc, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The exit status after two steps of which one may have failed. */
static inline int
cmd_worse(int a, int b)
{
    return a > b ? a : b;
}

/* ---- arguments --------------------------------------------------------- */

/* These say what is wrong and return CONFIG_EXIT_USAGE, or 0. */

/* Always says that `text` of the line is wrong: "TEXT: WHAT; see countd X -h".
 */
int cmd_misuse(const struct cmd_line *line, const char *text, const char *what);

/* Prints the usage to stderr.  Returns CONFIG_EXIT_USAGE. */
int cmd_usage(const struct cmd_line *line);

/* The calls below return what an argument says.  The first that is wrong is
 * reported, and line->status is CONFIG_EXIT_USAGE from then on: what opens a
 * connection or the directory looks at that and returns it. */

/* A name, in its text form unless the line says --raw; `what` is "keyspace" or
 * "key". */
struct increment_name cmd_name(const struct cmd_line *line, const char *text,
                               const char *what);

int64_t cmd_number(const struct cmd_line *line, const char *text,
                   const char *what, int64_t min, int64_t max);

/* The number or duration of an option; `def` when it was not given. */
int64_t cmd_option_number(const struct cmd_line *line, const char *option,
                          int64_t min, int64_t max, int64_t def);
uint64_t cmd_option_ms(const struct cmd_line *line, const char *option,
                       uint64_t def);

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

/* Where one of the daemons is asked, the first of these that applies:
 *   - the place of -H, or of -o with the setting of the port;
 *   - its socket in the data directory, if one is named or the default one has
 *     sockets of this user or of root;
 *   - the address of its port in the settings. */
struct cmd_place {
    const char *directory, *address; /* one is NULL */
    const char *setting;             /* its name, for messages */
    const char *word;                /* the service there: "quota" */
    const char *daemon;
    char text[CONFIG_TEXT_SIZE + 32]; /* the address, or DIR/socket/NAME */
};

void cmd_find_place(const struct cmd_line *line, enum cmd_peer peer,
                    struct cmd_place *out);

/* Whether -d, -o or a file names the data directory. Otherwise it is the
 * default, and a directory there may belong to a server other than the one that
 * answers. */
bool cmd_names_directory(const struct cmd_line *line);

/* A handle for one of the daemons, by the settings; connects at first use.
 * Returns an exit status. */
int cmd_connect(const struct cmd_line *line, enum cmd_peer peer,
                struct countd **out);

/* A handle for CMD_SEQUENCE or CMD_QUOTA. */
int cmd_http_open(const struct cmd_line *line, enum cmd_peer peer,
                  struct countd_http **out);

/* Says what an error of libcountd means here and returns the status. */
int cmd_peer_failed(const struct cmd_line *line, enum cmd_peer peer, int rc);

/* ---- output ------------------------------------------------------------ */

/* What subcommands print: rows and facts, as a table for people, as JSON, or
 * as tab-separated columns.
 *
 *     people  aligned columns under a heading; facts only where the caller
 *             prints them itself
 *     JSON    one document: {"fact": ..., "rows": [{...}, ...], "fact": ...}
 *     TSV     the rows, no heading
 *
 * Names are as they are in JSON, and elsewhere in the text form of
 * common/wire/name.h, so that they can be typed back in, or as --raw says.
 *
 * Ownership: struct output is the caller's between init and fini; one at a time.
 * Cells are only looked at during the call. */

enum output_format { OUTPUT_PEOPLE, OUTPUT_JSON, OUTPUT_TSV };

/* One row: the longest live name has 65,535 bytes, and a byte takes six in JSON
 * ("\u0001"). */
#define OUTPUT_BUFFER (6 * 65535 + 4096)

struct output {
    enum output_format format;
    const struct table_column *columns;
    size_t column_count;
    int widths[TABLE_COLUMNS_MAX];
    size_t page_size, row_count; /* of people's rows that are not out yet */
    bool headed;                 /* the heading is out */
    bool raw;                    /* names as they are */
    bool has_begun;              /* the table, which is of JSON and TSV: */
    struct table_writer table;
    char buffer[OUTPUT_BUFFER];
};

/* An array of columns, and how many. */
#define OUTPUT_COLUMNS(columns) columns, sizeof(columns) / sizeof(columns)[0]

/* The format is what --json or --tsv of the line says.  `columns` may be NULL
 * (facts only). */
void output_init(struct output *o, const struct cmd_line *line,
                 const struct table_column *columns, size_t column_count);

/* A member of the JSON document, before or after the rows. */
void output_fact(struct output *o, const char *key, struct cell value);

/* The same for a count of anything. */
void output_count(struct output *o, const char *key, uint64_t count);

/* Prints a part of a sentence, where the format is not JSON, whose facts say
 * the same. */
void output_text(struct output *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One cell per column. */
void output_row(struct output *o, const struct cell *cells);

/* Other rows, behind output_rows_end(): a table of its own, in JSON a list of
 * this name. */
void output_next_rows(struct output *o, const char *key,
                      const struct table_column *columns, size_t column_count);

/* Ends the rows, before facts or other rows (JSON shows an empty list when there
 * were none). */
void output_rows_end(struct output *o);

/* How fresh the rows are: a fact, or for people "as of 0.4 s ago". */
void output_as_of(struct output *o, int64_t as_of_ms);

/* Ends the document, and its rows where nothing is behind them, and flushes
 * stdout.  cmd_main() reports an error of stdout, for all commands. */
void output_fini(struct output *o);

/* The ending of a noun: "1 increment", "2 increments". */
const char *output_plural(uint64_t count);

/* "3.2 s", "5 min", "2 h", "3 d": an age for people. */
void output_age(int64_t ms, char text[32]);

/* ---- time text --------------------------------------------------------- */

/* Times as people type them.
 *
 *     now   -2h   2026-11-20   2026-11-20T14:30   2026-11-20T14:30:05   Unix
 *     seconds
 *
 * A date is its first moment; local time, or UTC. */

/* The time that an option of the line gives, `def` when it is not there, as
 * cmd_option_ms(); dates are UTC with --utc. */
uint64_t cmd_time_option(const struct cmd_line *line, const char *option,
                         uint64_t now_ms, uint64_t def);

/* The time of an event, in Unix seconds; 0: the option is not there. */
int64_t cmd_event_time(const struct cmd_line *line, const char *option);

/* "2026-11-20T14:30:05", with a Z behind it in UTC. */
#define TIME_TEXT_SIZE 40
void cmd_time_format(uint64_t ms, bool utc, char text[TIME_TEXT_SIZE]);

/* ---- live peer --------------------------------------------------------- */

/* What the subcommands for live resources share: their names, and the port
 * that the settings and --semaphore name. */

#define LIVE_NAME_MAX FRAME_NAME_MAX
/* Size of a name in text form, with NUL. */
#define LIVE_TEXT_SIZE (4 * (size_t)LIVE_NAME_MAX + 1)

struct cmd_live_name {
    size_t size;
    uint8_t bytes[LIVE_NAME_MAX]; /* any, NUL too */
};

bool cmd_is_semaphore(const struct cmd_line *line);
enum cmd_peer cmd_live_peer(const struct cmd_line *line);

/* A name in its text form, as cmd_name(). */
struct cmd_live_name cmd_live_name(const struct cmd_line *line,
                                   const char *text);

/* Connects now.  Says what went wrong and returns an exit status. */
int cmd_live_open(const struct cmd_line *line, struct countd_live **out);

/* ---- subcommands ------------------------------------------------------- */

int cmd_serve(struct cmd_line *line);
int cmd_incr(struct cmd_line *line);
int cmd_load(struct cmd_line *line);
int cmd_export(struct cmd_line *line);
int cmd_ask(struct cmd_line *line); /* all that only ask countd-read */
int cmd_flush(struct cmd_line *line);
int cmd_held(struct cmd_line *line);
int cmd_drop(struct cmd_line *line);
int cmd_del(struct cmd_line *line);
int cmd_log(struct cmd_line *line);
int cmd_store(struct cmd_line *line);
int cmd_check(struct cmd_line *line);
int cmd_backup(struct cmd_line *line);
int cmd_replay(struct cmd_line *line);
int cmd_explain(struct cmd_line *line);
int cmd_acquire(struct cmd_line *line);
int cmd_live(struct cmd_line *line);
int cmd_seq(struct cmd_line *line);
int cmd_quota(struct cmd_line *line);
int cmd_status(struct cmd_line *line);
int cmd_watch(struct cmd_line *line);
int cmd_board(struct cmd_line *line);
int cmd_completion(struct cmd_line *line);

/* `countd log salvage`, the one that changes something. */
int cmd_salvage(struct cmd_line *line, const char *file);

#endif
