/* common/client/cmd/ask.c - the commands that only ask countd-read: a row of
 * questions[] says what is asked, and what people see of the answer.
 *
 * The answer is a document of /v1, which --json and --tsv print as it comes.
 * More rows than a document has are several, each of its own moment: in JSON
 * the rows of all stand between the beginning and the end of the first.
 *
 * Read from the end: cmd_ask(), print_pages(); ask_people.c prints for people. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/query.h"

#define KEYS_MAX  256
#define LINK_SIZE 8192 /* three names, of which a byte is six characters */
#define ANSWER_MS 5000 /* for an answer to come, when it is made */
#define DAY_MS    ((uint64_t)86400000)
#define STEP_MS   ((uint64_t)3600000)
#define STEP_MAX  (366 * DAY_MS)
#define LAST_MS   ((uint64_t)UINT32_MAX * 60000) /* of what a store can keep */

/* ---- the questions ------------------------------------------------------- */

#define COLUMNS static const struct table_column

COLUMNS by_count[] = {
    {"rank", "rank", true}, {"count", "count", true}, {"key", "key", false}};
COLUMNS totals[] = {{"total", "total", true}};
COLUMNS distinct[] = {{"keys", "keys", true}, {"sum", "sum", true}};
COLUMNS groups[] = {{"groups", "groups", true}, {"sum", "sum", true}};
COLUMNS ranks[] = {
    {"rank", "rank", true}, {"sum", "sum", true}, {"of keys", "keys", true}};
COLUMNS buckets[] = {
    {"from", "from", false}, {"sum", "sum", true}, {"", "bar", false}};
COLUMNS tops[] = {{"rank", "rank", true},     {"sum", "sum", true},
                  {"before", "before", true}, {"change", "change", true},
                  {"key", "key", false},      {"", "bar", false}};
COLUMNS keyspaces[] = {{"keys", "keys", true},
                       {"total", "total", true},
                       {"size", "size", true},
                       {"keyspace", "keyspace", false},
                       {"file", "file", false}};

static const struct ask_question questions[] = {
    {.command = "top",
     .arguments = {"keyspace", "n"},
     .time = TIME_IF_GIVEN,
     .rows = 20,
     .rows_max = INT64_MAX,
     .form = {"range", by_count, 3, 0},
     .other = {"top", tops, 5, 20},
     .some = {"top", by_count, 3, 0}},
    {.command = "range",
     .arguments = {"keyspace", "offset", "length"},
     .rows_max = INT64_MAX,
     .form = {"range", by_count, 3, 0}},
    {.command = "around",
     .arguments = {"keyspace", "key", "n"},
     .rows = 11,
     .rows_max = QUERY_ROWS_MAX - 1,
     .form = {"around", by_count, 3, 0}},
    {.command = "history",
     .arguments = {"keyspace", "key"},
     .time = TIME_ALWAYS,
     .form = {"history", buckets, 2, CHART_BAR_MAX}},
    {.command = "keys",
     .arguments = {"keyspace", "prefix"},
     .rows = 100,
     .rows_max = INT64_MAX,
     .form = {"keys", by_count + 1, 2, 0}},
    {.command = "distinct",
     .arguments = {"keyspace"},
     .time = TIME_ALWAYS,
     .form = {"distinct", distinct, 2, 0},
     .some = {"distinct", groups, 2, 0}},
    {.command = "get",
     .arguments = {"keyspace", "key", "key"},
     .form = {"get", by_count + 1, 1, 0},
     .other = {"get", by_count + 1, 2, 0}},
    {.command = "rank",
     .arguments = {"keyspace", "key"},
     .time = TIME_IF_GIVEN,
     .form = {"rank", ranks, 1, 0},
     .other = {"rank", ranks, 3, 0}},
    {.command = "total",
     .arguments = {"keyspace"},
     .form = {"total", totals, 1, 0}},
    {.command = "keyspaces", .form = {"keyspaces", keyspaces, 5, 0}},
};

/* ---- the command line ---------------------------------------------------- */

/* The parameter that an argument is; of several keys all are the last. */
static const char *
parameter_of(const struct ask *a, int i)
{
    return a->question->arguments[i < 2 ? i : 2];
}

/* The name in an argument; an empty prefix is none. */
static struct increment_name
name_of(const struct ask *a, int i)
{
    const char *what = parameter_of(a, i), *text = a->line->args[i];

    if (text[0] == '\0' && strcmp(what, "prefix") == 0)
        return (struct increment_name){.size = 0};
    return cmd_name(a->line, text, what);
}

/* The name that an option gives; of size 0: none. */
static struct increment_name
name_option(const struct ask *a, const char *option, const char *what)
{
    const char *text = cmd_value(a->line, option);

    if (!text || text[0] == '\0')
        return (struct increment_name){.size = 0};
    return cmd_name(a->line, text, what);
}

/* Says what is wrong; an exit status. */
static int
read_options(struct ask *a)
{
    const char *group = cmd_value(a->line, "group");

    if (cmd_value(a->line, "prefix") && a->line->arg_count > 1 &&
        a->question->arguments[1] && ask_is_name(a->question->arguments[1]))
        return cmd_misuse(a->line, a->line->args[1],
                          "give either a key or one prefix");
    a->prefix = name_option(a, "prefix", "prefix");
    a->group = name_option(a, "group", "group");
    a->after = name_option(a, "after", "key");
    if (*a->line->status == 0 && group && a->group.size != 1)
        return cmd_misuse(a->line, group, "one byte ends a group");
    return *a->line->status;
}

static void
read_argument(struct ask *a, int i)
{
    const char *what = parameter_of(a, i), *text = a->line->args[i];
    const int64_t max = a->question->rows_max;

    if (ask_is_name(what))
        (void)name_of(a, i); /* a bad one is refused now */
    else if (strcmp(what, "offset") == 0)
        a->offset = cmd_number(a->line, text, what, -INT64_MAX, INT64_MAX);
    else if (strcmp(what, "length") == 0)
        a->rows = cmd_number(a->line, text, what, 0, max);
    else
        a->rows = cmd_number(a->line, text, "N", 1, max);
}

/* --from (a day ago), --to (now), of which the current second is part, and
 * --step. */
static int
read_time(struct ask *a)
{
    const uint64_t now = clock_unix_ms();
    const uint64_t from = cmd_time_option(a->line, "from", now, now - DAY_MS);
    const uint64_t to = cmd_time_option(a->line, "to", now, now);
    const uint64_t step = cmd_option_ms(a->line, "step", STEP_MS);

    if (*a->line->status != 0)
        return *a->line->status;
    if (to <= from)
        return cmd_misuse(a->line, "--from --to",
                          "the end is not after the start");
    if (to >= LAST_MS)
        return cmd_misuse(a->line, "--to", "there is no time so late");
    if (step == 0 || step % 60000 != 0 || step > STEP_MAX)
        return cmd_misuse(
            a->line, cmd_value(a->line, "step"),
            "a step is whole minutes, a year at most: 5m, 1h, 1d");
    a->span = (struct time_range){(int64_t)(from / 1000),
                                  (int64_t)((to + 999) / 1000)};
    if (strcmp(a->form->path, "history") == 0) {
        a->step = (int64_t)(step / 1000);
        a->span = time_range_widen(&a->span, a->step, a->utc);
    }
    return 0;
}

/* Whether a form of its own has the answer about some keys. */
static bool
has_some(const struct ask *a)
{
    const bool is_some =
        a->group.size > 0 ||
        (a->prefix.size > 0 && a->question->time != TIME_ALWAYS);

    return is_some && a->question->some.path != NULL;
}

/* Says what is wrong; an exit status. */
static int
read_line(struct ask *a)
{
    const struct cmd_line *line = a->line;
    const struct ask_question *q = a->question;
    const bool is_time_given = cmd_value(line, "from") ||
                               cmd_value(line, "to") || cmd_value(line, "utc");
    const bool is_other = q->time == TIME_IF_GIVEN
                              ? is_time_given
                              : q->other.path != NULL && line->arg_count > 2;
    const int status = read_options(a);

    if (status != 0)
        return status;
    a->form = is_other ? &q->other : has_some(a) ? &q->some : &q->form;
    a->has_time =
        q->time == TIME_ALWAYS || (q->time == TIME_IF_GIVEN && is_other);
    a->utc = cmd_value(line, "utc") != NULL;
    a->rows = cmd_option_number(line, "n", 1, q->rows_max, q->rows);
    if (q->time == TIME_IF_GIVEN && q->rows > 0 && line->arg_count > 1 &&
        cmd_value(line, "n"))
        return cmd_misuse(line, line->args[1], "give the rows once");
    if (line->arg_count > KEYS_MAX + 1)
        return cmd_misuse(line, line->args[KEYS_MAX + 1],
                          "256 keys at most are read at once");
    for (int i = 0; i < line->arg_count; i++)
        read_argument(a, i);
    if (*line->status == 0 && strcmp(a->form->path, "top") == 0 &&
        a->rows > QUERY_ROWS_MAX)
        return cmd_misuse(line, "--from --to --prefix --group",
                          "the top has 4096 rows at most with these");
    return *line->status == 0 && a->has_time ? read_time(a) : *line->status;
}

/* ---- asking -------------------------------------------------------------- */

static void
put_name(struct document *d, const char *parameter,
         const struct increment_name *name)
{
    if (name->size > 0)
        document_put_name(d, parameter, countd_bytes(name->bytes, name->size));
}

/* The names in the arguments. */
static void
put_names(const struct ask *a, struct document *d)
{
    for (int i = 0; i < a->line->arg_count; i++)
        if (ask_is_name(parameter_of(a, i))) {
            const struct increment_name name = name_of(a, i);

            put_name(d, parameter_of(a, i), &name);
        }
}

/* About the names and the time of the line. */
static void
put_question(const struct ask *a, struct document *d)
{
    document_begin(&a->c->asking, d, a->form->path);
    put_names(a, d);
    put_name(d, "prefix", &a->prefix);
    put_name(d, "group", &a->group);
    if (!a->has_time)
        return;
    document_put_number(d, "from", a->span.from);
    document_put_number(d, "to", a->span.to);
    if (a->step > 0)
        document_put_number(d, "step", a->step);
}

/* Which rows, and in which form. */
static void
put_page(const struct ask *a, struct document *d)
{
    if (a->question->rows_max > 0)
        document_put_number(d, ask_is_range(a) ? "length" : "n",
                            a->rows < QUERY_ROWS_MAX ? a->rows
                                                     : QUERY_ROWS_MAX);
    if (a->next[0] != '\0')
        document_put_text(d, a->next);
    else if (ask_is_range(a))
        document_put_number(d, "offset", a->offset);
    else
        put_name(d, "after", &a->after);
    if (a->out.format == OUTPUT_TSV)
        document_put_text(d,
                          a->line->raw ? "format=tsv&names=raw" : "format=tsv");
}

/* Copies what is before one of these characters; nothing of NULL. */
static void
copy_until(char *to, size_t size, const char *text, const char *ends)
{
    (void)snprintf(to, size, "%.*s", text ? (int)strcspn(text, ends) : 0,
                   text ? text : "");
}

/* Notes where the next document begins, and whether the keyspace is another
 * since the first. */
static void
take_headers(struct ask *a, const struct document *d)
{
    char link[LINK_SIZE], version[sizeof a->version];
    const char *at;

    copy_until(link, sizeof link, http_header(&d->answer, "Link:"), "\r\n");
    /* A name in the link has no =, which is escaped. */
    at = strstr(link, "offset=");
    copy_until(a->next, sizeof a->next, at ? at : strstr(link, "after="), "&>");
    copy_until(version, sizeof version, http_header(&d->answer, "ETag:"),
               "\r\n");
    if (a->version[0] == '\0')
        strcpy(a->version, version);
    a->has_changed |= version[0] != '\0' && strcmp(version, a->version) != 0;
}

/* ---- documents ----------------------------------------------------------- */

/* Prints a document as it comes; of several their rows within the first. */
static void
print_document(struct ask *a, struct document *d)
{
    const char *body = d->answer.body, *from = body;
    const char *to = body + d->answer.size;

    if (a->out.format == OUTPUT_JSON) {
        while (document_next(d))
            continue;
        if (a->pages == 0 && a->next[0] != '\0' && d->rows) {
            a->ending = strdup(d->rows_end);
            to = d->rows_end;
        } else if (a->pages > 0 && d->rows) {
            from = d->rows;
            to = d->rows_end;
            (void)fputs(from < to ? "," : "", stdout);
        }
    }
    (void)fwrite(from, 1, (size_t)(to - from), stdout);
}

/* Reports whether the keyspace or the key is not there (-ENOENT), or that
 * nothing came to it (-ENOMSG); the document says so, too. */
static void
report_absence(const struct ask *a, const struct document *d, int rc)
{
    const char *body = d->answer.body;
    const int i = strstr(body, "\"code\": \"no-such-keyspace\"") == NULL;
    const struct increment_name name = name_of(a, i);

    if (a->out.format == OUTPUT_JSON)
        (void)fwrite(body, 1, d->answer.size, stdout);
    (void)fflush(stdout); /* cmd_main() says what it did not take */
    if (rc == -ENOMSG)
        diag(DIAG_INFO, "nothing came to the key in that time");
    else
        diag(DIAG_INFO, "no such %s: %s", i == 0 ? "keyspace" : "key",
             cmd_text(name.bytes, name.size));
}

/* Asks; reports what is not there, unless it went between two pages. */
static int
ask_question(const struct ask *a, struct document *d)
{
    const int rc = document_ask(d);

    if (a->pages == 0 && (rc == -ENOENT || rc == -ENOMSG))
        report_absence(a, d, rc);
    return rc;
}

/* A key without history may be one that is not there. */
static int
check_key(struct ask *a)
{
    struct document d;

    if (a->step == 0 || a->line->arg_count < 2)
        return 0;
    document_begin(&a->c->asking, &d, "get");
    put_names(a, &d);
    (void)ask_question(a, &d); /* document_end() returns it */
    return document_end(&d);
}

/* Asks for one document after the other until all rows are there, and prints
 * them. */
static int
print_pages(struct ask *a)
{
    struct document d;
    int rc;

    do {
        put_question(a, &d);
        put_page(a, &d);
        if (ask_question(a, &d) == 0) {
            take_headers(a, &d);
            if (a->out.format == OUTPUT_PEOPLE)
                ask_print_people(a, &d);
            else
                print_document(a, &d);
            a->pages++;
            a->rows -= QUERY_ROWS_MAX;
        }
        rc = document_end(&d);
    } while (rc == 0 && a->next[0] != '\0' && !ferror(stdout) &&
             (a->rows > 0 || a->question->rows_max == 0));
    return rc;
}

/* Prints what there is to print behind the last document. */
static void
end_pages(struct ask *a)
{
    if (a->out.format == OUTPUT_PEOPLE && a->pages > 0) {
        output_rows_end(&a->out);
        ask_report_people(a);
        if (a->form->count > 1)
            output_as_of(&a->out, a->as_of_ms);
    }
    if (a->ending)
        (void)fputs(a->ending, stdout);
    if (a->has_changed && ask_is_range(a))
        diag(DIAG_WARNING,
             "counts changed meanwhile, and more than %d rows are several "
             "requests, each of its own moment: rows may be missing or there "
             "twice",
             QUERY_ROWS_MAX);
    (void)fflush(stdout); /* before what is said of an error */
}

/* ---- the commands -------------------------------------------------------- */

static int
run_question(struct ask *a)
{
    int rc = check_key(a);

    if (rc == 0)
        rc = print_pages(a);
    end_pages(a);
    if (rc == -ENOENT || rc == -ENOMSG)
        return CONFIG_EXIT_NEGATIVE;
    if (rc < 0)
        return cmd_peer_failed(a->line, a->has_time ? CMD_HISTORY : CMD_READER,
                               rc);
    return CONFIG_EXIT_OK;
}

int
cmd_ask(struct cmd_line *line)
{
    static struct ask a;
    int status;

    a.line = line;
    a.question = questions;
    while (strcmp(a.question->command, line->cmd->name) != 0)
        a.question++; /* there is one for each that runs this */
    status = read_line(&a);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, &a.c);
    if (status != 0)
        return status;
    /* The reader says itself that it needs too long. */
    countd_read_timeout(a.c, (int)line->config.read_max_time_ms + ANSWER_MS);
    output_init(&a.out, line, a.form->columns, a.form->count);
    a.width = chart_width(&a.out);
    status = run_question(&a);
    (void)countd_close(a.c); /* nothing was sent to be counted */
    free(a.ending);
    free(a.sums);
    return status;
}
