/* common/client/cmd/ask_people.c - documents of /v1 as people see them; see
 * ask.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/ask.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"

/* ---- rows ------------------------------------------------------ */

/* The member of a row as the cell of its column. */
static void
take_cell(struct ask *a, struct document *d)
{
    for (size_t i = 0; i < a->form->count; i++) {
        const char *key = a->form->columns[i].key;
        char *text = a->texts[i];
        int64_t number = 0;

        if (ask_is_name(key)) {
            const int size =
                d->in_rows ? document_name(d, key, (uint8_t *)text) : -1;

            if (size >= 0)
                a->cells[i] = cell_name(text, (size_t)size);
        } else if (!document_is(d, key) || d->token == JSON_NULL) {
            continue;
        } else if (strcmp(key, "rank") == 0) {
            document_number(d, key, &number);
            a->cells[i] = cell_number(number + 1); /* people begin with 1 */
        } else if (strcmp(key, "from") == 0) {
            document_number(d, key, &number);
            cmd_time_format((uint64_t)number * 1000, a->utc, text);
            a->cells[i] = cell_text(text);
        } else {
            (void)snprintf(text, NAME_TEXT_SIZE, "%.*s", (int)d->r.size,
                           (const char *)d->r.text);
            a->cells[i] = cell_text(text);
        }
    }
}

static void
take_fact(struct ask *a, struct document *d)
{
    document_number(d, "from", &a->from);
    document_number(d, "to", &a->to);
    document_number(d, "since", &a->since);
    document_number(d, "saturated", &a->saturated);
    if (a->pages == 0)
        document_number(d, "as_of_ms", &a->as_of_ms);
}

static void
print_row(struct ask *a, size_t row)
{
    char bar[CHART_BAR_MAX + 1] = "";

    if (a->sums)
        chart_bar(a->sums[row], a->most, a->form->bar_width, bar);
    a->cells[a->form->count] = cell_text(bar);
    output_row(&a->out, a->cells);
    memset(a->cells, 0, sizeof a->cells); /* none */
}

/* The sums of all rows, for bars; where there is no memory there are none. */
static void
read_sums(struct ask *a, struct document *d)
{
    const size_t rows = document_rows_max(d);

    if (a->width == 0 || a->form->bar_width == 0)
        return;
    a->sums = malloc(rows * sizeof *a->sums);
    if (!a->sums)
        return;
    for (size_t i = 0; i < rows; i++)
        a->sums[i] = NAN;
    while (document_next(d))
        if (d->in_rows && document_is(d, "sum") && d->token == JSON_NUMBER) {
            const double sum = strtod((const char *)d->r.text, NULL);

            a->sums[d->row] = sum;
            a->most = fabs(sum) > a->most ? fabs(sum) : a->most;
        }
    a->sum_count = d->row;
    document_rewind(d);
    a->out.column_count = a->form->count + 1;
}

static void
print_facts(struct ask *a)
{
    char text[NAME_TEXT_SIZE];
    const struct cell *c = &a->cells[0];

    if (a->form->count > 1)
        print_row(a, 0);
    else
        (void)printf("%s\n", cell_plain(c, false, text));
}

/* Prints the rows of a document, or its facts where it has none. */
void
ask_print_people(struct ask *a, struct document *d)
{
    size_t printed = 0;

    read_sums(a, d);
    while (document_next(d)) {
        for (; printed < d->row; printed++)
            print_row(a, printed);
        take_cell(a, d);
        if (!d->in_rows)
            take_fact(a, d);
    }
    for (; printed < d->row; printed++)
        print_row(a, printed);
    if (!d->rows)
        print_facts(a);
}

/* Prints what people see behind the rows. */
void
ask_report_people(struct ask *a)
{
    char from[TIME_TEXT_SIZE], to[TIME_TEXT_SIZE], line[CHART_LINE_SIZE];

    if (a->step > 0 && a->sums && a->sum_count > 1) {
        chart_spark(a->sums, a->sum_count, a->width, chart_is_utf8(), line);
        (void)puts(line);
    }
    if (a->from > 0 && a->has_time && a->step == 0) {
        cmd_time_format((uint64_t)a->from * 1000, a->utc, from);
        cmd_time_format((uint64_t)a->to * 1000, a->utc, to);
        (void)printf("from %s to %s\n", from, to);
    }
    if (a->has_time && a->since > (a->step > 0 ? a->span.from : a->from)) {
        cmd_time_format((uint64_t)a->since * 1000, a->utc, from);
        diag(DIAG_INFO,
             "history before %s may be incomplete: steps this short are not "
             "retained longer",
             from);
    }
    if (a->saturated > 0 && ask_is_range(a))
        diag(DIAG_INFO,
             "saturated=%" PRId64
             " of the keyspace's counters, which once left "
             "the range of 64 bits; countd get shows which",
             a->saturated);
    else if (a->saturated > 0 && strcmp(a->form->path, "get") == 0)
        diag(DIAG_INFO, "saturated: a sum once left the range of 64 bits, so "
                        "the count is not exact");
}
