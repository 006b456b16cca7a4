/* reader/main.c - countd-read: wiring only.
 *
 * Entry points: main(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/base/sigbus.h"
#include "common/net/bind.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/setup/privilege.h"
#include "common/setup/signals.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/store/postgresql/postgresql_store.h"
#include "reader/listeners.h"
#include "reader/reader_status.h"

static_assert(READ_HTTP_LONGEST >= RESP_ANSWER_MAX, "answer_max is of all");

#define MAINTAIN_MS 1000
#define STOP_MS     2000 /* for the answers to what has arrived */

struct reader {
    struct config config;
    struct config_command command;
    struct datadir datadir;
    struct layout layout;
    struct store *store;
    struct remote *remote; /* its threads, if it is not local */
    struct as_of as_of;
    struct jobs jobs;
    struct loop *loop;
    struct loop_timer maintain;
    struct range range;
    struct resp_service resp;
    struct read_http http;
    struct tokens *tokens; /* NULL: no client needs one */
    struct reader_listeners listeners;
    struct local_folder sockets;
    struct binding binding;
    struct conns *conns;
    struct reader_status status;
    sigset_t signals;
    int stop_signal; /* 0: none */
};

/* Waits until another process has created the data directory; false: a signal
 * came first. */
static bool
await_directory(struct reader *r)
{
    static struct diag_repeat waits;
    const struct timespec second = {.tv_sec = 1};
    int signo;

    signals_take(&r->signals);
    /* Cannot fail.  One that comes behind this wait is the loop's. */
    (void)sigprocmask(SIG_BLOCK, &r->signals, NULL);
    while (!datadir_is_made(r->config.data_dir)) {
        diag_repeating(&waits, DIAG_WARNING,
                       "waits for data directory %s to be made (it has no "
                       "folder keyspace yet): start countd-write or "
                       "countd-worker on it, or set data_dir",
                       r->config.data_dir);
        signo = sigtimedwait(&r->signals, NULL, &second);
        if (signo <= 0 || signo == SIGUSR1 || signo == SIGUSR2)
            continue; /* there are no figures yet */
        r->stop_signal = signo;
        return false;
    }
    return true;
}

/* The handle of a thread: the first connects now, and finds out what cannot
 * work. */
static int
open_remote(void *ctx, unsigned thread, struct store **store)
{
    const struct reader *r = ctx;
    const struct postgresql_options options = {.config = &r->config,
                                               .sender = &r->datadir,
                                               .connects_later = thread > 0};

    return postgresql_store_open(store, &options);
}

static int
open_store(struct reader *r)
{
    int rc;

    const struct lmdb_options options = {
        .keyspace_fd = r->datadir.keyspace_fd,
        .keyspace_size = (uint16_t)r->config.keyspace_size,
        .key_size = (uint16_t)r->config.key_size,
        .open_max = files_keyspaces(),
        .keyspace_max = r->config.keyspace_max,
    };

    if (!r->config.store_postgresql)
        return lmdb_store_open(&r->store, &options);
    rc = remote_open(&r->remote, open_remote, r);
    if (rc == 0)
        r->store = remote_store(r->remote);
    return rc;
}

static int
open_files(struct reader *r)
{
    int rc;

    rc = open_store(r);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "open keyspaces");
        return rc;
    }
    rc = as_of_init(&r->as_of, r->store, &r->datadir, &r->layout,
                    r->config.log_size);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "open logs");
        goto close_store;
    }
    rc = logdir_check_sizes(&r->as_of.logs);
    if (rc == 0)
        return 0;
    as_of_fini(&r->as_of);

close_store:
    store_close(r->store);
    return rc;
}

static void
conns_have_stopped(void *ctx)
{
    loop_stop(((struct reader *)ctx)->loop);
}

static void
on_signal(void *ctx, int signo, int value)
{
    struct reader *r = ctx;

    (void)value;

    if (signo == SIGUSR1)
        reader_status_print(&r->status);
    if (signo == SIGUSR1 || signo == SIGUSR2 || r->stop_signal != 0)
        return;
    r->stop_signal = signo;
    r->http.is_stopping = true;
    conns_stop(r->conns, STOP_MS, conns_have_stopped, r);
}

static bool
after_turn(void *ctx)
{
    struct reader *r = ctx;
    const bool more = conn_turn(r->conns);
    bool works;

    forward_send(&r->resp.forward); /* does nothing where RESP is off */
    works = jobs_end_turn(&r->jobs);
    /* Jobs are done, and increments that were acknowledged may have let answers
     * go. */
    return more || works || conns_have_work(r->conns);
}

static void
on_maintain(struct loop_timer *timer)
{
    struct reader *r = LOOP_OWNER(timer, struct reader, maintain);
    const struct store_maintenance once = {.until_ns = 0};

    /* Whatever is left then is done soon enough. */
    (void)store_maintain(r->store, &once);
    /* Files that were set aside lately are read in small steps. */
    as_of_refresh(&r->as_of, loop_now_ms(r->loop));
    reader_status_put(&r->status);
    loop_arm(r->loop, timer, loop_now_ms(r->loop) + MAINTAIN_MS);
}

static int
start_loop(struct reader *r)
{
    int rc;

    r->loop = loop_new();
    if (!r->loop)
        return -errno;
    rc = loop_signals(r->loop, &r->signals, on_signal, r);
    if (rc < 0)
        return rc;
    loop_after_turn(r->loop, after_turn, r);
    r->maintain = (struct loop_timer){.due = on_maintain};
    loop_arm(r->loop, &r->maintain, loop_now_ms(r->loop) + MAINTAIN_MS);
    return 0;
}

static int
start_serving(struct reader *r)
{
    const struct conns_options options = {.rows = r->listeners.rows,
                                          .count = READER_LISTENERS,
                                          .shared = r->listeners.shared,
                                          .pool_size = READER_POOL,
                                          .answer_max = READ_HTTP_LONGEST,
                                          .input_max = HTTP_INPUT_MAX};
    int rc = 0;

    jobs_init(&r->jobs, r->loop, r->store, &r->as_of,
              r->config.read_max_time_ms);
    r->jobs.remote = r->remote;
    r->range.jobs = &r->jobs;
    if (r->remote)
        rc = remote_start(r->remote, r->loop, &r->as_of);
    if (rc == 0 && reader_listeners_is_on(&r->listeners.rows[LISTENER_RESP]))
        rc = resp_service_init(&r->resp, &r->jobs, &r->config, &r->layout,
                               r->listeners.shared);
    r->resp.tokens = r->tokens;
    if (rc == 0)
        rc = read_http_open(&r->http, &r->jobs, &r->datadir, &r->config);
    if (rc == 0)
        rc = conns_init(&r->conns, r->loop, &options);
    if (rc < 0)
        return rc; /* and the process ends */
    r->status = (struct reader_status){.range = &r->range,
                                       .http = &r->http,
                                       .resp = &r->resp,
                                       .conns = r->conns};
    reader_status_init(&r->status, r->config.data_dir);
    return 0;
}

static int
start_reader(struct reader *r)
{
    int rc;

    rc = start_loop(r);
    if (rc == 0)
        rc = start_serving(r);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "start%s",
                   rc == -ENOMEM ? " (lower read.max_connections, or raise "
                                   "ulimit -v)"
                                 : "");
        loop_free(r->loop);
    }
    return rc;
}

static void
report_ready(const struct reader *r)
{
    const char *lines[READER_LISTENERS];

    for (size_t i = 0; i < r->binding.line_count; i++)
        lines[i] = r->binding.lines[i];
    config_ready(r->command.ready_fd, lines, r->binding.line_count);
    if (r->binding.line_count > 0)
        config_report_serving(lines, r->binding.line_count);
}

static int
run_reader(struct reader *r)
{
    int rc;

    rc = datadir_sockets(&r->datadir, r->config.socket_group, &r->sockets);
    if (rc == 0)
        rc = bind_listeners(&r->binding, &r->sockets, false);
    if (rc == 0)
        rc = bind_serve(&r->binding, r->conns);
    if (rc < 0)
        return rc;
    reader_status_put(&r->status);
    report_ready(r);
    rc = loop_run(r->loop);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "wait for events");
    return rc;
}

static int
exit_status(const struct reader *r, int rc)
{
    if (rc == -EINVAL || rc == -EACCES)
        return CONFIG_EXIT_USAGE; /* no such host; a port below 1024 */
    return rc < 0 ? CONFIG_EXIT_SYSTEM : signals_exit_status(r->stop_signal);
}

/* Serves with the directory open; returns the exit status. */
static int
serve_until_stopped(struct reader *r)
{
    int rc;

    rc = open_files(r);
    if (rc < 0)
        return rc == -EPROTO || rc == -EPROTONOSUPPORT || rc == -EPERM
                   ? CONFIG_EXIT_USAGE
                   : CONFIG_EXIT_SYSTEM;
    rc = start_reader(r);
    if (rc < 0)
        return exit_status(r, rc);
    rc = run_reader(r);
    bind_close(&r->binding);
    status_close(&r->status.status);
    conns_fini(r->conns);
    resp_service_fini(&r->resp);
    read_http_close(&r->http);
    jobs_fini(&r->jobs);
    if (r->remote)
        remote_stop(r->remote);
    as_of_fini(&r->as_of);
    store_close(r->store);
    loop_free(r->loop);
    return exit_status(r, rc);
}

int
main(int argc, char **argv)
{
    static struct reader r = {
        .command = {.program = "countd-read",
                    .summary = "answers ranges from the merged counters"}};
    int status, rc;

    status = config_daemon(&r.config, &r.command, argc, argv);
    if (status != CONFIG_EXIT_NONE)
        return status;
    sigbus_init("countd-read");
    zone_begin();
    rc = layout_init(&r.layout, (unsigned)r.config.keyspace_size,
                     (unsigned)r.config.key_size);
    if (rc < 0)
        return CONFIG_EXIT_USAGE;
    rc = reader_listeners_init(&r.listeners, &r.config, &r.range, &r.resp,
                               &r.http);
    if (rc < 0)
        return CONFIG_EXIT_SYSTEM;
    rc = bind_begin(&r.binding, r.listeners.rows, READER_LISTENERS);
    if (rc < 0)
        return exit_status(&r, rc);
    status = privilege_become(&r.config, DATADIR_READ);
    if (status != 0)
        return status;
    if (!await_directory(&r))
        return signals_exit_status(r.stop_signal);
    rc = datadir_open(&r.datadir, r.config.data_dir, DATADIR_READ);
    if (rc < 0)
        return datadir_exit_status(rc, DATADIR_READ);
    rc = tokens_open(&r.tokens, r.config.http_tokens, false);
    r.http.site.tokens = r.tokens;
    status = rc == 0 ? serve_until_stopped(&r) : config_exit_of(rc);
    tokens_close(r.tokens);
    datadir_close(&r.datadir);
    return status;
}
