/* common/client/cmd/keyspaces.c - countd keyspaces: all of them, page by
 * page. */
#include <string.h>

#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"

static const struct output_column columns[] = {
    {"keys", "keys", true},
    {"keyspace", "keyspace", false},
};

static void
print_rows(struct output *out, const struct countd_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct countd_row *row = &rows->rows[i];
        const struct cell cells[] = {
            /* Below zero: its file cannot be read. */
            row->count < 0 ? cell_none() : cell_number(row->count),
            cell_name(row->key, row->key_size),
        };

        output_row(out, cells);
    }
}

/* Asks for those after the last one until none is left. */
static int
print_pages(struct countd *c, struct output *out, int64_t *as_of_ms,
            bool *answered)
{
    struct cmd_name after = {0};
    size_t got;

    do {
        struct countd_rows *rows;
        const int rc = countd_keyspaces(c, after.bytes, after.size, &rows);

        if (rc < 0)
            return rc;
        if (!*answered)
            *as_of_ms = rows->as_of_ms;
        *answered = true;
        got = rows->count;
        print_rows(out, rows);
        if (got > 0) {
            after.size = rows->rows[got - 1].key_size;
            memcpy(after.bytes, rows->rows[got - 1].key, after.size);
        }
        countd_rows_free(rows);
    } while (got > 0);
    return 0;
}

int
cmd_keyspaces(struct cmd_line *line)
{
    int64_t as_of_ms = 0;
    bool answered = false; /* nothing is printed before that */
    struct output out;
    struct countd *c;
    int rc, status;

    status = cmd_connect(line, CMD_READER, 0, &c);
    if (status != 0)
        return status;
    output_init(&out, line, columns, sizeof columns / sizeof columns[0]);
    rc = print_pages(c, &out, &as_of_ms, &answered);
    if (answered)
        output_rows_end(&out);
    if (rc == 0)
        output_as_of(&out, as_of_ms);
    if (answered)
        status = output_fini(&out);
    countd_close(c);
    return rc < 0 ? cmd_peer_failed(line, CMD_READER, rc) : status;
}
