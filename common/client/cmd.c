/* common/client/cmd.c - see cmd.h. */
#include "common/client/cmd.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/net/net.h"

#define SHOWN_SIZE 64 /* bytes of a bad argument that an error shows */

#define OUTPUT_OPTIONS                                                         \
    {"json", NULL, "print JSON"},                                              \
    {                                                                          \
        "tsv", NULL, "print tab-separated columns without a heading"           \
    }

static const struct cmd_option common_options[] = {
    {"f", "FILE", "read settings from FILE"},
    {"o", "KEY=VALUE", "override one setting"},
    {"d", "DIR", "the same as -o data_dir=DIR"},
    {"h", NULL, "help"},
    {NULL, NULL, NULL},
};

const struct cmd cmd_table[] = {
    {"serve",
     "",
     0,
     0,
     "run the three daemons in the foreground",
     "countd serve -d /var/lib/countd",
     {{"workers", "N", "number of countd-worker, 1 to 64; default 1"},
      {"u", "USER", "the same as -o user=USER"},
      {"ready-fd", "N", "write name=address:port lines to descriptor N"},
      {"t", NULL, "check the settings and exit"}},
     cmd_serve},
    {"incr",
     "KEYSPACE KEY [N]",
     2,
     3,
     "add N (or 1) to a counter, durable when it returns",
     "countd incr pages /index.html 3",
     {{"timeout", "DURATION", "wait at most so long; default 10s"}},
     cmd_incr},
    {"load",
     "[FILE]...",
     0,
     -1,
     "add lines of KEYSPACE TAB KEY TAB INCREMENT, from files or stdin",
     "countd load data/sample.tsv.gz",
     {{"silent", NULL, "use the silent port: faster, not acknowledged"},
      {"strict", NULL, "stop at the first bad line"},
      {"timeout", "DURATION",
       "give up after so long without progress; "
       "default 60s"},
      {"json", NULL, "print the totals as JSON"}},
     cmd_load},
    {"top",
     "KEYSPACE",
     1,
     1,
     "the largest counts of a keyspace",
     "countd top words -n 10",
     {{"n", "N", "number of rows; default 20"}, OUTPUT_OPTIONS},
     cmd_top},
    {"range",
     "KEYSPACE OFFSET LENGTH",
     3,
     3,
     "rows in order of count; a negative OFFSET counts from the end",
     "countd range words -10 10",
     {OUTPUT_OPTIONS},
     cmd_range},
    {"get",
     "KEYSPACE KEY",
     2,
     2,
     "the count of one key",
     "countd get words the",
     {OUTPUT_OPTIONS},
     cmd_get},
    {"rank",
     "KEYSPACE KEY",
     2,
     2,
     "the position of one key in order of count, from 0",
     "countd rank words the",
     {OUTPUT_OPTIONS},
     cmd_rank},
    {"total",
     "KEYSPACE",
     1,
     1,
     "the sum of a keyspace",
     "countd total words",
     {OUTPUT_OPTIONS},
     cmd_total},
    {"keyspaces",
     "",
     0,
     0,
     "all keyspaces and their number of keys",
     "countd keyspaces --tsv",
     {OUTPUT_OPTIONS},
     cmd_keyspaces},
    {"flush",
     "",
     0,
     0,
     "hand the log on now and wait until it is merged",
     "countd incr pages /about && countd flush && countd get pages /about",
     {{"timeout", "DURATION", "wait at most so long; default 30s"}},
     cmd_flush},
    {"held",
     "[drop KEYSPACE... | salvage FILE]",
     0,
     -1,
     "what waits for a keyspace that cannot take it, and why",
     "countd held || echo not everything is merged",
     {OUTPUT_OPTIONS,
      {"dry-run", NULL, "salvage: only say what would be merged"},
      {"timeout", "DURATION",
       "drop, salvage: wait at most so long; default 30s"}},
     cmd_held},
    {"drop",
     "KEYSPACE...",
     1,
     -1,
     "empty keyspaces of all that was acknowledged until now",
     "countd drop words",
     {{"n", NULL, "only say what would go"},
      {"dry-run", NULL, "the same"},
      {"timeout", "DURATION", "wait at most so long; default 30s"}},
     cmd_drop},
    {"del",
     "KEYSPACE KEY...",
     2,
     -1,
     "delete keys with all that was acknowledged until now",
     "countd del words the and",
     {{"timeout", "DURATION", "wait at most so long; default 30s"}},
     cmd_del},
    {"log",
     "[list | dump N | verify N | salvage FILE]",
     0,
     2,
     "look at the commit logs",
     "countd log verify 0",
     {OUTPUT_OPTIONS,
      {"keep", NULL, "salvage: leave the file as it is"},
      {"remove", NULL, "salvage: remove the file when all of it is merged"},
      {"dry-run", NULL, "salvage: only say what would be merged"}},
     cmd_log},
    {"check",
     "[KEYSPACE]...",
     0,
     -1,
     "check keyspace files and logs; repairs nothing",
     "countd check",
     {{"json", NULL, "print JSON"}},
     cmd_check},
    {"backup",
     "DIR",
     1,
     1,
     "copy all keyspaces, consistent while running",
     "countd backup /backup/countd-today",
     {{"timeout", "DURATION",
       "wait at most so long for the merge; "
       "default 30s"},
      {"no-flush", NULL, "copy what is merged now"}},
     cmd_backup},
    {"acquire",
     "NAME N MAX -- COMMAND [ARG]...",
     4,
     -1,
     "run a command while it holds N of at most MAX of a live counter",
     "countd acquire -w 10s nightly 1 1 -- /usr/local/bin/report",
     {{"w", "DURATION", "wait at most so long, up to 1d, until it is free"},
      {"wait", NULL, "wait as long as it takes"},
      {"E", "CODE", "exit status when it is refused; default 1"},
      {"kill-on-loss", NULL,
       "end the command when the connection to countd-write ends"},
      {"semaphore", NULL, "a semaphore; MAX is its initial value"}},
     cmd_acquire},
    {"live",
     "get NAME... | stats | dump | top [N]",
     1,
     -1,
     "look at live counters and semaphores",
     "countd live top 5",
     {{"semaphore", NULL, "semaphores: get and stats"}, OUTPUT_OPTIONS},
     cmd_live},
    {0},
};

/* ---- help -------------------------------------------------------------- */

/* What stdout does not take is noticed here, once. */
static int
printed(void)
{
    return fflush(stdout) == 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_SYSTEM;
}

/* What there is; `out` is stderr where it answers a mistake. */
static void
overview(FILE *out)
{
    (void)fprintf(out,
                  "countd %s - a log-structured store of counters\n\n"
                  "usage: countd [-f FILE] [-o KEY=VALUE]... [-d DIR] "
                  "SUBCOMMAND ...\n\n",
                  COUNTD_VERSION); /* printed() tells */
    for (const struct cmd *c = cmd_table; c->name != NULL; c++)
        (void)fprintf(out, "  %-10s %s\n", c->name, c->summary); /* likewise */
    (void)fputs("\ncountd SUBCOMMAND -h says more; countd(1) says all.\n",
                out); /* likewise */
}

static void
print_options(const struct cmd_option *options, size_t count)
{
    for (size_t i = 0; i < count && options[i].name != NULL; i++) {
        const struct cmd_option *o = &options[i];
        char text[64];

        (void)snprintf(text, sizeof text, "%s%s%s%s",
                       o->name[1] == '\0' ? "-" : "--", o->name,
                       o->value ? " " : "",
                       o->value ? o->value : "");    /* names are short */
        (void)printf("  %-19s %s\n", text, o->help); /* printed() tells */
    }
}

static int
help(const struct cmd *c)
{
    (void)printf("countd %s - %s\n\nusage: countd %s [options]%s%s\n\n",
                 c->name, c->summary, c->name, c->arguments[0] ? " " : "",
                 c->arguments); /* printed() tells, here and below */
    print_options(c->options, CMD_OPTIONS_MAX);
    print_options(common_options, CMD_OPTIONS_MAX);
    (void)printf("\nexample:\n  %s\n", c->example);
    return printed();
}

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
    size_t size;

    *g = (struct given){.text = text, .is_long = text[1] == '-'};
    if (!g->is_long) {
        g->name[0] = text[1];
        g->value = text[2] != '\0' ? text + 2 : NULL;
        return;
    }
    size = equals ? (size_t)(equals - text - 2) : strlen(text + 2);
    if (size >= sizeof g->name)
        size = sizeof g->name - 1;
    memcpy(g->name, text + 2, size);
    g->value = equals ? equals + 1 : NULL;
}

/* Index of the option in a list, or -1. */
static int
find_option(const struct cmd_option *options, const struct given *g)
{
    for (int i = 0; i < CMD_OPTIONS_MAX && options[i].name != NULL; i++) {
        const bool is_long = options[i].name[1] != '\0';

        if (is_long == g->is_long && strcmp(options[i].name, g->name) == 0)
            return i;
    }
    return -1;
}

static int
misuse(const struct cmd_line *line, const char *text, const char *what)
{
    char shown[4 * SHOWN_SIZE + 1];

    (void)name_escape((const uint8_t *)text, strnlen(text, SHOWN_SIZE),
                      shown); /* its length is not needed */
    diag(DIAG_ERROR, "%s: %s; see countd%s%s -h",
         text[0] != '\0' ? shown : "\"\"", what, line->cmd ? " " : "",
         line->cmd ? line->cmd->name : "");
    return CONFIG_EXIT_USAGE;
}

static int
unknown_option(const struct cmd_line *line, const struct given *g)
{
    if (line->cmd == NULL)
        return misuse(line, g->text,
                      "no such option before a subcommand; its own options "
                      "stand behind it");
    return misuse(line, g->text, "no such option");
}

/* -f, -o, -d, and -h, the one without a value (-1 lets the caller print it). */
static int
take_common(struct cmd_line *line, char letter, const char *value)
{
    if (value == NULL)
        return -1;
    if (config_source_add(&line->sources, letter, value) == 0)
        return 0;
    return misuse(line, value, "too many -o and -d, put them into a file");
}

/* Takes the option at argv[*at] and moves *at behind it.  Returns 0, an exit
 * status, or -1 for help. */
static int
take_option(struct cmd_line *line, int argc, char **argv, int *at)
{
    const struct cmd_option *option = NULL;
    struct given g;
    int common, own;

    split_option(argv[(*at)++], &g);
    if (g.is_long && strcmp(g.name, "help") == 0)
        return -1;
    common = find_option(common_options, &g);
    own = line->cmd ? find_option(line->cmd->options, &g) : -1;
    if (common >= 0)
        option = &common_options[common];
    if (own >= 0)
        option = &line->cmd->options[own];
    if (option == NULL)
        return unknown_option(line, &g);

    if (option->value == NULL && g.value != NULL)
        return misuse(line, g.text, "this option takes no value");
    if (option->value != NULL && g.value == NULL) {
        if (*at == argc)
            return misuse(line, g.text, "this option needs a value");
        g.value = argv[(*at)++];
    }
    if (own < 0)
        return take_common(line, g.name[0], g.value);
    line->values[own] = g.value ? g.value : "";
    return 0;
}

static int
find_command(struct cmd_line *line, const char *text)
{
    for (const struct cmd *c = cmd_table; c->name != NULL; c++) {
        if (strcmp(c->name, text) == 0) {
            line->cmd = c;
            return 0;
        }
    }
    return misuse(line, text, "no such subcommand");
}

/* -h and "help" may stand before what they are about. */
static int
find_topic(struct cmd_line *line, int argc, char **argv, int at)
{
    int status;

    if (line->cmd != NULL || at >= argc || is_option(argv[at]))
        return -1;
    status = find_command(line, argv[at]);
    return status != 0 ? status : -1;
}

/* Reads argv into `line`; arguments are moved to the front of argv.  Returns
 * 0, an exit status, or -1 for help. */
static int
parse(struct cmd_line *line, int argc, char **argv)
{
    bool options = true;
    int at = 1;
    int rc = 0;

    line->args = argv;
    while (at < argc && rc == 0) {
        char *text = argv[at];

        if (options && strcmp(text, "--") == 0) {
            options = false;
            at++;
        } else if (options && is_option(text)) {
            rc = take_option(line, argc, argv, &at);
        } else if (line->cmd == NULL && strcmp(text, "help") == 0) {
            rc = -1;
            at++;
        } else if (line->cmd == NULL) {
            rc = find_command(line, text);
            at++;
        } else {
            line->args[line->arg_count++] = text;
            at++;
        }
    }
    return rc < 0 ? find_topic(line, argc, argv, at) : rc;
}

/* One form of output at a time. */
static int
check_formats(const struct cmd_line *line)
{
    const struct cmd_option *options = line->cmd->options;
    bool json = false, tsv = false;

    for (int i = 0; i < CMD_OPTIONS_MAX && options[i].name != NULL; i++) {
        json |= line->values[i] && strcmp(options[i].name, "json") == 0;
        tsv |= line->values[i] && strcmp(options[i].name, "tsv") == 0;
    }
    return json && tsv ? misuse(line, "--json --tsv", "give one of them") : 0;
}

static int
check_count(const struct cmd_line *line)
{
    const struct cmd *c = line->cmd;

    if (line->arg_count >= c->min && (c->max < 0 || line->arg_count <= c->max))
        return 0;
    diag(DIAG_ERROR, "usage: countd %s [options]%s%s; see countd %s -h",
         c->name, c->arguments[0] ? " " : "", c->arguments, c->name);
    return CONFIG_EXIT_USAGE;
}

int
cmd_main(int argc, char **argv)
{
    struct cmd_line line = {0};
    char why[512];
    int rc;

    diag_init("countd", DIAG_INFO);
    if (argc == 2 &&
        (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0)) {
        (void)printf("countd %s\n", COUNTD_VERSION); /* printed() tells */
        return printed();
    }
    rc = parse(&line, argc, argv);
    if (rc < 0) {
        if (line.cmd != NULL)
            return help(line.cmd);
        overview(stdout);
        return printed();
    }
    if (rc > 0)
        return rc;
    if (line.cmd == NULL) {
        overview(stderr);
        return CONFIG_EXIT_USAGE;
    }
    rc = check_count(&line);
    if (rc == 0)
        rc = check_formats(&line);
    if (rc != 0)
        return rc;
    if (config_load(&line.config, &line.sources, why, sizeof why) < 0) {
        diag(DIAG_ERROR, "%s", why);
        return CONFIG_EXIT_USAGE;
    }
    return line.cmd->run(&line);
}

const char *
cmd_value(const struct cmd_line *line, const char *option)
{
    const struct cmd_option *options = line->cmd->options;

    for (int i = 0;; i++) {
        assert(i < CMD_OPTIONS_MAX && options[i].name); /* it is one of them */
        if (strcmp(options[i].name, option) == 0)
            return line->values[i];
    }
}

/* ---- arguments --------------------------------------------------------- */

int
cmd_name(const char *text, const char *what, struct cmd_name *out)
{
    const int size =
        name_unescape(text, strlen(text), out->bytes, sizeof out->bytes);

    if (size > 0) {
        out->size = (size_t)size;
        return 0;
    }
    if (size == -ENAMETOOLONG)
        diag(DIAG_ERROR, "the %s is too long; names have 1 to %d bytes", what,
             NAME_MAX_SIZE);
    else if (size == 0)
        diag(DIAG_ERROR, "the %s is empty; names have 1 to %d bytes", what,
             NAME_MAX_SIZE);
    else
        diag(DIAG_ERROR,
             "the %s has a bad escape; write a backslash as \\\\, a byte as "
             "\\xHH (not 00)",
             what);
    return CONFIG_EXIT_USAGE;
}

int
cmd_parse_number(const char *text, size_t size, int64_t *out)
{
    const bool minus = size > 0 && text[0] == '-';
    const uint64_t limit = minus ? (uint64_t)1 << 63 : INT64_MAX;
    size_t i = size > 0 && (minus || text[0] == '+');
    uint64_t value = 0;

    if (i == size)
        return -EINVAL;
    for (; i < size; i++) {
        const uint64_t digit = (uint64_t)text[i] - '0';

        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        if (value > (limit - digit) / 10)
            return -ERANGE;
        value = value * 10 + digit;
    }
    /* Negating the unsigned value is defined for INT64_MIN too. */
    *out = (int64_t)(minus ? 0 - value : value);
    return 0;
}

int
cmd_number(const char *text, const char *what, int64_t min, int64_t max,
           int64_t *out)
{
    char shown[4 * SHOWN_SIZE + 1];

    if (cmd_parse_number(text, strlen(text), out) == 0 && *out >= min &&
        *out <= max)
        return 0;
    (void)name_escape((const uint8_t *)text, strnlen(text, SHOWN_SIZE),
                      shown); /* its length is not needed */
    diag(DIAG_ERROR,
         "%s: \"%s\" is wrong; give a number, %" PRId64 " to %" PRId64, what,
         shown, min, max);
    return CONFIG_EXIT_USAGE;
}

int
cmd_option_number(const struct cmd_line *line, const char *option, int64_t min,
                  int64_t max, int64_t def, int64_t *out)
{
    const char *text = cmd_value(line, option);
    char what[32];

    *out = def;
    (void)snprintf(what, sizeof what, "%s%s", option[1] == '\0' ? "-" : "--",
                   option); /* names are short */
    return text ? cmd_number(text, what, min, max, out) : 0;
}

int
cmd_option_ms(const struct cmd_line *line, const char *option, uint64_t def,
              uint64_t *out)
{
    const char *text = cmd_value(line, option);

    *out = def;
    if (text == NULL ||
        (config_duration(text, out) == 0 && *out <= (uint64_t)24 * 3600 * 1000))
        return 0;
    if (text[0] != '\0' && text[strspn(text, "0123456789")] == '\0')
        return misuse(line, text,
                      "which unit? give ms, s, m or h, as in 500ms or 10s");
    return misuse(line, text,
                  "give a duration of at most 1d, such as 500ms or 10s");
}

/* ---- the servers ------------------------------------------------------- */

static const char *
peer_address(const struct cmd_line *line, enum cmd_peer peer,
             const char **setting)
{
    switch (peer) {
    case CMD_READER:
        *setting = "read.listen";
        return line->config.read_listen;
    case CMD_WRITER:
        *setting = "write.ack_listen";
        return line->config.write_ack_listen;
    case CMD_WRITER_SILENT:
        break;
    }
    *setting = "write.listen";
    return line->config.write_listen;
}

int
cmd_connect(const struct cmd_line *line, enum cmd_peer peer, size_t buffer_size,
            struct countd **out)
{
    const char *setting;
    const char *address = peer_address(line, peer, &setting);
    const struct countd_options options = {
        .size = sizeof options,
        .write = peer == CMD_READER ? NULL : address,
        .read = peer == CMD_READER ? address : NULL,
        .silent = peer == CMD_WRITER_SILENT,
        .buffer_size = buffer_size,
        .keyspace_size = (unsigned)line->config.keyspace_size,
        .key_size = (unsigned)line->config.key_size,
    };
    const char *colon = strrchr(address, ':');
    int rc;

    if (colon == NULL || strspn(colon + 1, "0") == strlen(colon + 1)) {
        diag(DIAG_ERROR,
             "%s is \"%s\": no port to connect to; give -o "
             "%s=ADDRESS:PORT",
             setting, address, setting);
        return CONFIG_EXIT_USAGE;
    }
    rc = countd_open(out, &options);
    return rc < 0 ? cmd_peer_failed(line, peer, rc) : 0;
}

int
cmd_peer_failed(const struct cmd_line *line, enum cmd_peer peer, int rc)
{
    const char *daemon = peer == CMD_READER ? "countd-read" : "countd-write";
    const char *setting;
    const char *address = peer_address(line, peer, &setting);

    switch (rc) {
    case -ECONNREFUSED:
        diag(DIAG_ERROR,
             "%s at %s does not answer; is it running? countd "
             "serve starts it, and %s says where it is",
             daemon, address, setting);
        break;
    case -ENOTCONN:
        diag(DIAG_ERROR,
             "%s at %s ended the connection; has it stopped? or is "
             "%s not its port?",
             daemon, address, setting);
        break;
    case -EPROTO:
        diag(DIAG_ERROR, "what answers at %s is not %s; is %s its port?",
             address, daemon, setting);
        break;
    case -ETIMEDOUT:
        diag(DIAG_ERROR, "%s at %s did not answer in time; is %s its port%s?",
             daemon, address, setting,
             peer == CMD_READER ? "" : ", are the message sizes its own");
        break;
    case -EADDRNOTAVAIL:
        diag(DIAG_ERROR, "%s: %s %s", setting, address, net_resolve_error(rc));
        return CONFIG_EXIT_USAGE;
    case -EAGAIN: /* of cmd_connect(); others do not pass it on */
        diag(DIAG_ERROR, "%s: %s %s", setting, address, net_resolve_error(rc));
        break;
    case -ENAMETOOLONG:
        diag(DIAG_ERROR,
             "a name is longer than message.keyspace_size=%" PRIu64
             " or message.key_size=%" PRIu64,
             line->config.keyspace_size, line->config.key_size);
        return CONFIG_EXIT_USAGE;
    case -EBADMSG:
        diag(DIAG_ERROR,
             "%s at %s refused a message; are "
             "message.keyspace_size and message.key_size the server's?",
             daemon, address);
        break;
    case -EIO:
        diag(DIAG_ERROR,
             "%s cannot read the keyspace; its messages say why, "
             "and countd check says where the file is damaged",
             daemon);
        break;
    default:
        diag_errno(DIAG_ERROR, rc, "%s at %s", daemon, address);
        break;
    }
    return CONFIG_EXIT_SYSTEM;
}
