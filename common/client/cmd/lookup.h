/* common/client/cmd/lookup.h - a command that asks the reader about a keyspace
 * or a key: the names, the connection, the output.
 *
 *     status = lookup_open(l, line, 2);
 *     if (status != 0)
 *         return status;
 *     rc = countd_...(l->c, ...);
 *     if (rc == 0) {
 *         lookup_begin(l, columns, 3);
 *         ...
 *         status = output_fini(&l->out);
 *     }
 *     return lookup_close(l, CMD_READER, rc, status);
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_LOOKUP_H
#define COUNTD_COMMON_CLIENT_CMD_LOOKUP_H

#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"

struct lookup {
    const struct cmd_line *line;
    struct countd *c;
    struct cmd_name keyspace, key; /* of size 0: not given */
    int64_t offset;                /* of lookup_pages() */
    struct output out;
};

/* The first `names` arguments are a keyspace and a key.  Says what is wrong;
 * an exit status. */
int lookup_open(struct lookup *l, const struct cmd_line *line, int names);

/* Begins the output; its first facts are the names. */
void lookup_begin(struct lookup *l, const struct table_column *columns,
                  size_t column_count);

/* Closes the connection.  The exit status: `status` if all went well; that of
 * the error `rc`, of which -ENOENT is a negative answer that the caller has
 * reported, but for CMD_HISTORY. */
int lookup_close(struct lookup *l, enum cmd_peer peer, int rc, int status);

/* Calls `page` for the rows of the keyspace from l->offset on, `length` at
 * most, one request after the other; l->offset is that of the page, and `page`
 * may correct it.  *changed: there were several requests, and the keyspace is
 * not what `before` says any more.  0, also when `page` stopped it with a value
 * above 0, or an error. */
int lookup_pages(struct lookup *l, int64_t length,
                 int (*page)(void *ctx, const struct countd_rows *rows),
                 void *ctx, const struct countd_facts *before, bool *changed);

/* countd get of several keys; an exit status. */
int lookup_keys(const struct cmd_line *line);

/* countd top and rank of a period: whether the line asks about one; an exit
 * status. */
bool lookup_is_period(const struct cmd_line *line);
int lookup_period_top(const struct cmd_line *line, int64_t length);
int lookup_period_rank(const struct cmd_line *line);

#endif
