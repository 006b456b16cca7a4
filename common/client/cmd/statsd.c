/* common/client/cmd/statsd.c - countd statsd: what StatsD and Graphite senders
 * have sent, and what of it was lost or not counted.
 *
 * countd-write counts it in the keyspaces countd.statsd and countd.graphite, so
 * they cover all of its runs.  Read from the end: cmd_statsd(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/lib/document.h"

#define FIELDS_MAX 16

static const struct table_column columns[] = {
    {"protocol", "protocol", false},
    {"figure", "figure", false},
    {"count", "count", true},
};

static const struct {
    const char *name;
    const char *keyspace;
    const char *fields[FIELDS_MAX];
} protocols[] = {
    {"statsd",
     "countd.statsd",
     {"datagrams", "dropped", "not_allowed", "too_long", "connections", "lines",
      "bad", "no_memory", "ignored.gauge", "ignored.set", "ignored.event",
      "ignored.check", "ignored.timer", "rounded", NULL}},
    {"graphite",
     "countd.graphite",
     {"connections", "lines", "bad", "no_memory", "ignored", NULL}},
};

#define PROTOCOLS (sizeof protocols / sizeof protocols[0])

struct statsd_command {
    struct countd *c;
    size_t rows[PROTOCOLS];
    int64_t counts[PROTOCOLS][FIELDS_MAX]; /* of the fields */
    int64_t as_of_ms;
    struct output out;
};

/* ---- what there is ------------------------------------------------------ */

static void
take_row(struct statsd_command *s, size_t protocol,
         const struct countd_row *row)
{
    const char *const *fields = protocols[protocol].fields;

    for (size_t i = 0; fields[i]; i++)
        if (bytes_equal(row->key, row->key_size, fields[i], strlen(fields[i])))
            s->counts[protocol][i] = row->count;
}

/* All rows of a keyspace; one that does not exist has none. */
static int
read_keyspace(struct statsd_command *s, size_t protocol)
{
    const char *keyspace = protocols[protocol].keyspace;
    int64_t first;
    size_t got;
    int rc;

    do {
        struct countd_rows *rows;

        rc = document_range(s->c, keyspace, strlen(keyspace),
                            (int64_t)s->rows[protocol], COUNTD_ROWS_MAX, &first,
                            &rows);
        if (rc < 0)
            return rc;
        if (s->as_of_ms == 0)
            s->as_of_ms = rows->as_of_ms;
        got = rows->count;
        s->rows[protocol] += got;
        for (size_t i = 0; i < got; i++)
            take_row(s, protocol, &rows->rows[i]);
        countd_rows_free(rows);
    } while (got == COUNTD_ROWS_MAX);
    return 0;
}

/* ---- printing ----------------------------------------------------------- */

static void
print_protocol(struct statsd_command *s, size_t protocol)
{
    const char *const *fields = protocols[protocol].fields;

    for (size_t i = 0; fields[i]; i++)
        output_row(&s->out,
                   (const struct cell[]){cell_text(protocols[protocol].name),
                                         cell_text(fields[i]),
                                         cell_number(s->counts[protocol][i])});
}

static int
print_all(struct statsd_command *s, const struct cmd_line *line)
{
    output_init(&s->out, line, OUTPUT_COLUMNS(columns));
    for (size_t p = 0; p < PROTOCOLS; p++)
        if (s->rows[p] > 0)
            print_protocol(s, p);
    output_rows_end(&s->out);
    if (s->rows[0] + s->rows[1] > 0 || s->out.format == OUTPUT_JSON)
        output_as_of(&s->out, s->as_of_ms);
    return output_fini(&s->out);
}

int
cmd_statsd(struct cmd_line *line)
{
    static struct statsd_command s;
    int status, rc;

    status = cmd_connect(line, CMD_READER, 0, &s.c);
    if (status != 0)
        return status;
    rc = read_keyspace(&s, 0);
    if (rc == 0)
        rc = read_keyspace(&s, 1);
    status = rc == 0 ? print_all(&s, line) : 0;
    if (rc == 0 && status == 0 && s.rows[0] + s.rows[1] == 0) {
        diag(DIAG_INFO, "nothing was received, or statsd.self is off");
        status = CONFIG_EXIT_NEGATIVE;
    }
    countd_close(s.c);
    return rc < 0 ? cmd_peer_failed(line, CMD_READER, rc) : status;
}
