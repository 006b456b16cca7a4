/* writer/main.c - countd-write: increments from the network into logs, and live
 * counters and semaphores.
 *
 * Entry points: main(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/setup/privilege.h"
#include "common/setup/signals.h"
#include "writer/writer.h"

/* The largest answer of any listener here. */
#define ANSWER_MAX                                                             \
    (LIVE_PROTOCOL_OUT_SIZE > HTTP_OUT_SIZE ? LIVE_PROTOCOL_OUT_SIZE           \
                                            : HTTP_OUT_SIZE)

/* ---- events ------------------------------------------------------------ */

static void
print_stats(struct writer *w)
{
    statsd_read_counts(&w->statsd);
    writer_status_print(&w->status);
}

static void
logs_are_ready(void *ctx)
{
    struct writer *w = ctx;

    listener_wake(conns_listener(w->conns, LISTENER_ACK));
    listener_wake(conns_listener(w->conns, LISTENER_SILENT));
    count_ready(&w->http.count);
}

static void
logs_are_finished(void *ctx)
{
    loop_stop(((struct writer *)ctx)->loop);
}

static void
disk_has_failed(void *ctx)
{
    struct writer *w = ctx;

    w->failed = true;
    loop_stop(w->loop);
}

static void
lines_have_stopped(void *ctx)
{
    logs_finish(&((struct writer *)ctx)->logs);
}

static void
conns_have_stopped(void *ctx)
{
    struct writer *w = ctx;

    statsd_stop(&w->statsd, lines_have_stopped, w);
}

static void
take_signal(void *ctx, int signo, int value)
{
    struct writer *w = ctx;

    if (signo == SIGUSR2) {
        statsd_flush(&w->statsd);
        if (value == SIGNALS_CLEAR) {
            statsd_forget(&w->statsd);
            logs_clear(&w->logs);
        } else {
            logs_rotate(&w->logs);
        }
    } else if (signo == SIGUSR1) {
        print_stats(w);
    } else if (w->stop_signal == 0) {
        w->stop_signal = signo;
    }
}

static bool
after_turn(void *ctx)
{
    struct writer *w = ctx;
    bool more;

    /* Not before the requests of this turn are answered. */
    if (w->stop_signal != 0 && !w->http.stopping) {
        w->http.stopping = true;
        conns_stop(w->conns, w->config.write_drain_ms, conns_have_stopped, w);
    }
    more = conn_turn(w->conns);
    more |= live_service_turn(&w->lives);
    more |= statsd_turn(&w->statsd);
    quota_turn(&w->quota);
    if (w->quota.commit.failed)
        disk_has_failed(w);
    count_turn(&w->http.count);
    /* The last: what all others have put is written and synced. */
    logs_flush(&w->logs);
    commit_turn(&w->commit);
    return more || conns_have_work(w->conns);
}

/* ---- starting ---------------------------------------------------------- */

static int
open_loop(struct writer *w)
{
    sigset_t mask;
    int rc;

    w->loop = loop_new();
    if (!w->loop) {
        rc = -errno;
        diag_errno(DIAG_ERROR, rc, "event loop");
        return rc;
    }
    signals_take(&mask);
    rc = loop_signals(w->loop, &mask, take_signal, w);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "signals");
        loop_free(w->loop);
        return rc;
    }
    loop_after_turn(w->loop, after_turn, w);
    return 0;
}

static int
lock_directory(struct writer *w)
{
    long pid = 0;
    int rc;

    rc = datadir_writer_lock(&w->dir, &w->lock_fd, &pid);
    if (rc == -EBUSY)
        diag(DIAG_ERROR,
             "another countd-write has data_dir=%s pid=%ld: stop it, or use "
             "another data_dir",
             w->config.data_dir, pid);
    else if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "lock data_dir=%s", w->config.data_dir);
    return rc;
}

static void
report_ready(const struct writer *w)
{
    const char *lines[LISTENERS + 1];
    size_t count;

    for (count = 0; count < w->binding.line_count; count++)
        lines[count] = w->binding.lines[count];
    if (w->statsd.datagrams.line[0] != '\0')
        lines[count++] = w->statsd.datagrams.line;
    config_ready(w->command.ready_fd, lines, count);
    config_report_serving(lines, count);
}

/* While this may still be root. */
static int
bind_low_ports(struct writer *w)
{
    int rc;

    listeners_init(w);
    rc = statsd_begin(&w->statsd, &w->config);
    return rc < 0 ? rc : bind_begin(&w->binding, w->listeners.rows, LISTENERS);
}

static int
bind_all(struct writer *w)
{
    int rc;

    rc = datadir_sockets(&w->dir, w->config.socket_group, &w->sockets);
    if (rc == 0)
        rc = datagram_bind(&w->statsd.datagrams, &w->sockets);
    return rc < 0 ? rc
                  : bind_listeners(&w->binding, &w->sockets,
                                   datagram_is_on(&w->statsd.datagrams));
}

static size_t
answer_max(const struct config *c)
{
    const size_t list = c->quota_enable ? quota_answer_max(c) : 0;

    return list > ANSWER_MAX ? list : ANSWER_MAX;
}

static int
open_conns(struct writer *w)
{
    const struct conns_options o = {.rows = w->listeners.rows,
                                    .count = LISTENERS,
                                    .shared = w->listeners.shared,
                                    .pool_size = LISTENERS_POOL,
                                    .answer_max = answer_max(&w->config)};
    int rc;

    w->ingest = (struct ingest){.logs = &w->logs, .commit = &w->commit};
    rc = commit_init(&w->commit, &logs_file, &w->logs, &w->logs.sync_io,
                     w->listeners.rows[LISTENER_ACK].max +
                         w->listeners.rows[LISTENER_HTTP].max);
    if (rc == 0)
        rc = conns_init(&w->conns, w->loop, &o);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc,
                   "memory for %zu connections (lower counter.max_connections "
                   "and write.max_connections, or raise ulimit -v)",
                   w->listeners.shared);
    return rc;
}

static int
open_lives(struct writer *w)
{
    const struct listener *const listeners[LIVE_SERVICE_KINDS] = {
        [LIVE_COUNTER] = conns_listener(w->conns, LISTENER_COUNTER),
        [LIVE_SEMAPHORE] = conns_listener(w->conns, LISTENER_SEMAPHORE)};

    return live_service_open(&w->lives, w->loop, &w->config, listeners);
}

static void
log_was_handed(void *ctx, const struct log *log)
{
    writer_status_handed(&((struct writer *)ctx)->status, log);
}

static int
open_http(struct writer *w)
{
    int rc;

    w->http.site.tokens = w->tokens;
    rc = http_service_open(&w->http, w->loop, &w->dir, &w->config, &w->ingest);
    if (rc < 0 || !w->config.quota_enable)
        return rc;
    rc = quota_open(&w->quota, w->loop, w->dir.live_fd, &w->config,
                    w->listeners.rows[LISTENER_HTTP].max);
    if (rc == 0)
        http_site_add(&w->http.site, quota_routes, quota_route_count, &w->quota,
                      TOKENS_QUOTA);
    return rc;
}

static int
open_statsd(struct writer *w)
{
    struct listener *const lines[STATSD_PROTOCOLS] = {
        [STATSD_LINE_PROTOCOL] = conns_listener(w->conns, LISTENER_STATSD),
        [GRAPHITE_LINE_PROTOCOL] = conns_listener(w->conns, LISTENER_GRAPHITE)};

    return statsd_open(&w->statsd, w->loop, &w->logs, w->dir.live_fd, lines);
}

/* Everything is open: serves until a stop or a failure. */
static int
run_loop(struct writer *w)
{
    int rc;

    writer_status_open(&w->status, w);
    w->logs.handed = log_was_handed;
    rc = bind_serve(&w->binding, w->conns);
    if (rc == 0) {
        report_ready(w);
        rc = loop_run(w->loop);
        if (rc < 0)
            diag_errno(DIAG_ERROR, rc, "event loop");
        if (w->stop_signal != SIGINT) /* ^C, and how countd serve stops it */
            print_stats(w);
    }
    return w->failed ? -EIO : rc;
}

static int
serve_until_stopped(struct writer *w)
{
    const struct logs_events events = {w, logs_are_ready, logs_are_finished,
                                       disk_has_failed};
    int rc;

    rc = open_conns(w);
    if (rc == 0)
        rc = logs_open(&w->logs, w->loop, &w->dir, &w->config, &events);
    if (rc < 0)
        goto fini_conns;
    rc = open_lives(w);
    if (rc == 0)
        rc = open_http(w);
    if (rc == 0)
        rc = open_statsd(w);
    if (rc == 0)
        rc = run_loop(w);
    conns_fini(w->conns);
    w->conns = NULL;
    statsd_close(&w->statsd);
    quota_close(&w->quota);
    http_service_close(&w->http);
    live_service_close(&w->lives);
    logs_close(&w->logs);
    writer_status_close(&w->status);
fini_conns:
    conns_fini(w->conns);
    commit_fini(&w->commit);
    return rc;
}

/* Other message sizes, settings that cannot work and what this user may not do
 * (a port below 1024) stay so after a restart; all else, another countd-write
 * included, may pass. */
static int
exit_status(const struct writer *w, int rc)
{
    if (rc == 0)
        return signals_exit_status(w->stop_signal);
    return rc == -EPROTO || rc == -EINVAL || rc == -EACCES ? CONFIG_EXIT_USAGE
                                                           : CONFIG_EXIT_SYSTEM;
}

int
main(int argc, char **argv)
{
    static struct writer w = {
        .lock_fd = -1,
        .command = {.program = "countd-write",
                    .summary = "takes increments into commit logs; live "
                               "counters and semaphores"}};
    int status, rc;

    status = config_daemon(&w.config, &w.command, argc, argv);
    if (status != CONFIG_EXIT_NONE)
        return status;
    rc = bind_low_ports(&w);
    if (rc < 0)
        return exit_status(&w, rc);
    status = privilege_become(&w.config, DATADIR_WRITE);
    if (status != 0)
        return status;
    rc = datadir_open(&w.dir, w.config.data_dir, DATADIR_WRITE);
    if (rc < 0)
        return datadir_exit_status(rc, DATADIR_WRITE);
    /* Signals are queued from here on: a process that sees the lock may send
     * one. */
    rc = open_loop(&w);
    if (rc < 0)
        goto close_dir;
    rc = lock_directory(&w);
    if (rc < 0)
        goto free_loop;
    diag(DIAG_INFO, "starting data_dir=%s", w.config.data_dir);
    datadir_warn(&w.dir);
    rc = bind_all(&w);
    if (rc == 0)
        rc = tokens_open(&w.tokens, w.config.http_tokens, false);
    if (rc == 0)
        rc = serve_until_stopped(&w);
    statsd_close(&w.statsd);
    tokens_close(w.tokens);
    bind_close(&w.binding);
    (void)close(w.lock_fd); /* gives up the lock; nothing was written */

free_loop:
    loop_free(w.loop);

close_dir:
    datadir_close(&w.dir);
    return exit_status(&w, rc);
}
