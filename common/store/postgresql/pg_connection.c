/* common/store/postgresql/pg_connection.c - a connection: made, used with a
 * deadline, closed; what its errors mean.
 *
 * A connection is always in libpq's pipeline mode: statements that are sent
 * together cost one round trip, and after an error the server skips the rest of
 * them.  libpq itself waits while connecting and in pg_run_script(); every
 * other wait is a poll() of at most `timeout_ms`. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"

#define PG_VERSION_MIN 130000
#define RETRY_LEAST_MS 20
#define RETRY_MOST_MS  1000

/* ---- what went wrong --------------------------------------------------- */

void
pg_set_trouble(struct pg *s, const char *format, ...)
{
    size_t size;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(s->trouble, sizeof s->trouble, format, args);
    va_end(args);
    for (char *at = s->trouble; *at != '\0'; at++)
        if (*at == '\n')
            *at = ' ';
    for (size = strlen(s->trouble); size > 0 && s->trouble[size - 1] == ' ';)
        s->trouble[--size] = '\0';
}

void
pg_report_trouble(struct pg *s)
{
    if (!s->options.quiet)
        diag_repeating(&s->repeat, DIAG_ERROR, "PostgreSQL: %s", s->trouble);
}

void
pg_saw(struct pg *s, enum status_figure figure)
{
    s->health[figure - STATUS_M_DB_DOWN] = (int64_t)clock_ms();
}

/* What an error means, by how its SQLSTATE begins. */
struct error_class {
    const char *state;
    int rc;
    enum status_figure figure; /* 0: none */
    const char *hint;          /* what to do, behind the text */
};

static const struct error_class *
class_of(const char *state)
{
    static const struct error_class classes[] = {
        {"08", -EHOSTDOWN, 0, ""},    /* connection */
        {"57P", -EHOSTDOWN, 0, ""},   /* the server stops, or starts */
        {"57014", -EHOSTDOWN, 0, ""}, /* cancelled: statement_timeout */
        {"25P03", -EHOSTDOWN, 0, ""}, /* idle for too long in a transaction */
        {"25006", -EHOSTDOWN, STATUS_M_DB_READ_ONLY, ""},
        {"53100", -ENOSPC, STATUS_M_DB_FULL, ""},
        {"53", -EHOSTDOWN, 0, ""}, /* no memory, no connection left */
        {"40", -EAGAIN, 0, ""},    /* serialization, deadlock */
        {"55P03", -EAGAIN, STATUS_M_DB_LOCKED, /* lock_timeout */
         ": countd store names the session that has it"},
        {"28", -EPERM, STATUS_M_DB_REFUSED, ""},    /* password */
        {"3D000", -EPERM, STATUS_M_DB_REFUSED, ""}, /* no such database */
        {"3F000", -EPERM, STATUS_M_DB_REFUSED, ""}, /* no such schema */
        {"42501", -EPERM, STATUS_M_DB_REFUSED, ""}, /* privileges */
        {"42P01", -EPERM, STATUS_M_DB_REFUSED,      /* no such table */
         ": run countd store init, or see store.schema"},
        {"42P07", -EEXIST, 0, ""},
        {"42P06", -EEXIST, 0, ""},
        {"XX", -EIO, STATUS_M_DB_DAMAGED, ""},
        {"", -EIO, 0, ""}, /* all others */
    };
    const struct error_class *c = classes;

    while (strncmp(state, c->state, strlen(c->state)) != 0)
        c++;
    return c;
}

/* Stores the text of an error, and returns its errno; a result of NULL: the
 * connection was lost. */
static int
take_error(struct pg *s, const PGresult *r)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *context = PQresultErrorField(r, PG_DIAG_CONTEXT);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    const struct error_class *c;

    if (state == NULL) {
        text = PQerrorMessage(s->connection);
        pg_set_trouble(s, "%s", *text != '\0' ? text : "connection lost");
        return -EHOSTDOWN;
    }
    c = class_of(state);
    pg_set_trouble(s, "%s%s%s (SQLSTATE %s)%s", text ? text : "error",
                   context ? ", " : "", context ? context : "", state, c->hint);
    if (c->figure != 0)
        pg_saw(s, c->figure);
    return c->rc;
}

/* Warnings: a COMMIT that has one may be on no standby. */
static void
on_notice(void *ctx, const PGresult *r)
{
    const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    struct pg *s = ctx;

    if (severity == NULL || strcmp(severity, "WARNING") != 0)
        return;
    s->warned = true;
    pg_set_trouble(s, "warning: %s", text ? text : "without a text");
}

/* ---- waiting ----------------------------------------------------------- */

static uint64_t
get_deadline(const struct pg *s)
{
    return clock_ns() + s->options.config->store_timeout_ms * 1000000;
}

static int
wait_socket(struct pg *s, short events, uint64_t until_ns)
{
    struct pollfd p = {.fd = PQsocket(s->connection), .events = events};
    uint64_t now;
    int n;

    do {
        now = clock_ns();
        if (now >= until_ns) {
            pg_set_trouble(
                s, "server %s port %s does not answer within %llu ms",
                PQhost(s->connection), PQport(s->connection),
                (unsigned long long)s->options.config->store_timeout_ms);
            return -EHOSTDOWN;
        }
        n = poll(&p, 1, (int)((until_ns - now) / 1000000 + 1));
    } while (n == 0 || (n < 0 && errno == EINTR));
    if (n > 0)
        return 0;
    pg_set_trouble(s, "poll: %s", strerror(errno));
    return -EHOSTDOWN;
}

static int
flush_calls(struct pg *s, uint64_t until_ns)
{
    int left, rc = 0;

    while (rc == 0 && (left = PQflush(s->connection)) != 0) {
        if (left < 0)
            return take_error(s, NULL);
        /* A server that waits for us to read does not read either. */
        rc = wait_socket(s, POLLIN | POLLOUT, until_ns);
        if (rc == 0 && PQconsumeInput(s->connection) == 0)
            rc = take_error(s, NULL);
    }
    return rc;
}

static int
next_result(struct pg *s, uint64_t until_ns, PGresult **out)
{
    int rc;

    while (PQisBusy(s->connection)) {
        rc = wait_socket(s, POLLIN, until_ns);
        if (rc < 0)
            return rc;
        if (PQconsumeInput(s->connection) == 0)
            return take_error(s, NULL);
    }
    *out = PQgetResult(s->connection);
    return 0;
}

/* ---- running statements ------------------------------------------------ */

static const char *
statement_name(enum pg_statement statement, char name[16])
{
    (void)snprintf(name, 16, "countd_%d", (int)statement);
    return name;
}

static int
send_call(struct pg *s, const struct pg_call *c)
{
    static const int binary[PG_PARAMS_MAX] = {1, 1, 1, 1, 1, 1, 1};
    char name[16];

    if (c->failed)
        return -ENOMEM;
    if (PQsendQueryPrepared(s->connection, statement_name(c->statement, name),
                            c->count, c->values, c->sizes, binary, 1) == 0)
        return take_error(s, NULL);
    return 0;
}

/* Takes the results of the calls that were sent, one and a NULL for each, up to
 * the end of the pipeline.  The first error is returned; the server skipped the
 * calls after it. */
static int
receive_results(struct pg *s, size_t count, uint64_t until_ns)
{
    PGresult *r = NULL;
    size_t at = 0;
    int rc, first = 0;

    for (size_t i = 0; i <= 2 * count; i++) {
        ExecStatusType status;

        rc = next_result(s, until_ns, &r);
        if (rc < 0)
            return rc;
        status = PQresultStatus(r);
        if (status == PGRES_PIPELINE_SYNC) {
            PQclear(r);
            return first < 0 || at == count ? first : take_error(s, NULL);
        }
        if (!r) { /* the call's results end */
            at++;
            if (PQstatus(s->connection) != CONNECTION_OK)
                return first < 0 ? first : take_error(s, NULL);
            continue;
        }
        if (first == 0 && status != PGRES_COMMAND_OK &&
            status != PGRES_TUPLES_OK)
            first = take_error(s, r);
        if (first == 0 && at < count && !s->results[at])
            s->results[at] = r;
        else
            PQclear(r);
    }
    return take_error(s, NULL); /* the server sends more */
}

/* Has the calls that were sent done: 0, or the first error. */
static int
end_pipeline(struct pg *s, size_t count, uint64_t until_ns)
{
    int rc = 0;

    if (PQpipelineSync(s->connection) == 0)
        rc = take_error(s, NULL);
    if (rc == 0)
        rc = flush_calls(s, until_ns);
    return rc < 0 ? rc : receive_results(s, count, until_ns);
}

void
pg_clear_results(struct pg *s)
{
    for (size_t i = 0; i < PG_BATCH; i++) {
        PQclear(s->results[i]);
        s->results[i] = NULL;
    }
}

PGresult *
pg_keep(struct pg *s)
{
    PGresult *r = s->results[0];

    s->results[0] = NULL;
    return r;
}

int
pg_run(struct pg *s, struct pg_call *calls, size_t count)
{
    const uint64_t until_ns = get_deadline(s);
    int rc = 0;

    assert(count <= PG_BATCH);
    if (!s->connection)
        return -EHOSTDOWN;
    s->warned = false;
    pg_clear_results(s);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = send_call(s, &calls[i]);
    if (rc == 0)
        rc = end_pipeline(s, count, until_ns);
    for (size_t i = 0; rc == 0 && i < count; i++)
        calls[i].result = s->results[i];
    if (rc < 0) {
        pg_report_trouble(s);
        /* After an error a reading transaction can only begin again. */
        if (rc == -EHOSTDOWN || rc == -ENOMEM || s->in_turn)
            pg_disconnect(s);
    }
    return rc;
}

int
pg_ask(struct pg *s, const PGresult **out, enum pg_statement statement,
       const char *types, ...)
{
    struct pg_call c;
    va_list list;
    int rc;

    va_start(list, types);
    pg_call_list(&c, statement, types, list);
    va_end(list);
    rc = pg_run(s, &c, 1);
    if (out && rc == 0)
        *out = c.result;
    return rc;
}

/* ---- connecting -------------------------------------------------------- */

void
pg_disconnect(struct pg *s)
{
    if (s->connection)
        PQfinish(s->connection);
    s->connection = NULL;
    s->in_turn = false;
    s->bands.keyspace = 0;
}

/* The parameters for libpq: a later one replaces an earlier one, and `dbname`
 * stands for all of store.conninfo.  libpq's own timeout is for each host, and
 * in whole seconds, at least two. */
static PGconn *
connect_with(const char *conninfo, const struct postgresql_options *o)
{
    const unsigned long long ms = o->config->store_timeout_ms;
    char connect_timeout[24], user_timeout[24];
    const char *const keys[] = {"fallback_application_name",
                                "target_session_attrs",
                                "connect_timeout",
                                "tcp_user_timeout",
                                "dbname",
                                NULL};
    const char *const values[] = {
        "countd",        o->writable ? "read-write" : "any",
        connect_timeout, user_timeout,
        conninfo,        NULL};

    (void)snprintf(connect_timeout, sizeof connect_timeout, "%llu",
                   ms > 2000 ? (ms + 999) / 1000 : 2);
    (void)snprintf(user_timeout, sizeof user_timeout, "%llu", ms);
    return PQconnectdbParams(keys, values, 1);
}

/* A pooler shares a session between clients: statements that one of them
 * prepared may be missing later, or be another client's. */
static int
refuse_pooler(struct pg *s)
{
    pg_set_trouble(s,
                   "store.conninfo leads to a pooler such as PgBouncer: give "
                   "the address of the server itself");
    pg_saw(s, STATUS_M_DB_REFUSED);
    return -EPERM;
}

/* A refused connection has no SQLSTATE.  Only its text, in any language, shows
 * whether waiting helps, so every refusal is tried again, except PgBouncer's,
 * whose text has one language: it refuses options of store.conninfo. */
static int
open_connection(struct pg *s)
{
    const struct config *c = s->options.config;
    const char *conninfo =
        s->options.writable || c->store_read_conninfo[0] == '\0'
            ? c->store_conninfo
            : c->store_read_conninfo;
    int rc;
    char *why = NULL;
    PQconninfoOption *given = PQconninfoParse(conninfo, &why);

    if (!given) {
        pg_set_trouble(s, "store.conninfo: %s", why ? why : "no memory");
        PQfreemem(why);
        pg_saw(s, STATUS_M_DB_REFUSED);
        return why ? -EPERM : -ENOMEM;
    }
    PQconninfoFree(given);
    s->connection = connect_with(conninfo, &s->options);
    if (!s->connection)
        return -ENOMEM;
    if (PQstatus(s->connection) == CONNECTION_OK)
        return 0;
    rc = take_error(s, NULL);
    return strstr(s->trouble, "unsupported startup parameter")
               ? refuse_pooler(s)
               : rc;
}

/* Sends the statement that sets up a session: `options` of libpq are a user's,
 * in store.conninfo, a service or the environment.  The server gives up before
 * this process does, so that it can say why.  The session of a pooler, which
 * makes up the process that it says a session has, is left as it is: then there
 * is no row. */
static int
send_setup(struct pg *s)
{
    static const char text[] =
        "SELECT set_config('search_path', $1, false), "
        "set_config('statement_timeout', ($2::int8 * 3 / 4)::text, false), "
        "set_config('lock_timeout', ($2::int8 / 2)::text, false), "
        "set_config('idle_in_transaction_session_timeout', "
        "($2::int8 * 5)::text, false) WHERE pg_backend_pid() = $3::int4";
    char ms[24], process[16];
    const char *const values[] = {s->options.config->store_schema, ms, process};

    (void)snprintf(ms, sizeof ms, "%llu",
                   (unsigned long long)s->options.config->store_timeout_ms);
    (void)snprintf(process, sizeof process, "%d", PQbackendPID(s->connection));
    return PQsendQueryParams(s->connection, text, 3, NULL, values, NULL, NULL,
                             1) == 0
               ? take_error(s, NULL)
               : 0;
}

static_assert(PG_STATEMENTS < PG_BATCH, "one more fits");

static int
prepare_statements(struct pg *s)
{
    const uint64_t until_ns = get_deadline(s);
    char name[16];
    int rc;

    PQsetNoticeReceiver(s->connection, on_notice, s);
    if (PQserverVersion(s->connection) < PG_VERSION_MIN) {
        pg_set_trouble(s, "the server is older than PostgreSQL 13");
        pg_saw(s, STATUS_M_DB_REFUSED);
        return -EPERM;
    }
    if (PQsetnonblocking(s->connection, 1) < 0 ||
        PQenterPipelineMode(s->connection) == 0)
        return take_error(s, NULL);
    pg_clear_results(s);
    rc = send_setup(s);
    if (rc < 0)
        return rc;
    for (int i = 0; i < PG_STATEMENTS; i++)
        if (PQsendPrepare(s->connection,
                          statement_name((enum pg_statement)i, name),
                          pg_statements[i], 0, NULL) == 0)
            return take_error(s, NULL);
    rc = end_pipeline(s, 1 + PG_STATEMENTS, until_ns);
    if (s->results[0] && PQntuples(s->results[0]) == 0)
        return refuse_pooler(s);
    return rc;
}

/* Closes the connection; the next attempt is later. */
static int
fail_connect(struct pg *s, int rc)
{
    pg_disconnect(s);
    s->retry_wait_ms = s->retry_wait_ms == 0 ? RETRY_LEAST_MS
                       : s->retry_wait_ms < RETRY_MOST_MS / 2
                           ? 2 * s->retry_wait_ms
                           : RETRY_MOST_MS;
    s->retry_at_ms = clock_ms() + s->retry_wait_ms;
    pg_report_trouble(s);
    return rc;
}

/* Whether the connection seems usable, without a query: so a connection that
 * the server has closed is noticed before a statement is lost with it. */
static bool
is_open(const struct pg *s)
{
    struct pollfd p = {.events = POLLIN};

    if (!s->connection)
        return false;
    p.fd = PQsocket(s->connection);
    for (int i = 0; i < 3 && poll(&p, 1, 0) > 0; i++) /* the reason, the end */
        if (PQconsumeInput(s->connection) == 0)
            return false;
    return PQstatus(s->connection) == CONNECTION_OK;
}

int
pg_connect(struct pg *s)
{
    int rc;

    if (is_open(s))
        return 0;
    pg_disconnect(s);
    if (clock_ms() < s->retry_at_ms)
        return -EHOSTDOWN;
    rc = open_connection(s);
    if (rc == 0)
        rc = prepare_statements(s);
    /* libpq's text if none of the hosts accepts writes; there is no code. */
    if (rc == -EHOSTDOWN)
        pg_saw(s, strstr(s->trouble, "session is read-only")
                      ? STATUS_M_DB_READ_ONLY
                      : STATUS_M_DB_DOWN);
    if (rc == 0)
        rc = pg_server_check(s);
    if (rc == 0)
        rc = pg_sender_check(s);
    if (rc < 0)
        return fail_connect(s, rc);
    s->retry_wait_ms = 0;
    return 0;
}

int
pg_run_script(struct pg *s, const char *text)
{
    PGresult *r;
    int rc;

    pg_disconnect(s);
    rc = open_connection(s);
    if (rc == 0)
        rc = send_setup(s);
    if (rc == 0) {
        r = PQgetResult(s->connection);
        if (PQresultStatus(r) != PGRES_TUPLES_OK)
            rc = take_error(s, r);
        else if (PQntuples(r) == 0)
            rc = refuse_pooler(s);
        PQclear(r);
    }
    if (rc == 0) {
        r = PQexec(s->connection, text); /* the server gives up in time */
        if (PQresultStatus(r) != PGRES_COMMAND_OK)
            rc = take_error(s, r);
        PQclear(r);
    }
    pg_disconnect(s);
    return rc;
}
