/* common/client/cmd/statsd.c - countd statsd: what StatsD and Graphite senders
 * have sent, and what of it was lost or not counted.
 *
 * countd-write counts it in the keyspaces countd.statsd and countd.graphite, so
 * they cover all of its runs.  Rows of the first come in pages: one for
 * each statistic, and three for each sender that numbers its datagrams.  Read
 * from the end: cmd_statsd(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/wire/query.h"

#define FIELDS_MAX 16

static const struct table_column columns[] = {
    {"protocol", "protocol", false},
    {"figure", "figure", false},
    {"count", "count", true},
};

static const struct table_column sender_columns[] = {
    {"sender", "sender", false},
    {"numbered", "numbered", true},
    {"missing", "missing", true},
    {"repeated", "repeated", true},
};

static const struct {
    const char *name;
    const char *keyspace;
    const char *fields[FIELDS_MAX];
} protocols[] = {
    {"statsd",
     "countd.statsd",
     {"datagrams", "dropped", "not_allowed", "too_long", "connections", "lines",
      "bad", "ignored.gauge", "ignored.set", "ignored.event", "ignored.check",
      "ignored.timer", "rounded", NULL}},
    {"graphite",
     "countd.graphite",
     {"connections", "lines", "bad", "ignored", NULL}},
};

#define PROTOCOLS (sizeof protocols / sizeof protocols[0])

enum { NUMBERED, MISSING, REPEATED, SENDER_COUNTS };

static const char *const prefixes[SENDER_COUNTS] = {"numbered.", "missing.",
                                                    "repeated."};

struct sender_row {
    struct cmd_name name;
    int64_t counts[SENDER_COUNTS];
};

struct statsd_command {
    struct countd *c;
    size_t rows[PROTOCOLS];
    int64_t counts[PROTOCOLS][FIELDS_MAX]; /* of the fields */
    int64_t as_of_ms;
    struct sender_row *senders;
    size_t sender_count, sender_capacity;
    struct output out;
};

/* ---- what there is ------------------------------------------------------ */

/* Takes a row that is a figure of a sender. */
static int
add_sender(struct statsd_command *s, const struct countd_row *row)
{
    for (int i = 0; i < SENDER_COUNTS; i++) {
        const size_t size = strlen(prefixes[i]);
        struct sender_row *one;

        if (row->key_size <= size || row->key_size - size > NAME_MAX_SIZE ||
            memcmp(row->key, prefixes[i], size) != 0)
            continue;
        if (array_grow(&s->senders, &s->sender_capacity, s->sender_count + 1,
                       sizeof *s->senders) < 0)
            return -ENOMEM;
        one = &s->senders[s->sender_count++];
        *one = (struct sender_row){.name = {.size = row->key_size - size}};
        memcpy(one->name.bytes, row->key + size, one->name.size);
        one->counts[i] = row->count;
    }
    return 0;
}

static int
take_row(struct statsd_command *s, size_t protocol,
         const struct countd_row *row)
{
    const char *const *fields = protocols[protocol].fields;

    for (size_t i = 0; fields[i]; i++)
        if (bytes_equal(row->key, row->key_size, fields[i], strlen(fields[i])))
            s->counts[protocol][i] = row->count;
    return protocol == 0 ? add_sender(s, row) : 0;
}

/* All rows of a keyspace; one that does not exist has none. */
static int
read_keyspace(struct statsd_command *s, size_t protocol)
{
    const char *keyspace = protocols[protocol].keyspace;
    size_t got;
    int rc;

    do {
        struct countd_rows *rows;

        rc = countd_range(s->c, keyspace, strlen(keyspace),
                          (int64_t)s->rows[protocol], QUERY_ROWS_MAX, &rows);
        if (rc < 0)
            return rc;
        if (s->as_of_ms == 0)
            s->as_of_ms = rows->as_of_ms;
        got = rows->count;
        s->rows[protocol] += got;
        for (size_t i = 0; rc == 0 && i < got; i++)
            rc = take_row(s, protocol, &rows->rows[i]);
        countd_rows_free(rows);
    } while (rc == 0 && got == QUERY_ROWS_MAX);
    return rc;
}

static int
compare_senders(const void *a, const void *b)
{
    const struct sender_row *x = a, *y = b;

    return bytes_compare(x->name.bytes, x->name.size, y->name.bytes,
                         y->name.size);
}

/* One row for each sender, in the order of names. */
static void
join_senders(struct statsd_command *s)
{
    size_t used = 0;

    if (s->sender_count > 0)
        qsort(s->senders, s->sender_count, sizeof *s->senders, compare_senders);
    for (size_t i = 0; i < s->sender_count; i++) {
        if (used == 0 ||
            compare_senders(&s->senders[used - 1], &s->senders[i]) != 0) {
            s->senders[used++] = s->senders[i];
            continue;
        }
        for (int j = 0; j < SENDER_COUNTS; j++)
            s->senders[used - 1].counts[j] += s->senders[i].counts[j];
    }
    s->sender_count = used;
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
    if (s->sender_count > 0 || s->out.format == OUTPUT_JSON) {
        output_next_rows(&s->out, "senders", OUTPUT_COLUMNS(sender_columns));
        for (size_t i = 0; i < s->sender_count; i++) {
            const struct sender_row *one = &s->senders[i];

            output_row(&s->out, (const struct cell[]){
                                    cell_name(one->name.bytes, one->name.size),
                                    cell_number(one->counts[NUMBERED]),
                                    cell_number(one->counts[MISSING]),
                                    cell_number(one->counts[REPEATED])});
        }
        output_rows_end(&s->out);
    }
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
    join_senders(&s);
    status = rc == 0 ? print_all(&s, line) : 0;
    if (rc == 0 && status == 0 && s.rows[0] + s.rows[1] == 0) {
        diag(DIAG_INFO, "nothing was received, or statsd.self is off");
        status = CONFIG_EXIT_NEGATIVE;
    }
    free(s.senders);
    countd_close(s.c);
    return rc < 0 ? cmd_peer_failed(line, CMD_READER, rc) : status;
}
