/* common/client/cmd/keyspaces.c - countd keyspaces: the keyspaces, the
 * number of their keys, their totals, and their files.
 *
 * A document of /v1 has up to 4096 of them; the next one those that come
 * after. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "common/client/cmd/cmd.h"
#include "common/client/lib/document.h"

#define FILE_SIZE (NAME_FILE_SIZE + sizeof ".mdb")

static const struct table_column columns[] = {
    {"keys", "keys", true},  {"total", "total", true},
    {"size", "size", true},  {"keyspace", "keyspace", false},
    {"file", "file", false},
};

#define NUMBERS 3 /* the first columns: -1 where there is none */

struct keyspaces_list {
    struct output out;
    struct cmd_name name; /* of the row, then the last one */
    int64_t numbers[NUMBERS];
    bool has_number[NUMBERS];
    char file[FILE_SIZE];
    int64_t as_of_ms;
};

static void
begin_row(struct keyspaces_list *l)
{
    memset(l->has_number, 0, sizeof l->has_number);
    l->file[0] = '\0';
}

static void
print_row(struct keyspaces_list *l)
{
    struct cell cells[] = {cell_none(), cell_none(), cell_none(),
                           cell_name(l->name.bytes, l->name.size),
                           l->file[0] != '\0' ? cell_text(l->file)
                                              : cell_none()};

    for (size_t i = 0; i < NUMBERS; i++)
        if (l->has_number[i])
            cells[i] = cell_number(l->numbers[i]);
    output_row(&l->out, cells);
    begin_row(l);
}

static void
take_member(struct keyspaces_list *l, struct document *d)
{
    const int size = document_name(d, "keyspace", l->name.bytes);

    if (size >= 0)
        l->name.size = (size_t)size;
    for (size_t i = 0; i < NUMBERS; i++)
        if (document_is(d, columns[i].key) && d->token != JSON_NULL) {
            document_number(d, columns[i].key, &l->numbers[i]);
            l->has_number[i] = true;
        }
    if (document_is(d, "file") && d->token == JSON_STRING)
        (void)snprintf(l->file, sizeof l->file, "%.*s", (int)d->r.size,
                       (const char *)d->r.text);
}

/* Prints the rows of a document; returns how many. */
static size_t
print_rows(struct keyspaces_list *l, struct document *d)
{
    size_t printed = 0;
    int64_t as_of_ms = 0;

    begin_row(l);
    while (document_next(d)) {
        for (; printed < d->row; printed++)
            print_row(l);
        if (d->in_rows)
            take_member(l, d);
        document_number(d, "as_of_ms", &as_of_ms);
    }
    for (; printed < d->row; printed++)
        print_row(l);
    if (l->as_of_ms == 0)
        l->as_of_ms = as_of_ms;
    return printed;
}

int
cmd_keyspaces(struct cmd_line *line)
{
    struct keyspaces_list l = {.as_of_ms = 0};
    struct countd *c;
    size_t count;
    int rc, status;

    status = cmd_connect(line, CMD_READER, 0, &c);
    if (status != 0)
        return status;
    do {
        struct document d;

        document_begin(&c->asking, &d, "keyspaces");
        if (l.name.size > 0)
            document_put_name(&d, "after", l.name.bytes, l.name.size);
        count = 0;
        rc = document_ask(&d);
        if (rc == 0 && l.name.size == 0)
            output_init(&l.out, line, OUTPUT_COLUMNS(columns));
        if (rc == 0)
            count = print_rows(&l, &d);
        rc = document_end(&d);
    } while (rc == 0 && count == COUNTD_ROWS_MAX);
    if (rc == 0) {
        output_rows_end(&l.out);
        output_as_of(&l.out, l.as_of_ms);
        status = output_fini(&l.out);
    }
    (void)countd_close(c); /* nothing was sent to be counted */
    return rc < 0 ? cmd_peer_failed(line, CMD_READER, rc) : status;
}
