/* common/client/cmd/ask.h - a command that only asks countd-read, between ask.c,
 * which asks, and ask_people.c, which prints for people. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_ASK_H
#define COUNTD_COMMON_CLIENT_CMD_ASK_H

#include "common/client/cmd/cmd_terminal.h"
#include "common/client/lib/document.h"

/* What people see: these members of each row, or where the answer has no rows
 * one row of its own members; a single one of those stands alone. */
struct ask_form {
    const char *path; /* path behind /v1, to ask at */
    const struct table_column *columns;
    size_t count;
    unsigned bar_width; /* on a terminal, of `sum`: in one column more */
};

enum ask_time { TIME_NEVER, TIME_IF_GIVEN, TIME_ALWAYS };

struct ask_question {
    const char *command;
    const char *arguments[3]; /* the parameters that they are */
    enum ask_time time;       /* whether --from, --to and --step are sent */
    int64_t rows, rows_max;   /* usually, and at most; 0: that is not said */
    struct ask_form form;
    struct ask_form other; /* form for a period, or for several keys */
    struct ask_form some;  /* form for a prefix or groups of all time */
};

struct ask {
    const struct cmd_line *line;
    const struct ask_question *question;
    const struct ask_form *form;
    bool has_time, utc;
    struct time_range span;
    int64_t step;   /* seconds of a step of history; else 0 */
    int64_t offset; /* first row of a range */
    int64_t rows;   /* rows still wanted */
    struct increment_name prefix, group, after; /* options; size 0: not given */
    struct countd *c;

    /* Of the documents: */
    size_t pages;
    char next[2048];  /* parameter of the next page; "": this is the last */
    char version[64]; /* version of the first page */
    bool has_changed;
    char *ending; /* in JSON: what follows the rows of the first page */
    int64_t from, to, since, saturated, as_of_ms;

    /* For people: */
    struct cell cells[TABLE_COLUMNS_MAX]; /* cells of the row that is read */
    char texts[TABLE_COLUMNS_MAX][NAME_TEXT_SIZE];
    unsigned width; /* columns of the terminal; 0: no terminal */
    double *sums;   /* sums of all rows, where bars are drawn */
    size_t sum_count;
    double most; /* the largest of the sums */
    struct output out;
};

/* Whether a parameter or a member is a name. */
static inline bool
ask_is_name(const char *parameter)
{
    return strcmp(parameter, "keyspace") == 0 ||
           strcmp(parameter, "key") == 0 || strcmp(parameter, "prefix") == 0;
}

static inline bool
ask_is_range(const struct ask *a)
{
    return strcmp(a->form->path, "range") == 0;
}

/* Prints the rows of a document, or its facts where it has none; behind the last
 * document what else there is to say. */
void ask_print_people(struct ask *a, struct document *d);
void ask_report_people(struct ask *a);

#endif
