/* common/client/cmd/around.c - countd around: the neighbours of a key. */
#include <errno.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/wire/query.h"

#define ROWS 11

static const struct table_column columns[] = {
    {"rank", "rank", true},
    {"count", "count", true},
    {"key", "key", false},
};

static int
print_rows(const struct cmd_line *line, const struct cmd_name *keyspace,
           const struct cmd_name *key, int64_t first,
           const struct countd_rows *rows)
{
    struct output out;

    output_init(&out, line, columns, sizeof columns / sizeof columns[0]);
    output_fact(&out, "keyspace", cell_name(keyspace->bytes, keyspace->size));
    output_fact(&out, "key", cell_name(key->bytes, key->size));
    for (size_t i = 0; i < rows->count; i++) {
        const struct countd_row *row = &rows->rows[i];
        const struct cell cells[] = {
            cell_number(first + (int64_t)i),
            cell_number(row->count),
            cell_name(row->key, row->key_size),
        };

        output_row(&out, cells);
    }
    output_rows_end(&out);
    output_as_of(&out, rows->as_of_ms);
    return output_fini(&out);
}

int
cmd_around(struct cmd_line *line)
{
    struct cmd_name keyspace, key;
    struct countd_rows *rows;
    int64_t length = ROWS, first;
    struct countd *c;
    int rc, status;

    status = cmd_name(line, line->args[0], "keyspace", &keyspace);
    if (status == 0)
        status = cmd_name(line, line->args[1], "key", &key);
    if (status == 0 && line->arg_count > 2)
        status = cmd_number(line->args[2], "N", 1, QUERY_AROUND_MAX, &length);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, 0, &c);
    if (status != 0)
        return status;
    rc = countd_around(c, keyspace.bytes, keyspace.size, key.bytes, key.size,
                       length, &first, &rows);
    (void)countd_close(c); /* nothing was sent to be counted */
    if (rc == -ENOENT) {
        diag(DIAG_INFO, "no such key");
        return CONFIG_EXIT_NEGATIVE;
    }
    if (rc < 0)
        return cmd_peer_failed(line, CMD_READER, rc);
    status = print_rows(line, &keyspace, &key, first, rows);
    countd_rows_free(rows);
    return status;
}
