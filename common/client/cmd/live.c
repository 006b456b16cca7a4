/* common/client/cmd/live.c - countd live get, stats, dump, who: show live
 * counters and semaphores.  Read from the end: cmd_live(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/wire/increment_line.h"

/* What a server's own words are cut to. */
#define WORD_MAX 128

static char text[LIVE_TEXT_SIZE]; /* of the name that is printed */

/* A name that is too long for cell_name(): in lines in its text form. */
static struct cell
cell_live_name(const struct output *o, const void *name, size_t size)
{
    (void)name_escape(name, size, text); /* its NUL ends it */
    return o->format == OUTPUT_JSON
               ? (struct cell){.kind = CELL_NAME, .bytes = name, .size = size}
               : cell_text(text);
}

static void
report_missing(const struct cmd_line *line, const char *arg)
{
    diag(DIAG_INFO, "no such %s: %.*s",
         cmd_is_semaphore(line) ? "semaphore" : "counter", WORD_MAX, arg);
}

/* ---- get --------------------------------------------------------------- */

static int
ask_values(const struct cmd_line *line, struct countd_live *l,
           struct output *out)
{
    const bool stands_alone =
        line->arg_count == 2 && out->format == OUTPUT_PEOPLE;
    bool lacks = false;
    int rc = 0;

    for (int i = 1; i < line->arg_count && rc == 0; i++) {
        const struct cmd_live_name name = cmd_live_name(line, line->args[i]);
        struct cell cells[2] = {cell_none()};
        uint32_t value;

        rc = countd_live_get(l, countd_bytes(name.bytes, name.size), &value);
        if (rc == 0)
            cells[0] = cell_number(value);
        cells[1] = cell_live_name(out, name.bytes, name.size);
        if (rc == -ENOENT) {
            report_missing(line, text);
            lacks = true;
            rc = 0;
        }
        if (rc == 0 && !stands_alone)
            output_row(out, cells);
        else if (rc == 0 && !lacks)
            (void)printf("%" PRId64 "\n", cells[0].number);
    }
    return rc == 0 && lacks ? -ENOENT : rc;
}

/* ---- stats ------------------------------------------------------------- */

static int
print_stat(void *ctx, const char *name, const char *value)
{
    struct output *out = ctx;
    char name_text[4 * WORD_MAX + 1], value_text[4 * WORD_MAX + 1];
    struct cell cells[2];
    int64_t number;

    /* A server's bytes are as little trusted as a name's. */
    (void)name_escape((const uint8_t *)name, strnlen(name, WORD_MAX),
                      name_text);
    (void)name_escape((const uint8_t *)value, strnlen(value, WORD_MAX),
                      value_text);
    cells[0] = cell_text(name_text);
    cells[1] = increment_number_parse(value, strlen(value), &number) == 0
                   ? cell_number(number)
                   : cell_text(value_text);
    if (out->format == OUTPUT_JSON)
        output_fact(out, name_text, cells[1]);
    else
        output_row(out, cells);
    return 0;
}

static int
ask_stats(const struct cmd_line *line, struct countd_live *l,
          struct output *out)
{
    (void)line; /* it says all */
    return countd_live_stats(l, print_stat, out);
}

/* ---- dump --------------------------------------------------------------- */

static int
print_record(void *ctx, struct countd_name name, uint32_t current,
             uint32_t maximum)
{
    output_row(
        ctx, (const struct cell[]){cell_number(current), cell_number(maximum),
                                   cell_live_name(ctx, name.data, name.size)});
    return ferror(stdout) ? 1 : 0;
}

static int
ask_dump(const struct cmd_line *line, struct countd_live *l, struct output *out)
{
    (void)line; /* it says all */
    return countd_live_dump(l, print_record, out);
}

/* ---- who ---------------------------------------------------------------- */

static int
print_holder(void *ctx, const char *address, uint32_t amount, uint32_t age_s)
{
    (void)name_escape((const uint8_t *)address, strnlen(address, WORD_MAX),
                      text);
    output_row(ctx, (const struct cell[]){
                        cell_number(amount),
                        cell_number(age_s),
                        cell_text(text),
                    });
    return 0;
}

static int
ask_holders(const struct cmd_line *line, struct countd_live *l,
            struct output *out)
{
    const struct cmd_live_name name = cmd_live_name(line, line->args[1]);
    const int rc = countd_live_who(l, countd_bytes(name.bytes, name.size),
                                   print_holder, out);

    if (rc == -ENOENT)
        report_missing(line, line->args[1]);
    return rc;
}

/* ---- which ------------------------------------------------------------- */

static const struct table_column available[] = {
    {"available", "available", true}, {"name", "name", false}};
static const struct table_column taken[] = {{"taken", "taken", true},
                                            {"name", "name", false}};
static const struct table_column stats[] = {{"name", "name", false},
                                            {"value", "value", true}};
static const struct table_column records[] = {{"taken", "taken", true},
                                              {"maximum", "maximum", true},
                                              {"name", "name", false}};
static const struct table_column holders[] = {{"held", "held", true},
                                              {"age_s", "age_s", true},
                                              {"address", "address", false}};

static int run_look(struct cmd_line *line);

static const struct cmd_verb verbs[] = {{"get", 2, -1, run_look},
                                        {"stats", 1, 1, run_look},
                                        {"dump", 1, 1, run_look},
                                        {"who", 2, 2, run_look}};

/* What each shows; ask() prints it, and returns an error of libcountd. */
static const struct look {
    const struct table_column *columns;
    size_t count;
    int (*ask)(const struct cmd_line *line, struct countd_live *l,
               struct output *out);
} looks[] = {{taken, 2, ask_values},
             {stats, 2, ask_stats},
             {records, 3, ask_dump},
             {holders, 3, ask_holders}};

/* Returns an exit status. */
static int
run_look(struct cmd_line *line)
{
    const bool is_semaphore = cmd_is_semaphore(line);
    const struct look *k = &looks[line->verb - verbs];
    struct countd_live *l;
    struct output out;
    int rc, status;

    if (is_semaphore && k->ask == ask_dump)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "the semaphore protocol has no Dump; countd live get "
                        "--semaphore NAME shows one");
    for (int i = 1; i < line->arg_count; i++)
        (void)cmd_live_name(line, line->args[i]); /* refused at once */
    status = cmd_live_open(line, &l);
    if (status != 0)
        return status;
    output_init(&out, line,
                is_semaphore && k->columns == taken ? available : k->columns,
                k->count);
    rc = k->ask(line, l, &out);
    countd_live_close(l);
    if (rc < 0 && rc != -ENOENT)
        return cmd_peer_failed(line, cmd_live_peer(line), rc);
    output_fini(&out);
    return rc < 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}

int
cmd_live(struct cmd_line *line)
{
    return cmd_run_verb(line, verbs, sizeof verbs / sizeof verbs[0]);
}
