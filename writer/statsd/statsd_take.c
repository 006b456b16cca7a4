/* writer/statsd/statsd_take.c - what lines and datagrams do; see statsd.h.
 *
 *     take_lines()            a TCP connection's bytes
 *     statsd_take_datagram()  a datagram's lines
 *     statsd_take_line()      one line: parse, name, add to the sums */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/statsd.h"

#include <errno.h>
#include <string.h>

#include "common/wire/carbon_line.h"
#include "common/wire/event_time.h"
#include "common/wire/first_bytes.h"
#include "common/wire/name.h"

#define TIMER_COUNT   ".timer.count"
#define TIMER_SUM     ".timer.sum"
#define SHORTEST_LINE 6 /* "a:1|c" and LF */

/* ---- names --------------------------------------------------------------- */

/* Where the first `parts` dot-separated parts of a name end; 0: the name is not
 * split, because it has no more parts, an empty one, or nothing after them. */
static size_t
find_split(const uint8_t *name, size_t size, uint64_t parts)
{
    size_t start = 0;

    for (size_t i = 0; parts > 0 && i < size; i++) {
        if (name[i] != '.')
            continue;
        if (i == start)
            return 0;
        start = i + 1;
        if (--parts == 0)
            return start < size ? i : 0;
    }
    return 0;
}

/* Of the keyspace, by enum statsd_part. */
static const char *const suffixes[] = {"", TIMER_COUNT, TIMER_SUM, ""};

/* The (keyspace, key) of a name as statsd.keyspace and statsd.split say.  The
 * keyspace is written to `keyspace`. */
static struct message
name_of(const struct config *c, enum statsd_part part, const uint8_t *key,
        size_t key_size, char keyspace[2 * MESSAGE_NAME_MAX])
{
    const uint8_t *tags = memchr(key, ';', key_size);
    const char *suffix = suffixes[part];
    size_t split;
    char *end;

    split = find_split(key, tags ? (size_t)(tags - key) : key_size,
                       c->statsd_split);
    if (split > 0 && split + strlen(suffix) <= c->keyspace_size) {
        end = mempcpy(keyspace, key, split);
        key += split + 1;
        key_size -= split + 1;
    } else {
        end = stpcpy(keyspace, c->statsd_keyspace);
    }
    end = stpcpy(end, suffix);
    return (struct message){.keyspace = (const uint8_t *)keyspace,
                            .key = key,
                            .keyspace_size = (uint16_t)(end - keyspace),
                            .key_size = (uint16_t)key_size};
}

/* The minute of a line's time that is more than `late_ms` ago; 0: it is of now,
 * as all are for which late_ms is 0. */
static uint32_t
late_minute(const struct statsd *s, uint64_t late_ms, int64_t at)
{
    if (late_ms == 0 || at < EVENT_TIME_MIN ||
        (uint64_t)at > loop_unix_ms(s->loop) / 1000 ||
        loop_unix_ms(s->loop) - (uint64_t)at * 1000 <= late_ms)
        return 0;
    return (uint32_t)(at / 60);
}

/* No more is read until a flush has made room. */
static void
pause_reading(struct statsd *s)
{
    s->pressed = true;
    datagram_pause(&s->datagrams, true);
}

static void
add_name(struct statsd *s, const struct statsd_sum *sum, int128 millionths,
         uint64_t late_ms)
{
    char keyspace[2 * MESSAGE_NAME_MAX];
    struct message name =
        name_of(s->config, sum->part, sum->key, sum->key_size, keyspace);

    name.minute = late_minute(s, late_ms, sum->at);
    if (aggregate_add(&s->sums, &name, millionths) == 0)
        return;
    s->counts[s->taken][STATSD_NO_MEMORY]++;
    diag_repeating(&s->memory_warning, DIAG_WARNING,
                   "statsd.memory=%llu has no room for the names of a line, "
                   "some of which are not counted; raise it",
                   (unsigned long long)s->config->statsd_memory);
    pause_reading(s);
}

/* The latest Unix second that a sample can be of. */
static int64_t
latest_second(const struct statsd *s)
{
    return (int64_t)(loop_unix_ms(s->loop) / 1000) + EVENT_TIME_AHEAD;
}

static void
add_increment(void *ctx, const struct statsd_sum *sum, int128 millionths)
{
    struct statsd *s = ctx;

    if (sum->part == STATSD_PART_TOTAL)
        millionths = totals_take(&s->totals,
                                 &(struct total){sum->key, sum->key_size,
                                                 STATSD_LINE_PROTOCOL, sum->at,
                                                 millionths, latest_second(s)});
    if (sum->part != STATSD_PART_TOTAL || millionths != 0)
        add_name(s, sum, millionths, s->config->statsd_late_ms);
}

bool
statsd_has_memory(struct statsd *s, size_t bytes)
{
    /* Of plain lines the shortest timers cost most: each has a name in two
     * keyspaces.  What a line has beyond that adds its own bytes to both.  With
     * several sets of tags, 7 bytes at least, a line has its name as often. */
    const size_t keyspace =
        strlen(s->config->statsd_keyspace) + sizeof TIMER_COUNT;
    const size_t key = s->config->statsd_tags ? s->config->key_size : 1;
    const size_t needed =
        (bytes / SHORTEST_LINE + 1) * 2 * aggregate_name_size(keyspace, key) +
        2 * bytes;
    const size_t most = s->sums.free_aged;

    if (aggregate_free(&s->sums) >= (needed < most ? needed : most))
        return true;
    pause_reading(s);
    return false;
}

/* ---- lines --------------------------------------------------------------- */

static void
refuse_line(struct statsd *s, enum statsd_protocol protocol,
            const uint8_t *line, size_t size, const char *why)
{
    char shown[NAME_SHOWN_SIZE];

    s->counts[protocol][STATSD_BAD]++;
    diag_repeating(&s->bad_warning, DIAG_WARNING,
                   "%s: a malformed line was not counted: %s: %s",
                   protocol == STATSD_LINE_PROTOCOL ? "statsd" : "graphite",
                   why, name_show(line, size, shown));
}

static void
take_statsd_line(struct statsd *s, const uint8_t *line, size_t size)
{
    static const struct {
        enum statsd_kind kind;
        enum statsd_stat stat;
    } ignored[] = {{STATSD_GAUGE, STATSD_IGNORED_GAUGE},
                   {STATSD_SET, STATSD_IGNORED_SET},
                   {STATSD_EVENT, STATSD_IGNORED_EVENT},
                   {STATSD_CHECK, STATSD_IGNORED_CHECK}};
    const struct statsd_sink sink = {add_increment, s};
    uint64_t *counts = s->counts[STATSD_LINE_PROTOCOL];
    const char *why;
    const int kinds = statsd_line(s->config, line, size, &sink, &why);

    if (kinds < 0) {
        refuse_line(s, STATSD_LINE_PROTOCOL, line, size, why);
        return;
    }
    if (kinds == STATSD_COUNTER)
        return;
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        if ((kinds & (int)ignored[i].kind) != 0)
            counts[ignored[i].stat]++;
    if ((kinds & STATSD_TIMER) != 0 && !s->config->statsd_timers)
        counts[STATSD_IGNORED_TIMER]++;
}

static void
take_graphite_line(struct statsd *s, const uint8_t *line, size_t size)
{
    const struct config *config = s->config;
    bool is_total = config->graphite_total[0] != '\0';
    int rc = CARBON_IGNORED;
    struct carbon_sample c;
    const char *why;

    if (is_total)
        rc = carbon_line(config->graphite_total, line, size, &c, &why);
    if (rc == CARBON_IGNORED) {
        is_total = false;
        rc = carbon_line(config->graphite_count, line, size, &c, &why);
    }
    if (rc == CARBON_COUNTED && is_total &&
        (c.millionths < 0 || c.path_size > MESSAGE_NAME_MAX)) {
        rc = -EBADMSG;
        why = c.millionths < 0
                  ? "a total of graphite.total is below 0"
                  : "a path of graphite.total is longer than 256 bytes";
    }
    if (rc == CARBON_COUNTED && c.name_size > s->config->key_size) {
        rc = -EBADMSG;
        why = "a name is longer than message.key_size";
    }
    if (rc < 0)
        refuse_line(s, GRAPHITE_LINE_PROTOCOL, line, size, why);
    else if (rc == CARBON_IGNORED)
        s->counts[GRAPHITE_LINE_PROTOCOL][STATSD_IGNORED]++;
    else {
        if (is_total)
            c.millionths = totals_take(
                &s->totals,
                &(struct total){c.path, c.path_size, GRAPHITE_LINE_PROTOCOL,
                                c.at, c.millionths, latest_second(s)});
        if (!is_total || c.millionths != 0)
            add_name(s,
                     &(struct statsd_sum){STATSD_PART_COUNTER, c.name,
                                          c.name_size, c.at},
                     c.millionths, config->graphite_late_ms);
    }
}

/* Bytes of a line without the CR at its end. */
static size_t
line_end(const uint8_t *line, size_t size)
{
    return size > 0 && line[size - 1] == '\r' ? size - 1 : size;
}

void
statsd_take_line(struct statsd *s, enum statsd_protocol protocol,
                 const uint8_t *line, size_t size)
{
    size = line_end(line, size);
    if (size == 0)
        return;
    s->counts[protocol][STATSD_LINES]++;
    s->taken = protocol;
    if (protocol == STATSD_LINE_PROTOCOL)
        take_statsd_line(s, line, size);
    else
        take_graphite_line(s, line, size);
}

/* Whether bytes begin with a long header of QUIC, of any version: two bits, the
 * version in four bytes, and the length of a connection id, 8 to 20 in the
 * first packets of a client. A line can have these bytes only if it ends there,
 * after a name of one byte: the version is then text. */
static bool
is_quic(const uint8_t *bytes, size_t size)
{
    if (size < 6 || bytes[0] < 0xc0 || bytes[5] > 20)
        return false;
    for (size_t i = 1; i <= 4; i++)
        if (bytes[i] < 0x20 || bytes[i] > 0x7e)
            return true;
    return bytes[5] != '\n' && bytes[5] != '\r';
}

/* Whether a connection or a datagram begins with TLS, QUIC or, with a NUL, with
 * STUN or DTLS: a browser sends them, and a web page chooses bytes within. */
static bool
is_binary(const uint8_t *bytes, size_t size)
{
    if (is_quic(bytes, size))
        return true;
    if (size > FIRST_BYTES_SIZE)
        size = FIRST_BYTES_SIZE;
    return memchr(bytes, '\0', size) != NULL ||
           (size >= 2 && bytes[0] == 0x16 && bytes[1] == 0x03);
}

void
statsd_take_datagram(struct statsd *s, const uint8_t *bytes, size_t size)
{
    if (size > 0 && is_binary(bytes, size)) {
        s->counts[STATSD_LINE_PROTOCOL][STATSD_LINES]++;
        refuse_line(s, STATSD_LINE_PROTOCOL, bytes, size,
                    "a datagram that is not lines of text");
        return;
    }
    while (size > 0) {
        const uint8_t *lf = memchr(bytes, '\n', size);
        const size_t line = lf ? (size_t)(lf - bytes) : size;

        statsd_take_line(s, STATSD_LINE_PROTOCOL, bytes, line);
        bytes += lf ? line + 1 : line;
        size -= lf ? line + 1 : line;
    }
}

/* ---- connections --------------------------------------------------------- */

struct lines_state {
    uint64_t begun; /* the first line has been taken */
};

/* Whether a line is the first of an HTTP request: a web page can send any bytes
 * after it, but none before it, and cannot keep it from ending so. */
static bool
is_http(const uint8_t *line, size_t size)
{
    static const char version[] = " HTTP/";
    const size_t tail = sizeof version - 1 + 3; /* "1.1" */

    size = line_end(line, size);
    return size >= tail &&
           memcmp(line + size - tail, version, sizeof version - 1) == 0;
}

static size_t
lines_limit(struct listener *d)
{
    struct statsd *s = ((struct statsd_port *)d->row->ctx)->statsd;

    return statsd_has_memory(s, CONN_SLICE + STATSD_LINE_MAX) ? SIZE_MAX : 0;
}

static enum conn_next
take_lines(struct conn *c, struct input *input)
{
    const struct statsd_port *port = conn_ctx(c);
    struct lines_state *state = conn_state(c);

    while (input->size > 0) {
        const uint8_t *lf = memchr(input->at, '\n', input->size);
        const size_t size = lf ? (size_t)(lf - input->at) : input->size;

        if (line_end(input->at, size) > STATSD_LINE_MAX)
            return conn_refuse(c, "a line above 8192 bytes");
        if (!lf)
            break;
        if (!state->begun && is_http(input->at, size))
            return conn_refuse(c, "an HTTP request");
        if (!state->begun && is_binary(input->at, input->size))
            return conn_refuse(c, "not lines of text");
        state->begun = 1;
        statsd_take_line(port->statsd, port->protocol, input->at, size);
        input->at += size + 1;
        input->size -= size + 1;
    }
    input->need = 0;
    return CONN_NEED_INPUT;
}

/* The peer has closed its side: its last line needs no LF. */
static void
take_last_line(struct conn *c, struct input *input)
{
    const struct statsd_port *port = conn_ctx(c);
    const struct lines_state *state = conn_state(c);

    if (line_end(input->at, input->size) <= STATSD_LINE_MAX &&
        (state->begun || (!is_http(input->at, input->size) &&
                          !is_binary(input->at, input->size))))
        statsd_take_line(port->statsd, port->protocol, input->at, input->size);
}

static void
count_connection(struct conn *c)
{
    const struct statsd_port *port = conn_ctx(c);

    port->statsd->counts[port->protocol][STATSD_CONNECTIONS]++;
}

const struct protocol statsd_lines = {.state_size = sizeof(struct lines_state),
                                      .stop = STOP_DRAIN,
                                      .input_limit = lines_limit,
                                      .take = take_lines,
                                      .rest = take_last_line,
                                      .began = count_connection};
