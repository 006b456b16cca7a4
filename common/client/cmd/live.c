/* common/client/cmd/live.c - countd live get, stats, dump, who: show live
 * counters and semaphores.  Read from the end: cmd_live(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/wire/increment_line.h"

/* What a server's own words are cut to. */
#define WORD_MAX 128

static char text[LIVE_TEXT_SIZE]; /* of the name that is printed */

static const struct table_column dump_columns[] = {
    {"taken", "taken", true},
    {"maximum", "maximum", true},
    {"name", "name", false},
};

/* A name that is too long for cell_name(): in lines in its text form. */
static struct cell
cell_live_name(const struct output *o, const void *name, size_t size)
{
    (void)name_escape(name, size, text); /* its NUL ends it */
    return o->format == OUTPUT_JSON
               ? (struct cell){.kind = CELL_NAME, .bytes = name, .size = size}
               : cell_text(text);
}

/* ---- get --------------------------------------------------------------- */

/* Prints what there is of a name.  1 when there is nothing, or an error. */
static int
get_value(const struct cmd_line *line, struct countd_live *l, const char *arg,
          struct output *out)
{
    const bool stands_alone =
        line->arg_count == 2 && out->format == OUTPUT_PEOPLE;
    struct live_name name;
    struct cell cells[2];
    uint32_t value = 0;
    int rc, status;

    status = live_name(arg, &name);
    if (status != 0)
        return status;
    rc = countd_live_get(l, name.bytes, name.size, &value);
    cells[0] = rc == 0 ? cell_number(value) : cell_none();
    cells[1] = cell_live_name(out, name.bytes, name.size);
    if (rc == -ENOENT)
        diag(DIAG_INFO, "no such %s: %.*s", live_word(line), WORD_MAX, text);
    else if (rc < 0)
        status = cmd_peer_failed(line, live_peer(line), rc);
    if (status == 0 && !stands_alone)
        output_row(out, cells);
    else if (rc == 0)
        (void)printf("%" PRIu32 "\n", value);
    free(name.bytes);
    return rc == -ENOENT ? CONFIG_EXIT_NEGATIVE : status;
}

static int
live_get(struct cmd_line *line)
{
    const char *word = live_is_semaphore(line) ? "available" : "taken";
    const struct table_column columns[] = {{word, word, true},
                                           {"name", "name", false}};
    struct countd_live *l;
    struct output out;
    int status = 0, written;

    for (int i = 1; i < line->arg_count && status == 0; i++) {
        struct live_name name = {.bytes = NULL};

        status = live_name(line->args[i], &name); /* refused at once */
        free(name.bytes);
    }
    if (status == 0)
        status = live_connect(line, &l);
    if (status != 0)
        return status;
    output_init(&out, line, columns, 2);
    for (int i = 1; i < line->arg_count && status <= CONFIG_EXIT_NEGATIVE;
         i++) {
        const int one = get_value(line, l, line->args[i], &out);

        status = one > status ? one : status;
    }
    countd_live_close(l);
    output_rows_end(&out);
    written = output_fini(&out);
    return written != 0 ? written : status;
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
live_stats(struct cmd_line *line)
{
    static const struct table_column columns[] = {{"name", "name", false},
                                                  {"value", "value", true}};
    struct countd_live *l;
    struct output out;
    int rc, status;

    status = live_connect(line, &l);
    if (status != 0)
        return status;
    output_init(&out, line, columns, 2);
    rc = countd_live_stats(l, print_stat, &out);
    countd_live_close(l);
    status = output_fini(&out);
    return rc < 0 ? cmd_peer_failed(line, live_peer(line), rc) : status;
}

/* ---- dump --------------------------------------------------------------- */

static int
print_record(void *ctx, const void *name, size_t size, uint32_t current,
             uint32_t maximum)
{
    output_row(ctx,
               (const struct cell[]){cell_number(current), cell_number(maximum),
                                     cell_live_name(ctx, name, size)});
    return ferror(stdout) ? 1
                          : 0; /* stdout was closed: output_fini() reports it */
}

static int
live_dump(struct cmd_line *line)
{
    struct countd_live *l;
    struct output out;
    int rc, status;

    if (live_is_semaphore(line))
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "the semaphore protocol has no Dump; countd live get "
                        "--semaphore NAME shows one");
    status = live_connect(line, &l);
    if (status != 0)
        return status;
    output_init(&out, line, dump_columns, 3);
    rc = countd_live_dump(l, print_record, &out);
    countd_live_close(l);
    output_rows_end(&out);
    status = output_fini(&out);
    return rc < 0 ? cmd_peer_failed(line, live_peer(line), rc) : status;
}

/* ---- who ---------------------------------------------------------------- */

static int
print_holder(void *ctx, const char *address, uint32_t amount, uint32_t age_s)
{
    struct output *out = ctx;
    (void)name_escape((const uint8_t *)address, strnlen(address, WORD_MAX),
                      text);
    output_row(out, (const struct cell[]){
                        cell_number(amount),
                        age_s != UINT32_MAX ? cell_number(age_s) : cell_none(),
                        cell_text(text),
                    });
    return 0;
}

static int
live_who(struct cmd_line *line)
{
    static const struct table_column columns[] = {
        {"held", "held", true},
        {"age_s", "age_s", true},
        {"address", "address", false},
    };
    struct live_name name;
    struct countd_live *l;
    struct output out;
    int rc, status;

    status = live_name(line->args[1], &name);
    if (status != 0)
        return status;
    status = live_connect(line, &l);
    if (status == 0) {
        output_init(&out, line, columns, 3);
        rc = countd_live_who(l, name.bytes, name.size, print_holder, &out);
        countd_live_close(l);
        output_rows_end(&out);
        status = output_fini(&out);
        if (rc == -ENOENT)
            diag(DIAG_INFO, "no such %s: %.*s", live_word(line), WORD_MAX,
                 line->args[1]);
        if (rc == -ENOENT)
            status = CONFIG_EXIT_NEGATIVE;
        else if (rc < 0)
            status = cmd_peer_failed(line, live_peer(line), rc);
    }
    free(name.bytes);
    return status;
}

/* ---- which ------------------------------------------------------------- */

int
cmd_live(struct cmd_line *line)
{
    static const struct cmd_verb verbs[] = {
        {"get", 2, -1, live_get},
        {"stats", 1, 1, live_stats},
        {"dump", 1, 1, live_dump},
        {"who", 2, 2, live_who},
    };

    return cmd_run_verb(line, verbs, sizeof verbs / sizeof verbs[0]);
}
