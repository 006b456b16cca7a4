/* common/client/cmd/statsd.c - countd statsd: what StatsD and Graphite senders
 * have sent, and what of it was lost or not counted.
 *
 * countd-write counts it in the keyspaces countd.statsd and countd.graphite, so
 * they cover all of its runs.  Read from the end: cmd_statsd(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"

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

/* One protocol: false, if nothing of it was counted. */
static int
print_protocol(struct countd *c, size_t protocol, struct output *out)
{
    const char *const *fields = protocols[protocol].fields;
    const char *keyspace = protocols[protocol].keyspace;
    struct countd_key keys[FIELDS_MAX];
    size_t count = 0;
    bool any = false;
    int rc;

    for (; fields[count]; count++)
        keys[count] = (struct countd_key){.keyspace = keyspace,
                                          .keyspace_size = strlen(keyspace),
                                          .key = fields[count],
                                          .key_size = strlen(fields[count])};
    rc = countd_gets(c, keys, count);
    for (size_t i = 0; i < count; i++)
        any = any || keys[i].result == 0;
    for (size_t i = 0; any && i < count; i++)
        output_row(
            out, (const struct cell[]){
                     cell_text(protocols[protocol].name), cell_text(fields[i]),
                     cell_number(keys[i].result == 0 ? keys[i].count : 0)});
    return rc < 0 ? rc : any;
}

int
cmd_statsd(struct cmd_line *line)
{
    static struct output out;
    struct countd *c;
    int64_t as_of_ms = 0;
    int status, rc, any = 0;

    status = cmd_connect(line, CMD_READER, 0, &c);
    if (status != 0)
        return status;
    rc = countd_as_of(c, protocols[0].keyspace, strlen(protocols[0].keyspace),
                      &as_of_ms);
    if (rc == 0)
        output_init(&out, line, OUTPUT_COLUMNS(columns));
    for (size_t i = 0; rc >= 0 && i < PROTOCOLS; i++) {
        rc = print_protocol(c, i, &out);
        any |= rc > 0;
    }
    (void)countd_close(c); /* nothing was sent to be counted */
    if (rc < 0)
        return cmd_peer_failed(line, CMD_READER, rc);
    output_rows_end(&out);
    if (any || out.format == OUTPUT_JSON)
        output_as_of(&out, as_of_ms);
    status = output_fini(&out);
    if (any || status != 0)
        return status;
    diag(DIAG_INFO, "nothing was received, or statsd.self is off");
    return CONFIG_EXIT_NEGATIVE;
}
