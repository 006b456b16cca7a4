/* reader/metrics.c - see metrics.h: metrics_check(), metrics_answer(),
 * metrics_end_turn().
 *
 * put_all() writes family after family: put_processes(), put_logs(),
 * put_directory(), then the tables `metrics` and `splits`, then put_users(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/version.h"
#include "common/net/http_query.h"
#include "reader/read_commands.h"

/* Bytes of the longest answer: a row for each place of the board, and the
 * counters of users. */
#define METRICS_MAX (((size_t)1 << 20) + USER_METRICS_TEXT)
#define STEP_NS     1000000 /* of a turn, about */

static_assert(METRICS_MAX <= READ_HTTP_TEXT_MAX, "the buffer is that of texts");

enum scale { SCALE_ONE, SCALE_MS, SCALE_US };

struct metric {
    const char *name, *help;
    enum status_kind kind; /* of the rows that have it */
    size_t value;          /* of them */
};

struct sink {
    char *text;
    size_t size;
    bool is_open;
};

static void put_text(struct sink *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
put_text(struct sink *s, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(s->text + s->size, METRICS_MAX - s->size, format, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < METRICS_MAX - s->size);
    s->size += (size_t)n;
}

/* ---- families ----------------------------------------------------------- */

static bool
ends_with(const char *name, size_t size, const char *end)
{
    const size_t n = strlen(end);

    return size >= n && memcmp(name + size - n, end, n) == 0;
}

/* In OpenMetrics a family's name has no _total and no _info, and has a
 * unit. */
static void
begin_family(struct sink *s, const char *name, const char *help)
{
    static const char *const units[] = {"seconds", "bytes"};
    size_t size = strlen(name);
    const bool is_counter = ends_with(name, size, "_total");
    const char *type = is_counter ? "counter" : "gauge";

    if (s->is_open && is_counter)
        size -= sizeof "_total" - 1;
    if (s->is_open && ends_with(name, size, "_info")) {
        size -= sizeof "_info" - 1;
        type = "info";
    }
    put_text(s, "# HELP %.*s %s.\n# TYPE %.*s %s\n", (int)size, name, help,
             (int)size, name, type);
    for (size_t i = 0; s->is_open && i < 2; i++) {
        const size_t unit = strlen(units[i]);

        if (ends_with(name, size, units[i]) && name[size - unit - 1] == '_')
            put_text(s, "# UNIT %.*s %s\n", (int)size, name, units[i]);
    }
}

static void
put_value(struct sink *s, int64_t value, enum scale scale)
{
    if (scale == SCALE_ONE)
        put_text(s, " %" PRId64 "\n", value);
    else if (scale == SCALE_MS)
        put_text(s, " %.3f\n", (double)value / 1e3);
    else
        put_text(s, " %.6f\n", (double)value / 1e6);
}

/* A family without labels. */
static void
put_one(struct sink *s, const char *name, const char *help, int64_t value,
        enum scale scale)
{
    begin_family(s, name, help);
    put_text(s, "%s", name);
    put_value(s, value, scale);
}

/* ---- rows of daemons ---------------------------------------------------- */

static const struct metric metrics[] = {
    {"countd_increment_connections_total",
     "Connections accepted at the ports ack and silent", STATUS_WRITER,
     STATUS_W_CONNECTIONS},
    {"countd_increments_malformed_total",
     "Increments refused as malformed at these ports", STATUS_WRITER,
     STATUS_W_MALFORMED},
    {"countd_increments_partial_total",
     "Connections that ended within an increment", STATUS_WRITER,
     STATUS_W_PARTIAL},
    {"countd_log_syncs_here_total",
     "Syncs so brief that no other thread did them", STATUS_WRITER,
     STATUS_W_SYNCS_HERE},
    {"countd_statsd_datagrams_total", "StatsD datagrams received",
     STATUS_WRITER, STATUS_W_STATSD_DATAGRAMS},
    {"countd_statsd_dropped_total",
     "StatsD datagrams that the kernel dropped as statsd.rcvbuf was full",
     STATUS_WRITER, STATUS_W_STATSD_DROPPED},
    {"countd_statsd_dropped_time_seconds",
     "Unix time when the last of these was seen; 0: none was", STATUS_WRITER,
     STATUS_W_STATSD_DROPPED_MS},
    {"countd_statsd_lines_total", "StatsD lines received", STATUS_WRITER,
     STATUS_W_STATSD_LINES},
    {"countd_statsd_bad_total", "Malformed StatsD lines", STATUS_WRITER,
     STATUS_W_STATSD_BAD},
    {"countd_statsd_ignored_total",
     "StatsD lines of a kind that is not counted", STATUS_WRITER,
     STATUS_W_STATSD_IGNORED},
    {"countd_statsd_no_memory_total",
     "What StatsD and Graphite lines lost for want of memory", STATUS_WRITER,
     STATUS_W_STATSD_NO_MEMORY},
    {"countd_graphite_lines_total", "Graphite lines received", STATUS_WRITER,
     STATUS_W_GRAPHITE_LINES},
    {"countd_graphite_bad_total", "Malformed Graphite lines", STATUS_WRITER,
     STATUS_W_GRAPHITE_BAD},
    {"countd_graphite_ignored_total",
     "Graphite lines that match no pattern of graphite.count", STATUS_WRITER,
     STATUS_W_GRAPHITE_IGNORED},
    {"countd_held_damaged_files", "Damaged files in held/", STATUS_WORKER,
     STATUS_M_HELD_BAD},
    {"countd_resp_commands_total", "Commands of Redis clients that were done",
     STATUS_READER, STATUS_R_COMMANDS},
    {"countd_resp_forwarded_total",
     "Increments of Redis clients forwarded to countd-write", STATUS_READER,
     STATUS_R_FORWARDED},
    {"countd_resp_acks_due", "Of these, those that are not acknowledged yet",
     STATUS_READER, STATUS_R_ACKS_DUE},
    {"countd_resp_refused_total",
     "Increments of Redis clients answered with an error and not counted",
     STATUS_READER, STATUS_R_REFUSED},
    {"countd_resp_unsure_total",
     "Increments of Redis clients answered with -UNSURE", STATUS_READER,
     STATUS_R_UNSURE},
    {"countd_resp_last_answers",
     "Keys whose next answer continues from the last one", STATUS_READER,
     STATUS_R_LAST_ANSWERS},
    {"countd_increments_total", "Increments taken by countd-write",
     STATUS_WRITER, STATUS_W_MESSAGES},
    {"countd_increment_bytes_total", "Bytes of increments received",
     STATUS_WRITER, STATUS_W_BYTES},
    {"countd_acknowledgements_total",
     "Increments acknowledged on the acknowledging port", STATUS_WRITER,
     STATUS_W_REPLIES},
    {"countd_log_appends_total", "Writes to commit logs", STATUS_WRITER,
     STATUS_W_APPENDS},
    {"countd_log_syncs_total", "Syncs of commit logs", STATUS_WRITER,
     STATUS_W_SYNCS},
    {"countd_log_sync_seconds_total", "Time spent in syncs of commit logs",
     STATUS_WRITER, STATUS_W_SYNC_US},
    {"countd_logs_handed_on_total", "Commit logs handed on to workers",
     STATUS_WRITER, STATUS_W_LOGS},
    {"countd_log_waits_total", "Times that there was no log to write to",
     STATUS_WRITER, STATUS_W_PUSHED_BACK},
    {"countd_live_refused_total", "Live names refused for want of memory",
     STATUS_WRITER, STATUS_W_NO_MEMORY},
    {"countd_http_requests_deduplicated_total",
     "Counting requests answered from their Idempotency-Key", STATUS_WRITER,
     STATUS_W_HTTP_REPLAYED},
    {"countd_sequence_numbers_total", "Sequence numbers given", STATUS_WRITER,
     STATUS_W_SEQUENCE_GIVEN},
    {"countd_sequence_waits_total",
     "Requests for numbers that waited for the clock or the disk",
     STATUS_WRITER, STATUS_W_SEQUENCE_WAITED},
    {"countd_quota_failures_total",
     "Writes or syncs of the journal of quotas that failed", STATUS_WRITER,
     STATUS_W_QUOTA_FAILURES},
    {"countd_merged_logs_total", "Logs merged and emptied", STATUS_WORKER,
     STATUS_M_LOGS},
    {"countd_merged_increments_total",
     "Increments in the logs taken, those of 0 left out", STATUS_WORKER,
     STATUS_M_RECORDS},
    {"countd_merged_zero_increments_total", "Increments of 0 in the logs taken",
     STATUS_WORKER, STATUS_M_ZEROS},
    {"countd_merged_keyspaces_total", "Keyspaces applied to, once per batch",
     STATUS_WORKER, STATUS_M_KEYSPACES},
    {"countd_merged_keys_total", "Keys whose counts changed, once per batch",
     STATUS_WORKER, STATUS_M_KEYS},
    {"countd_keys_created_total", "Keys that were new", STATUS_WORKER,
     STATUS_M_CREATED},
    {"countd_keys_saturated_total",
     "Keys whose sum left the range of int64 for the first time", STATUS_WORKER,
     STATUS_M_SATURATED},
    {"countd_merge_seconds_total", "Time spent in merges", STATUS_WORKER,
     STATUS_M_MERGE_US},
    {"countd_held_batches_total", "Batches put into data/held", STATUS_WORKER,
     STATUS_M_HELD},
    {"countd_unheld_records_total",
     "Records of data/held applied to their keyspaces", STATUS_WORKER,
     STATUS_M_UNHELD},
    {"countd_held_damaged_total", "Damaged records of data/held", STATUS_WORKER,
     STATUS_M_HELD_DAMAGED},
    {"countd_logs_quarantined_total", "Damaged logs quarantined by workers",
     STATUS_WORKER, STATUS_M_QUARANTINED},
    {"countd_logs_recovered_total", "Logs of dead owners made usable",
     STATUS_WORKER, STATUS_M_RECOVERED},
    {"countd_logs_archived_total", "Logs kept in archive/", STATUS_WORKER,
     STATUS_M_ARCHIVED},
    {"countd_worker_waiting", "1 while the worker can write nothing",
     STATUS_WORKER, STATUS_M_WAITING},
    {"countd_worker_older", "1 while keyspace/ is older than log/",
     STATUS_WORKER, STATUS_M_OLDER},
    {"countd_worker_last_errno", "The last error number of the system; 0: none",
     STATUS_WORKER, STATUS_M_LAST_ERROR},
    {"countd_read_requests_total", "Well-formed requests to countd-read",
     STATUS_READER, STATUS_R_REQUESTS},
    {"countd_read_listings_total", "Of these, lists of keyspaces",
     STATUS_READER, STATUS_R_LISTINGS},
    {"countd_read_unreadable_total", "Answers that a keyspace cannot be read",
     STATUS_READER, STATUS_R_UNREADABLE},
    {"countd_as_of_time_seconds",
     "Unix time up to which everything is readable", STATUS_READER,
     STATUS_R_AS_OF_MS},
    {"countd_port_connections", "Connections open now", STATUS_LISTENER,
     STATUS_L_OPEN},
    {"countd_port_accepted_total", "Connections accepted", STATUS_LISTENER,
     STATUS_L_CONNECTIONS},
    {"countd_port_received_bytes_total", "Bytes received", STATUS_LISTENER,
     STATUS_L_RECEIVED},
    {"countd_port_sent_bytes_total", "Bytes sent", STATUS_LISTENER,
     STATUS_L_SENT},
};

static void
put_labels(struct sink *s, const struct overview_row *r)
{
    char port[17];

    if (r->kind == STATUS_LISTENER) {
        overview_port_name(r, port);
        put_text(s, "{port=\"%s\",slot=\"%u\"", port, r->slot);
    } else
        put_text(s, "{slot=\"%u\"", r->slot);
}

static void
put_sample(struct sink *s, const struct metric *m, const struct overview_row *r)
{
    const char *figure = status_name(m->kind, m->value);
    const size_t size = strlen(figure);

    put_text(s, "%s", m->name);
    put_labels(s, r);
    put_text(s, "}");
    put_value(s, r->values[m->value],
              ends_with(figure, size, "_us")   ? SCALE_US
              : ends_with(figure, size, "_ms") ? SCALE_MS
                                               : SCALE_ONE);
}

/* A family of which no row has a sample is left out. */
static void
put_metric(struct sink *s, const struct overview *o, const struct metric *m)
{
    bool is_headed = false;

    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i].kind != m->kind)
            continue;
        if (!is_headed)
            begin_family(s, m->name, m->help);
        is_headed = true;
        put_sample(s, m, &o->rows[i]);
    }
}

/* Families whose samples differ in a label more, which is the name of the
 * statistic behind `before`. */
static const struct split {
    const char *name, *help, *label, *before;
    enum status_kind kind;
    size_t first, last;
} splits[] = {
    {"countd_port_closed_total", "Connections closed by the server, by reason",
     "reason", "", STATUS_LISTENER, STATUS_L_MALFORMED, STATUS_L_CUT_OFF},
    {"countd_http_responses_total", "Responses of HTTP by class of status",
     "code", "http_", STATUS_LISTENER, STATUS_L_HTTP_2XX, STATUS_L_HTTP_5XX},
    {"countd_quota_requests_total", "Requests to quotas by result", "result",
     "quota_", STATUS_WRITER, STATUS_W_QUOTA_APPLIED,
     STATUS_W_QUOTA_UNAVAILABLE}};

/* Ports of other protocols have no responses of HTTP. */
static bool
has_samples(const struct split *f, const struct overview_row *r)
{
    char port[17];

    if (r->kind != f->kind)
        return false;
    if (f->first != STATUS_L_HTTP_2XX || f->kind != STATUS_LISTENER)
        return true;
    overview_port_name(r, port);
    return ends_with(port, strlen(port), "http");
}

static void
put_split(struct sink *s, const struct overview *o, const struct split *f)
{
    begin_family(s, f->name, f->help);
    for (size_t i = 0; i < o->count; i++) {
        const struct overview_row *r = &o->rows[i];

        for (size_t v = f->first; has_samples(f, r) && v <= f->last; v++) {
            put_text(s, "%s", f->name);
            put_labels(s, r);
            put_text(s, ",%s=\"%s\"} %" PRId64 "\n", f->label,
                     status_name(f->kind, v) + strlen(f->before), r->values[v]);
        }
    }
}

static void
put_processes(struct sink *s, const struct overview *o)
{
    static const struct {
        const char *name, *help;
        size_t value; /* STATUS_KIND: whether it is alive */
    } families[] = {
        {"countd_process_up",
         "1 when the process on this slot of the board is alive", STATUS_KIND},
        {"countd_process_start_time_seconds",
         "Unix time of the start of the process", STATUS_STARTED_MS},
        {"countd_process_beat_time_seconds",
         "Unix time when the process last wrote to the board", STATUS_BEAT_MS},
        {"countd_process_silent_seconds",
         "How long ago that was: one that is stopped or hangs is silent",
         STATUS_FIRST}};

    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        begin_family(s, families[f].name, families[f].help);
        for (size_t i = 0; i < o->count; i++) {
            const struct overview_row *r = &o->rows[i];

            if (r->kind == STATUS_LISTENER)
                continue;
            put_text(s, "%s{process=\"%s\",slot=\"%u\"}", families[f].name,
                     status_kind_name(r->kind), r->slot);
            if (families[f].value == STATUS_KIND)
                put_value(s, r->pid > 0, SCALE_ONE);
            else if (families[f].value == STATUS_FIRST)
                put_value(s, overview_silent_ms(o, r), SCALE_MS);
            else
                put_value(s, r->values[families[f].value], SCALE_MS);
        }
    }
}

/* ---- the whole ---------------------------------------------------------- */

static void
ignore_trouble(void *ctx, const char *text)
{
    (void)ctx;  /* overview_troubles() counts */
    (void)text; /* countd status shows which */
}

static void
put_logs(struct sink *s, const struct overview *o)
{
    begin_family(s, "countd_logs", "Commit logs by state");
    for (int i = STATUS_LOG_EMPTY; i < STATUS_LOG_STATES; i++)
        put_text(s, "countd_logs{state=\"%s\"} %zu\n", status_log_name(i),
                 o->by_state[i]);
    put_one(s, "countd_unmerged_increments",
            "Increments in logs that are not merged yet", o->messages,
            SCALE_ONE);
    put_one(s, "countd_merge_lag_seconds",
            "Age of the oldest increment that is not merged; 0 when all is",
            o->lag_ms, SCALE_MS);
}

/* What the writer reports about the directory. */
static void
put_directory(struct sink *s, const struct overview *o)
{
    const struct overview_row *w = overview_writer(o);
    int64_t held = 0;

    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i].kind == STATUS_WORKER &&
            o->rows[i].values[STATUS_M_HELD_NOW] != 0)
            held = 1;
    put_one(s, "countd_held", "1 while anything is held for a keyspace", held,
            SCALE_ONE);
    if (!w)
        return;
    put_one(s, "countd_logs_damaged", "Damaged logs that lie in log/bad-* now",
            w->values[STATUS_W_QUARANTINED], SCALE_ONE);
    put_one(s, "countd_disk_free_bytes",
            "Free bytes of the file system of the data directory",
            w->values[STATUS_W_DISK_FREE], SCALE_ONE);
    put_one(s, "countd_disk_size_bytes", "Size of that file system",
            w->values[STATUS_W_DISK_SIZE], SCALE_ONE);
    put_one(s, "countd_live_objects", "Live counters and semaphores there are",
            w->values[STATUS_W_OBJECTS], SCALE_ONE);
}

/* The counters of users. */
static void
put_users(struct sink *s, const struct user_metrics *u)
{
    static const char *const names[] = {"countd_keyspace_keys",
                                        "countd_keyspace_value"};
    static const char *const help[] = {"Keys of the keyspace",
                                       "Sum of its counts, cut to int64"};
    char label[USER_METRICS_LABEL];

    if (u->keyspaces >= 0)
        put_one(s, "countd_keyspaces", "Keyspaces there are", u->keyspaces,
                SCALE_ONE);
    for (size_t f = 0; u->count > 0 && f < 2; f++) {
        begin_family(s, names[f], help[f]);
        for (size_t i = 0; i < u->count; i++) {
            const struct user_keyspace *k = &u->rows[i];

            put_text(s, "%s{keyspace=\"%s\"} %" PRId64 "\n", names[f],
                     user_metrics_label(k->name, k->size, label),
                     f == 0 ? k->keys : k->value);
        }
    }
    if (u->text_size > 0) {
        begin_family(s, "countd_key_value", "Counts of the largest keys");
        put_text(s, "%.*s", (int)u->text_size, u->text);
    }
    if (u->pattern_count > 0)
        put_one(s, "countd_user_series_left_out",
                "Series of keyspaces and keys beyond metrics.max_series",
                (int64_t)u->left_out, SCALE_ONE);
}

/* Writes them into `text`, which has METRICS_MAX bytes; returns the size.
 * `is_open`: OpenMetrics.  NULL: there is no board, and only what is known
 * without it is written. */
static size_t
put_all(const struct overview *o, const struct user_metrics *u, bool is_open,
        char *text)
{
    struct sink s = {.text = text, .is_open = is_open};

    begin_family(&s, "countd_build_info",
                 "Version of countd-read; the value is 1");
    put_text(&s, "countd_build_info{version=\"%s\"} 1\n", VERSION);
    if (o) {
        put_processes(&s, o);
        put_one(&s, "countd_troubles",
                "Things that need an operator, as countd status counts them",
                overview_troubles(o, ignore_trouble, NULL), SCALE_ONE);
        put_logs(&s, o);
        put_directory(&s, o);
        for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
            put_metric(&s, o, &metrics[i]);
        for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++)
            put_split(&s, o, &splits[i]);
    }
    put_users(&s, u);
    if (is_open)
        put_text(&s, "# EOF\n");
    return s.size;
}

/* ---- scrapes ------------------------------------------------------------ */

static bool
wants_openmetrics(const struct http_request *r)
{
    return http_weight(r, "application/openmetrics-text") > 0;
}

bool
metrics_check(struct http_call *x, enum conn_next *next)
{
    char shown[HTTP_QUERY_SHOWN], detail[HTTP_DETAIL_SIZE];
    const struct http_problem problem = {"unknown-parameter", detail, 0};

    if (!http_query_shows(x->request->query, shown))
        return true;
    (void)snprintf(detail, sizeof detail, "unknown parameter: %s", shown);
    *next = http_refuse(x, HTTP_BAD_REQUEST, &problem);
    return false;
}

enum conn_next
metrics_answer(struct http_call *x)
{
    struct read_http *h = x->ctx;
    const uint64_t now_ms = loop_now_ms(h->loop);
    const bool is_open = wants_openmetrics(x->request);
    size_t size;
    uint8_t *body;

    if (!user_metrics_is_fresh(&h->users, now_ms)) {
        user_metrics_start(&h->users, now_ms);
        return http_hold(x, &h->scrapes);
    }
    x->type = is_open ? "application/openmetrics-text; version=1.0.0; "
                        "charset=utf-8"
                      : "text/plain; version=0.0.4; charset=utf-8";
    size = put_all(read_board(h) ? &h->overview : NULL, &h->users, is_open,
                   (char *)h->text);
    body = http_body(x, size);
    if (!body)
        return CONN_FULL;
    memcpy(body, h->text, size);
    return http_end(x, HTTP_OK, size);
}

/* A step, if a scrape still waits for it. */
static void
step_users(struct read_http *h)
{
    const uint64_t now_ms = loop_now_ms(h->loop);

    if (list_alone(&h->scrapes.link)) {
        user_metrics_stop(&h->users);
        return;
    }
    answer_start_turn(h->answer, now_ms);
    if (user_metrics_step(&h->users, STEP_NS, now_ms))
        http_wake(&h->scrapes);
}

bool
metrics_end_turn(struct read_http *h)
{
    if (h->users.state != USER_METRICS_IDLE)
        step_users(h);
    return h->users.state != USER_METRICS_IDLE;
}
